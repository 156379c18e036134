/* The forms of rp_dequant (model.h). Private to model/. */
#ifndef RP_DEQUANT_LEVELS_H
#define RP_DEQUANT_LEVELS_H

#include "model/model.h"

void rp_dequant_portable(rp_dtype t, const void *src, uint64_t n, float *dst);
void rp_dequant_avx2(rp_dtype t, const void *src, uint64_t n, float *dst);
void rp_dequant_avx512(rp_dtype t, const void *src, uint64_t n, float *dst);

#endif
