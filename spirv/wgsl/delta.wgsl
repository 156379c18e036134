// Woven from parts/delta.in by weave: edit that.
// Gated delta rule, token by token. A workgroup owns COLS columns of one head's state [k_dim][v_dim] of one segment: lane
// (slice, column) keeps a slice of its column in registers, four values of k a vector. With the raw q, k of a token and the
// state M before it,
//   r = beta (v - exp(g) kn k.M) kn     M' = exp(g) M + k r     o = qn (exp(g) q.M + (q.k) r)
// where kn and qn normalise k and q, so that one pass over M and one exchange between slices suffice.
override K_DIM: u32 = 128u; // must be the k_dim of the parameters

const COLS = 32u;
const SLICES = 8u;
const WG = 256u;
const MAX_OWN = 8u; // vectors a lane: K_DIM <= 256

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

// Two sets in turn, so that one barrier a token is enough.
var<workgroup> products: array<vec2<f32>, 512>; // [2][SLICES][COLS]: k.M, q.M
var<workgroup> norms: array<vec4<f32>, 16>;     // [2][SLICES]: k.k, q.q, q.k

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let own = (K_DIM / 4u + SLICES - 1u) / SLICES;
	let slice = i / COLS;
	let head = wg.x;
	let column = min(wg.z * COLS + i % COLS, p.v_dim - 1u); // lanes past the end repeat the last column, without writing
	let live = wg.z * COLS + i % COLS < p.v_dim;
	let seg = segs[wg.y];
	let first = slice * own; // vector of k
	let count = min(own, max(K_DIM / 4u, first) - first);
	let place = (seg.w * p.v_heads + head) * K_DIM * p.v_dim + column;
	var m: array<vec4<f32>, MAX_OWN>;
	var ks: array<vec4<f32>, MAX_OWN>;
	for (var j = 0u; j < own; j++) {
		m[j] = vec4<f32>(0.0);
		ks[j] = vec4<f32>(0.0);
		if (seg.z != 0u && j < count) {
			let at = place + 4u * (first + j) * p.v_dim;
			m[j] = vec4<f32>(state[at], state[at + p.v_dim], state[at + 2u * p.v_dim], state[at + 3u * p.v_dim]);
		}
	}
	for (var t = 0u; t < seg.y; t++) {
		let row = seg.x + t;
		let at = places(row, head);
		var km = 0.0;
		var qm = 0.0;
		var n = vec4<f32>(0.0);
		for (var j = 0u; j < own; j++) {
			if (j < count) {
				let k = qkv[at.k + first + j];
				let q = qkv[at.q + first + j];
				ks[j] = k;
				km += dot(k, m[j]);
				qm += dot(q, m[j]);
				n += vec4<f32>(dot(k, k), dot(q, q), dot(q, k), 0.0);
			}
		}
		let gate = gates(row, head); // loads before the barrier, so that they overlap
		let v = value(at.v + column);
		let turn = t % 2u;
		products[turn * WG + i] = vec2<f32>(km, qm);
		if (i % COLS == 0u) {
			norms[turn * SLICES + slice] = n;
		}
		workgroupBarrier();
		var dots = vec2<f32>(0.0);
		n = vec4<f32>(0.0);
		for (var s = 0u; s < SLICES; s++) {
			dots += products[turn * WG + s * COLS + i % COLS];
			n += norms[turn * SLICES + s];
		}
		let decay = exp(gate.x);
		let kn = inverseSqrt(n.x + L2_EPS);
		let qn = inverseSqrt(n.y + L2_EPS) * inverseSqrt(f32(K_DIM));
		let r = gate.y * (v - decay * kn * dots.x) * kn;
		for (var j = 0u; j < own; j++) {
			m[j] = decay * m[j] + ks[j] * r;
		}
		if (slice == 0u && live) {
			y[(row * p.v_heads + head) * p.v_dim + column] = qn * (decay * dots.y + n.z * r);
		}
	}
	if (live) {
		for (var j = 0u; j < own; j++) {
			if (j < count) {
				let at = place + 4u * (first + j) * p.v_dim;
				for (var c = 0u; c < 4u; c++) {
					state[at + c * p.v_dim] = m[j][c];
				}
			}
		}
	}
}
