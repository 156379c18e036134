/* Models that exist nowhere: true shapes and block formats, weights by chance. They are written as a GGUF file in memory and read
 * by its reader, so everything that opens a model can use them. The seed stands in the header and so in the identity. */
#define _GNU_SOURCE /* memfd_create */

#include "internal.h"

#include "base/random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 32, MAX_TENSOR_NAME = 64 };

typedef struct shape {
	const char *name, *arch;
	uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, rotary_dim;
	uint32_t key_heads, value_heads, linear_dim, conv, full_every; /* full_every 0: attention in each layer */
	uint32_t vocab, ctx;
	float theta;
	rp_dtype matrices, embedding;
	bool head; /* has an output matrix of its own */
} shape;

static const shape shapes[] = {
	{"tiny", "qwen35", 4, 256, 512, 2, 1, 256, 64, 2, 2, 128, 4, 4, 1024, 4096, 1e7f, RP_Q4_K, RP_Q6_K, false},
	{"tiny-llama", "llama", 2, 256, 512, 4, 2, 64, 64, 0, 0, 0, 0, 0, 1000, 4096, 1e4f, RP_Q4_K, RP_Q8_0, true},
	{"qwen35-0.8b", "qwen35", 24, 1024, 3584, 8, 2, 256, 64, 16, 16, 128, 4, 4, 248320, 262144, 1e7f, RP_Q4_K, RP_Q6_K, false},
	{"qwen35-2b", "qwen35", 24, 2048, 6144, 8, 2, 256, 64, 16, 16, 128, 4, 4, 248320, 262144, 1e7f, RP_Q4_K, RP_Q6_K, false},
	{"llama-135m", "llama", 30, 576, 1536, 9, 3, 64, 64, 0, 0, 0, 0, 0, 49152, 8192, 1e5f, RP_Q4_0, RP_Q8_0, false},
	{"llama-1b", "llama", 16, 2048, 8192, 32, 8, 64, 64, 0, 0, 0, 0, 0, 128256, 131072, 5e5f, RP_Q4_K, RP_Q6_K, false},
};

/* What the values of a tensor look like. */
typedef enum values {
	VALUES_WEIGHT, /* about 1 / sqrt(k), so that activations keep their size from layer to layer */
	VALUES_NORM,   /* around 1 */
	VALUES_DECAY,  /* -exp(A_log): between -1 and -0.1 */
} values;

typedef struct entry {
	char name[MAX_TENSOR_NAME];
	uint32_t n_dims;
	uint64_t dims[2]; /* outermost first */
	rp_dtype dtype;
	values values;
	uint64_t offset, size; /* in the data */
} entry;

typedef struct plan {
	const shape *shape;
	uint64_t seed;
	entry *v;
	size_t n, cap;
	bool failed; /* no memory */
} plan;

/* ---- which tensors ---- */
static void add(plan *p, const char *name, uint64_t rows, uint64_t k, rp_dtype dtype, values what)
{
	uint64_t row = 0;
	if (p->n == p->cap) {
		size_t cap = p->cap == 0 ? 64 : 2 * p->cap;
		entry *grown = rp_grow_array(p->v, cap, sizeof *grown);
		if (grown == NULL) {
			p->failed = true;
			return;
		}
		p->v = grown;
		p->cap = cap;
	}
	entry *e = &p->v[p->n];
	*e = (entry){.n_dims = rows == 0 ? 1 : 2, .dims = {rows == 0 ? k : rows, k}, .dtype = dtype, .values = what};
	snprintf(e->name, sizeof e->name, "%s", name);
	rp_dtype_row_bytes(dtype, k, &row); /* shapes are ours: nothing here overflows */
	e->size = row * (rows == 0 ? 1 : rows);
	if (p->n > 0)
		rp_round_up_u64(p->v[p->n - 1].offset + p->v[p->n - 1].size, ALIGNMENT, &e->offset);
	p->n++;
}

static void add_layer_part(plan *p, uint32_t layer, const char *name, uint64_t rows, uint64_t k, rp_dtype dtype, values what)
{
	char full[MAX_TENSOR_NAME];
	snprintf(full, sizeof full, "blk.%u.%s", layer, name);
	add(p, full, rows, k, dtype, what);
}

static void matrix(plan *p, uint32_t layer, const char *name, uint64_t rows, uint64_t k)
{
	add_layer_part(p, layer, name, rows, k, p->shape->matrices, VALUES_WEIGHT);
}

