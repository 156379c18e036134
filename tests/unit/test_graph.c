/* Families: what is recognised, what the configuration becomes, what is refused and how the refusal reads. */
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

/* Open and build; the model outlives the graph in *m. */
static rp_code build(const char *path, rp_model **m, rp_graph **g, rp_error *err)
{
	*m = NULL;
	*g = NULL;
	rp_code code = rp_model_open(path, m, err);
	return code ? code : rp_graph_build(*m, g, err);
}

static void check_refused(const char *path, rp_code want, const char *words)
{
	rp_model *m;
	rp_graph *g;
	rp_error err = {0};
	rp_code code = build(path, &m, &g, &err);

	if (code != want)
		fail_msg("code %d, not %d: %s", code, want, err.msg);
	if (!strstr(err.msg, words))
		fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
	assert_null(g);
	rp_model_close(m);
}

typedef struct refusal {
	const char *model, *path, *json;
	rp_code code;
	const char *words;
} refusal;

static const refusal refusals[] = {
	{"llama", "model_type", "\"mamba\"", RP_UNSUPPORTED,
		"model_type \"mamba\" is an architecture this build does not compute; it knows: llama, qwen3_5"},
	{"llama", "model_type", NULL, RP_MODEL, "model_type is missing"},
	{"llama", "num_hidden_layers", "4", RP_MODEL, "tensor model.layers.3.input_layernorm.weight is missing"},
	{"llama", "num_hidden_layers", "2", RP_UNSUPPORTED, "tensor model.layers.2."},
	{"llama", "num_hidden_layers", "1.5", RP_FORMAT, "num_hidden_layers is no whole number"},
	{"llama", "num_hidden_layers", "1025", RP_FORMAT, "expected 1 to 1024"},
	{"llama", "num_hidden_layers", NULL, RP_MODEL, "config.json: num_hidden_layers is missing"},
	{"llama", "hidden_size", "128", RP_MODEL,
		"model.embed_tokens.weight has shape [320, 64]; the model's configuration asks for [320, 128]"},
	{"llama", "hidden_size", "0", RP_FORMAT, "hidden_size is 0"},
	{"llama", "hidden_size", "1e300", RP_FORMAT, "hidden_size"},
	{"llama", "hidden_size", "-64", RP_FORMAT, "hidden_size is -64"},
	{"llama", "intermediate_size", "161", RP_MODEL, "mlp.gate_proj.weight has shape [160, 64]"},
	{"llama", "num_key_value_heads", "3", RP_MODEL, "cannot share 3 key heads"},
	{"llama", "head_dim", "15", RP_MODEL, "15 rotated values"},
	{"llama", "hidden_act", "\"gelu\"", RP_UNSUPPORTED, "hidden_act is \"gelu\""},
	{"llama", "attention_bias", "true", RP_UNSUPPORTED, "attention_bias is set"},
	{"llama", "mlp_bias", "true", RP_UNSUPPORTED, "mlp_bias is set"},
	{"llama", "sliding_window", "8", RP_UNSUPPORTED, "sliding_window is set"},
	{"llama", "partial_rotary_factor", "0.5", RP_UNSUPPORTED, "partial_rotary_factor is 0.5"},
	{"llama", "quantization_config", "{\"bits\":4}", RP_UNSUPPORTED, "quantization_config is set"},
	{"llama", "rope_scaling", "{\"rope_type\":\"yarn\",\"factor\":4}", RP_UNSUPPORTED, "\"yarn\""},
	{"llama", "rope_scaling", "{\"rope_type\":\"linear\"}", RP_MODEL, "rope_scaling.factor is missing"},
	{"llama", "rope_scaling",
		"{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,\"original_max_position_embeddings\":64}",
		RP_MODEL, "high_freq_factor is not above"},
	{"llama", "rms_norm_eps", NULL, RP_MODEL, "rms_norm_eps is missing"},
	{"llama", "rms_norm_eps", "\"small\"", RP_FORMAT, "rms_norm_eps is no number"},
	{"llama", "rms_norm_eps", "-1", RP_FORMAT, "expected a positive number"},
	{"llama", "vocab_size", "319", RP_MODEL, "has 320 rows; the configuration gives a vocabulary of 319"},
	{"llama", "eos_token_id", "320", RP_MODEL, "names id 320"},
	{"llama", "eos_token_id", "[1, \"2\"]", RP_FORMAT, "eos_token_id holds something that is no id"},
	{"llama", "eos_token_id", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", RP_UNSUPPORTED, "more than 16 ids"},
	{"llama", "tie_word_embeddings", "false", RP_MODEL, "tensor lm_head.weight is missing"},
	{"llama", "tie_word_embeddings", "\"yes\"", RP_FORMAT, "neither true nor false"},
	{"qwen3_5", "model_type", "\"qwen3_5_moe\"", RP_UNSUPPORTED, "\"qwen3_5_moe\""},
	{"qwen3_5", "text_config.num_experts", "8", RP_UNSUPPORTED, "num_experts is set"},
	{"qwen3_5", "text_config.layer_types", "[\"linear_attention\"]", RP_MODEL, "list of 8 entries"},
	{"qwen3_5", "text_config.layer_types",
		"[\"linear\",\"linear\",\"linear\",\"full\",\"linear\",\"linear\",\"linear\",\"sliding_attention\"]", RP_UNSUPPORTED,
		"layer 7 is of type \"sliding_attention\""},
	{"qwen3_5", "text_config.layer_types",
		"[\"full\",\"linear\",\"linear\",\"full\",\"linear\",\"linear\",\"linear\",\"full\"]", RP_MODEL,
		"layers.0.self_attn.q_proj.weight is missing"},
	{"qwen3_5", "text_config.linear_num_key_heads", "4", RP_MODEL, "cannot share 4 key heads"},
	{"qwen3_5", "text_config.linear_conv_kernel_dim", "3", RP_MODEL, "conv1d.weight has shape [160, 1, 4]"},
	{"qwen3_5", "text_config.linear_value_head_dim", "32", RP_MODEL, "in_proj_qkv.weight"},
	{"qwen3_5", "text_config.rope_parameters.partial_rotary_factor", "1.5", RP_MODEL, "1.5"},
	{"qwen3_5", "text_config.rope_parameters.partial_rotary_factor", "0.01", RP_MODEL, "0 rotated values"},
	{"qwen3_5", "text_config.attn_output_gate", "false", RP_UNSUPPORTED, "attn_output_gate is false"},
};

static void wrong_configurations_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		const refusal *r = &refusals[i];
		variant v;
		variant_start(&v, r->model);
		variant_set(v.config, r->path, r->json);
		variant_write(&v);
		check_refused(v.folder, r->code, r->words);
		variant_end(&v);
	}
}

