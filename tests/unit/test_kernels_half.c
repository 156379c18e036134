/* Products on matrix units: rows as halves, then half_matmul in every storage type, shape and form, against rp_dequant and double sums.
 * Halves have 11 bits, so the bound is far below the 5e-4 that quantised inputs are allowed. */
#include "kernel_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double BOUND = 5e-6; /* about 2e-7 is expected; the smallest cases are five sums that may cancel */

/* The variant whose matrices the device offers; skips the test when it offers none. */
static const char *variant(const char *name, uint32_t *side)
{
	static char full[64];
	rig_ready();
	for (*side = 16; *side >= 8; *side /= 2) {
		rp_kernel_matrix m = { 'h', 'f', *side, *side, *side };
		snprintf(full, sizeof full, "%s_m%u", name, *side);
		if (rp_vk_has_matrix(rig_device(), &m) && rig_has(full))
			return full;
	}
	printf("SKIP: %s has no matrices of 16 or 8 halves\n", rig_device()->name);
	skip();
	return NULL;
}

/* ---- rows as halves ---- */
typedef struct halves {
	uint32_t *y;  /* [rows][stride / 2] */
	float *scale; /* [rows] */
} halves;

static double silu(double v)
{
	return v / (1 + exp(-v));
}

static halves half_rows(const rp_args_half_rows *a, uint32_t op, uint32_t rows, const float *x, const float *b, const float *w, size_t n_w)
{
	size_t n = (size_t)rows * a->k, n_y = (size_t)rows * a->stride / 2;
	halves h = { rp_alloc_array(n_y, sizeof *h.y), rp_alloc_array(rows, sizeof *h.scale) };
	assert_true(h.y != NULL && h.scale != NULL);
	rp_vk_const consts[] = { { "WG", 64 }, { "OP", op } };
	rig_arg args[] = { RIG_IN(x, n), RIG_IN(b, n), RIG_IN(w, n_w), RIG_OUT(h.y, n_y), RIG_OUT(h.scale, rows) };
	rig_run(&(rig_call){ "half_rows", consts, 2, a, sizeof *a, (rp_grid){ rows, 1, 1 }, args, 5 });
	return h;
}

static void halves_free(halves h)
{
	free(h.y);
	free(h.scale);
}

static double half_value(const halves *h, uint32_t stride, uint32_t row, uint32_t j)
{
	uint32_t word = h->y[((size_t)row * stride + j) / 2];
	return (double)rp_f16_to_f32((uint16_t)(j % 2 ? word >> 16 : word)) * (double)h->scale[row];
}

static void expected_rows(const rp_args_half_rows *a, uint32_t op, const float *x, const float *b, const float *w, double *out)
{
	uint32_t run = op == RP_HALF_GATED_NORM ? a->group : a->k;
	for (uint32_t j = 0; j < a->k; j++) {
		double v = x[j], sum = 0;
		for (uint32_t i = j / run * run; i < j / run * run + run; i++)
			sum += (double)x[i] * x[i];
		double norm = 1 / sqrt(sum / run + (double)a->eps);
		out[j] = op == RP_HALF_NORM ? v * norm * ((double)w[j] + (double)a->w_offset)
			: op == RP_HALF_SIGMOID_MUL ? v / (1 + exp(-(double)b[j]))
			: op == RP_HALF_SILU_MUL ? silu(v) * b[j]
			: op == RP_HALF_GATED_NORM ? v * norm * w[j % run] * silu(b[j]) : v;
	}
}

