/* Kernels that treat rows alike, against the oracle: norms, elementwise, head split, rope, row gather, cache append. */
#include "kernel_rig.h"

#include "infer/ops.h"
#include "infer/repack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double BOUND = 1e-12; /* far below the project's 1e-7 for elementwise kernels */

typedef struct norm_case {
	uint32_t rows, per_row, group;
	rp_shape shape;
	bool plus_one, in_place;
} norm_case;

/* Values are small in some cases, so that eps counts. */
static void check_norm(const char *kernel, const norm_case *c, bool gated)
{
	size_t n = (size_t)c->rows * c->per_row * c->group;
	float *x = rig_floats(n, c->per_row > 1 ? 0.003f : 3.0f), *z = rig_floats(n, 2.0f), *w = rig_floats(c->group, 1.0f);
	float *y = rig_floats(n, 1.0f), *want = rig_floats(n, 1.0f);
	rp_args_norm p = { c->group, c->rows * c->per_row, 1e-5f, c->plus_one ? 1.0f : 0.0f };
	rp_vk_const consts[] = { { "WG", c->shape.wg }, { "LANES", c->shape.lanes } };
	float *out = c->in_place ? x : y;

	if (gated)
		rp_ref_gated_norm(want, x, z, w, c->rows, (size_t)c->per_row * c->group, c->group, p.eps);
	else
		rp_ref_norm(want, x, w, c->rows, (size_t)c->per_row * c->group, c->group, p.eps, c->plus_one);
	rig_arg plain[] = { { x, n * 4, c->in_place }, RIG_IN(w, c->group), RIG_OUT(out, n) };
	rig_arg with_gate[] = { { x, n * 4, c->in_place }, RIG_IN(w, c->group), RIG_IN(z, n), RIG_OUT(out, n) };
	rig_run(&(rig_call){ kernel, consts, 2, &p, sizeof p, rp_grid_norm(&p, c->shape), gated ? with_gate : plain, gated ? 4 : 3 });
	char what[100];
	snprintf(what, sizeof what, "%s rows %u x %u group %u", kernel, c->rows, c->per_row, c->group);
	rig_close(what, rig_nmse_f32(out, want, n), BOUND);
	free(x);
	free(z);
	free(w);
	free(y);
	free(want);
}

static void check_norms(const char *kernel, bool gated)
{
	const norm_case cases[] = {
		{ 1, 1, 576, { 64, 64, 1 }, false, false },
		{ 3, 1, 1, { 64, 64, 1 }, false, false },
		{ 7, 1, 1025, { 32, 32, 1 }, !gated, true },
		{ 5, 3, 64, { 64, 64, 1 }, false, true },
		{ 1000, 1, 20, { 64, 64, 1 }, false, false },
	};
	rig_ready();
	if (!rig_has(kernel))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_norm(kernel, &cases[i], gated);
}

static void norm(void **state)
{
	(void)state;
	check_norms("norm", false);
	check_norm("norm", &(norm_case){ 11, 9, 16, { 64, 8, 1 }, true, true }, false); /* eight runs a workgroup */
	check_norm("norm", &(norm_case){ 70, 1000, 4, { 4, 4, 1 }, false, false }, false); /* a folded grid */
}

static void norm_subgroup(void **state)
{
	(void)state;
	check_norms("norm_subgroup", false);
}

static void gated_norm(void **state)
{
	(void)state;
	check_norms("gated_norm", true);
	check_norm("gated_norm", &(norm_case){ 11, 6, 16, { 64, 1, 1 }, false, false }, true);
}

static void gated_norm_subgroup(void **state)
{
	(void)state;
	check_norms("gated_norm_subgroup", true);
}

static void check_elementwise(uint32_t op, size_t n, bool in_place, void (*ref)(float *, const float *, const float *, size_t))
{
	float *a = rig_floats(n, 4.0f), *b = rig_floats(n, 4.0f), *want = rig_floats(n, 1.0f), *y = rig_floats(n, 1.0f);
	float *out = in_place ? a : y;
	rp_args_elementwise p = { (uint32_t)n };

	a[0] = -200.0f; /* sigmoids of large values are 0 and 1, not NaN */
	b[0] = -200.0f;
	a[n - 1] = 200.0f;
	b[n - 1] = 200.0f;
	ref(want, a, b, n);
	rig_arg args[] = { { a, n * 4, in_place }, RIG_IN(b, n), RIG_OUT(out, n) };
	rig_run(&(rig_call){ "elementwise", &(rp_vk_const){ "OP", op }, 1, &p, sizeof p, rp_grid_lanes(n, 64), args, 3 });
	rig_close("elementwise", rig_nmse_f32(out, want, n), BOUND);
	free(a);
	free(b);
	free(want);
	free(y);
}

