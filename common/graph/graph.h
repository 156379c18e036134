/* graph: what a model computes, as a short list of operations a layer.
 *
 * A family (llama, qwen3_5, ...) recognises a model, fills rp_config from its metadata, maps tensor names to roles, checks
 * every shape, and emits operations. Nothing outside the family files knows a model's name. Executors (the oracle in C, the
 * GPU) interpret the operations; a planner may fuse them. Mathematics: the model papers and shared spec "model math".
 *
 * Activations are float32 matrices [rows, width], one row a token, held in numbered slots. A batch is ragged: its rows are
 * the concatenation of segments, each a run of consecutive tokens of one sequence (infer/infer.h). Only ROPE, ATTENTION,
 * CONV and DELTA look at segments; every other operation treats rows alike.
 */
#ifndef RP_GRAPH_H
#define RP_GRAPH_H

#include "base/base.h"
#include "model/model.h"

typedef enum rp_layer_kind { RP_LAYER_FULL, RP_LAYER_LINEAR } rp_layer_kind;

enum { RP_MAX_EOS = 16, RP_MAX_LAYERS = 1024 };

typedef struct rp_config {
	const char *family;             /* "llama", "qwen3_5" */
	uint32_t n_layers, hidden, ffn; /* layers that run (draft layers not counted), residual width, MLP width */
	uint32_t n_heads, n_kv_heads, head_dim;
	uint32_t vocab;   /* rows of the output head */
	uint32_t max_ctx; /* positions the model was made for */
	float rms_eps;
	bool norm_plus_one; /* norm weights are stored zero-centred: multiply by 1 + w (never the gated norm of DELTA layers) */
	/* rope */
	float rope_theta;
	uint32_t rotary_dim;   /* dims rotated, even, the first ones of a head */
	bool rope_interleaved; /* pairs (2i, 2i+1); else (i, i + rotary_dim / 2) */
	/* gated delta rule; zero when no layer is linear */
	uint32_t lin_k_heads, lin_v_heads, lin_k_dim, lin_v_dim, conv_kernel;
	bool lin_head_mod;  /* value head h reads key head h mod k_heads (GGUF order); else h / (v_heads / k_heads) */
	bool lin_a_neg_exp; /* the A tensor holds -exp(A_log) already (GGUF); else A_log */
	uint8_t layer_kind[RP_MAX_LAYERS]; /* rp_layer_kind */
	/* token ids that end generation, from the model's files */
	uint32_t eos[RP_MAX_EOS], n_eos;
} rp_config;

typedef enum rp_op_kind {
	RP_OP_EMBED,       /* out = w0[id]                                             w0 [vocab, width] */
	RP_OP_NORM,        /* out = rms(in0, eps) * (w0, or 1 + w0 with plus_one), over runs of `group` columns      w0 [group] */
	RP_OP_MATMUL,      /* out = in0 . w0^T (+ in1 when n_in is 2)                  w0 [width(out), width(in0)] */
	RP_OP_SPLIT_HEADS, /* in0 [heads x 2 head_dim] -> out [heads x head_dim] (first halves), out1 (second halves) */
	RP_OP_ROPE,        /* out = rope(in0), heads x head_dim; angle of pair i at position p: (float)p * freqs[i];
	                    * pairs (2i, 2i + 1) when interleaved, else (i, i + rotary_dim / 2); dims from rotary_dim on pass */
	RP_OP_ATTENTION,   /* append in1, in2 (k, v) to the layer's cache; out = softmax(scale q k^T, causal) v; q = in0;
	                    * query head h reads key head h / (heads / kv_heads) */
	RP_OP_SIGMOID_MUL, /* out = in0 * sigmoid(in1) */
	RP_OP_SILU_MUL,    /* out = silu(in0) * in1 */
	RP_OP_CONV,        /* out = silu(causal depthwise conv of in0 over `kernel` tokens, the last tap on the newest)
	                    *                                                          w0 [width, (1,) kernel] */
	RP_OP_DELTA,       /* in0 = conv output q|k|v, in1 = a, in2 = b -> out [heads x group]; w0 = A, w1 = dt_bias   [heads]
	                    * heads value heads of `group` values, kv_heads key heads of head_dim values; value head h reads key
	                    * head h mod kv_heads with head_mod, else h / (heads / kv_heads)
	                    * q, k l2-normed (x / sqrt(sum x^2 + eps)), q / sqrt(head_dim); beta = sigmoid(b);
	                    * g = A' softplus(a + dt_bias), A' = w0 with neg_exp, else -exp(w0);
	                    * gated delta rule, state [heads, head_dim, group] float32 */
	RP_OP_GATED_NORM,  /* out = rms(in0, eps) * w0 * silu(in1), over runs of `group` columns    w0 [group] */
	RP_OP_ADD,         /* out = in0 + in1 */
	RP_OP_COUNT
} rp_op_kind;

typedef struct rp_op {
	rp_op_kind kind;
	uint8_t n_in;
	uint16_t in[3], out, out1; /* slots; out may equal in[0] or the residual in[1] where the operation is elementwise a row */
	const rp_tensor *w[2];     /* NULL where unused */
	uint32_t heads, kv_heads, head_dim, rotary_dim, group, kernel; /* as the kind needs */
	float eps, scale;
	const float *freqs; /* ROPE: [rotary_dim / 2], scaling and divisors of the file included */
	bool plus_one, interleaved, head_mod, neg_exp;
	const char *label; /* never NULL; unique in its layer: "q_proj", "mixer", ... (see rp_graph) */
} rp_op;

enum { RP_SLOT_X = 0 }; /* the residual stream: input of a layer, output of a layer, what a stage hands to the next */

typedef struct rp_layer {
	rp_layer_kind kind;
	uint32_t kind_index; /* how many layers of this kind came before: index of its cache */
	const rp_op *ops;
	uint32_t n_ops;
} rp_layer;

/* Labels that always exist: "embed" (the operation of pre that writes RP_SLOT_X), in every layer "mixer" (the residual
 * stream after the token mixer: attention or delta rule) and "layer" (after the MLP, the layer's last operation), "final_norm"
 * and "logits" in post. Every matrix product that ends a branch adds the residual itself. */
typedef struct rp_graph {
	rp_config config;
	const rp_model *model; /* borrowed */
	uint32_t n_slots;
	const uint32_t *slot_width;
	const rp_op *pre;  /* ids -> RP_SLOT_X */
	uint32_t n_pre;
	const rp_layer *layers;
	uint32_t n_layers;
	const rp_op *post; /* on those rows of RP_SLOT_X that want logits, packed: -> logits_slot [wanted rows, vocab] */
	uint32_t n_post;
	uint16_t logits_slot;
	rp_arena arena; /* owns all of the above */
} rp_graph;

/* Recognise the family, read its configuration, check every tensor it needs (present, shape, type). RP_UNSUPPORTED names an
 * architecture no family knows; RP_MODEL names the tensor, the shape found and the shape expected. The model must outlive
 * the graph. */
rp_code rp_graph_build(const rp_model *m, rp_graph **out, rp_error *err);
void rp_graph_free(rp_graph *g);
const char *rp_op_kind_name(rp_op_kind k);

#endif
