/* sampler: what a device that samples by itself (the kernel `sample`) must know of a sampler, and tells it. Private to infer/.
 *
 * Weights of ids have 31 bits behind the point: 2^-z with z = (best logit - logit) * log2(e) / temperature, z in 26 bits behind the
 * point. An id less than 2^-31 times as likely as the best weighs nothing. Sums of weights are exact, so their order is free.
 */
#ifndef RP_SAMPLER_H
#define RP_SAMPLER_H

#include "base/random.h"
#include "infer/infer.h"
#include "infer/kernel_args.h"

#define RP_SAMPLE_ONE 0x80000000u

typedef struct rp_sampler_plan {
	uint32_t top_k;      /* at least 1, at most vocab; 1 at temperature 0 */
	bool cuts;           /* top_p below 1 */
	uint32_t top_p;      /* times 2^32 */
	uint32_t min_weight; /* min_p times RP_SAMPLE_ONE */
	float scale;         /* from differences of logits to powers of 2 */
	bool penalises;
	float penalty, inverse; /* factors for logits up to 0, above 0 */
	uint32_t window;
	uint64_t seed;
} rp_sampler_plan;

const rp_sampler_plan *rp_sampler_planned(const rp_sampler *s);

/* Can the kernel do it? It ranks at most RP_SAMPLE_TOP_K ids and keeps a window of at most RP_SAMPLE_WINDOW. Only the options decide:
 * the ids are the same either way. */
bool rp_sampler_on_device(const rp_sampler *s);
void rp_sampler_words(const rp_sampler *s, uint32_t out[RP_SAMPLE_STATE]); /* the kernel's state, as it is now */
void rp_sampler_drawn(rp_sampler *s, uint32_t id);                         /* a device chose id: what next and accept would do */

#endif
