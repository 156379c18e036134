/* safetensors: 8 bytes of header length, a JSON header, the data. The data must be covered by the tensors exactly: no hole, no
 * overlap, no byte after the last one. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum { MAX_HEADER = 100000000 };

typedef struct st_type {
	const char *name;
	rp_dtype dtype;
	uint32_t bytes; /* of one value */
} st_type;

static const st_type types[] = {
	{ "F32", RP_F32, 4 },
	{ "F16", RP_F16, 2 },
	{ "BF16", RP_BF16, 2 },
	{ "F64", RP_OTHER, 8 },
	{ "I64", RP_OTHER, 8 },
	{ "I32", RP_OTHER, 4 },
	{ "I16", RP_OTHER, 2 },
	{ "I8", RP_OTHER, 1 },
	{ "U64", RP_OTHER, 8 },
	{ "U32", RP_OTHER, 4 },
	{ "U16", RP_OTHER, 2 },
	{ "U8", RP_OTHER, 1 },
	{ "BOOL", RP_OTHER, 1 },
	{ "F8_E4M3", RP_OTHER, 1 },
	{ "F8_E5M2", RP_OTHER, 1 },
};

typedef struct st_file {
	rp_model *m;
	uint32_t source;
	const char *path;
	uint64_t data, data_size; /* where the data starts, how much there is */
	uint64_t used;
	rp_error *err;
} st_file;

/* NULL: see *rc. */
static const st_type *find_type(const st_file *f, const char *tensor, const cJSON *v, rp_code *rc)
{
	if (!cJSON_IsString(v)) {
		*rc = rp_fail(f->err, RP_FORMAT, "%s: tensor '%s': dtype is missing or not a string", f->path, tensor);
		return NULL;
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(v->valuestring, types[i].name) == 0)
			return &types[i];
	*rc = rp_fail(f->err, RP_UNSUPPORTED, "%s: tensor '%s' has dtype '%s', which this build does not know", f->path, tensor,
		v->valuestring);
	return NULL;
}

static rp_code read_numbers(const st_file *f, const char *tensor, const cJSON *array, const char *field, uint64_t *out,
	size_t max, uint32_t *n, rp_code too_many)
{
	if (!cJSON_IsArray(array))
		return rp_fail(f->err, RP_FORMAT, "%s: tensor '%s': %s is missing or not an array", f->path, tensor, field);
	*n = 0;
	for (const cJSON *e = array->child; e != NULL; e = e->next) {
		if (*n == max)
			return rp_fail(f->err, too_many, "%s: tensor '%s': %s has more than %zu numbers", f->path, tensor, field, max);
		if (!rp_json_whole(e, &out[(*n)++]))
			return rp_fail(f->err, RP_FORMAT, "%s: tensor '%s': %s[%u] is not a whole number from 0 to 2^53", f->path, tensor,
				field, *n - 1);
	}
	return RP_OK;
}

static rp_code add_tensor(st_file *f, const cJSON *entry)
{
	const char *name = entry->string;
	if (!cJSON_IsObject(entry))
		return rp_fail(f->err, RP_FORMAT, "%s: tensor '%s' is not described by an object", f->path, name);
	uint64_t dims[RP_MAX_DIMS], range[2];
	uint32_t n_dims = 0, n_range = 0;
	rp_tensor *t = NULL;
	rp_code rc = RP_OK;
	const st_type *type = find_type(f, name, cJSON_GetObjectItemCaseSensitive(entry, "dtype"), &rc);
	if (type == NULL)
		return rc;
	rc = read_numbers(f, name, cJSON_GetObjectItemCaseSensitive(entry, "shape"), "shape", dims, RP_MAX_DIMS, &n_dims,
		RP_UNSUPPORTED);
	if (rc == RP_OK)
		rc = read_numbers(f, name, cJSON_GetObjectItemCaseSensitive(entry, "data_offsets"), "data_offsets", range, 2, &n_range,
			RP_FORMAT);
	if (rc == RP_OK)
		rc = rp_model_add_tensor(f->m, (rp_str){ name, strlen(name) }, type->dtype, type->bytes, dims, n_dims, &t, f->err);
	if (rc != RP_OK)
		return rc;
	if (n_range != 2 || range[0] > range[1] || range[1] > f->data_size)
		return rp_fail(f->err, RP_FORMAT, "%s: tensor '%s': data_offsets are no range within the %llu bytes of data", f->path,
			name, (unsigned long long)f->data_size);
	if (range[1] - range[0] != t->size)
		return rp_fail(f->err, RP_FORMAT, "%s: tensor '%s': data_offsets span %llu bytes, its shape and dtype need %llu", f->path,
			name, (unsigned long long)(range[1] - range[0]), (unsigned long long)t->size);
	f->used += t->size; /* may pass data_size when ranges overlap, which is found below; each is at most a file's size */
	return rp_tensor_set_range(f->m, t, f->source, f->data + range[0], f->err);
}

