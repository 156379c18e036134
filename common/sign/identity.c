/* Secret keys: making, keeping, using, wiping. */
#include "sign_impl.h"

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

enum { SEED = 32 };

void rp_identity_wipe(rp_identity *id)
{
	sodium_memzero(id, sizeof *id);
}

rp_code sign_set_participant(rp_identity *id, rp_error *err)
{
	if (id->key.kind != RP_KEY_ED25519 && id->key.kind != RP_KEY_P256) {
		id->participant[0] = '\0';
		return RP_OK;
	}
	cJSON *jwk = rp_identity_jwk(id);
	rp_code code = jwk != NULL ? rp_participant_id(jwk, id->participant, err) : rp_no_memory(err, 256, "a key");
	cJSON_Delete(jwk);
	return code;
}

void sign_set_ed25519(rp_identity *id, const unsigned char seed[SEED])
{
	unsigned char sum[RP_HASH_BYTES];
	id->key = (rp_public_key){.kind = RP_KEY_ED25519, .n = 32, .has_id = true};
	id->n_secret = 64;
	crypto_sign_seed_keypair(id->key.bytes, id->secret, seed);
	rp_sha256_once(id->key.bytes, id->key.n, sum); /* the file has no place for a number of the key */
	memcpy(id->key.id, sum, RP_KEY_ID);
}

/* The point that belongs to a scalar; 0: the scalar is not one of the group. */
static size_t point_of(const char *group_name, const unsigned char *d, size_t n, unsigned char point[RP_KEY_BYTES])
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(OBJ_sn2nid(group_name));
	EC_POINT *p = group != NULL ? EC_POINT_new(group) : NULL;
	BIGNUM *scalar = BN_bin2bn(d, (int)n, NULL);
	size_t len = 0;
	if (p != NULL && scalar != NULL && !BN_is_zero(scalar) && BN_cmp(scalar, EC_GROUP_get0_order(group)) < 0 &&
		EC_POINT_mul(group, p, scalar, NULL, NULL, NULL) == 1)
		len = EC_POINT_point2oct(group, p, POINT_CONVERSION_UNCOMPRESSED, point, RP_KEY_BYTES, NULL);
	BN_clear_free(scalar);
	EC_POINT_free(p);
	EC_GROUP_free(group);
	return len;
}

bool sign_set_curve(rp_identity *id, rp_key_kind kind, const unsigned char *scalar)
{
	const sign_curve *curve = sign_curve_of(kind);
	id->key = (rp_public_key){.kind = kind};
	id->n_secret = curve->coordinate;
	memcpy(id->secret, scalar, id->n_secret);
	id->key.n = point_of(curve->group, scalar, id->n_secret, id->key.bytes);
	return id->key.n == 2 * curve->coordinate + 1;
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
			sign_set_ed25519(&id, secret);
	} while (kind == RP_KEY_P256 && !sign_set_curve(&id, RP_KEY_P256, secret)); /* a scalar beyond the curve's order comes once in 2^32 tries */
	sodium_memzero(secret, sizeof secret);
	rp_code code = sign_set_participant(&id, err);
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
	sign_delete_secret(v);
	return text;
}

rp_code sign_write_secret(const char *path, const char *text, rp_error *err)
{
	rp_code code = RP_OK;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == EEXIST ? rp_fail(err, RP_WRITE, "%s: is there already, and a key that is replaced is lost; name another file", path) :
			rp_fail_errno(err, RP_WRITE, errno, "%s: cannot create", path);
	code = rp_write_fd(fd, text, strlen(text), path, err);
	if (code == RP_OK && (fchmod(fd, 0600) != 0 || fsync(fd) != 0))
		code = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
	if (close(fd) != 0 && code == RP_OK)
		code = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
	if (code != RP_OK)
		unlink(path);
	return code;
}

