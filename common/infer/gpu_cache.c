/* Caches of sequences: one buffer a layer and kind, a slot a sequence, doubled when the slots run out. */
#include "infer/gpu.h"

#include <stdlib.h>
#include <string.h>

/* f16 unless told otherwise: it halves what a token of a long context reads, and rounds keys and values by at most 1 in 2,048. */
rp_code rp_gpu_choose_kv(rp_gpu *g, rp_error *err)
{
	uint32_t dim = g->engine->graph->config.head_dim;
	rp_cache_type kv = g->engine->opts.kv;
	if (kv == RP_CACHE_F16 && dim % 8 != 0)
		return rp_fail(err, RP_UNSUPPORTED, "keys and values in f16 need heads of a multiple of 8 values; this model's have %u: use --kv f32",
			dim);
	g->kv16 = kv != RP_CACHE_F32 && dim % 8 == 0;
	return RP_OK;
}

static void slot_sizes(const rp_gpu *g, rp_layer_kind kind, rp_gpu_cache *out)
{
	const rp_config *c = &g->engine->graph->config;
	if (kind == RP_LAYER_FULL) {
		out->a_bytes = out->b_bytes = (uint64_t)g->engine->info.ctx * c->n_kv_heads * c->head_dim * (g->kv16 ? 2 : 4);
		return;
	}
	uint64_t width = 2 * (uint64_t)c->lin_k_heads * c->lin_k_dim + (uint64_t)c->lin_v_heads * c->lin_v_dim;
	out->a_bytes = (c->conv_kernel > 1 ? c->conv_kernel - 1 : 1) * width * sizeof(float);
	out->b_bytes = (uint64_t)c->lin_v_heads * c->lin_k_dim * c->lin_v_dim * sizeof(float);
}

static uint32_t n_layers(const rp_gpu *g)
{
	return g->engine->opts.layer_last - g->engine->opts.layer_first;
}

uint64_t rp_gpu_seq_bytes(const rp_gpu *g)
{
	uint64_t bytes = 0;
	for (uint32_t l = 0; l < n_layers(g); l++)
		bytes += g->caches[l].a_bytes + g->caches[l].b_bytes;
	return bytes;
}

static uint64_t largest_slot(const rp_gpu *g)
{
	uint64_t most = 1;
	for (uint32_t l = 0; l < n_layers(g); l++) {
		most = g->caches[l].a_bytes > most ? g->caches[l].a_bytes : most;
		most = g->caches[l].b_bytes > most ? g->caches[l].b_bytes : most;
	}
	return most;
}

/* How many slots a buffer may have: kernels see a cache through one binding. */
static uint64_t most_slots(const rp_gpu *g)
{
	uint64_t limit = g->device->max_binding < g->device->max_allocation ? g->device->max_binding : g->device->max_allocation;
	return limit / largest_slot(g);
}

rp_code rp_gpu_caches_init(rp_gpu *g, rp_error *err)
{
	const rp_engine *e = g->engine;
	g->caches = rp_alloc_array(n_layers(g), sizeof *g->caches);
	if (g->caches == NULL)
		return rp_no_memory(err, n_layers(g) * sizeof *g->caches, "the caches");
	for (uint32_t l = 0; l < n_layers(g); l++)
		slot_sizes(g, e->graph->layers[e->opts.layer_first + l].kind, &g->caches[l]);
	if (most_slots(g) == 0)
		return rp_fail(err, RP_NO_MEMORY,
			"%s: a context of %u positions takes %llu bytes in one layer, the device binds at most %llu: "
			"use a --ctx of at most %llu",
			g->device->name, e->info.ctx, (unsigned long long)largest_slot(g), (unsigned long long)g->device->max_binding,
			(unsigned long long)((double)g->device->max_binding / (double)largest_slot(g) * (double)e->info.ctx));
	return RP_OK;
}

static void free_buffers(rp_gpu_cache *c, uint32_t n)
{
	for (uint32_t l = 0; c != NULL && l < n; l++) {
		rp_vk_buf_free(c[l].a);
		rp_vk_buf_free(c[l].b);
	}
}

