/* Making keys and signatures. */
#include "verify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <sodium.h>

static const char *folder_of(rp_arena *arena, const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash == NULL ? "." : rp_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A signature is put beside a file, into a folder, or where --signature says. */
rp_code verify_signing_folders(verify_state *v, const char *const **folders, size_t *n, rp_error *err)
{
	const char *const *one = v->o.keygen != NULL ? &v->o.keygen : v->o.signature != NULL ? &v->o.signature : NULL;
	const char *const *paths = one != NULL ? one : v->parsed.operands.v;
	*n = one != NULL ? 1 : v->parsed.operands.n;
	const char **list = rp_arena_array(&v->parsed.arena, *n, sizeof *list);
	bool ok = list != NULL;
	for (size_t i = 0; ok && i < *n; i++)
		ok = (list[i] = one == NULL && is_folder(paths[i]) ? paths[i] : folder_of(&v->parsed.arena, paths[i])) != NULL;
	*folders = list;
	return ok ? RP_OK : rp_no_memory(err, *n * sizeof *list, "a list of folders");
}

/* ---- keys ---- */
/* line: the public key on one. */
static rp_code told(verify_state *v, const rp_identity *id, const char *pub_path, const char *line, rp_error *err)
{
	if (!v->o.json) {
		rp_buf_addf(&v->out, "%s %s\n", id->participant, line);
		return verify_written(v, err);
	}
	rp_jsonw w;
	verify_record(v, &w, "key");
	rp_jsonw_pair_str(&w, "path", v->o.keygen);
	rp_jsonw_pair_str(&w, "public_path", pub_path);
	rp_jsonw_pair_str(&w, "participant", id->participant);
	rp_jsonw_pair_bool(&w, "encrypted", v->o.encrypt);
	rp_jsonw_pair_str(&w, "minisign", id->key.kind == RP_KEY_ED25519 ? line : NULL);
	return verify_record_end(v, &w, err);
}

/* Both kinds of text have their base64 after the first line; PEM breaks it and ends with a line more. */
static rp_code one_line(const char *text, rp_buf *out, rp_error *err)
{
	const char *at = strchr(text, '\n');
	for (; at != NULL && *at != '\0' && *at != '-'; at++)
		if (*at != '\n')
			rp_buf_addc(out, *at);
	return rp_buf_addc(out, '\0') ? RP_OK : rp_no_memory(err, out->len, "a public key");
}

static rp_code save(const verify_state *v, const rp_identity *id, rp_error *err)
{
	char passphrase[RP_PASSPHRASE_MAX];
	if (!v->o.encrypt)
		return rp_identity_save(id, v->o.keygen, (uint64_t)time(NULL) * 1000, err);
	rp_code code = verify_passphrase(v, v->o.keygen, true, passphrase, err);
	if (code == RP_OK)
		code = rp_identity_save_encrypted(id, v->o.keygen, passphrase, err);
	sodium_memzero(passphrase, sizeof passphrase);
	return code;
}

static rp_code make_key(verify_state *v, rp_identity *id, rp_buf *pub, rp_buf *line, const char *pub_path, rp_error *err)
{
	bool ed = v->o.key_type == 0;
	rp_code code = rp_identity_new(ed ? RP_KEY_ED25519 : RP_KEY_P256, id, err);
	if (code == RP_OK)
		code = ed ? rp_identity_minisign_pub(id, pub, err) : rp_public_key_pem(&id->key, pub, err);
	if (code == RP_OK)
		code = one_line(pub->data, line, err);
	if (code == RP_OK)
		code = save(v, id, err);
	if (code == RP_OK)
		code = rp_write_file(pub_path, pub->data, pub->len, 0644, err);
	return code == RP_OK ? told(v, id, pub_path, line->data, err) : code;
}

rp_code verify_keygen(verify_state *v, rp_error *err)
{
	rp_identity id = {.n_secret = 0};
	rp_buf pub, line;
	if (v->parsed.operands.n > 0)
		return rp_fail(err, RP_USAGE, "--keygen makes one key and takes no operands");
	if (v->o.encrypt && v->o.key_type != 0)
		return rp_fail(err, RP_USAGE, "--encrypt: only ed25519 keys have an encrypted form, minisign's; with p256 leave it out");
	char *pub_path = rp_asprintf("%s.pub", v->o.keygen);
	if (pub_path == NULL)
		return rp_no_memory(err, strlen(v->o.keygen), "a path");
	rp_buf_init(&pub, 0);
	rp_buf_init(&line, 0);
	rp_code code = make_key(v, &id, &pub, &line, pub_path, err);
	rp_identity_wipe(&id);
	rp_buf_free(&pub);
	rp_buf_free(&line);
	free(pub_path);
	return code;
}

/* ---- signatures ---- */
static rp_code sign_file(const verify_state *v, const rp_identity *id, const char *path, char **out, rp_error *err)
{
	rp_buf sig;
	bool signify = id->form == RP_SECRET_SIGNIFY;
	*out = v->o.signature != NULL ? rp_strdup(v->o.signature) : rp_asprintf(signify ? "%s.sig" : "%s.minisig", path);
	if (*out == NULL)
		return rp_no_memory(err, strlen(path), "a path");
	if (is_folder(path))
		return rp_fail(err, RP_UNSUPPORTED, "%s: a folder is signed as a model, with a key of P-256, P-384 or P-521; --keygen --key-type p256 "
			"makes one", path);
	rp_buf_init(&sig, 0);
	rp_code code = signify ? rp_signify_sign(id, v->o.sign, path, &sig, err) :
		rp_minisign_sign(id, path, v->o.trusted_comment, (uint64_t)time(NULL), &sig, err);
	if (code == RP_OK)
		code = rp_write_file(*out, sig.data, sig.len, 0644, err);
	rp_buf_free(&sig);
	return code;
}

static bool ends_all(rp_code code)
{
	return code == RP_CANCELLED || code == RP_NO_MEMORY || code == RP_USAGE || code == RP_INTERNAL;
}

static rp_code sign_one(verify_state *v, const rp_identity *id, const char *path, rp_error *err)
{
	rp_error own = {0};
	char *out = NULL;
	rp_code code = id->key.kind == RP_KEY_ED25519 ? sign_file(v, id, path, &out, &own) : verify_sign_model(v, id, path, &out, &own);
	rp_code result = ends_all(code) ? rp_fail(err, code, "%s", own.msg) :
		verify_verdict(v, "signed", out != NULL ? out : path, code, own.msg, NULL, NULL, err);
	free(out);
	return result;
}

static rp_code ask(void *context, const char *path, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	return verify_passphrase(context, path, false, out, err);
}

rp_code verify_sign(verify_state *v, rp_error *err)
{
	rp_identity id;
	const rp_passphrase passphrase = {ask, v};
	size_t n = v->parsed.operands.n;
	if (n == 0)
		return rp_fail(err, RP_USAGE, "--sign: name what to sign");
	if (n > 1 && v->o.signature != NULL)
		return rp_fail(err, RP_USAGE, "--signature is for one operand, and there are %zu", n);
	rp_code code = rp_identity_load(v->o.sign, &passphrase, &id, err);
	for (size_t i = 0; code == RP_OK && i < n; i++)
		code = sign_one(v, &id, v->parsed.operands.v[i], err);
	rp_identity_wipe(&id);
	return code == RP_OK ? v->first : code;
}
