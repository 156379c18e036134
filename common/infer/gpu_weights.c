/* Weights on the device: matrices repacked row by row into ranges that can be bound, vectors as float32. */
#include "infer/gpu.h"
#include "infer/pool.h"
#include "infer/repack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The grid of a matrix product has at most this many workgroups of four rows in a dimension. */
enum { MOST_ROWS = 65535 * RP_MATVEC_ROWS };

static int compare(const void *a, const void *b)
{
	const rp_gpu_weight *x = a, *y = b;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return x->role < y->role ? -1 : x->role > y->role;
}

static rp_gpu_role role_of(const rp_op *op, int i)
{
	if (op->kind == RP_OP_MATMUL || op->kind == RP_OP_EMBED)
		return RP_GPU_MATRIX;
	return op->kind == RP_OP_DELTA && i == 0 && !op->neg_exp ? RP_GPU_MINUS_EXP : RP_GPU_VECTOR;
}

static void gather(const rp_op *ops, uint32_t n, rp_gpu_weights *w)
{
	for (uint32_t i = 0; i < n; i++)
		for (int j = 0; j < 2; j++)
			if (ops[i].w[j] != NULL)
				w->v[w->n++] = (rp_gpu_weight){ .tensor = ops[i].w[j], .role = role_of(&ops[i], j) };
}

static rp_code collect(const rp_engine *e, rp_gpu_weights *w, rp_error *err)
{
	const rp_graph *g = e->graph;
	size_t most = 2 * ((size_t)g->n_pre + g->n_post), kept = 0;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		most += 2 * (size_t)g->layers[l].n_ops;
	w->v = rp_alloc_array(most, sizeof *w->v);
	if (w->v == NULL)
		return rp_no_memory(err, most * sizeof *w->v, "the list of weights");
	if (e->opts.layer_first == 0)
		gather(g->pre, g->n_pre, w);
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		gather(g->layers[l].ops, g->layers[l].n_ops, w);
	if (e->opts.layer_last == g->n_layers)
		gather(g->post, g->n_post, w);
	qsort(w->v, w->n, sizeof *w->v, compare);
	for (size_t i = 0; i < w->n; i++)
		if (kept == 0 || compare(&w->v[kept - 1], &w->v[i]) != 0)
			w->v[kept++] = w->v[i];
	w->n = kept;
	return RP_OK;
}

/* Sizes, and how many rows a range can have. */
static rp_code measure(rp_gpu_weight *w, const rp_vk_info *device, rp_error *err)
{
	const rp_tensor *t = w->tensor;
	uint64_t k = w->role == RP_GPU_MATRIX && t->n_dims > 0 ? t->dims[t->n_dims - 1] : t->n_values, limit = device->max_binding;
	if (device->max_allocation < limit)
		limit = device->max_allocation;
	if (k == 0 || k > UINT32_MAX || t->n_values / k > UINT32_MAX)
		return rp_fail(err, RP_MODEL, "tensor %s has a size no device can hold", t->name);
	w->k = (uint32_t)k;
	w->rows = (uint32_t)(t->n_values / k);
	w->stride = k * sizeof(float);
	if (w->role == RP_GPU_MATRIX && (k % 4 != 0 || !rp_repack_stride(t->dtype, k, &w->stride) ||
			!rp_dtype_row_bytes(t->dtype, k, &w->file_row)))
		return rp_fail(err, RP_UNSUPPORTED,
			"tensor %s: rows of %u values of type %s cannot run on a GPU, only multiples of 4 of the "
			"types F32 to Q6_K; use --device cpu",
			t->name, w->k, rp_dtype_get(t->dtype)->name);
	uint64_t rows = limit / w->stride < MOST_ROWS ? limit / w->stride : MOST_ROWS;
	if (rows == 0)
		return rp_fail(err, RP_UNSUPPORTED, "tensor %s: one row takes %llu bytes, %s binds at most %llu at once", t->name,
			(unsigned long long)w->stride, device->name, (unsigned long long)limit);
	w->n_ranges = rp_ceil_div(w->rows, (uint32_t)rows);
	w->ranges = rp_alloc_array(w->n_ranges, sizeof *w->ranges);
	if (w->ranges == NULL)
		return rp_no_memory(err, w->n_ranges * sizeof *w->ranges, t->name);
	uint32_t each = rp_ceil_div(w->rows, w->n_ranges);
	for (uint32_t i = 0, first = 0; i < w->n_ranges; i++, first += each)
		w->ranges[i] = (rp_gpu_range){ .first = first, .rows = w->rows - first < each ? w->rows - first : each };
	return RP_OK;
}

