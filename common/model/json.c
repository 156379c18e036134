/* Strict JSON in two passes: a scan of the text for everything cJSON lets through (and for a message with a place), then
 * cJSON, then a look for duplicate keys in what it decoded. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum { MAX_DEPTH = 64, MAX_VALUES = 8 << 20, MAX_NUMBER = 63 /* characters of a number cJSON keeps */ };

typedef struct scan {
	const char *name, *s;
	size_t n, at, values;
	rp_error *err;
} scan;

static rp_code bad(const scan *c, rp_code code, const char *what)
{
	size_t line = 1, start = 0, at = c->at < c->n ? c->at : c->n;
	for (size_t i = 0; i < at; i++)
		if (c->s[i] == '\n') {
			line++;
			start = i + 1;
		}
	return rp_fail(c->err, code, "%s: line %zu, byte %zu: %s", c->name, line, at - start + 1, what);
}

static rp_code malformed(const scan *c, const char *what)
{
	return bad(c, RP_FORMAT, c->at >= c->n ? "the text ends too early" : what);
}

static char peek(const scan *c)
{
	return c->at < c->n ? c->s[c->at] : '\0';
}

static void skip_space(scan *c)
{
	while (c->at < c->n && (c->s[c->at] == ' ' || c->s[c->at] == '\t' || c->s[c->at] == '\n' || c->s[c->at] == '\r'))
		c->at++;
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static int hex_value(char ch)
{
	if (is_digit(ch))
		return ch - '0';
	char low = (char)(ch | 0x20);
	return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* The four digits of \uXXXX at c->at; -1 when they are not there. */
static int hex4(const scan *c)
{
	int v = 0;
	if (c->n - c->at < 4)
		return -1;
	for (size_t i = 0; i < 4; i++) {
		int h = hex_value(c->s[c->at + i]);
		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return v;
}

static rp_code scan_unicode_escape(scan *c)
{
	int v = hex4(c);
	if (v < 0)
		return malformed(c, "\\u needs four hexadecimal digits");
	if (v == 0)
		return bad(c, RP_FORMAT, "a NUL character in a string");
	if (v >= 0xDC00 && v <= 0xDFFF)
		return bad(c, RP_FORMAT, "half of a surrogate pair");
	c->at += 4;
	if (v < 0xD800 || v > 0xDBFF)
		return RP_OK;
	if (c->n - c->at < 6 || c->s[c->at] != '\\' || c->s[c->at + 1] != 'u')
		return bad(c, RP_FORMAT, "half of a surrogate pair");
	c->at += 2;
	v = hex4(c);
	if (v < 0xDC00 || v > 0xDFFF)
		return bad(c, RP_FORMAT, "half of a surrogate pair");
	c->at += 4;
	return RP_OK;
}

static rp_code scan_string(scan *c)
{
	c->at++;
	while (c->at < c->n) {
		unsigned char ch = (unsigned char)c->s[c->at];
		if (ch == '"') {
			c->at++;
			return RP_OK;
		}
		if (ch < 0x20)
			return bad(c, RP_FORMAT, "a control character in a string");
		c->at++;
		if (ch != '\\')
			continue;
		char escape = peek(c);
		if (escape == '\0' || strchr("\"\\/bfnrtu", escape) == NULL)
			return malformed(c, "an unknown escape in a string");
		c->at++;
		rp_code rc = escape == 'u' ? scan_unicode_escape(c) : RP_OK;
		if (rc != RP_OK)
			return rc;
	}
	return malformed(c, "");
}

static rp_code scan_number(scan *c)
{
	size_t start = c->at;
	if (peek(c) == '-')
		c->at++;
	if (peek(c) == '0')
		c->at++;
	else if (is_digit(peek(c)))
		while (is_digit(peek(c)))
			c->at++;
	else
		return malformed(c, "expected a value");
	if (peek(c) == '.') {
		c->at++;
		if (!is_digit(peek(c)))
			return malformed(c, "expected a digit after the point");
		while (is_digit(peek(c)))
			c->at++;
	}
	bool exponent = peek(c) == 'e' || peek(c) == 'E';
	if (exponent) {
		c->at++;
		if (peek(c) == '+' || peek(c) == '-')
			c->at++;
		if (!is_digit(peek(c)))
			return malformed(c, "expected a digit in the exponent");
		while (is_digit(peek(c)))
			c->at++;
	}
	char text[MAX_NUMBER + 1];
	size_t n = c->at - start;
	if (n > MAX_NUMBER)
		return bad(c, RP_FORMAT, "a number of more than 63 characters");
	if (!exponent) /* 63 digits are far from the largest double */
		return RP_OK;
	memcpy(text, c->s + start, n);
	text[n] = '\0';
	return isfinite(strtod(text, NULL)) ? RP_OK : bad(c, RP_FORMAT, "a number too large for a double");
}

static rp_code scan_word(scan *c, const char *word)
{
	size_t n = strlen(word);
	if (c->n - c->at < n || memcmp(c->s + c->at, word, n) != 0)
		return malformed(c, "expected a value");
	c->at += n;
	return RP_OK;
}

static rp_code scan_value(scan *c, unsigned depth);

/* After an opening bracket: members up to the closing one. */
static rp_code scan_members(scan *c, char close, unsigned depth)
{
	c->at++;
	skip_space(c);
	if (peek(c) == close) {
		c->at++;
		return RP_OK;
	}
	for (;;) {
		skip_space(c);
		if (close == '}') {
			rp_code rc = peek(c) == '"' ? scan_string(c) : malformed(c, "expected a key in quotes");
			if (rc != RP_OK)
				return rc;
			skip_space(c);
			if (peek(c) != ':')
				return malformed(c, "expected ':' after a key");
			c->at++;
		}
		rp_code rc = scan_value(c, depth);
		if (rc != RP_OK)
			return rc;
		skip_space(c);
		char ch = peek(c);
		if (ch != ',' && ch != close)
			return malformed(c, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
		c->at++;
		if (ch == close)
			return RP_OK;
	}
}

static rp_code scan_value(scan *c, unsigned depth)
{
	if (++c->values > MAX_VALUES)
		return bad(c, RP_FORMAT, "more than 8388608 values");
	skip_space(c);
	switch (peek(c)) {
	case '{':
	case '[':
		if (depth == MAX_DEPTH)
			return bad(c, RP_FORMAT, "nested more than 64 levels deep");
		return scan_members(c, peek(c) == '{' ? '}' : ']', depth + 1);
	case '"':
		return scan_string(c);
	case 't':
		return scan_word(c, "true");
	case 'f':
		return scan_word(c, "false");
	case 'n':
		return scan_word(c, "null");
	default:
		return scan_number(c);
	}
}

static rp_code scan_text(scan *c)
{
	size_t valid = rp_utf8_valid(c->s, c->n);
	const char *nul = memchr(c->s, '\0', c->n);
	if (nul != NULL && (size_t)(nul - c->s) < valid) {
		c->at = (size_t)(nul - c->s);
		return bad(c, RP_FORMAT, "a NUL byte");
	}
	if (valid != c->n) {
		c->at = valid;
		return bad(c, RP_FORMAT, "not UTF-8");
	}
	rp_code rc = scan_value(c, 0);
	if (rc != RP_OK)
		return rc;
	skip_space(c);
	return c->at == c->n ? RP_OK : bad(c, RP_FORMAT, "more text after the end of the value");
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* keys: room for as many as the largest object has, grown here. */
static rp_code check_keys(const scan *c, const cJSON *object, const char ***keys, size_t *cap)
{
	size_t n = 0;
	for (const cJSON *e = object->child; e != NULL; e = e->next)
		n++;
	if (n > *cap) {
		const char **grown = rp_grow_array(*keys, n, sizeof *grown);
		if (grown == NULL)
			return rp_no_memory(c->err, n * sizeof *grown, c->name);
		*keys = grown;
		*cap = n;
	}
	n = 0;
	for (const cJSON *e = object->child; e != NULL; e = e->next)
		(*keys)[n++] = e->string;
	if (n > 1)
		qsort(*keys, n, sizeof **keys, compare_text);
	for (size_t i = 1; i < n; i++)
		if (strcmp((*keys)[i - 1], (*keys)[i]) == 0)
			return rp_fail(c->err, RP_FORMAT, "%s: key '%s' is there twice in one object", c->name, (*keys)[i]);
	return RP_OK;
}

static rp_code check_duplicates(const scan *c, const cJSON *v, const char ***keys, size_t *cap)
{
	rp_code rc = cJSON_IsObject(v) ? check_keys(c, v, keys, cap) : RP_OK;
	for (const cJSON *e = v->child; e != NULL && rc == RP_OK; e = e->next)
		if (e->child != NULL)
			rc = check_duplicates(c, e, keys, cap);
	return rc;
}

rp_code rp_json_parse(const char *name, const char *text, size_t n, struct cJSON **out, rp_error *err)
{
	scan c = { .name = name, .s = text, .n = n, .err = err };
	rp_code rc = scan_text(&c);
	if (rc != RP_OK)
		return rc;
	cJSON *v = cJSON_ParseWithLengthOpts(text, n, NULL, 0);
	if (v == NULL) /* the text is well-formed by now */
		return rp_no_memory(err, n, name);
	const char **keys = NULL;
	size_t cap = 0;
	rc = check_duplicates(&c, v, &keys, &cap);
	free(keys);
	if (rc == RP_OK)
		*out = v;
	else
		cJSON_Delete(v);
	return rc;
}

bool rp_json_whole(const struct cJSON *v, uint64_t *out)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > 0x1p53 || floor(v->valuedouble) != v->valuedouble)
		return false;
	*out = (uint64_t)v->valuedouble;
	return true;
}
