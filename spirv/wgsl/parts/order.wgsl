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
