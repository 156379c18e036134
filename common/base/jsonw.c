#include "jsonw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_jsonw_init(rp_jsonw *w, rp_buf *out)
{
	memset(w, 0, sizeof *w);
	w->out = out;
}

/* Before a value: its comma, unless its key brought it. */
static void before(rp_jsonw *w)
{
	if (w->depth == 0)
		return;
	if (w->kind[w->depth - 1] == '{') {
		w->bad |= !w->keyed;
		w->keyed = false;
		return;
	}
	if (w->comma[w->depth - 1])
		rp_buf_addc(w->out, ',');
	w->comma[w->depth - 1] = true;
}

static void begin(rp_jsonw *w, char kind)
{
	before(w);
	if (w->depth == RP_JSONW_DEPTH) {
		w->bad = true;
		return;
	}
	w->kind[w->depth] = kind;
	w->comma[w->depth++] = false;
	rp_buf_addc(w->out, kind);
}

void rp_jsonw_object(rp_jsonw *w)
{
	begin(w, '{');
}

void rp_jsonw_array(rp_jsonw *w)
{
	begin(w, '[');
}

void rp_jsonw_end(rp_jsonw *w)
{
	if (w->depth == 0 || w->keyed) {
		w->bad = true;
		return;
	}
	rp_buf_addc(w->out, w->kind[--w->depth] == '{' ? '}' : ']');
}

static void string(rp_jsonw *w, const char *s, size_t n)
{
	rp_buf_addc(w->out, '"');
	while (n > 0) {
		size_t valid = rp_utf8_valid(s, n), plain = 0;
		while (plain < valid && (unsigned char)s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\' && s[plain] != 0x7f)
			plain++;
		rp_buf_add(w->out, s, plain);
		s += plain;
		n -= plain;
		if (n == 0)
			break;
		if (plain == valid)
			rp_buf_adds(w->out, "\xef\xbf\xbd");
		else if (*s == '"' || *s == '\\')
			rp_buf_addf(w->out, "\\%c", *s);
		else if (*s == '\n')
			rp_buf_adds(w->out, "\\n");
		else if (*s == '\t')
			rp_buf_adds(w->out, "\\t");
		else if (*s == '\r')
			rp_buf_adds(w->out, "\\r");
		else
			rp_buf_addf(w->out, "\\u%04x", (unsigned)(unsigned char)*s);
		s++;
		n--;
	}
	rp_buf_addc(w->out, '"');
}

void rp_jsonw_key(rp_jsonw *w, const char *key)
{
	if (w->depth == 0 || w->kind[w->depth - 1] != '{' || w->keyed) {
		w->bad = true;
		return;
	}
	if (w->comma[w->depth - 1])
		rp_buf_addc(w->out, ',');
	w->comma[w->depth - 1] = true;
	w->keyed = true;
	string(w, key, strlen(key));
	rp_buf_addc(w->out, ':');
}

void rp_jsonw_strn(rp_jsonw *w, const char *s, size_t n)
{
	before(w);
	string(w, s, n);
}

void rp_jsonw_str(rp_jsonw *w, const char *s)
{
	if (s == NULL)
		rp_jsonw_null(w);
	else
		rp_jsonw_strn(w, s, strlen(s));
}

void rp_jsonw_u64(rp_jsonw *w, uint64_t v)
{
	before(w);
	rp_buf_addf(w->out, "%" PRIu64, v);
}

void rp_jsonw_i64(rp_jsonw *w, int64_t v)
{
	before(w);
	rp_buf_addf(w->out, "%" PRId64, v);
}

static void number(rp_jsonw *w, double v, int from, int to, bool single)
{
	char text[40];
	if (!isfinite(v)) {
		rp_jsonw_null(w);
		return;
	}
	before(w);
	for (int digits = from; digits <= to; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (single ? (double)strtof(text, NULL) == v : strtod(text, NULL) == v)
			break;
	}
	rp_buf_adds(w->out, text);
}

void rp_jsonw_f64(rp_jsonw *w, double v)
{
	number(w, v, 15, 17, false);
}

void rp_jsonw_f32(rp_jsonw *w, float v)
{
	number(w, (double)v, 6, 9, true);
}

void rp_jsonw_bool(rp_jsonw *w, bool v)
{
	before(w);
	rp_buf_adds(w->out, v ? "true" : "false");
}

void rp_jsonw_null(rp_jsonw *w)
{
	before(w);
	rp_buf_adds(w->out, "null");
}

void rp_jsonw_line(rp_jsonw *w)
{
	w->bad |= w->depth != 0;
	rp_buf_addc(w->out, '\n');
}

bool rp_jsonw_ok(const rp_jsonw *w)
{
	return !w->bad && !w->out->failed;
}

void rp_jsonw_pair_str(rp_jsonw *w, const char *key, const char *s)
{
	rp_jsonw_key(w, key);
	rp_jsonw_str(w, s);
}

void rp_jsonw_pair_u64(rp_jsonw *w, const char *key, uint64_t v)
{
	rp_jsonw_key(w, key);
	rp_jsonw_u64(w, v);
}

void rp_jsonw_pair_f64(rp_jsonw *w, const char *key, double v)
{
	rp_jsonw_key(w, key);
	rp_jsonw_f64(w, v);
}

void rp_jsonw_pair_bool(rp_jsonw *w, const char *key, bool v)
{
	rp_jsonw_key(w, key);
	rp_jsonw_bool(w, v);
}
