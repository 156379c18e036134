/* eval: constant expressions. Abstract numbers are 64-bit integers and doubles; concrete ones are rounded to their type after
 * every operation. Overflow and results that are not finite are errors, as the language demands of constant expressions. */
#include "spirv/wgslc/internal.h"

#include <math.h>
#include <string.h>

value *wl_value(wl *w, uint64_t n)
{
	value *v = wl_new(w, sizeof *v + n * sizeof(scalar));
	v->n = (uint32_t)n;
	return v;
}

value *wl_splat(wl *w, uint64_t n, scalar s)
{
	value *v = wl_value(w, n);
	for (uint64_t i = 0; i < n; i++)
		v->c[i] = s;
	return v;
}

/* Round to a number of 10 bits of fraction and exponents from -14: exact in double, ties to even by the current mode. */
static double round_f16(double v)
{
	if (v == 0 || !isfinite(v))
		return v;
	int e;
	frexp(v, &e);
	double unit = ldexp(1.0, (e < -13 ? -13 : e) - 11);
	double r = nearbyint(v / unit) * unit;
	return fabs(r) > 65504.0 ? copysign(INFINITY, v) : r;
}

double wl_round(const type *t, double v)
{
	return t->kind == TY_F32 ? (double)(float)v : t->kind == TY_F16 ? round_f16(v) : v;
}

static bool int_fits(const type *t, int64_t v)
{
	return t->kind == TY_I32 ? v >= INT32_MIN && v <= INT32_MAX : t->kind == TY_U32 ? v >= 0 && v <= UINT32_MAX : true;
}

static int64_t clamp_to_int(const type *t, double v)
{
	double low = t->kind == TY_U32 ? 0 : t->kind == TY_I32 ? -2147483648.0 : -9223372036854775808.0;
	double high = t->kind == TY_U32 ? 4294967295.0 : t->kind == TY_I32 ? 2147483647.0 : 9223372036854774784.0;
	v = trunc(v);
	return (int64_t)(v < low ? low : v > high ? high : v);
}

/* The conversion a value constructor does. *lossy: an automatic conversion must not do this. */
bool wl_convert_scalar(const type *from, scalar s, const type *to, scalar *out, bool *lossy)
{
	*lossy = false;
	if (from->kind == TY_BOOL || wl_is_int(from)) {
		if (to->kind == TY_BOOL) {
			out->i = s.i != 0;
		} else if (wl_is_int(to)) {
			*lossy = !int_fits(to, s.i);
			out->i = to->kind == TY_U32 ? (int64_t)(uint32_t)s.i : to->kind == TY_I32 ? (int64_t)(int32_t)(uint32_t)s.i : s.i;
		} else {
			out->f = wl_round(to, (double)s.i);
		}
	} else {
		if (to->kind == TY_BOOL)
			out->i = s.f != 0;
		else if (wl_is_int(to)) {
			out->i = clamp_to_int(to, s.f);
			*lossy = (double)out->i != s.f;
		} else {
			out->f = wl_round(to, s.f);
			*lossy = !isfinite(out->f);
		}
	}
	return true;
}

/* Element type of the i-th scalar does not vary in anything that converts: vectors, matrices, arrays of those. */
static const type *leaf(const type *t)
{
	while (t->kind == TY_ARRAY)
		t = t->elem;
	return wl_elem(t);
}

value *wl_convert(wl *w, uint32_t at, value *v, const type *from, const type *to)
{
	if (from == to)
		return v;
	const type *a = leaf(from), *b = leaf(to);
	value *out = wl_value(w, v->n);
	for (uint32_t i = 0; i < v->n; i++) {
		bool lossy;
		wl_convert_scalar(a, v->c[i], b, &out->c[i], &lossy);
		if (lossy) {
			if (wl_is_int(a))
				wl_error(w, at, "the value %lld does not fit %s", (long long)v->c[i].i, wl_type_name(w, b));
			else
				wl_error(w, at, "the value %g does not fit %s", v->c[i].f, wl_type_name(w, b));
			return NULL;
		}
	}
	return out;
}

