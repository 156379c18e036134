/* check_builtin: arguments and results of built-in functions: the signatures of builtins.c and the few it cannot say. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static const type *fixed_letter(wl *w, char c)
{
	switch (c) {
	case 'b':
		return w->t_bool;
	case 'u':
		return w->t_u32;
	case 'i':
		return w->t_i32;
	case 'f':
		return w->t_f32;
	case 'P':
		return wl_vec(w, w->t_f32, 2);
	case 'Q':
		return wl_vec(w, w->t_f32, 4);
	case 'R':
		return wl_vec(w, w->t_u32, 4);
	case 'Z':
		return wl_vec(w, w->t_i32, 4);
	case 'v':
		return w->t_void;
	default:
		return NULL;
	}
}

static const type *letter(wl *w, char c, const type *t)
{
	switch (c) {
	case 'T':
		return t;
	case 'E':
		return wl_elem(t);
	case 'B':
		return wl_with_elem(w, t, w->t_bool);
	case 'U':
		return wl_with_elem(w, t, w->t_u32);
	case 'I':
		return wl_with_elem(w, t, w->t_i32);
	default:
		return fixed_letter(w, c);
	}
}

static bool scalar_allowed(char cls, const type *s)
{
	switch (cls) {
	case 'f':
		return wl_is_float(s);
	case 'i':
		return wl_is_int(s);
	case 'n':
		return wl_is_numeric(s);
	case 's':
		return wl_is_numeric(s) && s->kind != TY_U32;
	case 'b':
		return s->kind == TY_BOOL;
	default:
		return wl_is_scalar(s);
	}
}

/* T from the arguments at T and E; NULL when they do not agree or the class refuses. */
static const type *solve(wl *w, const expr *e, const char *sig, const char *args)
{
	const type *shape = NULL, *s = NULL;
	for (uint32_t i = 0; i < e->n_args; i++) {
		const type *a = e->args[i]->type;
		if (args[i] != 'T' && args[i] != 'E')
			continue;
		if (!wl_is_scalar(a) && a->kind != TY_VEC)
			return NULL;
		if (args[i] == 'E' && !wl_is_scalar(a))
			return NULL;
		if (args[i] == 'T' && shape && wl_with_elem(w, shape, w->t_bool) != wl_with_elem(w, a, w->t_bool))
			return NULL;
		shape = args[i] == 'T' ? a : shape;
		a = wl_elem(a);
		s = !s || wl_rank(s, a) >= 0 ? a : wl_rank(a, s) >= 0 ? s : NULL;
		if (!s)
			return NULL;
	}
	if (!s || !shape)
		return NULL;
	if (sig[0] == 'f' && s->kind == TY_AINT)
		s = w->t_afloat;
	if (!scalar_allowed(sig[0], s) || (sig[1] == 'V' && shape->kind != TY_VEC) || (sig[1] == 'S' && shape->kind == TY_VEC))
		return NULL;
	return wl_with_elem(w, shape, s);
}

static bool argument_fits(wl *w, const expr *a, char c, const type *t)
{
	if (c == 'J')
		return wl_is_int(a->type);
	const type *want = letter(w, c, t);
	return wl_rank(a->type, want) >= 0;
}

/* Does the overload take these arguments? *t gets its T, NULL when it has none. */
static bool overload_fits(wl *w, const expr *e, const builtin *b, const type **t)
{
	const char *args = b->sig ? strchr(b->sig, ':') : NULL, *end = args ? strchr(++args, '>') : NULL;
	*t = NULL;
	if (!end || (size_t)(end - args) != e->n_args)
		return false;
	if (b->sig[0] != ':') {
		*t = solve(w, e, b->sig, args);
		if (!*t)
			return false;
	}
	for (uint32_t i = 0; i < e->n_args; i++)
		if (!argument_fits(w, e->args[i], args[i], *t))
			return false;
	return true;
}

static bool coerce_args(wl *w, expr *e, const type *t)
{
	const char *args = strchr(e->fn->sig, ':') + 1;
	bool ok = true;
	for (uint32_t i = 0; i < e->n_args; i++) {
		if (args[i] == 'J')
			wl_materialise(w, e->args[i]);
		else
			ok &= wl_coerce(w, e->args[i], letter(w, args[i], t), "argument");
	}
	return ok;
}

static void no_overload(wl *w, expr *e)
{
	rp_buf b;
	rp_buf_init(&b, 400);
	for (uint32_t i = 0; i < e->n_args; i++)
		rp_buf_addf(&b, "%s%s", i ? ", " : "", wl_type_name(w, e->args[i]->type));
	wl_error(w, e->at, "no built-in function %s(%s)", e->fn->name, b.data ? b.data : "");
	rp_buf_free(&b);
	e->type = w->t_error;
}

static bool all_constant(const expr *e)
{
	for (uint32_t i = 0; i < e->n_args; i++)
		if (!e->args[i]->val)
			return false;
	return true;
}

