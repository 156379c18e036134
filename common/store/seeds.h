/* seeds: files on this machine that may hold the same bytes: other models of the store, the caches of Hugging Face, ollama and
 * LM Studio, local folders given as mirrors. They are only read. Internal to common/store. */
#ifndef RP_SEEDS_H
#define RP_SEEDS_H

#include "store/job.h"

typedef struct rp_seed {
	char *path;
	uint64_t size;
	bool named;   /* its name says its SHA-256 */
	unsigned char sha256[RP_HASH_BYTES];
} rp_seed;

typedef struct rp_seeds {
	rp_seed *v;
	size_t n, cap;
} rp_seeds;

/* The folders that are looked into, those that exist; free() each, then *out. */
rp_code rp_seed_roots(const char *store, char ***out, size_t *n, rp_error *err);
/* Look for files. Trouble with a folder passes it over. */
rp_code rp_seeds_find(const rp_fetch_opts *o, rp_seeds *out, rp_error *err);
void rp_seeds_free(rp_seeds *s);
/* Take what the item misses from the file that has its name now, then from the seeds. Extents are shared where the file system can;
 * hard links are not made: who owns the other name could change the bytes under ours. */
rp_code rp_seed_item(rp_job *job, rp_item *item, const rp_seeds *seeds, rp_error *err);
/* Take all that can be used from one open file. trusted: bytes without known hashes are taken as they are. */
rp_code rp_seed_from(rp_job *job, rp_item *item, int fd, const char *path, bool trusted, rp_error *err);
bool rp_is_local(const char *source); /* file:// or no address at all */
/* file:///a%20b to /a b, others as they are; free() it, NULL: not a local path. */
char *rp_local_path(const char *source);

#endif
