/* wgslc's semantics, run: small programs are translated by the built wgslc, run on the best Vulkan device (lavapipe included) and
 * compared with what C says. Skipped without wgslc (no glslang) or without a device. */
#include "vk/vk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vk_hold.h"

enum { MAX_WORDS = 256, MAX_KERNELS = 32 };

static rp_vk *vk;
static char dir[64];
static const char *wgslc;
static rp_kernel kernels[MAX_KERNELS];
static size_t n_kernels;

static const rp_kernel_binding bindings[] = {{"a", 0, 0, false, false}, {"out", 0, 1, false, true}};

/* Every program starts with this: words in, words out. */
#define BUFFERS "@group(0) @binding(0) var<storage, read> a: array<u32>;\n@group(0) @binding(1) var<storage, read_write> out: array<u32>;\n"
#define MAIN "@compute @workgroup_size(1) fn main() {\n"

typedef struct program {
	const char *source, *options; /* options of wgslc */
	const rp_kernel_constant *constants;
	uint32_t n_constants;
	const rp_vk_const *values;
	size_t n_values;
	uint32_t workgroup[3];
	int32_t workgroup_id[3];
	uint32_t features;
	uint32_t n_in, n_out;
	uint32_t in[MAX_WORDS], out[MAX_WORDS];
} program;

static void ok_(rp_code rc, const rp_error *err, int line)
{
	if (rc != RP_OK)
		fail_msg("line %d: %s: %s", line, rp_code_word(rc), err->msg);
}
#define OK(call) ok_((call), &err, __LINE__)

static void translate(const char *source, const char *options, char **words, size_t *len)
{
	rp_error err;
	char in[100], out[100], command[700];
	snprintf(in, sizeof in, "%s/k.wgsl", dir);
	snprintf(out, sizeof out, "%s/k.spv", dir);
	snprintf(command, sizeof command, "'%s' '%s' -o '%s' %s", wgslc, in, out, options ? options : "");
	OK(rp_write_file(in, source, strlen(source), 0600, &err));
	if (system(command) != 0)
		fail_msg("does not translate:\n%s", source);
	OK(rp_read_file(out, 1 << 20, words, len, &err));
}

static void run(program *p)
{
	rp_error err;
	char *words;
	size_t len;
	rp_vk_buf *in = NULL, *out = NULL;
	rp_vk_pipeline *pipeline = NULL;
	rp_vk_cmd *c = NULL;
	translate(p->source, p->options, &words, &len);
	assert_true(n_kernels < MAX_KERNELS);
	rp_kernel *k = &kernels[n_kernels++]; /* must outlive the device */
	*k = (rp_kernel){.name = "test", .entry = "main", .digest = "", .words = (const uint32_t *)(const void *)words, .n_words = len / 4,
	                 .bindings = bindings, .n_bindings = 2, .constants = p->constants, .n_constants = p->n_constants, .features = p->features};
	for (int i = 0; i < 3; i++) {
		k->workgroup[i] = p->workgroup[i] ? p->workgroup[i] : 1;
		k->workgroup_id[i] = p->n_constants ? p->workgroup_id[i] : -1;
	}
	OK(rp_vk_buf_new(vk, RP_VK_STREAM, sizeof p->in, "in", &in, &err));
	OK(rp_vk_buf_new(vk, RP_VK_READBACK, sizeof p->out, "out", &out, &err));
	memcpy(rp_vk_buf_map(in), p->in, sizeof p->in);
	memset(rp_vk_buf_map(out), 0, sizeof p->out);
	OK(rp_vk_pipeline_get(vk, k, p->values, p->n_values, p->workgroup, 0, &pipeline, &err));
	OK(rp_vk_cmd_new(vk, "test", &c, &err));
	OK(rp_vk_cmd_begin(c, 0, &err));
	OK(rp_vk_cmd_dispatch(c, pipeline, (const rp_vk_bind[]){{in, 0, 0}, {out, 0, 0}}, 2, NULL, 0, 1, 1, 1, &err));
	OK(rp_vk_cmd_end(c, &err));
	OK(rp_vk_run(vk, c, &err));
	memcpy(p->out, rp_vk_buf_map(out), sizeof p->out);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(in);
	rp_vk_buf_free(out);
}

