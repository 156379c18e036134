// Weight rows in the layout of README.md as halves, in two steps so that loads can run ahead of their use: a unit as it lies in
// memory, then its 32 values, four vectors of eight. Values are WORTH times the weight: the scales of small weights would lose bits
// as halves.
const WORTH = 16.0;

struct Raw { // what of a unit is read; its quants first
	a: vec4<u32>,
	b: vec4<u32>,
	c: vec4<u32>,
	d: vec4<u32>,
	e: vec4<u32>,
	f: vec4<u32>,
	g: vec4<u32>,
	h: vec4<u32>,
}

struct Halves {
	a: vec4<u32>,
	b: vec4<u32>,
	c: vec4<u32>,
	d: vec4<u32>,
}

fn raw_of(m: u32, at: u32) -> vec4<u32> {
	if (GLU && m != 0u) {
		return w_up[at];
	}
	return w[at];
}

fn raw_word(m: u32, base: u32, i: u32) -> u32 {
	if (GLU && m != 0u) {
		return w_up[base + i / 4u][i % 4u];
	}
	return w[base + i / 4u][i % 4u];
}

// Unit u of the row of matrix m that starts at base.
fn fetch_unit(m: u32, base: u32, u: u32, nb: u32) -> Raw {
	var r: Raw;
	switch QUANT {
		case Q4_0, Q4_1: {
			r.a = raw_of(m, base + u);
			r.b.x = raw_word(m, base + nb, select(u / 2u, u, QUANT == Q4_1));
		}
		case Q5_0, Q5_1: {
			r.a = raw_of(m, base + u);
			r.b.x = raw_word(m, base + nb + (nb + 3u) / 4u, select(u / 2u, u, QUANT == Q5_1));
			r.b.y = raw_word(m, base + nb, u);
		}
		case Q8_0: {
			r.a = raw_of(m, base + 2u * u);
			r.c = raw_of(m, base + 2u * u + 1u);
			r.b.x = raw_word(m, base + 2u * nb, u / 2u);
		}
		case Q4_K: {
			let block = base + u / 8u * 9u;
			r.a = raw_of(m, block + 1u + u % 8u);
			r.b = raw_of(m, block);
		}
		case Q5_K: {
			let block = base + u / 8u * 11u;
			r.a = raw_of(m, block + 3u + u % 8u);
			r.b = raw_of(m, block);
			r.c = raw_of(m, block + 1u + u % 2u);
		}
		case Q6_K: {
			let block = base + u / 8u * 13u;
			r.a = raw_of(m, block + u % 8u);
			r.b.x = raw_word(m, base + nb * 13u, u / 16u);
			r.c = raw_of(m, block + 8u + u % 8u / 4u * 2u + u % 2u);
			r.d = raw_of(m, block + 12u);
		}
		case F32: {
			let at = base + 8u * u;
			r.a = raw_of(m, at);
			r.b = raw_of(m, at + 1u);
			r.c = raw_of(m, at + 2u);
			r.d = raw_of(m, at + 3u);
			r.e = raw_of(m, at + 4u);
			r.f = raw_of(m, at + 5u);
			r.g = raw_of(m, at + 6u);
			r.h = raw_of(m, at + 7u);
		}
		default: {
			let at = base + 4u * u;
			r.a = raw_of(m, at);
			r.b = raw_of(m, at + 1u);
			r.c = raw_of(m, at + 2u);
			r.d = raw_of(m, at + 3u);
		}
	}
	return r;
}

// The halves 1024 + n for two values n below 1,024: exact, and cheaper than a conversion.
fn counts(v: u32) -> vec2<f16> {
	return bitcast<vec2<f16>>(v | 0x64006400u);
}

// Four values from the low bits of the bytes of v (mask within a byte): (byte - zero) * scale + offset.
fn four(v: u32, zero: f16, scale: f16, offset: f16) -> vec2<u32> {
	let even = (counts(v & 0x00ff00ffu) - vec2<f16>(1024.0h + zero)) * scale + offset;
	let odd = (counts((v >> 8u) & 0x00ff00ffu) - vec2<f16>(1024.0h + zero)) * scale + offset;
	return vec2<u32>(bitcast<u32>(vec2<f16>(even.x, odd.x)), bitcast<u32>(vec2<f16>(even.y, odd.y)));
}

fn eight(a: u32, b: u32, zero: f16, scale: f16, offset: f16) -> vec4<u32> {
	return vec4<u32>(four(a, zero, scale, offset), four(b, zero, scale, offset));
}

fn half_of(v: u32, high: bool) -> f32 {
	let pair = unpack2x16float(v);
	return select(pair.x, pair.y, high);
}

// Bits i to i + 3 of v as the fifth bits of four bytes.
fn fifth(v: u32, i: u32) -> u32 {
	let n = (v >> i) & 15u;
	return ((n & 1u) | ((n & 2u) << 7u) | ((n & 4u) << 14u) | ((n & 8u) << 21u)) << 4u;
}

