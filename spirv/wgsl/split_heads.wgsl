// Woven from parts/split_heads.in by weave: edit that.
// Heads of 2 head_dim values: first halves to y0, second halves to y1.
override WG: u32 = 64u;

struct Params {
	n: u32,
	head_dim: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32>;

// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let at = lane_index(wg, n_wg, i);
	if (at < p.n) {
		let source = at + at / p.head_dim * p.head_dim;
		y0[at] = x[source];
		y1[at] = x[source + p.head_dim];
	}
}
