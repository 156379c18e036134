struct Params {
	width: u32,
	kernel: u32,
	n: u32,
}

fn silu(x: f32) -> f32 {
	return x / (1.0 + exp(-x));
}

// Input of channel c, `back` rows before row t of the segment: of the batch, of the state, or zero before the sequence.
fn input(seg: vec4<u32>, t: u32, back: u32, c: u32) -> f32 {
	if (back <= t) {
		return x[(seg.x + t - back) * p.width + c];
	}
	if (seg.z == 0u) {
		return 0.0;
	}
	let taps = p.kernel - 1u;
	return state[(seg.w * taps + taps - (back - t)) * p.width + c];
}
