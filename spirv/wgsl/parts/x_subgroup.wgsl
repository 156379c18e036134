// The eight vectors of row r of x that a unit with these runs meets. When lanes work alone (LANES 1) all need the same ones:
// each loads two and hands them round in its subgroup, of at least four.
fn x_unit(i: u32, r: u32, runs: vec2<u32>) -> array<vec4<f32>, 8> {
	if (LANES == 1u) {
		let a = x_at(r, runs.x + i % 4u * 4u);
		let b = x_at(r, runs.y + i % 4u * 4u);
		return array<vec4<f32>, 8>(subgroupBroadcast(a, 0u), subgroupBroadcast(a, 1u), subgroupBroadcast(a, 2u),
			subgroupBroadcast(a, 3u), subgroupBroadcast(b, 0u), subgroupBroadcast(b, 1u), subgroupBroadcast(b, 2u),
			subgroupBroadcast(b, 3u));
	}
	var v: array<vec4<f32>, 8>;
	for (var j = 0u; j < 8u; j++) {
		v[j] = x_at(r, runs[j / 4u] + j % 4u * 4u);
	}
	return v;
}
