/* The kernels of one row that do several operations, against the oracle's operations one after the other. */
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

/* x is rounded to 16 bits a run of 16 values: about 3e-10 of its power, more where random weights d q - m nearly cancel, twice as
 * much in a product of two. Float weights keep float x. */
static const double BOUND = 8e-9, FLOAT_BOUND = 1e-11;
static const float EPS = 1e-5f;

enum { WG = 64, EXTRA = 3 }; /* EXTRA: values of y before the range, which belong to others */

static bool ready(const char *kernel)
{
	rig_ready();
	const rp_vk_info *d = rig_device();
	uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE | RP_VK_DOT8;
	return rig_has(kernel) && (d->features & need) == need && d->subgroup_size <= WG && d->max_buffers >= 10;
}

typedef struct shape {
	uint32_t wide, rows, groups; /* lanes: the subgroup size times wide; rows in flight; workgroups */
	bool norm;
} shape;

typedef struct constants {
	rp_vk_const v[12];
	size_t n;
} constants;

static void add(constants *c, const char *name, uint32_t bits)
{
	c->v[c->n++] = (rp_vk_const){ name, bits };
}

static constants shape_of(const rig_matrix *w, const shape *s)
{
	constants c = { .n = 0 };
	uint32_t sg = rig_device()->subgroup_size, lanes = sg * s->wide;
	add(&c, "WG", WG > lanes ? WG : lanes);
	add(&c, "SG", sg);
	add(&c, "LANES", lanes);
	add(&c, "ROWS", s->rows);
	add(&c, "RUNS", 2 * rp_units(w->type, w->k));
	add(&c, "QUANT", (uint32_t)w->type);
	return c;
}

static rp_args_wide args_of(const rig_matrix *w)
{
	return (rp_args_wide){ .k = w->k, .n = w->n, .w_base = RIG_GAP, .w_stride = w->stride, .y_first = EXTRA, .eps = EPS,
		.w_offset = 1 };
}

static void run(const char *kernel, const constants *c, const rp_args_wide *p, uint32_t groups, const rig_arg *args, size_t n)
{
	rig_run_subgroup(&(rig_call){ kernel, c->v, c->n, p, sizeof *p, { groups, 1, 1 }, args, n });
}

static void check(const char *kernel, const rig_matrix *w, const shape *s, const float *y, const double *want, size_t n)
{
	char what[160];
	bool quants = rp_dtype_get(w->type)->block_values > 1;
	snprintf(what, sizeof what, "%s %s n %u k %u wide %u rows %u groups %u norm %d", kernel,
		rp_dtype_get(w->type)->name, w->n, w->k, s->wide, s->rows, s->groups, s->norm);
	rig_close(what, rig_nmse(y, want, n), quants ? BOUND : FLOAT_BOUND);
}

/* w x in doubles. */
static void multiply(const rig_matrix *w, const float *x, double *out)
{
	for (uint32_t j = 0; j < w->n; j++) {
		out[j] = 0;
		for (uint32_t i = 0; i < w->k; i++)
			out[j] += (double)x[i] * (double)w->values[(size_t)j * w->k + i];
	}
}

/* A row, its norm weights, and what the product shall see. */
typedef struct input {
	float *x, *nw, *normed;
} input;

static input make_input(uint32_t k, bool norm)
{
	input in = { rig_floats(k, 2.0f), rig_floats(k, 0.5f), rig_floats(k, 0.0f) };
	if (norm)
		rp_ref_norm(in.normed, in.x, in.nw, 1, k, k, EPS, true);
	else
		memcpy(in.normed, in.x, k * sizeof *in.x);
	return in;
}

static void free_input(input *in)
{
	free(in->x);
	free(in->nw);
	free(in->normed);
}

