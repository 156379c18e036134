/* What people see on stderr and programs on stdout. */
#include "fetch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "base/progress.h"
#include "base/term.h"

enum { DELAY_NS = 300000000 };

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

/* ---- the progress line ---- */

static void time_text(char *out, size_t size, uint64_t s)
{
	if (s >= 3600)
		snprintf(out, size, "%llu:%02llu:%02llu", (unsigned long long)(s / 3600), (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
	else
		snprintf(out, size, "%llu:%02llu", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
}

static void facts(const rp_fetch_event *e, rp_buf *out)
{
	char a[32], b[32];
	if (e->total > 0)
		rp_buf_addf(out, "  %u%%  %s of %s verified", (unsigned)((double)e->verified / (double)e->total * 100),
			rp_size_text(a, sizeof a, e->verified), rp_size_text(b, sizeof b, e->total));
	if (e->rate >= 1)
		rp_buf_addf(out, "  %s/s", rp_size_text(a, sizeof a, (uint64_t)e->rate));
	if (e->rate >= 1 && e->total > e->verified && (double)(e->total - e->verified) / e->rate < 1e6) {
		time_text(b, sizeof b, (uint64_t)((double)(e->total - e->verified) / e->rate));
		rp_buf_addf(out, "  %s left", b);
	}
	if (e->sources > 1)
		rp_buf_addf(out, "  %u sources", e->sources);
}

static void draw(fetch_state *s, const rp_fetch_event *e)
{
	uint64_t now = rp_now_ns();
	rp_buf line, tail;
	if (s->o.quiet || !s->moves || now - s->start_ns < DELAY_NS)
		return;
	rp_buf_init(&line, 4000);
	rp_buf_init(&tail, 1000);
	facts(e, &tail);
	size_t room = rp_term_width(STDERR_FILENO), head = strlen(s->what);
	room = room > 1 ? room - 1 : 0;
	size_t end = tail.len < room ? tail.len : room;
	if (head + end > room)
		head = rp_utf8_valid(s->what, room - end);
	rp_buf_addc(&line, '\r');
	rp_buf_add(&line, s->what, head);
	rp_buf_add(&line, tail.data, end);
	rp_buf_adds(&line, "\033[K");
	if (!line.failed)
		rp_write_fd(STDERR_FILENO, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
	rp_buf_free(&tail);
	s->drawn = true;
}

void fetch_talk_end(fetch_state *s)
{
	if (s->drawn)
		rp_write_fd(STDERR_FILENO, "\r\033[K", 4, "stderr", NULL);
	s->drawn = false;
}

void fetch_talk_begin(fetch_state *s, const char *what)
{
	s->what = what;
	s->start_ns = rp_now_ns();
	s->moves = rp_term_moves(STDERR_FILENO);
	if (!s->o.quiet && !s->moves && !s->o.json)
		fetch_say("fetching %s", what);
}

/* ---- JSON ---- */

static void begin(rp_jsonw *w, rp_buf *text, const char *type)
{
	rp_buf_init(text, 64 << 10);
	rp_jsonw_init(w, text);
	rp_jsonw_object(w);
	rp_jsonw_key(w, "schema");
	rp_jsonw_str(w, FETCH_SCHEMA);
	rp_jsonw_key(w, "type");
	rp_jsonw_str(w, type);
}

static rp_code end(rp_jsonw *w, rp_buf *text, rp_error *err)
{
	rp_jsonw_end(w);
	rp_jsonw_line(w);
	rp_code rc = rp_jsonw_ok(w) ? rp_write_fd(STDOUT_FILENO, text->data, text->len, "standard output", err) : rp_no_memory(err, 0, "a line of JSON");
	rp_buf_free(text);
	return rc;
}

static void number(rp_jsonw *w, const char *key, uint64_t v)
{
	rp_jsonw_key(w, key);
	rp_jsonw_u64(w, v);
}

static void json_event(const rp_fetch_event *e)
{
	static const char *const types[] = {"note", "progress", "file"};
	rp_buf text;
	rp_jsonw w;
	begin(&w, &text, types[e->kind]);
	if (e->kind == RP_FETCH_PROGRESS) {
		number(&w, "total", e->total);
		number(&w, "verified", e->verified);
		number(&w, "present", e->at_start);
		number(&w, "received", e->received);
		rp_jsonw_key(&w, "rate");
		rp_jsonw_f64(&w, e->rate);
		number(&w, "sources", e->sources);
		number(&w, "connections", e->connections);
	} else {
		rp_jsonw_key(&w, e->kind == RP_FETCH_FILE ? "path" : "text");
		rp_jsonw_str(&w, e->text);
	}
	end(&w, &text, NULL);
}

void fetch_on_event(void *state, const rp_fetch_event *e)
{
	fetch_state *s = state;
	if (s->o.json)
		json_event(e);
	if (e->kind == RP_FETCH_PROGRESS) {
		draw(s, e);
	} else if (!s->o.quiet && e->kind == RP_FETCH_NOTE) {
		fetch_talk_end(s);
		fetch_say("%s", e->text);
	}
}

rp_code fetch_write_path(const fetch_state *s, const char *path, rp_error *err)
{
	rp_buf text;
	rp_jsonw w;
	if (s->o.json) {
		begin(&w, &text, "done");
		rp_jsonw_key(&w, "path");
		rp_jsonw_str(&w, path);
		return end(&w, &text, err);
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
	begin(&w, &text, "error");
	rp_jsonw_key(&w, "code");
	rp_jsonw_str(&w, rp_code_word(error->code));
	number(&w, "exit", (uint64_t)error->code);
	rp_jsonw_key(&w, "message");
	rp_jsonw_str(&w, error->msg);
	end(&w, &text, NULL);
}
