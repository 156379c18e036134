/* infer: running a graph: engines (weights on a device), sequences (caches), sampling, and one-shot generation.
 *
 * An engine is driven by one thread. Many sequences share it; a forward call takes a ragged batch of segments, so prefill
 * and decode, one user and many, are the same call. Backends: the oracle ("cpu", plain C float32, slow and obvious) and
 * Vulkan. Layer ranges: an engine may hold layers [first, last) only; then input and output are rows of the residual stream.
 */
#ifndef RP_INFER_H
#define RP_INFER_H

#include "base/base.h"
#include "graph/graph.h"
#include "text/text.h"

#include <stdatomic.h>

struct rp_vk_info;
typedef struct rp_engine rp_engine;
typedef struct rp_seq rp_seq;

/* Called after each operation of a forward pass with the operation's label (graph/graph.h lists those that always exist) and
 * the slot it wrote, rows of the pass in order; a pass is at most `chunk` rows. layer is -1 outside layers. data [rows, width]
 * is only valid during the call. For tests: reading everything back is slow. */
typedef void rp_tap_fn(void *user, int layer, const char *label, const float *data, size_t rows, size_t width);

/* How a cache holds keys and values. f16: rounded by at most 1 in 2,048 of each (2^-25 near zero), clamped to 65,504. */
typedef enum rp_cache_type { RP_CACHE_BEST, RP_CACHE_F32, RP_CACHE_F16 } rp_cache_type; /* best: f32 on cpu, f16 on Vulkan */

typedef struct rp_engine_opts {
	/* "cpu", "gpu" (the best Vulkan device), "0".. (a Vulkan device by number). NULL: the best Vulkan device that is real
	 * hardware, else "cpu": Mesa's CPU driver takes 3 to 6 times as long to read a prompt, and no less time a token. When such
	 * a device is there and cannot run the model (an error of its driver, too little memory), rp_engine_info.instead says why. */
	const char *device;
	uint32_t ctx;       /* positions a sequence can hold; 0: min(model's, 4096) */
	uint32_t chunk;     /* most rows a forward pass computes at once (longer segments are split); 0: the backend's choice */
	uint32_t threads;   /* cpu: 0 for the number of processors */
	uint64_t host_bytes; /* cpu, and Vulkan on the CPU: memory for weights and the first sequence; 0: what the system has free */
	uint32_t layer_first, layer_last; /* [first, last); 0, 0: all */
	const atomic_bool *cancel;        /* polled between chunks and layers; NULL: never */
	rp_tap_fn *tap;
	void *tap_user;
	void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes of weights loaded; may be NULL */
	void *progress_user;
	const char *cache_dir; /* for pipeline caches; NULL: none on disk */
	bool profile;          /* time every dispatch (profile.h); a backend that has none: RP_UNSUPPORTED */
	bool validate;         /* Vulkan validation layers; a message from them fails the call with RP_INTERNAL */
	rp_cache_type kv;      /* RP_UNSUPPORTED: f16 on cpu, or with heads of no multiple of 8 values */
	const char *variant;   /* kernels: "portable", "subgroup", "fused", "matrix"; NULL: the device's best */
	const struct rp_gpu_tune *tune; /* for measuring other cuts of kernels (infer/gpu_cut.h); NULL: the default ones */
	uint64_t device_bytes, max_binding; /* vulkan: device memory it may take, bytes it may bind at once; 0: what the device has */
	/* For plans: facts of a Vulkan device in the place of `device`. The engine does all it would do there, on paper (vk/paper.h):
	 * it reads no weights, and its outputs are zeros. */
	const struct rp_vk_info *paper;
} rp_engine_opts;

typedef struct rp_engine_info {
	const char *backend; /* "cpu", "vulkan" */
	char device[256];    /* its name for people */
	uint32_t ctx;
	char instead[400];   /* why "cpu" took over from a Vulkan device that is there; "" when nothing went wrong */
	uint64_t weight_bytes, seq_bytes; /* on the device: weights; caches of one sequence */
} rp_engine_info;

rp_code rp_engine_open(const rp_graph *g, const rp_engine_opts *opts, rp_engine **out, rp_error *err);
void rp_engine_close(rp_engine *e); /* after its sequences are freed */
const rp_engine_info *rp_engine_describe(const rp_engine *e);

/* Work of the engine since it was opened; all 0 on a backend that has no device to hand work to. */
typedef struct rp_engine_stats {
	uint64_t submits, dispatches, barriers, copies;
	uint64_t wait_ns; /* the host waited for the device; the rest of a call's time is the host's own */
} rp_engine_stats;
void rp_engine_count(const rp_engine *e, rp_engine_stats *out);

rp_code rp_seq_new(rp_engine *e, rp_seq **out, rp_error *err);
void rp_seq_free(rp_seq *s);
uint32_t rp_seq_len(const rp_seq *s); /* positions computed so far */
void rp_seq_reset(rp_seq *s);         /* back to position 0 */

typedef enum rp_want { RP_WANT_NONE, RP_WANT_LAST, RP_WANT_ALL } rp_want; /* rows of a segment whose logits are wanted */

typedef struct rp_segment {
	rp_seq *seq;         /* a sequence appears once a batch */
	const uint32_t *ids; /* n ids, each < vocab (checked: RP_PROMPT); NULL when the engine's range does not start at 0 */
	const float *rows;   /* [n, hidden] instead of ids for a later stage */
	uint32_t n;
	rp_want want;
} rp_segment;

typedef struct rp_output {
	const float *logits; /* [n_rows, vocab], segments in order; for a range that does not end the model: [rows, hidden] */
	size_t n_rows, width;
} rp_output;

