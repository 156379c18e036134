/* What GGUF files of both families may say beyond the plain case. Models of a few values, made here; each also becomes a seed
 * of fuzz_graph. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "make_model.h"

enum { D = 8, FFN = 12, VOCAB = 10, HEADS = 2, KV = 1, HEAD = 4 };
enum { U32 = 4, I32 = 5, BOOL = 7 }; /* GGUF's numbers of value types */

typedef struct made {
	mm_gguf g;
	char *folder, *path;
	rp_model *model;
	rp_graph *graph;
} made;

static void tensor(made *m, const char *name, uint64_t d0, uint64_t d1)
{
	float values[512];
	uint64_t dims[2] = {d0, d1}, n = d0 * (d1 ? d1 : 1);

	assert_true(n <= 512);
	mm_values(values, n, (uint32_t)strlen(name), 0.5f);
	mm_gguf_tensor(&m->g, name, d1 ? RP_F16 : RP_F32, d1 ? 2 : 1, dims, values);
}

static void layer_tensor(made *m, unsigned layer, const char *name, uint64_t d0, uint64_t d1)
{
	char full[64];

	snprintf(full, sizeof full, "blk.%u.%s", layer, name);
	tensor(m, full, d0, d1);
}

static void mlp(made *m, unsigned layer)
{
	layer_tensor(m, layer, "ffn_gate.weight", FFN, D);
	layer_tensor(m, layer, "ffn_up.weight", FFN, D);
	layer_tensor(m, layer, "ffn_down.weight", D, FFN);
}

static void start(made *m, const char *arch, uint32_t layers)
{
	char key[64];
	const struct {
		const char *key;
		uint32_t value;
	} keys[] = {{"block_count", layers}, {"context_length", 32}, {"embedding_length", D}, {"feed_forward_length", FFN},
		{"attention.head_count", HEADS}, {"attention.key_length", HEAD}, {"attention.value_length", HEAD}};

	*m = (made){0};
	mm_gguf_init(&m->g);
	mm_gguf_str(&m->g, "general.architecture", arch);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		snprintf(key, sizeof key, "%s.%s", arch, keys[i].key);
		mm_gguf_u32(&m->g, key, keys[i].value);
	}
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
	mm_gguf_f32(&m->g, key, 1e-5f);
	snprintf(key, sizeof key, "%s.rope.freq_base", arch);
	mm_gguf_f32(&m->g, key, 10000);
	tensor(m, "token_embd.weight", VOCAB, D);
	tensor(m, "output_norm.weight", D, 0);
}

static void llama(made *m)
{
	start(m, "llama", 1);
	mm_gguf_u32(&m->g, "llama.attention.head_count_kv", KV);
	layer_tensor(m, 0, "attn_norm.weight", D, 0);
	layer_tensor(m, 0, "ffn_norm.weight", D, 0);
	layer_tensor(m, 0, "attn_q.weight", HEADS * HEAD, D);
	layer_tensor(m, 0, "attn_k.weight", KV * HEAD, D);
	layer_tensor(m, 0, "attn_v.weight", KV * HEAD, D);
	layer_tensor(m, 0, "attn_output.weight", D, HEADS * HEAD);
	mlp(m, 0);
}

/* One linear and one full layer; 1 key head, 2 value heads of 4 in the delta rule. */
static void qwen(made *m, uint32_t layers)
{
	static const char *const linear[] = {"ssm_a", "ssm_dt.bias"};

	start(m, "qwen35", layers);
	mm_gguf_u32(&m->g, "qwen35.ssm.conv_kernel", 4);
	mm_gguf_u32(&m->g, "qwen35.ssm.state_size", 4);
	mm_gguf_u32(&m->g, "qwen35.ssm.group_count", 1);
	mm_gguf_u32(&m->g, "qwen35.ssm.time_step_rank", 2);
	mm_gguf_u32(&m->g, "qwen35.ssm.inner_size", 8);
	mm_gguf_u32(&m->g, "qwen35.rope.dimension_count", 2);
	for (unsigned i = 0; i < 2; i++) {
		layer_tensor(m, i, "attn_norm.weight", D, 0);
		layer_tensor(m, i, "post_attention_norm.weight", D, 0);
		mlp(m, i);
		layer_tensor(m, 0, linear[i], 2, 0);
	}
	layer_tensor(m, 0, "attn_qkv.weight", 16, D);
	layer_tensor(m, 0, "attn_gate.weight", 8, D);
	layer_tensor(m, 0, "ssm_alpha.weight", 2, D);
	layer_tensor(m, 0, "ssm_beta.weight", 2, D);
	layer_tensor(m, 0, "ssm_conv1d.weight", 16, 4);
	layer_tensor(m, 0, "ssm_norm.weight", 4, 0);
	layer_tensor(m, 0, "ssm_out.weight", D, 8);
	layer_tensor(m, 1, "attn_q.weight", 2 * HEADS * HEAD, D);
	layer_tensor(m, 1, "attn_k.weight", KV * HEAD, D);
	layer_tensor(m, 1, "attn_v.weight", KV * HEAD, D);
	layer_tensor(m, 1, "attn_q_norm.weight", HEAD, 0);
	layer_tensor(m, 1, "attn_k_norm.weight", HEAD, 0);
	layer_tensor(m, 1, "attn_output.weight", D, HEADS * HEAD);
}

