/* Attention of one-token rows with what surrounds it (attention_split, attention_merge, wide_attend), against the oracle's operations
 * one after the other: several sequences, long contexts, f32 and f16 caches. */
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

static const float EPS = 1e-5f;
/* Of the own key in f16 the last bit may fall otherwise than the reference's. */
static const double BOUND = 1e-9, BOUND16 = 1e-8, BOUND_PRODUCT = 2e-8;

enum { MOST_ROWS = 4, OFF = -1 };

typedef struct heads_case {
	uint32_t heads, kv_heads, dim, rotary, ctx;
	int32_t position[MOST_ROWS]; /* of each row's sequence; OFF: a row that is switched off */
	uint32_t rows, splits;
	bool interleaved, norm, gate;
} heads_case;

typedef struct heads {
	float *qg, *k, *v, *qw, *kw, *table, *freqs, *kc, *vc; /* caches [slot][kv_head][ctx][dim] */
	uint16_t *kh, *vh;                                      /* the same in f16 */
	float *want;                                            /* [rows, heads, dim], gated */
	float *new_k;                                           /* [rows, kv_heads, dim] */
	size_t n_cache, n_q, n_kv;
	rp_batch_row row[MOST_ROWS];
} heads;

/* Slots in another order than rows, one more than there are. */
static uint32_t slot_of(const heads_case *c, uint32_t row)
{
	return c->rows - row;
}

static void round_all(float *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		v[i] = rp_f16_to_f32(rp_f32_to_f16(v[i]));
}

/* Queries and the key of a row, split, normed, turned. */
static void prepare(const heads_case *c, heads *h, uint32_t r, float *q, float *g, float *key)
{
	size_t qd = (size_t)c->heads * c->dim, kd = (size_t)c->kv_heads * c->dim;
	const float *from = h->qg + r * (c->gate ? 2 * qd : qd);
	uint32_t at = (uint32_t)c->position[r];
	if (c->gate)
		rp_ref_split_heads(q, g, from, 1, c->heads, c->dim);
	else
		memcpy(q, from, qd * sizeof *q);
	memcpy(key, h->k + r * kd, kd * sizeof *key);
	if (c->norm) {
		rp_ref_norm(q, q, h->qw, 1, qd, c->dim, EPS, true);
		rp_ref_norm(key, key, h->kw, 1, kd, c->dim, EPS, true);
	}
	rp_ref_rope(q, q, 1, c->heads, c->dim, c->rotary, h->freqs, c->interleaved, at);
	rp_ref_rope(key, key, 1, c->kv_heads, c->dim, c->rotary, h->freqs, c->interleaved, at);
}

static void reference(const heads_case *c, heads *h, uint32_t r, bool kv16)
{
	size_t qd = (size_t)c->heads * c->dim, kd = (size_t)c->kv_heads * c->dim, n = (size_t)c->position[r] + 1;
	float *q = rig_floats(qd, 0.0f), *g = rig_floats(qd, 0.0f), *scores = rig_floats(c->ctx, 0.0f), *own = h->new_k + r * kd;
	float *keys = rig_floats(n * kd, 0.0f), *values = rig_floats(n * kd, 0.0f);
	prepare(c, h, r, q, g, own);
	for (uint32_t a = 0; a < c->kv_heads; a++)
		for (size_t t = 0; t < n; t++) {
			size_t from = ((slot_of(c, r) * c->kv_heads + a) * c->ctx + t) * c->dim, to = t * kd + (size_t)a * c->dim;
			bool last = t + 1 == n;
			memcpy(keys + to, last ? own + a * c->dim : h->kc + from, c->dim * sizeof *keys);
			memcpy(values + to, last ? h->v + r * kd + a * c->dim : h->vc + from, c->dim * sizeof *values);
		}
	if (kv16) {
		round_all(keys + (n - 1) * kd, kd);
		round_all(values + (n - 1) * kd, kd);
	}
	float *want = h->want + r * qd;
	rp_ref_attention(want, q, keys, values, 1, c->heads, c->kv_heads, c->dim, (uint32_t)n - 1, 1 / sqrtf((float)c->dim), scores);
	if (c->gate)
		rp_ref_sigmoid_mul(want, want, g, qd);
	free(q);
	free(g);
	free(scores);
	free(keys);
	free(values);
}

