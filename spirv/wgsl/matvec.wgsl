// Woven from parts/matvec.in by weave: edit that.
// y = x w^T for few rows of x. LANES lanes share four rows of w and stride over its units; every lane multiplies each unit
// with TILE_M rows of x.
override WG: u32 = 64u;
override LANES: u32 = 64u;
override TILE_M: u32 = 1u;
override RESIDUAL: u32 = 0u;
override K_TAIL: bool = true;

struct Params {
	k: u32,
	n: u32,
	n_rows: u32,
	w_base: u32,
	w_stride: u32,
	y_first: u32,
	y_stride: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> res: array<f32>;
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
// Weight rows in the layout of README.md, read in units as floats.
// Value 4 i + j of run h is scale[h] * q[4 h + i][j] + offset[h].
struct Unit {
	q: array<vec4<f32>, 8>,
	scale: vec2<f32>,
	offset: vec2<f32>,
}

fn word_at(base: u32, i: u32) -> u32 {
	return w[base + i / 4u][i % 4u];
}

fn half_at(base: u32, i: u32) -> f32 {
	let pair = unpack2x16float(word_at(base, i / 2u));
	return select(pair.x, pair.y, (i & 1u) != 0u);
}

fn bfloats(a: u32, b: u32) -> vec4<f32> {
	return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
}

// Every byte of v, shifted right and masked (mask + shift within a byte).
fn bytes(v: u32, shift: u32, mask: u32) -> vec4<u32> {
	return (vec4<u32>(v) >> (vec4<u32>(0u, 8u, 16u, 24u) + shift)) & vec4<u32>(mask);
}

fn nibbles(v: u32, shift: u32) -> vec4<f32> {
	return vec4<f32>(bytes(v, shift, 15u));
}

fn signed_bytes(v: u32) -> vec4<f32> {
	return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

// Bits i to i + 3 of v as 0 or 16.
fn fifth_bits(v: u32, i: u32) -> vec4<u32> {
	return ((vec4<u32>(v) >> (vec4<u32>(0u, 1u, 2u, 3u) + i)) & vec4<u32>(1u)) << vec4<u32>(4u);
}

fn unit_plain(base: u32, u: u32) -> Unit {
	var r: Unit;
	r.scale = vec2<f32>(1.0);
	r.offset = vec2<f32>(0.0);
	if (QUANT == F32) {
		for (var i = 0u; i < 8u; i++) {
			r.q[i] = bitcast<vec4<f32>>(w[base + u * 8u + i]);
		}
		return r;
	}
	for (var i = 0u; i < 4u; i++) {
		let v = w[base + u * 4u + i];
		if (QUANT == F16) {
			r.q[2u * i] = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
			r.q[2u * i + 1u] = vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
		} else {
			r.q[2u * i] = bfloats(v.x, v.y);
			r.q[2u * i + 1u] = bfloats(v.z, v.w);
		}
	}
	return r;
}

// Scale and offset of block b, whose scales start at base: d alone with quants centred on `zero`, or d and m.
fn unit_scale(base: u32, b: u32, zero: f32) -> vec2<f32> {
	if (QUANT == Q4_1 || QUANT == Q5_1) {
		return unpack2x16float(word_at(base, b));
	}
	let d = half_at(base, b);
	return vec2<f32>(d, -zero * d);
}

fn unit_q4(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let v = w[base + u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = nibbles(v[i], 0u);
		r.q[i + 4u] = nibbles(v[i], 4u);
	}
	let s = unit_scale(base + nb, u, 8.0);
	r.scale = s.xx;
	r.offset = s.yy;
	return r;
}

fn unit_q5(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let v = w[base + u];
	let h = word_at(base + nb, u);
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | fifth_bits(h, 4u * i));
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | fifth_bits(h, 4u * i + 16u));
	}
	let s = unit_scale(base + nb + (nb + 3u) / 4u, u, 16.0);
	r.scale = s.xx;
	r.offset = s.yy;
	return r;
}