/* Every form, with rows of very different size, outliers in them, and one of zeros. */
static void rows_as_halves(void **state)
{
	const struct { uint32_t k, stride, group; } cases[] = { { 36, 64, 12 }, { 1024, 1024, 128 }, { 700, 768, 4 } };
	enum { ROWS = 7 };
	(void)state;
	rig_ready();
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
		for (uint32_t op = 0; op <= RP_HALF_GATED_NORM; op++) {
			rp_args_half_rows a = { cases[c].k, cases[c].stride, cases[c].group, 1e-6f, op == RP_HALF_NORM ? 1.0f : 0.0f };
			float *x = rig_floats((size_t)ROWS * a.k, 1.0f), *b = rig_floats((size_t)ROWS * a.k, 2.0f), *w = rig_floats(a.k, 1.0f);
			const float sizes[ROWS] = { 1, 1e-6f, 3e6f, 0, 1e-20f, 40, 1 };
			for (uint32_t r = 0; r < ROWS; r++)
				for (uint32_t j = 0; j < a.k; j++)
					x[r * a.k + j] *= sizes[r] * (r == 6 && j == 5 ? 5000.0f : 1.0f);
			halves h = half_rows(&a, op, ROWS, x, b, w, a.k);
			double *want = rp_alloc_array(a.k, sizeof *want);
			float *got = rp_alloc_array(a.k, sizeof *got);
			assert_true(want != NULL && got != NULL);
			for (uint32_t r = 0; r < ROWS; r++) {
				char what[80];
				expected_rows(&a, op, x + (size_t)r * a.k, b + (size_t)r * a.k, w, want);
				for (uint32_t j = 0; j < a.k; j++)
					got[j] = (float)half_value(&h, a.stride, r, j);
				snprintf(what, sizeof what, "half_rows op %u k %u row %u", op, a.k, r);
				rig_close(what, rig_nmse(got, want, a.k), r == 3 ? 1e-12 : 2e-7);
				for (uint32_t j = a.k; j < a.stride; j++)
					assert_true(half_value(&h, a.stride, r, j) == 0.0);
			}
			free(want);
			free(got);
			halves_free(h);
			free(x);
			free(b);
			free(w);
		}
}

/* ---- products ---- */
enum { NO_RESIDUAL, IN_PLACE, SEPARATE };

typedef struct product {
	uint32_t rows, residual;
	rp_half_shape shape;
	bool glu;
} product;

static void describe(char *what, size_t n, const rig_matrix *w, const product *c)
{
	const rp_half_shape *s = &c->shape;
	snprintf(what, n, "%s n %u k %u rows %u residual %u glu %d, %u x %u subgroups of %u x %u, %u units, %u buffers",
		rp_dtype_get(w->type)->name, w->n, w->k, c->rows, c->residual, c->glu, s->sub_m, s->sub_n, s->tile_m, s->tile_n, s->units,
		s->buffers);
}

static double row_by_row(const float *x, const float *w, uint32_t k)
{
	double sum = 0;
	for (uint32_t i = 0; i < k; i++)
		sum += (double)x[i] * w[i];
	return sum;
}

static void check_product(const rig_matrix *w, const rig_matrix *up, const product *c)
{
	enum { EXTRA = 3 }; /* columns of y on either side that belong to other ranges */
	uint32_t side = 0, width = w->n + 2 * EXTRA, units = rp_units(w->type, w->k), sg = 0;
	size_t ny = (size_t)c->rows * width;
	const char *kernel = variant("half_matmul", &side);
	sg = rig_device()->subgroup_size;
	if (!rp_half_possible(&c->shape, side, sg))
		fail_msg("a shape that the kernel cannot take");
	float *x = rig_floats((size_t)c->rows * w->k, 1.0f), *y = rig_floats(ny, 1.0f), *res = rig_floats(ny, 1.0f);
	double *want = rp_alloc_array(ny, sizeof *want);
	assert_non_null(want);
	for (uint32_t r = 0; r < c->rows; r++)
		for (uint32_t j = 0; j < width; j++) {
			size_t at = (size_t)r * width + j;
			want[at] = y[at];
			if (j < EXTRA || j >= EXTRA + w->n)
				continue;
			double sum = row_by_row(x + (size_t)r * w->k, w->values + (size_t)(j - EXTRA) * w->k, w->k);
			if (c->glu)
				sum = silu(sum) * row_by_row(x + (size_t)r * w->k, up->values + (size_t)(j - EXTRA) * w->k, w->k);
			want[at] = sum + (c->residual == IN_PLACE ? (double)y[at] : c->residual == SEPARATE ? (double)res[at] : 0);
		}
	halves h = half_rows(&(rp_args_half_rows){ .k = w->k, .stride = 32 * units }, RP_HALF_COPY, c->rows, x, x, x, w->k);
	rp_args_half_matmul p = { .n = w->n, .n_rows = c->rows, .units = units, .blocks = rp_blocks(w->type, w->k), .w_base = RIG_GAP,
		.w_stride = w->stride, .y_first = EXTRA, .y_stride = width };
	const rp_half_shape *s = &c->shape;
	rp_vk_const consts[] = { { "QUANT", (uint32_t)w->type }, { "RESIDUAL", c->residual }, { "GLU", c->glu }, { "SG", sg },
		{ "WG", s->sub_m * s->sub_n * sg }, { "SUB_M", s->sub_m }, { "SUB_N", s->sub_n }, { "TILE_M", s->tile_m }, { "TILE_N", s->tile_n },
		{ "UNITS", s->units }, { "BUFFERS", s->buffers } };
	rig_arg args[] = { RIG_IN(h.y, (size_t)c->rows * 16 * units), RIG_IN(h.scale, c->rows), RIG_IN(w->repacked, w->bytes),
		RIG_IN(up->repacked, up->bytes), RIG_OUT(y, ny), c->residual == SEPARATE ? RIG_IN(res, ny) : RIG_IN(h.scale, c->rows) };
	rig_run_subgroup(&(rig_call){ kernel, consts, sizeof consts / sizeof *consts, &p, sizeof p, rp_grid_half_matmul(&p, s, side, c->glu), args,
		6 });
	char what[200];
	describe(what, sizeof what, w, c);
	rig_close(what, rig_nmse(y, want, ny), BOUND);
	for (uint32_t r = 0; r < c->rows; r++) /* other ranges' columns are untouched */
		for (uint32_t j = 0; j < EXTRA; j++) {
			assert_true((double)y[(size_t)r * width + j] == want[(size_t)r * width + j]);
			assert_true((double)y[(size_t)r * width + width - 1 - j] == want[(size_t)r * width + width - 1 - j]);
		}
	halves_free(h);
	free(x);
	free(y);
	free(res);
	free(want);
}

