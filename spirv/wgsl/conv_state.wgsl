// Woven from parts/conv_state.in by weave: edit that.
// Keep the last kernel - 1 inputs of each segment, after conv_rows.
override WG: u32 = 64u;

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> segs: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;

struct Params {
	width: u32,
	kernel: u32,
	n: u32,
}

fn silu(x: f32) -> f32 {
	return x / (1.0 + exp(-x));
}

// Input of channel c, `back` rows before row t of the segment: of the batch, of the state, or zero before the sequence.
fn input(seg: vec4<u32>, t: u32, back: u32, c: u32) -> f32 {
	if (back <= t) {
		return x[(seg.x + t - back) * p.width + c];
	}
	if (seg.z == 0u) {
		return 0.0;
	}
	let taps = p.kernel - 1u;
	return state[(seg.w * taps + taps - (back - t)) * p.width + c];
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let c = wg.x * WG + i;
	let seg = segs[wg.y];
	if (c >= p.width || seg.y == 0u) {
		return;
	}
	// oldest first: each place is read (as an older one) before it is overwritten
	let taps = p.kernel - 1u;
	for (var j = 0u; j < taps; j++) {
		state[(seg.w * taps + j) * p.width + c] = input(seg, seg.y - 1u, taps - 1u - j, c);
	}
}
