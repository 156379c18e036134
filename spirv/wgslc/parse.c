/* parse: expressions, types, and the parser's access to tokens. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static const token end_token = {.kind = T_EOF};

const token *wl_peek(parser *p)
{
	return p->panic ? &end_token : &p->w->tokens[p->i];
}

const token *wl_peek2(parser *p)
{
	return p->panic || p->w->tokens[p->i].kind == T_EOF ? &end_token : &p->w->tokens[p->i + 1];
}

static void describe(parser *p, char *out, size_t size)
{
	const token *t = &p->w->tokens[p->i];
	const char *text = "the end of the file";
	if (t->kind != T_EOF)
		text = wl_printf(p->w, "'%.*s'", (int)(t->len > 40 ? 40 : t->len), p->w->text + t->at);
	rp_show(out, size, text, strlen(text));
}

void wl_syntax(parser *p, const char *expected)
{
	char found[80];
	if (p->panic)
		return;
	describe(p, found, sizeof found);
	wl_error(p->w, p->w->tokens[p->i].at, "expected %s, found %s", expected, found);
	p->panic = true;
}

bool wl_accept(parser *p, tok_kind k)
{
	if (p->panic || wl_peek(p)->kind != k)
		return false;
	p->i++;
	return true;
}

bool wl_is_kw(parser *p, keyword k)
{
	const token *t = wl_peek(p);
	return t->kind == T_KEYWORD && t->kw == k;
}

bool wl_accept_kw(parser *p, keyword k)
{
	if (!wl_is_kw(p, k))
		return false;
	p->i++;
	return true;
}

bool wl_expect(parser *p, tok_kind k, const char *where)
{
	if (wl_accept(p, k))
		return true;
	wl_syntax(p, wl_printf(p->w, "%s %s", wl_tok_name(k), where));
	return false;
}

void wl_enter(parser *p)
{
	if (++p->depth > WL_MAX_DEPTH && !p->panic) {
		wl_error(p->w, p->w->tokens[p->i].at, "nested too deeply (more than %d levels)", WL_MAX_DEPTH);
		p->panic = true;
	}
}

void wl_leave(parser *p)
{
	p->depth--;
}

sym *wl_ident(parser *p, const char *what)
{
	const token *t = wl_peek(p);
	if (t->kind != T_IDENT) {
		if (t->kind == T_KEYWORD && !p->panic) {
			wl_error(p->w, t->at, "'%s' is a keyword of WGSL and cannot be %s", wl_keyword_name(t->kw), what);
			p->panic = true;
		}
		wl_syntax(p, what);
		return NULL;
	}
	p->i++;
	return t->name;
}

/* ---- nodes ---- */

/* Trees lean left without nesting in the source (a + a + a ...), so the depth of a node is bounded too: everything after the
 * parser walks trees by recursion. */
static expr *node(parser *p, expr_kind kind, uint32_t at, uint32_t n_args, expr *a, expr *b)
{
	expr *e = wl_new(p->w, sizeof *e);
	e->kind = kind;
	e->at = at;
	e->n_args = n_args;
	e->depth = 1;
	e->type = p->w->t_error; /* until the checker knows better */
	if (n_args) {
		e->args = wl_array(p->w, n_args, sizeof(expr *));
		e->args[0] = a;
		if (n_args > 1)
			e->args[1] = b;
	}
	for (uint32_t i = 0; i < n_args && i < 2; i++)
		if (e->args[i] && e->args[i]->depth >= e->depth)
			e->depth = e->args[i]->depth + 1;
	if (e->depth > 4 * WL_MAX_DEPTH && !p->panic) {
		wl_error(p->w, at, "this expression has too many operators in a chain (more than %d)", 4 * WL_MAX_DEPTH);
		p->panic = true;
	}
	return e;
}

static void deepen(expr *e, expr **list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i] && list[i]->depth >= e->depth)
			e->depth = list[i]->depth + 1;
}

