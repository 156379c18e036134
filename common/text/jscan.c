#include "internal.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

rp_code jscan_fail(jscan *j, const char *what)
{
	size_t line = 1, start = 0, at = j->at < j->n ? j->at : j->n;
	for (size_t i = 0; i < at; i++)
		if (j->s[i] == '\n') {
			line++;
			start = i + 1;
		}
	return rp_fail(j->err, RP_FORMAT, "%s: line %zu, byte %zu: %s", j->name, line, at - start + 1,
		j->at < j->n ? what : "the text ends too early");
}

char jscan_peek(jscan *j)
{
	while (j->at < j->n && (j->s[j->at] == ' ' || j->s[j->at] == '\n' || j->s[j->at] == '\t' || j->s[j->at] == '\r'))
		j->at++;
	return j->at < j->n ? j->s[j->at] : '\0';
}

rp_code jscan_take(jscan *j, char c)
{
	char what[32] = "expected \"?\" here";
	what[10] = c;
	if (j->at >= j->n || jscan_peek(j) != c)
		return jscan_fail(j, what);
	j->at++;
	return RP_OK;
}

rp_code jscan_more(jscan *j, char close, bool *first, bool *more)
{
	char c = jscan_peek(j);
	*more = c != close;
	if (!*more || !*first) {
		if (*more && c != ',')
			return jscan_fail(j, "expected a comma here, or the end");
		j->at++;
		if (*more && jscan_peek(j) == close)
			return jscan_fail(j, "a comma before the end");
	}
	*first = false;
	return RP_OK;
}

/* The four digits behind \u; at stands on the first. */
static bool hex4(jscan *j, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++, j->at++) {
		int d = j->at < j->n ? hex_digit(j->s[j->at]) : -1;
		if (d < 0)
			return false;
		*out = *out << 4 | (uint32_t)d;
	}
	return true;
}

static void add_utf8(rp_buf *b, uint32_t cp)
{
	if (cp < 0x80) {
		rp_buf_addc(b, (char)cp);
		return;
	}
	if (cp < 0x800) {
		rp_buf_addc(b, (char)(0xC0 | cp >> 6));
	} else {
		if (cp < 0x10000) {
			rp_buf_addc(b, (char)(0xE0 | cp >> 12));
		} else {
			rp_buf_addc(b, (char)(0xF0 | cp >> 18));
			rp_buf_addc(b, (char)(0x80 | (cp >> 12 & 0x3F)));
		}
		rp_buf_addc(b, (char)(0x80 | (cp >> 6 & 0x3F)));
	}
	rp_buf_addc(b, (char)(0x80 | (cp & 0x3F)));
}

/* at stands behind \u. */
static rp_code unicode_escape(jscan *j)
{
	uint32_t cp, low;
	if (!hex4(j, &cp))
		return jscan_fail(j, "\\u wants four hexadecimal digits");
	if (cp == 0)
		return jscan_fail(j, "a NUL character");
	if (cp >= 0xD800 && cp < 0xDC00 && j->n - j->at >= 2 && j->s[j->at] == '\\' && j->s[j->at + 1] == 'u') {
		j->at += 2;
		if (!hex4(j, &low) || low < 0xDC00 || low > 0xDFFF)
			return jscan_fail(j, "half of a surrogate pair");
		cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
	}
	if (cp >= 0xD800 && cp < 0xE000)
		return jscan_fail(j, "half of a surrogate pair");
	add_utf8(&j->text, cp);
	return RP_OK;
}

