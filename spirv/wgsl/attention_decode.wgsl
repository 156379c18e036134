// Woven from parts/attention_decode.in by weave: edit that.
// Causal attention of one query head of one row a workgroup, keys in tiles of WG positions with a running softmax. First a
// lane scores one position; then lanes form groups that each own all dims (four a lane) and every GROUPS-th position.
override WG: u32 = 64u;
override LANES: u32 = WG;

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

var<workgroup> query: array<vec4<f32>, MAX_DIM4>;
var<workgroup> weight: array<f32, WG>;
var<workgroup> acc: array<vec4<f32>, WG + MAX_DIM4>;

// Sum v over the LANES lanes (a power of two) that share a result; the same answer in all of them. Uniform control flow only.
var<workgroup> partial: array<vec4<f32>, WG>;

fn sum_lanes(i: u32, v: vec4<f32>) -> vec4<f32> {
	if (LANES == 1u) {
		return v;
	}
	workgroupBarrier(); // earlier readers are done
	partial[i] = v;
	workgroupBarrier();
	for (var s = LANES / 2u; s > 0u; s /= 2u) {
		if (i % LANES < s) {
			partial[i] += partial[i + s];
		}
		workgroupBarrier();
	}
	return partial[i - i % LANES];
}
// Largest v of the workgroup's lanes (WG a power of two); the same answer in all of them. Uniform control flow only.
var<workgroup> largest: array<f32, WG>;

fn max_lanes(i: u32, v: f32) -> f32 {
	workgroupBarrier(); // earlier readers are done
	largest[i] = v;
	workgroupBarrier();
	for (var s = WG / 2u; s > 0u; s /= 2u) {
		if (i < s) {
			largest[i] = max(largest[i], largest[i + s]);
		}
		workgroupBarrier();
	}
	return largest[0];
}

// Both loops have four loads on the way at a time: a workgroup has little else to hide their latency with.
fn score(start: u32, dims: u32) -> f32 {
	var sum = vec4<f32>(0.0);
	var d = 0u;
	for (; d + 4u <= dims; d += 4u) {
		let k0 = key_at(start + d);
		let k1 = key_at(start + d + 1u);
		let k2 = key_at(start + d + 2u);
		let k3 = key_at(start + d + 3u);
		sum += (query[d] * k0 + query[d + 1u] * k1) + (query[d + 2u] * k2 + query[d + 3u] * k3);
	}
	for (; d < dims; d++) {
		sum += query[d] * key_at(start + d);
	}
	return (sum.x + sum.y) + (sum.z + sum.w);
}

// Weighted sum of the values at `start` of every step-th position from t to n.
fn mix(start: u32, t0: u32, n: u32, step: u32, dims: u32) -> vec4<f32> {
	var sum = vec4<f32>(0.0);
	var t = t0;
	for (; t + 3u * step < n; t += 4u * step) {
		let v0 = value_at(start + t * dims);
		let v1 = value_at(start + (t + step) * dims);
		let v2 = value_at(start + (t + 2u * step) * dims);
		let v3 = value_at(start + (t + 3u * step) * dims);
		sum += (weight[t] * v0 + weight[t + step] * v1) + (weight[t + 2u * step] * v2 + weight[t + 3u * step] * v3);
	}
	for (; t < n; t += step) {
		sum += weight[t] * value_at(start + t * dims);
	}
	return sum;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let dims = p.head_dim / 4u;
	let groups = max(WG / dims, 1u);
	let place = rows[wg.y];
	let n_keys = min(place.y + 1u, p.ctx);
	let cache = (place.z * p.kv_heads + wg.x / (p.heads / p.kv_heads)) * p.ctx * dims;
	let at = (wg.y * p.heads + wg.x) * dims;
	for (var d = i; d < dims; d += WG) {
		query[d] = q[at + d] * p.scale;
	}
	for (var a = i; a < groups * dims; a += WG) {
		acc[a] = vec4<f32>(0.0);
	}
	workgroupBarrier();
	var most = LOWEST;
	var total = 0.0;
	for (var first = 0u; first < n_keys; first += WG) {
		let n = min(WG, n_keys - first);
		var s = LOWEST;
		if (i < n) {
			s = score(cache + (first + i) * dims, dims);
		}
		let now = max(most, max_lanes(i, s));
		let shrink = exp(most - now);
		most = now;
		let e = select(0.0, exp(s - now), i < n);
		weight[i] = e;
		total = total * shrink + e;
		workgroupBarrier();
		for (var a = i; a < groups * dims; a += WG) {
			acc[a] = acc[a] * shrink + mix(cache + first * dims + a % dims, a / dims, n, groups, dims);
		}
	}
	let all = sum_lanes(i, vec4<f32>(total)).x;
	workgroupBarrier();
	for (var d = i; d < dims; d += WG) {
		var sum = acc[d];
		for (var g = 1u; g < groups; g++) {
			sum += acc[g * dims + d];
		}
		y[at + d] = sum / all;
	}
}
