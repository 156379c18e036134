/* What the readers share. Not for use outside common/model (and its tests). */
#ifndef RP_MODEL_INTERNAL_H
#define RP_MODEL_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "hash/hash.h"
#include "model.h"

/* Names are capped by small constants, everything else by the bytes left in the file. */
enum { RP_MAX_NAME = 1024, RP_MAX_TENSORS = 1 << 20, RP_MAX_FILES = 1 << 16, RP_KEPT_OPEN = 256 };

/* A file that holds tensor data. */
typedef struct rp_source {
	const char *path; /* for messages and for opening again; in the arena */
	uint64_t size;
	const void *memory; /* set for a model that was opened from memory; then nothing below is used */
	int fd;             /* -1 when not kept open: models of very many shards */
	dev_t device;
	ino_t inode;
	const void *map; /* set under rp_model.map_lock */
} rp_source;

typedef struct rp_kv {
	rp_str key;
	rp_kv_type type, elem; /* elem of an array */
	uint64_t n;            /* elements of an array, else 1 */
	const uint8_t *data;   /* the value's bytes, those of element 0 for an array of numbers */
	const rp_str *strings; /* a string, or the elements of an array of strings */
} rp_kv;

struct rp_model {
	rp_format format;
	char *path, *folder; /* as given; the folder siblings are looked for in */
	char identity[80];
	rp_arena arena; /* tensors, spans, names, key tables */
	rp_source *sources;
	size_t n_sources;
	rp_file_info *files; /* what the public header says of them */
	rp_tensor *tensors;
	size_t n_tensors, cap_tensors;
	uint32_t *by_name; /* tensor indices in the order of their names */
	struct cJSON *json;
	char *tokenizer_file; /* RDRR: checked name, or NULL */
	unsigned char *head; /* GGUF: the header's bytes, which keys point into */
	rp_kv *kvs;
	size_t n_kvs;
	uint32_t *kv_by_key;
	pthread_mutex_t map_lock;
};

/* ---- model.c ---- */
rp_model *rp_model_new(const char *path, const char *folder); /* NULL: no memory */
/* Room for n data files; m->n_sources counts those that are open. */
rp_code rp_model_reserve_sources(rp_model *m, size_t n, rp_error *err);
void rp_model_set_identity(rp_model *m, const unsigned char hash[RP_HASH_BYTES]);
/* As rp_model_open for bytes in memory (kept by the caller until the model is closed); RDRR: the manifest, whose shards are
 * then known by size alone and cannot be read. Used by fuzz targets. */
rp_code rp_model_open_memory(rp_format format, const void *bytes, size_t n, rp_model **out, rp_error *err);

/* ---- tensor.c ---- */
/* Room for n more tensors; false when memory is short. */
bool rp_model_reserve_tensors(rp_model *m, size_t n);
/* Append a tensor without spans. Checks the name (UTF-8, no NUL, length), computes n_values, and size by dtype with rows
 * padded to whole blocks; for RP_OTHER size is n_values * other_bytes. dims outermost first. */
rp_code rp_model_add_tensor(rp_model *m, rp_str name, rp_dtype dtype, uint32_t other_bytes, const uint64_t *dims,
	uint32_t n_dims, rp_tensor **out, rp_error *err);
/* One range; checks that it lies within the file. size 0 gives no span. */
rp_code rp_tensor_set_range(rp_model *m, rp_tensor *t, uint32_t file, uint64_t offset, rp_error *err);
/* Build the name index (RP_FORMAT for a name that is there twice) and check that no two tensors share bytes. */
rp_code rp_model_finish_tensors(rp_model *m, rp_error *err);

/* ---- source.c ---- */
/* Open a regular file for reading and fill *s; expected_size UINT64_MAX when any will do. inside: when not NULL, a symbolic
 * link must not lead out of this folder. The descriptor is kept when keep is true. */
rp_code rp_source_open(rp_source *s, const char *path, const char *inside, bool keep, rp_error *err);
void rp_source_close(rp_source *s);
rp_code rp_source_read(const rp_source *s, uint64_t offset, void *dst, size_t n, rp_error *err);
const void *rp_source_map(rp_source *s);
/* A name that came from inside a file: one component, no "..", nothing hidden, printable. */
bool rp_name_is_plain(const char *name);

/* ---- random.c ---- */
/* The file of a random model, in memory behind *fd. */
rp_code rp_random_make(const char *path, int *fd, uint64_t *size, rp_error *err);

/* ---- the readers ---- */
/* m is new, its one source open. Starts m's arena anew: nothing of m may lie in it yet. */
rp_code rp_gguf_read(rp_model *m, rp_error *err);
/* The same from the file's first n bytes alone. *wanted not 0 (RP_READ): the header is longer; so many bytes would get further. */
rp_code rp_gguf_read_header(rp_model *m, const void *bytes, size_t n, uint64_t *wanted, rp_error *err);
/* The tensors of one open source; its header goes into the digest. rp_model_finish_tensors is up to the caller. */
rp_code rp_safetensors_read(rp_model *m, uint32_t source, rp_sha256 *digest, rp_error *err);
/* m->json is the parsed manifest, text its n bytes. Without open_shards no shard is looked at. */
rp_code rp_rdrr_read(rp_model *m, const char *text, size_t n, bool open_shards, rp_error *err);
/* Shards, then tensors: the half of the above that is not about the manifest's other fields. */
rp_code rp_rdrr_read_shards(rp_model *m, bool open_shards, rp_error *err);
rp_code rp_rdrr_read_tensors(rp_model *m, const struct cJSON *tensors, rp_error *err);

#endif
