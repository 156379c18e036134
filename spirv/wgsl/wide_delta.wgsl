// Woven from parts/wide_delta.in by weave: edit that.
// Gated delta rule for segments of one row (or none), with the products a and b of its gates: two MATMULs of float weights, for which x may be
// normed on the way, and DELTA. Each workgroup owns COLS columns of a head's state, as in delta, and computes its gates for itself.
enable subgroups;

override SG: u32 = 32u; // the subgroup size, which must be required of the pipeline
override K_DIM: u32 = 128u; // must be the k_dim of the parameters
override NORM: bool = false;

const COLS = 32u;
const SLICES = 8u;
const WG = 256u;
const MAX_OWN = 8u; // vectors a lane: K_DIM <= 256
const L2_EPS = 1e-6;

struct Params {
	k_heads: u32,
	v_heads: u32,
	k_dim: u32,
	v_dim: u32,
	head_mod: u32,
	k: u32,        // width of x
	a_stride: u32, // units of 16 bytes
	b_stride: u32,
	eps: f32,
	w_offset: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> nw: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> wa: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> wb: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> A: array<f32>;
@group(0) @binding(7) var<storage, read> dt_bias: array<f32>;
@group(0) @binding(8) var<storage, read> segs: array<vec4<u32>>;
@group(0) @binding(9) var<storage, read_write> state: array<f32>;
@group(0) @binding(10) var<storage, read_write> y: array<f32>;

// Types of weights (README.md), and how a row of them divides into units: 32 values, as two runs of 16 consecutive ones.
const F32 = 0u;
const F16 = 1u;
const BF16 = 2u;
const Q4_0 = 3u;
const Q4_1 = 4u;
const Q5_0 = 5u;
const Q5_1 = 6u;
const Q8_0 = 7u;
const Q4_K = 8u;
const Q5_K = 9u;
const Q6_K = 10u;

override QUANT: u32 = 0u; // rp_dtype

fn has_superblocks() -> bool {
	return QUANT >= Q4_K;
}

// Units of a row of k values, and blocks of one (units, for types without blocks).
fn units_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u * 8u, has_superblocks());
}

fn blocks_of(k: u32) -> u32 {
	return select((k + 31u) / 32u, (k + 255u) / 256u, has_superblocks());
}

// Where the two runs of unit u start in the row.
fn runs_of(u: u32) -> vec2<u32> {
	let t = u % 8u;
	switch QUANT {
		case Q4_K, Q5_K: {
			let start = u / 8u * 256u + t / 2u * 64u + t % 2u * 16u;
			return vec2<u32>(start, start + 32u);
		}
		case Q6_K: {
			let start = u / 8u * 256u + t / 4u * 128u + t / 2u % 2u * 32u + t % 2u * 16u;
			return vec2<u32>(start, start + 64u);
		}
		default: {
			return vec2<u32>(u * 32u, u * 32u + 16u);
		}
	}
}

var<workgroup> products: array<vec2<f32>, WG>;      // [SLICES][COLS]: k.M, q.M
var<workgroup> norms: array<vec4<f32>, SLICES>;     // k.k, q.q, q.k
var<workgroup> gates: array<vec4<f32>, WG / SG>;    // a subgroup: x.x, a, b

// Vector j of a row of floats from v = w[at + j or j / 2].
fn floats(v: vec4<u32>, j: u32) -> vec4<f32> {
	if (QUANT == F32) {
		return bitcast<vec4<f32>>(v);
	}
	let two = select(v.xy, v.zw, (j & 1u) != 0u);
	if (QUANT == F16) {
		return vec4<f32>(unpack2x16float(two.x), unpack2x16float(two.y));
	}
	return bitcast<vec4<f32>>(vec4<u32>(two.x << 16u, two.x & 0xffff0000u, two.y << 16u, two.y & 0xffff0000u));
}

