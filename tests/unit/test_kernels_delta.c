/* The convolution and the gated delta rule over ragged batches, against the oracle: results and states. */
#include "kernel_rig.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 4, MAX_SEGMENTS = 3 };

typedef struct batch {
	rp_batch_segment segs[MAX_SEGMENTS]; /* first_row is filled in */
	uint32_t n_segs, n_rows;
	rp_batch_row *rows;
} batch;

/* Segments of the given lengths in slots 2, 0, 3; the first starts a sequence (and so must not see its slot's old state). */
static batch make_batch(const uint32_t *lengths, uint32_t n_segs)
{
	const uint32_t slots[MAX_SEGMENTS] = { 2, 0, 3 }, positions[MAX_SEGMENTS] = { 0, 5, 1 };
	batch b = { .n_segs = n_segs };
	for (uint32_t s = 0; s < n_segs; s++) {
		b.segs[s] = (rp_batch_segment){ b.n_rows, lengths[s], positions[s], slots[s] };
		b.n_rows += lengths[s];
	}
	b.rows = rp_alloc_array(b.n_rows, sizeof *b.rows);
	assert_non_null(b.rows);
	for (uint32_t s = 0; s < n_segs; s++)
		for (uint32_t t = 0; t < lengths[s]; t++)
			b.rows[b.segs[s].first_row + t] = (rp_batch_row){ 0, positions[s] + t, slots[s], s };
	return b;
}

static const uint32_t length_sets[][MAX_SEGMENTS] = { { 1, 1, 1 }, { 2, 1, 3 }, { 9, 70, 4 } };

/* ---- convolution ---- */
static void reference_conv(const batch *b, uint32_t width, uint32_t kernel, const float *x, const float *w, float *state,
	float *y)
{
	for (uint32_t s = 0; s < b->n_segs; s++) {
		const rp_batch_segment *g = &b->segs[s];
		float *st = state + (size_t)g->slot * (kernel - 1) * width;
		if (g->position == 0)
			memset(st, 0, (size_t)(kernel - 1) * width * sizeof *st);
		rp_ref_conv(y + (size_t)g->first_row * width, x + (size_t)g->first_row * width, w, st, g->n_rows, width, kernel);
	}
}

static void check_conv(const batch *b, uint32_t width, uint32_t kernel, bool by_rows)
{
	size_t n = (size_t)b->n_rows * width, n_state = (size_t)SLOTS * (kernel - 1) * width;
	float *x = rig_floats(n, 1.0f), *w = rig_floats((size_t)width * kernel, 1.0f), *y = rig_floats(n, 1.0f);
	float *state = rig_floats(n_state, 1.0f), *want_state = rig_floats(n_state, 0.0f), *want = rig_floats(n, 0.0f);
	memcpy(want_state, state, n_state * sizeof *state);
	reference_conv(b, width, kernel, x, w, want_state, want);
	rp_args_conv p = { width, kernel, by_rows ? b->n_rows : b->n_segs };
	rp_grid grid = { rp_ceil_div(width, 64), p.n, 1 };
	if (by_rows) {
		rig_arg args[] = { RIG_IN(x, n), RIG_IN(w, width * kernel), RIG_IN(b->rows, b->n_rows), RIG_IN(b->segs, b->n_segs),
			RIG_IN(state, n_state), RIG_OUT(y, n) };
		rig_run(&(rig_call){ "conv_rows", NULL, 0, &p, sizeof p, grid, args, 6 });
		p.n = grid.y = b->n_segs;
		rig_arg after[] = { RIG_IN(x, n), RIG_IN(b->segs, b->n_segs), RIG_OUT(state, n_state) };
		rig_run(&(rig_call){ "conv_state", NULL, 0, &p, sizeof p, grid, after, 3 });
	} else {
		rig_arg args[] = { RIG_IN(x, n), RIG_IN(w, width * kernel), RIG_IN(b->segs, b->n_segs), RIG_OUT(state, n_state),
			RIG_OUT(y, n) };
		rig_run(&(rig_call){ "conv", NULL, 0, &p, sizeof p, grid, args, 5 });
	}
	rig_close(by_rows ? "conv_rows" : "conv", rig_nmse_f32(y, want, n), 1e-12);
	assert_memory_equal(state, want_state, n_state * sizeof *state);
	free(x);
	free(w);
	free(y);
	free(state);
	free(want_state);
	free(want);
}

static void convs(bool by_rows)
{
	rig_ready();
	for (size_t i = 0; i < sizeof length_sets / sizeof *length_sets; i++) {
		batch b = make_batch(length_sets[i], MAX_SEGMENTS);
		check_conv(&b, 100, 4, by_rows);
		check_conv(&b, 64, 2, by_rows);
		check_conv(&b, 7, 8, by_rows);
		free(b.rows);
	}
}

static void conv(void **state)
{
	(void)state;
	convs(false);
}

static void conv_rows(void **state)
{
	(void)state;
	convs(true);
}

/* ---- gated delta rule ---- */
typedef struct delta_data {
	float *qkv, *a, *b, *A, *dt_bias, *state, *want_state, *y, *want;
	size_t n_in, n_gate, n_state, n_out;
} delta_data;

