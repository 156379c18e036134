/* RDRR: manifest.json and its shards. Here: the manifest's own fields. What they mean for the computation (attention, rope,
 * session, execution graph) is for graph/ to read. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { MAX_TENSORS_FILE = 64 << 20 };

static bool one_of(const char *s, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(s, *list) == 0)
			return true;
	return false;
}

static rp_code check_version(const rp_json_at *top)
{
	const cJSON *v = rp_json_field(top, "version");
	double n = cJSON_IsNumber(v) ? v->valuedouble : 0;
	if (cJSON_IsString(v)) {
		char *end;
		n = strtod(v->valuestring, &end);
		if (end == v->valuestring || *end != '\0')
			n = 0;
	}
	return n >= 1 ? RP_OK : rp_json_wrong(top, "version", v, "a number, 1 or more");
}

static rp_code check_weights_ref(const rp_json_at *top)
{
	const cJSON *v = rp_json_field(top, "weightsRef");
	if (v == NULL)
		return RP_OK;
	const cJSON *pack = cJSON_GetObjectItemCaseSensitive(v, "weightPackId");
	char shown[100] = "unnamed";
	if (cJSON_IsString(pack))
		rp_show(shown, sizeof shown, pack->valuestring, strlen(pack->valuestring));
	return rp_fail(top->err, RP_UNSUPPORTED,
		"%s: has no weights of its own, it refers to weight pack '%s' (weightsRef); use a manifest that lists its shards",
		top->file, shown);
}

static rp_code check_unsupported(const rp_json_at *top, const cJSON *inference)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(inference, "unsupported");
	if (v == NULL || cJSON_IsNull(v))
		return RP_OK;
	const cJSON *text = cJSON_IsObject(v) ? cJSON_GetObjectItemCaseSensitive(v, "message") : v;
	return rp_fail(top->err, RP_UNSUPPORTED, "%s: the model says of itself that it cannot be run: %s", top->file,
		cJSON_IsString(text) ? text->valuestring : "(no reason given)");
}

static bool is_id_or_list(const cJSON *v)
{
	uint64_t id;
	if (!cJSON_IsArray(v))
		return rp_json_whole(v, &id);
	const cJSON *e;
	bool ok = cJSON_GetArraySize(v) > 0;
	cJSON_ArrayForEach(e, v)
		ok = ok && rp_json_whole(e, &id);
	return ok;
}

static rp_code check_eos(const rp_json_at *top, const char *model_type)
{
	static const char *const without[] = { "diffusion", "energy", "embedding", NULL };
	const cJSON *v = rp_json_field(top, "eos_token_id");
	if (v == NULL && one_of(model_type, without))
		return RP_OK;
	return is_id_or_list(v) ? RP_OK : rp_json_wrong(top, "eos_token_id", v, "a token id or a list of them");
}

static rp_code check_architecture(const rp_json_at *top)
{
	static const char *const sizes[] = { "numLayers", "hiddenSize", "intermediateSize", "numAttentionHeads", "numKeyValueHeads",
		"headDim", "vocabSize", "maxSeqLen" };
	rp_json_at arch = { .file = top->file, .where = "architecture.", .err = top->err };
	rp_code rc = rp_json_need_object(top, "architecture", &arch.object);
	uint64_t n;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes && rc == RP_OK; i++)
		rc = rp_json_need_u64(&arch, sizes[i], 1, &n);
	return rc;
}

static rp_code check_moe(const rp_json_at *top)
{
	rp_json_at moe = { .file = top->file, .where = "moeConfig.", .object = rp_json_field(top, "moeConfig"), .err = top->err };
	uint64_t experts = 0, used = 0;
	if (moe.object == NULL)
		return RP_OK;
	if (!cJSON_IsObject(moe.object))
		return rp_json_wrong(top, "moeConfig", moe.object, "an object or null");
	rp_code rc = rp_json_need_u64(&moe, "numExperts", 1, &experts);
	if (rc == RP_OK)
		rc = rp_json_need_u64(&moe, "numExpertsPerToken", 1, &used);
	if (rc == RP_OK && used > experts)
		rc = rp_json_wrong(&moe, "numExpertsPerToken", rp_json_field(&moe, "numExpertsPerToken"), "at most numExperts");
	return rc;
}

/* The tokenizer's file is opened by name later: it must be one of the folder. */
static rp_code read_tokenizer(rp_model *m, const rp_json_at *top)
{
	rp_json_at tokenizer = {
		.file = top->file, .where = "tokenizer.", .object = rp_json_field(top, "tokenizer"), .err = top->err
	};
	if (tokenizer.object == NULL)
		return RP_OK;
	if (!cJSON_IsObject(tokenizer.object))
		return rp_json_wrong(top, "tokenizer", tokenizer.object, "an object");
	const cJSON *file = rp_json_field(&tokenizer, "file");
	if (file == NULL)
		return RP_OK;
	if (!cJSON_IsString(file) || !rp_name_is_plain(file->valuestring))
		return rp_json_wrong(&tokenizer, "file", file, "the name of a file in this folder");
	m->tokenizer_file = rp_strdup(file->valuestring);
	return m->tokenizer_file != NULL ? RP_OK : rp_no_memory(top->err, strlen(file->valuestring), "a file name");
}

