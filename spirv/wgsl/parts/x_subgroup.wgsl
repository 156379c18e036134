// The eight vectors of row r of x that a unit with these runs meets. When lanes work alone (LANES 1) all need the same ones:
// each loads one and the subgroup, of at least eight, hands them round.
fn x_unit(i: u32, r: u32, runs: vec2<u32>) -> array<vec4<f32>, 8> {
	if (LANES == 1u) {
		let mine = x_at(r, select(runs.x, runs.y, i % 8u >= 4u) + i % 4u * 4u);
		return array<vec4<f32>, 8>(subgroupBroadcast(mine, 0u), subgroupBroadcast(mine, 1u), subgroupBroadcast(mine, 2u),
			subgroupBroadcast(mine, 3u), subgroupBroadcast(mine, 4u), subgroupBroadcast(mine, 5u), subgroupBroadcast(mine, 6u),
			subgroupBroadcast(mine, 7u));
	}
	var v: array<vec4<f32>, 8>;
	for (var j = 0u; j < 8u; j++) {
		v[j] = x_at(r, runs[j / 4u] + j % 4u * 4u);
	}
	return v;
}
