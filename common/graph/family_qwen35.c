/* Qwen 3.5 (dense): blocks of gated delta rule, every fourth one gated full attention, a gated SiLU MLP in each.
 * Hugging Face files store norms zero-centred, value heads grouped by key head and A as its log; GGUF files have the 1 added,
 * value heads interleaved over key heads, and A as -exp(A_log). */
#include "graph/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool claims_rdrr(const cJSON *m)
{
	return rp_json_at(m, "architecture.linearNumValueHeads") && cJSON_IsTrue(rp_json_at(m, "inference.attention.queryKeyNorm")) &&
		cJSON_IsTrue(rp_json_at(m, "inference.attention.attentionOutputGate")) && !rp_json_at(m, "moeConfig");
}

static void read_attention(rp_builder *b)
{
	rp_config *c = b->config;
	rp_field kv = RP_FIELD("attention.head_count_kv", "num_key_value_heads", "architecture.numKeyValueHeads");
	rp_kv_type type;
	uint64_t n;
	float part = 1;

	c->n_heads = rp_need_u32(b, RP_FIELD("attention.head_count", "num_attention_heads", "architecture.numAttentionHeads"), 1, 4096);
	if (b->format == RP_FORMAT_GGUF && rp_kv_array(b->model, "qwen35.attention.head_count_kv", &type, &n, NULL) == RP_OK) {
		for (uint64_t i = 0; i < n && !b->code; i++) { /* a count a layer, 0 where a layer has none */
			int64_t count = 0;
			b->code = rp_kv_array_i64(b->model, "qwen35.attention.head_count_kv", i, &count, b->err);
			if (count < 0 || count > 4096 || (count > 0 && c->n_kv_heads > 0 && count != c->n_kv_heads))
				rp_build_fail(b, RP_UNSUPPORTED, "qwen35.attention.head_count_kv: layers differ in their number of key heads");
			else if (count > 0)
				c->n_kv_heads = (uint32_t)count;
		}
		if (c->n_kv_heads == 0)
			rp_build_fail(b, RP_MODEL, "qwen35.attention.head_count_kv: no layer has key heads");
	} else {
		c->n_kv_heads = rp_need_u32(b, kv, 1, 4096);
	}
	c->head_dim = rp_need_u32(b, RP_FIELD("attention.key_length", "head_dim", "architecture.headDim"), 2, 4096);
	rp_expect_f32(b, RP_FIELD("attention.value_length", NULL, NULL), (float)c->head_dim);
	c->rope_theta = rp_opt_f32(b, RP_FIELD("rope.freq_base", "rope_theta", "inference.rope.ropeTheta"), 1e7f);
	c->rope_theta = rp_opt_f32(b, RP_FIELD(NULL, "rope_parameters.rope_theta", NULL), c->rope_theta);
	part = rp_opt_f32(b, RP_FIELD(NULL, "partial_rotary_factor", "inference.rope.partialRotaryFactor"), b->hf ? 0.25f : 1);
	part = rp_opt_f32(b, RP_FIELD(NULL, "rope_parameters.partial_rotary_factor", NULL), part);
	if (part > 1)
		rp_build_fail(b, RP_MODEL, "the rotated part of a head is %g, more than all of it", (double)part);
	c->rotary_dim = b->code ? 2 : (uint32_t)((float)c->head_dim * part);
	c->rotary_dim = rp_opt_u32(b, RP_FIELD("rope.dimension_count", NULL, NULL), 2, 4096, c->rotary_dim);
	if (c->n_kv_heads > 0 && c->n_heads % c->n_kv_heads != 0)
		rp_build_fail(b, RP_MODEL, "%u attention heads cannot share %u key heads evenly", c->n_heads, c->n_kv_heads);
	if (c->rotary_dim > c->head_dim || c->rotary_dim % 2 != 0 || c->rotary_dim == 0)
		rp_build_fail(b, RP_MODEL, "%u rotated values do not fit a head of %u in pairs", c->rotary_dim, c->head_dim);
}