/* Every type with the shortest row, one of whole blocks and, where there is such a thing, one that ends inside a block or unit;
 * n is no multiple of anything. The forms take turns, because each is a pipeline to compile. */
static void types(void **state)
{
	static const product forms[] = {
		{ 33, NO_RESIDUAL, { 1, 1, 2, 2, 1, 1 }, false }, { 5, IN_PLACE, { 1, 2, 1, 1, 2, 2 }, false },
		{ 65, SEPARATE, { 2, 2, 2, 1, 1, 2 }, false }, { 16, NO_RESIDUAL, { 1, 2, 1, 2, 1, 1 }, true },
	};
	uint32_t side;
	size_t turn = 0;
	(void)state;
	variant("half_matmul", &side);
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		const uint32_t block = rp_dtype_get(t)->block_values;
		const uint32_t ks[] = { block == 1 ? 36 : block, block == 32 ? 32 * 19 : 512, 700 };
		for (size_t i = 0; i < (block == 32 ? 2 : 3); i++, turn++) {
			rig_matrix w = rig_matrix_new(t, i == 0 ? 1 : 37, ks[i]), up = rig_matrix_new(t, i == 0 ? 1 : 37, ks[i]);
			check_product(&w, &up, &forms[turn % (sizeof forms / sizeof *forms)]);
			rig_matrix_free(&w);
			rig_matrix_free(&up);
		}
	}
}

/* Shapes of tiles: whole tiles and ragged ones, more rows than a tile, all of the kernel's limits. */
static void shapes(void **state)
{
	static const rp_half_shape list[] = { { 1, 1, 1, 1, 1, 1 }, { 2, 2, 4, 4, 1, 1 }, { 1, 4, 4, 1, 1, 2 }, { 4, 1, 1, 4, 2, 1 },
		{ 2, 4, 2, 2, 2, 2 }, { 1, 2, 2, 3, 1, 1 } };
	uint32_t side;
	(void)state;
	variant("half_matmul", &side);
	rig_matrix w = rig_matrix_new(RP_Q4_K, 150, 512), up = rig_matrix_new(RP_Q4_K, 150, 512);
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		if (!rp_half_possible(&list[i], side, rig_device()->subgroup_size) || rp_half_memory(&list[i], side) > rig_device()->max_shared)
			continue;
		check_product(&w, &up, &(product){ 100, (uint32_t)(i % 3), list[i], false });
		if (list[i].tile_n % 2 == 0)
			check_product(&w, &up, &(product){ 64, NO_RESIDUAL, list[i], true });
	}
	rig_matrix_free(&w);
	rig_matrix_free(&up);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_as_halves),
		cmocka_unit_test(types),
		cmocka_unit_test(shapes),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