/* ---- products ---- */
static void check_matvec(const rig_matrix *w, const shape *s, uint32_t residual)
{
	bool quants = rp_dtype_get(w->type)->block_values > 1;
	const char *kernel = quants ? "wide_matvec" : "wide_matvec_f32";
	uint32_t ny = w->n + EXTRA;
	input in = make_input(w->k, s->norm);
	float *y = rig_floats(ny, 1.0f), *res = rig_floats(ny, 1.0f);
	double *want = rp_alloc_array(ny, sizeof *want);
	assert_non_null(want);
	multiply(w, in.normed, want + EXTRA);
	for (uint32_t j = 0; j < ny; j++)
		want[j] = j < EXTRA ? (double)y[j] : want[j] + (double)(residual == 1 ? y[j] : residual == 2 ? res[j] : 0);
	constants c = shape_of(w, s);
	add(&c, "RESIDUAL", residual);
	add(&c, "NORM", s->norm);
	rp_args_wide p = args_of(w);
	rig_arg args[] = { RIG_IN(in.x, w->k), RIG_IN(in.nw, w->k), RIG_IN(w->repacked, w->bytes), RIG_OUT(y, ny), RIG_IN(res, ny) };
	run(kernel, &c, &p, s->groups, args, 5);
	check(kernel, w, s, y, want, ny);
	free_input(&in);
	free(y);
	free(res);
	free(want);
}

static const shape shapes[] = { { 1, 1, 3, true }, { 2, 2, 100, false }, { 1, 4, 2, false }, { 4, 2, 1, true } };

static void matvec(void **state)
{
	size_t turn = 0;
	(void)state;
	if (!ready("wide_matvec"))
		skip();
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		uint32_t block = rp_dtype_get(t)->block_values, ks[] = { block == 1 ? 32 : block, block == 1 ? 100 : 7 * block };
		for (size_t i = 0; i < 2; i++, turn++) {
			rig_matrix w = rig_matrix_new(t, 37, ks[i]);
			check_matvec(&w, &shapes[turn % 4], (uint32_t)turn % 3);
			check_matvec(&w, &shapes[(turn + 1) % 4], (uint32_t)(turn + 1) % 3);
			rig_matrix_free(&w);
		}
	}
}

/* Values far apart in one run, tiny ones, zeros, and what is no number: it must not get lost. */
static void strange_rows(void **state)
{
	enum { K = 64, N = 5 };
	(void)state;
	if (!ready("wide_matvec"))
		skip();
	for (int round = 0; round < 4; round++) {
		rig_matrix w = rig_matrix_new(RP_Q8_0, N, K);
		float x[K] = { 0 }, y[N] = { 0 };
		double want[N];
		for (int i = 0; i < K && round != 0; i++)
			x[i] = round == 1 ? (i % 16 == 3 ? 1e20f : 1e-20f) : round == 2 ? rig_normal() * 1e-38f : rig_normal();
		if (round == 3)
			x[40] = NAN;
		multiply(&w, x, want);
		constants c = shape_of(&w, &shapes[0]);
		rp_args_wide p = args_of(&w);
		p.y_first = 0;
		rig_arg args[] = { RIG_IN(x, K), RIG_IN(x, K), RIG_IN(w.repacked, w.bytes), RIG_OUT(y, N), RIG_IN(x, K) };
		run("wide_matvec", &c, &p, 1, args, 5);
		for (int j = 0; j < N; j++) {
			if (round == 3)
				assert_true(isnan(y[j]));
			else
				assert_true(fabs((double)y[j] - want[j]) <= (round == 1 ? 1e17 : 1e-30));
		}
		rig_matrix_free(&w);
	}
}

