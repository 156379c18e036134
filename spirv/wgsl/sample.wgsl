// Woven from parts/sample.in by weave: edit that.
// Step of a batch whose ids are sampled, row r being segment r, a workgroup a row: the top_k best of the logits, of those the likeliest
// that hold the part top_p of the weight, of those the ones that weigh at least min_weight, of those one by chance. What happens with
// it is as in `choose`. common/infer/sampler.c gives the same id: weights are fixed point (sampler.h), sums of them exact.
//
// The best of the peaks decide which logits are looked at: at least top_k of them are no less than the top_k-th best peak. Where too
// many are (ties), a radix search over all logits and ids finds the top_k-th best.
override WG: u32 = 64u;
override PENALTY: bool = true; // false: counts is neither read nor written

struct Params {
	n: u32,        // ids
	each: u32,     // ids a group
	lanes: u32,    // group g: ids (g / lanes) * lanes * each + g % lanes, and every lanes-th after it
	n_groups: u32,
	ring_steps: u32,
	ring_stride: u32,  // words a row of the batch
	state_stride: u32,
}

const NONE = 0xffffffffu;

// Words of a row's state: how to sample, then what changes: draws, the window of the penalty.
const TOP_K = 0u;
const CUTS = 1u; // whether TOP_P does
const TOP_P = 2u;
const MIN_WEIGHT = 3u;
const SCALE = 4u;
const PENALTY_UP = 5u; // factors for logits above 0, up to 0
const PENALTY_DOWN = 6u;
const SEED = 7u; // two words, as all counts of 64 bits
const DRAWS = 9u;
const WINDOW = 11u; // ids it holds at most, does hold, place of the next
const WINDOW_USED = 12u;
const WINDOW_NEXT = 13u;
const WINDOW_IDS = 16u;
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> v: array<f32>; // logits [rows][n]
@group(0) @binding(2) var<storage, read> peaks: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<u32>;
@group(0) @binding(4) var<storage, read_write> state: array<u32>;
@group(0) @binding(5) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> segs: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> ring: array<u32>;

const MOST = 256u; // top_k
const LIST = 512u; // groups looked at
const CANDIDATES = 1024u;
const BINS = 256u;
const HEAD = 18u; // of the ring, as in `choose`
const ONE = 0x80000000u;

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
// A number below the normal ones is zero: devices may not know it.
fn flushed(x: f32) -> f32 {
	return select(x, 0.0, (bitcast<u32>(x) & 0x7f800000u) == 0u);
}

// The key of row r's logit at id after the repetition penalty.
fn key_at(r: u32, id: u32, up: f32, down: f32) -> u32 {
	let x = v[r * p.n + id];
	if (PENALTY && counts[r * p.n + id] != 0u) {
		let y = flushed(x * select(down, up, x > 0.0));
		return key_of(select(y, 0x1.fffffep127f, bitcast<u32>(y) == 0x7f800000u));
	}
	return key_of(x);
}
// Numbers of 64 bits as (low, high); the functions of sampler.c that decide.
fn wide(a: u32, b: u32) -> vec2<u32> {
	let low = (a & 0xffffu) * (b & 0xffffu);
	let x = (a & 0xffffu) * (b >> 16u);
	let y = (a >> 16u) * (b & 0xffffu);
	let mid = (low >> 16u) + (x & 0xffffu) + (y & 0xffffu);
	return vec2<u32>((low & 0xffffu) | (mid << 16u), (a >> 16u) * (b >> 16u) + (x >> 16u) + (y >> 16u) + (mid >> 16u));
}

fn plus(a: vec2<u32>, b: u32) -> vec2<u32> {
	let low = a.x + b;
	return vec2<u32>(low, a.y + u32(low < b));
}

