/* The Vulkan backend: opening a device with a model's weights, sequences, and forward passes as replayed recordings. */
#include "infer/cpu_weights.h"
#include "infer/gpu_attention.h"
#include "infer/gpu_cut.h"
#include "infer/gpu_watch.h"
#include "hash/hash.h"
#include "infer/repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_GPU = 512, CHUNK_CPU = 32 }; /* rows a pass: larger is faster on real hardware, smaller stops sooner */
#define OUTPUT_BYTES ((uint64_t)64 << 20) /* of wanted rows computed at once */

/* ---- open ---- */
static rp_code check_kernels_fit(const rp_graph *g, const char *device, rp_error *err)
{
	const rp_config *c = &g->config;
	bool fits = c->head_dim % 4 == 0 && c->head_dim <= 512 && c->conv_kernel <= 8 && c->lin_k_dim <= 256 && c->lin_k_dim % 4 == 0;
	return fits ? RP_OK
				: rp_fail(err, RP_UNSUPPORTED,
					  "%s: heads of %u values (linear layers: %u, convolution over %u tokens) cannot run on "
					  "a GPU: multiples of 4 up to 512 (256, up to 8 tokens); use --device cpu",
					  device, c->head_dim, c->lin_k_dim, c->conv_kernel);
}

static rp_code choose_variant(rp_gpu *g, const char *variant, rp_error *err)
{
	const uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE; /* the second: full subgroups can be asked for */
	const rp_vk_info *d = g->device;
	/* A lane of a CPU device works alone and shares loads with seven others; lavapipe has four lanes without AVX. */
	bool can = (d->features & need) == need && (!g->cpu || d->subgroup_size >= 8);
	bool can_fuse = can && (d->features & RP_VK_DOT8) && d->subgroup_size >= 4 && d->subgroup_size <= 128 &&
		d->max_workgroup >= 256 && d->max_workgroup_size[0] >= 256 && 256 / d->subgroup_size <= d->max_subgroups && d->max_buffers >= 10;
	bool matrix = variant != NULL && strcmp(variant, "matrix") == 0;
	bool fused = variant != NULL && strcmp(variant, "fused") == 0, subgroup = variant != NULL && strcmp(variant, "subgroup") == 0;
	if (variant != NULL && !matrix && !fused && !subgroup && strcmp(variant, "portable") != 0)
		return rp_fail(err, RP_USAGE, "\"%s\" is no kernel variant; it is portable, subgroup, fused or matrix", variant);
	if ((subgroup || fused || matrix) && !can)
		return rp_fail(err, RP_UNSUPPORTED, "%s has no subgroup operations with full subgroups; use the portable kernels", d->name);
	if (fused && !can_fuse)
		return rp_fail(err, RP_UNSUPPORTED, "%s lacks what the fused kernels need (packed dot products, workgroups of 256); use the "
			"subgroup kernels", d->name);
	if (matrix && rp_gpu_half_side(d) == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s multiplies no matrices of halves into floats, 16 or 8 a side, by subgroups; use the fused or "
			"subgroup kernels", d->name);
	g->why_variant = variant != NULL ? "asked for" : can_fuse && !g->cpu ? "subgroups, packed dot products and workgroups of 256 are there"
		: g->cpu ? "a CPU device" : can ? "subgroup operations with full subgroups are there" : "runs on every device";
	/* Matrix units have run on no card yet, and they round activations to halves: they are used when asked for only. */
	g->not_variant = variant != NULL ? NULL : !can ? "subgroup, fused: no subgroup operations with full subgroups"
		: g->cpu ? "fused: made for devices whose dispatches cost more than their arithmetic"
		: !can_fuse ? "fused: needs packed dot products, workgroups of 256 and 10 buffers"
		: !(d->features & RP_VK_DOT8_FAST) ? "fused: packed dot products are not fast here"
		: rp_gpu_half_side(d) != 0 ? "matrix: rounds activations to halves, and is not measured yet; ask for it" : NULL;
	g->subgroups = variant != NULL ? subgroup || fused || matrix : can;
	g->half.side = matrix ? rp_gpu_half_side(d) : 0;
	g->fused = matrix ? can_fuse : variant != NULL ? fused : can_fuse && !g->cpu && (d->features & RP_VK_DOT8_FAST);
	return RP_OK;
}

