/* Sampling on the device: the same ids as the host's sampler, whatever the options, the logits and the seed. */
#include "kernel_rig.h"

#include "infer/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 5, RING = 3, RING_WORDS = RP_RING_HEAD + RING };

/* A batch of rows that are sampled side by side, each with a sampler of its own. */
typedef struct batch {
	uint32_t vocab, rows;
	rp_args_sample p;
	float *logits;
	uint32_t *counts, *state, *peaks, *ring;
	rp_batch_row *row;
	rp_batch_segment *seg;
	rp_sampler **host;
} batch;

static void *words(size_t n)
{
	uint32_t *v = rp_alloc_array(n, sizeof *v);
	assert_non_null(v);
	return v;
}

/* Start (again) from the samplers as they are. */
static void upload(batch *b)
{
	memset(b->counts, 0, (size_t)b->rows * b->vocab * sizeof *b->counts);
	for (uint32_t r = 0; r < b->rows; r++) {
		uint32_t *s = b->state + (size_t)r * RP_SAMPLE_STATE;
		rp_sampler_words(b->host[r], s);
		for (uint32_t i = 0; i < s[RP_SAMPLE_AT_USED]; i++)
			b->counts[(size_t)r * b->vocab + s[RP_SAMPLE_AT_IDS + i]]++;
	}
}

static batch begin(uint32_t vocab, uint32_t rows, const rp_sampling *o)
{
	batch b = { .vocab = vocab, .rows = rows, .p = rp_shape_sample(vocab) };
	rp_error err;
	b.p.ring_steps = RING;
	b.p.ring_stride = RING_WORDS;
	b.logits = words((size_t)rows * vocab);
	b.counts = words((size_t)rows * vocab);
	b.state = words((size_t)rows * RP_SAMPLE_STATE);
	b.peaks = words((size_t)rows * b.p.n_groups);
	b.ring = words((size_t)rows * RING_WORDS);
	b.row = rp_alloc_array(rows, sizeof *b.row);
	b.seg = rp_alloc_array(rows, sizeof *b.seg);
	b.host = rp_alloc_array(rows, sizeof(rp_sampler *));
	memset(b.ring, 0, rows * RING_WORDS * sizeof *b.ring);
	for (uint32_t r = 0; r < rows; r++) {
		rp_sampling one = *o;
		one.seed += r;
		if (rp_sampler_new(&one, vocab, &b.host[r], &err) != RP_OK)
			fail_msg("%s", err.msg);
		assert_true(rp_sampler_on_device(b.host[r]));
		for (uint32_t i = 0; i < rig_below(2 * o->repeat_window + 1); i++)
			rp_sampler_accept(b.host[r], rig_below(vocab < 50 ? vocab : 50)); /* some twice */
		b.row[r] = (rp_batch_row){ 1, 40 + r, r, r };
		b.seg[r] = (rp_batch_segment){ r, 1, 40 + r, r };
	}
	upload(&b);
	return b;
}

static void finish(batch *b)
{
	for (uint32_t r = 0; r < b->rows; r++)
		rp_sampler_free(b->host[r]);
	free(b->logits);
	free(b->counts);
	free(b->state);
	free(b->peaks);
	free(b->ring);
	free(b->row);
	free(b->seg);
	free(b->host);
}

static void run_step(batch *b, bool penalises, uint32_t wg)
{
	size_t all = (size_t)b->rows * b->vocab, n_peaks = (size_t)b->rows * b->p.n_groups, n_state = (size_t)b->rows * RP_SAMPLE_STATE;
	const rp_vk_const consts[] = { { "PENALTY", penalises }, { "WG", wg } };
	rig_arg first[] = { RIG_IN(b->logits, all), RIG_IN(b->counts, all), RIG_IN(b->state, n_state), RIG_OUT(b->peaks, n_peaks) };
	rig_arg second[] = { RIG_IN(b->logits, all), RIG_IN(b->peaks, n_peaks), RIG_OUT(b->counts, all), RIG_OUT(b->state, n_state),
		RIG_OUT(b->row, b->rows), RIG_OUT(b->seg, b->rows), RIG_OUT(b->ring, b->rows * RING_WORDS) };
	rp_grid groups = { b->p.n_groups / b->p.lanes, b->rows, 1 }, one = { b->rows, 1, 1 };
	rig_run(&(rig_call){ "sample_peaks", consts, 1, &b->p, sizeof b->p, groups, first, 4 });
	rig_run(&(rig_call){ "sample", consts, 2, &b->p, sizeof b->p, one, second, 7 });
}

