/* What people see on stderr and programs on stdout. */
#include "fetch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "base/progress.h"

static void vsay(const char *prefix, const char *fmt, va_list ap)
{
	char text[1400], shown[1500];
	vsnprintf(text, sizeof text, fmt, ap);
	rp_buf line;
	rp_buf_init(&line, 4000);
	rp_buf_addf(&line, "%s: %s%s\n", fetch_program.name, prefix, rp_show(shown, sizeof shown, text, strlen(text)));
	if (!line.failed)
		rp_write_fd(STDERR_FILENO, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
}

void fetch_say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsay("", fmt, ap);
	va_end(ap);
}

static void say_error(const char *fmt, ...) RP_PRINTF(1, 2);
static void say_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsay("error: ", fmt, ap);
	va_end(ap);
}

void fetch_say_error(const rp_error *error)
{
	say_error("%s", error->msg);
}

/* ---- JSON ---- */

void fetch_json_begin(rp_jsonw *w, rp_buf *text, const char *type)
{
	rp_buf_init(text, 64 << 10);
	rp_jsonw_init(w, text);
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "schema", FETCH_SCHEMA);
	rp_jsonw_pair_str(w, "type", type);
}

rp_code fetch_json_end(rp_jsonw *w, rp_buf *text, rp_error *err)
{
	rp_jsonw_end(w);
	rp_jsonw_line(w);
	rp_code rc = rp_jsonw_ok(w) ? rp_write_fd(STDOUT_FILENO, text->data, text->len, "standard output", err) : rp_no_memory(err, 0, "a line of JSON");
	rp_buf_free(text);
	return rc;
}

static void json_event(const rp_fetch_event *e)
{
	static const char *const types[] = {"note", "progress", "file", "plan"};
	rp_buf text;
	rp_jsonw w;
	fetch_json_begin(&w, &text, types[e->kind]);
	if (e->kind == RP_FETCH_PLAN) {
		rp_jsonw_pair_u64(&w, "needed", e->total);
		rp_jsonw_pair_u64(&w, "present", e->verified);
		rp_jsonw_pair_u64(&w, "fetch", e->total - e->verified);
		rp_jsonw_pair_u64(&w, "free", e->room);
	} else if (e->kind == RP_FETCH_PROGRESS) {
		rp_jsonw_pair_u64(&w, "total", e->total);
		rp_jsonw_pair_u64(&w, "verified", e->verified);
		rp_jsonw_pair_u64(&w, "present", e->at_start);
		rp_jsonw_pair_u64(&w, "received", e->received);
		rp_jsonw_pair_f64(&w, "rate", e->rate);
		rp_jsonw_pair_u64(&w, "sources", e->sources);
		rp_jsonw_pair_u64(&w, "connections", e->connections);
	} else {
		rp_jsonw_pair_str(&w, e->kind == RP_FETCH_FILE ? "path" : "text", e->text);
		if (e->kind == RP_FETCH_FILE)
			rp_jsonw_pair_str(&w, "check", e->check);
	}
	fetch_json_end(&w, &text, NULL);
}

static void write_plan(const rp_fetch_event *e)
{
	char needed[32], present[32], fetch[32], room[32];
	rp_buf text;
	rp_buf_init(&text, 1000);
	rp_buf_addf(&text, "needed %s, present %s, to fetch %s", rp_size_text(needed, sizeof needed, e->total),
		rp_size_text(present, sizeof present, e->verified), rp_size_text(fetch, sizeof fetch, e->total - e->verified));
	if (e->room > 0)
		rp_buf_addf(&text, ", free %s", rp_size_text(room, sizeof room, e->room));
	rp_buf_addc(&text, '\n');
	rp_write_fd(STDOUT_FILENO, text.data, text.len, "standard output", NULL);
	rp_buf_free(&text);
}

void fetch_on_event(void *state, const rp_fetch_event *e)
{
	fetch_state *s = state;
	char facts[300];
	if (s->o.json)
		json_event(e);
	else if (e->kind == RP_FETCH_PLAN)
		write_plan(e);
	if (e->kind == RP_FETCH_PROGRESS) {
		rp_progress_facts(&s->progress, rp_fetch_facts(facts, sizeof facts, e));
	} else if (!s->o.quiet && e->kind == RP_FETCH_NOTE) {
		rp_progress_end(&s->progress);
		fetch_say("%s", e->text);
	}
}

rp_code fetch_write_path(const fetch_state *s, const char *path, rp_error *err)
{
	rp_buf text;
	rp_jsonw w;
	if (s->o.dry_run)
		return RP_OK;
	if (s->o.json) {
		fetch_json_begin(&w, &text, "done");
		rp_jsonw_pair_str(&w, "path", path);
		return fetch_json_end(&w, &text, err);
	}
	rp_buf_init(&text, 0);
	rp_buf_addf(&text, "%s\n", path);
	rp_code rc = text.failed ? rp_no_memory(err, 0, "a path") : rp_write_fd(STDOUT_FILENO, text.data, text.len, "standard output", err);
	rp_buf_free(&text);
	return rc;
}

void fetch_write_error_json(const rp_error *error)
{
	rp_buf text;
	rp_jsonw w;
	fetch_json_begin(&w, &text, "error");
	rp_jsonw_pair_str(&w, "code", rp_code_word(error->code));
	rp_jsonw_pair_u64(&w, "exit", (uint64_t)error->code);
	rp_jsonw_pair_str(&w, "message", error->msg);
	fetch_json_end(&w, &text, NULL);
}
