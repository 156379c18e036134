/* catalog: the list of models a user may name by id: an array of objects, each with the hash of its manifest, the files that are
 * pinned by hash, and where they lie. Members this build does not know are ignored. */
#ifndef RP_CATALOG_H
#define RP_CATALOG_H

#include "hash/hash.h"

enum { RP_MAX_CATALOG_BYTES = 16 << 20, RP_MAX_PINNED_BYTES = 64 << 20 };

typedef enum rp_role { RP_ROLE_OTHER, RP_ROLE_MANIFEST, RP_ROLE_TOKENIZER, RP_ROLE_INDEX } rp_role;

typedef struct rp_catalog_file {
	const char *path; /* fit for a file name (rp_piece_name_valid) and unique in the model */
	rp_role role;
	uint64_t size;
	unsigned char sha256[RP_HASH_BYTES];
	const char *url; /* NULL: the catalogue names no origin for it */
} rp_catalog_file;

typedef struct rp_catalog_adapter {
	const char *id, *name, *path;
	uint64_t size;
	char sha256[RP_HASH_HEX];
	const char *url, *other_url; /* the second may be NULL */
} rp_catalog_adapter;

typedef struct rp_catalog_model {
	const char *id, *name, *quantization, *size_label;
	unsigned char identity[RP_HASH_BYTES]; /* SHA-256 of the manifest */
	const char *base_url; /* of the shards, ends in '/'; NULL: no origin */
	rp_catalog_file *files;
	size_t n_files;
	rp_catalog_adapter *adapters;
	size_t n_adapters;
	uint64_t context;
	bool recommended;
} rp_catalog_model;

typedef struct rp_catalog {
	rp_catalog_model *models;
	size_t n_models;
	rp_arena arena;
} rp_catalog;

/* name is for messages; site is the base of addresses that begin with a slash ("https://replo.id"). RP_FORMAT names the field. */
rp_code rp_catalog_parse(const char *name, const char *text, size_t n, const char *site, rp_catalog **out, rp_error *err);
void rp_catalog_free(rp_catalog *c); /* NULL is fine */
const rp_catalog_model *rp_catalog_find(const rp_catalog *c, const char *id);
const rp_catalog_adapter *rp_catalog_find_adapter(const rp_catalog *c, const char *id);
const rp_catalog_file *rp_catalog_role(const rp_catalog_model *m, rp_role role); /* NULL: none */

#endif
