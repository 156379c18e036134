/* The forms of rp_dequant (model.h), and the vectors they decode. Private to model/. */
#ifndef RP_DEQUANT_LEVELS_H
#define RP_DEQUANT_LEVELS_H

#include "model/model.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));

void rp_dequant_portable(rp_dtype t, const void *src, uint64_t n, float *dst);
void rp_dequant_avx2(rp_dtype t, const void *src, uint64_t n, float *dst);
void rp_dequant_avx512(rp_dtype t, const void *src, uint64_t n, float *dst);

#endif
