/* Profiles: every dispatch of a pass is seen, with what it reads; and only engines opened for it have one. */
#include "infer/gpu_watch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "gpu_fixture.h"

enum { TOKENS = 6 };

static rp_code take(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)id, (void)stop, (void)err;
	++*(uint32_t *)user;
	return RP_OK;
}

static void prompt_and_answer(rp_engine *e, rp_seq *s)
{
	static const uint32_t prompt[] = {1, 2, 3, 4, 5, 6, 7};
	rp_segment seg = {.seq = s, .ids = prompt, .n = 7, .want = RP_WANT_LAST};
	uint32_t seen = 0;
	rp_error err;

	rp_seq_reset(s);
	must(rp_forward(e, &seg, 1, NULL, &err), &err);
	must(rp_decode(e, s, &(rp_decode_opts){.first = 8, .n = TOKENS}, take, &seen, &err), &err);
	assert_int_equal(seen, TOKENS);
}

static double weights_of(const rp_op *ops, uint32_t n)
{
	double bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			bytes += ops[i].w[k] != NULL ? (double)ops[i].w[k]->size : 0;
	return bytes;
}

static void check(const char *model, const char *variant)
{
	golden g;
	rp_engine *e = NULL;
	rp_seq *s = NULL;
	rp_error err;
	rp_engine_stats stats[2];
	rp_profile p;
	rp_engine_opts o = gpu_opts();
	uint64_t dispatches = 0;
	double bytes = 0, weights, ns[2] = {0};

	golden_open(&g, model, NULL);
	o.variant = variant;
	o.ctx = 64;
	o.profile = true;
	must(rp_engine_open(g.graph, &o, &e, &err), &err);
	must(rp_seq_new(e, &s, &err), &err);
	prompt_and_answer(e, s);
	rp_engine_profile_forget(e);
	rp_engine_count(e, &stats[0]);
	prompt_and_answer(e, s);
	rp_engine_count(e, &stats[1]);
	must(rp_engine_profile(e, &p, &err), &err);
	assert_int_equal(p.passes[0], TOKENS);
	assert_int_equal(p.passes[1], 1);
	for (size_t i = 0; i < p.n; i++) {
		const rp_profile_row *row = &p.rows[i];
		dispatches += row->count;
		bytes += row->prefill ? 0 : row->bytes * (double)row->count / TOKENS;
		ns[row->prefill] += row->ns;
		assert_true(row->median_ns >= 0 && row->median_ns <= row->ns);
		assert_true(isnan(row->nmse));
		assert_true(i == 0 || p.rows[i - 1].prefill > row->prefill || p.rows[i - 1].ns >= row->ns || !row->prefill);
	}
	assert_int_equal(dispatches, stats[1].dispatches - stats[0].dispatches);
	for (int k = 0; k < 2; k++)
		assert_true(ns[k] > 0 && fabs(ns[k] - p.ns[k]) <= 1e-9 * ns[k]);
	weights = weights_of(g.graph->post, g.graph->n_post);
	for (uint32_t l = 0; l < g.graph->n_layers; l++)
		weights += weights_of(g.graph->layers[l].ops, g.graph->layers[l].n_ops);
	/* rows padded to 16 bytes, the row of the embedding, caches */
	assert_true(bytes >= weights);
	rp_profile_free(&p);
	rp_seq_free(s);
	rp_engine_close(e);
	golden_close(&g);
	gpu_no_leftovers();
}

static void every_dispatch_is_seen(void **state)
{
	(void)state;
	check("llama", "portable");
	check("qwen3_5", "portable");
}

static void every_dispatch_is_seen_fused(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	check("qwen3_5", "fused");
}

static void only_where_it_was_asked_for(void **state)
{
	golden g;
	rp_engine *e = NULL;
	rp_profile p;
	rp_error err;
	rp_engine_opts o = gpu_opts();

	(void)state;
	golden_open(&g, "llama", NULL);
	must(rp_engine_open(g.graph, &o, &e, &err), &err);
	assert_int_equal(rp_engine_profile(e, &p, &err), RP_INTERNAL);
	rp_engine_close(e);
	e = NULL;
	o = (rp_engine_opts){.device = "cpu", .profile = true};
	assert_int_equal(rp_engine_open(g.graph, &o, &e, &err), RP_UNSUPPORTED);
	assert_null(e);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_dispatch_is_seen),
		cmocka_unit_test(every_dispatch_is_seen_fused),
		cmocka_unit_test(only_where_it_was_asked_for),
	};
	return gpu_run_tests("profile", tests, sizeof tests / sizeof *tests);
}
