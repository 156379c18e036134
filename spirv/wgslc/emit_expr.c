/* emit_expr: expressions and pointers. */
#include "spirv/wgslc/emit.h"

#include <string.h>

const char *em_expr_text(emitter *em, const expr *e)
{
	rp_buf b;
	if (em->too_large || em->depth > WL_MAX_RECURSION) {
		em->too_large = true;
		return "";
	}
	em->depth++;
	rp_buf_init(&b, 0);
	em_expr(em, &b, e);
	em->depth--;
	return em_text(em, &b);
}

/* ---- chains ---- */

const char *em_chain_text(emitter *em, const chain *c)
{
	rp_buf b;
	uint32_t n = 0;
	rp_buf_init(&b, 0);
	for (const char *p = c->pattern; *p; p++)
		if (*p == '\1')
			rp_buf_adds(&b, c->index[n++]);
		else
			rp_buf_addc(&b, *p);
	return em_text(em, &b);
}

static bool stable(const expr *e)
{
	return e->kind == EX_IDENT && e->decl && (e->decl->kind == D_LET || e->decl->kind == D_PARAM || e->decl->kind == D_OVERRIDE);
}

static void chain_index(emitter *em, const expr *e, bool freeze, chain *c)
{
	const expr *index = e->args[1];
	em_chain(em, e->args[0], freeze, c);
	if (index->val) {
		/* glslang compares with a size it does not know yet where an override gives it: hide the constant */
		bool hide = e->args[0]->type->count_expr && index->val->c[0].i > 0;
		const char *format = hide ? "%s[%s(%lld)]" : "%s%s[%lld]";
		c->pattern = wl_printf(em->w, format, c->pattern, hide ? em_helper(em, "index", NULL) : "", (long long)index->val->c[0].i);
		return;
	}
	if (c->n == MAX_CHAIN_INDICES) {
		wl_unsupported(em->w, e->at, "more than %d runtime indices in one reference", MAX_CHAIN_INDICES);
		return;
	}
	const char *text = em_expr_text(em, index), *t = em_type(em, index->type);
	if (freeze && !stable(index)) {
		const char *temp = wl_printf(em->w, "t_%u", em->temps++);
		em_line(em, "%s %s = %s;", t, temp, text);
		text = temp;
	}
	c->index[c->n] = text;
	c->index_type[c->n++] = t;
	c->pattern = wl_printf(em->w, "%s[\1]", c->pattern);
}

static const char *member_name(emitter *em, const expr *e)
{
	char text[5] = {0};
	for (unsigned i = 0; i < e->n_swizzle; i++)
		text[i] = "xyzw"[e->swizzle[i]];
	return e->n_swizzle ? wl_printf(em->w, "%s", text) : em_name(em, e->decl);
}

/* freeze: runtime indices are put into temporaries, because the chain outlives the statement. */
void em_chain(emitter *em, const expr *e, bool freeze, chain *c)
{
	switch (e->kind) {
	case EX_IDENT:
		*c = (chain){.root = e->decl, .module = !e->decl->local, .pattern = em_var(em, e->decl)};
		break;
	case EX_INDEX:
		chain_index(em, e, freeze, c);
		break;
	case EX_MEMBER:
		em_chain(em, e->args[0], freeze, c);
		c->pattern = wl_printf(em->w, "%s.%s", c->pattern, member_name(em, e));
		break;
	default: /* EX_DEREF */
		em_pointer(em, e->args[0], freeze, c);
		break;
	}
}

void em_pointer(emitter *em, const expr *e, bool freeze, chain *c)
{
	if (e->kind == EX_ADDRESS)
		em_chain(em, e->args[0], freeze, c);
	else
		*c = *e->decl->chain;
}

/* ---- operators ---- */

static const char *compare_name(tok_kind op)
{
	switch (op) {
	case T_EQ:
		return "equal";
	case T_NE:
		return "notEqual";
	case T_LT:
		return "lessThan";
	case T_LE:
		return "lessThanEqual";
	case T_GT:
		return "greaterThan";
	default:
		return "greaterThanEqual";
	}
}

/* A divisor that is a constant other than 0 (and -1, when signed) needs no guard. */
static bool safe_divisor(const type *t, const value *v)
{
	for (uint32_t i = 0; v && i < v->n; i++)
		if (v->c[i].i == 0 || (t->kind == TY_I32 && v->c[i].i == -1))
			return false;
	return v != NULL;
}

/* Integer division truncates in both languages, but GLSL leaves zero and overflow open, and its % on negative numbers too.
 * Arguments of helpers have one shape, so a scalar beside a vector is widened. Specialization constants keep the plain
 * operator: SPIR-V can fold nothing else. */
