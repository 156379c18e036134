/* bench: sweeps, statistics, names, and what a test asks of an engine. Nothing here depends on how long anything takes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bench.h"

static void expect_counts(const char *text, const uint32_t *want, size_t n)
{
	rp_counts c = {0};
	rp_error err;
	if (rp_counts_parse(text, 0, 1 << 20, "-p", &c, &err) != RP_OK)
		fail_msg("%s: %s", text, err.msg);
	assert_int_equal(c.n, n);
	assert_memory_equal(c.v, want, n * sizeof *want);
	free(c.v);
}

#define EXPECT(text, ...) expect_counts(text, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void sweeps(void **state)
{
	(void)state;
	EXPECT("512", 512);
	EXPECT("0", 0);
	EXPECT("128,256", 128, 256);
	EXPECT("1-4", 1, 2, 3, 4);
	EXPECT("8-64+16", 8, 24, 40, 56);
	EXPECT("64-512*2", 64, 128, 256, 512);
	EXPECT("3-100*3,7,5-5", 3, 9, 27, 81, 7, 5);
	EXPECT("1048576", 1 << 20);
}

static void sweeps_that_are_none(void **state)
{
	static const char *const bad[] = {"", ",", "1,", ",1", "x", "1x", "-1", "1-", "4-1", "1-4+", "1-4+0", "1-4*1", "0-4*2", "1-4*0", "1-4/2",
		"1048577", "99999999999999999999", "1-1048577", "1 ", "1.5", "1-2-3", "+1"};
	rp_counts c;
	rp_error err;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (rp_counts_parse(bad[i], 0, 1 << 20, "-p", &c, &err) != RP_USAGE)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(strncmp(err.msg, "-p: ", 4), 0);
	}
	assert_int_equal(rp_counts_parse("0-2000", 0, 1 << 20, "-p", &c, &err), RP_USAGE);
	assert_non_null(strstr(err.msg, "more than 1024"));
	assert_int_equal(rp_counts_parse("0", 1, 8, "--streams", &c, &err), RP_USAGE);
	assert_int_equal(rp_counts_parse("1-4294967295*4294967295", 0, UINT32_MAX, "-p", &c, &err), RP_OK); /* the next would not fit */
	assert_int_equal(c.n, 2);
	free(c.v);
}

static void spreads(void **state)
{
	const double v[] = {2, 4, 4, 4, 5, 5, 7, 9};
	(void)state;
	rp_spread s = rp_spread_of(v, 8);
	assert_true(fabs(s.mean - 5) < 1e-12 && fabs(s.sd - sqrt(32.0 / 7)) < 1e-12);
	s = rp_spread_of(v, 1);
	assert_true(s.mean == 2 && s.sd == 0);
	s = rp_spread_of(v, 0);
	assert_true(s.mean == 0 && s.sd == 0);
}

static void names(void **state)
{
	static const struct {
		rp_bench_test test;
		const char *name;
	} known[] = {
		{{512, 0, 0, 1}, "pp512"},
		{{0, 128, 0, 1}, "tg128"},
		{{4096, 128, 0, 1}, "pp4096+tg128"},
		{{0, 128, 512, 1}, "tg128 @ d512"},
		{{4294967295u, 4294967295u, 4294967295u, 1}, "pp4294967295+tg4294967295 @ d4294967295"},
	};
	char out[64];
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_string_equal(rp_bench_name(&known[i].test, out, sizeof out), known[i].name);
	assert_true(rp_bench_ctx(&known[4].test) == 3 * (uint64_t)UINT32_MAX);
}

/* ---- an engine that is watched ---- */
enum { MOST = 4096 };
static struct {
	size_t rows[MOST], n;  /* of each embedding */
	float first[MOST];     /* a value of the first row: tells ids apart */
} seen;

static void watch(void *user, int layer, const char *label, const float *data, size_t rows, size_t width)
{
	(void)user, (void)width;
	if (layer < 0 && strcmp(label, "embed") == 0 && seen.n < MOST) {
		seen.rows[seen.n] = rows;
		seen.first[seen.n++] = data[0];
	}
}

static rp_model *model;
static rp_graph *graph;
static rp_engine *engine;

