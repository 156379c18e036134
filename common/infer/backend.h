/* backend: what a device must be able to do for an engine. Private to infer/.
 *
 * engine.c checks every batch (ids in the vocabulary, room in the context, no sequence twice, the right kind of input for the
 * layer range), cuts it into passes of at most e->chunk rows, keeps the sequences' lengths, and owns the buffer of the
 * output rows. A backend only computes one pass. It is driven by one thread.
 */
#ifndef RP_BACKEND_H
#define RP_BACKEND_H

#include "infer/infer.h"
#include "infer/profile.h"

/* A run of consecutive tokens of one sequence within a pass. */
typedef struct rp_part {
	rp_seq *seq;
	const uint32_t *ids; /* n of them when the range starts at layer 0; else NULL */
	const float *rows;   /* [n, hidden] otherwise */
	uint32_t n, pos;     /* pos: position of the first token; caches hold exactly the positions before it */
	uint32_t want_first; /* rows [want_first, n) of this part go to the output; n: none */
} rp_part;

typedef struct rp_pass {
	const rp_part *parts;
	size_t n_parts;
	uint32_t n_rows, n_want; /* sums over the parts; n_rows >= 1 */
	/* Where the wanted rows go, packed in order: [n_want, rp_engine.out_width] (logits; the residual stream when the range
	 * ends before the last layer). NULL when n_want is 0: then the pass may still run when forward returns. */
	float *out;
} rp_pass;

typedef struct rp_step_row { /* a sequence that goes on greedily */
	rp_seq *seq;
	uint32_t first; /* id to feed */
	const uint32_t *ends;
	uint32_t n_ends;
} rp_step_row;

typedef struct rp_backend {
	const char *name;
	/* e->graph, opts, info.ctx, layer_first and layer_last are set. Fills e->state, e->chunk, e->info (device, weight_bytes,
	 * seq_bytes). On failure it leaves nothing behind. opts->device is one this backend was chosen for. */
	rp_code (*open)(rp_engine *e, rp_error *err);
	void (*close)(rp_engine *e);
	rp_code (*seq_new)(rp_seq *s, rp_error *err); /* s->engine is set; fills s->state */
	void (*seq_free)(rp_seq *s);
	rp_code (*seq_reset)(rp_seq *s, rp_error *err); /* zero the conv and delta states; the KV cache needs no clearing */
	/* Compute one pass. RP_CANCELLED when *opts.cancel was seen set: the sequences' caches are then undefined. */
	rp_code (*forward)(rp_engine *e, const rp_pass *pass, rp_error *err);
	/* rp_decode after its checks, where rp_sampler_on_device; *fed: positions that seq gained. NULL: the engine does it by forward
	 * passes. */
	rp_code (*decode)(rp_seq *s, const rp_decode_opts *opts, rp_id_fn *on_id, void *user, uint32_t *fed, rp_error *err);
	rp_code (*profile)(const rp_engine *e, rp_profile *out, rp_error *err); /* these three with opts.profile only; NULL: cannot */
	void (*profile_forget)(rp_engine *e);
	rp_code (*check)(rp_engine *e, rp_engine *oracle, const uint32_t *ids, uint32_t n, rp_error *err);
	/* `steps` (at most RP_SESSION_BLOCK) ids of each sequence to ids [n, steps], each the largest logit; what follows an id of its ends
	 * is undefined. The sequences' lengths are left to the caller. NULL, or can_steps says no: by forward passes. */
	rp_code (*steps)(rp_engine *e, const rp_step_row *rows, size_t n, uint32_t steps, uint32_t *ids, rp_error *err);
	bool (*can_steps)(const rp_engine *e);
	void (*count)(const rp_engine *e, rp_engine_stats *out); /* NULL: nothing to count */
} rp_backend;

struct rp_engine {
	const rp_backend *backend;
	const rp_graph *graph;
	rp_engine_opts opts; /* layer_first and layer_last resolved: first < last <= n_layers; strings are the caller's */
	rp_engine_info info;
	uint32_t chunk;      /* most rows a pass */
	uint32_t out_width;  /* vocab, or hidden when the range ends before the last layer */
	uint32_t n_seqs;
	float *out; /* engine.c: rows of the last rp_forward */
	size_t out_cap;
	void *state; /* the backend's */
};

struct rp_seq {
	rp_engine *engine;
	uint32_t len;
	bool broken; /* a forward pass failed half way: only reset or free */
	uint64_t mark; /* engine.c: finds a sequence named twice in a batch */
	void *state; /* the backend's */
};

/* Does rp_decode with this sampler (NULL: greedy) leave the host out? */
bool rp_decode_on_device(const rp_engine *e, const rp_sampler *sampler);

static inline bool rp_engine_cancelled(const rp_engine *e)
{
	return e->opts.cancel && atomic_load_explicit(e->opts.cancel, memory_order_relaxed);
}

extern const rp_backend rp_backend_cpu;
/* Defined by gpu.c; engine.c lists it in its table of backends. Its rp_engine_opts.device is "gpu" (the best one), NULL
 * (the best one that is real hardware; RP_NO_DEVICE otherwise, and the engine goes on with the CPU) or a number. */
extern const rp_backend rp_backend_vulkan;

#endif
