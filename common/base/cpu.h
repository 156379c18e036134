/* cpu: which vector instructions this processor has. Code that comes in several forms gives the same result in each. */
#ifndef RP_CPU_H
#define RP_CPU_H

typedef enum rp_cpu_level {
	RP_CPU_PORTABLE, /* what the compiler was told to build for */
	RP_CPU_SSE41,
	RP_CPU_AVX2,     /* without fused multiply-add: that rounds differently */
	RP_CPU_AVX512,   /* F, BW, DQ, VL */
	RP_CPU_LEVELS
} rp_cpu_level;

rp_cpu_level rp_cpu_best(void); /* the highest this processor and system have, or the limit if that is lower */
/* For tests and comparisons: nothing above this level from now on. Not while other threads compute. */
void rp_cpu_limit(rp_cpu_level most);
const char *rp_cpu_level_name(rp_cpu_level level); /* "portable", "sse4.1", "avx2", "avx512" */

#endif