static int open_engine(void **state)
{
	(void)state;
	rp_engine_opts o = {.device = "cpu", .ctx = 64, .threads = 1, .tap = watch};
	return rp_model_open("random:tiny", &model, NULL) != RP_OK || rp_graph_build(model, &graph, NULL) != RP_OK ||
		rp_engine_open(graph, &o, &engine, NULL) != RP_OK;
}

static int close_engine(void **state)
{
	(void)state;
	rp_engine_close(engine);
	rp_graph_free(graph);
	rp_model_close(model);
	return 0;
}

static rp_bench_result bench(const rp_bench_test *t, const rp_bench_opts *o)
{
	rp_bench_result r;
	rp_error err;
	seen.n = 0;
	if (rp_bench_run(&engine, 1, graph, t, o, &r, &err) != RP_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(r.reps, o->reps);
	for (size_t i = 0; i < r.reps; i++) {
		assert_true(r.ns[i] > 0);
		assert_true(fabs(r.rate[i] * r.ns[i] / 1e9 / (double)r.tokens - 1) < 1e-9);
	}
	return r;
}

static void expect_rows(const size_t *want, size_t n)
{
	assert_int_equal(seen.n, n);
	assert_memory_equal(seen.rows, want, n * sizeof *want);
}

static void a_prompt_is_one_pass(void **state)
{
	rp_bench_result r = bench(&(rp_bench_test){8, 0, 4, 1}, &(rp_bench_opts){.reps = 2, .warmup = true, .seed = 1});
	const size_t rows[] = {4, 8, 4, 8, 4, 8};
	(void)state;
	expect_rows(rows, 6);
	assert_int_equal(r.tokens, 8);
	assert_true(seen.first[1] != seen.first[3] && seen.first[3] != seen.first[5]); /* other ids each time */
	assert_true(r.submits == 0 && isnan(r.host_ns));                                 /* nothing to submit to */
	rp_bench_result_free(&r);
}

static void generation_feeds_other_ids_each_step(void **state)
{
	rp_bench_result r = bench(&(rp_bench_test){0, 6, 0, 1}, &(rp_bench_opts){.reps = 1, .seed = 1});
	size_t different = 0;
	(void)state;
	assert_int_equal(seen.n, 6);
	for (size_t i = 1; i < seen.n; i++)
		different += seen.first[i] != seen.first[0];
	assert_int_equal(different, 5);
	assert_int_equal(r.distinct, 0);
	rp_bench_result_free(&r);
	r = bench(&(rp_bench_test){3, 6, 0, 1}, &(rp_bench_opts){.reps = 1, .ids = RP_BENCH_GREEDY, .seed = 1});
	assert_int_equal(seen.n, 7);
	assert_int_equal(r.tokens, 9);
	assert_true(r.distinct >= 1 && r.distinct <= 6);
	rp_bench_result_free(&r);
	r = bench(&(rp_bench_test){3, 6, 0, 1}, &(rp_bench_opts){.reps = 1, .ids = RP_BENCH_SAMPLED, .seed = 1});
	assert_int_equal(seen.n, 7);
	assert_true(r.distinct >= 1 && r.distinct <= 6);
	rp_bench_result_free(&r);
}

static void streams_share_a_pass(void **state)
{
	rp_bench_result r = bench(&(rp_bench_test){0, 2, 3, 4}, &(rp_bench_opts){.reps = 1, .seed = 1});
	const size_t rows[] = {12, 4, 4};
	(void)state;
	expect_rows(rows, 3);
	assert_int_equal(r.tokens, 8);
	rp_bench_result_free(&r);
}

static void two_engines_take_turns(void **state)
{
	rp_engine *other = NULL, *both[2] = {engine, NULL};
	rp_bench_result r[2];
	rp_error err;
	const size_t rows[] = {2, 2, 2, 2}; /* of the watched one: warm-up and three repetitions */
	(void)state;
	assert_int_equal(rp_engine_open(graph, &(rp_engine_opts){.device = "cpu", .ctx = 8, .threads = 1}, &other, &err), RP_OK);
	both[1] = other;
	seen.n = 0;
	if (rp_bench_run(both, 2, graph, &(rp_bench_test){2, 0, 0, 1}, &(rp_bench_opts){.reps = 3, .warmup = true}, r, &err) != RP_OK)
		fail_msg("%s", err.msg);
	expect_rows(rows, 4);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(r[k].reps, 3);
		rp_bench_result_free(&r[k]);
	}
	assert_int_equal(rp_bench_run((rp_engine *[]){engine, other}, 2, graph, &(rp_bench_test){9, 0, 0, 1}, &(rp_bench_opts){.reps = 1}, r,
		&err), RP_CONTEXT); /* too long for the second alone */
	rp_engine_close(other);
}

