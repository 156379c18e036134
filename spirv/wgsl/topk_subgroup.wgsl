// Woven from parts/topk.in by weave: edit that.
// The k best of a slice of each row, best first; ties to the lower id. k rounds, each taking the best of what comes after the
// last one taken, so that any k works and the order is exact.
enable subgroups;

override WG: u32 = 64u;
override PAIRS: bool = false; // false: v are logits and a place is its id; true: ids come with the values

const NONE = 0xffffffffu;

struct Params {
	n: u32,
	n_rows: u32,
	k: u32,
	slice: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> v: array<f32>;
@group(0) @binding(2) var<storage, read> id: array<u32>;
@group(0) @binding(3) var<storage, read_write> out_v: array<f32>;
@group(0) @binding(4) var<storage, read_write> out_id: array<u32>;

// Of the workgroup's (key, id) pairs the one with the largest key, the lowest id on a tie; the same answer in all lanes.
var<workgroup> bests: array<vec2<u32>, WG>;

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
	return select(b, a, a.x > b.x || (a.x == b.x && a.y < b.y));
}

fn best_lanes(i: u32, v: vec2<u32>) -> vec2<u32> {
	let size = subgroupAdd(1u);
	let key = subgroupMax(v.x);
	let id = subgroupMin(select(0xffffffffu, v.y, v.x == key));
	workgroupBarrier(); // earlier readers are done
	if (i % size == 0u) {
		bests[i / size] = vec2<u32>(key, id);
	}
	workgroupBarrier();
	var best = bests[0];
	for (var s = 1u; s < WG / size; s++) {
		best = better(best, bests[s]);
	}
	return best;
}

// A number that orders like the value: NaN least, zeros alike.
fn key_of(x: f32) -> u32 {
	let bits = bitcast<u32>(x);
	if ((bits & 0x7fffffffu) > 0x7f800000u) {
		return 0u;
	}
	if ((bits & 0x7fffffffu) == 0u) {
		return 0x80000000u;
	}
	return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn value_of(key: u32) -> f32 {
	return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let start = wg.x * p.slice;
	let end = min(start + p.slice, p.n);
	let out = (wg.y * n_wg.x + wg.x) * p.k;
	var last = vec2<u32>(NONE, NONE);
	for (var round = 0u; round < p.k; round++) {
		var best = vec2<u32>(0u, NONE);
		for (var j = start + i; j < end; j += WG) {
			let at = wg.y * p.n + j;
			var one = vec2<u32>(key_of(v[at]), j);
			if (PAIRS) {
				one.y = id[at];
			}
			if (one.y != NONE && (one.x < last.x || (one.x == last.x && one.y > last.y))) {
				best = better(best, one);
			}
		}
		last = best_lanes(i, best);
		if (i == 0u) {
			out_v[out + round] = value_of(last.x);
			out_id[out + round] = last.y;
		}
	}
}
