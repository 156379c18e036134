// x normed over runs of p.group values (a multiple of 16 that divides k), times its weights, times silu(z).
override ONE_GROUP: bool = false; // p.group is 4 * SG: a subgroup stages a group

var<workgroup> squares: array<f32, RUNS>;

fn stage(i: u32) -> f32 {
	let end = 8u * units_of(p.k);
	for (var first = 0u; first < end; first += WG) {
		let j = first + i;
		var v = vec4<f32>(0.0);
		var sum = 0.0;
		if (4u * j < p.k) {
			let g = z[j];
			v = x[j];
			sum = dot(v, v);
			v *= (nw[j % (p.group / 4u)] + p.w_offset) * (g / (1.0 + exp(-g)));
		}
		if (ONE_GROUP) {
			v *= inverseSqrt(subgroupAdd(sum) / f32(p.group) + p.eps);
		} else {
			sum += subgroupShuffleXor(sum, 1u);
			sum += subgroupShuffleXor(sum, 2u);
			if (j % 4u == 3u && j / 4u < RUNS) {
				squares[j / 4u] = sum;
			}
		}
		put(j, v);
	}
	workgroupBarrier();
	if (ONE_GROUP) {
		return 1.0;
	}
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
