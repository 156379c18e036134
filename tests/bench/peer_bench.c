/* Prompt and generation speed of llama.cpp's shared library, measured as `reploid-run --bench --ids random` measures ours.
 *
 * usage: peer_bench MODEL.gguf BACKEND_DIR N_PROMPT N_GEN REPETITIONS THREADS
 * A line a repetition: prompt tokens a second, generated tokens a second. The first run is a warm-up and not printed. A call and a
 * wait a token, no sampling; ids are random, other ones each time.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../peer/llama_api.h"

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t random_state = 1;

static int32_t random_id(int32_t vocab)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (int32_t)((random_state >> 33) % (uint64_t)vocab);
}

static int decode(void *context, int32_t *ids, int32_t n, int32_t vocab)
{
	for (int32_t i = 0; i < n; i++)
		ids[i] = random_id(vocab);
	int bad = llama_decode(context, llama_batch_get_one(ids, n));
	llama_synchronize(context);
	return bad;
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		fprintf(stderr, "usage: peer_bench MODEL.gguf BACKEND_DIR N_PROMPT N_GEN REPETITIONS THREADS\n");
		return 2;
	}
	int np = atoi(argv[3]), ng = atoi(argv[4]), reps = atoi(argv[5]), bad = 0;
	int32_t *ids = calloc((size_t)np + 1, sizeof *ids);
	ggml_backend_load_all_from_path(argv[2]);
	llama_backend_init();
	void *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	params p = llama_context_default_params();
	((uint32_t *)p.bytes)[0] = (uint32_t)(np + ng); /* n_ctx, n_batch, n_ubatch come first */
	((uint32_t *)p.bytes)[1] = ((uint32_t *)p.bytes)[2] = 512;
	void *context = model != NULL ? llama_init_from_model(model, p) : NULL;
	if (context == NULL || ids == NULL) {
		fprintf(stderr, "peer_bench: %s: cannot load\n", argv[1]);
		return 1;
	}
	llama_set_n_threads(context, atoi(argv[6]), atoi(argv[6])); /* more than processors spin for minutes */
	int32_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
	for (int r = -1; r < reps && !bad; r++) {
		llama_memory_clear(llama_get_memory(context), 1);
		double start = now();
		for (int at = 0; at < np; at += 512)
			bad |= decode(context, ids, np - at < 512 ? np - at : 512, vocab);
		double middle = now();
		for (int i = 0; i < ng; i++)
			bad |= decode(context, ids, 1, vocab);
		double end = now();
		if (r >= 0)
			printf("%.3f %.3f\n", np / (middle - start), ng / (end - middle));
		fflush(stdout);
	}
	if (bad)
		fprintf(stderr, "peer_bench: decoding failed\n");
	return bad != 0;
}
