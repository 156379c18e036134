/* hashcache: which hashes a file had when it was last read, so that it need not be read again until it changes.
 *
 * A file is known by device, inode, size, and times of change in nanoseconds. Times are only as good as the clock, so a file
 * that was changed less than a second before it was read, or whose times lie in the future, is never remembered. The cache is the
 * file `hashes` in the store; it is used only when it belongs to the user and nobody else may write it, and as a whole or not at
 * all: what is malformed counts as empty.
 */
#ifndef RP_HASHCACHE_H
#define RP_HASHCACHE_H

#include "hash/scan.h"

typedef struct rp_hash_facts {
	bool sha256_known, blake3_known, checked_known;
	unsigned char sha256[RP_HASH_BYTES], blake3[RP_HASH_BYTES];
	unsigned char checked[RP_HASH_BYTES]; /* stands for whatever else was found true of the bytes: the caller's digest of it */
} rp_hash_facts;

typedef struct rp_hash_cache rp_hash_cache;

/* Reads STORE/hashes when it is there. Fails only for lack of memory. */
rp_code rp_hash_cache_open(const char *store, rp_hash_cache **out, rp_error *err);
void rp_hash_cache_close(rp_hash_cache *c); /* NULL is fine */
/* False: not known, or changed too lately to be sure. */
bool rp_hash_cache_find(const rp_hash_cache *c, const rp_scan_stamp *stamp, rp_hash_facts *out);
/* Facts known are added to those of the same stamp. read_ns: CLOCK_REALTIME in nanoseconds before the file was read. Forgets what
 * was known of an earlier state of the same inode. */
rp_code rp_hash_cache_put(rp_hash_cache *c, const rp_scan_stamp *stamp, const rp_hash_facts *facts, uint64_t read_ns, rp_error *err);
/* Write what was put, atomically, together with what others wrote meanwhile. Nothing to write is RP_OK. */
rp_code rp_hash_cache_save(rp_hash_cache *c, rp_error *err);
uint64_t rp_wall_ns(void);

/* The text of a cache, for rp_hash_cache_open and its tests: false when any of it is malformed (c is unchanged then). */
bool rp_hash_cache_read(rp_hash_cache *c, const char *text, size_t n);

#endif
