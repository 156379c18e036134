/* Choosing the next id. Everything that decides is integer arithmetic, or a single product or difference of float32, whose result
 * IEEE 754 fixes: the kernel `sample` does the same and finds the same id. */
#include "infer/sampler.h"

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
	rp_sampler_plan plan;
	uint32_t vocab;
	uint64_t draws;    /* so far: the place in the random numbers */
	float *logits;     /* [vocab] after the penalty */
	uint32_t *weights; /* [vocab] proportional to probabilities, the best id weighs RP_SAMPLE_ONE */
	uint32_t *heap;    /* [vocab] ids */
	uint32_t *window;  /* ring of the last ids */
	uint32_t n_window, next_window;
	uint32_t *seen, round; /* [vocab] round in which an id was penalised */
};

/* ---- fixed point ---- */

static uint32_t high(uint32_t a, uint32_t b)
{
	return (uint32_t)((uint64_t)a * b >> 32);
}

static uint32_t times(uint32_t a, uint32_t b) /* of numbers with 31 bits behind the point */
{
	return (uint32_t)((uint64_t)a * b >> 31);
}

/* 2^-(z / 2^26) for z < 2^31: the series of e^-t for the fraction below 1/16, the rest by constants 2^-1/2 to 2^-1/16. */
static uint32_t power(uint32_t z)
{
	const uint32_t one = RP_SAMPLE_ONE, ln2 = 0xb17217f8u;
	uint32_t fraction = z << 6, t = high(fraction & 0x0fffffffu, ln2);
	uint32_t w = one - (t >> 1) / 5;

	w = one - high(t, w) / 4;
	w = one - high(t, w) / 3;
	w = one - high(t, w) / 2;
	w = one - high(t, w);
	if (fraction & 0x80000000u)
		w = times(w, 0x5a82799au);
	if (fraction & 0x40000000u)
		w = times(w, 0x6ba27e65u);
	if (fraction & 0x20000000u)
		w = times(w, 0x75606374u);
	if (fraction & 0x10000000u)
		w = times(w, 0x7a92be8bu);
	return w >> (z >> 26);
}

/* GPUs may take numbers below the normal ones for zero, so all do. */
static float flush(float x)
{
	return fabsf(x) < FLT_MIN ? 0 : x;
}

static uint32_t weight(float best, float x, float scale)
{
	float z = flush(best - x) * scale;

	return z < 32 ? power((uint32_t)(z * 0x1p26f)) : 0; /* 0 for what is no number, too */
}

/* The high half of a product of 64-bit numbers. */
static uint64_t high64(uint64_t a, uint64_t b)
{
	uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
	uint64_t low = (a0 * b0 >> 32) + (uint32_t)(a1 * b0) + (uint32_t)(a0 * b1);

	return a1 * b1 + (a1 * b0 >> 32) + (a0 * b1 >> 32) + (low >> 32);
}

/* What a sum of weights must reach to hold the part top_p of total. */
static uint64_t part_of(uint64_t total, uint32_t top_p)
{
	return (total >> 32) * top_p + ((uint64_t)(uint32_t)total * top_p >> 32);
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

static rp_sampler_plan plan_of(const rp_sampling *p, uint32_t vocab)
{
	double scale = 1.4426950408889634 / (double)p->temperature; /* of powers of 2 */
	rp_sampler_plan plan = {.top_k = p->top_k > 0 && p->top_k < vocab ? p->top_k : vocab, .cuts = p->top_p < 1, .seed = p->seed,
		.penalises = p->repeat_penalty != 1.0f && p->repeat_window > 0, .penalty = p->repeat_penalty, .window = p->repeat_window};

	if (!(p->temperature > 0)) {
		plan.top_k = 1;
		scale = 0;
	}
	plan.scale = (float)(scale < 1e25 ? scale : 1e25);
	plan.inverse = 1 / p->repeat_penalty;
	plan.top_p = plan.cuts ? (uint32_t)((double)p->top_p * 0x1p32) : UINT32_MAX;
	plan.min_weight = (uint32_t)((double)p->min_p * RP_SAMPLE_ONE);
	return plan;
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
	s->plan = plan_of(p, vocab);
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
	for (uint32_t i = 0; s->plan.penalises && i < s->n_window; i++) {
		uint32_t id = s->window[i];
		if (s->seen[id] == s->round)
			continue;
		s->seen[id] = s->round;
		float x = s->logits[id] * (s->logits[id] > 0 ? s->plan.inverse : s->plan.penalty);
		s->logits[id] = flush(x > FLT_MAX ? FLT_MAX : x);
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
	const uint32_t key[2] = {(uint32_t)s->plan.seed, (uint32_t)(s->plan.seed >> 32)};
	uint32_t r[4], i = 0;
	uint64_t sum = 0, passed = 0;

	for (uint32_t k = 0; k < n; k++)
		sum += s->weights[h ? ranked(h, s->vocab, k) : k];
	rp_random_philox((uint32_t[4]){(uint32_t)s->draws, (uint32_t)(s->draws >> 32)}, key, r);
	uint64_t target = high64((uint64_t)r[1] << 32 | r[0], sum); /* below sum */
	for (;; i++) {
		uint32_t id = h ? ranked(h, s->vocab, i) : i;
		passed += s->weights[id];
		if (passed > target)
			return id;
	}
}

/* Weights by temperature; their sum. */
static uint64_t weigh(rp_sampler *s, float max)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->vocab; i++)
		sum += s->weights[i] = weight(max, s->logits[i], s->plan.scale);
	return sum;
}

