/* check_expr: types of expressions: names, operators, members, indices. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static const type *fail(wl *w, expr *e)
{
	e->val = NULL;
	return e->type = w->t_error;
}

static bool bad(const type *t)
{
	return t->kind == TY_ERROR;
}

/* Stage and side effects follow from the children. */
static void inherit(expr *e)
{
	for (uint32_t i = 0; i < e->n_args; i++) {
		if (e->args[i]->stage > e->stage)
			e->stage = e->args[i]->stage;
		e->impure |= e->args[i]->impure;
	}
}

/* ---- conversions ---- */

bool wl_coerce(wl *w, expr *e, const type *to, const char *what)
{
	if (bad(e->type) || bad(to))
		return false;
	if (e->type == to)
		return true;
	if (e->val && wl_rank(e->type, to) >= 0) {
		value *v = wl_convert(w, e->at, e->val, e->type, to);
		if (!v)
			return false;
		e->val = v;
		e->type = to;
		return true;
	}
	wl_error(w, e->at, "%s: expected %s, found %s%s", what, wl_type_name(w, to), wl_type_name(w, e->type),
	         wl_is_scalar(to) && wl_is_scalar(e->type) ? wl_printf(w, " (write %s(...) to convert)", wl_type_name(w, to)) : "");
	return false;
}

void wl_materialise(wl *w, expr *e)
{
	if (wl_is_abstract(e->type))
		wl_coerce(w, e, wl_concrete(w, e->type), "this value");
}

const type *wl_check_value(wl *w, expr *e)
{
	const type *t = wl_check_expr(w, e);
	if (bad(t))
		return t;
	if (e->is_ref && t->kind == TY_ATOMIC) {
		wl_error(w, e->at, "an atomic is read by atomicLoad(&x), not by its name");
		return fail(w, e);
	}
	if (t->kind == TY_VOID) {
		wl_error(w, e->at, "this function returns no value");
		return fail(w, e);
	}
	if (e->is_ref && !wl_is_constructible(t)) {
		wl_error(w, e->at, "a value of type %s cannot be loaded as a whole", wl_type_name(w, t));
		return fail(w, e);
	}
	return t;
}

/* ---- leaves ---- */

static const type *check_literal(wl *w, expr *e)
{
	e->val = wl_splat(w, 1, e->lit);
	if (e->op == T_KEYWORD)
		return w->t_bool;
	if (e->suffix == 'h' && !w->f16)
		wl_error(w, e->at, "f16 needs 'enable f16;' at the top of the file");
	switch (e->suffix) {
	case 'i':
		return w->t_i32;
	case 'u':
		return w->t_u32;
	case 'f':
	case 'h':
		if (e->op == T_INT) {
			e->val = wl_value(w, 1);
			e->val->c[0].f = (double)e->lit.i;
		}
		return e->suffix == 'f' ? w->t_f32 : w->t_f16;
	default:
		return e->op == T_INT ? w->t_aint : w->t_afloat;
	}
}

static const type *check_ident(wl *w, expr *e)
{
	decl *d = e->name->bound;
	if (!d) {
		if (e->name->fn || wl_is_type_name(e->name->s))
			wl_error(w, e->at, "'%s' is a %s, not a value", e->name->s, e->name->fn ? "built-in function: call it" : "type");
		else
			wl_error(w, e->at, "unknown name '%s'", e->name->s);
		return w->t_error;
	}
	if (!d->local)
		wl_resolve(w, d);
	if (e->is_template) {
		wl_error(w, e->at, "'%s' takes no template list", e->name->s);
		return w->t_error;
	}
	if (d->local && w->bypass_at && d->scope == w->bypass_scope && d->at > w->bypass_at)
		wl_error(w, e->at, "a 'continue' before the declaration of '%s' leads here without it", e->name->s);
	e->decl = d;
	switch (d->kind) {
	case D_CONST:
		e->val = d->val;
		return d->type;
	case D_OVERRIDE:
		e->stage = ST_OVERRIDABLE;
		return d->type;
	case D_VAR:
		e->stage = ST_RUNTIME;
		e->is_ref = true;
		e->space = d->space;
		e->access = d->access;
		if (!d->local && !w->fn)
			wl_error(w, e->at, "the variable '%s' has no value outside functions", e->name->s);
		return d->type;
	case D_LET:
	case D_PARAM:
		e->stage = ST_RUNTIME;
		return d->type;
	default:
		wl_error(w, e->at, "'%s' is a %s, not a value", e->name->s, d->kind == D_FN ? "function: call it" : "type");
		return w->t_error;
	}
}

