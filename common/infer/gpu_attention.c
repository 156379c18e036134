/* Attention of one-token rows: a workgroup has the query heads that share a key head and a span of positions, so that each key and
 * value is read once; a second kernel, or the product after it, joins the spans' parts.
 *
 * How many spans: enough that all cores read (RP_WIDE_GROUPS workgroups), for the bytes of a long context are what counts there. In
 * a short one it is the joining: then they are few, and the product after attention joins them without a dispatch of its own. */
#include "infer/gpu_attention.h"

#include "infer/gpu_cut.h"

/* ---- shapes ---- */
typedef struct split_shape {
	uint32_t lanes, octs, heads, tile; /* a position; octs of it a lane; query heads a workgroup; positions at a time */
} split_shape;

static split_shape shape_of(const rp_gpu *g, const rp_op *op)
{
	split_shape s = { .lanes = 4, .heads = op->heads / op->kv_heads };
	uint32_t octs = op->head_dim / 8, shared = s.heads;
	while (s.lanes < octs && s.lanes < g->device->subgroup_size)
		s.lanes *= 2;
	s.octs = rp_ceil_div(octs, s.lanes);
	s.tile = 4 * (RP_SPLIT_WG / s.lanes);
	if (s.heads > RP_SPLIT_HEADS)
		s.heads = RP_SPLIT_HEADS;
	while (shared % s.heads != 0)
		s.heads--;
	return s;
}

static uint32_t splits_of(const rp_gpu *g, const rp_op *op, uint32_t rows, bool deep)
{
	split_shape s = shape_of(g, op);
	uint32_t groups = rp_gpu_tuned(g)->split_groups != 0 ? rp_gpu_tuned(g)->split_groups : RP_WIDE_GROUPS;
	uint32_t all = rp_ceil_div(g->engine->info.ctx, s.tile), most = rp_ceil_div(groups, rows * (op->heads / s.heads));
	most = rows == 1 && !deep ? RP_SPLIT_FEW : most < RP_SPLIT_LEAST ? RP_SPLIT_LEAST : most;
	most = most < RP_SPLIT_WG ? most : RP_SPLIT_WG;
	return all < most ? all : most;
}

/* Bytes of the parts of the most demanding rows there may be. */
static uint64_t parts_bytes(const rp_gpu *g, const rp_op *op)
{
	uint64_t most = splits_of(g, op, 1, false);
	for (uint32_t rows = 1; rows <= RP_BATCH_ROWS; rows++) {
		uint64_t parts = (uint64_t)rows * splits_of(g, op, rows, true);
		most = parts > most ? parts : most;
	}
	return most * op->heads * (op->head_dim + 4) * sizeof(float);
}

/* Workgroup memory of attention_split, at most. */
static uint64_t shared_bytes(const rp_op *op)
{
	return 4 * RP_SPLIT_WG * 16 + (uint64_t)(RP_SPLIT_HEADS + 2) * op->head_dim * sizeof(float) + RP_SPLIT_WG / 4 * 32 + 64;
}

rp_code rp_gpu_parts_init(rp_gpu *g, rp_error *err)
{
	const rp_engine *e = g->engine;
	uint64_t bytes = 0;
	for (uint32_t l = e->opts.layer_first; g->fused && l < e->opts.layer_last; l++)
		for (uint32_t i = 0; i < e->graph->layers[l].n_ops; i++) {
			const rp_op *op = &e->graph->layers[l].ops[i];
			if (op->kind != RP_OP_ATTENTION)
				continue;
			if (shared_bytes(op) > g->device->max_shared)
				return RP_OK;
			uint64_t own = parts_bytes(g, op);
			bytes = own > bytes ? own : bytes;
		}
	if (bytes == 0 || bytes > g->device->max_binding)
		return RP_OK;
	return rp_vk_buf_new(g->vk, RP_VK_LOCAL, bytes, "parts of attention", &g->parts, err);
}

/* ---- which operations ---- */
static const rp_op *next_if(const rp_op *ops, uint32_t n, rp_heads *h, rp_op_kind kind)
{
	return h->end < n && ops[h->end].kind == kind ? &ops[h->end++] : NULL;
}

static bool in_place(const rp_op *op, unsigned slot)
{
	return op->in[0] == slot && op->out == slot;
}

static bool norms_fit(const rp_heads *h, unsigned q, unsigned k)
{
	const rp_op *a = h->attention, *n = h->q_norm;
	if ((h->q_norm != NULL) != (h->k_norm != NULL))
		return false;
	return n == NULL || (in_place(n, q) && in_place(h->k_norm, k) && n->group == a->head_dim && h->k_norm->group == a->head_dim &&
		n->eps == h->k_norm->eps && n->plus_one == h->k_norm->plus_one);
}

static bool ropes_fit(const rp_gpu *g, const rp_heads *h, unsigned q, unsigned k)
{
	const rp_op *r = h->q_rope, *s = h->k_rope;
	return in_place(r, q) && in_place(s, k) && r->rotary_dim == s->rotary_dim && r->rotary_dim % 8 == 0 &&
		r->interleaved == s->interleaved && rp_gpu_angles(g, r) == rp_gpu_angles(g, s);
}

