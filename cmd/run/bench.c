#include "bench.h"

#include "base/term.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TOKENS = 1 << 24, MAX_STREAMS = 4096, MAX_THREADS = 1024, MAX_BATCH = 1 << 16 };

/* A comma list of words; the words are pieces of one copy. */
typedef struct words {
	char *copy;
	const char **v; /* one NULL where nothing was asked for */
	size_t n;
} words;

typedef struct bench {
	run_state *run; /* model, graph and progress; its options where they are shared */
	bench_opts o;
	rp_parsed parsed;
	rp_counts prompts, gens, depths, streams, threads, batches;
	rp_bench_test *pairs; /* of --pp-tg */
	words devices, variants;
	bench_columns columns;
	bench_format to_out, to_err;
	bool wrote; /* a row */
	char measured[64]; /* the device `bandwidth` is of */
	rp_bandwidth bandwidth;
} bench;

/* What an engine is opened with. */
typedef struct setup {
	const char *model, *device, *variant;
	uint32_t threads, batch;
} setup;

/* ---- the command line ---- */
static rp_code split_words(const char *text, const char *where, words *out, rp_error *err)
{
	size_t most = 1;
	for (const char *c = text != NULL ? text : ""; *c != '\0'; c++)
		most += *c == ',';
	out->v = rp_alloc_array(most, sizeof *out->v);
	out->copy = rp_strdup(text != NULL ? text : "");
	if (out->v == NULL || out->copy == NULL)
		return rp_no_memory(err, most, where);
	out->n = most;
	if (text == NULL)
		return RP_OK;
	char *at = out->copy;
	for (size_t i = 0; i < most; i++) {
		size_t n = strcspn(at, ",");
		at[n] = '\0';
		if (n == 0)
			return rp_fail(err, RP_USAGE, "%s: an empty name in '%s'", where, text);
		out->v[i] = at;
		at += n + 1;
	}
	return RP_OK;
}

static rp_code parse_pairs(bench *b, rp_error *err)
{
	b->pairs = rp_alloc_array(b->o.pairs.n, sizeof *b->pairs);
	if (b->pairs == NULL)
		return rp_no_memory(err, b->o.pairs.n * sizeof *b->pairs, "--pp-tg");
	for (size_t i = 0; i < b->o.pairs.n; i++) {
		rp_counts c;
		rp_code code = rp_counts_parse(b->o.pairs.v[i], 1, MAX_TOKENS, "--pp-tg", &c, err);
		if (code != RP_OK)
			return code;
		if (c.n == 2)
			b->pairs[i] = (rp_bench_test){.n_prompt = c.v[0], .n_gen = c.v[1]};
		else
			code = rp_fail(err, RP_USAGE, "--pp-tg: '%s' is no pair of numbers P,G", b->o.pairs.v[i]);
		free(c.v);
		if (code != RP_OK)
			return code;
	}
	return RP_OK;
}

static rp_code parse_lists(bench *b, rp_error *err)
{
	const struct {
		const char *text, *where;
		uint32_t lo, hi;
		rp_counts *out;
	} lists[] = {
		{b->o.n_prompt, "-p (--n-prompt)", 0, MAX_TOKENS, &b->prompts},
		{b->o.n_gen, "-n (--n-gen)", 0, MAX_TOKENS, &b->gens},
		{b->o.depth, "-d (--n-depth)", 0, MAX_TOKENS, &b->depths},
		{b->o.streams, "--streams", 1, MAX_STREAMS, &b->streams},
		{b->o.threads, "-t (--threads)", 0, MAX_THREADS, &b->threads},
		{b->o.batch, "-b (--batch-size)", 0, MAX_BATCH, &b->batches},
	};
	rp_code code = RP_OK;
	for (size_t i = 0; i < sizeof lists / sizeof *lists && code == RP_OK; i++)
		code = rp_counts_parse(lists[i].text, lists[i].lo, lists[i].hi, lists[i].where, lists[i].out, err);
	if (code == RP_OK)
		code = parse_pairs(b, err);
	if (code == RP_OK)
		code = split_words(b->o.device, "--device", &b->devices, err);
	if (code == RP_OK)
		code = split_words(b->o.variant, "--variant", &b->variants, err);
	return code;
}

