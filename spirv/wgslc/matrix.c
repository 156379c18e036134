/* matrix: the types and built-in functions of `enable chromium_experimental_subgroup_matrix`, as Tint takes them. The extension has
 * no published text; what is accepted here was found by asking Tint (npm webgpu 0.6.2), which tests/spirv holds both to. */
#include "spirv/wgslc/internal.h"

#include <string.h>

enum { MAX_SIDE = 128 };

bool wl_matrix_use(const char *name, matrix_use *use)
{
	static const char *const names[] = {"subgroup_matrix_left", "subgroup_matrix_right", "subgroup_matrix_result"};
	for (unsigned i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0) {
			*use = (matrix_use)i;
			return true;
		}
	return false;
}

static bool need_extension(wl *w, uint32_t at, const char *name)
{
	if (!w->matrices)
		wl_error(w, at, "%s needs 'enable chromium_experimental_subgroup_matrix;' at the top of the file", name);
	return w->matrices;
}

/* ---- the types ---- */

static unsigned side(wl *w, expr *e, const char *what)
{
	const type *t = wl_check_value(w, e);
	if (t->kind == TY_ERROR)
		return 0;
	bool whole = e->val && (wl_is_int(t) || (t->kind == TY_AFLOAT && e->val->c[0].f == (double)(int32_t)e->val->c[0].f));
	int64_t n = !whole ? 0 : wl_is_int(t) ? e->val->c[0].i : (int64_t)e->val->c[0].f;
	if (n < 1) {
		wl_error(w, e->at, "the number of %s of a subgroup matrix must be a positive constant%s", what,
		         e->stage == ST_OVERRIDABLE ? ", not an override" : "");
		return 0;
	}
	if (n > MAX_SIDE) {
		wl_unsupported(w, e->at, "a subgroup matrix of %lld %s is not supported; at most %d are", (long long)n, what, MAX_SIDE);
		return 0;
	}
	return (unsigned)n;
}

static const type *component(wl *w, expr *e)
{
	const char *s = e->kind == EX_IDENT && !e->name->bound ? e->name->s : "";
	if (strcmp(s, "i8") == 0 || strcmp(s, "u8") == 0) {
		wl_unsupported(w, e->at, "subgroup matrices of %s are not supported; those of f16, f32, i32 and u32 are", s);
		return w->t_error;
	}
	const type *t = wl_check_type(w, e);
	if (t->kind != TY_ERROR && t->kind != TY_F32 && t->kind != TY_F16 && t->kind != TY_I32 && t->kind != TY_U32) {
		wl_error(w, e->at, "a subgroup matrix is of f32, f16, i32 or u32, found %s", wl_type_name(w, t));
		return w->t_error;
	}
	return t;
}

/* subgroup_matrix_left<T, columns, rows> and the others */
const type *wl_matrix_type(wl *w, expr *e, matrix_use use)
{
	if (!need_extension(w, e->at, e->name->s))
		return w->t_error;
	if (e->n_targs != 3) {
		wl_error(w, e->at, "%s needs 3 template arguments, found %u: component type, columns, rows", e->name->s, e->n_targs);
		return w->t_error;
	}
	const type *t = component(w, e->targs[0]);
	unsigned cols = side(w, e->targs[1], "columns"), rows = side(w, e->targs[2], "rows");
	return t->kind == TY_ERROR || !cols || !rows ? w->t_error : wl_submat(w, use, t, cols, rows);
}

/* T() is zeros, T(x) x everywhere. */
void wl_construct_submat(wl *w, expr *e, const type *t)
{
	e->stage = ST_RUNTIME;
	if (e->n_args > 1) {
		wl_error(w, e->at, "%s(...) takes one scalar or nothing, found %u arguments", wl_type_name(w, t), e->n_args);
		e->type = w->t_error;
	} else if (e->n_args == 1) {
		wl_coerce(w, e->args[0], t->elem, "component");
	}
	if (!w->fn)
		wl_error(w, e->at, "subgroup matrices can only be made in functions");
}

/* ---- loads and stores ---- */