/* The rest of a string with escapes; at stands on the first backslash, from is the string's first byte. */
static rp_code string_with_escapes(jscan *j, size_t from, rp_str *out)
{
	static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	rp_buf_clear(&j->text);
	rp_buf_add(&j->text, j->s + from, j->at - from);
	while (j->at < j->n && j->s[j->at] != '"') {
		char c = j->s[j->at];
		if ((unsigned char)c < 0x20)
			return jscan_fail(j, "a control character in a string");
		j->at++;
		if (c != '\\') {
			rp_buf_addc(&j->text, c);
			continue;
		}
		char e = j->at < j->n ? j->s[j->at++] : '\0';
		const char *p = e != '\0' ? strchr(names, e) : NULL;
		if (p != NULL) {
			rp_buf_addc(&j->text, bytes[p - names]);
		} else if (e == 'u') {
			rp_code code = unicode_escape(j);
			if (code != RP_OK)
				return code;
		} else {
			return jscan_fail(j, "an unknown escape");
		}
	}
	if (j->text.failed)
		return rp_no_memory(j->err, j->text.len, "a string");
	*out = (rp_str){ j->text.data != NULL ? j->text.data : "", j->text.len };
	return RP_OK;
}

rp_code jscan_string(jscan *j, rp_str *out)
{
	rp_code code = jscan_take(j, '"');
	if (code != RP_OK)
		return code;
	size_t from = j->at;
	unsigned char any = 0;
	for (; j->at < j->n; j->at++) {
		unsigned char c = (unsigned char)j->s[j->at];
		if (c == '"' || c == '\\' || c < 0x20)
			break;
		any |= c;
	}
	*out = (rp_str){ j->s + from, j->at - from };
	if (j->at < j->n && j->s[j->at] == '\\') {
		code = string_with_escapes(j, from, out);
		any = 0x80;
		if (code != RP_OK)
			return code;
	}
	if (j->at >= j->n || j->s[j->at] != '"')
		return jscan_fail(j, "a control character in a string");
	if (any >= 0x80 && rp_utf8_valid(out->s, out->n) != out->n)
		return jscan_fail(j, "a string that is not UTF-8");
	j->at++;
	return RP_OK;
}

rp_code jscan_key(jscan *j, rp_str *out)
{
	rp_code code = jscan_string(j, out);
	return code == RP_OK ? jscan_take(j, ':') : code;
}

rp_code jscan_u32(jscan *j, uint32_t *out)
{
	uint64_t v = 0;
	size_t digits = 0;
	char c = jscan_peek(j);
	for (size_t from = j->at; j->at < j->n && (c = j->s[j->at]) >= '0' && c <= '9' && digits < 10; j->at++, digits++) {
		if (digits > 0 && j->s[from] == '0')
			return jscan_fail(j, "a number with a leading zero");
		v = v * 10 + (uint64_t)(c - '0');
	}
	if (digits == 0 || v > UINT32_MAX || (j->at < j->n && (c == '.' || c == 'e' || c == 'E' || (c >= '0' && c <= '9'))))
		return jscan_fail(j, "expected a whole number from 0 to 4294967295 here");
	*out = (uint32_t)v;
	return RP_OK;
}

static void skip_string(jscan *j)
{
	for (j->at++; j->at < j->n && j->s[j->at] != '"'; j->at++)
		if (j->s[j->at] == '\\')
			j->at++;
	j->at++;
}

rp_code jscan_skip(jscan *j, rp_str *out)
{
	jscan_peek(j);
	size_t from = j->at, depth = 0;
	do {
		char c = jscan_peek(j);
		if (c == '{' || c == '[') {
			if (++depth > MAX_DEPTH)
				return jscan_fail(j, "nested too deep");
			j->at++;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return jscan_fail(j, "a value is missing");
			depth--;
			j->at++;
		} else if (c == '"') {
			skip_string(j);
		} else if ((c == ',' || c == ':') && depth == 0) {
			return jscan_fail(j, "a value is missing");
		} else if (c == ',' || c == ':') {
			j->at++;
		} else {
			size_t start = j->at;
			while (j->at < j->n && strchr(" \n\t\r,:{}[]\"", j->s[j->at]) == NULL)
				j->at++;
			if (j->at == start)
				return jscan_fail(j, "an unexpected byte");
		}
	} while (depth > 0 && j->at < j->n);
	if (depth > 0 || j->at > j->n) {
		j->at = j->n;
		return jscan_fail(j, "");
	}
	*out = (rp_str){ j->s + from, j->at - from };
	return RP_OK;
}
