/* Canonical JSON in two orders of keys, and the digests made from it. */
#include "sign.h"

#include "hash/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum { MAX_DIGITS = 17 };

typedef struct decimal {
	char digits[MAX_DIGITS + 1];
	int n, point; /* value = 0.DIGITS * 10^point */
} decimal;

static void string(const char *s, rp_buf *out)
{
	static const char shorts[] = "btn?fr"; /* U+0008 to U+000D */
	rp_buf_addc(out, '"');
	for (const char *p = s; *p != '\0'; p++) {
		unsigned char c = (unsigned char)*p;
		if (c == '"' || c == '\\')
			rp_buf_addf(out, "\\%c", c);
		else if (c >= 8 && c <= 13 && c != 11)
			rp_buf_addf(out, "\\%c", shorts[c - 8]);
		else if (c < 0x20)
			rp_buf_addf(out, "\\u%04x", c);
		else
			rp_buf_addc(out, *p);
	}
	rp_buf_addc(out, '"');
}

static bool reads_back(const decimal *d, double v)
{
	char text[MAX_DIGITS + 16];
	snprintf(text, sizeof text, "%se%d", d->digits, d->point - d->n);
	return strtod(text, NULL) == v;
}

static void next_up(decimal *d)
{
	int i = d->n - 1;
	while (i >= 0 && d->digits[i] == '9')
		d->digits[i--] = '0';
	if (i >= 0) {
		d->digits[i]++;
	} else { /* 99 to 100 */
		d->digits[0] = '1';
		d->point++;
	}
}

/* The fewest digits that read back as v > 0, and of those the closest to v. At a power of two the closest decimal may lie in the
 * nearer neighbour's half while the one above it reads back: hence the second try. */
static decimal shortest(double v)
{
	decimal d = {.n = 0};
	for (int p = 1; p <= MAX_DIGITS; p++) {
		char text[40];
		snprintf(text, sizeof text, "%.*e", p - 1, v);
		d.n = 0;
		for (const char *c = text; *c != 'e'; c++)
			if (*c >= '0' && *c <= '9')
				d.digits[d.n++] = *c;
		d.digits[d.n] = '\0';
		d.point = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
		if (reads_back(&d, v))
			break;
		decimal up = d;
		next_up(&up);
		if (reads_back(&up, v)) {
			d = up;
			break;
		}
	}
	while (d.n > 1 && d.digits[d.n - 1] == '0')
		d.digits[--d.n] = '\0';
	return d;
}

static void zeros(rp_buf *out, int n)
{
	for (int i = 0; i < n; i++)
		rp_buf_addc(out, '0');
}

/* ECMAScript's Number::toString. */
static void number(double v, rp_buf *out)
{
	if (v == 0) {
		rp_buf_addc(out, '0');
		return;
	}
	if (v < 0)
		rp_buf_addc(out, '-');
	if (v > 0 && v <= 9007199254740992.0 && v == floor(v)) { /* the common case: a whole number a double holds exactly */
		rp_buf_addf(out, "%.0f", v);
		return;
	}
	decimal d = shortest(fabs(v));
	if (d.point > 21 || d.point <= -6) {
		rp_buf_addc(out, d.digits[0]);
		if (d.n > 1)
			rp_buf_addf(out, ".%s", d.digits + 1);
		rp_buf_addf(out, "e%+d", d.point - 1);
	} else if (d.point >= d.n) {
		rp_buf_adds(out, d.digits);
		zeros(out, d.point - d.n);
	} else if (d.point > 0) {
		rp_buf_add(out, d.digits, (size_t)d.point);
		rp_buf_addf(out, ".%s", d.digits + d.point);
	} else {
		rp_buf_adds(out, "0.");
		zeros(out, -d.point);
		rp_buf_adds(out, d.digits);
	}
}

/* UTF-8 sorts by code points; UTF-16 differs only where surrogates (U+10000 and above) meet U+E000 to U+FFFF. */
static int by_units(const void *a, const void *b)
{
	const unsigned char *s = (const unsigned char *)(*(const cJSON *const *)a)->string;
	const unsigned char *t = (const unsigned char *)(*(const cJSON *const *)b)->string;
	while (*s != '\0' && *s == *t) {
		s++;
		t++;
	}
	int order = (*s > *t) - (*s < *t);
	return *s >= 0xEE && *t >= 0xEE && (*s >= 0xF0) != (*t >= 0xF0) ? -order : order;
}

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static int by_locale(const void *a, const void *b)
{
	const char *s = (*(const cJSON *const *)a)->string, *t = (*(const cJSON *const *)b)->string;
	int tie = 0;
	for (; *s != '\0' && lower(*s) == lower(*t); s++, t++)
		if (tie == 0 && *s != *t)
			tie = *s > *t ? -1 : 1; /* lower case, the larger byte, comes first */
	int order = lower(*s) - lower(*t);
	return order != 0 ? order : tie;
}