static rp_code check_roots(const rp_json_at *at, const cJSON *roots)
{
	for (const cJSON *e = roots->child; e != NULL; e = e->next)
		if (!cJSON_IsString(e) || strncmp(e->valuestring, "sha256:", 7) != 0 || !rp_is_hex64(e->valuestring + 7))
			return rp_json_wrong(at, e->string, e, "\"sha256:\" and 64 hexadecimal digits");
	return RP_OK;
}

static rp_code check_integrity(const rp_json_at *top)
{
	rp_json_at at = {
		.file = top->file, .where = "integrityExtensions.", .object = rp_json_field(top, "integrityExtensions"), .err = top->err
	};
	uint64_t n = 0;
	if (at.object == NULL)
		return RP_OK;
	if (!cJSON_IsObject(at.object))
		return rp_json_wrong(top, "integrityExtensions", at.object, "an object");
	rp_code rc = rp_json_need_u64(&at, "contractVersion", 1, &n);
	if (rc == RP_OK && n != 1)
		rc = rp_fail(at.err, RP_UNSUPPORTED, "%s: integrityExtensions.contractVersion is %llu, this build knows 1", at.file,
			(unsigned long long)n);
	const cJSON *merkle = rp_json_field(&at, "blockMerkle");
	if (rc != RP_OK || merkle == NULL)
		return rc;
	if (!cJSON_IsObject(merkle))
		return rp_json_wrong(&at, "blockMerkle", merkle, "an object");
	rp_json_at tree = { .file = top->file, .where = "integrityExtensions.blockMerkle.", .object = merkle, .err = top->err };
	const cJSON *roots;
	rc = rp_json_need_u64(&tree, "blockSize", 1, &n);
	if (rc == RP_OK)
		rc = rp_json_need_object(&tree, "roots", &roots);
	return rc == RP_OK ? check_roots(&tree, roots) : rc;
}

static rp_code check_completeness(const rp_json_at *top)
{
	static const char *const legal[] = { "complete", "weights-ref", "incomplete", NULL };
	const cJSON *identity = rp_json_field(top, "artifactIdentity");
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(identity, "artifactCompleteness");
	if (v == NULL || cJSON_IsNull(v))
		return RP_OK;
	if (!cJSON_IsString(v) || !one_of(v->valuestring, legal))
		return rp_json_wrong(top, "artifactIdentity.artifactCompleteness", v, "complete, weights-ref or incomplete");
	if (strcmp(v->valuestring, "complete") != 0)
		return rp_fail(top->err, RP_UNSUPPORTED, "%s: the artifact says it is not complete (artifactCompleteness %s)", top->file,
			v->valuestring);
	return RP_OK;
}

static rp_code check_fields(rp_model *m, const rp_json_at *top)
{
	const char *text, *model_type = "";
	const cJSON *inference = NULL;
	rp_code rc = check_version(top);
	if (rc == RP_OK)
		rc = check_weights_ref(top);
	if (rc == RP_OK)
		rc = rp_json_need_string(top, "modelId", &text);
	if (rc == RP_OK)
		rc = rp_json_need_string(top, "modelType", &model_type);
	if (rc == RP_OK)
		rc = rp_json_need_string(top, "quantization", &text);
	if (rc == RP_OK)
		rc = check_architecture(top);
	if (rc == RP_OK)
		rc = check_moe(top);
	if (rc == RP_OK)
		rc = rp_json_need_object(top, "inference", &inference);
	if (rc == RP_OK)
		rc = check_unsupported(top, inference);
	if (rc == RP_OK)
		rc = check_eos(top, model_type);
	if (rc == RP_OK)
		rc = check_completeness(top);
	if (rc == RP_OK)
		rc = check_integrity(top);
	return rc == RP_OK ? read_tokenizer(m, top) : rc;
}

