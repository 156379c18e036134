enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> h: array<f16>;
@group(0) @binding(3) var<uniform> at: vec4<u32>;

override SPAN: u32 = 2u;
const SIDE = 16;
alias Left = subgroup_matrix_left<f16, SIDE, SIDE>;
alias Right = subgroup_matrix_right<f16, SIDE, SIDE>;
alias Sum = subgroup_matrix_result<f32, SIDE, SIDE>;
struct Pair { sum: Sum, n: u32 }

var<workgroup> words: array<vec4<u32>, 64 * SPAN>;
var<workgroup> halves: array<vec4<f16>, 256>;
var<workgroup> slices: array<array<f16, 256>, 4>;
var<workgroup> floats: array<f32, 1024>;

fn product(l: Left, r: Right, sum: ptr<function, Sum>) -> Sum {
	*sum = subgroupMatrixMultiplyAccumulate(l, r, *sum);
	return *sum;
}

// rectangles: 8 rows of 4, 4 rows of 16
fn rectangle() -> subgroup_matrix_result<f32, 16, 8> {
	let l = subgroup_matrix_left<f16, 4, 8>(2.0h);
	let r = subgroup_matrix_right<f16, 16, 4>();
	return subgroupMatrixMultiplyAccumulate(l, r, subgroup_matrix_result<f32, 16, 8>(1));
}

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_id) sg: u32) {
	words[i % 64u] = vec4<u32>(i);
	halves[i] = vec4<f16>(f16(i));
	slices[i % 4u][i] = a[i];
	workgroupBarrier();
	let l = subgroupMatrixLoad<Left, row_major>(&words, sg * 8u, 2);
	var pair: Pair;
	var sums: array<array<Sum, 2>, 2>;
	for (var k = 0u; k < SPAN; k++) {
		let r = subgroupMatrixLoad<Right, col_major>(&halves, k * 4u, 4u);
		sums[0][k % 2u] = subgroupMatrixMultiplyAccumulate(l, r, sums[0][k % 2u]);
	}
	let other = subgroupMatrixLoad<Right, row_major>(&slices[1], 0i, 16i);
	pair.sum = subgroupMatrixMultiply<f32>(l, other);
	var sum = product(l, other, &pair.sum);
	sum = subgroupMatrixScalarMultiply(subgroupMatrixScalarAdd(subgroupMatrixScalarSubtract(sum, 1.0), 2), 0.5);
	let few = array<Sum, 2>(sum, Sum());
	subgroupMatrixStore<row_major>(&y, at.x, few[0], at.y);
	subgroupMatrixStore<col_major>(&floats, 0, sums[0][1], 16);
	subgroupMatrixStore<row_major>(&h, 0, subgroupMatrixMultiply<f16>(l, other), 16);
	subgroupMatrixStore<row_major>(&y, 4096, rectangle(), 16);
}
