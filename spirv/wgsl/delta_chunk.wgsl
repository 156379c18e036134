// Woven from parts/delta_chunk.in by weave: edit that.
// Gated delta rule, CHUNK tokens at a time. A workgroup owns COLS columns of one head's state M [k_dim][v_dim] of one segment, in
// workgroup memory. With G_i the sum of log decays up to token i of the chunk, D_ij = exp(G_i - G_j), unit-length k and q:
//   r_i = beta_i (v_i - exp(G_i) k_i.M) - sum over j < i of beta_i (k_i.k_j) D_ij r_j        (one column a lane)
//   o_i = exp(G_i) q_i.M + sum over j <= i of (q_i.k_j) D_ij r_j
//   M'  = exp(G_last) M + sum over j of exp(G_last - G_j) k_j r_j
override K_DIM: u32 = 128u; // must be the k_dim of the parameters

const CHUNK = 16u;
const COLS = 16u;
const WG = 256u; // CHUNK * COLS: a lane is a (token, column) or a pair of tokens

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

var<workgroup> m: array<f32, K_DIM * COLS>;
var<workgroup> kk: array<f32, WG>;    // [i][j]: k_i.k_j, raw; then the factor of r_j in r_i
var<workgroup> qk: array<f32, WG>;    // [i][j]: q_i.k_j, raw; then the factor of r_j in o_i
var<workgroup> km: array<f32, WG>;    // [i][column]: what r_i starts from; then r_i
var<workgroup> kn: array<f32, CHUNK>; // 1 / length of k, and of q (times 1 / sqrt(k_dim))
var<workgroup> qn: array<f32, CHUNK>;
var<workgroup> log_decay: array<f32, CHUNK>;
var<workgroup> beta: array<f32, CHUNK>;

fn sum4(v: vec4<f32>) -> f32 {
	return (v.x + v.y) + (v.z + v.w);
}

// Products of tokens i / CHUNK and i % CHUNK of the chunk at `row`, and what token i alone needs.
fn pair_products(i: u32, row: u32, n: u32, head: u32) {
	let one = i / CHUNK;
	let other = i % CHUNK;
	if (one < n && other <= one) {
		let at = places(row + one, head);
		let at_k = places(row + other, head).k;
		var k_sum = vec4<f32>(0.0);
		var q_sum = vec4<f32>(0.0);
		var q_norm = vec4<f32>(0.0);
		for (var j = 0u; j < K_DIM / 4u; j++) {
			let k = qkv[at_k + j];
			let q = qkv[at.q + j];
			k_sum += qkv[at.k + j] * k;
			q_sum += q * k;
			q_norm += q * q;
		}
		kk[i] = sum4(k_sum);
		qk[i] = sum4(q_sum);
		if (one == other) {
			let gate = gates(row + one, head);
			kn[one] = inverseSqrt(kk[i] + L2_EPS);
			qn[one] = inverseSqrt(sum4(q_norm) + L2_EPS) * inverseSqrt(f32(K_DIM));
			log_decay[one] = gate.x;
			beta[one] = gate.y;
		}
	}
}

// Sum of the log decays of tokens first + 1 to last of the chunk.
fn decay_between(first: u32, last: u32) -> f32 {
	var sum = 0.0;
	for (var t = first + 1u; t <= last; t++) {
		sum += log_decay[t];
	}
	return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let seg = segs[wg.y];
	let head = wg.x;
	let col = i % COLS;
	let token = i / COLS;
	let column = min(wg.z * COLS + col, p.v_dim - 1u); // lanes past the end repeat the last column, without writing
	let live = wg.z * COLS + col < p.v_dim;
	let place = (seg.w * p.v_heads + head) * K_DIM * p.v_dim + column;
	for (var k = token; k < K_DIM; k += CHUNK) {
		m[k * COLS + col] = 0.0;
		if (seg.z != 0u) {
			m[k * COLS + col] = state[place + k * p.v_dim];
		}
	}
	for (var t = 0u; t < seg.y; t += CHUNK) {
		let n = min(CHUNK, seg.y - t);
		let row = seg.x + t;
		pair_products(i, row, n, head);
		workgroupBarrier();

		var qm = 0.0;
		if (token < n) {
			let at = places(row + token, head);
			var k_sum = 0.0;
			for (var j = 0u; j < K_DIM / 4u; j++) {
				let k0 = 4u * j * COLS + col;
				let v = vec4<f32>(m[k0], m[k0 + COLS], m[k0 + 2u * COLS], m[k0 + 3u * COLS]);
				k_sum += dot(qkv[at.k + j], v);
				qm += dot(qkv[at.q + j], v);
			}
			let decay = exp(log_decay[0] + decay_between(0u, token));
			qm *= decay * qn[token];
			km[i] = beta[token] * (value(at.v + column) - decay * kn[token] * k_sum);
		}
		let other = i % CHUNK;
		if (token < n && other <= token) {
			let d = exp(decay_between(other, token)) * kn[other];
			kk[i] *= beta[token] * kn[token] * d;
			qk[i] *= qn[token] * d;
		}
		workgroupBarrier();

		if (i < COLS) {
			for (var one = 1u; one < n; one++) {
				var r = km[one * COLS + i];
				for (var j = 0u; j < one; j++) {
					r -= kk[one * CHUNK + j] * km[j * COLS + i];
				}
				km[one * COLS + i] = r;
			}
		}
		workgroupBarrier();

		if (token < n && live) {
			var o = qm;
			for (var j = 0u; j <= token; j++) {
				o += qk[token * CHUNK + j] * km[j * COLS + col];
			}
			y[((row + token) * p.v_heads + head) * p.v_dim + column] = o;
		}
		workgroupBarrier(); // o has read r

		// r times what it is worth at the end of the chunk
		if (token < n) {
			km[i] *= kn[token] * exp(decay_between(token, n - 1u));
		}
		workgroupBarrier();
		let decay = exp(log_decay[0] + decay_between(0u, n - 1u));
		for (var quad = token; quad < K_DIM / 4u; quad += CHUNK) {
			var sum = vec4<f32>(0.0);
			for (var j = 0u; j < n; j++) {
				sum += qkv[places(row + j, head).k + quad] * km[j * COLS + col];
			}
			for (var c = 0u; c < 4u; c++) {
				let at = (4u * quad + c) * COLS + col;
				m[at] = decay * m[at] + sum[c];
			}
		}
		workgroupBarrier();
	}
	if (live) {
		for (var k = token; k < K_DIM; k += CHUNK) {
			state[place + k * p.v_dim] = m[k * COLS + col];
		}
	}
}
