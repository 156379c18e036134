struct Params {
	k_heads: u32,
	v_heads: u32,
	k_dim: u32,
	v_dim: u32,
	head_mod: u32,
	n_segs: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> a: array<f32>;
@group(0) @binding(3) var<storage, read> b: array<f32>;
@group(0) @binding(4) var<storage, read> A: array<f32>;
@group(0) @binding(5) var<storage, read> dt_bias: array<f32>;
@group(0) @binding(6) var<storage, read> segs: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> state: array<f32>;
@group(0) @binding(8) var<storage, read_write> y: array<f32>;

const L2_EPS = 1e-6;

// Where a row of qkv holds what a value head needs: q and k in vectors, v in values.
struct Places {
	q: u32,
	k: u32,
	v: u32,
}

fn places(row: u32, head: u32) -> Places {
	let key_head = select(head / (p.v_heads / p.k_heads), head % p.k_heads, p.head_mod != 0u);
	let k_width = p.k_heads * K_DIM;
	let start = row * (2u * k_width + p.v_heads * p.v_dim);
	let q = start + key_head * K_DIM;
	return Places(q / 4u, (q + k_width) / 4u, start + 2u * k_width + head * p.v_dim);
}

fn value(at: u32) -> f32 {
	return qkv[at / 4u][at % 4u];
}

// Logarithm of the decay and the write strength of a head at a row.
fn gates(row: u32, head: u32) -> vec2<f32> {
	let at = row * p.v_heads + head;
	let t = a[at] + dt_bias[head];
	let softplus = select(max(t, 0.0) + log(1.0 + exp(-abs(t))), t, t > 20.0);
	return vec2<f32>(A[head] * softplus, 1.0 / (1.0 + exp(-b[at])));
}
