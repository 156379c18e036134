/* fetch: bring files and models onto this machine, whole and right. */
#ifndef RP_FETCH_H
#define RP_FETCH_H

#include <stdatomic.h>

#include "base/options.h"
#include "hash/hash.h"

typedef enum rp_fetch_kind {
	RP_FETCH_NOTE,     /* text: a state change worth a line: a source dropped, a restart, a wait */
	RP_FETCH_PROGRESS, /* figures */
	RP_FETCH_FILE,     /* text: path of a file that got its final name */
} rp_fetch_kind;

typedef struct rp_fetch_event {
	rp_fetch_kind kind;
	const char *text;
	uint64_t total, verified; /* bytes; total 0: not known */
	uint64_t received;        /* from the network, in this run */
	uint64_t at_start;        /* of verified: what was there */
	double rate;              /* bytes a second over the last seconds */
	unsigned sources, connections; /* in use */
} rp_fetch_event;

typedef struct rp_fetch_opts {
	const char *store;    /* folder of the store */
	const char *output;   /* -o: path of the file, or folder of a model; NULL: in the store */
	const char *sha256;   /* of the one file, 64 hexadecimal digits; NULL: not known */
	rp_strings mirrors, headers;
	unsigned connections; /* 1 to RP_JOB_MAX_CONNECTIONS */
	unsigned retries;     /* in a row, of one source */
	bool netrc, offline;
	const char *proxy;
	uint64_t limit_rate;
	const char *program;
	const atomic_bool *cancel;
	void (*event)(void *user, const rp_fetch_event *event); /* from the calling thread; may be NULL */
	void *user;
} rp_fetch_opts;

/* One file by http or https. *path: where it is now; free() it. RP_CHANGED, RP_RANGE, RP_AUTH, RP_HASH, RP_NETWORK, RP_OFFLINE,
 * RP_DISK_FULL, RP_WRITE as in base.h; what was verified stays for the next time. */
rp_code rp_fetch_url(const rp_fetch_opts *o, const char *url, char **path, rp_error *err);

#endif
