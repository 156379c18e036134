/* check_call: types by name, value constructors, calls of functions and built-in functions. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static bool bad(const type *t)
{
	return t->kind == TY_ERROR;
}

/* ---- types by name ---- */

static const type *scalar_named(wl *w, const char *s)
{
	return strcmp(s, "bool") == 0  ? w->t_bool
	       : strcmp(s, "i32") == 0 ? w->t_i32
	       : strcmp(s, "u32") == 0 ? w->t_u32
	       : strcmp(s, "f32") == 0 ? w->t_f32
	       : strcmp(s, "f16") == 0 ? w->t_f16
	                               : NULL;
}

static const type *suffix_type(wl *w, char c)
{
	return c == 'f' ? w->t_f32 : c == 'h' ? w->t_f16 : c == 'i' ? w->t_i32 : c == 'u' ? w->t_u32 : NULL;
}

typedef struct shape {
	unsigned cols, rows; /* rows 0: a vector of cols */
	char suffix;
} shape;

/* vecN, matCxR, with an optional suffix naming the element */
static bool shape_named(const char *s, shape *out)
{
	bool mat = strncmp(s, "mat", 3) == 0;
	if (!mat && strncmp(s, "vec", 3) != 0)
		return false;
	if (s[3] < '2' || s[3] > '4' || (mat && (s[4] != 'x' || s[5] < '2' || s[5] > '4')))
		return false;
	const char *rest = s + (mat ? 6 : 4);
	*out = (shape){(unsigned)(s[3] - '0'), mat ? (unsigned)(s[5] - '0') : 0, rest[0]};
	if (rest[0] && (rest[1] || !strchr(mat ? "fh" : "fhiu", rest[0])))
		return false;
	return true;
}

bool wl_is_type_name(const char *s)
{
	static const char other[] = " bool i32 u32 f32 f16 array atomic ptr ";
	shape sh;
	matrix_use use;
	size_t n = strlen(s);
	const char *at = strstr(other, s);
	return shape_named(s, &sh) || wl_matrix_use(s, &use) || (n && at && at[-1] == ' ' && at[n] == ' ');
}

static const type *shaped(wl *w, shape sh, const type *elem)
{
	return sh.rows ? wl_mat(w, elem, sh.cols, sh.rows) : wl_vec(w, elem, sh.cols);
}

static const type *need_f16(wl *w, uint32_t at, const type *t)
{
	if (wl_elem(t)->kind == TY_F16 && !w->f16) {
		wl_error(w, at, "f16 needs 'enable f16;' at the top of the file");
		return w->t_error;
	}
	return t;
}

static bool template_count(wl *w, const expr *e, uint32_t min, uint32_t max)
{
	if (e->n_targs >= min && e->n_targs <= max)
		return true;
	wl_error(w, e->at, "%s needs %s%u template argument%s, found %u", e->name->s, min == max ? "" : "at least ", min,
	         min == 1 ? "" : "s", e->n_targs);
	return false;
}

static const type *array_type(wl *w, expr *e)
{
	if (!template_count(w, e, 1, 2))
		return w->t_error;
	const type *elem = wl_check_type(w, e->targs[0]);
	if (bad(elem))
		return elem;
	if (!wl_is_fixed(elem) || (elem->kind == TY_ARRAY && elem->count_expr)) {
		wl_error(w, e->targs[0]->at, "%s cannot be the element of an array", wl_type_name(w, elem));
		return w->t_error;
	}
	if (elem->depth >= WL_MAX_DEPTH) {
		wl_error(w, e->at, "this type is nested too deeply");
		return w->t_error;
	}
	if (e->n_targs == 1)
		return wl_array_of(w, elem, 0, NULL);
	expr *n = e->targs[1];
	const type *t = wl_check_value(w, n);
	if (bad(t))
		return t;
	if (!wl_is_int(t)) {
		wl_error(w, n->at, "the size of an array must be an integer, found %s", wl_type_name(w, t));
		return w->t_error;
	}
	wl_materialise(w, n);
	if (n->stage == ST_OVERRIDABLE)
		return wl_array_of(w, elem, 0, n);
	if (n->stage == ST_RUNTIME || !n->val) {
		wl_error(w, n->at, "the size of an array must be a constant or an override");
		return w->t_error;
	}
	if (n->val->c[0].i < 1 || n->val->c[0].i > INT32_MAX) {
		wl_error(w, n->at, "an array of %lld elements is not possible", (long long)n->val->c[0].i);
		return w->t_error;
	}
	return wl_array_of(w, elem, (uint64_t)n->val->c[0].i, NULL);
}

