// Woven from parts/half_rows.in by weave: edit that.
// Rows of x as halves for half_matmul: each row times the power of two that brings its largest value to at least 2^13 and below 2^14,
// padded with zeros to whole units; scale[row] is what a half is worth. A workgroup a row. On the way, OP:
//   0  x
//   1  x / sqrt(mean(x^2) + eps) * (w + w_offset)
//   2  x * sigmoid(b)
//   3  silu(x) * b
//   4  x / sqrt(mean(x^2) + eps) * w * silu(b), over runs of `group` values
override WG: u32 = 64u;
override OP: u32 = 0u;
override LANES: u32 = WG; // of a sum
const MOST_GROUPS = 256u;

struct Params {
	k: u32,
	stride: u32, // halves of a row of y, a multiple of 32
	group: u32,
	eps: f32,
	w_offset: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> w: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> scale: array<f32>;

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
// Largest v of the workgroup's lanes (WG a power of two); the same answer in all of them. Uniform control flow only.
var<workgroup> largest: array<f32, WG>;

fn max_lanes(i: u32, v: f32) -> f32 {
	workgroupBarrier(); // earlier readers are done
	largest[i] = v;
	workgroupBarrier();
	for (var s = WG / 2u; s > 0u; s /= 2u) {
		if (i < s) {
			largest[i] = max(largest[i], largest[i + s]);
		}
		workgroupBarrier();
	}
	return largest[0];
}

var<workgroup> part: array<f32, WG>;
var<workgroup> group_norm: array<f32, MOST_GROUPS>; // OP 4: 1 / root mean square

fn silu(v: f32) -> f32 {
	return v / (1.0 + exp(-v));
}

// Value j of the row at `at`, before the norm of the row.
fn value(at: u32, j: u32) -> f32 {
	if (j >= p.k) {
		return 0.0;
	}
	let v = x[at + j];
	if (OP == 1u) {
		return v * (w[j] + p.w_offset);
	}
	if (OP == 2u) {
		return v / (1.0 + exp(-b[at + j]));
	}
	if (OP == 3u) {
		return silu(v) * b[at + j];
	}
	if (OP == 4u) {
		return v * group_norm[j / p.group] * w[j % p.group] * silu(b[at + j]);
	}
	return v;
}

// 1 / root mean square of each run of the row, as many lanes a run as there are.
fn norm_groups(i: u32, at: u32) {
	let groups = p.k / p.group;
	let team = max(WG / groups, 1u);
	for (var first = 0u; first < groups; first += WG / team) {
		let g = first + i / team;
		var sum = 0.0;
		if (g < groups && i < WG / team * team) {
			for (var j = i % team; j < p.group; j += team) {
				let v = x[at + g * p.group + j];
				sum += v * v;
			}
		}
		part[i] = sum;
		workgroupBarrier();
		if (g < groups && i < WG / team * team && i % team == 0u) {
			for (var t = 1u; t < team; t++) {
				sum += part[i + t];
			}
			group_norm[g] = inverseSqrt(sum / f32(p.group) + p.eps);
		}
		workgroupBarrier();
	}
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let at = wg.x * p.k;
	var norm = 1.0;
	if (OP == 4u) {
		norm_groups(i, at);
	}
	if (OP == 1u) {
		var sum = 0.0;
		for (var j = i; j < p.k; j += WG) {
			sum += x[at + j] * x[at + j];
		}
		norm = inverseSqrt(sum_lanes(i, vec4<f32>(sum)).x / f32(p.k) + p.eps);
	}
	var most = 0.0;
	for (var j = i; j < p.k; j += WG) {
		most = max(most, abs(value(at, j)));
	}
	most = max_lanes(i, most) * norm;
	// 2^13 <= most * 2^(140 - e) < 2^14 for the exponent e of most; a row of zeros, and what is too small for a half, stays
	let e = clamp((bitcast<u32>(most) >> 23u) & 255u, 14u, 253u);
	let factor = bitcast<f32>((267u - e) << 23u);
	if (i == 0u) {
		scale[wg.x] = bitcast<f32>((e - 13u) << 23u);
	}
	for (var j = i * 4u; j < p.stride; j += WG * 4u) {
		let v = vec4<f32>(value(at, j), value(at, j + 1u), value(at, j + 2u), value(at, j + 3u)) * norm * factor;
		y[(wg.x * p.stride + j) / 4u] = vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
	}
}
