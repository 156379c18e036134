/* Tensors by role, and operations. */
#include "graph/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

static void remember(rp_builder *b, const rp_tensor *t)
{
	if (b->n_used == b->cap_used) {
		size_t cap = b->cap_used ? 2 * b->cap_used : 256;
		const rp_tensor **grown = rp_grow_array(b->used, cap, sizeof *grown);
		if (!grown) {
			rp_build_fail(b, RP_NO_MEMORY, "no memory for the list of tensors");
			return;
		}
		b->used = grown;
		b->cap_used = cap;
	}
	b->used[b->n_used++] = t;
}

static void shape_text(char *out, size_t size, const uint64_t *dims, uint32_t n)
{
	size_t at = (size_t)snprintf(out, size, "[");

	for (uint32_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
	if (at < size)
		snprintf(out + at, size - at, "]");
}

/* Dimensions of 1 carry nothing: a convolution is [channels, 1, taps] in one format and [channels, taps] in another. */
static uint32_t squeeze(const uint64_t *dims, uint32_t n, uint64_t *out)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (dims[i] != 1)
			out[kept++] = dims[i];
	return kept;
}

static const rp_tensor *bind(rp_builder *b, const char *name, uint64_t d0, uint64_t d1)
{
	uint64_t want[2] = {d0, d1}, a[RP_MAX_DIMS], w[2];
	uint32_t n_want = d1 ? 2 : 1;
	char found[100], expected[100];

	if (b->code)
		return NULL;
	const rp_tensor *t = rp_model_find(b->model, name);
	if (!t) {
		rp_build_fail(b, RP_MODEL, "tensor %s is missing; the file is incomplete or not of family %s", name, b->config->family);
		return NULL;
	}
	uint32_t na = squeeze(t->dims, t->n_dims, a), nw = squeeze(want, n_want, w);
	if (na != nw || memcmp(a, w, na * sizeof *a) != 0) {
		shape_text(found, sizeof found, t->dims, t->n_dims);
		shape_text(expected, sizeof expected, want, n_want);
		rp_build_fail(b, RP_MODEL, "tensor %s has shape %s; the model's configuration asks for %s", name, found, expected);
		return NULL;
	}
	if (t->dtype >= RP_OTHER) {
		rp_build_fail(b, RP_UNSUPPORTED, "tensor %s is stored in a type this build cannot compute with", name);
		return NULL;
	}
	remember(b, t);
	return b->code ? NULL : t;
}

const rp_tensor *rp_bind(rp_builder *b, rp_name name, uint64_t d0, uint64_t d1)
{
	char full[128];

	if (b->format == RP_FORMAT_GGUF)
		snprintf(full, sizeof full, "blk.%u.%s", b->layer, name.gguf);
	else
		snprintf(full, sizeof full, "%slayers.%u.%s", b->name_prefix, b->layer, name.hf);
	return bind(b, full, d0, d1);
}

const rp_tensor *rp_bind_top(rp_builder *b, const char *name, uint64_t d0, uint64_t d1)
{
	return bind(b, name, d0, d1);
}

const rp_tensor *rp_bind_embedding(rp_builder *b)
{
	static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "language_model.", "model.", ""};
	char name[64] = "token_embd.weight";
	const rp_tensor *t = rp_model_find(b->model, name);

	if (b->format != RP_FORMAT_GGUF)
		for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
			b->name_prefix = prefixes[i];
			snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
			t = rp_model_find(b->model, name);
			if (t)
				break;
		}
	if (b->code)
		return NULL;
	if (!t) {
		rp_build_fail(b, RP_MODEL, "the token embedding is missing: no tensor is called %s",
			b->format == RP_FORMAT_GGUF ? name : "model.embed_tokens.weight or model.language_model.embed_tokens.weight");
		return NULL;
	}
	uint64_t vocab = t->n_dims > 0 ? t->dims[0] : 0;
	if (vocab == 0 || vocab > 1 << 26) {
		rp_build_fail(b, RP_MODEL, "tensor %s: %llu is no size of a vocabulary", name, (unsigned long long)vocab);
		return NULL;
	}
	b->config->vocab = (uint32_t)vocab;
	uint32_t said = rp_opt_u32(b, RP_FIELD("vocab_size", "vocab_size", "architecture.vocabSize"), 1, 1 << 26, (uint32_t)vocab);
	if (said != vocab)
		rp_build_fail(b, RP_MODEL, "tensor %s has %llu rows; the configuration gives a vocabulary of %u", name,
			(unsigned long long)vocab, said);
	return bind(b, name, vocab, b->config->hidden);
}

static bool dense(const rp_tensor *t)
{
	return rp_dtype_get(t->dtype)->block_values == 1;
}