static const char *enumerant(const expr *e)
{
	return e->kind == EX_IDENT && !e->is_template ? e->name->s : "";
}

static const type *ptr_type(wl *w, expr *e)
{
	static const char *const names[] = {"?", "function", "private", "workgroup", "uniform", "storage"};
	if (!template_count(w, e, 2, 3))
		return w->t_error;
	space sp = SP_NONE;
	for (unsigned i = SP_FUNCTION; i <= SP_STORAGE; i++)
		if (strcmp(names[i], enumerant(e->targs[0])) == 0)
			sp = (space)i;
	if (sp == SP_NONE) {
		wl_error(w, e->targs[0]->at, "expected an address space: function, private, workgroup, uniform or storage");
		return w->t_error;
	}
	access ac = sp == SP_STORAGE || sp == SP_UNIFORM ? AC_READ : AC_READ_WRITE;
	const char *mode = e->n_targs == 3 ? enumerant(e->targs[2]) : "";
	if (e->n_targs == 3 && sp == SP_STORAGE && strcmp(mode, "read_write") == 0) {
		ac = AC_READ_WRITE;
	} else if (e->n_targs == 3 && !(sp == SP_STORAGE && strcmp(mode, "read") == 0)) {
		wl_error(w, e->targs[2]->at, "only pointers to storage take an access mode, read or read_write");
		return w->t_error;
	}
	const type *t = wl_check_type(w, e->targs[1]);
	return bad(t) ? t : wl_ptr(w, sp, t, ac);
}

static const type *atomic_type(wl *w, expr *e)
{
	if (!template_count(w, e, 1, 1))
		return w->t_error;
	const type *t = wl_check_type(w, e->targs[0]);
	if (!bad(t) && t->kind != TY_U32 && t->kind != TY_I32) {
		wl_error(w, e->at, "atomic takes i32 or u32, found %s", wl_type_name(w, t));
		return w->t_error;
	}
	return bad(t) ? t : wl_atomic(w, t);
}

static const type *shaped_type(wl *w, expr *e, shape sh)
{
	if (sh.suffix) {
		if (e->is_template) {
			wl_error(w, e->at, "%s takes no template list", e->name->s);
			return w->t_error;
		}
		return need_f16(w, e->at, shaped(w, sh, suffix_type(w, sh.suffix)));
	}
	if (!template_count(w, e, 1, 1))
		return w->t_error;
	const type *elem = wl_check_type(w, e->targs[0]);
	if (bad(elem))
		return elem;
	if (!wl_is_scalar(elem) || (sh.rows && !wl_is_float(elem))) {
		wl_error(w, e->at, "%s of %s is not possible", e->name->s, wl_type_name(w, elem));
		return w->t_error;
	}
	return shaped(w, sh, elem);
}

static const type *named_type(wl *w, expr *e)
{
	shape sh;
	matrix_use use;
	const char *s = e->name->s;
	if (shape_named(s, &sh))
		return shaped_type(w, e, sh);
	if (wl_matrix_use(s, &use))
		return wl_matrix_type(w, e, use);
	if (strcmp(s, "array") == 0)
		return array_type(w, e);
	if (strcmp(s, "atomic") == 0)
		return atomic_type(w, e);
	if (strcmp(s, "ptr") == 0)
		return ptr_type(w, e);
	const type *t = scalar_named(w, s);
	if (!t) {
		wl_error(w, e->at, "unknown type '%s'", s);
		return w->t_error;
	}
	if (e->is_template) {
		wl_error(w, e->at, "%s takes no template list", s);
		return w->t_error;
	}
	return need_f16(w, e->at, t);
}

