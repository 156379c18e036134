/* One token of one sequence in few dispatches: operations that follow each other become one kernel where there is one. Norms are
 * put off to the products that read them; a product takes the convolution, the activation or the gate behind or before it along;
 * attention is a span of positions a workgroup, and a merge. Everything else is recorded as it is. */
#include "infer/gpu_cut.h"
#include "infer/gpu_match.h"

#include <string.h>

enum {
	MOST_HEADS = 32,
	HEAD_ROWS = 2, /* rows in flight of the last product, measured */
};

/* ---- products ---- */
typedef struct product {
	rp_work w;
	rp_args_wide a;
	rp_wide_product p;
	rp_wide_cut cut;
} product;

/* Shape and parameters for products with this matrix. */
static rp_code begin_product(fuse *f, product *m, const char *kernel, const rp_op *op, uint32_t matrices, rp_error *err)
{
	const rp_gpu_weight *weight = matrix(f, op);
	rp_code rc = rp_work_begin(&m->w, f->g, f->c, kernel, err);
	if (rc != RP_OK)
		return rc;
	uint32_t units = rp_units(weight->tensor->dtype, weight->k);
	m->p = (rp_wide_product){ .n = weight->rows, .units = units, .matrices = matrices, .row_bytes = (uint32_t)weight->stride,
		.share = f->share };
	m->cut = rp_gpu_wide_cut(f->g, &m->p);
	if (f->norm != NULL && op->in[0] == f->norm->out)
		rp_work_for(&m->w, f->norm);
	rp_work_for(&m->w, op);
	m->a = (rp_args_wide){ .k = weight->k, .n = weight->rows, .w_stride = (uint32_t)(weight->stride / 16) };
	rp_work_const(&m->w, "WG", m->cut.wg);
	rp_work_const(&m->w, "SG", f->g->device->subgroup_size);
	rp_work_const(&m->w, "LANES", m->cut.lanes);
	rp_work_const(&m->w, "RUNS", 2 * units);
	rp_work_const(&m->w, "QUANT", (uint32_t)weight->tensor->dtype);
	return RP_OK;
}

/* Workgroups for n rows of the matrix, all of them or a range. */
static rp_grid product_grid(const fuse *f, const product *m, uint32_t n)
{
	rp_wide_product part = m->p;
	part.n = n;
	return (rp_grid){ n == m->p.n ? m->cut.groups : rp_gpu_wide_cut(f->g, &part).groups, 1, 1 };
}

/* x and, when a norm was put off, its weights. */
static void bind_x(fuse *f, product *m, const rp_op *op)
{
	bool normed = f->norm != NULL && op->in[0] == f->norm->out;
	rp_vk_buf *x = rp_gpu_slot(f->g, f->s, normed ? f->norm->in[0] : op->in[0]);
	rp_work_const(&m->w, "NORM", normed);
	if (normed) {
		m->a.eps = f->norm->eps;
		m->a.w_offset = f->norm->plus_one ? 1.0f : 0.0f;
	}
	rp_work_bind(&m->w, x);
	rp_work_bind(&m->w, normed ? rp_gpu_weight_find(&f->g->weights, f->norm->w[0], RP_GPU_VECTOR)->ranges[0].buf : x);
}

static rp_code record_product(fuse *f, uint32_t i, rp_error *err)
{
	const rp_op *op = &f->ops[i];
	const rp_gpu_weight *weight = matrix(f, op);
	product m;
	rp_code rc = begin_product(f, &m, is_float(weight->tensor->dtype) ? "wide_matvec_f32" : "wide_matvec", op, 1, err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&m.w, "one row: it is staged in workgroup memory once, a norm before it is computed on the way",
		"matvec: would read the row from the cache again in every subgroup, and leave the norm a dispatch of its own");
	rp_work_const(&m.w, "ROWS", m.cut.rows);
	rp_work_const(&m.w, "RESIDUAL", op->n_in < 2 ? 0 : op->in[1] == op->out ? 1 : 2);
	bind_x(f, &m, op);
	size_t fixed = m.w.n_binds;
	rp_vk_buf *y = rp_gpu_slot(f->g, f->s, op->out);
	for (uint32_t r = 0; r < weight->n_ranges && rc == RP_OK; r++) {
		m.a.n = weight->ranges[r].rows;
		m.a.y_first = weight->ranges[r].first;
		m.w.n_binds = fixed;
		rp_work_bind(&m.w, weight->ranges[r].buf);
		rp_work_bind(&m.w, y);
		rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, op->in[op->n_in > 1 && op->in[1] != op->out]));
		rc = rp_work_dispatch(&m.w, &m.a, sizeof m.a, product_grid(f, &m, m.a.n), err);
	}
	return rc;
}

