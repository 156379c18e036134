// Woven from parts/half_attention.in by weave: edit that.
// Causal attention of many rows on matrix units. The query heads that share a key head stand side by side as rows of one tile of
// SIDE rows a subgroup, so that a tile of KEYS keys and values serves them all. Rows of one segment are computed together; a tile that
// spans segments takes a turn for each. The softmax is a running one, whose maximum moves only when scores leave it far behind: until
// then exponentials stay below e^MARGIN, which a half holds, and the sums need no rescaling.
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

const SIDE = 16u; // rows and columns of a matrix
override WG: u32 = 128u;
override SG: u32 = 32u;
override HEAD_DIM: u32 = 64u; // must be the head_dim of the parameters: a multiple of SIDE, at most MOST_DIM
override KEYS: u32 = 32u;     // a multiple of SIDE
override KV16: bool = false;

const LOWEST = -3.4028234e38;
const MARGIN = 8.0;
const MOST_DIM = 256u;
const MOST = MOST_DIM / SIDE;

override M: u32 = WG / SG * SIDE;        // rows of the tile: query row, then head
override TEAM: u32 = SG / SIDE;          // lanes a row in the softmax
override LD: u32 = HEAD_DIM / 8u + 1u;   // vectors a key or value in workgroup memory
override S_LD: u32 = KEYS + 4u;          // floats a row of scores
override P_LD: u32 = KEYS / 8u + 1u;     // vectors a row of exponentials

alias Left = subgroup_matrix_left<f16, SIDE, SIDE>;
alias Right = subgroup_matrix_right<f16, SIDE, SIDE>;
alias Sum = subgroup_matrix_result<f32, SIDE, SIDE>;

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
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

var<workgroup> tile: array<vec4<u32>, max(2u * KEYS, M) * LD>; // the queries; then keys, and values behind them
var<workgroup> scores: array<f32, M * S_LD>;
var<workgroup> weights: array<vec4<u32>, M * P_LD>;
var<workgroup> part: array<f32, WG>;
var<workgroup> shrink: array<f32, M>;
var<workgroup> moved: atomic<u32>; // does any sum need rescaling?

fn halves(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
	let top = vec4<f32>(65504.0);
	let lo = clamp(a, -top, top);
	let hi = clamp(b, -top, top);
	return vec4<u32>(pack2x16float(lo.xy), pack2x16float(lo.zw), pack2x16float(hi.xy), pack2x16float(hi.zw));
}

// Part d of eight values of the key or value at `at` (vectors of eight).
fn key_part(at: u32) -> vec4<u32> {
	if (KV16) {
		return kcache[at];
	}
	return halves(bitcast<vec4<f32>>(kcache[2u * at]), bitcast<vec4<f32>>(kcache[2u * at + 1u]));
}

fn value_part(at: u32) -> vec4<u32> {
	if (KV16) {
		return vcache[at];
	}
	return halves(bitcast<vec4<f32>>(vcache[2u * at]), bitcast<vec4<f32>>(vcache[2u * at + 1u]));
}

