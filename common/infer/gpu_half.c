/* Many rows on matrix units: products take their rows as halves with a scale a row (half_rows, half_matmul). What stands before a
 * product and works row by row (norms, gates) is done while its rows become halves; gate, up and activation are one product.
 * Everything else is recorded as it is. */
#include "infer/gpu_work.h"

#include <string.h>

enum {
	LEAST_ROWS = 9,    /* fewer are bound by reading weights: matvec */
	MOST_GROUPS = 256, /* as in half_rows */
	FEW_GROUPS = 96,   /* workgroups below which a device of about 132 cores is left idle: smaller tiles then */
};

typedef struct half {
	rp_gpu *g;
	rp_vk_cmd *c;
	const rp_gpu_shape *s;
	uint32_t layer;
	const rp_op *ops;
	uint32_t n;
	bool done[RP_GPU_MOST_FUSED];
	const rp_op *pending; /* put off: the products that read its output read halves that it is done on the way to */
	int held;             /* slot whose rows the halves are; -1: none */
} half;

/* ---- who reads what ---- */
static bool reads(const rp_op *op, unsigned slot)
{
	for (int i = 0; i < op->n_in; i++)
		if (op->in[i] == slot)
			return true;
	return false;
}

static bool writes(const rp_op *op, unsigned slot)
{
	return op->out == slot || (op->kind == RP_OP_SPLIT_HEADS && op->out1 == slot);
}

static uint32_t only_reader(const half *h, uint32_t i)
{
	uint32_t found = h->n;
	unsigned slot = h->ops[i].out;
	for (uint32_t j = i + 1; j < h->n; j++) {
		if (reads(&h->ops[j], slot)) {
			if (found != h->n)
				return h->n;
			found = j;
		}
		if (writes(&h->ops[j], slot))
			break;
	}
	return found;
}

static const rp_gpu_weight *matrix(const half *h, const rp_op *op)
{
	return rp_gpu_weight_find(&h->g->weights, op->w[0], RP_GPU_MATRIX);
}

/* ---- rows as halves ---- */
static bool row_by_row(const half *h, const rp_op *op)
{
	uint32_t width = h->g->engine->graph->slot_width[op->out];
	switch (op->kind) {
	case RP_OP_NORM:
		return op->group == width;
	case RP_OP_GATED_NORM:
		return width % op->group == 0 && width / op->group <= MOST_GROUPS;
	case RP_OP_SIGMOID_MUL:
	case RP_OP_SILU_MUL:
		return true;
	default:
		return false;
	}
}

/* May operation i be done while its output becomes halves? Only products read it, one after the other, and what it reads stays. */
static bool can_put_off(const half *h, uint32_t i)
{
	const rp_op *op = &h->ops[i];
	uint32_t last = i;
	if (op->out == RP_SLOT_X || !row_by_row(h, op))
		return false;
	for (uint32_t j = i + 1; j < h->n; j++) {
		const rp_op *r = &h->ops[j];
		if (reads(r, op->out)) {
			if (r->kind != RP_OP_MATMUL || r->in[0] != op->out || (r->n_in > 1 && r->in[1] == op->out))
				return false;
			last = j;
		}
		if (writes(r, op->out))
			break;
	}
	for (uint32_t j = i + 1; j < last; j++) {
		if (row_by_row(h, &h->ops[j]) || (h->ops[j].kind == RP_OP_MATMUL && h->ops[j].in[0] != op->out))
			return false;
		for (int k = 0; k < op->n_in; k++)
			if (writes(&h->ops[j], op->in[k]))
				return false;
	}
	return last != i;
}

static uint32_t way_of(const rp_op *op)
{
	return op == NULL ? RP_HALF_COPY : op->kind == RP_OP_NORM ? RP_HALF_NORM : op->kind == RP_OP_GATED_NORM ? RP_HALF_GATED_NORM
		: op->kind == RP_OP_SIGMOID_MUL ? RP_HALF_SIGMOID_MUL : RP_HALF_SILU_MUL;
}

