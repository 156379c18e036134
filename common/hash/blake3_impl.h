/* Private to common/hash: what the BLAKE3 code paths share. */
#ifndef RP_BLAKE3_IMPL_H
#define RP_BLAKE3_IMPL_H

#include "hash.h"

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };
enum { BLOCK_BYTES = 64, BLOCKS_A_CHUNK = RP_BLAKE3_CHUNK / BLOCK_BYTES, MAX_LANES = 16 };

extern const uint32_t rp_blake3_iv[8];

/* One lane-parallel path: `lanes` whole chunks that lie one after another, first one number `counter`, into lanes chaining
 * values; and `lanes` parent blocks of 64 bytes each (two chaining values, little-endian words in memory). */
typedef struct blake3_path {
	const char *name;
	size_t lanes;
	void (*chunks)(const unsigned char *in, uint64_t counter, uint32_t out[][8]);
	void (*parents)(const uint32_t in[][8], uint32_t out[][8]); /* 2 * lanes values in, lanes out; out may be in */
} blake3_path;

extern const blake3_path rp_blake3_sse41, rp_blake3_avx2, rp_blake3_avx512;

#endif
