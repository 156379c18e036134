#include "base/cpu.h"

#include <stdbool.h>

static rp_cpu_level limit = RP_CPU_LEVELS - 1;

static bool has(rp_cpu_level level)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (level == RP_CPU_AVX512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
			__builtin_cpu_supports("avx512vl");
	if (level == RP_CPU_SSE41)
		return __builtin_cpu_supports("sse4.1");
	if (level == RP_CPU_AVX2) /* every processor that has it converts halves too */
		return __builtin_cpu_supports("avx2");
#endif
	return level == RP_CPU_PORTABLE;
}

rp_cpu_level rp_cpu_best(void)
{
	rp_cpu_level level = limit;
	while (!has(level))
		level--;
	return level;
}

void rp_cpu_limit(rp_cpu_level most)
{
	limit = most;
}

const char *rp_cpu_level_name(rp_cpu_level level)
{
	static const char *const names[RP_CPU_LEVELS] = {"portable", "sse4.1", "avx2", "avx512"};
	return names[level];
}
