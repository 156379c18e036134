// Woven from parts/attention_merge.in by weave: edit that.
// Join the parts attention_split made of each head of each row, and multiply by sigmoid(gate) where there is one. A head of a row and
// CHUNK vectors of it a workgroup, its lanes in groups that own all of these.
enable subgroups;

override WG: u32 = 256u;
override SG: u32 = 32u; // the subgroup size, which must be required of the pipeline
override GATE: bool = false; // its values of a head lie p.head_dim after the query's

const CHUNK = 16u;
const LOWEST = -3.4e38;

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

var<workgroup> weights: array<f32, WG>; // of each part; p.splits <= WG
var<workgroup> among: array<f32, 2u * (WG / SG)>; // of subgroups: maxima, totals
var<workgroup> sums: array<vec4<f32>, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = p.head_dim / 4u;
	let n_keys = min(rows[wg.y].y + 1u, p.ctx);
	let step = max(span(n_keys), 1u);
	let n = (n_keys + step - 1u) / step;
	let first = (wg.y * p.heads + wg.x) * p.splits * (dims + 1u);
	var own = vec2<f32>(LOWEST, 0.0);
	if (i < n) {
		own = part[first + i * (dims + 1u) + dims].xy;
	}
	var most = subgroupMax(own.x);
	if (i % SG == 0u) {
		among[i / SG] = most;
	}
	workgroupBarrier();
	for (var s = 0u; s < WG / SG; s++) {
		most = max(most, among[s]);
	}
	let e = exp(own.x - most);
	weights[i] = e;
	var total = subgroupAdd(e * own.y);
	if (i % SG == 0u) {
		among[WG / SG + i / SG] = total;
	}
	workgroupBarrier();
	let d = wg.z * CHUNK + i % CHUNK;
	var sum = vec4<f32>(0.0);
	if (d < dims) {
		for (var s = i / CHUNK; s < n; s += WG / CHUNK) {
			sum += weights[s] * part[first + s * (dims + 1u) + d];
		}
	}
	sums[i] = sum;
	workgroupBarrier();
	if (i >= CHUNK || d >= dims) {
		return;
	}
	total = 0.0;
	for (var s = 0u; s < WG / SG; s++) {
		total += among[WG / SG + s];
	}
	for (var g = 1u; g < WG / CHUNK; g++) {
		sum += sums[g * CHUNK + i];
	}
	var r = select(sum / total, vec4<f32>(0.0), n == 0u);
	if (GATE) {
		r /= 1.0 + exp(-q[(wg.y * p.heads + wg.x) * (p.q_stride / 4u) + dims + d]);
	}
	y[(wg.y * p.heads + wg.x) * dims + d] = r;
}
