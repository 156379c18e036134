// Woven from parts/wide_matvec_f32.in by weave: edit that.
// y = w x (+ residual) for one row of x, which may be normed on the way. Weights that are floats.
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

var<private> before: f32;

fn ahead(row: u32) {
	if (RESIDUAL == 1u) {
		before = y[row];
	}
	if (RESIDUAL == 2u) {
		before = res[row];
	}
}

fn store(row: u32, sum: f32) {
	if (RESIDUAL == 0u) {
		y[row] = sum;
	} else {
		y[row] = before + sum;
	}
}

fn finish(i: u32, group: u32) {
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
// One row of x in workgroup memory, for weights that are floats themselves.
var<workgroup> x_run: array<vec4<f32>, 4u * RUNS>;

fn put(j: u32, v: vec4<f32>) {
	if (j < 4u * RUNS) {
		x_run[j] = v;
	}
}

struct XUnit {
	at: u32, // first of eight vectors
}

fn x_unit_at(u: u32) -> XUnit {
	return XUnit(8u * u);
}

struct WUnit {
	v: array<vec4<f32>, 8>,
}

fn w_unit_at(b: bool, base: u32, u: u32, nb: u32) -> WUnit {
	var r: WUnit;
	if (QUANT == F32) {
		for (var i = 0u; i < 8u; i++) {
			r.v[i] = bitcast<vec4<f32>>(fetch(b, base + u * 8u + i));
		}
		return r;
	}
	for (var i = 0u; i < 4u; i++) {
		let v = fetch(b, base + u * 4u + i);
		if (QUANT == F16) {
			r.v[2u * i] = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
			r.v[2u * i + 1u] = vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
		} else {
			r.v[2u * i] = bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
			r.v[2u * i + 1u] = bitcast<vec4<f32>>(vec4<u32>(v.z << 16u, v.z & 0xffff0000u, v.w << 16u, v.w & 0xffff0000u));
		}
	}
	return r;
}

fn dot_unit(w: WUnit, u: u32, x: XUnit) -> f32 {
	let a = (dot(w.v[0], x_run[x.at]) + dot(w.v[1], x_run[x.at + 1u]))
		+ (dot(w.v[2], x_run[x.at + 2u]) + dot(w.v[3], x_run[x.at + 3u]));
	let b = (dot(w.v[4], x_run[x.at + 4u]) + dot(w.v[5], x_run[x.at + 5u]))
		+ (dot(w.v[6], x_run[x.at + 6u]) + dot(w.v[7], x_run[x.at + 7u]));
	return a + b;
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
// Teams of LANES lanes take ROWS rows of w at a time, as often as the grid needs to cover all of them. ahead(row) before the sum of a
// row, store(row, sum) after it, in one lane; finish(i, workgroup) at the end, in all.
override ROWS: u32 = 4u; // 1, 2 or 4

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
		let writes = lane < ROWS && row + lane < p.n;
		if (writes) {
			ahead(p.y_first + row + lane);
		}
		// rows past the end repeat the last one; nothing is written for them
		let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
		var acc = vec4<f32>(0.0);
		for (var u = lane; u < n_units; u += LANES) {
			let x = x_unit_at(u);
			let w0 = w_unit_at(false, base.x, u, nb);
			var w1: WUnit;
			var w2: WUnit;
			var w3: WUnit;
			if (ROWS > 1u) {
				w1 = w_unit_at(false, base.y, u, nb);
			}
			if (ROWS > 2u) {
				w2 = w_unit_at(false, base.z, u, nb);
				w3 = w_unit_at(false, base.w, u, nb);
			}
			acc.x += dot_unit(w0, u, x);
			if (ROWS > 1u) {
				acc.y += dot_unit(w1, u, x);
			}
			if (ROWS > 2u) {
				acc.z += dot_unit(w2, u, x);
				acc.w += dot_unit(w3, u, x);
			}
		}
		let sum = team_sum(i, acc) * scale;
		if (writes) {
			store(p.y_first + row + lane, sum);
		}
	}
	finish(i, wg.x);
}
