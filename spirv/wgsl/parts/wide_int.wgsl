// One row of x in workgroup memory as 16-bit fixed point, run by run: x = scale * (256 hi + lo), signed bytes four to a word, so that
// a unit of weights takes sixteen packed dot products. The error of a value is at most 1 / 65,024 of the largest of its run.
var<workgroup> x_hi: array<vec4<u32>, RUNS>;
var<workgroup> x_lo: array<vec4<u32>, RUNS>;
var<workgroup> x_scale: array<vec2<f32>, RUNS>; // scale, sum of the run

fn put_run(r: u32, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) {
	let m4 = max(max(abs(a), abs(b)), max(abs(c), abs(d)));
	let most = max(max(m4.x, m4.y), max(m4.z, m4.w));
	let up = select(32512.0 / most, 0.0, most < 1e-30);
	let qa = vec4<i32>(round(a * up));
	let qb = vec4<i32>(round(b * up));
	let qc = vec4<i32>(round(c * up));
	let qd = vec4<i32>(round(d * up));
	let ha = (qa + 128) >> vec4<u32>(8u);
	let hb = (qb + 128) >> vec4<u32>(8u);
	let hc = (qc + 128) >> vec4<u32>(8u);
	let hd = (qd + 128) >> vec4<u32>(8u);
	x_hi[r] = vec4<u32>(pack4xI8(ha), pack4xI8(hb), pack4xI8(hc), pack4xI8(hd));
	x_lo[r] = vec4<u32>(pack4xI8(qa), pack4xI8(qb), pack4xI8(qc), pack4xI8(qd));
	let s = (a + b) + (c + d);
	x_scale[r] = vec2<f32>(most / 32512.0, (s.x + s.y) + (s.z + s.w));
}

fn scale_run(r: u32, by: f32) {
	x_scale[r] *= by;
}

struct XUnit {
	hi0: vec4<u32>,
	lo0: vec4<u32>,
	hi1: vec4<u32>,
	lo1: vec4<u32>,
	s0: vec2<f32>,
	s1: vec2<f32>,
}

fn x_unit_at(u: u32) -> XUnit {
	let r = runs_of(u) / 16u;
	return XUnit(x_hi[r.x], x_lo[r.x], x_hi[r.y], x_lo[r.y], x_scale[r.x], x_scale[r.y]);
}

// The quants of both runs of a unit as signed bytes; value i of run h is scale[h] * q[h][i] + offset[h].
struct WUnit {
	q0: vec4<u32>,
	q1: vec4<u32>,
	scale: vec2<f32>,
	offset: vec2<f32>,
}

fn word_of(b: bool, base: u32, i: u32) -> u32 {
	return fetch(b, base + i / 4u)[i % 4u];
}

fn half_of(b: bool, base: u32, i: u32) -> f32 {
	let pair = unpack2x16float(word_of(b, base, i / 2u));
	return select(pair.x, pair.y, (i & 1u) != 0u);
}

// Both scales of block i of a type with d, or d and m, after its quants; quants are centred on `zero`.
fn simple_scale(b: bool, base: u32, i: u32, zero: f32) -> vec2<f32> {
	if (QUANT == Q4_1 || QUANT == Q5_1) {
		return unpack2x16float(word_of(b, base, i));
	}
	let d = half_of(b, base, i);
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

fn w_unit_at(b: bool, base: u32, u: u32, nb: u32) -> WUnit {
	let nibble = vec4<u32>(0x0f0f0f0fu);
	switch QUANT {
		case Q4_K: {
			let block = base + u / 8u * 9u;
			let v = fetch(b, block + 1u + u % 8u);
			let s = k_scales(fetch(b, block), u % 8u / 2u);
			return WUnit(v & nibble, (v >> vec4<u32>(4u)) & nibble, s.xy, s.zw);
		}
		case Q5_K: {
			let block = base + u / 8u * 11u;
			let c = u % 8u / 2u;
			let h = fetch(b, block + 1u + u % 2u) >> vec4<u32>(2u * c);
			let v = fetch(b, block + 3u + u % 8u);
			let s = k_scales(fetch(b, block), c);
			let one = vec4<u32>(0x01010101u);
			return WUnit((v & nibble) | ((h & one) << vec4<u32>(4u)),
				((v >> vec4<u32>(4u)) & nibble) | (((h >> vec4<u32>(1u)) & one) << vec4<u32>(4u)), s.xy, s.zw);
		}
		case Q6_K: {
			let t = u % 8u;
			let block = base + u / 8u * 13u;
			let pair = t / 2u % 2u;
			let v = fetch(b, block + t);
			let h = fetch(b, block + 8u + t / 4u * 2u + t % 2u) >> vec4<u32>(2u * pair);
			let s = fetch(b, block + 12u);
			let left = 24u - 8u * (t % 2u + 2u * pair);
			let six = select(s.xy, s.zw, t >= 4u) << vec2<u32>(left);
			let scale = half_of(b, base + nb * 13u, u / 8u) * vec2<f32>(bitcast<vec2<i32>>(six) >> vec2<u32>(24u));
			let two = vec4<u32>(0x03030303u);
			return WUnit((v & nibble) | ((h & two) << vec4<u32>(4u)),
				((v >> vec4<u32>(4u)) & nibble) | (((h >> vec4<u32>(4u)) & two) << vec4<u32>(4u)), scale, -32.0 * scale);
		}
		case Q8_0: {
			let d = half_of(b, base + 2u * nb, u);
			return WUnit(fetch(b, base + 2u * u), fetch(b, base + 2u * u + 1u), vec2<f32>(d), vec2<f32>(0.0));
		}
		case Q5_0, Q5_1: {
			let v = fetch(b, base + u);
			let h = word_of(b, base + nb, u);
			let s = simple_scale(b, base + nb + (nb + 3u) / 4u, u, 16.0);
			let low = vec4<u32>(fifths(h), fifths(h >> 4u), fifths(h >> 8u), fifths(h >> 12u));
			let high = vec4<u32>(fifths(h >> 16u), fifths(h >> 20u), fifths(h >> 24u), fifths(h >> 28u));
			return WUnit((v & nibble) | low, ((v >> vec4<u32>(4u)) & nibble) | high, s.xx, s.yy);
		}
		default: { // Q4_0, Q4_1
			let v = fetch(b, base + u);
			let s = simple_scale(b, base + nb, u, 8.0);
			return WUnit(v & nibble, (v >> vec4<u32>(4u)) & nibble, s.xx, s.yy);
		}
	}
}

fn dot_run(q: vec4<u32>, hi: vec4<u32>, lo: vec4<u32>) -> f32 {
	let h = (dot4I8Packed(q.x, hi.x) + dot4I8Packed(q.y, hi.y)) + (dot4I8Packed(q.z, hi.z) + dot4I8Packed(q.w, hi.w));
	let l = (dot4I8Packed(q.x, lo.x) + dot4I8Packed(q.y, lo.y)) + (dot4I8Packed(q.z, lo.z) + dot4I8Packed(q.w, lo.w));
	return f32(256 * h + l);
}

fn dot_unit(w: WUnit, x: XUnit) -> f32 {
	return (w.scale.x * (x.s0.x * dot_run(w.q0, x.hi0, x.lo0)) + w.offset.x * x.s0.y)
		+ (w.scale.y * (x.s1.x * dot_run(w.q1, x.hi1, x.lo1)) + w.offset.y * x.s1.y);
}
