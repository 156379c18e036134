// x as it is, or normed: by the weights while it is staged, by its root mean square (the same for all of it) in the result.
override NORM: bool = false;

var<workgroup> squares: array<f32, RUNS>;

fn x_at(j: u32) -> vec4<f32> {
	if (4u * j >= p.k) {
		return vec4<f32>(0.0);
	}
	return x[j];
}

fn normed(v: vec4<f32>, j: u32) -> vec4<f32> {
	if (!NORM || 4u * j >= p.k) {
		return v;
	}
	return v * (nw[j] + p.w_offset);
}

// Returns what the dot products are to be multiplied by.
fn stage(i: u32, lane: u32) -> f32 {
	let runs = 2u * units_of(p.k);
	for (var r = i; r < runs; r += WG) {
		let a = x_at(4u * r);
		let b = x_at(4u * r + 1u);
		let c = x_at(4u * r + 2u);
		let d = x_at(4u * r + 3u);
		if (NORM) {
			squares[r] = (dot(a, a) + dot(b, b)) + (dot(c, c) + dot(d, d));
		}
		put_run(r, normed(a, 4u * r), normed(b, 4u * r + 1u), normed(c, 4u * r + 2u), normed(d, 4u * r + 3u));
	}
	workgroupBarrier();
	if (!NORM) {
		return 1.0;
	}
	var sum = 0.0;
	for (var r = lane; r < runs; r += SG) {
		sum += squares[r];
	}
	return inverseSqrt(subgroupAdd(sum) / f32(p.k) + p.eps);
}
