// Every built-in function of compute shaders.
enable f16;
requires packed_4x8_integer_dot_product;

@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> n: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> bits: array<u32>;

fn floats(x: f32, v: vec3<f32>) -> f32 {
	var r = abs(x) + acos(x) + acosh(x) + asin(x) + asinh(x) + atan(x) + atanh(x) + atan2(x, 2) + ceil(x) + clamp(x, 0, 1);
	r += cos(x) + cosh(x) + degrees(x) + exp(x) + exp2(x) + floor(x) + fma(x, 2, 3) + fract(x) + inverseSqrt(x) + ldexp(x, 3);
	r += log(x) + log2(x) + max(x, 1) + min(2, x) + mix(x, 1, 0.5) + pow(x, 2) + quantizeToF16(x) + radians(x) + round(x);
	r += saturate(x) + sign(x) + sin(x) + sinh(x) + smoothstep(0, 1, x) + sqrt(x) + step(0.5, x) + tan(x) + tanh(x) + trunc(x);
	r += dot(v, v) + length(v) + distance(v, vec3(1)) + cross(v, v.zxy).x + normalize(v).y + reflect(v, v).x + refract(v, v, 0.5).y;
	r += faceForward(v, v, v).z + mix(v, v, 0.5).x + mix(v, v, v).y + round(v).x + quantizeToF16(v).z + saturate(v).x;
	let f = frexp(x);
	let m = modf(v);
	r += f.fract + f32(f.exp) + m.fract.x + m.whole.y + frexp(v).fract.z + x % 3 + (v % vec3(2)).x;
	return r + determinant(mat3x3<f32>(v, v, v)) + transpose(mat2x3<f32>(v, v))[0].y;
}

fn halves(x: f16) -> f16 {
	let v = vec2<f16>(x, 2);
	return abs(x) + sin(x) + exp(x) + max(x, 1) + fma(x, x, 2) + dot(v, v) + length(v) + mix(x, 1, 0.5) + clamp(x, 0, 1) + pow(x, 2)
		+ frexp(x).fract + modf(x).whole + round(x) + tanh(x) + select(x, 1h, x > 0) + bitcast<vec2<f16>>(bitcast<u32>(v)).y;
}

fn integers(u: vec3<u32>, i: vec2<i32>) -> u32 {
	var r = countLeadingZeros(u.x) + countOneBits(u.y) + countTrailingZeros(u.z) + firstLeadingBit(u.x) + firstTrailingBit(u.y);
	r += reverseBits(u.x) + extractBits(u.x, 4, 8) + insertBits(u.x, u.y, 3, 5) + dot(u, u) + abs(u.x) + max(u.x, 3) + clamp(u, u, u).z;
	r += u32(countLeadingZeros(i).x + firstLeadingBit(i).y + extractBits(i, 3, u.z).x + dot(i, i) + abs(i.x) + sign(i.y) + countTrailingZeros(i.x));
	r += pack4x8snorm(vec4f(1)) + pack4x8unorm(vec4f(u.xyzx)) + pack2x16snorm(vec2f(i)) + pack2x16unorm(vec2f(i)) + pack2x16float(vec2f(i));
	r += pack4xI8(vec4(i, i)) + pack4xU8(u.xyzx) + pack4xI8Clamp(vec4(i, i)) + pack4xU8Clamp(u.xyzx);
	r += u32(dot4I8Packed(u.x, u.y)) + dot4U8Packed(u.x, u.y) + u32(unpack4xI8(u.x).y) + unpack4xU8(u.x).z;
	let f = unpack4x8snorm(u.x) + unpack4x8unorm(u.x) + vec4(unpack2x16float(u.y), unpack2x16snorm(u.z)) + unpack2x16unorm(u.x).xyxy;
	return r + bitcast<u32>(f.x) + bitcast<vec2<u32>>(i).x + u32(all(f > vec4f())) + u32(any(f.xy == f.zw)) + u32(all(true)) + u32(any(false));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>) {
	let i = gid.x;
	let v = a[i];
	out[i] = vec4(floats(v.x, v.yzw), f32(halves(f16(v.x))), select(v, v.wzyx, v > vec4(1)).x, select(v, -v, i < 3).y);
	bits[i] = integers(n[i].xyz, vec2<i32>(n[i].xy)) + bitcast<u32>(vec2<f16>(v.xy)) + arrayLength(&a) + bitcast<vec2<u32>>(vec4<f16>(v)).y + u32(bitcast<vec4<f16>>(n[i].xy)[i & 3]);
}