/* The halves hold the rows of the slot a product reads, `stride` halves a row. */
static rp_code want_halves(half *h, unsigned slot, uint32_t k, uint32_t stride, rp_error *err)
{
	const rp_op *way = h->pending != NULL && h->pending->out == slot ? h->pending : NULL;
	rp_work w;
	if (h->held == (int)slot && h->g->half.stride == stride)
		return RP_OK;
	rp_code rc = rp_work_begin(&w, h->g, h->c, "half_rows", err);
	if (rc != RP_OK)
		return rc;
	if (way != NULL)
		rp_work_for(&w, way);
	rp_work_why(&w, "products on matrix units take their rows as halves", NULL);
	rp_args_half_rows a = { .k = k, .stride = stride, .group = way != NULL && way->group != 0 ? way->group : k,
		.eps = way != NULL ? way->eps : 0, .w_offset = way != NULL && way->kind == RP_OP_NORM && way->plus_one ? 1.0f : 0.0f };
	rp_vk_buf *x = rp_gpu_slot(h->g, h->s, way != NULL ? way->in[0] : slot);
	rp_work_const(&w, "WG", h->g->cpu ? 8 : 256);
	rp_work_const(&w, "OP", way_of(way));
	rp_work_bind(&w, x);
	rp_work_bind(&w, way != NULL && way->n_in > 1 ? rp_gpu_slot(h->g, h->s, way->in[1]) : x);
	rp_work_bind(&w, way != NULL && way->w[0] != NULL ? rp_gpu_weight_find(&h->g->weights, way->w[0], RP_GPU_VECTOR)->ranges[0].buf : x);
	rp_work_bind(&w, h->g->half.rows);
	rp_work_bind(&w, h->g->half.scale);
	h->held = (int)slot;
	h->g->half.stride = stride;
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ h->s->rows, 1, 1 }, err);
}

/* ---- products ---- */
static uint32_t groups(const rp_half_shape *s, uint32_t side, uint32_t rows, uint32_t n, bool glu)
{
	rp_args_half_matmul a = { .n = n, .n_rows = rows };
	rp_grid grid = rp_grid_half_matmul(&a, s, side, glu);
	return grid.x * grid.y;
}

/* Tiles from large to small, with matrices of 16 and of 8: the first that is no larger than the rows there are and that gives the device
 * enough workgroups; else the smallest for that many rows. A subgroup's tile of 4 x 4 matrices reads least, tiles of few rows waste least. */
static rp_half_shape choose_shape(const rp_gpu *g, uint32_t rows, uint32_t n, bool glu)
{
	static const rp_half_shape shapes[] = {
		{ 2, 2, 4, 4, 1, 2 }, /* 128 x 128 */
		{ 2, 2, 2, 4, 1, 2 }, /* 64 x 128 */
		{ 2, 2, 2, 2, 2, 2 }, /* 64 x 64 */
		{ 1, 4, 2, 2, 1, 2 }, /* 32 x 128 */
		{ 1, 4, 1, 2, 1, 2 }, /* 16 x 128 */
	};
	static const rp_half_shape plain = { 1, 1, 2, 2, 1, 1 };
	uint32_t side = g->half.side, sg = g->device->subgroup_size;
	rp_half_shape best = plain;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const rp_half_shape *s = &shapes[i];
		uint32_t tall = s->sub_m * s->tile_m * side, wg = s->sub_m * s->sub_n * sg;
		bool fits = rp_half_possible(s, side, sg) && rp_half_memory(s, side) <= g->device->max_shared && wg <= g->device->max_workgroup &&
			s->sub_m * s->sub_n <= g->device->max_subgroups;
		if (!fits || (tall > side && tall / 2 >= rows))
			continue;
		if (groups(s, side, rows, n, glu) >= FEW_GROUPS)
			return *s;
		if (memcmp(&best, &plain, sizeof best) == 0 || groups(s, side, rows, n, glu) > groups(&best, side, rows, n, glu))
			best = *s;
	}
	return best;
}

static rp_code begin_product(half *h, rp_work *w, rp_half_shape *s, const rp_op *op, bool glu, rp_error *err)
{
	const rp_gpu *g = h->g;
	const rp_gpu_weight *weight = matrix(h, op);
	uint32_t units = rp_units(weight->tensor->dtype, weight->k), sg = g->device->subgroup_size;
	rp_code rc = want_halves(h, op->in[0], weight->k, 32 * units, err);
	if (rc == RP_OK)
		rc = rp_work_begin(w, h->g, h->c, g->half.side == 16 ? "half_matmul_m16" : "half_matmul_m8", err);
	if (rc != RP_OK)
		return rc;
	*s = choose_shape(g, h->s->rows, weight->rows, glu);
	rp_work_why(w, "more than 8 rows, and the device multiplies matrices of halves", "matmul: the same without matrix units");
	rp_work_const(w, "QUANT", (uint32_t)weight->tensor->dtype);
	rp_work_const(w, "GLU", glu);
	rp_work_const(w, "SG", sg);
	rp_work_const(w, "WG", s->sub_m * s->sub_n * sg);
	rp_work_const(w, "SUB_M", s->sub_m);
	rp_work_const(w, "SUB_N", s->sub_n);
	rp_work_const(w, "TILE_M", s->tile_m);
	rp_work_const(w, "TILE_N", s->tile_n);
	rp_work_const(w, "UNITS", s->units);
	rp_work_const(w, "BUFFERS", s->buffers);
	return RP_OK;
}

