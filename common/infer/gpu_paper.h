/* gpu_paper: what an engine on paper (rp_engine_opts.paper) is made of, for plans: its device, its buffers, its choices. */
#ifndef RP_GPU_PAPER_H
#define RP_GPU_PAPER_H

#include "infer/infer.h"
#include "vk/paper.h"

/* What a buffer is for. X: C name, word. */
#define RP_BUF_CLASSES(X)                                                                                                        \
	X(WEIGHTS, "weights")                                                                                                    \
	X(KV, "kv-cache")            /* keys or values of a layer: grows with the context */                                     \
	X(STATE, "state")            /* convolution inputs or the state of the delta rule of a layer */                          \
	X(ACTIVATIONS, "activations")                                                                                            \
	X(TABLE, "table")            /* angles of rope */                                                                        \
	X(OTHER, "other")            /* what goes between host and device: batches, ids, output, staging */

typedef enum rp_buf_class {
#define X(name, word) RP_BUF_##name,
	RP_BUF_CLASSES(X)
#undef X
	RP_BUF_CLASS_COUNT
} rp_buf_class;

const char *rp_buf_class_word(rp_buf_class c);

typedef struct rp_buf_role {
	rp_buf_class class;
	char name[96];          /* unique in the engine: "slot 3", "layer 5 keys", a tensor's name and the range of its rows */
	uint64_t row_bytes;     /* activations, tables: of a row; KV: of a position; weights: of a row; else 0 */
	uint64_t values;        /* weights of a matrix: how many */
} rp_buf_role;

const rp_vk *rp_engine_paper(const rp_engine *e); /* NULL when the engine is not on paper */
const rp_vk_info *rp_engine_facts(const rp_engine *e); /* of any engine: its Vulkan device; NULL when it has none */
void rp_engine_role(const rp_engine *e, const rp_vk_buf *b, rp_buf_role *out);
rp_cache_type rp_engine_kv(const rp_engine *e); /* f32 or f16 */
/* What it was opened with, and for which graph: a twin on paper does what this one does. */
void rp_engine_twin(const rp_engine *e, rp_engine_opts *opts, const rp_graph **graph);
uint32_t rp_engine_chunk(const rp_engine *e); /* most rows a pass */
/* Which kernels: "portable", "subgroup", "fused", "matrix"; why; what was rejected and why (NULL: nothing). */
const char *rp_engine_variant(const rp_engine *e, const char **why, const char **rejected);

#endif