static void wrong_gguf_files_are_refused(void **state)
{
	static const refusal bad[] = {
		{"llama", "llama", "lamma", RP_UNSUPPORTED, "general.architecture \"lamma\""},
		{"qwen3_5", "qwen35", "qwen3x", RP_UNSUPPORTED, "it knows: llama, qwen3_5"},
		{"llama", "general.architecture", "general.architectury", RP_MODEL, "general.architecture is missing"},
		{"llama", "output_norm.weight", "output_form.weight", RP_MODEL, "tensor output_norm.weight is missing"},
		{"llama", "llama.block_count", "llama.black_count", RP_MODEL, "llama.block_count is missing"},
		{"qwen3_5", "ssm.group_count", "ssm.graup_count", RP_MODEL, "qwen35.ssm.group_count is missing"},
		{"qwen3_5", "blk.0.ssm_norm", "blk.0.ssm_form", RP_MODEL, "tensor blk.0.ssm_norm.weight is missing"},
	};
	char path[100];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		variant v;
		variant_start(&v, bad[i].model);
		variant_write_gguf(&v, bad[i].model, bad[i].path, bad[i].json);
		snprintf(path, sizeof path, "%s/model.gguf", v.folder);
		check_refused(path, bad[i].code, bad[i].words);
		variant_end(&v);
	}
}

