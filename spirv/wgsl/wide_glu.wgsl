// Woven from parts/wide_glu.in by weave: edit that.
// y = silu(gate x) * (up x) for one row of x, which may be normed on the way: two MATMULs and SILU_MUL.
enable subgroups;
requires packed_4x8_integer_dot_product;

override WG: u32 = 256u;
override SG: u32 = 32u;    // the subgroup size, which must be required of the pipeline
override LANES: u32 = 32u; // lanes that share rows of w: a power of two, at least SG
override RUNS: u32 = 64u;  // of 16 values in x, at least 2 * units_of(k)

struct Params {
	k: u32,
	n: u32,
	w_base: u32,
	w_stride: u32,
	y_first: u32,
	group: u32,
	eps: f32,
	w_offset: f32,
	kernel: u32,
	width: u32,
	heads: u32,
	head_dim: u32,
	ctx: u32,
	q_stride: u32,
	splits: u32,
	tile: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> nw: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> gate: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> up: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

fn fetch(b: bool, at: u32) -> vec4<u32> {
	if (b) {
		return up[at];
	}
	return gate[at];
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
// One row of x in workgroup memory as 16-bit fixed point, run by run: x = scale * (256 hi + lo), signed bytes four to a word, so that
// a unit of weights takes sixteen packed dot products. The error of a value is at most 1 / 65,024 of the largest of its run.
var<workgroup> x_hi: array<vec4<u32>, RUNS>;
var<workgroup> x_lo: array<vec4<u32>, RUNS>;
var<workgroup> x_scale: array<vec2<f32>, RUNS>; // scale, sum of the run

// Vector j of x: every four lanes of a subgroup, with j a multiple of four in the first of them, make a run. All lanes call this
// together; those whose run is past the end write nothing.
fn put(j: u32, v: vec4<f32>) {
	// as bits, positive floats keep their order and what is no number is the largest
	let a = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
	var bits = max(max(a.x, a.y), max(a.z, a.w));
	bits = max(bits, subgroupShuffleXor(bits, 1u));
	bits = max(bits, subgroupShuffleXor(bits, 2u));
	let most = bitcast<f32>(bits);
	let q = vec4<i32>(round(v * select(32512.0 / most, 0.0, most < 1e-30)));
	var sum = (q.x + q.y) + (q.z + q.w); // of what is multiplied, so that its rounding meets whole weights, not quants
	sum += subgroupShuffleXor(sum, 1u);
	sum += subgroupShuffleXor(sum, 2u);
	let hi = pack4xI8((q + 128) >> vec4<u32>(8u));
	let lo = pack4xI8(q);
	// even lanes gather the high bytes of the run, odd lanes the low ones
	let even = (j & 1u) == 0u;
	let got = subgroupShuffleXor(select(hi, lo, even), 1u);
	let pair = select(vec2<u32>(got, lo), vec2<u32>(hi, got), even);
	let all = vec4<u32>(pair, subgroupShuffleXor(pair.x, 2u), subgroupShuffleXor(pair.y, 2u));
	let r = j / 4u;
	if (r < RUNS) {
		switch j % 4u {
			case 0u: {
				x_hi[r] = all;
			}
			case 1u: {
				x_lo[r] = all;
			}
			case 2u: {
				x_scale[r] = most / 32512.0 * vec2<f32>(1.0, f32(sum));
			}
			default: {
			}
		}
	}
}

fn scale_run(r: u32, by: f32) {
	x_scale[r] *= by;
}

fn x_unit_at(u: u32) -> XUnit {
	let r = runs_of(u) / 16u;
	return XUnit(x_hi[r.x], x_lo[r.x], x_hi[r.y], x_lo[r.y], x_scale[r.x], x_scale[r.y]);
}

fn dot_unit(raw: WUnit, u: u32, x: XUnit) -> f32 {
	return dot_quants(quants(raw, u), x);
}
// x as it is, or normed: by the weights while it is staged, by its root mean square (the same for all of it) in the result.
override NORM: bool = false;

var<workgroup> squares: array<f32, WG / SG>;

// Returns what the dot products are to be multiplied by.
fn stage(i: u32) -> f32 {
	let end = 8u * units_of(p.k);
	var sum = 0.0;
	for (var first = 0u; first < end; first += WG) {
		let j = first + i;
		var v = vec4<f32>(0.0);
		if (4u * j < p.k) {
			v = x[j];
			if (NORM) {
				sum += dot(v, v);
				v *= nw[j] + p.w_offset;
			}
		}
		put(j, v);
	}
	if (!NORM) {
		workgroupBarrier();
		return 1.0;
	}
	sum = subgroupAdd(sum);
	if (i % SG == 0u) {
		squares[i / SG] = sum;
	}
	workgroupBarrier();
	sum = 0.0;
	for (var s = 0u; s < WG / SG; s++) {
		sum += squares[s];
	}
	return inverseSqrt(sum / f32(p.k) + p.eps);
}
var<workgroup> parts: array<f32, 4u * WG / SG>;

// Four sums over the LANES lanes of a team at once: afterwards lane l of the team, l < 4, holds sum l. Uniform control flow only.
fn team_sum(i: u32, v: vec4<f32>) -> f32 {
	let high = (i & 2u) != 0u;
	let pair = select(v.xy, v.zw, high) + subgroupShuffleXor(select(v.zw, v.xy, high), 2u);
	let odd = (i & 1u) != 0u;
	var s = select(pair.x, pair.y, odd) + subgroupShuffleXor(select(pair.y, pair.x, odd), 1u);
	for (var o = 4u; o < SG; o *= 2u) {
		s += subgroupShuffleXor(s, o);
	}
	if (LANES > SG) {
		workgroupBarrier(); // earlier readers are done
		if (i % SG < 4u) {
			parts[i / SG * 4u + i % SG] = s;
		}
		workgroupBarrier();
		if (i % LANES < 4u) {
			s = 0.0;
			for (var t = 0u; t < LANES / SG; t++) {
				s += parts[(i / LANES * (LANES / SG) + t) * 4u + i % LANES];
			}
		}
	}
	return s;
}

override ROWS: u32 = 2u; // of each matrix: 1 or 2

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let scale = stage(i);
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let lane = i % LANES;
	let teams = WG / LANES;
	let stride = n_wg.x * teams * ROWS;
	for (var first = wg.x * teams * ROWS; first < p.n; first += stride) {
		let row = first + i / LANES * ROWS;
		let base = p.w_base + min(vec2<u32>(row, row + 1u), vec2<u32>(p.n - 1u)) * p.w_stride;
		var acc = vec4<f32>(0.0);
		for (var u = lane; u < n_units; u += LANES) {
			let x = x_unit_at(u);
			let g0 = w_unit_at(false, base.x, u, nb);
			let u0 = w_unit_at(true, base.x, u, nb);
			var g1: WUnit;
			var u1: WUnit;
			if (ROWS > 1u) {
				g1 = w_unit_at(false, base.y, u, nb);
				u1 = w_unit_at(true, base.y, u, nb);
			}
			acc.x += dot_unit(g0, u, x);
			acc.z += dot_unit(u0, u, x);
			if (ROWS > 1u) {
				acc.y += dot_unit(g1, u, x);
				acc.w += dot_unit(u1, u, x);
			}
		}
		let sum = team_sum(i, acc) * scale;
		let other = subgroupShuffleXor(sum, 2u);
		if (lane < ROWS && row + lane < p.n) {
			y[p.y_first + row + lane] = sum / (1.0 + exp(-sum)) * other;
		}
	}
}
