/* Signatures of files and of lists: minisign and signify. */
#include "verify.h"

#include "hash/sums.h"
#include "sign/sign.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LIST_MAX = 64 << 20, BUNDLE_MAX = 256 << 20 };

rp_code verify_verdict(verify_state *v, const char *type, const char *path, rp_code code, const char *message,
	void (*more)(rp_jsonw *w, const void *context), const void *context, rp_error *err)
{
	v->n_ok += code == RP_OK;
	v->n_failed += code != RP_OK;
	v->first = v->first == RP_OK ? code : v->first;
	if (code != RP_OK && !v->o.status)
		verify_say(v, "%s", message);
	if (v->o.json) {
		rp_jsonw w;
		verify_record(v, &w, type);
		rp_jsonw_pair_str(&w, "path", path);
		rp_jsonw_pair_str(&w, "status", code == RP_OK ? "ok" : "failed");
		rp_jsonw_pair_str(&w, "code", rp_code_word(code));
		rp_jsonw_pair_str(&w, "message", code == RP_OK ? NULL : message);
		if (more != NULL)
			more(&w, context);
		return verify_record_end(v, &w, err);
	}
	if (v->o.status || (v->o.quiet && code == RP_OK))
		return RP_OK;
	rp_sums_write_name(&v->out, path);
	rp_buf_adds(&v->out, code == RP_OK ? ": OK\n" : ": FAILED\n");
	return verify_written(v, err);
}

/* ---- one file ---- */
typedef struct signature {
	char *path, *text; /* owned */
	size_t n;
	bool within; /* the operand is its own signature */
	rp_filesig sig;
} signature;

static void drop(signature *s)
{
	free(s->path);
	free(s->text);
}