const type *wl_check_type(wl *w, expr *e)
{
	if (e->kind != EX_IDENT) {
		wl_error(w, e->at, "expected a type");
		return w->t_error;
	}
	if (e->checked)
		return e->type;
	e->checked = true;
	e->type = w->t_error;
	decl *d = e->name->bound;
	if (!d)
		return e->type = named_type(w, e);
	if (!d->local)
		wl_resolve(w, d);
	if (d->kind != D_STRUCT && d->kind != D_ALIAS) {
		wl_error(w, e->at, "'%s' is not a type", e->name->s);
		return w->t_error;
	}
	if (e->is_template) {
		wl_error(w, e->at, "'%s' takes no template list", e->name->s);
		return w->t_error;
	}
	e->decl = d;
	return e->type = d->type ? d->type : w->t_error;
}

/* ---- value constructors ---- */

static void copy_value(value *out, uint32_t *at, const value *v)
{
	memcpy(out->c + *at, v->c, v->n * sizeof(scalar));
	*at += v->n;
}

/* The arguments' constants one after the other: the value of every constructor but splats and conversions. */
static void concatenate(wl *w, expr *e, const type *t)
{
	uint64_t n = wl_components(t);
	uint32_t at = 0;
	if (!n)
		return;
	for (uint32_t i = 0; i < e->n_args; i++)
		if (!e->args[i]->val)
			return;
	value *v = wl_value(w, n);
	for (uint32_t i = 0; i < e->n_args; i++)
		copy_value(v, &at, e->args[i]->val);
	e->val = v;
}

static void wrong_args(wl *w, expr *e, const type *t, const char *expected)
{
	wl_error(w, e->at, "%s(...) takes %s", wl_type_name(w, t), expected);
	e->type = w->t_error;
}

/* T(e) between scalars, or vectors and matrices of one shape: converts every component. */
static void convert(wl *w, expr *e, const type *t)
{
	expr *a = e->args[0];
	const type *from = wl_elem(a->type), *to = wl_elem(t);
	if (!a->val)
		return;
	e->val = wl_value(w, a->val->n);
	for (uint32_t i = 0; i < a->val->n; i++) {
		bool lossy;
		wl_convert_scalar(from, a->val->c[i], to, &e->val->c[i], &lossy);
		bool abstract_int = from->kind == TY_AINT && wl_is_int(to);
		if (lossy && (abstract_int || (wl_is_float(to) && wl_is_float(from)))) {
			wl_convert(w, a->at, a->val, a->type, t); /* for its message */
			e->type = w->t_error;
			return;
		}
	}
	if (!wl_is_abstract(a->type))
		return;
	/* nothing abstract may stay below a concrete node that GLSL is to evaluate */
	a->val = e->val;
	a->type = t;
}

static void construct_scalar(wl *w, expr *e, const type *t)
{
	if (e->n_args != 1 || !wl_is_scalar(e->args[0]->type)) {
		wrong_args(w, e, t, "one scalar");
		return;
	}
	convert(w, e, t);
}