expr **wl_parse_list(parser *p, tok_kind close, uint32_t *n, const char *where)
{
	uint32_t cap = 8;
	expr **list = wl_array(p->w, cap, sizeof *list);
	*n = 0;
	while (!p->panic && wl_peek(p)->kind != close) {
		if (*n == cap) {
			expr **bigger = wl_array(p->w, cap * 2, sizeof *list);
			memcpy(bigger, list, cap * sizeof *list);
			list = bigger;
			cap *= 2;
		}
		list[(*n)++] = wl_parse_expr(p);
		if (!wl_accept(p, T_COMMA))
			break;
	}
	wl_expect(p, close, where);
	return list;
}

/* identifier with an optional template list */
static expr *parse_ident(parser *p, const char *what)
{
	uint32_t at = wl_peek(p)->at;
	sym *name = wl_ident(p, what);
	expr *e = node(p, EX_IDENT, at, 0, NULL, NULL);
	e->name = name;
	if (name && wl_accept(p, T_TEMPLATE_OPEN)) {
		wl_enter(p);
		e->is_template = true;
		e->targs = wl_parse_list(p, T_TEMPLATE_CLOSE, &e->n_targs, "to close the template list");
		wl_leave(p);
		deepen(e, e->targs, e->n_targs);
	}
	return e;
}

expr *wl_parse_type(parser *p)
{
	wl_enter(p);
	expr *e = parse_ident(p, "a type");
	wl_leave(p);
	return e;
}

static expr *parse_literal(parser *p)
{
	const token *t = wl_peek(p);
	p->i++;
	expr *e = node(p, EX_LITERAL, t->at, 0, NULL, NULL);
	e->op = t->kind;
	e->suffix = t->suffix;
	if (t->kind == T_INT)
		e->lit.i = t->i;
	else if (t->kind == T_FLOAT)
		e->lit.f = t->f;
	else
		e->lit.i = t->kw == K_TRUE;
	return e;
}

static expr *parse_primary(parser *p)
{
	const token *t = wl_peek(p);
	if (t->kind == T_INT || t->kind == T_FLOAT || (t->kind == T_KEYWORD && (t->kw == K_TRUE || t->kw == K_FALSE)))
		return parse_literal(p);
	if (wl_accept(p, T_LPAREN)) {
		expr *e = wl_parse_expr(p);
		wl_expect(p, T_RPAREN, "to close the parenthesis");
		if (e)
			e->paren = true;
		return e;
	}
	expr *e = parse_ident(p, "an expression");
	if (wl_peek(p)->kind != T_LPAREN)
		return e;
	p->i++;
	e->kind = EX_CALL;
	e->args = wl_parse_list(p, T_RPAREN, &e->n_args, "to close the argument list");
	deepen(e, e->args, e->n_args);
	return e;
}

static expr *parse_postfix(parser *p, expr *e)
{
	while (!p->panic) {
		uint32_t at = wl_peek(p)->at;
		if (wl_accept(p, T_LBRACKET)) {
			expr *index = wl_parse_expr(p);
			wl_expect(p, T_RBRACKET, "after the index");
			e = node(p, EX_INDEX, at, 2, e, index);
		} else if (wl_accept(p, T_DOT)) {
			uint32_t member_at = wl_peek(p)->at;
			sym *name = wl_ident(p, "a member name");
			e = node(p, EX_MEMBER, member_at, 1, e, NULL);
			e->name = name;
		} else {
			break;
		}
	}
	return e;
}