/* Compute a batch. A segment that does not fit its context: RP_CONTEXT, nothing is computed. After RP_CANCELLED the
 * sequences of the batch must be reset. out is valid until the next call on the engine. */
rp_code rp_forward(rp_engine *e, const rp_segment *segments, size_t n, rp_output *out, rp_error *err);

/* ---- sampling. In this order: repetition penalty (positive logits are divided by it, others multiplied, once an id);
 * temperature; the top_k likeliest; of those the fewest whose probabilities reach top_p; of those the ones at least min_p times
 * as likely as the best; then one by chance. Ties go to the lower id. Random numbers and weights are integers made by rules of our own:
 * equal logits and seeds give equal ids on every machine and device. An id less than 2^-31 times as likely as the best is never
 * chosen. ---- */
typedef struct rp_sampling {
	float temperature; /* 0: the largest logit after the penalty; the rest is then not looked at */
	uint32_t top_k;    /* 0: off */
	float top_p, min_p, repeat_penalty; /* 1, 0, 1: off. In [0, 1], [0, 1], above 0 */
	uint32_t repeat_window;             /* last ids the penalty looks at, prompt included; at most 2^20 */
	uint64_t seed;
} rp_sampling;

typedef struct rp_sampler rp_sampler;
rp_code rp_sampler_new(const rp_sampling *p, uint32_t vocab, rp_sampler **out, rp_error *err); /* RP_USAGE names the value */
void rp_sampler_free(rp_sampler *s);
void rp_sampler_accept(rp_sampler *s, uint32_t id); /* an id < vocab of the prompt or of the answer */
/* Does not accept by itself. A logit of minus infinity is never chosen; one that is NaN or plus infinity, or no finite one
 * at all: RP_MODEL. */
rp_code rp_sampler_next(rp_sampler *s, const float *logits, uint32_t *id, rp_error *err);

/* ---- decode: one id after the other, chosen on the device where it can, without the host in between ---- */
typedef struct rp_decode_opts {
	uint32_t first;       /* id to feed, < vocab: the last one known */
	uint32_t n;           /* most ids to choose; the context must hold as many positions more */
	const uint32_t *ends; /* ids after which nothing follows */
	uint32_t n_ends;
	bool careful; /* on_id may stop after any id and seq stays good. Else work runs ahead, and after a stop seq must be reset */
	rp_sampler *sampler; /* its next ids, which it accepts; NULL: the largest logit, ties to the lower id */
} rp_decode_opts;

/* Sees each id chosen, in order; sets *stop to end there (an id of `ends` ends by itself). Non-RP_OK ends it too. */
typedef rp_code rp_id_fn(void *user, uint32_t id, bool *stop, rp_error *err);

/* Feed the first id, then each chosen one but the last. An engine with all layers. Logits of which the best is not finite:
 * RP_MODEL. After an error seq must be reset. A Vulkan device samples by itself when top_k is 1 to 256 (or the temperature 0) and the
 * repetition penalty, if any, looks at 4096 ids at most; otherwise logits go through the host. The ids are the same. */
rp_code rp_decode(rp_engine *e, rp_seq *seq, const rp_decode_opts *opts, rp_id_fn *on_id, void *user, rp_error *err);

/* ---- log probabilities ---- */
typedef struct rp_logprob {
	uint32_t id;
	float logprob; /* natural log, of the raw logits (before penalty and temperature) */
} rp_logprob;
/* The k most likely ids, best first, ties by lower id; k <= vocab. Logits as for rp_sampler_next. */
rp_code rp_top_logprobs(const float *logits, uint32_t vocab, uint32_t k, rp_logprob *out, rp_error *err);
float rp_logprob_of(const float *logits, uint32_t vocab, uint32_t id);

/* ---- one-shot generation ---- */
typedef enum rp_finish { RP_FINISH_STOP, RP_FINISH_LENGTH, RP_FINISH_CANCELLED } rp_finish;

typedef struct rp_generate_opts {
	rp_sampling sampling;
	uint32_t max_tokens; /* 0: until the context is full */
	bool ignore_eos;
	uint32_t n_logprobs;
	const char *const *stops;
	size_t n_stops;
	const atomic_bool *cancel;
} rp_generate_opts;

typedef struct rp_token_event {
	uint32_t id;
	const char *text; /* released by this id; may be empty; NULL when there is no tokenizer */
	size_t text_len;
	float logprob;         /* NaN unless n_logprobs > 0 */
	const rp_logprob *top; /* n_logprobs of them (fewer when the vocabulary is smaller), or NULL */
	size_t n_top;
} rp_token_event;

/* Non-RP_OK stops generation and is handed back by rp_generate. An event with id UINT32_MAX carries flushed text only. */
typedef rp_code rp_token_fn(void *user, const rp_token_event *event, rp_error *err);

typedef struct rp_generate_result {
	rp_finish finish;
	uint32_t prompt_tokens, tokens; /* tokens: ids sampled, the one that ended generation included */
	uint64_t prompt_ns, first_ns, decode_ns; /* prefill; start to first id; all later ids */
} rp_generate_result;

/* Feed the prompt, then sample until an id of the model's eos list, a stop string, max_tokens, the end of the context, or
 * *cancel. Every sampled id is an event, the one that ends generation included. t may be NULL (ids only; then stops must be
 * empty). seq keeps what was computed; the last id is not fed back. An empty prompt: RP_PROMPT; one that does not fit:
 * RP_CONTEXT. Cancelled: RP_OK with RP_FINISH_CANCELLED; seq must then be reset before it is used again. */
rp_code rp_generate(rp_engine *e, rp_seq *seq, const rp_tokenizer *t, const uint32_t *prompt, size_t n,
	const rp_generate_opts *opts, rp_token_fn *on_token, void *user, rp_generate_result *out, rp_error *err);

#endif
