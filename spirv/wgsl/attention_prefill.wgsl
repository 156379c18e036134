// Woven from parts/attention_prefill.in by weave: edit that.
// Causal attention of one query head and ROWS consecutive rows of the batch a workgroup. Rows of one segment are computed
// together; a tile that spans segments takes a turn for each. Keys come in tiles of KEYS with a running softmax.
override WG: u32 = 128u;
override HEAD_DIM: u32 = 64u; // must be the head_dim of the parameters

const LOWEST = -3.4028234e38;
const MAX_DIM4 = 128u; // head_dim / 4

struct Params {
	n_rows: u32,
	heads: u32,
	kv_heads: u32,
	head_dim: u32,
	ctx: u32,
	scale: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> kcache: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> vcache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<vec4<f32>>;
// Vectors of four values of the caches, which are f32, or halves two to a word (KV16).
override KV16: bool = false;

fn vector_in(unit: vec4<u32>, at: u32) -> vec4<f32> {
	if (KV16) {
		let two = select(unit.xy, unit.zw, (at & 1u) != 0u);
		return vec4<f32>(unpack2x16float(two.x), unpack2x16float(two.y));
	}
	return bitcast<vec4<f32>>(unit);
}

fn key_at(at: u32) -> vec4<f32> {
	return vector_in(kcache[select(at, at / 2u, KV16)], at);
}

fn value_at(at: u32) -> vec4<f32> {
	return vector_in(vcache[select(at, at / 2u, KV16)], at);
}

const ROWS = 16u;
const KEYS = 32u;

var<workgroup> weight: array<f32, 512>;      // [ROWS][KEYS]: scores, then their exponentials
var<workgroup> shrink: array<f32, ROWS>;     // what the sums so far are worth under the new maximum
var<workgroup> total: array<f32, ROWS>;      // of the exponentials

// Scores of one tile: keys `first` on against rows [r0, r1).
fn score_tile(i: u32, cache: u32, first: u32, n_keys: u32, r0: u32, r1: u32, head: u32) {
	let dims = HEAD_DIM / 4u;
	for (var pair = i; pair < (r1 - r0) * KEYS; pair += WG) {
		let key = first + pair % KEYS;
		let row = r0 + pair / KEYS;
		var s = LOWEST;
		if (key < n_keys && key <= rows[row].y) {
			let from_q = (row * p.heads + head) * dims;
			let from_k = cache + key * dims;
			var sum = vec4<f32>(0.0);
			for (var d = 0u; d < dims; d++) {
				sum += q[from_q + d] * key_at(from_k + d);
			}
			s = ((sum.x + sum.y) + (sum.z + sum.w)) * p.scale;
		}
		weight[pair] = s;
	}
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = HEAD_DIM / 4u;
	let groups = clamp(WG / dims, 1u, ROWS); // lanes of a group own all dims, groups own rows in turn
	let own_dim = i % dims;
	let own_row = i / dims;
	let end = min((wg.y + 1u) * ROWS, p.n_rows);
	var r0 = wg.y * ROWS;
	while (r0 < end) {
		var r1 = r0 + 1u;
		while (r1 < end && rows[r1].w == rows[r0].w) {
			r1++;
		}
		let cache = (rows[r0].z * p.kv_heads + wg.x / (p.heads / p.kv_heads)) * p.ctx * dims;
		let n_keys = min(rows[r1 - 1u].y + 1u, p.ctx);
		var acc: array<vec4<f32>, ROWS>;
		for (var s = 0u; s < ROWS; s++) {
			acc[s] = vec4<f32>(0.0);
		}
		var most = LOWEST; // lane i: of row r0 + i
		var sum = 0.0;
		for (var first = 0u; first < n_keys; first += KEYS) {
			workgroupBarrier(); // the weights of the last tile have been read
			score_tile(i, cache, first, n_keys, r0, r1, wg.x);
			workgroupBarrier();
			if (i < r1 - r0) {
				var now = most;
				for (var t = 0u; t < KEYS; t++) {
					now = max(now, weight[i * KEYS + t]);
				}
				let factor = exp(most - now);
				sum *= factor;
				for (var t = 0u; t < KEYS; t++) {
					let s = weight[i * KEYS + t];
					let e = select(0.0, exp(s - now), s > LOWEST);
					weight[i * KEYS + t] = e;
					sum += e;
				}
				most = now;
				shrink[i] = factor;
				total[i] = sum;
			}
			workgroupBarrier();
			if (own_row < groups) {
				let n = min(KEYS, n_keys - first);
				for (var s = 0u; s * groups < ROWS; s++) {
					acc[s] *= shrink[min(own_row + s * groups, ROWS - 1u)];
				}
				for (var t = 0u; t < n; t++) {
					let v = value_at(cache + (first + t) * dims + own_dim);
					for (var s = 0u; s * groups < ROWS; s++) {
						acc[s] += weight[min(own_row + s * groups, ROWS - 1u) * KEYS + t] * v;
					}
				}
			}
		}
		if (own_row < groups) {
			for (var s = 0u; s * groups < ROWS; s++) {
				let row = own_row + s * groups;
				if (row < r1 - r0) {
					y[((r0 + row) * p.heads + wg.x) * dims + own_dim] = acc[s] / total[row];
				}
			}
		}
		workgroupBarrier();
		r0 = r1;
	}
}
