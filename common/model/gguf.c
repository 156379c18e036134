/* GGUF v2 and v3, little-endian, one file.
 *
 * The header is parsed from a copy in memory, never from a mapping, so a file that shrinks meanwhile gives an error. How long
 * it is shows only at its end: the parse starts on the first part and is done again on a larger one when it runs out. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	FIRST_READ = 1 << 20,
	MAX_HEADER = 256 << 20, /* vocabularies of half a million tokens with merges take about 25 MiB */
	MAX_KEY = 65535,
	MAX_KEYS = 1 << 20,
	MAX_ALIGNMENT = 1 << 21,
	DEFAULT_ALIGNMENT = 32,
	MIN_KEY_BYTES = 8 + 1 + 4 + 1,    /* name length, name, type, value */
	MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8 /* name length, name, dims, type, offset */
};

typedef struct cursor {
	rp_model *m;
	const uint8_t *p;
	uint64_t pos, have, size; /* have: bytes in memory; size: of the file */
	uint64_t wanted;    /* not 0: the parse ran out of bytes in memory, it needs this many; no error was set */
	rp_error *err;
} cursor;

/* Not an error of the file: read more and start again. The code only has to be one that is not RP_OK. */
static rp_code need(cursor *c, uint64_t bytes)
{
	c->wanted = bytes;
	return RP_FAIL;
}

/* The next n bytes, or NULL and why in *rc. what is for the message. */
static const uint8_t *take(cursor *c, uint64_t n, const char *what, rp_code *rc)
{
	if (n > c->size - c->pos) {
		*rc = rp_fail(c->err, RP_FORMAT, "%s: truncated: %s at byte %llu needs %llu bytes, %llu are left", c->m->path, what,
			(unsigned long long)c->pos, (unsigned long long)n, (unsigned long long)(c->size - c->pos));
		return NULL;
	}
	if (n > MAX_HEADER || c->pos + n > MAX_HEADER) {
		*rc = rp_fail(c->err, RP_FORMAT, "%s: the header reaches past %d MiB (%s at byte %llu)", c->m->path, MAX_HEADER >> 20,
			what, (unsigned long long)c->pos);
		return NULL;
	}
	if (n > c->have - c->pos) {
		*rc = need(c, c->pos + n);
		return NULL;
	}
	const uint8_t *at = c->p + c->pos;
	c->pos += n;
	return at;
}

static rp_code take_u32(cursor *c, const char *what, uint32_t *out)
{
	rp_code rc = RP_OK;
	const uint8_t *p = take(c, 4, what, &rc);
	if (p != NULL)
		*out = rp_le32(p);
	return rc;
}

static rp_code take_u64(cursor *c, const char *what, uint64_t *out)
{
	rp_code rc = RP_OK;
	const uint8_t *p = take(c, 8, what, &rc);
	if (p != NULL)
		*out = rp_le64(p);
	return rc;
}

static rp_code take_str(cursor *c, const char *what, rp_str *out)
{
	uint64_t n = 0;
	rp_code rc = take_u64(c, what, &n);
	if (rc != RP_OK)
		return rc;
	const uint8_t *p = take(c, n, what, &rc);
	if (p != NULL)
		*out = (rp_str){ (const char *)p, (size_t)n };
	return rc;
}

static uint32_t scalar_bytes(uint32_t type)
{
	static const uint8_t bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	return type < sizeof bytes ? bytes[type] : 0;
}

static rp_code check_bools(const cursor *c, const rp_kv *kv)
{
	for (uint64_t i = 0; i < kv->n; i++)
		if (kv->data[i] > 1)
			return rp_fail(c->err, RP_FORMAT, "%s: key '%.*s': a bool with the value %u", c->m->path, (int)kv->key.n, kv->key.s,
				kv->data[i]);
	return RP_OK;
}

static rp_code take_strings(cursor *c, rp_kv *kv)
{
	if (kv->n > (c->size - c->pos) / 8)
		return rp_fail(c->err, RP_FORMAT, "%s: key '%.*s': %llu strings cannot fit the %llu bytes left", c->m->path,
			(int)kv->key.n, kv->key.s, (unsigned long long)kv->n, (unsigned long long)(c->size - c->pos));
	if (kv->n > MAX_HEADER / 8)
		return rp_fail(c->err, RP_FORMAT, "%s: key '%.*s': %llu strings are too many", c->m->path, (int)kv->key.n, kv->key.s,
			(unsigned long long)kv->n);
	if (kv->n > (c->have - c->pos) / 8)
		return need(c, c->pos + kv->n * 8);
	rp_str *s = rp_arena_array(&c->m->arena, (size_t)kv->n, sizeof *s);
	if (s == NULL)
		return rp_no_memory(c->err, kv->n * sizeof *s, "the strings of a key");
	kv->strings = s;
	for (uint64_t i = 0; i < kv->n; i++) {
		rp_code rc = take_str(c, "a string", &s[i]);
		if (rc != RP_OK)
			return rc;
	}
	return RP_OK;
}

