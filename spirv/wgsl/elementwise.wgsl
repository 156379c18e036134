// Woven from parts/elementwise.in by weave: edit that.
// OP 0: y = a + b; 1: y = a * sigmoid(b); 2: y = silu(a) * b.
override WG: u32 = 64u;
override OP: u32 = 0u;

struct Params {
	n: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let at = lane_index(wg, n_wg, i);
	if (at >= p.n) {
		return;
	}
	let u = a[at];
	let v = b[at];
	if (OP == 0u) {
		y[at] = u + v;
	} else if (OP == 1u) {
		y[at] = u / (1.0 + exp(-v));
	} else {
		y[at] = u / (1.0 + exp(-u)) * v;
	}
}