/* MATMUL, MATMUL, SILU_MUL of both. */
static bool is_glu(const fuse *f, uint32_t i)
{
	if (i + 2 >= f->n || !is_quant_product(f, i) || !is_quant_product(f, i + 1) || f->ops[i + 2].kind != RP_OP_SILU_MUL)
		return false;
	const rp_op *gate = &f->ops[i], *up = &f->ops[i + 1], *mul = &f->ops[i + 2];
	const rp_gpu_weight *a = matrix(f, gate), *b = matrix(f, up);
	bool same = gate->in[0] == up->in[0] && gate->n_in == 1 && up->n_in == 1 && mul->in[0] == gate->out && mul->in[1] == up->out &&
		a->k == b->k && a->rows == b->rows && a->tensor->dtype == b->tensor->dtype;
	return same && only_reader(f, i) == i + 2 && only_reader(f, i + 1) == i + 2;
}

static rp_code record_glu(fuse *f, uint32_t i, rp_error *err)
{
	product m;
	rp_code rc = begin_product(f, &m, "wide_glu", &f->ops[i], 2, err);
	if (rc != RP_OK)
		return rc;
	rp_work_for(&m.w, &f->ops[i + 1]);
	rp_work_for(&m.w, &f->ops[i + 2]);
	rp_work_why(&m.w, "both products read one row and have equal shapes: one dispatch, and the activation in registers",
		"two products and elementwise: two barriers more");
	rp_work_const(&m.w, "ROWS", m.cut.rows);
	bind_x(f, &m, &f->ops[i]);
	rp_work_bind(&m.w, matrix(f, &f->ops[i])->ranges[0].buf);
	rp_work_bind(&m.w, matrix(f, &f->ops[i + 1])->ranges[0].buf);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, f->ops[i + 2].out));
	f->done[i + 1] = f->done[i + 2] = true;
	return rp_work_dispatch(&m.w, &m.a, sizeof m.a, product_grid(f, &m, m.a.n), err);
}

/* MATMUL and the CONV that alone reads it: n when it is none. */
static uint32_t conv_of(const fuse *f, uint32_t i)
{
	uint32_t j = is_quant_product(f, i) && f->ops[i].n_in == 1 ? only_reader(f, i) : f->n;
	return j < f->n && f->ops[j].kind == RP_OP_CONV && !touched(f, i, j, f->ops[j].out) ? j : f->n;
}

static rp_code record_conv_product(fuse *f, uint32_t i, uint32_t j, rp_error *err)
{
	const rp_op *conv = &f->ops[j];
	product m;
	rp_code rc = begin_product(f, &m, "wide_conv", &f->ops[i], 1, err);
	if (rc != RP_OK)
		return rc;
	rp_work_for(&m.w, conv);
	rp_work_why(&m.w, "only the convolution reads this product: its taps follow in registers", "wide_matvec and conv: a barrier more");
	rp_work_const(&m.w, "ROWS", m.cut.rows);
	rp_work_const(&m.w, "TAPS", conv->kernel);
	m.a.kernel = conv->kernel;
	m.a.width = m.a.n;
	bind_x(f, &m, &f->ops[i]);
	rp_work_bind(&m.w, matrix(f, &f->ops[i])->ranges[0].buf);
	rp_work_bind(&m.w, rp_gpu_weight_find(&f->g->weights, conv->w[0], RP_GPU_VECTOR)->ranges[0].buf);
	rp_work_bind_segs(&m.w, f->s);
	rp_work_bind(&m.w, f->cache->a);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, conv->out));
	f->done[j] = true;
	return rp_work_dispatch(&m.w, &m.a, sizeof m.a, product_grid(f, &m, m.a.n), err);
}

