#include "model/dequant_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c")))
#define NAME(x) x##_avx2
#define WIDE 8
#define HARDWARE_F16 _cvtsh_ss
#include "model/dequant_impl.h"
#else
typedef int rp_dequant_avx2_unused; /* a translation unit may not be empty */
#endif