const rp_tensor *rp_bind_head(rp_builder *b, const rp_tensor *embedding)
{
	char own[64];
	const char *names[] = {own, "lm_head.weight", "model.lm_head.weight"};
	const rp_config *c = b->config;

	if (b->code)
		return NULL;
	if (b->format == RP_FORMAT_GGUF)
		return rp_model_find(b->model, "output.weight") ? bind(b, "output.weight", c->vocab, c->hidden) : embedding;
	bool tied = rp_opt_bool(b, RP_FIELD(NULL, "tie_word_embeddings", "inference.output.tieWordEmbeddings"), false) ||
		(b->hf && cJSON_IsTrue(rp_json_at(rp_model_json(b->model), "tie_word_embeddings")));
	snprintf(own, sizeof own, "%slm_head.weight", b->name_prefix);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const rp_tensor *t = rp_model_find(b->model, names[i]);
		if (!t)
			continue;
		(void)bind(b, names[i], c->vocab, c->hidden);
		return tied && dense(t) && t->dtype == embedding->dtype ? embedding : t;
	}
	if (!tied)
		rp_build_fail(b, RP_MODEL, "tensor lm_head.weight is missing, and the configuration does not tie it to the embedding");
	return embedding;
}

static int by_address(const void *a, const void *b)
{
	const rp_tensor *x = *(const rp_tensor *const *)a, *y = *(const rp_tensor *const *)b;
	return x < y ? -1 : x > y;
}

/* Parts of a checkpoint that are not the text model: vision, draft layers, buffers older files saved. */
static bool outside(const rp_builder *b, const char *name)
{
	static const char *const prefixes[] = {"model.visual.", "visual.", "mtp.", "model.mtp.", "v.", "mm."};
	static const char buffer[] = ".rotary_emb.inv_freq";
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	if (n >= sizeof buffer && strcmp(name + n - (sizeof buffer - 1), buffer) == 0)
		return true;
	if (b->format != RP_FORMAT_GGUF || strncmp(name, "blk.", 4) != 0)
		return false;
	char *end;
	unsigned long layer = strtoul(name + 4, &end, 10);
	return end != name + 4 && *end == '.' && layer >= b->config->n_layers;
}

void rp_check_leftovers(rp_builder *b)
{
	if (b->code)
		return;
	qsort(b->used, b->n_used, sizeof *b->used, by_address);
	for (size_t i = 0; i < rp_model_n_tensors(b->model); i++) {
		const rp_tensor *t = rp_model_tensor(b->model, i);
		if (bsearch(&t, b->used, b->n_used, sizeof *b->used, by_address) || outside(b, t->name))
			continue;
		rp_build_fail(b, RP_UNSUPPORTED, "tensor %s has no place in the family %s as this build computes it; without it the answers "
			"would be wrong", t->name, b->config->family);
		return;
	}
}

/* ---- operations ---- */

uint16_t rp_slot(rp_builder *b, uint64_t width)
{
	if (b->code)
		return 0;
	if (b->n_slots == RP_MAX_SLOTS || width == 0 || width > 1 << 26) {
		rp_build_fail(b, RP_UNSUPPORTED, "an activation of %llu values a token is more than this build computes",
			(unsigned long long)width);
		return 0;
	}
	b->slot_width[b->n_slots] = (uint32_t)width;
	return (uint16_t)b->n_slots++;
}

rp_op *rp_emit(rp_builder *b, rp_op_kind kind, const char *label, uint16_t out, uint16_t in, const rp_tensor *w)
{
	if (b->n_ops == RP_MAX_OPS) {
		rp_build_fail(b, RP_INTERNAL, "a layer has more than %d operations", RP_MAX_OPS);
		b->n_ops = 0;
	}
	rp_op *op = &b->ops[b->n_ops++];
	*op = (rp_op){.kind = kind, .label = label, .n_in = kind == RP_OP_EMBED ? 0 : 1, .in = {in}, .out = out, .w = {w}};
	return op;
}

void rp_emit_norm(rp_builder *b, const char *label, uint16_t out, uint16_t in, const rp_tensor *w, uint32_t group)
{
	rp_op *op = rp_emit(b, RP_OP_NORM, label, out, in, w);
	op->group = group;
	op->eps = b->config->rms_eps;
	op->plus_one = b->config->norm_plus_one;
}

void rp_emit_rope(rp_builder *b, const char *label, uint16_t slot, uint32_t heads, const float *freqs)
{
	rp_op *op = rp_emit(b, RP_OP_ROPE, label, slot, slot, NULL);
	op->heads = heads;
	op->head_dim = b->config->head_dim;
	op->rotary_dim = b->config->rotary_dim;
	op->interleaved = b->config->rope_interleaved;
	op->freqs = freqs;
}