/* ---- operators ---- */

static const char *op_text(const expr *e)
{
	return wl_tok_name(e->op);
}

static const type *no_operator(wl *w, expr *e)
{
	if (e->n_args == 1)
		wl_error(w, e->at, "no operator '%s' for %s", op_text(e), wl_type_name(w, e->args[0]->type));
	else
		wl_error(w, e->at, "no operator '%s' for %s and %s%s", op_text(e), wl_type_name(w, e->args[0]->type),
		         wl_type_name(w, e->args[1]->type),
		         wl_is_numeric(wl_elem(e->args[0]->type)) && wl_is_numeric(wl_elem(e->args[1]->type)) ? " (there is no implicit conversion)" : "");
	return fail(w, e);
}

static const type *check_unary(wl *w, expr *e)
{
	const type *t = wl_check_value(w, e->args[0]), *s = wl_elem(t);
	inherit(e);
	if (bad(t))
		return t;
	bool ok = e->op == T_NOT ? s->kind == TY_BOOL : e->op == T_TILDE ? wl_is_int(s) : wl_is_numeric(s) && s->kind != TY_U32;
	if (!ok || t->kind == TY_MAT)
		return no_operator(w, e);
	e->val = wl_eval_unary(w, e);
	if (!e->val && wl_is_abstract(t))
		return w->t_error; /* the evaluation failed with a message */
	return t;
}

/* The scalar both sides convert to, NULL when there is none. */
static const type *common_scalar(const type *a, const type *b)
{
	return wl_rank(a, b) >= 0 ? b : wl_rank(b, a) >= 0 ? a : NULL;
}

static bool coerce_both(wl *w, expr *e, const type *a, const type *b)
{
	return wl_coerce(w, e->args[0], a, "left operand") && wl_coerce(w, e->args[1], b, "right operand");
}

/* A runtime partner makes an abstract operand concrete; two abstract ones keep what they are. */
static const type *settle(wl *w, const expr *e, const type *s)
{
	return e->args[0]->val && e->args[1]->val ? s : wl_concrete(w, s);
}

static const type *matrix_result(wl *w, const expr *e, const type *a, const type *b, const type *s)
{
	bool ma = a->kind == TY_MAT, mb = b->kind == TY_MAT;
	if (e->op == T_PLUS || e->op == T_MINUS)
		return ma && mb && a->n == b->n && a->rows == b->rows ? wl_with_elem(w, a, s) : NULL;
	if (e->op != T_STAR)
		return NULL;
	if (ma && mb)
		return a->n == b->rows ? wl_mat(w, s, b->n, a->rows) : NULL;
	if (ma)
		return wl_is_scalar(b) ? wl_with_elem(w, a, s) : b->n == a->n ? wl_vec(w, s, a->rows) : NULL;
	return wl_is_scalar(a) ? wl_with_elem(w, b, s) : a->n == b->rows ? wl_vec(w, s, b->n) : NULL;
}