/* GATED_NORM in place and the MATMUL with residual in place that alone reads it. */
static bool is_gated(const fuse *f, uint32_t i)
{
	const rp_op *norm = &f->ops[i], *op = &f->ops[i + 1];
	if (!is_quant_product(f, i + 1) || only_reader(f, i) != i + 1)
		return false;
	return op->in[0] == norm->out && op->n_in == 2 && op->in[1] == op->out && norm->group % 16 == 0 &&
		matrix(f, op)->k % norm->group == 0;
}

static rp_code record_gated(fuse *f, uint32_t i, rp_error *err)
{
	const rp_op *norm = &f->ops[i], *op = &f->ops[i + 1];
	product m;
	rp_code rc = begin_product(f, &m, "wide_gated", op, 1, err);
	if (rc != RP_OK)
		return rc;
	rp_work_for(&m.w, norm);
	rp_work_why(&m.w, "only this product reads the gated norm: it is computed while the row is staged", "gated_norm and wide_matvec: a barrier more");
	rp_work_const(&m.w, "ROWS", m.cut.rows);
	rp_work_const(&m.w, "ONE_GROUP", norm->group == 4 * f->g->device->subgroup_size);
	m.a.group = norm->group;
	m.a.eps = norm->eps;
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, norm->in[0]));
	rp_work_bind(&m.w, rp_gpu_weight_find(&f->g->weights, norm->w[0], RP_GPU_VECTOR)->ranges[0].buf);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, norm->in[1]));
	rp_work_bind(&m.w, matrix(f, op)->ranges[0].buf);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, op->out));
	f->done[i + 1] = true;
	return rp_work_dispatch(&m.w, &m.a, sizeof m.a, product_grid(f, &m, m.a.n), err);
}

/* ---- attention ---- */
/* MATMUL with residual in place of nothing but attention's output, as wide_attend can take it. */
static bool is_attend(const fuse *f, const rp_heads *h)
{
	const rp_op *op = h->end < f->n ? &f->ops[h->end] : NULL;
	uint32_t last = h->end - 1;
	if (op == NULL || !is_quant_product(f, h->end) || only_reader(f, last) != h->end || op->in[0] != h->attention->out)
		return false;
	return op->n_in == 2 && op->in[1] == op->out && h->attention->heads <= MOST_HEADS;
}

static rp_code record_attend(fuse *f, const rp_heads *h, const rp_args_split_attention *a, rp_error *err)
{
	const rp_op *op = &f->ops[h->end];
	product m;
	rp_code rc = begin_product(f, &m, "wide_attend", op, 1, err);
	if (rc != RP_OK)
		return rc;
	if (h->gate != NULL)
		rp_work_for(&m.w, h->gate);
	rp_work_why(&m.w, "the parts of attention are joined while the product stages its row", "attention_merge and wide_matvec: a barrier more");
	rp_work_const(&m.w, "ROWS", m.cut.rows);
	rp_work_const(&m.w, "GATE", h->gate != NULL);
	rp_work_const(&m.w, "HEADS", a->heads);
	m.a.heads = a->heads;
	m.a.head_dim = a->head_dim;
	m.a.ctx = a->ctx;
	m.a.q_stride = a->q_stride;
	m.a.splits = a->splits;
	m.a.tile = a->tile;
	rp_work_bind(&m.w, f->g->parts);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, h->q));
	rp_work_bind_rows(&m.w, f->s);
	rp_work_bind(&m.w, matrix(f, op)->ranges[0].buf);
	rp_work_bind(&m.w, rp_gpu_slot(f->g, f->s, op->out));
	f->done[h->end] = true;
	return rp_work_dispatch(&m.w, &m.a, sizeof m.a, product_grid(f, &m, m.a.n), err);
}

