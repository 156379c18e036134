/* Matrix products and the embedding, every storage type and variant, against rp_dequant and double sums.
 * Products keep f32 all the way, so the bound is far below what quantised activations would need. */
#include "kernel_rig.h"

#include "infer/repack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NO_RESIDUAL, IN_PLACE, SEPARATE };

typedef struct product {
	const char *kernel;
	uint32_t rows, residual;
	rp_shape shape;
} product;

/* The bound: what double sums differ from float sums of k terms, generously; the worst types cancel (d q + m). */
static const double BOUND = 1e-11;

static void check_product(const rig_matrix *w, const product *c)
{
	enum { EXTRA = 3 }; /* columns of y on either side that belong to other ranges */
	uint32_t width = w->n + 2 * EXTRA;
	size_t ny = (size_t)c->rows * width;
	float *x = rig_floats((size_t)c->rows * w->k, 1.0f), *y = rig_floats(ny, 1.0f), *res = rig_floats(ny, 1.0f);
	double *want = rp_alloc_array(ny, sizeof *want);
	assert_non_null(want);
	for (uint32_t r = 0; r < c->rows; r++)
		for (uint32_t j = 0; j < width; j++) {
			size_t at = (size_t)r * width + j;
			want[at] = y[at];
			if (j < EXTRA || j >= EXTRA + w->n)
				continue;
			double sum = c->residual == IN_PLACE ? y[at] : c->residual == SEPARATE ? res[at] : 0;
			for (uint32_t i = 0; i < w->k; i++)
				sum += (double)x[(size_t)r * w->k + i] * w->values[(size_t)(j - EXTRA) * w->k + i];
			want[at] = sum;
		}
	rp_args_matmul p = { .k = w->k, .n = w->n, .n_rows = c->rows, .w_base = RIG_GAP, .w_stride = w->stride, .y_first = EXTRA,
		.y_stride = width };
	rp_vk_const consts[] = {
		{ "QUANT", (uint32_t)w->type },
		{ "RESIDUAL", c->residual },
		{ "K_TAIL", rp_k_tail(w->type, w->k) },
		{ "WG", c->shape.wg },
		{ "LANES", c->shape.lanes },
		{ "TILE_M", c->shape.tile_m },
	};
	bool tiled = strcmp(c->kernel, "matmul") == 0;
	rig_arg args[] = { RIG_IN(x, c->rows * w->k), RIG_IN(w->repacked, w->bytes), RIG_OUT(y, ny),
		c->residual == SEPARATE ? RIG_IN(res, ny) : RIG_IN(x, c->rows * w->k) };
	rp_grid grid = tiled ? rp_grid_matmul(&p) : rp_grid_matvec(&p, c->shape);
	rig_run(&(rig_call){ c->kernel, consts, tiled ? 3 : 6, &p, sizeof p, grid, args, 4 });
	char what[160];
	snprintf(what, sizeof what, "%s %s n %u k %u rows %u residual %u wg %u lanes %u tile %u", c->kernel,
		rp_dtype_get(w->type)->name, w->n, w->k, c->rows, c->residual, c->shape.wg, c->shape.lanes, c->shape.tile_m);
	rig_close(what, rig_nmse(y, want, ny), BOUND);
	for (uint32_t r = 0; r < c->rows; r++) /* other ranges' columns are untouched */
		for (uint32_t j = 0; j < EXTRA; j++) {
			assert_true((double)y[(size_t)r * width + j] == want[(size_t)r * width + j]);
			assert_true((double)y[(size_t)r * width + width - 1 - j] == want[(size_t)r * width + width - 1 - j]);
		}
	free(x);
	free(y);
	free(res);
	free(want);
}

typedef struct variation {
	uint32_t rows, residual;
	rp_shape shape;
} variation;

/* Every type with the shortest row, one of whole blocks and, where there is such a thing, one that ends inside a block or
 * unit; n is no multiple of anything. The variations take turns, because each is a pipeline to compile. */
static void each_type(const char *kernel, const variation *v, size_t n_variations)
{
	size_t turn = 0;
	rig_ready();
	if (!rig_has(kernel))
		skip();
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		const uint32_t block = rp_dtype_get(t)->block_values;
		const uint32_t ks[] = { block == 1 ? 36 : block, block == 32 ? 32 * 19 : 512, 700 };
		for (size_t i = 0; i < (block == 32 ? 2 : 3); i++, turn++) {
			const variation *one = &v[turn % n_variations];
			rig_matrix w = rig_matrix_new(t, i == 0 ? 1 : 37, ks[i]);
			check_product(&w, &(product){ kernel, one->rows, one->residual, one->shape });
			rig_matrix_free(&w);
		}
	}
}

