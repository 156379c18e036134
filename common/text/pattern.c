/* Matchers: regular expressions of tokenizer files, written for Oniguruma (Ruby syntax, UTF-8), run by PCRE2.
 *
 * A pattern is translated, not passed on: the constructs tokenizers use are rewritten so that they mean in PCRE2 what they
 * mean there (white space, general categories of newer Unicode, line ends); every other construct is refused by name. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACES                                                                                                               \
	"\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"           \
	"\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}"

typedef struct translation {
	const char *name, *s; /* name: for messages; s[at..n): what is left */
	size_t n, at;
	rp_buf out;
	rp_error *err;
} translation;

static rp_code refuse(translation *t, const char *what)
{
	char shown[160];
	return rp_fail(t->err, RP_UNSUPPORTED, "%s: the pattern \"%s\" uses %s at byte %zu, which this build does not translate", t->name,
		rp_show(shown, sizeof shown, t->s, t->n), what, t->at);
}

static char peek(const translation *t, size_t ahead)
{
	return t->at + ahead < t->n ? t->s[t->at + ahead] : '\0';
}

/* \p{Name}, \P{Name}, \p{^Name}: at stands on the p. */
static rp_code property(translation *t, bool in_class)
{
	bool negative = t->s[t->at] == 'P';
	size_t from = t->at + 2, to;
	if (peek(t, 1) != '{')
		return refuse(t, "\\p without braces");
	if (peek(t, 2) == '^') {
		negative = !negative;
		from++;
	}
	for (to = from; to < t->n && t->s[to] != '}'; to++)
		;
	if (negative && in_class)
		return refuse(t, "a negated property inside a class");
	size_t len = to - from;
	if (!in_class)
		rp_buf_adds(&t->out, negative ? "[^" : "[");
	rp_buf_addf(&t->out, "\\p{%.*s}", len <= 2 ? (int)len : 0, t->s + from);
	if (to >= t->n || !unicode_newer_ranges(t->s + from, len, &t->out))
		return refuse(t, "a property that is no general category");
	if (!in_class)
		rp_buf_addc(&t->out, ']');
	t->at = to + 1;
	return RP_OK;
}

/* \xHH, \x{H...}, \uHHHH: at stands on the x or u. */
static rp_code code_point(translation *t)
{
	bool braces = t->s[t->at] == 'x' && peek(t, 1) == '{';
	size_t max = braces ? 6 : t->s[t->at] == 'x' ? 2 : 4, at = t->at + (braces ? 2 : 1), n = 0;
	uint32_t cp = 0;
	for (; n < max && at < t->n; n++, at++) {
		int digit = hex_digit(t->s[at]);
		if (digit < 0)
			break;
		cp = cp * 16 + (uint32_t)digit;
	}
	if (n == 0 || (braces && (at >= t->n || t->s[at++] != '}')) || (max == 4 && n != 4) || (max == 2 && cp > 0x7F))
		return refuse(t, "a malformed or raw-byte escape");
	rp_buf_addf(&t->out, "\\x{%x}", (unsigned)cp);
	t->at = at;
	return RP_OK;
}

/* at stands behind the backslash. */
static rp_code escape(translation *t, bool in_class)
{
	char c = peek(t, 0);
	const char *same = NULL;
	switch (c) {
	case 'p':
	case 'P':
		return property(t, in_class);
	case 'x':
	case 'u':
		return code_point(t);
	case 's':
		same = in_class ? SPACES : "[" SPACES "]";
		break;
	case 'S':
		same = in_class ? NOT_SPACES : "[^" SPACES "]";
		break;
	case 'd':
		rp_buf_adds(&t->out, in_class ? "\\p{Nd}" : "[\\p{Nd}");
		unicode_newer_ranges("Nd", 2, &t->out);
		same = in_class ? "" : "]";
		break;
	case 'r':
		same = "\\x{d}";
		break;
	case 'n':
		same = "\\x{a}";
		break;
	case 't':
		same = "\\x{9}";
		break;
	case 'f':
		same = "\\x{c}";
		break;
	case 'v':
		same = "\\x{b}";
		break;
	case 'A':
	case 'z':
		if (in_class)
			return refuse(t, "an anchor inside a class");
		same = c == 'A' ? "\\A" : "\\z";
		break;
	default:
		break;
	}
	if (same != NULL) {
		rp_buf_adds(&t->out, same);
	} else if (c != '\0' && strchr("\\^$.|?*+()[]{}/-'\"#&~,:;<>=!@%_` ", c) != NULL) {
		rp_buf_addf(&t->out, "\\x{%x}", (unsigned)c);
	} else {
		char what[16];
		snprintf(what, sizeof what, "\\%c", c >= 0x20 && c < 0x7F ? c : '?');
		return refuse(t, what);
	}
	t->at++;
	return RP_OK;
}

