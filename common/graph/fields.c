/* Fields of a model's metadata, whatever its format. */
#include "graph/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_build_fail(rp_builder *b, rp_code code, const char *fmt, ...)
{
	va_list ap;

	if (b->code)
		return;
	va_start(ap, fmt);
	rp_vfail(b->err, code, fmt, ap);
	va_end(ap);
	b->code = rp_error_prefix(b->err, code, "%s: ", rp_model_path(b->model));
}

const cJSON *rp_json_at(const cJSON *root, const char *path)
{
	while (root) {
		const char *dot = strchr(path, '.');
		size_t n = dot ? (size_t)(dot - path) : strlen(path);
		const cJSON *child = NULL;

		if (cJSON_IsObject(root))
			for (child = root->child; child; child = child->next)
				if (strlen(child->string) == n && memcmp(child->string, path, n) == 0)
					break;
		if (!child || cJSON_IsNull(child))
			return NULL;
		if (!dot)
			return child;
		root = child;
		path = dot + 1;
	}
	return NULL;
}

/* A field as this model spells it: name for messages, and what was found. */
typedef struct found {
	char name[160];
	const cJSON *json; /* JSON formats: NULL when absent */
	bool exists;       /* this format has such a field at all */
} found;

static found look(rp_builder *b, rp_field f)
{
	found at = {.exists = true};
	const char *name = b->format == RP_FORMAT_GGUF ? f.gguf : b->format == RP_FORMAT_SAFETENSORS ? f.hf : f.rdrr;

	if (!name) {
		at.exists = false;
	} else if (b->format == RP_FORMAT_GGUF) {
		snprintf(at.name, sizeof at.name, "%s.%s", b->gguf_prefix, name);
	} else if (b->format == RP_FORMAT_SAFETENSORS) {
		snprintf(at.name, sizeof at.name, "config.json: %s", name);
		at.json = rp_json_at(b->hf, name);
	} else {
		snprintf(at.name, sizeof at.name, "%s", name);
		at.json = rp_json_at(b->rdrr, name);
	}
	return at;
}

/* RP_NOT_FOUND when absent; other codes are recorded. Integers only, or any number. */
static rp_code number(rp_builder *b, const found *at, bool integer, double *out)
{
	uint64_t u = 0;
	rp_code code;

	if (b->code)
		return b->code;
	if (!at->exists)
		return RP_NOT_FOUND;
	if (b->format == RP_FORMAT_GGUF) {
		code = integer ? rp_kv_u64(b->model, at->name, &u, b->err) : rp_kv_f64(b->model, at->name, out, b->err);
		if (!code && integer)
			*out = (double)u;
		if (code && code != RP_NOT_FOUND)
			b->code = code;
		return code;
	}
	if (!at->json)
		return RP_NOT_FOUND;
	if (!cJSON_IsNumber(at->json) || (integer && at->json->valuedouble != floor(at->json->valuedouble)))
		rp_build_fail(b, RP_FORMAT, "%s is no %s", at->name, integer ? "whole number" : "number");
	else
		*out = at->json->valuedouble;
	return b->code;
}

static void missing(rp_builder *b, const found *at)
{
	if (at->exists)
		rp_build_fail(b, RP_MODEL, "%s is missing; this architecture cannot be computed without it", at->name);
	else
		rp_build_fail(b, RP_INTERNAL, "a field this architecture needs has no name in this format");
}

bool rp_has(rp_builder *b, rp_field f)
{
	found at = look(b, f);
	rp_kv_type type;
	uint64_t n;
	double value;

	if (b->code || !at.exists)
		return false;
	if (b->format != RP_FORMAT_GGUF)
		return at.json != NULL;
	if (rp_kv_f64(b->model, at.name, &value, NULL) != RP_NOT_FOUND)
		return true;
	return rp_kv_array(b->model, at.name, &type, &n, NULL) != RP_NOT_FOUND;
}

static uint32_t u32(rp_builder *b, rp_field f, uint32_t min, uint32_t max, bool needed, uint32_t otherwise)
{
	found at = look(b, f);
	double value = 0;
	rp_code code = number(b, &at, true, &value);

	if (code == RP_NOT_FOUND && needed)
		missing(b, &at);
	if (code || b->code)
		return otherwise;
	if (value < min || value > max) {
		rp_build_fail(b, RP_FORMAT, "%s is %.0f; expected %u to %u", at.name, value, min, max);
		return otherwise;
	}
	return (uint32_t)value;
}

uint32_t rp_need_u32(rp_builder *b, rp_field f, uint32_t min, uint32_t max)
{
	return u32(b, f, min, max, true, min);
}

uint32_t rp_opt_u32(rp_builder *b, rp_field f, uint32_t min, uint32_t max, uint32_t otherwise)
{
	return u32(b, f, min, max, false, otherwise);
}

static float f32(rp_builder *b, rp_field f, bool needed, float otherwise)
{
	found at = look(b, f);
	double value = 0;
	rp_code code = number(b, &at, false, &value);

	if (code == RP_NOT_FOUND && needed)
		missing(b, &at);
	if (code || b->code)
		return otherwise;
	if (!((float)value > 0) || !isfinite((float)value)) {
		rp_build_fail(b, RP_FORMAT, "%s is %g; expected a positive number", at.name, value);
		return otherwise;
	}
	return (float)value;
}

float rp_need_f32(rp_builder *b, rp_field f)
{
	return f32(b, f, true, 1);
}