static rp_code take_value(cursor *c, rp_kv *kv)
{
	uint32_t type = (uint32_t)kv->type;
	rp_code rc;
	kv->n = 1;
	if (kv->type == RP_KV_ARRAY) {
		if ((rc = take_u32(c, "an array's type", &type)) != RP_OK || (rc = take_u64(c, "an array's length", &kv->n)) != RP_OK)
			return rc;
		if (type == RP_KV_ARRAY)
			return rp_fail(c->err, RP_UNSUPPORTED, "%s: key '%.*s' is an array of arrays", c->m->path, (int)kv->key.n, kv->key.s);
		if (type > RP_KV_F64)
			return rp_fail(c->err, RP_FORMAT, "%s: key '%.*s': array elements of unknown type %u, expected 0 to 12", c->m->path,
				(int)kv->key.n, kv->key.s, type);
		kv->elem = (rp_kv_type)type;
	}
	if (type == RP_KV_STRING)
		return take_strings(c, kv);
	uint64_t bytes;
	if (!rp_mul_u64(kv->n, scalar_bytes(type), &bytes))
		bytes = UINT64_MAX;
	kv->data = take(c, bytes, "a value", &rc);
	if (kv->data == NULL)
		return rc;
	return type == RP_KV_BOOL ? check_bools(c, kv) : RP_OK;
}

static rp_code take_kv(cursor *c, rp_kv *kv)
{
	uint32_t type = 0;
	rp_code rc = take_str(c, "a key", &kv->key);
	if (rc != RP_OK)
		return rc;
	if (kv->key.n == 0 || kv->key.n > MAX_KEY || rp_utf8_valid(kv->key.s, kv->key.n) != kv->key.n)
		return rp_fail(c->err, RP_FORMAT, "%s: the key before byte %llu is empty, longer than %d bytes or not UTF-8", c->m->path,
			(unsigned long long)c->pos, MAX_KEY);
	if ((rc = take_u32(c, "a key's type", &type)) != RP_OK)
		return rc;
	if (type > RP_KV_F64)
		return rp_fail(c->err, RP_FORMAT, "%s: key '%.*s' has unknown type %u, expected 0 to 12", c->m->path, (int)kv->key.n,
			kv->key.s, type);
	kv->type = (rp_kv_type)type;
	return take_value(c, kv);
}

typedef struct keyed {
	rp_str key;
	uint32_t index;
} keyed;

static int compare_keyed(const void *a, const void *b)
{
	const keyed *x = a, *y = b;
	size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
	int c = memcmp(x->key.s, y->key.s, n);
	return c != 0 ? c : x->key.n < y->key.n ? -1 : x->key.n > y->key.n;
}

static rp_code index_keys(rp_model *m, rp_error *err)
{
	keyed *sorted = rp_alloc_array(m->n_kvs, sizeof *sorted);
	m->kv_by_key = rp_arena_array(&m->arena, m->n_kvs, sizeof *m->kv_by_key);
	if (sorted == NULL || m->kv_by_key == NULL) {
		free(sorted);
		return rp_no_memory(err, m->n_kvs * sizeof *sorted, "the keys");
	}
	for (size_t i = 0; i < m->n_kvs; i++)
		sorted[i] = (keyed){ m->kvs[i].key, (uint32_t)i };
	if (m->n_kvs > 0)
		qsort(sorted, m->n_kvs, sizeof *sorted, compare_keyed);
	rp_code rc = RP_OK;
	for (size_t i = 0; i < m->n_kvs && rc == RP_OK; i++) {
		m->kv_by_key[i] = sorted[i].index;
		if (i > 0 && compare_keyed(&sorted[i - 1], &sorted[i]) == 0)
			rc = rp_fail(err, RP_FORMAT, "%s: key '%.*s' is there twice", m->path, (int)sorted[i].key.n, sorted[i].key.s);
	}
	free(sorted);
	return rc;
}

