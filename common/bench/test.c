#include "bench/bench.h"

#include "base/random.h"
#include "infer/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_spread rp_spread_of(const double *v, size_t n)
{
	double sum = 0, squares = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	double mean = n > 0 ? sum / (double)n : 0;
	for (size_t i = 0; i < n; i++)
		squares += (v[i] - mean) * (v[i] - mean);
	return (rp_spread){mean, n > 1 ? sqrt(squares / (double)(n - 1)) : 0};
}

char *rp_bench_name(const rp_bench_test *t, char *out, size_t size)
{
	char prompt[20] = "", gen[20] = "", depth[24] = "";
	if (t->n_prompt > 0)
		snprintf(prompt, sizeof prompt, "pp%u", t->n_prompt);
	if (t->n_gen > 0)
		snprintf(gen, sizeof gen, "tg%u", t->n_gen);
	if (t->depth > 0)
		snprintf(depth, sizeof depth, " @ d%u", t->depth);
	snprintf(out, size, "%s%s%s%s", prompt, t->n_prompt > 0 && t->n_gen > 0 ? "+" : "", gen, depth);
	return out;
}

uint64_t rp_bench_ctx(const rp_bench_test *t)
{
	return (uint64_t)t->depth + t->n_prompt + t->n_gen;
}

/* ---- one test ---- */
typedef struct bench {
	rp_engine *engine;
	const rp_bench_test *test;
	const rp_bench_opts *opts;
	uint32_t vocab;
	rp_random random;
	rp_seq **seqs;         /* [streams] */
	rp_segment *segments;  /* [streams] */
	uint32_t *ids;         /* [streams, most] */
	uint32_t most;         /* ids a stream feeds at once */
	uint32_t *chosen;      /* [n_gen] of the last repetition that was not random */
	size_t n_chosen;
	rp_bench_result *result;
	rp_engine_stats work; /* of the timed parts of all repetitions */
	uint64_t total_ns;
} bench;

static uint32_t random_id(bench *b)
{
	return (uint32_t)(rp_random_unit(&b->random) * b->vocab);
}

static void draw_ids(bench *b, uint32_t n)
{
	for (size_t s = 0; s < b->test->streams; s++)
		for (uint32_t i = 0; i < n; i++)
			b->ids[s * b->most + i] = random_id(b);
}

/* n drawn ids in every stream; the logits of the last are asked for, so that the work is done when this returns. */
static rp_code feed(bench *b, uint32_t n, rp_error *err)
{
	for (size_t s = 0; s < b->test->streams; s++)
		b->segments[s] = (rp_segment){.seq = b->seqs[s], .ids = b->ids + s * b->most, .n = n, .want = RP_WANT_LAST};
	return rp_forward(b->engine, b->segments, b->test->streams, NULL, err);
}

static rp_code on_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	bench *b = user;
	(void)stop, (void)err;
	b->chosen[b->n_chosen++] = id;
	return RP_OK;
}

static rp_code decode(bench *b, uint32_t n, rp_error *err)
{
	rp_sampling usual = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1, .seed = b->opts->seed};
	rp_decode_opts o = {.first = random_id(b), .n = n};
	rp_code code = b->opts->ids == RP_BENCH_SAMPLED ? rp_sampler_new(&usual, b->vocab, &o.sampler, err) : RP_OK;
	b->n_chosen = 0;
	if (code == RP_OK)
		code = rp_decode(b->engine, b->seqs[0], &o, on_id, b, err);
	rp_sampler_free(o.sampler);
	return code;
}

static rp_code on_other_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)user, (void)id, (void)stop, (void)err;
	return RP_OK;
}

/* All streams side by side, each from an id of its own; the ids of the first are looked at. */
static rp_code decode_streams(bench *b, uint32_t n, rp_error *err)
{
	rp_session *session = NULL;
	rp_code code = rp_session_new(b->engine, &session, err);
	b->n_chosen = 0;
	for (size_t s = 0; s < b->test->streams && code == RP_OK; s++) {
		uint32_t id = random_id(b);
		rp_join j = {.seq = b->seqs[s], .prompt = &id, .n_prompt = 1, .n = n, .on_id = s == 0 ? on_id : on_other_id, .user = b};
		code = rp_session_join(session, &j, err);
	}
	while (code == RP_OK && rp_session_size(session) > 0)
		code = rp_session_step(session, err);
	rp_session_free(session);
	return code;
}

