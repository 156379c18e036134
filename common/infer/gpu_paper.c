/* What plans ask of an engine that was opened on paper. */
#include "infer/gpu_paper.h"

#include "infer/gpu.h"

#include <stdio.h>

static const rp_gpu *gpu_of(const rp_engine *e)
{
	return e->backend == &rp_backend_vulkan ? e->state : NULL;
}

const char *rp_buf_class_word(rp_buf_class c)
{
	static const char *const words[] = {
#define X(name, word) word,
		RP_BUF_CLASSES(X)
#undef X
	};
	return (unsigned)c < RP_BUF_CLASS_COUNT ? words[c] : "unknown";
}

const rp_vk *rp_engine_paper(const rp_engine *e)
{
	const rp_gpu *g = gpu_of(e);
	return g != NULL && rp_vk_on_paper(g->vk) ? g->vk : NULL;
}

const rp_vk_info *rp_engine_facts(const rp_engine *e)
{
	const rp_gpu *g = gpu_of(e);
	return g != NULL ? g->device : NULL;
}

rp_cache_type rp_engine_kv(const rp_engine *e)
{
	return gpu_of(e)->kv16 ? RP_CACHE_F16 : RP_CACHE_F32;
}

void rp_engine_twin(const rp_engine *e, rp_engine_opts *opts, const rp_graph **graph)
{
	*opts = (rp_engine_opts){ .ctx = e->info.ctx, .chunk = e->opts.chunk, .layer_first = e->opts.layer_first, .layer_last = e->opts.layer_last,
		.variant = e->opts.variant, .kv = e->opts.kv };
	*graph = e->graph;
}

uint32_t rp_engine_chunk(const rp_engine *e)
{
	return e->chunk;
}

const char *rp_engine_variant(const rp_engine *e, const char **why, const char **rejected)
{
	const rp_gpu *g = gpu_of(e);
	*why = g->why_variant;
	*rejected = g->not_variant;
	return g->half.side != 0 ? "matrix" : g->fused ? "fused" : g->subgroups ? "subgroup" : "portable";
}

static bool is_weight(const rp_gpu *g, const rp_vk_buf *b, rp_buf_role *out)
{
	for (size_t i = 0; i < g->weights.n; i++) {
		const rp_gpu_weight *w = &g->weights.v[i];
		for (uint32_t r = 0; r < w->n_ranges; r++) {
			if (w->ranges[r].buf != b)
				continue;
			*out = (rp_buf_role){ .class = RP_BUF_WEIGHTS, .row_bytes = w->stride,
				.values = w->role == RP_GPU_MATRIX ? (uint64_t)w->k * w->ranges[r].rows : 0 };
			int n = snprintf(out->name, sizeof out->name, "%.60s%s", w->tensor->name, w->role == RP_GPU_MINUS_EXP ? " (-exp)" : "");
			if (w->n_ranges > 1 && n > 0)
				snprintf(out->name + n, sizeof out->name - (size_t)n, " rows %u+%u", w->ranges[r].first, w->ranges[r].rows);
			return true;
		}
	}
	return false;
}

static bool is_cache(const rp_gpu *g, const rp_vk_buf *b, rp_buf_role *out)
{
	const rp_engine *e = g->engine;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++) {
		const rp_gpu_cache *c = &g->caches[l - e->opts.layer_first];
		bool full = e->graph->layers[l].kind == RP_LAYER_FULL;
		if (c->a != b && c->b != b)
			continue;
		*out = (rp_buf_role){ .class = full ? RP_BUF_KV : RP_BUF_STATE };
		if (full)
			out->row_bytes = (c->a == b ? c->a_bytes : c->b_bytes) / e->info.ctx;
		snprintf(out->name, sizeof out->name, "layer %u %s", l, full ? c->a == b ? "keys" : "values" : c->a == b ? "conv" : "state");
		return true;
	}
	return false;
}

static bool is_activation(const rp_gpu *g, const rp_vk_buf *b, rp_buf_role *out)
{
	const rp_graph *graph = g->engine->graph;
	for (uint32_t i = 0; i < graph->n_slots; i++)
		if (g->slots[i] == b) {
			*out = (rp_buf_role){ .class = RP_BUF_ACTIVATIONS, .row_bytes = graph->slot_width[i] * sizeof(float) };
			snprintf(out->name, sizeof out->name, i == RP_SLOT_X ? "x" : i == graph->logits_slot ? "logits" : "slot %u", i);
			return true;
		}
	if (b != g->gathered)
		return false;
	*out = (rp_buf_role){ .class = RP_BUF_ACTIVATIONS, .name = "gathered", .row_bytes = graph->config.hidden * sizeof(float) };
	return true;
}

void rp_engine_role(const rp_engine *e, const rp_vk_buf *b, rp_buf_role *out)
{
	const rp_gpu *g = gpu_of(e);
	if (is_activation(g, b, out) || is_cache(g, b, out) || is_weight(g, b, out))
		return;
	for (size_t i = 0; i < g->n_tables; i++)
		if (g->tables[i].buf == b) {
			*out = (rp_buf_role){ .class = RP_BUF_TABLE, .row_bytes = g->tables[i].rotary_dim * sizeof(float) };
			snprintf(out->name, sizeof out->name, "angles %zu", i);
			return;
		}
	*out = (rp_buf_role){ .class = RP_BUF_OTHER };
}