static void read_linear(rp_builder *b)
{
	rp_config *c = b->config;

	c->lin_k_heads = rp_need_u32(b, RP_FIELD("ssm.group_count", "linear_num_key_heads", "architecture.linearNumKeyHeads"), 1, 4096);
	c->lin_v_heads = rp_need_u32(b, RP_FIELD("ssm.time_step_rank", "linear_num_value_heads", "architecture.linearNumValueHeads"), 1,
		4096);
	c->lin_k_dim = rp_need_u32(b, RP_FIELD("ssm.state_size", "linear_key_head_dim", "architecture.linearKeyHeadDim"), 1, 4096);
	c->conv_kernel = rp_need_u32(b, RP_FIELD("ssm.conv_kernel", "linear_conv_kernel_dim", "architecture.linearConvKernelDim"), 2, 16);
	if (b->format == RP_FORMAT_GGUF) {
		uint32_t inner = rp_need_u32(b, RP_FIELD("ssm.inner_size", NULL, NULL), 1, 1 << 24);
		c->lin_v_dim = inner / c->lin_v_heads;
		if (inner % c->lin_v_heads != 0)
			rp_build_fail(b, RP_MODEL, "qwen35.ssm.inner_size %u is no multiple of ssm.time_step_rank %u", inner, c->lin_v_heads);
	} else {
		c->lin_v_dim = rp_need_u32(b, RP_FIELD(NULL, "linear_value_head_dim", "architecture.linearValueHeadDim"), 1, 4096);
	}
	if (c->lin_v_heads % c->lin_k_heads != 0)
		rp_build_fail(b, RP_MODEL, "%u value heads of the delta rule cannot share %u key heads evenly", c->lin_v_heads,
			c->lin_k_heads);
	c->lin_head_mod = c->lin_a_neg_exp = b->format == RP_FORMAT_GGUF;
}

static rp_layer_kind kind_by_name(rp_builder *b, const cJSON *name, uint32_t layer)
{
	static const char *const full[] = {"full_attention", "full", "global", "attention"};
	static const char *const linear[] = {"linear_attention", "linear", "gated_delta", "gated_delta_net"};
	const char *s = cJSON_IsString(name) ? name->valuestring : "(no string)";

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(s, full[i]) == 0)
			return RP_LAYER_FULL;
		if (strcmp(s, linear[i]) == 0)
			return RP_LAYER_LINEAR;
	}
	rp_build_fail(b, RP_UNSUPPORTED, "layer %u is of type \"%s\"; this family has full_attention and linear_attention", layer, s);
	return RP_LAYER_FULL;
}

/* A list of types, or every n-th layer full. GGUF may list which layers are recurrent. */
static void read_layer_kinds(rp_builder *b)
{
	rp_config *c = b->config;
	const cJSON *list = b->hf ? rp_json_at(b->hf, "layer_types") : rp_json_at(b->rdrr, "inference.layerPattern.layerTypes");
	uint64_t n = 0;
	rp_kv_type type;

	if (list) {
		if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != (int)c->n_layers) {
			rp_build_fail(b, RP_MODEL, "the list of layer types is no list of %u entries, one a layer", c->n_layers);
			return;
		}
		const cJSON *item = list->child;
		for (uint32_t i = 0; i < c->n_layers; i++, item = item->next)
			c->layer_kind[i] = (uint8_t)kind_by_name(b, item, i);
		return;
	}
	if (b->format == RP_FORMAT_GGUF && rp_kv_array(b->model, "qwen35.attention.recurrent_layers", &type, &n, NULL) == RP_OK) {
		for (uint32_t i = 0; i < c->n_layers && !b->code; i++) {
			int64_t recurrent = 0;
			b->code = rp_kv_array_i64(b->model, "qwen35.attention.recurrent_layers", i, &recurrent, b->err);
			c->layer_kind[i] = recurrent ? RP_LAYER_LINEAR : RP_LAYER_FULL;
		}
		return;
	}
	uint32_t every = rp_opt_u32(b, RP_FIELD("full_attention_interval", "full_attention_interval", "inference.layerPattern.period"), 1,
		RP_MAX_LAYERS, 4);
	uint32_t offset = b->rdrr ? rp_opt_u32(b, RP_FIELD(NULL, NULL, "inference.layerPattern.offset"), 0, RP_MAX_LAYERS, 0) : every - 1;
	for (uint32_t i = 0; i < c->n_layers; i++)
		c->layer_kind[i] = i % every == offset % every ? RP_LAYER_FULL : RP_LAYER_LINEAR;
}