static void expect(const program *p, const uint32_t *want, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (p->out[i] != want[i])
			fail_msg("out[%u] is 0x%08x (%d), expected 0x%08x (%d), of\n%s", i, p->out[i], (int32_t)p->out[i], want[i], (int32_t)want[i], p->source);
}

static uint32_t bits(float f)
{
	return rp_vk_f32_bits(f);
}

#define EXPECT(p, ...) expect((p), (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* ---- numbers ---- */

static void integers(void **state)
{
	program p = {.source = BUFFERS "fn s(i: u32) -> i32 { return bitcast<i32>(a[i]); }\n" MAIN
		"let zero = s(3); let neg = s(0); let seven = s(1); let low = s(2); let one = s(4);\n"
		"out[0] = u32(neg / 2); out[1] = u32(neg % 3); out[2] = u32(seven / zero); out[3] = u32(seven % zero);\n"
		"out[4] = u32(low / -one); out[5] = u32(low % -one); out[6] = a[1] / a[3]; out[7] = a[1] % a[3];\n"
		"out[8] = a[1] << (a[1] + 30u); out[9] = u32(neg >> 1u); out[10] = u32(neg >> (a[4] * 33u)); out[11] = a[0] >> 28u;\n"
		"let v = vec3<i32>(neg, seven, low) / vec3<i32>(2, zero, -one); out[12] = u32(v.x); out[13] = u32(v.y); out[14] = u32(v.z);\n"
		"let w = vec2<u32>(a[1], a[0]) % 4; out[15] = w.x + w.y; out[16] = u32(neg % -one); out[17] = a[2] * 2 + 5;\n"
		"var x = seven; x /= zero; x %= 4; x <<= 3u; out[18] = u32(x); var y = vec2<i32>(neg); y %= vec2(4, 5); out[19] = u32(y.x * 10 + y.y);\n"
		"out[20] = u32(-low); out[21] = u32(abs(low)); out[22] = ~a[3]; out[23] = u32((seven & 5) | 8) ^ 1; }\n",
		.in = {(uint32_t)-7, 7, 0x80000000u, 0, 1}};
	(void)state;
	run(&p);
	EXPECT(&p, (uint32_t)(-7 / 2), (uint32_t)(-7 % 3), 7, 0, 0x80000000u, 0, 7, 0, 7u << 5, (uint32_t)-4, (uint32_t)-4, 15, (uint32_t)-3, 7,
	       0x80000000u, 3 + 1, 0, 5, 3 << 3, (uint32_t)(-3 * 10 - 2), 0x80000000u, 0x80000000u, 0xffffffffu, (5 | 8) ^ 1);
}

static void floats(void **state)
{
	program p = {.source = BUFFERS "fn f(i: u32) -> f32 { return bitcast<f32>(a[i]); }\n" MAIN
		"out[0] = u32(i32(f(0))); out[1] = u32(f(0)); out[2] = u32(i32(f(1))); out[3] = u32(f(1)); out[4] = u32(f(2));\n"
		"out[5] = bitcast<u32>(f(3) % 3.0); out[6] = bitcast<u32>(f(4) % 3.0); out[7] = bitcast<u32>(round(f(5))); out[8] = bitcast<u32>(round(f(6)));\n"
		"out[9] = bitcast<u32>(f32(i32(a[7]))); out[10] = bitcast<u32>(f32(a[7])); out[11] = u32(bool(f(8))); out[12] = u32(bool(f(2)));\n"
		"out[13] = bitcast<u32>(1.0 / 3); out[14] = bitcast<u32>(f32(7 / 2)); out[15] = bitcast<u32>(7.0 / 2); out[16] = bitcast<u32>(f(3) * 1.5 + 1);\n"
		"out[17] = bitcast<u32>(select(f(3), f(4), f(3) > f(4))); out[18] = bitcast<u32>(clamp(f(3), -1, 1)); out[19] = bitcast<u32>(sign(f(4)));\n"
		"out[20] = bitcast<u32>(fract(f(4))); out[21] = bitcast<u32>(quantizeToF16(1.0009766 + f(8)));\n"
		"let r = frexp(f(3)); out[22] = bitcast<u32>(r.fract); out[23] = u32(r.exp); let m = modf(f(4)); out[24] = bitcast<u32>(m.fract); out[25] = bitcast<u32>(m.whole);\n"
		"out[26] = bitcast<u32>(ldexp(f(3), 3)); out[27] = bitcast<u32>(saturate(f(4))); out[28] = bitcast<u32>(mix(f(3), f(4), 0.25)); }\n",
		.in = {bits(-3e9f), bits(5e9f), bits(2.9f), bits(7.5f), bits(-7.5f), bits(2.5f), bits(-3.5f), (uint32_t)-5, 0}};
	(void)state;
	run(&p);
	EXPECT(&p, 0x80000000u, 0, 2147483520u, 4294967040u, 2, bits(1.5f), bits(-1.5f), bits(2.0f), bits(-4.0f), bits(-5.0f), bits(4294967291.0f), 0, 1,
	       bits(1.0f / 3.0f), bits(3.0f), bits(3.5f), bits(12.25f), bits(-7.5f), bits(1.0f), bits(-1.0f), bits(0.5f), bits(1.0009765625f), bits(0.9375f), 3,
	       bits(-0.5f), bits(-7.0f), bits(60.0f), bits(0.0f), bits(3.75f));
}

