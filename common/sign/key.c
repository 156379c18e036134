/* Public keys in all the forms they come in, and the check of one signature. */
#include "sign_impl.h"

#include "hash/hash.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sodium.h>

enum { KEY_FILE_MAX = 64 * 1024, ED25519 = 32, MINISIGN_KEY = 2 + RP_KEY_ID + ED25519 };

static const sign_curve curves[] = {
	[RP_KEY_P256] = {"prime256v1", "P-256", 32, "SHA256"},
	[RP_KEY_P384] = {"secp384r1", "P-384", 48, "SHA384"},
	[RP_KEY_P521] = {"secp521r1", "P-521", 66, "SHA512"},
};

const sign_curve *sign_curve_of(rp_key_kind kind)
{
	return kind == RP_KEY_ED25519 ? NULL : &curves[kind];
}

EVP_PKEY *sign_to_evp(const rp_public_key *key)
{
	if (key->kind == RP_KEY_ED25519)
		return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key->bytes, key->n);
	char group[16];
	unsigned char point[RP_KEY_BYTES];
	snprintf(group, sizeof group, "%s", curves[key->kind].group);
	memcpy(point, key->bytes, key->n);
	OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, key->n), OSSL_PARAM_construct_end()};
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	EVP_PKEY *out = NULL;
	if (ctx != NULL && EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &out, EVP_PKEY_PUBLIC_KEY, params) != 1)
		out = NULL;
	EVP_PKEY_CTX_free(ctx);
	return out;
}

bool sign_of_evp(const EVP_PKEY *pkey, rp_public_key *out)
{
	rp_public_key key = {.n = sizeof key.bytes};
	if (EVP_PKEY_is_a(pkey, "ED25519")) {
		key.kind = RP_KEY_ED25519;
		if (EVP_PKEY_get_raw_public_key(pkey, key.bytes, &key.n) != 1)
			return false;
		*out = key;
		return true;
	}
	char group[32] = "";
	size_t len;
	if (!EVP_PKEY_is_a(pkey, "EC") || EVP_PKEY_get_utf8_string_param(pkey, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group, &len) != 1)
		return false;
	for (rp_key_kind kind = RP_KEY_P256; kind <= RP_KEY_P521; kind++)
		if (strcmp(group, curves[kind].group) == 0) {
			key.kind = kind;
			if (EVP_PKEY_get_octet_string_param(pkey, OSSL_PKEY_PARAM_PUB_KEY, key.bytes, sizeof key.bytes, &key.n) != 1)
				return false;
			*out = key;
			return true;
		}
	return false;
}

static bool is_on_curve(const rp_public_key *key)
{
	EVP_PKEY *pkey = sign_to_evp(key);
	EVP_PKEY_CTX *ctx = pkey != NULL ? EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL) : NULL;
	bool ok = ctx != NULL && EVP_PKEY_public_check(ctx) == 1;
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok;
}

rp_code rp_public_key_of_spki(const char *name, const char *field, const void *der, size_t n, rp_public_key *out, rp_error *err)
{
	const unsigned char *at = der;
	EVP_PKEY *pkey = n <= KEY_FILE_MAX ? d2i_PUBKEY(NULL, &at, (long)n) : NULL;
	if (pkey == NULL || at != (const unsigned char *)der + n) {
		EVP_PKEY_free(pkey);
		return rp_fail(err, RP_FORMAT, "%s: %s: not a public key (SPKI)", name, field);
	}
	bool ok = sign_of_evp(pkey, out);
	EVP_PKEY_free(pkey);
	return ok ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "%s: %s: expected a key of Ed25519, P-256, P-384 or P-521", name, field);
}

static rp_code of_pem(const char *name, const char *text, size_t n, rp_public_key *out, rp_error *err)
{
	BIO *bio = BIO_new_mem_buf(text, (int)n);
	EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	if (pkey == NULL)
		return rp_fail(err, RP_FORMAT, "%s: not a public key in PEM form", name);
	bool ok = sign_of_evp(pkey, out);
	EVP_PKEY_free(pkey);
	return ok ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "%s: expected a key of Ed25519, P-256, P-384 or P-521", name);
}

rp_code rp_public_key_pem(const rp_public_key *key, rp_buf *out, rp_error *err)
{
	EVP_PKEY *pkey = sign_to_evp(key);
	BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	long n = pkey != NULL && bio != NULL && PEM_write_bio_PUBKEY(bio, pkey) == 1 ? BIO_get_mem_data(bio, &text) : 0;
	bool ok = n > 0 && rp_buf_add(out, text, (size_t)n);
	BIO_free(bio);
	EVP_PKEY_free(pkey);
	return ok ? RP_OK : rp_fail(err, RP_INTERNAL, "a public key cannot be written as PEM");
}