static void check_signature(wl *w, expr *e)
{
	const char *name = e->fn->name;
	const type *t = NULL;
	const builtin *b = e->fn;
	while (b->name && strcmp(b->name, name) == 0 && !overload_fits(w, e, b, &t))
		b++;
	if (!b->name || strcmp(b->name, name) != 0) {
		no_overload(w, e);
		return;
	}
	e->fn = b;
	char result = strchr(b->sig, '>')[1];
	if (t && (!all_constant(e) || b->eval == EV_NONE || (b->flags & BF_CONCRETE)))
		t = wl_concrete(w, t);
	if (!coerce_args(w, e, t)) {
		e->type = w->t_error;
		return;
	}
	uint32_t errors = w->n_diags;
	e->val = wl_eval_builtin(w, e);
	if (!e->val && t && wl_is_abstract(t)) {
		t = wl_concrete(w, t);
		coerce_args(w, e, t);
	}
	e->type = w->n_diags != errors ? w->t_error : letter(w, result, t);
}

/* ---- those with rules of their own ---- */

static bool count_args(wl *w, expr *e, uint32_t n)
{
	if (e->n_args == n)
		return true;
	wl_error(w, e->at, "%s takes %u argument%s, found %u", e->fn->name, n, n == 1 ? "" : "s", e->n_args);
	return false;
}

static uint64_t bits(const type *t)
{
	const type *s = wl_elem(t);
	if (t->kind == TY_MAT || t->kind == TY_BOOL || !wl_is_numeric(s))
		return 0;
	return (s->kind == TY_F16 ? 16u : 32u) * (t->kind == TY_VEC ? t->n : 1u);
}

static const type *check_bitcast(wl *w, expr *e)
{
	if (!count_args(w, e, 1))
		return w->t_error;
	if (e->n_targs != 1) {
		wl_error(w, e->at, "bitcast needs a type: bitcast<u32>(x)");
		return w->t_error;
	}
	const type *to = wl_check_type(w, e->targs[0]);
	if (to->kind == TY_ERROR)
		return to;
	wl_materialise(w, e->args[0]);
	const type *from = e->args[0]->type;
	if (!bits(from) || bits(from) != bits(to)) {
		wl_error(w, e->at, "cannot bitcast %s to %s: the sizes differ or a type has no bits", wl_type_name(w, from), wl_type_name(w, to));
		return w->t_error;
	}
	e->val = wl_eval_bitcast(w, e, to);
	return to;
}

static const type *check_array_length(wl *w, expr *e)
{
	if (!count_args(w, e, 1))
		return w->t_error;
	const type *t = e->args[0]->type;
	if (t->kind != TY_PTR || t->space != SP_STORAGE || t->elem->kind != TY_ARRAY || t->elem->count || t->elem->count_expr) {
		wl_error(w, e->at, "arrayLength takes a pointer to a runtime-sized array, as in arrayLength(&buffer)");
		return w->t_error;
	}
	e->stage = ST_RUNTIME;
	return w->t_u32;
}

/* The structures some built-in functions return: fract and exp, fract and whole, old_value and exchanged. */
static const type *result_struct(wl *w, const char *name, const char *m1, const type *t1, const char *m2, const type *t2)
{
	sym *s = wl_intern(w, name, strlen(name));
	if (s->bound)
		return s->bound->type;
	decl *d = wl_new(w, sizeof *d);
	d->kind = D_STRUCT;
	d->name = s;
	d->state = 2;
	d->builtin_struct = true;
	d->n_members = 2;
	d->members = wl_array(w, 2, sizeof(decl *));
	for (uint32_t i = 0; i < 2; i++) {
		decl *m = d->members[i] = wl_new(w, sizeof *m);
		const char *member = i ? m2 : m1;
		m->kind = D_MEMBER;
		m->name = wl_intern(w, member, strlen(member));
		m->type = i ? t2 : t1;
		m->state = 2;
	}
	d->props = wl_struct_props(d);
	d->type = wl_struct_type(w, d);
	s->bound = d; /* names that start with two underscores cannot be written in the source */
	return d->type;
}

static const type *check_frexp(wl *w, expr *e)
{
	if (!count_args(w, e, 1))
		return w->t_error;
	wl_materialise(w, e->args[0]);
	const type *t = e->args[0]->type;
	if (t == w->t_i32)
		t = wl_coerce(w, e->args[0], w->t_f32, "argument") ? w->t_f32 : w->t_error;
	if (!wl_is_float(wl_elem(t)) || t->kind == TY_MAT) {
		no_overload(w, e);
		return w->t_error;
	}
	const char *suffix = wl_printf(w, "%s%u", wl_elem(t)->kind == TY_F16 ? "f16_" : "f32_", t->kind == TY_VEC ? t->n : 1);
	if (e->fn->special == BS_MODF)
		return result_struct(w, wl_printf(w, "__modf_result_%s", suffix), "fract", t, "whole", t);
	return result_struct(w, wl_printf(w, "__frexp_result_%s", suffix), "fract", t, "exp", wl_with_elem(w, t, w->t_i32));
}