/* ---- operators ---- */

static bool int_overflow(wl *w, uint32_t at, const type *t)
{
	wl_error(w, at, "this constant expression overflows %s", wl_type_name(w, t));
	return false;
}

/* Concrete integers wrap, abstract ones must not overflow. */
static bool finish_int(wl *w, uint32_t at, const type *t, bool overflowed, int64_t v, scalar *out)
{
	if (overflowed)
		return int_overflow(w, at, t);
	out->i = t->kind == TY_U32 ? (int64_t)(uint32_t)(uint64_t)v : t->kind == TY_I32 ? (int64_t)(int32_t)(uint32_t)(uint64_t)v : v;
	return true;
}

static bool eval_int(wl *w, expr *e, const type *t, scalar a, scalar b, scalar *out)
{
	int64_t r = 0;
	bool over = false;
	switch (e->op) {
	case T_PLUS:
		over = __builtin_add_overflow(a.i, b.i, &r);
		break;
	case T_MINUS:
		over = __builtin_sub_overflow(a.i, b.i, &r);
		break;
	case T_STAR:
		over = __builtin_mul_overflow(a.i, b.i, &r);
		if (t->kind == TY_U32) {
			r = (int64_t)(uint32_t)((uint64_t)a.i * (uint64_t)b.i);
			over = false;
		}
		break;
	case T_SLASH:
	case T_PERCENT:
		if (b.i == 0) {
			wl_error(w, e->at, "division by zero in a constant expression");
			return false;
		}
		over = b.i == -1 && (a.i == INT64_MIN || (t->kind == TY_I32 && a.i == INT32_MIN));
		if (!over)
			r = e->op == T_SLASH ? a.i / b.i : a.i % b.i;
		break;
	case T_AND:
		r = a.i & b.i;
		break;
	case T_OR:
		r = a.i | b.i;
		break;
	default:
		r = a.i ^ b.i;
		break;
	}
	return finish_int(w, e->at, t, over, r, out);
}

static bool eval_shift(wl *w, expr *e, const type *t, scalar a, scalar b, scalar *out)
{
	int64_t bits = t->kind == TY_AINT ? 64 : 32;
	if (b.i < 0 || b.i >= bits) {
		wl_error(w, e->at, "shifting %s by %lld: the amount must be less than %lld", wl_type_name(w, t), (long long)b.i,
		         (long long)bits);
		return false;
	}
	if (e->op == T_SHR) {
		out->i = a.i >> b.i;
		return true;
	}
	uint64_t r = (uint64_t)a.i << b.i;
	if (t->kind == TY_U32) {
		if ((r >> 32) != 0)
			return int_overflow(w, e->at, t);
		out->i = (int64_t)(uint32_t)r;
		return true;
	}
	if ((int64_t)r >> b.i != a.i || !int_fits(t, (int64_t)r))
		return int_overflow(w, e->at, t);
	out->i = (int64_t)r;
	return true;
}

static bool eval_float(wl *w, expr *e, const type *t, scalar a, scalar b, scalar *out)
{
	double r = 0;
	switch (e->op) {
	case T_PLUS:
		r = a.f + b.f;
		break;
	case T_MINUS:
		r = a.f - b.f;
		break;
	case T_STAR:
		r = a.f * b.f;
		break;
	case T_SLASH:
		r = a.f / b.f;
		break;
	default:
		r = fmod(a.f, b.f);
		break;
	}
	out->f = wl_round(t, r);
	if (!isfinite(out->f)) {
		wl_error(w, e->at, b.f == 0 && e->op >= T_SLASH ? "division by zero in a constant expression"
		                                                 : "this constant expression overflows %s", wl_type_name(w, t));
		return false;
	}
	return true;
}

