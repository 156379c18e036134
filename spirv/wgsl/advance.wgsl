// Woven from parts/advance.in by weave: edit that.
// Take the ids a sampler chose as the next tokens: row r (segment r) moves one position on, and the ring remembers the id.
// One workgroup.
override WG: u32 = 64u;

struct Params {
	n_rows: u32,
	id_stride: u32,
	ring_steps: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> id: array<u32>;
@group(0) @binding(2) var<storage, read_write> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> segs: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> ring: array<u32>; // [0] steps so far, then [ring_steps][n_rows]

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) i: u32) {
	let step = ring[0];
	storageBarrier();
	for (var r = i; r < p.n_rows; r += WG) {
		let token = id[r * p.id_stride];
		rows[r] = vec4<u32>(token, rows[r].y + 1u, rows[r].z, rows[r].w);
		segs[r] = vec4<u32>(segs[r].x, segs[r].y, segs[r].z + 1u, segs[r].w);
		ring[1u + step % p.ring_steps * p.n_rows + r] = token;
	}
	if (i == 0u) {
		ring[0] = step + 1u;
	}
}
