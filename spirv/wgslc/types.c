/* types: interned types, their names, conversions between them, and the memory layout of WGSL ("Memory Layout", 14.4). */
#include "spirv/wgslc/internal.h"

#include <stdio.h>
#include <string.h>

enum { BUCKETS = 512 };

static type *new_type(wl *w, type_kind kind)
{
	type *t = wl_new(w, sizeof *t);
	t->kind = kind;
	t->depth = 1;
	t->serial = ++w->n_types;
	return t;
}

void wl_types_init(wl *w)
{
	w->types = wl_array(w, BUCKETS, sizeof *w->types);
	w->t_error = new_type(w, TY_ERROR);
	w->t_void = new_type(w, TY_VOID);
	w->t_bool = new_type(w, TY_BOOL);
	w->t_aint = new_type(w, TY_AINT);
	w->t_afloat = new_type(w, TY_AFLOAT);
	w->t_i32 = new_type(w, TY_I32);
	w->t_u32 = new_type(w, TY_U32);
	w->t_f32 = new_type(w, TY_F32);
	w->t_f16 = new_type(w, TY_F16);
}

static const type *intern(wl *w, type key)
{
	uint64_t h = (uint64_t)key.kind * 31 + key.n * 7u + key.rows * 5u + (uint64_t)key.use * 11;
	h += (uint64_t)key.space * 3 + (uint64_t)key.access + key.count * 13;
	h += key.elem ? key.elem->serial * 17u : 0;
	type **slot = &w->types[h % BUCKETS];
	for (type *t = *slot; t; t = t->next)
		if (t->kind == key.kind && t->n == key.n && t->rows == key.rows && t->use == key.use && t->space == key.space && t->access == key.access &&
		    t->elem == key.elem && t->count == key.count && t->count_expr == key.count_expr && t->st == key.st)
			return t;
	type *t = wl_new(w, sizeof *t);
	*t = key;
	t->serial = ++w->n_types;
	t->depth = key.elem ? key.elem->depth + 1 : 1;
	for (uint32_t i = 0; key.st && i < key.st->n_members; i++)
		if (key.st->members[i]->type && key.st->members[i]->type->depth >= t->depth)
			t->depth = key.st->members[i]->type->depth + 1;
	t->next = *slot;
	*slot = t;
	return t;
}

const type *wl_vec(wl *w, const type *elem, unsigned n)
{
	return intern(w, (type){.kind = TY_VEC, .n = (uint8_t)n, .elem = elem});
}

const type *wl_mat(wl *w, const type *elem, unsigned cols, unsigned rows)
{
	return intern(w, (type){.kind = TY_MAT, .n = (uint8_t)cols, .rows = (uint8_t)rows, .elem = elem});
}

const type *wl_array_of(wl *w, const type *elem, uint64_t count, expr *count_expr)
{
	return intern(w, (type){.kind = TY_ARRAY, .elem = elem, .count = count, .count_expr = count_expr});
}

const type *wl_atomic(wl *w, const type *elem)
{
	return intern(w, (type){.kind = TY_ATOMIC, .elem = elem});
}

const type *wl_ptr(wl *w, space sp, const type *elem, access ac)
{
	return intern(w, (type){.kind = TY_PTR, .space = sp, .elem = elem, .access = ac});
}

const type *wl_struct_type(wl *w, decl *st)
{
	return intern(w, (type){.kind = TY_STRUCT, .st = st});
}

const type *wl_submat(wl *w, matrix_use use, const type *elem, unsigned cols, unsigned rows)
{
	return intern(w, (type){.kind = TY_SUBMAT, .use = use, .elem = elem, .n = (uint8_t)cols, .rows = (uint8_t)rows});
}

