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
