// Woven from parts/wide_matvec.in by weave: edit that.
// y = w x (+ residual) for one row of x, which may be normed on the way. Weights in blocks of quants.
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
}
override RESIDUAL: u32 = 0u; // 1: added to what y holds, 2: res is added

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> nw: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read> res: array<f32>;

fn fetch(b: bool, at: u32) -> vec4<u32> {
	return w[at];
}

fn store(row: u32, sum: f32) {
	var v = sum;
	if (RESIDUAL == 1u) {
		v += y[row];
	}
	if (RESIDUAL == 2u) {
		v += res[row];
	}
	y[row] = v;
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
// x as it is, or normed: by the weights while it is staged, by its root mean square (the same for all of it) in the result.
override NORM: bool = false;

var<workgroup> squares: array<f32, RUNS>;

fn x_at(j: u32) -> vec4<f32> {
	if (4u * j >= p.k) {
		return vec4<f32>(0.0);
	}
	return x[j];
}

fn normed(v: vec4<f32>, j: u32) -> vec4<f32> {
	if (!NORM || 4u * j >= p.k) {
		return v;
	}
	return v * (nw[j] + p.w_offset);
}

// Returns what the dot products are to be multiplied by.
fn stage(i: u32, lane: u32) -> f32 {
	let runs = 2u * units_of(p.k);
	for (var r = i; r < runs; r += WG) {
		let a = x_at(4u * r);
		let b = x_at(4u * r + 1u);
		let c = x_at(4u * r + 2u);
		let d = x_at(4u * r + 3u);
		if (NORM) {
			squares[r] = (dot(a, a) + dot(b, b)) + (dot(c, c) + dot(d, d));
		}
		put_run(r, normed(a, 4u * r), normed(b, 4u * r + 1u), normed(c, 4u * r + 2u), normed(d, 4u * r + 3u));
	}
	workgroupBarrier();
	if (!NORM) {
		return 1.0;
	}
	var sum = 0.0;
	for (var r = lane; r < runs; r += SG) {
		sum += squares[r];
	}
	return inverseSqrt(subgroupAdd(sum) / f32(p.k) + p.eps);
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
// Teams of LANES lanes take ROWS rows of w at a time, as often as the grid needs to cover all of them.
override ROWS: u32 = 4u; // 1, 2 or 4

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let scale = stage(i, i % SG);
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let teams = WG / LANES;
	let stride = n_wg.x * teams * ROWS;
	for (var first = wg.x * teams * ROWS; first < p.n; first += stride) {
		let row = first + i / LANES * ROWS;
		// rows past the end repeat the last one; nothing is written for them
		let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
		var acc = vec4<f32>(0.0);
		for (var u = i % LANES; u < n_units; u += LANES) {
			let x = x_unit_at(u);
			if (ROWS == 4u) {
				let w0 = w_unit_at(false, base.x, u, nb);
				let w1 = w_unit_at(false, base.y, u, nb);
				let w2 = w_unit_at(false, base.z, u, nb);
				let w3 = w_unit_at(false, base.w, u, nb);
				acc += vec4<f32>(dot_unit(w0, x), dot_unit(w1, x), dot_unit(w2, x), dot_unit(w3, x));
			} else if (ROWS == 2u) {
				let w0 = w_unit_at(false, base.x, u, nb);
				let w1 = w_unit_at(false, base.y, u, nb);
				acc += vec4<f32>(dot_unit(w0, x), dot_unit(w1, x), 0.0, 0.0);
			} else {
				acc.x += dot_unit(w_unit_at(false, base.x, u, nb), x);
			}
		}
		let sum = team_sum(i, acc) * scale;
		let l = i % LANES;
		if (l < ROWS && row + l < p.n) {
			store(p.y_first + row + l, sum);
		}
	}
}
