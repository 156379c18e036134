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