const char *wl_type_name(wl *w, const type *t)
{
	static const char *const simple[] = {"(error)", "nothing", "bool", "abstract-int", "abstract-float", "i32", "u32", "f32", "f16"};
	static const char *const uses[] = {"left", "right", "result"};
	static const char *const spaces[] = {"?", "function", "private", "workgroup", "uniform", "storage"};
	switch (t->kind) {
	case TY_VEC:
		return wl_printf(w, "vec%u<%s>", t->n, wl_type_name(w, t->elem));
	case TY_MAT:
		return wl_printf(w, "mat%ux%u<%s>", t->n, t->rows, wl_type_name(w, t->elem));
	case TY_ARRAY:
		if (t->count)
			return wl_printf(w, "array<%s, %llu>", wl_type_name(w, t->elem), (unsigned long long)t->count);
		return wl_printf(w, t->count_expr ? "array<%s, (override)>" : "array<%s>", wl_type_name(w, t->elem));
	case TY_STRUCT:
		return t->st->name->s;
	case TY_SUBMAT:
		return wl_printf(w, "subgroup_matrix_%s<%s, %u, %u>", uses[t->use], wl_type_name(w, t->elem), t->n, t->rows);
	case TY_ATOMIC:
		return wl_printf(w, "atomic<%s>", wl_type_name(w, t->elem));
	case TY_PTR:
		return wl_printf(w, "ptr<%s, %s%s>", spaces[t->space], wl_type_name(w, t->elem),
		                 t->space == SP_STORAGE ? (t->access == AC_READ ? ", read" : ", read_write") : "");
	default:
		return simple[t->kind];
	}
}

/* ---- questions ---- */

const type *wl_elem(const type *t)
{
	return t->kind == TY_VEC || t->kind == TY_MAT ? t->elem : t;
}

const type *wl_with_elem(wl *w, const type *t, const type *elem)
{
	return t->kind == TY_VEC ? wl_vec(w, elem, t->n) : t->kind == TY_MAT ? wl_mat(w, elem, t->n, t->rows) : elem;
}

bool wl_is_scalar(const type *t)
{
	return t->kind >= TY_BOOL && t->kind <= TY_F16;
}

bool wl_is_abstract(const type *t)
{
	if (t->kind == TY_ARRAY)
		return wl_is_abstract(t->elem);
	const type *e = wl_elem(t);
	return e->kind == TY_AINT || e->kind == TY_AFLOAT;
}

bool wl_is_float(const type *t)
{
	return t->kind == TY_AFLOAT || t->kind == TY_F32 || t->kind == TY_F16;
}

bool wl_is_int(const type *t)
{
	return t->kind == TY_AINT || t->kind == TY_I32 || t->kind == TY_U32;
}

bool wl_is_numeric(const type *t)
{
	return wl_is_float(t) || wl_is_int(t);
}

/* Kept per structure: walking members again at every level would take exponential time. */
uint8_t wl_struct_props(const decl *st)
{
	const uint8_t whole = WL_CONSTRUCTIBLE | WL_SHAREABLE | WL_FIXED;
	uint8_t all = whole, some = 0;
	for (uint32_t i = 0; i < st->n_members; i++) {
		uint8_t p = st->members[i]->type ? wl_props(st->members[i]->type) : 0;
		all &= p;
		some |= p;
	}
	return (uint8_t)((all & whole) | (some & ~whole));
}

uint8_t wl_props(const type *t)
{
	uint8_t p;
	switch (t->kind) {
	case TY_ARRAY:
		p = wl_props(t->elem);
		if (!t->count)
			p &= (uint8_t)~WL_CONSTRUCTIBLE;
		return t->count || t->count_expr ? p : (uint8_t)(p & ~WL_FIXED);
	case TY_STRUCT:
		return t->st->props;
	case TY_VEC:
	case TY_MAT:
		return wl_props(t->elem);
	case TY_ATOMIC:
		return WL_SHAREABLE | WL_FIXED | WL_HAS_ATOMIC;
	case TY_PTR:
		return WL_HAS_PTR;
	case TY_SUBMAT:
		return WL_CONSTRUCTIBLE | WL_FIXED | WL_HAS_SUBMAT;
	case TY_BOOL:
		return WL_CONSTRUCTIBLE | WL_FIXED | WL_HAS_BOOL;
	case TY_F16:
		return WL_CONSTRUCTIBLE | WL_SHAREABLE | WL_FIXED | WL_HAS_F16;
	case TY_ERROR:
	case TY_VOID:
		return 0;
	default:
		return WL_CONSTRUCTIBLE | WL_SHAREABLE | WL_FIXED;
	}
}

bool wl_is_constructible(const type *t)
{
	return (wl_props(t) & WL_CONSTRUCTIBLE) != 0;
}

