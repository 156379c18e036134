/* Greedy ids of llama.cpp's shared library for a list of prompts of ids: one column of tests/smollm2/compare.
 *
 * usage: peer_greedy MODEL.gguf BACKEND_DIR MAX_IDS EOS < prompts > answers
 * Each input line is a prompt's ids, separated by commas; each output line the ids of its greedy answer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../peer/llama_api.h"

static int32_t largest(const float *logits, int32_t n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

/* Ids of one comma-separated line into out; their count. */
static int32_t read_ids(char *line, int32_t *out, int32_t max)
{
	int32_t n = 0;
	for (char *p = line, *end; n < max; p = end + 1) {
		long id = strtol(p, &end, 10);
		if (end == p)
			break;
		out[n++] = (int32_t)id;
		if (*end != ',')
			break;
	}
	return n;
}

static int answer(void *context, int32_t vocab, int32_t *ids, int32_t n, int max, int32_t eos)
{
	llama_memory_clear(llama_get_memory(context), 1);
	if (n == 0 || llama_decode(context, llama_batch_get_one(ids, n)) != 0)
		return 1;
	for (int i = 0; i < max; i++) {
		int32_t id = largest(llama_get_logits_ith(context, -1), vocab);
		printf("%s%d", i > 0 ? "," : "", id);
		if (id == eos)
			break;
		if (llama_decode(context, llama_batch_get_one(&id, 1)) != 0)
			return 1;
	}
	printf("\n");
	return fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: peer_greedy MODEL.gguf BACKEND_DIR MAX_IDS EOS < prompts\n");
		return 2;
	}
	ggml_backend_load_all_from_path(argv[2]);
	llama_backend_init();
	void *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	void *context = model != NULL ? llama_init_from_model(model, llama_context_default_params()) : NULL;
	if (context == NULL) {
		fprintf(stderr, "peer_greedy: %s: cannot load\n", argv[1]);
		return 1;
	}
	int cores = (int)sysconf(_SC_NPROCESSORS_ONLN); /* more threads than processors spin for minutes */
	llama_set_n_threads(context, cores, cores);
	static char line[1 << 16];
	static int32_t ids[4096];
	while (fgets(line, sizeof line, stdin) != NULL) {
		int32_t n = read_ids(line, ids, (int32_t)(sizeof ids / sizeof *ids));
		if (answer(context, llama_vocab_n_tokens(llama_model_get_vocab(model)), ids, n, atoi(argv[3]), (int32_t)atoi(argv[4])) != 0) {
			fprintf(stderr, "peer_greedy: decoding failed\n");
			return 1;
		}
	}
	return 0;
}
