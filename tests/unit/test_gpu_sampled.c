/* Decode with a sampler on the device: the ids are those of one forward pass a token and the host's sampler, however the work is cut. */
#include "vk/private.h"

#include "infer/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "gpu_fixture.h"

enum { PROMPT = 9, LENGTH = 37, CTX = 64 };

typedef struct rig {
	golden g;
	rp_engine *e;
	rp_seq *seq;
	uint32_t prompt[PROMPT + 1];
} rig;

typedef struct answer {
	uint32_t ids[64], n, stop_at; /* stop_at: on_id stops there; 0 never */
} answer;

/* hardware: work as on real hardware (blocks of tokens ahead of the host) whatever the device is. */
static rig begin(const char *model, const char *variant, bool hardware)
{
	rig r;
	rp_error err;
	uint32_t seed = 6;
	rp_engine_opts o = gpu_opts();

	o.variant = variant;
	o.ctx = CTX;
	golden_open(&r.g, model, NULL);
	must(rp_engine_open(r.g.graph, &o, &r.e, &err), &err);
	must(rp_seq_new(r.e, &r.seq, &err), &err);
	if (hardware) {
		rp_gpu *g = r.e->state;
		g->cpu = false;
		for (int i = 0; i < RP_GPU_RECORDINGS; i++)
			g->body[i].used = g->post[i].used = 0;
		g->run.recorded = false;
	}
	for (size_t i = 0; i <= PROMPT; i++) {
		seed = seed * 1664525u + 1013904223u;
		r.prompt[i] = (seed >> 8) % r.g.graph->config.vocab;
	}
	return r;
}

static void finish(rig *r)
{
	rp_seq_free(r->seq);
	rp_engine_close(r->e);
	golden_close(&r->g);
	gpu_no_leftovers();
}

/* The sequence at the end of the prompt but its last id. */
static void rewind_to_prompt(rig *r)
{
	rp_error err;
	rp_segment s = {.seq = r->seq, .ids = r->prompt, .n = PROMPT};

	rp_seq_reset(r->seq);
	must(rp_forward(r->e, &s, 1, NULL, &err), &err);
}

static rp_sampler *sampler(const rig *r, const rp_sampling *o)
{
	rp_sampler *s = NULL;
	rp_error err;

	must(rp_sampler_new(o, r->g.graph->config.vocab, &s, &err), &err);
	for (uint32_t i = 0; i <= PROMPT; i++)
		rp_sampler_accept(s, r->prompt[i]);
	return s;
}

static rp_code take_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	answer *a = user;

	(void)err;
	assert_true(a->n < 64);
	a->ids[a->n++] = id;
	*stop = a->n == a->stop_at;
	return RP_OK;
}

static answer by_the_host(rig *r, const rp_sampling *o)
{
	rp_sampler *s = sampler(r, o);
	answer a = {.n = 0};
	rp_error err;
	rp_output out;

	rewind_to_prompt(r);
	for (uint32_t i = 0; i < LENGTH; i++) {
		uint32_t id = i == 0 ? r->prompt[PROMPT] : a.ids[i - 1];
		rp_segment one = {.seq = r->seq, .ids = &id, .n = 1, .want = RP_WANT_LAST};
		must(rp_forward(r->e, &one, 1, &out, &err), &err);
		must(rp_sampler_next(s, out.logits, &a.ids[a.n++], &err), &err);
		rp_sampler_accept(s, a.ids[i]);
	}
	rp_sampler_free(s);
	return a;
}

/* In pieces of different lengths, stopped inside every other one; sampler and sequence go on each time. */
static answer in_pieces(rig *r, const rp_sampling *o)
{
	static const uint32_t lengths[] = {1, 10, 3, 8, 2, 40};
	rp_sampler *s = sampler(r, o);
	answer a = {.n = 0};
	rp_error err;

	rewind_to_prompt(r);
	for (uint32_t i = 0; a.n < LENGTH; i++) {
		uint32_t left = LENGTH - a.n, piece = lengths[i] < left ? lengths[i] : left;
		rp_decode_opts d = {.first = a.n == 0 ? r->prompt[PROMPT] : a.ids[a.n - 1], .careful = true, .sampler = s};
		d.n = i % 2 != 0 ? left : piece;
		a.stop_at = i % 2 != 0 ? a.n + piece : 0;
		must(rp_decode(r->e, r->seq, &d, take_id, &a, &err), &err);
		assert_int_equal(rp_seq_len(r->seq), PROMPT + a.n);
	}
	rp_sampler_free(s);
	return a;
}

