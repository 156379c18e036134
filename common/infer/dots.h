/* dots: rows of weights times rows of activations, for the CPU engine. Private to infer/.
 *
 * Every form sums in the order of rp_ref_dot (ops.h) with a separate multiplication and addition, so all processors give the
 * same bits. */
#ifndef RP_DOTS_H
#define RP_DOTS_H

#include "base/cpu.h"

#include <stddef.h>

enum { RP_DOTS_ROWS = 4 }; /* rows of weights at a time, at most */

/* out[r * out_stride + j] = w row j . x row r, for j < n_w <= RP_DOTS_ROWS and r < rows. w [n_w, n] packed, x rows x_stride
 * floats apart; nothing overlaps. */
typedef void rp_dots_fn(float *out, size_t out_stride, const float *w, size_t n_w, const float *x, size_t x_stride, size_t rows, size_t n);

rp_dots_fn *rp_dots_best(void); /* the form for this processor */
rp_dots_fn rp_dots_portable, rp_dots_avx2, rp_dots_avx512;

#endif
