/* emit_helpers: GLSL functions for what WGSL has as an operator or built-in function and GLSL has not, or defines less fully.
 *
 * In the texts $T is the type helped, $E its scalar, $U and $I and $B the same shape of uint, int and bool, $H the result structure. */
#include "spirv/wgslc/emit.h"

#include <string.h>

static const struct {
	const char *name, *text;
} helpers[] = {
	/* x / 0 = x and x % 0 = 0; the most negative number / -1 = itself, remainder 0 */
	{"guard:u", "$T h_guard($T a, $T b) { return mix(b, $T(1), h_eq(b, $T(0))); }\n"},
	{"guard:i", "$T h_guard($T a, $T b) { return mix(b, $T(1), h_or(h_eq(b, $T(0)), h_and(h_eq(b, $T(-1)), h_eq(a, $T(-2147483647 - 1))))); }\n"},
	{"div:i", "$T h_div($T a, $T b) { return a / h_guard(a, b); }\n"},
	{"rem:u", "$T h_rem($T a, $T b) { return a % h_guard(a, b); }\n"},
	{"rem:i", "$T h_rem($T a, $T b) { $T d = h_guard(a, b); return a - a / d * d; }\n"},
	{"fmod:f", "$T h_fmod($T a, $T b) { return a - b * trunc(a / b); }\n"},
	/* conversion saturates */
	{"f2i:f", "$I h_f2i($T x) { return $I(clamp(x, $T(-2147483648.0), $T(2147483520.0))); }\n"},
	{"f2u:f", "$U h_f2u($T x) { return $U(clamp(x, $T(0.0), $T(4294967040.0))); }\n"},
	{"zero:", "$T h_zero_$K() { $T r = {}; return r; }\n"},
	{"extractBits:i", "$T h_extractBits($T e, uint o, uint c) { uint s = min(o, 32u); return bitfieldExtract(e, int(s), int(min(c, 32u - s))); }\n"},
	{"insertBits:i", "$T h_insertBits($T e, $T n, uint o, uint c) { uint s = min(o, 32u); return bitfieldInsert(e, n, int(s), int(min(c, 32u - s))); }\n"},
	{"pack4x8:", "uint h_pack4x8(uvec4 v) { v = (v & 255u) << uvec4(0, 8, 16, 24); return v.x | v.y | v.z | v.w; }\n"},
	/* Mesa 22 folds packSnorm of constants wrongly, and GLSL leaves the rounding open */
	{"pack4x8snorm:", "uint h_pack4x8snorm(vec4 v) { return h_pack4x8(uvec4(ivec4(floor(0.5 + 127.0 * clamp(v, -1.0, 1.0))))); }\n"},
	{"pack2x16snorm:", "uint h_pack2x16snorm(vec2 v) { uvec2 u = uvec2(ivec2(floor(0.5 + 32767.0 * clamp(v, -1.0, 1.0)))) & 65535u; "
	                   "return u.x | u.y << 16; }\n"},
	{"unpack4xI8:", "ivec4 h_unpack4xI8(uint p) { return ivec4(uvec4(p) << uvec4(24, 16, 8, 0)) >> 24; }\n"},
	{"unpack4xU8:", "uvec4 h_unpack4xU8(uint p) { return (uvec4(p) >> uvec4(0, 8, 16, 24)) & 255u; }\n"},
	{"quantizeToF16:1", "float h_quantizeToF16(float x) { return unpackHalf2x16(packHalf2x16(vec2(x, 0.0))).x; }\n"},
	{"quantizeToF16:2", "vec2 h_quantizeToF16(vec2 v) { return unpackHalf2x16(packHalf2x16(v)); }\n"},
	{"quantizeToF16:3", "vec3 h_quantizeToF16(vec3 v) { return vec3(unpackHalf2x16(packHalf2x16(v.xy)), unpackHalf2x16(packHalf2x16(v.zz)).x); }\n"},
	{"quantizeToF16:4", "vec4 h_quantizeToF16(vec4 v) { return vec4(unpackHalf2x16(packHalf2x16(v.xy)), unpackHalf2x16(packHalf2x16(v.zw))); }\n"},
	{"dot:2", "$E h_dot($T a, $T b) { $T p = a * b; return p.x + p.y; }\n"},
	{"dot:3", "$E h_dot($T a, $T b) { $T p = a * b; return p.x + p.y + p.z; }\n"},
	{"dot:4", "$E h_dot($T a, $T b) { $T p = a * b; return p.x + p.y + p.z + p.w; }\n"},
	{"dot4I8Packed:", "int h_dot4I8Packed(uint a, uint b) { ivec4 p = (ivec4(uvec4(a) << uvec4(24, 16, 8, 0)) >> 24) * "
	                  "(ivec4(uvec4(b) << uvec4(24, 16, 8, 0)) >> 24); return p.x + p.y + p.z + p.w; }\n"},
	{"dot4U8Packed:", "uint h_dot4U8Packed(uint a, uint b) { uvec4 p = ((uvec4(a) >> uvec4(0, 8, 16, 24)) & 255u) * "
	                  "((uvec4(b) >> uvec4(0, 8, 16, 24)) & 255u); return p.x + p.y + p.z + p.w; }\n"},
	{"native_dot4I8Packed:", "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6019, 6018], id = 4450) "
	                         "int h_sdot(uint a, uint b, spirv_literal int format);\n"
	                         "int h_native_dot4I8Packed(uint a, uint b) { return h_sdot(a, b, 0); }\n"},
	{"native_dot4U8Packed:", "spirv_instruction(extensions = [\"SPV_KHR_integer_dot_product\"], capabilities = [6019, 6018], id = 4451) "
	                         "uint h_udot(uint a, uint b, spirv_literal int format);\n"
	                         "uint h_native_dot4U8Packed(uint a, uint b) { return h_udot(a, b, 0); }\n"},
	{"storageBarrier:", "void h_storageBarrier() { controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, "
	                    "gl_SemanticsAcquireRelease); }\n"},
	{"cas:i", "$H h_cas($T old, $T wanted) { return $H(old, old == wanted); }\n$T h_wanted_$T;\n"},
	{"frexp:f", "$H h_frexp($T x) { $I e; $T f = frexp(x, e); return $H(f, e); }\n"},
	{"modf:f", "$H h_modf($T x) { $T whole; $T f = modf(x, whole); return $H(f, whole); }\n"},
	{"h2u:", "uvec2 h_h2u(f16vec4 v) { return uvec2(packFloat2x16(v.xy), packFloat2x16(v.zw)); }\n"},
	{"u2h:", "f16vec4 h_u2h(uvec2 v) { return f16vec4(unpackFloat2x16(v.x), unpackFloat2x16(v.y)); }\n"},
	{"index:", "int h_index(int i) { return i; }\n"},
	/* comparison and logic that read alike for scalars and vectors */
	{"eq:1", "bool h_eq($T a, $T b) { return a == b; }\n"},
	{"eq:", "$B h_eq($T a, $T b) { return equal(a, b); }\n"},
	{"and:", "$B h_and($B a, $B b) { return $B($U(a) & $U(b)); }\n"},
	{"or:", "$B h_or($B a, $B b) { return $B($U(a) | $U(b)); }\n"},
};

