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
