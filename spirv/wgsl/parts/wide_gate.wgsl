// x normed over runs of p.group values (a multiple of 16), times its weights, times silu(z).
var<workgroup> squares: array<f32, RUNS>;

fn gated(v: vec4<f32>, j: u32) -> vec4<f32> {
	if (4u * j >= p.k) {
		return vec4<f32>(0.0);
	}
	let g = z[j];
	return v * (nw[j % (p.group / 4u)] + p.w_offset) * (g / (1.0 + exp(-g)));
}

fn x_at(j: u32) -> vec4<f32> {
	if (4u * j >= p.k) {
		return vec4<f32>(0.0);
	}
	return x[j];
}

fn stage(i: u32, lane: u32) -> f32 {
	let runs = 2u * units_of(p.k);
	for (var r = i; r < runs; r += WG) {
		let a = x_at(4u * r);
		let b = x_at(4u * r + 1u);
		let c = x_at(4u * r + 2u);
		let d = x_at(4u * r + 3u);
		squares[r] = (dot(a, a) + dot(b, b)) + (dot(c, c) + dot(d, d));
		put_run(r, gated(a, 4u * r), gated(b, 4u * r + 1u), gated(c, 4u * r + 2u), gated(d, 4u * r + 3u));
	}
	workgroupBarrier();
	let each = p.group / 16u;
	for (var r = i; r < p.k / 16u; r += WG) {
		var sum = 0.0;
		for (var s = 0u; s < each; s++) {
			sum += squares[r / each * each + s];
		}
		scale_run(r, inverseSqrt(sum / f32(p.group) + p.eps));
	}
	workgroupBarrier();
	return 1.0;
}