static void norm(plan *p, uint32_t layer, const char *name, uint64_t k)
{
	add_layer_part(p, layer, name, 0, k, RP_F32, VALUES_NORM);
}

static void add_attention(plan *p, uint32_t i, bool gated)
{
	const shape *s = p->shape;
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
	matrix(p, i, "attn_q.weight", gated ? 2 * q : q, s->hidden);
	matrix(p, i, "attn_k.weight", kv, s->hidden);
	matrix(p, i, "attn_v.weight", kv, s->hidden);
	matrix(p, i, "attn_output.weight", s->hidden, q);
	if (gated) {
		norm(p, i, "attn_q_norm.weight", s->head_dim);
		norm(p, i, "attn_k_norm.weight", s->head_dim);
	}
}

static void add_delta(plan *p, uint32_t i)
{
	const shape *s = p->shape;
	uint64_t keys = (uint64_t)s->key_heads * s->linear_dim, inner = (uint64_t)s->value_heads * s->linear_dim;
	matrix(p, i, "attn_qkv.weight", 2 * keys + inner, s->hidden);
	matrix(p, i, "attn_gate.weight", inner, s->hidden);
	matrix(p, i, "ssm_out.weight", s->hidden, inner);
	add_layer_part(p, i, "ssm_conv1d.weight", 2 * keys + inner, s->conv, RP_F32, VALUES_WEIGHT);
	add_layer_part(p, i, "ssm_alpha.weight", s->value_heads, s->hidden, RP_F32, VALUES_WEIGHT);
	add_layer_part(p, i, "ssm_beta.weight", s->value_heads, s->hidden, RP_F32, VALUES_WEIGHT);
	add_layer_part(p, i, "ssm_a", 0, s->value_heads, RP_F32, VALUES_DECAY);
	norm(p, i, "ssm_dt.bias", s->value_heads);
	norm(p, i, "ssm_norm.weight", s->linear_dim);
}

static void add_all(plan *p)
{
	const shape *s = p->shape;
	bool qwen = s->full_every != 0;
	add(p, "token_embd.weight", s->vocab, s->hidden, s->embedding, VALUES_WEIGHT);
	add(p, "output_norm.weight", 0, s->hidden, RP_F32, VALUES_NORM);
	if (s->head)
		add(p, "output.weight", s->vocab, s->hidden, s->embedding, VALUES_WEIGHT);
	for (uint32_t i = 0; i < s->layers; i++) {
		norm(p, i, "attn_norm.weight", s->hidden);
		norm(p, i, qwen ? "post_attention_norm.weight" : "ffn_norm.weight", s->hidden);
		if (!qwen || (i + 1) % s->full_every == 0)
			add_attention(p, i, qwen);
		else
			add_delta(p, i);
		matrix(p, i, "ffn_gate.weight", s->ffn, s->hidden);
		matrix(p, i, "ffn_up.weight", s->ffn, s->hidden);
		matrix(p, i, "ffn_down.weight", s->hidden, s->ffn);
	}
}

/* ---- the header ---- */
static void put(rp_buf *b, uint64_t v, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		rp_buf_addc(b, (char)(v >> (8 * i)));
}

static void put_str(rp_buf *b, const char *s)
{
	put(b, strlen(s), 8);
	rp_buf_adds(b, s);
}

typedef struct header {
	rp_buf keys;
	uint64_t n;
	const char *arch;
} header;

/* A key of the architecture, or a general one. */
static void key(header *h, const char *name, rp_kv_type type)
{
	char full[80];
	bool general = strncmp(name, "general.", 8) == 0;
	snprintf(full, sizeof full, "%s%s%s", general ? "" : h->arch, general ? "" : ".", name);
	put_str(&h->keys, full);
	put(&h->keys, type, 4);
	h->n++;
}

static void key_u32(header *h, const char *name, uint32_t v)
{
	key(h, name, RP_KV_U32);
	put(&h->keys, v, 4);
}

static void key_f32(header *h, const char *name, float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	key(h, name, RP_KV_F32);
	put(&h->keys, bits, 4);
}

static void key_str(header *h, const char *name, const char *v)
{
	key(h, name, RP_KV_STRING);
	put_str(&h->keys, v);
}