fn below(a: vec2<u32>, b: vec2<u32>) -> bool {
	return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// With 31 bits behind the point.
fn times(a: u32, b: u32) -> u32 {
	let product = wide(a, b);
	return (product.y << 1u) | (product.x >> 31u);
}

// 2^-(z / 2^26) for z < 2^31.
fn power(z: u32) -> u32 {
	let fraction = z << 6u;
	let t = wide(fraction & 0x0fffffffu, 0xb17217f8u).y;
	var w = ONE - (t >> 1u) / 5u;
	w = ONE - wide(t, w).y / 4u;
	w = ONE - wide(t, w).y / 3u;
	w = ONE - wide(t, w).y / 2u;
	w = ONE - wide(t, w).y;
	if ((fraction & 0x80000000u) != 0u) {
		w = times(w, 0x5a82799au);
	}
	if ((fraction & 0x40000000u) != 0u) {
		w = times(w, 0x6ba27e65u);
	}
	if ((fraction & 0x20000000u) != 0u) {
		w = times(w, 0x75606374u);
	}
	if ((fraction & 0x10000000u) != 0u) {
		w = times(w, 0x7a92be8bu);
	}
	return w >> (z >> 26u);
}

// What a sum of weights must reach to hold the part top_p of total.
fn part_of(total: vec2<u32>, top_p: u32) -> vec2<u32> {
	return plus(wide(total.y, top_p), wide(total.x, top_p).y);
}

// The high half of a product.
fn high64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
	let x = wide(a.y, b.x);
	let y = wide(a.x, b.y);
	let low = plus(plus(vec2<u32>(wide(a.x, b.x).y, 0u), x.x), y.x);
	return plus(plus(plus(wide(a.y, b.y), x.y), y.y), low.y);
}

// Philox4x32-10: the first two numbers of a place in the sequence of a seed.
fn philox(place: vec2<u32>, seed: vec2<u32>) -> vec2<u32> {
	var c = vec4<u32>(place, 0u, 0u);
	var key = seed;
	for (var round = 0u; round < 10u; round++) {
		let a = wide(0xd2511f53u, c.x);
		let b = wide(0xcd9e8d57u, c.z);
		c = vec4<u32>(b.y ^ c.y ^ key.x, b.x, a.y ^ c.w ^ key.y, a.x);
		key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
	}
	return c.xy;
}

var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> least: atomic<u32>;
var<workgroup> most: atomic<u32>;
var<workgroup> n_list: atomic<u32>;
var<workgroup> n_found: atomic<u32>;
var<workgroup> list: array<u32, LIST>;
var<workgroup> found: array<vec2<u32>, CANDIDATES>; // (key, id)
var<workgroup> ranked: array<vec2<u32>, MOST>;
var<workgroup> weights: array<u32, MOST>;
var<workgroup> edge: u32;  // keys from here on are looked at
var<workgroup> span: u32;  // of keys that are counted, from the edge on
var<workgroup> shift: u32; // of keys to bins
var<workgroup> need: u32;  // peaks still to be counted
var<workgroup> tie: u32;   // of ids with the edge as their key, those whose complement is at least this
var<workgroup> top: u32;
var<workgroup> crowded: u32;

// The highest bin with which those above hold what is needed; need becomes what it must give. BINS when all hold less.
fn take_bin() -> u32 {
	for (var b = BINS; b > 0u; b -= 1u) {
		let here = atomicLoad(&bins[b - 1u]);
		if (here >= need) {
			return b - 1u;
		}
		need -= here;
	}
	return BINS;
}

fn clear_bins(i: u32) {
	for (var b = i; b < BINS; b += WG) {
		atomicStore(&bins[b], 0u);
	}
}

// Where the top_k-th best peak is, to 16 bits of the range of peaks; 1 when there are fewer.
fn find_edge(r: u32, i: u32) {
	if (i == 0u) {
		atomicStore(&least, NONE);
		atomicStore(&most, 0u);
		atomicStore(&n_list, 0u);
		atomicStore(&n_found, 0u);
		top = clamp(state[r * p.state_stride + TOP_K], 1u, MOST);
	}
	workgroupBarrier();
	var low = NONE;
	var high = 0u;
	for (var g = i; g < p.n_groups; g += WG) {
		let key = peaks[r * p.n_groups + g];
		low = select(low, min(low, key), key != 0u);
		high = max(high, key);
	}
	atomicMin(&least, low);
	atomicMax(&most, high);
	workgroupBarrier();
	if (i == 0u) {
		edge = atomicLoad(&least);
		span = NONE;
		need = top;
		let bits = 32u - countLeadingZeros(max(atomicLoad(&most), edge) - edge);
		shift = max(bits, 8u) - 8u;
	}
	for (var round = 0u; round < 2u; round++) {
		clear_bins(i);
		workgroupBarrier();
		for (var g = i; g < p.n_groups; g += WG) {
			let key = peaks[r * p.n_groups + g];
			if (key != 0u && key >= edge && key - edge < span) {
				atomicAdd(&bins[min((key - edge) >> shift, BINS - 1u)], 1u);
			}
		}
		workgroupBarrier();
		if (i == 0u) {
			let b = take_bin();
			let enough = b < BINS;
			edge = select(1u, edge + (b << shift), enough);
			span = select(0u, 1u << shift, enough);
			shift = max(shift, 8u) - 8u;
		}
		workgroupBarrier();
	}
}

