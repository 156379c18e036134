/* Attention over ragged batches, both kernels and variants, against the oracle. */
#include "kernel_rig.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double BOUND = 1e-11;

enum { SLOTS = 5, MAX_SEGMENTS = 4 };

typedef struct segment {
	uint32_t slot, position, n;
} segment;

typedef struct attention_case {
	uint32_t heads, kv_heads, dim, ctx;
	segment segs[MAX_SEGMENTS];
	uint32_t n_segs;
} attention_case;

static uint32_t count_rows(const attention_case *c)
{
	uint32_t n = 0;
	for (uint32_t s = 0; s < c->n_segs; s++)
		n += c->segs[s].n;
	return n;
}

/* Keys or values of one slot as the oracle wants them: [positions, kv_heads, dim]. */
static float *slot_rows(const attention_case *c, const float *cache, uint32_t slot)
{
	float *out = rp_alloc_array((size_t)c->ctx * c->kv_heads * c->dim, sizeof *out);
	assert_non_null(out);
	for (size_t h = 0; h < c->kv_heads; h++)
		for (size_t t = 0; t < c->ctx; t++)
			memcpy(out + (t * c->kv_heads + h) * c->dim, cache + ((slot * c->kv_heads + h) * c->ctx + t) * c->dim,
				c->dim * sizeof *out);
	return out;
}

static void reference(const attention_case *c, const float *q, const float *kc, const float *vc, float scale, float *want)
{
	float *scores = rp_alloc_array(c->ctx, sizeof *scores);
	size_t at = 0, width = (size_t)c->heads * c->dim;
	assert_non_null(scores);
	for (uint32_t s = 0; s < c->n_segs; s++) {
		const segment *g = &c->segs[s];
		float *k = slot_rows(c, kc, g->slot), *v = slot_rows(c, vc, g->slot);
		rp_ref_attention(want + at * width, q + at * width, k, v, g->n, c->heads, c->kv_heads, c->dim, g->position, scale,
			scores);
		at += g->n;
		free(k);
		free(v);
	}
	free(scores);
}

/* The values as halves, each of which becomes the value it can hold. */
static uint16_t *as_halves(float *values, size_t n)
{
	uint16_t *out = rp_alloc_array(n, sizeof *out);
	assert_non_null(out);
	for (size_t i = 0; i < n; i++) {
		out[i] = rp_f32_to_f16(values[i]);
		values[i] = rp_f16_to_f32(out[i]);
	}
	return out;
}

static void check(const char *kernel, const attention_case *c, uint32_t wg, bool kv16)
{
	uint32_t n_rows = count_rows(c), r = 0;
	size_t n = (size_t)n_rows * c->heads * c->dim, n_cache = (size_t)SLOTS * c->kv_heads * c->ctx * c->dim;
	float scale = 1.0f / sqrtf((float)c->dim);
	float *q = rig_floats(n, 2.0f), *kc = rig_floats(n_cache, 1.0f), *vc = rig_floats(n_cache, 1.0f);
	float *y = rig_floats(n, 1.0f), *want = rig_floats(n, 0.0f);
	uint16_t *kh = kv16 ? as_halves(kc, n_cache) : NULL, *vh = kv16 ? as_halves(vc, n_cache) : NULL;
	rp_batch_row *rows = rp_alloc_array(n_rows, sizeof *rows);
	assert_non_null(rows);
	for (uint32_t s = 0; s < c->n_segs; s++)
		for (uint32_t t = 0; t < c->segs[s].n; t++)
			rows[r++] = (rp_batch_row){ 0, c->segs[s].position + t, c->segs[s].slot, s };
	reference(c, q, kc, vc, scale, want);
	rp_args_attention p = { n_rows, c->heads, c->kv_heads, c->dim, c->ctx, scale };
	bool prefill = strcmp(kernel, "attention_prefill") == 0;
	rp_vk_const konst[] = { prefill ? (rp_vk_const){ "HEAD_DIM", c->dim } : (rp_vk_const){ "WG", wg }, { "KV16", kv16 } };
	rig_arg args[] = { RIG_IN(q, n), RIG_IN(kc, n_cache), RIG_IN(vc, n_cache), RIG_IN(rows, n_rows), RIG_OUT(y, n) };
	if (kv16) {
		args[1] = RIG_IN(kh, n_cache);
		args[2] = RIG_IN(vh, n_cache);
	}
	rp_grid grid = { c->heads, prefill ? rp_ceil_div(n_rows, RP_PREFILL_ROWS) : n_rows, 1 };
	rig_run(&(rig_call){ kernel, konst, 2, &p, sizeof p, grid, args, 5 });
	char what[120];
	snprintf(what, sizeof what, "%s heads %u/%u dim %u rows %u wg %u%s", kernel, c->heads, c->kv_heads, c->dim, n_rows, wg,
		kv16 ? " f16" : "");
	rig_close(what, rig_nmse_f32(y, want, n), BOUND);
	free(q);
	free(kc);
	free(vc);
	free(y);
	free(want);
	free(rows);
	free(kh);
	free(vh);
}

static const attention_case cases[] = {
	{ 1, 1, 16, 8, { { 0, 0, 1 } }, 1 },                                            /* the first token */
	{ 9, 3, 64, 200, { { 2, 150, 1 }, { 0, 0, 1 }, { 4, 64, 1 }, { 1, 199, 1 } }, 4 }, /* decode of several */
	{ 8, 2, 256, 70, { { 1, 0, 33 }, { 0, 37, 1 } }, 2 },                           /* prefill beside decode */
	{ 4, 2, 32, 130, { { 3, 5, 125 } }, 1 },                                        /* a chunk after a prefix */
	{ 2, 2, 80, 40, { { 0, 0, 7 }, { 1, 20, 9 }, { 2, 0, 17 } }, 3 },               /* tiles that span segments */
	{ 2, 1, 128, 600, { { 0, 0, 20 }, { 1, 580, 20 } }, 2 },
	{ 1, 1, 512, 20, { { 0, 3, 17 } }, 1 },
	{ 3, 1, 4, 50, { { 0, 0, 50 } }, 1 },
};

static void each(const char *kernel, uint32_t wg)
{
	rig_ready();
	if (!rig_has(kernel))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int kv16 = 0; kv16 <= (cases[i].dim % 8 == 0); kv16++)
			check(kernel, &cases[i], wg, kv16);
}

static void decode(void **state)
{
	(void)state;
	each("attention_decode", 64);
}

static void decode_narrow(void **state)
{
	(void)state;
	each("attention_decode", 8);
}

static void decode_subgroup(void **state)
{
	(void)state;
	each("attention_decode_subgroup", 64);
}

static void prefill(void **state)
{
	(void)state;
	each("attention_prefill", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode),
		cmocka_unit_test(decode_narrow),
		cmocka_unit_test(decode_subgroup),
		cmocka_unit_test(prefill),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
