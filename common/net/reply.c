#define _GNU_SOURCE /* strcasestr */
#include "net/reply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void rp_reply_clear(rp_net_reply *r)
{
	r->status = 0;
	r->first = r->last = r->total = r->length = RP_NET_UNKNOWN;
	r->framed = r->encoded = false;
	r->etag[0] = r->modified[0] = '\0';
}

void rp_reply_forget(rp_net_reply *r)
{
	rp_reply_clear(r);
	r->linked_etag[0] = r->commit[0] = '\0';
	r->linked_size = RP_NET_UNKNOWN;
}

/* Decimal digits that fit 63 bits; *s moves past them. */
static bool digits(const char **s, uint64_t *out)
{
	uint64_t v = 0;
	const char *p = *s;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (p == *s)
		return false;
	*s = p;
	*out = v;
	return true;
}

bool rp_parse_content_range(const char *s, uint64_t *first, uint64_t *last, uint64_t *total)
{
	uint64_t a = RP_NET_UNKNOWN, b = RP_NET_UNKNOWN, n = RP_NET_UNKNOWN;
	if (strncasecmp(s, "bytes", 5) != 0)
		return false;
	s += 5;
	s += strspn(s, " \t=");
	if (*s == '*') {
		s++;
	} else {
		if (!digits(&s, &a) || *s++ != '-' || !digits(&s, &b) || b < a)
			return false;
	}
	if (*s++ != '/')
		return false;
	if (*s == '*')
		s++;
	else if (!digits(&s, &n))
		return false;
	if (*s != '\0' || (a != RP_NET_UNKNOWN && n != RP_NET_UNKNOWN && b >= n))
		return false;
	*first = a;
	*last = b;
	*total = n;
	return true;
}

static void keep(char *out, size_t size, const char *value)
{
	if (strlen(value) < size) /* a cut value would compare equal to others */
		memcpy(out, value, strlen(value) + 1);
}

/* What a redirect said of the file counts; the host that it leads to does not overrule it. */
static void keep_first(char *out, size_t size, const char *value)
{
	if (out[0] == '\0')
		keep(out, size, value);
}

/* W/"x" and "x" name the same version (RFC 9110, section 8.8.3.2): servers call a file weak as long as it is a second old. */
static const char *without_weakness(const char *tag)
{
	return strncmp(tag, "W/", 2) == 0 ? tag + 2 : tag;
}

static void take_field(rp_net_reply *r, const char *name, const char *value)
{
	if (strcasecmp(name, "etag") == 0)
		keep(r->etag, sizeof r->etag, without_weakness(value));
	else if (strcasecmp(name, "last-modified") == 0)
		keep(r->modified, sizeof r->modified, value);
	else if (strcasecmp(name, "x-linked-etag") == 0)
		keep_first(r->linked_etag, sizeof r->linked_etag, without_weakness(value));
	else if (strcasecmp(name, "x-repo-commit") == 0)
		keep_first(r->commit, sizeof r->commit, value);
	else if (strcasecmp(name, "x-linked-size") == 0 && r->linked_size == RP_NET_UNKNOWN)
		digits(&value, &r->linked_size);
	else if (strcasecmp(name, "content-range") == 0)
		rp_parse_content_range(value, &r->first, &r->last, &r->total);
	else if (strcasecmp(name, "content-length") == 0)
		r->framed |= digits(&value, &r->length);
	else if (strcasecmp(name, "transfer-encoding") == 0)
		r->framed |= strcasestr(value, "chunked") != NULL;
	else if (strcasecmp(name, "content-encoding") == 0)
		r->encoded = *value != '\0' && strcasecmp(value, "identity") != 0;
}

void rp_reply_header(rp_net_reply *r, const char *line, size_t n)
{
	char text[600];
	while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' '))
		n--;
	if (n == 0 || n >= sizeof text || memchr(line, '\0', n) != NULL)
		return;
	memcpy(text, line, n);
	text[n] = '\0';
	if (strncmp(text, "HTTP/", 5) == 0) {
		char *space = strchr(text, ' ');
		rp_reply_clear(r);
		uint64_t status = 0;
		const char *s = space != NULL ? space + 1 : "";
		if (digits(&s, &status) && status < 1000)
			r->status = (long)status;
		r->framed = text[5] >= '2'; /* streams of HTTP/2 end by themselves */
		return;
	}
	char *colon = strchr(text, ':');
	if (colon == NULL)
		return;
	*colon++ = '\0';
	take_field(r, text, colon + strspn(colon, " \t"));
}

void rp_reply_finish(rp_net_reply *r)
{
	if (r->status == 200 && r->total == RP_NET_UNKNOWN)
		r->total = r->length;
}
