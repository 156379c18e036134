/* reploid-fetch: bring a model or a file onto this machine; the path it has then is all that goes to standard output. */
#include "fetch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/term.h"
#include "net/net.h"
#include "store/store.h"

enum { MAX_LIST_BYTES = 64 << 20 };

static rp_code print_action(const fetch_state *s, rp_error *err)
{
	rp_buf out;
	rp_buf_init(&out, 0);
	rp_code rc = rp_action_text(&fetch_program, &s->parsed, rp_term_width(STDOUT_FILENO), &out, err);
	if (rc == RP_OK)
		rc = rp_write_fd(STDOUT_FILENO, out.data, out.len, "standard output", err);
	rp_buf_free(&out);
	return rc;
}

rp_fetch_opts fetch_library_opts(fetch_state *s)
{
	return (rp_fetch_opts){
		.store = s->store,
		.catalog = s->o.catalog,
		.site = s->o.site,
		.output = s->o.output,
		.sha256 = s->o.sha256,
		.mirrors = s->o.mirrors,
		.headers = s->o.headers,
		.connections = (unsigned)s->o.connections,
		.streams = (unsigned)s->o.streams,
		.retries = (unsigned)s->o.retries,
		.netrc = s->o.netrc,
		.offline = s->o.offline,
		.dry_run = s->o.dry_run,
		.proxy = s->o.proxy,
		.limit_rate = s->o.limit_rate,
		.program = fetch_program.name,
		.cancel = rp_cancel(),
		.event = fetch_on_event,
		.user = s,
	};
}

static rp_code read_list(fetch_state *s, const char *name, rp_error *err)
{
	if (strcmp(name, "-") == 0 && !rp_wait_readable(STDIN_FILENO))
		return rp_fail(err, RP_CANCELLED, "stopped by a signal");
	return rp_read_file(strcmp(name, "-") == 0 ? "/dev/stdin" : name, MAX_LIST_BYTES, &s->list, &s->list_len, err);
}

static rp_code fetch_now(fetch_state *s, const char *source, char **path, rp_error *err)
{
	rp_fetch_opts o = fetch_library_opts(s);
	rp_range *ranges = NULL;
	rp_code rc = RP_OK;
	if (s->o.only != NULL)
		return rp_fetch_repair(&o, s->o.only, s->list, s->list_len, source, path, err);
	if (s->o.ranges != NULL)
		rc = rp_ranges_parse(s->o.ranges, s->list, s->list_len, &ranges, &o.n_ranges, err);
	o.ranges = ranges;
	if (rc == RP_OK)
		rc = rp_fetch(&o, source, path, err);
	free(ranges);
	return rc;
}

/* source: NULL only with --only. */
static rp_code fetch(fetch_state *s, const char *source, rp_error *err)
{
	char *path = NULL, *shown = source != NULL ? rp_net_shown(source) : NULL;
	char *what = source == NULL ? rp_strdup("repairing") : rp_asprintf("fetching %s", shown != NULL ? shown : "a file");
	const char *list = s->o.only != NULL ? s->o.only : s->o.ranges;
	rp_code rc = list != NULL ? read_list(s, list, err) : RP_OK;
	if (rc == RP_OK)
		rc = fetch_confine(s, source, err);
	if (rc == RP_OK) {
		rp_progress_init(&s->progress, fetch_program.name, STDERR_FILENO, s->o.quiet);
		rp_progress_begin(&s->progress, what != NULL ? what : "fetching");
		rc = fetch_now(s, source, &path, err);
		rp_progress_end(&s->progress);
	}
	if (rc == RP_OK && (*path != '\0' || s->o.only == NULL))
		rc = fetch_write_path(s, path, err);
	free(what);
	free(shown);
	free(path);
	return rc;
}

static rp_code run(fetch_state *s, int argc, char **argv, rp_error *err)
{
	rp_code rc = rp_signals(err);
	if (rc == RP_OK)
		rc = rp_options_parse(&fetch_program, argc, argv, &s->o, &s->parsed, err);
	if (rc != RP_OK)
		return rc;
	if (s->parsed.action != RP_ACTION_RUN)
		return print_action(s, err);
	if (s->o.store == NULL)
		rc = rp_store_dir(&s->own_store, err);
	s->store = s->o.store != NULL ? s->o.store : s->own_store;
	if (rc != RP_OK)
		return rc;
	bool other = s->o.list || s->o.gc;
	if (other && (s->parsed.operands.n > 0 || (s->o.list && s->o.gc)))
		return rp_fail(err, RP_USAGE, "--list and --gc stand alone: give only one of them, and nothing to fetch");
	if (other)
		return s->o.list ? fetch_list(s, err) : fetch_gc(s, err);
	if (s->o.only != NULL && s->o.ranges != NULL)
		return rp_fail(err, RP_USAGE, "--only and --ranges do not go together");
	if (s->o.only != NULL && s->o.sha256 != NULL)
		return rp_fail(err, RP_USAGE, "--only checks pieces by the list; leave out --sha256");
	if (s->parsed.operands.n == 0 && s->o.only != NULL)
		return fetch(s, NULL, err);
	if (s->parsed.operands.n > 0 && s->o.ranges != NULL && !rp_net_is_http(s->parsed.operands.v[0]) && strncmp(s->parsed.operands.v[0], "hf:", 3) != 0)
		return rp_fail(err, RP_USAGE, "--ranges is for one file at an http, https or hf: address");
	if (s->parsed.operands.n == 0)
		return rp_fail(err, RP_USAGE, "nothing to fetch: name a model, an address or a file (--list shows the catalogue)");
	return fetch(s, s->parsed.operands.v[0], err);
}

/* A command line that is wrong still says how its author wants to hear it. */
static bool asks_for_json(const fetch_state *s, int argc, char **argv)
{
	bool json = s->o.json;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		json |= strcmp(argv[i], "--json") == 0;
	return json;
}

int main(int argc, char **argv)
{
	fetch_state s = {0};
	rp_error err = {0};
	rp_code rc = run(&s, argc, argv, &err);
	if (rc != RP_OK) {
		if (asks_for_json(&s, argc, argv))
			fetch_write_error_json(&err);
		if (rc != RP_CANCELLED || !s.o.quiet)
			fetch_say_error(&err);
	}
	rp_parsed_free(&s.parsed);
	free(s.own_store);
	free(s.list);
	return (int)rc;
}