static void elementwise(void **state)
{
	(void)state;
	rig_ready();
	for (int in_place = 0; in_place < 2; in_place++)
		for (size_t n = 1; n < 100000; n = n * 37 + 1) {
			check_elementwise(RP_EW_ADD, n, in_place, rp_ref_add);
			check_elementwise(RP_EW_SIGMOID_MUL, n, in_place, rp_ref_sigmoid_mul);
			check_elementwise(RP_EW_SILU_MUL, n, in_place, rp_ref_silu_mul);
		}
	check_elementwise(RP_EW_ADD, 65535 * 64 + 100, false, rp_ref_add); /* a folded grid */
}

static void split_heads(void **state)
{
	enum { ROWS = 3, HEADS = 5, DIM = 12, N = ROWS * HEADS * DIM };
	float y0[N] = { 0 }, y1[N] = { 0 }, want0[N], want1[N];
	(void)state;
	rig_ready();
	float *x = rig_floats(2 * N, 1.0f);
	rp_ref_split_heads(want0, want1, x, ROWS, HEADS, DIM);
	rp_args_split p = { N, DIM };
	rig_arg args[] = { RIG_IN(x, 2 * N), RIG_OUT(y0, N), RIG_OUT(y1, N) };
	rig_run(&(rig_call){ "split_heads", NULL, 0, &p, sizeof p, rp_grid_lanes(N, 64), args, 3 });
	assert_memory_equal(y0, want0, sizeof y0);
	assert_memory_equal(y1, want1, sizeof y1);
	free(x);
}

static void check_rope(uint32_t heads, uint32_t dim, uint32_t rotary, bool interleaved, bool in_place)
{
	enum { ROWS = 5, CTX = 300 };
	const uint32_t positions[ROWS] = { 0, 1, 299, 17, 18 };
	size_t n = (size_t)ROWS * heads * dim, half = rotary / 2;
	float *x = rig_floats(n, 1.0f), *y = rig_floats(n, 1.0f), *want = rig_floats(n, 1.0f);
	float *freqs = rp_alloc_array(half, sizeof *freqs), *table = rp_alloc_array(half * CTX * 2, sizeof *table);
	rp_batch_row rows[ROWS] = { 0 };
	float *out = in_place ? x : y;
	assert_true(freqs != NULL && table != NULL);
	for (size_t i = 0; i < half; i++)
		freqs[i] = powf(10000.0f, -2.0f * (float)i / (float)rotary) / (i % 3 == 0 ? 1.0f : 4.0f);
	rp_rope_table(freqs, (uint32_t)half, CTX, table);
	for (uint32_t r = 0; r < ROWS; r++) {
		rows[r].position = positions[r];
		rp_ref_rope(want + r * heads * dim, x + r * heads * dim, 1, heads, dim, rotary, freqs, interleaved, positions[r]);
	}
	rp_args_rope p = { ROWS, heads, dim, rotary, interleaved };
	rig_arg args[] = { { x, n * 4, in_place }, RIG_IN(table, half * CTX * 2), RIG_IN(rows, ROWS), RIG_OUT(out, n) };
	rig_run(&(rig_call){ "rope", NULL, 0, &p, sizeof p, rp_grid_lanes((uint64_t)ROWS * heads * ((dim + 1) / 2), 64), args, 4 });
	rig_close("rope", rig_nmse_f32(out, want, n), BOUND);
	free(x);
	free(y);
	free(want);
	free(freqs);
	free(table);
}

static void rope(void **state)
{
	(void)state;
	rig_ready();
	for (int form = 0; form < 4; form++) {
		check_rope(9, 64, 64, form & 1, form & 2);
		check_rope(2, 256, 64, form & 1, form & 2);
		check_rope(1, 16, 2, form & 1, form & 2);
		check_rope(3, 20, 8, form & 1, form & 2);
	}
}