static rp_code take_keys(cursor *c, uint64_t n)
{
	rp_model *m = c->m;
	if (n > MAX_KEYS || n > (c->size - c->pos) / MIN_KEY_BYTES)
		return rp_fail(c->err, RP_FORMAT, "%s: claims %llu keys, which cannot fit its %llu bytes", m->path, (unsigned long long)n,
			(unsigned long long)c->size);
	m->kvs = rp_arena_array(&m->arena, (size_t)n, sizeof *m->kvs);
	if (m->kvs == NULL)
		return rp_no_memory(c->err, n * sizeof *m->kvs, "the keys");
	m->n_kvs = (size_t)n;
	for (size_t i = 0; i < n; i++) {
		rp_code rc = take_kv(c, &m->kvs[i]);
		if (rc != RP_OK)
			return rc;
	}
	return index_keys(m, c->err);
}

/* GGML's type ids. bytes: of one value, for the types that are listed but not read. */
typedef struct ggml_type {
	uint8_t id;
	rp_dtype dtype;
	uint32_t bytes;
	const char *name;
} ggml_type;

static const ggml_type ggml_types[] = {
	{ 0, RP_F32, 0, "F32" },
	{ 1, RP_F16, 0, "F16" },
	{ 2, RP_Q4_0, 0, "Q4_0" },
	{ 3, RP_Q4_1, 0, "Q4_1" },
	{ 6, RP_Q5_0, 0, "Q5_0" },
	{ 7, RP_Q5_1, 0, "Q5_1" },
	{ 8, RP_Q8_0, 0, "Q8_0" },
	{ 12, RP_Q4_K, 0, "Q4_K" },
	{ 13, RP_Q5_K, 0, "Q5_K" },
	{ 14, RP_Q6_K, 0, "Q6_K" },
	{ 30, RP_BF16, 0, "BF16" },
	{ 24, RP_OTHER, 1, "I8" },
	{ 25, RP_OTHER, 2, "I16" },
	{ 26, RP_OTHER, 4, "I32" },
	{ 27, RP_OTHER, 8, "I64" },
	{ 28, RP_OTHER, 8, "F64" },
	/* known by name, for the message alone */
	{ 9, RP_OTHER, 0, "Q8_1" },
	{ 10, RP_OTHER, 0, "Q2_K" },
	{ 11, RP_OTHER, 0, "Q3_K" },
	{ 15, RP_OTHER, 0, "Q8_K" },
	{ 16, RP_OTHER, 0, "IQ2_XXS" },
	{ 17, RP_OTHER, 0, "IQ2_XS" },
	{ 18, RP_OTHER, 0, "IQ3_XXS" },
	{ 19, RP_OTHER, 0, "IQ1_S" },
	{ 20, RP_OTHER, 0, "IQ4_NL" },
	{ 21, RP_OTHER, 0, "IQ3_S" },
	{ 22, RP_OTHER, 0, "IQ2_S" },
	{ 23, RP_OTHER, 0, "IQ4_XS" },
	{ 29, RP_OTHER, 0, "IQ1_M" },
	{ 34, RP_OTHER, 0, "TQ1_0" },
	{ 35, RP_OTHER, 0, "TQ2_0" },
	{ 39, RP_OTHER, 0, "MXFP4" },
};

static rp_code find_type(const cursor *c, rp_str name, uint32_t id, const ggml_type **out)
{
	const char *known = "unknown";
	for (size_t i = 0; i < sizeof ggml_types / sizeof *ggml_types; i++)
		if (ggml_types[i].id == id) {
			if (ggml_types[i].dtype != RP_OTHER || ggml_types[i].bytes != 0) {
				*out = &ggml_types[i];
				return RP_OK;
			}
			known = ggml_types[i].name;
		}
	char shown[80];
	return rp_fail(c->err, RP_UNSUPPORTED,
		"%s: tensor '%s' has type %u (%s); this build reads F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K", c->m->path,
		rp_show(shown, sizeof shown, name.s, name.n), id, known);
}

typedef struct tensor_info {
	rp_str name;
	uint32_t n_dims, type;
	uint64_t dims[4], offset; /* dims outermost first; offset from the start of the data */
} tensor_info;