static const type *check_arithmetic(wl *w, expr *e, const type *a, const type *b)
{
	const type *s = common_scalar(wl_elem(a), wl_elem(b)), *result;
	if (!s || !wl_is_numeric(s))
		return no_operator(w, e);
	bool matrix = a->kind == TY_MAT || b->kind == TY_MAT;
	if (matrix && (wl_is_int(s) && s->kind != TY_AINT))
		return no_operator(w, e);
	bool product = matrix && e->op == T_STAR && !wl_is_scalar(a) && !wl_is_scalar(b);
	s = product ? wl_concrete(w, s) : settle(w, e, s);
	if (matrix)
		result = matrix_result(w, e, a, b, s);
	else if (a->kind == TY_VEC && b->kind == TY_VEC)
		result = a->n == b->n ? wl_with_elem(w, a, s) : NULL;
	else
		result = wl_with_elem(w, a->kind == TY_VEC ? a : b, s);
	if (!result)
		return no_operator(w, e);
	if (!coerce_both(w, e, wl_with_elem(w, a, s), wl_with_elem(w, b, s)))
		return fail(w, e);
	return result;
}

static const type *check_same_shape(wl *w, expr *e, const type *a, const type *b)
{
	const type *s = common_scalar(wl_elem(a), wl_elem(b));
	if (!s || a->kind == TY_MAT || b->kind == TY_MAT || wl_with_elem(w, a, s) != wl_with_elem(w, b, s) ||
	    !(wl_is_scalar(a) || a->kind == TY_VEC))
		return NULL;
	s = settle(w, e, s);
	return coerce_both(w, e, wl_with_elem(w, a, s), wl_with_elem(w, b, s)) ? wl_with_elem(w, a, s) : w->t_error;
}

static const type *check_shift(wl *w, expr *e, const type *a, const type *b)
{
	const type *s = wl_elem(a);
	if (!wl_is_int(s) || !wl_is_int(wl_elem(b)) || a->kind == TY_MAT || wl_with_elem(w, a, s) != wl_with_elem(w, b, s))
		return no_operator(w, e);
	if (!e->args[1]->val)
		s = wl_concrete(w, s);
	a = wl_with_elem(w, a, s);
	if (!coerce_both(w, e, a, wl_with_elem(w, b, w->t_u32)))
		return fail(w, e);
	const value *amount = e->args[1]->val;
	for (uint32_t i = 0; amount && s->kind != TY_AINT && i < amount->n; i++)
		if (amount->c[i].i >= 32) {
			wl_error(w, e->at, "shifting %s by %lld: the amount must be less than 32", wl_type_name(w, s), (long long)amount->c[i].i);
			return fail(w, e);
		}
	return a;
}

static const type *binary_type(wl *w, expr *e, const type *a, const type *b)
{
	const type *t;
	switch (e->op) {
	case T_ANDAND:
	case T_OROR:
		return a == w->t_bool && b == w->t_bool ? a : no_operator(w, e);
	case T_SHL:
	case T_SHR:
		return check_shift(w, e, a, b);
	case T_AND:
	case T_OR:
	case T_XOR:
		t = check_same_shape(w, e, a, b);
		if (!t || !(wl_is_int(wl_elem(t)) || (wl_elem(t)->kind == TY_BOOL && e->op != T_XOR)))
			return t && bad(t) ? t : no_operator(w, e);
		return t;
	case T_EQ:
	case T_NE:
	case T_LT:
	case T_LE:
	case T_GT:
	case T_GE:
		t = check_same_shape(w, e, a, b);
		if (!t || (wl_elem(t)->kind == TY_BOOL && e->op != T_EQ && e->op != T_NE))
			return no_operator(w, e);
		return bad(t) ? t : wl_with_elem(w, t, w->t_bool);
	default:
		return check_arithmetic(w, e, a, b);
	}
}

/* Constant divisors of runtime values are checked too: x / 0 is an error when the program is made. */
static void check_divisor(wl *w, const expr *e)
{
	const expr *b = e->args[1];
	if ((e->op != T_SLASH && e->op != T_PERCENT) || !b->val || e->val || !wl_is_int(wl_elem(b->type)))
		return;
	for (uint32_t i = 0; i < b->val->n; i++)
		if (b->val->c[i].i == 0)
			wl_error(w, e->at, "integer division by zero");
}