/* at stands on the opening bracket. */
static rp_code class(translation *t)
{
	rp_code code = RP_OK;
	rp_buf_addc(&t->out, '[');
	t->at++;
	if (peek(t, 0) == '^') {
		rp_buf_addc(&t->out, '^');
		t->at++;
	}
	if (peek(t, 0) == ']')
		return refuse(t, "a class that begins with ]");
	while (code == RP_OK && t->at < t->n && t->s[t->at] != ']') {
		char c = t->s[t->at];
		if (c == '[')
			return refuse(t, "a class inside a class");
		if (c == '&' && peek(t, 1) == '&')
			return refuse(t, "an intersection of classes");
		t->at++;
		if (c == '\\')
			code = escape(t, true);
		else if (c == '^')
			rp_buf_adds(&t->out, "\\^");
		else
			rp_buf_addc(&t->out, c);
	}
	if (code == RP_OK && t->at >= t->n)
		return refuse(t, "a class without its end");
	rp_buf_addc(&t->out, ']');
	t->at++;
	return code;
}

/* {n} {n,} {n,m} {,m}; any other brace is itself. at stands on it. */
static rp_code brace(translation *t)
{
	size_t at = t->at + 1, digits = 0, commas = 0;
	for (; at < t->n && ((t->s[at] >= '0' && t->s[at] <= '9') || t->s[at] == ','); at++) {
		digits += t->s[at] != ',';
		commas += t->s[at] == ',';
	}
	if (at >= t->n || t->s[at] != '}' || digits == 0 || commas > 1) {
		rp_buf_adds(&t->out, "\\{");
		t->at++;
		return RP_OK;
	}
	char after = at + 1 < t->n ? t->s[at + 1] : '\0';
	if (after == '+' || (after == '?' && commas == 0))
		return refuse(t, "a doubled quantifier");
	rp_buf_adds(&t->out, t->s[t->at + 1] == ',' ? "{0" : "{");
	rp_buf_add(&t->out, t->s + t->at + 1, at - t->at);
	t->at = at + 1;
	return RP_OK;
}

/* at stands on the opening parenthesis. */
static rp_code group(translation *t)
{
	static const char *const kinds[] = { "(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>" };
	if (peek(t, 1) != '?') {
		rp_buf_adds(&t->out, "(?:"); /* nobody asks for captures */
		t->at++;
		return RP_OK;
	}
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		size_t len = strlen(kinds[i]);
		if (t->n - t->at >= len && memcmp(t->s + t->at, kinds[i], len) == 0) {
			rp_buf_add(&t->out, kinds[i], len);
			t->at += len;
			return RP_OK;
		}
	}
	return refuse(t, "a group of an unknown kind");
}

static rp_code translate(translation *t)
{
	rp_code code = RP_OK;
	while (code == RP_OK && t->at < t->n) {
		char c = t->s[t->at];
		switch (c) {
		case '\\':
			t->at++;
			code = escape(t, false);
			break;
		case '[':
			code = class(t);
			break;
		case '(':
			code = group(t);
			break;
		case '{':
			code = brace(t);
			break;
		case '}':
		case ']':
			rp_buf_addf(&t->out, "\\%c", c);
			t->at++;
			break;
		case '\0':
			code = refuse(t, "a NUL byte");
			break;
		default:
			rp_buf_addc(&t->out, c);
			t->at++;
		}
	}
	return code;
}

