/* Caches of sequences on a GPU: keys and values in f16 against f32, and contexts long enough for the deep form of a token. */
#include "infer/gpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "gpu_fixture.h"

typedef struct model {
	rp_model *m;
	rp_graph *g;
} model;

static model open_model(const char *name)
{
	model m = {NULL, NULL};
	rp_error err;

	must(rp_model_open(name, &m.m, &err), &err);
	must(rp_graph_build(m.m, &m.g, &err), &err);
	return m;
}

static void close_model(model *m)
{
	rp_graph_free(m->g);
	rp_model_close(m->m);
}

static rp_engine *engine(const rp_graph *g, const char *device, const char *variant, rp_cache_type kv, uint32_t ctx)
{
	rp_engine_opts o = gpu_opts();
	rp_engine *e = NULL;
	rp_error err;

	o.device = device;
	o.variant = variant;
	o.kv = kv;
	o.ctx = ctx;
	must(rp_engine_open(g, &o, &e, &err), &err);
	return e;
}

static uint32_t prompt_id(const rp_graph *g, uint32_t i)
{
	return (i * 7919u + i * i % 1009u + 13u) % g->config.vocab;
}

/* Logits [n, vocab] of ids 0 to n - 1, the first `together` in one batch and then one at a time; free() them. */
static float *logits_of(rp_engine *e, const rp_graph *g, uint32_t n, uint32_t together)
{
	size_t vocab = g->config.vocab;
	float *all = rp_alloc_array(n * vocab, sizeof *all);
	uint32_t *ids = rp_alloc_array(n, sizeof *ids);
	rp_seq *s = NULL;
	rp_error err;

	assert_non_null(all);
	assert_non_null(ids);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = prompt_id(g, i);
	must(rp_seq_new(e, &s, &err), &err);
	for (uint32_t at = 0, step; at < n; at += step) {
		rp_output out;
		step = at == 0 ? together : 1;
		rp_segment seg = {.seq = s, .ids = ids + at, .n = step, .want = RP_WANT_ALL};
		must(rp_forward(e, &seg, 1, &out, &err), &err);
		memcpy(all + at * vocab, out.logits, step * vocab * sizeof *all);
	}
	rp_seq_free(s);
	free(ids);
	return all;
}

static size_t best_of(const float *v, size_t n)
{
	size_t best = 0;
	for (size_t i = 1; i < n; i++)
		if (v[i] > v[best])
			best = i;
	return best;
}

/* Of the distribution `want` from the distribution `got`, natural log. */
static double divergence(const float *want, const float *got, size_t n)
{
	double most_w = (double)want[best_of(want, n)], most_g = (double)got[best_of(got, n)], sum_w = 0, sum_g = 0, kl = 0;
	for (size_t i = 0; i < n; i++) {
		sum_w += exp((double)want[i] - most_w);
		sum_g += exp((double)got[i] - most_g);
	}
	for (size_t i = 0; i < n; i++) {
		double lw = (double)want[i] - most_w - log(sum_w), lg = (double)got[i] - most_g - log(sum_g);
		kl += exp(lw) * (lw - lg);
	}
	return kl;
}

/* The bounds for a fast path: the same best id at 99 of 100 positions, a mean divergence under 1e-3. */
static void close_enough(const char *what, const float *want, const float *got, size_t rows, size_t vocab)
{
	size_t same = 0;
	double kl = 0;
	for (size_t r = 0; r < rows; r++) {
		same += best_of(want + r * vocab, vocab) == best_of(got + r * vocab, vocab);
		kl += divergence(want + r * vocab, got + r * vocab, vocab) / (double)rows;
	}
	print_message("%s: the same best id at %zu of %zu positions, divergence %.3g\n", what, same, rows, kl);
	assert_true(same * 100 >= rows * 99);
	assert_true(kl < 1e-3);
	assert_true(memcmp(want, got, rows * vocab * sizeof *want) != 0); /* the caches do differ */
}

static void f16_stays_close(const char *name, const char *variant, uint32_t together)
{
	enum { POSITIONS = 1000 };
	model m = open_model(name);
	rp_engine *e = engine(m.g, "gpu", variant, RP_CACHE_F32, POSITIONS), *h = engine(m.g, "gpu", variant, RP_CACHE_BEST, POSITIONS);
	char what[80];

	snprintf(what, sizeof what, "%s, %s", name, variant == NULL ? "as the device likes" : variant);
	float *want = logits_of(e, m.g, POSITIONS, together), *got = logits_of(h, m.g, POSITIONS, together);
	close_enough(what, want, got, POSITIONS, m.g->config.vocab);
	free(want);
	free(got);
	rp_engine_close(e);
	rp_engine_close(h);
	close_model(&m);
}