static rp_code take_tensor_info(cursor *c, tensor_info *t)
{
	char shown[80];
	rp_code rc = take_str(c, "a tensor's name", &t->name);
	if (rc != RP_OK || (rc = take_u32(c, "a tensor's dimension count", &t->n_dims)) != RP_OK)
		return rc;
	if (t->n_dims > 4)
		return rp_fail(c->err, RP_FORMAT, "%s: tensor '%s' has %u dimensions, at most 4 are legal", c->m->path,
			rp_show(shown, sizeof shown, t->name.s, t->name.n), t->n_dims);
	for (uint32_t i = t->n_dims; i > 0; i--)
		if ((rc = take_u64(c, "a tensor's dimension", &t->dims[i - 1])) != RP_OK)
			return rc;
	if ((rc = take_u32(c, "a tensor's type", &t->type)) != RP_OK)
		return rc;
	return take_u64(c, "a tensor's offset", &t->offset);
}

/* Adds the tensor; its place is known only when the header's end is. */
static rp_code take_tensor(cursor *c, uint64_t *offset)
{
	tensor_info info = { 0 };
	const ggml_type *type = NULL;
	rp_tensor *t;
	rp_code rc = take_tensor_info(c, &info);
	if (rc != RP_OK || (rc = find_type(c, info.name, info.type, &type)) != RP_OK)
		return rc;
	rc = rp_model_add_tensor(c->m, info.name, type->dtype, type->bytes, info.dims, info.n_dims, &t, c->err);
	if (rc != RP_OK)
		return rc;
	uint32_t block = rp_dtype_get(t->dtype)->block_values;
	uint64_t k = t->n_dims > 0 ? t->dims[t->n_dims - 1] : 1;
	if (block > 1 && k % block != 0)
		return rp_fail(c->err, RP_FORMAT, "%s: tensor '%s': rows of %llu values are not whole blocks of %u (%s)", c->m->path,
			t->name, (unsigned long long)k, block, type->name);
	*offset = info.offset;
	return RP_OK;
}

static rp_code check_preamble(cursor *c, uint64_t *n_tensors, uint64_t *n_keys)
{
	uint32_t magic = 0, version = 0;
	const char *path = c->m->path;
	rp_code rc = take_u32(c, "the magic", &magic);
	if (rc != RP_OK || (rc = take_u32(c, "the version", &version)) != RP_OK)
		return rc;
	if (magic == 0x47475546u || (version != 0 && (version & 0xFFFFu) == 0))
		return rp_fail(c->err, RP_UNSUPPORTED, "%s: big-endian GGUF; convert it to little-endian (gguf-py: gguf_convert_endian)",
			path);
	if (magic != 0x46554747u)
		return rp_fail(c->err, RP_FORMAT, "%s: begins with bytes %02x %02x %02x %02x, expected \"GGUF\": not a GGUF file, or a page that "
			"says why there is none", path, magic & 255u, magic >> 8 & 255u, magic >> 16 & 255u, magic >> 24);
	if (version == 1)
		return rp_fail(c->err, RP_UNSUPPORTED, "%s: GGUF version 1; convert it with a current tool to version 3", path);
	if (version != 2 && version != 3)
		return rp_fail(c->err, version == 0 ? RP_FORMAT : RP_UNSUPPORTED, "%s: GGUF version %u, expected 2 or 3", path, version);
	if ((rc = take_u64(c, "the tensor count", n_tensors)) != RP_OK)
		return rc;
	return take_u64(c, "the key count", n_keys);
}

static rp_code alignment(const rp_model *m, uint64_t *out, rp_error *err)
{
	*out = DEFAULT_ALIGNMENT;
	rp_code rc = rp_kv_u64(m, "general.alignment", out, err);
	if (rc == RP_NOT_FOUND)
		return RP_OK;
	if (rc == RP_OK && (*out == 0 || (*out & (*out - 1)) != 0 || *out > MAX_ALIGNMENT))
		return rp_fail(err, RP_FORMAT, "%s: key 'general.alignment' is %llu, expected a power of two up to %d", m->path,
			(unsigned long long)*out, MAX_ALIGNMENT);
	return rc;
}

static rp_code place_tensors(rp_model *m, const uint64_t *offsets, uint64_t header_end, rp_error *err)
{
	uint64_t align = DEFAULT_ALIGNMENT, data, at;
	rp_code rc = alignment(m, &align, err);
	if (rc != RP_OK)
		return rc;
	if (!rp_round_up_u64(header_end, align, &data))
		return rp_fail(err, RP_FORMAT, "%s: the header's end overflows", m->path);
	for (size_t i = 0; i < m->n_tensors && rc == RP_OK; i++) {
		rp_tensor *t = &m->tensors[i];
		if (offsets[i] % align != 0)
			return rp_fail(err, RP_FORMAT, "%s: tensor '%s' at offset %llu, expected a multiple of the alignment %llu", m->path,
				t->name, (unsigned long long)offsets[i], (unsigned long long)align);
		if (!rp_add_u64(data, offsets[i], &at))
			at = UINT64_MAX;
		/* a tensor without bytes may stand where the padding of the last one would end */
		rc = t->size == 0 ? RP_OK : rp_tensor_set_range(m, t, 0, at, err);
	}
	return rc;
}

