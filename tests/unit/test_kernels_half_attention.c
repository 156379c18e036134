/* Attention of many rows on matrix units, over ragged batches and both forms of the cache, against the oracle. */
#include "kernel_rig.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double BOUND = 2e-6; /* halves: 11 bits of q, k, v and the weights; 5e-4 is allowed */

enum { SLOTS = 5, MAX_SEGMENTS = 4 };

typedef struct segment {
	uint32_t slot, position, n;
} segment;

typedef struct attention_case {
	uint32_t heads, kv_heads, dim, ctx;
	float spread; /* of the queries: large ones make scores that leave the running maximum behind */
	segment segs[MAX_SEGMENTS];
	uint32_t n_segs;
} attention_case;

static const attention_case cases[] = {
	{ 9, 3, 64, 200, 2, { { 2, 150, 1 }, { 0, 0, 1 }, { 4, 64, 1 }, { 1, 199, 1 } }, 4 }, /* one row of each of several */
	{ 8, 2, 256, 70, 2, { { 1, 0, 33 }, { 0, 37, 1 } }, 2 },                              /* many beside one */
	{ 8, 2, 64, 70, 2, { { 1, 0, 33 }, { 0, 37, 1 } }, 2 },
	{ 4, 2, 32, 130, 8, { { 3, 5, 125 } }, 1 },                                           /* after a prefix; steep scores */
	{ 2, 2, 80, 40, 2, { { 0, 0, 7 }, { 1, 20, 9 }, { 2, 0, 17 } }, 3 },                  /* tiles that span segments */
	{ 2, 1, 128, 600, 20, { { 0, 0, 20 }, { 1, 580, 20 } }, 2 },
	{ 4, 2, 16, 130, 12, { { 3, 5, 125 } }, 1 },
	{ 2, 2, 16, 40, 2, { { 0, 0, 7 }, { 1, 20, 9 }, { 2, 0, 17 } }, 3 },
	{ 8, 2, 16, 70, 2, { { 1, 0, 33 }, { 0, 37, 1 } }, 2 },
	{ 3, 1, 16, 50, 2, { { 0, 0, 50 } }, 1 }, /* a tile that no whole number of query rows fills */
};

static float as_half(float v)
{
	return rp_f16_to_f32(rp_f32_to_f16(v));
}

/* Random values that halves hold exactly, so that both forms of the cache hold the same; what no key was written to is not a number. */
static float *make_cache(const attention_case *c)
{
	size_t n = (size_t)SLOTS * c->kv_heads * c->ctx * c->dim;
	float *cache = rig_floats(n, 1.0f);
	for (size_t i = 0; i < n; i++)
		cache[i] = as_half(cache[i]);
	for (uint32_t s = 0; s < c->n_segs; s++)
		for (uint32_t h = 0; h < c->kv_heads; h++)
			for (uint32_t t = c->segs[s].position + c->segs[s].n; t < c->ctx; t++)
				for (uint32_t d = 0; d < c->dim; d++)
					cache[(((size_t)c->segs[s].slot * c->kv_heads + h) * c->ctx + t) * c->dim + d] = NAN;
	return cache;
}

static uint16_t *halves_of(const float *v, size_t n)
{
	uint16_t *h = rp_alloc_array(n, sizeof *h);
	assert_non_null(h);
	for (size_t i = 0; i < n; i++)
		h[i] = rp_f32_to_f16(v[i]);
	return h;
}

/* Keys or values of one slot as the oracle wants them: [positions, kv_heads, dim]. */
static float *slot_rows(const attention_case *c, const float *cache, uint32_t slot)
{
	float *out = rp_alloc_array((size_t)c->ctx * c->kv_heads * c->dim, sizeof *out);
	assert_non_null(out);
	for (size_t h = 0; h < c->kv_heads; h++)
		for (size_t t = 0; t < c->ctx; t++)
			memcpy(out + (t * c->kv_heads + h) * c->dim, cache + ((slot * c->kv_heads + h) * c->ctx + t) * c->dim, c->dim * sizeof *out);
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
		rp_ref_attention(want + at * width, q + at * width, k, v, g->n, c->heads, c->kv_heads, c->dim, g->position, scale, scores);
		at += g->n;
		free(k);
		free(v);
	}
	free(scores);
}

