/* RDRR: shards and the tensors cut into them. */
#include "internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* ---- shards ---- */

/* The expected digest: the field of the algorithm's own name wins over the general one for blake3, the reverse for sha256. */
static rp_code read_hash(rp_model *m, const rp_json_at *at, const char *algorithm, rp_file_info *info)
{
	bool sha = strcmp(algorithm, "sha256") == 0;
	const char *first = sha ? "hash" : "blake3", *second = sha ? "blake3" : "hash";
	const cJSON *v = rp_json_field(at, first);
	const char *name = v != NULL ? first : second;
	const char *fields[] = { "hash", "blake3" };
	for (size_t i = 0; i < 2; i++) {
		const cJSON *h = rp_json_field(at, fields[i]);
		if (h != NULL && (!cJSON_IsString(h) || !rp_is_hex64(h->valuestring)))
			return rp_json_wrong(at, fields[i], h, "64 hexadecimal digits without a prefix");
	}
	v = rp_json_field(at, name);
	if (v == NULL)
		return rp_json_wrong(at, "hash", NULL, "64 hexadecimal digits without a prefix");
	char *hash = rp_arena_strndup(&m->arena, v->valuestring, 64);
	if (hash == NULL)
		return rp_no_memory(at->err, 64, "a hash");
	for (size_t i = 0; i < 64; i++)
		hash[i] = (char)tolower((unsigned char)hash[i]);
	info->hash = hash;
	info->algorithm = sha && strcmp(name, "hash") == 0 ? "sha256" : "blake3";
	return RP_OK;
}

static rp_code open_shard(rp_model *m, const rp_json_at *at, const char *path, uint64_t size, bool keep, rp_source *s)
{
	rp_code rc = rp_source_open(s, path, m->folder, keep, at->err);
	if (rc == RP_NOT_FOUND)
		return rp_error_prefix(at->err, rc, "a shard of %s is missing: ", m->path);
	if (rc != RP_OK || s->size == size)
		return rc;
	rc = rp_fail(at->err, RP_FORMAT, "%s: has %llu bytes, the manifest says %llu%s", path, (unsigned long long)s->size,
		(unsigned long long)size, s->size < size ? ": it is cut short, fetch it again" : "");
	rp_source_close(s);
	return rc;
}