static uint32_t dot4(uint32_t x, uint32_t y, bool is_signed)
{
	uint32_t sum = 0;
	for (int i = 0; i < 32; i += 8) {
		uint32_t u = x >> i & 255, v = y >> i & 255;
		sum += is_signed ? (uint32_t)((int8_t)u * (int8_t)v) : u * v;
	}
	return sum;
}

#define PACKED BUFFERS MAIN \
	"let x = a[0]; let y = a[1]; out[0] = u32(dot4I8Packed(x, y)); out[1] = dot4U8Packed(x, y); let i = unpack4xI8(x); let u = unpack4xU8(x);\n" \
	"out[2] = u32(i.x); out[3] = u32(i.w); out[4] = u.y; out[5] = pack4xI8(i) ^ x; out[6] = pack4xU8(u) ^ x; out[7] = pack4xI8Clamp(vec4(300, -300, 5, -5));\n" \
	"out[8] = pack4xU8Clamp(vec4(300u, 3, 5, 256)); out[9] = pack2x16float(vec2(1.0, -2.0)); out[10] = bitcast<u32>(unpack2x16float(a[2]).y);\n" \
	"out[11] = pack4x8snorm(vec4(1, -1, 0, 0.5)); out[12] = pack4x8unorm(vec4(1, 0, 0.5, 2)); out[13] = bitcast<u32>(unpack4x8snorm(0x0000817fu).y);\n" \
	"out[14] = extractBits(x, 4, 8); out[15] = u32(extractBits(i32(x), 28, a[3])); out[16] = insertBits(x, 5u, 8, 4); out[17] = countLeadingZeros(a[4]);\n" \
	"out[18] = countTrailingZeros(a[4]); out[19] = countTrailingZeros(a[5]); out[20] = firstLeadingBit(a[4]); out[21] = u32(firstLeadingBit(-1 - i32(a[5])));\n" \
	"out[22] = reverseBits(a[5]); out[23] = countOneBits(x); out[24] = u32(dot(vec3<i32>(1, -2, 3), vec3<i32>(i.xyz))); out[25] = countLeadingZeros(a[5]); }\n"

static void packed_with(const char *options, const char *source, uint32_t features)
{
	const uint32_t x = 0x84f37f81u, y = 0x7f028003u;
	program p = {.source = source, .options = options, .features = features, .in = {x, y, 0xc0000000u, 40, 0, 0x50}};
	run(&p);
	EXPECT(&p, dot4(x, y, true), dot4(x, y, false), (uint32_t)-127, (uint32_t)-124, 0x7f, 0, 0, 0xfb05807fu, 0xff0503ffu, 0xc0003c00u, bits(-2.0f),
	       0x4000817fu, 0xff8000ffu, bits(-1.0f), x >> 4 & 255, (uint32_t)-8, (x & ~0xf00u) | 0x500, 32, 32, 4, 0xffffffffu, 6, 0x0a000000u, 17,
	       (uint32_t)(-127 - 254 - 39), 25);
}

static void packed(void **state)
{
	(void)state;
	packed_with("--no-native-dot", PACKED, 0);
	if (rp_vk_describe(vk)->features & RP_VK_DOT8)
		packed_with("", "requires packed_4x8_integer_dot_product;\n" PACKED, RP_KERNEL_INT_DOT);
	else
		print_message("SKIP: packed dot product as one instruction: this device has none\n");
}

