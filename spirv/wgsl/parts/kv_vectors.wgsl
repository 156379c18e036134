// Vectors of four values of the caches, which are f32, or halves two to a word (KV16).
override KV16: bool = false;

fn vector_in(unit: vec4<u32>, at: u32) -> vec4<f32> {
	if (KV16) {
		let two = select(unit.xy, unit.zw, (at & 1u) != 0u);
		return vec4<f32>(unpack2x16float(two.x), unpack2x16float(two.y));
	}
	return bitcast<vec4<f32>>(unit);
}

fn key_at(at: u32) -> vec4<f32> {
	return vector_in(kcache[select(at, at / 2u, KV16)], at);
}

fn value_at(at: u32) -> vec4<f32> {
	return vector_in(vcache[select(at, at / 2u, KV16)], at);
}
