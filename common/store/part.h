/* part: a file that is being fetched, and the journal that says which of its pieces are there.
 *
 * FOLDER/NAME.KEY.part has the bytes, FOLDER/NAME.KEY.journal one record a piece; KEY stands for the content that is expected, so
 * whoever writes to them writes the same. No lock is needed: any number of processes may write pieces and records at once, and a
 * process that dies loses only what it had not recorded. A record holds the piece's SHA-256 and a check that ties it to this very
 * part file and to this run of the kernel; without that (another file, a reboot that may have lost written bytes) the piece is
 * read and compared before it counts.
 */
#ifndef RP_PART_H
#define RP_PART_H

#include <sys/types.h>

#include "hash/hash.h"

enum { RP_PART_KEY = 12, /* hexadecimal digits of KEY */ RP_PART_ALIGN = 4096 };

typedef struct rp_part {
	int folder;   /* not owned */
	int fd, journal;
	char *path;   /* of the final file, for messages */
	const char *name; /* in path */
	char *part_name, *journal_name;
	uint64_t size;
	size_t n_pieces;
	dev_t device;
	ino_t inode;
	unsigned char boot[16]; /* of this run of the kernel; zeros when unknown: nothing then counts unread */
	bool boot_known;
	bool created; /* by this process */
	bool first; /* no other process has it open: it may take pieces from the front */
	int direct; /* the same file for writes past the page cache; below 0: there are none */
} rp_part;

typedef enum rp_record { RP_RECORD_NONE, RP_RECORD_UNSURE, RP_RECORD_SURE } rp_record;

/* shown: the folder's path, for messages. key: any bytes that name the content. size > 0. */
rp_code rp_part_open(rp_part *p, int folder, const char *shown, const char *name, const void *key, size_t key_len, uint64_t size,
	size_t n_pieces, rp_error *err);
/* A file that has its name already and is repaired in place: pieces are written into it, nothing is recorded. folder is of it. */
rp_code rp_part_open_file(rp_part *p, int folder, const char *shown, const char *name, uint64_t size, size_t n_pieces, rp_error *err);
void rp_part_close(rp_part *p); /* a zeroed one is fine */
/* Bytes that the file system has not given it yet, and how many it has free for us. */
rp_code rp_part_room(const rp_part *p, uint64_t *wanted, uint64_t *free_bytes, rp_error *err);
/* Reserve the bytes still missing, where the file system can: a full disk shows now. */
rp_code rp_part_reserve(rp_part *p, rp_error *err);
/* What the journal says of a piece. SURE: it is there, with this hash. UNSURE: it was; read it and compare. */
rp_record rp_part_lookup(const rp_part *p, size_t piece, unsigned char hash[RP_HASH_BYTES]);
/* Thread-safe: write a piece's bytes after the first `written`, which are there, then its record. */
rp_code rp_part_write(rp_part *p, size_t piece, uint64_t offset, const void *data, size_t n, size_t written, const unsigned char hash[RP_HASH_BYTES],
	rp_error *err);
/* Thread-safe: as many of the bytes as can be straight from memory to the disk, without a copy and without room in the page cache; data and
 * offset at multiples of RP_PART_ALIGN. Returns how many; what is wrong shows when the rest is written. */
size_t rp_part_write_past_cache(rp_part *p, uint64_t offset, const void *data, size_t n);
/* Another process has had the part open since this one opened it, or may have: then bytes may have changed since they were written. */
bool rp_part_shared(const rp_part *p);
/* Only the record: the bytes are there and were compared; or (NULL) they are not. */
rp_code rp_part_record(rp_part *p, size_t piece, const unsigned char hash[RP_HASH_BYTES], rp_error *err);
rp_code rp_part_read(const rp_part *p, uint64_t offset, void *data, size_t n, rp_error *err);
/* Everything is there and right: make it lasting, give it its name, remove the journal. */
rp_code rp_part_publish(rp_part *p, rp_error *err);
/* Give the name to what there is, holes and all; part and journal stay, so that the rest can come later. */
rp_code rp_part_expose(rp_part *p, rp_error *err);
/* Remove part and journal: the content turned out to be wrong. */
void rp_part_discard(rp_part *p);
/* Discard what this process made and nobody wrote to. */
void rp_part_discard_empty(rp_part *p);
/* Remove journals of that name whose partial file is gone; parts: also partial files of other contents that no process has open. */
void rp_part_sweep(int folder, const char *name, bool parts);

#endif
