/* wgslc's library part: messages with their places, and properties of the GLSL it makes. What the GLSL computes is tested in
 * test_wgsl_run.c, the breadth of the language by tests/spirv/check. */
#include "spirv/wgslc/wgslc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ENTRY "@compute @workgroup_size(1) fn main() "
#define MATRICES "enable chromium_experimental_subgroup_matrix;\n"
#define SHARED "var<workgroup> s: array<f32, 64>;\n"

typedef struct error_case {
	const char *source, *expected; /* "LINE:COLUMN: part of the message" */
} error_case;

static void expect_error(const error_case *c)
{
	wgsl_module *m = NULL;
	rp_error err = {0};
	size_t n;
	rp_code rc = wgsl_check(c->source, strlen(c->source), &m, &err);
	const char *place_end = strstr(c->expected, ": ") + 2;
	if (rc != RP_FORMAT && rc != RP_UNSUPPORTED)
		fail_msg("accepted: %s", c->source);
	if (strncmp(err.msg, c->expected, (size_t)(place_end - c->expected)) != 0 || !strstr(err.msg, place_end))
		fail_msg("source: %s\nexpected: %s\nfound:    %s", c->source, c->expected, err.msg);
	assert_non_null(m);
	wgsl_diagnostics(m, &n);
	assert_true(n >= 1);
	wgsl_free(m);
}

