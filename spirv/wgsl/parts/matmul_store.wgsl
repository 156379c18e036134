fn x_at(row: u32, k: u32) -> vec4<f32> {
	if (K_TAIL && k >= p.k) {
		return vec4<f32>(0.0);
	}
	return x[(row * p.k + k) / 4u];
}

// Columns col to col + 3 of this range, as far as they exist.
fn store(row: u32, col: u32, sum: vec4<f32>) {
	if (row >= p.n_rows) {
		return;
	}
	for (var j = 0u; j < 4u; j++) {
		if (col + j < p.n) {
			let at = row * p.y_stride + p.y_first + col + j;
			var v = sum[j];
			if (RESIDUAL == 1u) {
				v += y[at];
			}
			if (RESIDUAL == 2u) {
				v += res[at];
			}
			y[at] = v;
		}
	}
}
