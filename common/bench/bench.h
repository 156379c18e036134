/* bench: measuring engines: the tests, names and statistics of llama-bench, and what a machine's memory can give.
 *
 * A test fills n_prompt positions at once (pp), then generates n_gen tokens one after the other (tg), behind `depth` positions
 * that are not timed. Ids are random, other ones in each repetition: equal ids would let caches and expert choice flatter.
 */
#ifndef RP_BENCH_H
#define RP_BENCH_H

#include "base/base.h"
#include "infer/infer.h"
#include "infer/profile.h"

/* ---- numbers as sweeps give them ---- */
typedef struct rp_counts {
	uint32_t *v;
	size_t n;
} rp_counts;

enum { RP_MAX_COUNTS = 1024 };

/* "512", "128,256", "1-4" (1 2 3 4), "8-64+8", "64-512*2", and lists of these; each number in [lo, hi]. where begins messages
 * ("-p (--n-prompt)"). RP_USAGE. free() out->v. */
rp_code rp_counts_parse(const char *text, uint32_t lo, uint32_t hi, const char *where, rp_counts *out, rp_error *err);

typedef struct rp_spread {
	double mean, sd; /* sd: of a sample (n - 1); 0 for fewer than two values */
} rp_spread;
rp_spread rp_spread_of(const double *v, size_t n);

/* ---- tests ---- */
typedef struct rp_bench_test {
	uint32_t n_prompt, n_gen; /* not both 0 */
	uint32_t depth;
	uint32_t streams; /* sequences computed side by side, at least 1 */
} rp_bench_test;

/* "pp512", "tg128", "pp512+tg128", each with " @ d512" behind when there is a depth. Returns out. */
char *rp_bench_name(const rp_bench_test *t, char *out, size_t size);
/* Positions a sequence of the test needs. */
uint64_t rp_bench_ctx(const rp_bench_test *t);

/* What tg feeds: ids by chance from the host; the likeliest id, or one sampled at temperature 0.8 with top_k 40, top_p 0.95 and
 * min_p 0.05, chosen on the device. The last: one stream only. */
typedef enum rp_bench_ids { RP_BENCH_RANDOM, RP_BENCH_GREEDY, RP_BENCH_SAMPLED } rp_bench_ids;

typedef struct rp_bench_opts {
	uint32_t reps;   /* at least 1 */
	bool warmup;     /* once before, untimed: compiles pipelines, touches memory */
	rp_bench_ids ids;
	uint64_t seed;
} rp_bench_opts;

typedef struct rp_bench_result {
	size_t reps;
	uint64_t tokens;     /* of a repetition, all streams together */
	double *ns, *rate;   /* [reps] time; tokens a second */
	rp_spread ns_spread, rate_spread;
	double submits, dispatches, barriers; /* a token */
	double host_ns;                       /* a token: time in which the host did not wait for the device; NaN without a device */
	size_t distinct;                      /* not random: different ids in the last repetition; else 0 */
} rp_bench_result;

/* n engines of one graph, out[n] for each; they need a context of rp_bench_ctx. Repetition by repetition each engine has its turn, the
 * first one first, then last, so that what else the machine does hits all alike. All feed the same ids, as far as they are random.
 * Fails as rp_forward does. */
rp_code rp_bench_run(rp_engine *const *engines, size_t n, const rp_graph *g, const rp_bench_test *t, const rp_bench_opts *o,
	rp_bench_result *out, rp_error *err);
void rp_bench_result_free(rp_bench_result *r);

typedef struct rp_bench_ratio {
	double median, lowest, highest;
} rp_bench_ratio;
/* How many times as fast b was, by repetitions of equal number. */
rp_bench_ratio rp_bench_compare(const rp_bench_result *a, const rp_bench_result *b);

/* Bytes a generated token reads: every weight that is multiplied with, and the caches behind half of the tokens generated. Weights
 * are read once for all streams. 0 for a test that generates nothing. */
double rp_bench_read_bytes(const rp_graph *g, const rp_engine_info *info, const rp_bench_test *t);

/* ---- kernels: each one a model uses on a device ---- */
typedef struct rp_bench_kernels {
	uint32_t n_prompt, n_gen, depth; /* as of a test; what is generated is the likeliest id */
	uint32_t reps;
	uint32_t checked; /* most ids of the prompt that are checked, at least 1 */
	uint64_t seed;
} rp_bench_kernels;

/* Positions both engines need. */
uint64_t rp_bench_kernels_ctx(const rp_bench_kernels *o);
/* Check e (opened for a profile) against the oracle (NULL: do not), as rp_engine_check does, then time its kernels; rp_profile_free
 * *out. With a depth the positions grow from repetition to repetition. */
rp_code rp_bench_run_kernels(rp_engine *e, rp_engine *oracle, const rp_graph *g, const rp_bench_kernels *o, rp_profile *out, rp_error *err);

/* ---- what memory gives: reading a buffer far larger than caches, best of several passes, bytes a second ---- */
typedef struct rp_bandwidth {
	double bytes_per_s;
	uint64_t bytes; /* of the buffer */
} rp_bandwidth;

/* device as rp_engine_opts.device, but never NULL; threads: cpu, 0 for the number of processors. */
rp_code rp_bench_bandwidth(const char *device, uint32_t threads, rp_bandwidth *out, rp_error *err);

#endif