static rp_code record_heads(fuse *f, const rp_heads *h, rp_error *err)
{
	rp_args_split_attention a;
	rp_code rc = rp_heads_split(f->g, f->c, h, f->cache, f->s, &a, err);
	if (rc != RP_OK)
		return rc;
	return !f->s->deep && is_attend(f, h) ? record_attend(f, h, &a, err) : rp_heads_merge(f->g, f->c, h, f->s, &a, err);
}

/* ---- delta rule ---- */
rp_code rp_fuse_delta(fuse *f, const rp_op *op, rp_error *err)
{
	const rp_gpu_weight *a = matrix(f, f->gates[0]), *b = matrix(f, f->gates[1]);
	const rp_op *norm = f->gates_norm;
	rp_args_wide_delta p = { .k_heads = op->kv_heads, .v_heads = op->heads, .k_dim = op->head_dim, .v_dim = op->group,
		.head_mod = op->head_mod, .k = a->k, .a_stride = (uint32_t)(a->stride / 16), .b_stride = (uint32_t)(b->stride / 16),
		.eps = norm->eps, .w_offset = norm->plus_one ? 1.0f : 0.0f };
	rp_work w;
	rp_code rc = rp_work_begin(&w, f->g, f->c, "wide_delta", err);
	if (rc != RP_OK)
		return rc;
	rp_work_for(&w, f->gates[0]);
	rp_work_for(&w, f->gates[1]);
	rp_work_for(&w, op);
	rp_work_why(&w, "only the delta rule reads its two gates: each head computes its own", "two products and delta: a barrier more");
	rp_work_const(&w, "SG", f->g->device->subgroup_size);
	rp_work_const(&w, "K_DIM", op->head_dim);
	rp_work_const(&w, "NORM", true);
	rp_work_const(&w, "QUANT", (uint32_t)a->tensor->dtype);
	rp_work_bind(&w, rp_gpu_slot(f->g, f->s, op->in[0]));
	rp_work_bind(&w, rp_gpu_slot(f->g, f->s, norm->in[0]));
	rp_work_bind(&w, rp_gpu_weight_find(&f->g->weights, norm->w[0], RP_GPU_VECTOR)->ranges[0].buf);
	rp_work_bind(&w, a->ranges[0].buf);
	rp_work_bind(&w, b->ranges[0].buf);
	rp_work_bind(&w, rp_gpu_weight_find(&f->g->weights, op->w[0], op->neg_exp ? RP_GPU_VECTOR : RP_GPU_MINUS_EXP)->ranges[0].buf);
	rp_work_bind(&w, rp_gpu_weight_find(&f->g->weights, op->w[1], RP_GPU_VECTOR)->ranges[0].buf);
	rp_work_bind_segs(&w, f->s);
	rp_work_bind(&w, f->cache->b);
	rp_work_bind(&w, rp_gpu_slot(f->g, f->s, op->out));
	f->gates[0] = f->gates[1] = NULL;
	rp_grid grid = { p.v_heads, f->s->segs, rp_ceil_div(p.v_dim, RP_DELTA_COLS) };
	return rp_work_dispatch(&w, &p, sizeof p, grid, err);
}

/* ---- the pass over the operations ---- */
static rp_code record_matrix(fuse *f, uint32_t i, rp_error *err)
{
	uint32_t conv = conv_of(f, i);
	f->done[i] = true;
	return conv < f->n ? record_conv_product(f, i, conv, err) : record_product(f, i, err);
}

