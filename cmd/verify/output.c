/* What is written: results on stdout, talk on stderr. */
#include "verify.h"

#include "base/term.h"
#include "hash/sums.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KEEP_BACK = 32 * 1024 };

rp_code verify_flush(verify_state *v, rp_error *err)
{
	rp_code code = v->out.failed ? rp_no_memory(err, v->out.len, "output") :
		rp_write_fd(STDOUT_FILENO, v->out.data, v->out.len, "standard output", err);
	rp_buf_clear(&v->out);
	return code;
}

rp_code verify_written(verify_state *v, rp_error *err)
{
	if (!v->out.failed && v->out.len < KEEP_BACK && !isatty(STDOUT_FILENO))
		return RP_OK;
	rp_progress_end(&v->progress);
	return verify_flush(v, err);
}

static void say(verify_state *v, const char *label, const char *name, const char *text)
{
	rp_buf line;
	rp_progress_end(&v->progress);
	verify_flush(v, NULL); /* in the order of events where both go to one place */
	rp_buf_init(&line, 0);
	rp_buf_addf(&line, "%s: %s", verify_program.name, label);
	if (name != NULL) {
		rp_shell_name(&line, name);
		rp_buf_adds(&line, ": ");
	}
	rp_buf_addf(&line, "%s\n", text);
	if (!line.failed)
		rp_write_fd(STDERR_FILENO, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
}

void verify_say(verify_state *v, const char *fmt, ...)
{
	char text[2000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	say(v, "", NULL, text);
}

void verify_say_of(verify_state *v, const char *name, const char *text)
{
	say(v, "", name, text);
}

void verify_record(verify_state *v, rp_jsonw *w, const char *type)
{
	rp_jsonw_init(w, &v->out);
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "type", type);
	rp_jsonw_pair_str(w, "schema", VERIFY_SCHEMA);
}

rp_code verify_record_end(verify_state *v, rp_jsonw *w, rp_error *err)
{
	rp_jsonw_end(w);
	rp_jsonw_line(w);
	if (!rp_jsonw_ok(w) && !v->out.failed)
		return rp_fail(err, RP_INTERNAL, "a JSON object was left unfinished");
	return verify_written(v, err);
}

void verify_error_record(verify_state *v, const rp_error *error)
{
	rp_jsonw w;
	verify_record(v, &w, "error");
	rp_jsonw_pair_str(&w, "code", rp_code_word(error->code));
	rp_jsonw_pair_u64(&w, "exit", (uint64_t)error->code);
	rp_jsonw_pair_str(&w, "message", error->msg);
	verify_record_end(v, &w, NULL);
}

rp_code verify_summary(verify_state *v, rp_error *err)
{
	double seconds = (double)(rp_now_ns() - v->start_ns) / 1e9;
	if (v->o.json) {
		rp_jsonw w;
		verify_record(v, &w, "summary");
		rp_jsonw_pair_u64(&w, "ok", v->n_ok);
		rp_jsonw_pair_u64(&w, "failed", v->n_failed);
		rp_jsonw_pair_u64(&w, "cached", v->n_cached);
		rp_jsonw_pair_u64(&w, "bytes_read", v->bytes);
		rp_jsonw_pair_f64(&w, "seconds", (double)(uint64_t)(seconds * 1000) / 1000);
		rp_jsonw_key(&w, "confined");
		rp_jsonw_object(&w);
		rp_jsonw_pair_bool(&w, "files", v->confined.files);
		rp_jsonw_pair_bool(&w, "calls", v->confined.calls);
		rp_jsonw_end(&w);
		return verify_record_end(v, &w, err);
	}
	if (!v->o.quiet && !v->o.status) {
		char size[32], cached[80] = "";
		if (v->n_cached > 0)
			snprintf(cached, sizeof cached, "; %llu not changed since they were read last", (unsigned long long)v->n_cached);
		verify_say(v, "%llu ok, %llu failed; %s read in %.1f s%s", (unsigned long long)v->n_ok, (unsigned long long)v->n_failed,
			rp_size_text(size, sizeof size, v->bytes), seconds, cached);
	}
	return RP_OK;
}
