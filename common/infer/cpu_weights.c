#include "infer/cpu_weights.h"

#include <stdlib.h>
#include <string.h>

/* ---- which tensors ---- */

static int by_tensor(const void *a, const void *b)
{
	const rp_tensor *x = ((const rp_cpu_weight *)a)->tensor, *y = ((const rp_cpu_weight *)b)->tensor;
	return x < y ? -1 : x > y;
}

static void gather(const rp_op *ops, uint32_t n_ops, rp_cpu_weights *w)
{
	for (uint32_t i = 0; i < n_ops; i++)
		for (int j = 0; j < 2; j++)
			if (ops[i].w[j])
				w->v[w->n++] = (rp_cpu_weight){
					.tensor = ops[i].w[j],
					.by_row = ops[i].kind == RP_OP_MATMUL || ops[i].kind == RP_OP_EMBED,
				};
}

/* Every tensor the layer range needs, once. */
static rp_code list(const rp_engine *e, rp_cpu_weights *w, rp_error *err)
{
	const rp_graph *g = e->graph;
	size_t most = 2 * ((size_t)g->n_pre + g->n_post), kept = 0;

	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		most += 2 * (size_t)g->layers[l].n_ops;
	w->v = rp_alloc_array(most, sizeof *w->v);
	if (!w->v)
		return rp_no_memory(err, most * sizeof *w->v, "the list of weights");
	if (e->opts.layer_first == 0)
		gather(g->pre, g->n_pre, w);
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		gather(g->layers[l].ops, g->layers[l].n_ops, w);
	if (e->opts.layer_last == g->n_layers)
		gather(g->post, g->n_post, w);
	qsort(w->v, w->n, sizeof *w->v, by_tensor);
	for (size_t i = 0; i < w->n; i++)
		if (kept == 0 || w->v[kept - 1].tensor != w->v[i].tensor)
			w->v[kept++] = w->v[i];
	w->n = kept;
	return RP_OK;
}

static rp_code measure(rp_cpu_weight *w, rp_error *err)
{
	const rp_tensor *t = w->tensor;
	uint64_t width = t->n_dims ? t->dims[t->n_dims - 1] : 1, row_bytes, total;

	if (width == 0 || !rp_dtype_row_bytes(t->dtype, width, &row_bytes) || !rp_mul_u64(t->n_values, sizeof(float), &total) || total > SIZE_MAX / 2)
		return rp_fail(err, RP_MODEL, "tensor %s has a size this machine cannot hold", t->name);
	w->width = (size_t)width;
	w->rows = (size_t)(t->n_values / width);
	w->row_bytes = (size_t)row_bytes;
	return RP_OK;
}

static uint64_t held(const rp_cpu_weight *w)
{
	return w->by_row ? w->tensor->size : w->tensor->n_values * sizeof(float);
}

/* ---- loading ---- */

static rp_code load_f32(const rp_model *m, rp_cpu_weight *w, rp_error *err)
{
	float *values = rp_grow_array(NULL, w->rows * w->width, sizeof(float));

	w->owned = values;
	w->f32 = values;
	return values ? rp_tensor_f32(m, w->tensor, values, err) : rp_no_memory(err, held(w), w->tensor->name);
}

/* Rows that are float32 already, where the processor can read them, need no decoding. */
static void use_in_place(rp_cpu_weight *w)
{
	static const union {
		uint16_t word;
		uint8_t first;
	} order = {1};

	if (w->tensor->dtype == RP_F32 && order.first == 1 && (uintptr_t)w->raw % _Alignof(float) == 0)
		w->f32 = (const float *)(const void *)w->raw;
}

static rp_code load_raw(const rp_model *m, rp_cpu_weight *w, rp_error *err)
{
	w->raw = rp_tensor_map(m, w->tensor);
	if (!w->raw) {
		w->owned = rp_grow_array(NULL, w->rows, w->row_bytes);
		if (!w->owned)
			return rp_no_memory(err, held(w), w->tensor->name);
		w->raw = w->owned;
		rp_code code = rp_tensor_read(m, w->tensor, 0, w->owned, (size_t)w->tensor->size, err);
		if (code)
			return code;
	}
	use_in_place(w);
	return RP_OK;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / 1048576.0;
}

static rp_code load_all(const rp_engine *e, uint64_t total, rp_cpu_weights *w, rp_error *err)
{
	for (size_t i = 0; i < w->n; i++) {
		rp_cpu_weight *one = &w->v[i];
		rp_code code = one->by_row ? load_raw(e->graph->model, one, err) : load_f32(e->graph->model, one, err);

		if (code)
			return code;
		w->bytes += held(one);
		if (e->opts.progress)
			e->opts.progress(e->opts.progress_user, w->bytes, total);
		if (rp_engine_cancelled(e))
			return rp_fail(err, RP_CANCELLED, "stopped while loading weights");
	}
	return RP_OK;
}

rp_code rp_cpu_weights_load(const rp_engine *e, uint64_t other_bytes, rp_cpu_weights *out, rp_error *err)
{
	uint64_t have = e->opts.host_bytes ? e->opts.host_bytes : rp_host_bytes_free(), total = 0;
	rp_cpu_weights w = {0};
	rp_code code = list(e, &w, err);

	for (size_t i = 0; i < w.n && !code; i++) {
		code = measure(&w.v[i], err);
		if (!code && !rp_add_u64(total, held(&w.v[i]), &total))
			code = rp_fail(err, RP_MODEL, "%s: the weights' sizes add up to more than any machine holds", rp_model_path(e->graph->model));
	}
	if (!code && (have <= other_bytes || total > have - other_bytes))
		code = rp_fail(err, RP_NO_MEMORY, "%s: the weights take %.0f MiB and one sequence of %u positions %.0f MiB more, but only "
			"%.0f MiB are free; use a smaller context or model, or a device with more memory",
			rp_model_path(e->graph->model), mib(total), e->info.ctx, mib(other_bytes), mib(have));
	if (!code)
		code = load_all(e, total, &w, err);
	if (code)
		rp_cpu_weights_free(&w);
	else
		*out = w;
	return code;
}

void rp_cpu_weights_free(rp_cpu_weights *w)
{
	for (size_t i = 0; w->v && i < w->n; i++)
		free(w->v[i].owned);
	free(w->v);
	*w = (rp_cpu_weights){0};
}

const rp_cpu_weight *rp_cpu_weight_find(const rp_cpu_weights *w, const rp_tensor *t)
{
	rp_cpu_weight key = {.tensor = t};

	return t ? bsearch(&key, w->v, w->n, sizeof *w->v, by_tensor) : NULL;
}

const float *rp_cpu_weight_rows(const rp_cpu_weight *w, size_t first, size_t n, float *scratch)
{
	if (w->f32)
		return w->f32 + first * w->width;
	for (size_t i = 0; i < n; i++)
		rp_dequant(w->tensor->dtype, w->raw + (first + i) * w->row_bytes, w->width, scratch + i * w->width);
	return scratch;
}
