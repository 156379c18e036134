// Woven from parts/kv_append.in by weave: edit that.
// Put the keys and values of each row at its position of its slot: caches [slot][kv_head][ctx][head_dim], f32 or halves. A lane
// writes 16 bytes of each.
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
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> kcache: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> vcache: array<vec4<u32>>;

// Keys and values as a cache holds them: f32, or halves two to a word (KV16).
override KV16: bool = false;

const MOST_HALF = vec4<f32>(65504.0);

// Eight values, and as they lie in a cache: halves take only a.
struct Oct {
	a: vec4<f32>,
	b: vec4<f32>,
}

struct Raw {
	a: vec4<u32>,
	b: vec4<u32>,
}

fn oct_of(r: Raw) -> Oct {
	if (KV16) {
		let lo = vec4<f32>(unpack2x16float(r.a.x), unpack2x16float(r.a.y));
		return Oct(lo, vec4<f32>(unpack2x16float(r.a.z), unpack2x16float(r.a.w)));
	}
	return Oct(bitcast<vec4<f32>>(r.a), bitcast<vec4<f32>>(r.b));
}

// What no half can hold becomes the largest one.
fn raw_of(o: Oct) -> Raw {
	if (KV16) {
		let a = clamp(o.a, -MOST_HALF, MOST_HALF);
		let b = clamp(o.b, -MOST_HALF, MOST_HALF);
		return Raw(vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw)), vec4<u32>(0u));
	}
	return Raw(bitcast<vec4<u32>>(o.a), bitcast<vec4<u32>>(o.b));
}

// Units of 16 bytes that n values take.
fn kv_units(n: u32) -> u32 {
	return select(n / 4u, n / 8u, KV16);
}
// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let source = lane_index(wg, n_wg, i);
	let units = kv_units(p.head_dim);
	let head = source / units; // of all rows
	let row = head / p.kv_heads;
	if (row >= p.n_rows) {
		return;
	}
	let place = rows[row];
	if (place.y >= p.ctx) {
		return;
	}
	let to = ((place.z * p.kv_heads + head % p.kv_heads) * p.ctx + place.y) * units + source % units;
	if (KV16) {
		kcache[to] = raw_of(Oct(k[2u * source], k[2u * source + 1u])).a;
		vcache[to] = raw_of(Oct(v[2u * source], v[2u * source + 1u])).a;
	} else {
		kcache[to] = bitcast<vec4<u32>>(k[source]);
		vcache[to] = bitcast<vec4<u32>>(v[source]);
	}
}
