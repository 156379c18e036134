#define _XOPEN_SOURCE 700 /* nftw */

#include "make_model.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hash/hash.h"

char *mm_temp_folder(void)
{
	const char *base = getenv("TMPDIR");
	char *folder = rp_asprintf("%s/reploid-test-XXXXXX", base != NULL ? base : "/tmp");
	assert_non_null(folder);
	assert_non_null(mkdtemp(folder));
	return folder;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

void mm_remove_folder(char *folder)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(folder);
}

char *mm_path(const char *folder, const char *name)
{
	char *path = rp_asprintf("%s/%s", folder, name);
	assert_non_null(path);
	return path;
}

void mm_write(const char *folder, const char *name, const void *bytes, size_t n)
{
	char *path = mm_path(folder, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	free(path);
}

char *mm_replace(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	if (at == NULL)
		fail_msg("'%s' is not in the text", from);
	return rp_asprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

void mm_values(float *out, size_t n, uint32_t seed, float scale)
{
	uint32_t s = seed * 2654435761u + 1;
	for (size_t i = 0; i < n; i++) {
		s = s * 1664525u + 1013904223u;
		out[i] = scale * ((float)(s >> 8) * 0x1p-23f - 1);
	}
}

void mm_seed(const void *bytes, size_t n)
{
	const char *folder = getenv("REPLOID_SEEDS");
	unsigned char hash[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	if (folder == NULL || n > 1 << 16)
		return;
	rp_sha256_once(bytes, n, hash);
	rp_hex(hex, hash, 8);
	mm_write(folder, hex, bytes, n);
}

static uint64_t product(uint32_t n_dims, const uint64_t *dims)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= dims[i];
	return n;
}

/* The tensor's bytes: rows along the last dimension. */
static void add_encoded(rp_buf *b, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims, const float *values)
{
	uint64_t n = product(n_dims, dims), k = n_dims > 0 ? dims[n_dims - 1] : 1, row_bytes;
	if (n == 0)
		return;
	assert_true(rp_dtype_row_bytes(dtype, k, &row_bytes));
	size_t bytes = (size_t)(n / k * row_bytes);
	assert_true(rp_buf_reserve(b, bytes));
	assert_true(rp_quantize(dtype, values, n / k, k, b->data + b->len));
	b->len += bytes;
}

/* ---- GGUF ---- */

static void put32(rp_buf *b, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		assert_true(rp_buf_addc(b, (char)(v >> (8 * i))));
}

static void put64(rp_buf *b, uint64_t v)
{
	put32(b, (uint32_t)v);
	put32(b, (uint32_t)(v >> 32));
}

static void put_str(rp_buf *b, const char *s)
{
	put64(b, strlen(s));
	assert_true(rp_buf_adds(b, s));
}

static void pad(rp_buf *b, size_t unit)
{
	while (b->len % unit != 0)
		assert_true(rp_buf_addc(b, '\0'));
}

void mm_gguf_init(mm_gguf *g)
{
	*g = (mm_gguf){ .version = 3, .alignment = 32 };
}

void mm_gguf_free(mm_gguf *g)
{
	rp_buf_free(&g->keys);
	rp_buf_free(&g->infos);
	rp_buf_free(&g->data);
}

void mm_gguf_key(mm_gguf *g, const char *key, uint32_t type, const void *bytes, size_t n)
{
	put_str(&g->keys, key);
	put32(&g->keys, type);
	assert_true(rp_buf_add(&g->keys, bytes, n));
	g->n_keys++;
}

void mm_gguf_u32(mm_gguf *g, const char *key, uint32_t v)
{
	put_str(&g->keys, key);
	put32(&g->keys, RP_KV_U32);
	put32(&g->keys, v);
	g->n_keys++;
}

void mm_gguf_f32(mm_gguf *g, const char *key, float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	put_str(&g->keys, key);
	put32(&g->keys, RP_KV_F32);
	put32(&g->keys, bits);
	g->n_keys++;
}

void mm_gguf_bool(mm_gguf *g, const char *key, bool v)
{
	mm_gguf_key(g, key, RP_KV_BOOL, v ? "\1" : "\0", 1);
}

void mm_gguf_str(mm_gguf *g, const char *key, const char *v)
{
	put_str(&g->keys, key);
	put32(&g->keys, RP_KV_STRING);
	put_str(&g->keys, v);
	g->n_keys++;
}

void mm_gguf_array(mm_gguf *g, const char *key, uint32_t elem, uint64_t n, const void *bytes, size_t n_bytes)
{
	put_str(&g->keys, key);
	put32(&g->keys, RP_KV_ARRAY);
	put32(&g->keys, elem);
	put64(&g->keys, n);
	assert_true(rp_buf_add(&g->keys, bytes, n_bytes));
	g->n_keys++;
}

void mm_gguf_strings(mm_gguf *g, const char *key, const char *const *v, size_t n)
{
	mm_gguf_array(g, key, RP_KV_STRING, n, "", 0);
	for (size_t i = 0; i < n; i++)
		put_str(&g->keys, v[i]);
}

uint32_t mm_gguf_type(rp_dtype t)
{
	static const uint32_t ids[RP_DTYPE_COUNT] = { [RP_F32] = 0,
		[RP_F16] = 1,
		[RP_BF16] = 30,
		[RP_Q4_0] = 2,
		[RP_Q4_1] = 3,
		[RP_Q5_0] = 6,
		[RP_Q5_1] = 7,
		[RP_Q8_0] = 8,
		[RP_Q4_K] = 12,
		[RP_Q5_K] = 13,
		[RP_Q6_K] = 14,
		[RP_OTHER] = 26 };
	return ids[t];
}

void mm_gguf_info(mm_gguf *g, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset)
{
	put_str(&g->infos, name);
	put32(&g->infos, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		put64(&g->infos, dims[i]);
	put32(&g->infos, type);
	put64(&g->infos, offset);
	g->n_tensors++;
}

void mm_gguf_tensor(mm_gguf *g, const char *name, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims, const float *values)
{
	uint64_t reversed[RP_MAX_DIMS];
	for (uint32_t i = 0; i < n_dims; i++)
		reversed[i] = dims[n_dims - 1 - i];
	pad(&g->data, g->alignment);
	mm_gguf_info(g, name, n_dims, reversed, mm_gguf_type(dtype), g->data.len);
	add_encoded(&g->data, dtype, n_dims, dims, values);
}

void mm_gguf_build(const mm_gguf *g, rp_buf *b)
{
	rp_buf_init(b, 0);
	assert_true(rp_buf_adds(b, "GGUF"));
	put32(b, g->version);
	put64(b, g->n_tensors);
	put64(b, g->n_keys);
	assert_true(rp_buf_add(b, g->keys.data, g->keys.len));
	assert_true(rp_buf_add(b, g->infos.data, g->infos.len));
	pad(b, g->alignment);
	assert_true(rp_buf_add(b, g->data.data, g->data.len));
}

/* ---- safetensors ---- */

static void put_shape(rp_buf *b, uint32_t n_dims, const uint64_t *dims)
{
	for (uint32_t i = 0; i < n_dims; i++)
		assert_true(rp_buf_addf(b, "%s%llu", i > 0 ? "," : "", (unsigned long long)dims[i]));
}

void mm_st_init(mm_safetensors *s)
{
	*s = (mm_safetensors){ 0 };
}

void mm_st_free(mm_safetensors *s)
{
	rp_buf_free(&s->header);
	rp_buf_free(&s->data);
}

void mm_st_tensor(mm_safetensors *s, const char *name, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims, const float *values)
{
	size_t from = s->data.len;
	add_encoded(&s->data, dtype, n_dims, dims, values);
	assert_true(rp_buf_addf(&s->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", s->header.len > 0 ? "," : "", name,
		rp_dtype_get(dtype)->name));
	put_shape(&s->header, n_dims, dims);
	assert_true(rp_buf_addf(&s->header, "],\"data_offsets\":[%zu,%zu]}", from, s->data.len));
}

void mm_st_build(const mm_safetensors *s, rp_buf *b)
{
	rp_buf_init(b, 0);
	put64(b, s->header.len + 2);
	assert_true(rp_buf_addf(b, "{%s}", s->header.len > 0 ? s->header.data : ""));
	assert_true(rp_buf_add(b, s->data.data, s->data.len));
}

void mm_st_raw(rp_buf *b, const char *header, size_t n_data)
{
	rp_buf_init(b, 0);
	put_str(b, header);
	for (size_t i = 0; i < n_data; i++)
		assert_true(rp_buf_addc(b, '\0'));
}

/* ---- RDRR ---- */

void mm_rdrr_init(mm_rdrr *r)
{
	*r = (mm_rdrr){ .shard_size = 64 << 20,
		.architecture =
			"{\"numLayers\":2,\"hiddenSize\":256,\"intermediateSize\":512,\"numAttentionHeads\":2,\"numKeyValueHeads\":1,"
			"\"headDim\":64,\"vocabSize\":512,\"maxSeqLen\":1024}",
		.inference = "{}" };
}

void mm_rdrr_free(mm_rdrr *r)
{
	rp_buf_free(&r->tensors);
	rp_buf_free(&r->data);
}

void mm_rdrr_tensor(mm_rdrr *r, const char *name, const char *role, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims,
	const float *values)
{
	size_t from = r->data.len;
	add_encoded(&r->data, dtype, n_dims, dims, values);
	size_t size = r->data.len - from;
	bool quantised = rp_dtype_get(dtype)->block_values > 1;
	assert_true(rp_buf_addf(&r->tensors,
		"%s\"%s\":{\"dtype\":\"%s\",\"role\":\"%s\",\"group\":\"other\",%s\"size\":%zu,\"shape\":[",
		r->tensors.len > 0 ? ",\n" : "", name, dtype == RP_Q4_K ? "Q4_K_M" : rp_dtype_get(dtype)->name, role,
		quantised ? "\"layout\":\"row\"," : "", size));
	put_shape(&r->tensors, n_dims, dims);
	if (size == 0 || from / r->shard_size == (from + size - 1) / r->shard_size) {
		assert_true(rp_buf_addf(&r->tensors, "],\"shard\":%llu,\"offset\":%llu}", (unsigned long long)(from / r->shard_size),
			(unsigned long long)(from % r->shard_size)));
		return;
	}
	assert_true(rp_buf_adds(&r->tensors, "],\"spans\":["));
	for (uint64_t at = from; at < from + size;) {
		uint64_t part = r->shard_size - at % r->shard_size;
		part = part < from + size - at ? part : from + size - at;
		assert_true(rp_buf_addf(&r->tensors, "%s{\"shardIndex\":%llu,\"offset\":%llu,\"size\":%llu}", at > from ? "," : "",
			(unsigned long long)(at / r->shard_size), (unsigned long long)(at % r->shard_size), (unsigned long long)part));
		at += part;
	}
	assert_true(rp_buf_adds(&r->tensors, "]}"));
}

void mm_rdrr_write(const mm_rdrr *r, const char *folder)
{
	rp_buf m;
	rp_buf_init(&m, 0);
	assert_true(rp_buf_addf(&m,
		"{\"version\":1,\"modelId\":\"made\",\"modelType\":\"transformer\",\"quantization\":\"mixed\",\n\"architecture\":%s,\n"
		"\"inference\":%s,\n\"shards\":[",
		r->architecture, r->inference));
	for (uint64_t at = 0, i = 0; at < r->data.len; at += r->shard_size, i++) {
		size_t n = r->data.len - at < r->shard_size ? (size_t)(r->data.len - at) : (size_t)r->shard_size;
		unsigned char hash[RP_HASH_BYTES];
		char hex[RP_HASH_HEX], name[32];
		snprintf(name, sizeof name, "shard_%05u.bin", (unsigned)i);
		rp_sha256_once(r->data.data + at, n, hash);
		mm_write(folder, name, r->data.data + at, n);
		assert_true(rp_buf_addf(&m, "%s{\"index\":%llu,\"filename\":\"%s\",\"size\":%zu,\"hash\":\"%s\",\"offset\":%llu}",
			i > 0 ? ",\n" : "", (unsigned long long)i, name, n, rp_hex(hex, hash, sizeof hash), (unsigned long long)at));
	}
	assert_true(rp_buf_addf(&m, "],\n\"tensors\":{%s},\n\"totalSize\":%zu,\"hashAlgorithm\":\"sha256\",\"eos_token_id\":[2]}\n",
		r->tensors.len > 0 ? r->tensors.data : "", r->data.len));
	mm_write(folder, "manifest.json", m.data, m.len);
	rp_buf_free(&m);
}
