/* lex: source bytes to tokens, template lists found by the rule of the language ("Template Lists" in WGSL 3.9). */
#include "spirv/wgslc/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char *const keywords[K_COUNT] = {
	"alias", "break", "case", "const", "const_assert", "continue", "continuing", "default", "diagnostic", "discard", "else",
	"enable", "false", "fn", "for", "if", "let", "loop", "override", "requires", "return", "struct", "switch", "true", "var",
	"while"};

static const char reserved[] =
	" NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class co_await"
	" co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval constexpr constinit"
	" crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export extends extern external"
	" fallthrough filter final finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof"
	" interface layout lowp macro macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline"
	" nointerpolation non_coherent noncoherent noperspective null nullptr of operator package packoffset partition pass patch"
	" pixelfragment precise precision premerge priv protected pub public readonly ref regardless register reinterpret_cast require"
	" resource restrict"
	" self set shared sizeof smooth snorm static static_assert static_cast std subroutine super target template this"
	" thread_local throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized use using varying"
	" virtual volatile wgsl where with writeonly yield ";

static const char *const tok_names[] = {
	"the end of the file", "an identifier", "an integer", "a number", "a keyword",
	"'('", "')'", "'['", "']'", "'{'", "'}'", "','", "';'", "':'", "'.'", "'@'", "'->'", "'<'", "'>'",
	"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=",
	"=", "++", "--", "!", "~", "&&", "||", "==", "!=", "<", "<=", ">", ">="};

const char *wl_tok_name(tok_kind k)
{
	return tok_names[k];
}

const char *wl_keyword_name(keyword k)
{
	return keywords[k];
}

bool wl_is_reserved(const char *s)
{
	size_t n = strlen(s);
	for (const char *p = reserved; n && (p = strstr(p, s)) != NULL; p++)
		if (p[-1] == ' ' && p[n] == ' ')
			return true;
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Code point at i (the text is valid UTF-8); *n gets its length in bytes. */
static int32_t code_point(const wl *w, uint32_t i, uint32_t *n)
{
	utf8proc_int32_t c = 0;
	utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)w->text + i, (utf8proc_ssize_t)(w->len - i), &c);
	*n = len > 0 ? (uint32_t)len : 1;
	return c;
}

/* Bytes of blank space at i: 0 when there is none. */
static uint32_t blank(const wl *w, uint32_t i)
{
	unsigned char c = (unsigned char)w->text[i];
	if (c == ' ' || (c >= 9 && c <= 13))
		return 1;
	if (c < 0x80)
		return 0;
	uint32_t n;
	int32_t cp = code_point(w, i, &n);
	return cp == 0x85 || cp == 0x200e || cp == 0x200f || cp == 0x2028 || cp == 0x2029 ? n : 0;
}

/* XID_Start and XID_Continue up to the few characters Unicode treats apart. */
static uint32_t ident_part(const wl *w, uint32_t i, bool start)
{
	char c = w->text[i];
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
		return 1;
	if ((unsigned char)c < 0x80)
		return !start && is_digit(c) ? 1 : 0;
	uint32_t n;
	utf8proc_category_t cat = utf8proc_category(code_point(w, i, &n));
	bool letter = (cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO) || cat == UTF8PROC_CATEGORY_NL;
	bool more = cat == UTF8PROC_CATEGORY_MN || cat == UTF8PROC_CATEGORY_MC || cat == UTF8PROC_CATEGORY_ND ||
	            cat == UTF8PROC_CATEGORY_PC;
	return letter || (!start && more) ? n : 0;
}

/* Skips blank space and comments; false when a block comment does not end. */
static bool skip(wl *w, uint32_t *at)
{
	uint32_t i = *at, n;
	for (;;) {
		if (i < w->len && (n = blank(w, i)) != 0) {
			i += n;
		} else if (i + 1 < w->len && w->text[i] == '/' && w->text[i + 1] == '/') {
			while (i < w->len && w->text[i] != '\n' && w->text[i] != '\r')
				i++;
		} else if (i + 1 < w->len && w->text[i] == '/' && w->text[i + 1] == '*') {
			uint32_t depth = 0, start = i;
			do {
				if (i + 1 >= w->len) {
					wl_error(w, start, "this block comment does not end (comments nest)");
					return false;
				}
				bool open = w->text[i] == '/' && w->text[i + 1] == '*', close = w->text[i] == '*' && w->text[i + 1] == '/';
				depth += open ? 1 : 0;
				depth -= close ? 1 : 0;
				i += open || close ? 2 : 1;
			} while (depth);
		} else {
			break;
		}
	}
	*at = i;
	return true;
}

/* ---- numbers ---- */

