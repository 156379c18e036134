/* What the helpers call of llama.cpp's shared library. Its structures are filled by its own default functions and passed through as
 * opaque blocks, so that none of its headers is needed (System V x86-64 calling convention). */
#ifndef LLAMA_API_H
#define LLAMA_API_H

#include <stdint.h>

typedef struct {
	uint8_t bytes[512];
} params;

typedef struct {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos, *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
} batch;

params llama_model_default_params(void);
params llama_context_default_params(void);
void *llama_model_load_from_file(const char *, params);
void *llama_init_from_model(void *, params);
batch llama_batch_get_one(int32_t *, int32_t);
int llama_decode(void *, batch);
void llama_synchronize(void *);
void llama_backend_init(void);
void llama_set_n_threads(void *, int32_t, int32_t);
void *llama_get_memory(void *);
void llama_memory_clear(void *, _Bool);
float *llama_get_logits_ith(void *, int32_t);
const void *llama_model_get_vocab(const void *);
int32_t llama_vocab_n_tokens(const void *);
void ggml_backend_load_all_from_path(const char *);

#endif
