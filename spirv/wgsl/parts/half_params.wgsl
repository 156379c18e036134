struct Params {
	n: u32,
	n_rows: u32,
	units: u32,
	blocks: u32,
	w_base: u32,
	w_stride: u32,
	y_first: u32,
	y_stride: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;   // [n_rows][4 units], eight halves each
@group(0) @binding(2) var<storage, read> x_scale: array<f32>;   // [n_rows]: what a half is worth
@group(0) @binding(3) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> w_up: array<vec4<u32>>; // GLU: the other matrix, of the same shape
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<storage, read> res: array<f32>;