static const type *check_atomic(wl *w, expr *e)
{
	special sp = e->fn->special;
	if (!count_args(w, e, sp == BS_ATOMIC_LOAD ? 1 : sp == BS_ATOMIC_CAS ? 3 : 2))
		return w->t_error;
	const type *p = e->args[0]->type;
	if (p->kind != TY_PTR || p->elem->kind != TY_ATOMIC) {
		wl_error(w, e->at, "%s needs a pointer to an atomic, found %s", e->fn->name, wl_type_name(w, p));
		return w->t_error;
	}
	if (p->access == AC_READ) {
		wl_error(w, e->at, "atomics need var<storage, read_write> or var<workgroup>");
		return w->t_error;
	}
	const type *t = p->elem->elem;
	for (uint32_t i = 1; i < e->n_args; i++)
		if (!wl_coerce(w, e->args[i], t, "argument"))
			return w->t_error;
	e->stage = ST_RUNTIME;
	if (sp == BS_ATOMIC_CAS)
		return result_struct(w, t == w->t_i32 ? "__atomic_compare_exchange_result_i32" : "__atomic_compare_exchange_result_u32",
		                     "old_value", t, "exchanged", w->t_bool);
	return sp == BS_ATOMIC_STORE ? w->t_void : t;
}

static const type *check_uniform_load(wl *w, expr *e)
{
	if (!count_args(w, e, 1))
		return w->t_error;
	const type *p = e->args[0]->type;
	if (p->kind != TY_PTR || p->space != SP_WORKGROUP || !(wl_is_constructible(p->elem) || p->elem->kind == TY_ATOMIC)) {
		wl_error(w, e->at, "workgroupUniformLoad takes a pointer to a workgroup variable");
		return w->t_error;
	}
	e->stage = ST_RUNTIME;
	return p->elem->kind == TY_ATOMIC ? p->elem->elem : p->elem;
}

static const type *check_matrix(wl *w, expr *e)
{
	if (!count_args(w, e, 1))
		return w->t_error;
	wl_materialise(w, e->args[0]);
	const type *t = e->args[0]->type;
	bool determinant = e->fn->special == BS_DETERMINANT;
	if (t->kind != TY_MAT || (determinant && t->n != t->rows)) {
		no_overload(w, e);
		return w->t_error;
	}
	return determinant ? t->elem : wl_mat(w, t->elem, t->rows, t->n);
}

static void check_flags(wl *w, expr *e)
{
	uint8_t flags = e->fn->flags;
	if (flags & BF_SUBGROUP) {
		if (!w->subgroups)
			wl_error(w, e->at, "%s needs 'enable subgroups;' at the top of the file", e->fn->name);
		e->stage = ST_RUNTIME;
	}
	if (flags & BF_IMPURE) {
		e->impure = true;
		e->stage = ST_RUNTIME;
	}
	if (e->type->kind != TY_ERROR && (flags & BF_CONST_LAST) && e->args[e->n_args - 1]->stage != ST_CONSTANT)
		wl_error(w, e->args[e->n_args - 1]->at, "%s needs a constant here", e->fn->name);
	if (!w->fn && e->stage == ST_RUNTIME)
		wl_error(w, e->at, "%s can only be called in functions", e->fn->name);
}

void wl_check_builtin(wl *w, expr *e)
{
	bool matrix = e->fn->special >= BS_MATRIX_LOAD && e->fn->special <= BS_MATRIX_SCALAR;
	if (e->is_template && e->fn->special != BS_BITCAST && !matrix) {
		wl_error(w, e->at, "%s takes no template list", e->fn->name);
		return;
	}
	switch (e->fn->sig ? BS_NONE : e->fn->special) {
	case BS_BITCAST:
		e->type = check_bitcast(w, e);
		break;
	case BS_ARRAY_LENGTH:
		e->type = check_array_length(w, e);
		break;
	case BS_FREXP:
	case BS_MODF:
		e->type = check_frexp(w, e);
		break;
	case BS_ATOMIC:
	case BS_ATOMIC_LOAD:
	case BS_ATOMIC_STORE:
	case BS_ATOMIC_CAS:
		e->type = check_atomic(w, e);
		break;
	case BS_UNIFORM_LOAD:
		e->type = check_uniform_load(w, e);
		break;
	case BS_TRANSPOSE:
	case BS_DETERMINANT:
		e->type = check_matrix(w, e);
		break;
	case BS_MATRIX_LOAD:
	case BS_MATRIX_STORE:
	case BS_MATRIX_MULTIPLY:
	case BS_MATRIX_MULADD:
	case BS_MATRIX_SCALAR:
		e->type = wl_check_matrix_call(w, e);
		break;
	default:
		check_signature(w, e);
		break;
	}
	check_flags(w, e);
}
