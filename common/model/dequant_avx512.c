#include "model/dequant_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))

typedef int32_t ints16 __attribute__((vector_size(64)));

TARGET static inline ints16 widen(bytes16 q, unsigned i)
{
	(void)i;
	return (ints16)_mm512_cvtepu8_epi32((__m128i)q);
}

TARGET static inline void f16_8(float *out, const uint8_t *p)
{
	_mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)));
}

#define NAME(x) x##_avx512
#define WIDE 16
#define WIDEN widen
#define F16 _cvtsh_ss
#define F16_8 f16_8
#include "model/dequant_impl.h"
#else
typedef int rp_dequant_avx512_unused; /* a translation unit may not be empty */
#endif
