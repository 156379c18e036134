/* What must hold of the oracle without any reference: every way to cut the same work gives the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "vk/private.h"

enum { N = 70, VOCAB = 320 };

static const char *const families[][2] = {{"llama", NULL}, {"llama", "model.gguf"}, {"qwen3_5", NULL}, {"qwen3_5", "model.gguf"}};
enum { N_FAMILIES = sizeof families / sizeof *families };

static rp_engine *open_engine(const golden *g, const rp_engine_opts *o)
{
	rp_engine_opts opts = o ? *o : (rp_engine_opts){0};
	rp_engine *e;
	rp_error err;

	opts.device = "cpu";
	must(rp_engine_open(g->graph, &opts, &e, &err), &err);
	return e;
}

static rp_seq *new_seq(rp_engine *e)
{
	rp_seq *s;
	rp_error err;

	must(rp_seq_new(e, &s, &err), &err);
	return s;
}

/* Logits of the whole prompt in one call; free() them. */
static float *run(const golden *g, const rp_engine_opts *o)
{
	rp_engine *e = open_engine(g, o);
	rp_seq *s = new_seq(e);
	rp_segment segment = {.seq = s, .ids = g->prompt, .n = g->n_prompt, .want = RP_WANT_ALL};
	rp_output out;
	rp_error err;
	size_t bytes = (size_t)N * VOCAB * sizeof(float);
	float *copy = malloc(bytes);

	assert_int_equal(g->n_prompt, N);
	assert_int_equal(g->graph->config.vocab, VOCAB);
	must(rp_forward(e, &segment, 1, &out, &err), &err);
	memcpy(copy, out.logits, bytes);
	rp_seq_free(s);
	rp_engine_close(e);
	return copy;
}

static void same(const float *got, const float *want, size_t rows)
{
	assert_memory_equal(got, want, rows * VOCAB * sizeof(float));
}

static void for_each_family(void (*check)(const golden *g, const float *whole))
{
	for (size_t i = 0; i < N_FAMILIES; i++) {
		golden g;
		golden_open(&g, families[i][0], families[i][1]);
		float *whole = run(&g, NULL);
		check(&g, whole);
		free(whole);
		golden_close(&g);
	}
}

static void check_chunks(const golden *g, const float *whole)
{
	static const uint32_t chunks[] = {1, 2, 3, 7, 64, 69, 70, 71};

	for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
		float *got = run(g, &(rp_engine_opts){.chunk = chunks[i]});
		same(got, whole, N);
		free(got);
	}
}

static void any_chunk_size(void **state)
{
	(void)state;
	for_each_family(check_chunks);
}

static void check_threads(const golden *g, const float *whole)
{
	for (uint32_t threads = 1; threads <= 5; threads += 2) {
		float *got = run(g, &(rp_engine_opts){.threads = threads});
		same(got, whole, N);
		free(got);
	}
}

static void any_number_of_threads(void **state)
{
	(void)state;
	for_each_family(check_threads);
}

/* Prompt cut at every kind of place; only the last row of each call is wanted. */
static void check_decode(const golden *g, const float *whole)
{
	static const uint32_t cuts[] = {1, 1, 1, 2, 30, 5, 29, 1};
	rp_engine *e = open_engine(g, &(rp_engine_opts){.chunk = 16});
	rp_seq *s = new_seq(e);
	rp_output out;
	rp_error err;

	for (int round = 0; round < 2; round++) { /* the second after a reset */
		uint32_t at = 0;
		for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
			rp_segment segment = {.seq = s, .ids = g->prompt + at, .n = cuts[i], .want = RP_WANT_LAST};
			must(rp_forward(e, &segment, 1, &out, &err), &err);
			at += cuts[i];
			assert_int_equal(out.n_rows, 1);
			assert_int_equal(rp_seq_len(s), at);
			same(out.logits, whole + (size_t)(at - 1) * VOCAB, 1);
		}
		assert_int_equal(at, N);
		rp_seq_reset(s);
		assert_int_equal(rp_seq_len(s), 0);
	}
	rp_seq_free(s);
	rp_engine_close(e);
}

static void prefill_and_decode_agree(void **state)
{
	(void)state;
	for_each_family(check_decode);
}