static bool has_locale_order(const char *key)
{
	return key[strspn(key, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == '\0';
}

static rp_code value(const cJSON *v, rp_key_order order, rp_buf *out, rp_error *err);

static rp_code object(const cJSON *v, rp_key_order order, rp_buf *out, rp_error *err)
{
	size_t n = (size_t)cJSON_GetArraySize(v), i = 0;
	const cJSON **members = rp_alloc_array(n, sizeof(const cJSON *));
	rp_code code = members == NULL ? rp_no_memory(err, n * sizeof *members, "canonical JSON") : RP_OK;
	for (const cJSON *m = v->child; m != NULL && code == RP_OK; m = m->next) {
		if (order == RP_KEYS_LOCALE && !has_locale_order(m->string))
			code = rp_fail(err, RP_UNSUPPORTED, "key '%s' has characters whose order is a locale's", m->string);
		members[i++] = m;
	}
	if (code == RP_OK && n > 1)
		qsort(members, n, sizeof *members, order == RP_KEYS_LOCALE ? by_locale : by_units);
	rp_buf_addc(out, '{');
	for (i = 0; i < n && code == RP_OK; i++) {
		if (i > 0)
			rp_buf_addc(out, ',');
		string(members[i]->string, out);
		rp_buf_addc(out, ':');
		code = value(members[i], order, out, err);
	}
	rp_buf_addc(out, '}');
	free(members);
	return code;
}

static rp_code array(const cJSON *v, rp_key_order order, rp_buf *out, rp_error *err)
{
	rp_code code = RP_OK;
	rp_buf_addc(out, '[');
	for (const cJSON *e = v->child; e != NULL && code == RP_OK; e = e->next) {
		if (e != v->child)
			rp_buf_addc(out, ',');
		code = value(e, order, out, err);
	}
	rp_buf_addc(out, ']');
	return code;
}

static rp_code value(const cJSON *v, rp_key_order order, rp_buf *out, rp_error *err)
{
	if (cJSON_IsObject(v))
		return object(v, order, out, err);
	if (cJSON_IsArray(v))
		return array(v, order, out, err);
	if (cJSON_IsString(v))
		string(v->valuestring, out);
	else if (cJSON_IsNumber(v) && isfinite(v->valuedouble))
		number(v->valuedouble, out);
	else if (cJSON_IsBool(v))
		rp_buf_adds(out, cJSON_IsTrue(v) ? "true" : "false");
	else if (cJSON_IsNull(v))
		rp_buf_adds(out, "null");
	else
		return rp_fail(err, RP_FORMAT, "a value that canonical JSON cannot hold%s%s", v->string != NULL ? ": " : "",
			v->string != NULL ? v->string : "");
	return RP_OK;
}

rp_code rp_canonical(const cJSON *v, rp_key_order order, rp_buf *out, rp_error *err)
{
	rp_code code = value(v, order, out, err);
	return code == RP_OK && out->failed ? rp_no_memory(err, out->len, "canonical JSON") : code;
}

rp_code rp_canonical_sha256(const cJSON *v, rp_key_order order, unsigned char out[32], rp_error *err)
{
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_code code = rp_canonical(v, order, &text, err);
	if (code == RP_OK)
		rp_sha256_once(text.data, text.len, out);
	rp_buf_free(&text);
	return code;
}

rp_code rp_fingerprint(const cJSON *metadata, const void *bytes, size_t n, unsigned char out[32], rp_error *err)
{
	rp_buf text;
	rp_sha256 *h = NULL;
	rp_buf_init(&text, UINT32_MAX);
	rp_code code = rp_canonical(metadata, RP_KEYS_PLAIN, &text, err);
	if (code == RP_OK)
		code = rp_sha256_new(&h, err);
	if (code == RP_OK) {
		const unsigned char size[4] = {(unsigned char)(text.len >> 24), (unsigned char)(text.len >> 16), (unsigned char)(text.len >> 8),
			(unsigned char)text.len};
		rp_sha256_update(h, size, sizeof size);
		rp_sha256_update(h, text.data, text.len);
		rp_sha256_update(h, bytes, n);
		rp_sha256_final(h, out);
	}
	rp_sha256_free(h);
	rp_buf_free(&text);
	return code;
}

size_t rp_utf16_length(const char *utf8)
{
	size_t n = 0;
	for (const unsigned char *p = (const unsigned char *)utf8; *p != '\0'; p++)
		n += (*p & 0xC0) != 0x80 ? (*p >= 0xF0 ? 2U : 1U) : 0U;
	return n;
}

char *rp_digest_text(char out[RP_DIGEST_TEXT], const unsigned char sha256[32])
{
	memcpy(out, "sha256:", 7);
	rp_hex(out + 7, sha256, 32);
	return out;
}

bool rp_is_digest(const char *s)
{
	return strncmp(s, "sha256:", 7) == 0 && strlen(s) == 71 && strspn(s + 7, "0123456789abcdef") == 64;
}
