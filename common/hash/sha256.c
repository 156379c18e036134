#include "hash.h"

#include <openssl/evp.h>
#include <stdlib.h>

struct rp_sha256 {
	EVP_MD_CTX *ctx;
};

rp_code rp_sha256_new(rp_sha256 **out, rp_error *err)
{
	rp_sha256 *h = rp_alloc(sizeof *h);
	if (h != NULL)
		h->ctx = EVP_MD_CTX_new();
	if (h == NULL || h->ctx == NULL || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
		rp_sha256_free(h);
		return rp_no_memory(err, sizeof *h, "a SHA-256 state");
	}
	*out = h;
	return RP_OK;
}

void rp_sha256_free(rp_sha256 *h)
{
	if (h != NULL)
		EVP_MD_CTX_free(h->ctx);
	free(h);
}

/* After a successful init, libcrypto's software digests do not fail: there is nothing to report from here on. */
void rp_sha256_reset(rp_sha256 *h)
{
	EVP_DigestInit_ex(h->ctx, NULL, NULL);
}

void rp_sha256_update(rp_sha256 *h, const void *data, size_t n)
{
	EVP_DigestUpdate(h->ctx, data, n);
}

void rp_sha256_final(rp_sha256 *h, unsigned char out[RP_HASH_BYTES])
{
	EVP_DigestFinal_ex(h->ctx, out, NULL);
}

void rp_sha256_once(const void *data, size_t n, unsigned char out[RP_HASH_BYTES])
{
	EVP_Digest(data, n, out, NULL, EVP_sha256(), NULL);
}
