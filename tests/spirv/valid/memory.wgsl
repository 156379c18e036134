// Layout attributes, runtime-sized members, atomics, matrices, arrays by value, overrides of every type.
enable f16;

struct Inner { @size(16) a: f32, @align(32) b: vec3<f32>, c: f16, d: vec3<f16> }
struct Outer { head: u32, inner: array<Inner, 2>, m: mat3x2<f32>, h: mat2x4<f16>, tail: f16, list: array<vec3<f32>> }
struct Params { a: vec3<f32>, b: f32, @align(16) c: array<vec4<u32>, 2>, d: mat4x3<f32>, @size(32) e: u32, f: vec2<f16> }
struct Counters { total: atomic<u32>, lowest: atomic<i32>, each: array<atomic<u32>, 4> }

@group(0) @binding(0) var<storage, read_write> data: Outer;
@group(0) @binding(1) var<uniform> params: Params;
@group(1) @binding(0) var<storage, read_write> counters: Counters;
@group(1) @binding(7) var<storage, read_write> whole: array<Inner>;

override width: u32 = 16;
@id(7) override height = 4u;
override scale: f32 = 0.5;
override half: f16 = 1.5;
override flag: bool = true;
override area = width * height;
override root = scale * 2.0;
override unset: u32;
override negative = -3i;

var<workgroup> tile: array<vec4<f32>, width * 2 + 1>;
var<workgroup> tile2: array<f32, area>;
var<workgroup> tile3: array<Inner, min(width, 8u)>;
var<workgroup> lock: atomic<u32>;
var<workgroup> done: bool;

fn copy(v: array<f32, 4>) -> array<f32, 4> { var r = v; r[1] = 3; return r; }

@compute @workgroup_size(width, height, 2)
fn main(@builtin(local_invocation_index) i: u32, @builtin(local_invocation_id) l: vec3<u32>, @builtin(workgroup_id) w: vec3<u32>) {
	let p = params;
	data.head = arrayLength(&data.list) + unset + u32(negative);
	data.list[i] = data.inner[1].b * p.b + p.a + (p.d * vec4<f32>(p.c[1])).xyz;
	data.inner[0] = data.inner[1];
	data.inner[i % 2] = Inner(1, vec3(2), half, data.inner[0].d * 2h);
	whole[i] = data.inner[0];
	data.m = data.m * scale + mat3x2<f32>(1, 2, 3, 4, 5, 6);
	data.m[1].y *= root;
	data.tail = (data.h * vec2<f16>(half, data.tail)).w;
	tile[i] = vec4<f32>(data.m[0], data.m[1]);
	tile2[i] = 1;
	if flag { tile3[0] = whole[0]; done = true; }
	workgroupBarrier();
	storageBarrier();
	_ = atomicAdd(&counters.total, 1u);
	atomicSub(&counters.total, i);
	atomicMax(&counters.lowest, -3);
	atomicMin(&counters.lowest, i32(i));
	atomicOr(&counters.each[i % 4], 1u); atomicAnd(&counters.each[0], 3u); atomicXor(&counters.each[1], 7u);
	let before = atomicExchange(&lock, 1u);
	let cas = atomicCompareExchangeWeak(&lock, before, atomicLoad(&counters.total));
	if cas.exchanged { atomicStore(&counters.each[2], cas.old_value); }
	let values = copy(array(1, 2, tile[0].x, 4));
	data.list[i].y = values[i % 4] + f32(done) + workgroupUniformLoad(&tile2[1]) + f32(atomicLoad(&lock)) + tile3[0].a;
}