fn unit_q8(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	for (var h = 0u; h < 2u; h++) {
		let v = w[base + 2u * u + h];
		for (var i = 0u; i < 4u; i++) {
			r.q[4u * h + i] = signed_bytes(v[i]);
		}
	}
	r.scale = vec2<f32>(half_at(base + 2u * nb, u));
	r.offset = vec2<f32>(0.0);
	return r;
}

// The six-bit scales and minima of sub-blocks 2 c and 2 c + 1: head holds d, dmin and the 12 packed bytes.
fn set_k_scales(r: ptr<function, Unit>, head: vec4<u32>, c: u32) {
	let v = (head.yzw >> vec3<u32>(c % 2u * 16u));
	let low = vec4<u32>(v.x, v.x >> 8u, v.y, v.y >> 8u);
	let both = vec4<u32>(v.z, v.z >> 8u, v.z >> 4u, v.z >> 12u) & vec4<u32>(15u);
	let six = select(both | (((low >> vec4<u32>(6u)) & vec4<u32>(3u)) << vec4<u32>(4u)), low & vec4<u32>(63u), c < 2u);
	let d = unpack2x16float(head.x);
	(*r).scale = d.x * vec2<f32>(six.xy);
	(*r).offset = -d.y * vec2<f32>(six.zw);
}

fn unit_q4_k(base: u32, u: u32) -> Unit {
	var r: Unit;
	let block = base + u / 8u * 9u;
	let v = w[block + 1u + u % 8u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = nibbles(v[i], 0u);
		r.q[i + 4u] = nibbles(v[i], 4u);
	}
	set_k_scales(&r, w[block], u % 8u / 2u);
	return r;
}

fn unit_q5_k(base: u32, u: u32) -> Unit {
	var r: Unit;
	let block = base + u / 8u * 11u;
	let c = u % 8u / 2u;
	let h = w[block + 1u + u % 2u] >> vec4<u32>(2u * c);
	let v = w[block + 3u + u % 8u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | (bytes(h[i], 0u, 1u) << vec4<u32>(4u)));
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | (bytes(h[i], 1u, 1u) << vec4<u32>(4u)));
	}
	set_k_scales(&r, w[block], c);
	return r;
}

fn unit_q6_k(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let b = u / 8u;
	let t = u % 8u;
	let block = base + b * 13u;
	let pair = t / 2u % 2u; // which 32 of the low 64
	let v = w[block + t];
	let h = w[block + 8u + t / 4u * 2u + t % 2u] >> vec4<u32>(2u * pair);
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | (bytes(h[i], 0u, 3u) << vec4<u32>(4u))) - 32.0;
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | (bytes(h[i], 4u, 3u) << vec4<u32>(4u))) - 32.0;
	}
	let at = vec2<u32>(t / 4u * 2u) + vec2<u32>(0u, 1u);
	let s = w[block + 12u];
	let sc = vec2<u32>(s[at.x], s[at.y]) << vec2<u32>(24u - 8u * (t % 2u + 2u * pair));
	r.scale = half_at(base + nb * 13u, b) * vec2<f32>(bitcast<vec2<i32>>(sc) >> vec2<u32>(24u));
	r.offset = vec2<f32>(0.0);
	return r;
}

// Unit u of the row that starts at w[base]; nb = blocks_of(k).
fn unit_at(base: u32, u: u32, nb: u32) -> Unit {
	switch QUANT {
		case Q4_0, Q4_1: {
			return unit_q4(base, u, nb);
		}
		case Q5_0, Q5_1: {
			return unit_q5(base, u, nb);
		}
		case Q8_0: {
			return unit_q8(base, u, nb);
		}
		case Q4_K: {
			return unit_q4_k(base, u);
		}
		case Q5_K: {
			return unit_q5_k(base, u);
		}
		case Q6_K: {
			return unit_q6_k(base, u, nb);
		}
		default: {
			return unit_plain(base, u);
		}
	}
}
fn x_at(row: u32, k: u32) -> vec4<f32> {
	if (K_TAIL && k >= p.k) {
		return vec4<f32>(0.0);
	}
	return x[(row * p.k + k) / 4u];
}