static const char *const uses[][5] = { /* helpers that call others */
	{"pack4x8snorm", "pack4x8"}, {"div", "guard"}, {"rem", "guard"}, {"guard", "eq"}, {"guard:i", "and", "or"},
};

/* ":u" for unsigned, ":i" for integers, ":f" for floats, ":N" for N components, ":" for all. */
static bool matches(const char *kind, const type *t)
{
	char c = kind[0];
	if (!c || !t)
		return !c;
	const type *s = wl_elem(t);
	if (c >= '1' && c <= '4')
		return (t->kind == TY_VEC ? t->n : 1) == c - '0';
	return c == 'u' ? s->kind == TY_U32 : c == 'i' ? wl_is_int(s) : wl_is_float(s);
}

static const char *result_name(emitter *em, const char *name, const type *t)
{
	bool cas = strcmp(name, "cas") == 0;
	const char *s = cas ? wl_printf(em->w, "__atomic_compare_exchange_result_%s", wl_type_name(em->w, t))
	                    : wl_printf(em->w, "__%s_result_%s%u", name, wl_elem(t)->kind == TY_F16 ? "f16_" : "f32_", t->kind == TY_VEC ? t->n : 1u);
	return em_type(em, wl_intern(em->w, s, strlen(s))->bound->type);
}

