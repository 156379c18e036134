/* Choosing ids on the device: arg-max and top-k with exact order, and stepping a batch on. */
#include "kernel_rig.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct topk_case {
	uint32_t n, rows, k, slice;
} topk_case;

/* Both passes; ids and values [rows][k]. */
static void run_topk(const char *kernel, const topk_case *c, const float *x, float *values, uint32_t *ids)
{
	uint32_t slices = rp_ceil_div(c->n, c->slice);
	size_t n1 = (size_t)c->rows * slices * c->k, n2 = (size_t)c->rows * c->k;
	float *v1 = rig_floats(n1, 1.0f);
	uint32_t *id1 = rp_alloc_array(n1, sizeof *id1);
	assert_non_null(id1);
	rp_args_topk p = { c->n, c->rows, c->k, c->slice };
	rig_arg first[] = { RIG_IN(x, (size_t)c->rows * c->n), RIG_IN(x, (size_t)c->rows * c->n), RIG_OUT(v1, n1), RIG_OUT(id1, n1) };
	rig_run(&(rig_call){ kernel, NULL, 0, &p, sizeof p, { slices, c->rows, 1 }, first, 4 });
	p = (rp_args_topk){ slices * c->k, c->rows, c->k, slices * c->k };
	rig_arg second[] = { RIG_IN(v1, n1), RIG_IN(id1, n1), RIG_OUT(values, n2), RIG_OUT(ids, n2) };
	rig_run(&(rig_call){ kernel, &(rp_vk_const){ "PAIRS", 1 }, 1, &p, sizeof p, { 1, c->rows, 1 }, second, 4 });
	free(v1);
	free(id1);
}

static void check_row(const topk_case *c, const float *x, const float *values, const uint32_t *ids)
{
	uint32_t *want = rp_alloc_array(c->k, sizeof *want);
	uint32_t k = c->k < c->n ? c->k : c->n;
	assert_non_null(want);
	rp_ref_top_k(x, c->n, k, want);
	assert_int_equal(want[0], rp_ref_argmax(x, c->n));
	for (uint32_t i = 0; i < k; i++) {
		if (ids[i] != want[i])
			fail_msg("n %u k %u: place %u holds id %u (%g), not %u (%g)", c->n, c->k, i, ids[i], (double)values[i], want[i],
				(double)x[want[i]]);
		assert_true(isnan(x[ids[i]]) ? isnan(values[i]) : values[i] == x[ids[i]]);
	}
	for (uint32_t i = k; i < c->k; i++)
		assert_int_equal(ids[i], UINT32_MAX);
	free(want);
}

static void check(const char *kernel, const topk_case *c, void (*spoil)(float *, uint32_t))
{
	float *x = rig_floats((size_t)c->rows * c->n, 3.0f), *values = rig_floats((size_t)c->rows * c->k, 1.0f);
	uint32_t *ids = rp_alloc_array((size_t)c->rows * c->k, sizeof *ids);
	assert_non_null(ids);
	for (uint32_t r = 0; r < c->rows; r++)
		spoil(x + (size_t)r * c->n, c->n);
	run_topk(kernel, c, x, values, ids);
	for (uint32_t r = 0; r < c->rows; r++)
		check_row(c, x + (size_t)r * c->n, values + (size_t)r * c->k, ids + (size_t)r * c->k);
	free(x);
	free(values);
	free(ids);
}

static void as_is(float *x, uint32_t n)
{
	(void)x;
	(void)n;
}

/* Few different values: ties everywhere, also across slices. */
static void many_ties(float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = (float)((int)rig_below(5) - 2) * (rig_below(2) ? 1.0f : -1.0f);
}

static void all_equal(float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = -1.5f;
}

static void strange(float *x, uint32_t n)
{
	const float odd[] = { NAN, -INFINITY, INFINITY, 0.0f, -0.0f, 1e-42f, -1e-42f };
	for (uint32_t i = 0; i < n; i++)
		x[i] = rig_below(3) == 0 ? x[i] : odd[rig_below(7)];
}

static void all_nan(float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = NAN;
}

static void each(const char *kernel)
{
	const topk_case cases[] = {
		{ 1, 1, 1, 4096 }, { 5, 2, 8, 4096 }, { 257, 3, 1, 100 }, { 1000, 2, 40, 96 }, { 49157, 1, 20, 4096 },
		{ 4096, 4, 1, 4096 },
	};
	void (*const spoils[])(float *, uint32_t) = { as_is, many_ties, all_equal, strange, all_nan };
	rig_ready();
	if (!rig_has(kernel))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t j = 0; j < sizeof spoils / sizeof *spoils; j++)
			check(kernel, &cases[i], spoils[j]);
}

static void topk(void **state)
{
	(void)state;
	each("topk");
}

static void topk_subgroup(void **state)
{
	(void)state;
	each("topk_subgroup");
}