static void test_messages(void **state)
{
	static const error_case cases[] = {
		/* lexer */
		{"const a = 1;\n  /* never\nends", "2:3: block comment"},
		{"const a = 12ab;", "1:11: malformed number"},
		{"const a = 4294967296u;", "1:11: too large for u32"},
		{"const a = 1e39f;", "1:11: too large for f32"},
		{"const a = 70000h;", "1:11: too large for f16"},
		{"const a = #;", "1:11: unexpected character '#'"},
		{"const a = 1;\nconst b = '\xc3\xa9';", "2:11: unexpected character"},
		{"const h\xc3\xa9llo = x;", "1:15: unknown name 'x'"},
		{"const enum = 1;", "1:7: 'enum' is a reserved word"},
		{"\xff", "1:1: not UTF-8"},
		/* parser */
		{"const a = 1\nconst b = 2;", "2:1: expected ';' after the declaration, found 'const'"},
		{"fn f( { }", "1:7: expected a parameter name, found '{'"},
		{"fn f() { var = 1; }", "1:14: expected a name, found '='"},
		{"fn f() { let if = 1; }", "1:14: 'if' is a keyword"},
		{"fn f() { let a; }", "1:15: expected '='"},
		{"fn f() { 1 + 2; }", "1:10: expected a statement"},
		{"fn f() { a[0; }", "1:13: expected ']' after the index"},
		{"fn f() { loop { continuing {} a = 1; } }", "1:31: 'continuing' comes last"},
		{"fn f() { return", "1:16: found the end of the file"},
		{"fn f(a: i32) -> bool { return 1 + 2 << 3 == 4; }", "1:37: mixing '+' and '<<' needs parentheses"},
		{"let a = 1;", "1:1: 'let' stands only in functions"},
		{"@vertex fn f() {}", "1:2: only compute shaders"},
		{"enable chromium_magic;", "1:8: the extension 'chromium_magic' is not supported"},
		{"requires time_travel;", "1:10: the language feature 'time_travel'"},
		/* types and constants */
		{"const a: u32 = -1;", "1:16: the value -1 does not fit u32"},
		{"const a: f32 = 1e40;", "1:16: the value 1e+40 does not fit f32"},
		{"const a = 1 / 0;", "1:13: division by zero"},
		{"const a = vec2(1, 2)[2];", "1:22: index 2 is outside vec2<abstract-int>"},
		{"const a = vec3<f32>(1, 2);", "1:11: vec3<f32>(...) takes 3 components, found 2"},
		{"const a = b; const b = a;", "1:7: 'a' is defined by way of itself"},
		{"struct S { a: S }", "1:8: 'S' is defined by way of itself"},
		{"override n = 4; const m = n;", "1:27: is not a constant expression; 'override' may use overrides"},
		{"const_assert 1 > 2;", "1:16: const_assert failed"},
		{"var<private> a: array<u32, 0>;", "1:28: an array of 0 elements"},
		{"var<private> a: vec5<f32>;", "1:17: unknown type 'vec5'"},
		{"fn f(a: f16) {}", "1:9: enable f16;"},
		/* expressions */
		{"fn f(a: u32, b: i32) -> u32 { return a + b; }", "1:40: no operator '+' for u32 and i32 (there is no implicit conversion)"},
		{"fn f(a: u32) -> i32 { return a; }", "1:30: returned value: expected i32, found u32 (write i32(...) to convert)"},
		{"fn f(v: vec3f) -> f32 { return v.w; }", "1:34: 'w' is no component or swizzle of vec3<f32>"},
		{"struct S { a: u32 } fn f(s: S) -> u32 { return s.b; }", "1:50: structure S has no member 'b'"},
		{"fn f(a: i32) -> f32 { return sqrt(a); }", "1:30: no built-in function sqrt(i32)"},
		{"fn f(a: i32) { g(a); }", "1:16: unknown function 'g'"},
		{"fn g(a: i32) {} fn f() { g(1.5); }", "1:28: argument 'a' of g: expected i32"},
		{"fn f() { min(1, 2); }", "1:10: the result of min must be used"},
		{"fn f(x: f32) -> f32 { return subgroupAdd(x); }", "1:30: enable subgroups;"},
		{"var<workgroup> a: atomic<u32>; fn f() -> u32 { return a; }", "1:55: atomicLoad"},
		/* subgroup matrices */
		{"fn f() { var m: subgroup_matrix_left<f32, 8, 8>; }", "1:17: enable chromium_experimental_subgroup_matrix;"},
		{MATRICES "fn f() { var m: subgroup_matrix_left<f32, 8>; }", "2:17: needs 3 template arguments, found 2"},
		{MATRICES "override n = 8; fn f() { var m: subgroup_matrix_left<f32, 8, n>; }", "2:62: rows of a subgroup matrix must be a positive"},
		{MATRICES "fn f() { var m: subgroup_matrix_left<f32, 0, 8>; }", "2:43: columns of a subgroup matrix must be a positive"},
		{MATRICES "fn f() { var m: subgroup_matrix_left<bool, 8, 8>; }", "2:38: is of f32, f16, i32 or u32, found bool"},
		{MATRICES "fn f() { var m: subgroup_matrix_left<i8, 8, 8>; }", "2:38: subgroup matrices of i8 are not supported"},
		{MATRICES "fn f() { var m: subgroup_matrix_left<f32, 200, 8>; }", "2:43: 200 columns is not supported; at most 128"},
		{MATRICES "var<workgroup> m: subgroup_matrix_left<f32, 8, 8>;", "2:16: subgroup matrices live in functions"},
		{MATRICES "var<private> m: subgroup_matrix_left<f32, 8, 8>;", "2:14: cannot be a private variable"},
		{MATRICES "fn f(a: subgroup_matrix_left<f32, 4, 8>, b: subgroup_matrix_right<f32, 8, 8>) { let c = subgroupMatrixMultiply<f32>(a, b); }",
		 "2:89: found (subgroup_matrix_left<f32, 4, 8>, subgroup_matrix_right<f32, 8, 8>)"},
		{MATRICES SHARED "fn f() { let m = subgroupMatrixLoad<subgroup_matrix_left<f32, 8, 8>, diagonal>(&s, 0, 8); }",
		 "3:70: expected row_major or col_major"},
		{MATRICES SHARED "fn f() { let m = subgroupMatrixLoad<subgroup_matrix_left<f32, 8, 8>, row_major>(&s, 0, 7); }",
		 "3:88: a stride of 7 elements (28 bytes) is less than subgroup_matrix_left<f32, 8, 8> takes (32 bytes)"},
		{MATRICES SHARED "fn f() { let m = subgroupMatrixLoad<subgroup_matrix_left<f32, 8, 8>, row_major>(&s, 0.5, 8); }", "3:85: the offset must be"},
		{MATRICES SHARED "fn f() { let m = subgroupMatrixLoad<f32, row_major>(&s, 0, 8); }", "3:37: needs a subgroup matrix, found f32"},
		{MATRICES SHARED "fn f() { subgroupMatrixStore<row_major>(&s, 0, 8); }", "3:10: takes 4 arguments, found 3"},
		/* statements */
		{"fn f() { let a = 1; a = 2; }", "1:21: 'let' names a value; use 'var'"},
		{"fn f(a: i32) { a = 2; }", "1:16: parameters cannot change"},
		{"@group(0) @binding(0) var<storage> a: array<u32>; fn f() { a[0] = 1; }", "1:61: declare var<storage, read_write>"},
		{"fn f(a: i32) { if a {} }", "1:19: condition of if must be bool, found i32"},
		{"fn f(a: i32) { switch a { case 1 {} } }", "1:16: a switch needs a default"},
		{"fn f(a: i32) -> i32 { if a > 1 { return 1; } }", "1:4: 'f' can end without returning i32"},
		{"fn f() { break; }", "1:10: 'break' outside"},
		{"fn f() { g(); } fn g() { f(); }", "1:4: no recursion"},
		/* variables */
		{"var<storage> a: array<u32>;", "1:14: needs @group and @binding"},
		{"@group(0) @binding(0) var<storage> a: array<bool>;", "1:36: bool has no size in memory"},
		{"@group(0) @binding(0) var<uniform> a: array<f32, 4>;", "1:36: multiple of 16 bytes"},
		{"var a = 1;", "1:5: needs an address space"},
		{"@compute @workgroup_size(1) fn main(a: u32) {}", "1:37: needs @builtin"},
		{"@compute fn main() {}", "1:13: needs @workgroup_size"},
		{"@id(3) override a = 1; @id(3) override b = 2;", "1:28: @id(3) is used twice"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect_error(&cases[i]);
}

static void test_shown(void **state)
{
	const char source[] = "const a = 1;\n\tconst b\xc3\xa9 = c;\r\nfn f() { d(); }";
	wgsl_module *m = NULL;
	size_t n;
	(void)state;
	assert_int_equal(wgsl_check(source, strlen(source), &m, NULL), RP_FORMAT);
	const wgsl_diagnostic *d = wgsl_diagnostics(m, &n);
	assert_int_equal(n, 2); /* one error does not hide the other */
	assert_int_equal(d[1].line, 3);
	char *text = wgsl_show_diagnostic(m, 0, "k.wgsl");
	assert_string_equal(text, "k.wgsl:2:13: error: unknown name 'c'\n\tconst b\xc3\xa9 = c;\n\t           ^\n");
	free(text);
	assert_null(wgsl_show_diagnostic(m, 2, "k.wgsl"));
	wgsl_free(m);
}

static void test_recovery(void **state)
{
	const char source[] = "fn f() { let = 1; }\nfn g() { var x: u32 = 1.5; let y = z; }\nconst c = ;\nfn h() { y(; }";
	wgsl_module *m = NULL;
	size_t n;
	(void)state;
	assert_int_equal(wgsl_check(source, strlen(source), &m, NULL), RP_FORMAT);
	const wgsl_diagnostic *d = wgsl_diagnostics(m, &n); /* syntax errors of every declaration; types only when there are none */
	assert_int_equal(n, 3);
	assert_int_equal(d[0].line, 1);
	assert_int_equal(d[1].line, 3);
	assert_int_equal(d[2].line, 4);
	wgsl_free(m);
}

/* Hostile sources end with a message, not with the stack or the memory. */
static void repeat(rp_buf *b, const char *s, unsigned n)
{
	while (n--)
		rp_buf_adds(b, s);
}

static rp_code check_buf(rp_buf *b)
{
	wgsl_module *m = NULL;
	assert_false(b->failed);
	rp_code rc = wgsl_check(b->data, b->len, &m, NULL);
	wgsl_free(m);
	rp_buf_clear(b);
	return rc;
}

static void test_bounds(void **state)
{
	rp_buf b;
	(void)state;
	rp_buf_init(&b, 0);
	rp_buf_adds(&b, "const a = ");
	repeat(&b, "(", 100000);
	assert_int_equal(check_buf(&b), RP_FORMAT);
	rp_buf_adds(&b, "const a = 1");
	repeat(&b, " + 1", 100000);
	assert_int_equal(check_buf(&b), RP_FORMAT);
	rp_buf_adds(&b, "fn f() ");
	repeat(&b, "{", 100000);
	assert_int_equal(check_buf(&b), RP_FORMAT);
	rp_buf_adds(&b, "var<private> a: ");
	repeat(&b, "array<", 100000);
	assert_int_equal(check_buf(&b), RP_FORMAT);
	for (unsigned i = 0; i < 20000; i++) /* each needs the next */
		rp_buf_addf(&b, "const a%u = a%u + 1;\n", i, i + 1);
	rp_buf_adds(&b, "const a20000 = 1;");
	assert_int_equal(check_buf(&b), RP_FORMAT);
	rp_buf_adds(&b, "struct S0 { a: u32 }\n");
	for (unsigned i = 1; i < 100; i++) /* doubles every time */
		rp_buf_addf(&b, "struct S%u { a: S%u, b: S%u }\n", i, i - 1, i - 1);
	rp_buf_adds(&b, "var<private> x: S99;");
	assert_int_equal(check_buf(&b), RP_FORMAT);
	rp_buf_free(&b);
}

/* ---- GLSL ---- */

static char *glsl_of(const char *source, const char *entry, const wgsl_options *o)
{
	wgsl_module *m = NULL;
	rp_error err = {0};
	char *text = NULL;
	if (wgsl_check(source, strlen(source), &m, &err) != RP_OK || wgsl_to_glsl(m, entry, o, &text, &err) != RP_OK)
		fail_msg("%s", err.msg);
	wgsl_free(m);
	return text;
}

static void expect_glsl(const char *source, const wgsl_options *o, const char *part)
{
	char *text = glsl_of(source, "main", o);
	if (!strstr(text, part))
		fail_msg("expected: %s\nin:\n%s", part, text);
	free(text);
}

static void test_glsl(void **state)
{
	const wgsl_options plain = {.workgroup_init = true}, ours = {.push = true, .native_dot = true};
	const char *shared = "var<workgroup> a: array<u32, 4>; " ENTRY "{ a[0] = 1; }";
	const char *uniform = "struct P { n: u32 } @group(0) @binding(3) var<uniform> p: P; var<private> x: u32; " ENTRY "{ x = p.n; }";
	const char *dot = "requires packed_4x8_integer_dot_product; var<private> x: i32; " ENTRY "{ var a = 1u; x = dot4I8Packed(a, a); }";
	(void)state;
	expect_glsl("override a: u32 = 7; @id(0) override b = 2; override c = 1.5; var<private> x: f32; " ENTRY "{ x = f32(a) + c; }", &plain,
	            "layout(constant_id = 1) const uint w_a = 7u;\nlayout(constant_id = 2) const float w_c = 1.5;\n");
	expect_glsl("override wg = 64u; @compute @workgroup_size(wg, 2) fn main() {}", &plain,
	            "layout(local_size_x = 64, local_size_x_id = 0, local_size_y = 2, local_size_z = 1) in;");
	expect_glsl(uniform, &ours, "layout(push_constant, std430) uniform");
	expect_glsl(uniform, &plain, "layout(set = 0, binding = 3, std140) uniform");
	expect_glsl(shared, &plain, "w_a[i] = uint(0)");
	char *text = glsl_of(shared, "main", &ours);
	assert_null(strstr(text, "barrier"));
	free(text);
	expect_glsl(dot, &ours, "spirv_instruction");
	text = glsl_of(dot, "main", &plain);
	assert_null(strstr(text, "spirv_instruction"));
	free(text);
	expect_glsl("var<private> gl_x: i32; var<private> float: i32; " ENTRY "{ gl_x = float; }", &plain, "w_gl_x = w_float;");
}

static void test_matrices(void **state)
{
	const wgsl_options plain = {.workgroup_init = false};
	const char *load = MATRICES SHARED "override n = 2u; " ENTRY "{ var m: array<subgroup_matrix_left<f32, 4, 8>, 2>; "
	                   "for (var i = 0u; i < n; i++) { m[i] = subgroupMatrixLoad<subgroup_matrix_left<f32, 4, 8>, col_major>(&s, i, 8); } "
	                   "subgroupMatrixStore<row_major>(&s, 2, m[1], 4); }";
	const char *scalar = MATRICES ENTRY "{ var m = subgroup_matrix_result<f32, 8, 8>(2); m = subgroupMatrixScalarAdd(m, 1); "
	                     "m = subgroupMatrixScalarMultiply(m, 3); }";
	const char *loop = ENTRY "{ for (var i = 0u; i < 4u; i++) { } }";
	(void)state;
	expect_glsl(load, &plain, "#extension GL_KHR_cooperative_matrix : require");
	expect_glsl(load, &plain, "coopmat<float, gl_ScopeSubgroup, 8, 4, 0> r; coopMatLoad(r, w_s, o, s, gl_CooperativeMatrixLayoutColumnMajor);");
	expect_glsl(load, &plain, "coopMatStore(w_m[1], w_s, uint(2), uint(4), gl_CooperativeMatrixLayoutRowMajor)");
	expect_glsl(load, &plain, "[[unroll]] for (uint w_i = 0u; (w_i < w_n);");
	expect_glsl(scalar, &plain, "(w_m + coopmat<float, gl_ScopeSubgroup, 8, 8, 2>(1.0))");
	expect_glsl(scalar, &plain, "(w_m * 3.0)");
	char *text = glsl_of(loop, "main", &plain); /* without matrices nothing asks for unrolling */
	assert_null(strstr(text, "unroll"));
	free(text);
}

/* What an entry point does not reach is not in its text, and emitting one does not change another. */
static void test_entries(void **state)
{
	const char *source = "@group(0) @binding(0) var<storage, read_write> a: array<u32>; @group(0) @binding(0) var<storage> b: array<f32>;\n"
	                     "fn f(i: u32) -> u32 { let x = i; return x; } @compute @workgroup_size(1) fn one() { let x = f(1u); a[0] = x; }\n"
	                     "@compute @workgroup_size(1) fn two() { let x = f(2u); _ = b[x]; }";
	const wgsl_options o = {.push = true};
	wgsl_module *m = NULL;
	rp_error err;
	size_t n;
	char *alone = glsl_of(source, "two", &o), *after, *none;
	(void)state;
	assert_int_equal(wgsl_check(source, strlen(source), &m, &err), RP_OK);
	const char *const *names = wgsl_entries(m, &n);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "one");
	assert_int_equal(wgsl_to_glsl(m, "one", &o, &after, &err), RP_OK);
	assert_null(strstr(after, "w_b"));
	free(after);
	assert_int_equal(wgsl_to_glsl(m, "two", &o, &after, &err), RP_OK);
	assert_string_equal(alone, after);
	assert_int_equal(wgsl_to_glsl(m, "three", &o, &none, &err), RP_USAGE);
	free(alone);
	free(after);
	wgsl_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages), cmocka_unit_test(test_shown), cmocka_unit_test(test_recovery),
	                                   cmocka_unit_test(test_bounds), cmocka_unit_test(test_glsl), cmocka_unit_test(test_matrices),
	                                   cmocka_unit_test(test_entries)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