static bool compare(tok_kind op, bool less, bool equal)
{
	switch (op) {
	case T_EQ:
		return equal;
	case T_NE:
		return !equal;
	case T_LT:
		return less;
	case T_LE:
		return less || equal;
	case T_GT:
		return !less && !equal;
	default:
		return !less;
	}
}

static bool eval_scalar(wl *w, expr *e, const type *t, scalar a, scalar b, scalar *out)
{
	if (e->op >= T_EQ && e->op <= T_GE) {
		bool f = wl_is_float(t);
		out->i = compare(e->op, f ? a.f < b.f : a.i < b.i, f ? a.f == b.f : a.i == b.i);
		return true;
	}
	if (e->op == T_SHL || e->op == T_SHR)
		return eval_shift(w, e, t, a, b, out);
	if (t->kind == TY_BOOL) {
		out->i = e->op == T_AND || e->op == T_ANDAND ? a.i & b.i : a.i | b.i;
		return true;
	}
	return wl_is_float(t) ? eval_float(w, e, t, a, b, out) : eval_int(w, e, t, a, b, out);
}

/* Operands have their final types; either may be a scalar beside a vector. Matrix products are left to GLSL. */
value *wl_eval_binary(wl *w, expr *e)
{
	const expr *a = e->args[0], *b = e->args[1];
	bool matrix = a->type->kind == TY_MAT || b->type->kind == TY_MAT;
	if (!a->val || !b->val || (matrix && e->op == T_STAR && !wl_is_scalar(a->type) && !wl_is_scalar(b->type)))
		return NULL;
	uint32_t n = a->val->n > b->val->n ? a->val->n : b->val->n;
	value *out = wl_value(w, n);
	for (uint32_t i = 0; i < n; i++)
		if (!eval_scalar(w, e, wl_elem(a->type), a->val->c[a->val->n == 1 ? 0 : i], b->val->c[b->val->n == 1 ? 0 : i], &out->c[i]))
			return NULL;
	return out;
}

value *wl_eval_unary(wl *w, expr *e)
{
	const expr *a = e->args[0];
	if (!a->val)
		return NULL;
	const type *t = wl_elem(a->type);
	value *out = wl_value(w, a->val->n);
	for (uint32_t i = 0; i < out->n; i++) {
		scalar s = a->val->c[i];
		if (e->op == T_NOT)
			out->c[i].i = !s.i;
		else if (e->op == T_TILDE)
			out->c[i].i = t->kind == TY_U32 ? (int64_t)(uint32_t)~(uint64_t)s.i : ~s.i;
		else if (wl_is_float(t))
			out->c[i].f = -s.f;
		else if (!finish_int(w, e->at, t, s.i == INT64_MIN, s.i == INT64_MIN ? 0 : -s.i, &out->c[i]))
			return NULL;
	}
	return out;
}

static uint32_t bits_of(const type *t, scalar s)
{
	if (t->kind != TY_F32)
		return (uint32_t)s.i;
	float f = (float)s.f;
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* bitcast between 32-bit scalars and vectors of them; with f16 it is left to GLSL */
value *wl_eval_bitcast(wl *w, expr *e, const type *to)
{
	const expr *a = e->args[0];
	const type *from = wl_elem(a->type), *elem = wl_elem(to);
	if (!a->val || from->kind == TY_F16 || elem->kind == TY_F16)
		return NULL;
	value *out = wl_value(w, a->val->n);
	for (uint32_t i = 0; i < out->n; i++) {
		uint32_t u = bits_of(from, a->val->c[i]);
		if (elem->kind == TY_F32) {
			float f;
			memcpy(&f, &u, sizeof f);
			if (!isfinite(f)) {
				wl_error(w, e->at, "this constant bitcast gives no finite f32");
				return NULL;
			}
			out->c[i].f = (double)f;
		} else {
			out->c[i].i = elem->kind == TY_I32 ? (int64_t)(int32_t)u : (int64_t)u;
		}
	}
	return out;
}