static const type *check_binary(wl *w, expr *e)
{
	const type *a = wl_check_value(w, e->args[0]), *b = wl_check_value(w, e->args[1]);
	inherit(e);
	if (bad(a) || bad(b))
		return fail(w, e);
	uint32_t errors = w->n_diags;
	const type *t = binary_type(w, e, a, b);
	if (bad(t))
		return t;
	/* "false && x": the right side is not evaluated, so its errors were not errors either; it was checked all the same. */
	e->val = wl_eval_binary(w, e);
	check_divisor(w, e);
	return w->n_diags != errors ? fail(w, e) : t;
}

/* ---- pointers ---- */

static const type *check_address(wl *w, expr *e)
{
	expr *a = e->args[0];
	const type *t = wl_check_expr(w, a);
	inherit(e);
	if (bad(t))
		return t;
	if (!a->is_ref) {
		wl_error(w, e->at, "'&' needs a variable, or a member or element of one");
		return fail(w, e);
	}
	if (a->kind == EX_MEMBER && a->n_swizzle) {
		wl_error(w, e->at, "a component of a vector has no address");
		return fail(w, e);
	}
	if (a->kind == EX_INDEX && a->args[0]->type->kind == TY_VEC) {
		wl_error(w, e->at, "a component of a vector has no address");
		return fail(w, e);
	}
	e->stage = ST_RUNTIME;
	return wl_ptr(w, a->space, t, a->access);
}

static const type *check_deref(wl *w, expr *e)
{
	const type *t = wl_check_value(w, e->args[0]);
	inherit(e);
	if (bad(t))
		return t;
	if (t->kind != TY_PTR) {
		wl_error(w, e->at, "'*' needs a pointer, found %s", wl_type_name(w, t));
		return fail(w, e);
	}
	e->is_ref = true;
	e->space = t->space;
	e->access = t->access;
	return t->elem;
}

/* p.x and p[i] work on pointers as (*p).x and (*p)[i] */
static const type *base_type(wl *w, expr *e)
{
	const type *t = wl_check_expr(w, e->args[0]);
	if (t->kind == TY_PTR && !e->args[0]->is_ref) {
		expr *d = wl_new(w, sizeof *d);
		d->kind = EX_DEREF;
		d->op = T_STAR;
		d->at = e->args[0]->at;
		d->n_args = 1;
		d->args = wl_array(w, 1, sizeof(expr *));
		d->args[0] = e->args[0];
		e->args[0] = d;
		t = wl_check_expr(w, d);
	}
	return t;
}

static void inherit_ref(expr *e)
{
	const expr *b = e->args[0];
	e->is_ref = b->is_ref;
	e->space = b->space;
	e->access = b->access;
}

/* ---- members and indices ---- */

static value *slice(wl *w, const value *v, uint64_t from, uint64_t n)
{
	value *out = wl_value(w, n);
	memcpy(out->c, v->c + from, n * sizeof(scalar));
	return out;
}

