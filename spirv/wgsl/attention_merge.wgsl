// Woven from parts/attention_merge.in by weave: edit that.
// Join the parts attention_split made of each head, and multiply by sigmoid(gate) where there is one. A head a workgroup, its lanes in
// groups that own all dims.
override WG: u32 = 256u;
override GATE: bool = false; // its values of a head lie p.head_dim after the query's

const MOST_SPLITS = 64u;

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

var<workgroup> heads: array<vec2<f32>, MOST_SPLITS>; // maximum, total
var<workgroup> sums: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = p.head_dim / 4u;
	let n_keys = min(rows[0].y + 1u, p.ctx);
	let step = span(n_keys);
	let n = (n_keys + step - 1u) / step;
	let first = wg.x * p.splits * (dims + 1u);
	if (i < n) {
		heads[i] = part[first + i * (dims + 1u) + dims].xy;
	}
	workgroupBarrier();
	var most = heads[0].x;
	for (var s = 1u; s < n; s++) {
		most = max(most, heads[s].x);
	}
	let groups = WG / dims;
	var sum = vec4<f32>(0.0);
	var s = i / dims;
	for (; s + groups < n && i < groups * dims; s += 2u * groups) {
		let a = part[first + s * (dims + 1u) + i % dims];
		let b = part[first + (s + groups) * (dims + 1u) + i % dims];
		sum += exp(heads[s].x - most) * a + exp(heads[s + groups].x - most) * b;
	}
	if (s < n && i < groups * dims) {
		sum += exp(heads[s].x - most) * part[first + s * (dims + 1u) + i % dims];
	}
	sums[i] = sum;
	workgroupBarrier();
	if (i >= dims) {
		return;
	}
	var total = 0.0;
	for (var t = 0u; t < n; t++) {
		total += exp(heads[t].x - most) * heads[t].y;
	}
	for (var g = 1u; g < groups; g++) {
		sum += sums[g * dims + i];
	}
	var r = sum / total;
	if (GATE) {
		r /= 1.0 + exp(-q[wg.x * (p.q_stride / 4u) + dims + i]);
	}
	y[wg.x * dims + i] = r;
}
