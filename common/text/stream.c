/* The streaming decoder: ids -> bytes -> whole characters -> text with stop strings held back. Each stage looks at one byte at
 * a time, so how ids are split into calls cannot matter. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 256, MAX_STOP_BYTES = 1 << 16 };

/* A stop string with its failure function (Knuth, Morris, Pratt): at is how much of it the text so far ends with. */
typedef struct stop {
	char *text;
	uint32_t *fail; /* [len + 1] */
	size_t len, at;
} stop;

struct rp_decoder {
	const rp_tokenizer *t;
	stop *stops;
	size_t n_stops;
	unsigned char part[4]; /* an unfinished character */
	size_t n_part;
	unsigned need;          /* bytes it wants in all */
	unsigned char low, high; /* what its next byte may be */
	rp_buf held;            /* text not given out: the longest suffix that begins a stop string */
	bool started, stopped;
};

static bool make_fail(stop *s)
{
	s->fail = rp_alloc_array(s->len + 1, sizeof *s->fail);
	if (s->fail == NULL)
		return false;
	for (size_t i = 1, k = 0; i < s->len; i++) {
		while (k > 0 && s->text[i] != s->text[k])
			k = s->fail[k];
		k += s->text[i] == s->text[k];
		s->fail[i + 1] = (uint32_t)k;
	}
	return true;
}

rp_code rp_decoder_new(const rp_tokenizer *t, const char *const *stops, size_t n_stops, rp_decoder **out, rp_error *err)
{
	if (n_stops > MAX_STOPS)
		return rp_fail(err, RP_USAGE, "%zu stop strings; at most %d are accepted", n_stops, MAX_STOPS);
	rp_decoder *d = rp_alloc(sizeof *d);
	rp_code code = RP_OK;
	if (d == NULL)
		return rp_no_memory(err, sizeof *d, "a decoder");
	*d = (rp_decoder){ .t = t };
	rp_buf_init(&d->held, 0);
	d->stops = rp_alloc_array(n_stops, sizeof *d->stops);
	if (d->stops == NULL)
		code = rp_no_memory(err, n_stops, "the stop strings");
	for (size_t i = 0; code == RP_OK && i < n_stops; i++) {
		stop *s = &d->stops[i];
		d->n_stops = i + 1;
		s->len = strlen(stops[i]);
		if (s->len == 0 || s->len > MAX_STOP_BYTES)
			code = rp_fail(err, RP_USAGE, "stop string %zu is %zu bytes long; 1 to %d are accepted", i + 1, s->len, MAX_STOP_BYTES);
		else if (rp_utf8_valid(stops[i], s->len) != s->len)
			code = rp_fail(err, RP_USAGE, "stop string %zu is not UTF-8", i + 1);
		else if ((s->text = rp_strdup(stops[i])) == NULL || !make_fail(s))
			code = rp_no_memory(err, s->len, "a stop string");
	}
	if (code != RP_OK) {
		rp_decoder_free(d);
		return code;
	}
	*out = d;
	return RP_OK;
}

void rp_decoder_free(rp_decoder *d)
{
	if (d == NULL)
		return;
	for (size_t i = 0; d->stops != NULL && i < d->n_stops; i++) {
		free(d->stops[i].text);
		free(d->stops[i].fail);
	}
	free(d->stops);
	rp_buf_free(&d->held);
	free(d);
}

/* One character more (n bytes): find stop strings that end in it, give out what can be part of none. */
static void text_out(rp_decoder *d, const char *s, size_t n, rp_buf *out)
{
	if (d->stopped)
		return;
	if (!d->started && d->t->strip_first_space && n == 1 && *s == ' ') {
		d->started = true;
		return;
	}
	d->started = true;
	rp_buf_add(&d->held, s, n);
	size_t keep = 0, ended = 0;
	for (size_t i = 0; i < d->n_stops; i++) {
		stop *p = &d->stops[i];
		for (size_t k = 0; k < n; k++) {
			while (p->at > 0 && (p->at == p->len || p->text[p->at] != s[k]))
				p->at = p->fail[p->at];
			p->at += p->text[p->at] == s[k];
		}
		keep = p->at > keep ? p->at : keep;
		ended = p->at == p->len && p->len > ended ? p->len : ended;
	}
	d->stopped = ended != 0;
	size_t give = d->held.len - (d->stopped ? ended : keep);
	rp_buf_add(out, d->held.data, give);
	if (d->stopped)
		rp_buf_clear(&d->held);
	else
		rp_buf_drop(&d->held, give);
}

static void replacement(rp_decoder *d, rp_buf *out)
{
	d->n_part = 0;
	text_out(d, "\xEF\xBF\xBD", 3, out);
}

/* Begin a character with byte c: Unicode table 3-7. */
static void begin(rp_decoder *d, unsigned char c, rp_buf *out)
{
	d->low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
	d->high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
	d->need = c >= 0xC2 && c <= 0xDF ? 2 : c >= 0xE0 && c <= 0xEF ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
	if (c < 0x80) {
		text_out(d, (const char *)&c, 1, out);
	} else if (d->need == 0) {
		replacement(d, out);
	} else {
		d->part[0] = c;
		d->n_part = 1;
	}
}

/* A byte that cannot continue the character turns what there is of it (a maximal subpart, table 3-8) into one U+FFFD and
 * begins the next. */
static void byte_in(rp_decoder *d, unsigned char c, rp_buf *out)
{
	if (d->n_part != 0 && (c < d->low || c > d->high))
		replacement(d, out);
	if (d->n_part == 0) {
		begin(d, c, out);
		return;
	}
	d->part[d->n_part++] = c;
	d->low = 0x80;
	d->high = 0xBF;
	if (d->n_part == d->need) {
		size_t n = d->n_part;
		d->n_part = 0;
		text_out(d, (const char *)d->part, n, out);
	}
}

rp_code rp_decoder_push(rp_decoder *d, uint32_t id, bool show_special, rp_buf *out, bool *stopped, rp_error *err)
{
	rp_str s = rp_token_is_special(d->t, id) && !show_special ? (rp_str){ "", 0 } : rp_token_bytes(d->t, id);
	for (size_t i = 0; i < s.n && !d->stopped; i++)
		byte_in(d, (unsigned char)s.s[i], out);
	*stopped = d->stopped;
	return out->failed || d->held.failed ? rp_no_memory(err, out->len + s.n, "decoded text") : RP_OK;
}

rp_code rp_decoder_flush(rp_decoder *d, rp_buf *out, rp_error *err)
{
	if (d->n_part != 0)
		replacement(d, out);
	if (!d->stopped)
		rp_buf_add(out, d->held.data, d->held.len);
	rp_buf_clear(&d->held);
	for (size_t i = 0; i < d->n_stops; i++)
		d->stops[i].at = 0;
	return out->failed || d->held.failed ? rp_no_memory(err, out->len, "decoded text") : RP_OK;
}
