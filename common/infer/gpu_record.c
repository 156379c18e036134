/* Operations become dispatches: which kernel, which constants, what is bound, how many workgroups. spirv/wgsl/README.md and
 * kernel_args.h are the contract. */
#include "infer/gpu_work.h"

enum { SHORT_SEGMENT = 4 }; /* mean rows a segment up to which the one-token forms of attention and convolution are better */

/* ---- matrices ---- */
typedef struct matmul {
	rp_work w;
	rp_shape shape;
	bool tiled;
} matmul;

static rp_code begin_matmul(
	matmul *m, rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_weight *weight, uint32_t rows, rp_error *err)
{
	m->tiled = rp_prefer_matmul(g->cpu, rows);
	rp_code rc = rp_work_begin(&m->w, g, c, m->tiled ? "matmul" : "matvec", err);
	if (rc != RP_OK)
		return rc;
	if (m->tiled)
		rp_work_why(&m->w, "more than 8 rows: a tile reads a weight once for 32 rows", "matvec: would read the weights for every few rows");
	else if (g->cpu)
		rp_work_why(&m->w, "a CPU device: lanes that work alone are fastest",
			rows > 1 ? "matmul: barriers between staged tiles are dear on a CPU" : NULL);
	else
		rp_work_why(&m->w, "at most 8 rows: bound by reading weights", rows > 1 ? "matmul: tiles of 32 rows would be mostly empty" : NULL);
	rp_work_const(&m->w, "QUANT", (uint32_t)weight->tensor->dtype);
	rp_work_const(&m->w, "RESIDUAL", op->n_in < 2 ? 0 : op->in[1] == op->out ? 1 : 2);
	rp_work_const(&m->w, "K_TAIL", rp_k_tail(weight->tensor->dtype, weight->k));
	if (m->tiled)
		return RP_OK;
	m->shape = rp_shape_matvec(g->cpu, rp_work_wide(&m->w), rp_units(weight->tensor->dtype, weight->k), rows);
	rp_work_const(&m->w, "WG", m->shape.wg);
	rp_work_const(&m->w, "LANES", m->shape.lanes);
	rp_work_const(&m->w, "TILE_M", m->shape.tile_m);
	return RP_OK;
}

static rp_code record_matmul(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	const rp_gpu_weight *weight = rp_gpu_weight_find(&g->weights, op->w[0], RP_GPU_MATRIX);
	matmul m;
	rp_code rc = begin_matmul(&m, g, c, op, weight, s->rows, err);
	rp_vk_buf *x = rp_gpu_slot(g, s, op->in[0]), *y = rp_gpu_slot(g, s, op->out);
	rp_args_matmul a = { .k = weight->k, .n_rows = s->rows, .w_stride = (uint32_t)(weight->stride / 16),
		.y_stride = g->engine->graph->slot_width[op->out] };
	for (uint32_t i = 0; i < weight->n_ranges && rc == RP_OK; i++) {
		const rp_gpu_range *r = &weight->ranges[i];
		a.n = r->rows;
		a.y_first = r->first;
		m.w.n_binds = 1;
		rp_work_bind(&m.w, x);
		rp_work_bind(&m.w, r->buf);
		rp_work_bind(&m.w, y);
		rp_work_bind(&m.w, op->n_in > 1 && op->in[1] != op->out ? rp_gpu_slot(g, s, op->in[1]) : x);
		rc = rp_work_dispatch(&m.w, &a, sizeof a, m.tiled ? rp_grid_matmul(&a) : rp_grid_matvec(&a, m.shape), err);
	}
	return rc;
}

static rp_code record_embed(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	const rp_gpu_weight *weight = rp_gpu_weight_find(&g->weights, op->w[0], RP_GPU_MATRIX);
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "embed", err);
	if (rc == RP_OK)
		rp_work_const(&w, "QUANT", (uint32_t)weight->tensor->dtype);
	rp_args_embed a = { .width = weight->k, .n_rows = s->rows, .w_stride = (uint32_t)(weight->stride / 16) };
	for (uint32_t i = 0; i < weight->n_ranges && rc == RP_OK; i++) {
		a.w_first = weight->ranges[i].first;
		a.w_count = weight->ranges[i].rows;
		w.n_binds = 1;
		rp_work_bind(&w, weight->ranges[i].buf);
		rp_work_bind_rows(&w, s);
		rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
		rc = rp_work_dispatch(&w, &a, sizeof a, rp_grid_embed(&a, weight->tensor->dtype, w.wg), err);
	}
	return rc;
}

/* ---- row by row ---- */
static rp_code record_norm(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	bool gated = op->kind == RP_OP_GATED_NORM;
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, gated ? "gated_norm" : "norm", err);
	if (rc != RP_OK)
		return rc;
	rp_shape shape = rp_shape_norm(g->cpu, rp_work_wide(&w), op->group);
	rp_args_norm a = { .group = op->group,
		.n_groups = s->rows * (g->engine->graph->slot_width[op->out] / op->group),
		.eps = op->eps,
		.w_offset = op->plus_one && !gated ? 1.0f : 0.0f };
	rp_work_const(&w, "WG", shape.wg);
	rp_work_const(&w, "LANES", shape.lanes);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, rp_gpu_weight_find(&g->weights, op->w[0], RP_GPU_VECTOR)->ranges[0].buf);
	if (gated)
		rp_work_bind(&w, rp_gpu_slot(g, s, op->in[1]));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_norm(&a, shape), err);
}