static rp_code read_shard(rp_model *m, const rp_json_at *at, size_t index, size_t n_shards, const char *algorithm, uint64_t start,
	bool open)
{
	bool twice;
	const cJSON *name = rp_json_alias(at, "filename", "fileName", &twice), *v;
	uint64_t n, size = 0;
	if (twice)
		return rp_json_wrong(at, "fileName", name, "not to be there beside filename");
	if (!cJSON_IsString(name) || !rp_name_is_plain(name->valuestring))
		return rp_json_wrong(at, "filename", name, "the name of a file in this folder");
	if ((v = rp_json_field(at, "index")) != NULL && (!rp_json_whole(v, &n) || n != index))
		return rp_json_wrong(at, "index", v, "the shard's position in the list");
	if ((v = rp_json_field(at, "offset")) != NULL && (!rp_json_whole(v, &n) || n != start))
		return rp_json_wrong(at, "offset", v, "the sum of the sizes of the shards before");
	rp_code rc = rp_json_need_u64(at, "size", 1, &size);
	rp_file_info *info = &m->files[index];
	if (rc == RP_OK)
		rc = read_hash(m, at, algorithm, info);
	if (rc != RP_OK)
		return rc;
	const char *path = rp_arena_printf(&m->arena, "%s/%s", m->folder, name->valuestring);
	if (path == NULL)
		return rp_no_memory(at->err, strlen(m->folder), "a shard's path");
	rp_source *s = &m->sources[index];
	if (open)
		rc = open_shard(m, at, path, size, n_shards <= RP_KEPT_OPEN, s);
	else
		*s = (rp_source){ .path = path, .size = size, .fd = -1 };
	if (rc == RP_OK) {
		info->path = path;
		info->size = size;
		m->n_sources++;
	}
	return rc;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two shards in one file would be the same bytes under two places. */
static rp_code check_names_differ(const rp_model *m, rp_error *err)
{
	const char **paths = rp_alloc_array(m->n_sources, sizeof *paths);
	if (paths == NULL)
		return rp_no_memory(err, m->n_sources * sizeof *paths, "shard names");
	for (size_t i = 0; i < m->n_sources; i++)
		paths[i] = m->sources[i].path;
	qsort(paths, m->n_sources, sizeof *paths, compare_paths);
	rp_code rc = RP_OK;
	for (size_t i = 1; i < m->n_sources && rc == RP_OK; i++)
		if (strcmp(paths[i - 1], paths[i]) == 0)
			rc = rp_fail(err, RP_FORMAT, "%s: two shards have the file '%s'", m->path, paths[i]);
	free(paths);
	return rc;
}

rp_code rp_rdrr_read_shards(rp_model *m, bool open_shards, rp_error *err)
{
	rp_json_at top = { .file = m->path, .where = "", .object = m->json, .err = err };
	const cJSON *shards = rp_json_field(&top, "shards");
	const char *algorithm = "";
	uint64_t total = 0, sum = 0;
	if (!cJSON_IsArray(shards) || shards->child == NULL)
		return rp_json_wrong(&top, "shards", shards, "a list that is not empty");
	size_t n = (size_t)cJSON_GetArraySize(shards), i = 0;
	if (n > RP_MAX_FILES)
		return rp_fail(err, RP_FORMAT, "%s: %zu shards, at most %d are legal", m->path, n, (int)RP_MAX_FILES);
	rp_code rc = rp_json_need_string(&top, "hashAlgorithm", &algorithm);
	if (rc == RP_OK && strcmp(algorithm, "sha256") != 0 && strcmp(algorithm, "blake3") != 0)
		rc = rp_json_wrong(&top, "hashAlgorithm", rp_json_field(&top, "hashAlgorithm"), "sha256 or blake3");
	if (rc == RP_OK)
		rc = rp_json_need_u64(&top, "totalSize", 1, &total);
	if (rc == RP_OK)
		rc = rp_model_reserve_sources(m, n, err);
	for (const cJSON *e = shards->child; e != NULL && rc == RP_OK; e = e->next, i++) {
		char where[40];
		snprintf(where, sizeof where, "shards[%zu].", i);
		rp_json_at at = { .file = m->path, .where = where, .object = e, .err = err };
		rc = read_shard(m, &at, i, n, algorithm, sum, open_shards);
		if (rc == RP_OK)
			sum += m->sources[i].size; /* at most 65536 times 2^53: no overflow */
	}
	if (rc == RP_OK && sum != total)
		rc = rp_fail(err, RP_FORMAT, "%s: totalSize is %llu, the shards have %llu bytes", m->path, (unsigned long long)total,
			(unsigned long long)sum);
	return rc == RP_OK ? check_names_differ(m, err) : rc;
}

/* ---- tensors ---- */

typedef struct rdrr_type {
	const char *name;
	rp_dtype dtype;
	uint32_t bytes;
} rdrr_type;

static const rdrr_type types[] = {
	{ "F32", RP_F32, 0 },
	{ "F16", RP_F16, 0 },
	{ "BF16", RP_BF16, 0 },
	{ "Q4_0", RP_Q4_0, 0 },
	{ "Q4_1", RP_Q4_1, 0 },
	{ "Q5_0", RP_Q5_0, 0 },
	{ "Q5_1", RP_Q5_1, 0 },
	{ "Q8_0", RP_Q8_0, 0 },
	{ "Q4_K_M", RP_Q4_K, 0 },
	{ "Q4_K", RP_Q4_K, 0 },
	{ "Q5_K", RP_Q5_K, 0 },
	{ "Q5_K_M", RP_Q5_K, 0 },
	{ "Q6_K", RP_Q6_K, 0 },
	{ "F64", RP_OTHER, 8 },
	{ "I64", RP_OTHER, 8 },
	{ "U64", RP_OTHER, 8 },
	{ "I32", RP_OTHER, 4 },
	{ "U32", RP_OTHER, 4 },
	{ "I16", RP_OTHER, 2 },
	{ "U16", RP_OTHER, 2 },
	{ "I8", RP_OTHER, 1 },
	{ "U8", RP_OTHER, 1 },
	{ "BOOL", RP_OTHER, 1 },
};

static rp_code read_type(const rp_json_at *at, const rdrr_type **out)
{
	const char *name = NULL;
	rp_code rc = rp_json_need_string(at, "dtype", &name);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0) {
			*out = &types[i];
			return RP_OK;
		}
	return rp_fail(at->err, RP_UNSUPPORTED, "%s: %sdtype is '%s', which this build does not know", at->file, at->where, name);
}

