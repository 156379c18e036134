#include "blake3_impl.h"

#if defined(__x86_64__)
#define LANES 4
#define VEC_BYTES 16
#define TARGET __attribute__((target("sse4.1")))
#define NAME(x) sse41_##x
#define ROTATE16(x) ((vec)((x) >> 16 | (x) << 16))
#define ROTATE8(x) ((vec)((x) >> 8 | (x) << 24))
#define MERGE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define TRANSPOSE(r)                                                                                  \
	do {                                                                                              \
		vec t0 = MERGE(r[0], r[1], 0, 4, 1, 5), t1 = MERGE(r[0], r[1], 2, 6, 3, 7);                   \
		vec t2 = MERGE(r[2], r[3], 0, 4, 1, 5), t3 = MERGE(r[2], r[3], 2, 6, 3, 7);                   \
		r[0] = MERGE(t0, t2, 0, 1, 4, 5);                                                             \
		r[1] = MERGE(t0, t2, 2, 3, 6, 7);                                                             \
		r[2] = MERGE(t1, t3, 0, 1, 4, 5);                                                             \
		r[3] = MERGE(t1, t3, 2, 3, 6, 7);                                                             \
	} while (0)
#include "blake3_lanes.h"

const blake3_path rp_blake3_sse41 = { "sse4.1", LANES, sse41_chunks, sse41_parents };
#else
typedef int rp_blake3_sse41_unused; /* a translation unit may not be empty */
#endif
