// Teams of LANES lanes take ROWS rows of w at a time, as often as the grid needs to cover all of them. What is multiplied next is on
// its way early: first while x is staged, then while sums are exchanged. ahead(row) before, store(row, sum) after the sum of a
// row, in one lane; finish(i, workgroup) at the end, in all.
override ROWS: u32 = 4u; // 1, 2 or 4

override PREFETCH: bool = true; // load what is multiplied next early; costs registers, so lanes at once

struct Held {
	w0: WUnit,
	w1: WUnit,
	w2: WUnit,
	w3: WUnit,
}

// Unit u of rows row to row + ROWS - 1. Rows past the end repeat the last one: nothing is written for them.
fn take(row: u32, u: u32, nb: u32) -> Held {
	let base = p.w_base + min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(p.n - 1u)) * p.w_stride;
	var h: Held;
	h.w0 = w_unit_at(false, base.x, u, nb);
	if (ROWS > 1u) {
		h.w1 = w_unit_at(false, base.y, u, nb);
	}
	if (ROWS > 2u) {
		h.w2 = w_unit_at(false, base.z, u, nb);
		h.w3 = w_unit_at(false, base.w, u, nb);
	}
	return h;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let n_units = units_of(p.k);
	let nb = blocks_of(p.k);
	let lane = i % LANES;
	let teams = WG / LANES;
	let stride = n_wg.x * teams * ROWS;
	let start = wg.x * teams * ROWS;
	let mine = i / LANES * ROWS;
	var held: Held;
	if (PREFETCH) {
		held = take(start + mine, min(lane, n_units - 1u), nb);
	}
	let scale = stage(i);
	for (var first = start; first < p.n; first += stride) {
		let row = first + mine;
		let writes = lane < ROWS && row + lane < p.n;
		if (writes) {
			ahead(p.y_first + row + lane);
		}
		var acc = vec4<f32>(0.0);
		for (var done = 0u; done < n_units; done += LANES) {
			let u = min(done + lane, n_units - 1u);
			let x = x_unit_at(u);
			if (!PREFETCH) {
				held = take(row, u, nb);
			}
			var dots = vec4<f32>(dot_unit(held.w0, u, x), 0.0, 0.0, 0.0);
			if (ROWS > 1u) {
				dots.y = dot_unit(held.w1, u, x);
			}
			if (ROWS > 2u) {
				dots.z = dot_unit(held.w2, u, x);
				dots.w = dot_unit(held.w3, u, x);
			}
			acc += select(vec4<f32>(0.0), dots, done + lane < n_units);
			let more = done + LANES < n_units;
			if (PREFETCH && (more || first + stride < p.n)) {
				held = take(select(row + stride, row, more), min(select(lane, done + LANES + lane, more), n_units - 1u), nb);
			}
		}
		let sum = team_sum(i, acc) * scale;
		if (writes) {
			store(p.y_first + row + lane, sum);
		}
	}
	finish(i, wg.x);
}