static void read_config(rp_builder *b)
{
	rp_config *c = b->config;
	const uint32_t big = 1 << 20;

	c->n_layers = rp_need_u32(b, RP_FIELD("block_count", "num_hidden_layers", "architecture.numLayers"), 1, RP_MAX_LAYERS);
	uint32_t draft = rp_opt_u32(b, RP_FIELD("nextn_predict_layers", NULL, NULL), 0, RP_MAX_LAYERS, 0);
	if (draft >= c->n_layers)
		rp_build_fail(b, RP_MODEL, "all %u layers are draft layers (nextn_predict_layers %u)", c->n_layers, draft);
	else
		c->n_layers -= draft;
	c->hidden = rp_need_u32(b, RP_FIELD("embedding_length", "hidden_size", "architecture.hiddenSize"), 1, big);
	c->ffn = rp_need_u32(b, RP_FIELD("feed_forward_length", "intermediate_size", "architecture.intermediateSize"), 1, big);
	c->max_ctx = rp_opt_u32(b, RP_FIELD("context_length", "max_position_embeddings", "architecture.maxSeqLen"), 1, INT32_MAX, 4096);
	c->rms_eps = rp_need_f32(b, RP_FIELD("attention.layer_norm_rms_epsilon", "rms_norm_eps", "inference.normalization.rmsNormEps"));
	c->norm_plus_one = rp_opt_bool(b, RP_FIELD(NULL, NULL, "inference.normalization.rmsNormWeightOffset"), b->hf != NULL);
	read_attention(b);
	read_linear(b);
	read_layer_kinds(b);
	rp_expect_str(b, RP_FIELD(NULL, "hidden_act", NULL), "silu");
	rp_expect_absent(b, RP_FIELD(NULL, "attention_bias", NULL));
	rp_expect_absent(b, RP_FIELD(NULL, "quantization_config", NULL));
	rp_expect_absent(b, RP_FIELD("expert_count", "num_experts", NULL));
	rp_expect_absent(b, RP_FIELD(NULL, NULL, "inference.rope.ropeInterleaved"));
	rp_expect_bool(b, RP_FIELD(NULL, NULL, "inference.attention.attentionOutputGate"), true);
	rp_expect_bool(b, RP_FIELD(NULL, "attn_output_gate", NULL), true);
	rp_check_rdrr(b);
}

typedef struct slots {
	uint16_t h, gate, up;       /* every layer */
	uint16_t qg, q, g, k, v, o; /* full attention; o: its output */
	uint16_t u, y, z, a, b, m;  /* delta rule; m: what it reads from its memory */
} slots;

static slots make_slots(rp_builder *b)
{
	const rp_config *c = b->config;
	uint64_t qd = (uint64_t)c->n_heads * c->head_dim, kvd = (uint64_t)c->n_kv_heads * c->head_dim;
	uint64_t kd = (uint64_t)c->lin_k_heads * c->lin_k_dim, vd = (uint64_t)c->lin_v_heads * c->lin_v_dim;

	slots s = {0};

	s.h = rp_slot(b, c->hidden);
	s.gate = rp_slot(b, c->ffn);
	s.up = rp_slot(b, c->ffn);
	s.qg = rp_slot(b, 2 * qd);
	s.q = rp_slot(b, qd);
	s.g = rp_slot(b, qd);
	s.k = rp_slot(b, kvd);
	s.v = rp_slot(b, kvd);
	s.o = rp_slot(b, qd);
	s.u = rp_slot(b, 2 * kd + vd);
	s.y = rp_slot(b, 2 * kd + vd);
	s.z = rp_slot(b, vd);
	s.a = rp_slot(b, c->lin_v_heads);
	s.b = rp_slot(b, c->lin_v_heads);
	s.m = rp_slot(b, vd);
	return s;
}

static void emit_full(rp_builder *b, slots s, const float *freqs, float scale)
{
	const rp_config *c = b->config;
	uint64_t d = c->hidden, qd = (uint64_t)c->n_heads * c->head_dim, kvd = (uint64_t)c->n_kv_heads * c->head_dim;

	rp_emit(b, RP_OP_MATMUL, "q_proj", s.qg, s.h, rp_bind(b, RP_NAME("attn_q.weight", "self_attn.q_proj.weight"), 2 * qd, d));
	rp_emit(b, RP_OP_MATMUL, "k_proj", s.k, s.h, rp_bind(b, RP_NAME("attn_k.weight", "self_attn.k_proj.weight"), kvd, d));
	rp_emit(b, RP_OP_MATMUL, "v_proj", s.v, s.h, rp_bind(b, RP_NAME("attn_v.weight", "self_attn.v_proj.weight"), kvd, d));
	rp_op *op = rp_emit(b, RP_OP_SPLIT_HEADS, "q_split", s.q, s.qg, NULL);
	op->out1 = s.g;
	op->heads = c->n_heads;
	op->head_dim = c->head_dim;
	rp_emit_norm(b, "q_norm", s.q, s.q, rp_bind(b, RP_NAME("attn_q_norm.weight", "self_attn.q_norm.weight"), c->head_dim, 0),
		c->head_dim);
	rp_emit_norm(b, "k_norm", s.k, s.k, rp_bind(b, RP_NAME("attn_k_norm.weight", "self_attn.k_norm.weight"), c->head_dim, 0),
		c->head_dim);
	rp_emit_rope(b, "q_rope", s.q, c->n_heads, freqs);
	rp_emit_rope(b, "k_rope", s.k, c->n_kv_heads, freqs);
	rp_emit_attention(b, s.o, s.q, s.k, s.v, scale);
	op = rp_emit(b, RP_OP_SIGMOID_MUL, "output_gate", s.o, s.o, NULL);
	op->n_in = 2;
	op->in[1] = s.g;
	rp_emit_residual(b, "mixer", s.o, rp_bind(b, RP_NAME("attn_output.weight", "self_attn.o_proj.weight"), d, qd));
}

