// One row of x in workgroup memory as 16-bit fixed point, run by run: x = scale * (256 hi + lo), signed bytes four to a word, so that
// a unit of weights takes sixteen packed dot products. The error of a value is at most 1 / 65,024 of the largest of its run.
var<workgroup> x_hi: array<vec4<u32>, RUNS>;
var<workgroup> x_lo: array<vec4<u32>, RUNS>;
var<workgroup> x_scale: array<vec2<f32>, RUNS>; // scale, sum of the run

// Vector j of x: every four lanes of a subgroup, with j a multiple of four in the first of them, make a run. All lanes call this
// together; those whose run is past the end write nothing.
fn put(j: u32, v: vec4<f32>) {
	// as bits, positive floats keep their order and what is no number is the largest
	let a = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
	var bits = max(max(a.x, a.y), max(a.z, a.w));
	bits = max(bits, subgroupShuffleXor(bits, 1u));
	bits = max(bits, subgroupShuffleXor(bits, 2u));
	let most = bitcast<f32>(bits);
	let q = vec4<i32>(round(v * select(32512.0 / most, 0.0, most < 1e-30)));
	var sum = (q.x + q.y) + (q.z + q.w); // of what is multiplied, so that its rounding meets whole weights, not quants
	sum += subgroupShuffleXor(sum, 1u);
	sum += subgroupShuffleXor(sum, 2u);
	let hi = pack4xI8((q + 128) >> vec4<u32>(8u));
	let lo = pack4xI8(q);
	// even lanes gather the high bytes of the run, odd lanes the low ones
	let even = (j & 1u) == 0u;
	let got = subgroupShuffleXor(select(hi, lo, even), 1u);
	let pair = select(vec2<u32>(got, lo), vec2<u32>(hi, got), even);
	let all = vec4<u32>(pair, subgroupShuffleXor(pair.x, 2u), subgroupShuffleXor(pair.y, 2u));
	let r = j / 4u;
	if (r < RUNS) {
		switch j % 4u {
			case 0u: {
				x_hi[r] = all;
			}
			case 1u: {
				x_lo[r] = all;
			}
			case 2u: {
				x_scale[r] = most / 32512.0 * vec2<f32>(1.0, f32(sum));
			}
			default: {
			}
		}
	}
}

fn scale_run(r: u32, by: f32) {
	x_scale[r] *= by;
}

fn x_unit_at(u: u32) -> XUnit {
	let r = runs_of(u) / 16u;
	return XUnit(x_hi[r.x], x_lo[r.x], x_hi[r.y], x_lo[r.y], x_scale[r.x], x_scale[r.y]);
}

fn dot_unit(raw: WUnit, u: u32, x: XUnit) -> f32 {
	return dot_quants(quants(raw, u), x);
}