/* A cache of pipelines is good for one set of kernels. */
static void kernels_digest(char out[RP_HASH_HEX])
{
	size_t n = 0;
	const rp_kernel *k = rp_kernels(&n);
	unsigned char sum[RP_HASH_BYTES] = { 0 };
	for (size_t i = 0; i < n; i++) {
		unsigned char both[2 * RP_HASH_BYTES];
		memcpy(both, sum, RP_HASH_BYTES);
		rp_sha256_once(k[i].words, k[i].n_words * sizeof *k[i].words, both + RP_HASH_BYTES);
		rp_sha256_once(both, sizeof both, sum);
	}
	rp_hex(out, sum, RP_HASH_BYTES);
}

static rp_code open_device(rp_gpu *g, rp_error *err)
{
	const rp_engine_opts *o = &g->engine->opts;
	char tag[RP_HASH_HEX];
	kernels_digest(tag);
	rp_vk_opts v = { .device = o->device, .hardware = o->device == NULL, .cache_dir = o->cache_dir, .cache_tag = tag,
		.validate = o->validate, .max_binding = o->max_binding, .max_memory = o->device_bytes };
	rp_code rc = o->paper != NULL ? rp_vk_open_paper(o->paper, &v, &g->vk, err) : rp_vk_open(&v, &g->vk, err);
	if (rc != RP_OK)
		return rc;
	g->device = rp_vk_describe(g->vk);
	g->cpu = g->device->type == RP_VK_CPU;
	g->deep_from = rp_gpu_tuned(g)->deep_from != 0 ? rp_gpu_tuned(g)->deep_from : RP_DEEP;
	rc = choose_variant(g, o->variant, err);
	return rc == RP_OK ? check_kernels_fit(g->engine->graph, g->device->name, err) : rc;
}

/* Rows a pass: as asked, but no activation larger than a binding. */
static rp_code choose_chunk(rp_gpu *g, rp_engine *e, rp_error *err)
{
	const rp_graph *graph = e->graph;
	uint64_t chunk = e->opts.chunk != 0 ? e->opts.chunk : g->cpu ? CHUNK_CPU : CHUNK_GPU;
	uint64_t limit = g->device->max_binding < g->device->max_allocation ? g->device->max_binding : g->device->max_allocation;
	uint64_t row = sizeof(rp_batch_row), out = limit < OUTPUT_BYTES ? limit : OUTPUT_BYTES;
	for (uint32_t i = 0; i < graph->n_slots; i++)
		if (i != graph->logits_slot && graph->slot_width[i] * sizeof(float) > row)
			row = graph->slot_width[i] * sizeof(float);
	if (limit / row < chunk)
		chunk = limit / row;
	out /= e->out_width * sizeof(float);
	if (chunk == 0 || e->out_width * sizeof(float) > limit)
		return rp_fail(err, RP_UNSUPPORTED, "%s binds at most %llu bytes at once, one row of this model takes %llu",
			g->device->name, (unsigned long long)limit, (unsigned long long)(chunk == 0 ? row : e->out_width * sizeof(float)));
	e->chunk = (uint32_t)chunk;
	g->out_rows = (uint32_t)(out == 0 ? 1 : out < chunk ? out : chunk);
	return RP_OK;
}

static uint64_t activation_bytes(const rp_gpu *g)
{
	const rp_graph *graph = g->engine->graph;
	uint64_t bytes = (uint64_t)g->out_rows * (graph->config.hidden + 2 * (uint64_t)g->engine->out_width);
	for (uint32_t i = 0; i < graph->n_slots; i++)
		if (i != graph->logits_slot)
			bytes += (uint64_t)g->engine->chunk * graph->slot_width[i];
	return bytes * sizeof(float);
}

