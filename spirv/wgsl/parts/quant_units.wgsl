// Units of x and of weights in blocks of quants, and their dot products.
struct XUnit {
	hi0: vec4<u32>,
	lo0: vec4<u32>,
	hi1: vec4<u32>,
	lo1: vec4<u32>,
	s0: vec2<f32>,
	s1: vec2<f32>,
}

// What is read of a unit of weights: quants, what belongs to the block, two words.
struct WUnit {
	a: vec4<u32>,
	b: vec4<u32>,
	c: vec4<u32>,
	d: u32,
	e: u32,
}

fn word_of(b: bool, base: u32, i: u32) -> u32 {
	return fetch(b, base + i / 4u)[i % 4u];
}

// The word with the scale of block i of a type with d, or d and m, after its quants.
fn scale_word(b: bool, base: u32, i: u32) -> u32 {
	if (QUANT == Q4_1 || QUANT == Q5_1) {
		return word_of(b, base, i);
	}
	return word_of(b, base, i / 2u);
}

fn w_unit_at(b: bool, base: u32, u: u32, nb: u32) -> WUnit {
	let none = vec4<u32>(0u);
	switch QUANT {
		case Q4_K: {
			let block = base + u / 8u * 9u;
			return WUnit(fetch(b, block + 1u + u % 8u), fetch(b, block), none, 0u, 0u);
		}
		case Q5_K: {
			let block = base + u / 8u * 11u;
			return WUnit(fetch(b, block + 3u + u % 8u), fetch(b, block), fetch(b, block + 1u + u % 2u), 0u, 0u);
		}
		case Q6_K: {
			let t = u % 8u;
			let block = base + u / 8u * 13u;
			return WUnit(fetch(b, block + t), fetch(b, block + 8u + t / 4u * 2u + t % 2u), fetch(b, block + 12u),
				word_of(b, base + nb * 13u, u / 16u), 0u);
		}
		case Q8_0: {
			return WUnit(fetch(b, base + 2u * u), fetch(b, base + 2u * u + 1u), none, word_of(b, base + 2u * nb, u / 2u), 0u);
		}
		case Q5_0, Q5_1: {
			return WUnit(fetch(b, base + u), none, none, scale_word(b, base + nb + (nb + 3u) / 4u, u), word_of(b, base + nb, u));
		}
		default: { // Q4_0, Q4_1
			return WUnit(fetch(b, base + u), none, none, scale_word(b, base + nb, u), 0u);
		}
	}
}

fn half_in(word: u32, i: u32) -> f32 {
	let pair = unpack2x16float(word);
	return select(pair.x, pair.y, (i & 1u) != 0u);
}

// Scale and offset of a block with d, or d and m; quants are centred on `zero`.
fn simple_scale(word: u32, i: u32, zero: f32) -> vec2<f32> {
	if (QUANT == Q4_1 || QUANT == Q5_1) {
		return unpack2x16float(word);
	}
	let d = half_in(word, i);
	return vec2<f32>(d, -zero * d);
}

// Bits 0 to 3 of v as bit 4 of each byte.
fn fifths(v: u32) -> u32 {
	return (((v & 15u) * 0x00204081u) & 0x01010101u) << 4u;
}

// Scales and offsets of sub-blocks 2 c and 2 c + 1 of a block whose head holds d, dmin and 12 bytes of six-bit numbers.
fn k_scales(head: vec4<u32>, c: u32) -> vec4<f32> {
	let v = head.yzw >> vec3<u32>(c % 2u * 16u);
	let sc = select((v.z & 0x0f0fu) | ((v.x >> 2u) & 0x3030u), v.x & 0x3f3fu, c < 2u);
	let mn = select(((v.z >> 4u) & 0x0f0fu) | ((v.y >> 2u) & 0x3030u), v.y & 0x3f3fu, c < 2u);
	let d = unpack2x16float(head.x);
	return vec4<f32>(d.x * f32(sc & 255u), d.x * f32(sc >> 8u), -d.y * f32(mn & 255u), -d.y * f32(mn >> 8u));
}

// The quants of both runs of a unit as signed bytes; value i of run h is scale[h] * q[h][i] + offset[h].
struct Quants {
	q0: vec4<u32>,
	q1: vec4<u32>,
	scale: vec2<f32>,
	offset: vec2<f32>,
}

fn quants(w: WUnit, u: u32) -> Quants {
	let nibble = vec4<u32>(0x0f0f0f0fu);
	let low = w.a & nibble;
	let high = (w.a >> vec4<u32>(4u)) & nibble;
	switch QUANT {
		case Q4_K: {
			let s = k_scales(w.b, u % 8u / 2u);
			return Quants(low, high, s.xy, s.zw);
		}
		case Q5_K: {
			let c = u % 8u / 2u;
			let h = w.c >> vec4<u32>(2u * c);
			let s = k_scales(w.b, c);
			let one = vec4<u32>(0x01010101u);
			return Quants(low | ((h & one) << vec4<u32>(4u)), high | (((h >> vec4<u32>(1u)) & one) << vec4<u32>(4u)), s.xy, s.zw);
		}
		case Q6_K: {
			let t = u % 8u;
			let pair = t / 2u % 2u;
			let h = w.b >> vec4<u32>(2u * pair);
			let six = select(w.c.xy, w.c.zw, t >= 4u) << vec2<u32>(24u - 8u * (t % 2u + 2u * pair));
			let scale = half_in(w.d, u / 8u) * vec2<f32>(bitcast<vec2<i32>>(six) >> vec2<u32>(24u));
			let two = vec4<u32>(0x03030303u);
			return Quants(low | ((h & two) << vec4<u32>(4u)), high | (((h >> vec4<u32>(4u)) & two) << vec4<u32>(4u)), scale,
				-32.0 * scale);
		}
		case Q8_0: {
			return Quants(w.a, w.b, vec2<f32>(half_in(w.d, u)), vec2<f32>(0.0));
		}
		case Q5_0, Q5_1: {
			let s = simple_scale(w.d, u, 16.0);
			let h = w.e;
			return Quants(low | vec4<u32>(fifths(h), fifths(h >> 4u), fifths(h >> 8u), fifths(h >> 12u)),
				high | vec4<u32>(fifths(h >> 16u), fifths(h >> 20u), fifths(h >> 24u), fifths(h >> 28u)), s.xx, s.yy);
		}
		default: { // Q4_0, Q4_1
			let s = simple_scale(w.d, u, 8.0);
			return Quants(low, high, s.xx, s.yy);
		}
	}
}

fn dot_run(q: vec4<u32>, hi: vec4<u32>, lo: vec4<u32>) -> f32 {
	let h = (dot4I8Packed(q.x, hi.x) + dot4I8Packed(q.y, hi.y)) + (dot4I8Packed(q.z, hi.z) + dot4I8Packed(q.w, hi.w));
	let l = (dot4I8Packed(q.x, lo.x) + dot4I8Packed(q.y, lo.y)) + (dot4I8Packed(q.z, lo.z) + dot4I8Packed(q.w, lo.w));
	return f32(256 * h + l);
}

fn dot_quants(w: Quants, x: XUnit) -> f32 {
	return (w.scale.x * (x.s0.x * dot_run(w.q0, x.hi0, x.lo0)) + w.offset.x * x.s0.y)
		+ (w.scale.y * (x.s1.x * dot_run(w.q1, x.hi1, x.lo1)) + w.offset.y * x.s1.y);
}
