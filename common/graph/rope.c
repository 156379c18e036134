/* Rope frequencies: theta^(-2i / rotary_dim), and the ways published models stretch them. */
#include "graph/build.h"

#include <math.h>
#include <string.h>

/* Llama 3: long wavelengths are divided by factor, short ones kept, those between blended (config of Llama-3.1). */
static double llama3(double f, double factor, double low, double high, double original)
{
	double turns = original * f / 6.283185307179586; /* of this pair over the original context */

	if (turns < low)
		return f / factor;
	if (turns > high)
		return f;
	double smooth = (turns - low) / (high - low);
	return (1 - smooth) * f / factor + smooth * f;
}

static void scale_hf(rp_builder *b, double *freqs, uint32_t n)
{
	const char *at = rp_json_at(b->hf, "rope_scaling") ? "rope_scaling" : "rope_parameters";
	const cJSON *o = rp_json_at(b->hf, at), *type = rp_json_at(o, "rope_type");
	double v[4] = {1, 1, 4, 0};
	static const char *const names[] = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};

	if (!type)
		type = rp_json_at(o, "type");
	if (!o || !type || (cJSON_IsString(type) && strcmp(type->valuestring, "default") == 0))
		return;
	bool is_linear = cJSON_IsString(type) && strcmp(type->valuestring, "linear") == 0;
	bool is_llama3 = cJSON_IsString(type) && strcmp(type->valuestring, "llama3") == 0;
	if (!is_linear && !is_llama3) {
		rp_build_fail(b, RP_UNSUPPORTED, "config.json: %s asks for the rope type \"%s\"; this build computes default, linear, llama3",
			at, cJSON_IsString(type) ? type->valuestring : "(no string)");
		return;
	}
	for (size_t i = 0; i < (is_linear ? 1 : 4); i++) {
		const cJSON *j = rp_json_at(o, names[i]);
		if (!cJSON_IsNumber(j) || !(j->valuedouble > 0)) {
			rp_build_fail(b, RP_MODEL, "config.json: %s.%s is missing or no positive number", at, names[i]);
			return;
		}
		v[i] = j->valuedouble;
	}
	if (is_llama3 && !(v[2] > v[1]))
		rp_build_fail(b, RP_MODEL, "config.json: %s: high_freq_factor is not above low_freq_factor", at);
	for (uint32_t i = 0; i < n && !b->code; i++)
		freqs[i] = is_linear ? freqs[i] / v[0] : llama3(freqs[i], v[0], v[1], v[2], v[3]);
}

/* GGUF: linear scaling by key; llama-3 scaling arrives as a tensor of divisors. */
static void scale_gguf(rp_builder *b, double *freqs, float *divisors, uint32_t n)
{
	rp_field type = RP_FIELD("rope.scaling.type", NULL, NULL);
	double factor = (double)rp_opt_f32(b, RP_FIELD("rope.scaling.factor", NULL, NULL), 1);
	char key[64] = "llama.rope.scaling.type";
	rp_str s = {"none", 4};

	if (b->code)
		return;
	memcpy(stpcpy(key, b->gguf_prefix), ".rope.scaling.type", sizeof ".rope.scaling.type");
	if (rp_kv_str(b->model, key, &s, NULL) == RP_OK && s.n == 6 && memcmp(s.s, "linear", 6) == 0) {
		for (uint32_t i = 0; i < n; i++)
			freqs[i] /= factor;
	} else {
		rp_expect_str(b, type, "none");
	}
	if (b->code || !rp_model_find(b->model, "rope_freqs.weight"))
		return;
	const rp_tensor *t = rp_bind_top(b, "rope_freqs.weight", n, 0);
	if (!b->code)
		b->code = rp_tensor_f32(b->model, t, divisors, b->err);
	for (uint32_t i = 0; i < n && !b->code; i++) {
		if (!(divisors[i] > 0) || !isfinite(divisors[i]))
			rp_build_fail(b, RP_MODEL, "rope_freqs.weight: value %u is no positive number", i);
		else
			freqs[i] /= (double)divisors[i];
	}
}

const float *rp_rope_freqs(rp_builder *b)
{
	rp_config *c = b->config;
	uint32_t n = c->rotary_dim / 2;
	double *freqs = rp_arena_array(&b->graph->arena, n, sizeof *freqs);
	float *out = rp_arena_array(&b->graph->arena, n, sizeof *out);

	if (b->code)
		return NULL;
	if (!freqs || !out) {
		rp_build_fail(b, RP_NO_MEMORY, "no memory for the rope frequencies");
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		freqs[i] = pow((double)c->rope_theta, -2.0 * i / c->rotary_dim);
	rp_expect_f32(b, RP_FIELD(NULL, NULL, "inference.rope.ropeFrequencyBaseDim"), (float)c->rotary_dim);
	if (b->format == RP_FORMAT_SAFETENSORS)
		scale_hf(b, freqs, n);
	else if (b->format == RP_FORMAT_GGUF)
		scale_gguf(b, freqs, out, n);
	for (uint32_t i = 0; i < n; i++)
		out[i] = (float)freqs[i];
	return out;
}
