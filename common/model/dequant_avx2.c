#include "model/dequant_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c")))

typedef int32_t ints8 __attribute__((vector_size(32)));

TARGET static inline ints8 widen(bytes16 q, unsigned i)
{
	__m128i v = (__m128i)q;
	return (ints8)_mm256_cvtepu8_epi32(i == 0 ? v : _mm_srli_si128(v, 8));
}

TARGET static inline void f16_8(float *out, const uint8_t *p)
{
	_mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)));
}

#define NAME(x) x##_avx2
#define WIDE 8
#define WIDEN widen
#define F16 _cvtsh_ss
#define F16_8 f16_8
#include "model/dequant_impl.h"
#else
typedef int rp_dequant_avx2_unused; /* a translation unit may not be empty */
#endif