static expr *parse_unary(parser *p)
{
	const token *t = wl_peek(p);
	expr *e;
	wl_enter(p);
	if (t->kind == T_MINUS || t->kind == T_NOT || t->kind == T_TILDE || t->kind == T_AND || t->kind == T_STAR) {
		p->i++;
		expr *a = parse_unary(p);
		expr_kind kind = t->kind == T_AND ? EX_ADDRESS : t->kind == T_STAR ? EX_DEREF : EX_UNARY;
		e = node(p, kind, t->at, 1, a, NULL);
		e->op = t->kind;
	} else if (t->kind == T_DEC) { /* no operator in expressions: twice a minus */
		p->i++;
		e = node(p, EX_UNARY, t->at + 1, 1, parse_unary(p), NULL);
		e->op = T_MINUS;
		e = node(p, EX_UNARY, t->at, 1, e, NULL);
		e->op = T_MINUS;
	} else {
		e = parse_postfix(p, parse_primary(p));
	}
	wl_leave(p);
	return e;
}

/* The left side of an assignment, or the call of a call statement. */
expr *wl_parse_lhs(parser *p)
{
	return parse_unary(p);
}

static expr *binary(parser *p, const token *op, expr *a, expr *b)
{
	expr *e = node(p, EX_BINARY, op->at, 2, a, b);
	e->op = op->kind;
	return e;
}

static expr *multiplicative(parser *p, expr *a)
{
	for (;;) {
		const token *t = wl_peek(p);
		if (t->kind != T_STAR && t->kind != T_SLASH && t->kind != T_PERCENT)
			return a;
		p->i++;
		a = binary(p, t, a, parse_unary(p));
	}
}

static expr *additive(parser *p, expr *a)
{
	a = multiplicative(p, a);
	for (;;) {
		const token *t = wl_peek(p);
		if (t->kind != T_PLUS && t->kind != T_MINUS)
			return a;
		p->i++;
		expr *b = multiplicative(p, parse_unary(p));
		a = binary(p, t, a, b);
	}
}

static expr *shift(parser *p, expr *a)
{
	const token *t = wl_peek(p);
	if (t->kind != T_SHL && t->kind != T_SHR)
		return additive(p, a);
	p->i++;
	return binary(p, t, a, parse_unary(p));
}

static bool is_relational(tok_kind k)
{
	return k >= T_EQ && k <= T_GE;
}

static expr *relational(parser *p, expr *a)
{
	a = shift(p, a);
	const token *t = wl_peek(p);
	if (!is_relational(t->kind))
		return a;
	p->i++;
	expr *b = shift(p, parse_unary(p));
	return binary(p, t, a, b);
}

static bool is_binary(tok_kind k)
{
	return (k >= T_PLUS && k <= T_SHR) || k == T_ANDAND || k == T_OROR || is_relational(k);
}

/* The grammar does not order these operators: mixing them needs parentheses. */
static void refuse_mix(parser *p, tok_kind op)
{
	const token *t = wl_peek(p);
	if (!p->panic && is_binary(t->kind)) {
		wl_error(p->w, t->at, "mixing '%s' and '%s' needs parentheses", wl_tok_name(op), wl_tok_name(t->kind));
		p->panic = true;
	}
}

static expr *expression(parser *p)
{
	expr *a = parse_unary(p);
	tok_kind k = wl_peek(p)->kind;
	if (k == T_AND || k == T_OR || k == T_XOR) {
		while (wl_peek(p)->kind == k) {
			const token *t = wl_peek(p);
			p->i++;
			a = binary(p, t, a, parse_unary(p));
		}
		refuse_mix(p, k);
		return a;
	}
	a = relational(p, a);
	k = wl_peek(p)->kind;
	if (k == T_ANDAND || k == T_OROR) {
		while (wl_peek(p)->kind == k) {
			const token *t = wl_peek(p);
			p->i++;
			expr *b = relational(p, parse_unary(p));
			a = binary(p, t, a, b);
		}
	} else if (is_binary(k) && a->kind == EX_BINARY) {
		k = a->op;
	}
	if (k != T_EOF)
		refuse_mix(p, is_binary(k) ? k : T_EQ);
	return a;
}

expr *wl_parse_expr(parser *p)
{
	wl_enter(p);
	expr *e = expression(p);
	wl_leave(p);
	return e;
}