static rp_code build(made *m, rp_error *err)
{
	rp_buf b;

	mm_gguf_build(&m->g, &b);
	mm_seed(b.data, b.len);
	m->folder = mm_temp_folder();
	mm_write(m->folder, "model.gguf", b.data, b.len);
	m->path = mm_path(m->folder, "model.gguf");
	must(rp_model_open(m->path, &m->model, err), err);
	rp_buf_free(&b);
	return rp_graph_build(m->model, &m->graph, err);
}

static void end(made *m)
{
	rp_graph_free(m->graph);
	rp_model_close(m->model);
	mm_gguf_free(&m->g);
	mm_remove_folder(m->folder);
	free(m->path);
}

static void accepted(made *m)
{
	rp_error err;

	must(build(m, &err), &err);
}

static void refused(made *m, rp_code want, const char *words)
{
	rp_error err = {0};

	assert_int_equal(build(m, &err), want);
	if (!strstr(err.msg, words))
		fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
	end(m);
}

static const float *freqs(const made *m)
{
	const rp_layer *layer = &m->graph->layers[m->graph->n_layers - 1];

	for (uint32_t i = 0; i < layer->n_ops; i++)
		if (layer->ops[i].kind == RP_OP_ROPE)
			return layer->ops[i].freqs;
	fail_msg("no rope");
	return NULL;
}

/* The model computes something: finite logits that differ. */
static void runs(const made *m)
{
	static const uint32_t ids[] = {1, 5, 9};
	rp_engine *e;
	rp_seq *s;
	rp_output out;
	rp_error err;

	must(rp_engine_open(m->graph, &(rp_engine_opts){.device = "cpu"}, &e, &err), &err);
	must(rp_seq_new(e, &s, &err), &err);
	must(rp_forward(e, &(rp_segment){.seq = s, .ids = ids, .n = 3, .want = RP_WANT_LAST}, 1, &out, &err), &err);
	for (size_t i = 0; i < out.width; i++)
		assert_true(isfinite(out.logits[i]));
	assert_true(fabs((double)out.logits[0] - (double)out.logits[1]) > 1e-6);
	rp_seq_free(s);
	rp_engine_close(e);
}

static void near(float got, double want)
{
	assert_true(fabs((double)got / want - 1) < 1e-6);
}

static void plain_models(void **state)
{
	made m;

	(void)state;
	llama(&m);
	accepted(&m);
	assert_int_equal(m.graph->config.vocab, VOCAB);
	assert_int_equal(m.graph->config.n_eos, 0);
	assert_ptr_equal(m.graph->post[1].w[0], m.graph->pre[0].w[0]); /* no output.weight: the embedding */
	near(freqs(&m)[0], 1);
	near(freqs(&m)[1], 0.01);
	runs(&m);
	end(&m);

	qwen(&m, 2);
	mm_gguf_u32(&m.g, "qwen35.attention.head_count_kv", KV);
	mm_gguf_u32(&m.g, "qwen35.full_attention_interval", 2);
	tensor(&m, "output.weight", VOCAB, D);
	accepted(&m);
	assert_int_equal(m.graph->layers[0].kind, RP_LAYER_LINEAR);
	assert_int_equal(m.graph->layers[1].kind, RP_LAYER_FULL);
	assert_string_equal(m.graph->post[1].w[0]->name, "output.weight");
	runs(&m);
	end(&m);
}

static void counts_a_layer(void **state)
{
	static const int32_t kv[] = {0, KV}, uneven[] = {KV, 2}, none[] = {0, 0};
	static const uint8_t recurrent[] = {1, 0};
	made m;

	(void)state;
	qwen(&m, 2);
	mm_gguf_array(&m.g, "qwen35.attention.head_count_kv", I32, 2, kv, sizeof kv);
	mm_gguf_array(&m.g, "qwen35.attention.recurrent_layers", BOOL, 2, recurrent, sizeof recurrent);
	accepted(&m);
	assert_int_equal(m.graph->config.n_kv_heads, KV);
	assert_int_equal(m.graph->layers[0].kind, RP_LAYER_LINEAR);
	assert_int_equal(m.graph->layers[1].kind, RP_LAYER_FULL);
	runs(&m);
	end(&m);

	qwen(&m, 2);
	mm_gguf_array(&m.g, "qwen35.attention.head_count_kv", I32, 2, uneven, sizeof uneven);
	refused(&m, RP_UNSUPPORTED, "layers differ");
	qwen(&m, 2);
	mm_gguf_array(&m.g, "qwen35.attention.head_count_kv", I32, 2, none, sizeof none);
	refused(&m, RP_MODEL, "no layer has key heads");
	qwen(&m, 2);
	mm_gguf_u32(&m.g, "qwen35.attention.head_count_kv", KV);
	mm_gguf_array(&m.g, "qwen35.attention.recurrent_layers", BOOL, 1, recurrent, 1);
	refused(&m, RP_FORMAT, "recurrent_layers");
}

