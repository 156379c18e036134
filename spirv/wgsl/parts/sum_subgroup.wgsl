// Sum v over the lanes that share a result: all WG of the workgroup, or (LANES 1) none. The same answer in all of them.
// Uniform control flow only. A subgroup is a run of consecutive lanes whose length is counted, not assumed.
var<workgroup> partial: array<vec4<f32>, WG>;

fn sum_lanes(i: u32, v: vec4<f32>) -> vec4<f32> {
	if (LANES == 1u) {
		return v;
	}
	let sum = subgroupAdd(v);
	let size = subgroupAdd(1u);
	workgroupBarrier(); // earlier readers are done
	if (i % size == 0u) {
		partial[i / size] = sum;
	}
	workgroupBarrier();
	var total = partial[0];
	for (var s = 1u; s < WG / size; s++) {
		total += partial[s];
	}
	return total;
}