static void ratios(void **state)
{
	double slow[] = {10, 20, 40, 10}, fast[] = {20, 30, 44, 100};
	rp_bench_result a = {.reps = 4, .rate = slow}, b = {.reps = 4, .rate = fast};
	(void)state;
	rp_bench_ratio r = rp_bench_compare(&a, &b);
	assert_true(fabs(r.median - 1.75) < 1e-12 && fabs(r.lowest - 1.1) < 1e-12 && r.highest == 10);
	b.reps = 3;
	assert_true(rp_bench_compare(&a, &b).median == 1.5);
	b.reps = 0;
	assert_true(isnan(rp_bench_compare(&a, &b).median));
}

static void failures(void **state)
{
	rp_bench_result r = {.reps = 77};
	rp_error err;
	(void)state;
	assert_int_equal(rp_bench_run(&engine, 1, graph, &(rp_bench_test){65, 0, 0, 1}, &(rp_bench_opts){.reps = 1}, &r, &err), RP_CONTEXT);
	assert_int_equal(r.reps, 77);
}

/* Of the tiny model by hand: three layers of the delta rule, one of attention. */
static void bytes_a_token(void **state)
{
	rp_bench_test t = {0, 10, 20, 1};
	double all = 0, state_bytes = 3 * 4.0 * (2 * 128 * 128 + 3 * (2 * 2 * 128 + 2 * 128));
	(void)state;
	for (size_t i = 0; i < rp_model_n_tensors(model); i++) /* the head is the embedding: everything is read once */
		all += (double)rp_model_tensor(model, i)->size;
	const rp_engine_info *info = rp_engine_describe(engine);
	double position = ((double)info->seq_bytes - state_bytes) / info->ctx;
	assert_true(fabs(position - 2 * 256 * 4) < 1e-9); /* one layer of one key head, float32 */
	assert_true(fabs(rp_bench_read_bytes(graph, info, &t) - (all + state_bytes + 25 * position)) < 1);
	t.streams = 4;
	assert_true(fabs(rp_bench_read_bytes(graph, info, &t) - (all / 4 + state_bytes + 25 * position)) < 1);
	t.n_gen = 0;
	assert_true(rp_bench_read_bytes(graph, info, &t) == 0);
}

static void bandwidth(void **state)
{
	rp_bandwidth b = {0};
	rp_error err;
	(void)state;
	if (rp_bench_bandwidth("cpu", 2, &b, &err) != RP_OK)
		fail_msg("%s", err.msg);
	assert_true(b.bytes_per_s > 0 && b.bytes >= 1 << 20);
	rp_code code = rp_bench_bandwidth("gpu", 0, &b, &err);
	if (code == RP_NO_DEVICE) {
		print_message("SKIP: no Vulkan device\n");
		skip();
	}
	if (code != RP_OK) /* it checks what it read */
		fail_msg("%s", err.msg);
	assert_true(b.bytes_per_s > 0 && b.bytes >= 1 << 20);
	assert_int_equal(rp_bench_bandwidth("99", 0, &b, &err), RP_NO_DEVICE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sweeps),
		cmocka_unit_test(sweeps_that_are_none),
		cmocka_unit_test(spreads),
		cmocka_unit_test(names),
		cmocka_unit_test(a_prompt_is_one_pass),
		cmocka_unit_test(generation_feeds_other_ids_each_step),
		cmocka_unit_test(streams_share_a_pass),
		cmocka_unit_test(two_engines_take_turns),
		cmocka_unit_test(ratios),
		cmocka_unit_test(failures),
		cmocka_unit_test(bytes_a_token),
		cmocka_unit_test(bandwidth),
	};
	return cmocka_run_group_tests(tests, open_engine, close_engine);
}
