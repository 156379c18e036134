/* Choosing the next id. Everything that decides is integer arithmetic, or double arithmetic whose result IEEE 754 fixes. */
#include "infer/infer.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

enum { MAX_WINDOW = 1 << 20 };

struct rp_sampler {
	rp_sampling p;
	uint32_t vocab;
	rp_random random;
	float *logits;    /* [vocab] after the penalty */
	double *weights;  /* [vocab] proportional to probabilities */
	uint32_t *heap;   /* [vocab] ids */
	uint32_t *window; /* ring of the last ids */
	uint32_t n_window, next_window;
	uint32_t *seen, round; /* [vocab] round in which an id was penalised */
};

/* e^x for x <= 0 from basic operations only: 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2]. Relative error under 1e-15. */
static double exp_fixed(double x)
{
	const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33, log2e = 0x1.71547652b82fep+0;
	static const double inverse_factorial[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
		1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1};

	if (!(x > -700))
		return 0;
	double k = floor(x * log2e + 0.5), r = (x - k * ln2_high) - k * ln2_low, sum = 0;
	for (size_t i = 0; i < sizeof inverse_factorial / sizeof *inverse_factorial; i++)
		sum = sum * r + inverse_factorial[i];
	return ldexp(sum, (int)k);
}

static rp_code check_logits(const float *logits, uint32_t vocab, float *max, rp_error *err)
{
	float best = -INFINITY;

	for (uint32_t i = 0; i < vocab; i++) {
		if (isnan(logits[i]) || logits[i] > FLT_MAX)
			return rp_fail(err, RP_MODEL, "the model gave %s for id %u: its weights are damaged, or the device computes wrongly "
				"(compare with the device cpu)", isnan(logits[i]) ? "no number" : "infinity", i);
		best = logits[i] > best ? logits[i] : best;
	}
	if (isinf(best))
		return rp_fail(err, RP_MODEL, "the model rules out all %u ids: its weights are damaged, or the device computes wrongly", vocab);
	*max = best;
	return RP_OK;
}

/* ---- the likeliest first: a heap of ids ordered by a key, lower id on a tie ---- */

typedef struct heap {
	uint32_t *ids, n;
	const float *key;
} heap;

static bool before(const heap *h, uint32_t a, uint32_t b)
{
	return h->key[a] > h->key[b] || (!(h->key[a] < h->key[b]) && a < b);
}

static void sift_down(heap *h, uint32_t at)
{
	uint32_t id = h->ids[at];

	for (;;) {
		uint64_t child = 2 * (uint64_t)at + 1;
		if (child >= h->n)
			break;
		if (child + 1 < h->n && before(h, h->ids[child + 1], h->ids[child]))
			child++;
		if (!before(h, h->ids[child], id))
			break;
		h->ids[at] = h->ids[child];
		at = (uint32_t)child;
	}
	h->ids[at] = id;
}

static void heap_build(heap *h, uint32_t *ids, const float *key, uint32_t n)
{
	*h = (heap){.ids = ids, .n = n, .key = key};
	for (uint32_t i = 0; i < n; i++)
		ids[i] = i;
	for (uint32_t i = n / 2; i > 0; i--)
		sift_down(h, i - 1);
}

/* The best id still inside. It moves to the place the shrinking heap leaves free: those taken stand at the end, best last. */
static uint32_t heap_take(heap *h)
{
	uint32_t best = h->ids[0];

	h->ids[0] = h->ids[--h->n];
	h->ids[h->n] = best;
	if (h->n > 0)
		sift_down(h, 0);
	return best;
}

/* ---- the sampler ---- */

