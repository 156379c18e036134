/* hash: SHA-256 (libcrypto), BLAKE3 (ours: no package has it everywhere), and the trees built on them.
 *
 * BLAKE3 follows the specification "BLAKE3: one function, fast everywhere" (O'Connor, Aumasson, Neves, Wilcox-O'Hearn);
 * only the plain hash mode is here (no key, no key derivation). The widest SIMD the processor has is chosen at run time.
 */
#ifndef RP_HASH_H
#define RP_HASH_H

#include "base/base.h"

enum { RP_HASH_BYTES = 32, RP_HASH_HEX = 65 }; /* hex with its NUL */

/* Lower-case hex of n bytes into out[2n + 1]. Returns out. */
char *rp_hex(char *out, const void *bytes, size_t n);
/* Exactly 2n hex digits of either case into out[n]; false otherwise (out undefined). */
bool rp_unhex(void *out, size_t n, const char *hex, size_t hex_len);

/* ---- SHA-256 ---- */
typedef struct rp_sha256 rp_sha256;
rp_code rp_sha256_new(rp_sha256 **out, rp_error *err); /* ready for update */
void rp_sha256_free(rp_sha256 *h);
void rp_sha256_reset(rp_sha256 *h);
void rp_sha256_update(rp_sha256 *h, const void *data, size_t n);
void rp_sha256_final(rp_sha256 *h, unsigned char out[RP_HASH_BYTES]); /* reset before the next use */
void rp_sha256_once(const void *data, size_t n, unsigned char out[RP_HASH_BYTES]);

/* ---- BLAKE3 ---- */
enum { RP_BLAKE3_CHUNK = 1024 };

typedef struct rp_blake3 {
	uint32_t stack[54][8]; /* chaining values of finished subtrees, left to right; 2^54 chunks is the format's limit */
	uint32_t n_stack;
	uint64_t chunks; /* finished chunks, all of them in the stack */
	unsigned char pending[RP_BLAKE3_CHUNK]; /* the chunk being filled: the last one is never finished before final */
	size_t n_pending;
} rp_blake3;

void rp_blake3_init(rp_blake3 *h);
void rp_blake3_update(rp_blake3 *h, const void *data, size_t n);
void rp_blake3_final(const rp_blake3 *h, void *out, size_t n); /* any output length; h may go on */
void rp_blake3_once(const void *data, size_t n, unsigned char out[RP_HASH_BYTES]);

/* Hash parts of one input on several threads: the chaining value of a subtree of 2^k whole chunks (n = 1024 << k) that starts
 * at chunk first_chunk, a multiple of 2^k. Then push the values in order; push what follows, or update the rest. The input's
 * last chunk must come by update, so a subtree that ends the input is only for callers that know more bytes follow. */
void rp_blake3_subtree(const void *data, size_t n, uint64_t first_chunk, uint32_t cv[8]);
/* h must be at a chunk that is a multiple of the subtree's size, with nothing pending. */
void rp_blake3_push(rp_blake3 *h, const uint32_t cv[8], uint64_t n_chunks);

/* Name of the code path in use ("avx512", "avx2", "sse4.1", "portable"), and a way for tests to force one. False when this
 * processor lacks it. Not thread-safe: call before hashing starts. */
const char *rp_blake3_path(void);
bool rp_blake3_force(const char *path); /* NULL: back to the best */

#endif
