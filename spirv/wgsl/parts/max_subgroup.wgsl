// Largest v of the workgroup's lanes; the same answer in all of them. Uniform control flow only.
var<workgroup> largest: array<f32, WG>;

fn max_lanes(i: u32, v: f32) -> f32 {
	let size = subgroupAdd(1u);
	let most = subgroupMax(v);
	workgroupBarrier(); // earlier readers are done
	if (i % size == 0u) {
		largest[i / size] = most;
	}
	workgroupBarrier();
	var all = largest[0];
	for (var s = 1u; s < WG / size; s++) {
		all = max(all, largest[s]);
	}
	return all;
}