static void matvec(void **state)
{
	const variation v[] = { { 1, NO_RESIDUAL, { 64, 64, 1 } }, { 3, IN_PLACE, { 32, 4, 2 } }, { 7, SEPARATE, { 16, 1, 4 } },
		{ 1, IN_PLACE, { 8, 1, 1 } } };
	(void)state;
	each_type("matvec", v, sizeof v / sizeof *v);
}

static void matvec_subgroup(void **state)
{
	const variation v[] = { { 1, NO_RESIDUAL, { 64, 64, 1 } }, { 5, IN_PLACE, { 32, 32, 4 } }, { 9, SEPARATE, { 32, 1, 2 } },
		{ 1, SEPARATE, { 8, 1, 1 } } };
	(void)state;
	each_type("matvec_subgroup", v, sizeof v / sizeof *v);
}

static void matmul(void **state)
{
	const variation v[] = { { 1, IN_PLACE, { 0 } }, { 33, NO_RESIDUAL, { 0 } }, { 65, SEPARATE, { 0 } },
		{ 32, NO_RESIDUAL, { 0 } } };
	(void)state;
	each_type("matmul", v, sizeof v / sizeof *v);
}

static void thousand_rows(void **state)
{
	(void)state;
	rig_ready();
	rig_matrix w = rig_matrix_new(RP_Q4_1, 65, 96);
	check_product(&w, &(product){ "matvec", 1000, NO_RESIDUAL, { 16, 1, 8 } });
	check_product(&w, &(product){ "matmul", 1000, NO_RESIDUAL, { 0 } });
	rig_matrix_free(&w);
}

/* More rows of w than workgroups fit along one axis. */
static void long_vocabulary(void **state)
{
	(void)state;
	rig_ready();
	rig_matrix w = rig_matrix_new(RP_Q4_0, 4 * 65535 + 9, 32);
	check_product(&w, &(product){ "matvec", 2, NO_RESIDUAL, { 4, 4, 1 } });
	rig_matrix_free(&w);
}

/* Decoding is exact: the same arithmetic as rp_dequant, and every product in it fits a float. */
static void embed_type(rp_dtype t, uint32_t width)
{
	enum { VOCAB = 50, SPLIT = 23, ROWS = 9 };
	rig_matrix w = rig_matrix_new(t, VOCAB, width);
	const uint32_t ids[ROWS] = { 0, 22, 23, 49, 1, 7, 7, 48, 30 };
	rp_batch_row rows[ROWS] = { 0 };
	float *y = rig_floats((size_t)ROWS * width, 1.0f);
	for (int r = 0; r < ROWS; r++)
		rows[r].token = ids[r];
	for (int part = 0; part < 2; part++) { /* the table in two ranges */
		rp_args_embed p = { .width = width, .n_rows = ROWS, .w_first = part ? SPLIT : 0, .w_count = part ? VOCAB - SPLIT : SPLIT,
			.w_base = RIG_GAP + (part ? SPLIT * w.stride : 0), .w_stride = w.stride };
		rig_arg args[] = { RIG_IN((char *)w.repacked, w.bytes), RIG_IN(rows, ROWS), RIG_OUT(y, ROWS * width) };
		rp_vk_const konst = { "QUANT", (uint32_t)t };
		rig_run(&(rig_call){ "embed", &konst, 1, &p, sizeof p, rp_grid_embed(&p, t, 64), args, 3 });
	}
	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t i = 0; i < width; i++)
			if (y[r * width + i] != w.values[ids[r] * width + i])
				fail_msg("embed %s: value %u of id %u is %a, not %a", rp_dtype_get(t)->name, i, ids[r], (double)y[r * width + i],
					(double)w.values[ids[r] * width + i]);
	free(y);
	rig_matrix_free(&w);
}

static void embed(void **state)
{
	(void)state;
	rig_ready();
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		uint32_t block = rp_dtype_get(t)->block_values;
		embed_type(t, block == 1 ? 20 : block);
		embed_type(t, block == 32 ? 768 : 700);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(embed),
		cmocka_unit_test(matvec),
		cmocka_unit_test(matvec_subgroup),
		cmocka_unit_test(matmul),
		cmocka_unit_test(thousand_rows),
		cmocka_unit_test(long_vocabulary),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
