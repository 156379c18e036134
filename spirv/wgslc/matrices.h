/* matrices: products of subgroup matrices in a SPIR-V module. Older SPIRV-Cross knows nothing of them. */
#ifndef WGSLC_MATRICES_H
#define WGSLC_MATRICES_H

#include "base/base.h"

/* Appends `["f16", "f32", m, n, k]` for each different OpCooperativeMatrixMulAddKHR: components of factors and sum, then sizes. */
rp_code spirv_matrices(const uint32_t *words, size_t n, rp_buf *out, rp_error *err);

/* A copy of the module with every OpTypeCooperativeMatrixKHR replaced by a vector type, so that SPIRV-Cross reads the rest. free() it;
 * NULL when memory is short. */
uint32_t *spirv_without_matrices(const uint32_t *words, size_t n);

#endif