static void advance(void **state)
{
	enum { ROWS = 70, STRIDE = 3, STEPS = 2 };
	uint32_t ids[ROWS * STRIDE], ring[1 + ROWS * STEPS];
	rp_batch_row rows[ROWS];
	rp_batch_segment segs[ROWS];
	(void)state;
	rig_ready();
	for (uint32_t r = 0; r < ROWS; r++) {
		rows[r] = (rp_batch_row){ 1, 100 + r, r, r };
		segs[r] = (rp_batch_segment){ r, 1, 100 + r, r };
	}
	memset(ring, 0, sizeof ring);
	rp_args_advance p = { ROWS, STRIDE, STEPS };
	for (uint32_t step = 0; step < 3; step++) {
		for (uint32_t i = 0; i < ROWS * STRIDE; i++)
			ids[i] = step * 10000 + i;
		rig_arg args[] = { RIG_IN(ids, ROWS * STRIDE), RIG_OUT(rows, ROWS), RIG_OUT(segs, ROWS),
			RIG_OUT(ring, 1 + ROWS * STEPS) };
		rig_run(&(rig_call){ "advance", NULL, 0, &p, sizeof p, { 1, 1, 1 }, args, 4 });
	}
	assert_int_equal(ring[0], 3);
	for (uint32_t r = 0; r < ROWS; r++) {
		assert_int_equal(rows[r].token, 20000 + r * STRIDE);
		assert_int_equal(rows[r].position, 103 + r);
		assert_int_equal(rows[r].slot, r);
		assert_int_equal(rows[r].segment, r);
		assert_int_equal(segs[r].position, 103 + r);
		assert_int_equal(segs[r].n_rows, 1);
		assert_int_equal(ring[1 + r], 20000 + r * STRIDE);        /* step 2 took the place of step 0 */
		assert_int_equal(ring[1 + ROWS + r], 10000 + r * STRIDE);
	}
}

static void choose_steps(const char *kernel)
{
	enum { N = 300, STEPS = 3 };
	float v[N];
	uint32_t id[N], ring[RP_RING_HEAD + STEPS] = { 0, 2, 7, 500 };
	rp_batch_row row = { 1, 41, 2, 0 };
	rp_batch_segment seg = { 0, 1, 41, 2 };
	/* where the best is, its logit; an id a place is 1000 + 3 place, or what `end` says */
	const struct {
		uint32_t place, end;
		float best;
	} steps[] = { { 17, 0, 9 }, { 299, 0, 9 }, { 0, 0, 9 }, { 5, 500, 9 }, { 80, 0, 9 } };
	rp_args_choose p = { N, STEPS, RP_RING_HEAD + STEPS };
	rig_ready();
	if (!rig_has(kernel))
		skip();
	for (uint32_t s = 0; s < 5; s++) {
		for (uint32_t i = 0; i < N; i++) {
			v[i] = rig_normal();
			id[i] = 1000 + 3 * i;
		}
		v[steps[s].place] = v[(steps[s].place + 100) % N] = steps[s].best; /* a tie */
		if (steps[s].end != 0)
			id[steps[s].place] = steps[s].end;
		uint32_t a = id[steps[s].place], b = id[(steps[s].place + 100) % N], best = a < b ? a : b;
		rig_arg args[] = { RIG_IN(v, N), RIG_IN(id, N), RIG_OUT(&row, 1), RIG_OUT(&seg, 1), RIG_OUT(ring, RP_RING_HEAD + STEPS) };
		rig_run(&(rig_call){ kernel, NULL, 0, &p, sizeof p, { 1, 1, 1 }, args, 5 });
		assert_int_equal(ring[0], s + 1);
		if (s < 4)
			assert_int_equal(ring[RP_RING_HEAD + s % STEPS], best);
		if (s < 3)
			assert_int_equal(row.token, best);
		assert_int_equal(row.position, 41 + (s < 4 ? s + 1 : 4));
		assert_int_equal(seg.position, 41 + (s < 3 ? s + 1 : 3));
		assert_int_equal(seg.n_rows, s < 3 ? 1 : 0);
	}
	seg.n_rows = 1;
	for (uint32_t i = 0; i < N; i++)
		v[i] = i % 2 ? NAN : -INFINITY;
	rig_arg args[] = { RIG_IN(v, N), RIG_IN(id, N), RIG_OUT(&row, 1), RIG_OUT(&seg, 1), RIG_OUT(ring, RP_RING_HEAD + STEPS) };
	rig_run(&(rig_call){ kernel, NULL, 0, &p, sizeof p, { 1, 1, 1 }, args, 5 });
	assert_int_equal(ring[RP_RING_HEAD + 5 % STEPS], UINT32_MAX);
	assert_int_equal(seg.n_rows, 0);
}

static void choose(void **state)
{
	(void)state;
	choose_steps("choose");
}

static void choose_subgroup(void **state)
{
	(void)state;
	choose_steps("choose_subgroup");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topk),
		cmocka_unit_test(topk_subgroup),
		cmocka_unit_test(advance),
		cmocka_unit_test(choose),
		cmocka_unit_test(choose_subgroup),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
