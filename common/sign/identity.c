/* Secret keys: making, keeping, using, wiping. */
#include "sign.h"

#include "hash/hash.h"
#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <sodium.h>

enum {
	FILE_MAX = 64 * 1024,
	SEED = 32,
	P256 = 32,
	/* a minisign secret key: two letters each for signature, key derivation and checksum; salt and two limits of the derivation; then
	 * number, key and checksum, encrypted when there is a derivation (without, minisign leaves the checksum zero) */
	MINISIGN_SECRET = 2 + 2 + 2 + 32 + 8 + 8 + RP_KEY_ID + 64 + 32,
	MINISIGN_NUMBER = MINISIGN_SECRET - 32 - 64 - RP_KEY_ID,
};

void rp_identity_wipe(rp_identity *id)
{
	sodium_memzero(id, sizeof *id);
}

static rp_code set_participant(rp_identity *id, rp_error *err)
{
	cJSON *jwk = rp_identity_jwk(id);
	rp_code code = jwk != NULL ? rp_participant_id(jwk, id->participant, err) : rp_no_memory(err, 256, "a key");
	cJSON_Delete(jwk);
	return code;
}

static void set_ed25519(rp_identity *id, const unsigned char seed[SEED])
{
	unsigned char sum[RP_HASH_BYTES];
	id->key = (rp_public_key){.kind = RP_KEY_ED25519, .n = 32, .has_id = true};
	id->n_secret = 64;
	crypto_sign_seed_keypair(id->key.bytes, id->secret, seed);
	rp_sha256_once(id->key.bytes, id->key.n, sum); /* the file has no place for a number of the key */
	memcpy(id->key.id, sum, RP_KEY_ID);
}

/* The point that belongs to a scalar. */
static bool p256_point(const unsigned char d[P256], unsigned char point[65])
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	EC_POINT *p = group != NULL ? EC_POINT_new(group) : NULL;
	BIGNUM *scalar = BN_bin2bn(d, P256, NULL);
	bool ok = p != NULL && scalar != NULL && !BN_is_zero(scalar) && BN_cmp(scalar, EC_GROUP_get0_order(group)) < 0 &&
		EC_POINT_mul(group, p, scalar, NULL, NULL, NULL) == 1 &&
		EC_POINT_point2oct(group, p, POINT_CONVERSION_UNCOMPRESSED, point, 65, NULL) == 65;
	BN_clear_free(scalar);
	EC_POINT_free(p);
	EC_GROUP_free(group);
	return ok;
}

static bool set_p256(rp_identity *id, const unsigned char d[P256])
{
	id->key = (rp_public_key){.kind = RP_KEY_P256, .n = 65};
	id->n_secret = P256;
	memcpy(id->secret, d, P256);
	return p256_point(d, id->key.bytes);
}

rp_code rp_identity_new(rp_key_kind kind, rp_identity *out, rp_error *err)
{
	unsigned char secret[SEED];
	rp_identity id = {.n_secret = 0};
	if (kind != RP_KEY_ED25519 && kind != RP_KEY_P256)
		return rp_fail(err, RP_UNSUPPORTED, "identities are Ed25519 or P-256");
	if (sodium_init() < 0)
		return rp_fail(err, RP_INTERNAL, "libsodium cannot be started: no source of random numbers");
	do {
		randombytes_buf(secret, sizeof secret);
		if (kind == RP_KEY_ED25519)
			set_ed25519(&id, secret);
	} while (kind == RP_KEY_P256 && !set_p256(&id, secret)); /* a scalar beyond the curve's order comes once in 2^32 tries */
	sodium_memzero(secret, sizeof secret);
	rp_code code = set_participant(&id, err);
	if (code == RP_OK)
		*out = id;
	rp_identity_wipe(&id);
	return code;
}