static void gather_rows(void **state)
{
	enum { ROWS = 7, WIDTH = 130, OUT = 4 };
	const uint32_t index[OUT] = { 6, 0, 3, 3 };
	float y[OUT * WIDTH] = { 0 };
	(void)state;
	rig_ready();
	float *x = rig_floats(ROWS * WIDTH, 1.0f);
	rp_args_gather p = { WIDTH, OUT };
	rig_arg args[] = { RIG_IN(x, ROWS * WIDTH), RIG_IN(index, OUT), RIG_OUT(y, OUT * WIDTH) };
	rig_run(&(rig_call){ "gather_rows", NULL, 0, &p, sizeof p, rp_grid_lanes(OUT * WIDTH, 64), args, 3 });
	for (int r = 0; r < OUT; r++)
		assert_memory_equal(y + r * WIDTH, x + index[r] * WIDTH, WIDTH * sizeof *x);
	free(x);
}

static void check_append(bool kv16)
{
	enum { ROWS = 4, KV = 3, DIM = 24, CTX = 9, SLOTS = 2, N = ROWS * KV * DIM, CACHE = SLOTS * KV * CTX * DIM };
	/* the last row lies past the cache: dropped, never written elsewhere */
	const rp_batch_row rows[ROWS] = { { 0, 8, 1, 0 }, { 0, 0, 0, 1 }, { 0, 1, 0, 1 }, { 0, CTX, 0, 2 } };
	float *k = rig_floats(N, 1.0f), *v = rig_floats(N, 1.0f), *kc = rig_floats(CACHE, 1.0f), *vc = rig_floats(CACHE, 1.0f);
	float *want_k = rig_floats(CACHE, 0.0f), *want_v = rig_floats(CACHE, 0.0f);
	static uint16_t kh[CACHE], vh[CACHE];
	k[0] = 1e6f; /* what no half can hold */
	v[1] = -1e6f;
	for (int i = 0; i < CACHE; i++) {
		kh[i] = rp_f32_to_f16(kc[i]);
		vh[i] = rp_f32_to_f16(vc[i]);
		want_k[i] = kv16 ? rp_f16_to_f32(kh[i]) : kc[i];
		want_v[i] = kv16 ? rp_f16_to_f32(vh[i]) : vc[i];
	}
	for (size_t r = 0; r < ROWS - 1; r++)
		for (size_t h = 0; h < KV; h++) {
			size_t to = ((rows[r].slot * KV + h) * CTX + rows[r].position) * DIM;
			memcpy(want_k + to, k + (r * KV + h) * DIM, DIM * sizeof *k);
			memcpy(want_v + to, v + (r * KV + h) * DIM, DIM * sizeof *v);
		}
	rp_args_attention p = { ROWS, KV, KV, DIM, CTX, 1.0f };
	rp_vk_const konst = { "KV16", kv16 };
	rig_arg args[] = { RIG_IN(k, N), RIG_IN(v, N), RIG_IN(rows, ROWS), RIG_OUT(kc, CACHE), RIG_OUT(vc, CACHE) };
	if (kv16) {
		args[3] = RIG_OUT(kh, CACHE);
		args[4] = RIG_OUT(vh, CACHE);
	}
	rig_run(&(rig_call){ "kv_append", &konst, 1, &p, sizeof p, rp_grid_kv_append(&p, kv16, 64), args, 5 });
	if (!kv16) {
		assert_memory_equal(kc, want_k, CACHE * sizeof *kc);
		assert_memory_equal(vc, want_v, CACHE * sizeof *vc);
	}
	for (int i = 0; kv16 && i < CACHE; i++) {
		float limit_k = fminf(fabsf(want_k[i]), 65504.0f), limit_v = fminf(fabsf(want_v[i]), 65504.0f);
		assert_true(fabsf(rp_f16_to_f32(kh[i]) - copysignf(limit_k, want_k[i])) <= limit_k / 2048 + 3e-8f);
		assert_true(fabsf(rp_f16_to_f32(vh[i]) - copysignf(limit_v, want_v[i])) <= limit_v / 2048 + 3e-8f);
	}
	free(k);
	free(v);
	free(kc);
	free(vc);
	free(want_k);
	free(want_v);
}

static void kv_append(void **state)
{
	(void)state;
	rig_ready();
	check_append(false);
	check_append(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(norm),
		cmocka_unit_test(norm_subgroup),
		cmocka_unit_test(gated_norm),
		cmocka_unit_test(gated_norm_subgroup),
		cmocka_unit_test(elementwise),
		cmocka_unit_test(split_heads),
		cmocka_unit_test(rope),
		cmocka_unit_test(gather_rows),
		cmocka_unit_test(kv_append),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