/* What no position holds yet is no number, so that a kernel that looks at it shows. */
static void spoil_unused(const heads_case *c, heads *h)
{
	for (uint32_t r = 0; r < c->rows; r++)
		for (uint32_t a = 0; a < c->kv_heads; a++)
			for (uint32_t t = c->position[r] == OFF ? 0 : (uint32_t)c->position[r]; t < c->ctx; t++) {
				size_t at = ((size_t)(slot_of(c, r) * c->kv_heads + a) * c->ctx + t) * c->dim;
				for (uint32_t d = 0; d < c->dim; d++)
					h->kc[at + d] = h->vc[at + d] = NAN;
			}
}

static heads make_heads(const heads_case *c, bool kv16)
{
	size_t qd = (size_t)c->heads * c->dim, kd = (size_t)c->kv_heads * c->dim;
	heads h = { .n_cache = (c->rows + 1) * c->ctx * kd, .n_q = c->rows * (c->gate ? 2 * qd : qd), .n_kv = c->rows * kd };
	h.qg = rig_floats(h.n_q, 2.0f);
	h.k = rig_floats(h.n_kv, 1.0f);
	h.v = rig_floats(h.n_kv, 1.0f);
	h.qw = rig_floats(c->dim, 0.5f);
	h.kw = rig_floats(c->dim, 0.5f);
	h.table = rig_floats((size_t)c->ctx * c->rotary, 0.0f);
	h.freqs = rig_floats(c->rotary / 2, 0.3f);
	h.kc = rig_floats(h.n_cache, 1.0f);
	h.vc = rig_floats(h.n_cache, 1.0f);
	h.want = rig_floats(c->rows * qd, 0.0f);
	h.new_k = rig_floats(h.n_kv, 0.0f);
	h.kh = rp_alloc_array(h.n_cache, sizeof *h.kh);
	h.vh = rp_alloc_array(h.n_cache, sizeof *h.vh);
	assert_true(h.kh != NULL && h.vh != NULL);
	rp_rope_table(h.freqs, c->rotary / 2, c->ctx, h.table);
	if (kv16) {
		round_all(h.kc, h.n_cache);
		round_all(h.vc, h.n_cache);
	}
	spoil_unused(c, &h);
	for (size_t i = 0; i < h.n_cache; i++) {
		h.kh[i] = rp_f32_to_f16(h.kc[i]);
		h.vh[i] = rp_f32_to_f16(h.vc[i]);
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		h.row[r] = (rp_batch_row){ 0, (uint32_t)c->position[r], slot_of(c, r), r };
		if (c->position[r] != OFF)
			reference(c, &h, r, kv16);
	}
	return h;
}

static void free_heads(heads *h)
{
	float *all[] = { h->qg, h->k, h->v, h->qw, h->kw, h->table, h->freqs, h->kc, h->vc, h->want, h->new_k };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
	free(h->kh);
	free(h->vh);
}

/* The new rows are in the caches, and nothing else of them changed. old: a copy of the cache before. */
static void check_cache(const heads_case *c, const void *cache, const void *old, const float *fresh, size_t each, bool kv16)
{
	for (uint32_t slot = 0; slot <= c->rows; slot++)
		for (uint32_t a = 0; a < c->kv_heads; a++)
			for (uint32_t t = 0; t < c->ctx; t++) {
				size_t at = ((size_t)(slot * c->kv_heads + a) * c->ctx + t) * c->dim;
				uint32_t r = c->rows - slot;
				bool is_new = slot != 0 && c->position[r] != OFF && t == (uint32_t)c->position[r];
				if (!is_new && memcmp((const char *)cache + at * each, (const char *)old + at * each, c->dim * each) != 0)
					fail_msg("position %u of slot %u changed", t, slot);
				for (uint32_t d = 0; is_new && d < c->dim; d++) {
					float got = kv16 ? rp_f16_to_f32(((const uint16_t *)cache)[at + d]) : ((const float *)cache)[at + d];
					float want = fresh[((size_t)r * c->kv_heads + a) * c->dim + d];
					assert_true(fabsf(got - want) <= (kv16 ? fabsf(want) / 2000 + 1e-6f : fabsf(want) * 1e-5f + 1e-5f));
				}
			}
}

static void describe(char *what, size_t n, const char *kernel, const heads_case *c, uint32_t r, bool kv16)
{
	snprintf(what, n, "%s: %u/%u heads of %u at %d, row %u of %u, %u splits%s", kernel, c->heads, c->kv_heads, c->dim,
		(int)c->position[r], r, c->rows, c->splits, kv16 ? ", f16" : "");
}