static void emit_delta(rp_builder *b, slots s)
{
	const rp_config *c = b->config;
	rp_op *op = rp_emit(b, RP_OP_DELTA, "delta", s.m, s.y,
		rp_bind(b, RP_NAME("ssm_a", "linear_attn.A_log"), c->lin_v_heads, 0));

	op->w[1] = rp_bind(b, RP_NAME("ssm_dt.bias", "linear_attn.dt_bias"), c->lin_v_heads, 0);
	op->n_in = 3;
	op->in[1] = s.a;
	op->in[2] = s.b;
	op->heads = c->lin_v_heads;
	op->kv_heads = c->lin_k_heads;
	op->head_dim = c->lin_k_dim;
	op->group = c->lin_v_dim;
	op->eps = 1e-6f;
	op->head_mod = c->lin_head_mod;
	op->neg_exp = c->lin_a_neg_exp;
}

static void emit_linear(rp_builder *b, slots s)
{
	const rp_config *c = b->config;
	uint64_t d = c->hidden, vd = (uint64_t)c->lin_v_heads * c->lin_v_dim, u = 2 * (uint64_t)c->lin_k_heads * c->lin_k_dim + vd;

	rp_emit(b, RP_OP_MATMUL, "in_proj_qkv", s.u, s.h, rp_bind(b, RP_NAME("attn_qkv.weight", "linear_attn.in_proj_qkv.weight"), u, d));
	rp_emit(b, RP_OP_MATMUL, "in_proj_z", s.z, s.h, rp_bind(b, RP_NAME("attn_gate.weight", "linear_attn.in_proj_z.weight"), vd, d));
	rp_emit(b, RP_OP_MATMUL, "in_proj_a", s.a, s.h,
		rp_bind(b, RP_NAME("ssm_alpha.weight", "linear_attn.in_proj_a.weight"), c->lin_v_heads, d));
	rp_emit(b, RP_OP_MATMUL, "in_proj_b", s.b, s.h,
		rp_bind(b, RP_NAME("ssm_beta.weight", "linear_attn.in_proj_b.weight"), c->lin_v_heads, d));
	rp_op *op = rp_emit(b, RP_OP_CONV, "conv", s.y, s.u,
		rp_bind(b, RP_NAME("ssm_conv1d.weight", "linear_attn.conv1d.weight"), u, c->conv_kernel));
	op->kernel = c->conv_kernel;
	emit_delta(b, s);
	op = rp_emit(b, RP_OP_GATED_NORM, "gated_norm", s.m, s.m,
		rp_bind(b, RP_NAME("ssm_norm.weight", "linear_attn.norm.weight"), c->lin_v_dim, 0));
	op->n_in = 2;
	op->in[1] = s.z;
	op->group = c->lin_v_dim;
	op->eps = c->rms_eps;
	rp_emit_residual(b, "mixer", s.m, rp_bind(b, RP_NAME("ssm_out.weight", "linear_attn.out_proj.weight"), d, vd));
}

static void build(rp_builder *b)
{
	rp_config *c = b->config;

	read_config(b);
	const rp_tensor *embedding = rp_bind_embedding(b);
	rp_read_eos(b);
	const float *freqs = rp_rope_freqs(b);
	float dim = rp_opt_f32(b, RP_FIELD(NULL, NULL, "inference.attention.queryPreAttnScalar"), (float)c->head_dim);

	rp_emit_start(b, embedding);
	slots s = make_slots(b);
	for (uint32_t i = 0; i < c->n_layers && !b->code; i++) {
		rp_layer_kind kind = (rp_layer_kind)c->layer_kind[i];
		rp_emit_norm(b, "input_norm", s.h, RP_SLOT_X, rp_bind(b, RP_NAME("attn_norm.weight", "input_layernorm.weight"), c->hidden, 0),
			c->hidden);
		if (kind == RP_LAYER_FULL)
			emit_full(b, s, freqs, 1.0f / sqrtf(dim));
		else
			emit_linear(b, s);
		rp_emit_mlp(b, RP_NAME("post_attention_norm.weight", "post_attention_layernorm.weight"), s.h, s.gate, s.up);
		rp_end_layer(b, kind);
	}
	rp_emit_finish(b, embedding, s.h);
}

const rp_family rp_family_qwen35 = {"qwen3_5", "qwen35", {"qwen3_5", "qwen3_5_text"}, claims_rdrr, build};
