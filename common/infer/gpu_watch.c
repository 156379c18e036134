/* Profiling: every dispatch leads to what is known of its kind, and gets the time between the marks around it. */
#include "infer/gpu_watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_code rp_gpu_watch_new(rp_gpu *g, rp_error *err)
{
	if (g->device->timestamp_bits == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s has no timestamps: its kernels cannot be timed", g->device->name);
	g->watch = rp_alloc(sizeof *g->watch);
	return g->watch != NULL ? RP_OK : rp_no_memory(err, sizeof *g->watch, "the profile");
}

void rp_gpu_watch_free(rp_gpu *g)
{
	for (size_t i = 0; g->watch != NULL && i < g->watch->n; i++) {
		free(g->watch->kinds[i]->times[0].samples);
		free(g->watch->kinds[i]->times[1].samples);
		free(g->watch->kinds[i]);
	}
	if (g->watch != NULL)
		free(g->watch->kinds);
	free(g->watch);
	g->watch = NULL;
}

void rp_gpu_watch_pass(rp_gpu *g, bool prefill, uint64_t positions, uint32_t sequences)
{
	if (g->watch == NULL)
		return;
	g->watch->prefill = prefill;
	g->watch->positions = positions;
	g->watch->sequences = sequences;
	g->watch->passes[prefill]++;
}

/* ---- what a dispatch reads and computes ---- */
static const rp_gpu_weight *weight_of(const rp_gpu *g, const rp_vk_buf *b, uint64_t *bytes)
{
	for (size_t i = 0; b != NULL && i < g->weights.n; i++)
		for (uint32_t r = 0; r < g->weights.v[i].n_ranges; r++)
			if (g->weights.v[i].ranges[r].buf == b) {
				*bytes = g->weights.v[i].ranges[r].rows * g->weights.v[i].stride;
				return &g->weights.v[i];
			}
	return NULL;
}

static void measure_weight(rp_watch_kind *k, const rp_gpu_weight *w, uint64_t bytes, const void *args)
{
	if (strcmp(k->kernel->name, "embed") == 0) { /* a row for each token */
		rp_args_embed a;
		memcpy(&a, args, sizeof a);
		k->weights += (uint64_t)a.n_rows * w->stride;
		return;
	}
	uint64_t rows = bytes / w->stride;
	k->weights += bytes;
	if (w->role != RP_GPU_MATRIX)
		return;
	if (k->k == 0) {
		k->k = w->k;
		k->n = (uint32_t)rows;
	}
	k->flop += 2.0 * w->k * (double)rows;
}

static void measure_cache(rp_watch_kind *k, const rp_gpu *g, const rp_vk_buf *b)
{
	const rp_engine *e = g->engine;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++) {
		const rp_gpu_cache *c = &g->caches[l - e->opts.layer_first];
		bool full = e->graph->layers[l].kind == RP_LAYER_FULL;
		uint64_t bytes = (b == c->a ? c->a_bytes : 0) + (b == c->b ? c->b_bytes : 0);
		k->position += full && strcmp(k->kernel->name, "kv_append") != 0 ? bytes / e->info.ctx : 0;
		k->state += full ? 0 : bytes;
	}
}

static uint32_t rows_of(const rp_work *w, const void *args)
{
	rp_args_matmul a;
	if (strncmp(w->kernel->name, "mat", 3) != 0)
		return 1;
	memcpy(&a, args, sizeof a);
	return a.n_rows;
}

/* ---- kinds ---- */
static const char *layer_of(const rp_work *w)
{
	if (w->note.layer < 0)
		return "";
	return w->g->engine->graph->layers[w->note.layer].kind == RP_LAYER_FULL ? "attention" : "linear";
}

static bool is_kind(const rp_watch_kind *k, const rp_work *w, const void *args, size_t n_args, rp_grid grid)
{
	if (k->kernel != w->kernel || strcmp(k->layer, layer_of(w)) != 0 || strcmp(k->ops, w->note.ops) != 0 || k->n_args != n_args ||
		memcmp(k->args, args, n_args) != 0 || memcmp(&k->grid, &grid, sizeof grid) != 0 || k->n_constants != w->n_constants)
		return false;
	for (size_t i = 0; i < k->n_constants; i++)
		if (strcmp(k->constants[i].name, w->constants[i].name) != 0 || k->constants[i].bits != w->constants[i].bits)
			return false;
	return true;
}

