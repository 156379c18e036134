#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Text without code points from U+0300 on (lead bytes from 0xCC on) is its own NFC: nothing in it combines. */
static bool below_combining(rp_str text)
{
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.s[i] >= 0xCC)
			return false;
	return true;
}

static rp_code unicode_form(norm_kind kind, rp_str text, rp_buf *out, rp_error *err)
{
	const utf8proc_option_t form = kind == NORM_NFC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
	const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)text.s;
	for (size_t at = 0, from = 0; from < text.n; from = at) {
		utf8proc_int32_t cp = 0;
		utf8proc_ssize_t len = 0;
		for (at = from; at < text.n; at += (size_t)len) {
			len = utf8proc_iterate(s + at, (utf8proc_ssize_t)(text.n - at), &cp);
			if (len <= 0 || unicode_outside_normalization((uint32_t)cp))
				break;
		}
		if (at > from) {
			utf8proc_uint8_t *made = NULL;
			utf8proc_ssize_t n = utf8proc_map(s + from, (utf8proc_ssize_t)(at - from), &made, form | UTF8PROC_STABLE);
			if (n >= 0)
				rp_buf_add(out, made, (size_t)n);
			free(made);
			if (n < 0)
				return rp_fail(err, n == UTF8PROC_ERROR_NOMEM ? RP_NO_MEMORY : RP_INTERNAL, "normalizing text: %s", utf8proc_errmsg(n));
		}
		if (at < text.n) {
			rp_buf_add(out, s + at, len > 0 ? (size_t)len : 1);
			at += len > 0 ? (size_t)len : 1;
		}
	}
	return RP_OK;
}

static rp_code replace(const norm_step *step, match_state *ms, rp_str text, rp_buf *out, rp_error *err)
{
	for (size_t at = 0, start, end; at < text.n; at = end) {
		rp_code code = matcher_next(&step->match, ms, text.s, text.n, at, &start, &end, err);
		if (code != RP_OK)
			return code;
		rp_buf_add(out, text.s + at, start - at);
		if (end > start)
			rp_buf_add(out, step->text, step->len);
	}
	return RP_OK;
}

rp_code normalize(const norm_step *steps, size_t n_steps, match_state *ms, rp_str text, rp_buf bufs[2], rp_str *out, rp_error *err)
{
	unsigned which = 0;
	for (size_t i = 0; i < n_steps && text.n != 0; i++) {
		rp_buf *to = &bufs[which];
		rp_code code = RP_OK;
		if (steps[i].kind == NORM_NFC && below_combining(text))
			continue;
		rp_buf_clear(to);
		if (steps[i].kind == NORM_REPLACE) {
			code = replace(&steps[i], ms, text, to, err);
		} else if (steps[i].kind == NORM_PREPEND) {
			rp_buf_add(to, steps[i].text, steps[i].len);
			rp_buf_add(to, text.s, text.n);
		} else {
			code = unicode_form(steps[i].kind, text, to, err);
		}
		if (code == RP_OK && to->failed)
			code = rp_fail(err, RP_NO_MEMORY, "the tokenizer's normalizer needs more than %zu bytes for %zu bytes of text", to->max, text.n);
		if (code != RP_OK)
			return code;
		text = (rp_str){ to->data, to->len };
		which = !which;
	}
	*out = text;
	if (text.n > MAX_TEXT)
		return rp_fail(err, RP_PROMPT, "the text is %zu bytes long after normalization; at most %d are accepted", text.n, MAX_TEXT);
	return RP_OK;
}