static void glu(void **state)
{
	static const rp_dtype types[] = { RP_Q4_K, RP_Q8_0, RP_Q6_K, RP_Q4_0 };
	(void)state;
	if (!ready("wide_glu"))
		skip();
	for (size_t i = 0; i < 4; i++) {
		shape s = shapes[i];
		s.rows = s.rows > 2 ? 2 : s.rows;
		rig_matrix gate = rig_matrix_new(types[i], 37, 512), up = rig_matrix_new(types[i], 37, 512);
		input in = make_input(512, s.norm);
		double a[37], b[37], want[37 + EXTRA];
		float *y = rig_floats(37 + EXTRA, 1.0f);
		multiply(&gate, in.normed, a);
		multiply(&up, in.normed, b);
		for (int j = 0; j < 37 + EXTRA; j++)
			want[j] = j < EXTRA ? (double)y[j] : a[j - EXTRA] / (1 + exp(-a[j - EXTRA])) * b[j - EXTRA];
		constants c = shape_of(&gate, &s);
		add(&c, "NORM", s.norm);
		rp_args_wide p = args_of(&gate);
		rig_arg args[] = { RIG_IN(in.x, 512), RIG_IN(in.nw, 512), RIG_IN(gate.repacked, gate.bytes), RIG_IN(up.repacked, up.bytes),
			RIG_OUT(y, 37 + EXTRA) };
		run("wide_glu", &c, &p, s.groups, args, 5);
		check("wide_glu", &gate, &s, y, want, 37 + EXTRA);
		rig_matrix_free(&gate);
		rig_matrix_free(&up);
		free_input(&in);
		free(y);
	}
}

static void gated_case(const shape *s, uint32_t k, uint32_t group)
{
	enum { N = 21 };
	rig_matrix w = rig_matrix_new(RP_Q8_0, N, k);
	float *x = rig_floats(k, 1.0f), *z = rig_floats(k, 2.0f), *nw = rig_floats(group, 1.0f), *g = rig_floats(k, 0.0f);
	float *y = rig_floats(N + EXTRA, 1.0f);
	double want[N + EXTRA];
	rp_ref_gated_norm(g, x, z, nw, 1, k, group, EPS);
	multiply(&w, g, want + EXTRA);
	for (int j = 0; j < N + EXTRA; j++)
		want[j] = (double)y[j] + (j < EXTRA ? 0 : want[j]);
	constants c = shape_of(&w, s);
	add(&c, "ONE_GROUP", group == 4 * rig_device()->subgroup_size);
	rp_args_wide p = args_of(&w);
	p.group = group;
	p.w_offset = 0;
	rig_arg args[] = { RIG_IN(x, k), RIG_IN(nw, group), RIG_IN(z, k), RIG_IN(w.repacked, w.bytes), RIG_OUT(y, N + EXTRA) };
	run("wide_gated", &c, &p, s->groups, args, 5);
	check("wide_gated", &w, s, y, want, N + EXTRA);
	rig_matrix_free(&w);
	free(x);
	free(z);
	free(nw);
	free(g);
	free(y);
}

static void gated(void **state)
{
	(void)state;
	if (!ready("wide_gated"))
		skip();
	for (size_t i = 0; i < 4; i++) {
		gated_case(&shapes[i], 512, 128);
		gated_case(&shapes[i], 512, 4 * rig_device()->subgroup_size); /* a subgroup stages a group */
		gated_case(&shapes[i], 96, 16);
	}
}

static void conv_case(const shape *s, uint32_t kernel, uint32_t position, uint32_t n_rows)
{
	enum { N = 45, K = 256, SLOT = 2 };
	rig_matrix w = rig_matrix_new(RP_Q4_K, N, K);
	input in = make_input(K, s->norm);
	size_t one = (size_t)(kernel - 1) * N, n_state = 3 * one;
	float *taps = rig_floats((size_t)N * kernel, 1.0f), *state = rig_floats(n_state, 1.0f), *old = rig_floats(n_state, 0.0f);
	float *y = rig_floats(N, 1.0f), u[N], out[N];
	double sums[N], want[N];
	rp_batch_segment seg = { 0, n_rows, position, SLOT };
	memcpy(old, state, n_state * sizeof *old);
	multiply(&w, in.normed, sums);
	for (int j = 0; j < N; j++)
		u[j] = (float)sums[j];
	if (position == 0)
		memset(old + SLOT * one, 0, one * sizeof *old);
	rp_ref_conv(out, u, taps, old + SLOT * one, 1, N, kernel);
	for (int j = 0; j < N; j++)
		want[j] = n_rows == 0 ? (double)y[j] : (double)out[j];
	if (n_rows == 0)
		memcpy(old, state, n_state * sizeof *old);
	constants c = shape_of(&w, s);
	add(&c, "NORM", s->norm);
	add(&c, "TAPS", kernel);
	rp_args_wide p = args_of(&w);
	p.y_first = 0;
	p.kernel = kernel;
	p.width = N;
	rig_arg args[] = { RIG_IN(in.x, K), RIG_IN(in.nw, K), RIG_IN(w.repacked, w.bytes), RIG_IN(taps, N * kernel), RIG_IN(&seg, 1),
		RIG_OUT(state, n_state), RIG_OUT(y, N) };
	run("wide_conv", &c, &p, s->groups, args, 7);
	check("wide_conv", &w, s, y, want, N);
	rig_close("state of wide_conv", rig_nmse_f32(state, old, n_state), BOUND);
	rig_matrix_free(&w);
	free_input(&in);
	free(taps);
	free(state);
	free(old);
	free(y);
}

