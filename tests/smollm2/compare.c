/* SmolLM2-135M-Instruct on one device against exact float32 answers.
 *
 * usage: compare MODEL.gguf ANSWERS.jsonl DEVICE [VARIANT]
 *
 * Each line of ANSWERS has prompt_ids, ids (greedy, computed by PyTorch in float32) and gaps (best logit minus second best at
 * every step). The run must give the same ids up to the first step whose gap is under 0.02: there rounding may decide. It is fed
 * the recorded ids, so that one difference is counted once and everything after it is still looked at. Last line:
 * N passed, N failed, N skipped.
 */
#include "infer/infer.h"
#include "infer/ops.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double least_gap = 0.02;

typedef struct answer {
	const char *prompt;
	uint32_t prompt_ids[512], ids[64];
	double gaps[64];
	uint32_t n_prompt, n;
} answer;

static int fail(const rp_error *err)
{
	fprintf(stderr, "compare: %s\n", err->msg);
	return (int)err->code;
}

static uint32_t read_ids(const cJSON *list, uint32_t *out, uint32_t max)
{
	const cJSON *item;
	uint32_t n = 0;

	cJSON_ArrayForEach(item, list)
		if (n < max)
			out[n++] = (uint32_t)item->valuedouble;
	return n;
}

static bool read_answer(const cJSON *line, answer *a)
{
	const cJSON *gap;
	uint32_t n = 0;

	a->prompt = cJSON_GetStringValue(cJSON_GetObjectItem(line, "prompt"));
	a->n_prompt = read_ids(cJSON_GetObjectItem(line, "prompt_ids"), a->prompt_ids, 512);
	a->n = read_ids(cJSON_GetObjectItem(line, "ids"), a->ids, 64);
	cJSON_ArrayForEach(gap, cJSON_GetObjectItem(line, "gaps"))
		if (n < 64)
			a->gaps[n++] = gap->valuedouble;
	return a->prompt && a->n_prompt > 0 && a->n > 0 && n == a->n;
}

/* How many ids from the start equal the answer's, and how many have to. */
static rp_code follow(rp_engine *e, const answer *a, uint32_t vocab, uint32_t *same, uint32_t *must, rp_error *err)
{
	rp_seq *seq;
	rp_output out;
	rp_segment s = {.ids = a->prompt_ids, .n = a->n_prompt, .want = RP_WANT_LAST};
	rp_code code = rp_seq_new(e, &seq, err);
	bool all = true;

	if (code)
		return code;
	for (*must = 0; *must < a->n && a->gaps[*must] >= least_gap; ++*must)
		;
	*same = 0;
	s.seq = seq;
	for (uint32_t i = 0; i < a->n && all && !code; i++) {
		code = rp_forward(e, &s, 1, &out, err);
		if (code)
			break;
		all = rp_ref_argmax(out.logits, vocab) == a->ids[i];
		*same += all;
		s.ids = &a->ids[i];
		s.n = 1;
	}
	rp_seq_free(seq);
	return code;
}

static rp_code compare_all(rp_engine *e, uint32_t vocab, char *text, unsigned *passed, unsigned *failed, rp_error *err)
{
	static answer a;
	char *rest = text, *line;
	uint64_t start;

	printf("%-50s %14s %8s %8s\n", "prompt", "equal ids", "exact", "seconds");
	while ((line = strtok_r(rest, "\n", &rest))) {
		cJSON *json = cJSON_Parse(line);
		uint32_t same = 0, must = 0;
		rp_code code;

		start = rp_now_ns();
		if (!read_answer(json, &a))
			code = rp_fail(err, RP_FORMAT, "a line of the answers is malformed");
		else
			code = follow(e, &a, vocab, &same, &must, err);
		if (!code)
			printf("%-50.50s %6u of %4u %8s %8.1f\n", a.prompt, same, a.n, same >= must ? "yes" : "NO",
				(double)(rp_now_ns() - start) / 1e9);
		cJSON_Delete(json);
		if (code)
			return code;
		*(same >= must ? passed : failed) += 1;
	}
	return RP_OK;
}

int main(int argc, char **argv)
{
	rp_model *m = NULL;
	rp_graph *g = NULL;
	rp_engine *e = NULL;
	rp_error err;
	char *text = NULL;
	size_t n;
	unsigned passed = 0, failed = 0;

	if (argc < 4) {
		fprintf(stderr, "usage: compare MODEL.gguf ANSWERS.jsonl DEVICE [VARIANT]\n");
		return (int)RP_USAGE;
	}
	rp_engine_opts opts = {.device = argv[3], .ctx = 256, .variant = argc > 4 ? argv[4] : NULL};
	rp_code code = rp_read_file(argv[2], 1 << 24, &text, &n, &err);
	if (!code)
		code = rp_model_open(argv[1], &m, &err);
	if (!code)
		code = rp_graph_build(m, &g, &err);
	if (!code)
		code = rp_engine_open(g, &opts, &e, &err);
	if (code == RP_NO_DEVICE) {
		printf("SKIP: %s\n0 passed, 0 failed, 1 skipped\n", err.msg);
	} else if (!code) {
		printf("device: %s (%s)\n", rp_engine_describe(e)->device, rp_engine_describe(e)->backend);
		code = compare_all(e, g->config.vocab, text, &passed, &failed, &err);
		printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	}
	rp_engine_close(e);
	rp_graph_free(g);
	rp_model_close(m);
	free(text);
	if (code && code != RP_NO_DEVICE)
		return fail(&err);
	return failed ? (int)RP_FAIL : (int)RP_OK;
}