static delta_data make_delta(const batch *b, const rp_delta_shape *s)
{
	delta_data d;
	d.n_in = (size_t)b->n_rows * (2 * s->k_heads * s->k_dim + s->v_heads * s->v_dim);
	d.n_gate = (size_t)b->n_rows * s->v_heads;
	d.n_state = (size_t)SLOTS * s->v_heads * s->k_dim * s->v_dim;
	d.n_out = (size_t)b->n_rows * s->v_heads * s->v_dim;
	d.qkv = rig_floats(d.n_in, 1.0f);
	d.a = rig_floats(d.n_gate, 2.0f);
	d.b = rig_floats(d.n_gate, 2.0f);
	d.a[0] = 30.0f; /* softplus of a large value */
	d.A = rig_floats(s->v_heads, 1.0f);
	for (uint32_t h = 0; h < s->v_heads; h++)
		d.A[h] = -0.3f * expf(0.3f * d.A[h]);
	d.dt_bias = rig_floats(s->v_heads, 1.0f);
	d.state = rig_floats(d.n_state, 0.3f);
	d.want_state = rig_floats(d.n_state, 0.0f);
	memcpy(d.want_state, d.state, d.n_state * sizeof *d.state);
	d.y = rig_floats(d.n_out, 1.0f);
	d.want = rig_floats(d.n_out, 0.0f);
	return d;
}

static void free_delta(delta_data *d)
{
	float *all[] = { d->qkv, d->a, d->b, d->A, d->dt_bias, d->state, d->want_state, d->y, d->want };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static void reference_delta(const batch *b, const rp_delta_shape *s, delta_data *d)
{
	size_t width = 2 * s->k_heads * s->k_dim + s->v_heads * s->v_dim, slot = (size_t)s->v_heads * s->k_dim * s->v_dim;
	float *scratch = rp_alloc_array(2 * s->k_dim + s->v_dim, sizeof *scratch);
	assert_non_null(scratch);
	for (uint32_t i = 0; i < b->n_segs; i++) {
		const rp_batch_segment *g = &b->segs[i];
		float *state = d->want_state + g->slot * slot;
		if (g->position == 0)
			memset(state, 0, slot * sizeof *state);
		rp_ref_delta(d->want + (size_t)g->first_row * s->v_heads * s->v_dim, d->qkv + g->first_row * width,
			d->a + (size_t)g->first_row * s->v_heads, d->b + (size_t)g->first_row * s->v_heads, d->A, d->dt_bias, state,
			g->n_rows, s, scratch);
	}
	free(scratch);
}

static void check_delta(const char *kernel, const batch *b, const rp_delta_shape *s)
{
	delta_data d = make_delta(b, s);
	reference_delta(b, s, &d);
	rp_args_delta p = { s->k_heads, s->v_heads, s->k_dim, s->v_dim, s->head_mod, b->n_segs };
	rig_arg args[] = { RIG_IN(d.qkv, d.n_in), RIG_IN(d.a, d.n_gate), RIG_IN(d.b, d.n_gate), RIG_IN(d.A, s->v_heads),
		RIG_IN(d.dt_bias, s->v_heads), RIG_IN(b->segs, b->n_segs), RIG_OUT(d.state, d.n_state), RIG_OUT(d.y, d.n_out) };
	rp_grid grid = strcmp(kernel, "delta") == 0 ? rp_grid_delta(&p) : rp_grid_delta_chunk(&p);
	rig_run(&(rig_call){ kernel, &(rp_vk_const){ "K_DIM", s->k_dim }, 1, &p, sizeof p, grid, args, 8 });
	char what[100];
	snprintf(what, sizeof what, "%s k %u x %u v %u x %u rows %u", kernel, s->k_heads, s->k_dim, s->v_heads, s->v_dim, b->n_rows);
	rig_close(what, rig_nmse_f32(d.y, d.want, d.n_out), 1e-10);
	rig_close("its state", rig_nmse_f32(d.state, d.want_state, d.n_state), 1e-11);
	free_delta(&d);
}

static void deltas(const char *kernel)
{
	const rp_delta_shape shapes[] = {
		{ .v_heads = 6, .k_heads = 2, .k_dim = 16, .v_dim = 16, .head_mod = false, .a_neg_exp = true, .eps = 1e-6f },
		{ .v_heads = 4, .k_heads = 2, .k_dim = 20, .v_dim = 36, .head_mod = true, .a_neg_exp = true, .eps = 1e-6f },
		{ .v_heads = 2, .k_heads = 2, .k_dim = 128, .v_dim = 128, .head_mod = true, .a_neg_exp = true, .eps = 1e-6f },
		{ .v_heads = 4, .k_heads = 1, .k_dim = 256, .v_dim = 5, .head_mod = false, .a_neg_exp = true, .eps = 1e-6f },
	};
	rig_ready();
	for (size_t i = 0; i < sizeof length_sets / sizeof *length_sets; i++) {
		batch b = make_batch(length_sets[i], MAX_SEGMENTS);
		for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
			check_delta(kernel, &b, &shapes[j]);
		free(b.rows);
	}
}

static void delta(void **state)
{
	(void)state;
	deltas("delta");
}

static void delta_chunk(void **state)
{
	(void)state;
	deltas("delta_chunk");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conv),
		cmocka_unit_test(conv_rows),
		cmocka_unit_test(delta),
		cmocka_unit_test(delta_chunk),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
