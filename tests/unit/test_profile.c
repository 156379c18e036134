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

/* ---- checks ---- */
enum { CHECKED = 40 };

typedef struct pair {
	golden g;
	rp_engine *e, *oracle;
} pair;

static pair open_pair(const char *model, const char *file, const char *variant, bool hardware)
{
	pair p;
	rp_error err;
	rp_engine_opts o = gpu_opts();

	golden_open(&p.g, model, file);
	o.variant = variant;
	o.ctx = 64;
	o.chunk = CHECKED;
	o.profile = true;
	must(rp_engine_open(p.g.graph, &o, &p.e, &err), &err);
	o = (rp_engine_opts){.device = "cpu", .ctx = 64, .chunk = CHECKED, .threads = 1};
	must(rp_engine_open(p.g.graph, &o, &p.oracle, &err), &err);
	if (hardware)
		((rp_gpu *)p.e->state)->cpu = false;
	return p;
}

static void close_pair(pair *p)
{
	rp_engine_close(p->e);
	rp_engine_close(p->oracle);
	golden_close(&p->g);
	gpu_no_leftovers();
}

static rp_profile checked(pair *p)
{
	uint32_t ids[CHECKED];
	rp_error err;
	rp_profile prof;
	rp_seq *s = NULL;

	for (uint32_t i = 0; i < CHECKED; i++)
		ids[i] = (i * 37 + 11) % p->g.graph->config.vocab;
	must(rp_engine_check(p->e, p->oracle, ids, CHECKED, &err), &err);
	must(rp_seq_new(p->e, &s, &err), &err); /* rows are of what was timed */
	uint32_t seen = 0;
	rp_segment seg = {.seq = s, .ids = ids, .n = CHECKED, .want = RP_WANT_LAST};
	must(rp_forward(p->e, &seg, 1, NULL, &err), &err);
	must(rp_decode(p->e, s, &(rp_decode_opts){.first = 8, .n = 2}, take, &seen, &err), &err);
	rp_seq_free(s);
	must(rp_engine_profile(p->e, &prof, &err), &err);
	return prof;
}

static void check_kernels(const char *model, const char *file, const char *variant, bool hardware)
{
	pair p = open_pair(model, file, variant, hardware);
	rp_profile prof = checked(&p);

	assert_true(prof.n > 10);
	for (size_t i = 0; i < prof.n; i++) {
		const rp_profile_row *row = &prof.rows[i];
		if (!(row->nmse <= row->bound))
			fail_msg("%s %s, %s: %s (%s, %s): %g, at most %g", model, variant, row->prefill ? "prompt" : "token", row->kernel, row->ops,
				row->constants, row->nmse, row->bound);
	}
	rp_profile_free(&prof);
	close_pair(&p);
}

static void every_kernel_computes_what_the_oracle_does(void **state)
{
	(void)state;
	check_kernels("llama", NULL, "portable", false);
	check_kernels("qwen3_5", "model.gguf", "portable", true);
}

static void every_fused_kernel_computes_what_the_oracle_does(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	check_kernels("llama", "model.gguf", "fused", true);
	check_kernels("qwen3_5", "model.gguf", "fused", true);
}

/* The kernels that read a weight the device has wrong are told, and those alone. */
static void a_wrong_kernel_is_named(void **state)
{
	pair p = open_pair("qwen3_5", "model.gguf", "portable", false);
	rp_gpu *g = p.e->state;
	const rp_layer *layer = &p.g.graph->layers[1];
	const rp_op *op = NULL;
	rp_error err;

	(void)state;
	for (uint32_t i = 0; i < layer->n_ops; i++)
		if (strcmp(layer->ops[i].label, "up_proj") == 0)
			op = &layer->ops[i];
	if (op == NULL) {
		fail_msg("no up_proj");
		return;
	}
	const rp_gpu_weight *w = rp_gpu_weight_find(&g->weights, op->w[0], RP_GPU_MATRIX);
	char *row = calloc(1, w->stride);
	assert_non_null(row);
	must(rp_vk_write(g->vk, w->ranges[0].buf, 0, row, w->stride, &err), &err); /* one row of zeros */
	free(row);
	rp_profile prof = checked(&p);
	unsigned wrong = 0;
	for (size_t i = 0; i < prof.n; i++) {
		bool reads = strcmp(prof.rows[i].ops, "up_proj") == 0 && strcmp(prof.rows[i].layer, "linear") == 0;
		wrong += !(prof.rows[i].nmse <= prof.rows[i].bound);
		assert_true(reads || prof.rows[i].nmse <= prof.rows[i].bound);
	}
	assert_int_equal(wrong, 2); /* for the prompt, for a token */
	rp_profile_free(&prof);
	close_pair(&p);
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
		cmocka_unit_test(every_kernel_computes_what_the_oracle_does),
		cmocka_unit_test(every_fused_kernel_computes_what_the_oracle_does),
		cmocka_unit_test(a_wrong_kernel_is_named),
		cmocka_unit_test(only_where_it_was_asked_for),
	};
	return gpu_run_tests("profile", tests, sizeof tests / sizeof *tests);
}