static void add_keys(header *h, const plan *p)
{
	const shape *s = p->shape;
	h->arch = s->arch;
	key_str(h, "general.architecture", s->arch);
	key_str(h, "general.name", s->name);
	key(h, "general.random_seed", RP_KV_U64);
	put(&h->keys, p->seed, 8);
	key_u32(h, "block_count", s->layers);
	key_u32(h, "context_length", s->ctx);
	key_u32(h, "embedding_length", s->hidden);
	key_u32(h, "feed_forward_length", s->ffn);
	key_u32(h, "attention.head_count", s->heads);
	key_u32(h, "attention.head_count_kv", s->kv_heads);
	key_u32(h, "attention.key_length", s->head_dim);
	key_u32(h, "attention.value_length", s->head_dim);
	key_f32(h, "attention.layer_norm_rms_epsilon", s->full_every != 0 ? 1e-6f : 1e-5f);
	key_f32(h, "rope.freq_base", s->theta);
	key_u32(h, "rope.dimension_count", s->rotary_dim);
	key_u32(h, "vocab_size", s->vocab);
	if (s->full_every == 0)
		return;
	key_u32(h, "ssm.conv_kernel", s->conv);
	key_u32(h, "ssm.inner_size", s->value_heads * s->linear_dim);
	key_u32(h, "ssm.state_size", s->linear_dim);
	key_u32(h, "ssm.time_step_rank", s->value_heads);
	key_u32(h, "ssm.group_count", s->key_heads);
	key_u32(h, "full_attention_interval", s->full_every);
}

static uint32_t gguf_type(rp_dtype t)
{
	switch (t) {
	case RP_Q4_0: return 2;
	case RP_Q8_0: return 8;
	case RP_Q4_K: return 12;
	case RP_Q6_K: return 14;
	default: return 0; /* F32 */
	}
}

/* Everything before the data, padded. */
static bool make_header(const plan *p, rp_buf *out)
{
	header h = {.n = 0};
	rp_buf_init(&h.keys, 0);
	rp_buf_init(out, 0);
	add_keys(&h, p);
	rp_buf_adds(out, "GGUF");
	put(out, 3, 4);
	put(out, p->n, 8);
	put(out, h.n, 8);
	rp_buf_add(out, h.keys.data, h.keys.len);
	for (size_t i = 0; i < p->n; i++) {
		const entry *e = &p->v[i];
		put_str(out, e->name);
		put(out, e->n_dims, 4);
		for (uint32_t d = e->n_dims; d > 0; d--)
			put(out, e->dims[d - 1], 8);
		put(out, gguf_type(e->dtype), 4);
		put(out, e->offset, 8);
	}
	while (out->len % ALIGNMENT != 0 && rp_buf_addc(out, '\0'))
		;
	bool ok = !h.keys.failed && !out->failed;
	rp_buf_free(&h.keys);
	return ok;
}

/* ---- the values ---- */
static void fill_floats(const entry *e, rp_random *r, float *out)
{
	uint64_t n = e->size / sizeof *out;
	double width = sqrt(12.0 / (double)e->dims[e->n_dims - 1]); /* a uniform range of width w has a deviation of w / sqrt(12) */
	for (uint64_t i = 0; i < n; i++) {
		double u = rp_random_unit(r);
		out[i] = (float)(e->values == VALUES_NORM ? 0.75 + u / 2 : e->values == VALUES_DECAY ? -0.1 - 0.9 * u : width * (u - 0.5));
	}
}

static void put_f16(uint8_t *at, double v)
{
	uint16_t h = rp_f32_to_f16((float)v);
	at[0] = (uint8_t)h;
	at[1] = (uint8_t)(h >> 8);
}

/* Random bytes are good quants and good small scales; what is left are the half floats of each block. For uniform bytes the
 * deviation of a value in units of them is 258 (Q4_K, with a minimum 7.5 times the scale the mean is 0), 1364 (Q6_K), 74 (Q8_0),
 * 4.6 (Q4_0). */
static void scale_block(rp_dtype t, uint8_t *block, double deviation)
{
	switch (t) {
	case RP_Q4_K:
		put_f16(block, deviation / 258);
		put_f16(block + 2, deviation / 258 * 7.5);
		break;
	case RP_Q6_K: put_f16(block + 208, deviation / 1364); break;
	case RP_Q8_0: put_f16(block, deviation / 74); break;
	default: put_f16(block, deviation / 4.6); break; /* Q4_0 */
	}
}

static void fill_blocks(const entry *e, rp_random *r, uint8_t *out)
{
	uint32_t bytes = rp_dtype_get(e->dtype)->block_bytes;
	double deviation = 1 / sqrt((double)e->dims[e->n_dims - 1]);
	for (uint64_t at = 0; at < e->size; at += 8) {
		uint64_t word = rp_random_next(r);
		memcpy(out + at, &word, e->size - at < 8 ? e->size - at : 8);
	}
	for (uint64_t at = 0; at < e->size; at += bytes) /* no two blocks alike in scale: 0.75 to 1.25 of it */
		scale_block(e->dtype, out + at, deviation * (0.75 + rp_random_unit(r) / 2));
}