static void check_merge(const heads_case *c, const heads *h, const rp_args_split_attention *p, const float *part, size_t n_part,
	bool kv16)
{
	enum { WG = 128 };
	size_t qd = (size_t)c->heads * c->dim;
	float *y = rig_floats(c->rows * qd, 1.0f);
	char what[120];
	rp_vk_const consts[] = { { "WG", WG }, { "SG", rig_device()->subgroup_size }, { "GATE", c->gate } };
	rig_arg args[] = { RIG_IN(part, n_part), RIG_IN(h->qg, h->n_q), RIG_IN(h->row, c->rows), RIG_OUT(y, c->rows * qd) };
	rp_grid grid = { c->heads, c->rows, rp_ceil_div(c->dim / 4, RP_MERGE_VECTORS) };
	rig_run_subgroup(&(rig_call){ "attention_merge", consts, 3, p, sizeof *p, grid, args, 4 });
	for (uint32_t r = 0; r < c->rows; r++) {
		describe(what, sizeof what, "attention", c, r, kv16);
		for (size_t i = 0; c->position[r] == OFF && i < qd; i++)
			assert_true(y[r * qd + i] == 0);
		if (c->position[r] != OFF)
			rig_close(what, rig_nmse_f32(y + r * qd, h->want + r * qd, qd), kv16 ? BOUND16 : BOUND);
	}
	free(y);
}

/* One row, the parts joined by the product after attention. */
static void check_attend(const heads_case *c, const heads *h, const rp_args_split_attention *p, const float *part, size_t n_part,
	bool kv16)
{
	enum { N = 19, WG = 64 };
	uint32_t sg = rig_device()->subgroup_size;
	rig_matrix w = rig_matrix_new(RP_Q8_0, N, c->heads * c->dim);
	float *y = rig_floats(N, 1.0f);
	double want[N];
	char what[120];
	for (uint32_t j = 0; j < N; j++) {
		want[j] = (double)y[j];
		for (uint32_t i = 0; i < w.k; i++)
			want[j] += (double)h->want[i] * (double)w.values[(size_t)j * w.k + i];
	}
	rp_vk_const consts[] = { { "WG", WG }, { "SG", sg }, { "LANES", sg }, { "ROWS", 2 }, { "RUNS", 2 * rp_units(w.type, w.k) },
		{ "QUANT", (uint32_t)w.type }, { "GATE", c->gate }, { "HEADS", c->heads } };
	rp_args_wide a = { .k = w.k, .n = N, .w_base = RIG_GAP, .w_stride = w.stride, .heads = c->heads, .head_dim = c->dim, .ctx = c->ctx,
		.q_stride = p->q_stride, .splits = p->splits, .tile = p->tile };
	rig_arg args[] = { RIG_IN(part, n_part), RIG_IN(h->qg, h->n_q), RIG_IN(h->row, 1), RIG_IN(w.repacked, w.bytes), RIG_OUT(y, N) };
	rig_run_subgroup(&(rig_call){ "wide_attend", consts, 8, &a, sizeof a, { 2, 1, 1 }, args, 5 });
	describe(what, sizeof what, "wide_attend", c, 0, kv16);
	rig_close(what, rig_nmse(y, want, N), BOUND_PRODUCT);
	rig_matrix_free(&w);
	free(y);
}

