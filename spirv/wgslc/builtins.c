/* builtins: which built-in functions exist, how their arguments are typed, how GLSL spells them, and their constant results.
 *
 * A signature is "CLASS:ARGUMENTS>RESULT". CLASS says what T may be: the scalars (f float, i integer, n numeric, s signed
 * numeric, a any, b bool) and the shape (S scalar, V vector, * either). Letters of arguments and results:
 *   T that type     E its scalar        B bool in its shape    U u32 in its shape     I i32 in its shape
 *   b bool   u u32   i i32   f f32   J i32 or u32   P vec2<f32>   Q vec4<f32>   R vec4<u32>   Z vec4<i32>   v nothing
 * Templates: $1 $2 ... arguments, $T GLSL type of the result, $A of the first argument, $U and $B the u32 and bool types in the
 * shape of the first argument, #name a helper function of emit_helpers.c for the type of the first argument. */
#include "spirv/wgslc/internal.h"

#include <math.h>
#include <string.h>

#define SAME_F(name, op) {name, "f*:T>T", NULL, op, BS_NONE, 0}

static const builtin table[] = {
	{"abs", "n*:T>T", NULL, EV_ABS, BS_ABS, 0},
	SAME_F("acos", EV_ACOS), SAME_F("acosh", EV_ACOSH),
	{"all", "b*:T>b", NULL, EV_ALL, BS_TRUTH, 0},
	{"any", "b*:T>b", NULL, EV_ANY, BS_TRUTH, 0},
	{"arrayLength", NULL, NULL, EV_NONE, BS_ARRAY_LENGTH, 0},
	SAME_F("asin", EV_ASIN), SAME_F("asinh", EV_ASINH), SAME_F("atan", EV_ATAN),
	{"atan2", "f*:TT>T", "atan($1, $2)", EV_ATAN2, BS_NONE, 0},
	SAME_F("atanh", EV_ATANH),
	{"atomicAdd", NULL, "atomicAdd", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicAnd", NULL, "atomicAnd", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicCompareExchangeWeak", NULL, NULL, EV_NONE, BS_ATOMIC_CAS, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicExchange", NULL, "atomicExchange", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicLoad", NULL, NULL, EV_NONE, BS_ATOMIC_LOAD, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicMax", NULL, "atomicMax", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicMin", NULL, "atomicMin", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicOr", NULL, "atomicOr", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicStore", NULL, NULL, EV_NONE, BS_ATOMIC_STORE, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicSub", NULL, NULL, EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"atomicXor", NULL, "atomicXor", EV_NONE, BS_ATOMIC, BF_IMPURE | BF_MAY_DISCARD},
	{"bitcast", NULL, NULL, EV_NONE, BS_BITCAST, 0},
	SAME_F("ceil", EV_CEIL),
	{"clamp", "n*:TTT>T", NULL, EV_CLAMP, BS_NONE, 0},
	SAME_F("cos", EV_COS), SAME_F("cosh", EV_COSH),
	{"countLeadingZeros", "i*:T>T", "$T(31 - findMSB($U($1)))", EV_CLZ, BS_NONE, BF_CONCRETE},
	{"countOneBits", "i*:T>T", "$T(bitCount($1))", EV_POPCOUNT, BS_NONE, BF_CONCRETE},
	{"countTrailingZeros", "i*:T>T", "$T(min($U(findLSB($1)), $U(32)))", EV_CTZ, BS_NONE, BF_CONCRETE},
	{"cross", "fV:TT>T", NULL, EV_NONE, BS_NONE, 0},
	SAME_F("degrees", EV_DEGREES),
	{"determinant", NULL, NULL, EV_NONE, BS_DETERMINANT, 0},
	{"distance", "f*:TT>E", NULL, EV_NONE, BS_NONE, 0},
	{"dot", "nV:TT>E", NULL, EV_NONE, BS_DOT, 0},
	{"dot4I8Packed", ":uu>i", "#dot4I8Packed($1, $2)", EV_NONE, BS_DOT4I, 0},
	{"dot4U8Packed", ":uu>u", "#dot4U8Packed($1, $2)", EV_NONE, BS_DOT4U, 0},
	SAME_F("exp", EV_EXP), SAME_F("exp2", EV_EXP2),
	{"extractBits", "i*:Tuu>T", "#extractBits($1, $2, $3)", EV_NONE, BS_NONE, 0},
	{"faceForward", "fV:TTT>T", "faceforward($1, $2, $3)", EV_NONE, BS_NONE, 0},
	{"firstLeadingBit", "i*:T>T", "$T(findMSB($1))", EV_FIRST_LEADING, BS_NONE, BF_CONCRETE},
	{"firstTrailingBit", "i*:T>T", "$T(findLSB($1))", EV_FIRST_TRAILING, BS_NONE, BF_CONCRETE},
	SAME_F("floor", EV_FLOOR),
	{"fma", "f*:TTT>T", NULL, EV_FMA, BS_NONE, 0},
	SAME_F("fract", EV_FRACT),
	{"frexp", NULL, NULL, EV_NONE, BS_FREXP, 0},
	{"insertBits", "i*:TTuu>T", "#insertBits($1, $2, $3, $4)", EV_NONE, BS_NONE, 0},
	{"inverseSqrt", "f*:T>T", "inversesqrt($1)", EV_INVERSE_SQRT, BS_NONE, 0},
	{"ldexp", "f*:TI>T", NULL, EV_NONE, BS_NONE, 0},
	{"length", "f*:T>E", NULL, EV_NONE, BS_NONE, 0},
	SAME_F("log", EV_LOG), SAME_F("log2", EV_LOG2),
	{"max", "n*:TT>T", NULL, EV_MAX, BS_NONE, 0},
	{"min", "n*:TT>T", NULL, EV_MIN, BS_NONE, 0},
	{"mix", "f*:TTT>T", NULL, EV_MIX, BS_NONE, 0},
	{"mix", "fV:TTE>T", NULL, EV_MIX, BS_NONE, 0},
	{"modf", NULL, NULL, EV_NONE, BS_MODF, 0},
	{"normalize", "fV:T>T", NULL, EV_NONE, BS_NONE, 0},
	{"pack2x16float", ":P>u", "packHalf2x16($1)", EV_NONE, BS_NONE, 0},
	{"pack2x16snorm", ":P>u", "#pack2x16snorm($1)", EV_NONE, BS_NONE, 0},
	{"pack2x16unorm", ":P>u", "packUnorm2x16($1)", EV_NONE, BS_NONE, 0},
	{"pack4x8snorm", ":Q>u", "#pack4x8snorm($1)", EV_NONE, BS_NONE, 0},
	{"pack4x8unorm", ":Q>u", "packUnorm4x8($1)", EV_NONE, BS_NONE, 0},
	{"pack4xI8", ":Z>u", "#pack4x8(uvec4($1))", EV_NONE, BS_NONE, 0},
	{"pack4xI8Clamp", ":Z>u", "#pack4x8(uvec4(clamp($1, ivec4(-128), ivec4(127))))", EV_NONE, BS_NONE, 0},
	{"pack4xU8", ":R>u", "#pack4x8($1)", EV_NONE, BS_NONE, 0},
	{"pack4xU8Clamp", ":R>u", "#pack4x8(min($1, uvec4(255u)))", EV_NONE, BS_NONE, 0},
	{"pow", "f*:TT>T", NULL, EV_POW, BS_NONE, 0},
	{"quadBroadcast", "n*:TJ>T", "subgroupQuadBroadcast($1, uint($2))", EV_NONE, BS_NONE, BF_SUBGROUP | BF_CONST_LAST},
	{"quadSwapDiagonal", "n*:T>T", "subgroupQuadSwapDiagonal($1)", EV_NONE, BS_NONE, BF_SUBGROUP},
	{"quadSwapX", "n*:T>T", "subgroupQuadSwapHorizontal($1)", EV_NONE, BS_NONE, BF_SUBGROUP},
	{"quadSwapY", "n*:T>T", "subgroupQuadSwapVertical($1)", EV_NONE, BS_NONE, BF_SUBGROUP},
	{"quantizeToF16", "f*:T>T", "#quantizeToF16($1)", EV_NONE, BS_NONE, 0},
	SAME_F("radians", EV_RADIANS),
	{"reflect", "fV:TT>T", NULL, EV_NONE, BS_NONE, 0},
	{"refract", "fV:TTE>T", NULL, EV_NONE, BS_NONE, 0},
	{"reverseBits", "i*:T>T", "bitfieldReverse($1)", EV_REVERSE, BS_NONE, BF_CONCRETE},
	{"round", "f*:T>T", "roundEven($1)", EV_ROUND, BS_NONE, 0},
	{"saturate", "f*:T>T", "clamp($1, $T(0), $T(1))", EV_SATURATE, BS_NONE, 0},
	{"select", "a*:TTb>T", NULL, EV_SELECT, BS_SELECT, 0},
	{"select", "aV:TTB>T", NULL, EV_SELECT, BS_SELECT, 0},
	{"sign", "s*:T>T", NULL, EV_SIGN, BS_NONE, 0},
	SAME_F("sin", EV_SIN), SAME_F("sinh", EV_SINH),
	{"smoothstep", "f*:TTT>T", NULL, EV_SMOOTHSTEP, BS_NONE, 0},
	SAME_F("sqrt", EV_SQRT),
	{"step", "f*:TT>T", NULL, EV_STEP, BS_NONE, 0},
	{"storageBarrier", ":>v", "#storageBarrier()", EV_NONE, BS_NONE, BF_IMPURE},
	{"subgroupAdd", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupAll", ":b>b", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupAnd", "i*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupAny", ":b>b", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupBallot", ":b>R", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupBroadcast", "n*:TJ>T", "subgroupBroadcast($1, uint($2))", EV_NONE, BS_NONE, BF_SUBGROUP | BF_CONST_LAST},
	{"subgroupBroadcastFirst", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupElect", ":>b", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupExclusiveAdd", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupExclusiveMul", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupInclusiveAdd", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupInclusiveMul", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupMatrixLoad", NULL, NULL, EV_NONE, BS_MATRIX_LOAD, 0},
	{"subgroupMatrixMultiply", NULL, NULL, EV_NONE, BS_MATRIX_MULTIPLY, 0},
	{"subgroupMatrixMultiplyAccumulate", NULL, NULL, EV_NONE, BS_MATRIX_MULADD, 0},
	{"subgroupMatrixScalarAdd", NULL, "+", EV_NONE, BS_MATRIX_SCALAR, 0},
	{"subgroupMatrixScalarMultiply", NULL, "*", EV_NONE, BS_MATRIX_SCALAR, 0},
	{"subgroupMatrixScalarSubtract", NULL, "-", EV_NONE, BS_MATRIX_SCALAR, 0},
	{"subgroupMatrixStore", NULL, NULL, EV_NONE, BS_MATRIX_STORE, BF_IMPURE},
	{"subgroupMax", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupMin", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupMul", "n*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupOr", "i*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupShuffle", "n*:TJ>T", "subgroupShuffle($1, uint($2))", EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupShuffleDown", "n*:Tu>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupShuffleUp", "n*:Tu>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupShuffleXor", "n*:Tu>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	{"subgroupXor", "i*:T>T", NULL, EV_NONE, BS_NONE, BF_SUBGROUP},
	SAME_F("tan", EV_TAN), SAME_F("tanh", EV_TANH),
	{"transpose", NULL, NULL, EV_NONE, BS_TRANSPOSE, 0},
	SAME_F("trunc", EV_TRUNC),
	{"unpack2x16float", ":u>P", "unpackHalf2x16($1)", EV_NONE, BS_NONE, 0},
	{"unpack2x16snorm", ":u>P", "unpackSnorm2x16($1)", EV_NONE, BS_NONE, 0},
	{"unpack2x16unorm", ":u>P", "unpackUnorm2x16($1)", EV_NONE, BS_NONE, 0},
	{"unpack4x8snorm", ":u>Q", "unpackSnorm4x8($1)", EV_NONE, BS_NONE, 0},
	{"unpack4x8unorm", ":u>Q", "unpackUnorm4x8($1)", EV_NONE, BS_NONE, 0},
	{"unpack4xI8", ":u>Z", "#unpack4xI8($1)", EV_NONE, BS_NONE, 0},
	{"unpack4xU8", ":u>R", "#unpack4xU8($1)", EV_NONE, BS_NONE, 0},
	{"workgroupBarrier", ":>v", "barrier()", EV_NONE, BS_NONE, BF_IMPURE},
	{"workgroupUniformLoad", NULL, NULL, EV_NONE, BS_UNIFORM_LOAD, BF_IMPURE},
	{NULL, NULL, NULL, EV_NONE, BS_NONE, 0},
};

void wl_builtins_init(wl *w)
{
	for (const builtin *b = table; b->name; b++) {
		sym *s = wl_intern(w, b->name, strlen(b->name));
		if (!s->fn)
			s->fn = b;
	}
}

/* ---- constant results ---- */

static double unary(eval_op op, double x)
{
	const double pi = 3.14159265358979323846;
	switch (op) {
	case EV_ABS:
		return fabs(x);
	case EV_ACOS:
		return acos(x);
	case EV_ACOSH:
		return acosh(x);
	case EV_ASIN:
		return asin(x);
	case EV_ASINH:
		return asinh(x);
	case EV_ATAN:
		return atan(x);
	case EV_ATANH:
		return atanh(x);
	case EV_CEIL:
		return ceil(x);
	case EV_COS:
		return cos(x);
	case EV_COSH:
		return cosh(x);
	case EV_DEGREES:
		return x * (180.0 / pi);
	case EV_EXP:
		return exp(x);
	case EV_EXP2:
		return exp2(x);
	case EV_FLOOR:
		return floor(x);
	case EV_FRACT:
		return x - floor(x);
	case EV_INVERSE_SQRT:
		return 1.0 / sqrt(x);
	case EV_LOG:
		return log(x);
	case EV_LOG2:
		return log2(x);
	case EV_RADIANS:
		return x * (pi / 180.0);
	case EV_ROUND:
		return nearbyint(x);
	case EV_SATURATE:
		return x < 0 ? 0 : x > 1 ? 1 : x;
	case EV_SIGN:
		return x > 0 ? 1 : x < 0 ? -1 : 0;
	case EV_SIN:
		return sin(x);
	case EV_SINH:
		return sinh(x);
	case EV_SQRT:
		return sqrt(x);
	case EV_TAN:
		return tan(x);
	case EV_TANH:
		return tanh(x);
	default:
		return trunc(x);
	}
}

static double several(eval_op op, double a, double b, double c)
{
	double t;
	switch (op) {
	case EV_ATAN2:
		return atan2(a, b);
	case EV_CLAMP:
		return fmin(fmax(a, b), c);
	case EV_FMA:
		return a * b + c;
	case EV_MAX:
		return a > b ? a : b;
	case EV_MIN:
		return a < b ? a : b;
	case EV_MIX:
		return a * (1.0 - c) + b * c;
	case EV_POW:
		return pow(a, b);
	case EV_STEP:
		return a <= b ? 1.0 : 0.0;
	default: /* EV_SMOOTHSTEP */
		t = (c - a) / (b - a);
		t = t < 0 ? 0 : t > 1 ? 1 : t;
		return t * t * (3.0 - 2.0 * t);
	}
}

/* Of the 32 bits of an i32 or u32; false: not one of them. */
static bool eval_bits(const type *t, eval_op op, int64_t a, int64_t *out)
{
	uint32_t u = (uint32_t)a, r = 0;
	bool leading_ones = op == EV_FIRST_LEADING && t->kind == TY_I32 && a < 0;
	uint32_t v = leading_ones ? ~u : u;
	switch (op) {
	case EV_CLZ:
		r = u ? (uint32_t)__builtin_clz(u) : 32;
		break;
	case EV_POPCOUNT:
		r = (uint32_t)__builtin_popcount(u);
		break;
	case EV_CTZ:
		r = u ? (uint32_t)__builtin_ctz(u) : 32;
		break;
	case EV_FIRST_LEADING:
		r = v ? 31u - (uint32_t)__builtin_clz(v) : UINT32_MAX;
		break;
	case EV_FIRST_TRAILING:
		r = u ? (uint32_t)__builtin_ctz(u) : UINT32_MAX;
		break;
	case EV_REVERSE:
		for (int i = 0; i < 32; i++)
			r |= (u >> i & 1u) << (31 - i);
		break;
	default:
		return false;
	}
	*out = t->kind == TY_I32 ? (int64_t)(int32_t)r : (int64_t)r;
	return true;
}

/* The integer forms exist for these alone; -1: not one of them. */
static int eval_int_op(const type *t, eval_op op, int64_t a, int64_t b, int64_t c, int64_t *out)
{
	switch (op) {
	case EV_ABS:
		*out = a < 0 ? (t->kind == TY_I32 ? (int64_t)(int32_t)(uint32_t)-a : -a) : a;
		return a == INT64_MIN ? -1 : 0;
	case EV_SIGN:
		*out = a > 0 ? 1 : a < 0 ? -1 : 0;
		return 0;
	case EV_MAX:
		*out = a > b ? a : b;
		return 0;
	case EV_MIN:
		*out = a < b ? a : b;
		return 0;
	case EV_CLAMP:
		*out = a > b ? a : b;
		*out = *out < c ? *out : c;
		return 0;
	default:
		return -1;
	}
}

static value *eval_truth(wl *w, expr *e)
{
	value *out = wl_value(w, 1);
	bool all = e->fn->eval == EV_ALL;
	out->c[0].i = all;
	for (uint32_t i = 0; i < e->args[0]->val->n; i++)
		if ((e->args[0]->val->c[i].i != 0) != all)
			out->c[0].i = !all;
	return out;
}

static scalar component(const expr *e, uint32_t arg, uint32_t i)
{
	const scalar none = {.i = 0};
	if (arg >= e->n_args)
		return none;
	const value *v = e->args[arg]->val;
	return v->c[v->n == 1 ? 0 : i];
}

/* All arguments have their final types and values. NULL without a message: leave it to GLSL. */
value *wl_eval_builtin(wl *w, expr *e)
{
	eval_op op = e->fn->eval;
	if (op == EV_NONE)
		return NULL;
	for (uint32_t i = 0; i < e->n_args; i++)
		if (!e->args[i]->val)
			return NULL;
	if (op == EV_ALL || op == EV_ANY)
		return eval_truth(w, e);
	const type *t = wl_elem(e->args[0]->type);
	value *out = wl_value(w, e->args[0]->val->n);
	for (uint32_t i = 0; i < out->n; i++) {
		scalar a = component(e, 0, i), b = component(e, 1, i), c = component(e, 2, i);
		if (op == EV_SELECT) {
			out->c[i] = c.i ? b : a;
		} else if (!wl_is_float(t)) {
			if (!eval_bits(t, op, a.i, &out->c[i].i) && eval_int_op(t, op, a.i, b.i, c.i, &out->c[i].i) < 0)
				return NULL;
		} else {
			out->c[i].f = wl_round(t, e->n_args == 1 ? unary(op, a.f) : several(op, a.f, b.f, c.f));
			if (!isfinite(out->c[i].f)) {
				wl_error(w, e->at, "%s: this constant expression has no finite value", e->fn->name);
				return NULL;
			}
		}
	}
	return out;
}
