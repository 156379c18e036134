// Teams of LANES lanes take ROWS rows of w at a time, as often as the grid needs to cover all of them.
override ROWS: u32 = 4u; // 1, 2 or 4

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let scale = stage(i, i % SG);
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let teams = WG / LANES;
	let stride = n_wg.x * teams * ROWS;
	for (var first = wg.x * teams * ROWS; first < p.n; first += stride) {
		let row = first + i / LANES * ROWS;
		// rows past the end repeat the last one; nothing is written for them
		let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
		var acc = vec4<f32>(0.0);
		for (var u = i % LANES; u < n_units; u += LANES) {
			let x = x_unit_at(u);
			if (ROWS == 4u) {
				let w0 = w_unit_at(false, base.x, u, nb);
				let w1 = w_unit_at(false, base.y, u, nb);
				let w2 = w_unit_at(false, base.z, u, nb);
				let w3 = w_unit_at(false, base.w, u, nb);
				acc += vec4<f32>(dot_unit(w0, x), dot_unit(w1, x), dot_unit(w2, x), dot_unit(w3, x));
			} else if (ROWS == 2u) {
				let w0 = w_unit_at(false, base.x, u, nb);
				let w1 = w_unit_at(false, base.y, u, nb);
				acc += vec4<f32>(dot_unit(w0, x), dot_unit(w1, x), 0.0, 0.0);
			} else {
				acc.x += dot_unit(w_unit_at(false, base.x, u, nb), x);
			}
		}
		let sum = team_sum(i, acc) * scale;
		let l = i % LANES;
		if (l < ROWS && row + l < p.n) {
			store(p.y_first + row + l, sum);
		}
	}
}