fn fifths(v: u32, i: u32) -> vec4<u32> {
	return vec4<u32>(fifth(v, i), fifth(v, i + 4u), fifth(v, i + 8u), fifth(v, i + 12u));
}

// Scales of the two runs, then what is added, of a unit of sub-blocks 2 c and 2 c + 1.
fn k_scales(head: vec4<u32>, c: u32) -> vec4<f32> {
	let v = (head.yzw >> vec3<u32>(c % 2u * 16u));
	let low = vec4<u32>(v.x, v.x >> 8u, v.y, v.y >> 8u);
	let both = vec4<u32>(v.z, v.z >> 8u, v.z >> 4u, v.z >> 12u) & vec4<u32>(15u);
	let six = select(both | (((low >> vec4<u32>(6u)) & vec4<u32>(3u)) << vec4<u32>(4u)), low & vec4<u32>(63u), c < 2u);
	let d = unpack2x16float(head.x) * WORTH;
	return vec4<f32>(d.x, d.x, -d.y, -d.y) * vec4<f32>(six);
}

// Quants of both runs (a byte each) with the scales of both.
fn two_runs(lo: vec4<u32>, hi: vec4<u32>, zero: f16, s: vec4<f32>) -> Halves {
	let h = vec4<f16>(s);
	return Halves(eight(lo.x, lo.y, zero, h.x, h.z), eight(lo.z, lo.w, zero, h.x, h.z), eight(hi.x, hi.y, zero, h.y, h.w),
		eight(hi.z, hi.w, zero, h.y, h.w));
}

fn pair(a: f32, b: f32) -> u32 {
	return pack2x16float(clamp(vec2<f32>(a, b) * WORTH, vec2<f32>(-65504.0), vec2<f32>(65504.0)));
}

fn from_floats(v: vec4<u32>, n: vec4<u32>) -> vec4<u32> {
	let a = bitcast<vec4<f32>>(v);
	let b = bitcast<vec4<f32>>(n);
	return vec4<u32>(pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w));
}

fn from_bfloats(v: vec4<u32>) -> vec4<u32> {
	let low = bitcast<vec4<f32>>(v << vec4<u32>(16u));
	let high = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
	return vec4<u32>(pair(low.x, high.x), pair(low.y, high.y), pair(low.z, high.z), pair(low.w, high.w));
}

// Signed bytes become unsigned by a flip of their top bits: then zero is 128.
fn unpack_unit(r: Raw, u: u32) -> Halves {
	let nibble = vec4<u32>(0x0f0f0f0fu);
	let lo = r.a & nibble;
	let hi = (r.a >> vec4<u32>(4u)) & nibble;
	switch QUANT {
		case Q4_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			return two_runs(lo, hi, 8.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q4_1: {
			return two_runs(lo, hi, 0.0h, (unpack2x16float(r.b.x) * WORTH).xxyy);
		}
		case Q5_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			return two_runs(lo | fifths(r.b.y, 0u), hi | fifths(r.b.y, 16u), 16.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q5_1: {
			return two_runs(lo | fifths(r.b.y, 0u), hi | fifths(r.b.y, 16u), 0.0h, (unpack2x16float(r.b.x) * WORTH).xxyy);
		}
		case Q8_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			let flip = vec4<u32>(0x80808080u);
			return two_runs(r.a ^ flip, r.c ^ flip, 128.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q4_K: {
			return two_runs(lo, hi, 0.0h, k_scales(r.b, u % 8u / 2u));
		}
		case Q5_K: {
			let c = u % 8u / 2u;
			let h = r.c >> vec4<u32>(2u * c);
			let one = vec4<u32>(0x01010101u);
			return two_runs(lo | ((h & one) << vec4<u32>(4u)), hi | (((h >> vec4<u32>(1u)) & one) << vec4<u32>(4u)), 0.0h,
				k_scales(r.b, c));
		}
		case Q6_K: {
			let t = u % 8u;
			let half_block = t / 2u % 2u; // which 32 of the low 64
			let h = r.c >> vec4<u32>(2u * half_block);
			let two = vec4<u32>(0x03030303u);
			let shift = 24u - 8u * (t % 2u + 2u * half_block);
			let at = t / 4u * 2u;
			let sc = vec2<u32>(r.d[at], r.d[at + 1u]) << vec2<u32>(shift);
			let s = half_of(r.b.x, (u / 8u) % 2u != 0u) * WORTH * vec2<f32>(bitcast<vec2<i32>>(sc) >> vec2<u32>(24u));
			return two_runs(lo | ((h & two) << vec4<u32>(4u)), hi | (((h >> vec4<u32>(4u)) & two) << vec4<u32>(4u)), 32.0h,
				vec4<f32>(s, 0.0, 0.0));
		}
		case F32: {
			return Halves(from_floats(r.a, r.b), from_floats(r.c, r.d), from_floats(r.e, r.f), from_floats(r.g, r.h));
		}
		case BF16: {
			return Halves(from_bfloats(r.a), from_bfloats(r.b), from_bfloats(r.c), from_bfloats(r.d));
		}
		default: {
			return Halves(r.a, r.b, r.c, r.d); // worth 1
		}
	}
}
