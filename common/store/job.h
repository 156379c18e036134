/* job: fetch the pieces of one or more files from one or more sources at once. Internal to common/store.
 *
 * The thread that calls rp_job_run talks to the network; workers hash pieces, write them and publish files. A piece travels in a
 * buffer of its own and is written only when it is whole (and right, where its hash is known), so memory is bounded by the pool.
 * Several connections may bring parts of one piece, so that none is idle where pieces are few or buffers are.
 */
#ifndef RP_JOB_H
#define RP_JOB_H

#include <pthread.h>

#include "net/net.h"
#include "store/check.h"
#include "store/fetch.h"
#include "store/part.h"
#include "store/pieces.h"

enum { RP_JOB_POOL_BYTES = 32 << 20, RP_JOB_MAX_PIECE = 16 << 20, RP_JOB_MAX_CONNECTIONS = 32, RP_JOB_MAX_WORKERS = 5,
	RP_JOB_MAX_LIES = 2, /* wrong pieces of one origin; then it is dropped */
	RP_JOB_MAX_BUFFERS = 2 * RP_JOB_MAX_CONNECTIONS, RP_JOB_GAPS = 16, RP_JOB_LEAST_GAP = 64 << 10, RP_JOB_HELD = 6, RP_JOB_SUSPECTS = 16 };

/* Where bytes come from: one a mirror. Score and trouble are counted here, for all files. */
typedef struct rp_origin {
	char *shown;       /* "https://host" */
	double rate;       /* bytes a second of one connection, smoothed; 0: not known yet */
	double fresh_rate, reused_rate; /* the same of exchanges on new connections, with the time to make them, and on others */
	unsigned asked;    /* exchanges begun */
	unsigned silences; /* exchanges dropped since the last one that came to its end */
	unsigned active;   /* exchanges that run */
	unsigned fails;    /* in a row, without anything useful in between */
	unsigned lies;     /* pieces that had the wrong hash */
	bool answered, dead;
	uint64_t failed_ns, wait_ns; /* when it last failed; not before this time again */
	uint64_t bytes;    /* verified */
	rp_error error;    /* the last */
} rp_origin;

/* One file at one origin. */
typedef struct rp_place {
	rp_origin *origin;
	char *url, *resolved; /* as given; where redirects led, asked first as long as it works */
	bool secrets;         /* the url's origin gets them */
	bool no_ranges, streaming, dead;
	unsigned expired;
	char etag[256], modified[80]; /* of the first response */
} rp_place;

static inline bool rp_place_alive(const rp_place *p)
{
	return !p->dead && !p->origin->dead;
}

typedef enum rp_piece_state { RP_PIECE_MISSING, RP_PIECE_TAKEN, RP_PIECE_HASHING, RP_PIECE_DONE } rp_piece_state;

typedef struct rp_buffer {
	struct rp_buffer *next;
	unsigned char *data;
} rp_buffer;

/* The hash of a file of which only that is known, over its pieces in their order, as they come. */
typedef struct rp_whole {
	rp_sha256 *sha;    /* NULL: not wanted */
	size_t next;       /* pieces before it are in the hash */
	bool busy;         /* a worker is at it */
	struct {
		size_t piece;
		rp_buffer *buffer;
	} held[RP_JOB_HELD]; /* pieces that are written and will soon be wanted: they need not be read back */
	unsigned n_held;
} rp_whole;

typedef struct rp_item {
	rp_part part;
	pthread_mutex_t writing;  /* the kernel lets one in at a time anyway, and those who wait there spin */
	uint64_t size;
	size_t n_pieces;
	const rp_piece *pieces;   /* known hashes; NULL: pieces of RP_PIECE_BYTES whose hashes are found */
	unsigned char (*found)[RP_HASH_BYTES]; /* without known hashes */
	rp_origin **from;         /* without known hashes: who sent a piece; NULL: it was there */
	uint8_t *state;           /* rp_piece_state */
	uint8_t *alone;           /* 1: bytes of two sources made a wrong piece: the next ones come from one, so that a liar can be told */
	size_t n_done, low;       /* low: no piece before it is missing */
	bool whole_known, publishing, published;
	bool partly;              /* pieces that nobody wants count as done */
	unsigned char whole[RP_HASH_BYTES];
	rp_whole so_far;
	rp_check *checks;         /* besides the whole's SHA-256; looked at before it is published */
	size_t n_checks, at_check; /* at_check: the one that found it wrong; n_checks: the whole's did */
	unsigned wrong;           /* how often */
	rp_origin *only;          /* it was wrong: the next bytes come from this one, so that a liar can be told; NULL, or dead: from all */
	rp_place *places;
	size_t n_places;
} rp_item;

typedef struct rp_conn rp_conn;

