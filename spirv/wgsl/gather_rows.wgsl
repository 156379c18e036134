// Woven from parts/gather_rows.in by weave: edit that.
// y[r] = x[index[r]]
override WG: u32 = 64u;

struct Params {
	width: u32,
	n_rows: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let at = lane_index(wg, n_wg, i);
	if (at < p.n_rows * p.width) {
		y[at] = x[index[at / p.width] * p.width + at % p.width];
	}
}
