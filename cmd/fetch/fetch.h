/* reploid-fetch: what its files share. main.c drives: options (table.c), what people and programs are told (talk.c),
 * the catalogue (list.c), what nothing needs (gc.c). */
#ifndef FETCH_H
#define FETCH_H

#include "base/jsonw.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/signals.h"
#include "store/fetch.h"

#define FETCH_SCHEMA "reploid-fetch/1"

typedef struct fetch_opts {
	const char *output, *sha256, *store, *proxy, *catalog, *site, *only, *ranges;
	rp_strings mirrors, headers;
	uint64_t connections, streams, retries, limit_rate;
	bool netrc, offline, dry_run, list, gc, yes, json, quiet;
} fetch_opts;

extern const rp_program fetch_program;

typedef struct fetch_state {
	fetch_opts o;
	rp_parsed parsed;
	rp_progress progress;
	char *own_store;
	const char *store; /* folder of the store */
	char *list;        /* text of --only or --ranges */
	size_t list_len;
} fetch_state;

/* ---- main.c ---- */
/* What the library is told. */
rp_fetch_opts fetch_library_opts(fetch_state *s);

/* ---- confine.c ---- */
/* Keep the network, the store and the place of the output; give up the rest. Makes the folders that do not exist yet. */
rp_code fetch_confine(const fetch_state *s, const char *source, rp_error *err);

/* ---- talk.c ---- */
void fetch_on_event(void *state, const rp_fetch_event *event);
void fetch_say(const char *fmt, ...) RP_PRINTF(1, 2);
void fetch_say_error(const rp_error *error);
rp_code fetch_write_path(const fetch_state *s, const char *path, rp_error *err);
void fetch_write_error_json(const rp_error *error);
/* One line of JSON on standard output: begin, members, end. */
void fetch_json_begin(rp_jsonw *w, rp_buf *text, const char *type);
rp_code fetch_json_end(rp_jsonw *w, rp_buf *text, rp_error *err);

/* ---- list.c ---- */
rp_code fetch_list(fetch_state *s, rp_error *err);

/* ---- gc.c ---- */
rp_code fetch_gc(fetch_state *s, rp_error *err);

#endif