/* ---- memory ---- */

/* The input holds its own word numbers, so a member read says where it lies. */
static void layout(void **state)
{
	program p = {.source =
		"struct Inner { @size(16) a: u32, @align(32) b: vec3<u32>, c: u32, d: vec2<u32> }\n"
		"struct S { head: u32, v: vec3<u32>, after: u32, two: vec2<u32>, list: array<vec3<u32>, 2>, inner: array<Inner, 2>, m: mat3x2<f32>, n: mat2x3<f32>,\n"
		"  t: array<array<u32, 3>, 2>, tail: u32, last: array<vec2<u32>> }\n"
		"@group(0) @binding(0) var<storage, read> a: S; @group(0) @binding(1) var<storage, read_write> out: array<u32>;\n" MAIN
		"out[0] = a.head; out[1] = a.v.x; out[2] = a.after; out[3] = a.two.y; out[4] = a.list[1].z; out[5] = a.inner[0].a; out[6] = a.inner[0].b.x;\n"
		"out[7] = a.inner[0].c; out[8] = a.inner[1].d.y; out[9] = bitcast<u32>(a.m[2].y); out[10] = bitcast<u32>(a.n[1].x); out[11] = a.t[1][2]; out[12] = a.tail;\n"
		"out[13] = a.last[1].x; out[14] = arrayLength(&a.last); let copy = a.inner[1]; out[15] = copy.b.z; var all = a.inner; all[0] = copy; out[16] = all[0].d.x;\n"
		"let made = Inner(1, vec3(2), 3, vec2(4, 5)); out[17] = made.b.y + made.c + made.d.y; }\n"};
	(void)state;
	for (uint32_t i = 0; i < MAX_WORDS; i++)
		p.in[i] = i;
	run(&p);
	/* WGSL: v at 16, after at 28, two at 32, list at 48 (stride 16), inner at 96 (align 32; b at 32, c 44, d 48, size 64), m at 224,
	 * n at 256 (stride 16), t at 288, tail at 312, last at 320 */
	EXPECT(&p, 0, 4, 7, 9, (48 + 16 + 8) / 4, 96 / 4, (96 + 32) / 4, (96 + 44) / 4, (160 + 52) / 4, (224 + 20) / 4, (256 + 16) / 4, (288 + 20) / 4, 312 / 4,
	       (320 + 8) / 4, (MAX_WORDS * 4 - 320) / 8, (160 + 40) / 4, (160 + 48) / 4, 10);
}

static uint16_t half_of(unsigned i)
{
	unsigned e = 0;
	while (i >> (e + 1))
		e++;
	unsigned fraction = (i << (10 - e)) & 0x3ffu;
	return i ? (uint16_t)((15u + e) << 10 | fraction) : (uint16_t)0;
}

static void halves(void **state)
{
	const uint32_t need = RP_VK_F16 | RP_VK_STORAGE16;
	program p = {.source = "enable f16;\nstruct S { a: f16, b: vec3<f16>, c: f16, d: u32, e: array<f16, 3>, @align(8) f: vec2<f16> }\n"
		"@group(0) @binding(0) var<storage, read> a: S; @group(0) @binding(1) var<storage, read_write> out: array<u32>;\n" MAIN
		"out[0] = u32(a.a); out[1] = u32(a.b.x); out[2] = u32(a.b.z); out[3] = u32(a.c); out[4] = a.d; out[5] = u32(a.e[2]); out[6] = u32(a.f.y);\n"
		"let v = vec2<f16>(a.a, 2) * 1.5h; out[7] = bitcast<u32>(v); out[8] = u32(f32(v.y) * 100); out[9] = u32(bitcast<vec2<f16>>(0x40003c00u).y);\n"
		"out[10] = bitcast<u32>(f32(1h / 3)); var w = vec4<f16>(v, v); w[a.d % 4] = 7; out[11] = bitcast<vec2<u32>>(w).x; out[12] = u32(a.b.x > 2h); }\n",
		.features = RP_KERNEL_F16};
	uint16_t h[64];
	(void)state;
	if ((rp_vk_describe(vk)->features & need) != need) {
		print_message("SKIP: this device has no f16\n");
		skip();
	}
	for (unsigned i = 0; i < 64; i++) /* the f16 of value i, exact for integers up to 2048 */
		h[i] = half_of(i);
	memcpy(p.in, h, sizeof h);
	run(&p);
	/* WGSL: b at 8, c at 14, d at 16, e at 20, f at 32 */
	EXPECT(&p, 0, 4, 6, 7, (uint32_t)h[9] << 16 | h[8], 12, 17, 0x42000000u, 300, 2, bits(0.333251953125f), 0x42004700u, 1);
}

