/* subject: what one operand stands for: files with what must be true of their bytes, and what was found.
 *
 * Filled by folder.c (RDRR: manifest, shards, piece index) or plain.c (model files without a list of their own); roots.c adds the
 * Merkle trees of tensors; subject.c reads everything once and judges. */
#ifndef VERIFY_SUBJECT_H
#define VERIFY_SUBJECT_H

#include "verify.h"

#include "model/model.h"
#include "store/hashcache.h"
#include "store/pieces.h"

typedef struct verify_item {
	const char *path;
	/* expected */
	bool size_known, sha256_known, blake3_known;
	uint64_t size;
	unsigned char sha256[RP_HASH_BYTES], blake3[RP_HASH_BYTES];
	const rp_piece *pieces; /* NULL: none known */
	size_t n_pieces;
	const char *const *sources; /* where its bytes can be had */
	size_t n_sources;
	rp_tree **trees; /* candidates for a plain file, one of which may be chosen; owned */
	size_t n_trees;
	/* found */
	rp_scan_range *ranges, *leaves; /* of the pieces; of tensors (roots.c) */
	size_t n_leaves;
	rp_scan_file scan;
	bool cached, judged;
	rp_scan_stamp stamp; /* when cached */
	size_t bad_pieces;
	rp_code code;
	rp_error error;
} verify_item;

struct verify_roots;

typedef struct verify_subject {
	verify_state *v;
	const char *path; /* as given or found */
	bool folder;
	rp_arena arena;
	char *manifest; /* text; NULL: not RDRR */
	size_t manifest_len;
	unsigned char identity[RP_HASH_BYTES]; /* of the manifest */
	rp_piece_index *index;
	struct rp_catalog *catalogue;
	const struct rp_catalog_model *entry; /* the model's in it; NULL: it is not there */
	rp_model *model; /* NULL: its structure is bad, or the file is no model */
	rp_code structure;
	rp_error structure_error;
	bool no_model; /* a file that does not claim to be one */
	verify_item *items;
	size_t n_items, room;
	struct verify_roots *roots; /* NULL: no tensor has one */
	/* while it is read */
	rp_scan_file *files; /* of the scan */
	verify_item **order; /* to which they belong */
	size_t next;
	bool pieces_only;
} verify_subject;

rp_code subject_open(verify_state *v, const char *operand, verify_subject *s, rp_error *err);
void subject_close(verify_subject *s);
/* A new item; NULL when memory is short. path is copied. */
verify_item *subject_add(verify_subject *s, const char *path);
/* Read what the cache does not vouch for and judge every item, results in order unless pieces_only. */
rp_code subject_scan(verify_subject *s, rp_error *err);
/* One line or record: "PATH: OK". */
rp_code verify_result(verify_state *v, const char *path, const verify_item *item, rp_code code, const char *message, rp_error *err);

/* ---- folder.c ---- */
rp_code folder_read(verify_subject *s, rp_error *err);
/* ---- plain.c ---- */
rp_code plain_read(verify_subject *s, rp_error *err);
/* Ranges for all trees the file may be a copy of; after they have been read, the choice among them. */
rp_code plain_make_ranges(verify_item *item, rp_error *err);
void plain_choose_tree(verify_item *item);

/* ---- catalogue.c ---- */
/* Look the model up, and compare its manifest with the catalogue's. */
rp_code catalogue_find(verify_subject *s, const char *id, const char *manifest, rp_error *err);
/* The bytes of the piece index against the catalogue's sum of it. */
rp_code catalogue_check_index(const verify_subject *s, const char *name, const char *path, const char *text, size_t n, rp_error *err);
/* What it knows of a file of the model. */
rp_code catalogue_add(verify_subject *s, verify_item *item, const char *name, rp_error *err);

/* ---- roots.c ---- */
rp_code roots_prepare(verify_subject *s, rp_error *err); /* fills items' leaves */
rp_code roots_check(verify_subject *s, rp_error *err);   /* RP_HASH names the tensor */
size_t roots_count(const verify_subject *s);
void roots_free(struct verify_roots *r);

#endif
