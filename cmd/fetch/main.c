/* reploid-fetch: bring a model or a file onto this machine; the path it has then is all that goes to standard output. */
#include "fetch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/term.h"
#include "net/net.h"
#include "store/store.h"

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

static rp_code fetch(fetch_state *s, const char *source, rp_error *err)
{
	char *store = NULL, *path = NULL, *shown = NULL;
	rp_code rc = s->o.store != NULL ? RP_OK : rp_store_dir(&store, err);
	if (rc != RP_OK)
		return rc;
	rp_fetch_opts o = {
		.store = s->o.store != NULL ? s->o.store : store,
		.catalog = s->o.catalog,
		.site = s->o.site,
		.output = s->o.output,
		.sha256 = s->o.sha256,
		.mirrors = s->o.mirrors,
		.headers = s->o.headers,
		.connections = (unsigned)s->o.connections,
		.retries = (unsigned)s->o.retries,
		.netrc = s->o.netrc,
		.offline = s->o.offline,
		.proxy = s->o.proxy,
		.limit_rate = s->o.limit_rate,
		.program = fetch_program.name,
		.cancel = rp_cancel(),
		.event = fetch_on_event,
		.user = s,
	};
	shown = rp_net_shown(source);
	fetch_talk_begin(s, shown != NULL ? shown : "a file");
	rc = rp_fetch(&o, source, &path, err);
	fetch_talk_end(s);
	if (rc == RP_OK)
		rc = fetch_write_path(s, path, err);
	free(shown);
	free(path);
	free(store);
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
	fetch_state s = {.what = ""};
	rp_error err = {0};
	rp_code rc = run(&s, argc, argv, &err);
	if (rc != RP_OK) {
		if (asks_for_json(&s, argc, argv))
			fetch_write_error_json(&err);
		if (rc != RP_CANCELLED || !s.o.quiet)
			fetch_say_error(&err);
	}
	rp_parsed_free(&s.parsed);
	return (int)rc;
}