static void memory(void **state)
{
	program p = {.source = BUFFERS
		"var<private> table: array<u32, 8>; var<private> base = 40u + 2; var<workgroup> w: array<u32, 64>; var<workgroup> n: atomic<u32>;\n"
		"var<workgroup> low: atomic<i32>; var<workgroup> grid: array<array<u32, 4>, 4>; const primes = array(2, 3, 5, 7, 11);\n"
		"fn put(p: ptr<private, u32>, v: u32) { *p = v; base++; }\n"
		"fn half(p: ptr<function, array<u32, 4>>, q: ptr<function, u32>) { (*p)[1] += *q; *q = (*p)[0]; }\n"
		"fn row(p: ptr<workgroup, array<u32, 4>>, i: u32) -> u32 { p[i] += 3; return cell(&p[i]); }\n"
		"fn cell(p: ptr<workgroup, u32>) -> u32 { return *p * 2; }\n"
		"fn far(p: ptr<storage, array<u32>, read>, i: u32) -> u32 { return (*p)[i] + arrayLength(p); }\n"
		"@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {\n"
		"let before = w[i]; w[i] = i; atomicAdd(&n, i + before); atomicMin(&low, -i32(i)); grid[i / 16][i % 4] = 1; workgroupBarrier();\n"
		"let all = workgroupUniformLoad(&w[63]); if i != 5 { return; }\n"
		"out[0] = w[63 - i]; out[1] = atomicLoad(&n); out[2] = u32(atomicLoad(&low)); out[3] = all; put(&table[i - 2], 9); out[4] = table[3] + base;\n"
		"var k = 1u; let p = &table[k + 2]; k = 7; out[5] = *p; *p = 4; out[6] = table[3]; var four = array(1u, 2, 3, 4); half(&four, &k); out[7] = four[1]; out[8] = k;\n"
		"out[9] = row(&grid[2], i - 4); out[10] = far(&a, 3); out[11] = u32(primes[i - 2]); var copy = four; copy[0] = 99; out[12] = four[0];\n"
		"let r = atomicCompareExchangeWeak(&n, atomicLoad(&n), 5); out[13] = u32(r.exchanged); out[14] = r.old_value; out[15] = atomicExchange(&n, 6);\n"
		"let no = atomicCompareExchangeWeak(&n, 1, 2); out[16] = u32(no.exchanged) + no.old_value; out[17] = atomicSub(&n, 1) + atomicLoad(&n); atomicStore(&n, 77); out[18] = atomicOr(&n, 2); }\n",
		.workgroup = {64, 1, 1}, .in = {1, 2, 3, 4}};
	(void)state;
	run(&p);
	EXPECT(&p, 58, 63 * 64 / 2, (uint32_t)-63, 63, 9 + 43, 9, 4, 9, 1, 8, 4 + MAX_WORDS, 7, 1, 1, 63 * 64 / 2, 5, 6, 6 + 5, 77);
}

/* ---- control ---- */

