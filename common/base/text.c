#include "base.h"

#include <stdio.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at s (n > 0 bytes left), 0 when there is none: Unicode table 3-7. */
static size_t sequence(const unsigned char *s, size_t n)
{
	unsigned char c = s[0], low = 0x80, high = 0xBF;
	size_t len;
	if (c < 0x80)
		return 1;
	if (c >= 0xC2 && c <= 0xDF) {
		len = 2;
	} else if (c >= 0xE0 && c <= 0xEF) {
		len = 3;
		low = c == 0xE0 ? 0xA0 : low;
		high = c == 0xED ? 0x9F : high;
	} else if (c >= 0xF0 && c <= 0xF4) {
		len = 4;
		low = c == 0xF0 ? 0x90 : low;
		high = c == 0xF4 ? 0x8F : high;
	} else {
		return 0;
	}
	if (n < len || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((s[i] & 0xC0) != 0x80)
			return 0;
	return len;
}

size_t rp_utf8_valid(const char *s, size_t n)
{
	size_t at = 0;
	while (at < n) {
		size_t len = sequence((const unsigned char *)s + at, n - at);
		if (len == 0)
			break;
		at += len;
	}
	return at;
}

/* C1 control characters (U+0080..U+009F) drive terminals too. */
static bool shown_as_is(const unsigned char *s, size_t len)
{
	if (len == 1)
		return s[0] >= 0x20 && s[0] != 0x7F;
	return !(len == 2 && s[0] == 0xC2 && s[1] < 0xA0);
}

char *rp_show(char *out, size_t size, const char *s, size_t n)
{
	const unsigned char *in = (const unsigned char *)s;
	size_t w = 0, at = 0, safe = 0; /* safe: last end of a piece that leaves room for "..." */
	if (size < 8) {
		if (size > 0)
			out[0] = '\0';
		return out;
	}
	while (at < n) {
		size_t len = sequence(in + at, n - at);
		bool plain = len != 0 && shown_as_is(in + at, len);
		size_t need = plain ? len : 4;
		if (need > size - 1 - w) {
			memcpy(out + safe, "...", 3);
			w = safe + 3;
			break;
		}
		if (plain)
			memcpy(out + w, in + at, len);
		else
			snprintf(out + w, 5, "\\x%02x", in[at]);
		w += need;
		at += plain ? len : 1;
		if (w + 3 <= size - 1)
			safe = w;
	}
	out[w] = '\0';
	return out;
}
