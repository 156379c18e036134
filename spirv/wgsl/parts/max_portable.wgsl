// Largest v of the workgroup's lanes (WG a power of two); the same answer in all of them. Uniform control flow only.
var<workgroup> largest: array<f32, WG>;

fn max_lanes(i: u32, v: f32) -> f32 {
	workgroupBarrier(); // earlier readers are done
	largest[i] = v;
	workgroupBarrier();
	for (var s = WG / 2u; s > 0u; s /= 2u) {
		if (i < s) {
			largest[i] = max(largest[i], largest[i + s]);
		}
		workgroupBarrier();
	}
	return largest[0];
}