static void control(void **state)
{
	program p = {.source = BUFFERS
		"var<private> trace = 0u;\n"
		"fn t(v: u32) -> u32 { trace = trace * 10 + v; return v; }\n"
		"fn yes(v: u32) -> bool { trace = trace * 10 + v; return true; }\n"
		"fn pick(v: u32) -> u32 { switch v { case 0 { return 1; } case 1, 2: { if v == 2 { break; } return 2; } default { return 3; } case 7: { } } return 4; }\n" MAIN
		"out[0] = pick(a[0]) * 10000 + pick(a[1]) * 1000 + pick(a[2]) * 100 + pick(a[3]) * 10 + pick(a[7]);\n"
		"let sum = t(1) + t(2) * t(3); out[1] = trace; trace = 0; let e = select(t(4), t(5), yes(6)); out[2] = trace; out[3] = e; trace = 0;\n"
		"if yes(1) || yes(2) { trace = trace * 10 + 3; } if !yes(4) && yes(5) { trace = 0; } let b = yes(6) | yes(7); out[4] = trace; trace = 0;\n"
		"var n = 0u; var turns = 0u; loop { turns++; switch n { case 3: { n += 10; continue; } case 1: { n = 2; } default: { if n == 14 { continue; } } }\n"
		"  n++; if turns > 50 { break; } continuing { trace = trace * 3 + n; break if n > 14 || turns == 9; } } out[5] = n; out[6] = turns; out[7] = trace;\n"
		"var s = 0u; for (var i = 0u; i < 5; i++) { let i2 = i; { let i = i2 * 10; s += i; } if i == 3 { continue; } s += 1; } out[8] = s;\n"
		"while s > 10 { s /= 2; if s == 26 { s = 11; } } out[9] = s; var x = 5u; { let x = x + 1; out[10] = x; } out[11] = x;\n"
		"var arr = array<u32, 4>(0, 0, 0, 0); trace = 0; arr[t(1)] = t(2); arr[t(3)] += t(1); out[12] = trace; out[13] = arr[1] * 10 + arr[3];\n"
		"out[14] = sum; var q: vec3<u32>; for (var i = 0; i < 3; i++) { var fresh: u32; fresh += 1; q[i] = fresh; } out[15] = q.x + q.y + q.z + u32(b);\n"
		"var m = mat2x3<f32>(1, 2, 3, 4, 5, 6); m[1].y = 9; let mv = m * vec2(1.0, 2); out[16] = u32(mv.y); let vm = vec3(1.0, 1, 1) * m; out[17] = u32(vm.y);\n"
		"let cmp = vec3(1, 2, 3) < vec3(2, 2, 4); out[18] = u32(cmp.x) + u32(cmp.y) * 2 + u32(cmp.z) * 4; let sel = select(vec2(1u, 2), vec2(3, 4), vec2(true, false)); out[19] = sel.x * 10 + sel.y;\n"
		"loop { if s > 0 { loop { s += 100; continuing { break if s > 150; } } } continuing { s += 1; break if true; } } out[20] = s; }\n",
		.in = {0, 1, 2, 3, 4, 5, 6, 7}};
	uint32_t n = 0, turns = 0, trace = 0;
	(void)state;
	run(&p);
	for (;;) { /* the loop with its continuing block, in C */
		turns++;
		bool skip_rest = false;
		if (n == 3) {
			n += 10;
			skip_rest = true;
		} else if (n == 1) {
			n = 2;
		} else if (n == 14) {
			skip_rest = true;
		}
		if (!skip_rest)
			n++;
		if (!skip_rest && turns > 50)
			break;
		trace = trace * 3 + n;
		if (n > 14 || turns == 9)
			break;
	}
	EXPECT(&p, 12434, 123, 456, 5, 13467, n, turns, trace, 104, 5, 6, 5, 1231, 21, 7, 4, 2 + 18, 4 + 9 + 6, 1 + 4, 32);
	assert_int_equal(p.out[20], 5 + 200 + 1); /* two turns of the inner loop, then the outer continuing */
}

static void overrides(void **state)
{
	static const rp_kernel_constant constants[] = {{"WG", 0, 'u', 4}, {"K", 5, 'i', 0}, {"F", 1, 'f', 0}, {"ON", 2, 'b', 0}};
	static const rp_vk_const values[] = {{"K", (uint32_t)-3}, {"F", 0x40200000u}, {"ON", 1}};
	program p = {.source = BUFFERS "override WG: u32 = 4; @id(5) override K = 2i; override F = 0.5f; override ON = false; override twice = WG * 2 + 1; override G = F * 2;\n"
		"var<workgroup> s: array<u32, twice>; var<workgroup> last: array<u32, min(WG, 8u)>;\n"
		"@compute @workgroup_size(WG) fn main(@builtin(local_invocation_index) i: u32, @builtin(num_workgroups) n: vec3<u32>) {\n"
		"s[i * 2 + 1] = i; last[i % 8] = i; workgroupBarrier(); if i > 0 { return; }\n"
		"out[0] = WG; out[1] = u32(K); out[2] = bitcast<u32>(F); out[3] = u32(ON); out[4] = twice; out[5] = s[2 * WG - 1]; out[6] = s[0]; out[7] = bitcast<u32>(G); out[8] = n.x + last[7]; }\n",
		.constants = constants, .n_constants = 4, .values = values, .n_values = 3, .workgroup = {16, 0, 0}, .workgroup_id = {0, -1, -1}};
	(void)state;
	run(&p);
	EXPECT(&p, 16, (uint32_t)-3, bits(2.5f), 1, 33, 15, 0, bits(5.0f));
	assert_true(p.out[8] == 8 || p.out[8] == 16);
}

