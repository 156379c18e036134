/* reploid-fetch: what its files share. main.c drives: options (table.c), what people and programs are told (talk.c). */
#ifndef FETCH_H
#define FETCH_H

#include "base/options.h"
#include "base/signals.h"
#include "store/fetch.h"

#define FETCH_SCHEMA "reploid-fetch/1"

typedef struct fetch_opts {
	const char *output, *sha256, *store, *proxy, *catalog, *site;
	rp_strings mirrors, headers;
	uint64_t connections, retries, limit_rate;
	bool netrc, offline, json, quiet;
} fetch_opts;

extern const rp_program fetch_program;

typedef struct fetch_state {
	fetch_opts o;
	rp_parsed parsed;
	bool moves, drawn; /* of the progress line */
	const char *what;  /* is being fetched */
	uint64_t start_ns, drawn_ns;
} fetch_state;

/* ---- talk.c ---- */
void fetch_talk_begin(fetch_state *s, const char *what);
void fetch_on_event(void *state, const rp_fetch_event *event);
void fetch_talk_end(fetch_state *s); /* the progress line is gone */
void fetch_say(const char *fmt, ...) RP_PRINTF(1, 2);
void fetch_say_error(const rp_error *error);
rp_code fetch_write_path(const fetch_state *s, const char *path, rp_error *err);
void fetch_write_error_json(const rp_error *error);

#endif
