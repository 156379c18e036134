/* What the ways to fetch share. Internal to common/store. */
#ifndef RP_FETCH_IMPL_H
#define RP_FETCH_IMPL_H

#include "store/folder.h"
#include "store/get.h"
#include "store/job.h"
#include "store/target.h"

/* What is known of a file before its bytes come. */
typedef struct rp_known {
	uint64_t size;
	bool whole_known, check_known;
	unsigned char whole[RP_HASH_BYTES]; /* SHA-256 */
	rp_check check;   /* another hash of the whole */
	rp_piece *pieces; /* NULL: hashes are found */
	size_t n_pieces;
	rp_buf key;       /* names the content */
	bool lasting;     /* a later run may go on with it */
} rp_known;

/* From o->sha256 and o->git_sha1. */
rp_code rp_known_given(const rp_fetch_opts *o, uint64_t size, rp_known *k, rp_error *err);
/* Pieces whose hashes are known, by the whole's. */
rp_code rp_known_pieces(const rp_fetch_opts *o, rp_known *k, rp_error *err);
/* The key of a file with a hash; false: it has none. */
bool rp_known_key(rp_known *k);
void rp_known_free(rp_known *k);
/* Add the file to a job. k is kept by the caller until the job is freed. */
rp_code rp_fetch_add(rp_job *job, const rp_target *target, const rp_known *k, rp_item **out, rp_error *err);

rp_code rp_fetch_net(const rp_fetch_opts *o, rp_net **out, rp_error *err);
/* One file whose size and version the server tells; o->sha256 and o->mirrors are of it. */
rp_code rp_fetch_to(const rp_fetch_opts *o, rp_net *net, const char *url, const rp_target *target, rp_error *err);
/* The file at target has the hash that o asks for: RP_OK. RP_NOT_FOUND, without a message: it has to be fetched. */
rp_code rp_fetch_present(const rp_fetch_opts *o, const rp_target *target, rp_error *err);
/* Take what an item of known content misses from files on this machine. */
rp_code rp_fetch_seeds(const rp_fetch_opts *o, rp_job *job, rp_item *item, rp_error *err);
/* --sha256 to bytes. *known: it was given. */
rp_code rp_fetch_whole(const rp_fetch_opts *o, bool *known, unsigned char out[RP_HASH_BYTES], rp_error *err);
/* A file of no bytes: RP_HASH when it should have some. */
rp_code rp_fetch_empty(const rp_fetch_opts *o, const rp_target *t, const rp_known *k, rp_error *err);
void rp_fetch_keep_tree(const rp_fetch_opts *o, const rp_item *item);

#endif
