// Woven from parts/rows_stage.in by weave: edit that.
// Rows of x as the products of many rows read them: 16-bit fixed point a run of 16 values (as wide_int has it), after what comes
// before a product: a norm of the row or of its groups, a gate. A row a workgroup.
//
// out, a row: [runs] high bytes, [runs] low bytes, four vectors' worth of 16 values each; [runs] scales and sums, two a vector; runs is
// k / 16 up to a multiple of 16, so that any type of weights finds whole blocks.
enable subgroups;

override WG: u32 = 128u;
override SG: u32 = 32u;   // the subgroup size, which must be required of the pipeline
override RUNS: u32 = 64u; // p.runs, or more
override MODE: u32 = 0u;

const PLAIN = 0u;
const NORM = 1u;   // of the whole row, by nw
const SILU = 2u;   // silu(x) * z
const GATED = 3u;  // x normed over groups by nw, times silu(z)

struct Params {
	k: u32,
	runs: u32,
	group: u32, // GATED: values normed together, a multiple of 16 that divides k
	eps: f32,
	w_offset: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> nw: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> z: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> scales: array<vec2<f32>>; // the same buffer

var<workgroup> squares: array<f32, RUNS>; // of each run
var<workgroup> sums: array<f32, WG / SG>;

fn silu(v: vec4<f32>) -> vec4<f32> {
	return v / (1.0 + exp(-v));
}

// Vector j of the row that starts at `first`; but for its norm.
fn vector(first: u32, j: u32) -> vec4<f32> {
	if (4u * j >= p.k) {
		return vec4<f32>(0.0);
	}
	let v = x[first + j];
	switch MODE {
		case NORM: {
			return v * (nw[j] + p.w_offset);
		}
		case SILU: {
			return silu(v) * z[first + j];
		}
		case GATED: {
			return v * (nw[j % (p.group / 4u)] + p.w_offset) * silu(z[first + j]);
		}
		default: {
			return v;
		}
	}
}

fn largest(v: vec4<f32>) -> u32 {
	// as bits, positive floats keep their order and what is no number is the largest
	let a = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
	return max(max(a.x, a.y), max(a.z, a.w));
}

fn sum4(v: vec4<i32>) -> i32 {
	return (v.x + v.y) + (v.z + v.w);
}

fn square_of(first: u32, j: u32) -> f32 {
	if (4u * j >= p.k) {
		return 0.0;
	}
	return dot(x[first + j], x[first + j]);
}

// What run r is to be multiplied by: its norm. All lanes, after the squares are there.
fn norm_of(r: u32, of_row: f32) -> f32 {
	if (MODE == NORM) {
		return of_row;
	}
	if (MODE != GATED) {
		return 1.0;
	}
	let each = p.group / 16u;
	var sum = 0.0;
	for (var s = 0u; s < each; s++) {
		sum += squares[min(r / each * each + s, RUNS - 1u)];
	}
	return inverseSqrt(sum / f32(p.group) + p.eps);
}

fn rms_of_row(i: u32) -> f32 {
	var sum = 0.0;
	for (var r = i; r < p.runs; r += WG) {
		sum += squares[r];
	}
	sum = subgroupAdd(sum);
	if (i % SG == 0u) {
		sums[i / SG] = sum;
	}
	workgroupBarrier();
	sum = 0.0;
	for (var s = 0u; s < WG / SG; s++) {
		sum += sums[s];
	}
	return inverseSqrt(sum / f32(p.k) + p.eps);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let first = wg.x * (p.k / 4u);
	let at = wg.x * (2u * p.runs + p.runs / 2u);
	var rms = 1.0;
	if (MODE == NORM || MODE == GATED) {
		for (var r = i; r < p.runs; r += WG) {
			squares[r] = (square_of(first, 4u * r) + square_of(first, 4u * r + 1u))
				+ (square_of(first, 4u * r + 2u) + square_of(first, 4u * r + 3u));
		}
		workgroupBarrier();
		if (MODE == NORM) {
			rms = rms_of_row(i);
		}
	}
	for (var r = i; r < p.runs; r += WG) {
		let a = vector(first, 4u * r);
		let b = vector(first, 4u * r + 1u);
		let c = vector(first, 4u * r + 2u);
		let d = vector(first, 4u * r + 3u);
		let most = bitcast<f32>(max(max(largest(a), largest(b)), max(largest(c), largest(d))));
		let by = select(32512.0 / most, 0.0, most < 1e-30);
		let qa = vec4<i32>(round(a * by));
		let qb = vec4<i32>(round(b * by));
		let qc = vec4<i32>(round(c * by));
		let qd = vec4<i32>(round(d * by));
		let half = vec4<i32>(128);
		let eight = vec4<u32>(8u);
		out[at + r] = vec4<u32>(pack4xI8((qa + half) >> eight), pack4xI8((qb + half) >> eight), pack4xI8((qc + half) >> eight),
			pack4xI8((qd + half) >> eight));
		out[at + p.runs + r] = vec4<u32>(pack4xI8(qa), pack4xI8(qb), pack4xI8(qc), pack4xI8(qd));
		let sum = (sum4(qa) + sum4(qb)) + (sum4(qc) + sum4(qd)); // of what is multiplied: its rounding meets whole weights
		scales[2u * (at + 2u * p.runs) + r] = most / 32512.0 * norm_of(r, rms) * vec2<f32>(1.0, f32(sum));
	}
}