static rp_code record_elementwise(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "elementwise", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "OP", op->kind == RP_OP_ADD ? RP_EW_ADD : op->kind == RP_OP_SILU_MUL ? RP_EW_SILU_MUL : RP_EW_SIGMOID_MUL);
	rp_args_elementwise a = { .n = s->rows * g->engine->graph->slot_width[op->out] };
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[1]));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_lanes(a.n, w.wg), err);
}

static rp_code record_split(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "split_heads", err);
	if (rc != RP_OK)
		return rc;
	rp_args_split a = { .n = s->rows * op->heads * op->head_dim, .head_dim = op->head_dim };
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out1));
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_lanes(a.n, w.wg), err);
}

static rp_code record_rope(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_shape *s, rp_error *err)
{
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "rope", err);
	if (rc != RP_OK)
		return rc;
	rp_args_rope a = { .n_rows = s->rows, .heads = op->heads, .head_dim = op->head_dim, .rotary_dim = op->rotary_dim,
		.interleaved = op->interleaved };
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, rp_gpu_angles(g, op));
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_lanes((uint64_t)s->rows * op->heads * ((op->head_dim + 1) / 2), w.wg), err);
}

/* ---- with caches ---- */
static rp_code record_attention(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_cache *cache, const rp_gpu_shape *s,
	rp_error *err)
{
	rp_args_attention a = { .n_rows = s->rows, .heads = op->heads, .kv_heads = op->kv_heads, .head_dim = op->head_dim,
		.ctx = g->engine->info.ctx, .scale = op->scale };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "kv_append", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "KV16", g->kv16);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[1]));
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[2]));
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, cache->a);
	rp_work_bind(&w, cache->b);
	rc = rp_work_dispatch(&w, &a, sizeof a, rp_grid_kv_append(&a, g->kv16, w.wg), err);
	bool decode = s->rows <= s->segs * SHORT_SEGMENT;
	if (rc == RP_OK && !decode && rp_gpu_half_attends(g, op))
		return rp_gpu_record_half_attention(g, c, op, cache, s, err);
	if (rc == RP_OK)
		rc = rp_work_begin(&w, g, c, decode ? "attention_decode" : "attention_prefill", err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&w, decode ? "few rows a sequence: a workgroup a row and head scores positions side by side"
		: "many rows a sequence: 16 rows share the keys and values they read",
		decode ? "attention_prefill: its tiles of 16 rows would be mostly empty" : "attention_decode: would read the cache once a row");
	rp_work_const(&w, "KV16", g->kv16);
	if (decode)
		rp_work_const(&w, "WG", rp_attention_wg(g->cpu));
	else
		rp_work_const(&w, "HEAD_DIM", op->head_dim);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, cache->a);
	rp_work_bind(&w, cache->b);
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	rp_grid grid = { op->heads, decode ? s->rows : rp_ceil_div(s->rows, RP_PREFILL_ROWS), 1 };
	return rp_work_dispatch(&w, &a, sizeof a, grid, err);
}

static rp_code record_conv(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_cache *cache, const rp_gpu_shape *s, rp_error *err)
{
	uint32_t width = g->engine->graph->slot_width[op->out];
	bool decode = s->rows <= s->segs * SHORT_SEGMENT;
	rp_args_conv a = { .width = width, .kernel = op->kernel, .n = decode ? s->segs : s->rows };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, decode ? "conv" : "conv_rows", err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&w, decode ? "few rows a sequence: one pass also moves the state on" : "many rows a sequence: all rows side by side, the state after them",
		decode ? NULL : "conv: would go through the rows one by one");
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, rp_gpu_weight_find(&g->weights, op->w[0], RP_GPU_VECTOR)->ranges[0].buf);
	if (!decode)
		rp_work_bind_rows(&w, s);
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, cache->a);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	rc = rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ rp_ceil_div(width, w.wg), a.n, 1 }, err);
	if (rc != RP_OK || decode)
		return rc;
	rc = rp_work_begin(&w, g, c, "conv_state", err);
	if (rc != RP_OK)
		return rc;
	a.n = s->segs;
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, cache->a);
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ rp_ceil_div(width, w.wg), a.n, 1 }, err);
}

