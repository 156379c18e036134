// Of the workgroup's (key, id) pairs the one with the largest key, the lowest id on a tie; the same answer in all lanes.
var<workgroup> bests: array<vec2<u32>, WG>;

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
	return select(b, a, a.x > b.x || (a.x == b.x && a.y < b.y));
}

fn best_lanes(i: u32, v: vec2<u32>) -> vec2<u32> {
	workgroupBarrier(); // earlier readers are done
	bests[i] = v;
	workgroupBarrier();
	for (var s = WG / 2u; s > 0u; s /= 2u) {
		if (i < s) {
			bests[i] = better(bests[i], bests[i + s]);
		}
		workgroupBarrier();
	}
	return bests[0];
}
