/* Sequences side by side: whoever else is there, each answers as it does alone on the oracle; they come and go at any time. */
#include "infer/gpu.h"
#include "infer/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "gpu_fixture.h"

enum { MOST = 33, IDS = 24, PROMPT = 32, CTX = 96 };

typedef struct talk {
	uint32_t prompt[PROMPT], n_prompt, n, end, n_ends; /* end: an id after which nothing follows */
	uint32_t stop_at;                                  /* on_id stops it there; 0: never */
	uint32_t want[IDS], n_want, got[IDS], n_got;
	rp_seq *seq;
} talk;

static rp_code take(void *user, uint32_t id, bool *stop, rp_error *err)
{
	talk *t = user;

	(void)err;
	assert_true(t->n_got < IDS);
	t->got[t->n_got++] = id;
	*stop = t->n_got == t->stop_at;
	return RP_OK;
}

static rp_engine *engine(const rp_graph *g, const char *device, const char *variant)
{
	rp_engine_opts o = gpu_opts();
	rp_engine *e = NULL;
	rp_error err;

	o.device = device;
	o.variant = variant;
	o.ctx = CTX;
	must(rp_engine_open(g, &o, &e, &err), &err);
	return e;
}

/* What talk t answers alone: got of a run of it with n ids, into want; then an end in it for some, and stops for others. */
static void alone(rp_engine *e, rp_seq *s, talk *t, uint32_t number)
{
	rp_error err;

	rp_seq_reset(s);
	if (t->n_prompt > 1)
		must(rp_forward(e, &(rp_segment){.seq = s, .ids = t->prompt, .n = t->n_prompt - 1}, 1, NULL, &err), &err);
	must(rp_decode(e, s, &(rp_decode_opts){.first = t->prompt[t->n_prompt - 1], .n = t->n}, take, t, &err), &err);
	memcpy(t->want, t->got, sizeof t->want);
	t->n_want = t->n_got;
	t->n_got = 0;
	if (number % 5 == 0) {
		t->end = t->want[t->n / 2];
		t->n_ends = 1;
		for (t->n_want = 1; t->want[t->n_want - 1] != t->end;)
			t->n_want++;
	} else if (number % 7 == 3) {
		t->stop_at = t->n_want = 2;
	}
}

static talk *make_talks(const rp_graph *g, uint32_t n)
{
	rp_engine *e = engine(g, "cpu", NULL);
	talk *t = rp_alloc_array(n, sizeof *t);
	rp_seq *s = NULL;
	rp_error err;

	assert_non_null(t);
	must(rp_seq_new(e, &s, &err), &err);
	for (uint32_t i = 0; i < n; i++) {
		t[i].n_prompt = 1 + i * 7 % (PROMPT - 1);
		t[i].n = 3 + i * 5 % 19;
		for (uint32_t k = 0; k < t[i].n_prompt; k++)
			t[i].prompt[k] = (i * 7919u + k * k * 31u + k * 17u + 3u) % g->config.vocab;
		alone(e, s, &t[i], i);
	}
	rp_seq_free(s);
	rp_engine_close(e);
	return t;
}

static void join(rp_session *s, talk *t)
{
	rp_error err;
	rp_join j = {.seq = t->seq, .prompt = t->prompt, .n_prompt = t->n_prompt, .n = t->n, .ends = &t->end, .n_ends = t->n_ends,
		.on_id = take, .user = t};

	must(rp_session_join(s, &j, &err), &err);
}

/* All talks in one session, `first` of them from the start and then three more a step. */
static void together(const rp_graph *g, rp_engine *e, talk *t, uint32_t n, uint32_t first, const char *what)
{
	rp_session *s = NULL;
	rp_error err;
	uint32_t joined = 0;

	must(rp_session_new(e, &s, &err), &err);
	for (uint32_t i = 0; i < n; i++) {
		must(rp_seq_new(e, &t[i].seq, &err), &err);
		t[i].n_got = 0;
	}
	for (uint32_t turn = 0; joined < n || rp_session_size(s) > 0; turn++) {
		for (uint32_t k = turn == 0 ? first : 3; k > 0 && joined < n; k--)
			join(s, &t[joined++]);
		must(rp_session_step(s, &err), &err);
		assert_true(turn < 100);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (t[i].n_got != t[i].n_want || memcmp(t[i].got, t[i].want, t[i].n_want * sizeof *t[i].got) != 0)
			fail_msg("%s: %s: sequence %u of %u chose %u ids, alone %u, or others", g->config.family, what, i, n, t[i].n_got,
				t[i].n_want);
		if (t[i].stop_at == 0)
			assert_int_equal(rp_seq_len(t[i].seq), t[i].n_prompt - 1 + t[i].n_got);
		rp_seq_free(t[i].seq);
	}
	rp_session_free(s);
}