static rp_code record_delta(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_cache *cache, const rp_gpu_shape *s, rp_error *err)
{
	bool chunked = rp_prefer_delta_chunk(g->cpu, s->rows, s->segs);
	rp_args_delta a = { .k_heads = op->kv_heads, .v_heads = op->heads, .k_dim = op->head_dim, .v_dim = op->group,
		.head_mod = op->head_mod, .n_segs = s->segs };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, chunked ? "delta_chunk" : "delta", err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&w, chunked ? "more than 16 rows a sequence: rows in chunks, the state once a chunk"
		: g->cpu ? "a CPU device: row after row is fastest" : "few rows a sequence: row after row",
		chunked ? "delta: would move the state once a row" : NULL);
	rp_work_const(&w, "K_DIM", op->head_dim);
	for (int i = 0; i < 3; i++)
		rp_work_bind(&w, rp_gpu_slot(g, s, op->in[i]));
	rp_work_bind(&w, rp_gpu_weight_find(&g->weights, op->w[0], op->neg_exp ? RP_GPU_VECTOR : RP_GPU_MINUS_EXP)->ranges[0].buf);
	rp_work_bind(&w, rp_gpu_weight_find(&g->weights, op->w[1], RP_GPU_VECTOR)->ranges[0].buf);
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, cache->b);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	return rp_work_dispatch(&w, &a, sizeof a, chunked ? rp_grid_delta_chunk(&a) : rp_grid_delta(&a), err);
}

rp_code rp_gpu_record_gather(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, rp_error *err)
{
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "gather_rows", err);
	if (rc != RP_OK)
		return rc;
	rp_args_gather a = { .width = g->engine->graph->config.hidden, .n_rows = rows };
	rp_work_bind(&w, g->slots[RP_SLOT_X]);
	rp_work_bind_range(&w, g->batch, g->index_at, g->out_rows * sizeof(uint32_t));
	rp_work_bind(&w, g->gathered);
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_lanes((uint64_t)rows * a.width, w.wg), err);
}

rp_vk_buf *rp_gpu_slot(const rp_gpu *g, const rp_gpu_shape *s, unsigned slot)
{
	return slot == RP_SLOT_X ? s->x : g->slots[slot];
}

static rp_code record_op(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	const rp_gpu_cache *cache = &g->caches[layer - g->engine->opts.layer_first];
	switch (op->kind) {
	case RP_OP_EMBED:
		return record_embed(g, c, op, s, err);
	case RP_OP_MATMUL:
		return record_matmul(g, c, op, s, err);
	case RP_OP_NORM:
	case RP_OP_GATED_NORM:
		return record_norm(g, c, op, s, err);
	case RP_OP_SPLIT_HEADS:
		return record_split(g, c, op, s, err);
	case RP_OP_ROPE:
		return record_rope(g, c, op, s, err);
	case RP_OP_ATTENTION:
		return record_attention(g, c, op, cache, s, err);
	case RP_OP_CONV:
		return record_conv(g, c, op, cache, s, err);
	case RP_OP_DELTA:
		return record_delta(g, c, op, cache, s, err);
	case RP_OP_SIGMOID_MUL:
	case RP_OP_SILU_MUL:
	case RP_OP_ADD:
		return record_elementwise(g, c, op, s, err);
	case RP_OP_COUNT:
		break;
	}
	return rp_fail(err, RP_INTERNAL, "the GPU has no operation %d", (int)op->kind);
}

rp_code rp_gpu_record_op(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	g->op = op;
	rp_code rc = record_op(g, c, op, layer, s, err);
	g->op = NULL;
	return rc;
}

/* ---- sequences of operations ---- */
static rp_code record_ops(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	rp_code rc = RP_OK;
	bool many = s->rows > 1 && s->rows == s->segs && s->rows <= RP_BATCH_ROWS && g->staged != NULL;
	if (many && n <= RP_GPU_MOST_FUSED)
		return rp_gpu_record_rows(g, c, ops, n, layer, s, err);
	if (g->fused && s->rows == 1 && n <= RP_GPU_MOST_FUSED)
		return rp_gpu_record_fused(g, c, ops, n, layer, s, err);
	if (rp_gpu_half_takes(g, s, n))
		return rp_gpu_record_half(g, c, ops, n, layer, s, err);
	for (uint32_t i = 0; i < n && rc == RP_OK; i++)
		rc = rp_gpu_record_op(g, c, &ops[i], layer, s, err);
	return rc;
}

rp_code rp_gpu_record_input(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err)
{
	const rp_graph *graph = g->engine->graph;
	if (g->input != NULL)
		return rp_vk_cmd_copy(c, g->input, 0, s->x, 0, (uint64_t)s->rows * graph->config.hidden * sizeof(float), err);
	return record_ops(g, c, graph->pre, graph->n_pre, g->engine->opts.layer_first, s, err);
}

rp_code rp_gpu_record_layers(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err)
{
	const rp_engine *e = g->engine;
	rp_code rc = RP_OK;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last && rc == RP_OK; l++) {
		g->layer = (int)l;
		rc = record_ops(g, c, e->graph->layers[l].ops, e->graph->layers[l].n_ops, l, s, err);
	}
	g->layer = -1;
	return rc;
}

rp_code rp_gpu_record_logits(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err)
{
	const rp_graph *graph = g->engine->graph;
	return record_ops(g, c, graph->post, graph->n_post, g->engine->opts.layer_first, s, err);
}
