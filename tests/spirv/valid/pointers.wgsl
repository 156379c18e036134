// Pointers to every address space, through functions of functions; parts of variables; p.x and p[i].
requires unrestricted_pointer_parameters, pointer_composite_access;

struct Item { key: u32, values: array<vec4<f32>, 4>, count: atomic<u32> }
struct Plain { key: u32, values: array<f32, 4> }
@group(0) @binding(0) var<storage, read_write> items: array<Item>;
@group(0) @binding(1) var<storage, read> source: array<array<f32, 8>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
var<workgroup> shared_values: array<f32, 64>;
var<workgroup> grid: array<array<u32, 8>, 8>;
var<private> state: Plain;

fn sum(p: ptr<storage, array<f32, 8>, read>) -> f32 {
	var total = 0.0;
	for (var i = 0; i < 8; i++) { total += (*p)[i]; }
	return total;
}
fn element(p: ptr<storage, array<array<f32, 8>>>, i: u32) -> f32 { return sum(&(*p)[i + 1]) + p[i][2] + f32(arrayLength(p)); }
fn bump(count: ptr<storage, atomic<u32>, read_write>, by: u32) -> u32 { return atomicAdd(count, by); }
fn put(p: ptr<workgroup, f32>, v: f32) { *p = v; }
fn fill(p: ptr<workgroup, array<f32, 64>>, i: u32) { put(&p[i], f32(i)); put(&(*p)[63 - i], 1); }
fn scale(v: ptr<function, vec4<f32>>, by: f32) { *v *= by; v.x += 1; (*v)[1] = by; }
fn twice(v: ptr<function, vec4<f32>>) { scale(v, 2); scale(v, 3); }
fn touch(p: ptr<private, Plain>) { p.key++; p.values[p.key % 4] = 2; }
fn cell(p: ptr<workgroup, u32>) -> u32 { let q = p; *q += 1; return *p; }

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) lane: u32) {
	var local: array<vec4<f32>, 2>;
	var index = lane % 2;
	let p = &local[index];
	index = 1 - index;
	twice(p);
	twice(&local[index]);
	let item = &items[lane];
	item.values[1].x = 4;
	let old = bump(&item.count, 2) + bump(&(*item).count, lane);
	fill(&shared_values, lane);
	touch(&state);
	workgroupBarrier();
	out[lane] = (*p).x + element(&source, lane) + shared_values[lane] + f32(old) + state.values[1] + f32(cell(&grid[lane % 8][3]));
	out[lane] += workgroupUniformLoad(&shared_values[3]);
}
