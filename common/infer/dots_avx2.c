#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#define WIDE 8
#define X_TILE 1
#include "infer/dots_impl.h"
#else
typedef int rp_dots_avx2_unused; /* a translation unit may not be empty */
#endif