static void construct_vec(wl *w, expr *e, const type *t)
{
	expr *a = e->args[0];
	if (e->n_args == 1 && wl_is_scalar(a->type)) {
		if (wl_coerce(w, a, t->elem, "component") && a->val)
			e->val = wl_splat(w, t->n, a->val->c[0]);
		return;
	}
	if (e->n_args == 1 && a->type->kind == TY_VEC && a->type->n == t->n) {
		convert(w, e, t);
		return;
	}
	uint32_t n = 0;
	for (uint32_t i = 0; i < e->n_args; i++) {
		const type *at = e->args[i]->type;
		if (!wl_is_scalar(at) && at->kind != TY_VEC) {
			wrong_args(w, e, t, "scalars and vectors");
			return;
		}
		n += at->kind == TY_VEC ? at->n : 1;
		wl_coerce(w, e->args[i], wl_with_elem(w, at, t->elem), "component");
	}
	if (n != t->n)
		wrong_args(w, e, t, wl_printf(w, "%u components, found %u", t->n, n));
	else
		concatenate(w, e, t);
}

static void construct_mat(wl *w, expr *e, const type *t)
{
	expr *a = e->args[0];
	if (e->n_args == 1 && a->type->kind == TY_MAT && a->type->n == t->n && a->type->rows == t->rows) {
		convert(w, e, t);
		return;
	}
	bool columns = a->type->kind == TY_VEC;
	uint32_t want = columns ? t->n : (uint32_t)t->n * t->rows;
	if (e->n_args != want) {
		wrong_args(w, e, t, wl_printf(w, "%u columns or %u scalars, found %u arguments", t->n, (unsigned)t->n * t->rows, e->n_args));
		return;
	}
	for (uint32_t i = 0; i < e->n_args; i++)
		wl_coerce(w, e->args[i], columns ? wl_vec(w, t->elem, t->rows) : t->elem, "matrix element");
	concatenate(w, e, t);
}

static void construct_list(wl *w, expr *e, const type *t)
{
	uint64_t want = t->kind == TY_ARRAY ? t->count : t->st->n_members;
	if (e->n_args != want) {
		wrong_args(w, e, t, wl_printf(w, "%llu values, found %u", (unsigned long long)want, e->n_args));
		return;
	}
	for (uint32_t i = 0; i < e->n_args; i++)
		if (t->kind == TY_ARRAY)
			wl_coerce(w, e->args[i], t->elem, "array element");
		else
			wl_coerce(w, e->args[i], t->st->members[i]->type, wl_printf(w, "member '%s'", t->st->members[i]->name->s));
	concatenate(w, e, t);
}

static void zero_value(wl *w, expr *e, const type *t)
{
	uint64_t n = wl_components(t);
	if (n)
		e->val = wl_value(w, n);
}

/* The arguments are checked already. */
void wl_check_construct(wl *w, expr *e, const type *t)
{
	uint32_t errors = w->n_diags;
	e->call = CALL_CONSTRUCT;
	e->type = t;
	if (bad(t))
		return;
	if (!wl_is_constructible(t)) {
		wl_error(w, e->at, "%s cannot be constructed", wl_type_name(w, t));
		e->type = w->t_error;
		return;
	}
	if (t->kind == TY_SUBMAT)
		wl_construct_submat(w, e, t);
	else if (!e->n_args)
		zero_value(w, e, t);
	else if (wl_is_scalar(t))
		construct_scalar(w, e, t);
	else if (t->kind == TY_VEC)
		construct_vec(w, e, t);
	else if (t->kind == TY_MAT)
		construct_mat(w, e, t);
	else
		construct_list(w, e, t);
	if (w->n_diags != errors)
		e->type = w->t_error;
}

static const type *common_type(wl *w, expr *e, bool by_elem)
{
	const type *t = NULL;
	for (uint32_t i = 0; i < e->n_args; i++) {
		const type *a = by_elem ? wl_elem(e->args[i]->type) : e->args[i]->type;
		if (!t || wl_rank(t, a) >= 0)
			t = a;
		else if (wl_rank(a, t) < 0)
			return NULL;
	}
	/* a constant beside runtime values takes its default type */
	for (uint32_t i = 0; t && i < e->n_args; i++)
		if (!e->args[i]->val)
			return wl_concrete(w, t);
	return t;
}

