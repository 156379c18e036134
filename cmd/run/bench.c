/* Running the tests of --bench. */
#include "bench.h"

#include "base/term.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What an engine is opened with. */
typedef struct setup {
	const char *model, *device, *variant;
	uint32_t threads, batch;
	rp_bandwidth bandwidth;
	char plan[80]; /* digest; "" without a device */
} setup;

enum { MAX_PATHS = 2 };

/* Engines whose tests are run in turn. */
typedef struct group {
	bench *bench;
	setup s[MAX_PATHS];
	rp_engine *e[MAX_PATHS];
	size_t n;
} group;

/* ---- rows ---- */
static rp_code flush(bench *b, rp_buf *out, rp_buf *talk, rp_error *err)
{
	rp_code code = RP_OK;
	if (out->failed || talk->failed)
		code = rp_no_memory(err, out->len + talk->len, "a row");
	if (code == RP_OK)
		code = run_write(out->data, out->len, err);
	if (code == RP_OK && talk->len > 0) {
		rp_progress_end(&b->run->progress);
		code = rp_write_fd(STDERR_FILENO, talk->data, talk->len, "standard error", err);
	}
	rp_buf_free(out);
	rp_buf_free(talk);
	return code;
}

static rp_code write_row(bench *b, const bench_row *row, rp_error *err)
{
	rp_buf out, talk;
	rp_buf_init(&out, 0);
	rp_buf_init(&talk, 0);
	if (!b->wrote) {
		bench_write_begin(b->to_out, &b->columns, &out);
		bench_write_begin(b->to_err, &b->columns, &talk);
	}
	bench_write_row(b->to_out, &b->columns, row, !b->wrote, &out);
	bench_write_row(b->to_err, &b->columns, row, !b->wrote, &talk);
	b->wrote = true;
	return flush(b, &out, &talk, err);
}

/* Whatever happened: what was written is whole. */
static rp_code write_end(bench *b, rp_code code, rp_error *err)
{
	rp_buf out, talk;
	rp_buf_init(&out, 0);
	rp_buf_init(&talk, 0);
	if (!b->wrote)
		return code;
	bench_write_end(b->to_out, &out);
	bench_write_end(b->to_err, &talk);
	rp_code last = flush(b, &out, &talk, code == RP_OK ? err : NULL);
	return code != RP_OK ? code : last;
}

/* "qwen3_5 752.39M Q4_K": family, values, the type most values have. */
static void describe_model(const run_state *r, bench_row *row)
{
	uint64_t by_type[RP_DTYPE_COUNT] = {0}, values = 0, bytes = 0;
	int most = RP_F32;
	for (size_t i = 0; i < rp_model_n_tensors(r->model); i++) {
		const rp_tensor *t = rp_model_tensor(r->model, i);
		by_type[t->dtype] += t->n_values;
		values += t->n_values;
		bytes += t->size;
	}
	for (int t = 0; t < RP_DTYPE_COUNT; t++)
		most = by_type[t] > by_type[most] ? t : most;
	double n = (double)values;
	snprintf(row->type, sizeof row->type, "%.30s %.4g%c %s", r->graph->config.family, n >= 1e9 ? n / 1e9 : n / 1e6, n >= 1e9 ? 'B' : 'M',
		rp_dtype_get((rp_dtype)most)->name);
	row->model_bytes = bytes;
	row->model_values = values;
}

static bool cpu_engine(const rp_engine_info *info)
{
	return strcmp(info->backend, "cpu") == 0;
}

/* A device whose bandwidth cannot be measured is no reason to measure nothing. */
static void measure_bandwidth(const bench *b, const rp_engine_info *info, setup *s)
{
	rp_error err;
	const char *device = cpu_engine(info) ? "cpu" : s->device != NULL ? s->device : "gpu";
	if (rp_bench_bandwidth(device, s->threads, &s->bandwidth, &err) != RP_OK && !b->o.quiet)
		run_say("the bandwidth of memory could not be measured: %s", err.msg);
	else if (!b->o.quiet)
		run_say("%s: reads %.1f GB/s (%.0f MiB, best of 5)", info->device, s->bandwidth.bytes_per_s / 1e9,
			(double)s->bandwidth.bytes / 1048576.0);
}

