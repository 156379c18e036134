/* Reading secret keys: identity files, PEM, and (in minisign_key.c) those of minisign and signify. */
#include "sign_impl.h"

#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <sodium.h>

enum { FILE_MAX = 64 * 1024 };

void sign_delete_secret(cJSON *v)
{
	cJSON *jwk = cJSON_GetObjectItemCaseSensitive(v, "privateJwk");
	char *d = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(jwk, "d"));
	if (d != NULL)
		sodium_memzero(d, strlen(d));
	cJSON_Delete(v);
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
		sign_set_ed25519(id, d);
	else
		ok = sign_set_curve(id, RP_KEY_P256, d);
	sodium_memzero(d, sizeof d);
	if (!ok || stated.kind != id->key.kind || memcmp(stated.bytes, id->key.bytes, id->key.n) != 0)
		return rp_fail(err, RP_FORMAT, "%s: privateJwk.d is not the secret of publicJwk", path);
	code = sign_set_participant(id, err);
	if (code == RP_OK && (peer == NULL || strcmp(peer, id->participant) != 0))
		code = rp_fail(err, RP_FORMAT, "%s: peerId: expected %s, which follows from publicJwk", path, id->participant);
	return code;
}

/* ---- PEM ---- */
typedef struct asked {
	const char *path;
	const rp_passphrase *passphrase;
	rp_error *err;
	rp_code code; /* of asking */
	bool was;
} asked;

/* libcrypto calls it when the key is encrypted. */
static int pem_passphrase(char *out, int size, int writing, void *context)
{
	asked *a = context;
	char text[RP_PASSPHRASE_MAX];
	(void)writing;
	a->was = true;
	a->code = a->passphrase == NULL ? rp_fail(a->err, RP_UNSUPPORTED, "%s: the key is encrypted, and there is no passphrase", a->path) :
		a->passphrase->ask(a->passphrase->context, a->path, text, a->err);
	if (a->code != RP_OK)
		return -1;
	size_t n = strlen(text);
	bool fits = n <= (size_t)size;
	if (fits)
		memcpy(out, text, n);
	sodium_memzero(text, sizeof text);
	return fits ? (int)n : -1;
}

static bool of_pkey(const EVP_PKEY *pkey, rp_identity *id)
{
	rp_public_key key;
	unsigned char secret[66] = {0};
	size_t n = sizeof secret;
	BIGNUM *d = NULL;
	bool ok = sign_of_evp(pkey, &key);
	if (ok && key.kind == RP_KEY_ED25519) {
		ok = EVP_PKEY_get_raw_private_key(pkey, secret, &n) == 1 && n == 32;
		if (ok)
			sign_set_ed25519(id, secret);
	} else if (ok) {
		int len = (int)sign_curve_of(key.kind)->coordinate;
		ok = EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_PRIV_KEY, &d) == 1 && BN_bn2binpad(d, secret, len) == len &&
			sign_set_curve(id, key.kind, secret);
	}
	ok = ok && id->key.n == key.n && memcmp(id->key.bytes, key.bytes, key.n) == 0;
	BN_clear_free(d);
	sodium_memzero(secret, sizeof secret);
	return ok;
}

static rp_code of_pem(const char *path, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *id, rp_error *err)
{
	asked a = {.path = path, .passphrase = passphrase, .err = err};
	BIO *bio = BIO_new_mem_buf(text, (int)n);
	EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, pem_passphrase, &a) : NULL;
	rp_code code = a.code;
	BIO_free(bio);
	if (code == RP_OK && pkey == NULL)
		code = rp_fail(err, RP_FORMAT, a.was ? "%s: the passphrase is wrong, or the key is damaged" : "%s: not a private key in PEM form", path);
	else if (code == RP_OK && !of_pkey(pkey, id))
		code = rp_fail(err, RP_UNSUPPORTED, "%s: expected a private key of Ed25519, P-256, P-384 or P-521", path);
	else if (code == RP_OK)
		code = sign_set_participant(id, err);
	id->form = RP_SECRET_PEM;
	EVP_PKEY_free(pkey);
	return code;
}

static rp_code of_text(const char *path, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *id, rp_error *err)
{
	cJSON *v = NULL;
	if (n > FILE_MAX)
		return rp_fail(err, RP_FORMAT, "%s: too long for a secret key", path);
	if (n >= 10 && memcmp(text, "-----BEGIN", 10) == 0)
		return of_pem(path, text, n, passphrase, id, err);
	if (n == 0 || text[0] != '{')
		return sign_read_numbered(path, text, n, passphrase, id, err);
	rp_code code = rp_json_parse(path, text, n, &v, err);
	if (code == RP_OK)
		code = of_json(path, v, id, err);
	sign_delete_secret(v);
	return code;
}

rp_code rp_identity_parse(const char *name, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *out, rp_error *err)
{
	rp_identity id = {.n_secret = 0};
	if (sodium_init() < 0)
		return rp_fail(err, RP_INTERNAL, "libsodium cannot be started: no source of random numbers");
	rp_code code = of_text(name, text, n, passphrase, &id, err);
	if (code == RP_OK)
		*out = id;
	rp_identity_wipe(&id);
	return code;
}

rp_code rp_identity_load(const char *path, const rp_passphrase *passphrase, rp_identity *out, rp_error *err)
{
	size_t n = 0;
	char *text = rp_alloc(FILE_MAX + 1);
	if (text == NULL)
		return rp_no_memory(err, FILE_MAX, path);
	rp_code code = read_private(path, text, FILE_MAX, &n, err);
	if (code == RP_OK)
		code = rp_identity_parse(path, text, n, passphrase, out, err);
	sodium_memzero(text, FILE_MAX);
	free(text);
	return code;
}
