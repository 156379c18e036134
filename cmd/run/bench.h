/* reploid-run --bench: what its files share. bench_table.c has the options, bench_options.c makes lists of them, bench.c runs the
 * tests, bench_output.c writes rows, bench_kernels.c those of --bench kernels. */
#ifndef RUN_BENCH_H
#define RUN_BENCH_H

#include "bench/bench.h"
#include "run.h"

#define BENCH_SCHEMA "reploid-bench/1"
#define BENCH_KERNELS_SCHEMA "reploid-bench-kernels/1"

typedef enum bench_format { BENCH_NONE, BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL } bench_format;

typedef struct bench_opts {
	const char *n_prompt, *n_gen, *depth, *streams, *device, *variant, *threads, *batch, *cache_dir, *path;
	rp_strings models, pairs;
	int output, output_err, ids, kv; /* as chosen; -1: not given */
	bool no_warmup, validate, quiet, yes, pair;
	double bound;
	uint64_t reps, delay, seed, check_rows;
} bench_opts;

extern const rp_program bench_program;
bench_format bench_format_of(int choice);
rp_bench_ids bench_ids_of(int choice, const rp_bench_test *t); /* what --ids means for the test */
const char *bench_ids_name(rp_bench_ids ids);

/* One row. */
typedef struct bench_row {
	const char *file, *device_option, *variant, *ids; /* variant NULL: the device's best */
	char type[64];                           /* "qwen3_5 752.39M Q4_K" */
	uint64_t model_bytes, model_values;
	const rp_engine_info *info;
	uint32_t threads, batch; /* 0: the engine's choice */
	rp_bench_test test;
	const rp_bench_result *result;
	rp_bench_ratio ratio; /* to the first path of a pair; NaN: none */
	rp_bandwidth bandwidth;
	const char *plan;  /* digest; NULL: none */
	double read_bytes; /* a generated token; 0: not told */
	char time[24];     /* UTC, ISO 8601 */
} bench_row;

/* Columns of the table that show only when somebody asked for something else than the default. */
typedef struct bench_columns {
	bool device, threads, batch, variant, streams, ratio;
} bench_columns;

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
	words devices, variants; /* with --path: of equal number, each with the one of its place */
	bench_columns columns;
	bench_format to_out, to_err;
	bool wrote; /* a row */
	bool kernels; /* the operand: not tests but kernels */
	size_t wrong; /* kernels */
	bool slower; /* the second path of a pair, by more than the bound */
} bench;

/* Fill b->o, the lists and what follows from them; argv is rewritten. b->parsed.action tells what else was asked for. */
rp_code bench_read_options(bench *b, int argc, char **argv, rp_error *err);
void bench_free_options(bench *b);

/* What stands before, between and after rows of a format; all append to out. */
void bench_write_begin(bench_format f, const bench_columns *c, rp_buf *out);
void bench_write_row(bench_format f, const bench_columns *c, const bench_row *r, bool first, rp_buf *out);
void bench_write_end(bench_format f, rp_buf *out);

/* bench_kernels.c: all rows of a device; which of them did not pass. */
void bench_write_kernels(bench_format f, const bench *b, const rp_engine_info *info, const char *file, const char *variant,
	const rp_bench_kernels *o, rp_bandwidth bandwidth, const rp_profile *p, rp_buf *out);
size_t bench_failed_kernels(const rp_profile *p);

/* The whole of --bench: its own command line, argv[1] being --bench. */
rp_code run_bench(run_state *r, int argc, char **argv, rp_error *err);

#endif
