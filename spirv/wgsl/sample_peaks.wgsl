// Woven from parts/sample_peaks.in by weave: edit that.
// Before `sample`: the key of the best logit of each group of ids, after the repetition penalty; 0 for a group without ids.
// Grid: (n_groups / WG, rows); WG is what the parameters call lanes.
override WG: u32 = 64u;
override PENALTY: bool = true; // false: counts is not read

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
@group(0) @binding(1) var<storage, read> v: array<f32>;       // logits [rows][n]
@group(0) @binding(2) var<storage, read> counts: array<u32>;  // [rows][n] how often the id is in the window
@group(0) @binding(3) var<storage, read> state: array<u32>;
@group(0) @binding(4) var<storage, read_write> peaks: array<u32>; // [rows][n_groups]

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

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let up = bitcast<f32>(state[wg.y * p.state_stride + PENALTY_UP]);
	let down = bitcast<f32>(state[wg.y * p.state_stride + PENALTY_DOWN]);
	let first = wg.x * WG * p.each + i;
	let end = min(first + WG * p.each, p.n);
	var best = 0u;
	for (var id = first; id < end; id += WG) {
		best = max(best, key_at(wg.y, id, up, down));
	}
	peaks[wg.y * p.n_groups + wg.x * WG + i] = best;
}
