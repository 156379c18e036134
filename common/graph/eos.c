/* The ids that end generation, from every place a model's files name them. */
#include "graph/build.h"

#include <stdlib.h>
#include <string.h>

static void add(rp_builder *b, double id, const char *from)
{
	rp_config *c = b->config;

	if (b->code)
		return;
	if (!(id >= 0) || id >= c->vocab) {
		rp_build_fail(b, RP_MODEL, "%s names id %.0f as an end of text, but the vocabulary has %u ids", from, id, c->vocab);
		return;
	}
	for (uint32_t i = 0; i < c->n_eos; i++)
		if (c->eos[i] == (uint32_t)id)
			return;
	if (c->n_eos == RP_MAX_EOS) {
		rp_build_fail(b, RP_UNSUPPORTED, "%s: more than %d ids that end a text", from, RP_MAX_EOS);
		return;
	}
	c->eos[c->n_eos++] = (uint32_t)id;
}

/* A number, a list of numbers, or nothing. */
static void add_json(rp_builder *b, const cJSON *j, const char *from)
{
	const cJSON *item;

	if (!j || b->code)
		return;
	if (cJSON_IsNumber(j)) {
		add(b, j->valuedouble, from);
		return;
	}
	if (!cJSON_IsArray(j)) {
		rp_build_fail(b, RP_FORMAT, "%s is neither an id nor a list of ids", from);
		return;
	}
	cJSON_ArrayForEach(item, j) {
		if (!cJSON_IsNumber(item))
			rp_build_fail(b, RP_FORMAT, "%s holds something that is no id", from);
		else
			add(b, item->valuedouble, from);
	}
}

static void add_generation_config(rp_builder *b)
{
	char *path = rp_model_sibling(b->model, "generation_config.json"), *text = NULL;
	cJSON *json = NULL;
	size_t n;

	if (!path || b->code) {
		free(path);
		return;
	}
	b->code = rp_read_file(path, 1 << 20, &text, &n, b->err);
	if (!b->code)
		b->code = rp_json_parse(path, text, n, &json, b->err);
	add_json(b, rp_json_at(json, "eos_token_id"), "generation_config.json: eos_token_id");
	cJSON_Delete(json);
	free(text);
	free(path);
}

/* GGUF names one or two ids; chat models end turns with others too, known by their spelling. */
static void add_gguf(rp_builder *b)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
	static const char *const spellings[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>",
		"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"};
	const rp_str *tokens;
	uint64_t n = 0, id;

	for (size_t i = 0; i < sizeof keys / sizeof *keys && !b->code; i++) {
		rp_code code = rp_kv_u64(b->model, keys[i], &id, b->err);
		if (!code)
			add(b, (double)id, keys[i]);
		else if (code != RP_NOT_FOUND)
			b->code = code;
	}
	if (b->code || rp_kv_array_str(b->model, "tokenizer.ggml.tokens", &tokens, &n, NULL))
		return;
	for (uint64_t t = 0; t < n && t < b->config->vocab; t++)
		for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
			if (tokens[t].n == strlen(spellings[i]) && memcmp(tokens[t].s, spellings[i], tokens[t].n) == 0)
				add(b, (double)t, "tokenizer.ggml.tokens");
}

void rp_read_eos(rp_builder *b)
{
	if (b->code)
		return;
	switch (b->format) {
	case RP_FORMAT_GGUF:
		add_gguf(b);
		break;
	case RP_FORMAT_RDRR:
		add_json(b, rp_json_at(b->rdrr, "eos_token_id"), "eos_token_id");
		break;
	case RP_FORMAT_SAFETENSORS:
		add_json(b, rp_json_at(b->hf, "eos_token_id"), "config.json: eos_token_id");
		add_json(b, rp_json_at(rp_model_json(b->model), "eos_token_id"), "config.json: eos_token_id");
		add_generation_config(b);
		break;
	}
}