static void expand(emitter *em, rp_buf *b, const char *text, const char *name, const type *t, uint32_t serial)
{
	wl *w = em->w;
	for (const char *p = text; *p; p++) {
		if (*p != '$') {
			rp_buf_addc(b, *p);
			continue;
		}
		switch (*++p) {
		case 'T':
			rp_buf_adds(b, em_type(em, t));
			break;
		case 'E':
			rp_buf_adds(b, em_type(em, wl_elem(t)));
			break;
		case 'U':
			rp_buf_adds(b, em_type(em, wl_with_elem(w, t, w->t_u32)));
			break;
		case 'I':
			rp_buf_adds(b, em_type(em, wl_with_elem(w, t, w->t_i32)));
			break;
		case 'B':
			rp_buf_adds(b, em_type(em, wl_with_elem(w, t, w->t_bool)));
			break;
		case 'K':
			rp_buf_addf(b, "%u", serial);
			break;
		default:
			rp_buf_adds(b, result_name(em, name, t));
			break;
		}
	}
}

static bool already(emitter *em, const char *key)
{
	for (uint32_t i = 0; i < em->n_helpers; i++)
		if (strcmp(em->helper_keys[i], key) == 0)
			return true;
	if (em->n_helpers == em->cap_helpers) {
		uint32_t cap = em->cap_helpers ? em->cap_helpers * 2 : 32;
		const char **bigger = wl_array(em->w, cap, sizeof *bigger);
		if (em->n_helpers)
			memcpy(bigger, em->helper_keys, em->n_helpers * sizeof *bigger);
		em->helper_keys = bigger;
		em->cap_helpers = cap;
	}
	em->helper_keys[em->n_helpers++] = key;
	return false;
}

static void needed_extensions(emitter *em, const char *name)
{
	if (strcmp(name, "zero") == 0)
		em->needs |= NEED_NULL_INIT;
	if (strcmp(name, "storageBarrier") == 0)
		em->needs |= NEED_SCOPE;
	if (strncmp(name, "native_", 7) == 0)
		em->needs |= NEED_INTRINSICS | NEED_INT_DOT;
}

const char *em_helper(emitter *em, const char *name, const type *t)
{
	size_t n = strlen(name), k = 0;
	const char *result = strcmp(name, "zero") == 0 ? wl_printf(em->w, "h_zero_%u", t->serial) : wl_printf(em->w, "h_%s", name);
	for (; k < sizeof helpers / sizeof *helpers; k++)
		if (strncmp(helpers[k].name, name, n) == 0 && helpers[k].name[n] == ':' && matches(helpers[k].name + n + 1, t))
			break;
	if (k == sizeof helpers / sizeof *helpers)
		return result;
	uint32_t serial = t && strchr(helpers[k].text, '$') ? t->serial : 0; /* without $ one text serves all types */
	if (already(em, wl_printf(em->w, "%s %u", helpers[k].name, serial)))
		return result;
	needed_extensions(em, name);
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (strcmp(uses[i][0], name) == 0 || strcmp(uses[i][0], helpers[k].name) == 0)
			for (size_t u = 1; u < 5 && uses[i][u]; u++)
				em_helper(em, uses[i][u], t);
	rp_buf b;
	rp_buf_init(&b, 0);
	expand(em, &b, helpers[k].text, name, t, serial);
	rp_buf_adds(&em->helpers, em_text(em, &b));
	return result;
}
