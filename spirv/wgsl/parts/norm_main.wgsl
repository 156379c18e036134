struct Params {
	group: u32,
	n_groups: u32,
	eps: f32,
	w_offset: f32,
}

// Sum over this lane's share of the run at `start`, which is empty past the last run.
fn sum_squares(start: u32, lane: u32, live: bool) -> f32 {
	var sum = 0.0;
	if (live) {
		for (var j = lane; j < p.group; j += LANES) {
			sum += x[start + j] * x[start + j];
		}
	}
	return sum;
}
