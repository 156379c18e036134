/* fetch: bring files and models onto this machine, whole and right. */
#ifndef RP_FETCH_H
#define RP_FETCH_H

#include <stdatomic.h>

#include "base/options.h"
#include "hash/hash.h"
#include "store/catalog.h"

typedef enum rp_fetch_kind {
	RP_FETCH_NOTE,     /* text: a state change worth a line: a source dropped, a restart, a wait */
	RP_FETCH_PROGRESS, /* figures */
	RP_FETCH_FILE,     /* text: path of a file that got its final name; check: by which hash it was found right */
	RP_FETCH_PLAN,     /* with dry_run, once a group of files: total, verified (what is here), room */
} rp_fetch_kind;

typedef struct rp_fetch_event {
	rp_fetch_kind kind;
	const char *text;
	const char *check; /* of FILE: "sha256", "blake3", "git-sha1", or "none" */
	uint64_t total, verified; /* bytes; total 0: not known */
	uint64_t received;        /* from the network, in this run */
	uint64_t at_start;        /* of verified: what was there */
	uint64_t room;            /* of PLAN: bytes that are free where the files go */
	double rate;              /* bytes a second over the last seconds */
	unsigned sources, connections; /* in use */
} rp_fetch_event;

typedef struct rp_range {
	uint64_t offset, size; /* size > 0 */
} rp_range;

typedef struct rp_fetch_opts {
	const char *store;    /* folder of the store */
	const char *catalog;  /* file or address of the catalogue; NULL: the one that comes with the programs */
	const char *site;     /* base of the catalogue's addresses that begin with a slash; NULL: the catalogue's own, or replo.id */
	const char *output;   /* -o: path of the file, or folder of a model; NULL: in the store */
	const char *sha256;   /* of the one file, 64 hexadecimal digits; NULL: not known */
	const char *git_sha1; /* of the one file, the id of its git blob, 40 hexadecimal digits; NULL: not known */
	bool hub;             /* the server is a Hub: an ETag of 40 digits is such an id */
	rp_strings mirrors, headers;
	unsigned connections; /* 1 to RP_JOB_MAX_CONNECTIONS */
	unsigned streams;     /* of one HTTP/2 connection at once; 0: 1 */
	unsigned retries;     /* in a row, of one source */
	const rp_range *ranges; /* of one file by address: only what they touch; the rest of it stays a hole. NULL: all */
	size_t n_ranges;
	bool netrc, offline;
	bool dry_run; /* fetch no more than the manifest and piece index of a model; *path is where the rest would go */
	const char *proxy;
	uint64_t limit_rate;
	const char *program;
	const atomic_bool *cancel;
	void (*event)(void *user, const rp_fetch_event *event); /* from the calling thread; may be NULL */
	void *user;
} rp_fetch_opts;

/* Whatever source names: an address, file://, hf:, a file or folder on this machine, an id of the catalogue. *path as below. */
rp_code rp_fetch(const rp_fetch_opts *o, const char *source, char **path, rp_error *err);
/* "  42%  1.10 of 2.62 GiB verified  ...", for a line of progress; cut to size. Returns out. */
char *rp_fetch_facts(char *out, size_t size, const rp_fetch_event *event);

typedef enum rp_presence { RP_ABSENT, RP_PARTLY, RP_PRESENT } rp_presence;

/* Whether a model of the catalogue is in the store, by its manifest and index and the sizes of its files; *bytes: of all files, 0
 * when not known yet. Never touches the network. */
rp_presence rp_fetch_presence(const char *store, const rp_catalog_model *m, uint64_t *bytes);
/* The catalogue; rp_catalog_free it. */
rp_code rp_fetch_catalog(const rp_fetch_opts *o, rp_catalog **out, rp_error *err);

/* One file by http or https. *path: where it is now; free() it. RP_CHANGED, RP_RANGE, RP_AUTH, RP_HASH, RP_NETWORK, RP_OFFLINE,
 * RP_DISK_FULL, RP_WRITE as in base.h; what was verified stays for the next time. */
rp_code rp_fetch_url(const rp_fetch_opts *o, const char *url, char **path, rp_error *err);

/* A model of the catalogue, all its files, into a folder: o->output, else models/ID in the store. Mirrors are folders or addresses
 * that hold its files. *path: the folder. Without a source: RP_NOT_FOUND; offline and not all there: RP_OFFLINE. */
rp_code rp_fetch_model(const rp_fetch_opts *o, const rp_catalog_model *m, char **path, rp_error *err);
/* An adapter of the catalogue: one file. */
rp_code rp_fetch_adapter(const rp_fetch_opts *o, const rp_catalog_adapter *a, char **path, rp_error *err);
/* "OFFSET SIZE" a line, '#' begins a comment line. free() *out. RP_FORMAT names the line. */
rp_code rp_ranges_parse(const char *name, const char *text, size_t n, rp_range **out, size_t *n_out, rp_error *err);
/* Repair files in place by a list of their bad pieces, as reploid-verify --bad-pieces prints it (reploid-formats(5)). source: an address
 * to fetch from, for a list of one file; NULL: the list's own. o->output: the file, for a list of one. *paths: one a line; free() it. */
rp_code rp_fetch_repair(const rp_fetch_opts *o, const char *name, const char *text, size_t n, const char *source, char **paths, rp_error *err);
/* A file, or a folder with its files, on this machine: copied. */
rp_code rp_fetch_local(const rp_fetch_opts *o, const char *source, char **path, rp_error *err);
/* hf:org/repo[@revision][/path]: one file, the files a path with * or ? fits, or all of the repository. */
rp_code rp_fetch_hf(const rp_fetch_opts *o, const char *source, char **path, rp_error *err);

#endif