float rp_opt_f32(rp_builder *b, rp_field f, float otherwise)
{
	return f32(b, f, false, otherwise);
}

bool rp_opt_bool(rp_builder *b, rp_field f, bool otherwise)
{
	found at = look(b, f);
	bool value = otherwise;

	if (b->code || !at.exists)
		return otherwise;
	if (b->format == RP_FORMAT_GGUF) {
		rp_code code = rp_kv_bool(b->model, at.name, &value, b->err);
		if (code && code != RP_NOT_FOUND)
			b->code = code;
	} else if (at.json) {
		if (!cJSON_IsBool(at.json))
			rp_build_fail(b, RP_FORMAT, "%s is neither true nor false", at.name);
		value = cJSON_IsTrue(at.json);
	}
	return value;
}

void rp_expect_bool(rp_builder *b, rp_field f, bool want)
{
	if (rp_opt_bool(b, f, want) != want)
		rp_build_fail(b, RP_UNSUPPORTED, "%s is %s, which this build does not compute", look(b, f).name, want ? "false" : "true");
}

void rp_expect_f32(rp_builder *b, rp_field f, float want)
{
	found at = look(b, f);
	double value = 0;

	if (number(b, &at, false, &value) == RP_OK && fabs(value - (double)want) > 1e-6 * fabs((double)want))
		rp_build_fail(b, RP_UNSUPPORTED, "%s is %g, and this build computes only %g", at.name, value, (double)want);
}

void rp_expect_str(rp_builder *b, rp_field f, const char *want)
{
	found at = look(b, f);
	rp_str s = {0};
	char shown[80];

	if (b->code || !at.exists)
		return;
	if (b->format == RP_FORMAT_GGUF) {
		rp_code code = rp_kv_str(b->model, at.name, &s, b->err);
		if (code && code != RP_NOT_FOUND)
			b->code = code;
	} else if (at.json && !cJSON_IsString(at.json)) {
		rp_build_fail(b, RP_FORMAT, "%s is no string", at.name);
	} else if (at.json) {
		s = (rp_str){at.json->valuestring, strlen(at.json->valuestring)};
	}
	if (!b->code && s.s && (strlen(want) != s.n || memcmp(want, s.s, s.n) != 0))
		rp_build_fail(b, RP_UNSUPPORTED, "%s is \"%s\", and this build computes only \"%s\"", at.name,
			rp_show(shown, sizeof shown, s.s, s.n), want);
}

static bool json_is_nothing(const cJSON *j)
{
	return !j || cJSON_IsFalse(j) || (cJSON_IsNumber(j) && fpclassify(j->valuedouble) == FP_ZERO) ||
		(cJSON_IsString(j) && strcmp(j->valuestring, "none") == 0);
}

void rp_expect_absent(rp_builder *b, rp_field f)
{
	found at = look(b, f);
	double value = 0;
	bool nothing = true;

	if (b->code || !at.exists)
		return;
	if (b->format != RP_FORMAT_GGUF)
		nothing = json_is_nothing(at.json);
	else if (rp_kv_f64(b->model, at.name, &value, NULL) == RP_OK)
		nothing = fpclassify(value) == FP_ZERO;
	else
		nothing = !rp_has(b, f);
	if (!nothing)
		rp_build_fail(b, RP_UNSUPPORTED, "%s is set, which this build does not compute", at.name);
}

void rp_check_rdrr(rp_builder *b)
{
	static const char *const absent[] = {
		"inference.unsupported", "inference.attention.slidingWindow", "inference.attention.attnLogitSoftcapping",
		"inference.attention.attentionBias", "inference.attention.valueNorm", "inference.normalization.preFeedforwardNorm",
		"inference.normalization.postFeedforwardNorm", "inference.ffn.useDoubleWideMlp", "inference.ffn.swigluLimit",
		"inference.rope.ropeLocalTheta", "inference.rope.ropeScalingType", "inference.output.finalLogitSoftcapping",
		"inference.output.scaleEmbeddings", "inference.output.embeddingTranspose",
		"inference.output.embeddingPostprocessor", "inference.output.lmHeadBiasTensor", "architecture.globalHeadDim",
		"architecture.numGlobalKeyValueHeads", "architecture.numKvSharedLayers", "architecture.hiddenSizePerLayerInput",
		"moeConfig",
	};
	static const char *const one[] = {"inference.rope.ropeScalingFactor", "inference.output.embeddingScale",
		"inference.output.logitInputScale", "inference.layerPattern.residualBranchScale"};
	static const char *const yes[] = {"inference.attention.causal", "inference.ffn.gatedActivation"};
	static const char *const words[][2] = {{"inference.attention.queryKeyNormType", "rmsnorm"},
		{"inference.attention.queryKeyNormAxis", "head"}, {"inference.normalization.type", "rmsnorm"},
		{"inference.ffn.activation", "silu"}, {"architecture.linearNormMode", "shared"}};

	if (b->format != RP_FORMAT_RDRR)
		return;
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		rp_expect_absent(b, RP_FIELD(NULL, NULL, absent[i]));
	for (size_t i = 0; i < sizeof one / sizeof *one; i++)
		rp_expect_f32(b, RP_FIELD(NULL, NULL, one[i]), 1);
	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
		rp_expect_bool(b, RP_FIELD(NULL, NULL, yes[i]), true);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		rp_expect_str(b, RP_FIELD(NULL, NULL, words[i][0]), words[i][1]);
}
