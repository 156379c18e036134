// Types of weights (README.md), and how a row of them divides into units: 32 values, as two runs of 16 consecutive ones.
const F32 = 0u;
const F16 = 1u;
const BF16 = 2u;
const Q4_0 = 3u;
const Q4_1 = 4u;
const Q5_0 = 5u;
const Q5_1 = 6u;
const Q8_0 = 7u;
const Q4_K = 8u;
const Q5_K = 9u;
const Q6_K = 10u;

override QUANT: u32 = 0u; // rp_dtype

fn has_superblocks() -> bool {
	return QUANT >= Q4_K;
}

// Units of a row of k values, and blocks of one (units, for types without blocks).
fn units_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u * 8u, has_superblocks());
}

fn blocks_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u, has_superblocks());
}

// Where the two runs of unit u start in the row.
fn runs_of(u: u32) -> vec2<u32> {
	let t = u % 8u;
	switch QUANT {
		case Q4_K, Q5_K: {
			let start = u / 8u * 256u + t / 2u * 64u + t % 2u * 16u;
			return vec2<u32>(start, start + 32u);
		}
		case Q6_K: {
			let start = u / 8u * 256u + t / 4u * 128u + t / 2u % 2u * 32u + t % 2u * 16u;
			return vec2<u32>(start, start + 64u);
		}
		default: {
			return vec2<u32>(u * 32u, u * 32u + 16u);
		}
	}
}
