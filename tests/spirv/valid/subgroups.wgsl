enable subgroups;
enable f16;
diagnostic(off, subgroup_uniformity);
requires subgroup_id;

@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@group(0) @binding(1) var<storage, read_write> h: array<vec2<f16>>;

@compute @workgroup_size(64)
fn main(@builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32, @builtin(local_invocation_index) i: u32,
        @builtin(subgroup_id) id: u32, @builtin(num_subgroups) n: u32) {
	let x = out[i];
	var r = subgroupAdd(x) + subgroupMul(x) + subgroupMax(x) + subgroupMin(x) + subgroupExclusiveAdd(x) + subgroupInclusiveAdd(x);
	r += subgroupExclusiveMul(x) + subgroupInclusiveMul(x) + subgroupBroadcast(x, 3) + subgroupBroadcastFirst(x);
	r += subgroupShuffle(x, i) + subgroupShuffleXor(x, 1) + subgroupShuffleUp(x, 1) + subgroupShuffleDown(x, 2);
	r += quadBroadcast(x, 1u) + quadSwapX(x) + quadSwapY(x) + quadSwapDiagonal(x);
	let u = subgroupAnd(i) + subgroupOr(i) + subgroupXor(i) + subgroupBallot(x > 1).x + id + n;
	r += f32(u) + f32(subgroupAll(x > 0)) + f32(subgroupAny(x > 1)) + f32(lane * size);
	if subgroupElect() { h[i] = subgroupAdd(h[i]) + subgroupShuffleXor(h[i], 2); }
	out[i] = r;
}