/* Type of vec3(...), mat2x2(...), array(...) from the arguments. NULL, *is_type false: the name is no such generator. */
const type *wl_infer_construct(wl *w, expr *e, bool *is_type)
{
	shape sh;
	bool array = strcmp(e->name->s, "array") == 0;
	*is_type = !e->is_template && (array || (shape_named(e->name->s, &sh) && !sh.suffix));
	if (!*is_type)
		return NULL;
	if (!e->n_args) {
		if (array)
			wl_error(w, e->at, "array() needs a template list to say its type");
		return array ? w->t_error : shaped(w, sh, sh.rows ? w->t_afloat : w->t_aint);
	}
	const type *t = common_type(w, e, !array);
	if (!t || (!array && !wl_is_scalar(t))) {
		wl_error(w, e->at, "the arguments of %s(...) have no common type; write %s<T>(...)", e->name->s, e->name->s);
		return w->t_error;
	}
	if (!array && sh.rows && wl_is_int(t))
		t = t->kind == TY_AINT ? w->t_afloat : t;
	if (!array && sh.rows && !wl_is_float(t)) {
		wl_error(w, e->at, "matrices are of f32 or f16, found %s", wl_type_name(w, t));
		return w->t_error;
	}
	return array ? wl_array_of(w, t, e->n_args, NULL) : shaped(w, sh, t);
}

/* ---- calls ---- */

static void check_user_call(wl *w, expr *e, decl *fn)
{
	e->call = CALL_FN;
	e->decl = fn;
	e->stage = ST_RUNTIME;
	e->type = fn->type ? fn->type : w->t_error;
	if (!w->fn) {
		wl_error(w, e->at, "functions cannot be called outside functions");
		e->type = w->t_error;
		return;
	}
	if (fn->attrs.compute)
		wl_error(w, e->at, "the entry point '%s' cannot be called", fn->name->s);
	wl_add_callee(w, fn);
	e->impure = true; /* any call is assumed to write memory */
	if (e->n_args != fn->n_members) {
		wl_error(w, e->at, "%s takes %u argument%s, found %u", fn->name->s, fn->n_members, fn->n_members == 1 ? "" : "s", e->n_args);
		return;
	}
	for (uint32_t i = 0; i < e->n_args; i++)
		if (fn->members[i]->type)
			wl_coerce(w, e->args[i], fn->members[i]->type, wl_printf(w, "argument '%s' of %s", fn->members[i]->name->s, fn->name->s));
}

void wl_check_call(wl *w, expr *e)
{
	decl *d = e->name->bound;
	bool ok = true, generator = false;
	for (uint32_t i = 0; i < e->n_args; i++) {
		ok &= !bad(wl_check_value(w, e->args[i]));
		if (e->args[i]->stage > e->stage)
			e->stage = e->args[i]->stage;
		e->impure |= e->args[i]->impure;
	}
	e->type = w->t_error;
	if (d && !d->local)
		wl_resolve(w, d);
	if (d && d->kind == D_FN) {
		if (ok)
			check_user_call(w, e, d);
		else
			e->type = d->type ? d->type : w->t_error;
		return;
	}
	if (!ok)
		return;
	if (!d && e->name->fn) {
		e->fn = e->name->fn;
		e->call = CALL_BUILTIN;
		wl_check_builtin(w, e);
		return;
	}
	const type *t = d ? NULL : wl_infer_construct(w, e, &generator);
	if (generator) {
		wl_check_construct(w, e, t);
		return;
	}
	if (d ? d->kind != D_STRUCT && d->kind != D_ALIAS : !wl_is_type_name(e->name->s)) {
		wl_error(w, e->at, d ? "'%s' cannot be called" : "unknown function '%s'", e->name->s);
		return;
	}
	expr *type_name = wl_new(w, sizeof *type_name);
	*type_name = (expr){.kind = EX_IDENT, .at = e->at, .name = e->name, .targs = e->targs, .n_targs = e->n_targs,
	                    .is_template = e->is_template};
	wl_check_construct(w, e, wl_check_type(w, type_name));
}
