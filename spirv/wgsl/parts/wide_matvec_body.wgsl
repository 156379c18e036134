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

var<private> before: f32;

fn ahead(row: u32) {
	if (RESIDUAL == 1u) {
		before = y[row];
	}
	if (RESIDUAL == 2u) {
		before = res[row];
	}
}

fn store(row: u32, sum: f32) {
	if (RESIDUAL == 0u) {
		y[row] = sum;
	} else {
		y[row] = before + sum;
	}
}

fn finish(i: u32, group: u32) {
}
