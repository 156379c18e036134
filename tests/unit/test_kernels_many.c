/* The products of many rows (rows_stage, rows_product) with the norm, activation or gate before them, against the oracle's operations. */
#include "kernel_rig.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As in test_kernels_wide: x is rounded to 16 bits a run of 16 values. */
static const double BOUND = 8e-9;
static const float EPS = 1e-5f;

enum { PLAIN, NORM, SILU, GATED, MODES, EXTRA = 3, WG = 64 };

static bool ready(void)
{
	rig_ready();
	const rp_vk_info *d = rig_device();
	uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE | RP_VK_DOT8;
	return rig_has("rows_product") && (d->features & need) == need && d->subgroup_size <= WG;
}

typedef struct input { /* rows of x, their gates, norm weights; what the product shall see */
	float *x, *z, *nw, *made;
} input;

static input make_input(uint32_t k, uint32_t rows, uint32_t mode, uint32_t group)
{
	size_t n = (size_t)rows * k;
	input in = { rig_floats(n, 2.0f), rig_floats(n, 2.0f), rig_floats(k, 0.5f), rig_floats(n, 0.0f) };
	if (mode == NORM)
		rp_ref_norm(in.made, in.x, in.nw, rows, k, k, EPS, true);
	else if (mode == GATED)
		rp_ref_gated_norm(in.made, in.x, in.z, in.nw, rows, k, group, EPS);
	else
		memcpy(in.made, in.x, n * sizeof *in.x);
	if (mode == SILU)
		rp_ref_silu_mul(in.made, in.x, in.z, n);
	return in;
}

static void free_input(input *in)
{
	free(in->x);
	free(in->z);
	free(in->nw);
	free(in->made);
}

typedef struct cut {
	uint32_t rows, tile_m, groups;
} cut;

static void check(rp_dtype type, uint32_t k, uint32_t n_rows, uint32_t mode, const cut *t, bool residual)
{
	enum { N = 37, GROUP = 32 };
	uint32_t runs = rp_ceil_div(k, 256) * 16, sg = rig_device()->subgroup_size, width = N + EXTRA;
	rig_matrix w = rig_matrix_new(type, N, k);
	input in = make_input(k, n_rows, mode, GROUP);
	size_t n_staged = (size_t)n_rows * runs * 40, n_y = (size_t)n_rows * width;
	char *staged = rp_alloc(n_staged), what[120];
	float *y = rig_floats(n_y, 1.0f);
	double *want = rp_alloc_array(n_y, sizeof *want);
	assert_non_null(staged);
	assert_non_null(want);
	for (size_t r = 0; r < n_rows; r++)
		for (uint32_t j = 0; j < width; j++) {
			double *sum = &want[r * width + j];
			*sum = j < EXTRA || residual ? (double)y[r * width + j] : 0;
			for (uint32_t i = 0; j >= EXTRA && i < k; i++)
				*sum += (double)in.made[r * k + i] * (double)w.values[(size_t)(j - EXTRA) * k + i];
		}
	rp_args_stage a = { .k = k, .runs = runs, .group = GROUP, .eps = EPS, .w_offset = mode == NORM ? 1.0f : 0.0f };
	rp_vk_const stage[] = { { "WG", WG }, { "SG", sg }, { "RUNS", runs }, { "MODE", mode } };
	rig_arg from[] = { RIG_IN(in.x, n_rows * k), RIG_IN(in.nw, k), RIG_IN(in.z, n_rows * k), RIG_OUT(staged, n_staged),
		RIG_OUT(staged, n_staged) };
	rig_run_subgroup(&(rig_call){ "rows_stage", stage, 4, &a, sizeof a, { n_rows, 1, 1 }, from, 5 });
	rp_args_product p = { .k = k, .n = N, .n_rows = n_rows, .runs = runs, .w_base = RIG_GAP, .w_stride = w.stride, .y_first = EXTRA,
		.y_stride = width };
	rp_vk_const product[] = { { "WG", WG }, { "SG", sg }, { "ROWS", t->rows }, { "TILE_M", t->tile_m }, { "RESIDUAL", residual },
		{ "QUANT", (uint32_t)type } };
	rig_arg args[] = { RIG_IN(staged, n_staged), RIG_IN(staged, n_staged), RIG_IN(w.repacked, w.bytes), RIG_OUT(y, n_y) };
	rp_grid grid = { t->groups, rp_ceil_div(n_rows, t->tile_m), 1 };
	rig_run_subgroup(&(rig_call){ "rows_product", product, 6, &p, sizeof p, grid, args, 4 });
	snprintf(what, sizeof what, "%s k %u, %u rows, mode %u, %u x %u by %u groups", rp_dtype_get(type)->name, k, n_rows, mode, t->rows,
		t->tile_m, t->groups);
	rig_close(what, rig_nmse(y, want, n_y), BOUND);
	rig_matrix_free(&w);
	free_input(&in);
	free(staged);
	free(y);
	free(want);
}

static const cut cuts[] = { { 2, 4, 1 }, { 4, 8, 2 }, { 1, 4, 100 } };

static void types(void **state)
{
	uint32_t turn = 0;
	(void)state;
	if (!ready())
		skip();
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		uint32_t block = rp_dtype_get(t)->block_values;
		if (block == 1)
			continue;
		check(t, block * 2, 3, turn % MODES, &cuts[0], turn & 1);
		check(t, block == 256 ? 1024 : 352, 9, (turn + 1) % MODES, &cuts[0], !(turn & 1));
		turn++;
	}
}

static void tiles(void **state)
{
	(void)state;
	if (!ready())
		skip();
	for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
		for (uint32_t mode = 0; mode < MODES; mode++)
			check(RP_Q4_K, 512, mode == 0 ? 1 : mode == 1 ? 8 : 17, mode, &cuts[c], mode & 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types),
		cmocka_unit_test(tiles),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
