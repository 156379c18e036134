// x as it is, or normed: by the weights while it is staged, by its root mean square (the same for all of it) in the result.
override NORM: bool = false;

var<workgroup> squares: array<f32, WG / SG>;

// Returns what the dot products are to be multiplied by.
fn stage(i: u32) -> f32 {
	let end = 8u * units_of(p.k);
	var sum = 0.0;
	for (var first = 0u; first < end; first += WG) {
		let j = first + i;
		var v = vec4<f32>(0.0);
		if (4u * j < p.k) {
			v = x[j];
			if (NORM) {
				sum += dot(v, v);
				v *= nw[j] + p.w_offset;
			}
		}
		put(j, v);
	}
	if (!NORM) {
		workgroupBarrier();
		return 1.0;
	}
	sum = subgroupAdd(sum);
	if (i % SG == 0u) {
		squares[i / SG] = sum;
	}
	workgroupBarrier();
	sum = 0.0;
	for (var s = 0u; s < WG / SG; s++) {
		sum += squares[s];
	}
	return inverseSqrt(sum / f32(p.k) + p.eps);
}