/* Products next to each other that read the same row run side by side: the smallest first, for the largest fill the device. */
static rp_code record_side_by_side(fuse *f, uint32_t first, rp_error *err)
{
	uint32_t end = first;
	rp_code rc = RP_OK;
	f->share = 0;
	for (; is_product(f, end) && f->ops[end].in[0] == f->ops[first].in[0] && (end == first || !is_glu(f, end)); end++) {
		if (end != first && (f->ops[end].n_in > 1 || f->ops[end - 1].n_in > 1))
			break;
		if (!f->done[end] && !put_off_gates(f, end))
			f->share += matrix(f, &f->ops[end])->rows;
	}
	for (uint32_t n = first; n < end && rc == RP_OK; n++) {
		uint32_t least = end;
		for (uint32_t i = first; i < end; i++)
			if (!f->done[i] && (least == end || matrix(f, &f->ops[i])->rows < matrix(f, &f->ops[least])->rows))
				least = i;
		if (least == end)
			break;
		rc = record_matrix(f, least, err);
	}
	f->share = 0;
	return rc;
}

static rp_code record_at(fuse *f, uint32_t i, rp_error *err)
{
	const rp_op *op = &f->ops[i];
	rp_heads h;
	if (op->kind == RP_OP_NORM && put_off(f, i)) {
		f->norm = op;
		return RP_OK;
	}
	if (op->kind == RP_OP_GATED_NORM && is_gated(f, i))
		return record_gated(f, i, err);
	if ((op->kind == RP_OP_SPLIT_HEADS || op->kind == RP_OP_NORM || op->kind == RP_OP_ROPE) && f->g->parts != NULL &&
		rp_heads_match(f->g, f->ops, f->n, i, &h)) {
		for (uint32_t j = i; j < h.end; j++)
			f->done[j] = true;
		return record_heads(f, &h, err);
	}
	if (op->kind == RP_OP_DELTA && f->gates[0] != NULL)
		return rp_fuse_delta(f, op, err);
	if (is_glu(f, i))
		return record_glu(f, i, err);
	return is_product(f, i) ? record_side_by_side(f, i, err) : rp_gpu_record_op(f->g, f->c, op, f->layer, f->s, err);
}

rp_code rp_gpu_record_fused(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err)
{
	fuse f = { .g = g, .c = c, .s = s, .layer = layer, .ops = ops, .n = n };
	rp_code rc = RP_OK;
	f.cache = &g->caches[layer - g->engine->opts.layer_first];
	for (uint32_t i = 0; i < n && rc == RP_OK; i++) {
		if (f.done[i])
			continue;
		if (f.norm != NULL && writes(&ops[i], f.norm->out))
			f.norm = NULL;
		rc = record_at(&f, i, err);
	}
	return rc;
}

rp_code rp_gpu_record_best(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, uint32_t *pairs, rp_error *err)
{
	const rp_graph *graph = g->engine->graph;
	fuse f = { .g = g, .c = c, .s = s, .ops = graph->post, .n = graph->n_post };
	*pairs = 0;
	if (!g->fused || f.n != 2)
		return RP_OK;
	const rp_op *norm = &graph->post[0], *head = &graph->post[1];
	if (norm->kind != RP_OP_NORM || !put_off(&f, 0) || !is_quant_product(&f, 1) || head->n_in != 1)
		return RP_OK;
	const rp_gpu_weight *weight = matrix(&f, head);
	product m;
	f.norm = norm;
	rp_code rc = begin_product(&f, &m, "wide_best", head, 1, err);
	if (rc != RP_OK)
		return rc;
	rp_work_why(&m.w, "greedy: the largest logit of each slice is kept in registers, logits are not written", "wide_matvec and topk: a barrier more");
	uint32_t rows = rp_gpu_tuned(g)->head_rows != 0 ? rp_gpu_tuned(g)->head_rows : HEAD_ROWS;
	rp_work_const(&m.w, "ROWS", rows);
	bind_x(&f, &m, head);
	rp_work_bind(&m.w, weight->ranges[0].buf);
	rp_work_bind(&m.w, g->run.values);
	rp_work_bind(&m.w, g->run.ids);
	uint32_t all = rp_ceil_div(m.a.n, m.cut.wg / m.cut.lanes * rows);
	*pairs = all < RP_WIDE_BEST ? all : RP_WIDE_BEST;
	return rp_work_dispatch(&m.w, &m.a, sizeof m.a, (rp_grid){ *pairs, 1, 1 }, err);
}
