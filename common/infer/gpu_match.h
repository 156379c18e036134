/* gpu_match: which operations of a list follow each other so that fewer kernels can do them. Shared by the recorders of one row
 * (gpu_fuse.c) and of rows that are a token of a sequence each (gpu_rows.c). Private to infer/. */
#ifndef RP_GPU_MATCH_H
#define RP_GPU_MATCH_H

#include "infer/gpu_attention.h"

enum { SHARED_REST = 12288 }; /* bytes of workgroup memory beside the row of x of a product of one row, at most */

typedef struct fuse {
	rp_gpu *g;
	rp_vk_cmd *c;
	const rp_gpu_shape *s;
	const rp_gpu_cache *cache;
	uint32_t layer;
	const rp_op *ops;
	uint32_t n;
	bool done[RP_GPU_MOST_FUSED];
	const rp_op *norm; /* put off: readers of its output read its input, and norm it */
	const rp_op *gates[2], *gates_norm; /* products a and b put off to the delta rule, and the norm before them */
	bool many;         /* rows that are a token of a sequence each: products are those of gpu_rows.c */
	uint32_t share;    /* rows of all the products that run side by side with the one being recorded */
} fuse;

/* ---- who reads what ---- */
static inline bool reads(const rp_op *op, unsigned slot)
{
	for (int i = 0; i < op->n_in; i++)
		if (op->in[i] == slot)
			return true;
	return false;
}

static inline bool writes(const rp_op *op, unsigned slot)
{
	return op->out == slot || (op->kind == RP_OP_SPLIT_HEADS && op->out1 == slot);
}

/* Does an operation of (first, last) touch the slot? */
static inline bool touched(const fuse *f, uint32_t first, uint32_t last, unsigned slot)
{
	for (uint32_t i = first + 1; i < last; i++)
		if (reads(&f->ops[i], slot) || writes(&f->ops[i], slot))
			return true;
	return false;
}

/* The only reader of what operation i wrote; n when there is none or more than one. A residual in place counts as one. */
static inline uint32_t only_reader(const fuse *f, uint32_t i)
{
	uint32_t found = f->n;
	unsigned slot = f->ops[i].out;
	for (uint32_t j = i + 1; j < f->n; j++) {
		if (reads(&f->ops[j], slot)) {
			if (found != f->n)
				return f->n;
			found = j;
		}
		if (writes(&f->ops[j], slot))
			break;
	}
	return found;
}

/* ---- products ---- */
static inline bool is_float(rp_dtype t)
{
	return rp_dtype_get(t)->block_values == 1;
}

static inline const rp_gpu_weight *matrix(const fuse *f, const rp_op *op)
{
	return rp_gpu_weight_find(&f->g->weights, op->w[0], RP_GPU_MATRIX);
}

/* A row of x fits the memory of a workgroup. */
static inline bool fits(const fuse *f, const rp_gpu_weight *w)
{
	uint64_t run = is_float(w->tensor->dtype) ? 64 + 4 : 40 + 4;
	return 2 * (uint64_t)rp_units(w->tensor->dtype, w->k) * run + SHARED_REST <= f->g->device->max_shared;
}

static inline bool is_product(const fuse *f, uint32_t i)
{
	return i < f->n && f->ops[i].kind == RP_OP_MATMUL && (f->many || fits(f, matrix(f, &f->ops[i])));
}

/* A product of quants whose matrix is one range: what the kernels that do more can take. */
static inline bool is_quant_product(const fuse *f, uint32_t i)
{
	return is_product(f, i) && !is_float(matrix(f, &f->ops[i])->tensor->dtype) && matrix(f, &f->ops[i])->n_ranges == 1;
}

/* A product of quants with no residual but one in place, however many ranges it has: what gpu_rows.c does. */
static inline bool is_staged_product(const fuse *f, uint32_t i)
{
	const rp_op *op = &f->ops[i];
	return is_product(f, i) && !is_float(matrix(f, op)->tensor->dtype) && (op->n_in < 2 || op->in[1] == op->out);
}

/* ---- put off ---- */
/* The product that writes input `in` of operation j, which alone reads it, as wide_delta can take it; n when there is none. */
static inline uint32_t gate_of(const fuse *f, uint32_t j, int in)
{
	uint32_t i = j;
	while (i > 0 && !writes(&f->ops[i - 1], f->ops[j].in[in]))
		i--;
	if (i-- == 0 || !is_product(f, i) || only_reader(f, i) != j || f->ops[i].n_in != 1 || f->ops[i].in[0] != f->norm->out)
		return f->n;
	const rp_gpu_weight *w = matrix(f, &f->ops[i]);
	for (uint32_t l = i + 1; l < j; l++)
		if (writes(&f->ops[l], f->norm->in[0]))
			return f->n;
	return is_float(w->tensor->dtype) && w->n_ranges == 1 && w->k % 8 == 0 && w->rows == f->ops[j].heads ? i : f->n;
}

/* Are product i and its twin the two gates of one delta rule? */
static inline bool gates_of(const fuse *f, uint32_t i, uint32_t pair[2])
{
	uint32_t j = f->norm != NULL && f->ops[i].in[0] == f->norm->out ? only_reader(f, i) : f->n;
	if (j == f->n || f->ops[j].kind != RP_OP_DELTA)
		return false;
	uint32_t a = gate_of(f, j, 1), b = gate_of(f, j, 2);
	if (a == f->n || b == f->n || (a != i && b != i) || matrix(f, &f->ops[a])->tensor->dtype != matrix(f, &f->ops[b])->tensor->dtype)
		return false;
	if (pair != NULL) {
		pair[0] = a;
		pair[1] = b;
	}
	return true;
}

/* Put product i off to the delta rule with its twin. */
static inline bool put_off_gates(fuse *f, uint32_t i)
{
	uint32_t pair[2];
	if (!gates_of(f, i, pair))
		return false;
	f->gates[0] = &f->ops[pair[0]];
	f->gates[1] = &f->ops[pair[1]];
	f->gates_norm = f->norm;
	f->done[pair[0]] = f->done[pair[1]] = true;
	return true;
}

/* Many rows: only the products of quants take them as they are staged, and the delta rule its gates. */
static inline bool takes_norm(const fuse *f, const rp_op *norm, uint32_t i)
{
	fuse as = *f;
	as.norm = norm;
	return f->many ? is_staged_product(f, i) || gates_of(&as, i, NULL) : is_product(f, i);
}

/* A norm of whole rows whose every reader is a product that can do it. */
static inline bool put_off(const fuse *f, uint32_t i)
{
	const rp_op *norm = &f->ops[i];
	if (norm->in[0] == norm->out || norm->group != f->g->engine->graph->slot_width[norm->out] || norm->group % 4 != 0)
		return false;
	bool stale = false; /* what it norms was overwritten */
	for (uint32_t j = i + 1; j < f->n; j++) {
		const rp_op *op = &f->ops[j];
		if (reads(op, norm->out) &&
			(stale || !takes_norm(f, norm, j) || op->in[0] != norm->out || (op->n_in > 1 && op->in[1] == norm->out) || writes(op, norm->in[0])))
			return false;
		if (writes(op, norm->out))
			break;
		stale = stale || writes(op, norm->in[0]);
	}
	return true;
}

/* The delta rule with the gates put off to it. */
rp_code rp_fuse_delta(fuse *f, const rp_op *op, rp_error *err);

#endif
