#include "model/dequant_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define NAME(x) x##_avx512
#define WIDE 16
#define HARDWARE_F16 _cvtsh_ss
#include "model/dequant_impl.h"
#else
typedef int rp_dequant_avx512_unused; /* a translation unit may not be empty */
#endif
