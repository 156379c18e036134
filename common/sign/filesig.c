/* Signatures of files as minisign and signify make them. */
#include "sign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

enum { RAW = 2 + RP_KEY_ID + RP_SIG_BYTES, COMMENT_MAX = 1024, TRUSTED_MAX = 8192, PREHASH = 64, BLOCK = 1 << 20 };

static const char untrusted_mark[] = "untrusted comment: ", trusted_mark[] = "trusted comment: ";

typedef struct lines {
	const char *at;
	size_t left;
} lines;

/* The next line without its end; false when there is none. */
static bool next_line(lines *l, const char **line, size_t *n)
{
	if (l->left == 0)
		return false;
	const char *end = memchr(l->at, '\n', l->left);
	size_t whole = end != NULL ? (size_t)(end - l->at) : l->left;
	*line = l->at;
	*n = whole > 0 && l->at[whole - 1] == '\r' ? whole - 1 : whole;
	whole += end != NULL;
	l->at += whole;
	l->left -= whole;
	return true;
}

static bool begins(const char *s, size_t n, const char *mark)
{
	return n >= strlen(mark) && memcmp(s, mark, strlen(mark)) == 0;
}

/* The two further lines of minisign. False: these are not they. */
static bool trusted_lines(lines *rest, rp_filesig *out)
{
	lines l = *rest;
	const char *line;
	size_t n;
	if (!next_line(&l, &line, &n) || !begins(line, n, trusted_mark))
		return false;
	out->trusted = line + sizeof trusted_mark - 1;
	out->n_trusted = n - (sizeof trusted_mark - 1);
	return out->n_trusted <= TRUSTED_MAX && next_line(&l, &line, &n) &&
		rp_base64_exact(RP_BASE64, line, n, out->global, RP_SIG_BYTES) && l.left == 0;
}

