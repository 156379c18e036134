/* Llama: pre-norm blocks of rotary grouped-query attention and a gated SiLU MLP. SmolLM2 is one.
 * Hugging Face files rotate (i, i + D/2); GGUF files have the rows of q and k reordered for pairs (2i, 2i + 1). */
#include "graph/build.h"

#include <math.h>
#include <string.h>

static bool claims_rdrr(const cJSON *m)
{
	return !rp_json_at(m, "architecture.linearNumValueHeads") &&
		!cJSON_IsTrue(rp_json_at(m, "inference.attention.queryKeyNorm")) &&
		!cJSON_IsTrue(rp_json_at(m, "inference.attention.attentionOutputGate")) && !rp_json_at(m, "moeConfig");
}

static void read_config(rp_builder *b)
{
	rp_config *c = b->config;
	const uint32_t big = 1 << 20;

	c->n_layers = rp_need_u32(b, RP_FIELD("block_count", "num_hidden_layers", "architecture.numLayers"), 1, RP_MAX_LAYERS);
	c->hidden = rp_need_u32(b, RP_FIELD("embedding_length", "hidden_size", "architecture.hiddenSize"), 1, big);
	c->ffn = rp_need_u32(b, RP_FIELD("feed_forward_length", "intermediate_size", "architecture.intermediateSize"), 1, big);
	c->n_heads = rp_need_u32(b, RP_FIELD("attention.head_count", "num_attention_heads", "architecture.numAttentionHeads"), 1, 4096);
	c->n_kv_heads = rp_opt_u32(b, RP_FIELD("attention.head_count_kv", "num_key_value_heads", "architecture.numKeyValueHeads"), 1,
		4096, c->n_heads);
	c->head_dim = rp_opt_u32(b, RP_FIELD("attention.key_length", "head_dim", "architecture.headDim"), 2, 4096,
		c->hidden / c->n_heads);
	c->max_ctx = rp_opt_u32(b, RP_FIELD("context_length", "max_position_embeddings", "architecture.maxSeqLen"), 1, INT32_MAX, 2048);
	c->rms_eps = rp_need_f32(b, RP_FIELD("attention.layer_norm_rms_epsilon", "rms_norm_eps", "inference.normalization.rmsNormEps"));
	c->norm_plus_one = rp_opt_bool(b, RP_FIELD(NULL, NULL, "inference.normalization.rmsNormWeightOffset"), false);
	c->rope_theta = rp_opt_f32(b, RP_FIELD("rope.freq_base", "rope_theta", "inference.rope.ropeTheta"), 10000);
	c->rope_theta = rp_opt_f32(b, RP_FIELD(NULL, "rope_parameters.rope_theta", NULL), c->rope_theta);
	c->rotary_dim = rp_opt_u32(b, RP_FIELD("rope.dimension_count", NULL, NULL), 2, 4096, c->head_dim);
	c->rope_interleaved = b->format == RP_FORMAT_GGUF ||
		rp_opt_bool(b, RP_FIELD(NULL, NULL, "inference.rope.ropeInterleaved"), false);
	if (c->n_heads % c->n_kv_heads != 0)
		rp_build_fail(b, RP_MODEL, "%u attention heads cannot share %u key heads evenly", c->n_heads, c->n_kv_heads);
	if (c->rotary_dim > c->head_dim || c->rotary_dim % 2 != 0)
		rp_build_fail(b, RP_MODEL, "%u rotated values do not fit a head of %u in pairs", c->rotary_dim, c->head_dim);
}

/* Llama-shaped files that ask for more than this family computes. */
static void refuse(rp_builder *b)
{
	rp_expect_str(b, RP_FIELD(NULL, "hidden_act", NULL), "silu");
	rp_expect_absent(b, RP_FIELD(NULL, "attention_bias", NULL));
	rp_expect_absent(b, RP_FIELD(NULL, "mlp_bias", NULL));
	rp_expect_absent(b, RP_FIELD(NULL, "quantization_config", NULL));
	rp_expect_absent(b, RP_FIELD("attention.sliding_window", "sliding_window", NULL));
	rp_expect_absent(b, RP_FIELD("expert_count", "num_local_experts", NULL));
	rp_expect_f32(b, RP_FIELD(NULL, "partial_rotary_factor", "inference.rope.partialRotaryFactor"), 1);
	rp_expect_f32(b, RP_FIELD("attention.value_length", NULL, NULL), (float)b->config->head_dim);
	rp_expect_f32(b, RP_FIELD("rope.scale_linear", NULL, NULL), 1);
	rp_expect_f32(b, RP_FIELD("logit_scale", NULL, NULL), 1);
	rp_expect_f32(b, RP_FIELD("residual_scale", NULL, NULL), 1);
	rp_expect_f32(b, RP_FIELD("embedding_scale", NULL, NULL), 1);
	rp_expect_f32(b, RP_FIELD("attention.scale", NULL, NULL), 1.0f / sqrtf((float)b->config->head_dim));
	rp_check_rdrr(b);
}

static void build(rp_builder *b)
{
	rp_config *c = b->config;

	read_config(b);
	refuse(b);
	const rp_tensor *embedding = rp_bind_embedding(b);
	rp_read_eos(b);
	const float *freqs = rp_rope_freqs(b);
	float dim = rp_opt_f32(b, RP_FIELD(NULL, NULL, "inference.attention.queryPreAttnScalar"), (float)c->head_dim);

	rp_emit_start(b, embedding);
	uint64_t d = c->hidden, qd = (uint64_t)c->n_heads * c->head_dim, kvd = (uint64_t)c->n_kv_heads * c->head_dim;
	uint16_t h = rp_slot(b, d), q = rp_slot(b, qd), k = rp_slot(b, kvd), v = rp_slot(b, kvd), o = rp_slot(b, qd);
	uint16_t gate = rp_slot(b, c->ffn), up = rp_slot(b, c->ffn);

	for (uint32_t i = 0; i < c->n_layers && !b->code; i++) {
		rp_emit_norm(b, "input_norm", h, RP_SLOT_X, rp_bind(b, RP_NAME("attn_norm.weight", "input_layernorm.weight"), d, 0),
			c->hidden);
		rp_emit(b, RP_OP_MATMUL, "q_proj", q, h, rp_bind(b, RP_NAME("attn_q.weight", "self_attn.q_proj.weight"), qd, d));
		rp_emit(b, RP_OP_MATMUL, "k_proj", k, h, rp_bind(b, RP_NAME("attn_k.weight", "self_attn.k_proj.weight"), kvd, d));
		rp_emit(b, RP_OP_MATMUL, "v_proj", v, h, rp_bind(b, RP_NAME("attn_v.weight", "self_attn.v_proj.weight"), kvd, d));
		rp_emit_rope(b, "q_rope", q, c->n_heads, freqs);
		rp_emit_rope(b, "k_rope", k, c->n_kv_heads, freqs);
		rp_emit_attention(b, o, q, k, v, 1.0f / sqrtf(dim));
		rp_emit_residual(b, "mixer", o, rp_bind(b, RP_NAME("attn_output.weight", "self_attn.o_proj.weight"), d, qd));
		rp_emit_mlp(b, RP_NAME("ffn_norm.weight", "post_attention_layernorm.weight"), h, gate, up);
		rp_end_layer(b, RP_LAYER_FULL);
	}
	rp_emit_finish(b, embedding, h);
}

const rp_family rp_family_llama = {"llama", "llama", {"llama"}, claims_rdrr, build};