static bool parse_swizzle(expr *e, unsigned n)
{
	static const char sets[2][5] = {"xyzw", "rgba"};
	for (unsigned set = 0; set < 2; set++) {
		uint32_t i = 0;
		for (; i < e->name->len && i < 4; i++) {
			const char *at = strchr(sets[set], e->name->s[i]);
			if (!at || at - sets[set] >= (int)n)
				break;
			e->swizzle[i] = (uint8_t)(at - sets[set]);
		}
		if (i == e->name->len) {
			e->n_swizzle = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static const type *check_swizzle(wl *w, expr *e, const type *t)
{
	expr *base = e->args[0];
	if (!parse_swizzle(e, t->n)) {
		wl_error(w, e->at, "'%s' is no component or swizzle of %s", e->name->s, wl_type_name(w, t));
		return fail(w, e);
	}
	if (base->val) {
		e->val = wl_value(w, e->n_swizzle);
		for (unsigned i = 0; i < e->n_swizzle; i++)
			e->val->c[i] = base->val->c[e->swizzle[i]];
	}
	if (e->n_swizzle == 1) {
		inherit_ref(e);
		return t->elem;
	}
	return wl_vec(w, t->elem, e->n_swizzle);
}

static const type *check_member(wl *w, expr *e)
{
	const type *t = base_type(w, e);
	inherit(e);
	if (bad(t))
		return t;
	if (t->kind == TY_VEC)
		return check_swizzle(w, e, t);
	if (t->kind != TY_STRUCT) {
		wl_error(w, e->at, "%s has no members", wl_type_name(w, t));
		return fail(w, e);
	}
	uint64_t offset = 0;
	for (uint32_t i = 0; i < t->st->n_members; i++) {
		decl *m = t->st->members[i];
		if (m->name == e->name) {
			e->decl = m;
			inherit_ref(e);
			if (e->args[0]->val)
				e->val = slice(w, e->args[0]->val, offset, wl_components(m->type));
			return m->type;
		}
		offset += m->type ? wl_components(m->type) : 0;
	}
	wl_error(w, e->at, "structure %s has no member '%s'", t->st->name->s, e->name->s);
	return fail(w, e);
}

static const type *element_of(wl *w, const type *t)
{
	return t->kind == TY_MAT ? wl_vec(w, t->elem, t->rows) : t->elem;
}

static const type *check_index(wl *w, expr *e)
{
	const type *t = base_type(w, e), *it = wl_check_value(w, e->args[1]);
	expr *base = e->args[0], *index = e->args[1];
	inherit(e);
	if (bad(t) || bad(it))
		return fail(w, e);
	if (t->kind != TY_VEC && t->kind != TY_MAT && t->kind != TY_ARRAY) {
		wl_error(w, e->at, "%s cannot be indexed", wl_type_name(w, t));
		return fail(w, e);
	}
	if (!wl_is_int(it)) {
		wl_error(w, index->at, "an index must be i32 or u32, found %s", wl_type_name(w, it));
		return fail(w, e);
	}
	wl_materialise(w, index);
	if (!index->val)
		wl_materialise(w, base);
	t = base->type;
	uint64_t n = t->kind == TY_ARRAY ? t->count : t->n;
	if (index->val && (index->val->c[0].i < 0 || (n && (uint64_t)index->val->c[0].i >= n))) {
		wl_error(w, index->at, "index %lld is outside %s", (long long)index->val->c[0].i, wl_type_name(w, t));
		return fail(w, e);
	}
	inherit_ref(e);
	const type *elem = element_of(w, t);
	if (base->val && index->val) {
		uint64_t step = wl_components(elem);
		e->val = slice(w, base->val, (uint64_t)index->val->c[0].i * step, step);
	}
	return elem;
}

const type *wl_check_expr(wl *w, expr *e)
{
	if (e->checked)
		return e->type;
	e->checked = true;
	e->type = w->t_error;
	if (w->depth > WL_MAX_RECURSION) {
		wl_error(w, e->at, "this expression is at the end of too long a chain of declarations");
		return e->type;
	}
	w->depth++;
	const type *t;
	switch (e->kind) {
	case EX_LITERAL:
		t = check_literal(w, e);
		break;
	case EX_IDENT:
		t = check_ident(w, e);
		break;
	case EX_CALL:
		wl_check_call(w, e);
		t = e->type;
		break;
	case EX_INDEX:
		t = check_index(w, e);
		break;
	case EX_MEMBER:
		t = check_member(w, e);
		break;
	case EX_UNARY:
		t = check_unary(w, e);
		break;
	case EX_BINARY:
		t = check_binary(w, e);
		break;
	case EX_ADDRESS:
		t = check_address(w, e);
		break;
	default: /* EX_DEREF */
		t = check_deref(w, e);
		break;
	}
	w->depth--;
	return e->type = t;
}