static rp_code make_slots(rp_gpu *g, rp_error *err)
{
	const rp_engine *e = g->engine;
	const rp_graph *graph = e->graph;
	bool ends = e->opts.layer_last == graph->n_layers;
	g->slots = rp_alloc_array(graph->n_slots, sizeof *g->slots);
	if (g->slots == NULL)
		return rp_no_memory(err, graph->n_slots * sizeof *g->slots, "activations");
	rp_code rc = RP_OK;
	for (uint32_t i = 0; i < graph->n_slots && rc == RP_OK; i++) {
		uint64_t rows = i == graph->logits_slot ? g->out_rows : e->chunk;
		if (i != graph->logits_slot || ends)
			rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, rows * graph->slot_width[i] * sizeof(float), "activations", &g->slots[i], err);
	}
	if (rc == RP_OK)
		rc = rp_vk_buf_new(
			g->vk, RP_VK_LOCAL, (uint64_t)g->out_rows * graph->config.hidden * sizeof(float), "wanted rows", &g->gathered, err);
	if (rc == RP_OK)
		rc =
			rp_vk_buf_new(g->vk, RP_VK_READBACK, (uint64_t)g->out_rows * e->out_width * sizeof(float), "output", &g->output, err);
	if (rc == RP_OK && e->opts.layer_first != 0)
		rc = rp_vk_buf_new(
			g->vk, RP_VK_STREAM, (uint64_t)e->chunk * graph->config.hidden * sizeof(float), "input rows", &g->input, err);
	return rc;
}

/* Rows, segments and the index of wanted rows share a buffer that the host writes before each pass. */
static rp_code make_batch(rp_gpu *g, rp_error *err)
{
	uint64_t align = g->device->align_binding, chunk = g->engine->chunk;
	if (!rp_round_up_u64(chunk * sizeof(rp_batch_row), align, &g->segs_at) ||
		!rp_round_up_u64(g->segs_at + chunk * sizeof(rp_batch_segment), align, &g->index_at))
		return rp_no_memory(err, UINT64_MAX, "the batch");
	return rp_vk_buf_new(g->vk, RP_VK_STREAM, g->index_at + g->out_rows * sizeof(uint32_t), "batch", &g->batch, err);
}

/* ---- rope ---- */
static rp_code make_table(rp_gpu *g, const rp_op *op, rp_error *err)
{
	uint32_t n = op->rotary_dim / 2, ctx = g->engine->info.ctx;
	for (size_t i = 0; i < g->n_tables; i++)
		if (g->tables[i].rotary_dim == op->rotary_dim && memcmp(g->tables[i].freqs, op->freqs, n * sizeof *op->freqs) == 0)
			return RP_OK;
	uint64_t bytes = (uint64_t)ctx * n * 2 * sizeof(float);
	if (bytes > g->device->max_binding)
		return rp_fail(err, RP_NO_MEMORY,
			"%s: the rope angles of %u positions take %llu bytes, the device binds at most %llu: use "
			"a shorter --ctx",
			g->device->name, ctx, (unsigned long long)bytes, (unsigned long long)g->device->max_binding);
	rp_gpu_table *grown = rp_grow_array(g->tables, g->n_tables + 1, sizeof *grown);
	float *angles = rp_alloc_array((size_t)ctx * n, 2 * sizeof *angles);
	if (grown != NULL)
		g->tables = grown;
	rp_code rc = grown == NULL || angles == NULL ? rp_no_memory(err, bytes, "rope angles") : RP_OK;
	rp_vk_buf *b = NULL;
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, bytes, "rope angles", &b, err);
	if (rc == RP_OK) {
		g->tables[g->n_tables++] = (rp_gpu_table){ op->freqs, op->rotary_dim, b };
		if (!rp_vk_on_paper(g->vk))
			rp_rope_table(op->freqs, n, ctx, angles);
		rc = rp_vk_write(g->vk, b, 0, angles, bytes, err);
	}
	free(angles);
	return rc;
}

static rp_code make_tables(rp_gpu *g, rp_error *err)
{
	const rp_engine *e = g->engine;
	rp_code rc = RP_OK;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		for (uint32_t i = 0; i < e->graph->layers[l].n_ops && rc == RP_OK; i++)
			if (e->graph->layers[l].ops[i].kind == RP_OP_ROPE)
				rc = make_table(g, &e->graph->layers[l].ops[i], err);
	return rc;
}