/* A step on the device and by the host: the same ids, and everything moved on. */
static void same_step(batch *b, bool penalises, uint32_t wg, uint32_t step, const char *what)
{
	rp_error err;
	run_step(b, penalises, wg);
	for (uint32_t r = 0; r < b->rows; r++) {
		uint32_t want = UINT32_MAX, got = b->ring[r * RING_WORDS + RP_RING_HEAD + step % RING];
		if (rp_sampler_next(b->host[r], b->logits + (size_t)r * b->vocab, &want, &err) != RP_OK)
			fail_msg("%s", err.msg);
		rp_sampler_accept(b->host[r], want);
		if (got != want)
			fail_msg("%s, vocabulary %u, step %u, row %u: the device chose %u, the host %u", what, b->vocab, step, r, got, want);
		assert_int_equal(b->ring[r * RING_WORDS], step + 1);
		assert_int_equal(b->row[r].token, want);
		assert_int_equal(b->row[r].position, 41 + r + step);
		assert_int_equal(b->row[r].slot, r);
		assert_int_equal(b->seg[r].position, 41 + r + step);
		assert_int_equal(b->seg[r].n_rows, 1);
	}
}

/* What the host would start with now is what the device has. */
static void same_state(batch *b)
{
	size_t n = (size_t)b->rows * RP_SAMPLE_STATE, all = (size_t)b->rows * b->vocab;
	uint32_t *state = words(n), *counts = words(all);
	memcpy(state, b->state, n * sizeof *state);
	memcpy(counts, b->counts, all * sizeof *counts);
	upload(b);
	assert_memory_equal(state, b->state, n * sizeof *state);
	assert_memory_equal(counts, b->counts, all * sizeof *counts);
	free(state);
	free(counts);
}

typedef struct shape {
	const char *name;
	float (*logit)(uint32_t id);
} shape;

static float normal(uint32_t id)
{
	(void)id;
	return 3 * rig_normal();
}

static float flat(uint32_t id)
{
	(void)id;
	return 0.001f * rig_normal();
}

static float few_values(uint32_t id)
{
	(void)id;
	return (float)((int)rig_below(4) - 2);
}

static float equal(uint32_t id)
{
	(void)id;
	return -1.5f;
}

static float falling(uint32_t id)
{
	return 20 - 0.05f * (float)id;
}

static float mostly_ruled_out(uint32_t id)
{
	return id % 97 == 3 ? rig_normal() : -INFINITY;
}

static float extreme(uint32_t id)
{
	static const float odd[] = { 3e38f, -3e38f, 0.0f, -0.0f, 1e-42f, -1e-42f, 1e-38f };
	return id % 5 == 0 ? odd[rig_below(7)] : rig_normal();
}

static const shape shapes[] = { { "normal", normal }, { "flat", flat }, { "few values", few_values }, { "equal", equal },
	{ "falling", falling }, { "mostly ruled out", mostly_ruled_out }, { "extreme", extreme } };

static const rp_sampling options[] = {
	{ .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 },
	{ .temperature = 1, .top_k = 256, .top_p = 1, .repeat_penalty = 1 },
	{ .temperature = 1.5f, .top_k = 100, .top_p = 0.5f, .repeat_penalty = 1.1f, .repeat_window = 64 },
	{ .temperature = 0.7f, .top_k = 1, .top_p = 1, .repeat_penalty = 1 },
	{ .temperature = 0, .top_p = 1, .repeat_penalty = 1.3f, .repeat_window = 16 },
	{ .temperature = 0.3f, .top_k = 20, .top_p = 0, .min_p = 1, .repeat_penalty = 0.5f, .repeat_window = 3 },
	{ .temperature = 100, .top_k = 64, .top_p = 0.99f, .min_p = 0.3f, .repeat_penalty = 1, .repeat_window = 8 },
	{ .temperature = 1e-30f, .top_k = 8, .top_p = 0.9f, .repeat_penalty = 2, .repeat_window = 1 },
};

static void check(uint32_t vocab, uint32_t rows, const rp_sampling *o, const shape *s, uint32_t wg)
{
	batch b = begin(vocab, rows, o);
	bool penalises = rp_sampler_planned(b.host[0])->penalises;
	for (uint32_t step = 0; step < STEPS; step++) {
		for (uint32_t i = 0; i < rows * vocab; i++)
			b.logits[i] = s->logit(i % vocab);
		b.logits[rig_below(vocab)] = 1; /* something that is no infinity */
		if (rows > 1)
			b.logits[vocab + rig_below(vocab)] = 2;
		same_step(&b, penalises, wg, step, s->name);
	}
	same_state(&b);
	finish(&b);
}

