// Of the workgroup's (key, id) pairs the one with the largest key, the lowest id on a tie; the same answer in all lanes.
var<workgroup> bests: array<vec2<u32>, WG>;

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
	return select(b, a, a.x > b.x || (a.x == b.x && a.y < b.y));
}

fn best_lanes(i: u32, v: vec2<u32>) -> vec2<u32> {
	let size = subgroupAdd(1u);
	let key = subgroupMax(v.x);
	let id = subgroupMin(select(0xffffffffu, v.y, v.x == key));
	workgroupBarrier(); // earlier readers are done
	if (i % size == 0u) {
		bests[i / size] = vec2<u32>(key, id);
	}
	workgroupBarrier();
	var best = bests[0];
	for (var s = 1u; s < WG / size; s++) {
		best = better(best, bests[s]);
	}
	return best;
}
