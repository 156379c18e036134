override RESIDUAL: u32 = 0u; // 1: added to what y holds, 2: res is added

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> nw: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read> res: array<f32>;

fn fetch(b: bool, at: u32) -> vec4<u32> {
	return w[at];
}

fn store(row: u32, sum: f32) {
	var v = sum;
	if (RESIDUAL == 1u) {
		v += y[row];
	}
	if (RESIDUAL == 2u) {
		v += res[row];
	}
	y[row] = v;
}