static void conv(void **state)
{
	(void)state;
	if (!ready("wide_conv"))
		skip();
	conv_case(&shapes[0], 4, 7, 1);
	conv_case(&shapes[1], 4, 0, 1);
	conv_case(&shapes[2], 2, 3, 1);
	conv_case(&shapes[3], 8, 1, 1);
	conv_case(&shapes[0], 4, 9, 0); /* a sequence that has ended */
}

static void best(void **state)
{
	enum { N = 333, K = 64, GROUPS = 7 };
	(void)state;
	if (!ready("wide_best"))
		skip();
	for (size_t i = 0; i < 4; i++) {
		rig_matrix w = rig_matrix_new(RP_Q8_0, N, K);
		memcpy(w.repacked + (RIG_GAP + 200 * w.stride) * 16, w.repacked + (RIG_GAP + 100 * w.stride) * 16, w.stride * 16); /* a tie */
		memcpy(w.values + 200 * K, w.values + 100 * K, K * sizeof *w.values);
		input in = make_input(K, shapes[i].norm);
		for (int j = 0; j < K && !shapes[i].norm; j++)
			in.x[j] = in.normed[j] = w.values[100 * K + j] * 100; /* so that the two are the best */
		double logits[N];
		float values[GROUPS], first[N];
		uint32_t ids[GROUPS], at = 0;
		multiply(&w, in.normed, logits);
		for (int j = 0; j < N; j++)
			first[j] = (float)logits[j];
		constants c = shape_of(&w, &shapes[i]);
		add(&c, "NORM", shapes[i].norm);
		rp_args_wide p = args_of(&w);
		p.y_first = 0;
		rig_arg args[] = { RIG_IN(in.x, K), RIG_IN(in.nw, K), RIG_IN(w.repacked, w.bytes), RIG_OUT(values, GROUPS),
			RIG_OUT(ids, GROUPS) };
		run("wide_best", &c, &p, GROUPS, args, 5);
		for (uint32_t g = 1; g < GROUPS; g++)
			if (ids[g] != UINT32_MAX && (values[g] > values[at] || (values[g] == values[at] && ids[g] < ids[at])))
				at = g;
		assert_int_equal(ids[at], rp_ref_argmax(first, N));
		assert_true(fabsf(values[at] - first[ids[at]]) <= 1e-4f * fabsf(first[ids[at]]));
		rig_matrix_free(&w);
		free_input(&in);
	}
}