static bool add_base64url(cJSON *object, const char *member, const unsigned char *bytes, size_t n)
{
	rp_buf text;
	rp_buf_init(&text, 0);
	bool ok = rp_base64_append(RP_BASE64URL, bytes, n, &text) && cJSON_AddStringToObject(object, member, text.data) != NULL;
	if (text.data != NULL)
		sodium_memzero(text.data, text.cap);
	rp_buf_free(&text);
	return ok;
}

cJSON *rp_identity_jwk(const rp_identity *id)
{
	cJSON *jwk = cJSON_CreateObject();
	bool ed = id->key.kind == RP_KEY_ED25519;
	bool ok = jwk != NULL && cJSON_AddStringToObject(jwk, "kty", ed ? "OKP" : "EC") != NULL &&
		cJSON_AddStringToObject(jwk, "crv", ed ? "Ed25519" : "P-256") != NULL &&
		add_base64url(jwk, "x", id->key.bytes + (ed ? 0 : 1), 32) && (ed || add_base64url(jwk, "y", id->key.bytes + 33, 32));
	if (ok)
		return jwk;
	cJSON_Delete(jwk);
	return NULL;
}

/* cJSON frees without wiping. */
static void delete_secret(cJSON *v)
{
	cJSON *jwk = cJSON_GetObjectItemCaseSensitive(v, "privateJwk");
	char *d = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, "d"));
	if (d != NULL)
		sodium_memzero(d, strlen(d));
	cJSON_Delete(v);
}

static char *identity_text(const rp_identity *id, uint64_t created_ms)
{
	cJSON *v = cJSON_CreateObject(), *pub = rp_identity_jwk(id), *secret = rp_identity_jwk(id);
	char *text = NULL;
	bool ok = v != NULL && pub != NULL && secret != NULL && cJSON_AddNumberToObject(v, "version", 1) != NULL &&
		cJSON_AddStringToObject(v, "algorithm", id->key.kind == RP_KEY_ED25519 ? "Ed25519" : "ECDSA") != NULL &&
		cJSON_AddStringToObject(v, "peerId", id->participant) != NULL &&
		cJSON_AddNumberToObject(v, "createdAt", (double)created_ms) != NULL && add_base64url(secret, "d", id->secret, 32);
	if (ok && cJSON_AddItemToObject(v, "publicJwk", pub)) {
		pub = NULL;
		if (cJSON_AddItemToObject(v, "privateJwk", secret)) {
			secret = NULL;
			text = cJSON_Print(v);
		}
	}
	cJSON_Delete(pub);
	cJSON_Delete(secret);
	delete_secret(v);
	return text;
}

rp_code rp_identity_save(const rp_identity *id, const char *path, uint64_t created_ms, rp_error *err)
{
	char *text = identity_text(id, created_ms);
	if (text == NULL)
		return rp_no_memory(err, 1024, "an identity");
	rp_code code = RP_OK;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		code = errno == EEXIST ? rp_fail(err, RP_WRITE, "%s: is there already, and a key that is replaced is lost; name another file", path) :
			rp_fail_errno(err, RP_WRITE, errno, "%s: cannot create", path);
	} else {
		code = rp_write_fd(fd, text, strlen(text), path, err);
		if (code == RP_OK)
			code = rp_write_fd(fd, "\n", 1, path, err);
		if (code == RP_OK && (fchmod(fd, 0600) != 0 || fsync(fd) != 0))
			code = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
		if (close(fd) != 0 && code == RP_OK)
			code = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
		if (code != RP_OK)
			unlink(path);
	}
	sodium_memzero(text, strlen(text));
	free(text);
	return code;
}

