/* One prompt, one answer: how it ends, what the caller hears. The model is the tiny qwen3_5 of tests/golden, whose greedy ids
 * are recorded; the tokenizer spells id i with two letters, "aa", "ab", ... */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "variant.h"

enum { MAX_IDS = 64 };

typedef struct heard {
	uint32_t ids[MAX_IDS], n;
	char text[512];
	unsigned flushed; /* events without an id */
	float logprob[MAX_IDS];
	uint32_t n_top;
	uint32_t cancel_at, fail_at;
	atomic_bool cancel;
} heard;

static golden model;
static rp_tokenizer *tokenizer;
static uint32_t greedy[MAX_IDS];

static rp_code hear(void *user, const rp_token_event *event, rp_error *err)
{
	heard *h = user;

	if (event->text)
		strncat(h->text, event->text, event->text_len);
	if (event->id == UINT32_MAX) {
		assert_true(event->text_len > 0);
		h->flushed++;
		return RP_OK;
	}
	assert_true(h->n < MAX_IDS);
	assert_int_equal(h->flushed, 0);
	h->logprob[h->n] = event->logprob;
	h->n_top = (uint32_t)event->n_top;
	if (event->n_top > 0)
		assert_true(event->top[0].logprob >= event->logprob);
	h->ids[h->n++] = event->id;
	if (h->n == h->cancel_at)
		atomic_store(&h->cancel, true);
	return h->n == h->fail_at ? rp_fail(err, RP_WRITE, "the reader went away") : RP_OK;
}

static const rp_sampling greedily = {.top_p = 1, .repeat_penalty = 1};

/* A fresh engine and sequence each time. */
static rp_code generate(const golden *g, uint32_t ctx, const rp_tokenizer *t, const uint32_t *ids, size_t n, rp_generate_opts o,
	heard *h, rp_generate_result *r, rp_error *err)
{
	rp_engine *e;
	rp_seq *s;

	must(rp_engine_open(g->graph, &(rp_engine_opts){.device = "cpu", .ctx = ctx, .chunk = 32}, &e, err), err);
	must(rp_seq_new(e, &s, err), err);
	o.cancel = &h->cancel;
	rp_code code = rp_generate(e, s, t, ids, n, &o, hear, h, r, err);
	rp_seq_free(s);
	rp_engine_close(e);
	return code;
}

static rp_generate_result run(rp_generate_opts o, uint32_t ctx, heard *h)
{
	rp_generate_result r;
	rp_error err;

	must(generate(&model, ctx, tokenizer, model.prompt, model.n_prompt, o, h, &r, &err), &err);
	assert_int_equal(r.prompt_tokens, model.n_prompt);
	assert_int_equal(r.tokens, h->n);
	return r;
}

static void spell(char out[3], uint32_t id)
{
	out[0] = (char)('a' + id / 26);
	out[1] = (char)('a' + id % 26);
	out[2] = '\0';
}

/* Text of the first n recorded ids. */
static const char *spelled(uint32_t n)
{
	static char text[2 * MAX_IDS + 1];

	for (uint32_t i = 0; i < n; i++)
		spell(text + 2 * i, greedy[i]);
	text[2 * n] = '\0';
	return text;
}

static rp_tokenizer *two_letters(void)
{
	rp_buf b;
	char name[3];
	rp_error err;
	rp_tokenizer *t;

	rp_buf_init(&b, 0);
	rp_buf_adds(&b, "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
		"\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
		"\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
		"\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
		"\"byte_fallback\":false,\"merges\":[],\"vocab\":{");
	for (uint32_t i = 0; i < 320; i++) {
		spell(name, i);
		rp_buf_addf(&b, "%s\"%s\":%u", i ? "," : "", name, i);
	}
	rp_buf_adds(&b, "}}}");
	must(rp_tokenizer_from_json("test", b.data, b.len, &t, &err), &err);
	rp_buf_free(&b);
	return t;
}

static int setup(void **state)
{
	const cJSON *id;
	uint32_t n = 0;

	(void)state;
	golden_open(&model, "qwen3_5", NULL);
	tokenizer = two_letters();
	cJSON_ArrayForEach(id, cJSON_GetObjectItem(model.json, "chosen_ids"))
		if (n < MAX_IDS)
			greedy[n++] = (uint32_t)id->valuedouble;
	return n == MAX_IDS ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	rp_tokenizer_free(tokenizer);
	golden_close(&model);
	return 0;
}

