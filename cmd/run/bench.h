/* reploid-run --bench: what its files share. bench_table.c has the options, bench.c runs the tests, bench_output.c writes rows. */
#ifndef RUN_BENCH_H
#define RUN_BENCH_H

#include "bench/bench.h"
#include "run.h"

#define BENCH_SCHEMA "reploid-bench/1"

typedef enum bench_format { BENCH_NONE, BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL } bench_format;

typedef struct bench_opts {
	const char *n_prompt, *n_gen, *depth, *streams, *device, *variant, *threads, *batch, *cache_dir;
	rp_strings models, pairs;
	int output, output_err, ids; /* as chosen; -1: not given */
	bool no_warmup, validate, quiet, yes;
	uint64_t reps, delay, seed;
} bench_opts;

extern const rp_program bench_program;
bench_format bench_format_of(int choice);

/* One row. */
typedef struct bench_row {
	const char *file, *device_option, *variant, *ids; /* variant NULL: the device's best */
	char type[64];                           /* "qwen3_5 752.39M Q4_K" */
	uint64_t model_bytes, model_values;
	const rp_engine_info *info;
	uint32_t threads, batch; /* 0: the engine's choice */
	rp_bench_test test;
	const rp_bench_result *result;
	rp_bandwidth bandwidth;
	double read_bytes; /* a generated token; 0: not told */
	char time[24];     /* UTC, ISO 8601 */
} bench_row;

/* Columns of the table that show only when somebody asked for something else than the default. */
typedef struct bench_columns {
	bool device, threads, batch, variant, streams;
} bench_columns;

/* What stands before, between and after rows of a format; all append to out. */
void bench_write_begin(bench_format f, const bench_columns *c, rp_buf *out);
void bench_write_row(bench_format f, const bench_columns *c, const bench_row *r, bool first, rp_buf *out);
void bench_write_end(bench_format f, rp_buf *out);

/* The whole of --bench: its own command line, argv[1] being --bench. */
rp_code run_bench(run_state *r, int argc, char **argv, rp_error *err);

#endif