/* Three sequences at different places of the same prompt, some wanting every row, one none. */
static void check_ragged(const golden *g, const float *whole)
{
	rp_engine *e = open_engine(g, &(rp_engine_opts){.chunk = 11});
	rp_seq *a = new_seq(e), *b = new_seq(e), *c = new_seq(e);
	rp_segment first[] = {{.seq = b, .ids = g->prompt, .n = 20}, {.seq = a, .ids = g->prompt, .n = 1, .want = RP_WANT_ALL}};
	rp_segment second[] = {{.seq = a, .ids = g->prompt + 1, .n = 13, .want = RP_WANT_ALL},
		{.seq = c, .ids = g->prompt, .n = 9, .want = RP_WANT_NONE}, {.seq = b, .ids = g->prompt + 20, .n = 1, .want = RP_WANT_LAST}};
	rp_output out;
	rp_error err;

	must(rp_forward(e, first, 2, &out, &err), &err);
	assert_int_equal(out.n_rows, 1);
	same(out.logits, whole, 1);
	must(rp_forward(e, second, 3, &out, &err), &err);
	assert_int_equal(out.n_rows, 14);
	same(out.logits, whole + VOCAB, 13);
	same(out.logits + 13 * VOCAB, whole + 20 * VOCAB, 1);
	rp_segment last = {.seq = c, .ids = g->prompt + 9, .n = N - 9, .want = RP_WANT_ALL};
	must(rp_forward(e, &last, 1, &out, &err), &err);
	same(out.logits, whole + 9 * VOCAB, N - 9);
	rp_seq_free(a);
	rp_seq_free(b);
	rp_seq_free(c);
	rp_engine_close(e);
}

static void ragged_batches_equal_each_alone(void **state)
{
	(void)state;
	for_each_family(check_ragged);
}

static void check_ranges(const golden *g, const float *whole)
{
	uint32_t n = g->graph->config.n_layers;

	for (uint32_t cut = 1; cut < n; cut++) {
		rp_engine *front = open_engine(g, &(rp_engine_opts){.layer_last = cut, .chunk = 9});
		rp_engine *back = open_engine(g, &(rp_engine_opts){.layer_first = cut, .layer_last = n, .chunk = 32});
		rp_seq *f = new_seq(front), *b = new_seq(back);
		rp_output rows, out;
		rp_error err;
		for (uint32_t at = 0; at < N; at += 35) {
			rp_segment one = {.seq = f, .ids = g->prompt + at, .n = 35, .want = RP_WANT_ALL};
			must(rp_forward(front, &one, 1, &rows, &err), &err);
			assert_int_equal(rows.width, g->graph->config.hidden);
			rp_segment two = {.seq = b, .rows = rows.logits, .n = 35, .want = RP_WANT_ALL};
			must(rp_forward(back, &two, 1, &out, &err), &err);
			same(out.logits, whole + (size_t)at * VOCAB, 35);
		}
		rp_seq_free(f);
		rp_seq_free(b);
		rp_engine_close(front);
		rp_engine_close(back);
	}
}

static void layer_ranges_equal_the_whole(void **state)
{
	(void)state;
	for_each_family(check_ranges);
}

/* A byte less than the weights and a sequence take. */
static void check_memory(const golden *g, const float *whole)
{
	rp_engine *e = open_engine(g, NULL);
	uint64_t weights = rp_engine_describe(e)->weight_bytes, seq = rp_engine_describe(e)->seq_bytes;
	rp_engine_opts o = {.device = "cpu", .host_bytes = seq + weights};
	rp_error err;

	rp_engine_close(e);
	float *got = run(g, &o);
	same(got, whole, N);
	free(got);
	o.host_bytes--;
	e = NULL;
	assert_int_equal(rp_engine_open(g->graph, &o, &e, &err), RP_NO_MEMORY);
	assert_null(e);
	assert_non_null(strstr(err.msg, "MiB are free"));
}

/* Any library that is no Vulkan loader serves as a broken one. */
static void takes_over_from_a_broken_driver(void **state)
{
	const char *name = rp_vk_loader_name;
	rp_engine *e = NULL;
	rp_error err;
	golden g;

	(void)state;
	golden_open(&g, "llama", NULL);
	rp_vk_loader_name = "libc.so.6";
	must(rp_engine_open(g.graph, NULL, &e, &err), &err);
	assert_string_equal(rp_engine_describe(e)->backend, "cpu");
	assert_non_null(strstr(rp_engine_describe(e)->instead, "libc.so.6"));
	rp_engine_close(e);
	e = NULL;
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.host_bytes = 1}, &e, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "MiB are free"));
	assert_non_null(strstr(err.msg, "on the GPU: libc.so.6"));
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.device = "gpu"}, &e, &err), RP_DRIVER);
	rp_vk_loader_name = "libvulkan-absent.so.1";
	must(rp_engine_open(g.graph, NULL, &e, &err), &err);
	assert_string_equal(rp_engine_describe(e)->instead, "");
	rp_engine_close(e);
	e = NULL;
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.host_bytes = 1}, &e, &err), RP_NO_MEMORY);
	assert_null(strstr(err.msg, "GPU"));
	rp_vk_loader_name = name;
	golden_close(&g);
}

