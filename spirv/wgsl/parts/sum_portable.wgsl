// Sum v over the LANES lanes (a power of two) that share a result; the same answer in all of them. Uniform control flow only.
var<workgroup> partial: array<vec4<f32>, WG>;

fn sum_lanes(i: u32, v: vec4<f32>) -> vec4<f32> {
	if (LANES == 1u) {
		return v;
	}
	workgroupBarrier(); // earlier readers are done
	partial[i] = v;
	workgroupBarrier();
	for (var s = LANES / 2u; s > 0u; s /= 2u) {
		if (i % LANES < s) {
			partial[i] += partial[i + s];
		}
		workgroupBarrier();
	}
	return partial[i - i % LANES];
}