static rp_code read_shape(const rp_json_at *at, uint64_t *dims, uint32_t *n)
{
	const cJSON *shape = rp_json_field(at, "shape");
	*n = 0;
	if (!cJSON_IsArray(shape))
		return rp_json_wrong(at, "shape", shape, "a list of sizes");
	for (const cJSON *e = shape->child; e != NULL; e = e->next) {
		if (*n == RP_MAX_DIMS)
			return rp_fail(at->err, RP_UNSUPPORTED, "%s: %sshape has more than %d dimensions", at->file, at->where,
				(int)RP_MAX_DIMS);
		if (!rp_json_whole(e, &dims[(*n)++]))
			return rp_json_wrong(at, "shape", e, "whole numbers from 0 to 2^53");
	}
	return RP_OK;
}

static rp_code check_role(const rp_json_at *at)
{
	static const char *const roles[] = { "embedding", "lm_head", "norm", "matmul", "expert", "router", "vision", "projector",
		"audio", "other" };
	const char *role = "";
	rp_code rc = rp_json_need_string(at, "role", &role);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		if (strcmp(roles[i], role) == 0)
			return RP_OK;
	return rp_json_wrong(at, "role", rp_json_field(at, "role"), "a role of the format (embedding, norm, matmul, ...)");
}

/* Only rows of whole blocks, stored as they are, are read here. */
static rp_code check_storage(const rp_json_at *at)
{
	const cJSON *layout = rp_json_field(at, "layout"), *transform = rp_json_field(at, "sourceTransform");
	if (layout != NULL && (!cJSON_IsString(layout) || strcmp(layout->valuestring, "row") != 0))
		return rp_fail(at->err, RP_UNSUPPORTED, "%s: %slayout is '%s', this build reads 'row'", at->file, at->where,
			cJSON_IsString(layout) ? layout->valuestring : "not a string");
	const cJSON *kind = cJSON_IsObject(transform) ? cJSON_GetObjectItemCaseSensitive(transform, "kind") : transform;
	if (transform != NULL && (!cJSON_IsString(kind) || strcmp(kind->valuestring, "identity") != 0))
		return rp_fail(at->err, RP_UNSUPPORTED, "%s: %ssourceTransform asks for a conversion this build does not do", at->file,
			at->where);
	const cJSON *storage = rp_json_field(at, "storage");
	const cJSON *packing = cJSON_GetObjectItemCaseSensitive(storage, "packing");
	if (cJSON_IsString(packing) && strcmp(packing->valuestring, "w4a16") == 0)
		return rp_fail(at->err, RP_UNSUPPORTED, "%s: %sstorage.packing w4a16 is not read by this build", at->file, at->where);
	const cJSON *companions = cJSON_GetObjectItemCaseSensitive(storage, "companions");
	if (cJSON_IsArray(companions) && companions->child != NULL)
		return rp_fail(at->err, RP_UNSUPPORTED, "%s: %sstorage.companions: tensors of several parts are not read by this build",
			at->file, at->where);
	return RP_OK;
}

/* One range of one shard, checked. */
static rp_code read_range(const rp_model *m, const rp_json_at *at, const char *shard_name, const char *shard_alias, uint64_t size,
	rp_span *out)
{
	bool twice;
	uint64_t shard, offset = 0;
	const cJSON *v = rp_json_alias(at, shard_name, shard_alias, &twice);
	if (twice)
		return rp_json_wrong(at, shard_alias, v, "not to be there beside its other name");
	if (!rp_json_whole(v, &shard) || shard >= m->n_sources)
		return rp_json_wrong(at, shard_name, v, "the index of a shard");
	rp_code rc = rp_json_need_u64(at, "offset", 0, &offset);
	if (rc != RP_OK)
		return rc;
	uint64_t have = m->sources[shard].size;
	if (size > have || offset > have - size)
		return rp_fail(at->err, RP_FORMAT, "%s: %soffset: %llu bytes at %llu reach past the end of shard %llu (%llu bytes)",
			at->file, at->where, (unsigned long long)size, (unsigned long long)offset, (unsigned long long)shard,
			(unsigned long long)have);
	*out = (rp_span){ (uint32_t)shard, offset, size };
	return RP_OK;
}

static bool continues(const rp_span *a, const rp_span *b)
{
	return a->file == b->file && a->offset + a->size == b->offset;
}