static bool any_name_ends_with(const rp_model *m, const char *suffix)
{
	size_t k = strlen(suffix);
	for (size_t i = 0; i < m->n_tensors; i++) {
		size_t n = strlen(m->tensors[i].name);
		if (n >= k && strcmp(m->tensors[i].name + n - k, suffix) == 0)
			return true;
	}
	return false;
}

/* A norm that is declared must have weights and the other way round: a wrong flag computes nonsense without any error. */
static rp_code check_norms(const rp_model *m, const rp_json_at *top)
{
	static const struct {
		const char *flag, *suffix;
	} norms[] = { { "postAttentionNorm", "post_attention_layernorm.weight" },
		{ "preFeedforwardNorm", "pre_feedforward_layernorm.weight" },
		{ "postFeedforwardNorm", "post_feedforward_layernorm.weight" } };
	const cJSON *inference = rp_json_field(top, "inference");
	const cJSON *flags = cJSON_GetObjectItemCaseSensitive(inference, "normalization");
	for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
		const cJSON *flag = cJSON_GetObjectItemCaseSensitive(flags, norms[i].flag);
		if (!cJSON_IsBool(flag))
			continue;
		bool there = any_name_ends_with(m, norms[i].suffix);
		if (there != (bool)cJSON_IsTrue(flag))
			return rp_fail(top->err, RP_MODEL, "%s: inference.normalization.%s is %s, but there %s tensors named *%s", top->file,
				norms[i].flag, there ? "false" : "true", there ? "are" : "are no", norms[i].suffix);
	}
	return RP_OK;
}

static rp_code read_tensors_file(rp_model *m, const rp_json_at *top, const cJSON *name, bool open_shards)
{
	if (!cJSON_IsString(name) || !rp_name_is_plain(name->valuestring))
		return rp_json_wrong(top, "tensorsFile", name, "the name of a file in this folder");
	if (!open_shards)
		return rp_fail(top->err, RP_NOT_FOUND, "%s: tensorsFile '%s' cannot be read here", top->file, name->valuestring);
	char *path = rp_asprintf("%s/%s", m->folder, name->valuestring), *text = NULL;
	rp_source checked;
	cJSON *v = NULL;
	size_t n = 0;
	rp_code rc =
		path == NULL ? rp_no_memory(top->err, 0, "a file name") : rp_source_open(&checked, path, m->folder, false, top->err);
	if (rc == RP_OK)
		rc = rp_read_file(path, MAX_TENSORS_FILE, &text, &n, top->err);
	if (rc == RP_OK)
		rc = rp_json_parse(path, text, n, &v, top->err);
	if (rc == RP_OK)
		rc = rp_rdrr_read_tensors(m, v, top->err);
	cJSON_Delete(v);
	free(text);
	free(path);
	return rc;
}

rp_code rp_rdrr_read(rp_model *m, const char *text, size_t n, bool open_shards, rp_error *err)
{
	rp_json_at top = { .file = m->path, .where = "", .object = m->json, .err = err };
	if (!cJSON_IsObject(m->json))
		return rp_fail(err, RP_FORMAT, "%s: the manifest is not a JSON object", m->path);
	unsigned char hash[RP_HASH_BYTES];
	rp_sha256_once(text, n, hash);
	rp_model_set_identity(m, hash);
	rp_code rc = check_fields(m, &top);
	if (rc == RP_OK)
		rc = rp_rdrr_read_shards(m, open_shards, err);
	if (rc != RP_OK)
		return rc;
	const cJSON *tensors = rp_json_field(&top, "tensors"), *file = rp_json_field(&top, "tensorsFile");
	if (tensors == NULL && file != NULL)
		rc = read_tensors_file(m, &top, file, open_shards);
	else
		rc = rp_rdrr_read_tensors(m, tensors, err);
	if (rc == RP_OK)
		rc = rp_model_finish_tensors(m, err);
	return rc == RP_OK ? check_norms(m, &top) : rc;
}
