// The eight vectors of row r of x that a unit with these runs meets.
fn x_unit(i: u32, r: u32, runs: vec2<u32>) -> array<vec4<f32>, 8> {
	var v: array<vec4<f32>, 8>;
	for (var j = 0u; j < 8u; j++) {
		v[j] = x_at(r, runs[j / 4u] + j % 4u * 4u);
	}
	return v;
}