/* Ranges in order; neighbours become one (converters write hundreds of small ones). */
static rp_code read_spans(rp_model *m, const rp_json_at *at, const cJSON *list, rp_span *out, uint32_t *n_out, uint64_t *sum)
{
	uint32_t n = 0;
	size_t i = 0;
	*sum = 0;
	for (const cJSON *e = list->child; e != NULL; e = e->next, i++) {
		char where[RP_MAX_NAME + 64];
		snprintf(where, sizeof where, "%sspans[%zu].", at->where, i);
		rp_json_at span = { .file = at->file, .where = where, .object = e, .err = at->err };
		uint64_t size = 0;
		rp_span s = { 0, 0, 0 };
		rp_code rc = rp_json_need_u64(&span, "size", 0, &size);
		if (rc == RP_OK)
			rc = read_range(m, &span, "shardIndex", "shard", size, &s);
		if (rc != RP_OK)
			return rc;
		if (!rp_add_u64(*sum, size, sum))
			return rp_json_wrong(&span, "size", rp_json_field(&span, "size"), "a sum below 2^64");
		if (n > 0 && continues(&out[n - 1], &s))
			out[n - 1].size += s.size;
		else if (s.size > 0)
			out[n++] = s;
	}
	*n_out = n;
	return RP_OK;
}

static rp_code read_place(rp_model *m, const rp_json_at *at, rp_tensor *t, uint64_t size)
{
	const cJSON *list = rp_json_field(at, "spans");
	if (list != NULL && !cJSON_IsArray(list))
		return rp_json_wrong(at, "spans", list, "a list");
	if (list != NULL && (rp_json_field(at, "shard") != NULL || rp_json_field(at, "shardIndex") != NULL))
		return rp_json_wrong(at, "spans", list, "either spans or a shard, not both");
	size_t n = list != NULL ? (size_t)cJSON_GetArraySize(list) : 1;
	rp_span *spans = rp_arena_array(&m->arena, n, sizeof *spans);
	if (spans == NULL)
		return rp_no_memory(at->err, n * sizeof *spans, "a tensor's place");
	t->spans = spans;
	if (list == NULL) {
		rp_code rc = read_range(m, at, "shard", "shardIndex", size, spans);
		t->n_spans = rc == RP_OK && size > 0;
		return rc;
	}
	uint64_t sum;
	rp_code rc = read_spans(m, at, list, spans, &t->n_spans, &sum);
	if (rc == RP_OK && sum != size)
		rc = rp_fail(at->err, RP_FORMAT, "%s: %ssize is %llu, its spans have %llu bytes", at->file, at->where,
			(unsigned long long)size, (unsigned long long)sum);
	return rc;
}

static rp_code read_tensor(rp_model *m, const rp_json_at *at, const char *name)
{
	uint64_t dims[RP_MAX_DIMS], size = 0;
	uint32_t n_dims = 0;
	const rdrr_type *type = NULL;
	rp_tensor *t = NULL;
	rp_code rc = read_type(at, &type);
	if (rc == RP_OK)
		rc = read_shape(at, dims, &n_dims);
	if (rc == RP_OK)
		rc = rp_json_need_u64(at, "size", 0, &size);
	if (rc == RP_OK)
		rc = check_role(at);
	if (rc == RP_OK)
		rc = check_storage(at);
	if (rc == RP_OK)
		rc = rp_model_add_tensor(m, (rp_str){ name, strlen(name) }, type->dtype, type->bytes, dims, n_dims, &t, at->err);
	if (rc == RP_OK && t->size != size)
		rc = rp_fail(at->err, RP_FORMAT, "%s: %ssize is %llu, its shape as %s needs %llu bytes", at->file, at->where,
			(unsigned long long)size, type->name, (unsigned long long)t->size);
	return rc == RP_OK ? read_place(m, at, t, size) : rc;
}

rp_code rp_rdrr_read_tensors(rp_model *m, const cJSON *tensors, rp_error *err)
{
	rp_json_at top = { .file = m->path, .where = "", .object = m->json, .err = err };
	if (!cJSON_IsObject(tensors))
		return rp_json_wrong(&top, "tensors", tensors, "an object (or tensorsFile)");
	rp_code rc = RP_OK;
	for (const cJSON *e = tensors->child; e != NULL && rc == RP_OK; e = e->next) {
		char where[RP_MAX_NAME + 32];
		snprintf(where, sizeof where, "tensors['%s'].", e->string);
		rp_json_at at = { .file = m->path, .where = where, .object = e, .err = err };
		rc = cJSON_IsObject(e) ? read_tensor(m, &at, e->string) : rp_json_wrong(&top, where, e, "an object");
	}
	return rc;
}
