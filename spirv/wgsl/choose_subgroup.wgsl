// Woven from parts/choose.in by weave: edit that.
// Greedy step of rows that are a token of a sequence each, a workgroup a row: the best of the pairs that pass 1 of topk left becomes the token of the row, which moves one
// position on with its segment, and its ring remembers it. Where the best logit is no finite number the token is NONE. After one of the ids
// that end a sequence, or NONE, the segment has no rows any more: later steps then change nothing.
enable subgroups;

override WG: u32 = 64u;
override OFF: bool = false; // rows that end are switched off: their position becomes NONE

const NONE = 0xffffffffu;
const HEAD = 18u; // of the ring: steps so far, how many ids end it, room for 16 of them; then [ring_steps]

struct Params {
	n: u32, // pairs a row
	ring_steps: u32,
	ring_stride: u32, // words a row of the batch
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> v: array<f32>;
@group(0) @binding(2) var<storage, read> id: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> segs: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> ring: array<u32>;

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

fn ends(token: u32, ring_at: u32) -> bool {
	var found = token == NONE;
	for (var e = 0u; e < min(ring[ring_at + 1u], 16u); e++) {
		found = found || ring[ring_at + 2u + e] == token;
	}
	return found;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let r = wg.x;
	let at = r * p.ring_stride;
	var best = vec2<u32>(0u, NONE);
	for (var j = i; j < p.n; j += WG) {
		best = better(best, vec2<u32>(key_of(v[r * p.n + j]), id[r * p.n + j]));
	}
	best = best_lanes(i, best);
	if (i != 0u) {
		return;
	}
	let finite = (bitcast<u32>(value_of(best.x)) & 0x7f800000u) != 0x7f800000u;
	let step = ring[at];
	ring[at] = step + 1u;
	if (segs[r].y == 0u) {
		return;
	}
	let token = select(NONE, best.y, finite);
	ring[at + HEAD + step % p.ring_steps] = token;
	rows[r].y += 1u; // in any case: what a segment without rows still computes must not touch the positions before
	if (ends(token, at)) {
		segs[r].y = 0u;
		if (OFF) {
			rows[r].y = NONE;
		}
		return;
	}
	rows[r].x = token;
	segs[r].z += 1u;
}
