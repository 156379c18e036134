/* Private to common/sign: what its files of keys share. */
#ifndef RP_SIGN_IMPL_H
#define RP_SIGN_IMPL_H

#include "sign.h"

#include <openssl/evp.h>

typedef struct sign_curve {
	const char *group, *crv;
	size_t coordinate;
	const char *digest;
} sign_curve;

/* NULL for Ed25519. */
const sign_curve *sign_curve_of(rp_key_kind kind);
/* libcrypto's form of it; NULL when it cannot be. */
EVP_PKEY *sign_to_evp(const rp_public_key *key);
bool sign_of_evp(const EVP_PKEY *pkey, rp_public_key *out);

void sign_set_ed25519(rp_identity *id, const unsigned char seed[32]);
/* False when the scalar is not one of the curve's group. */
bool sign_set_curve(rp_identity *id, rp_key_kind kind, const unsigned char *scalar);
rp_code sign_set_participant(rp_identity *id, rp_error *err);
/* A new file of mode 0600 with this text. */
rp_code sign_write_secret(const char *path, const char *text, rp_error *err);

/* cJSON frees without wiping. */
void sign_delete_secret(struct cJSON *v);

/* ---- minisign_key.c: the text has a comment line and a line of base64 ---- */
rp_code sign_read_numbered(const char *path, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *id, rp_error *err);

#endif
