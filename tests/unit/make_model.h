/* Small model files for tests, made in memory or in a temporary folder. A failure to make one fails the test (cmocka). */
#ifndef MAKE_MODEL_H
#define MAKE_MODEL_H

#include "base/base.h"
#include "model/model.h"

/* ---- folders and files ---- */
char *mm_temp_folder(void); /* free with mm_remove_folder, which deletes it with all files in it */
void mm_remove_folder(char *folder);
char *mm_path(const char *folder, const char *name); /* free() it */
void mm_write(const char *folder, const char *name, const void *bytes, size_t n);
/* A copy of text with the first `from` (which must be there) replaced; free() it. */
char *mm_replace(const char *text, const char *from, const char *to);
/* Values for weights: a fixed pseudo-random sequence in about [-1, 1) times scale. */
void mm_values(float *out, size_t n, uint32_t seed, float scale);

/* Keep bytes as a seed for fuzzing: a file named by their hash in $REPLOID_SEEDS; nothing when that is not set. */
void mm_seed(const void *bytes, size_t n);

/* ---- GGUF ---- */
typedef struct mm_gguf {
	uint32_t version, alignment; /* 3 and 32 from init; change before the first tensor */
	rp_buf keys, infos, data;
	uint64_t n_keys, n_tensors;
} mm_gguf;

void mm_gguf_init(mm_gguf *g);
void mm_gguf_free(mm_gguf *g);
/* Any value: type is GGUF's number, bytes its little-endian form. */
void mm_gguf_key(mm_gguf *g, const char *key, uint32_t type, const void *bytes, size_t n);
void mm_gguf_u32(mm_gguf *g, const char *key, uint32_t v);
void mm_gguf_f32(mm_gguf *g, const char *key, float v);
void mm_gguf_bool(mm_gguf *g, const char *key, bool v);
void mm_gguf_str(mm_gguf *g, const char *key, const char *v);
void mm_gguf_strings(mm_gguf *g, const char *key, const char *const *v, size_t n);
/* elem: GGUF's type of the elements, bytes: all of them. */
void mm_gguf_array(mm_gguf *g, const char *key, uint32_t elem, uint64_t n, const void *bytes, size_t n_bytes);
/* A tensor from float32 values (encoded to dtype); dims outermost first; rows must be whole blocks. */
void mm_gguf_tensor(
	mm_gguf *g, const char *name, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims, const float *values);
/* An entry of the table alone, as wrong as wanted: type id, dims in the file's own order (innermost first), offset. */
void mm_gguf_info(mm_gguf *g, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset);
/* The whole file; free b with rp_buf_free. */
void mm_gguf_build(const mm_gguf *g, rp_buf *b);
uint32_t mm_gguf_type(rp_dtype t);

/* ---- safetensors ---- */
typedef struct mm_safetensors {
	rp_buf header, data;
} mm_safetensors;

void mm_st_init(mm_safetensors *s);
void mm_st_free(mm_safetensors *s);
/* F32, F16 or BF16 from float32 values. */
void mm_st_tensor(mm_safetensors *s, const char *name, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims, const float *values);
void mm_st_build(const mm_safetensors *s, rp_buf *b);
/* A file of any header text and n_data zero bytes. */
void mm_st_raw(rp_buf *b, const char *header, size_t n_data);

/* ---- RDRR ---- */
typedef struct mm_rdrr {
	rp_buf tensors, data; /* the JSON of the tensors; all of their bytes */
	uint64_t shard_size;  /* 64 MiB from init; smaller to see tensors cross shards */
	/* parts of the manifest, JSON text; from init a transformer of 2 layers, inference empty */
	const char *architecture, *inference;
} mm_rdrr;

void mm_rdrr_init(mm_rdrr *r);
void mm_rdrr_free(mm_rdrr *r);
/* From float32 values, rows padded to whole blocks. */
void mm_rdrr_tensor(mm_rdrr *r, const char *name, const char *role, rp_dtype dtype, uint32_t n_dims, const uint64_t *dims,
	const float *values);
/* Write manifest.json and shard_NNNNN.bin (true SHA-256) into the folder. */
void mm_rdrr_write(const mm_rdrr *r, const char *folder);

#endif
