// Literals, abstract numbers, inference, conversions.
enable f16;

const big = 0xffffffff;
const neg = -9223372036854775807;
const third = 1.0 / 3;
const shifted = 1 << 40;
const vec = vec3(1, 2.5, 3);
const table = array(1, 2.5, 4h);
const half_limit: f16 = 65504.0h;
const hexes = 0x1p-3 + 0x.8p1f;
const minimum = min(3, 4.5) + max(1.0, 2) + clamp(5, 1, 3);
const chosen = select(1, 2.0, true);
const both = all(vec2(1, 2) < vec2(2, 3)) && any(vec2<bool>(false, true));
const m = mat2x2(1, 2, 3, 4) * 2;
const nothing = vec4<f32>();
const swizzled = vec.zyx.xy;
const root: f32 = sqrt(2);
const bits = bitcast<u32>(1.0f) + countOneBits(7u);
const log2 = firstLeadingBit(64);
const_assert log2 == 6 && countLeadingZeros(1u) == 31 && countTrailingZeros(8) == 3 && firstLeadingBit(-1) == -1 && reverseBits(1u) == 0x80000000;
var<private> sized: array<u32, log2>;

@group(0) @binding(0) var<storage, read_write> out: array<f32>;
var<private> counter = 3;
var<private> numbers: array<vec3<f16>, 4>;

@compute @workgroup_size(1, 1)
fn main() {
	var i = 1;
	var u = 0u + big;
	let h = 0.5h * half_limit;
	let h2 = vec4<f16>(1, 2, 3, 4) / 3;
	let x = f32(third) + 1;
	let y: f32 = 7 / 2;
	let shift = 1 << u;
	let s = i32(shifted >> 38);
	let t = table[i];
	let w: vec3<f32> = vec * 2;
	let v2 = vec3<f32>(vec2<f32>(1, 2), 3) + vec3f(1) * f32(true);
	let iv = vec3<i32>(vec3<u32>(1, 2, 3)) / 2;
	let b = vec3<bool>(iv);
	numbers[i] = vec3<f16>(v2);
	counter += i32(v2.x) - 0x10;
	i = -i; u = ~u; i = i32(-2147483648);
	out[0] = x + y + f32(t) + w.x + v2.y + f32(iv.z) + f32(h) + f32(h2.x) + m[1][0] + nothing.w + swizzled.y + root + f32(bits);
	out[1] = f32(u) + f32(s) + f32(i) + f32(shift) + select(0.0, 1.0, b.x) + hexes + minimum + f32(chosen) + f32(both) + f32(neg);
	var swz = vec4<f32>(1, 2, 3, 4);
	swz.zx = swz.xy; swz.yw += vec2(1.0, 2); sized[2] = u32(--swz.x);
	out[2] = swz.x + f32(sized[2]) + f32(numbers[2].y) + f32(counter);
}