static void finish_float(wl *w, token *t, const char *digits)
{
	double v = strtod(digits, NULL);
	if (t->suffix == 'f')
		v = (double)strtof(digits, NULL);
	double limit = t->suffix == 'h' ? 65504.0 : t->suffix == 'f' ? 3.4028234663852886e38 : 1.7976931348623157e308;
	if (!(v <= limit))
		wl_error(w, t->at, "the number %.40s is too large for %s", digits,
		         t->suffix == 'h' ? "f16" : t->suffix == 'f' ? "f32" : "a floating-point literal");
	t->f = t->suffix == 'h' ? wl_round(w->t_f16, v) : v;
	t->kind = T_FLOAT;
}

static void finish_int(wl *w, token *t, const char *digits, int base)
{
	errno = 0;
	unsigned long long v = strtoull(digits, NULL, base);
	unsigned long long limit = t->suffix == 'u' ? UINT32_MAX : t->suffix == 'i' ? INT32_MAX : INT64_MAX;
	if (errno || v > limit)
		wl_error(w, t->at, "the number %.40s is too large for %s", digits,
		         t->suffix == 'u' ? "u32" : t->suffix == 'i' ? "i32" : "an integer literal");
	t->i = (int64_t)v;
	t->kind = T_INT;
}

static void lex_number(wl *w, token *t)
{
	const char *s = w->text;
	uint32_t i = t->at;
	bool hex = s[i] == '0' && (s[i + 1] == 'x' || s[i + 1] == 'X'), is_float = false, exponent = false;
	uint32_t digits = 0;
	i += hex ? 2 : 0;
	uint32_t first = i;
	for (; hex ? is_hex(s[i]) : is_digit(s[i]); i++)
		digits++;
	uint32_t whole = digits;
	if (s[i] == '.') {
		is_float = true;
		for (i++; hex ? is_hex(s[i]) : is_digit(s[i]); i++)
			digits++;
	}
	char e = (char)(s[i] | 0x20);
	uint32_t sign = s[i + 1] == '+' || s[i + 1] == '-' ? 1 : 0;
	if (e == (hex ? 'p' : 'e') && is_digit(s[i + 1 + sign])) {
		is_float = exponent = true;
		for (i += 2 + sign; is_digit(s[i]);)
			i++;
	}
	uint32_t end = i;
	char suffix = s[i];
	bool float_suffix = (suffix == 'f' || suffix == 'h') && (!hex || exponent);
	if (float_suffix || (!is_float && (suffix == 'i' || suffix == 'u')))
		t->suffix = s[i++];
	t->len = i - t->at;
	char *text = wl_printf(w, "%.*s", (int)(end - t->at), s + t->at);
	if (!digits || (i < w->len && ident_part(w, i, false)))
		wl_error(w, t->at, "malformed number");
	else if (!hex && whole > 1 && s[first] == '0' && !is_float)
		wl_error(w, t->at, "a decimal number must not start with 0");
	else if (is_float || float_suffix)
		finish_float(w, t, text);
	else
		finish_int(w, t, text, hex ? 16 : 10);
}

/* ---- the rest ---- */

static void lex_word(wl *w, token *t)
{
	uint32_t i = t->at, n;
	while (i < w->len && (n = ident_part(w, i, i == t->at)) != 0)
		i += n;
	t->len = i - t->at;
	t->kind = T_IDENT;
	const char *s = w->text + t->at;
	for (unsigned k = 0; k < K_COUNT; k++)
		if (strlen(keywords[k]) == t->len && memcmp(keywords[k], s, t->len) == 0) {
			t->kind = T_KEYWORD;
			t->kw = (keyword)k;
			return;
		}
	t->name = wl_intern(w, s, t->len);
	if (t->len >= 2 && s[0] == '_' && s[1] == '_')
		wl_error(w, t->at, "'%s': identifiers must not start with two underscores", t->name->s);
	else if (t->name->reserved)
		wl_error(w, t->at, "'%s' is a reserved word of WGSL", t->name->s);
}

static bool lex_operator(const wl *w, token *t)
{
	/* Longest first. '>' is always alone: whether it closes a template list is decided afterwards. */
	static const struct {
		const char *s;
		tok_kind kind;
	} ops[] = {{"<<=", T_ASSIGN_SHL}, {"->", T_ARROW}, {"+=", T_ASSIGN_PLUS}, {"-=", T_ASSIGN_MINUS}, {"*=", T_ASSIGN_STAR},
	           {"/=", T_ASSIGN_SLASH}, {"%=", T_ASSIGN_PERCENT}, {"&=", T_ASSIGN_AND}, {"|=", T_ASSIGN_OR}, {"^=", T_ASSIGN_XOR},
	           {"<<", T_SHL}, {"<=", T_LE}, {"==", T_EQ}, {"!=", T_NE}, {"&&", T_ANDAND}, {"||", T_OROR}, {"++", T_INC},
	           {"--", T_DEC}, {"(", T_LPAREN}, {")", T_RPAREN}, {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"{", T_LBRACE},
	           {"}", T_RBRACE}, {",", T_COMMA}, {";", T_SEMI}, {":", T_COLON}, {".", T_DOT}, {"@", T_AT}, {"+", T_PLUS},
	           {"-", T_MINUS}, {"*", T_STAR}, {"/", T_SLASH}, {"%", T_PERCENT}, {"&", T_AND}, {"|", T_OR}, {"^", T_XOR},
	           {"=", T_ASSIGN}, {"!", T_NOT}, {"~", T_TILDE}, {"<", T_LT}, {">", T_GT}};
	for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
		if (strncmp(w->text + t->at, ops[k].s, strlen(ops[k].s)) == 0) {
			t->kind = ops[k].kind;
			t->len = (uint32_t)strlen(ops[k].s);
			return true;
		}
	return false;
}

