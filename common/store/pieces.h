/* pieces: what the bytes of files must be, piece by piece.
 *
 * The index of a model ("doppler.verified-pieces/v1") lists for each of its files the pieces with their SHA-256; pieces are
 * contiguous but of any size up to maxPieceBytes. A file without an index gets a local tree when it is fetched: pieces of 4 MiB
 * (the last one shorter), kept in the store under trees/, so that a copy damaged later can be repaired in place.
 */
#ifndef RP_PIECES_H
#define RP_PIECES_H

#include "hash/hash.h"

enum { RP_PIECE_BYTES = 4 << 20, RP_MAX_INDEX_BYTES = 64 << 20 };

typedef struct rp_piece {
	uint64_t offset, size; /* size > 0 */
	unsigned char sha256[RP_HASH_BYTES];
} rp_piece;

typedef struct rp_piece_file {
	const char *path; /* one name of [a-zA-Z0-9_.-], never "." or ".." */
	uint64_t size;    /* > 0 */
	const rp_piece *pieces; /* contiguous from 0, sizes add up to size */
	size_t n_pieces;
} rp_piece_file;

typedef struct rp_piece_index {
	unsigned char manifest[RP_HASH_BYTES]; /* SHA-256 of the manifest's bytes */
	uint64_t max_piece;
	rp_piece_file *files; /* names are unique */
	size_t n_files;
	uint32_t *by_name; /* indices into files in the order of their names */
	rp_arena arena;
} rp_piece_index;

/* name is used in messages. RP_FORMAT names the field. */
rp_code rp_piece_index_parse(const char *name, const char *text, size_t n, rp_piece_index **out, rp_error *err);
void rp_piece_index_free(rp_piece_index *index); /* NULL is fine */
/* NULL when the index has no such file. */
const rp_piece_file *rp_piece_index_find(const rp_piece_index *index, const char *path);
/* The index belongs to this manifest: its identity is the SHA-256 of the n bytes, and every shard the manifest lists is there
 * with its size. RP_HASH or RP_MODEL. The manifest itself is checked by its reader. */
rp_code rp_piece_index_check_manifest(const rp_piece_index *index, const char *index_name, const char *manifest_name,
	const char *text, size_t n, rp_error *err);
/* Append the text of an index, byte for byte as the model's publisher lays it out. */
void rp_piece_index_write(const rp_piece_index *index, rp_buf *out);

/* "sha256:" and 64 lower-case hexadecimal digits. */
bool rp_digest_parse(const char *text, unsigned char out[RP_HASH_BYTES]);
/* A name that catalogues, manifests and indexes may give a file: 1 to 200 of [a-zA-Z0-9_.-], and no dot first. */
bool rp_piece_name_valid(const char *name);

/* Pieces of `size` bytes each, the last one shorter, of a file of `total` bytes. */
static inline size_t rp_piece_count(uint64_t total, uint64_t size)
{
	return (size_t)(total / size + (total % size != 0));
}

/* ---- local trees ---- */
typedef struct rp_tree {
	uint64_t size, piece_bytes;
	bool whole_known;
	unsigned char whole[RP_HASH_BYTES]; /* SHA-256 of the file, when whole_known */
	unsigned char (*pieces)[RP_HASH_BYTES];
	size_t n_pieces;
	const char **sources; /* where it was fetched from, without credentials */
	size_t n_sources;
	rp_arena arena;
} rp_tree;

rp_code rp_tree_parse(const char *name, const char *text, size_t n, rp_tree **out, rp_error *err);
void rp_tree_free(rp_tree *t);
/* Store it as STORE/trees/SIZE-ROOT.json; ROOT is made from the pieces' hashes, so equal files share one. */
rp_code rp_tree_save(const char *store, const rp_tree *t, rp_error *err);
/* All trees (at most 64) of files of this size, of any for 0. Those that cannot be read are passed over. free() each, then *out. */
rp_code rp_tree_load(const char *store, uint64_t size, rp_tree ***out, size_t *n, rp_error *err);

#endif