static bool any_but(const rp_counts *c, uint32_t v)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i] != v)
			return true;
	return false;
}

static rp_code read_options(bench *b, int argc, char **argv, rp_error *err)
{
	static const char *fallback[] = {"embedded"};
	rp_code code = rp_options_parse(&bench_program, argc, argv, &b->o, &b->parsed, err);
	if (code != RP_OK || b->parsed.action != RP_ACTION_RUN)
		return code;
	if (b->o.models.n == 0)
		b->o.models = (rp_strings){fallback, 1};
	b->to_out = bench_format_of(b->o.output);
	b->to_err = bench_format_of(b->o.output_err);
	code = parse_lists(b, err);
	if (code != RP_OK)
		return code;
	if (b->o.pairs.n == 0 && !any_but(&b->prompts, 0) && !any_but(&b->gens, 0))
		return rp_fail(err, RP_USAGE, "nothing to time: -p and -n are 0 and there is no --pp-tg");
	if (b->o.ids == 0 && any_but(&b->streams, 1))
		return rp_fail(err, RP_USAGE, "--ids greedy is for one stream; leave it or --streams out");
	b->columns = (bench_columns){.device = b->o.device != NULL, .threads = any_but(&b->threads, 0), .batch = any_but(&b->batches, 0),
		.variant = b->o.variant != NULL, .streams = any_but(&b->streams, 1)};
	return RP_OK;
}

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

/* Once for all rows of a device. A device whose bandwidth cannot be measured is no reason to measure nothing. */
static void measure_bandwidth(bench *b, const rp_engine_info *info, const setup *s)
{
	rp_error err;
	char key[64];
	const char *device = cpu_engine(info) ? "cpu" : s->device != NULL ? s->device : "gpu";
	snprintf(key, sizeof key, "%.40s/%u", device, s->threads);
	if (strcmp(key, b->measured) == 0)
		return;
	snprintf(b->measured, sizeof b->measured, "%s", key);
	b->bandwidth = (rp_bandwidth){0};
	if (rp_bench_bandwidth(device, s->threads, &b->bandwidth, &err) != RP_OK && !b->o.quiet)
		run_say("the bandwidth of memory could not be measured: %s", err.msg);
	else if (!b->o.quiet)
		run_say("%s: reads %.1f GB/s (%.0f MiB, best of 5)", info->device, b->bandwidth.bytes_per_s / 1e9,
			(double)b->bandwidth.bytes / 1048576.0);
}

static void wait_before(const bench *b)
{
	struct timespec left = {.tv_sec = (time_t)b->o.delay};
	while (nanosleep(&left, &left) != 0 && errno == EINTR && !atomic_load(rp_cancel()))
		;
}