static const char *const models[] = {"llama", "qwen3_5"};

static void on_engine(const char *device, const char *variant, bool steps)
{
	static const uint32_t counts[] = {1, 3, 8, MOST};
	for (int m = 0; m < 2; m++) {
		golden g;
		golden_open(&g, models[m], "model.gguf");
		talk *t = make_talks(g.graph, MOST);
		rp_engine *e = engine(g.graph, device, variant);
		if (steps)
			assert_true(e->backend->can_steps(e));
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
			together(g.graph, e, t, counts[c], counts[c], "all at once");
		together(g.graph, e, t, 12, 2, "coming and going");
		rp_engine_close(e);
		free(t);
		golden_close(&g);
	}
	gpu_no_leftovers();
}

static void on_the_oracle(void **state)
{
	(void)state;
	on_engine("cpu", NULL, false);
}

static void on_a_gpu(void **state)
{
	(void)state;
	on_engine("gpu", "portable", false);
}

static void on_a_gpu_fused(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	on_engine("gpu", "fused", true);
}

/* What left with its answer complete can go on. */
static void goes_on(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	golden g;
	rp_error err;
	rp_session *s = NULL;
	golden_open(&g, "qwen3_5", "model.gguf");
	talk *t = make_talks(g.graph, 2);
	rp_engine *e = engine(g.graph, "gpu", "fused");
	talk whole = t[1];
	uint32_t half = whole.n / 2;

	assert_true(whole.n_want == whole.n && half > 0);
	must(rp_session_new(e, &s, &err), &err);
	must(rp_seq_new(e, &t[0].seq, &err), &err);
	must(rp_seq_new(e, &t[1].seq, &err), &err);
	t[1].n = half;
	join(s, &t[0]);
	join(s, &t[1]);
	while (rp_session_size(s) > 0)
		must(rp_session_step(s, &err), &err);
	t[1].prompt[0] = t[1].got[half - 1];
	t[1].n_prompt = 1;
	t[1].n = whole.n - half;
	join(s, &t[1]);
	while (rp_session_size(s) > 0)
		must(rp_session_step(s, &err), &err);
	assert_int_equal(t[1].n_got, whole.n);
	assert_memory_equal(t[1].got, whole.want, whole.n * sizeof *t[1].got);
	rp_session_free(s);
	rp_seq_free(t[0].seq);
	rp_seq_free(t[1].seq);
	rp_engine_close(e);
	free(t);
	golden_close(&g);
}

static void refuses(void **state)
{
	(void)state;
	golden g;
	rp_error err;
	rp_session *s = NULL;
	rp_seq *seq = NULL;
	golden_open(&g, "llama", "model.gguf");
	rp_engine *e = engine(g.graph, "cpu", NULL);
	talk t = {.prompt = {1, 2, 3}};
	rp_join good, j;

	must(rp_session_new(e, &s, &err), &err);
	must(rp_session_step(s, &err), &err); /* nobody is there */
	must(rp_seq_new(e, &seq, &err), &err);
	good = j = (rp_join){.seq = seq, .prompt = t.prompt, .n_prompt = 3, .n = CTX - 2, .on_id = take, .user = &t};
	j.n_prompt = 0;
	assert_int_equal(rp_session_join(s, &j, &err), RP_PROMPT);
	j = good;
	j.n = CTX - 1;
	assert_int_equal(rp_session_join(s, &j, &err), RP_CONTEXT);
	j = good;
	t.prompt[2] = g.graph->config.vocab;
	assert_int_equal(rp_session_join(s, &j, &err), RP_PROMPT);
	t.prompt[2] = 3;
	j.n = 0;
	assert_int_equal(rp_session_join(s, &j, &err), RP_INTERNAL);
	assert_int_equal(rp_session_size(s), 0);
	must(rp_session_join(s, &good, &err), &err);
	assert_int_equal(rp_session_join(s, &good, &err), RP_INTERNAL);
	assert_int_equal(rp_session_size(s), 1);
	rp_session_free(s);
	rp_seq_free(seq);
	rp_engine_close(e);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_the_oracle),
		cmocka_unit_test(on_a_gpu),
		cmocka_unit_test(on_a_gpu_fused),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(refuses),
	};
	return gpu_run_tests("session", tests, sizeof tests / sizeof *tests);
}