rp_code rp_identity_save(const rp_identity *id, const char *path, uint64_t created_ms, rp_error *err)
{
	char *text = identity_text(id, created_ms);
	rp_code code = RP_OK;
	if (text == NULL)
		return rp_no_memory(err, 1024, "an identity");
	size_t n = strlen(text);
	char *line = rp_alloc(n + 2);
	if (line == NULL) {
		code = rp_no_memory(err, n, "an identity");
	} else {
		memcpy(line, text, n);
		memcpy(line + n, "\n", 2);
		code = sign_write_secret(path, line, err);
		sodium_memzero(line, n);
	}
	sodium_memzero(text, n);
	free(text);
	free(line);
	return code;
}

static EVP_PKEY *curve_evp(const rp_identity *id)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	BIGNUM *d = BN_secure_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *out = NULL;
	if (build != NULL && d != NULL && ctx != NULL && BN_bin2bn(id->secret, (int)id->n_secret, d) != NULL &&
		OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, sign_curve_of(id->key.kind)->group, 0) == 1 &&
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

enum { DER_MAX = 160 };

/* 0: it could not be made. */
static size_t curve_sign(const rp_identity *id, const void *message, size_t n, unsigned char der[DER_MAX])
{
	size_t len = DER_MAX;
	EVP_PKEY *pkey = curve_evp(id);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = pkey != NULL && ctx != NULL &&
		EVP_DigestSignInit_ex(ctx, NULL, sign_curve_of(id->key.kind)->digest, NULL, NULL, pkey, NULL) == 1 &&
		EVP_DigestSign(ctx, der, &len, message, n) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok ? len : 0;
}

static bool p256_sign(const rp_identity *id, const void *message, size_t n, unsigned char sig[RP_SIG_BYTES])
{
	unsigned char der[DER_MAX];
	const unsigned char *at = der;
	size_t len = curve_sign(id, message, n, der);
	ECDSA_SIG *pair = len > 0 ? d2i_ECDSA_SIG(NULL, &at, (long)len) : NULL;
	bool ok = pair != NULL && BN_bn2binpad(ECDSA_SIG_get0_r(pair), sig, 32) == 32 && BN_bn2binpad(ECDSA_SIG_get0_s(pair), sig + 32, 32) == 32;
	ECDSA_SIG_free(pair);
	return ok;
}

rp_code rp_identity_sign(const rp_identity *id, const void *message, size_t n, unsigned char sig[RP_SIG_BYTES], rp_error *err)
{
	if (id->key.kind != RP_KEY_ED25519 && id->key.kind != RP_KEY_P256)
		return rp_fail(err, RP_UNSUPPORTED, "signatures of this kind are made with keys of Ed25519 or P-256");
	bool ok = id->key.kind == RP_KEY_ED25519 ? crypto_sign_detached(sig, NULL, message, n, id->secret) == 0 :
		p256_sign(id, message, n, sig);
	return ok ? RP_OK : rp_fail(err, RP_INTERNAL, "the signature could not be made");
}

rp_code rp_identity_sign_der(const rp_identity *id, const void *message, size_t n, rp_buf *sig, rp_error *err)
{
	unsigned char der[DER_MAX];
	if (id->key.kind == RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "signatures of this kind are made with keys of P-256, P-384 or P-521, this one is Ed25519");
	size_t len = curve_sign(id, message, n, der);
	if (len == 0)
		return rp_fail(err, RP_INTERNAL, "the signature could not be made");
	return rp_buf_add(sig, der, len) ? RP_OK : rp_no_memory(err, len, "a signature");
}

rp_code rp_identity_minisign_pub(const rp_identity *id, rp_buf *out, rp_error *err)
{
	unsigned char raw[2 + RP_KEY_ID + 32] = {'E', 'd'};
	if (id->key.kind != RP_KEY_ED25519)
		return rp_fail(err, RP_UNSUPPORTED, "minisign has Ed25519 keys only, and this is another");
	memcpy(raw + 2, id->key.id, RP_KEY_ID);
	memcpy(raw + 2 + RP_KEY_ID, id->key.bytes, 32);
	rp_buf_addf(out, "untrusted comment: public key of %s\n", id->participant);
	rp_base64_append(RP_BASE64, raw, sizeof raw, out);
	return rp_buf_addc(out, '\n') ? RP_OK : rp_no_memory(err, out->len, "a public key");
}