static void memory_is_checked(void **state)
{
	(void)state;
	for_each_family(check_memory);
}

static void wrong_batches_are_errors(void **state)
{
	golden g;
	rp_error err;
	rp_output out;
	uint32_t ids[41] = {0};
	(void)state;

	golden_open(&g, "llama", NULL);
	rp_engine *e = open_engine(&g, &(rp_engine_opts){.ctx = 40});
	rp_seq *s = new_seq(e);
	rp_segment segment = {.seq = s, .ids = ids, .n = 41, .want = RP_WANT_LAST};
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_CONTEXT);
	assert_non_null(strstr(err.msg, "41"));
	assert_non_null(strstr(err.msg, "40"));
	segment.n = 40;
	ids[39] = VOCAB;
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_PROMPT);
	assert_non_null(strstr(err.msg, "320"));
	segment.n = 0;
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_INTERNAL);
	rp_segment twice[] = {{.seq = s, .ids = ids, .n = 1}, {.seq = s, .ids = ids, .n = 1}};
	assert_int_equal(rp_forward(e, twice, 2, &out, &err), RP_INTERNAL);
	assert_int_equal(rp_seq_len(s), 0); /* none of these computed anything */
	segment.n = 39;
	must(rp_forward(e, &segment, 1, &out, &err), &err);
	rp_seq_free(s);
	rp_engine_close(e);

	e = NULL;
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.device = "toaster"}, &e, &err), RP_USAGE);
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.device = "cpu", .ctx = 513}, &e, &err), RP_CONTEXT);
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.device = "cpu", .layer_last = 4}, &e, &err), RP_USAGE);
	assert_int_equal(rp_engine_open(g.graph, &(rp_engine_opts){.device = "cpu", .layer_first = 2, .layer_last = 2}, &e, &err), RP_USAGE);
	assert_null(e);
	golden_close(&g);
}

typedef struct canceller {
	atomic_bool flag;
	int at_layer;
} canceller;

static void cancel_at(void *user, int layer, const char *label, const float *data, size_t rows, size_t width)
{
	canceller *c = user;

	(void)label, (void)data, (void)rows, (void)width;
	if (layer == c->at_layer)
		atomic_store(&c->flag, true);
}

static void cancelling_stops_between_layers(void **state)
{
	canceller c = {.at_layer = 1};
	golden g;
	rp_output out;
	rp_error err;

	(void)state;
	golden_open(&g, "qwen3_5", NULL);
	float *whole = run(&g, NULL);
	rp_engine *e = open_engine(&g, &(rp_engine_opts){.cancel = &c.flag, .tap = cancel_at, .tap_user = &c});
	rp_seq *s = new_seq(e);
	rp_segment segment = {.seq = s, .ids = g.prompt, .n = N, .want = RP_WANT_ALL};
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_CANCELLED);
	atomic_store(&c.flag, false);
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_INTERNAL); /* not reset */
	rp_seq_reset(s);
	c.at_layer = 99;
	must(rp_forward(e, &segment, 1, &out, &err), &err);
	same(out.logits, whole, N);
	atomic_store(&c.flag, true);
	rp_seq_reset(s);
	assert_int_equal(rp_forward(e, &segment, 1, &out, &err), RP_CANCELLED);
	rp_seq_free(s);
	rp_engine_close(e);
	free(whole);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_chunk_size),
		cmocka_unit_test(any_number_of_threads),
		cmocka_unit_test(prefill_and_decode_agree),
		cmocka_unit_test(ragged_batches_equal_each_alone),
		cmocka_unit_test(layer_ranges_equal_the_whole),
		cmocka_unit_test(memory_is_checked),
		cmocka_unit_test(takes_over_from_a_broken_driver),
		cmocka_unit_test(wrong_batches_are_errors),
		cmocka_unit_test(cancelling_stops_between_layers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