rp_code rp_filesig_parse(const char *name, const char *text, size_t n, rp_filesig *out, rp_error *err)
{
	lines l = {text, n};
	const char *line;
	size_t len;
	unsigned char raw[RAW];
	rp_filesig s = {.kind = RP_FILESIG_SIGNIFY};
	if (!next_line(&l, &line, &len) || !begins(line, len, untrusted_mark) || len > COMMENT_MAX)
		return rp_fail(err, RP_FORMAT, "%s: line 1: expected \"untrusted comment: ...\", as minisign and signify write", name);
	if (!next_line(&l, &line, &len) || !rp_base64_exact(RP_BASE64, line, len, raw, sizeof raw))
		return rp_fail(err, RP_FORMAT, "%s: line 2: expected a signature of 74 bytes in base64", name);
	bool hashed = memcmp(raw, "ED", 2) == 0;
	if (!hashed && memcmp(raw, "Ed", 2) != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: line 2: the algorithm is neither Ed25519 nor Ed25519 of a hash", name);
	memcpy(s.id, raw + 2, RP_KEY_ID);
	memcpy(s.sig, raw + 2 + RP_KEY_ID, RP_SIG_BYTES);
	if (trusted_lines(&l, &s)) {
		s.kind = hashed ? RP_FILESIG_MINISIGN : RP_FILESIG_MINISIGN_WHOLE;
	} else if (hashed) {
		return rp_fail(err, RP_FORMAT, "%s: lines 3 and 4: expected \"trusted comment: ...\" and its signature, and then nothing", name);
	} else if (l.left > 0) {
		s.kind = RP_FILESIG_SIGNIFY_AROUND;
		s.message = l.at;
		s.n_message = l.left;
	}
	*out = s;
	return RP_OK;
}

/* BLAKE2b-512 of a file. */
static rp_code prehash(const char *path, unsigned char out[PREHASH], rp_error *err)
{
	crypto_generichash_state h;
	rp_code code = RP_OK;
	unsigned char *block = rp_alloc(BLOCK);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (block == NULL)
		code = rp_no_memory(err, BLOCK, path);
	else if (fd < 0)
		code = rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	crypto_generichash_init(&h, NULL, 0, PREHASH);
	while (code == RP_OK) {
		ssize_t n = read(fd, block, BLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			code = rp_fail_errno(err, RP_READ, errno, "%s: cannot read", path);
		if (n <= 0)
			break;
		crypto_generichash_update(&h, block, (size_t)n);
	}
	crypto_generichash_final(&h, out, PREHASH);
	if (fd >= 0)
		close(fd);
	free(block);
	return code;
}

static rp_code check_global(const rp_filesig *s, const char *name, const rp_public_key *key, rp_error *err)
{
	unsigned char both[RP_SIG_BYTES + TRUSTED_MAX];
	memcpy(both, s->sig, RP_SIG_BYTES);
	memcpy(both + RP_SIG_BYTES, s->trusted, s->n_trusted);
	if (!rp_signature_ok(key, RP_SIG_RAW, both, RP_SIG_BYTES + s->n_trusted, s->global, RP_SIG_BYTES))
		return rp_fail(err, RP_SIGNATURE, "%s: trusted comment: its signature does not verify: the comment is not what was signed", name);
	return RP_OK;
}

static rp_code check_key(const rp_filesig *s, const char *name, const rp_public_key *key, rp_error *err)
{
	if (key->kind != RP_KEY_ED25519)
		return rp_fail(err, RP_USAGE, "%s: signatures of this kind are made with Ed25519 keys, the key given is of another kind", name);
	if (key->has_id && memcmp(key->id, s->id, RP_KEY_ID) != 0)
		return rp_fail(err, RP_SIGNATURE, "%s: made with key %016llX, the key given is %016llX", name,
			(unsigned long long)rp_le64(s->id), (unsigned long long)rp_le64(key->id));
	return RP_OK;
}

/* bytes: what was signed, or its hash. */
static rp_code check_bytes(const rp_filesig *s, const char *name, const char *what, const void *bytes, size_t n, const rp_public_key *key,
	rp_error *err)
{
	if (!rp_signature_ok(key, RP_SIG_RAW, bytes, n, s->sig, RP_SIG_BYTES))
		return rp_fail(err, RP_SIGNATURE, "%s: the signature does not verify: %s is not what was signed", name, what);
	return s->trusted != NULL ? check_global(s, name, key, err) : RP_OK;
}

rp_code rp_filesig_verify_bytes(const rp_filesig *s, const char *name, const char *what, const void *bytes, size_t n,
	const rp_public_key *key, rp_error *err)
{
	unsigned char hash[PREHASH];
	rp_code code = check_key(s, name, key, err);
	if (code != RP_OK)
		return code;
	if (s->kind == RP_FILESIG_SIGNIFY_AROUND)
		return check_bytes(s, name, "the text in it", s->message, s->n_message, key, err);
	if (s->kind != RP_FILESIG_MINISIGN)
		return check_bytes(s, name, what, bytes, n, key, err);
	crypto_generichash(hash, PREHASH, bytes, n, NULL, 0);
	return check_bytes(s, name, what, hash, PREHASH, key, err);
}

rp_code rp_filesig_verify(const rp_filesig *s, const char *name, const char *path, const rp_public_key *key, rp_error *err)
{
	unsigned char hash[PREHASH];
	char *text = NULL;
	size_t n = 0;
	if (s->kind == RP_FILESIG_SIGNIFY_AROUND)
		return rp_filesig_verify_bytes(s, name, NULL, NULL, 0, key, err);
	rp_code code = check_key(s, name, key, err);
	if (code != RP_OK)
		return code;
	if (s->kind == RP_FILESIG_MINISIGN) {
		code = prehash(path, hash, err);
		return code == RP_OK ? check_bytes(s, name, path, hash, PREHASH, key, err) : code;
	}
	code = rp_read_file(path, RP_FILESIG_WHOLE_MAX, &text, &n, err);
	if (code == RP_OK)
		code = check_bytes(s, name, path, text, n, key, err);
	free(text);
	return code;
}

/* The name in a trusted comment must not end its line. */
static void add_comment(rp_buf *out, const char *s)
{
	for (; *s != '\0'; s++)
		rp_buf_addc(out, (unsigned char)*s < 0x20 && *s != '\t' ? '?' : *s);
}

rp_code rp_minisign_sign(const rp_identity *id, const char *path, const char *trusted, uint64_t now_s, rp_buf *out, rp_error *err)
{
	unsigned char hash[PREHASH], raw[RAW] = {'E', 'D'}, global[RP_SIG_BYTES];
	const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	rp_buf both;
	if (id->key.kind != RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "minisign signatures are made with Ed25519 keys, and this is another");
	rp_code code = prehash(path, hash, err);
	if (code == RP_OK)
		code = rp_identity_sign(id, hash, sizeof hash, raw + 2 + RP_KEY_ID, err);
	if (code != RP_OK)
		return code;
	memcpy(raw + 2, id->key.id, RP_KEY_ID);
	rp_buf_init(&both, RP_SIG_BYTES + TRUSTED_MAX);
	rp_buf_add(&both, raw + 2 + RP_KEY_ID, RP_SIG_BYTES);
	if (trusted == NULL)
		rp_buf_addf(&both, "timestamp:%llu\tfile:", (unsigned long long)now_s);
	add_comment(&both, trusted != NULL ? trusted : base);
	if (trusted == NULL)
		rp_buf_adds(&both, "\thashed");
	code = both.failed ? rp_fail(err, RP_USAGE, "the trusted comment is longer than %d bytes", TRUSTED_MAX) :
		rp_identity_sign(id, both.data, both.len, global, err);
	if (code == RP_OK) {
		rp_buf_addf(out, "%ssigned with the key of %s\n", untrusted_mark, id->participant);
		rp_base64_append(RP_BASE64, raw, sizeof raw, out);
		rp_buf_addf(out, "\n%s%s\n", trusted_mark, both.data + RP_SIG_BYTES);
		rp_base64_append(RP_BASE64, global, sizeof global, out);
		if (!rp_buf_addc(out, '\n'))
			code = rp_no_memory(err, out->len, "a signature");
	}
	rp_buf_free(&both);
	return code;
}

/* As signify has it: the name of a key that ends with .sec leads to the public one. */
static void signify_comment(const char *key_name, rp_buf *out)
{
	const char *base = strrchr(key_name, '/') != NULL ? strrchr(key_name, '/') + 1 : key_name;
	size_t n = strlen(base);
	rp_buf name;
	rp_buf_init(&name, COMMENT_MAX);
	if (n > 4 && n < 256 && strcmp(base + n - 4, ".sec") == 0 && rp_buf_add(&name, base, n - 4)) {
		rp_buf_adds(out, "verify with ");
		add_comment(out, name.data);
		rp_buf_adds(out, ".pub");
	} else {
		rp_buf_adds(out, "signature from signify secret key");
	}
	rp_buf_free(&name);
}

rp_code rp_signify_sign(const rp_identity *id, const char *key_name, const char *path, rp_buf *out, rp_error *err)
{
	unsigned char raw[RAW] = {'E', 'd'};
	char *text = NULL;
	size_t n = 0;
	if (id->key.kind != RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "signify signatures are made with Ed25519 keys, and this is another");
	memcpy(raw + 2, id->key.id, RP_KEY_ID);
	rp_code code = rp_read_file(path, RP_FILESIG_WHOLE_MAX, &text, &n, err);
	if (code == RP_OK)
		code = rp_identity_sign(id, text, n, raw + 2 + RP_KEY_ID, err);
	free(text);
	if (code != RP_OK)
		return code;
	rp_buf_adds(out, untrusted_mark);
	signify_comment(key_name, out);
	rp_buf_addc(out, '\n');
	rp_base64_append(RP_BASE64, raw, sizeof raw, out);
	return rp_buf_addc(out, '\n') ? RP_OK : rp_no_memory(err, out->len, "a signature");
}