/* How many of the likeliest ids top_k, top_p and min_p leave; at least 1. total: the sum of all weights. */
static uint32_t cut(rp_sampler *s, heap *h, uint64_t total)
{
	uint64_t sum = 0;
	uint32_t n = s->plan.top_k;

	if (n < s->vocab && s->plan.cuts) { /* top_p is a part of what top_k leaves */
		total = 0;
		for (uint32_t i = 0; i < n; i++)
			total += s->weights[ranked(h, s->vocab, i)];
	}
	if (s->plan.cuts)
		for (n = 0; n < s->plan.top_k;) {
			sum += s->weights[ranked(h, s->vocab, n++)];
			if (sum >= part_of(total, s->plan.top_p))
				break;
		}
	uint32_t kept = 1; /* the likeliest first, so that few are ranked where min_p leaves few of many */
	while (kept < n && s->weights[ranked(h, s->vocab, kept)] >= s->plan.min_weight)
		kept++;
	return kept;
}

/* Temperature above 0. */
static uint32_t choose(rp_sampler *s, float max)
{
	uint64_t total = weigh(s, max);
	heap h;

	if (s->plan.top_k == s->vocab && !s->plan.cuts && s->plan.min_weight == 0) /* ranks do not matter */
		return draw(s, NULL, s->vocab);
	heap_build(&h, s->heap, s->logits, s->vocab);
	return draw(s, &h, cut(s, &h, total));
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
	s->draws++;
	return RP_OK;
}

/* ---- for a device that samples by itself ---- */

const rp_sampler_plan *rp_sampler_planned(const rp_sampler *s)
{
	return &s->plan;
}

bool rp_sampler_on_device(const rp_sampler *s)
{
	const rp_sampler_plan *p = &s->plan;
	bool tame = p->penalty >= 0.001f && p->penalty <= 1000.0f; /* no logit of a model overflows by it */

	return p->top_k <= RP_SAMPLE_TOP_K && (!p->penalises || (tame && p->window <= RP_SAMPLE_WINDOW));
}

void rp_sampler_words(const rp_sampler *s, uint32_t out[RP_SAMPLE_STATE])
{
	const rp_sampler_plan *p = &s->plan;

	memset(out, 0, RP_SAMPLE_STATE * sizeof *out);
	out[RP_SAMPLE_AT_TOP_K] = p->top_k;
	out[RP_SAMPLE_AT_CUTS] = p->cuts;
	out[RP_SAMPLE_AT_TOP_P] = p->top_p;
	out[RP_SAMPLE_AT_MIN_WEIGHT] = p->min_weight;
	memcpy(&out[RP_SAMPLE_AT_SCALE], &p->scale, sizeof p->scale);
	memcpy(&out[RP_SAMPLE_AT_UP], &p->inverse, sizeof p->inverse);
	memcpy(&out[RP_SAMPLE_AT_DOWN], &p->penalty, sizeof p->penalty);
	out[RP_SAMPLE_AT_SEED] = (uint32_t)p->seed;
	out[RP_SAMPLE_AT_SEED + 1] = (uint32_t)(p->seed >> 32);
	out[RP_SAMPLE_AT_DRAWS] = (uint32_t)s->draws;
	out[RP_SAMPLE_AT_DRAWS + 1] = (uint32_t)(s->draws >> 32);
	if (!p->penalises)
		return;
	out[RP_SAMPLE_AT_WINDOW] = p->window;
	out[RP_SAMPLE_AT_USED] = s->n_window;
	out[RP_SAMPLE_AT_NEXT] = s->next_window;
	memcpy(&out[RP_SAMPLE_AT_IDS], s->window, s->n_window * sizeof *out);
}

void rp_sampler_drawn(rp_sampler *s, uint32_t id)
{
	s->draws++;
	rp_sampler_accept(s, id);
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