static void tensors_without_a_place_are_refused(void **state)
{
	variant v;
	rp_model *m;
	rp_graph *g;
	rp_error err;

	(void)state;
	variant_start(&v, "llama");
	variant_add_tensor(&v, "model.visual.blocks.0.weight", "BF16", 4, 4); /* not of the text model */
	variant_add_tensor(&v, "mtp.layers.0.weight", "F32", 4, 0);
	variant_add_tensor(&v, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 8, 0);
	variant_write(&v);
	must(build(v.folder, &m, &g, &err), &err);
	rp_graph_free(g);
	rp_model_close(m);
	variant_add_tensor(&v, "model.layers.0.self_attn.q_proj.bias", "BF16", 64, 0);
	variant_write(&v);
	check_refused(v.folder, RP_UNSUPPORTED, "tensor model.layers.0.self_attn.q_proj.bias has no place");
	variant_end(&v);
}

static const rp_tensor *head_of(const char *folder, bool *is_embedding)
{
	static rp_tensor head;
	rp_model *m;
	rp_graph *g;
	rp_error err;

	must(build(folder, &m, &g, &err), &err);
	head = *g->post[g->n_post - 1].w[0];
	*is_embedding = g->post[g->n_post - 1].w[0] == g->pre[0].w[0];
	rp_graph_free(g);
	rp_model_close(m);
	return &head;
}

/* Tied and as dense as the embedding: the embedding. Untied, or stored otherwise: the tensor of its own. */
static void the_head_follows_the_rule(void **state)
{
	bool is_embedding;
	variant v;

	(void)state;
	variant_start(&v, "llama");
	variant_add_tensor(&v, "lm_head.weight", "BF16", 320, 64);
	variant_write(&v);
	head_of(v.folder, &is_embedding);
	assert_true(is_embedding);
	variant_set(v.config, "tie_word_embeddings", "false");
	variant_write(&v);
	head_of(v.folder, &is_embedding);
	assert_false(is_embedding);
	variant_end(&v);

	variant_start(&v, "llama");
	variant_add_tensor(&v, "lm_head.weight", "F16", 320, 64);
	variant_write(&v);
	assert_int_equal(head_of(v.folder, &is_embedding)->dtype, RP_F16);
	assert_false(is_embedding);
	variant_end(&v);
}

static void ends_of_text_come_from_every_file(void **state)
{
	static const char generation[] = "{\"eos_token_id\":[7,2,9]}";
	variant v;
	rp_model *m;
	rp_graph *g;
	rp_error err;

	(void)state;
	variant_start(&v, "qwen3_5");
	variant_set(v.config, "eos_token_id", "5");
	variant_write(&v);
	variant_write_file(&v, "generation_config.json", generation, strlen(generation));
	must(build(v.folder, &m, &g, &err), &err);
	static const uint32_t want[] = {2, 5, 7, 9}; /* text_config, config, generation_config */
	assert_int_equal(g->config.n_eos, 4);
	assert_memory_equal(g->config.eos, want, sizeof want);
	rp_graph_free(g);
	rp_model_close(m);
	variant_end(&v);
}

static const rp_op *op_labelled(const rp_graph *g, uint32_t layer, const char *label)
{
	for (uint32_t i = 0; i < g->layers[layer].n_ops; i++)
		if (strcmp(g->layers[layer].ops[i].label, label) == 0)
			return &g->layers[layer].ops[i];
	fail_msg("layer %u has no operation %s", layer, label);
	return NULL;
}

