enable subgroups;
requires packed_4x8_integer_dot_product;

override WG: u32 = 256u;
override SG: u32 = 32u;    // the subgroup size, which must be required of the pipeline
override LANES: u32 = 32u; // lanes that share rows of w: a power of two, at least SG
override RUNS: u32 = 64u;  // of 16 values in x, at least 2 * units_of(k)

struct Params {
	k: u32,
	n: u32,
	w_base: u32,
	w_stride: u32,
	y_first: u32,
	group: u32,
	eps: f32,
	w_offset: f32,
	kernel: u32,
	width: u32,
	heads: u32,
	head_dim: u32,
	ctx: u32,
	q_stride: u32,
	splits: u32,
	tile: u32,
}