/* Draft layers are counted in block_count, stand behind the others and never run. */
static void draft_layers_are_skipped(void **state)
{
	made m;

	(void)state;
	qwen(&m, 3);
	mm_gguf_u32(&m.g, "qwen35.attention.head_count_kv", KV);
	mm_gguf_u32(&m.g, "qwen35.full_attention_interval", 2);
	mm_gguf_u32(&m.g, "qwen35.nextn_predict_layers", 1);
	layer_tensor(&m, 2, "nextn.eh_proj.weight", D, 16);
	layer_tensor(&m, 2, "attn_q.weight", D, D);
	accepted(&m);
	assert_int_equal(m.graph->n_layers, 2);
	runs(&m);
	end(&m);

	qwen(&m, 2);
	mm_gguf_u32(&m.g, "qwen35.attention.head_count_kv", KV);
	mm_gguf_u32(&m.g, "qwen35.nextn_predict_layers", 2);
	refused(&m, RP_MODEL, "draft layers");
}

static void rope_scaling(void **state)
{
	static const float divisors[] = {1, 4}, broken[] = {1, 0};
	static const uint64_t dims[] = {2};
	made m;

	(void)state;
	llama(&m);
	mm_gguf_tensor(&m.g, "rope_freqs.weight", RP_F32, 1, dims, divisors);
	accepted(&m);
	near(freqs(&m)[0], 1);
	near(freqs(&m)[1], 0.01 / 4);
	end(&m);

	llama(&m);
	mm_gguf_str(&m.g, "llama.rope.scaling.type", "linear");
	mm_gguf_f32(&m.g, "llama.rope.scaling.factor", 8);
	accepted(&m);
	near(freqs(&m)[0], 1.0 / 8);
	near(freqs(&m)[1], 0.01 / 8);
	end(&m);

	llama(&m);
	mm_gguf_str(&m.g, "llama.rope.scaling.type", "yarn");
	refused(&m, RP_UNSUPPORTED, "llama.rope.scaling.type is \"yarn\"");
	llama(&m);
	mm_gguf_tensor(&m.g, "rope_freqs.weight", RP_F32, 1, dims, broken);
	refused(&m, RP_MODEL, "rope_freqs.weight: value 1");
}

static void ends_of_text(void **state)
{
	static const char *const tokens[VOCAB] = {"a", "b", "<|im_end|>", "c", "<|endoftext|>", "d", "<|eot_id|>", "e", "f", "g"};
	static const uint32_t want[] = {7, 3, 2, 4, 6};
	made m;

	(void)state;
	llama(&m);
	mm_gguf_u32(&m.g, "tokenizer.ggml.eos_token_id", 7);
	mm_gguf_u32(&m.g, "tokenizer.ggml.eot_token_id", 3);
	mm_gguf_strings(&m.g, "tokenizer.ggml.tokens", tokens, VOCAB);
	accepted(&m);
	assert_int_equal(m.graph->config.n_eos, 5);
	assert_memory_equal(m.graph->config.eos, want, sizeof want);
	end(&m);

	llama(&m);
	mm_gguf_u32(&m.g, "tokenizer.ggml.eos_token_id", VOCAB);
	refused(&m, RP_MODEL, "names id 10");
}

static void features_this_build_lacks(void **state)
{
	made m;

	(void)state;
	llama(&m);
	mm_gguf_u32(&m.g, "llama.expert_count", 8);
	refused(&m, RP_UNSUPPORTED, "llama.expert_count is set");
	llama(&m);
	mm_gguf_u32(&m.g, "llama.attention.sliding_window", 16);
	refused(&m, RP_UNSUPPORTED, "llama.attention.sliding_window is set");
	llama(&m);
	mm_gguf_f32(&m.g, "llama.logit_scale", 0.5f);
	refused(&m, RP_UNSUPPORTED, "llama.logit_scale is 0.5");
	llama(&m);
	layer_tensor(&m, 0, "attn_q.bias", HEADS * HEAD, 0);
	refused(&m, RP_UNSUPPORTED, "tensor blk.0.attn_q.bias has no place");
	llama(&m);
	mm_gguf_u32(&m.g, "llama.vocab_size", VOCAB + 1);
	refused(&m, RP_MODEL, "a vocabulary of 11");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_models),
		cmocka_unit_test(counts_a_layer),
		cmocka_unit_test(draft_layers_are_skipped),
		cmocka_unit_test(rope_scaling),
		cmocka_unit_test(ends_of_text),
		cmocka_unit_test(features_this_build_lacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
