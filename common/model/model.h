/* model: model files of any format read into one tensor table and one way to ask for metadata.
 *
 * Formats: GGUF v2/v3 (one file), RDRR (folder: manifest.json + shards; the artifact format of the original system), and
 * safetensors (folder: config.json + one or more .safetensors, or one file with config.json beside it). Readers are strict:
 * every length is checked against the bytes left, arithmetic is checked, work and memory are bounded by the file's size, no
 * byte of a file is ever trusted as an index. What a name means is not known here: that is graph/ (families).
 *
 * A model is immutable after rp_model_open and may be read from many threads. Names and tensors live until rp_model_close.
 */
#ifndef RP_MODEL_H
#define RP_MODEL_H

#include "base/base.h"

struct cJSON;

/* Storage types. Quantised ones are those of GGML, byte for byte; blocks run along the last dimension. */
typedef enum rp_dtype {
	RP_F32,
	RP_F16,
	RP_BF16,
	RP_Q4_0,
	RP_Q4_1,
	RP_Q5_0,
	RP_Q5_1,
	RP_Q8_0,
	RP_Q4_K,
	RP_Q5_K,
	RP_Q6_K,
	RP_OTHER, /* a type no kernel reads (integers, bool): listed, never bound */
	RP_DTYPE_COUNT
} rp_dtype;

typedef struct rp_dtype_info {
	const char *name;      /* "Q4_K" */
	uint32_t block_values; /* values a block, 1 for F32 F16 BF16; 0 for RP_OTHER */
	uint32_t block_bytes;
} rp_dtype_info;

const rp_dtype_info *rp_dtype_get(rp_dtype t);
/* Bytes of one row of k values (ceil(k / block_values) blocks); false on overflow or RP_OTHER. */
bool rp_dtype_row_bytes(rp_dtype t, uint64_t k, uint64_t *bytes);
/* Decode n values starting at value 0 of the block sequence src (n need not fill the last block). Not for RP_OTHER. */
void rp_dequant(rp_dtype t, const void *src, uint64_t n, float *dst);
/* Encode rows of k values each: rows of rp_dtype_row_bytes(t, k) bytes one after another at dst; a short last block is filled
 * with zeros. Every type but RP_OTHER; values must be finite. False (dst untouched) on overflow or RP_OTHER. */
bool rp_quantize(rp_dtype t, const float *src, uint64_t rows, uint64_t k, void *dst);
float rp_f16_to_f32(uint16_t h);
uint16_t rp_f32_to_f16(float f); /* round to nearest even */

enum { RP_MAX_DIMS = 8 }; /* GGUF allows 4; a safetensors file of a vision tower has 5 */

typedef struct rp_span {
	uint32_t file; /* index into the model's files */
	uint64_t offset, size;
} rp_span;

typedef struct rp_tensor {
	const char *name; /* as the file spells it; valid UTF-8 */
	rp_dtype dtype;
	uint32_t n_dims;              /* 0 is a scalar */
	uint64_t dims[RP_MAX_DIMS];   /* outermost first ([out, in] for a projection), whatever the file's own order */
	uint64_t n_values, size;      /* product of dims; bytes in storage, rows padded to whole blocks */
	const rp_span *spans;         /* concatenated in order; adjacent ranges are merged */
	uint32_t n_spans;
} rp_tensor;

typedef enum rp_format { RP_FORMAT_GGUF, RP_FORMAT_RDRR, RP_FORMAT_SAFETENSORS } rp_format;

typedef struct rp_model rp_model;

/* path: a GGUF file, a safetensors file or the index of several, a manifest.json, or a folder holding one of these forms. The
 * form is told by content, not by name. A folder with several .gguf or .safetensors files and none of the usual names is
 * RP_USAGE. Files an RDRR manifest names must lie in its folder, links followed; safetensors files may be links to anywhere
 * (download caches are made so). *
 * "random:NAME" or "random:NAME@SEED" is no file: a GGUF model of a known shape ("tiny", "qwen35-0.8b", ...) with weights by
 * chance and no tokenizer, made in memory. Equal names and seeds (1 when none is given) give equal bytes on every machine. */
rp_code rp_model_open(const char *path, rp_model **out, rp_error *err);
/* A GGUF file elsewhere, of which the first n bytes and the size are known: everything but the bytes of tensors. *wanted not 0
 * (RP_READ): its header is longer than that, so many bytes would get further. name is for messages. */
rp_code rp_model_open_header(const char *name, const void *bytes, size_t n, uint64_t size, uint64_t *wanted, rp_model **out,
	rp_error *err);