static void subgroups(void **state)
{
	program p = {.source = "enable subgroups;\n" BUFFERS
		"@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) size: u32, @builtin(subgroup_invocation_id) lane: u32) {\n"
		"let x = a[lane]; let sum = subgroupAdd(x); let most = subgroupMax(x); let up = subgroupInclusiveAdd(x); let ex = subgroupExclusiveAdd(x);\n"
		"let other = subgroupShuffleXor(x, 1); let first = subgroupBroadcastFirst(x + 5); let third = subgroupBroadcast(x, 3); let near = subgroupShuffle(x, (lane + 1) % size);\n"
		"let ballot = subgroupBallot((x & 1) == 1).x; let any = subgroupAny(x == 3); let all = subgroupAll(x < 3); let down = subgroupShuffleDown(x, 2u); let quad = quadSwapX(x);\n"
		"if i == 1 { out[0] = size; out[1] = sum; out[2] = most; out[3] = up; out[4] = ex; out[5] = other; out[6] = first; out[7] = third; out[8] = near; out[9] = ballot & 15;\n"
		"  out[10] = u32(any); out[11] = u32(all); out[12] = down; out[13] = quad; out[14] = lane; } }\n",
		.workgroup = {64, 1, 1}, .features = RP_KERNEL_SUBGROUPS};
	(void)state;
	if (!(rp_vk_describe(vk)->features & RP_VK_SUBGROUPS)) {
		print_message("SKIP: this device has no subgroup operations\n");
		skip();
	}
	for (uint32_t i = 0; i < 128; i++)
		p.in[i] = i;
	run(&p);
	uint32_t size = p.out[0];
	assert_true(size >= 4 && size <= 64);
	EXPECT(&p, size, size * (size - 1) / 2, size - 1, 1, 0, 0, 5, 3, 2, 0xa, 1, 0, 3, 0, 1);
}

/* ---- frame ---- */

static int open_device(void)
{
	rp_error err;
	rp_code rc = rp_vk_open(&(rp_vk_opts){.validate = vk_want_validation()}, &vk, &err);
	if (rc == RP_UNSUPPORTED) {
		print_message("SKIP: validation in the tests below: %s\n", err.msg);
		rc = rp_vk_open(NULL, &vk, &err);
	}
	if (rc != RP_OK) {
		print_message("SKIP: %s\n", err.msg);
		return -1;
	}
	vk_hold_drivers();
	return 0;
}

int main(void)
{
	static char path[300];
	char command[100];
	const char *b = getenv("B");
	snprintf(path, sizeof path, "%s/tools/wgslc", b ? b : "build");
	wgslc = path;
	if (access(path, X_OK) != 0) {
		print_message("SKIP: no %s: it needs glslang and SPIRV-Cross\n", path);
		return 0;
	}
	snprintf(dir, sizeof dir, "/tmp/reploid-wgsl-XXXXXX");
	if (open_device() != 0 || !mkdtemp(dir))
		return 0;
	const struct CMUnitTest tests[] = {cmocka_unit_test(integers), cmocka_unit_test(floats), cmocka_unit_test(packed), cmocka_unit_test(layout),
	                                   cmocka_unit_test(halves), cmocka_unit_test(memory), cmocka_unit_test(control), cmocka_unit_test(overrides),
	                                   cmocka_unit_test(subgroups)};
	int bad = cmocka_run_group_tests_name("wgsl, run", tests, NULL, NULL);
	rp_vk_close(vk);
	for (size_t i = 0; i < n_kernels; i++)
		free((void *)(uintptr_t)kernels[i].words);
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	return system(command) == 0 ? bad : 1;
}
