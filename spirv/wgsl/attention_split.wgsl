// Woven from parts/attention_split.in by weave: edit that.
// Causal attention of one row, a query head and a span of positions a workgroup: norm and rope of query and key, the row appended to
// the cache, and the span's part of the softmax. attention_merge joins the parts. A subgroup scores four positions at a time, its
// lanes along the head; then groups of lanes own all dims, four a lane.
enable subgroups;

override WG: u32 = 256u;
override SG: u32 = 32u; // the subgroup size, which must be required of the pipeline
override NORM: bool = false; // of queries and keys, a head

override FEW_DIMS: bool = false; // head_dim is at most 8 * SG: a lane has at most two vectors of a key, and eight of the values

override TILE: u32 = 4u * WG / SG; // positions at a time: derived
const MAX_DIM4 = 128u;
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
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> q_norm: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> k_norm: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> table: array<vec4<f32>>; // two pairs' angles each
@group(0) @binding(7) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> kcache: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> vcache: array<vec4<f32>>;
@group(0) @binding(10) var<storage, read_write> part: array<vec4<f32>>; // [head][split][dims + 1]: sums; then maximum and total

var<workgroup> query: array<vec4<f32>, MAX_DIM4>;
var<workgroup> key: array<vec4<f32>, MAX_DIM4>;
var<workgroup> scores: array<f32, TILE>;
var<workgroup> sums: array<vec4<f32>, WG>;

fn q_at(at: u32, d: u32, rms: f32) -> vec4<f32> {
	if (NORM) {
		return q[at + d] * rms * (q_norm[d] + p.w_offset);
	}
	return q[at + d];
}

fn k_at(at: u32, d: u32, rms: f32) -> vec4<f32> {
	if (NORM) {
		return k[at + d] * rms * (k_norm[d] + p.w_offset);
	}
	return k[at + d];
}

// Where the partner of vector d is, in vectors, when pairs are half a rotation apart.
fn partner(d: u32) -> u32 {
	let half4 = p.rotary_dim / 8u;
	return select(d, select(d - half4, d + half4, d < half4), p.interleaved == 0u && d < 2u * half4);
}

// Vector d of a head turned by the angles of a position; `other` is its partner.
fn turned(own: vec4<f32>, other: vec4<f32>, d: u32, position: u32) -> vec4<f32> {
	let half = p.rotary_dim / 2u;
	if (4u * d >= p.rotary_dim) {
		return own;
	}
	if (p.interleaved != 0u) {
		let t = table[(position * half + 2u * d) / 2u];
		return vec4<f32>(own.x * t.x - own.y * t.y, own.y * t.x + own.x * t.y, own.z * t.z - own.w * t.w, own.w * t.z + own.z * t.w);
	}
	let at = (position * half + 4u * d % half) / 2u;
	let a = table[at];
	let b = table[at + 1u];
	let sine = vec4<f32>(a.y, a.w, b.y, b.w);
	return own * vec4<f32>(a.x, a.z, b.x, b.z) + other * select(sine, -sine, 4u * d < half);
}