/* ---- delta rule with its gates ---- */
static void delta_case(rp_dtype type, uint32_t k_dim, uint32_t v_dim, bool head_mod, uint32_t position, uint32_t n_rows)
{
	enum { K = 104, K_HEADS = 2, V_HEADS = 4, SLOT = 1 };
	rp_delta_shape rule = { V_HEADS, K_HEADS, k_dim, v_dim, head_mod, true, 1e-6f };
	rig_matrix wa = rig_matrix_new(type, V_HEADS, K), wb = rig_matrix_new(type, V_HEADS, K);
	input in = make_input(K, true);
	size_t n_qkv = 2 * K_HEADS * k_dim + V_HEADS * v_dim, n_y = V_HEADS * v_dim, one = (size_t)V_HEADS * k_dim * v_dim;
	/* the second of two rows, whose first is switched off */
	float *qkv = rig_floats(2 * n_qkv, 1.0f), *state = rig_floats(2 * one, 1.0f), *old = rig_floats(2 * one, 0.0f);
	float *x = rig_floats(2 * K, 1.0f), *y = rig_floats(2 * n_y, 1.0f), *out = rig_floats(n_y, 0.0f), *scratch = rig_floats(2 * k_dim + v_dim, 0.0f);
	float rate[V_HEADS], bias[V_HEADS], a[V_HEADS], b[V_HEADS];
	double sums[2][V_HEADS] = { { 0 } };
	rp_batch_segment segs[2] = { { 0, 0, 5, 0 }, { 1, n_rows, position, SLOT } };
	memcpy(x + K, in.x, K * sizeof *x);
	multiply(&wa, in.normed, sums[0]);
	multiply(&wb, in.normed, sums[1]);
	for (int h = 0; h < V_HEADS; h++) {
		a[h] = (float)sums[0][h];
		b[h] = (float)sums[1][h];
		rate[h] = -fabsf(rig_normal()) * 0.1f;
		bias[h] = rig_normal();
	}
	memcpy(old, state, 2 * one * sizeof *old);
	memcpy(out, y + n_y, n_y * sizeof *out);
	if (n_rows != 0) {
		if (position == 0)
			memset(old + SLOT * one, 0, one * sizeof *old);
		rp_ref_delta(out, qkv + n_qkv, a, b, rate, bias, old + SLOT * one, 1, &rule, scratch);
	}
	rp_args_wide_delta p = { K_HEADS, V_HEADS, k_dim, v_dim, head_mod, K, wa.stride, wb.stride, EPS, 1 };
	rp_vk_const consts[] = { { "SG", rig_device()->subgroup_size }, { "K_DIM", k_dim }, { "NORM", 1 }, { "QUANT", (uint32_t)type } };
	rig_arg args[] = { RIG_IN(qkv, 2 * n_qkv), RIG_IN(x, 2 * K), RIG_IN(in.nw, K), RIG_IN(wa.repacked + RIG_GAP * 16, wa.bytes - RIG_GAP * 16),
		RIG_IN(wb.repacked + RIG_GAP * 16, wb.bytes - RIG_GAP * 16), RIG_IN(rate, V_HEADS), RIG_IN(bias, V_HEADS), RIG_IN(segs, 2),
		RIG_OUT(state, 2 * one), RIG_OUT(y, 2 * n_y) };
	rp_grid grid = { V_HEADS, 2, rp_ceil_div(v_dim, RP_DELTA_COLS) };
	rig_run_subgroup(&(rig_call){ "wide_delta", consts, 4, &p, sizeof p, grid, args, 10 });
	rig_close("wide_delta", rig_nmse_f32(y + n_y, out, n_y), 1e-10);
	rig_close("state of wide_delta", rig_nmse_f32(state, old, 2 * one), 1e-10);
	rig_matrix_free(&wa);
	rig_matrix_free(&wb);
	free_input(&in);
	free(qkv);
	free(x);
	free(state);
	free(old);
	free(y);
	free(out);
	free(scratch);
}

static void delta(void **state)
{
	(void)state;
	if (!ready("wide_delta"))
		skip();
	delta_case(RP_F32, 128, 128, true, 5, 1);
	delta_case(RP_F16, 32, 40, false, 0, 1);
	delta_case(RP_BF16, 60, 33, true, 1, 1);
	delta_case(RP_F32, 256, 16, false, 77, 1);
	delta_case(RP_F32, 32, 32, false, 77, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matvec),
		cmocka_unit_test(strange_rows),
		cmocka_unit_test(glu),
		cmocka_unit_test(gated),
		cmocka_unit_test(conv),
		cmocka_unit_test(best),
		cmocka_unit_test(delta),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
