/* The body of rp_dots_fn, compiled once a level: the including file defines TARGET (an attribute of every function), NAME, WIDE
 * (floats of a vector, a divisor of 16) and X_TILE (rows of x side by side, by the number of registers). A product keeps 16
 * running sums in 16 / WIDE vectors. */
#include "infer/dots.h"

#include <string.h>

typedef float vec __attribute__((vector_size(WIDE * sizeof(float))));
typedef float quarter __attribute__((vector_size(4 * sizeof(float))));
enum { SUMS = 16, PARTS = SUMS / WIDE };

TARGET static inline vec load(const float *p)
{
	vec v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* The 16 sums in the order of rp_ref_dot: halves onto each other until one is left. */
TARGET static inline float fold(const vec acc[PARTS])
{
	quarter q[4];
	memcpy(q, acc, sizeof q);
	quarter s = (q[0] + q[2]) + (q[1] + q[3]);
	return (s[0] + s[2]) + (s[1] + s[3]);
}

/* n_w x n_x products; both are constants where this is inlined. */
TARGET static inline __attribute__((always_inline)) void tile(
	float *out, size_t out_stride, const float *w, size_t n_w, const float *x, size_t x_stride, size_t n_x, size_t n)
{
	vec acc[X_TILE][RP_DOTS_ROWS][PARTS];
	size_t i = 0;
	for (size_t r = 0; r < n_x; r++)
		for (size_t j = 0; j < n_w; j++)
			for (size_t p = 0; p < PARTS; p++)
				acc[r][j][p] = (vec){ 0 };
	for (; i + SUMS <= n; i += SUMS)
		for (size_t p = 0; p < PARTS; p++) {
			vec wv[RP_DOTS_ROWS];
			for (size_t j = 0; j < n_w; j++)
				wv[j] = load(w + j * n + i + p * WIDE);
			for (size_t r = 0; r < n_x; r++) {
				vec xv = load(x + r * x_stride + i + p * WIDE);
				for (size_t j = 0; j < n_w; j++)
					acc[r][j][p] += xv * wv[j];
			}
		}
	for (size_t r = 0; r < n_x; r++)
		for (size_t j = 0; j < n_w; j++) {
			float tail = 0;
			for (size_t k = i; k < n; k++)
				tail += x[r * x_stride + k] * w[j * n + k];
			out[r * out_stride + j] = fold(acc[r][j]) + tail;
		}
}

TARGET void NAME(rp_dots)(float *out, size_t out_stride, const float *w, size_t n_w, const float *x, size_t x_stride, size_t rows, size_t n)
{
	size_t r = 0;
	if (n_w == RP_DOTS_ROWS) {
		for (; r + X_TILE <= rows; r += X_TILE)
			tile(out + r * out_stride, out_stride, w, RP_DOTS_ROWS, x + r * x_stride, x_stride, X_TILE, n);
		for (; r < rows; r++)
			tile(out + r * out_stride, out_stride, w, RP_DOTS_ROWS, x + r * x_stride, x_stride, 1, n);
		return;
	}
	for (; r < rows; r++)
		for (size_t j = 0; j < n_w; j++)
			tile(out + r * out_stride + j, out_stride, w + j * n, 1, x + r * x_stride, x_stride, 1, n);
}