static const rp_sampling options[] = {
	{.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1, .seed = 11},
	{.temperature = 1.5f, .top_k = 200, .top_p = 0.99f, .repeat_penalty = 1.2f, .repeat_window = 20, .seed = 12},
	{.temperature = 0, .top_p = 1, .repeat_penalty = 1.5f, .repeat_window = 64},
	{.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1, .seed = 13}, /* by the host: all ids */
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void check(const char *model, const char *variant, bool hardware)
{
	rig r = begin(model, variant, hardware);

	for (size_t i = 0; i < N_OPTIONS; i++) {
		answer want = by_the_host(&r, &options[i]), got = {.n = 0}, pieces = in_pieces(&r, &options[i]);
		rp_sampler *s = sampler(&r, &options[i]);
		rp_decode_opts d = {.first = r.prompt[PROMPT], .n = LENGTH, .sampler = s};
		rp_error err;
		rewind_to_prompt(&r);
		must(rp_decode(r.e, r.seq, &d, take_id, &got, &err), &err);
		assert_int_equal(got.n, LENGTH);
		assert_memory_equal(got.ids, want.ids, LENGTH * sizeof *got.ids);
		assert_int_equal(pieces.n, LENGTH);
		assert_memory_equal(pieces.ids, want.ids, LENGTH * sizeof *got.ids);
		rp_sampler_free(s);
	}
	finish(&r);
}

static void the_ids_are_the_hosts(void **state)
{
	(void)state;
	check("llama", "portable", false);
	check("llama", "portable", true);
	check("qwen3_5", "portable", true);
}

static void the_ids_are_the_hosts_fused(void **state)
{
	(void)state;
	gpu_need_variant("fused");
	check("llama", "fused", true);
	check("qwen3_5", "fused", true);
}

/* An id that ends it, wherever in a block that is: nothing to undo, and the sequence goes on. */
static void an_end_id_ends_it(void **state)
{
	rig r = begin("qwen3_5", "portable", true);
	answer want = by_the_host(&r, &options[1]);
	rp_error err;

	(void)state;
	for (uint32_t end = 2; end < LENGTH; end += 11) {
		rp_sampler *s = sampler(&r, &options[1]);
		answer got = {.n = 0};
		rp_decode_opts d = {.first = r.prompt[PROMPT], .n = LENGTH, .ends = &want.ids[end], .n_ends = 1, .sampler = s};
		rewind_to_prompt(&r);
		must(rp_decode(r.e, r.seq, &d, take_id, &got, &err), &err);
		assert_int_equal(got.ids[got.n - 1], want.ids[end]);
		assert_true(got.n <= end + 1);
		d = (rp_decode_opts){.first = want.ids[got.n - 1], .n = LENGTH - got.n, .sampler = s};
		if (d.n > 0)
			must(rp_decode(r.e, r.seq, &d, take_id, &got, &err), &err);
		assert_memory_equal(got.ids, want.ids, LENGTH * sizeof *got.ids);
		rp_sampler_free(s);
	}
	finish(&r);
}

static VKAPI_ATTR VkResult VKAPI_CALL no_buffer(VkDevice d, const VkBufferCreateInfo *info, const VkAllocationCallbacks *a, VkBuffer *out)
{
	(void)d, (void)info, (void)a, (void)out;
	return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* Without memory for copies of the states nothing runs ahead, and the ids are the same. */
static void does_without_copies_of_the_states(void **state)
{
	rig r = begin("qwen3_5", "portable", true);
	answer want = by_the_host(&r, &options[0]), got = {.n = 0}, pieces;
	rp_sampler *s = sampler(&r, &options[0]);
	rp_decode_opts d = {.first = r.prompt[PROMPT], .n = 2, .sampler = s};
	rp_gpu *g = r.e->state;
	rp_error err;

	(void)state;
	rewind_to_prompt(&r);
	must(rp_decode(r.e, r.seq, &d, take_id, &got, &err), &err); /* makes what sampling itself needs */
	g->vk->CreateBuffer = no_buffer;
	pieces = in_pieces(&r, &options[0]);
	assert_null(g->run.saved[0]);
	assert_memory_equal(pieces.ids, want.ids, LENGTH * sizeof *got.ids);
	rp_sampler_free(s);
	finish(&r);
}

/* Nothing but ids comes to the host: one submission a block, however many tokens it has. */
static void sampling_stays_on_the_device(void **state)
{
	rig r = begin("llama", NULL, true);
	rp_sampler *s = sampler(&r, &options[0]);
	rp_decode_opts d = {.first = r.prompt[PROMPT], .n = 32, .sampler = s};
	answer got = {.n = 0};
	rp_engine_stats before, after;
	rp_error err;

	(void)state;
	rewind_to_prompt(&r);
	rp_engine_count(r.e, &before);
	must(rp_decode(r.e, r.seq, &d, take_id, &got, &err), &err);
	rp_engine_count(r.e, &after);
	assert_int_equal(got.n, 32);
	assert_int_equal(after.submits - before.submits, 4);
	rp_sampler_free(s);
	finish(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ids_are_the_hosts),
		cmocka_unit_test(the_ids_are_the_hosts_fused),
		cmocka_unit_test(an_end_id_ends_it),
		cmocka_unit_test(does_without_copies_of_the_states),
		cmocka_unit_test(sampling_stays_on_the_device),
	};
	return gpu_run_tests("sampled decode", tests, sizeof tests / sizeof *tests);
}