rp_code rp_public_key_pem_sha256(const rp_public_key *key, char hex[65], rp_error *err)
{
	unsigned char sum[RP_HASH_BYTES];
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_code code = rp_public_key_pem(key, &text, err);
	if (code == RP_OK) {
		rp_sha256_once(text.data, text.len, sum);
		rp_hex(hex, sum, sizeof sum);
	}
	rp_buf_free(&text);
	return code;
}

static bool coordinate(const cJSON *jwk, const char *member, size_t want, unsigned char *out)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, member));
	return text != NULL && rp_base64_exact(RP_BASE64URL, text, strlen(text), out, want);
}

rp_code rp_public_key_of_jwk(const char *name, const char *field, const cJSON *jwk, rp_public_key *out, rp_error *err)
{
	const char *kty = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, "kty"));
	const char *crv = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, "crv"));
	rp_public_key key = {.kind = RP_KEY_ED25519, .n = ED25519};
	if (kty == NULL || crv == NULL)
		return rp_fail(err, RP_FORMAT, "%s: %s: a JWK needs the strings kty and crv", name, field);
	if (strcmp(kty, "OKP") == 0 && strcmp(crv, "Ed25519") == 0) {
		if (!coordinate(jwk, "x", ED25519, key.bytes))
			return rp_fail(err, RP_FORMAT, "%s: %s.x: expected 32 bytes in base64url without padding", name, field);
	} else if (strcmp(kty, "EC") == 0 && strcmp(crv, "P-256") == 0) {
		key = (rp_public_key){.kind = RP_KEY_P256, .n = 65, .bytes = {4}};
		if (!coordinate(jwk, "x", 32, key.bytes + 1) || !coordinate(jwk, "y", 32, key.bytes + 33))
			return rp_fail(err, RP_FORMAT, "%s: %s: x and y: expected 32 bytes each in base64url without padding", name, field);
		if (!is_on_curve(&key))
			return rp_fail(err, RP_FORMAT, "%s: %s: x and y are no point of P-256", name, field);
	} else {
		return rp_fail(err, RP_UNSUPPORTED, "%s: %s: expected a key of Ed25519 (OKP) or P-256 (EC)", name, field);
	}
	*out = key;
	return RP_OK;
}

static rp_code of_json(const char *name, const char *text, size_t n, rp_public_key *out, rp_error *err)
{
	cJSON *v = NULL;
	rp_code code = rp_json_parse(name, text, n, &v, err);
	if (code == RP_OK) {
		const cJSON *inner = cJSON_GetObjectItemCaseSensitive(v, "publicJwk");
		code = rp_public_key_of_jwk(name, inner != NULL ? "publicJwk" : "the key", inner != NULL ? inner : v, out, err);
	}
	cJSON_Delete(v);
	return code;
}

/* The base64 line of a minisign or signify public key. */
static bool of_numbered(const char *text, size_t n, rp_public_key *out)
{
	unsigned char raw[MINISIGN_KEY];
	if (!rp_base64_exact(RP_BASE64, text, n, raw, sizeof raw) || memcmp(raw, "Ed", 2) != 0)
		return false;
	*out = (rp_public_key){.kind = RP_KEY_ED25519, .n = ED25519, .has_id = true};
	memcpy(out->id, raw + 2, RP_KEY_ID);
	memcpy(out->bytes, raw + 2 + RP_KEY_ID, ED25519);
	return true;
}

static size_t line_length(const char *s, size_t n)
{
	const char *end = memchr(s, '\n', n);
	size_t len = end != NULL ? (size_t)(end - s) : n;
	return len > 0 && s[len - 1] == '\r' ? len - 1 : len;
}