static rp_code check_options(const rp_sampling *p, uint32_t vocab, rp_error *err)
{
	if (vocab == 0)
		return rp_fail(err, RP_INTERNAL, "a sampler over no ids");
	if (!(p->temperature >= 0) || isinf(p->temperature))
		return rp_fail(err, RP_USAGE, "the temperature %g is negative or no number", (double)p->temperature);
	if (!(p->top_p >= 0 && p->top_p <= 1))
		return rp_fail(err, RP_USAGE, "top-p %g is outside 0 to 1", (double)p->top_p);
	if (!(p->min_p >= 0 && p->min_p <= 1))
		return rp_fail(err, RP_USAGE, "min-p %g is outside 0 to 1", (double)p->min_p);
	if (!(p->repeat_penalty > 0) || isinf(p->repeat_penalty))
		return rp_fail(err, RP_USAGE, "the repetition penalty %g is not above 0; 1 turns it off", (double)p->repeat_penalty);
	if (p->repeat_window > MAX_WINDOW)
		return rp_fail(err, RP_USAGE, "a repetition window of %u ids was asked for; at most %d", p->repeat_window, MAX_WINDOW);
	return RP_OK;
}

rp_code rp_sampler_new(const rp_sampling *p, uint32_t vocab, rp_sampler **out, rp_error *err)
{
	rp_code code = check_options(p, vocab, err);

	if (code)
		return code;
	rp_sampler *s = rp_alloc(sizeof *s);
	if (!s)
		return rp_no_memory(err, sizeof *s, "the sampler");
	s->p = *p;
	s->vocab = vocab;
	rp_random_seed(&s->random, p->seed);
	s->logits = rp_alloc_array(vocab, sizeof *s->logits);
	s->weights = rp_alloc_array(vocab, sizeof *s->weights);
	s->heap = rp_alloc_array(vocab, sizeof *s->heap);
	s->seen = rp_alloc_array(vocab, sizeof *s->seen);
	s->window = rp_alloc_array(p->repeat_window, sizeof *s->window);
	if (!s->logits || !s->weights || !s->heap || !s->seen || !s->window) {
		rp_sampler_free(s);
		return rp_no_memory(err, (uint64_t)vocab * 20, "the sampler");
	}
	*out = s;
	return RP_OK;
}

void rp_sampler_free(rp_sampler *s)
{
	if (!s)
		return;
	free(s->logits);
	free(s->weights);
	free(s->heap);
	free(s->seen);
	free(s->window);
	free(s);
}

void rp_sampler_accept(rp_sampler *s, uint32_t id)
{
	if (s->p.repeat_window == 0 || id >= s->vocab)
		return;
	s->window[s->next_window] = id;
	s->next_window = (s->next_window + 1) % s->p.repeat_window;
	if (s->n_window < s->p.repeat_window)
		s->n_window++;
}

static void penalise(rp_sampler *s)
{
	if (++s->round == 0) { /* the marks of 2^32 rounds ago would look new */
		memset(s->seen, 0, s->vocab * sizeof *s->seen);
		s->round = 1;
	}
	for (uint32_t i = 0; i < s->n_window; i++) {
		uint32_t id = s->window[i];
		if (s->seen[id] == s->round)
			continue;
		s->seen[id] = s->round;
		s->logits[id] = s->logits[id] > 0 ? s->logits[id] / s->p.repeat_penalty : s->logits[id] * s->p.repeat_penalty;
	}
}

static uint32_t largest(const float *x, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/* The i-th likeliest id; takes out of the heap what has not been asked for yet. */
static uint32_t ranked(heap *h, uint32_t vocab, uint32_t i)
{
	while (vocab - h->n <= i)
		heap_take(h);
	return h->ids[vocab - 1 - i];
}

/* One of n ids by chance, in order of rank (h) or of id (h NULL). A weight of 0 is never drawn. */
static uint32_t draw(rp_sampler *s, heap *h, uint32_t n)
{
	double sum = 0, passed = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += s->weights[h ? ranked(h, s->vocab, i) : i];
	double target = rp_random_unit(&s->random) * sum;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = h ? ranked(h, s->vocab, i) : i;
		if (!(s->weights[id] > 0))
			continue;
		last = id;
		passed += s->weights[id];
		if (passed > target)
			break;
	}
	return last;
}

