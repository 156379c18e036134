// Woven from parts/gated_norm.in by weave: edit that.
// y = x / sqrt(mean(x^2) + eps) * w * silu(z) over runs of `group` values; LANES lanes a run.
enable subgroups;

override WG: u32 = 64u;
override LANES: u32 = 64u;

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> z: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

struct Params {
	group: u32,
	n_groups: u32,
	eps: f32,
	w_offset: f32,
}

// Sum over this lane's share of the run at `start`, which is empty past the last run.
fn sum_squares(start: u32, lane: u32, live: bool) -> f32 {
	var sum = 0.0;
	if (live) {
		for (var j = lane; j < p.group; j += LANES) {
			sum += x[start + j] * x[start + j];
		}
	}
	return sum;
}
// Sum v over the lanes that share a result: all WG of the workgroup, or (LANES 1) none. The same answer in all of them.
// Uniform control flow only. A subgroup is a run of consecutive lanes whose length is counted, not assumed.
var<workgroup> partial: array<vec4<f32>, WG>;

fn sum_lanes(i: u32, v: vec4<f32>) -> vec4<f32> {
	if (LANES == 1u) {
		return v;
	}
	let sum = subgroupAdd(v);
	let size = subgroupAdd(1u);
	workgroupBarrier(); // earlier readers are done
	if (i % size == 0u) {
		partial[i / size] = sum;
	}
	workgroupBarrier();
	var total = partial[0];
	for (var s = 1u; s < WG / size; s++) {
		total += partial[s];
	}
	return total;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let group = (wg.y * n_wg.x + wg.x) * (WG / LANES) + i / LANES;
	let live = group < p.n_groups;
	let start = group * p.group;
	let sum = sum_lanes(i, vec4<f32>(sum_squares(start, i % LANES, live))).x;
	if (live) {
		let scale = inverseSqrt(sum / f32(p.group) + p.eps);
		for (var j = i % LANES; j < p.group; j += LANES) {
			let g = z[start + j];
			y[start + j] = x[start + j] * scale * (w[j] + p.w_offset) * (g / (1.0 + exp(-g)));
		}
	}
}