static void stamp(bench_row *row)
{
	time_t now = time(NULL);
	struct tm tm;
	if (gmtime_r(&now, &tm) == NULL || strftime(row->time, sizeof row->time, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		row->time[0] = '\0';
}

static rp_code one_test(bench *b, const setup *s, rp_engine *e, const rp_bench_test *t, rp_error *err)
{
	rp_bench_result result;
	bool greedy = t->n_gen > 0 && t->streams == 1 && b->o.ids != 1;
	rp_bench_opts opts = {.reps = (uint32_t)b->o.reps, .warmup = !b->o.no_warmup, .greedy = greedy, .seed = b->o.seed};
	bench_row row = {.file = s->model, .device_option = s->device, .variant = s->variant, .ids = greedy ? "greedy" : "random",
		.info = rp_engine_describe(e), .threads = s->threads, .batch = s->batch, .test = *t, .bandwidth = b->bandwidth};
	char name[64], what[100];
	snprintf(what, sizeof what, "timing %s", rp_bench_name(t, name, sizeof name));
	wait_before(b);
	stamp(&row);
	if (rp_term_moves(STDERR_FILENO)) /* elsewhere a line a test would be too much talk */
		rp_progress_begin(&b->run->progress, what);
	rp_code code = rp_bench_run(e, b->run->graph, t, &opts, &result, err);
	rp_progress_end(&b->run->progress);
	if (code != RP_OK)
		return rp_error_prefix(err, code, "%s: ", name);
	if (result.distinct == 1 && t->n_gen >= 8 && !b->o.quiet)
		run_say("%s: the model chose one and the same id each time; --ids random does not", name);
	describe_model(b->run, &row);
	row.result = &result;
	row.read_bytes = rp_bench_read_bytes(b->run->graph, row.info, t);
	code = write_row(b, &row, err);
	rp_bench_result_free(&result);
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

typedef struct visit {
	bench *b;
	const setup *s;
	rp_engine *e;
} visit;

static rp_code visit_test(void *user, const rp_bench_test *t, rp_error *err)
{
	visit *v = user;
	return one_test(v->b, v->s, v->e, t, err);
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
	rp_progress_update(user, done, total);
}

static rp_code one_setup(bench *b, const setup *s, rp_error *err)
{
	uint64_t ctx = 0;
	visit v = {.b = b, .s = s};
	rp_progress *progress = &b->run->progress;
	each_test(b, widest, &ctx, NULL);
	char *cache = run_cache_dir(b->o.cache_dir);
	rp_engine_opts o = {.device = s->device, .ctx = (uint32_t)ctx, .chunk = s->batch, .threads = s->threads, .cancel = rp_cancel(),
		.progress = on_progress, .progress_user = progress, .cache_dir = cache, .validate = b->o.validate, .variant = s->variant};
	rp_progress_begin(progress, "loading");
	rp_code code = rp_engine_open(b->run->graph, &o, &v.e, err);
	rp_progress_end(progress);
	free(cache);
	if (code != RP_OK)
		return code;
	measure_bandwidth(b, rp_engine_describe(v.e), s);
	code = each_test(b, visit_test, &v, err);
	rp_engine_close(v.e);
	return code;
}

static rp_code one_model(bench *b, const char *name, rp_error *err)
{
	setup s = {.model = name};
	rp_code code = run_open_model(b->run, err);
	for (size_t d = 0; d < b->devices.n; d++)
		for (size_t v = 0; v < b->variants.n; v++)
			for (size_t t = 0; t < b->threads.n; t++)
				for (size_t c = 0; c < b->batches.n && code == RP_OK; c++) {
					s.device = b->devices.v[d];
					s.variant = b->variants.v[v];
					s.threads = b->threads.v[t];
					s.batch = b->batches.v[c];
					code = one_setup(b, &s, err);
				}
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
	return write_end(b, code, err);
}

static void free_bench(bench *b)
{
	rp_counts *lists[] = {&b->prompts, &b->gens, &b->depths, &b->streams, &b->threads, &b->batches};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		free(lists[i]->v);
	free(b->pairs);
	free(b->devices.copy);
	free(b->devices.v);
	free(b->variants.copy);
	free(b->variants.v);
	rp_parsed_free(&b->parsed);
}

/* Options that llama-bench spells with one dash and more than one letter. */
static char *familiar(char *arg)
{
	static char *const known[][2] = {{"-pg", "--pp-tg"}, {"-oe", "--output-err"}, {"-dev", "--device"}, {"-ub", "--batch-size"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(arg, known[i][0]) == 0)
			return known[i][1];
	return arg;
}

rp_code run_bench(run_state *r, int argc, char **argv, rp_error *err)
{
	bench b = {.run = r};
	for (int i = 1; i < argc; i++)
		argv[i] = familiar(argv[i]);
	rp_code code = read_options(&b, argc, argv, err);
	if (code == RP_OK && b.parsed.action != RP_ACTION_RUN)
		code = run_print_action(&bench_program, &b.parsed, err);
	else if (code == RP_OK)
		code = run_all(&b, err);
	free_bench(&b);
	return code;
}
