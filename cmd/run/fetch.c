/* The model's place: a path, an id in the store, or an id of the catalogue that is fetched on first use, after asking. */
#include "run.h"

#include "store/fetch.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONNECTIONS = 8, RETRIES = 5 };

static void on_event(void *user, const rp_fetch_event *e)
{
	run_state *r = user;
	char facts[300];
	if (e->kind == RP_FETCH_PROGRESS) {
		rp_progress_facts(&r->progress, rp_fetch_facts(facts, sizeof facts, e));
	} else if (e->kind == RP_FETCH_NOTE && !r->o.quiet) {
		rp_progress_end(&r->progress);
		run_say("%s", e->text);
	}
}

/* Nothing is fetched that nobody agreed to. */
static rp_code ask(const run_state *r, const rp_catalog_model *m, rp_presence here, rp_error *err)
{
	char answer[16] = "";
	const char *rest = here == RP_PARTLY ? "the rest of " : "";
	if (r->o.yes)
		return RP_OK;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || r->stdin_wanted)
		return rp_fail(err, RP_NOT_FOUND, "%s is %s the store; give -y to fetch %sit now, or run: reploid-fetch %s", m->id,
			here == RP_PARTLY ? "only partly in" : "not in", rest, m->id);
	run_say("%s is %s the store; fetch %sit now? [y/N]", m->id, here == RP_PARTLY ? "only partly in" : "not in", rest);
	ssize_t n = rp_wait_readable(STDIN_FILENO) ? read(STDIN_FILENO, answer, sizeof answer - 1) : 0;
	if (n > 0 && (answer[0] == 'y' || answer[0] == 'Y'))
		return RP_OK;
	return rp_fail(err, RP_CANCELLED, "%s was not fetched", m->id);
}

static rp_code fetch(run_state *r, rp_fetch_opts *o, const rp_catalog_model *m, char **path, rp_error *err)
{
	char *what = rp_asprintf("fetching %s", m->id);
	rp_progress_begin(&r->progress, what != NULL ? what : "fetching");
	rp_code code = rp_fetch_model(o, m, path, err);
	rp_progress_end(&r->progress);
	free(what);
	return code;
}

static rp_code locate_id(run_state *r, const char *store, char **path, rp_error *err)
{
	rp_catalog *catalog;
	rp_fetch_opts o = {.store = store, .connections = CONNECTIONS, .retries = RETRIES, .program = run_program.name, .cancel = rp_cancel(),
		.event = on_event, .user = r};
	const rp_catalog_model *m = NULL;
	uint64_t bytes;
	if (rp_fetch_catalog(&o, &catalog, NULL) == RP_OK)
		m = rp_catalog_find(catalog, r->o.model);
	else
		catalog = NULL;
	rp_presence here = m != NULL ? rp_fetch_presence(store, m, &bytes) : RP_PRESENT;
	rp_code code = RP_OK;
	if (here == RP_PRESENT)
		code = rp_model_locate(r->o.model, path, err);
	else if ((code = ask(r, m, here, err)) == RP_OK)
		code = fetch(r, &o, m, path, err);
	rp_catalog_free(catalog);
	return code;
}

rp_code run_locate(run_state *r, char **path, rp_error *err)
{
	struct stat st;
	char *store;
	if (strcmp(r->o.model, "embedded") == 0 || !rp_id_valid(r->o.model) || stat(r->o.model, &st) == 0 || rp_store_dir(&store, NULL) != RP_OK)
		return rp_model_locate(r->o.model, path, err);
	rp_code code = locate_id(r, store, path, err);
	free(store);
	return code;
}
