#include "blake3_impl.h"

#if defined(__x86_64__)
#define LANES 16
#define VEC_BYTES 64
#define TARGET __attribute__((target("avx512f,avx512bw")))
#define NAME(x) avx512_##x
#define ROTATE16(x) ROTATE(x, 16) /* one instruction here */
#define ROTATE8(x) ROTATE(x, 8)
#define MERGE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define LOW32(a, b) MERGE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH32(a, b) MERGE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
typedef uint64_t pairs __attribute__((vector_size(64))); /* spelt on 64-bit lanes: GCC finds the single instruction only then */
#define LOW64(a, b) ((vec)MERGE((pairs)(a), (pairs)(b), 0, 8, 2, 10, 4, 12, 6, 14))
#define HIGH64(a, b) ((vec)MERGE((pairs)(a), (pairs)(b), 1, 9, 3, 11, 5, 13, 7, 15))
#define EVEN128(a, b) MERGE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define ODD128(a, b) MERGE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
/* Four rows become, in each 128-bit quarter q, columns 4q .. 4q + 3 of those rows. */
#define QUARTERS(r, i, c)                                                                                                              \
	do {                                                                                                                               \
		vec a0 = LOW32(r[i], r[i + 1]), a1 = HIGH32(r[i], r[i + 1]), a2 = LOW32(r[i + 2], r[i + 3]), a3 = HIGH32(r[i + 2], r[i + 3]);  \
		c[i] = LOW64(a0, a2), c[i + 1] = HIGH64(a0, a2), c[i + 2] = LOW64(a1, a3), c[i + 3] = HIGH64(a1, a3);                          \
	} while (0)
#define COLUMNS(r, c, k)                                                                                                \
	do {                                                                                                                \
		vec e0 = EVEN128(c[k], c[k + 4]), o0 = ODD128(c[k], c[k + 4]);                                                  \
		vec e1 = EVEN128(c[k + 8], c[k + 12]), o1 = ODD128(c[k + 8], c[k + 12]);                                        \
		r[k] = EVEN128(e0, e1), r[k + 8] = ODD128(e0, e1), r[k + 4] = EVEN128(o0, o1), r[k + 12] = ODD128(o0, o1);      \
	} while (0)
#define TRANSPOSE(r)                                                                            \
	do {                                                                                        \
		vec c[16];                                                                              \
		QUARTERS(r, 0, c);                                                                      \
		QUARTERS(r, 4, c);                                                                      \
		QUARTERS(r, 8, c);                                                                      \
		QUARTERS(r, 12, c);                                                                     \
		COLUMNS(r, c, 0);                                                                       \
		COLUMNS(r, c, 1);                                                                       \
		COLUMNS(r, c, 2);                                                                       \
		COLUMNS(r, c, 3);                                                                       \
	} while (0)
#include "blake3_lanes.h"

const blake3_path rp_blake3_avx512 = { "avx512", LANES, avx512_chunks, avx512_parents };
#else
typedef int rp_blake3_avx512_unused; /* a translation unit may not be empty */
#endif