static rp_code check_metadata(const st_file *f, const cJSON *v)
{
	bool ok = cJSON_IsObject(v);
	for (const cJSON *e = ok ? v->child : NULL; e != NULL; e = e->next)
		ok = ok && cJSON_IsString(e);
	return ok ? RP_OK : rp_fail(f->err, RP_FORMAT, "%s: __metadata__ is not an object of strings", f->path);
}

static rp_code read_header(st_file *f, const cJSON *header)
{
	rp_code rc = cJSON_IsObject(header) ? RP_OK : rp_fail(f->err, RP_FORMAT, "%s: the header is not a JSON object", f->path);
	for (const cJSON *e = rc == RP_OK ? header->child : NULL; e != NULL && rc == RP_OK; e = e->next)
		rc = strcmp(e->string, "__metadata__") == 0 ? check_metadata(f, e) : add_tensor(f, e);
	if (rc == RP_OK && f->used != f->data_size)
		rc = rp_fail(f->err, RP_FORMAT, "%s: its tensors take %llu bytes, the file has %llu bytes of data", f->path,
			(unsigned long long)f->used, (unsigned long long)f->data_size);
	return rc;
}

rp_code rp_safetensors_read(rp_model *m, uint32_t source, rp_sha256 *digest, rp_error *err)
{
	const rp_source *s = &m->sources[source];
	st_file f = { .m = m, .source = source, .path = s->path, .err = err };
	unsigned char start[8];
	if (s->size < sizeof start)
		return rp_fail(err, RP_FORMAT, "%s: truncated: %llu bytes, a safetensors file starts with 8", s->path,
			(unsigned long long)s->size);
	rp_code rc = rp_source_read(s, 0, start, sizeof start, err);
	if (rc != RP_OK)
		return rc;
	uint64_t n = rp_le64(start);
	if (n > s->size - sizeof start || n > MAX_HEADER || n < 2)
		return rp_fail(err, RP_FORMAT, "%s: a header of %llu bytes is claimed, %llu bytes follow (2 to %d are legal)", s->path,
			(unsigned long long)n, (unsigned long long)(s->size - sizeof start), MAX_HEADER);
	char *text = rp_alloc((size_t)n);
	if (text == NULL)
		return rp_no_memory(err, n, "a safetensors header");
	f.data = sizeof start + n;
	f.data_size = s->size - f.data;
	cJSON *header = NULL;
	rc = rp_source_read(s, sizeof start, text, (size_t)n, err);
	if (rc == RP_OK && text[0] != '{')
		rc = rp_fail(err, RP_FORMAT, "%s: the header does not start with '{'", s->path);
	if (rc == RP_OK)
		rc = rp_json_parse(s->path, text, (size_t)n, &header, err);
	if (rc == RP_OK) {
		rp_sha256_update(digest, start, sizeof start);
		rp_sha256_update(digest, text, (size_t)n);
		rc = read_header(&f, header);
	}
	cJSON_Delete(header);
	free(text);
	return rc;
}