bool rp_model_is_random(const char *path);
void rp_model_close(rp_model *m);

rp_format rp_model_format(const rp_model *m);
const char *rp_model_path(const rp_model *m); /* for messages */
/* "sha256:<hex>" over the manifest (RDRR), the header's bytes (GGUF), or the header of each file, then config.json
 * (safetensors): names what is computed, it does not vouch for the weights' bytes. */
const char *rp_model_identity(const rp_model *m);
uint64_t rp_model_bytes(const rp_model *m); /* of all its files */

/* The files that hold tensor data, in the order spans count them. */
typedef struct rp_file_info {
	const char *path;
	uint64_t size;
	const char *algorithm, *hash; /* RDRR: "sha256" or "blake3" and 64 lowercase hex digits; else NULL */
} rp_file_info;

size_t rp_model_n_files(const rp_model *m);
const rp_file_info *rp_model_file(const rp_model *m, size_t i);

size_t rp_model_n_tensors(const rp_model *m);
const rp_tensor *rp_model_tensor(const rp_model *m, size_t i); /* in file order */
const rp_tensor *rp_model_find(const rp_model *m, const char *name); /* NULL when absent */

/* Copy bytes [offset, offset + n) of a tensor. */
rp_code rp_tensor_read(const rp_model *m, const rp_tensor *t, uint64_t offset, void *dst, size_t n, rp_error *err);
/* Map the tensor's bytes read-only for as long as the model is open; NULL when they are not one range of one file. */
const void *rp_tensor_map(const rp_model *m, const rp_tensor *t);
/* The whole tensor as float32, n_values of them, rows without padding. */
rp_code rp_tensor_f32(const rp_model *m, const rp_tensor *t, float *dst, rp_error *err);

/* ---- metadata ---- */
/* RDRR: the manifest. safetensors: config.json, NULL when there is none. GGUF: NULL. */
const struct cJSON *rp_model_json(const rp_model *m);
/* A file that belongs to the model ("tokenizer.json", "generation_config.json"): its path, free() it; NULL when absent.
 * name comes from the format, never from a file's content, except RDRR's tokenizer.file which the reader has checked. */
char *rp_model_sibling(const rp_model *m, const char *name);

/* GGUF keys. Found: RP_OK. Absent: RP_NOT_FOUND, err untouched. Present with another type or out of range: RP_FORMAT. */
typedef enum rp_kv_type { RP_KV_U8, RP_KV_I8, RP_KV_U16, RP_KV_I16, RP_KV_U32, RP_KV_I32, RP_KV_F32, RP_KV_BOOL, RP_KV_STRING,
	RP_KV_ARRAY, RP_KV_U64, RP_KV_I64, RP_KV_F64 } rp_kv_type;

typedef struct rp_str {
	const char *s; /* not NUL-terminated; may hold any byte */
	size_t n;
} rp_str;

rp_code rp_kv_u64(const rp_model *m, const char *key, uint64_t *out, rp_error *err); /* any integer type, not negative */
rp_code rp_kv_f64(const rp_model *m, const char *key, double *out, rp_error *err);   /* any float or integer type, finite */
rp_code rp_kv_bool(const rp_model *m, const char *key, bool *out, rp_error *err);
rp_code rp_kv_str(const rp_model *m, const char *key, rp_str *out, rp_error *err);
/* Arrays: element type is checked before any element is read. *n is the count. */
rp_code rp_kv_array(const rp_model *m, const char *key, rp_kv_type *elem, uint64_t *n, rp_error *err);
rp_code rp_kv_array_str(const rp_model *m, const char *key, const rp_str **out, uint64_t *n, rp_error *err);
/* Element i of an array of integers or bools; of any numbers. */
rp_code rp_kv_array_i64(const rp_model *m, const char *key, uint64_t i, int64_t *out, rp_error *err);
rp_code rp_kv_array_f64(const rp_model *m, const char *key, uint64_t i, double *out, rp_error *err);

/* JSON text to cJSON with what cJSON does not check: depth (64), duplicate keys in an object, non-UTF-8 strings, NUL bytes,
 * trailing bytes, numbers that are not finite. Delete the result with cJSON_Delete. name is for messages. */
rp_code rp_json_parse(const char *name, const char *text, size_t n, struct cJSON **out, rp_error *err);
/* A number that is a whole one in [0, 2^53] (what a double holds exactly). False for anything else, NULL too. */
bool rp_json_whole(const struct cJSON *v, uint64_t *out);

#endif
