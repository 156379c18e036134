/* build: what families are written with: fields of any format's metadata, tensors by role, operations. Private to graph/.
 *
 * Errors stick to the builder: after the first one every call does nothing and gives a harmless value, so a family reads as a
 * list of facts and is checked once at its end (b->code).
 */
#ifndef RP_GRAPH_BUILD_H
#define RP_GRAPH_BUILD_H

#include "graph/graph.h"

#include <cjson/cJSON.h>

enum { RP_MAX_OPS = 48, RP_MAX_SLOTS = 48 };

typedef struct rp_builder {
	const rp_model *model;
	rp_graph *graph;
	rp_config *config; /* of the graph */
	rp_error *err;
	rp_code code;
	rp_format format;
	const char *gguf_prefix;  /* "llama": before every GGUF key */
	const cJSON *hf, *rdrr;   /* the text part of config.json; the manifest; NULL in other formats */
	const char *name_prefix;  /* of tensors in HF spelling: "model.", "model.language_model.", "" */
	uint32_t layer;           /* the one being built */
	uint32_t slot_width[RP_MAX_SLOTS], n_slots;
	rp_op ops[RP_MAX_OPS];    /* of the layer or section being built */
	uint32_t n_ops;
	const rp_tensor **used;   /* every tensor bound so far, for the check of leftovers */
	size_t n_used, cap_used;
} rp_builder;

typedef struct rp_family {
	const char *name;                        /* "llama" */
	const char *gguf, *hf[3];                /* architecture names: general.architecture, model_type (NULL-terminated) */
	bool (*claims_rdrr)(const cJSON *manifest); /* a manifest names no family: told by what it describes */
	void (*build)(rp_builder *b);
} rp_family;

extern const rp_family rp_family_llama, rp_family_qwen35;

/* Record an error unless there is one already. RP_MODEL, RP_FORMAT and RP_UNSUPPORTED messages get the file's path in front. */
void rp_build_fail(rp_builder *b, rp_code code, const char *fmt, ...) RP_PRINTF(3, 4);

/* ---- fields. One name a format; rdrr is a path in the manifest ("architecture.hiddenSize"). NULL: this format has no such field
 * and the default holds (rp_need_*: then that is an error of the family, not of the file). null in JSON counts as absent. ---- */
typedef struct rp_field {
	const char *gguf, *hf, *rdrr;
} rp_field;
#define RP_FIELD(gguf, hf, rdrr) ((rp_field){gguf, hf, rdrr})

bool rp_has(rp_builder *b, rp_field f);
uint32_t rp_need_u32(rp_builder *b, rp_field f, uint32_t min, uint32_t max);
uint32_t rp_opt_u32(rp_builder *b, rp_field f, uint32_t min, uint32_t max, uint32_t otherwise);
float rp_need_f32(rp_builder *b, rp_field f); /* finite, > 0 */
float rp_opt_f32(rp_builder *b, rp_field f, float otherwise);
bool rp_opt_bool(rp_builder *b, rp_field f, bool otherwise);
/* NULL when absent; JSON formats only (GGUF strings are not NUL-terminated and only compared: rp_expect_str). */
const cJSON *rp_json_at(const cJSON *root, const char *path);
/* Refuse (RP_UNSUPPORTED) a model where the field is present with another value than the one this build computes. */
void rp_expect_bool(rp_builder *b, rp_field f, bool want);
void rp_expect_f32(rp_builder *b, rp_field f, float want);
void rp_expect_str(rp_builder *b, rp_field f, const char *want);
void rp_expect_absent(rp_builder *b, rp_field f); /* absent, null, false, 0 or "none" */

/* The things RDRR manifests can ask for that no family of this build has. */
void rp_check_rdrr(rp_builder *b);
/* config->eos from every place the format has. Needs config->vocab. */
void rp_read_eos(rp_builder *b);
/* Frequencies [rotary_dim / 2] with the scaling the model asks for (none, linear, llama3, a tensor of divisors); in the arena. */
const float *rp_rope_freqs(rp_builder *b);

/* ---- tensors ---- */
typedef struct rp_name {
	const char *gguf, *hf; /* after "blk.N." and after "layers.N." */
} rp_name;
#define RP_NAME(gguf, hf) ((rp_name){gguf, hf})

/* Decide name_prefix by looking for the embedding; bind it; set config->vocab from it. Needs config->hidden. */
const rp_tensor *rp_bind_embedding(rp_builder *b);
/* A tensor of the layer being built: [d0], or [d0, d1] when d1 > 0. */
const rp_tensor *rp_bind(rp_builder *b, rp_name name, uint64_t d0, uint64_t d1);
/* The same outside layers, full names. */
const rp_tensor *rp_bind_top(rp_builder *b, const char *name, uint64_t d0, uint64_t d1);
/* The output head by the rule for tied embeddings: a separate tensor when it is quantised or untied, else the embedding. */
const rp_tensor *rp_bind_head(rp_builder *b, const rp_tensor *embedding);
/* Refuse tensors of the text model that nothing bound: they mean something this build would leave out. */
void rp_check_leftovers(rp_builder *b);

/* ---- operations ---- */
uint16_t rp_slot(rp_builder *b, uint64_t width);
/* Append one; fields beyond these are set through the pointer (never NULL; a scratch operation after an error). */
rp_op *rp_emit(rp_builder *b, rp_op_kind kind, const char *label, uint16_t out, uint16_t in, const rp_tensor *w);
void rp_emit_norm(rp_builder *b, const char *label, uint16_t out, uint16_t in, const rp_tensor *w, uint32_t group);
void rp_emit_rope(rp_builder *b, const char *label, uint16_t slot, uint32_t heads, const float *freqs);
void rp_emit_attention(rp_builder *b, uint16_t out, uint16_t q, uint16_t k, uint16_t v, float scale);
/* A matrix product that ends a branch: RP_SLOT_X += in . w^T. */
void rp_emit_residual(rp_builder *b, const char *label, uint16_t in, const rp_tensor *w);
/* The gated MLP of both families, from the norm to the residual: gate, up, down of config->ffn. */
void rp_emit_mlp(rp_builder *b, rp_name norm, uint16_t hidden, uint16_t gate, uint16_t up);
/* In this order: the embedding, which makes RP_SLOT_X; each layer's operations, ended by rp_end_layer; final norm and head. */
void rp_emit_start(rp_builder *b, const rp_tensor *embedding);
void rp_end_layer(rp_builder *b, rp_layer_kind kind);
void rp_emit_finish(rp_builder *b, const rp_tensor *embedding, uint16_t hidden);

#endif