rp_code rp_gpu_weights_list(const rp_engine *e, const rp_vk_info *device, rp_gpu_weights *w, rp_error *err)
{
	*w = (rp_gpu_weights){ 0 };
	rp_code rc = collect(e, w, err);
	for (size_t i = 0; i < w->n && rc == RP_OK; i++) {
		rc = measure(&w->v[i], device, err);
		w->bytes += w->v[i].rows * w->v[i].stride;
	}
	if (rc != RP_OK)
		rp_gpu_weights_free(w);
	return rc;
}

/* ---- loading: threads repack a few rows each into what the device copies while they go on with the next rows ---- */
enum { LOADERS = 8, ALONE = 1 << 17 }; /* bytes that are not worth waking anyone for */

typedef struct loader {
	const rp_engine *e;
	rp_vk *vk;
	rp_pool *pool;
	char *raw; /* file bytes of a tensor that is not mapped; grows */
	size_t raw_size;
	uint64_t done, total;
} loader;

/* File bytes [offset, offset + n) of the tensor: mapped, or read. */
static rp_code source(loader *l, const rp_tensor *t, uint64_t offset, size_t n, const char **out, rp_error *err)
{
	const char *map = rp_tensor_map(l->e->graph->model, t);
	if (map != NULL) {
		*out = map + offset;
		return RP_OK;
	}
	if (n > l->raw_size) {
		char *raw = rp_grow_array(l->raw, n, 1);
		if (raw == NULL)
			return rp_no_memory(err, n, t->name);
		l->raw = raw;
		l->raw_size = n;
	}
	*out = l->raw;
	return rp_tensor_read(l->e->graph->model, t, offset, l->raw, n, err);
}

static rp_code step(loader *l, uint64_t bytes, rp_error *err)
{
	l->done += bytes;
	if (l->e->opts.progress != NULL)
		l->e->opts.progress(l->e->opts.progress_user, l->done, l->total);
	return rp_engine_cancelled(l->e) ? rp_fail(err, RP_CANCELLED, "stopped while loading weights") : RP_OK;
}

typedef struct repack {
	const rp_gpu_weight *w;
	const char *from;
	char *to;
} repack;

static void repack_part(void *user, size_t first, size_t last, uint32_t worker)
{
	const repack *r = user;
	(void)worker;
	rp_repack_rows(r->w->tensor->dtype, r->from + first * r->w->file_row, last - first, r->w->k, r->to + first * r->w->stride);
}

static void repack_rows(loader *l, const rp_gpu_weight *w, const char *from, uint64_t n, void *to)
{
	repack r = { w, from, to };
	if (l->pool == NULL || n * w->stride <= ALONE)
		repack_part(&r, 0, (size_t)n, 0);
	else
		rp_pool_run(l->pool, repack_part, &r, (size_t)n);
}

/* The system may begin to read what is wanted next. */
static void read_ahead(const loader *l, const rp_tensor *t)
{
	char *map = (char *)(uintptr_t)rp_tensor_map(l->e->graph->model, t);
	long page = sysconf(_SC_PAGESIZE);
	if (map == NULL || page <= 0)
		return;
	size_t before = (uintptr_t)map % (size_t)page;
	posix_madvise(map - before, (size_t)t->size + before, POSIX_MADV_WILLNEED); /* only advice */
}

