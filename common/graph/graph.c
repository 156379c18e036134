/* Which family a model belongs to. */
#include "graph/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rp_family *const families[] = {&rp_family_llama, &rp_family_qwen35};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Each format has its way to a family's index in the table; N_FAMILIES for an architecture none of them has. */

/* What the model calls itself, for people. */
typedef struct arch_name {
	char field[32], value[200];
} arch_name;

static bool hf_names(const rp_family *f, const char *type)
{
	for (size_t i = 0; i < sizeof f->hf / sizeof *f->hf && f->hf[i]; i++)
		if (strcmp(f->hf[i], type) == 0)
			return true;
	return false;
}

static size_t find_gguf(rp_builder *b, arch_name *name)
{
	rp_str arch;
	rp_code code = rp_kv_str(b->model, "general.architecture", &arch, b->err);

	if (code == RP_NOT_FOUND)
		rp_build_fail(b, RP_MODEL, "the key general.architecture is missing, so nothing says how to compute this model");
	else if (code)
		b->code = code;
	if (b->code)
		return N_FAMILIES;
	snprintf(name->field, sizeof name->field, "general.architecture");
	rp_show(name->value, sizeof name->value, arch.s, arch.n);
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (strlen(families[i]->gguf) == arch.n && memcmp(families[i]->gguf, arch.s, arch.n) == 0) {
			b->gguf_prefix = families[i]->gguf;
			return i;
		}
	return N_FAMILIES;
}

static size_t find_hf(rp_builder *b, arch_name *name)
{
	const cJSON *root = rp_model_json(b->model), *type = rp_json_at(root, "model_type");
	const cJSON *text = rp_json_at(root, "text_config");

	if (!root)
		rp_build_fail(b, RP_MODEL, "no config.json lies beside the weights; put the one the model was published with there");
	else if (!cJSON_IsString(type))
		rp_build_fail(b, RP_MODEL, "config.json: model_type is missing or no string");
	if (b->code)
		return N_FAMILIES;
	snprintf(name->field, sizeof name->field, "model_type");
	rp_show(name->value, sizeof name->value, type->valuestring, strlen(type->valuestring));
	b->hf = cJSON_IsObject(text) ? text : root;
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (hf_names(families[i], type->valuestring))
			return i;
	return N_FAMILIES;
}

static size_t find_rdrr(rp_builder *b, arch_name *name)
{
	const cJSON *root = rp_model_json(b->model), *type = rp_json_at(root, "modelType");

	if (!cJSON_IsString(type)) {
		rp_build_fail(b, RP_FORMAT, "modelType is missing or no string");
		return N_FAMILIES;
	}
	snprintf(name->field, sizeof name->field, "modelType");
	rp_show(name->value, sizeof name->value, type->valuestring, strlen(type->valuestring));
	b->rdrr = root;
	if (strcmp(type->valuestring, "transformer") != 0)
		return N_FAMILIES;
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (families[i]->claims_rdrr(root))
			return i;
	return N_FAMILIES;
}

static void unknown(rp_builder *b, const arch_name *name)
{
	char known[200] = "";

	for (size_t i = 0; i < N_FAMILIES; i++) {
		size_t at = strlen(known);
		snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", families[i]->name);
	}
	rp_build_fail(b, RP_UNSUPPORTED, "%s \"%s\"%s is an architecture this build does not compute; it knows: %s", name->field,
		name->value, b->rdrr ? " with these layers" : "", known);
}

static void build(rp_builder *b)
{
	arch_name name;
	size_t i = N_FAMILIES;

	switch (b->format) {
	case RP_FORMAT_GGUF: i = find_gguf(b, &name); break;
	case RP_FORMAT_SAFETENSORS: i = find_hf(b, &name); break;
	case RP_FORMAT_RDRR: i = find_rdrr(b, &name); break;
	}
	if (b->code)
		return;
	if (i == N_FAMILIES) {
		unknown(b, &name);
		return;
	}
	b->config->family = families[i]->name;
	families[i]->build(b);
	rp_check_leftovers(b);
}

rp_code rp_graph_build(const rp_model *m, rp_graph **out, rp_error *err)
{
	rp_error local;
	rp_graph *g = rp_alloc(sizeof *g);
	rp_builder *b = rp_alloc(sizeof *b);

	if (!g || !b) {
		free(g);
		free(b);
		return rp_no_memory(err, sizeof *g + sizeof *b, "the model's graph");
	}
	rp_arena_init(&g->arena, 0);
	g->model = m;
	*b = (rp_builder){.model = m, .graph = g, .config = &g->config, .err = err ? err : &local, .format = rp_model_format(m)};
	build(b);
	rp_code code = b->code;
	free(b->used);
	free(b);
	if (code)
		rp_graph_free(g);
	else
		*out = g;
	return code;
}

void rp_graph_free(rp_graph *g)
{
	if (!g)
		return;
	rp_arena_free(&g->arena);
	free(g);
}

const char *rp_op_kind_name(rp_op_kind k)
{
	static const char *const names[RP_OP_COUNT] = {
		[RP_OP_EMBED] = "embed", [RP_OP_NORM] = "norm", [RP_OP_MATMUL] = "matmul", [RP_OP_SPLIT_HEADS] = "split_heads",
		[RP_OP_ROPE] = "rope", [RP_OP_ATTENTION] = "attention", [RP_OP_SIGMOID_MUL] = "sigmoid_mul",
		[RP_OP_SILU_MUL] = "silu_mul", [RP_OP_CONV] = "conv", [RP_OP_DELTA] = "delta", [RP_OP_GATED_NORM] = "gated_norm",
		[RP_OP_ADD] = "add",
	};
	return (unsigned)k < RP_OP_COUNT ? names[k] : "unknown";
}