static rp_args_half_matmul product_args(const half *h, const rp_gpu_weight *w, unsigned out)
{
	return (rp_args_half_matmul){ .n_rows = h->s->rows, .units = rp_units(w->tensor->dtype, w->k), .blocks = rp_blocks(w->tensor->dtype, w->k),
		.w_stride = (uint32_t)(w->stride / 16), .y_stride = h->g->engine->graph->slot_width[out] };
}

static rp_code record_product(half *h, const rp_op *op, rp_error *err)
{
	const rp_gpu_weight *weight = matrix(h, op);
	rp_half_shape shape;
	rp_work w;
	h->g->op = op;
	rp_code rc = begin_product(h, &w, &shape, op, false, err);
	h->g->op = NULL;
	if (rc != RP_OK)
		return rc;
	rp_args_half_matmul a = product_args(h, weight, op->out);
	rp_vk_buf *y = rp_gpu_slot(h->g, h->s, op->out);
	rp_work_const(&w, "RESIDUAL", op->n_in < 2 ? 0 : op->in[1] == op->out ? 1 : 2);
	for (uint32_t i = 0; i < weight->n_ranges && rc == RP_OK; i++) {
		a.n = weight->ranges[i].rows;
		a.y_first = weight->ranges[i].first;
		w.n_binds = 1;
		rp_work_bind(&w, h->g->half.rows);
		rp_work_bind(&w, h->g->half.scale);
		rp_work_bind(&w, weight->ranges[i].buf);
		rp_work_bind(&w, h->g->half.rows); /* no second matrix */
		rp_work_bind(&w, y);
		rp_work_bind(&w, op->n_in > 1 && op->in[1] != op->out ? rp_gpu_slot(h->g, h->s, op->in[1]) : h->g->half.scale);
		rc = rp_work_dispatch(&w, &a, sizeof a, rp_grid_half_matmul(&a, &shape, h->g->half.side, false), err);
	}
	return rc;
}

/* MATMUL, MATMUL, SILU_MUL of both. */
static bool is_glu(const half *h, uint32_t i)
{
	if (i + 2 >= h->n || h->ops[i].kind != RP_OP_MATMUL || h->ops[i + 1].kind != RP_OP_MATMUL || h->ops[i + 2].kind != RP_OP_SILU_MUL)
		return false;
	const rp_op *gate = &h->ops[i], *up = &h->ops[i + 1], *mul = &h->ops[i + 2];
	const rp_gpu_weight *a = matrix(h, gate), *b = matrix(h, up);
	bool same = gate->in[0] == up->in[0] && gate->n_in == 1 && up->n_in == 1 && mul->in[0] == gate->out && mul->in[1] == up->out &&
		a->k == b->k && a->rows == b->rows && a->tensor->dtype == b->tensor->dtype && a->n_ranges == 1 && b->n_ranges == 1;
	return same && only_reader(h, i) == i + 2 && only_reader(h, i + 1) == i + 2;
}

static rp_code record_glu(half *h, uint32_t i, rp_error *err)
{
	const rp_op *gate = &h->ops[i], *mul = &h->ops[i + 2];
	const rp_gpu_weight *a = matrix(h, gate), *b = matrix(h, &h->ops[i + 1]);
	rp_half_shape shape;
	rp_work w;
	rp_code rc = begin_product(h, &w, &shape, gate, true, err);
	if (rc != RP_OK)
		return rc;
	for (uint32_t j = i; j <= i + 2; j++) {
		rp_work_for(&w, &h->ops[j]);
		h->done[j] = true;
	}
	rp_args_half_matmul args = product_args(h, a, mul->out);
	args.n = a->rows;
	rp_work_bind(&w, h->g->half.rows);
	rp_work_bind(&w, h->g->half.scale);
	rp_work_bind(&w, a->ranges[0].buf);
	rp_work_bind(&w, b->ranges[0].buf);
	rp_work_bind(&w, rp_gpu_slot(h->g, h->s, mul->out));
	rp_work_bind(&w, h->g->half.scale);
	return rp_work_dispatch(&w, &args, sizeof args, rp_grid_half_matmul(&args, &shape, h->g->half.side, true), err);
}

/* ---- attention ---- */
enum { KEYS = 32, MOST_HEAD = 256 };

/* Subgroups of a workgroup: as many as its memory holds, each a matrix of rows. 0: none, or too few for the heads that share keys. */
static uint32_t attention_subgroups(const rp_gpu *g, const rp_op *op)
{
	uint32_t side = g->half.side, sg = g->device->subgroup_size;
	for (uint32_t n = 4; side != 0 && n > 0; n /= 2)
		if (rp_half_attention_memory(op->head_dim, side, sg, n, KEYS) <= g->device->max_shared && n * sg <= g->device->max_workgroup)
			return op->kv_heads != 0 && n * side >= op->heads / op->kv_heads && sg % side == 0 ? n : 0;
	return 0;
}