typedef struct access_args { /* where the arguments of a load or store stand */
	expr *pointer, *offset, *stride, *col_major; /* col_major: of the older form, else NULL */
	const type *matrix;
} access_args;

static bool col_major_word(wl *w, const expr *e, bool *ok)
{
	const char *s = e->kind == EX_IDENT && !e->is_template ? e->name->s : "";
	*ok = strcmp(s, "row_major") == 0 || strcmp(s, "col_major") == 0;
	if (!*ok)
		wl_error(w, e->at, "expected row_major or col_major");
	return s[0] == 'c';
}

bool wl_col_major(const expr *e)
{
	bool load = e->fn->special == BS_MATRIX_LOAD;
	if (e->n_targs == (load ? 2u : 1u))
		return e->targs[e->n_targs - 1]->name->s[0] == 'c';
	return e->args[load ? 2 : 3]->val->c[0].i != 0;
}

/* The shorter template list is the older form, with a bool that says "column major" before the stride. */
static bool find_args(wl *w, expr *e, access_args *a)
{
	bool load = e->fn->special == BS_MATRIX_LOAD, ok = true;
	uint32_t most = load ? 2 : 1, n = load ? 3 : 4;
	if (e->n_targs + 1 < most || e->n_targs > most || (load && !e->n_targs)) {
		wl_error(w, e->at, load ? "%s needs a matrix type and a layout: %s<T, row_major>(&array, offset, stride)"
		                        : "%s needs a layout: %s<row_major>(&array, offset, matrix, stride)", e->fn->name, e->fn->name);
		return false;
	}
	bool old = e->n_targs != most;
	if (e->n_args != n + old) {
		wl_error(w, e->at, "%s takes %u arguments, found %u", e->fn->name, n + old, e->n_args);
		return false;
	}
	if (!old)
		col_major_word(w, e->targs[most - 1], &ok);
	*a = (access_args){e->args[0], e->args[1], e->args[e->n_args - 1], old ? e->args[n - 1] : NULL, NULL};
	a->matrix = load ? wl_check_type(w, e->targs[0]) : e->args[2]->type;
	if (old && (a->col_major->type->kind != TY_BOOL || !a->col_major->val)) {
		wl_error(w, a->col_major->at, "%s needs a constant bool here: whether the matrix is stored by columns", e->fn->name);
		ok = false;
	}
	if (a->matrix->kind != TY_SUBMAT && a->matrix->kind != TY_ERROR)
		wl_error(w, load ? e->targs[0]->at : e->args[2]->at, "%s needs a subgroup matrix, found %s", e->fn->name,
		         wl_type_name(w, a->matrix));
	return ok && a->matrix->kind == TY_SUBMAT;
}

static bool check_index(wl *w, expr *e, const char *what)
{
	if (!wl_is_int(e->type)) {
		wl_error(w, e->at, "the %s must be i32 or u32, found %s", what, wl_type_name(w, e->type));
		return false;
	}
	wl_materialise(w, e);
	if (e->type->kind == TY_I32 && e->val && e->val->c[0].i < 0) {
		wl_error(w, e->at, "the %s must not be negative", what);
		return false;
	}
	return true;
}

/* Offset and stride count elements of the array, which need not be of the matrix's component type. */
static bool check_stride(wl *w, const access_args *a, const type *elem, bool col_major)
{
	uint64_t size = 0, align = 0, unit = 0, component_size = 0, stride = 0;
	wl_size_align(elem, &size, &align);
	wl_size_align(a->matrix->elem, &component_size, &align);
	unit = wl_stride(a->pointer->type->elem);
	if (elem->kind != TY_VEC && unit < component_size) {
		wl_error(w, a->pointer->at, "elements of %s are smaller than the components of %s", wl_type_name(w, a->pointer->type->elem),
		         wl_type_name(w, a->matrix));
		return false;
	}
	uint64_t least = (col_major ? a->matrix->rows : a->matrix->n) * component_size;
	bool fits = !a->stride->val || !rp_mul_u64((uint64_t)a->stride->val->c[0].i, unit, &stride) || stride >= least;
	if (!fits) {
		wl_error(w, a->stride->at, "a stride of %lld elements (%llu bytes) is less than %s takes (%llu bytes)",
		         (long long)a->stride->val->c[0].i, (unsigned long long)stride,
		         wl_type_name(w, a->matrix), (unsigned long long)least);
		return false;
	}
	return true;
}