/* Bytes of a piece that are missing: [at, end). */
typedef struct rp_gap {
	uint64_t at, end;
	rp_conn *conn; /* brings them; NULL: nobody does */
} rp_gap;

/* A piece on its way. One that nobody works at is kept as long as there are buffers enough. */
typedef struct rp_open {
	rp_item *item; /* NULL: this entry is free */
	size_t piece;
	rp_buffer *buffer;
	uint64_t missing;  /* bytes */
	uint64_t number;   /* in the order of their beginning */
	rp_origin *origin; /* of the first bytes */
	rp_origin *other;  /* some are this one's; NULL: all are of origin */
	rp_gap gaps[RP_JOB_GAPS];
	unsigned n_gaps;
} rp_open;

typedef struct rp_job rp_job;

struct rp_conn {
	rp_job *job;
	rp_net_get *get; /* NULL: idle */
	rp_item *item;
	rp_place *place;
	size_t piece, end; /* being received; one past the last that it is to bring */
	rp_open *open;     /* piece; NULL: its bytes have not begun, or are skipped */
	bool skipping;     /* the piece is there already or another's: its bytes are dropped (only of a whole response) */
	uint64_t skipped;  /* bytes of it */
	bool stream;       /* the response is the whole file */
	bool headed;
	uint64_t first, last; /* bytes the request asks for */
	uint64_t start_ns, heard_ns, bytes;
	size_t kept; /* pieces handed to the workers */
};

typedef enum rp_task_kind { RP_TASK_PIECE, RP_TASK_WHOLE, RP_TASK_PUBLISH } rp_task_kind;

typedef struct rp_task {
	struct rp_task *next;
	rp_task_kind kind;
	rp_item *item;
	size_t piece, end; /* end: of RP_TASK_WHOLE, one past the last */
	rp_buffer *buffer; /* of RP_TASK_WHOLE: NULL: read them back */
	uint64_t size;
	bool past_cache;   /* write it so */
	rp_origin *origin; /* NULL: more than one: */
	rp_origin *mixed[2];
	rp_code code;      /* RP_HASH: the piece is wrong */
	unsigned char hash[RP_HASH_BYTES];
	rp_error error;
} rp_task;

typedef struct rp_queue {
	rp_task *head, *tail;
} rp_queue;

/* A wrong piece of two sources. */
typedef struct rp_suspects {
	const rp_item *item;
	size_t piece;
	rp_origin *origins[2];
} rp_suspects;

struct rp_job {
	const rp_fetch_opts *o;
	rp_net *net; /* NULL: offline */
	rp_item **items;
	size_t n_items, cap_items;
	rp_origin **origins;
	size_t n_origins, cap_origins;
	rp_conn conns[RP_JOB_MAX_CONNECTIONS];
	unsigned n_conns;
	uint64_t buffer_bytes;
	size_t n_buffers, max_buffers, n_held;
	rp_buffer *idle;
	rp_open open[RP_JOB_MAX_BUFFERS];
	uint64_t opened;
	rp_suspects suspects[RP_JOB_SUSPECTS]; /* the last ones */
	size_t n_suspects; /* ever */
	/* workers */
	pthread_t threads[RP_JOB_MAX_WORKERS];
	unsigned n_threads;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	rp_queue todo, done; /* under lock */
	bool stop;
	size_t in_work; /* tasks handed over and not taken back */
	/* figures */
	uint64_t total, verified, received, start_ns, at_start;
	uint64_t told_ns, told_received; /* at the last event of progress */
	double rate;
	double behind; /* share of the bytes that had been waiting for us, lately: above a half we are what is slow, not the network */
	uint64_t seed; /* of the random numbers behind retries */
	rp_code code;
	rp_error *err;
};

/* ---- job.c ---- */
rp_code rp_job_new(const rp_fetch_opts *o, rp_net *net, rp_job **out, rp_error *err);
void rp_job_free(rp_job *job);
/* A file of known size; pieces as in rp_item (kept by the caller until the job is freed). What is there already counts. */
rp_code rp_job_add(rp_job *job, int folder, const char *shown, const char *name, const void *key, size_t key_len, uint64_t size,
	const rp_piece *pieces, size_t n_known, const unsigned char *whole, rp_item **out, rp_error *err);
/* The same for a file that is repaired in place: pieces whose hash is all zeros are left alone. */
rp_code rp_job_add_repair(rp_job *job, int folder, const char *shown, const char *name, uint64_t size, const rp_piece *pieces, size_t n_pieces,
	rp_item **out, rp_error *err);
/* Of an item just added, want only the pieces that these ranges touch. RP_USAGE for one that is outside the file. */
rp_code rp_job_want(rp_job *job, rp_item *item, const rp_range *ranges, size_t n, rp_error *err);
/* An address of the file; addresses of one host share an origin. Add all of them before the job runs. *out may be NULL. */
rp_code rp_job_add_place(rp_job *job, rp_item *item, const char *url, bool secrets, rp_place **out, rp_error *err);
/* Count the piece if the journal has it, perhaps by another process. scratch: room for a piece, to compare what is unsure; NULL:
 * only what is sure counts. */