bool rp_heads_match(const rp_gpu *g, const rp_op *ops, uint32_t n, uint32_t i, rp_heads *h)
{
	*h = (rp_heads){ .end = i };
	h->split = next_if(ops, n, h, RP_OP_SPLIT_HEADS);
	h->q_norm = next_if(ops, n, h, RP_OP_NORM);
	h->k_norm = next_if(ops, n, h, RP_OP_NORM);
	h->q_rope = next_if(ops, n, h, RP_OP_ROPE);
	h->k_rope = next_if(ops, n, h, RP_OP_ROPE);
	h->attention = next_if(ops, n, h, RP_OP_ATTENTION);
	const rp_op *a = h->attention;
	if (g->parts == NULL || a == NULL || h->q_rope == NULL || h->k_rope == NULL)
		return false;
	unsigned q = a->in[0], k = a->in[1];
	h->q = h->split != NULL ? h->split->in[0] : q;
	bool ok = ropes_fit(g, h, q, k) && norms_fit(h, q, k) && a->head_dim % 8 == 0 && a->head_dim <= 512;
	if (h->split != NULL)
		ok = ok && h->split->out == q && h->split->head_dim == a->head_dim;
	const rp_op *gate = h->end < n ? &ops[h->end] : NULL;
	if (h->split != NULL && gate != NULL && gate->kind == RP_OP_SIGMOID_MUL && in_place(gate, a->out) &&
		gate->in[1] == h->split->out1) {
		h->gate = gate;
		h->end++;
	}
	return ok && (h->split == NULL) == (h->gate == NULL);
}

/* ---- recording ---- */
static rp_vk_buf *vector_or(const rp_gpu *g, const rp_op *norm, rp_vk_buf *other)
{
	return norm == NULL ? other : rp_gpu_weight_find(&g->weights, norm->w[0], RP_GPU_VECTOR)->ranges[0].buf;
}

rp_code rp_heads_split(rp_gpu *g, rp_vk_cmd *c, const rp_heads *h, const rp_gpu_cache *cache, const rp_gpu_shape *s,
	rp_args_split_attention *a, rp_error *err)
{
	const rp_op *op = h->attention, *norm = h->q_norm;
	split_shape shape = shape_of(g, op);
	rp_vk_buf *k = rp_gpu_slot(g, s, op->in[1]);
	*a = (rp_args_split_attention){ .heads = op->heads, .kv_heads = op->kv_heads, .head_dim = op->head_dim,
		.ctx = g->engine->info.ctx, .q_stride = h->split != NULL ? 2 * op->head_dim : op->head_dim,
		.rotary_dim = h->q_rope->rotary_dim, .interleaved = h->q_rope->interleaved, .splits = splits_of(g, op, s->rows, s->deep),
		.tile = shape.tile, .scale = op->scale, .eps = norm != NULL ? norm->eps : 0,
		.w_offset = norm != NULL && norm->plus_one ? 1.0f : 0.0f };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "attention_split", err);
	if (rc != RP_OK)
		return rc;
	const rp_op *parts[] = { h->split, h->q_norm, h->k_norm, h->q_rope, h->k_rope, h->attention };
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i] != NULL)
			rp_work_for(&w, parts[i]);
	rp_work_why(&w, "a token a sequence: spans of positions side by side, each key read once for the queries that share it, norms and "
		"rope on the way, the cache appended to in place", "attention_decode: one workgroup a head, and four dispatches before it");
	rp_work_const(&w, "WG", RP_SPLIT_WG);
	rp_work_const(&w, "SG", g->device->subgroup_size);
	rp_work_const(&w, "LANES", shape.lanes);
	rp_work_const(&w, "OCTS", shape.octs);
	rp_work_const(&w, "HEADS", shape.heads);
	rp_work_const(&w, "DIM4", op->head_dim / 4);
	rp_work_const(&w, "NORM", norm != NULL);
	rp_work_const(&w, "KV16", g->kv16);
	rp_work_bind(&w, rp_gpu_slot(g, s, h->q));
	rp_work_bind(&w, k);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[2]));
	rp_work_bind(&w, vector_or(g, norm, k));
	rp_work_bind(&w, vector_or(g, h->k_norm, k));
	rp_work_bind(&w, rp_gpu_angles(g, h->q_rope));
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, cache->a);
	rp_work_bind(&w, cache->b);
	rp_work_bind(&w, g->parts);
	return rp_work_dispatch(&w, a, sizeof *a, (rp_grid){ a->heads / shape.heads, a->splits, s->rows }, err);
}

rp_code rp_heads_merge(
	rp_gpu *g, rp_vk_cmd *c, const rp_heads *h, const rp_gpu_shape *s, const rp_args_split_attention *a, rp_error *err)
{
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "attention_merge", err);
	if (rc != RP_OK)
		return rc;
	rp_work_for(&w, h->attention);
	if (h->gate != NULL)
		rp_work_for(&w, h->gate);
	rp_work_why(&w, "joins the parts of attention",
		"wide_attend: for one row, in few parts, before a product of quants in one range, at most 32 heads");
	rp_work_const(&w, "WG", RP_SPLIT_WG);
	rp_work_const(&w, "SG", g->device->subgroup_size);
	rp_work_const(&w, "GATE", h->gate != NULL);
	rp_work_bind(&w, g->parts);
	rp_work_bind(&w, rp_gpu_slot(g, s, h->q));
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, rp_gpu_slot(g, s, h->attention->out));
	return rp_work_dispatch(&w, a, sizeof *a, (rp_grid){ a->heads, s->rows, rp_ceil_div(a->head_dim / 4, RP_MERGE_VECTORS) }, err);
}