void rp_emit_attention(rp_builder *b, uint16_t out, uint16_t q, uint16_t k, uint16_t v, float scale)
{
	rp_op *op = rp_emit(b, RP_OP_ATTENTION, "attention", out, q, NULL);
	op->n_in = 3;
	op->in[1] = k;
	op->in[2] = v;
	op->heads = b->config->n_heads;
	op->kv_heads = b->config->n_kv_heads;
	op->head_dim = b->config->head_dim;
	op->scale = scale;
}

void rp_emit_residual(rp_builder *b, const char *label, uint16_t in, const rp_tensor *w)
{
	rp_op *op = rp_emit(b, RP_OP_MATMUL, label, RP_SLOT_X, in, w);
	op->n_in = 2;
	op->in[1] = RP_SLOT_X;
}

void rp_emit_mlp(rp_builder *b, rp_name norm, uint16_t hidden, uint16_t gate, uint16_t up)
{
	uint64_t d = b->config->hidden, f = b->config->ffn;

	rp_emit_norm(b, "post_norm", hidden, RP_SLOT_X, rp_bind(b, norm, d, 0), b->config->hidden);
	rp_emit(b, RP_OP_MATMUL, "gate_proj", gate, hidden, rp_bind(b, RP_NAME("ffn_gate.weight", "mlp.gate_proj.weight"), f, d));
	rp_emit(b, RP_OP_MATMUL, "up_proj", up, hidden, rp_bind(b, RP_NAME("ffn_up.weight", "mlp.up_proj.weight"), f, d));
	rp_op *op = rp_emit(b, RP_OP_SILU_MUL, "activation", gate, gate, NULL);
	op->n_in = 2;
	op->in[1] = up;
	rp_emit_residual(b, "layer", gate, rp_bind(b, RP_NAME("ffn_down.weight", "mlp.down_proj.weight"), d, f));
}

/* The operations gathered so far, moved to the arena. */
static const rp_op *take_ops(rp_builder *b, uint32_t *n)
{
	rp_op *ops = b->code ? NULL : rp_arena_array(&b->graph->arena, b->n_ops, sizeof *ops);

	*n = 0;
	if (ops) {
		memcpy(ops, b->ops, b->n_ops * sizeof *ops);
		*n = b->n_ops;
	} else {
		rp_build_fail(b, RP_NO_MEMORY, "no memory for the list of operations");
	}
	b->n_ops = 0;
	return ops;
}

void rp_emit_start(rp_builder *b, const rp_tensor *embedding)
{
	rp_graph *g = b->graph;
	rp_layer *layers = b->code ? NULL : rp_arena_array(&g->arena, b->config->n_layers, sizeof *layers);

	if (!layers)
		rp_build_fail(b, RP_NO_MEMORY, "no memory for the list of layers");
	g->layers = layers;
	rp_slot(b, b->config->hidden); /* the first one: RP_SLOT_X */
	rp_emit(b, RP_OP_EMBED, "embed", RP_SLOT_X, RP_SLOT_X, embedding);
	g->pre = take_ops(b, &g->n_pre);
}

void rp_end_layer(rp_builder *b, rp_layer_kind kind)
{
	rp_graph *g = b->graph;
	rp_layer layer = {.kind = kind};

	layer.ops = take_ops(b, &layer.n_ops);
	if (b->code)
		return;
	for (uint32_t i = 0; i < g->n_layers; i++)
		layer.kind_index += g->layers[i].kind == kind;
	((rp_layer *)g->layers)[g->n_layers++] = layer;
	b->config->layer_kind[b->layer] = (uint8_t)kind;
	b->layer++;
}

void rp_emit_finish(rp_builder *b, const rp_tensor *embedding, uint16_t hidden)
{
	rp_graph *g = b->graph;
	char norm[64] = "output_norm.weight";

	if (b->format != RP_FORMAT_GGUF && !b->code)
		snprintf(norm, sizeof norm, "%snorm.weight", b->name_prefix);
	g->logits_slot = rp_slot(b, b->config->vocab);
	rp_emit_norm(b, "final_norm", hidden, RP_SLOT_X, rp_bind_top(b, norm, b->config->hidden, 0), b->config->hidden);
	rp_emit(b, RP_OP_MATMUL, "logits", g->logits_slot, hidden, rp_bind_head(b, embedding));
	g->post = take_ops(b, &g->n_post);
	uint32_t *widths = b->code ? NULL : rp_arena_array(&g->arena, b->n_slots, sizeof *widths);
	if (!widths) {
		rp_build_fail(b, RP_NO_MEMORY, "no memory for the list of slots");
		return;
	}
	memcpy(widths, b->slot_width, b->n_slots * sizeof *widths);
	g->slot_width = widths;
	g->n_slots = b->n_slots;
}