static void fill(const plan *p, uint8_t *data)
{
	for (size_t i = 0; i < p->n; i++) {
		rp_random r;
		rp_random_seed(&r, p->seed * 0x9e3779b97f4a7c15u + i);
		if (p->v[i].dtype == RP_F32)
			fill_floats(&p->v[i], &r, (float *)(void *)(data + p->v[i].offset));
		else
			fill_blocks(&p->v[i], &r, data + p->v[i].offset);
	}
}

/* ---- the file in memory ---- */
static rp_code write_all(int fd, const plan *p, const rp_buf *head, uint64_t size, const char *path, rp_error *err)
{
	if (ftruncate(fd, (off_t)size) != 0)
		return rp_fail_errno(err, RP_NO_MEMORY, errno, "%s: no room for %llu bytes", path, (unsigned long long)size);
	uint8_t *map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return rp_no_memory(err, size, path);
	memcpy(map, head->data, head->len);
	fill(p, map + head->len);
	munmap(map, (size_t)size);
	return RP_OK;
}

/* Pages of such a file are taken when they are touched, and then it is too late to say no. */
static rp_code check_room(uint64_t size, const char *path, rp_error *err)
{
	uint64_t left = rp_host_bytes_free();
	if (size > left)
		return rp_fail(err, RP_NO_MEMORY, "%s: takes %llu MiB of memory, %llu MiB are free", path, (unsigned long long)(size >> 20),
			(unsigned long long)(left >> 20));
	return RP_OK;
}

static rp_code make_file(const plan *p, const char *path, int *fd, uint64_t *size, rp_error *err)
{
	const entry *last = &p->v[p->n - 1];
	rp_buf head;
	rp_code rc = RP_OK;
	if (!make_header(p, &head))
		rc = rp_no_memory(err, head.len, path);
	*size = head.len + last->offset + last->size;
	if (rc == RP_OK)
		rc = check_room(*size, path, err);
	*fd = -1;
	if (rc == RP_OK && (*fd = memfd_create("reploid random model", MFD_CLOEXEC)) < 0)
		rc = rp_fail_errno(err, RP_NO_MEMORY, errno, "%s: cannot make a file in memory", path);
	if (rc == RP_OK)
		rc = write_all(*fd, p, &head, *size, path, err);
	rp_buf_free(&head);
	if (rc != RP_OK && *fd >= 0)
		close(*fd);
	return rc;
}

/* ---- names ---- */
static const char PREFIX[] = "random:";

bool rp_model_is_random(const char *path)
{
	return strncmp(path, PREFIX, sizeof PREFIX - 1) == 0;
}

/* "qwen35-0.8b" or "qwen35-0.8b@7" */
static rp_code read_name(const char *path, plan *p, rp_error *err)
{
	const char *name = path + sizeof PREFIX - 1, *at = strchr(name, '@');
	size_t n = at != NULL ? (size_t)(at - name) : strlen(name);
	char shown[80], known[200] = "";
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (strlen(shapes[i].name) == n && memcmp(shapes[i].name, name, n) == 0)
			p->shape = &shapes[i];
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? ", " : "", shapes[i].name);
	}
	if (p->shape == NULL)
		return rp_fail(err, RP_NOT_FOUND, "%s: no such random model; there are %s", rp_show(shown, sizeof shown, path, strlen(path)), known);
	p->seed = 1;
	if (at == NULL)
		return RP_OK;
	char *end;
	errno = 0;
	p->seed = strtoull(at + 1, &end, 10);
	if (at[1] < '0' || at[1] > '9' || *end != '\0' || errno != 0)
		return rp_fail(err, RP_USAGE, "%s: after @ a seed is expected, a whole number", rp_show(shown, sizeof shown, path, strlen(path)));
	return RP_OK;
}

rp_code rp_random_make(const char *path, int *fd, uint64_t *size, rp_error *err)
{
	plan p = {.n = 0};
	rp_code rc = read_name(path, &p, err);
	if (rc != RP_OK)
		return rc;
	add_all(&p);
	rc = p.failed ? rp_no_memory(err, p.cap * sizeof *p.v, path) : make_file(&p, path, fd, size, err);
	free(p.v);
	return rc;
}
