// Module scope has no order; aliases, derived constants, const_assert, structures of structures.
@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
	const_assert TWICE == 16;
	out[id.x] = helper(Pair(1u, Inner(vec2f(2), array<u32, 3>(1, 2, 3))), id.x);
	_ = &unused;
}

@group(0) @binding(1) var<storage> unused: array<vec4<u32>>;
fn helper(p: Pair, i: u32) -> Number { return p.first + u32(p.inner.v.x) + p.inner.a[i % 3] + LIMIT; }
alias Number = u32;
const TWICE = SIZE * 2;
const SIZE = 8;
const LIMIT: Number = TWICE - 1;
struct Pair { first: Number, inner: Inner }
struct Inner { v: vec2f, a: array<u32, 3>, }
@group(0) @binding(0) var<storage, read_write> out: array<Number>;
const_assert SIZE < TWICE && TWICE - 1 == 15;
