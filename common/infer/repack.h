/* repack: what the host computes before a kernel can read it: weight rows in the layout of spirv/wgsl/README.md, rope angles.
 */
#ifndef RP_REPACK_H
#define RP_REPACK_H

#include "model/model.h"

/* Bytes of one repacked row of k values, a multiple of 16; false for RP_OTHER, k of 0 or overflow. */
bool rp_repack_stride(rp_dtype t, uint64_t k, uint64_t *bytes);

/* Repack n rows of k values from src (blocks as in the file, n * rp_dtype_row_bytes) to dst (n * rp_repack_stride). They do
 * not overlap. Any alignment of src. For a type and k that rp_repack_stride accepts. */
void rp_repack_rows(rp_dtype t, const void *src, uint64_t n, uint64_t k, void *dst);

/* Angles of positions [0, n_pos): out[(p * rotary_dim / 2 + i) * 2] = cos, then sin, of p * theta^(-2i / rotary_dim) / divisor[i].
 * divisors [rotary_dim / 2] may be NULL. Frequencies and products are rounded to float32 as the published models do. */
void rp_rope_table(float theta, uint32_t rotary_dim, const float *divisors, uint32_t n_pos, float *out);

#endif