// Columns col to col + 3 of this range, as far as they exist.
fn store(row: u32, col: u32, sum: vec4<f32>) {
	if (row >= p.n_rows) {
		return;
	}
	for (var j = 0u; j < 4u; j++) {
		if (col + j < p.n) {
			let at = row * p.y_stride + p.y_first + col + j;
			var v = sum[j];
			if (RESIDUAL == 1u) {
				v += y[at];
			}
			if (RESIDUAL == 2u) {
				v += res[at];
			}
			y[at] = v;
		}
	}
}
// Sum v over the LANES lanes (a power of two) that share a result; the same answer in all of them. Uniform control flow only.
var<workgroup> partial: array<vec4<f32>, WG>;

fn sum_lanes(i: u32, v: vec4<f32>) -> vec4<f32> {
	if (LANES == 1u) {
		return v;
	}
	workgroupBarrier(); // earlier readers are done
	partial[i] = v;
	workgroupBarrier();
	for (var s = LANES / 2u; s > 0u; s /= 2u) {
		if (i % LANES < s) {
			partial[i] += partial[i + s];
		}
		workgroupBarrier();
	}
	return partial[i - i % LANES];
}

// The eight vectors of row r of x that a unit with these runs meets.
fn x_unit(i: u32, r: u32, runs: vec2<u32>) -> array<vec4<f32>, 8> {
	var v: array<vec4<f32>, 8>;
	for (var j = 0u; j < 8u; j++) {
		v[j] = x_at(r, runs[j / 4u] + j % 4u * 4u);
	}
	return v;
}

fn dot_run(u: ptr<function, Unit>, h: u32, x: ptr<function, array<vec4<f32>, 8>>) -> f32 {
	let q = 4u * h;
	return (dot((*u).q[q], (*x)[q]) + dot((*u).q[q + 1u], (*x)[q + 1u]))
		+ (dot((*u).q[q + 2u], (*x)[q + 2u]) + dot((*u).q[q + 3u], (*x)[q + 3u]));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let lane = i % LANES;
	let col = ((wg.z * n_wg.x + wg.x) * (WG / LANES) + i / LANES) * 4u;
	let row = wg.y * TILE_M;
	let rows = min(TILE_M, p.n_rows - row);
	let nb = blocks_of(p.k);
	let n_units = units_of(p.k);
	// columns past the end repeat the last one; nothing is written for them
	let base = p.w_base + min(vec4<u32>(col, col + 1u, col + 2u, col + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
	var acc: array<vec4<f32>, 8>;
	for (var first = 0u; first < n_units; first += LANES) {
		// in step, so that x_unit may exchange: a lane past the end repeats the last unit for nothing
		let u = min(first + lane, n_units - 1u);
		let worth = select(0.0, 1.0, LANES == 1u || first + lane < n_units);
		var units: array<Unit, 4>;
		for (var j = 0u; j < 4u; j++) {
			units[j] = unit_at(base[j], u, nb);
		}
		let runs = runs_of(u);
		for (var m = 0u; m < TILE_M; m++) {
			var xs = x_unit(i, row + min(m, rows - 1u), runs);
			for (var h = 0u; h < 2u; h++) {
				var dots: vec4<f32>;
				var scale: vec4<f32>;
				var offset: vec4<f32>;
				for (var j = 0u; j < 4u; j++) {
					dots[j] = dot_run(&units[j], h, &xs);
					scale[j] = units[j].scale[h];
					offset[j] = units[j].offset[h];
				}
				let total = dot((xs[4u * h] + xs[4u * h + 1u]) + (xs[4u * h + 2u] + xs[4u * h + 3u]), vec4<f32>(1.0));
				acc[m] += worth * (scale * dots + offset * total);
			}
		}
	}
	for (var m = 0u; m < TILE_M; m++) {
		let sum = sum_lanes(i, acc[m]);
		if (lane == 0u && m < rows) {
			store(row + m, col, sum);
		}
	}
}
