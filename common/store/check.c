#include "store/check.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 256 << 10 };

const char *rp_check_word(rp_check_kind kind)
{
	static const char *const words[] = {"sha256", "blake3", "git-sha1"};
	return words[kind];
}

bool rp_check_git_parse(const char *text, uint64_t size, rp_check *out)
{
	const char *hex = text + (*text == '"');
	size_t n = strspn(hex, "0123456789abcdef");
	*out = (rp_check){.kind = RP_CHECK_GIT_SHA1, .size = size};
	return n == 2 * RP_GIT_SHA1_BYTES && strcmp(hex + n, *text == '"' ? "\"" : "") == 0 && rp_unhex(out->digest, RP_GIT_SHA1_BYTES, hex, n);
}

static size_t digest_bytes(const rp_check *c)
{
	return c->kind == RP_CHECK_GIT_SHA1 ? RP_GIT_SHA1_BYTES : RP_HASH_BYTES;
}

typedef struct hasher {
	rp_check_kind kind;
	rp_blake3 blake3;
	EVP_MD_CTX *evp;
} hasher;

static bool begin(hasher *h, const rp_check *c)
{
	char head[40];
	h->kind = c->kind;
	h->evp = NULL;
	if (c->kind == RP_CHECK_BLAKE3) {
		rp_blake3_init(&h->blake3);
		return true;
	}
	h->evp = EVP_MD_CTX_new();
	if (h->evp == NULL || EVP_DigestInit_ex(h->evp, c->kind == RP_CHECK_SHA256 ? EVP_sha256() : EVP_sha1(), NULL) != 1)
		return false;
	int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)c->size);
	return c->kind == RP_CHECK_SHA256 || EVP_DigestUpdate(h->evp, head, (size_t)n + 1) == 1;
}

static bool feed(hasher *h, const void *data, size_t n)
{
	if (h->kind != RP_CHECK_BLAKE3)
		return EVP_DigestUpdate(h->evp, data, n) == 1;
	rp_blake3_update(&h->blake3, data, n);
	return true;
}

static bool end(hasher *h, unsigned char out[EVP_MAX_MD_SIZE])
{
	if (h->kind != RP_CHECK_BLAKE3)
		return EVP_DigestFinal_ex(h->evp, out, NULL) == 1;
	rp_blake3_final(&h->blake3, out, RP_HASH_BYTES);
	return true;
}

static rp_code feed_file(hasher *h, int fd, const char *name, const rp_check *c, rp_error *err)
{
	unsigned char *block = rp_alloc(BLOCK);
	if (block == NULL)
		return rp_no_memory(err, BLOCK, "hashing");
	rp_code rc = RP_OK;
	for (uint64_t done = 0; done < c->size && rc == RP_OK;) {
		size_t want = c->size - done < BLOCK ? (size_t)(c->size - done) : BLOCK;
		ssize_t n = pread(fd, block, want, (off_t)(c->offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = rp_fail_errno(err, RP_READ, errno, "%s: cannot read it back", name);
		else if (n == 0)
			rc = rp_fail(err, RP_READ, "%s: ends %llu bytes before it should", name, (unsigned long long)(c->size - done));
		else if (!feed(h, block, (size_t)n))
			rc = rp_fail(err, RP_INTERNAL, "%s: libcrypto does not hash", name);
		done += n > 0 ? (uint64_t)n : 0;
	}
	free(block);
	return rc;
}

rp_code rp_check_fd(int fd, const char *name, const rp_check *c, rp_error *err)
{
	hasher h;
	unsigned char real[EVP_MAX_MD_SIZE];
	char a[RP_HASH_HEX], b[RP_HASH_HEX], where[80] = "the file";
	rp_code rc = begin(&h, c) ? feed_file(&h, fd, name, c, err) : rp_fail(err, RP_UNSUPPORTED, "%s: libcrypto has no %s here", name,
		rp_check_word(c->kind));
	if (rc == RP_OK && !end(&h, real))
		rc = rp_fail(err, RP_INTERNAL, "%s: libcrypto does not hash", name);
	EVP_MD_CTX_free(h.evp);
	if (rc != RP_OK || memcmp(real, c->digest, digest_bytes(c)) == 0)
		return rc;
	if (c->offset > 0)
		snprintf(where, sizeof where, "%llu bytes at %llu", (unsigned long long)c->size, (unsigned long long)c->offset);
	return rp_fail(err, RP_HASH, "%s: %s has %s %s, expected %s", name, where, rp_check_word(c->kind), rp_hex(a, real, digest_bytes(c)),
		rp_hex(b, c->digest, digest_bytes(c)));
}
