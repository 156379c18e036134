// Woven from parts/attention_merge.in by weave: edit that.
// Join the parts attention_split made of each head, and multiply by sigmoid(gate) where there is one. A head a workgroup.
override WG: u32 = 64u;
override GATE: bool = false; // its values of a head lie p.head_dim after the query's

struct Params {
	heads: u32,
	kv_heads: u32,
	head_dim: u32,
	ctx: u32,
	q_stride: u32, // values from head to head of q
	rotary_dim: u32,
	interleaved: u32,
	splits: u32,
	tile: u32, // positions a split has at least
	scale: f32,
	eps: f32,
	w_offset: f32,
}

@group(0) @binding(0) var<uniform> p: Params;

// Positions of each split but the last when there are n in all: a multiple of the tile.
fn span(n: u32) -> u32 {
	return ((n + p.splits - 1u) / p.splits + p.tile - 1u) / p.tile * p.tile;
}
@group(0) @binding(1) var<storage, read> part: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = p.head_dim / 4u;
	let n_keys = min(rows[0].y + 1u, p.ctx);
	let step = span(n_keys);
	let n = (n_keys + step - 1u) / step;
	let first = wg.x * p.splits * (dims + 1u);
	var most = -3.4e38;
	for (var s = 0u; s < n; s++) {
		most = max(most, part[first + s * (dims + 1u) + dims].x);
	}
	for (var d = i; d < dims; d += WG) {
		var sum = vec4<f32>(0.0);
		var total = 0.0;
		for (var s = 0u; s < n; s++) {
			let at = first + s * (dims + 1u);
			let head = part[at + dims];
			let weight = exp(head.x - most);
			sum += weight * part[at + d];
			total += weight * head.y;
		}
		var r = sum / total;
		if (GATE) {
			r /= 1.0 + exp(-q[wg.x * (p.q_stride / 4u) + dims + d]);
		}
		y[wg.x * dims + d] = r;
	}
}