static void f16_against_f32(void **state)
{
	(void)state;
	f16_stays_close("random:tiny", NULL, 900);
	f16_stays_close("random:tiny-llama", NULL, 900);
}

static void f16_against_f32_fused(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	f16_stays_close("random:tiny", "fused", 900);
	f16_stays_close("random:tiny-llama", "fused", 900);
}

static void f16_takes_half(void **state)
{
	(void)state;
	model m = open_model("random:tiny-llama");
	rp_engine *e = engine(m.g, "gpu", NULL, RP_CACHE_F32, 256), *h = engine(m.g, "gpu", NULL, RP_CACHE_F16, 256);

	assert_int_equal(rp_engine_describe(e)->seq_bytes, 2 * rp_engine_describe(h)->seq_bytes);
	rp_engine_close(e);
	rp_engine_close(h);
	rp_engine_opts o = {.device = "cpu", .kv = RP_CACHE_F16};
	rp_error err;
	assert_int_equal(rp_engine_open(m.g, &o, &e, &err), RP_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "--kv f32"));
	close_model(&m);
}

/* ---- the deep form ---- */
typedef struct answer {
	uint32_t ids[64], n;
} answer;

static rp_code take_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	answer *a = user;
	(void)stop, (void)err;
	a->ids[a->n++] = id;
	return RP_OK;
}

static void fill(rp_engine *e, const rp_graph *g, rp_seq *s, uint32_t n)
{
	uint32_t *ids = rp_alloc_array(n, sizeof *ids);
	rp_error err;

	assert_non_null(ids);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = prompt_id(g, i);
	must(rp_forward(e, &(rp_segment){.seq = s, .ids = ids, .n = n}, 1, NULL, &err), &err);
	free(ids);
}

/* Tokens on both sides of the position where the form changes: by passes and by greedy decode as the oracle has them. */
static void crosses_into_the_deep(const char *name)
{
	enum { BEFORE = RP_DEEP - 12, N = 24, CTX = RP_DEEP + 200 };
	model m = open_model(name);
	rp_engine *cpu = engine(m.g, "cpu", NULL, RP_CACHE_BEST, CTX), *gpu = engine(m.g, "gpu", "fused", RP_CACHE_F32, CTX);
	size_t vocab = m.g->config.vocab;
	rp_seq *a, *b, *c;
	rp_output want, got;
	rp_error err;
	answer greedy = {.n = 0};
	uint32_t ids[N + 1] = {5};

	must(rp_seq_new(cpu, &a, &err), &err);
	must(rp_seq_new(gpu, &b, &err), &err);
	must(rp_seq_new(gpu, &c, &err), &err);
	fill(cpu, m.g, a, BEFORE);
	fill(gpu, m.g, b, BEFORE);
	fill(gpu, m.g, c, BEFORE);
	for (uint32_t i = 0; i < N; i++) {
		must(rp_forward(cpu, &(rp_segment){.seq = a, .ids = ids + i, .n = 1, .want = RP_WANT_LAST}, 1, &want, &err), &err);
		must(rp_forward(gpu, &(rp_segment){.seq = b, .ids = ids + i, .n = 1, .want = RP_WANT_LAST}, 1, &got, &err), &err);
		for (size_t k = 0; k < vocab; k++)
			if (!(fabsf(want.logits[k] - got.logits[k]) <= 3e-3f))
				fail_msg("%s: position %u, value %zu: oracle %g, gpu %g", name, BEFORE + i, k, (double)want.logits[k],
					(double)got.logits[k]);
		ids[i + 1] = (uint32_t)best_of(got.logits, vocab);
	}
	must(rp_decode(gpu, c, &(rp_decode_opts){.first = ids[0], .n = N}, take_id, &greedy, &err), &err);
	assert_int_equal(greedy.n, N);
	assert_true(((rp_gpu *)gpu->state)->run.made[0][RP_GPU_GREEDY] && ((rp_gpu *)gpu->state)->run.made[1][RP_GPU_GREEDY]);
	assert_memory_equal(greedy.ids, ids + 1, N * sizeof *ids);
	rp_seq_free(a);
	rp_seq_free(b);
	rp_seq_free(c);
	rp_engine_close(cpu);
	rp_engine_close(gpu);
	close_model(&m);
}

static void deep_contexts(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	crosses_into_the_deep("random:tiny");
	crosses_into_the_deep("random:tiny-llama");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f16_against_f32),
		cmocka_unit_test(f16_against_f32_fused),
		cmocka_unit_test(f16_takes_half),
		cmocka_unit_test(deep_contexts),
	};
	return gpu_run_tests("cache", tests, sizeof tests / sizeof *tests);
}
