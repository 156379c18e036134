// Teams of LANES lanes take ROWS rows of w at a time, as often as the grid needs to cover all of them. ahead(row) before the sum of a
// row, store(row, sum) after it, in one lane; finish(i, workgroup) at the end, in all.
override ROWS: u32 = 4u; // 1, 2 or 4

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let scale = stage(i);
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let lane = i % LANES;
	let teams = WG / LANES;
	let stride = n_wg.x * teams * ROWS;
	for (var first = wg.x * teams * ROWS; first < p.n; first += stride) {
		let row = first + i / LANES * ROWS;
		let writes = lane < ROWS && row + lane < p.n;
		if (writes) {
			ahead(p.y_first + row + lane);
		}
		// rows past the end repeat the last one; nothing is written for them
		let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
		var acc = vec4<f32>(0.0);
		for (var u = lane; u < n_units; u += LANES) {
			let x = x_unit_at(u);
			let w0 = w_unit_at(false, base.x, u, nb);
			var w1: WUnit;
			var w2: WUnit;
			var w3: WUnit;
			if (ROWS > 1u) {
				w1 = w_unit_at(false, base.y, u, nb);
			}
			if (ROWS > 2u) {
				w2 = w_unit_at(false, base.z, u, nb);
				w3 = w_unit_at(false, base.w, u, nb);
			}
			acc.x += dot_unit(w0, u, x);
			if (ROWS > 1u) {
				acc.y += dot_unit(w1, u, x);
			}
			if (ROWS > 2u) {
				acc.z += dot_unit(w2, u, x);
				acc.w += dot_unit(w3, u, x);
			}
		}
		let sum = team_sum(i, acc) * scale;
		if (writes) {
			store(p.y_first + row + lane, sum);
		}
	}
	finish(i, wg.x);
}