static rp_watch_kind *add_kind(rp_work *w, const void *args, size_t n_args, rp_grid grid)
{
	rp_gpu_watch *watch = w->g->watch;
	rp_watch_kind *k = rp_alloc(sizeof *k), **grown = rp_grow_array(watch->kinds, watch->n + 1, sizeof(rp_watch_kind *));
	watch->kinds = grown != NULL ? grown : watch->kinds;
	if (k == NULL || grown == NULL) {
		free(k);
		return NULL;
	}
	*k = (rp_watch_kind){ .kernel = w->kernel, .layer = layer_of(w), .n_constants = w->n_constants, .n_args = n_args, .grid = grid,
		.nmse = (double)NAN };
	memcpy(k->ops, w->note.ops, sizeof k->ops);
	memcpy(k->constants, w->constants, sizeof k->constants);
	memcpy(k->args, args, n_args);
	for (size_t i = 1; i < w->n_binds; i++) {
		uint64_t bytes = 0;
		const rp_gpu_weight *weight = weight_of(w->g, w->binds[i].buf, &bytes);
		if (weight != NULL)
			measure_weight(k, weight, bytes, args);
		else
			measure_cache(k, w->g, w->binds[i].buf);
	}
	k->flop *= rows_of(w, args);
	return watch->kinds[watch->n++] = k;
}

rp_code rp_gpu_watch_start(rp_work *w, rp_error *err)
{
	return rp_vk_cmd_describe(w->c).dispatches == 0 ? rp_vk_cmd_mark(w->c, "", err) : RP_OK;
}

rp_watch_kind *rp_gpu_watch_kind(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err)
{
	rp_gpu_watch *watch = w->g->watch;
	rp_watch_kind *k = NULL;
	if (n_args > RP_WATCH_ARGS) {
		rp_fail(err, RP_INTERNAL, "kernel %s has %zu bytes of parameters, at most %d can be watched", w->kernel->name, n_args,
			(int)RP_WATCH_ARGS);
		return NULL;
	}
	for (size_t i = 0; i < watch->n && k == NULL; i++)
		k = is_kind(watch->kinds[i], w, args, n_args, grid) ? watch->kinds[i] : NULL;
	if (k == NULL)
		k = add_kind(w, args, n_args, grid);
	if (k == NULL)
		rp_no_memory(err, sizeof *k, "the profile");
	return k;
}

rp_code rp_gpu_watch_work(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err)
{
	rp_watch_kind *k = rp_gpu_watch_kind(w, args, n_args, grid, err);
	return k != NULL ? rp_vk_cmd_mark(w->c, k->ops, err) : RP_NO_MEMORY;
}

/* ---- times ---- */
static void take_time(rp_gpu_watch *watch, rp_watch_kind *k, double ns)
{
	rp_watch_times *t = &k->times[watch->prefill];
	t->count++;
	t->ns += ns;
	t->bytes += (double)k->weights + (double)k->position * (double)watch->positions + (double)k->state * watch->sequences;
	if (t->samples == NULL)
		t->samples = rp_alloc_array(RP_WATCH_SAMPLES, sizeof *t->samples);
	if (t->samples != NULL && t->n_samples < RP_WATCH_SAMPLES)
		t->samples[t->n_samples++] = ns;
}

static rp_code read_marks(rp_gpu *g, rp_vk_cmd *c, rp_error *err)
{
	const rp_vk_mark *m = NULL;
	size_t n = 0;
	rp_code rc = rp_vk_cmd_marks(c, &m, &n, err);
	for (size_t i = 1; i < n && rc == RP_OK; i++)
		for (size_t k = 0; k < g->watch->n; k++)
			if (g->watch->kinds[k]->ops == m[i].label)
				take_time(g->watch, g->watch->kinds[k], (double)(m[i].ns - m[i - 1].ns));
	return rc;
}

rp_code rp_gpu_watch_submit(rp_gpu *g, rp_vk_cmd *const *cmds, size_t n, rp_error *err)
{
	rp_code rc = RP_OK;
	for (size_t i = 0; i < n && rc == RP_OK; i++) {
		rc = rp_vk_submit(g->vk, &cmds[i], 1, &g->ticket, err);
		if (rc == RP_OK)
			rc = rp_vk_wait(g->vk, g->ticket, err);
		if (rc == RP_OK)
			rc = read_marks(g, cmds[i], err);
	}
	return rc;
}

