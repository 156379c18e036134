/* Decode speed of one sequence by the library's greedy run, and how far the kernels' logits are from the oracle's.
 * usage: build/bench/decode MODEL DEVICE VARIANT PROMPT N ROUNDS    tokens a second, dispatches and barriers a token
 *        build/bench/decode MODEL compare N                         after N tokens, fed one at a time: each variant against cpu
 * The environment tries other cuts (gpu_cut.h): DECODE_WG, LANES, ROWS, GLU_ROWS, HEAD_ROWS, GROUPS, MODEL, UNEVEN, MANY_ROWS,
 * MANY_TILE, MANY_GROUPS, SPLIT_GROUPS, DEEP_FROM; DECODE_KV32=1 keeps keys and values in f32; DECODE_STREAMS=N decodes N sequences
 * side by side, for which tokens a second are totals.
 * VARIANT - leaves the choice to the engine. The prompt is made of ids spread over the vocabulary. */
#include "infer/gpu_cut.h"
#include "infer/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rp_error err;

static void must(rp_code code)
{
	if (code == RP_OK)
		return;
	fprintf(stderr, "decode: %s\n", err.msg);
	exit(code);
}

static uint32_t prompt_id(const rp_graph *g, uint32_t i)
{
	return (i * 7919u + 13u) % g->config.vocab;
}

/* DECODE_NAME of the environment; 0 when it is not there. */
static uint32_t number(const char *name)
{
	char full[40];
	snprintf(full, sizeof full, "DECODE_%s", name);
	const char *text = getenv(full);
	return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static rp_engine *open_engine(const rp_graph *g, const char *device, const char *variant, uint32_t ctx)
{
	static rp_gpu_tune tune;
	tune = (rp_gpu_tune){ .wg = number("WG"), .lanes = number("LANES"), .rows = number("ROWS"), .glu_rows = number("GLU_ROWS"),
		.head_rows = number("HEAD_ROWS"), .groups = number("GROUPS"), .model = number("MODEL") != 0, .uneven = number("UNEVEN") != 0,
		.many_rows = number("MANY_ROWS"), .many_tile = number("MANY_TILE"), .many_groups = number("MANY_GROUPS"),
		.split_groups = number("SPLIT_GROUPS"), .deep_from = number("DEEP_FROM") };
	rp_engine_opts o = { .device = device, .variant = variant, .ctx = ctx, .cache_dir = getenv("DECODE_CACHE"), .tune = &tune,
		.kv = number("KV32") ? RP_CACHE_F32 : RP_CACHE_BEST };
	rp_engine *e = NULL;
	must(rp_engine_open(g, &o, &e, &err));
	return e;
}

/* ---- speed ---- */
static rp_code take(void *user, uint32_t id, bool *stop, rp_error *e)
{
	uint32_t *sum = user;
	(void)stop, (void)e;
	*sum = *sum * 31 + id;
	return RP_OK;
}

/* The prompt in each of DECODE_STREAMS sequences, then n tokens of all. */
static void streams_round(rp_engine *e, rp_seq **s, uint32_t streams, const uint32_t *ids, uint32_t prompt, uint32_t n)
{
	uint32_t sum = 0;
	rp_session *session = NULL;
	must(rp_session_new(e, &session, &err));
	for (uint32_t i = 0; i < streams; i++) {
		rp_seq_reset(s[i]);
		rp_segment seg = { .seq = s[i], .ids = ids, .n = prompt };
		must(rp_forward(e, &seg, 1, NULL, &err));
		rp_join j = { .seq = s[i], .prompt = ids + i % (prompt + 1), .n_prompt = 1, .n = n, .on_id = take, .user = &sum };
		must(rp_session_join(session, &j, &err));
	}
	rp_engine_stats before, after;
	rp_engine_count(e, &before);
	uint64_t start = rp_now_ns();
	while (rp_session_size(session) > 0)
		must(rp_session_step(session, &err));
	double decode = (double)(rp_now_ns() - start);
	rp_engine_count(e, &after);
	printf("%u streams: decode %.1f tok/s, %.1f us a step, %.1f dispatches, %.1f barriers a step (ids %08x)\n", streams,
		(double)streams * n * 1e9 / decode, decode / 1e3 / n, (double)(after.dispatches - before.dispatches) / n,
		(double)(after.barriers - before.barriers) / n, sum);
	rp_session_free(session);
}

static void streams_speed(rp_engine *e, uint32_t streams, const uint32_t *ids, uint32_t prompt, uint32_t n, long rounds)
{
	rp_seq **s = rp_alloc_array(streams, sizeof(rp_seq *));
	for (uint32_t i = 0; s != NULL && i < streams; i++)
		must(rp_seq_new(e, &s[i], &err));
	for (long r = 0; s != NULL && r < rounds; r++)
		streams_round(e, s, streams, ids, prompt, n);
	for (uint32_t i = 0; s != NULL && i < streams; i++)
		rp_seq_free(s[i]);
	free(s);
}

static void one_round(rp_engine *e, rp_seq *s, const uint32_t *ids, uint32_t prompt, uint32_t n)
{
	uint32_t sum = 0;
	rp_seq_reset(s);
	rp_segment seg = { .seq = s, .ids = ids, .n = prompt, .want = RP_WANT_LAST };
	uint64_t start = rp_now_ns();
	must(rp_forward(e, &seg, 1, NULL, &err));
	uint64_t middle = rp_now_ns();
	must(rp_decode(e, s, &(rp_decode_opts){ .first = ids[0], .n = n }, take, &sum, &err));
	double decode = (double)(rp_now_ns() - middle);
	printf("prefill %.0f tok/s, decode %.1f tok/s, %.1f us a token (ids %08x)\n", prompt * 1e9 / (double)(middle - start),
		n * 1e9 / decode, decode / 1e3 / n, sum);
}

static void speed(const rp_graph *g, char **arg)
{
	uint32_t prompt = (uint32_t)strtoul(arg[2], NULL, 10), n = (uint32_t)strtoul(arg[3], NULL, 10);
	long rounds = strtol(arg[4], NULL, 10);
	uint32_t *ids = rp_alloc_array(prompt + 1, sizeof *ids);
	rp_engine *e = open_engine(g, arg[0], strcmp(arg[1], "-") == 0 ? NULL : arg[1], prompt + n);
	rp_seq *s = NULL;
	printf("%s\n", rp_engine_describe(e)->device);
	if (strcmp(rp_engine_describe(e)->backend, "vulkan") == 0) {
		rp_gpu *gpu = e->state;
		bool deep = prompt >= gpu->deep_from;
		must(rp_gpu_run_record(gpu, RP_GPU_GREEDY, deep, &err));
		rp_vk_cmd_stats st = rp_vk_cmd_describe(gpu->run.step[deep][RP_GPU_GREEDY]);
		printf("%u dispatches, %u barriers a token\n", st.dispatches, st.barriers);
	}
	must(rp_seq_new(e, &s, &err));
	for (uint32_t i = 0; ids != NULL && i <= prompt; i++)
		ids[i] = prompt_id(g, i);
	if (ids != NULL && number("STREAMS") > 1)
		streams_speed(e, number("STREAMS"), ids, prompt, n, rounds);
	for (long r = 0; ids != NULL && number("STREAMS") < 2 && r < rounds; r++)
		one_round(e, s, ids, prompt, n);
	free(ids);
	rp_seq_free(s);
	rp_engine_close(e);
}

/* ---- exactness ---- */
static void logits_after(const rp_graph *g, const char *device, const char *variant, uint32_t n, float *logits)
{
	rp_engine *e = open_engine(g, device, variant, n);
	rp_seq *s = NULL;
	rp_output out = { 0 };
	must(rp_seq_new(e, &s, &err));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = prompt_id(g, i);
		rp_segment seg = { .seq = s, .ids = &id, .n = 1, .want = RP_WANT_LAST };
		must(rp_forward(e, &seg, 1, &out, &err));
	}
	if (out.logits != NULL)
		memcpy(logits, out.logits, g->config.vocab * sizeof *logits);
	rp_seq_free(s);
	rp_engine_close(e);
}

