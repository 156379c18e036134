#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "infer/infer.h"
#include "infer/ops.h"
#include "base/random.h"

static const rp_sampling plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};

static rp_sampler *sampler(rp_sampling p, uint32_t vocab)
{
	rp_sampler *s;
	rp_error err;

	if (rp_sampler_new(&p, vocab, &s, &err))
		fail_msg("%s", err.msg);
	return s;
}

static uint32_t next(rp_sampler *s, const float *logits)
{
	uint32_t id = UINT32_MAX;
	rp_error err;

	if (rp_sampler_next(s, logits, &id, &err))
		fail_msg("%s", err.msg);
	return id;
}

static void generator_gives_the_published_vectors(void **state)
{
	static const uint64_t mixed[] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu, 0xf88bb8a8724c81ecu};
	static const uint64_t drawn[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u, 607988272756665600u,
		16172922978634559625u, 8476171486693032832u, 10595114339597558777u, 2904607092377533576u};
	uint64_t seed = 0;
	rp_random r = {{1, 2, 3, 4}};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_true(rp_random_splitmix(&seed) == mixed[i]);
	for (size_t i = 0; i < 10; i++)
		assert_true(rp_random_next(&r) == drawn[i]);
}

/* The known answers of the authors' Random123 library. */
static void places_give_the_published_numbers(void **state)
{
	static const uint32_t all = UINT32_MAX;
	static const struct {
		uint32_t counter[4], key[2], want[4];
	} known[] = {
		{{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{{all, all, all, all}, {all, all}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		uint32_t out[4];
		rp_random_philox(known[i].counter, known[i].key, out);
		assert_memory_equal(out, known[i].want, sizeof out);
	}
}

static void weights_follow_the_exponential(void **state)
{
	enum { DRAWS = 200000 };
	float logits[2] = {0};
	rp_sampling p = plain;

	(void)state;
	for (int step = 0; step < 40; step++) {
		double gap = 0.173 * step, want = exp(-gap) / (1 + exp(-gap));
		unsigned second = 0;
		logits[1] = (float)-gap;
		p.seed = (uint64_t)step;
		rp_sampler *s = sampler(p, 2);
		for (int i = 0; i < DRAWS; i++)
			second += next(s, logits);
		assert_true(fabs(second - DRAWS * want) <= 6 * sqrt(DRAWS * want * (1 - want)));
		rp_sampler_free(s);
	}
}

static void greedy_takes_the_largest_and_the_lower_id(void **state)
{
	float logits[] = {1, 7, -INFINITY, 7, 6.9f};
	rp_sampling p = plain;

	(void)state;
	p.temperature = 0;
	p.top_k = 1;
	rp_sampler *s = sampler(p, 5);
	assert_int_equal(next(s, logits), 1);
	rp_sampler_free(s);
}

static void penalty_lowers_what_was_said(void **state)
{
	float logits[] = {2, 1.9f, -1, -1.2f};
	rp_sampling p = {.temperature = 0, .top_p = 1, .repeat_penalty = 1.5f, .repeat_window = 2};
	rp_sampler *s = sampler(p, 4);

	(void)state;
	assert_int_equal(next(s, logits), 0);
	rp_sampler_accept(s, 0);
	rp_sampler_accept(s, 0); /* twice in the window counts once: 2 / 1.5 stays above -1 */
	assert_int_equal(next(s, logits), 1);
	rp_sampler_accept(s, 1);
	assert_int_equal(next(s, logits), 0); /* both penalised: order as before */
	rp_sampler_accept(s, 1);
	assert_int_equal(next(s, logits), 0); /* 0 left the window, 1 is penalised */
	rp_sampler_accept(s, 2);
	rp_sampler_accept(s, 2);
	float negative[] = {-9, -9, -1, -1.2f};
	assert_int_equal(next(s, negative), 3); /* -1 * 1.5 falls under -1.2 */
	rp_sampler_free(s);
}

/* Frequencies of n draws against probabilities; 6 standard deviations, and nothing with probability 0. */
static void check_frequencies(rp_sampling p, const float *logits, const double *want, uint32_t vocab)
{
	enum { DRAWS = 20000 };
	rp_sampler *s = sampler(p, vocab);
	unsigned count[16] = {0};

	for (int i = 0; i < DRAWS; i++)
		count[next(s, logits)]++;
	for (uint32_t i = 0; i < vocab; i++) {
		double sigma = sqrt(DRAWS * want[i] * (1 - want[i]));
		if (want[i] > 0)
			assert_true(fabs(count[i] - DRAWS * want[i]) <= 6 * sigma + 1e-9);
		else
			assert_int_equal(count[i], 0);
	}
	rp_sampler_free(s);
}

static void filters_leave_the_right_ids(void **state)
{
	/* probabilities at temperature 1, by id */
	static const double p[] = {0.05, 0.4, 0.1, 0.25, 0.2};
	float logits[5];
	rp_sampling o = plain;

	(void)state;
	for (int i = 0; i < 5; i++)
		logits[i] = (float)log(p[i]) + 3;
	check_frequencies(o, logits, p, 5);

	o.top_k = 2;
	check_frequencies(o, logits, (double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0}, 5);
	o.top_p = 0.6f; /* of what top_k left: 0.4 / 0.65 reaches it alone */
	check_frequencies(o, logits, (double[]){0, 1, 0, 0, 0}, 5);

	o = plain;
	o.top_p = 0.7f; /* 0.4 + 0.25 are not enough */
	check_frequencies(o, logits, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5);
	o.top_p = 0;
	check_frequencies(o, logits, (double[]){0, 1, 0, 0, 0}, 5);

	o = plain;
	o.min_p = 0.45f; /* 0.18 */
	check_frequencies(o, logits, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5);
	o.top_k = 4;
	check_frequencies(o, logits, (double[]){0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85}, 5);

	o = plain;
	o.temperature = 0.5f; /* squares: 0.0025 0.16 0.01 0.0625 0.04 */
	check_frequencies(o, logits, (double[]){0.0025 / 0.275, 0.16 / 0.275, 0.01 / 0.275, 0.0625 / 0.275, 0.04 / 0.275}, 5);

	logits[1] = -INFINITY;
	check_frequencies(plain, logits, (double[]){0.05 / 0.6, 0, 0.1 / 0.6, 0.25 / 0.6, 0.2 / 0.6}, 5);
}

static void a_seed_names_a_sequence(void **state)
{
	/* Computed by an independent program of the same description (Python, its own exp). */
	static const uint32_t want[] = {29, 10, 29, 29, 28, 23, 9, 23, 4, 23, 22, 23};
	rp_sampling p = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .min_p = 0.05f, .repeat_penalty = 1.1f, .repeat_window = 4,
		.seed = 42};
	rp_sampler *a = sampler(p, 32), *b = sampler(p, 32);
	float logits[32];
	bool differs = false;

	(void)state;
	for (uint32_t i = 0; i < 32; i++)
		logits[i] = (float)((i * 37 + 11) % 32) / 8;
	p.seed = 43;
	rp_sampler *other = sampler(p, 32);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		uint32_t id = next(a, logits);
		assert_int_equal(id, want[i]);
		assert_int_equal(next(b, logits), id);
		differs |= next(other, logits) != id;
		rp_sampler_accept(a, id);
		rp_sampler_accept(b, id);
		rp_sampler_accept(other, id);
	}
	assert_true(differs);
	rp_sampler_free(a);
	rp_sampler_free(b);
	rp_sampler_free(other);
}

static void broken_logits_are_an_error(void **state)
{
	float logits[3] = {0, NAN, 1};
	rp_sampler *s = sampler(plain, 3);
	rp_error err;
	uint32_t id = 77;
	rp_logprob top[3];

	(void)state;
	assert_int_equal(rp_sampler_next(s, logits, &id, &err), RP_MODEL);
	assert_non_null(strstr(err.msg, "id 1"));
	logits[1] = INFINITY;
	assert_int_equal(rp_sampler_next(s, logits, &id, &err), RP_MODEL);
	assert_int_equal(rp_top_logprobs(logits, 3, 2, top, &err), RP_MODEL);
	logits[0] = logits[1] = logits[2] = -INFINITY;
	assert_int_equal(rp_sampler_next(s, logits, &id, &err), RP_MODEL);
	assert_int_equal(id, 77);
	logits[2] = -FLT_MAX; /* extremes that are numbers */
	assert_int_equal(next(s, logits), 2);
	logits[0] = FLT_MAX;
	assert_int_equal(next(s, logits), 0);
	rp_sampler_free(s);
}

static void options_are_checked(void **state)
{
	struct {
		rp_sampling p;
		const char *word;
	} bad[] = {
		{{.temperature = -1, .top_p = 1, .repeat_penalty = 1}, "temperature"},
		{{.temperature = NAN, .top_p = 1, .repeat_penalty = 1}, "temperature"},
		{{.temperature = INFINITY, .top_p = 1, .repeat_penalty = 1}, "temperature"},
		{{.top_p = 1.5f, .repeat_penalty = 1}, "top-p"},
		{{.top_p = 1, .min_p = -0.1f, .repeat_penalty = 1}, "min-p"},
		{{.top_p = 1, .repeat_penalty = 0}, "penalty"},
		{{.top_p = 1, .repeat_penalty = 1, .repeat_window = UINT32_MAX}, "window"},
	};
	rp_sampler *s = NULL;
	rp_error err;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(rp_sampler_new(&bad[i].p, 8, &s, &err), RP_USAGE);
		assert_non_null(strstr(err.msg, bad[i].word));
		assert_null(s);
	}
}