rp_vk_buf *rp_gpu_angles(const rp_gpu *g, const rp_op *op)
{
	for (size_t i = 0; i < g->n_tables; i++)
		if (g->tables[i].rotary_dim == op->rotary_dim &&
			memcmp(g->tables[i].freqs, op->freqs, op->rotary_dim / 2 * sizeof *op->freqs) == 0)
			return g->tables[i].buf;
	return NULL;
}

/* ---- recordings ---- */
static rp_code record_body(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, uint32_t segs, rp_error *err)
{
	rp_gpu_shape s = { rows, segs, g->slots[RP_SLOT_X], g->batch, g->deep };
	rp_code rc = rp_gpu_record_input(g, c, &s, err);
	return rc == RP_OK ? rp_gpu_record_layers(g, c, &s, err) : rc;
}

/* The residual stream of the wanted rows, then logits when the range ends the model; copied to where the host reads. */
static rp_code record_post(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, uint32_t gathered, rp_error *err)
{
	const rp_engine *e = g->engine;
	rp_gpu_shape s = { rows, rows, gathered ? g->gathered : g->slots[RP_SLOT_X], g->batch, false };
	rp_vk_buf *from = s.x;
	rp_code rc = gathered ? rp_gpu_record_gather(g, c, rows, err) : RP_OK;
	if (rc == RP_OK && e->opts.layer_last == e->graph->n_layers) {
		rc = rp_gpu_record_logits(g, c, &s, err);
		from = g->slots[e->graph->logits_slot];
	}
	return rc == RP_OK ? rp_vk_cmd_copy(c, from, 0, g->output, 0, (uint64_t)rows * e->out_width * sizeof(float), err) : rc;
}

typedef rp_code record_fn(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, uint32_t segs, rp_error *err);

