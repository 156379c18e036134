// Woven from parts/rows_product.in by weave: edit that.
// y = w x (+ y) for many rows of x, which rows_stage made: TILE_M of them at a time, for each of which ROWS rows of w are multiplied with
// what is read of them once. Weights in blocks of quants. A team of LANES lanes, a subgroup or more, has those rows of w.
enable subgroups;
requires packed_4x8_integer_dot_product;

override WG: u32 = 256u;
override SG: u32 = 32u;     // the subgroup size, which must be required of the pipeline
override ROWS: u32 = 4u;    // of w: 1, 2 or 4
override TILE_M: u32 = 8u;  // of x: 4 or 8
override RESIDUAL: bool = false; // added to what y holds

struct Params {
	k: u32,
	n: u32,      // rows of w in this range
	n_rows: u32, // of x
	runs: u32,   // as of rows_stage
	w_base: u32, // units of 16 bytes
	w_stride: u32,
	y_first: u32,
	y_stride: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> x_scales: array<vec2<f32>>; // the same buffer
@group(0) @binding(3) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

fn fetch(b: bool, at: u32) -> vec4<u32> {
	return w[at];
}

// Types of weights (README.md), and how a row of them divides into units: 32 values, as two runs of 16 consecutive ones.
const F32 = 0u;
const F16 = 1u;
const BF16 = 2u;
const Q4_0 = 3u;
const Q4_1 = 4u;
const Q5_0 = 5u;
const Q5_1 = 6u;
const Q8_0 = 7u;
const Q4_K = 8u;
const Q5_K = 9u;
const Q6_K = 10u;

override QUANT: u32 = 0u; // rp_dtype

fn has_superblocks() -> bool {
	return QUANT >= Q4_K;
}

// Units of a row of k values, and blocks of one (units, for types without blocks).
fn units_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u * 8u, has_superblocks());
}

fn blocks_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u, has_superblocks());
}

// Where the two runs of unit u start in the row.
fn runs_of(u: u32) -> vec2<u32> {
	let t = u % 8u;
	switch QUANT {
		case Q4_K, Q5_K: {
			let start = u / 8u * 256u + t / 2u * 64u + t % 2u * 16u;
			return vec2<u32>(start, start + 32u);
		}
		case Q6_K: {
			let start = u / 8u * 256u + t / 4u * 128u + t / 2u % 2u * 32u + t % 2u * 16u;
			return vec2<u32>(start, start + 64u);
		}
		default: {
			return vec2<u32>(u * 32u, u * 32u + 16u);
		}
	}
}
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

// The unit of row m of x with runs r.
fn x_unit(m: u32, r: vec2<u32>) -> XUnit {
	let at = m * (2u * p.runs + p.runs / 2u);
	let s = 2u * (at + 2u * p.runs);
	return XUnit(x[at + r.x], x[at + p.runs + r.x], x[at + r.y], x[at + p.runs + r.y], x_scales[s + r.x], x_scales[s + r.y]);
}

// What four rows of w give with a unit of x.
fn four(a: Quants, b: Quants, c: Quants, d: Quants, x: XUnit) -> vec4<f32> {
	var s = vec4<f32>(dot_quants(a, x), 0.0, 0.0, 0.0);
	if (ROWS > 1u) {
		s.y = dot_quants(b, x);
	}
	if (ROWS > 2u) {
		s.z = dot_quants(c, x);
		s.w = dot_quants(d, x);
	}
	return s;
}

// Four sums over the lanes of the subgroup: lane l, l % 4 is the sum's number.
fn team_sum(i: u32, v: vec4<f32>) -> f32 {
	let high = (i & 2u) != 0u;
	let pair = select(v.xy, v.zw, high) + subgroupShuffleXor(select(v.zw, v.xy, high), 2u);
	let odd = (i & 1u) != 0u;
	var s = select(pair.x, pair.y, odd) + subgroupShuffleXor(select(pair.y, pair.x, odd), 1u);
	for (var o = 4u; o < SG; o *= 2u) {
		s += subgroupShuffleXor(s, o);
	}
	return s;
}

fn put(i: u32, sums: vec4<f32>, m: u32, row: u32) {
	let s = team_sum(i, sums);
	let lane = i % SG;
	if (lane < ROWS && row + lane < p.n && m < p.n_rows) {
		let at = m * p.y_stride + p.y_first + row + lane;
		if (RESIDUAL) {
			y[at] += s;
		} else {
			y[at] = s;
		}
	}
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let teams = WG / SG;
	let m = wg.y * TILE_M;
	let last = p.n_rows - 1u; // rows past the end repeat the last one; nothing is written for them
	for (var first = wg.x * teams * ROWS; first < p.n; first += n_wg.x * teams * ROWS) {
		let row = first + i / SG * ROWS;
		let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
		let none = vec4<f32>(0.0);
		var s0 = none;
		var s1 = none;
		var s2 = none;
		var s3 = none;
		var s4 = none;
		var s5 = none;
		var s6 = none;
		var s7 = none;
		for (var u = i % SG; u < n_units; u += SG) {
			let a = quants(w_unit_at(false, base.x, u, nb), u);
			var b: Quants;
			var c: Quants;
			var d: Quants;
			if (ROWS > 1u) {
				b = quants(w_unit_at(false, base.y, u, nb), u);
			}
			if (ROWS > 2u) {
				c = quants(w_unit_at(false, base.z, u, nb), u);
				d = quants(w_unit_at(false, base.w, u, nb), u);
			}
			let r = runs_of(u) / 16u;
			s0 += four(a, b, c, d, x_unit(min(m, last), r));
			s1 += four(a, b, c, d, x_unit(min(m + 1u, last), r));
			s2 += four(a, b, c, d, x_unit(min(m + 2u, last), r));
			s3 += four(a, b, c, d, x_unit(min(m + 3u, last), r));
			if (TILE_M > 4u) {
				s4 += four(a, b, c, d, x_unit(min(m + 4u, last), r));
				s5 += four(a, b, c, d, x_unit(min(m + 5u, last), r));
				s6 += four(a, b, c, d, x_unit(min(m + 6u, last), r));
				s7 += four(a, b, c, d, x_unit(min(m + 7u, last), r));
			}
		}
		put(i, s0, m, row);
		put(i, s1, m + 1u, row);
		put(i, s2, m + 2u, row);
		put(i, s3, m + 3u, row);
		if (TILE_M > 4u) {
			put(i, s4, m + 4u, row);
			put(i, s5, m + 5u, row);
			put(i, s6, m + 6u, row);
			put(i, s7, m + 7u, row);
		}
	}
}