/* Read up to size bytes of a file that is its owner's alone. */
static rp_code read_private(const char *path, char *text, size_t size, size_t *n, rp_error *err)
{
	struct stat st;
	rp_code code = RP_OK;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	*n = 0;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		code = rp_fail(err, RP_READ, "%s: not a file", path);
	else if (st.st_uid != geteuid())
		code = rp_fail(err, RP_READ, "%s: belongs to another user, so that user knows this secret key", path);
	else if ((st.st_mode & 077) != 0)
		code = rp_fail(err, RP_READ, "%s: others may use it (mode %04o); make it yours alone with chmod 600", path, st.st_mode & 07777);
	while (code == RP_OK) {
		ssize_t got = read(fd, text + *n, size - *n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			code = rp_fail_errno(err, RP_READ, errno, "%s: cannot read", path);
		if (got <= 0)
			break;
		*n += (size_t)got;
		if (*n == size)
			code = rp_fail(err, RP_FORMAT, "%s: too long for a secret key", path);
	}
	close(fd);
	return code;
}

static rp_code of_json(const char *path, const cJSON *v, rp_identity *id, rp_error *err)
{
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(v, "version");
	const cJSON *secret = cJSON_GetObjectItemCaseSensitive(v, "privateJwk");
	const char *algorithm = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(v, "algorithm"));
	const char *peer = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(v, "peerId"));
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(secret, "d"));
	unsigned char d[32];
	rp_public_key stated;
	if (!cJSON_IsNumber(version) || version->valuedouble != 1)
		return rp_fail(err, RP_UNSUPPORTED, "%s: version: expected 1", path);
	if (algorithm == NULL || (strcmp(algorithm, "Ed25519") != 0 && strcmp(algorithm, "ECDSA") != 0))
		return rp_fail(err, RP_UNSUPPORTED, "%s: algorithm: expected \"Ed25519\" or \"ECDSA\"", path);
	rp_code code = rp_public_key_of_jwk(path, "publicJwk", cJSON_GetObjectItemCaseSensitive(v, "publicJwk"), &stated, err);
	if (code != RP_OK)
		return code;
	if (text == NULL || !rp_base64_exact(RP_BASE64URL, text, strlen(text), d, sizeof d))
		return rp_fail(err, RP_FORMAT, "%s: privateJwk.d: expected 32 bytes in base64url without padding", path);
	bool ok = true;
	if (strcmp(algorithm, "Ed25519") == 0)
		set_ed25519(id, d);
	else
		ok = set_p256(id, d);
	sodium_memzero(d, sizeof d);
	if (!ok || stated.kind != id->key.kind || memcmp(stated.bytes, id->key.bytes, id->key.n) != 0)
		return rp_fail(err, RP_FORMAT, "%s: privateJwk.d is not the secret of publicJwk", path);
	code = set_participant(id, err);
	if (code == RP_OK && (peer == NULL || strcmp(peer, id->participant) != 0))
		code = rp_fail(err, RP_FORMAT, "%s: peerId: expected %s, which follows from publicJwk", path, id->participant);
	return code;
}

static rp_code of_minisign(const char *path, const char *text, size_t n, rp_identity *id, rp_error *err)
{
	unsigned char raw[MINISIGN_SECRET];
	const char *line = memchr(text, '\n', n);
	rp_code code = RP_OK;
	size_t len = line != NULL ? strcspn(line + 1, "\r\n") : 0;
	if (line == NULL || !rp_base64_exact(RP_BASE64, line + 1, len, raw, sizeof raw) || memcmp(raw, "Ed", 2) != 0)
		return rp_fail(err, RP_FORMAT, "%s: expected an identity file or a minisign secret key", path);
	if (raw[2] != 0 || raw[3] != 0) {
		code = rp_fail(err, RP_UNSUPPORTED, "%s: the key is encrypted with a password; minisign -C -W -s FILE takes it off", path);
	} else {
		set_ed25519(id, raw + MINISIGN_NUMBER + RP_KEY_ID);
		memcpy(id->key.id, raw + MINISIGN_NUMBER, RP_KEY_ID);
		if (sodium_memcmp(id->secret, raw + MINISIGN_NUMBER + RP_KEY_ID, 64) != 0)
			code = rp_fail(err, RP_FORMAT, "%s: the secret key is damaged: its two halves do not belong together", path);
		else
			code = set_participant(id, err);
	}
	sodium_memzero(raw, sizeof raw);
	return code;
}