static bool begins(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

rp_code rp_public_key_parse(const char *name, const char *text, size_t n, rp_public_key *out, rp_error *err)
{
	unsigned char der[512];
	size_t len = 0;
	if (n > KEY_FILE_MAX)
		return rp_fail(err, RP_FORMAT, "%s: too long for a public key", name);
	if (begins(text, n, "-----BEGIN"))
		return of_pem(name, text, n, out, err);
	if (begins(text, n, "{"))
		return of_json(name, text, n, out, err);
	if (begins(text, n, "untrusted comment:")) {
		const char *next = memchr(text, '\n', n);
		n = next != NULL ? n - (size_t)(next + 1 - text) : 0;
		text = next != NULL ? next + 1 : text;
	}
	n = line_length(text, n);
	if (of_numbered(text, n, out))
		return RP_OK;
	if (rp_base64_decode(RP_BASE64, text, n, der, sizeof der, &len) && len > MINISIGN_KEY)
		return rp_public_key_of_spki(name, "the key", der, len, out, err);
	return rp_fail(err, RP_FORMAT, "%s: expected a public key: minisign's or signify's, PEM, a JWK, or SPKI in base64", name);
}

rp_code rp_public_key_load(const char *text_or_path, rp_public_key *out, rp_error *err)
{
	char *text = NULL;
	size_t n = 0;
	unsigned char der[512];
	if (of_numbered(text_or_path, strlen(text_or_path), out))
		return RP_OK;
	if (rp_base64_decode(RP_BASE64, text_or_path, strlen(text_or_path), der, sizeof der, &n) && n > MINISIGN_KEY &&
		rp_public_key_of_spki("the key", "SPKI", der, n, out, NULL) == RP_OK)
		return RP_OK;
	rp_code code = rp_read_file(text_or_path, KEY_FILE_MAX, &text, &n, err);
	if (code == RP_OK)
		code = rp_public_key_parse(text_or_path, text, n, out, err);
	free(text);
	return code;
}

/* r || s to the SEQUENCE of two INTEGERs that libcrypto takes. */
static int raw_to_der(const rp_public_key *key, const unsigned char *sig, size_t n, unsigned char **der)
{
	size_t half = curves[key->kind].coordinate;
	if (n != 2 * half)
		return -1;
	ECDSA_SIG *pair = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(sig, (int)half, NULL), *s = BN_bin2bn(sig + half, (int)half, NULL);
	int len = -1;
	if (pair != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s) == 1) {
		len = i2d_ECDSA_SIG(pair, der);
	} else {
		BN_free(r);
		BN_free(s);
	}
	ECDSA_SIG_free(pair);
	return len;
}

static bool ecdsa_ok(const rp_public_key *key, const void *message, size_t n, const unsigned char *der, size_t der_n)
{
	EVP_PKEY *pkey = sign_to_evp(key);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = pkey != NULL && ctx != NULL &&
		EVP_DigestVerifyInit_ex(ctx, NULL, curves[key->kind].digest, NULL, NULL, pkey, NULL) == 1 &&
		EVP_DigestVerify(ctx, der, der_n, message, n) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return ok;
}

bool rp_signature_ok(const rp_public_key *key, rp_sig_form form, const void *message, size_t n, const void *sig, size_t sig_n)
{
	if (key->kind == RP_KEY_ED25519)
		return sodium_init() >= 0 && sig_n == RP_SIG_BYTES && crypto_sign_verify_detached(sig, message, n, key->bytes) == 0;
	if (form == RP_SIG_DER)
		return ecdsa_ok(key, message, n, sig, sig_n);
	unsigned char *der = NULL;
	int len = raw_to_der(key, sig, sig_n, &der);
	bool ok = len > 0 && ecdsa_ok(key, message, n, der, (size_t)len);
	OPENSSL_free(der);
	return ok;
}

/* ---- participants ---- */
rp_code rp_participant_id(const cJSON *jwk, char out[RP_PARTICIPANT], rp_error *err)
{
	static const char *const members[] = {"kty", "crv", "x", "y", "n", "e"};
	unsigned char sum[RP_HASH_BYTES];
	cJSON *stable = cJSON_CreateObject();
	bool ok = stable != NULL;
	for (size_t i = 0; i < sizeof members / sizeof *members && ok; i++) {
		const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, members[i]));
		ok = (text != NULL && *text != '\0' ? cJSON_AddStringToObject(stable, members[i], text) :
			cJSON_AddNullToObject(stable, members[i])) != NULL;
	}
	rp_code code = ok ? rp_canonical_sha256(stable, RP_KEYS_PLAIN, sum, err) : rp_no_memory(err, 256, "a participant id");
	cJSON_Delete(stable);
	if (code == RP_OK) {
		memcpy(out, "peer:", 5);
		rp_hex(out + 5, sum, 12);
	}
	return code;
}

bool rp_is_participant(const char *s)
{
	return strncmp(s, "peer:", 5) == 0 && strlen(s) == RP_PARTICIPANT - 1 && strspn(s + 5, "0123456789abcdef") == 24;
}
