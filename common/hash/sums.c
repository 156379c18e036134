#include "sums.h"

#include <string.h>

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* In place; the result is never longer. */
static bool unescape(char *name, size_t n)
{
	char *to = name;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		if (c == '\0')
			return false;
		if (c == '\\') {
			if (++i == n)
				return false;
			c = name[i] == 'n' ? '\n' : name[i] == 'r' ? '\r' : name[i] == '\\' ? '\\' : '\0';
			if (c == '\0')
				return false;
		}
		*to++ = c;
	}
	*to = '\0';
	return true;
}

/* What follows "TAG (". */
static bool parse_bsd(char *s, size_t n, bool escaped, rp_sums_line *out)
{
	size_t close = n;
	while (close > 0 && s[close - 1] != ')')
		close--;
	if (close == 0)
		return false;
	char *rest = s + close;
	s[close - 1] = '\0';
	if (escaped && !unescape(s, close - 1))
		return false;
	while (blank(*rest))
		rest++;
	if (*rest++ != '=')
		return false;
	while (blank(*rest))
		rest++;
	out->name = s;
	return rp_unhex(out->digest, RP_HASH_BYTES, rest, (size_t)(s + n - rest));
}

static bool parse_gnu(rp_sums_reader *r, char *s, size_t n, bool escaped, rp_sums_line *out)
{
	const size_t hex = 2 * RP_HASH_BYTES;
	if (n < hex + 2 || !blank(s[hex]) || !rp_unhex(out->digest, RP_HASH_BYTES, s, hex))
		return false;
	char *name = s + hex + 1;
	size_t left = n - hex - 1;
	if (left == 1 || (*name != ' ' && *name != '*')) {
		if (r->style == RP_SUMS_GNU)
			return false;
		r->style = RP_SUMS_REVERSED;
	} else if (r->style != RP_SUMS_REVERSED) {
		r->style = RP_SUMS_GNU;
		name++;
		left--;
	}
	out->name = name;
	return !escaped || unescape(name, left);
}

bool rp_sums_parse(rp_sums_reader *r, char *line, size_t n, rp_sums_line *out)
{
	const char *end = line + n;
	size_t tag = strlen(r->tag);
	while (blank(*line))
		line++;
	bool escaped = *line == '\\';
	line += escaped;
	if ((size_t)(end - line) >= tag && memcmp(line, r->tag, tag) == 0) {
		line += tag;
		line += *line == ' ';
		return *line == '(' && parse_bsd(line + 1, (size_t)(end - line - 1), escaped, out);
	}
	return parse_gnu(r, line, (size_t)(end - line), escaped, out);
}

static bool needs_escape(const char *name)
{
	return strpbrk(name, "\\\n\r") != NULL;
}

static void escape(rp_buf *out, const char *name)
{
	for (; *name != '\0'; name++) {
		if (*name == '\\' || *name == '\n' || *name == '\r')
			rp_buf_adds(out, *name == '\\' ? "\\\\" : *name == '\n' ? "\\n" : "\\r");
		else
			rp_buf_addc(out, *name);
	}
}

void rp_sums_write_name(rp_buf *out, const char *name)
{
	if (!needs_escape(name)) {
		rp_buf_adds(out, name);
		return;
	}
	rp_buf_addc(out, '\\');
	escape(out, name);
}

void rp_sums_write(rp_buf *out, const char *tag, bool binary, const char *name, const unsigned char digest[RP_HASH_BYTES], char end)
{
	char hex[RP_HASH_HEX];
	bool escaped = end == '\n' && needs_escape(name);
	rp_hex(hex, digest, RP_HASH_BYTES);
	if (escaped)
		rp_buf_addc(out, '\\');
	if (tag != NULL)
		rp_buf_addf(out, "%s (", tag);
	else
		rp_buf_addf(out, "%s %c", hex, binary ? '*' : ' ');
	if (escaped)
		escape(out, name);
	else
		rp_buf_adds(out, name);
	if (tag != NULL)
		rp_buf_addf(out, ") = %s", hex);
	rp_buf_addc(out, end);
}