static void run(const attention_case *c, const char *kernel, uint32_t side, uint32_t subgroups, uint32_t keys, bool kv16)
{
	uint32_t n_rows = 0, r = 0, sg = rig_device()->subgroup_size;
	for (uint32_t s = 0; s < c->n_segs; s++)
		n_rows += c->segs[s].n;
	size_t n = (size_t)n_rows * c->heads * c->dim, n_cache = (size_t)SLOTS * c->kv_heads * c->ctx * c->dim;
	float scale = 1.0f / sqrtf((float)c->dim), *q = rig_floats(n, c->spread), *kc = make_cache(c), *vc = make_cache(c);
	float *y = rig_floats(n, 1.0f), *want = rig_floats(n, 0.0f);
	rp_batch_row *rows = rp_alloc_array(n_rows, sizeof *rows);
	assert_non_null(rows);
	for (uint32_t s = 0; s < c->n_segs; s++)
		for (uint32_t t = 0; t < c->segs[s].n; t++)
			rows[r++] = (rp_batch_row){ 0, c->segs[s].position + t, c->segs[s].slot, s };
	reference(c, q, kc, vc, scale, want);
	uint16_t *kh = halves_of(kc, n_cache), *vh = halves_of(vc, n_cache);
	rp_args_attention p = { n_rows, c->heads, c->kv_heads, c->dim, c->ctx, scale };
	rp_vk_const consts[] = { { "WG", subgroups * sg }, { "SG", sg }, { "HEAD_DIM", c->dim }, { "KEYS", keys }, { "KV16", kv16 } };
	rig_arg k32 = RIG_IN(kc, n_cache), v32 = RIG_IN(vc, n_cache), k16 = RIG_IN(kh, n_cache), v16 = RIG_IN(vh, n_cache);
	rig_arg args[] = { RIG_IN(q, n), kv16 ? k16 : k32, kv16 ? v16 : v32, RIG_IN(rows, n_rows), RIG_OUT(y, n) };
	rig_run_subgroup(&(rig_call){ kernel, consts, 5, &p, sizeof p, rp_grid_half_attention(&p, subgroups * side), args, 5 });
	char what[160];
	snprintf(what, sizeof what, "%s heads %u/%u dim %u rows %u, %u subgroups, %u keys, %s cache", kernel, c->heads, c->kv_heads, c->dim,
		n_rows, subgroups, keys, kv16 ? "f16" : "f32");
	rig_close(what, rig_nmse_f32(y, want, n), c->spread > 4 ? 20 * BOUND : BOUND); /* steep scores magnify what halves lose of q */
	free(q);
	free(kc);
	free(vc);
	free(kh);
	free(vh);
	free(y);
	free(want);
	free(rows);
}

static void each(uint32_t subgroups, uint32_t keys)
{
	char kernel[40];
	rig_ready();
	for (uint32_t side = 16; side >= 8; side /= 2) {
		rp_kernel_matrix m = { 'h', 'f', side, side, side };
		if (!rp_vk_has_matrix(rig_device(), &m))
			continue;
		snprintf(kernel, sizeof kernel, "half_attention_m%u", side);
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			const attention_case *c = &cases[i];
			if (rig_device()->type == RP_VK_CPU && c->dim > (subgroups == 1 ? 32 : 16))
				continue; /* lavapipe compiles the loops over larger heads, which are unrolled, for minutes */
			if (c->dim % side != 0 || subgroups * side < c->heads / c->kv_heads ||
				rp_half_attention_memory(c->dim, side, rig_device()->subgroup_size, subgroups, keys) > rig_device()->max_shared)
				continue;
			run(c, kernel, side, subgroups, keys, i % 2 == 0);
			run(c, kernel, side, subgroups, keys, i % 2 != 0);
		}
		return;
	}
	printf("SKIP: %s has no matrices of 16 or 8 halves\n", rig_device()->name);
	skip();
}

static void one_subgroup(void **state)
{
	(void)state;
	each(1, 16);
}

static void two_subgroups(void **state)
{
	(void)state;
	each(2, 32);
}

static void four_subgroups(void **state)
{
	(void)state;
	each(4, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_subgroup),
		cmocka_unit_test(two_subgroups),
		cmocka_unit_test(four_subgroups),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
