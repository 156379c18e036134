/* Products for any processor, and the choice among the levels. */
#define TARGET
#define NAME(x) x##_portable
#define WIDE 4
#define X_TILE 1
#include "infer/dots_impl.h"

rp_dots_fn *rp_dots_best(void)
{
	static rp_dots_fn *const levels[RP_CPU_LEVELS] = {
		[RP_CPU_PORTABLE] = rp_dots_portable,
		[RP_CPU_SSE41] = rp_dots_portable,
#if defined(__x86_64__)
		[RP_CPU_AVX2] = rp_dots_avx2,
		[RP_CPU_AVX512] = rp_dots_avx512,
#endif
	};
	return levels[rp_cpu_best()];
}
