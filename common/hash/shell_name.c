#include "sums.h"

#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* Bytes of the character at s[0..n): 0 when it is not printable in this locale. */
static size_t printable(const char *s, size_t n)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t k = mbrtowc(&c, s, n, &state);
	return k != (size_t)-1 && k != (size_t)-2 && k != 0 && iswprint((wint_t)c) ? k : 0;
}

/* Characters that force quotes wherever they stand, or at the beginning only. */
static bool special(const char *name, size_t i)
{
	if (strchr(" !\"$&'()*;<=>[\\^`|:?", name[i]) != NULL)
		return true;
	return i == 0 && (name[0] == '#' || name[0] == '~' || ((name[0] == '{' || name[0] == '}') && name[1] == '\0'));
}

/* Characters that mean themselves in double quotes too. */
static bool safe_in_double(const char *name, size_t i)
{
	char c = name[i];
	if (c == '#' || c == '~')
		return i == 0;
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr(" '%+,-./:]_{}", c) != NULL;
}

static void escape_byte(rp_buf *out, unsigned char c)
{
	static const char from[] = "\a\b\t\n\v\f\r", to[] = "abtnvfr";
	const char *at = c != '\0' ? strchr(from, c) : NULL;
	if (at != NULL)
		rp_buf_addf(out, "\\%c", to[at - from]);
	else
		rp_buf_addf(out, "\\%03o", c);
}

/* 'plain'$'\n''plain' */
static void quote(rp_buf *out, const char *name, size_t n)
{
	bool escaping = false;
	rp_buf_addc(out, '\'');
	for (size_t i = 0, k; i < n; i += k) {
		k = printable(name + i, n - i);
		bool odd = k == 0;
		if (name[i] == '\'') {
			rp_buf_adds(out, "'\\''");
			escaping = false;
			continue;
		}
		if (odd != escaping)
			rp_buf_adds(out, odd ? "'$'" : "''");
		escaping = odd;
		if (odd) {
			escape_byte(out, (unsigned char)name[i]);
			k = 1;
		} else {
			rp_buf_add(out, name + i, k);
		}
	}
	rp_buf_addc(out, '\'');
}

void rp_shell_name(rp_buf *out, const char *name)
{
	size_t n = strlen(name);
	bool needed = n == 0, single = false, doubles = true;
	for (size_t i = 0, k; i < n; i += k) {
		k = printable(name + i, n - i);
		needed |= k == 0 || special(name, i);
		single |= name[i] == '\'';
		doubles &= k == 1 && safe_in_double(name, i);
		k += k == 0;
	}
	if (!needed)
		rp_buf_add(out, name, n);
	else if (single && doubles)
		rp_buf_addf(out, "\"%s\"", name);
	else
		quote(out, name, n);
}
