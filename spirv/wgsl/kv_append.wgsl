// Woven from parts/kv_append.in by weave: edit that.
// Put the keys and values of each row at its position of its slot: caches [slot][kv_head][ctx][head_dim].
override WG: u32 = 64u;

struct Params {
	n_rows: u32,
	heads: u32,
	kv_heads: u32,
	head_dim: u32,
	ctx: u32,
	scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> v: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> kcache: array<f32>;
@group(0) @binding(5) var<storage, read_write> vcache: array<f32>;

// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let source = lane_index(wg, n_wg, i);
	let head = source / p.head_dim; // of all rows
	let row = head / p.kv_heads;
	if (row >= p.n_rows) {
		return;
	}
	let place = rows[row];
	if (place.y >= p.ctx) {
		return;
	}
	let to = ((place.z * p.kv_heads + head % p.kv_heads) * p.ctx + place.y) * p.head_dim + source % p.head_dim;
	kcache[to] = k[source];
	vcache[to] = v[source];
}