bool rp_gpu_half_attends(const rp_gpu *g, const rp_op *op)
{
	return g->half.side != 0 && op->head_dim % 16 == 0 && op->head_dim <= MOST_HEAD && attention_subgroups(g, op) != 0;
}

rp_code rp_gpu_record_half_attention(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_cache *cache, const rp_gpu_shape *s, rp_error *err)
{
	uint32_t n = attention_subgroups(g, op), sg = g->device->subgroup_size;
	if (n == 0)
		return rp_fail(err, RP_INTERNAL, "there is no half_attention for heads of %u values here", op->head_dim);
	rp_args_attention a = { .n_rows = s->rows, .heads = op->heads, .kv_heads = op->kv_heads, .head_dim = op->head_dim,
		.ctx = g->engine->info.ctx, .scale = op->scale };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, g->half.side == 16 ? "half_attention_m16" : "half_attention_m8", err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&w, "many rows a sequence, and the device multiplies matrices of halves", "attention_prefill: the same without matrix units");
	rp_work_const(&w, "WG", n * sg);
	rp_work_const(&w, "SG", sg);
	rp_work_const(&w, "HEAD_DIM", op->head_dim);
	rp_work_const(&w, "KEYS", KEYS);
	rp_work_const(&w, "KV16", g->kv16);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->in[0]));
	rp_work_bind(&w, cache->a);
	rp_work_bind(&w, cache->b);
	rp_work_bind_rows(&w, s);
	rp_work_bind(&w, rp_gpu_slot(g, s, op->out));
	return rp_work_dispatch(&w, &a, sizeof a, rp_grid_half_attention(&a, n * g->half.side), err);
}

/* ---- a list of operations ---- */
static rp_code record_at(half *h, uint32_t i, rp_error *err)
{
	const rp_op *op = &h->ops[i];
	if (can_put_off(h, i)) {
		h->pending = op;
		if (h->held == op->out)
			h->held = -1;
		return RP_OK;
	}
	bool glu = is_glu(h, i);
	unsigned out = glu ? h->ops[i + 2].out : op->out;
	rp_code rc = glu ? record_glu(h, i, err) : op->kind == RP_OP_MATMUL ? record_product(h, op, err)
		: rp_gpu_record_op(h->g, h->c, op, h->layer, h->s, err);
	if (h->held == (int)out || (op->kind == RP_OP_SPLIT_HEADS && h->held == op->out1))
		h->held = -1;
	if (h->pending != NULL && h->pending->out == out)
		h->pending = NULL;
	return rc;
}

bool rp_gpu_half_takes(const rp_gpu *g, const rp_gpu_shape *s, uint32_t n)
{
	return g->half.side != 0 && s->rows >= LEAST_ROWS && n <= RP_GPU_MOST_FUSED;
}

rp_code rp_gpu_record_half(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	half h = { .g = g, .c = c, .s = s, .layer = layer, .ops = ops, .n = n, .held = -1 };
	rp_code rc = RP_OK;
	for (uint32_t i = 0; i < n && rc == RP_OK; i++)
		if (!h.done[i])
			rc = record_at(&h, i, err);
	return rc;
}

/* ---- what it needs ---- */
uint32_t rp_gpu_half_side(const rp_vk_info *d)
{
	const uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE | RP_VK_F16 | RP_VK_STORAGE16 | RP_VK_COOPMAT;
	if ((d->features & need) != need || d->subgroup_size > 64 || d->subgroup_size < 8)
		return 0;
	for (uint32_t side = 16; side >= 8; side /= 2)
		if (rp_vk_has_matrix(d, &(rp_kernel_matrix){ 'h', 'f', side, side, side }))
			return side;
	return 0;
}

static uint64_t widest(const rp_gpu *g)
{
	uint64_t most = 0;
	for (size_t i = 0; i < g->weights.n; i++) {
		const rp_gpu_weight *w = &g->weights.v[i];
		if (w->role == RP_GPU_MATRIX && 32ull * rp_units(w->tensor->dtype, w->k) > most)
			most = 32ull * rp_units(w->tensor->dtype, w->k);
	}
	return most;
}

rp_code rp_gpu_half_init(rp_gpu *g, rp_error *err)
{
	uint64_t rows = g->engine->chunk, bytes = rows * widest(g) * 2;
	if (g->half.side == 0 || bytes > g->device->max_binding || rows < LEAST_ROWS) {
		g->half.side = 0;
		return RP_OK;
	}
	rp_code rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, bytes, "rows as halves", &g->half.rows, err);
	return rc == RP_OK ? rp_vk_buf_new(g->vk, RP_VK_LOCAL, rows * sizeof(float), "scales of rows", &g->half.scale, err) : rc;
}

void rp_gpu_half_free(rp_gpu *g)
{
	rp_vk_buf_free(g->half.rows);
	rp_vk_buf_free(g->half.scale);
}