fn value(at: u32) -> f32 {
	return qkv[at / 4u][at % 4u];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let own = (K_DIM / 4u + SLICES - 1u) / SLICES;
	let slice = i / COLS;
	let head = wg.x;
	let column = min(wg.z * COLS + i % COLS, p.v_dim - 1u); // lanes past the end repeat the last column, without writing
	let live = wg.z * COLS + i % COLS < p.v_dim;
	let seg = segs[wg.y];
	if (seg.y == 0u) {
		return;
	}
	let first = slice * own; // vector of k
	let count = min(own, max(K_DIM / 4u, first) - first);
	let place = (seg.w * p.v_heads + head) * K_DIM * p.v_dim + column;
	var m: array<vec4<f32>, MAX_OWN>;
	for (var j = 0u; j < own; j++) {
		m[j] = vec4<f32>(0.0);
		if (seg.z != 0u && j < count) {
			let at = place + 4u * (first + j) * p.v_dim;
			m[j] = vec4<f32>(state[at], state[at + p.v_dim], state[at + 2u * p.v_dim], state[at + 3u * p.v_dim]);
		}
	}
	var g = vec4<f32>(0.0);
	for (var j = i; j < p.k / 4u; j += WG) {
		let at = select(j / 2u, j, QUANT == F32);
		var v = x[seg.x * (p.k / 4u) + j];
		g.x += dot(v, v);
		if (NORM) {
			v *= nw[j] + p.w_offset;
		}
		g.y += dot(v, floats(wa[head * p.a_stride + at], j));
		g.z += dot(v, floats(wb[head * p.b_stride + at], j));
	}
	let key_head = select(head / (p.v_heads / p.k_heads), head % p.k_heads, p.head_mod != 0u);
	let row_at = seg.x * (2u * p.k_heads * K_DIM + p.v_heads * p.v_dim); // of the values
	let q_at = row_at / 4u + key_head * (K_DIM / 4u);
	let k_at = q_at + p.k_heads * (K_DIM / 4u);
	let v = value(row_at + 2u * p.k_heads * K_DIM + head * p.v_dim + column);
	let rate = A[head];
	let bias = dt_bias[head];
	var ks: array<vec4<f32>, MAX_OWN>;
	var km = 0.0;
	var qm = 0.0;
	var n = vec4<f32>(0.0);
	for (var j = 0u; j < own; j++) {
		ks[j] = vec4<f32>(0.0);
		if (j < count) {
			let k = qkv[k_at + first + j];
			let q = qkv[q_at + first + j];
			ks[j] = k;
			km += dot(k, m[j]);
			qm += dot(q, m[j]);
			n += vec4<f32>(dot(k, k), dot(q, q), dot(q, k), 0.0);
		}
	}
	products[i] = vec2<f32>(km, qm);
	if (i % COLS == 0u) {
		norms[slice] = n;
	}
	g = subgroupAdd(g);
	if (i % SG == 0u) {
		gates[i / SG] = g;
	}
	workgroupBarrier();
	var dots = vec2<f32>(0.0);
	n = vec4<f32>(0.0);
	for (var s = 0u; s < SLICES; s++) {
		dots += products[s * COLS + i % COLS];
		n += norms[s];
	}
	g = vec4<f32>(0.0);
	for (var s = 0u; s < WG / SG; s++) {
		g += gates[s];
	}
	let rms = select(1.0, inverseSqrt(g.x / f32(p.k) + p.eps), NORM);
	let t = g.y * rms + bias;
	let softplus = select(max(t, 0.0) + log(1.0 + exp(-abs(t))), t, t > 20.0);
	let decay = exp(rate * softplus);
	let beta = 1.0 / (1.0 + exp(-g.z * rms));
	let kn = inverseSqrt(n.x + L2_EPS);
	let qn = inverseSqrt(n.y + L2_EPS) * inverseSqrt(f32(K_DIM));
	let r = beta * (v - decay * kn * dots.x) * kn;
	if (slice == 0u && live) {
		y[(seg.x * p.v_heads + head) * p.v_dim + column] = qn * (decay * dots.y + n.z * r);
	}
	if (live) {
		for (var j = 0u; j < own; j++) {
			if (j < count) {
				let at = place + 4u * (first + j) * p.v_dim;
				let now = decay * m[j] + ks[j] * r;
				for (var c = 0u; c < 4u; c++) {
					state[at + c * p.v_dim] = now[c];
				}
			}
		}
	}
}