/* Weights by temperature, the best id weighs 1; their sum. */
static double weigh(rp_sampler *s, float max)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->vocab; i++) {
		s->weights[i] = exp_fixed(((double)s->logits[i] - (double)max) / (double)s->p.temperature);
		sum += s->weights[i];
	}
	return sum;
}

/* How many of the likeliest ids top_k, top_p and min_p leave; at least 1. total: the sum of all weights. */
static uint32_t cut(rp_sampler *s, heap *h, uint32_t top_k, double total)
{
	double sum = 0;
	uint32_t n = top_k;

	if (top_k < s->vocab) { /* top_p is a part of what top_k leaves */
		total = 0;
		for (uint32_t i = 0; i < top_k; i++)
			total += s->weights[ranked(h, s->vocab, i)];
	}
	if (s->p.top_p < 1)
		for (n = 0; n < top_k;) {
			sum += s->weights[ranked(h, s->vocab, n++)];
			if (sum >= (double)s->p.top_p * total)
				break;
		}
	while (n > 1 && s->weights[ranked(h, s->vocab, n - 1)] < (double)s->p.min_p)
		n--;
	return n;
}

/* Temperature above 0. */
static uint32_t choose(rp_sampler *s, float max)
{
	double total = weigh(s, max);
	uint32_t top_k = s->p.top_k > 0 && s->p.top_k < s->vocab ? s->p.top_k : s->vocab;
	heap h;

	if (top_k == s->vocab && !(s->p.top_p < 1)) { /* ranks do not matter */
		for (uint32_t i = 0; i < s->vocab; i++)
			if (s->weights[i] < (double)s->p.min_p)
				s->weights[i] = 0;
		return draw(s, NULL, s->vocab);
	}
	heap_build(&h, s->heap, s->logits, s->vocab);
	return draw(s, &h, cut(s, &h, top_k, total));
}

rp_code rp_sampler_next(rp_sampler *s, const float *logits, uint32_t *id, rp_error *err)
{
	float max;
	rp_code code = check_logits(logits, s->vocab, &max, err);

	if (code)
		return code;
	memcpy(s->logits, logits, s->vocab * sizeof *logits);
	penalise(s);
	uint32_t best = largest(s->logits, s->vocab);
	*id = s->p.temperature > 0 ? choose(s, s->logits[best]) : best;
	return RP_OK;
}

/* ---- probabilities for people ---- */

static double log_sum_exp(const float *logits, uint32_t vocab, float max)
{
	double sum = 0;

	for (uint32_t i = 0; i < vocab; i++)
		sum += exp((double)logits[i] - (double)max);
	return (double)max + log(sum);
}

rp_code rp_top_logprobs(const float *logits, uint32_t vocab, uint32_t k, rp_logprob *out, rp_error *err)
{
	float max;
	heap h;

	if (k == 0)
		return RP_OK;
	if (k > vocab)
		return rp_fail(err, RP_USAGE, "%u likeliest ids were asked for; the vocabulary has %u", k, vocab);
	rp_code code = check_logits(logits, vocab, &max, err);
	if (code)
		return code;
	uint32_t *ids = rp_alloc_array(vocab, sizeof *ids);
	if (!ids)
		return rp_no_memory(err, (uint64_t)vocab * sizeof *ids, "the likeliest ids");
	double lse = log_sum_exp(logits, vocab, max);
	heap_build(&h, ids, logits, vocab);
	for (uint32_t i = 0; i < k; i++) {
		uint32_t id = heap_take(&h);
		out[i] = (rp_logprob){id, (float)((double)logits[id] - lse)};
	}
	free(ids);
	return RP_OK;
}

float rp_logprob_of(const float *logits, uint32_t vocab, uint32_t id)
{
	return (float)((double)logits[id] - log_sum_exp(logits, vocab, logits[largest(logits, vocab)]));
}