static void greedy_ids_and_text(void **state)
{
	heard h = {0};
	rp_generate_result r = run((rp_generate_opts){.sampling = greedily, .max_tokens = 20, .n_logprobs = 3}, 0, &h);

	(void)state;
	assert_int_equal(r.finish, RP_FINISH_LENGTH);
	assert_int_equal(r.tokens, 20);
	assert_memory_equal(h.ids, greedy, 20 * sizeof *greedy);
	assert_string_equal(h.text, spelled(20));
	assert_int_equal(h.n_top, 3);
	for (int i = 0; i < 20; i++)
		assert_true(h.logprob[i] < 0 && h.logprob[i] > -20);
	assert_true(r.prompt_ns > 0 && r.first_ns >= r.prompt_ns);
}

static void ids_alone_without_a_tokenizer(void **state)
{
	heard h = {0};
	rp_generate_result r;
	rp_error err;

	(void)state;
	must(generate(&model, 0, NULL, model.prompt, model.n_prompt, (rp_generate_opts){.sampling = greedily, .max_tokens = 4}, &h, &r,
		&err), &err);
	assert_memory_equal(h.ids, greedy, 4 * sizeof *greedy);
	assert_string_equal(h.text, "");
	assert_true(isnan(h.logprob[0]));
	const char *stops[] = {"x"};
	assert_int_equal(generate(&model, 0, NULL, model.prompt, 3, (rp_generate_opts){.sampling = greedily, .stops = stops,
		.n_stops = 1}, &h, &r, &err), RP_USAGE);
}

static void a_stop_string_across_ids_ends_it(void **state)
{
	char a[3], b[3], stop[3];
	heard h = {0};

	(void)state;
	spell(a, greedy[1]);
	spell(b, greedy[2]);
	snprintf(stop, sizeof stop, "%c%c", a[1], b[0]);
	const char *stops[] = {"never", stop};
	rp_generate_result r = run((rp_generate_opts){.sampling = greedily, .max_tokens = 20, .stops = stops, .n_stops = 2}, 0, &h);
	assert_int_equal(r.finish, RP_FINISH_STOP);
	assert_int_equal(r.tokens, 3);
	assert_int_equal(h.flushed, 0);
	assert_memory_equal(h.text, spelled(3), 3); /* the first id and half of the second */
	assert_int_equal(strlen(h.text), 3);
}

/* The end comes while the beginning of a stop string is held back: it is text after all. */
static void held_back_text_is_given_out(void **state)
{
	char stop[8], last[3];
	heard h = {0};

	(void)state;
	spell(last, greedy[3]);
	snprintf(stop, sizeof stop, "%s!!", last);
	const char *stops[] = {stop};
	rp_generate_result r = run((rp_generate_opts){.sampling = greedily, .max_tokens = 4, .stops = stops, .n_stops = 1}, 0, &h);
	assert_int_equal(r.finish, RP_FINISH_LENGTH);
	assert_int_equal(h.flushed, 1);
	assert_string_equal(h.text, spelled(4));
}

static void an_end_id_ends_it(void **state)
{
	golden g = model;
	rp_generate_result r;
	rp_error err;
	char eos[16];
	variant v;
	heard h = {0};

	(void)state;
	snprintf(eos, sizeof eos, "%u", greedy[4]); /* the first 65 of 248 168 301 301 65 */
	variant_start(&v, "qwen3_5");
	variant_set(v.config, "text_config.eos_token_id", eos);
	variant_write(&v);
	must(rp_model_open(v.folder, &g.model, &err), &err);
	must(rp_graph_build(g.model, &g.graph, &err), &err);
	must(generate(&g, 0, tokenizer, g.prompt, g.n_prompt, (rp_generate_opts){.sampling = greedily, .max_tokens = 20}, &h, &r, &err),
		&err);
	assert_int_equal(r.finish, RP_FINISH_STOP);
	assert_int_equal(r.tokens, 5);
	assert_memory_equal(h.ids, greedy, 5 * sizeof *greedy);
	h = (heard){0};
	must(generate(&g, 0, tokenizer, g.prompt, g.n_prompt,
		(rp_generate_opts){.sampling = greedily, .max_tokens = 20, .ignore_eos = true}, &h, &r, &err), &err);
	assert_int_equal(r.finish, RP_FINISH_LENGTH);
	assert_int_equal(r.tokens, 20);
	rp_graph_free(g.graph);
	rp_model_close(g.model);
	variant_end(&v);
}