/* Frequencies Hugging Face transformers computes for the scaling of Llama 3.2 1B, at some of the 32 pairs. */
static void llama3_rope_scaling(void **state)
{
	static const struct {
		int pair;
		double freq;
	} want[] = {{0, 1}, {1, 0.663601279}, {8, 0.0376060307}, {12, 0.00729266508},
		{13, 0.00483942125}, {14, 0.00321144611}, {15, 0.00129054801}, {16, 0.000429556705},
		{17, 9.70828623e-05}, {18, 1.94616387e-05}, {24, 1.66196742e-06}, {31, 9.41830649e-08}};
	variant v;
	rp_model *m;
	rp_graph *g;
	rp_error err;

	(void)state;
	variant_start(&v, "llama");
	/* a shape with 64 values a head out of the same tensors: one head of 64, the two key heads of 16 do not fit, so make new ones */
	variant_set(v.config, "num_attention_heads", "1");
	variant_set(v.config, "num_key_value_heads", "1");
	variant_set(v.config, "head_dim", "64");
	variant_set(v.config, "num_hidden_layers", "1");
	variant_set(v.config, "rope_theta", "500000");
	variant_set(v.config, "rope_scaling",
		"{\"rope_type\":\"llama3\",\"factor\":32,\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}");
	cJSON_Delete(v.header);
	v.header = cJSON_CreateObject();
	v.n_data = 0;
	variant_add_tensor(&v, "model.embed_tokens.weight", "BF16", 320, 64);
	variant_add_tensor(&v, "model.norm.weight", "BF16", 64, 0);
	variant_add_tensor(&v, "model.layers.0.input_layernorm.weight", "BF16", 64, 0);
	variant_add_tensor(&v, "model.layers.0.post_attention_layernorm.weight", "BF16", 64, 0);
	variant_add_tensor(&v, "model.layers.0.self_attn.q_proj.weight", "BF16", 64, 64);
	variant_add_tensor(&v, "model.layers.0.self_attn.k_proj.weight", "BF16", 64, 64);
	variant_add_tensor(&v, "model.layers.0.self_attn.v_proj.weight", "BF16", 64, 64);
	variant_add_tensor(&v, "model.layers.0.self_attn.o_proj.weight", "BF16", 64, 64);
	variant_add_tensor(&v, "model.layers.0.mlp.gate_proj.weight", "BF16", 160, 64);
	variant_add_tensor(&v, "model.layers.0.mlp.up_proj.weight", "BF16", 160, 64);
	variant_add_tensor(&v, "model.layers.0.mlp.down_proj.weight", "BF16", 64, 160);
	variant_write(&v);
	must(build(v.folder, &m, &g, &err), &err);
	const rp_op *rope = op_labelled(g, 0, "q_rope");
	assert_int_equal(rope->rotary_dim, 64);
	assert_false(rope->interleaved);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		assert_true(fabs((double)rope->freqs[want[i].pair] / want[i].freq - 1) < 1e-6);
	rp_graph_free(g);
	rp_model_close(m);
	variant_end(&v);
}

static void layouts_differ_where_they_should(void **state)
{
	golden hf, gguf;

	(void)state;
	golden_open(&hf, "llama", NULL);
	golden_open(&gguf, "llama", "model.gguf");
	assert_string_equal(hf.graph->config.family, "llama");
	assert_false(op_labelled(hf.graph, 0, "q_rope")->interleaved);
	assert_true(op_labelled(gguf.graph, 0, "q_rope")->interleaved);
	golden_close(&hf);
	golden_close(&gguf);

	golden_open(&hf, "qwen3_5", NULL);
	golden_open(&gguf, "qwen3_5", "model.gguf");
	const rp_op *a = op_labelled(hf.graph, 0, "delta"), *b = op_labelled(gguf.graph, 0, "delta");
	assert_string_equal(hf.graph->config.family, "qwen3_5");
	assert_true(!a->head_mod && !a->neg_exp && b->head_mod && b->neg_exp);
	assert_true(op_labelled(hf.graph, 3, "q_norm")->plus_one && !op_labelled(gguf.graph, 3, "q_norm")->plus_one);
	assert_int_equal(op_labelled(hf.graph, 3, "q_rope")->rotary_dim, 8);
	assert_int_equal(op_labelled(gguf.graph, 3, "q_rope")->rotary_dim, 8);
	assert_int_equal(hf.graph->layers[7].kind, RP_LAYER_FULL);
	assert_int_equal(hf.graph->layers[7].kind_index, 1);
	assert_int_equal(hf.graph->layers[6].kind_index, 5);
	golden_close(&hf);
	golden_close(&gguf);
}

/* ---- RDRR: the same weights behind a manifest ---- */