static bool lex_one(wl *w, token *t)
{
	char c = w->text[t->at];
	if (ident_part(w, t->at, true)) {
		lex_word(w, t);
	} else if (is_digit(c) || (c == '.' && is_digit(w->text[t->at + 1]))) {
		lex_number(w, t);
	} else if (!lex_operator(w, t)) {
		uint32_t n;
		int32_t cp = code_point(w, t->at, &n);
		wl_error(w, t->at, "unexpected character %s", cp < 32 ? "(a control character)" : wl_printf(w, "'%.*s'", (int)n, w->text + t->at));
		return false;
	}
	return true;
}

/* Marks '<' and '>' that enclose template lists, then joins the remaining '>' with what follows it. */
static void find_templates(wl *w)
{
	struct open {
		uint32_t token, depth;
	} *stack = wl_array(w, w->n_tokens + 1, sizeof *stack);
	uint32_t n = 0, depth = 0;
	for (uint32_t i = 0; i < w->n_tokens; i++) {
		token *t = &w->tokens[i];
		bool word = t->kind == T_IDENT || (t->kind == T_KEYWORD && t->kw == K_VAR);
		if (word && w->tokens[i + 1].kind == T_LT) {
			stack[n].token = ++i;
			stack[n++].depth = depth;
		} else if (t->kind == T_GT && n && stack[n - 1].depth == depth) {
			w->tokens[stack[--n].token].kind = T_TEMPLATE_OPEN;
			t->kind = T_TEMPLATE_CLOSE;
		} else if (t->kind == T_GT && w->tokens[i + 1].kind == T_ASSIGN && w->tokens[i + 1].at == t->at + 1) {
			i++; /* ">=" is no assignment */
		} else if (t->kind == T_LPAREN || t->kind == T_LBRACKET) {
			depth++;
		} else if (t->kind == T_RPAREN || t->kind == T_RBRACKET) {
			while (n && stack[n - 1].depth >= depth)
				n--;
			depth -= depth ? 1 : 0;
		} else if (t->kind == T_SEMI || t->kind == T_LBRACE || t->kind == T_COLON || t->kind == T_ASSIGN) {
			n = depth = 0;
		} else if (t->kind == T_ANDAND || t->kind == T_OROR) {
			while (n && stack[n - 1].depth >= depth)
				n--;
		}
	}
}

static void join_greater(wl *w)
{
	uint32_t out = 0;
	for (uint32_t i = 0; i < w->n_tokens; i++) {
		token t = w->tokens[i];
		const token *a = i + 1 < w->n_tokens ? &w->tokens[i + 1] : NULL, *b = i + 2 < w->n_tokens ? &w->tokens[i + 2] : NULL;
		if (t.kind == T_GT && a && a->at == t.at + 1) {
			bool assign = b && b->at == t.at + 2 && b->kind == T_ASSIGN;
			if (a->kind == T_GT) {
				t.kind = assign ? T_ASSIGN_SHR : T_SHR;
				t.len = assign ? 3 : 2;
			} else if (a->kind == T_ASSIGN) {
				t.kind = T_GE;
				t.len = 2;
			}
			i += t.len - 1;
		}
		w->tokens[out++] = t;
	}
	w->n_tokens = out;
}

void wl_lex(wl *w)
{
	uint32_t at = 0, cap = 0;
	size_t good = rp_utf8_valid(w->text, w->len);
	if (good != w->len || memchr(w->text, 0, w->len)) {
		const char *nul = memchr(w->text, 0, w->len);
		wl_error(w, nul ? (uint32_t)(nul - w->text) : (uint32_t)good, nul ? "a NUL byte in the source" : "the source is not UTF-8");
		return;
	}
	if (w->len >= 3 && memcmp(w->text, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while (skip(w, &at)) {
		if (w->n_tokens + 1 >= cap) {
			cap = cap ? cap * 2 : 1024;
			token *bigger = wl_array(w, cap, sizeof *bigger);
			if (w->n_tokens)
				memcpy(bigger, w->tokens, w->n_tokens * sizeof *bigger);
			w->tokens = bigger;
		}
		token *t = &w->tokens[w->n_tokens];
		*t = (token){.kind = T_EOF, .at = at};
		if (at >= w->len || !lex_one(w, t))
			break;
		w->n_tokens++;
		at += t->len;
	}
	if (w->n_diags)
		return;
	w->tokens[w->n_tokens++] = (token){.kind = T_EOF, .at = w->len};
	find_templates(w);
	join_greater(w);
}
