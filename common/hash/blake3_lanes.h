/* BLAKE3 compression over LANES inputs at once, one input a lane of a vector. Included once for each width by a file that defines
 * LANES, VEC_BYTES, TARGET (a function attribute), and NAME(x). Written with the compilers' vector extension, so that one source
 * serves 4, 8 and 16 lanes; rotations by 16 and 8 are byte shuffles where that is one instruction.
 */
#include "blake3_impl.h"

#include <string.h>

typedef uint32_t vec __attribute__((vector_size(VEC_BYTES)));

#define ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

#define MIX(a, b, c, d, x, y)   \
	do {                        \
		a = a + (x) + b;        \
		d ^= a;                 \
		d = ROTATE16(d);        \
		c += d;                 \
		b ^= c;                 \
		b = ROTATE(b, 12);      \
		a = a + (y) + b;        \
		d ^= a;                 \
		d = ROTATE8(d);         \
		c += d;                 \
		b ^= c;                 \
		b = ROTATE(b, 7);       \
	} while (0)

/* One round; the arguments are the message words in the round's order (the specification's permutation, applied by hand:
 * constant indices keep the words in registers). */
#define ROUND(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, aa, ab, ac, ad, ae, af) \
	do {                                                                      \
		MIX(v[0], v[4], v[8], v[12], m[a0], m[a1]);                           \
		MIX(v[1], v[5], v[9], v[13], m[a2], m[a3]);                           \
		MIX(v[2], v[6], v[10], v[14], m[a4], m[a5]);                          \
		MIX(v[3], v[7], v[11], v[15], m[a6], m[a7]);                          \
		MIX(v[0], v[5], v[10], v[15], m[a8], m[a9]);                          \
		MIX(v[1], v[6], v[11], v[12], m[aa], m[ab]);                          \
		MIX(v[2], v[7], v[8], v[13], m[ac], m[ad]);                           \
		MIX(v[3], v[4], v[9], v[14], m[ae], m[af]);                           \
	} while (0)

#define SEVEN_ROUNDS()                                                \
	do {                                                              \
		ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);  \
		ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8);  \
		ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1);  \
		ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6);  \
		ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4);  \
		ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7);  \
		ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13);  \
	} while (0)

/* cv holds the chaining values and receives the new ones; m is the transposed block. Written out, not looped: an array
 * indexed by a loop would live in memory. */
TARGET static inline void NAME(compress)(vec cv[8], const vec m[16], vec low, vec high, uint32_t flags)
{
	const vec zero = { 0 };
	vec v[16] = { cv[0], cv[1], cv[2], cv[3], cv[4], cv[5], cv[6], cv[7], zero + rp_blake3_iv[0], zero + rp_blake3_iv[1],
		zero + rp_blake3_iv[2], zero + rp_blake3_iv[3], low, high, zero + (uint32_t)BLOCK_BYTES, zero + flags };
	SEVEN_ROUNDS();
	cv[0] = v[0] ^ v[8], cv[1] = v[1] ^ v[9], cv[2] = v[2] ^ v[10], cv[3] = v[3] ^ v[11];
	cv[4] = v[4] ^ v[12], cv[5] = v[5] ^ v[13], cv[6] = v[6] ^ v[14], cv[7] = v[7] ^ v[15];
}

/* m[w] lane l = word w of the 64 bytes at in + l * stride. The hardware prefetchers do not follow this many streams. */
TARGET static inline void NAME(load)(vec m[16], const unsigned char *in, size_t stride)
{
	for (size_t l = 0; l < LANES; l++)
		__builtin_prefetch(in + l * stride + 4 * BLOCK_BYTES);
	for (size_t part = 0; part < 16; part += LANES) {
		vec row[LANES];
		for (size_t l = 0; l < LANES; l++)
			memcpy(&row[l], in + l * stride + 4 * part, sizeof(vec));
		TRANSPOSE(row);
		for (size_t l = 0; l < LANES; l++)
			m[part + l] = row[l];
	}
}

TARGET static inline void NAME(store)(vec cv[8], uint32_t out[][8])
{
	for (size_t w = 0; w < 8; w++)
		for (size_t l = 0; l < LANES; l++)
			out[l][w] = cv[w][l];
}

TARGET static void NAME(chunks)(const unsigned char *in, uint64_t counter, uint32_t out[][8])
{
	vec cv[8], m[16], low, high, zero = { 0 };
	for (size_t l = 0; l < LANES; l++) {
		low[l] = (uint32_t)(counter + l);
		high[l] = (uint32_t)((counter + l) >> 32);
	}
	for (size_t i = 0; i < 8; i++)
		cv[i] = zero + rp_blake3_iv[i];
	for (uint32_t block = 0; block < BLOCKS_A_CHUNK; block++) {
		uint32_t flags = block == 0 ? CHUNK_START : block == BLOCKS_A_CHUNK - 1 ? CHUNK_END : 0;
		NAME(load)(m, in + block * BLOCK_BYTES, RP_BLAKE3_CHUNK);
		NAME(compress)(cv, m, low, high, flags);
	}
	NAME(store)(cv, out);
}

TARGET static void NAME(parents)(const uint32_t in[][8], uint32_t out[][8])
{
	vec cv[8], m[16], zero = { 0 };
	for (size_t i = 0; i < 8; i++)
		cv[i] = zero + rp_blake3_iv[i];
	NAME(load)(m, (const unsigned char *)in, BLOCK_BYTES);
	NAME(compress)(cv, m, zero, zero, PARENT);
	NAME(store)(cv, out);
}
