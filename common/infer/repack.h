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

/* Angles of positions [0, n_pos): out[(p * n_freqs + i) * 2] = cos, then sin, of (float)p * freqs[i]. */
void rp_rope_table(const float *freqs, uint32_t n_freqs, uint32_t n_pos, float *out);

#endif