static void logprobs_are_those_of_the_softmax(void **state)
{
	enum { N = 1000 };
	static float logits[N];
	rp_logprob top[N];
	uint32_t ranked[N];
	rp_error err;
	rp_random r;
	double sum = 0;

	(void)state;
	rp_random_seed(&r, 7);
	for (int i = 0; i < N; i++)
		logits[i] = (float)(rp_random_next(&r) % 64) / 4; /* many ties */
	for (int i = 0; i < N; i++)
		sum += exp((double)logits[i]);
	assert_int_equal(rp_top_logprobs(logits, N, N, top, &err), RP_OK);
	rp_ref_top_k(logits, N, N, ranked);
	for (int i = 0; i < N; i++) {
		assert_int_equal(top[i].id, ranked[i]);
		assert_true(fabs((double)top[i].logprob - ((double)logits[top[i].id] - log(sum))) < 1e-5);
		assert_true(top[i].logprob == rp_logprob_of(logits, N, top[i].id));
	}
	assert_int_equal(top[0].id, rp_ref_argmax(logits, N));
	assert_int_equal(rp_top_logprobs(logits, N, N + 1, top, &err), RP_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generator_gives_the_published_vectors),
		cmocka_unit_test(places_give_the_published_numbers),
		cmocka_unit_test(weights_follow_the_exponential),
		cmocka_unit_test(greedy_takes_the_largest_and_the_lower_id),
		cmocka_unit_test(penalty_lowers_what_was_said),
		cmocka_unit_test(filters_leave_the_right_ids),
		cmocka_unit_test(a_seed_names_a_sequence),
		cmocka_unit_test(broken_logits_are_an_error),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(logprobs_are_those_of_the_softmax),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
