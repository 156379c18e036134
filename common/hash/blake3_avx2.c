#include "blake3_impl.h"

#if defined(__x86_64__)
#define LANES 8
#define VEC_BYTES 32
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
typedef unsigned char bytes32 __attribute__((vector_size(32)));
#define SHUFFLE_BYTES(x, ...) ((vec)__builtin_shufflevector((bytes32)(x), (bytes32)(x), __VA_ARGS__))
#define ROTATE16(x) \
	SHUFFLE_BYTES(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 18, 19, 16, 17, 22, 23, 20, 21, 26, 27, 24, 25, 30, 31, 28, 29)
#define ROTATE8(x) \
	SHUFFLE_BYTES(x, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 17, 18, 19, 16, 21, 22, 23, 20, 25, 26, 27, 24, 29, 30, 31, 28)
#define MERGE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
/* Pairs within 128-bit halves, then pairs of pairs, then the halves themselves: the shuffles AVX2 has. */
#define LOW32(a, b) MERGE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH32(a, b) MERGE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW64(a, b) MERGE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH64(a, b) MERGE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW128(a, b) MERGE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH128(a, b) MERGE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define TRANSPOSE(r)                                                                                              \
	do {                                                                                                          \
		vec a0 = LOW32(r[0], r[1]), a1 = HIGH32(r[0], r[1]), a2 = LOW32(r[2], r[3]), a3 = HIGH32(r[2], r[3]);     \
		vec a4 = LOW32(r[4], r[5]), a5 = HIGH32(r[4], r[5]), a6 = LOW32(r[6], r[7]), a7 = HIGH32(r[6], r[7]);     \
		vec b0 = LOW64(a0, a2), b1 = HIGH64(a0, a2), b2 = LOW64(a1, a3), b3 = HIGH64(a1, a3);                     \
		vec b4 = LOW64(a4, a6), b5 = HIGH64(a4, a6), b6 = LOW64(a5, a7), b7 = HIGH64(a5, a7);                     \
		r[0] = LOW128(b0, b4), r[4] = HIGH128(b0, b4);                                                            \
		r[1] = LOW128(b1, b5), r[5] = HIGH128(b1, b5);                                                            \
		r[2] = LOW128(b2, b6), r[6] = HIGH128(b2, b6);                                                            \
		r[3] = LOW128(b3, b7), r[7] = HIGH128(b3, b7);                                                            \
	} while (0)
#include "blake3_lanes.h"

const blake3_path rp_blake3_avx2 = { "avx2", LANES, avx2_chunks, avx2_parents };
#else
typedef int rp_blake3_avx2_unused; /* a translation unit may not be empty */
#endif