static cJSON *manifest(const char *name)
{
	char path[100], *text;
	size_t n;
	rp_error err;

	snprintf(path, sizeof path, "tests/golden/%s/manifest-head.json", name);
	must(rp_read_file(path, 1 << 20, &text, &n, &err), &err);
	cJSON *m = cJSON_Parse(text);
	assert_non_null(m);
	free(text);
	return m;
}

static void rdrr_manifests_give_the_same_numbers(void **state)
{
	static const golden_limits limits[] = {{1e-4f, 0.99999, 1e-5}, {1e-3f, 0.99999, 1e-4}};
	static const char *const names[] = {"llama", "qwen3_5"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		golden g;
		variant v;
		rp_error err;
		cJSON *head = manifest(names[i]);

		golden_open(&g, names[i], NULL);
		rp_graph_free(g.graph);
		rp_model_close(g.model);
		variant_start(&v, names[i]);
		variant_write_rdrr(&v, head);
		must(build(v.folder, &g.model, &g.graph, &err), &err);
		assert_int_equal(rp_model_format(g.model), RP_FORMAT_RDRR);
		assert_string_equal(g.graph->config.family, names[i]);
		golden_check(&g, &(rp_engine_opts){.device = "cpu"}, &limits[i]);
		golden_close(&g);
		cJSON_Delete(head);
		variant_end(&v);
	}
}

static void wrong_manifests_are_refused(void **state)
{
	static const refusal bad[] = {
		{"qwen3_5", "modelType", "\"diffusion_gemma\"", RP_UNSUPPORTED, "modelType \"diffusion_gemma\""},
		{"qwen3_5", "architecture.linearNumValueHeads", "null", RP_UNSUPPORTED, "with these layers"},
		{"qwen3_5", "moeConfig", "{\"numExperts\":8,\"numExpertsPerToken\":2}", RP_UNSUPPORTED, "with these layers"},
		{"qwen3_5", "inference.attention.slidingWindow", "128", RP_UNSUPPORTED, "slidingWindow is set"},
		{"qwen3_5", "inference.attention.causal", "false", RP_UNSUPPORTED, "causal is false"},
		{"qwen3_5", "inference.ffn.activation", "\"gelu\"", RP_UNSUPPORTED, "activation is \"gelu\""},
		{"qwen3_5", "inference.rope.ropeScalingFactor", "2", RP_UNSUPPORTED, "ropeScalingFactor is 2"},
		{"qwen3_5", "inference.output.finalLogitSoftcapping", "30", RP_UNSUPPORTED, "finalLogitSoftcapping is set"},
		{"qwen3_5", "inference.layerPattern.layerTypes", "[]", RP_MODEL, "list of 8 entries"},
		{"qwen3_5", "architecture.headDim", "64", RP_MODEL, "self_attn.q_proj.weight has shape"},
		{"llama", "inference.attention.queryKeyNorm", "true", RP_UNSUPPORTED, "with these layers"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		cJSON *head = manifest(bad[i].model);
		variant v;
		variant_start(&v, bad[i].model);
		variant_set(head, bad[i].path, bad[i].json);
		variant_write_rdrr(&v, head);
		check_refused(v.folder, bad[i].code, bad[i].words);
		cJSON_Delete(head);
		variant_end(&v);
	}
}

static void operations_have_names(void **state)
{
	(void)state;
	for (int k = 0; k < RP_OP_COUNT; k++)
		assert_string_not_equal(rp_op_kind_name((rp_op_kind)k), "unknown");
	assert_string_equal(rp_op_kind_name(RP_OP_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_configurations_are_refused),
		cmocka_unit_test(wrong_gguf_files_are_refused),
		cmocka_unit_test(tensors_without_a_place_are_refused),
		cmocka_unit_test(the_head_follows_the_rule),
		cmocka_unit_test(ends_of_text_come_from_every_file),
		cmocka_unit_test(llama3_rope_scaling),
		cmocka_unit_test(layouts_differ_where_they_should),
		cmocka_unit_test(rdrr_manifests_give_the_same_numbers),
		cmocka_unit_test(wrong_manifests_are_refused),
		cmocka_unit_test(operations_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