static bool divide(emitter *em, rp_buf *b, tok_kind op, stage st, const type *ta, const char *a, const type *tb, const char *bt, const value *bv)
{
	const type *t = wl_elem(ta), *shape = ta->kind == TY_VEC ? ta : tb;
	if (!wl_is_int(t)) {
		if (op == T_SLASH)
			return false;
		rp_buf_addf(b, "%s(", em_helper(em, "fmod", shape));
	} else {
		bool rem_signed = op == T_PERCENT && t->kind == TY_I32;
		if (st == ST_OVERRIDABLE || (!rem_signed && safe_divisor(t, bv)))
			return false;
		rp_buf_addf(b, "%s(", em_helper(em, op == T_SLASH ? "div" : "rem", shape));
	}
	const char *name = em_type(em, shape);
	if (ta == shape)
		rp_buf_addf(b, "%s, ", a);
	else
		rp_buf_addf(b, "%s(%s), ", name, a);
	if (tb == shape)
		rp_buf_addf(b, "%s)", bt);
	else
		rp_buf_addf(b, "%s(%s))", name, bt);
	return true;
}

static bool small_shift(const value *v)
{
	for (uint32_t i = 0; v && i < v->n; i++)
		if (v->c[i].i >= 32)
			return false;
	return v != NULL;
}

static void shift(rp_buf *b, tok_kind op, const char *a, const char *bt, const value *bv)
{
	rp_buf_addf(b, small_shift(bv) ? "(%s %s %s)" : "(%s %s (%s & 31u))", a, wl_tok_name(op), bt);
}

/* a op b from texts whose types are ta and tb; bv: value of b when constant */
void em_binary(emitter *em, rp_buf *b, tok_kind op, stage st, const type *ta, const char *a, const type *tb, const char *bt, const value *bv)
{
	bool vec = ta->kind == TY_VEC, boolean = wl_elem(ta)->kind == TY_BOOL;
	if ((op == T_SLASH || op == T_PERCENT) && divide(em, b, op, st, ta, a, tb, bt, bv))
		return;
	if (op == T_SHL || op == T_SHR) {
		shift(b, op, a, bt, bv);
	} else if (op >= T_EQ && op <= T_GE && vec) {
		rp_buf_addf(b, "%s(%s, %s)", compare_name(op), a, bt);
	} else if ((op == T_AND || op == T_OR) && boolean) {
		/* both sides are evaluated, unlike && and || */
		const type *u = wl_with_elem(em->w, ta, em->w->t_u32);
		const char *name = em_type(em, u);
		rp_buf_addf(b, "%s(%s(%s) %s %s(%s))", em_type(em, ta), name, a, wl_tok_name(op), name, bt);
	} else {
		rp_buf_addf(b, "(%s %s %s)", a, wl_tok_name(op), bt);
	}
}

static void unary(emitter *em, rp_buf *b, const expr *e)
{
	const char *a = em_expr_text(em, e->args[0]);
	if (e->op == T_NOT && e->type->kind == TY_VEC)
		rp_buf_addf(b, "not(%s)", a);
	else
		rp_buf_addf(b, "(%s%s)", e->op == T_NOT ? "!" : wl_tok_name(e->op), a);
}

static void binary(emitter *em, rp_buf *b, const expr *e)
{
	const expr *x = e->args[0], *y = e->args[1];
	const char *a = em_expr_text(em, x), *bt = em_expr_text(em, y);
	em_binary(em, b, e->op, e->stage, x->type, a, y->type, bt, y->val);
}

static void member(emitter *em, rp_buf *b, const expr *e)
{
	em_expr(em, b, e->args[0]);
	rp_buf_addf(b, ".%s", member_name(em, e));
}

static bool named_table(const expr *e)
{
	return e->kind == EX_IDENT && e->decl && e->decl->kind == D_CONST && (e->type->kind == TY_ARRAY || e->type->kind == TY_STRUCT) &&
	       e->type == e->decl->type;
}

static void ident(emitter *em, rp_buf *b, const expr *e)
{
	decl *d = e->decl;
	if (d->kind == D_OVERRIDE) {
		em_override(em, b, d);
	} else if (d->kind == D_CONST) {
		em_const(em, b, d);
	} else {
		rp_buf_adds(b, em_name(em, d));
	}
}

/* Apart, so that the large chain is not on the stack of every level of an expression. */
static void reference(emitter *em, rp_buf *b, const expr *e)
{
	chain c;
	em_chain(em, e, false, &c);
	rp_buf_adds(b, em_chain_text(em, &c));
}

void em_expr(emitter *em, rp_buf *b, const expr *e)
{
	if (e->val && !named_table(e)) {
		const scalar *c = e->val->c;
		em_value(em, b, e->type, &c);
		return;
	}
	if (e->is_ref) {
		reference(em, b, e);
		return;
	}
	switch (e->kind) {
	case EX_IDENT:
		ident(em, b, e);
		break;
	case EX_CALL:
		em_call(em, b, e);
		break;
	case EX_INDEX:
		em_expr(em, b, e->args[0]);
		rp_buf_addf(b, "[%s]", em_expr_text(em, e->args[1]));
		break;
	case EX_MEMBER:
		member(em, b, e);
		break;
	case EX_UNARY:
		unary(em, b, e);
		break;
	case EX_BINARY:
		binary(em, b, e);
		break;
	default: /* literals have values, pointers are never written */
		break;
	}
}