/* lanes: that share a position; heads: of queries a workgroup. */
static void run_split(const heads_case *c, heads *h, bool kv16, uint32_t lanes, uint32_t together)
{
	enum { WG = 128 };
	size_t each = kv16 ? sizeof(uint16_t) : sizeof(float), n_part = (size_t)c->rows * c->heads * c->splits * (c->dim + 4);
	void *kc = kv16 ? (void *)h->kh : (void *)h->kc, *vc = kv16 ? (void *)h->vh : (void *)h->vc;
	char *old_k = rp_alloc_array(h->n_cache, each), *old_v = rp_alloc_array(h->n_cache, each);
	float *part = rig_floats(n_part, 1.0f);
	assert_non_null(old_k);
	assert_non_null(old_v);
	memcpy(old_k, kc, h->n_cache * each);
	memcpy(old_v, vc, h->n_cache * each);
	rp_args_split_attention p = { .heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->dim, .ctx = c->ctx,
		.q_stride = c->gate ? 2 * c->dim : c->dim, .rotary_dim = c->rotary, .interleaved = c->interleaved, .splits = c->splits,
		.tile = 4 * WG / lanes, .scale = 1 / sqrtf((float)c->dim), .eps = EPS, .w_offset = 1 };
	rp_vk_const consts[] = { { "WG", WG }, { "SG", rig_device()->subgroup_size }, { "LANES", lanes },
		{ "OCTS", rp_ceil_div(c->dim / 8, lanes) }, { "HEADS", together }, { "DIM4", c->dim / 4 }, { "NORM", c->norm }, { "KV16", kv16 } };
	rig_arg args[] = { RIG_IN(h->qg, h->n_q), RIG_IN(h->k, h->n_kv), RIG_IN(h->v, h->n_kv), RIG_IN(h->qw, c->dim), RIG_IN(h->kw, c->dim),
		RIG_IN(h->table, c->ctx * c->rotary), RIG_IN(h->row, c->rows), { kc, h->n_cache * each, true }, { vc, h->n_cache * each, true },
		RIG_OUT(part, n_part) };
	rp_grid grid = { c->heads / together, c->splits, c->rows };
	rig_run_subgroup(&(rig_call){ "attention_split", consts, 8, &p, sizeof p, grid, args, 10 });
	check_cache(c, kc, old_k, h->new_k, each, kv16);
	check_cache(c, vc, old_v, h->v, each, kv16);
	check_merge(c, h, &p, part, n_part, kv16);
	if (c->rows == 1)
		check_attend(c, h, &p, part, n_part, kv16);
	free(part);
	free(old_k);
	free(old_v);
}

/* One cut as the engine would choose it, or all the device's subgroups allow: as many lanes as octs or fewer, one head a workgroup
 * or several. */
static void check_heads(const heads_case *c, bool all)
{
	uint32_t sg = rig_device()->subgroup_size, group = c->heads / c->kv_heads, most = sg < 32 ? sg : 32, least = all ? 4 : most;
	for (int kv16 = 0; kv16 < 2; kv16++)
		for (uint32_t lanes = least; lanes <= most; lanes *= 2)
			for (uint32_t together = all || group > 4 ? 1 : group; together <= group && together <= 4; together++) {
				if (group % together != 0 || rp_ceil_div(c->dim / 8, lanes) > 16)
					continue;
				heads h = make_heads(c, kv16);
				run_split(c, &h, kv16, lanes, together);
				free_heads(&h);
			}
}

static void each(const heads_case *cases, size_t n, bool all)
{
	rig_ready();
	const rp_vk_info *d = rig_device();
	uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE | RP_VK_DOT8;
	if (!rig_has("attention_split") || (d->features & need) != need || d->subgroup_size > 64 || d->max_buffers < 10)
		skip();
	for (size_t i = 0; i < n; i++)
		check_heads(&cases[i], all && i == 0);
}

static void one_row(void **state)
{
	static const heads_case cases[] = {
		{ 4, 2, 64, 16, 300, { 299 }, 1, 5, false, true, true },  /* to the last position */
		{ 4, 2, 64, 64, 40, { 0 }, 1, 5, true, false, false },    /* the first */
		{ 3, 1, 256, 64, 700, { 613 }, 1, 5, false, true, true }, /* several tiles a split */
		{ 2, 2, 32, 32, 130, { 128 }, 1, 5, false, false, false }, /* a split that has only the new row */
		{ 8, 2, 48, 24, 200, { 130 }, 1, 3, true, true, true },
		{ 2, 1, 8, 8, 100, { 99 }, 1, 4, false, true, false },
	};
	(void)state;
	each(cases, sizeof cases / sizeof *cases, true);
}

static void many_rows(void **state)
{
	static const heads_case cases[] = {
		{ 4, 1, 64, 32, 500, { 499, 0, OFF, 77 }, 4, 6, false, true, true }, /* of different lengths, one switched off */
		{ 6, 2, 40, 40, 300, { 3, 200, 4 }, 3, 2, true, false, false },
		{ 2, 2, 128, 64, 90, { OFF, 89 }, 2, 4, false, true, true },
	};
	(void)state;
	each(cases, sizeof cases / sizeof *cases, false);
}

/* As many splits as a deep context has, with the last of them partly filled, and more than it can fill. */
static void long_context(void **state)
{
	static const heads_case cases[] = {
		{ 4, 1, 32, 32, 40000, { 39998 }, 1, 60, false, true, true },
		{ 2, 1, 16, 16, 40000, { 32768, 4097 }, 2, 100, false, false, false },
	};
	(void)state;
	each(cases, sizeof cases / sizeof *cases, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_row),
		cmocka_unit_test(many_rows),
		cmocka_unit_test(long_context),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