/* The recording of that size: found, or made in the place of the one longest unused. Nothing submitted may still run. */
static rp_code recording(rp_gpu *g, rp_gpu_recording *list, record_fn *make, const char *name, uint32_t rows, uint32_t segs,
	rp_vk_cmd **out, rp_error *err)
{
	rp_gpu_recording *r = &list[0];
	bool deep = list == g->body && g->deep;
	for (int i = 0; i < RP_GPU_RECORDINGS; i++) {
		if (list[i].used != 0 && list[i].rows == rows && list[i].segs == segs && list[i].deep == deep) {
			list[i].used = ++g->clock;
			*out = list[i].cmd;
			return RP_OK;
		}
		if (list[i].used < r->used)
			r = &list[i];
	}
	r->used = 0;
	rp_code rc = r->cmd == NULL ? rp_vk_cmd_new(g->vk, name, &r->cmd, err) : RP_OK;
	if (rc == RP_OK)
		rc = rp_vk_cmd_begin(r->cmd, RP_VK_REPLAY, err);
	if (rc == RP_OK)
		rc = make(g, r->cmd, rows, segs, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(r->cmd, err);
	if (rc != RP_OK)
		return rc;
	*r = (rp_gpu_recording){ r->cmd, rows, segs, deep, ++g->clock };
	*out = r->cmd;
	return RP_OK;
}

/* ---- the engine ---- */
static void close_gpu(rp_gpu *g)
{
	if (g->vk != NULL)
		rp_vk_wait(g->vk, g->ticket, NULL);
	for (int i = 0; i < RP_GPU_RECORDINGS; i++) {
		rp_vk_cmd_free(g->body[i].cmd);
		rp_vk_cmd_free(g->post[i].cmd);
	}
	rp_vk_cmd_free(g->one);
	rp_gpu_run_free(g);
	rp_gpu_watch_free(g);
	rp_gpu_many_free(g);
	rp_gpu_caches_free(g);
	for (uint32_t i = 0; g->slots != NULL && i < g->engine->graph->n_slots; i++)
		rp_vk_buf_free(g->slots[i]);
	free(g->slots);
	for (size_t i = 0; i < g->n_tables; i++)
		rp_vk_buf_free(g->tables[i].buf);
	free(g->tables);
	rp_vk_buf_free(g->gathered);
	rp_gpu_half_free(g);
	rp_vk_buf_free(g->parts);
	rp_vk_buf_free(g->staged);
	rp_vk_buf_free(g->batch);
	rp_vk_buf_free(g->input);
	rp_vk_buf_free(g->output);
	rp_gpu_weights_free(&g->weights);
	rp_vk_close(g->vk);
	free(g);
}

typedef struct ask {
	record_fn *make;
	uint32_t rows, segs;
} ask;

/* Have threads compile what the first prompt and its answer will need, while weights are loaded. Nothing is recorded for good. */
static rp_code ask_pipelines(rp_gpu *g, rp_error *err)
{
	uint32_t chunk = g->engine->chunk;
	const ask list[] = { { record_body, 1, 1 }, { record_post, 1, 0 }, { record_body, chunk, 1 }, { record_post, 1, 1 } };
	rp_code rc = RP_OK;
	g->asking = true;
	for (size_t i = 0; i < sizeof list / sizeof *list && rc == RP_OK; i++) {
		rc = rp_vk_cmd_begin(g->one, 0, err);
		if (rc == RP_OK)
			rc = list[i].make(g, g->one, list[i].rows, list[i].segs, err);
		if (rc == RP_OK && i == 1 && g->run.ring != NULL)
			rc = rp_gpu_run_ask(g, g->one, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_end(g->one, err);
	}
	g->asking = false;
	return rc;
}

/* Room for the first sequence and the recordings of decode, so that the first token waits for no compiler. */
static rp_code prepare_decode(rp_gpu *g, rp_error *err)
{
	uint32_t slot = 0;
	rp_vk_cmd *c = NULL;
	rp_code rc = rp_gpu_slot_take(g, &slot, err);
	if (rc != RP_OK)
		return rc;
	rp_gpu_slot_give(g, slot);
	g->deep = false;
	rc = recording(g, g->body, record_body, "layers", 1, 1, &c, err);
	if (rc == RP_OK)
		rc = recording(g, g->post, record_post, "output", 1, 0, &c, err);
	return rc == RP_OK && g->run.ring != NULL ? rp_gpu_run_record(g, RP_GPU_GREEDY, false, err) : rc;
}

/* A CPU device's memory is the system's; its driver promises all of it, however much others use. */
static rp_code check_host(const rp_gpu *g, uint64_t bytes, rp_error *err)
{
	const rp_engine_opts *o = &g->engine->opts;
	uint64_t left = o->host_bytes != 0 ? o->host_bytes : rp_host_bytes_free();
	if (!g->cpu || bytes <= left || rp_vk_on_paper(g->vk))
		return RP_OK;
	return rp_fail(err, RP_NO_MEMORY,
		"%s: the model with one sequence needs %.0f MiB, %.0f MiB are free: use a smaller model or a shorter --ctx",
		g->device->name, (double)bytes / 1048576.0, (double)left / 1048576.0);
}

static rp_code open_all(rp_gpu *g, rp_engine *e, rp_error *err)
{
	rp_code rc = open_device(g, err);
	if (rc == RP_OK)
		rc = choose_chunk(g, e, err);
	if (rc == RP_OK)
		rc = rp_gpu_weights_list(e, g->device, &g->weights, err);
	if (rc == RP_OK)
		rc = rp_gpu_choose_kv(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_caches_init(g, err);
	if (rc != RP_OK)
		return rc;
	e->info.weight_bytes = g->weights.bytes;
	e->info.seq_bytes = rp_gpu_seq_bytes(g);
	uint64_t bytes = g->weights.bytes + e->info.seq_bytes + activation_bytes(g);
	rc = rp_vk_fits(g->vk, bytes, "the model with one sequence", err);
	if (rc == RP_OK)
		rc = check_host(g, bytes, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_new(g->vk, "one operation", &g->one, err);
	if (rc == RP_OK)
		rc = make_slots(g, err);
	if (rc == RP_OK)
		rc = make_batch(g, err);
	if (rc == RP_OK && e->opts.layer_first == 0 && e->opts.layer_last == e->graph->n_layers)
		rc = rp_gpu_run_init(g, err);
	if (rc == RP_OK)
		rc = make_tables(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_parts_init(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_rows_init(g, err);
	if (rc == RP_OK && e->opts.profile)
		rc = rp_gpu_watch_new(g, err);
	if (rc == RP_OK && !rp_vk_on_paper(g->vk))
		rc = ask_pipelines(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_half_init(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_weights_load(e, g->vk, &g->weights, err);
	return rc == RP_OK ? prepare_decode(g, err) : rc;
}

static rp_code gpu_open(rp_engine *e, rp_error *err)
{
	rp_gpu *g = rp_alloc(sizeof *g);
	if (g == NULL)
		return rp_no_memory(err, sizeof *g, "the engine");
	g->engine = e;
	g->layer = -1;
	rp_code rc = open_all(g, e, err);
	if (rc != RP_OK) {
		close_gpu(g);
		return rc;
	}
	e->state = g;
	snprintf(e->info.device, sizeof e->info.device, "%.180s (%.40s, Vulkan %u.%u)", g->device->name,
		g->half.side != 0 ? "kernels on matrix units" : g->fused ? "fused kernels" : g->subgroups ? "subgroup kernels" : "portable kernels",
		g->device->api_major, g->device->api_minor);
	return RP_OK;
}

static void gpu_close(rp_engine *e)
{
	close_gpu(e->state);
	e->state = NULL;
}

/* ---- sequences: their state is the number of their slot ---- */
static rp_code gpu_seq_new(rp_seq *s, rp_error *err)
{
	uint32_t *slot = rp_alloc(sizeof *slot);
	if (slot == NULL)
		return rp_no_memory(err, sizeof *slot, "a sequence");
	rp_code rc = rp_gpu_slot_take(s->engine->state, slot, err);
	if (rc != RP_OK) {
		free(slot);
		return rc;
	}
	s->state = slot;
	return RP_OK;
}

static void gpu_seq_free(rp_seq *s)
{
	rp_gpu_slot_give(s->engine->state, *(uint32_t *)s->state);
	free(s->state);
	s->state = NULL;
}

/* Kernels start from zeros wherever a segment begins at position 0. */
static rp_code gpu_seq_reset(rp_seq *s, rp_error *err)
{
	(void)s, (void)err;
	return RP_OK;
}

/* ---- a pass ---- */
static void write_batch(rp_gpu *g, const rp_pass *pass)
{
	char *map = rp_vk_buf_map(g->batch);
	rp_batch_row *row = (rp_batch_row *)map;
	rp_batch_segment *seg = (rp_batch_segment *)(map + g->segs_at);
	size_t hidden = g->engine->graph->config.hidden;
	uint32_t at = 0;
	for (uint32_t i = 0; i < pass->n_parts; i++) {
		const rp_part *p = &pass->parts[i];
		uint32_t slot = *(const uint32_t *)p->seq->state;
		seg[i] = (rp_batch_segment){ at, p->n, p->pos, slot };
		for (uint32_t k = 0; k < p->n; k++)
			row[at + k] = (rp_batch_row){ p->ids != NULL ? p->ids[k] : 0, p->pos + k, slot, i };
		if (g->input != NULL)
			memcpy((float *)rp_vk_buf_map(g->input) + at * hidden, p->rows, p->n * hidden * sizeof(float));
		at += p->n;
	}
}

/* Numbers of wanted rows [first, first + n) of the pass. */
static void write_index(rp_gpu *g, const rp_pass *pass, uint32_t first, uint32_t n)
{
	uint32_t *index = (uint32_t *)((char *)rp_vk_buf_map(g->batch) + g->index_at), row = 0, wanted = 0;
	for (size_t i = 0; i < pass->n_parts; i++) {
		const rp_part *p = &pass->parts[i];
		for (uint32_t k = p->want_first; k < p->n; k++, wanted++)
			if (wanted >= first && wanted - first < n)
				index[wanted - first] = row + k;
		row += p->n;
	}
}

rp_code rp_gpu_submit(rp_gpu *g, rp_vk_cmd *const *cmds, size_t n, rp_error *err)
{
	return g->watch != NULL ? rp_gpu_watch_submit(g, cmds, n, err) : rp_vk_submit(g->vk, cmds, n, &g->ticket, err);
}

/* Submit what is in cmds with the post of wanted rows [first, first + n), wait, hand the rows out. */
static rp_code run_post(rp_gpu *g, const rp_pass *pass, rp_vk_cmd *body, uint32_t first, uint32_t n, rp_error *err)
{
	rp_vk_cmd *cmds[2] = { body, NULL };
	size_t width = g->engine->out_width, n_cmds = body != NULL;
	bool all = n == pass->n_rows; /* every row, in order: no need to gather */
	write_index(g, pass, first, n);
	rp_code rc = recording(g, g->post, record_post, "output", n, !all, &cmds[n_cmds], err);
	if (rc != RP_OK)
		return rc;
	rc = rp_gpu_submit(g, cmds, n_cmds + 1, err);
	if (rc == RP_OK)
		rc = rp_vk_wait(g->vk, g->ticket, err);
	if (rc == RP_OK)
		memcpy(pass->out + first * width, rp_vk_buf_map(g->output), n * width * sizeof(float));
	return rc;
}

static rp_code run_pass(rp_gpu *g, const rp_pass *pass, rp_error *err)
{
	rp_vk_cmd *body = NULL;
	g->deep = pass->n_rows == 1 && pass->parts[0].pos >= g->deep_from;
	rp_code rc = recording(g, g->body, record_body, "layers", pass->n_rows, (uint32_t)pass->n_parts, &body, err);
	if (rc == RP_OK && pass->n_want == 0)
		return rp_gpu_submit(g, &body, 1, err);
	for (uint32_t first = 0; first < pass->n_want && rc == RP_OK; first += g->out_rows) {
		uint32_t left = pass->n_want - first;
		rc = run_post(g, pass, first == 0 ? body : NULL, first, left < g->out_rows ? left : g->out_rows, err);
	}
	return rc;
}

/* ---- a pass somebody watches: operation by operation ---- */
static rp_code tap_ops(rp_gpu *g, const rp_op *ops, uint32_t n, int layer, const rp_gpu_shape *s, float *rows, rp_error *err)
{
	const rp_engine_opts *o = &g->engine->opts;
	rp_code rc = RP_OK;
	for (uint32_t i = 0; i < n && rc == RP_OK; i++) {
		size_t width = g->engine->graph->slot_width[ops[i].out];
		rc = rp_vk_cmd_begin(g->one, 0, err);
		if (rc == RP_OK)
			rc = rp_gpu_record_op(g, g->one, &ops[i], layer < 0 ? o->layer_first : (uint32_t)layer, s, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_end(g->one, err);
		if (rc == RP_OK)
			rc = rp_vk_run(g->vk, g->one, err);
		if (rc == RP_OK)
			rc = rp_vk_read(g->vk, rp_gpu_slot(g, s, ops[i].out), 0, rows, s->rows * width * sizeof *rows, err);
		if (rc == RP_OK)
			o->tap(o->tap_user, layer, ops[i].label, rows, s->rows, width);
	}
	return rc;
}

static rp_code run_one(rp_gpu *g, record_fn *record, uint32_t rows, uint32_t segs, rp_error *err)
{
	rp_code rc = rp_vk_cmd_begin(g->one, 0, err);
	if (rc == RP_OK)
		rc = record(g, g->one, rows, segs, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(g->one, err);
	return rc == RP_OK ? rp_vk_run(g->vk, g->one, err) : rc;
}

static rp_code record_only_input(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, uint32_t segs, rp_error *err)
{
	rp_gpu_shape s = { rows, segs, g->slots[RP_SLOT_X], g->batch, false };
	return rp_gpu_record_input(g, c, &s, err);
}

static rp_code record_only_gather(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, uint32_t segs, rp_error *err)
{
	(void)segs;
	return rp_gpu_record_gather(g, c, rows, err);
}

static rp_code tap_body(rp_gpu *g, const rp_pass *pass, float *rows, rp_error *err)
{
	const rp_engine *e = g->engine;
	rp_gpu_shape s = { pass->n_rows, (uint32_t)pass->n_parts, g->slots[RP_SLOT_X], g->batch, false };
	rp_code rc = g->input != NULL ? run_one(g, record_only_input, s.rows, s.segs, err)
		: tap_ops(g, e->graph->pre, e->graph->n_pre, -1, &s, rows, err);
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last && rc == RP_OK; l++) {
		if (rp_engine_cancelled(e))
			return rp_fail(err, RP_CANCELLED, "stopped");
		rc = tap_ops(g, e->graph->layers[l].ops, e->graph->layers[l].n_ops, (int)l, &s, rows, err);
	}
	return rc;
}

static rp_code tap_post(rp_gpu *g, const rp_pass *pass, float *rows, rp_error *err)
{
	const rp_engine *e = g->engine;
	size_t width = e->out_width;
	bool ends = e->opts.layer_last == e->graph->n_layers;
	rp_code rc = RP_OK;
	for (uint32_t first = 0; first < pass->n_want && rc == RP_OK; first += g->out_rows) {
		uint32_t n = pass->n_want - first < g->out_rows ? pass->n_want - first : g->out_rows;
		rp_gpu_shape s = { n, n, g->gathered, g->batch, false };
		write_index(g, pass, first, n);
		rc = run_one(g, record_only_gather, n, n, err);
		if (rc == RP_OK && ends)
			rc = tap_ops(g, e->graph->post, e->graph->n_post, -1, &s, rows, err);
		if (rc == RP_OK)
			rc = rp_vk_read(g->vk, ends ? g->slots[e->graph->logits_slot] : g->gathered, 0, pass->out + first * width,
				n * width * sizeof(float), err);
	}
	return rc;
}

static rp_code run_tapped(rp_gpu *g, const rp_pass *pass, rp_error *err)
{
	const rp_engine *e = g->engine;
	size_t most = (size_t)g->out_rows * e->out_width;
	for (uint32_t i = 0; i < e->graph->n_slots; i++)
		if (i != e->graph->logits_slot && (size_t)e->chunk * e->graph->slot_width[i] > most)
			most = (size_t)e->chunk * e->graph->slot_width[i];
	float *rows = rp_alloc_array(most, sizeof *rows);
	if (rows == NULL)
		return rp_no_memory(err, most * sizeof *rows, "rows that are watched");
	rp_code rc = tap_body(g, pass, rows, err);
	if (rc == RP_OK)
		rc = tap_post(g, pass, rows, err);
	free(rows);
	return rc;
}

static void watch_pass(rp_gpu *g, const rp_pass *pass)
{
	uint64_t positions = 0;
	for (size_t i = 0; i < pass->n_parts; i++)
		positions += pass->parts[i].pos + pass->parts[i].n;
	rp_gpu_watch_pass(g, pass->n_rows > pass->n_parts, positions, (uint32_t)pass->n_parts);
}

static rp_code gpu_forward(rp_engine *e, const rp_pass *pass, rp_error *err)
{
	rp_gpu *g = e->state;
	rp_code rc = rp_vk_wait(g->vk, g->ticket, err); /* the pass before may still read the batch */
	if (rc != RP_OK)
		return rc;
	write_batch(g, pass);
	watch_pass(g, pass);
	return e->opts.tap != NULL ? run_tapped(g, pass, err) : run_pass(g, pass, err);
}

static void gpu_count(const rp_engine *e, rp_engine_stats *out)
{
	const rp_vk_counts *c = rp_vk_counted(((const rp_gpu *)e->state)->vk);
	*out = (rp_engine_stats){ c->submits, c->dispatches, c->barriers, c->copies, c->wait_ns };
}

const rp_backend rp_backend_vulkan = {
	.name = "vulkan",
	.open = gpu_open,
	.close = gpu_close,
	.seq_new = gpu_seq_new,
	.seq_free = gpu_seq_free,
	.seq_reset = gpu_seq_reset,
	.forward = gpu_forward,
	.decode = rp_gpu_decode,
	.profile = rp_gpu_profile,
	.profile_forget = rp_gpu_profile_forget,
	.check = rp_gpu_check,
	.steps = rp_gpu_steps,
	.can_steps = rp_gpu_can_steps,
	.count = gpu_count,
};
