/* Private to the scan: its state, all of it under one lock but for the bytes of blocks.
 *
 * A block is a buffer with some bytes of a file. Blocks of a file are handed out for reading in ascending order, by any thread.
 * What a block is needed for is counted in refs: the ranges that lie in it (one job a track), each range that crosses its edges
 * (a strand: a hash that must see block after block), and the file's BLAKE3 (a subtree). At zero it is free again. */
#ifndef RP_SCAN_IMPL_H
#define RP_SCAN_IMPL_H

#include "scan.h"

#include <pthread.h>

enum { SCAN_BLOCK = 256 * 1024, SCAN_BLOCKS = 128, BLOCK_CHUNKS = SCAN_BLOCK / RP_BLAKE3_CHUNK };
enum { SCAN_VALUES = 256 }; /* blocks a file is read ahead of the first one whose BLAKE3 is not known yet */
enum { TRACK_WHOLE = RP_SCAN_TRACKS, ALL_TRACKS };
/* Of a block: strands entering and leaving and one job for what lies between, a track; and BLAKE3. */
enum { JOBS_A_BLOCK = 3 * ALL_TRACKS + 1 };

typedef struct strand {
	struct strand *next_of_file;
	unsigned track;
	rp_scan_range *range;
	rp_sha256 *sha;
	uint64_t next; /* the byte it waits for */
	bool busy;     /* a thread is at it, or a job for it is queued */
} strand;

typedef struct block {
	unsigned char *data; /* allocated when first needed */
	struct task *task;   /* NULL while free */
	uint64_t offset;
	size_t n;
	unsigned refs;
	bool ready; /* read and handed to its hashes */
	bool last;
} block;

typedef struct tree { /* the BLAKE3 of a file */
	uint32_t values[SCAN_VALUES][8]; /* chaining values of full blocks but the last: block i at i % SCAN_VALUES, until it is joined */
	bool known[SCAN_VALUES];
	rp_blake3 joined; /* the blocks before the first whose value is not there yet */
	rp_blake3 tail;   /* state after the last block, without what lies before it */
} tree;

typedef struct task { /* a file being scanned */
	rp_scan_file *f;
	int fd;
	bool stream;      /* no size known before its end */
	bool reading;     /* of a stream: a thread is at it */
	bool all_read;    /* every block has been handed out for reading */
	bool drop;        /* from the page cache */
	bool done;
	uint64_t size;    /* unless stream */
	uint64_t next;    /* offset of the next block to read */
	unsigned in_flight; /* blocks */
	block *held;      /* of a stream: a full block that may turn out to be the last */
	strand *strands;
	rp_scan_range whole;
	tree *tree; /* NULL: no BLAKE3 is wanted, or no block has come yet */
} task;

typedef enum job_kind { JOB_INNER, JOB_STRAND, JOB_BLAKE3 } job_kind;

typedef struct job {
	job_kind kind;
	block *b;
	strand *s;             /* JOB_STRAND */
	rp_scan_range *ranges; /* JOB_INNER */
	size_t n;
} job;

typedef struct scanner {
	const rp_scan *scan;
	pthread_mutex_t lock;
	pthread_cond_t work, news; /* for the threads; for the caller */
	bool stop, no_memory;
	size_t next_file, n_done; /* opened so far; finished */
	task *tasks;       /* one a file */
	task **active;     /* opened or being opened, not done */
	unsigned n_active, max_active, n_threads;
	bool stdin_busy;
	uint64_t bytes;
	block blocks[SCAN_BLOCKS];
	unsigned n_blocks, n_free;
	block *free_blocks[SCAN_BLOCKS]; /* a stack: the block used last is warm */
	job jobs[SCAN_BLOCKS * JOBS_A_BLOCK]; /* a ring */
	unsigned first_job, n_jobs;
	rp_sha256 *spare[SCAN_BLOCKS];
	unsigned n_spare;
} scanner;

/* ---- scan_file.c: all but the two that say so are called with the lock held ---- */
void scan_open(task *t); /* without the lock; sets t->f->code */
bool scan_fill(const scanner *s, task *t, block *b, int *why); /* without the lock: b->n bytes at b->offset, or of a stream up to
	a block, b->n set; false: why is the errno value, or 0 when the file became shorter */
void scan_fail(task *t, rp_code code, int errnum);
void scan_finish(task *t); /* results from the parts, close */

#endif