static rp_code check_whole(const rp_model *m, rp_error *err)
{
	uint64_t parts = 0;
	rp_code rc = rp_kv_u64(m, "split.count", &parts, err);
	if (rc == RP_OK && parts > 1)
		return rp_fail(err, RP_UNSUPPORTED, "%s: is one of %llu parts; join them first (llama-gguf-split --merge)", m->path,
			(unsigned long long)parts);
	return rc == RP_NOT_FOUND ? RP_OK : rc;
}

static rp_code take_tensors(cursor *c, uint64_t n)
{
	rp_model *m = c->m;
	if (n > RP_MAX_TENSORS || n > (c->size - c->pos) / MIN_TENSOR_BYTES)
		return rp_fail(c->err, RP_FORMAT, "%s: claims %llu tensors, which cannot fit its %llu bytes", m->path,
			(unsigned long long)n, (unsigned long long)c->size);
	uint64_t *offsets = rp_alloc_array((size_t)n, sizeof *offsets);
	if (offsets == NULL || !rp_model_reserve_tensors(m, (size_t)n)) {
		free(offsets);
		return rp_no_memory(c->err, n * sizeof *m->tensors, "the tensor table");
	}
	rp_code rc = RP_OK;
	for (size_t i = 0; i < n && rc == RP_OK; i++)
		rc = take_tensor(c, &offsets[i]);
	if (rc == RP_OK)
		rc = place_tensors(m, offsets, c->pos, c->err);
	free(offsets);
	return rc;
}

/* All of the header. */
static rp_code parse(cursor *c)
{
	rp_model *m = c->m;
	uint64_t n_tensors = 0, n_keys = 0;
	rp_arena_free(&m->arena);
	rp_arena_init(&m->arena, 0);
	m->n_tensors = m->n_kvs = 0;
	rp_code rc = check_preamble(c, &n_tensors, &n_keys);
	if (rc == RP_OK)
		rc = take_keys(c, n_keys);
	if (rc == RP_OK)
		rc = check_whole(m, c->err);
	return rc == RP_OK ? take_tensors(c, n_tensors) : rc;
}

static rp_code read_head(rp_model *m, uint64_t have, rp_error *err)
{
	unsigned char *grown = rp_grow_array(m->head, (size_t)have, 1);
	if (grown == NULL)
		return rp_no_memory(err, have, "a GGUF header");
	m->head = grown;
	return rp_source_read(&m->sources[0], 0, m->head, (size_t)have, err);
}

static rp_code identify(rp_model *m, const cursor *c, rp_error *err)
{
	unsigned char hash[RP_HASH_BYTES];
	rp_sha256_once(m->head, (size_t)c->pos, hash);
	rp_model_set_identity(m, hash);
	return rp_model_finish_tensors(m, err);
}

rp_code rp_gguf_read_header(rp_model *m, const void *bytes, size_t n, uint64_t *wanted, rp_error *err)
{
	m->head = rp_grow_array(m->head, n > 0 ? n : 1, 1);
	if (m->head == NULL)
		return rp_no_memory(err, n, "a GGUF header");
	memcpy(m->head, bytes, n);
	cursor c = { .m = m, .p = m->head, .have = n, .size = m->sources[0].size, .err = err };
	rp_code rc = parse(&c);
	*wanted = rc != RP_OK ? c.wanted : 0;
	if (*wanted != 0)
		return rp_fail(err, RP_READ, "%s: its header is longer than the %zu bytes that are here", m->path, n);
	return rc == RP_OK ? identify(m, &c, err) : rc;
}

rp_code rp_gguf_read(rp_model *m, rp_error *err)
{
	uint64_t size = m->sources[0].size, have = size < FIRST_READ ? size : FIRST_READ;
	cursor c;
	rp_code rc;
	do {
		rc = read_head(m, have, err);
		if (rc != RP_OK)
			return rc;
		c = (cursor){ .m = m, .p = m->head, .have = have, .size = size, .err = err };
		rc = parse(&c);
		have = c.wanted > 4 * have ? c.wanted : 4 * have;
		have = have < size ? have : size;
	} while (rc != RP_OK && c.wanted != 0);
	return rc == RP_OK ? identify(m, &c, err) : rc;
}