static const type *check_access(wl *w, expr *e)
{
	access_args a;
	bool load = e->fn->special == BS_MATRIX_LOAD;
	if (!find_args(w, e, &a))
		return w->t_error;
	const type *p = a.pointer->type, *elem = p->kind == TY_PTR && p->elem->kind == TY_ARRAY ? p->elem->elem : NULL;
	bool placed = elem && (p->space == SP_WORKGROUP || p->space == SP_STORAGE);
	if (!placed || !wl_is_numeric(elem->kind == TY_VEC ? elem->elem : elem)) {
		wl_error(w, a.pointer->at, "%s needs a pointer to an array of numbers in storage or workgroup memory, found %s", e->fn->name,
		         wl_type_name(w, p));
		return w->t_error;
	}
	if (!load && p->access == AC_READ) {
		wl_error(w, a.pointer->at, "cannot store to this: it is read-only");
		return w->t_error;
	}
	if (!check_index(w, a.offset, "offset") || !check_index(w, a.stride, "stride") || !check_stride(w, &a, elem, wl_col_major(e)))
		return w->t_error;
	return load ? a.matrix : w->t_void;
}

/* ---- arithmetic ---- */

static void wrong(wl *w, expr *e, const char *expected)
{
	rp_buf b;
	rp_buf_init(&b, 600);
	for (uint32_t i = 0; i < e->n_args; i++)
		rp_buf_addf(&b, "%s%s", i ? ", " : "", wl_type_name(w, e->args[i]->type));
	wl_error(w, e->at, "%s takes %s, found (%s)", e->fn->name, expected, b.data ? b.data : "");
	rp_buf_free(&b);
}

static bool factors(const expr *e)
{
	const type *l = e->args[0]->type, *r = e->args[1]->type;
	return l->kind == TY_SUBMAT && l->use == MX_LEFT && r->kind == TY_SUBMAT && r->use == MX_RIGHT && l->elem == r->elem && l->n == r->rows;
}

static const type *check_multiply(wl *w, expr *e)
{
	const type *result = e->n_targs == 1 ? component(w, e->targs[0]) : NULL;
	if (result && result->kind == TY_ERROR)
		return result;
	if (!result || e->n_args != 2 || !factors(e)) {
		wrong(w, e, "<T>(left of K columns, right of K rows) of one component type");
		return w->t_error;
	}
	return wl_submat(w, MX_RESULT, result, e->args[1]->type->n, e->args[0]->type->rows);
}

static const type *check_muladd(wl *w, expr *e)
{
	const type *c = e->n_args == 3 ? e->args[2]->type : NULL;
	if (e->n_targs || !c || !factors(e) || c->kind != TY_SUBMAT || c->use != MX_RESULT || c->n != e->args[1]->type->n ||
	    c->rows != e->args[0]->type->rows) {
		wrong(w, e, "(left of K columns and M rows, right of N columns and K rows, result of N columns and M rows)");
		return w->t_error;
	}
	return c;
}

static const type *check_scalar(wl *w, expr *e)
{
	if (e->n_targs || e->n_args != 2 || e->args[0]->type->kind != TY_SUBMAT) {
		wrong(w, e, "(a subgroup matrix, a scalar)");
		return w->t_error;
	}
	return wl_coerce(w, e->args[1], e->args[0]->type->elem, "argument") ? e->args[0]->type : w->t_error;
}

const type *wl_check_matrix_call(wl *w, expr *e)
{
	e->stage = ST_RUNTIME;
	if (!need_extension(w, e->at, e->fn->name))
		return w->t_error;
	switch (e->fn->special) {
	case BS_MATRIX_MULTIPLY:
		return check_multiply(w, e);
	case BS_MATRIX_MULADD:
		return check_muladd(w, e);
	case BS_MATRIX_SCALAR:
		return check_scalar(w, e);
	default:
		return check_access(w, e);
	}
}