void rp_gpu_caches_free(rp_gpu *g)
{
	free_buffers(g->caches, n_layers(g));
	free(g->caches);
	free(g->slot_taken);
	g->caches = NULL;
	g->slot_taken = NULL;
}

static rp_code make_buffers(rp_gpu *g, rp_gpu_cache *to, uint32_t slots, rp_error *err)
{
	rp_code rc = RP_OK;
	for (uint32_t l = 0; l < n_layers(g) && rc == RP_OK; l++) {
		to[l] = (rp_gpu_cache){ .a_bytes = g->caches[l].a_bytes, .b_bytes = g->caches[l].b_bytes };
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, slots * to[l].a_bytes, "a sequence's cache", &to[l].a, err);
		if (rc == RP_OK)
			rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, slots * to[l].b_bytes, "a sequence's cache", &to[l].b, err);
	}
	return rc;
}

static rp_code copy_buffers(rp_gpu *g, const rp_gpu_cache *to, rp_error *err)
{
	rp_code rc = rp_vk_cmd_begin(g->one, 0, err);
	for (uint32_t l = 0; l < n_layers(g) && rc == RP_OK; l++) {
		const rp_gpu_cache *from = &g->caches[l];
		rc = rp_vk_cmd_copy(g->one, from->a, 0, to[l].a, 0, g->n_slots_seq * from->a_bytes, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_copy(g->one, from->b, 0, to[l].b, 0, g->n_slots_seq * from->b_bytes, err);
	}
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(g->one, err);
	return rc == RP_OK ? rp_vk_run(g->vk, g->one, err) : rc;
}

static rp_code grow(rp_gpu *g, rp_error *err)
{
	uint64_t most = most_slots(g), slots = g->n_slots_seq != 0 ? 2 * (uint64_t)g->n_slots_seq : 1;
	slots = slots > most ? most : slots;
	if (slots <= g->n_slots_seq)
		return rp_fail(err, RP_NO_MEMORY,
			"%s: %u sequences of %u positions are the most it can bind; use fewer or a shorter --ctx", g->device->name,
			g->n_slots_seq, g->engine->info.ctx);
	rp_code rc = rp_vk_fits(g->vk, slots * rp_gpu_seq_bytes(g), "the caches of the sequences", err);
	if (rc == RP_OK)
		rc = rp_vk_wait(g->vk, g->ticket, err);
	bool *taken = rp_grow_array(g->slot_taken, slots, sizeof *taken);
	rp_gpu_cache *to = rp_alloc_array(n_layers(g), sizeof *to);
	if (taken != NULL)
		g->slot_taken = taken;
	if (rc == RP_OK && (taken == NULL || to == NULL))
		rc = rp_no_memory(err, n_layers(g) * sizeof *to, "the caches");
	if (rc == RP_OK)
		rc = make_buffers(g, to, (uint32_t)slots, err);
	if (rc == RP_OK && g->used_slots != 0)
		rc = copy_buffers(g, to, err);
	if (rc != RP_OK) {
		free_buffers(to, n_layers(g));
		free(to);
		return rc;
	}
	free_buffers(g->caches, n_layers(g));
	free(g->caches);
	g->caches = to;
	memset(g->slot_taken + g->n_slots_seq, 0, (slots - g->n_slots_seq) * sizeof *taken);
	g->n_slots_seq = (uint32_t)slots;
	for (int i = 0; i < RP_GPU_RECORDINGS; i++)
		g->body[i].used = 0; /* they bound the old buffers */
	g->run.recorded = false;
	memset(g->many.made, 0, sizeof g->many.made);
	return RP_OK;
}

rp_code rp_gpu_slot_take(rp_gpu *g, uint32_t *slot, rp_error *err)
{
	rp_code rc = g->used_slots == g->n_slots_seq ? grow(g, err) : RP_OK;
	if (rc != RP_OK)
		return rc;
	uint32_t i = 0;
	while (g->slot_taken[i])
		i++;
	g->slot_taken[i] = true;
	g->used_slots++;
	*slot = i;
	return RP_OK;
}

void rp_gpu_slot_give(rp_gpu *g, uint32_t slot)
{
	g->slot_taken[slot] = false;
	g->used_slots--;
}