static void wait_before(const bench *b)
{
	struct timespec left = {.tv_sec = (time_t)b->o.delay};
	while (nanosleep(&left, &left) != 0 && errno == EINTR && !atomic_load(rp_cancel()))
		;
}

static void stamp(char *out, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;
	if (gmtime_r(&now, &tm) == NULL || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		*out = '\0';
}

static rp_code write_result(group *g, size_t k, const rp_bench_test *t, rp_bench_ids ids, const rp_bench_result *results, const char *time,
	rp_error *err)
{
	bench *b = g->bench;
	const setup *s = &g->s[k];
	bench_row row = {.file = s->model, .device_option = s->device, .variant = s->variant, .ids = bench_ids_name(ids),
		.info = rp_engine_describe(g->e[k]), .threads = s->threads, .batch = s->batch, .test = *t, .bandwidth = s->bandwidth,
		.plan = s->plan[0] != '\0' ? s->plan : NULL, .result = &results[k], .ratio = {(double)NAN, (double)NAN, (double)NAN}};
	snprintf(row.time, sizeof row.time, "%s", time);
	if (results[k].distinct == 1 && t->n_gen >= 8 && !b->o.quiet)
		run_say("the model chose one and the same id each time; --ids random does not");
	if (k > 0)
		row.ratio = rp_bench_compare(&results[0], &results[k]);
	b->slower |= row.ratio.median < 1 - b->o.bound / 100;
	describe_model(b->run, &row);
	row.read_bytes = rp_bench_read_bytes(b->run->graph, row.info, t);
	return write_row(b, &row, err);
}

static rp_code run_test(void *user, const rp_bench_test *t, rp_error *err)
{
	group *g = user;
	bench *b = g->bench;
	rp_bench_result results[MAX_PATHS];
	rp_bench_ids ids = bench_ids_of(b->o.ids, t);
	rp_bench_opts opts = {.reps = (uint32_t)b->o.reps, .warmup = !b->o.no_warmup, .ids = ids, .seed = b->o.seed};
	char name[64], what[100], time[24];
	snprintf(what, sizeof what, "timing %s", rp_bench_name(t, name, sizeof name));
	wait_before(b);
	stamp(time, sizeof time);
	if (rp_term_moves(STDERR_FILENO)) /* elsewhere a line a test would be too much talk */
		rp_progress_begin(&b->run->progress, what);
	rp_code code = rp_bench_run(g->e, g->n, b->run->graph, t, &opts, results, err);
	rp_progress_end(&b->run->progress);
	if (code != RP_OK)
		return rp_error_prefix(err, code, "%s: ", name);
	for (size_t k = 0; k < g->n; k++) {
		if (code == RP_OK)
			code = write_result(g, k, t, ids, results, time, err);
	}
	for (size_t k = 0; k < g->n; k++)
		rp_bench_result_free(&results[k]);
	return code;
}

/* ---- sweeps ---- */
typedef rp_code test_fn(void *user, const rp_bench_test *t, rp_error *err);

/* Every test of the lists in llama-bench's order: by depth; prompts, generation, both. */
static rp_code each_test(const bench *b, test_fn *fn, void *user, rp_error *err)
{
	rp_code code = RP_OK;
	for (size_t s = 0; s < b->streams.n; s++) {
		for (size_t d = 0; d < b->depths.n; d++) {
			rp_bench_test t = {.depth = b->depths.v[d], .streams = b->streams.v[s]};
			for (size_t i = 0; i < b->prompts.n && code == RP_OK; i++)
				if ((t.n_prompt = b->prompts.v[i]) > 0)
					code = fn(user, &t, err);
			t.n_prompt = 0;
			for (size_t i = 0; i < b->gens.n && code == RP_OK; i++)
				if ((t.n_gen = b->gens.v[i]) > 0)
					code = fn(user, &t, err);
			for (size_t i = 0; i < b->o.pairs.n && code == RP_OK; i++) {
				t.n_prompt = b->pairs[i].n_prompt;
				t.n_gen = b->pairs[i].n_gen;
				code = fn(user, &t, err);
			}
		}
	}
	return code;
}

static rp_code widest(void *user, const rp_bench_test *t, rp_error *err)
{
	uint64_t *most = user, need = rp_bench_ctx(t);
	(void)err;
	*most = need > *most ? need : *most;
	return RP_OK;
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
	rp_progress_update(user, done, total);
}

static rp_code open_engine(group *g, size_t k, rp_error *err)
{
	bench *b = g->bench;
	setup *s = &g->s[k];
	uint64_t ctx = 0;
	rp_progress *progress = &b->run->progress;
	each_test(b, widest, &ctx, NULL);
	char *cache = run_cache_dir(b->o.cache_dir);
	rp_engine_opts o = {.device = s->device, .ctx = (uint32_t)ctx, .chunk = s->batch, .threads = s->threads, .cancel = rp_cancel(),
		.progress = on_progress, .progress_user = progress, .cache_dir = cache, .validate = b->o.validate, .variant = s->variant,
		.kv = run_kv(b->o.kv)};
	if (ctx > UINT32_MAX)
		o.ctx = UINT32_MAX; /* no model was made for that, and the engine says so */
	rp_progress_begin(progress, "loading");
	rp_code code = rp_engine_open(b->run->graph, &o, &g->e[k], err);
	rp_progress_end(progress);
	free(cache);
	if (code == RP_OK)
		run_say_device(g->e[k], b->o.quiet);
	if (code == RP_OK)
		run_plan_digest(g->e[k], s->plan);
	if (code == RP_OK)
		measure_bandwidth(b, rp_engine_describe(g->e[k]), s);
	return code;
}

/* ---- kernels ---- */
static rp_bench_kernels kernel_options(const bench *b, uint32_t chunk)
{
	return (rp_bench_kernels){.n_prompt = b->prompts.v[0], .n_gen = b->gens.v[0], .depth = b->depths.v[0], .reps = (uint32_t)b->o.reps,
		.checked = chunk, .seed = b->o.seed};
}

static rp_code write_kernels(bench *b, const setup *s, const rp_engine_info *info, const rp_bench_kernels *o, const rp_profile *p,
	rp_error *err)
{
	rp_buf out, talk;
	rp_buf_init(&out, 0);
	rp_buf_init(&talk, 0);
	bench_write_kernels(b->to_out, b, info, s->model, s->variant, o, s->bandwidth, p, &out);
	bench_write_kernels(b->to_err, b, info, s->model, s->variant, o, s->bandwidth, p, &talk);
	b->wrote = b->wrote || p->n > 0;
	b->wrong += bench_failed_kernels(p);
	return flush(b, &out, &talk, err);
}

/* The device with a profile, and the C engine as the oracle beside it. */
static rp_code open_both(bench *b, const setup *s, const rp_bench_kernels *o, rp_engine *e[2], rp_error *err)
{
	uint64_t ctx = rp_bench_kernels_ctx(o);
	char *cache = run_cache_dir(b->o.cache_dir);
	rp_engine_opts opts = {.device = s->device, .ctx = ctx > UINT32_MAX ? UINT32_MAX : (uint32_t)ctx, .chunk = s->batch,
		.cancel = rp_cancel(), .progress = on_progress, .progress_user = &b->run->progress, .cache_dir = cache, .validate = b->o.validate,
		.variant = s->variant, .profile = true};
	rp_progress_begin(&b->run->progress, "loading");
	rp_code code = rp_engine_open(b->run->graph, &opts, &e[0], err);
	opts = (rp_engine_opts){.device = "cpu", .ctx = (uint32_t)(o->checked + 2), .chunk = o->checked, .threads = s->threads,
		.cancel = rp_cancel()};
	if (code == RP_OK)
		code = rp_engine_open(b->run->graph, &opts, &e[1], err);
	rp_progress_end(&b->run->progress);
	free(cache);
	return code;
}

static rp_code run_kernels(bench *b, setup s, rp_error *err)
{
	uint32_t rows = b->prompts.v[0] > 0 ? b->prompts.v[0] : 1, most = (uint32_t)b->o.check_rows;
	rp_bench_kernels o = kernel_options(b, rows < most ? rows : most);
	rp_engine *e[2] = {NULL, NULL};
	rp_profile p = {.rows = NULL};
	rp_code code = open_both(b, &s, &o, e, err);
	if (code == RP_OK) {
		measure_bandwidth(b, rp_engine_describe(e[0]), &s);
		code = rp_bench_run_kernels(e[0], e[1], b->run->graph, &o, &p, err);
	}
	if (code == RP_OK)
		code = write_kernels(b, &s, rp_engine_describe(e[0]), &o, &p, err);
	rp_profile_free(&p);
	rp_engine_close(e[0]);
	rp_engine_close(e[1]);
	return code;
}

static rp_code run_group(group *g, rp_error *err)
{
	rp_code code = RP_OK;
	if (g->bench->kernels)
		return run_kernels(g->bench, g->s[0], err);
	for (size_t k = 0; k < g->n && code == RP_OK; k++)
		code = open_engine(g, k, err);
	if (code == RP_OK)
		code = each_test(g->bench, run_test, g, err);
	for (size_t k = 0; k < g->n; k++) {
		rp_engine_close(g->e[k]);
		g->e[k] = NULL;
	}
	return code;
}

/* One device with one variant for each place of a sweep; with --pair both paths at once. */
static rp_code run_paths(bench *b, setup s, rp_error *err)
{
	group g = {.bench = b};
	rp_code code = RP_OK;
	for (size_t d = 0; d < b->devices.n; d++) {
		for (size_t v = 0; v < b->variants.n && code == RP_OK; v++) {
			if (b->o.path != NULL && v != d)
				continue;
			s.device = b->devices.v[d];
			s.variant = b->variants.v[v];
			g.n = b->o.pair && d > 0 ? MAX_PATHS : 1;
			g.s[g.n - 1] = s;
			if (!b->o.pair || d > 0)
				code = run_group(&g, err);
		}
	}
	return code;
}

static rp_code one_model(bench *b, const char *name, rp_error *err)
{
	rp_code code = run_open_model(b->run, err);
	for (size_t t = 0; t < b->threads.n; t++)
		for (size_t c = 0; c < b->batches.n && code == RP_OK; c++)
			code = run_paths(b, (setup){.model = name, .threads = b->threads.v[t], .batch = b->batches.v[c]}, err);
	run_close_model(b->run);
	return code;
}

static rp_code run_all(bench *b, rp_error *err)
{
	rp_code code = RP_OK;
	run_opts *o = &b->run->o;
	o->quiet = b->o.quiet;
	o->yes = b->o.yes;
	rp_progress_init(&b->run->progress, run_program.name, STDERR_FILENO, o->quiet);
	for (size_t i = 0; i < b->o.models.n && code == RP_OK; i++) {
		o->model = b->o.models.v[i];
		code = one_model(b, o->model, err);
	}
	if (code == RP_OK && b->slower)
		code = rp_fail(err, RP_FAIL, "%s is slower than %s by more than %g %%", b->devices.v[1], b->devices.v[0], b->o.bound);
	if (code == RP_OK && b->wrong > 0)
		code = rp_fail(err, RP_FAIL, "%zu kernels differ from the oracle by more than their bound", b->wrong);
	return write_end(b, code, err);
}

rp_code run_bench(run_state *r, int argc, char **argv, rp_error *err)
{
	bench b = {.run = r};
	rp_code code = bench_read_options(&b, argc, argv, err);
	if (code == RP_OK && b.parsed.action != RP_ACTION_RUN)
		code = run_print_action(&bench_program, &b.parsed, err);
	else if (code == RP_OK)
		code = run_all(&b, err);
	bench_free_options(&b);
	return code;
}