static void the_host_and_the_device_agree(void **state)
{
	static const uint32_t vocabs[] = { 1, 37, 300, 5000 };
	(void)state;
	rig_ready();
	for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
		for (size_t i = 0; i < sizeof options / sizeof *options; i++)
			for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
				rp_sampling o = options[i];
				if (o.top_k >= vocabs[v])
					o.top_k = vocabs[v]; /* all ids, ranked: the host must rank, too */
				if (o.top_k == vocabs[v] && o.top_p >= 1)
					o.min_p = 0.001f;
				o.seed = 1000 * i + j;
				check(vocabs[v], 1 + (i + j) % 2, &o, &shapes[j], j % 2 != 0 ? 256 : 64);
			}
}

static void a_large_vocabulary(void **state)
{
	(void)state;
	rig_ready();
	for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
		check(151936, 1, &options[j % 3], &shapes[j], 256);
}

static void many_seeds(void **state)
{
	enum { SEEDS = 400, VOCAB = 2000 };
	rp_sampling o = { .temperature = 1.2f, .top_k = 50, .top_p = 0.92f, .min_p = 0.01f, .repeat_penalty = 1 };
	(void)state;
	rig_ready();
	for (uint64_t seed = 0; seed < SEEDS; seed += 100) {
		o.seed = seed * 0x123456789abcdefu;
		batch b = begin(VOCAB, 100, &o);
		for (size_t i = 0; i < (size_t)b.rows * VOCAB; i++)
			b.logits[i] = 2 * rig_normal();
		for (uint32_t step = 0; step < STEPS; step++)
			same_step(&b, false, 64, step, "seeds");
		finish(&b);
	}
}

/* After an id that ends it, or logits without a number, a row stays as it is; the other one goes on. */
static void a_row_ends_alone(void **state)
{
	rp_sampling o = { .temperature = 1, .top_k = 4, .top_p = 1, .repeat_penalty = 1 };
	(void)state;
	rig_ready();
	batch b = begin(300, 2, &o);
	for (uint32_t i = 0; i < 600; i++)
		b.logits[i] = rig_normal();
	b.logits[77] = 1000;
	b.ring[1] = 2;
	b.ring[2] = 5;
	b.ring[3] = 77;
	run_step(&b, true, 64);
	run_step(&b, true, 64);
	assert_int_equal(b.ring[RP_RING_HEAD], 77);
	assert_int_equal(b.ring[0], 2);
	assert_int_equal(b.seg[0].n_rows, 0);
	assert_int_equal(b.row[0].token, 1);
	assert_int_equal(b.row[0].position, 41);
	assert_int_equal(b.state[RP_SAMPLE_AT_DRAWS], 1);
	assert_int_equal(b.row[1].position, 43);
	assert_int_equal(b.state[RP_SAMPLE_STATE + RP_SAMPLE_AT_DRAWS], 2);
	for (uint32_t i = 300; i < 600; i++)
		b.logits[i] = i % 2 != 0 ? NAN : -INFINITY;
	run_step(&b, true, 64);
	assert_int_equal(b.ring[RING_WORDS + RP_RING_HEAD + 2], UINT32_MAX);
	assert_int_equal(b.seg[1].n_rows, 0);
	finish(&b);
}

static void what_the_device_cannot_do(void **state)
{
	static const rp_sampling host_only[] = {
		{ .temperature = 1, .top_k = 0, .top_p = 0.9f, .repeat_penalty = 1 },
		{ .temperature = 1, .top_k = RP_SAMPLE_TOP_K + 1, .top_p = 1, .repeat_penalty = 1 },
		{ .temperature = 1, .top_k = 40, .top_p = 1, .repeat_penalty = 1.1f, .repeat_window = RP_SAMPLE_WINDOW + 1 },
		{ .temperature = 1, .top_k = 40, .top_p = 1, .repeat_penalty = 1e-9f, .repeat_window = 4 },
	};
	rp_sampler *s = NULL;
	rp_error err;
	(void)state;
	for (size_t i = 0; i < sizeof host_only / sizeof *host_only; i++) {
		assert_int_equal(rp_sampler_new(&host_only[i], 1000, &s, &err), RP_OK);
		assert_false(rp_sampler_on_device(s));
		rp_sampler_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_host_and_the_device_agree),
		cmocka_unit_test(a_large_vocabulary),
		cmocka_unit_test(many_seeds),
		cmocka_unit_test(a_row_ends_alone),
		cmocka_unit_test(what_the_device_cannot_do),
	};
	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