// Keys from the edge on, with their ids.
fn find_candidates(r: u32, i: u32, up: f32, down: f32) {
	for (var g = i; g < p.n_groups; g += WG) {
		if (peaks[r * p.n_groups + g] >= edge) {
			let at = atomicAdd(&n_list, 1u);
			if (at < LIST) {
				list[at] = g;
			}
		}
	}
	workgroupBarrier();
	let n = min(atomicLoad(&n_list), LIST) * p.each;
	for (var j = i; j < n; j += WG) {
		let g = list[j / p.each];
		let id = g / p.lanes * p.lanes * p.each + g % p.lanes + j % p.each * p.lanes;
		if (id < p.n) {
			let key = key_at(r, id, up, down);
			if (key >= edge) {
				let at = atomicAdd(&n_found, 1u);
				if (at < CANDIDATES) {
					found[at] = vec2<u32>(key, id);
				}
			}
		}
	}
	workgroupBarrier();
	if (i == 0u) {
		crowded = u32(atomicLoad(&n_list) > LIST || atomicLoad(&n_found) > CANDIDATES);
	}
	for (var j = i; j < MOST; j += WG) {
		ranked[j] = vec2<u32>(0u, NONE);
	}
}

// The top best of all ids, by eight digits of key and complement of the id.
fn find_exactly(r: u32, i: u32, up: f32, down: f32) {
	if (i == 0u) {
		atomicStore(&n_found, 0u);
		need = top;
		edge = 0u;
		tie = 0u;
	}
	for (var digit = 0u; digit < 8u; digit++) {
		let at = 24u - digit % 4u * 8u;
		let above = select(NONE << ((at + 8u) & 31u), 0u, at == 24u); // the digits before, of this half
		let of_id = digit > 3u;
		clear_bins(i);
		workgroupBarrier();
		for (var id = i; id < p.n; id += WG) {
			let key = key_at(r, id, up, down);
			let same = select((key & above) == edge, key == edge && (~id & above) == tie, of_id);
			if (same) {
				atomicAdd(&bins[(select(key, ~id, of_id) >> at) & 255u], 1u);
			}
		}
		workgroupBarrier();
		if (i == 0u) {
			let b = min(take_bin(), BINS - 1u) << at;
			edge |= select(b, 0u, of_id);
			tie |= select(0u, b, of_id);
		}
		workgroupBarrier();
	}
	for (var id = i; id < p.n; id += WG) {
		let key = key_at(r, id, up, down);
		if (key > edge || (key == edge && ~id >= tie)) {
			found[min(atomicAdd(&n_found, 1u), CANDIDATES - 1u)] = vec2<u32>(key, id);
		}
	}
	workgroupBarrier();
}

fn before(a: vec2<u32>, b: vec2<u32>) -> bool {
	return a.x > b.x || (a.x == b.x && a.y < b.y);
}

fn rank_candidates(i: u32) {
	let n = min(atomicLoad(&n_found), CANDIDATES);
	for (var a = i; a < n; a += WG) {
		let one = found[a];
		var rank = 0u;
		for (var b = 0u; b < n; b++) {
			rank += u32(before(found[b], one));
		}
		if (rank < MOST) {
			ranked[rank] = one;
		}
	}
}

