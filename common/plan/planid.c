/* The contract of two stages. */
#include "plan/planid.h"

#include "model/json.h"
#include "plan/stage.h"
#include "sign/sign.h"

#include <stdio.h>
#include <string.h>

/* ---- the contract ---- */
static cJSON *contract(const char *type, const char *shape, unsigned rank, const char *dtype)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "type", type);
	cJSON_AddNumberToObject(o, "rank", rank);
	cJSON_AddStringToObject(o, "shapeDescription", shape);
	cJSON_AddStringToObject(o, "dtype", dtype);
	return o;
}

static cJSON *activations(const rp_planid *p)
{
	cJSON *o = contract("activation-tensor", "[batchSize, seqLen, hiddenSize]", 3, p->f16 ? "f16" : "f32");
	cJSON_AddNumberToObject(o, "hiddenSize", (double)p->hidden);
	return o;
}

static cJSON *logits(const rp_planid *p)
{
	cJSON *o = contract("logits", "[batchSize, seqLen, vocabSize]", 3, "f32");
	cJSON_AddNumberToObject(o, "vocabSize", (double)p->vocab);
	return o;
}

static cJSON *partition(const rp_planid *p, bool second)
{
	uint64_t first = second ? p->split : 0, end = second ? p->layers : p->split;
	cJSON *o = cJSON_CreateObject(), *range;
	cJSON_AddNumberToObject(o, "index", second);
	range = cJSON_AddArrayToObject(o, "layerRange");
	cJSON_AddItemToArray(range, cJSON_CreateNumber((double)first));
	cJSON_AddItemToArray(range, cJSON_CreateNumber((double)(end - 1)));
	cJSON_AddNumberToObject(o, "layerCount", (double)(end - first));
	cJSON_AddBoolToObject(o, "hasEmbedding", !second);
	cJSON_AddBoolToObject(o, "hasLmHead", second);
	cJSON_AddItemToObject(o, "inputContract", second ? activations(p) : contract("token-ids", "[batchSize, seqLen]", 2, "i32"));
	cJSON_AddItemToObject(o, "outputContract", second ? logits(p) : activations(p));
	return o;
}

static cJSON *whole(const rp_planid *p)
{
	cJSON *o = cJSON_CreateObject(), *partitions;
	cJSON_AddStringToObject(o, "schema", "doppler.layer-partition-contract/v1");
	cJSON_AddStringToObject(o, "modelId", p->model_id);
	cJSON_AddNumberToObject(o, "totalLayers", (double)p->layers);
	cJSON_AddNumberToObject(o, "hiddenSize", (double)p->hidden);
	cJSON_AddNumberToObject(o, "vocabSize", (double)p->vocab);
	cJSON_AddNumberToObject(o, "splitLayer", (double)p->split);
	cJSON_AddStringToObject(o, "activationDtype", p->f16 ? "f16" : "f32");
	partitions = cJSON_AddArrayToObject(o, "partitions");
	cJSON_AddItemToArray(partitions, partition(p, false));
	cJSON_AddItemToArray(partitions, partition(p, true));
	return o;
}

rp_code rp_planid_make(const rp_planid *given, rp_buf *text, char out[72], rp_error *err)
{
	rp_planid p = *given;
	unsigned char sum[32];
	const uint64_t most = (uint64_t)1 << 53;
	if (p.layers < 2 || p.layers > RP_STAGE_LAYERS || p.hidden == 0 || p.vocab == 0 || p.hidden > most || p.vocab > most)
		return rp_fail(err, RP_UNSUPPORTED, "%s: %llu layers of %llu values and a vocabulary of %llu cannot be two stages", p.model_id,
			(unsigned long long)p.layers, (unsigned long long)p.hidden, (unsigned long long)p.vocab);
	if (p.split == 0)
		p.split = p.layers / 2;
	if (p.split >= p.layers)
		return rp_fail(err, RP_USAGE, "--split-at %llu: the model has %llu layers; 1 to %llu can be in the first stage",
			(unsigned long long)p.split, (unsigned long long)p.layers, (unsigned long long)(p.layers - 1));
	cJSON *v = whole(&p);
	rp_code rc = text != NULL ? rp_canonical(v, RP_KEYS_LOCALE, text, err) : RP_OK;
	if (rc == RP_OK)
		rc = rp_canonical_sha256(v, RP_KEYS_LOCALE, sum, err);
	if (rc == RP_OK)
		rp_digest_text(out, sum);
	cJSON_Delete(v);
	return rc;
}

/* ---- where the numbers are from ---- */
static rp_code activation_type(const cJSON *manifest, const char *name, bool *f16, rp_error *err)
{
	static const char *const way[] = { "inference", "session", "compute", "defaults", "activationDtype" };
	const cJSON *v = manifest;
	for (size_t i = 0; i < sizeof way / sizeof *way && v != NULL; i++)
		v = cJSON_GetObjectItemCaseSensitive(v, way[i]);
	const char *word = cJSON_GetStringValue(v);
	if (v != NULL && !cJSON_IsNull(v) && (word == NULL || (strcmp(word, "f32") != 0 && strcmp(word, "f16") != 0))) {
		rp_json_at at = { name, "inference.session.compute.defaults.", manifest, err };
		return rp_json_wrong(&at, "activationDtype", v, "f32 or f16");
	}
	*f16 = word != NULL && strcmp(word, "f16") == 0;
	return RP_OK;
}

static rp_code read_manifest(const cJSON *v, const char *name, rp_planid *p, rp_error *err)
{
	rp_json_at at = { name, "", v, err }, in = { name, "architecture.", NULL, err };
	const char *id = NULL;
	rp_code rc = rp_json_need_string(&at, "modelId", &id);
	if (rc == RP_OK && strlen(id) >= sizeof p->model_id)
		rc = rp_json_wrong(&at, "modelId", rp_json_field(&at, "modelId"), "a text of at most 255 bytes");
	if (rc == RP_OK)
		rc = rp_json_need_object(&at, "architecture", &in.object);
	if (rc == RP_OK)
		rc = rp_json_need_size(&in, "numLayers", 1, &p->layers);
	if (rc == RP_OK)
		rc = rp_json_need_size(&in, "hiddenSize", 1, &p->hidden);
	if (rc == RP_OK)
		rc = rp_json_need_size(&in, "vocabSize", 1, &p->vocab);
	if (rc == RP_OK)
		rc = activation_type(v, name, &p->f16, err);
	if (rc == RP_OK)
		snprintf(p->model_id, sizeof p->model_id, "%s", id);
	return rc;
}

rp_code rp_planid_of_manifest(const char *name, const char *text, size_t n, rp_planid *out, rp_error *err)
{
	cJSON *v = NULL;
	rp_planid p = { .split = 0 };
	rp_code rc = rp_json_parse(name, text, n, &v, err);
	if (rc == RP_OK)
		rc = cJSON_IsObject(v) ? read_manifest(v, name, &p, err) : rp_fail(err, RP_FORMAT, "%s: is no object, expected a manifest", name);
	cJSON_Delete(v);
	if (rc == RP_OK)
		*out = p;
	return rc;
}

rp_code rp_planid_of_model(const rp_model *m, rp_planid *out, rp_error *err)
{
	const rp_tensor *table = rp_stage_table(m);
	rp_planid p = { .layers = rp_stage_layers(m) };
	if (table == NULL || table->n_dims != 2 || p.layers == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: its tensors do not tell layers, width and vocabulary by their names", rp_model_path(m));
	p.vocab = table->dims[0];
	p.hidden = table->dims[1];
	*out = p;
	return RP_OK;
}