static bool is_there(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

static rp_code find_path(const verify_state *v, const char *file, bool folder, signature *s, rp_error *err)
{
	if (v->o.signature != NULL) {
		s->path = rp_strdup(v->o.signature);
	} else if (folder) {
		s->path = rp_asprintf("%s/model.sig", file);
	} else {
		for (size_t i = 0; i < 2; i++) {
			s->path = rp_asprintf(i == 0 ? "%s.minisig" : "%s.sig", file);
			if (s->path == NULL || is_there(s->path))
				return s->path != NULL ? RP_OK : rp_no_memory(err, strlen(file), "a path");
			free(s->path);
		}
		s->within = true;
		s->path = rp_strdup(file);
	}
	return s->path != NULL ? RP_OK : rp_no_memory(err, strlen(file), "a path");
}

static rp_code no_signature(const char *file, rp_error *err)
{
	return rp_fail(err, RP_NOT_FOUND, "%s: no signature: there is no %s.minisig and no %s.sig, and it holds none; name it with --signature",
		file, file, file);
}

/* Find and read the signature of a file; what it is shows in its text. */
static rp_code find(const verify_state *v, const char *file, bool folder, signature *s, rp_error *err)
{
	rp_code code = find_path(v, file, folder, s, err);
	if (code == RP_OK && s->within && is_there(file)) { /* a large file is no signature */
		struct stat st;
		if (stat(file, &st) == 0 && st.st_size > LIST_MAX)
			return no_signature(file, err);
	}
	if (code == RP_OK)
		code = rp_read_file(s->path, folder || !s->within ? BUNDLE_MAX : LIST_MAX, &s->text, &s->n, err);
	return code;
}

static rp_code parse(const char *file, signature *s, rp_error *err)
{
	rp_code code = rp_filesig_parse(s->path, s->text, s->n, &s->sig, err);
	if (s->within && (code != RP_OK || s->sig.kind != RP_FILESIG_SIGNIFY_AROUND))
		return no_signature(file, err);
	return code;
}

static void members(rp_jsonw *w, const void *context)
{
	static const char *const kinds[] = {[RP_FILESIG_MINISIGN] = "minisign", [RP_FILESIG_MINISIGN_WHOLE] = "minisign-legacy",
		[RP_FILESIG_SIGNIFY] = "signify", [RP_FILESIG_SIGNIFY_AROUND] = "signify-embedded"};
	const signature *s = context;
	char id[20];
	rp_jsonw_pair_str(w, "signature", s->path);
	rp_jsonw_pair_str(w, "kind", kinds[s->sig.kind]);
	rp_jsonw_key(w, "key_id");
	for (size_t i = 0; i < RP_KEY_ID; i++)
		rp_hex(id + 2 * i, &s->sig.id[RP_KEY_ID - 1 - i], 1);
	rp_jsonw_str(w, id);
	rp_jsonw_key(w, "trusted_comment");
	if (s->sig.trusted != NULL)
		rp_jsonw_strn(w, s->sig.trusted, s->sig.n_trusted);
	else
		rp_jsonw_null(w);
}

/* minisign separates the parts of its comments by tabs. */
static void tell_comment(verify_state *v, const signature *s)
{
	char text[1024], shown[1100];
	size_t n = s->sig.n_trusted < sizeof text ? s->sig.n_trusted : sizeof text;
	if (s->sig.trusted == NULL || v->o.json || v->o.quiet || v->o.status)
		return;
	for (size_t i = 0; i < n; i++)
		text[i] = (char)(s->sig.trusted[i] == '\t' ? ' ' : s->sig.trusted[i]);
	verify_say(v, "trusted comment: %s", rp_show(shown, sizeof shown, text, n));
}

static rp_code check_file(verify_state *v, const rp_public_key *key, const char *file, signature *s, rp_error *err)
{
	rp_error own = {0};
	rp_code code = parse(file, s, &own);
	bool parsed = code == RP_OK;
	if (code == RP_OK)
		code = rp_filesig_verify(&s->sig, s->path, file, key, &own);
	if (code == RP_USAGE || code == RP_NO_MEMORY)
		return rp_fail(err, code, "%s", own.msg);
	rp_code told = verify_verdict(v, "signature", file, code, own.msg, parsed && code == RP_OK ? members : NULL, s, err);
	if (code == RP_OK)
		tell_comment(v, s);
	return told;
}

static rp_code check_operand(verify_state *v, const rp_public_key *key, const char *file, rp_error *err)
{
	struct stat st;
	signature s = {.within = false};
	rp_error own = {0};
	bool there = stat(file, &st) == 0, folder = there && S_ISDIR(st.st_mode);
	rp_code code = there ? find(v, file, folder, &s, &own) : rp_fail(&own, RP_NOT_FOUND, "%s: there is no such file", file);
	if (code != RP_OK)
		code = code == RP_NO_MEMORY ? rp_fail(err, code, "%s", own.msg) : verify_verdict(v, "signature", file, code, own.msg, NULL, NULL, err);
	else if (s.n > 0 && s.text[0] == '{' && !s.within)
		code = verify_model_signature(v, key, file, s.path, s.text, s.n, err);
	else if (folder)
		code = verify_verdict(v, "signature", file, RP_FORMAT, "a folder is signed with a model signature (OpenSSF), and this is none", NULL,
			NULL, err);
	else
		code = check_file(v, key, file, &s, err);
	drop(&s);
	return code;
}

static rp_code load_key(const verify_state *v, rp_public_key *key, rp_error *err)
{
	if (v->o.pubkey == NULL)
		return rp_fail(err, RP_USAGE, "a signature is checked with a key; name it with --pubkey, or in REPLOID_PUBKEY");
	return rp_public_key_load(v->o.pubkey, key, err);
}

rp_code verify_signatures(verify_state *v, rp_error *err)
{
	rp_public_key key;
	size_t n = v->parsed.operands.n;
	if (n == 0)
		return rp_fail(err, RP_USAGE, "%s: name the files whose signatures are to be checked", v->o.pubkey != NULL ? "--pubkey" : "--signed");
	if (n > 1 && v->o.signature != NULL)
		return rp_fail(err, RP_USAGE, "--signature is for one operand, and there are %zu", n);
	rp_code code = load_key(v, &key, err);
	for (size_t i = 0; code == RP_OK && i < n; i++)
		code = check_operand(v, &key, v->parsed.operands.v[i], err);
	if (code == RP_OK && v->o.json)
		code = verify_summary(v, err);
	return code == RP_OK ? v->first : code;
}

/* ---- lists ---- */
rp_code verify_signed_list(verify_state *v, const char *path, char **owned, const char **list, size_t *n, rp_error *err)
{
	rp_public_key key;
	signature s = {.within = false};
	char *text = NULL;
	size_t len = 0;
	rp_code code = strcmp(path, "-") != 0 ? RP_OK : rp_fail(err, RP_USAGE, "a signed list must be a file, and - is standard input");
	if (code == RP_OK)
		code = load_key(v, &key, err);
	if (code == RP_OK)
		code = rp_read_file(path, LIST_MAX, &text, &len, err);
	if (code == RP_OK)
		code = find(v, path, false, &s, err);
	if (code == RP_OK)
		code = parse(path, &s, err);
	if (code == RP_OK)
		code = rp_filesig_verify_bytes(&s.sig, s.path, path, text, len, &key, err);
	if (code == RP_OK) {
		bool within = s.sig.kind == RP_FILESIG_SIGNIFY_AROUND;
		*list = within ? s.sig.message : text;
		*n = within ? s.sig.n_message : len;
		*owned = within ? s.text : text;
		*(within ? &s.text : &text) = NULL;
		v->o.strict = true; /* a line of a signed list that is not understood is not to be passed over */
		tell_comment(v, &s);
	}
	free(text);
	drop(&s);
	return code;
}