bool rp_job_look(rp_job *job, rp_item *item, size_t piece, unsigned char *scratch);
/* Fetch what is missing, publish what is whole. */
rp_code rp_job_run(rp_job *job, rp_error *err);
/* A file that belongs to the group and is there already; for the figures only. */
void rp_job_count_present(rp_job *job, uint64_t bytes);
uint64_t rp_job_piece_offset(const rp_item *item, size_t piece);
uint64_t rp_job_piece_size(const rp_item *item, size_t piece);
void rp_job_piece_done(rp_job *job, rp_item *item, size_t piece); /* verified and recorded */
void rp_job_note(rp_job *job, const char *fmt, ...) RP_PRINTF(2, 3);
void rp_job_fail(rp_job *job, const rp_error *error); /* the first one counts */
void rp_job_progress(rp_job *job, bool force);

/* ---- item_check.c ---- */
/* Add it before the job runs. */
rp_code rp_item_add_check(rp_item *item, const rp_check *check, rp_error *err);
rp_code rp_item_check(rp_item *item, rp_error *err); /* all of them; by a worker */
const char *rp_item_checked(const rp_item *item);    /* "sha256", "blake3", "git-sha1" or "none" */
/* The worker found the file wrong: what the check covers is missing again. False: there is nobody else to ask for it. */
bool rp_item_again(rp_job *job, rp_item *item, const rp_error *error);

/* ---- work.c ---- */
rp_code rp_work_start(rp_job *job, rp_error *err);
void rp_work_stop(rp_job *job);
rp_code rp_work_put(rp_job *job, const rp_task *task); /* RP_NO_MEMORY */
rp_task *rp_work_take(rp_job *job); /* a finished one, free() it; NULL: none */

/* ---- open.c ---- */
/* A buffer is free, or can be had from a piece that nobody works at. */
bool rp_open_room(const rp_job *job);
/* Begin the piece; what was kept of it is dropped. NULL: no buffer. */
rp_open *rp_open_begin(rp_job *job, rp_item *item, size_t piece, rp_origin *origin);
rp_open *rp_open_of(rp_job *job, const rp_item *item, size_t piece); /* NULL: it has not begun */
/* Of an item, the oldest with bytes that nobody brings and this origin may; NULL: none. */
rp_open *rp_open_waiting(rp_job *job, rp_item *item, const rp_origin *origin);
bool rp_open_fits(const rp_open *open, const rp_origin *origin);
rp_gap *rp_open_gap(rp_open *open, const rp_conn *conn); /* the largest of conn's (which has one at most), or of nobody's; NULL: none */
bool rp_open_busy(const rp_open *open); /* somebody brings bytes of it */
/* Cut off what follows the first bytes of a gap, for somebody else. False: it is too short, or there are too many gaps. */
bool rp_open_split(rp_open *open, rp_gap *gap, uint64_t keep);
void rp_open_leave(rp_job *job, rp_conn *c, bool keep); /* c brings no more of its piece; keep what is there of it */
void rp_open_settle(rp_job *job, rp_open *open, bool keep); /* when nobody brings any of it, the piece is missing again */
void rp_open_drop(rp_job *job, rp_open *open);
void rp_buffer_put(rp_job *job, rp_buffer *b);

/* ---- whole.c ---- */
rp_code rp_whole_begin(rp_item *item, rp_error *err);
void rp_whole_free(rp_item *item);
void rp_whole_restart(rp_job *job, rp_item *item); /* some of its pieces are missing again; no worker is at it */
bool rp_whole_hold(rp_job *job, rp_item *item, size_t piece, rp_buffer *buffer); /* true: the buffer is kept for the hash */
/* Hash what comes next if it is there. True: all of them are in the hash, or it is not wanted. */
bool rp_whole_step(rp_job *job, rp_item *item);
void rp_whole_done(rp_job *job, const rp_task *t);
void rp_whole_work(rp_task *t);    /* by a worker */
void rp_whole_compare(rp_task *t); /* by a worker, when all pieces are there */

/* ---- conn.c ---- */
/* Bring the bytes of open that nobody brings, then the pieces after it up to end. */
rp_code rp_conn_start(rp_conn *c, rp_place *place, rp_open *open, size_t end, rp_error *err);
void rp_conn_drop(rp_conn *c); /* end it; its pieces are missing again */
void rp_origin_failed(rp_job *job, rp_origin *o, const rp_error *error, uint64_t wait_ms, bool useful);
void rp_origin_drop(rp_job *job, rp_origin *o, const rp_error *error);
void rp_place_drop(rp_job *job, rp_place *p, const rp_error *error);

#endif
