#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define NAME(x) x##_avx512
#define WIDE 16
#define X_TILE 4
#include "infer/dots_impl.h"
#else
typedef int rp_dots_avx512_unused; /* a translation unit may not be empty */
#endif
