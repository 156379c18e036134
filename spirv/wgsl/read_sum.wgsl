// sums[lane] = all words the lane read, mixed: reading memory as fast as it goes, and proof that it was read
override WG: u32 = 256u;

struct Params {
	n: u32, // of vec4
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let lanes = n_wg.x * WG;
	let lane = wg.x * WG + i;
	var a = vec4<u32>(0u);
	var b = vec4<u32>(0u);
	var at = lane;
	while (at + 3u * lanes < p.n) { // four loads in flight a lane
		let v0 = x[at];
		let v1 = x[at + lanes];
		let v2 = x[at + 2u * lanes];
		let v3 = x[at + 3u * lanes];
		a += v0 + v1;
		b += v2 + v3;
		at += 4u * lanes;
	}
	while (at < p.n) {
		a += x[at];
		at += lanes;
	}
	let s = a + b;
	sums[lane] = s.x + s.y + s.z + s.w;
}