// Keys `first` on, zeros past the last; a value there may be anything, and nothing times infinity would be no number.
fn load_tile(i: u32, cache: u32, first: u32, n_keys: u32) {
	let parts = HEAD_DIM / 8u;
	for (var t = i; t < KEYS * parts; t += WG) {
		let key = t / parts;
		let d = t % parts;
		var k = vec4<u32>(0u);
		var v = vec4<u32>(0u);
		if (first + key < n_keys) {
			let at = cache + (first + key) * parts + d;
			k = key_part(at);
			v = value_part(at);
		}
		tile[key * LD + d] = k;
		tile[(KEYS + key) * LD + d] = v;
	}
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32, @builtin(subgroup_id) sg: u32) {
	let group = p.heads / p.kv_heads;
	let tall = M / group; // query rows of the tile
	let end = min((wg.y + 1u) * tall, p.n_rows);
	let m = i / TEAM; // this lane's row in the softmax
	let head = wg.x * group + m % group;
	let lane = i % SG;
	var r0 = wg.y * tall;
	while (r0 < end) {
		var r1 = r0 + 1u;
		while (r1 < end && rows[r1].w == rows[r0].w) {
			r1++;
		}
		let cache = (rows[r0].z * p.kv_heads + wg.x) * p.ctx * (HEAD_DIM / 8u);
		let n_keys = min(rows[r1 - 1u].y + 1u, p.ctx);
		let row = wg.y * tall + m / group;
		let live = m / group < tall && row >= r0 && row < r1;
		let position = rows[min(row, p.n_rows - 1u)].y;

		workgroupBarrier();
		for (var t = i; t < M * (HEAD_DIM / 8u); t += WG) {
			let at_m = t / (HEAD_DIM / 8u);
			let d = t % (HEAD_DIM / 8u);
			let at_row = min(wg.y * tall + at_m / group, p.n_rows - 1u);
			let start = (at_row * p.heads + wg.x * group + at_m % group) * (HEAD_DIM / 4u) + 2u * d;
			tile[at_m * LD + d] = halves(q[start] * p.scale, q[start + 1u] * p.scale);
		}
		workgroupBarrier();
		var query: array<Left, MOST>;
		var sums: array<Sum, MOST>;
		for (var d = 0u; d < HEAD_DIM / SIDE; d++) {
			query[d] = subgroupMatrixLoad<Left, row_major>(&tile, sg * SIDE * LD + d * SIDE / 8u, LD);
			sums[d] = Sum();
		}
		var most = LOWEST;
		var total = 0.0; // this lane's part
		let first_key = i % TEAM * (KEYS / TEAM);
		for (var first = 0u; first < n_keys; first += KEYS) {
			workgroupBarrier(); // the last tile has been used
			load_tile(i, cache, first, n_keys);
			if (i == 0u) {
				atomicStore(&moved, 0u);
			}
			workgroupBarrier();
			for (var n = 0u; n < KEYS / SIDE; n++) {
				var s = Sum();
				for (var d = 0u; d < HEAD_DIM / SIDE; d++) {
					let k = subgroupMatrixLoad<Right, col_major>(&tile, n * SIDE * LD + d * SIDE / 8u, LD);
					s = subgroupMatrixMultiplyAccumulate(query[d], k, s);
				}
				subgroupMatrixStore<row_major>(&scores, sg * SIDE * S_LD + n * SIDE, s, S_LD);
			}
			workgroupBarrier();

			var now = LOWEST;
			for (var t = 0u; t < KEYS / TEAM; t++) {
				let key = first + first_key + t;
				if (live && key <= position && key < n_keys) {
					now = max(now, scores[m * S_LD + first_key + t]);
				}
			}
			part[i] = now;
			workgroupBarrier();
			for (var t = 0u; t < TEAM; t++) {
				now = max(now, part[m * TEAM + t]);
			}
			var factor = 1.0;
			if (now > most + MARGIN) {
				if (most > LOWEST) {
					factor = exp(most - now);
					atomicStore(&moved, 1u);
				}
				most = now;
			}
			total *= factor;
			for (var t = 0u; t < KEYS / TEAM; t += 2u) {
				var e = vec2<f32>(0.0);
				for (var h = 0u; h < 2u; h++) {
					let key = first + first_key + t + h;
					if (live && key <= position && key < n_keys) {
						e[h] = exp(scores[m * S_LD + first_key + t + h] - most);
					}
				}
				let at = first_key + t;
				total += e.x + e.y;
				weights[m * P_LD + at / 8u][at / 2u % 4u] = pack2x16float(e);
			}
			if (i % TEAM == 0u) {
				shrink[m] = factor;
			}
			if (workgroupUniformLoad(&moved) != 0u) {
				for (var d = 0u; d < HEAD_DIM / SIDE; d++) {
					workgroupBarrier();
					subgroupMatrixStore<row_major>(&scores, sg * SIDE * S_LD, sums[d], S_LD);
					workgroupBarrier();
					for (var e = lane; e < SIDE * SIDE; e += SG) {
						let r = sg * SIDE + e / SIDE;
						scores[r * S_LD + e % SIDE] *= shrink[r];
					}
					workgroupBarrier();
					sums[d] = subgroupMatrixLoad<Sum, row_major>(&scores, sg * SIDE * S_LD, S_LD);
				}
			}
			for (var k = 0u; k < KEYS / SIDE; k++) {
				let e = subgroupMatrixLoad<Left, row_major>(&weights, sg * SIDE * P_LD + k * SIDE / 8u, P_LD);
				for (var d = 0u; d < HEAD_DIM / SIDE; d++) {
					let v = subgroupMatrixLoad<Right, row_major>(&tile, (KEYS + k * SIDE) * LD + d * SIDE / 8u, LD);
					sums[d] = subgroupMatrixMultiplyAccumulate(e, v, sums[d]);
				}
			}
		}
		part[i] = total;
		workgroupBarrier();
		if (i % TEAM == 0u) {
			for (var t = 1u; t < TEAM; t++) {
				total += part[i + t];
			}
			shrink[m] = 1.0 / total;
		}
		for (var d = 0u; d < HEAD_DIM / SIDE; d++) {
			workgroupBarrier();
			subgroupMatrixStore<row_major>(&scores, sg * SIDE * S_LD, sums[d], S_LD);
			workgroupBarrier();
			for (var e = lane; e < SIDE * SIDE; e += SG) {
				let r = sg * SIDE + e / SIDE;
				let to = wg.y * tall + r / group;
				if (r / group < tall && to >= r0 && to < r1) {
					y[(to * p.heads + wg.x * group + r % group) * HEAD_DIM + d * SIDE + e % SIDE] = scores[r * S_LD + e % SIDE] * shrink[r];
				}
			}
		}
		r0 = r1;
	}
}