static rp_code compile(matcher *m, const translation *t)
{
	int number;
	PCRE2_SIZE at;
	char shown[160];
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (context == NULL)
		return rp_no_memory(t->err, t->out.len, "a pattern");
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	m->code = pcre2_compile((PCRE2_SPTR)t->out.data, t->out.len,
		PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &number, &at, context);
	pcre2_compile_context_free(context);
	if (m->code == NULL) {
		char why[120];
		pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
		return rp_fail(t->err, RP_FORMAT, "%s: the pattern \"%s\" cannot be compiled: %s", t->name,
			rp_show(shown, sizeof shown, t->s, t->n), why);
	}
	uint32_t empty = 0;
	pcre2_pattern_info(m->code, PCRE2_INFO_MATCHEMPTY, &empty);
	if (empty)
		return rp_fail(t->err, RP_UNSUPPORTED, "%s: the pattern \"%s\" can match nothing at all, which this build does not split by",
			t->name, rp_show(shown, sizeof shown, t->s, t->n));
	pcre2_jit_compile(m->code, PCRE2_JIT_COMPLETE); /* where it is not to be had, the interpreter does the same */
	return RP_OK;
}

rp_code matcher_regex(matcher *m, const char *name, const char *pattern, size_t n, rp_error *err)
{
	translation t = { .name = name, .s = pattern, .n = n, .err = err };
	*m = (matcher){ 0 };
	if (n == 0 || n > MAX_PATTERN)
		return rp_fail(err, RP_FORMAT, "%s: a pattern of %zu bytes; 1 to %d are accepted", name, n, MAX_PATTERN);
	rp_buf_init(&t.out, 0);
	rp_code code = translate(&t);
	if (code == RP_OK && t.out.failed)
		code = rp_no_memory(err, t.out.len, "a pattern");
	if (code == RP_OK)
		code = compile(m, &t);
	rp_buf_free(&t.out);
	return code;
}

rp_code matcher_literal(matcher *m, const char *name, const char *text, size_t n, rp_error *err)
{
	*m = (matcher){ 0 };
	if (n == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: an empty pattern", name);
	m->literal = rp_strndup(text, n);
	m->literal_len = n;
	return m->literal != NULL ? RP_OK : rp_no_memory(err, n, "a pattern");
}

void matcher_free(matcher *m)
{
	pcre2_code_free(m->code);
	free(m->literal);
	*m = (matcher){ 0 };
}

rp_code match_state_init(match_state *s, rp_error *err)
{
	s->data = pcre2_match_data_create(1, NULL);
	s->context = pcre2_match_context_create(NULL);
	return s->data != NULL && s->context != NULL ? RP_OK : rp_no_memory(err, 1, "matching");
}

void match_state_free(match_state *s)
{
	pcre2_match_data_free(s->data);
	pcre2_match_context_free(s->context);
	*s = (match_state){ 0 };
}

static void find_literal(const matcher *m, const char *text, size_t n, size_t from, size_t *start, size_t *end)
{
	while (n - from >= m->literal_len) {
		const char *p = memchr(text + from, m->literal[0], n - from - m->literal_len + 1);
		if (p == NULL)
			break;
		from = (size_t)(p - text);
		if (memcmp(p, m->literal, m->literal_len) == 0) {
			*start = from;
			*end = from + m->literal_len;
			return;
		}
		from++;
	}
	*start = *end = n;
}

rp_code matcher_next(const matcher *m, match_state *s, const char *text, size_t n, size_t from, size_t *start, size_t *end,
	rp_error *err)
{
	if (m->code == NULL) {
		find_literal(m, text, n, from, start, end);
		return RP_OK;
	}
	/* An honest pattern takes a few steps a character: the limit stops those that backtrack without end. */
	size_t limit = 10000 + 64 * (n - from);
	pcre2_set_match_limit(s->context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
	int rc = pcre2_match(m->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, s->data, s->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(m->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->data, s->context);
	if (rc == PCRE2_ERROR_NOMATCH) {
		*start = *end = n;
		return RP_OK;
	}
	if (rc < 0) {
		char why[120];
		pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
		return rp_fail(err, RP_UNSUPPORTED, "the tokenizer's pattern cannot be run on this text at byte %zu: %s", from, why);
	}
	const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->data);
	*start = span[0];
	*end = span[1];
	return *end > *start ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "the tokenizer's pattern matches nothing at byte %zu", from);
}
