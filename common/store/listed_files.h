/* listed_files: which files a model of the catalogue has, and what their bytes must be: piece by piece where there is an index, else by the
 * hashes of the manifest's shards. Internal to common/store. */
#ifndef RP_LISTED_FILES_H
#define RP_LISTED_FILES_H

#include "store/catalog.h"
#include "store/check.h"
#include "store/pieces.h"

typedef struct rp_listed_file {
	const char *path;       /* one name */
	const char *url;        /* of the catalogue; NULL: below the model's base */
	uint64_t size;          /* > 0 */
	const rp_piece *pieces; /* the index's; NULL: check is of the whole */
	size_t n_pieces;
	rp_check check;
} rp_listed_file;

typedef struct rp_listed_files {
	rp_listed_file *v;
	size_t n;
	rp_arena arena;
} rp_listed_files;

/* text: the manifest, whose hash was checked. index: NULL: there is none; else it is kept by the caller as long as out is used.
 * RP_FORMAT and RP_MODEL name the field. rp_listed_files_free it, after a failure too. */
rp_code rp_listed_files_read(const rp_catalog_model *m, const char *manifest, const char *text, size_t n, const rp_piece_index *index,
	rp_listed_files *out, rp_error *err);
void rp_listed_files_free(rp_listed_files *files);

#endif
