/* Rows that are one token of a sequence each, two to RP_BATCH_ROWS of them. The matrices are read once for all rows: x is made fixed
 * point in device memory by one dispatch a set of products that read the same rows, which does the norm, the activation or the gate
 * before them on the way; then each workgroup multiplies some rows of a matrix with up to eight rows of x.
 *
 * Why no tile product: on an H200 the packed dot products of 64 rows take about 2.4 ms of a token of Qwen 3.5 0.8B, 1.2 at 32, and
 * reading the matrices 0.1; below some 40 rows nothing else would be faster, and there is no rounding to f16. */
#include "infer/gpu_cut.h"
#include "infer/gpu_match.h"

/* What the buffer of staged rows holds. */
typedef struct staging {
	const rp_op *from; /* the norm, activation or gate whose output it is; NULL: rows of a slot as they are */
	unsigned slot;     /* of that output */
	bool any;
} staging;

typedef struct many {
	fuse f;
	staging now;
} many;

static uint32_t runs_of(uint32_t k)
{
	return rp_ceil_div(k, 256) * 16;
}

/* ---- staging ---- */
/* SILU_MUL or GATED_NORM whose output only the products read, as the stage can do it. */
static bool is_gate_op(const fuse *f, uint32_t i)
{
	const rp_op *op = &f->ops[i];
	uint32_t width = f->g->engine->graph->slot_width[op->out], j = only_reader(f, i);
	if (op->kind != RP_OP_SILU_MUL && op->kind != RP_OP_GATED_NORM)
		return false;
	if (op->kind == RP_OP_GATED_NORM && (op->group % 16 != 0 || width % op->group != 0))
		return false;
	return j < f->n && is_staged_product(f, j) && f->ops[j].in[0] == op->out && !touched(f, i, j, op->in[0]) && !touched(f, i, j, op->in[1]);
}

/* The operation put off that makes what product op reads; NULL when its rows are there. */
static const rp_op *maker_of(const many *m, const rp_op *op)
{
	const fuse *f = &m->f;
	if (f->norm != NULL && f->norm->out == op->in[0])
		return f->norm;
	for (uint32_t i = (uint32_t)(op - f->ops); i-- > 0;) {
		if (writes(&f->ops[i], op->in[0]))
			return is_gate_op(f, i) ? &f->ops[i] : NULL;
	}
	return NULL;
}

static rp_code record_stage(many *m, const rp_op *op, const rp_op *from, rp_error *err)
{
	enum { PLAIN, NORM, SILU, GATED };
	const fuse *f = &m->f;
	rp_gpu *g = f->g;
	rp_args_stage a = { .k = matrix(f, op)->k, .runs = runs_of(matrix(f, op)->k) };
	rp_vk_buf *x = rp_gpu_slot(g, f->s, from != NULL ? from->in[0] : op->in[0]), *nw = x, *z = x;
	uint32_t mode = from == NULL ? PLAIN : from->kind == RP_OP_NORM ? NORM : from->kind == RP_OP_SILU_MUL ? SILU : GATED;
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, f->c, "rows_stage", err);
	if (rc != RP_OK)
		return rc;
	if (mode == NORM || mode == GATED) {
		nw = rp_gpu_weight_find(&g->weights, from->w[0], RP_GPU_VECTOR)->ranges[0].buf;
		a.eps = from->eps;
		a.group = from->group;
		a.w_offset = mode == NORM && from->plus_one ? 1.0f : 0.0f;
	}
	if (mode == SILU || mode == GATED)
		z = rp_gpu_slot(g, f->s, from->in[1]);
	rp_work_for(&w, from != NULL ? from : op);
	rp_work_why(&w, "rows of x as fixed point, once for all products that read them", "wide_matvec: stages one row, in every workgroup");
	rp_work_const(&w, "WG", RP_STAGE_WG);
	rp_work_const(&w, "SG", g->device->subgroup_size);
	rp_work_const(&w, "RUNS", a.runs);
	rp_work_const(&w, "MODE", mode);
	rp_work_bind(&w, x);
	rp_work_bind(&w, nw);
	rp_work_bind(&w, z);
	rp_work_bind(&w, g->staged);
	rp_work_bind(&w, g->staged);
	m->now = (staging){ from, op->in[0], true };
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ f->s->rows, 1, 1 }, err);
}

/* ---- products ---- */
typedef struct tile {
	uint32_t wg, rows, m; /* of w a team, of x a workgroup */
} tile;

/* A CPU device computes whatever the tile, and compiles a small one sooner. */
static tile tile_of(const rp_gpu *g, uint32_t n, uint32_t n_rows)
{
	const rp_gpu_tune *tune = rp_gpu_tuned(g);
	tile t = { .wg = RP_PRODUCT_WG, .rows = g->cpu ? 2 : 4, .m = n_rows > 4 && !g->cpu ? 8 : 4 };
	t.rows = tune->many_rows != 0 ? tune->many_rows : t.rows;
	t.m = tune->many_tile != 0 ? tune->many_tile : t.m;
	uint32_t teams = t.wg / g->device->subgroup_size, tiles = rp_ceil_div(n_rows, t.m);
	while (t.rows > 1 && n * tiles < t.rows * teams * RP_WIDE_FEW)
		t.rows /= 2;
	return t;
}