static void compare(const rp_graph *g, uint32_t n)
{
	static const char *const variants[] = { "portable", "subgroup", "fused" };
	float *want = rp_alloc_array(g->config.vocab, sizeof *want), *got = rp_alloc_array(g->config.vocab, sizeof *got);
	if (want == NULL || got == NULL)
		exit(RP_NO_MEMORY);
	logits_after(g, "cpu", NULL, n, want);
	for (int v = 0; v < 3; v++) {
		double diff = 0, power = 0, most = 0;
		logits_after(g, "gpu", variants[v], n, got);
		for (uint32_t i = 0; i < g->config.vocab; i++) {
			double d = (double)got[i] - (double)want[i];
			diff += d * d;
			power += (double)want[i] * (double)want[i];
			most = d > most ? d : -d > most ? -d : most;
		}
		printf("%s: normalised mean squared error %.3g, largest difference %.3g\n", variants[v], diff / power, most);
	}
	free(want);
	free(got);
}

int main(int argc, char **argv)
{
	rp_model *m = NULL;
	rp_graph *g = NULL;
	bool is_compare = argc == 4 && strcmp(argv[2], "compare") == 0;
	if (!is_compare && argc != 7) {
		fprintf(stderr, "usage: decode MODEL DEVICE VARIANT PROMPT N ROUNDS | decode MODEL compare N\n");
		return RP_USAGE;
	}
	must(rp_model_open(argv[1], &m, &err));
	must(rp_graph_build(m, &g, &err));
	if (is_compare)
		compare(g, (uint32_t)strtoul(argv[3], NULL, 10));
	else
		speed(g, argv + 2);
	rp_graph_free(g);
	rp_model_close(m);
	return 0;
}
