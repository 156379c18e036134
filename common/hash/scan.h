/* scan: read files once and give every hash of their bytes that is wanted.
 *
 * Of each file at once: SHA-256 of all of it, BLAKE3 of all of it, and SHA-256 of any ranges in it (the pieces of an index, the
 * leaves of Merkle trees). Each byte is read once, so that all results speak of the same bytes. Reading and hashing go over
 * several threads and several files; only SHA-256 of a whole file is one chain. Memory is a ring of buffers, at most 32 MiB
 * whatever the files' sizes. Large files that were not in the page cache are dropped from it as they are read.
 */
#ifndef RP_SCAN_H
#define RP_SCAN_H

#include "hash.h"

#include <stdatomic.h>

typedef struct rp_scan_range {
	uint64_t offset, size; /* size > 0, offset + size does not overflow */
	/* out */
	unsigned char sha256[RP_HASH_BYTES];
	bool done; /* false: the file ends before the range does, or could not be read */
} rp_scan_range;

typedef struct rp_scan_track { /* ranges in ascending order that do not overlap */
	rp_scan_range *v;
	size_t n;
} rp_scan_track;

enum { RP_SCAN_TRACKS = 2 };

/* Which bytes a name stood for: another content of the same file has another stamp, if clocks are right. */
typedef struct rp_scan_stamp {
	uint64_t device, inode, size, mtime_ns, ctime_ns;
} rp_scan_stamp;

typedef struct rp_scan_file {
	const char *path;
	bool standard_input; /* read descriptor 0 from where it stands instead of opening path */
	bool sha256, blake3; /* of all bytes */
	rp_scan_track tracks[RP_SCAN_TRACKS];
	/* out */
	rp_code code; /* RP_OK, or RP_NOT_FOUND, RP_READ, RP_CHANGED, RP_NO_MEMORY with errnum saying why (0 for RP_CHANGED) */
	int errnum;
	uint64_t size; /* bytes read */
	unsigned char sha256_sum[RP_HASH_BYTES], blake3_sum[RP_HASH_BYTES];
	rp_scan_stamp stamp;
	bool steady; /* a regular file whose stamp was the same before and after */
} rp_scan_file;

typedef struct rp_scan {
	rp_scan_file *files;
	size_t n_files;
	unsigned threads; /* 0: one a processor */
	const atomic_bool *cancel; /* NULL: never */
	/* Both are called by the thread that called rp_scan, and may be NULL. finished: file i has its results; in the order of the
	 * files, as early as that allows; a code other than RP_OK ends the scan. progress: bytes read so far, about ten times a second. */
	rp_code (*finished)(void *context, size_t i, rp_error *err);
	void (*progress)(void *context, uint64_t bytes);
	void *context;
} rp_scan;

/* Files that cannot be read are no failure of the scan: their code says so. RP_CANCELLED, RP_NO_MEMORY. */
rp_code rp_scan_run(const rp_scan *scan, rp_error *err);

/* One line for a file's code, as "PATH: cannot read: Input/output error". Returns the file's code. */
rp_code rp_scan_error(const rp_scan_file *f, rp_error *err);

/* The stamp of an open descriptor or a path (links followed); false when it is no regular file. */
bool rp_scan_stamp_fd(int fd, rp_scan_stamp *out);
bool rp_scan_stamp_path(const char *path, rp_scan_stamp *out);

/* Root of a Merkle tree: a parent is the SHA-256 of its two children's digests, an odd node is paired with itself; without leaves
 * the SHA-256 of nothing. leaves is used as working memory. */
void rp_merkle_root(unsigned char (*leaves)[RP_HASH_BYTES], size_t n, unsigned char out[RP_HASH_BYTES]);

#endif