fn weight(best: f32, x: f32, scale: f32) -> u32 {
	let z = flushed(best - x) * scale;
	if (z < 32.0) {
		return power(u32(z * 67108864.0));
	}
	return 0u;
}

// The chosen one of the ranked; they have weights, top of them count.
fn draw(r: u32) -> u32 {
	let s = r * p.state_stride;
	var total = vec2<u32>(0u);
	for (var j = 0u; j < top; j++) {
		total = plus(total, weights[j]);
	}
	var kept = top;
	if (state[s + CUTS] != 0u) {
		let part = part_of(total, state[s + TOP_P]);
		var sum = vec2<u32>(0u);
		kept = 0u;
		while (kept < top) {
			sum = plus(sum, weights[kept]);
			kept += 1u;
			if (!below(sum, part)) {
				break;
			}
		}
	}
	var n = 1u;
	total = vec2<u32>(weights[0], 0u);
	while (n < kept && weights[n] >= state[s + MIN_WEIGHT]) {
		total = plus(total, weights[n]);
		n += 1u;
	}
	let random = philox(vec2<u32>(state[s + DRAWS], state[s + DRAWS + 1u]), vec2<u32>(state[s + SEED], state[s + SEED + 1u]));
	let draws = plus(vec2<u32>(state[s + DRAWS], state[s + DRAWS + 1u]), 1u);
	state[s + DRAWS] = draws.x;
	state[s + DRAWS + 1u] = draws.y;
	let goal = high64(random, total);
	var passed = vec2<u32>(0u);
	var at = 0u;
	while (at < n) {
		passed = plus(passed, weights[at]);
		if (below(goal, passed)) {
			break;
		}
		at += 1u;
	}
	return ranked[min(at, n - 1u)].y;
}

// The window of the penalty takes the id in, for its oldest when it is full.
fn remember(r: u32, id: u32) {
	let s = r * p.state_stride;
	let size = state[s + WINDOW];
	if (size == 0u) {
		return;
	}
	let at = state[s + WINDOW_NEXT];
	if (state[s + WINDOW_USED] == size) {
		counts[r * p.n + state[s + WINDOW_IDS + at]] -= 1u;
	} else {
		state[s + WINDOW_USED] += 1u;
	}
	state[s + WINDOW_IDS + at] = id;
	state[s + WINDOW_NEXT] = (at + 1u) % size;
	counts[r * p.n + id] += 1u;
}

fn ends(r: u32, token: u32) -> bool {
	var result = token == NONE;
	for (var e = 0u; e < min(ring[r * p.ring_stride + 1u], 16u); e++) {
		result = result || ring[r * p.ring_stride + 2u + e] == token;
	}
	return result;
}

fn advance(r: u32) {
	let step = ring[r * p.ring_stride];
	ring[r * p.ring_stride] = step + 1u;
	if (segs[r].y == 0u) {
		return;
	}
	let finite = (bitcast<u32>(value_of(ranked[0].x)) & 0x7f800000u) != 0x7f800000u;
	var token = NONE;
	if (finite) {
		token = draw(r);
		if (PENALTY) {
			remember(r, token);
		}
	}
	ring[r * p.ring_stride + HEAD + step % p.ring_steps] = token;
	rows[r].y += 1u;
	if (ends(r, token)) {
		segs[r].y = 0u;
		return;
	}
	rows[r].x = token;
	segs[r].z += 1u;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let r = wg.x;
	let up = bitcast<f32>(state[r * p.state_stride + PENALTY_UP]);
	let down = bitcast<f32>(state[r * p.state_stride + PENALTY_DOWN]);
	find_edge(r, i);
	find_candidates(r, i, up, down);
	if (workgroupUniformLoad(&crowded) != 0u) {
		find_exactly(r, i, up, down);
	}
	rank_candidates(i);
	workgroupBarrier();
	let scale = bitcast<f32>(state[r * p.state_stride + SCALE]);
	for (var j = i; j < top; j += WG) {
		weights[j] = select(weight(value_of(ranked[0].x), value_of(ranked[j].x), scale), 0u, ranked[j].y == NONE);
	}
	workgroupBarrier();
	if (i == 0u) {
		advance(r);
	}
}