// The keys of four positions at tile + 4 team, as they lie in the cache.
fn load_keys(tile: u32, team: u32, lane: u32, cache: u32, last: u32, dims: u32) -> array<vec4<f32>, 8> {
	let t = cache + min(vec4<u32>(tile + 4u * team) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * dims;
	let a = min(lane, dims - 1u);
	let b = min(lane + SG, dims - 1u);
	return array<vec4<f32>, 8>(kcache[t.x + a], kcache[t.y + a], kcache[t.z + a], kcache[t.w + a], kcache[t.x + b], kcache[t.y + b],
		kcache[t.z + b], kcache[t.w + b]);
}

// Vector `own` of the values of every groups-th position from tile + group.
fn load_values(tile: u32, group: u32, own: u32, cache: u32, last: u32, dims: u32, groups: u32) -> array<vec4<f32>, 8> {
	var v8: array<vec4<f32>, 8>;
	for (var j = 0u; j < 8u; j++) {
		v8[j] = vcache[cache + min(tile + group + j * groups, last) * dims + own];
	}
	return v8;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = p.head_dim / 4u;
	let place = rows[0];
	let n_keys = min(place.y + 1u, p.ctx);
	let step = span(n_keys);
	let start = wg.y * step;
	if (start >= n_keys) {
		return;
	}
	let end = min(start + step, n_keys);
	let newest = n_keys - 1u; // taken from k and v: the cache may be being written
	let lane = i % SG;
	let team = i / SG;
	let kv_head = wg.x / (p.heads / p.kv_heads);
	let cache = (place.z * p.kv_heads + kv_head) * p.ctx * dims;
	let groups = WG / dims;
	let group = i / dims;
	let own = i % dims;
	let last_old = max(newest, 1u) - 1u;
	var keys: array<vec4<f32>, 8>;
	var values: array<vec4<f32>, 8>;
	if (FEW_DIMS) { // on their way while the query is made
		keys = load_keys(start, team, lane, cache, last_old, dims);
		values = load_values(start, group, own, cache, last_old, dims, groups);
	}
	let fresh_value = v[kv_head * dims + own];
	let q_first = wg.x * (p.q_stride / 4u);
	let k_first = kv_head * dims;
	var q_rms = 1.0;
	var k_rms = 1.0;
	if (NORM) {
		var squares = vec2<f32>(0.0);
		for (var d = lane; d < dims; d += SG) {
			squares += vec2<f32>(dot(q[q_first + d], q[q_first + d]), dot(k[k_first + d], k[k_first + d]));
		}
		q_rms = inverseSqrt(subgroupAdd(squares.x) / f32(p.head_dim) + p.eps);
		k_rms = inverseSqrt(subgroupAdd(squares.y) / f32(p.head_dim) + p.eps);
	}
	for (var d = i; d < dims; d += WG) {
		let o = partner(d);
		query[d] = turned(q_at(q_first, d, q_rms), q_at(q_first, o, q_rms), d, place.y) * p.scale;
		key[d] = turned(k_at(k_first, d, k_rms), k_at(k_first, o, k_rms), d, place.y);
	}
	workgroupBarrier();
	if (end == n_keys && place.y < p.ctx && wg.x % (p.heads / p.kv_heads) == 0u) {
		for (var d = i; d < dims; d += WG) {
			kcache[cache + newest * dims + d] = key[d];
			vcache[cache + newest * dims + d] = v[k_first + d];
		}
	}
	var most = LOWEST;
	var total = 0.0;
	var acc = vec4<f32>(0.0);
	for (var tile = start; tile < end; tile += TILE) {
		if (FEW_DIMS && tile != start) {
			keys = load_keys(tile, team, lane, cache, last_old, dims);
			values = load_values(tile, group, own, cache, last_old, dims, groups);
		}
		let t = vec4<u32>(tile + 4u * team) + vec4<u32>(0u, 1u, 2u, 3u);
		let is_new = t == vec4<u32>(newest);
		var s = vec4<f32>(0.0);
		if (FEW_DIMS) {
			for (var a = 0u; a < 2u; a++) {
				let d = min(lane + a * SG, dims - 1u);
				let fresh = key[d];
				let dots = vec4<f32>(dot(query[d], select(keys[4u * a], fresh, is_new.x)),
					dot(query[d], select(keys[4u * a + 1u], fresh, is_new.y)),
					dot(query[d], select(keys[4u * a + 2u], fresh, is_new.z)),
					dot(query[d], select(keys[4u * a + 3u], fresh, is_new.w)));
				s += select(vec4<f32>(0.0), dots, lane + a * SG < dims);
			}
		} else {
			let source = cache + min(t, vec4<u32>(last_old)) * dims;
			for (var d = lane; d < dims; d += SG) {
				let k0 = kcache[source.x + d];
				let k1 = kcache[source.y + d];
				let k2 = kcache[source.z + d];
				let k3 = kcache[source.w + d];
				let fresh = key[d];
				s += vec4<f32>(dot(query[d], select(k0, fresh, is_new.x)), dot(query[d], select(k1, fresh, is_new.y)),
					dot(query[d], select(k2, fresh, is_new.z)), dot(query[d], select(k3, fresh, is_new.w)));
			}
		}
		s = select(vec4<f32>(LOWEST), subgroupAdd(s), t < vec4<u32>(end));
		workgroupBarrier(); // earlier readers are done
		if (lane == 0u) {
			scores[4u * team] = s.x;
			scores[4u * team + 1u] = s.y;
			scores[4u * team + 2u] = s.z;
			scores[4u * team + 3u] = s.w;
		}
		workgroupBarrier();
		var here = LOWEST;
		for (var j = lane; j < TILE; j += SG) {
			here = max(here, scores[j]);
		}
		let now = max(most, subgroupMax(here));
		var e = 0.0;
		for (var j = lane; j < TILE; j += SG) {
			e += exp(scores[j] - now);
		}
		let shrink = exp(most - now);
		most = now;
		total = total * shrink + subgroupAdd(e);
		acc *= shrink;
		let n = min(end - tile, TILE);
		if (FEW_DIMS) {
			for (var j = 0u; j < 8u; j++) {
				let at = group + j * groups;
				if (at < n && group < groups) {
					acc += exp(scores[at] - now) * select(values[j], fresh_value, tile + at == newest);
				}
			}
		} else if (group < groups) {
			for (var j = group; j < n; j += groups) {
				let at = tile + j;
				let old = vcache[cache + min(at, last_old) * dims + own];
				acc += exp(scores[j] - now) * select(old, fresh_value, at == newest);
			}
		}
	}
	sums[i] = acc;
	workgroupBarrier();
	let out = (wg.x * p.splits + wg.y) * (dims + 1u);
	if (i < dims) {
		var sum = sums[i];
		for (var g = 1u; g < groups; g++) {
			sum += sums[g * dims + i];
		}
		part[out + i] = sum;
	}
	if (i == 0u) {
		part[out + dims] = vec4<f32>(most, total, 0.0, 0.0);
	}
}
