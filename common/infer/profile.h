/* profile: where the time of an engine goes, dispatch by dispatch, and whether each kernel computes what the oracle does.
 *
 * An engine opened with rp_engine_opts.profile puts a timestamp behind each dispatch and hands every recording to the device alone, so
 * that it is slower as a whole while each dispatch takes its usual time. Dispatches that differ in kernel, constants, parameters,
 * workgroups, operations or kind of layer are kept apart.
 */
#ifndef RP_PROFILE_H
#define RP_PROFILE_H

#include "infer/infer.h"

typedef struct rp_profile_row {
	const char *kernel, *ops; /* ops: labels of the operations it computes */
	const char *layer;        /* kind of the layer: "attention", "linear"; "" outside layers */
	char constants[256], shape[64]; /* "QUANT=12 WG=512"; "1024 x 3584", or workgroups */
	bool prefill;             /* in passes of more rows than sequences; else a token a sequence */
	uint64_t count;           /* dispatches that were timed */
	double ns, median_ns;     /* of all of them, of one */
	double bytes, flop;       /* of one: weights and caches read, mean; of its matrix products. 0: none */
	/* Largest normalised mean squared error against the oracle of this variant (kernel, constants, operations; any number of rows), and
	 * the most allowed; NaN: nobody checked. */
	double nmse, bound;
} rp_profile_row;

typedef struct rp_profile {
	rp_profile_row *rows; /* by time, prefill first */
	size_t n;
	uint64_t passes[2];   /* that were timed: generation, prefill */
	double ns[2];
} rp_profile;

/* What was seen since the engine was opened or the profile forgotten. Texts live as long as the engine. Without
 * rp_engine_opts.profile: RP_INTERNAL. */
rp_code rp_engine_profile(const rp_engine *e, rp_profile *out, rp_error *err);
/* Compute the ids as a prompt, and two tokens after them, kernel by kernel on e (opened with profile) and operation by operation on
 * the oracle (another engine of the same graph, on the cpu, with room for as many positions), which is given the device's own values
 * wherever there are some: so each kernel answers for its own error only, kept in its rows. A kernel whose results only another
 * kernel can read shares that one's error. n at least 1; what does not fit a pass of either
 * is left out. */
rp_code rp_engine_check(rp_engine *e, rp_engine *oracle, const uint32_t *ids, uint32_t n, rp_error *err);
void rp_profile_free(rp_profile *p);
void rp_engine_profile_forget(rp_engine *e); /* times, not checks */

#endif
