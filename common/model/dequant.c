/* The decoders for any processor, and the choice among the levels. */
#include "base/cpu.h"
#include "model/dequant_levels.h"

typedef int32_t ints4 __attribute__((vector_size(16)));

static inline ints4 widen(bytes16 q, unsigned i)
{
	return (ints4){ q[i], q[i + 1], q[i + 2], q[i + 3] };
}

#define TARGET
#define NAME(x) x##_portable
#define WIDE 4
#define WIDEN widen
#include "model/dequant_impl.h"

void rp_dequant(rp_dtype t, const void *src, uint64_t n, float *dst)
{
	static void (*const levels[RP_CPU_LEVELS])(rp_dtype, const void *, uint64_t, float *) = {
		[RP_CPU_PORTABLE] = rp_dequant_portable,
		[RP_CPU_SSE41] = rp_dequant_portable,
#if defined(__x86_64__)
		[RP_CPU_AVX2] = rp_dequant_avx2,
		[RP_CPU_AVX512] = rp_dequant_avx512,
#endif
	};
	levels[rp_cpu_best()](t, src, n, dst);
}