bool wl_is_host_shareable(const type *t)
{
	return (wl_props(t) & WL_SHAREABLE) != 0;
}

/* Footprint known when the pipeline is made. */
bool wl_is_fixed(const type *t)
{
	return (wl_props(t) & WL_FIXED) != 0;
}

uint64_t wl_components(const type *t)
{
	uint64_t n = 1;
	switch (t->kind) {
	case TY_VEC:
		return t->n;
	case TY_MAT:
		return (uint64_t)t->n * t->rows;
	case TY_ARRAY:
		if (!rp_mul_u64(t->count, wl_components(t->elem), &n) || n > WL_MAX_COMPONENTS)
			return 0;
		return n;
	case TY_STRUCT:
		n = 0;
		for (uint32_t i = 0; i < t->st->n_members; i++) {
			uint64_t m = t->st->members[i]->type ? wl_components(t->st->members[i]->type) : 0;
			n += m;
			if (!m || n > WL_MAX_COMPONENTS)
				return 0;
		}
		return n;
	default:
		return wl_is_scalar(t) ? 1 : 0;
	}
}

const type *wl_concrete(wl *w, const type *t)
{
	if (!wl_is_abstract(t))
		return t;
	if (t->kind == TY_ARRAY)
		return wl_array_of(w, wl_concrete(w, t->elem), t->count, t->count_expr);
	return wl_with_elem(w, t, wl_elem(t)->kind == TY_AINT ? w->t_i32 : w->t_f32);
}

/* "Conversion Rank" of the language, with its order but not its numbers. */
int wl_rank(const type *from, const type *to)
{
	if (from == to)
		return 0;
	if (from->kind == TY_AFLOAT)
		return to->kind == TY_F32 ? 1 : to->kind == TY_F16 ? 2 : -1;
	if (from->kind == TY_AINT)
		return to->kind == TY_I32 ? 3 : to->kind == TY_U32 ? 4 : to->kind == TY_AFLOAT ? 5 : to->kind == TY_F32 ? 6 : to->kind == TY_F16 ? 7 : -1;
	if (from->kind != to->kind || from->n != to->n || from->rows != to->rows)
		return -1;
	if (from->kind == TY_VEC || from->kind == TY_MAT || (from->kind == TY_ARRAY && from->count == to->count && from->count))
		return wl_rank(from->elem, to->elem);
	return -1;
}

/* ---- layout ---- */

static uint64_t round_up(uint64_t a, uint64_t unit)
{
	return (a + unit - 1) / unit * unit;
}

static void vec_layout(const type *elem, unsigned n, uint64_t *size, uint64_t *align)
{
	uint64_t unit = elem->kind == TY_F16 ? 2 : 4;
	*size = unit * n;
	*align = unit * (n == 3 ? 4 : n);
}

uint64_t wl_stride(const type *array)
{
	uint64_t size, align;
	if (!wl_size_align(array->elem, &size, &align))
		return 0;
	return round_up(size, align);
}

/* Size and alignment of a host-shareable or workgroup type. A runtime-sized array counts as one element. False when the type
 * has no layout or is too large (4 GiB). */
bool wl_size_align(const type *t, uint64_t *size, uint64_t *align)
{
	switch (t->kind) {
	case TY_BOOL:
	case TY_I32:
	case TY_U32:
	case TY_F32:
	case TY_F16:
		vec_layout(t, 1, size, align);
		return true;
	case TY_ATOMIC:
		return wl_size_align(t->elem, size, align);
	case TY_VEC:
		vec_layout(t->elem, t->n, size, align);
		return !wl_is_abstract(t);
	case TY_MAT:
		vec_layout(t->elem, t->rows, size, align);
		*size = round_up(*size, *align) * t->n;
		return !wl_is_abstract(t);
	case TY_ARRAY:
		if (!wl_size_align(t->elem, size, align))
			return false;
		*size = round_up(*size, *align);
		return rp_mul_u64(*size, t->count ? t->count : 1, size) && *size <= UINT32_MAX;
	case TY_STRUCT:
		*size = t->st->size;
		*align = t->st->align;
		return t->st->size != 0;
	default:
		return false;
	}
}