static rp_code record_staged_product(many *m, uint32_t i, rp_error *err)
{
	const fuse *f = &m->f;
	const rp_op *op = &f->ops[i], *from = maker_of(m, op);
	const rp_gpu_weight *weight = matrix(f, op);
	rp_code rc = RP_OK;
	if (!m->now.any || m->now.from != from || m->now.slot != op->in[0])
		rc = record_stage(m, op, from, err);
	rp_work w = { 0 };
	if (rc == RP_OK)
		rc = rp_work_begin(&w, f->g, f->c, "rows_product", err);
	if (rc != RP_OK)
		return rc;
	const rp_gpu_tune *tune = rp_gpu_tuned(f->g);
	tile t = tile_of(f->g, weight->rows, f->s->rows);
	rp_work_for(&w, op);
	rp_work_why(&w, "up to eight rows of x with each row of w that is read", "matvec: unpacks to floats; matmul: tiles of 32 rows of x");
	rp_work_const(&w, "WG", t.wg);
	rp_work_const(&w, "SG", f->g->device->subgroup_size);
	rp_work_const(&w, "ROWS", t.rows);
	rp_work_const(&w, "TILE_M", t.m);
	rp_work_const(&w, "RESIDUAL", op->n_in > 1);
	rp_work_const(&w, "QUANT", (uint32_t)weight->tensor->dtype);
	rp_args_product a = { .k = weight->k, .n_rows = f->s->rows, .runs = runs_of(weight->k), .w_stride = (uint32_t)(weight->stride / 16),
		.y_stride = f->g->engine->graph->slot_width[op->out] };
	for (uint32_t r = 0; r < weight->n_ranges && rc == RP_OK; r++) {
		a.n = weight->ranges[r].rows;
		a.y_first = weight->ranges[r].first;
		w.n_binds = 1;
		rp_work_bind(&w, f->g->staged);
		rp_work_bind(&w, f->g->staged);
		rp_work_bind(&w, weight->ranges[r].buf);
		rp_work_bind(&w, rp_gpu_slot(f->g, f->s, op->out));
		uint32_t tiles = rp_ceil_div(a.n_rows, t.m), all = rp_ceil_div(a.n, t.wg / f->g->device->subgroup_size * t.rows);
		uint32_t most = rp_ceil_div(tune->many_groups != 0 ? tune->many_groups : 2 * RP_WIDE_GROUPS, tiles);
		rc = rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ rp_ceil_div(all, rp_ceil_div(all, most)), tiles, 1 }, err);
	}
	return rc;
}

/* ---- the pass over the operations ---- */
static rp_code record_heads(many *m, const rp_heads *h, rp_error *err)
{
	rp_args_split_attention a;
	rp_code rc = rp_heads_split(m->f.g, m->f.c, h, m->f.cache, m->f.s, &a, err);
	m->now.any = false;
	return rc == RP_OK ? rp_heads_merge(m->f.g, m->f.c, h, m->f.s, &a, err) : rc;
}

static rp_code record_at(many *m, uint32_t i, rp_error *err)
{
	fuse *f = &m->f;
	const rp_op *op = &f->ops[i];
	rp_heads h;
	if (op->kind == RP_OP_NORM && put_off(f, i)) {
		f->norm = op;
		return RP_OK;
	}
	if (is_gate_op(f, i))
		return RP_OK; /* the stage does it */
	if ((op->kind == RP_OP_SPLIT_HEADS || op->kind == RP_OP_NORM || op->kind == RP_OP_ROPE) &&
		rp_heads_match(f->g, f->ops, f->n, i, &h)) {
		for (uint32_t j = i; j < h.end; j++)
			f->done[j] = true;
		return record_heads(m, &h, err);
	}
	if (op->kind == RP_OP_MATMUL && put_off_gates(f, i))
		return RP_OK;
	if (op->kind == RP_OP_DELTA && f->gates[0] != NULL)
		return rp_fuse_delta(f, op, err);
	return is_staged_product(f, i) ? record_staged_product(m, i, err) : rp_gpu_record_op(f->g, f->c, op, f->layer, f->s, err);
}

rp_code rp_gpu_record_rows(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	many m = { .f = { .g = g, .c = c, .s = s, .layer = layer, .ops = ops, .n = n, .many = true } };
	rp_code rc = RP_OK;
	m.f.cache = &g->caches[layer - g->engine->opts.layer_first];
	for (uint32_t i = 0; i < n && rc == RP_OK; i++) {
		if (m.f.done[i])
			continue;
		if (m.f.norm != NULL && writes(&ops[i], m.f.norm->out))
			m.f.norm = NULL;
		rc = record_at(&m, i, err);
		if (writes(&ops[i], m.now.slot) && m.now.from != &ops[i])
			m.now.any = false;
	}
	return rc;
}

/* ---- room for the staged rows ---- */
rp_code rp_gpu_rows_init(rp_gpu *g, rp_error *err)
{
	uint32_t most = 0;
	for (size_t i = 0; i < g->weights.n; i++)
		if (g->weights.v[i].role == RP_GPU_MATRIX && g->weights.v[i].k > most)
			most = g->weights.v[i].k;
	uint64_t bytes = (uint64_t)RP_BATCH_ROWS * runs_of(most) * 40;
	if (!g->fused || most == 0 || bytes > g->device->max_binding || runs_of(most) * sizeof(float) > g->device->max_shared / 2)
		return RP_OK;
	return rp_vk_buf_new(g->vk, RP_VK_LOCAL, bytes, "staged rows", &g->staged, err);
}