static void a_full_context_ends_it(void **state)
{
	heard h = {0};
	rp_generate_result r = run((rp_generate_opts){.sampling = greedily}, model.n_prompt + 2, &h);

	(void)state;
	assert_int_equal(r.finish, RP_FINISH_LENGTH);
	assert_int_equal(r.tokens, 3); /* two are fed back, the third has no room */
	h = (heard){0};
	r = run((rp_generate_opts){.sampling = greedily}, model.n_prompt, &h);
	assert_int_equal(r.tokens, 1);
}

static void wrong_prompts_are_errors(void **state)
{
	rp_generate_opts o = {.sampling = greedily};
	uint32_t outside[] = {1, 320};
	rp_generate_result r;
	rp_error err;
	heard h = {0};

	(void)state;
	assert_int_equal(generate(&model, 0, tokenizer, model.prompt, 0, o, &h, &r, &err), RP_PROMPT);
	assert_int_equal(generate(&model, 0, tokenizer, outside, 2, o, &h, &r, &err), RP_PROMPT);
	assert_non_null(strstr(err.msg, "320"));
	assert_int_equal(generate(&model, 69, tokenizer, model.prompt, 70, o, &h, &r, &err), RP_CONTEXT);
	assert_non_null(strstr(err.msg, "70"));
	assert_non_null(strstr(err.msg, "69"));
	o.sampling.top_p = 2;
	assert_int_equal(generate(&model, 0, tokenizer, model.prompt, 3, o, &h, &r, &err), RP_USAGE);
	assert_int_equal(h.n, 0);
}

static void giving_up(void **state)
{
	rp_generate_opts o = {.sampling = greedily, .max_tokens = 20};
	rp_generate_result r;
	rp_error err;
	heard h = {.cancel_at = 2}, before = {0}, writer = {.fail_at = 3};

	(void)state;
	r = run(o, 0, &h);
	assert_int_equal(r.finish, RP_FINISH_CANCELLED);
	assert_int_equal(r.tokens, 2);
	assert_string_equal(h.text, spelled(2));
	atomic_store(&before.cancel, true);
	must(generate(&model, 0, tokenizer, model.prompt, model.n_prompt, o, &before, &r, &err), &err);
	assert_int_equal(r.finish, RP_FINISH_CANCELLED);
	assert_int_equal(r.tokens, 0);
	assert_int_equal(generate(&model, 0, tokenizer, model.prompt, model.n_prompt, o, &writer, &r, &err), RP_WRITE);
	assert_string_equal(err.msg, "the reader went away");
	assert_int_equal(writer.n, 3);
}

static void a_seed_gives_the_same_text(void **state)
{
	rp_generate_opts o = {.sampling = {.temperature = 2, .top_p = 0.95f, .repeat_penalty = 1.1f, .repeat_window = 64, .seed = 5},
		.max_tokens = 30};
	heard a = {0}, b = {0}, c = {0};

	(void)state;
	run(o, 0, &a);
	run(o, 0, &b);
	o.sampling.seed = 6;
	run(o, 0, &c);
	assert_string_equal(a.text, b.text);
	assert_string_not_equal(a.text, c.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greedy_ids_and_text),
		cmocka_unit_test(ids_alone_without_a_tokenizer),
		cmocka_unit_test(a_stop_string_across_ids_ends_it),
		cmocka_unit_test(held_back_text_is_given_out),
		cmocka_unit_test(an_end_id_ends_it),
		cmocka_unit_test(a_full_context_ends_it),
		cmocka_unit_test(wrong_prompts_are_errors),
		cmocka_unit_test(giving_up),
		cmocka_unit_test(a_seed_gives_the_same_text),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