rp_code rp_identity_load(const char *path, rp_identity *out, rp_error *err)
{
	size_t n = 0;
	cJSON *v = NULL;
	rp_identity id = {.n_secret = 0};
	if (sodium_init() < 0)
		return rp_fail(err, RP_INTERNAL, "libsodium cannot be started: no source of random numbers");
	char *text = rp_alloc(FILE_MAX + 1);
	if (text == NULL)
		return rp_no_memory(err, FILE_MAX, path);
	rp_code code = read_private(path, text, FILE_MAX, &n, err);
	if (code == RP_OK && text[0] == '{') {
		code = rp_json_parse(path, text, n, &v, err);
		if (code == RP_OK)
			code = of_json(path, v, &id, err);
		delete_secret(v);
	} else if (code == RP_OK) {
		code = of_minisign(path, text, n, &id, err);
	}
	sodium_memzero(text, FILE_MAX);
	free(text);
	if (code == RP_OK)
		*out = id;
	rp_identity_wipe(&id);
	return code;
}

static EVP_PKEY *p256_evp(const rp_identity *id)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	BIGNUM *d = BN_secure_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *out = NULL;
	if (build != NULL && d != NULL && ctx != NULL && BN_bin2bn(id->secret, P256, d) != NULL &&
		OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
		OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, id->key.bytes, id->key.n) == 1 &&
		OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, d) == 1 && (params = OSSL_PARAM_BLD_to_param(build)) != NULL &&
		EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &out, EVP_PKEY_KEYPAIR, params) != 1)
		out = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	BN_clear_free(d);
	EVP_PKEY_CTX_free(ctx);
	return out;
}

static bool p256_sign(const rp_identity *id, const void *message, size_t n, unsigned char sig[RP_SIG_BYTES])
{
	unsigned char der[80];
	const unsigned char *at = der;
	size_t len = sizeof der;
	EVP_PKEY *pkey = p256_evp(id);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	ECDSA_SIG *pair = NULL;
	bool ok = pkey != NULL && ctx != NULL && EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, NULL, pkey, NULL) == 1 &&
		EVP_DigestSign(ctx, der, &len, message, n) == 1 && (pair = d2i_ECDSA_SIG(NULL, &at, (long)len)) != NULL &&
		BN_bn2binpad(ECDSA_SIG_get0_r(pair), sig, 32) == 32 && BN_bn2binpad(ECDSA_SIG_get0_s(pair), sig + 32, 32) == 32;
	ECDSA_SIG_free(pair);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok;
}

rp_code rp_identity_sign(const rp_identity *id, const void *message, size_t n, unsigned char sig[RP_SIG_BYTES], rp_error *err)
{
	bool ok = id->key.kind == RP_KEY_ED25519 ? crypto_sign_detached(sig, NULL, message, n, id->secret) == 0 :
		p256_sign(id, message, n, sig);
	return ok ? RP_OK : rp_fail(err, RP_INTERNAL, "the signature could not be made");
}

rp_code rp_identity_minisign_pub(const rp_identity *id, rp_buf *out, rp_error *err)
{
	unsigned char raw[2 + RP_KEY_ID + 32] = {'E', 'd'};
	if (id->key.kind != RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "minisign has Ed25519 keys only, this one is P-256");
	memcpy(raw + 2, id->key.id, RP_KEY_ID);
	memcpy(raw + 2 + RP_KEY_ID, id->key.bytes, 32);
	rp_buf_addf(out, "untrusted comment: public key of %s\n", id->participant);
	rp_base64_append(RP_BASE64, raw, sizeof raw, out);
	return rp_buf_addc(out, '\n') ? RP_OK : rp_no_memory(err, out->len, "a public key");
}
