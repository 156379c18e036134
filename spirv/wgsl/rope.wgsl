// Woven from parts/rope.in by weave: edit that.
// Rotate the first rotary_dim values of each head by the angles of its row's position; copy the others. A lane turns one pair,
// so that x and y may be one buffer.
override WG: u32 = 64u;

struct Params {
	n_rows: u32,
	heads: u32,
	head_dim: u32,
	rotary_dim: u32,
	interleaved: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let at = lane_index(wg, n_wg, i);
	let pairs = (p.head_dim + 1u) / 2u;
	let head = at / pairs; // of all rows
	let pair = at % pairs;
	if (head >= p.n_rows * p.heads) {
		return;
	}
	let start = head * p.head_dim;
	let half = p.rotary_dim / 2u;
	if (pair < half) {
		let turn = table[rows[head / p.heads].y * half + pair];
		let first = start + select(pair, 2u * pair, p.interleaved != 0u);
		let second = first + select(half, 1u, p.interleaved != 0u);
		let a = x[first];
		let b = x[second];
		y[first] = a * turn.x - b * turn.y;
		y[second] = b * turn.x + a * turn.y;
		return;
	}
	for (var j = 2u * pair; j < min(2u * pair + 2u, p.head_dim); j++) {
		y[start + j] = x[start + j];
	}
}