static rp_code load_rows(loader *l, const rp_gpu_weight *w, const rp_gpu_range *r, rp_error *err)
{
	uint64_t at_once = rp_vk_write_max(l->vk) / w->stride;
	if (at_once == 0)
		return rp_fail(err, RP_UNSUPPORTED, "tensor %s: a row takes %llu bytes, at most %llu can be uploaded", w->tensor->name,
			(unsigned long long)w->stride, (unsigned long long)rp_vk_write_max(l->vk));
	rp_code rc = RP_OK;
	for (uint64_t i = 0; i < r->rows && rc == RP_OK; i += at_once) {
		uint64_t n = r->rows - i < at_once ? r->rows - i : at_once;
		const char *from = NULL;
		void *to = NULL;
		bool paper = rp_vk_on_paper(l->vk); /* goes through the motions: staging buffers are memory too */
		rc = paper ? RP_OK : source(l, w->tensor, (r->first + i) * w->file_row, (size_t)(n * w->file_row), &from, err);
		if (rc == RP_OK)
			rc = rp_vk_write_begin(l->vk, r->buf, i * w->stride, n * w->stride, &to, err);
		if (rc != RP_OK)
			break;
		if (!paper)
			repack_rows(l, w, from, n, to);
		rc = rp_vk_write_end(l->vk, err);
		if (rc == RP_OK)
			rc = step(l, n * w->stride, err);
	}
	return rc;
}

static rp_code load_vector(loader *l, const rp_gpu_weight *w, rp_error *err)
{
	float *v = rp_alloc_array(w->k, sizeof *v);
	if (v == NULL)
		return rp_no_memory(err, w->k * sizeof *v, w->tensor->name);
	rp_code rc = rp_vk_on_paper(l->vk) ? RP_OK : rp_tensor_f32(l->e->graph->model, w->tensor, v, err);
	for (uint32_t i = 0; rc == RP_OK && w->role == RP_GPU_MINUS_EXP && i < w->k; i++)
		v[i] = -expf(v[i]);
	if (rc == RP_OK)
		rc = rp_vk_write(l->vk, w->ranges[0].buf, 0, v, w->k * sizeof *v, err);
	free(v);
	return rc == RP_OK ? step(l, w->stride, err) : rc;
}

rp_code rp_gpu_weights_load(const rp_engine *e, rp_vk *vk, rp_gpu_weights *w, rp_error *err)
{
	loader l = { .e = e, .vk = vk, .total = w->bytes };
	long threads = sysconf(_SC_NPROCESSORS_ONLN);
	rp_code rc = RP_OK;
	if (rp_pool_new(threads > LOADERS ? LOADERS : 0, &l.pool, NULL) != RP_OK)
		l.pool = NULL; /* alone, then */
	for (size_t i = 0; i < w->n && rc == RP_OK; i++) {
		rp_gpu_weight *one = &w->v[i];
		if (i + 1 < w->n && !rp_vk_on_paper(vk))
			read_ahead(&l, w->v[i + 1].tensor);
		for (uint32_t r = 0; r < one->n_ranges && rc == RP_OK; r++) {
			rc = rp_vk_buf_new(vk, RP_VK_LOCAL, one->ranges[r].rows * one->stride, one->tensor->name, &one->ranges[r].buf, err);
			if (rc == RP_OK && one->role == RP_GPU_MATRIX)
				rc = load_rows(&l, one, &one->ranges[r], err);
		}
		if (rc == RP_OK && one->role != RP_GPU_MATRIX)
			rc = load_vector(&l, one, err);
	}
	rp_pool_free(l.pool);
	free(l.raw);
	return rc;
}

void rp_gpu_weights_free(rp_gpu_weights *w)
{
	for (size_t i = 0; w->v != NULL && i < w->n; i++) {
		for (uint32_t r = 0; w->v[i].ranges != NULL && r < w->v[i].n_ranges; r++)
			rp_vk_buf_free(w->v[i].ranges[r].buf);
		free(w->v[i].ranges);
	}
	free(w->v);
	*w = (rp_gpu_weights){ 0 };
}

const rp_gpu_weight *rp_gpu_weight_find(const rp_gpu_weights *w, const rp_tensor *t, rp_gpu_role role)
{
	rp_gpu_weight key = { .tensor = t, .role = role };
	return bsearch(&key, w->v, w->n, sizeof *w->v, compare);
}