/* ---- rows for people ---- */
static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(const rp_watch_times *t)
{
	if (t->n_samples == 0)
		return (double)NAN;
	qsort(t->samples, t->n_samples, sizeof *t->samples, by_value);
	return t->n_samples % 2 != 0 ? t->samples[t->n_samples / 2]
		: (t->samples[t->n_samples / 2 - 1] + t->samples[t->n_samples / 2]) / 2;
}

static void describe(const rp_watch_kind *k, rp_profile_row *row)
{
	size_t at = 0;
	for (size_t i = 0; i < k->n_constants && at < sizeof row->constants; i++)
		at += (size_t)snprintf(row->constants + at, sizeof row->constants - at, "%s%s=%u", i > 0 ? " " : "", k->constants[i].name,
			k->constants[i].bits);
	if (k->k != 0)
		snprintf(row->shape, sizeof row->shape, "%u x %u", k->k, k->n);
	else
		snprintf(row->shape, sizeof row->shape, "(%u, %u, %u)", k->grid.x, k->grid.y, k->grid.z);
}

/* The same pipeline for the same operations: only the number of rows differs. */
static bool same_variant(const rp_watch_kind *a, const rp_watch_kind *b)
{
	bool same = a->kernel == b->kernel && strcmp(a->ops, b->ops) == 0 && strcmp(a->layer, b->layer) == 0 && a->n_constants == b->n_constants;
	for (size_t i = 0; i < a->n_constants && same; i++)
		same = strcmp(a->constants[i].name, b->constants[i].name) == 0 && a->constants[i].bits == b->constants[i].bits;
	return same;
}

static void take_check(const rp_gpu_watch *watch, const rp_watch_kind *k, rp_profile_row *row)
{
	for (size_t i = 0; i < watch->n; i++) {
		const rp_watch_kind *o = watch->kinds[i];
		if (!isnan(o->nmse) && same_variant(k, o) && !(row->nmse >= o->nmse)) {
			row->nmse = o->nmse;
			row->bound = o->bound;
		}
	}
}

static int by_time(const void *a, const void *b)
{
	const rp_profile_row *x = a, *y = b;
	if (x->prefill != y->prefill)
		return x->prefill ? -1 : 1;
	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

rp_code rp_gpu_profile(const rp_engine *e, rp_profile *out, rp_error *err)
{
	const rp_gpu_watch *watch = ((const rp_gpu *)e->state)->watch;
	*out = (rp_profile){ .rows = rp_alloc_array(2 * watch->n, sizeof *out->rows) };
	if (out->rows == NULL)
		return rp_no_memory(err, 2 * watch->n * sizeof *out->rows, "the profile");
	memcpy(out->passes, watch->passes, sizeof out->passes);
	for (size_t i = 0; i < watch->n; i++)
		for (int prefill = 0; prefill < 2; prefill++) {
			const rp_watch_kind *k = watch->kinds[i];
			const rp_watch_times *t = &k->times[prefill];
			rp_profile_row *row = &out->rows[out->n];
			if (t->count == 0)
				continue;
			*row = (rp_profile_row){ .kernel = k->kernel->name, .ops = k->ops, .layer = k->layer, .prefill = prefill,
				.count = t->count, .ns = t->ns, .median_ns = median(t), .bytes = t->bytes / (double)t->count, .flop = k->flop,
				.nmse = k->nmse, .bound = k->bound };
			describe(k, row);
			take_check(watch, k, row);
			out->ns[prefill] += t->ns;
			out->n++;
		}
	qsort(out->rows, out->n, sizeof *out->rows, by_time);
	return RP_OK;
}

void rp_gpu_profile_forget(rp_engine *e)
{
	rp_gpu_watch *watch = ((rp_gpu *)e->state)->watch;
	memset(watch->passes, 0, sizeof watch->passes);
	for (size_t i = 0; i < watch->n; i++)
		for (int prefill = 0; prefill < 2; prefill++) {
			rp_watch_times *t = &watch->kinds[i]->times[prefill];
			*t = (rp_watch_times){ .samples = t->samples };
		}
}

void rp_profile_free(rp_profile *p)
{
	free(p->rows);
	p->rows = NULL;
}