static rp_code generate(bench *b, uint32_t n, rp_error *err)
{
	rp_code code = RP_OK;
	if (b->opts->ids != RP_BENCH_RANDOM)
		return b->test->streams > 1 ? decode_streams(b, n, err) : decode(b, n, err);
	for (uint32_t i = 0; i < n && code == RP_OK; i++) {
		draw_ids(b, 1);
		code = feed(b, 1, err);
	}
	return code;
}

/* Back to the start, then the positions nobody times. */
static rp_code prepare(bench *b, rp_error *err)
{
	rp_code code = RP_OK;
	for (size_t s = 0; s < b->test->streams; s++)
		rp_seq_reset(b->seqs[s]);
	if (b->test->depth > 0) {
		draw_ids(b, b->test->depth);
		code = feed(b, b->test->depth, err);
	}
	return code;
}

static rp_code once(bench *b, uint32_t n_gen, uint64_t *ns, rp_engine_stats *work, rp_error *err)
{
	rp_engine_stats before, after;
	rp_code code = prepare(b, err);
	if (code != RP_OK)
		return code;
	draw_ids(b, b->test->n_prompt);
	rp_engine_count(b->engine, &before);
	uint64_t start = rp_now_ns();
	if (b->test->n_prompt > 0)
		code = feed(b, b->test->n_prompt, err);
	if (code == RP_OK && n_gen > 0)
		code = generate(b, n_gen, err);
	*ns = rp_now_ns() - start;
	rp_engine_count(b->engine, &after);
	work->submits += after.submits - before.submits;
	work->dispatches += after.dispatches - before.dispatches;
	work->barriers += after.barriers - before.barriers;
	work->wait_ns += after.wait_ns - before.wait_ns;
	return code;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static size_t count_distinct(bench *b)
{
	size_t n = b->n_chosen > 0;
	qsort(b->chosen, b->n_chosen, sizeof *b->chosen, by_value);
	for (size_t i = 1; i < b->n_chosen; i++)
		n += b->chosen[i] != b->chosen[i - 1];
	return n;
}

/* The repetition with number i, or with i < 0 the untimed one. */
static rp_code repetition(bench *b, long i, rp_error *err)
{
	enum { WARM_TOKENS = 16 };
	rp_engine_stats none = {0};
	rp_bench_result *r = b->result;
	uint64_t ns = 0;
	uint32_t n = b->test->n_gen;
	rp_code code = once(b, i < 0 && n > WARM_TOKENS ? WARM_TOKENS : n, &ns, i < 0 ? &none : &b->work, err);
	if (code == RP_OK && i >= 0) {
		r->ns[i] = (double)(ns > 0 ? ns : 1);
		r->rate[i] = (double)r->tokens * 1e9 / r->ns[i];
		b->total_ns += ns;
	}
	return code;
}

static void summarize(bench *b)
{
	rp_bench_result *r = b->result;
	double tokens = (double)r->tokens * (double)r->reps;
	r->ns_spread = rp_spread_of(r->ns, r->reps);
	r->rate_spread = rp_spread_of(r->rate, r->reps);
	r->submits = (double)b->work.submits / tokens;
	r->dispatches = (double)b->work.dispatches / tokens;
	r->barriers = (double)b->work.barriers / tokens;
	r->host_ns = b->work.submits > 0 && b->total_ns >= b->work.wait_ns ? (double)(b->total_ns - b->work.wait_ns) / tokens : (double)NAN;
	r->distinct = b->opts->ids != RP_BENCH_RANDOM && b->test->n_gen > 0 ? count_distinct(b) : 0;
}

static rp_code open_bench(bench *b, rp_error *err)
{
	const rp_bench_test *t = b->test;
	rp_bench_result *r = b->result;
	*r = (rp_bench_result){.reps = b->opts->reps, .tokens = (uint64_t)t->streams * (t->n_prompt + t->n_gen)};
	rp_random_seed(&b->random, b->opts->seed);
	b->most = t->depth > t->n_prompt ? t->depth : t->n_prompt;
	b->most = b->most > 0 ? b->most : 1;
	b->seqs = rp_alloc_array(t->streams, sizeof(rp_seq *));
	b->segments = rp_alloc_array(t->streams, sizeof *b->segments);
	b->ids = rp_alloc_array(t->streams, (size_t)b->most * sizeof *b->ids);
	b->chosen = rp_alloc_array(t->n_gen, sizeof *b->chosen);
	r->ns = rp_alloc_array(r->reps, sizeof *r->ns);
	r->rate = rp_alloc_array(r->reps, sizeof *r->rate);
	if (b->seqs == NULL || b->segments == NULL || b->ids == NULL || b->chosen == NULL || r->ns == NULL || r->rate == NULL)
		return rp_no_memory(err, (uint64_t)t->streams * b->most * sizeof *b->ids, "the ids of a test");
	rp_code code = RP_OK;
	for (size_t s = 0; s < t->streams && code == RP_OK; s++)
		code = rp_seq_new(b->engine, &b->seqs[s], err);
	return code;
}

static void close_bench(bench *b)
{
	for (size_t s = 0; b->seqs != NULL && s < b->test->streams; s++)
		rp_seq_free(b->seqs[s]);
	free(b->seqs);
	free(b->segments);
	free(b->ids);
	free(b->chosen);
}

/* All engines in turn; the order is turned round each time. */
static rp_code run_rounds(bench *b, size_t n, rp_error *err)
{
	const rp_bench_opts *o = b[0].opts;
	rp_code code = RP_OK;
	for (long i = o->warmup ? -1 : 0; i < (long)o->reps && code == RP_OK; i++)
		for (size_t k = 0; k < n && code == RP_OK; k++)
			code = repetition(&b[i % 2 == 0 ? k : n - 1 - k], i, err);
	for (size_t k = 0; k < n && code == RP_OK; k++)
		summarize(&b[k]);
	return code;
}

rp_code rp_bench_run(rp_engine *const *engines, size_t n, const rp_graph *g, const rp_bench_test *t, const rp_bench_opts *o,
	rp_bench_result *out, rp_error *err)
{
	bench *b = rp_alloc_array(n, sizeof *b);
	rp_bench_result *results = rp_alloc_array(n, sizeof *results);
	rp_code code = b == NULL || results == NULL ? rp_no_memory(err, n * sizeof *b, "a test") : RP_OK;
	for (size_t k = 0; k < n && code == RP_OK; k++) {
		b[k] = (bench){.engine = engines[k], .test = t, .opts = o, .vocab = g->config.vocab, .result = &results[k]};
		code = open_bench(&b[k], err);
	}
	if (code == RP_OK)
		code = run_rounds(b, n, err);
	for (size_t k = 0; b != NULL && k < n && b[k].test != NULL; k++)
		close_bench(&b[k]);
	for (size_t k = 0; results != NULL && k < n; k++) {
		if (code == RP_OK)
			out[k] = results[k];
		else
			rp_bench_result_free(&results[k]);
	}
	free(b);
	free(results);
	return code;
}

void rp_bench_result_free(rp_bench_result *r)
{
	free(r->ns);
	free(r->rate);
	r->ns = r->rate = NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

rp_bench_ratio rp_bench_compare(const rp_bench_result *a, const rp_bench_result *b)
{
	rp_bench_ratio none = {(double)NAN, (double)NAN, (double)NAN};
	size_t n = a->reps < b->reps ? a->reps : b->reps;
	double *v = rp_alloc_array(n, sizeof *v);
	if (v == NULL || n == 0) {
		free(v);
		return none;
	}
	for (size_t i = 0; i < n; i++)
		v[i] = b->rate[i] / a->rate[i];
	qsort(v, n, sizeof *v, by_size);
	rp_bench_ratio r = {n % 2 != 0 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, v[0], v[n - 1]};
	free(v);
	return r;
}

/* ---- bytes ---- */
static double weights_of(const rp_op *ops, uint32_t n)
{
	double bytes = 0;
	for (uint32_t i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			if (ops[i].w[k] != NULL)
				bytes += (double)ops[i].w[k]->size;
	return bytes;
}

/* Of the caches of a sequence, what does not grow with it: convolution inputs and states of the delta rule, float32. */
static double state_bytes(const rp_config *c)
{
	double values = (double)c->lin_v_heads * c->lin_k_dim * c->lin_v_dim, sum = 0;
	values += (c->conv_kernel > 0 ? c->conv_kernel - 1 : 0) * (2.0 * c->lin_k_heads * c->lin_k_dim + (double)c->lin_v_heads * c->lin_v_dim);
	for (uint32_t i = 0; i < c->n_layers; i++)
		sum += c->layer_kind[i] == RP_LAYER_LINEAR ? values * sizeof(float) : 0;
	return sum;
}

double rp_bench_read_bytes(const rp_graph *g, const rp_engine_info *info, const rp_bench_test *t)
{
	if (t->n_gen == 0)
		return 0;
	double weights = weights_of(g->post, g->n_post), state = state_bytes(&g->config), all = (double)info->seq_bytes;
	for (uint32_t l = 0; l < g->n_layers; l++)
		weights += weights_of(g->layers[l].ops, g->layers[l].n_ops);
	double position = all > state ? (all - state) / info->ctx : 0;
	return weights / t->streams + state + position * (t->depth + t->n_prompt + t->n_gen / 2.0);
}
