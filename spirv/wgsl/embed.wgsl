// Woven from parts/embed.in by weave: edit that.
// y[row] = w[token of row], a run of 16 values a lane. Rows whose token lies outside the bound range are left alone.
override WG: u32 = 64u;

struct Params {
	width: u32,
	n_rows: u32,
	w_first: u32,
	w_count: u32,
	w_base: u32,
	w_stride: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;

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
// Weight rows in the layout of README.md, read in units as floats.
// Value 4 i + j of run h is scale[h] * q[4 h + i][j] + offset[h].
struct Unit {
	q: array<vec4<f32>, 8>,
	scale: vec2<f32>,
	offset: vec2<f32>,
}

fn word_at(base: u32, i: u32) -> u32 {
	return w[base + i / 4u][i % 4u];
}

fn half_at(base: u32, i: u32) -> f32 {
	let pair = unpack2x16float(word_at(base, i / 2u));
	return select(pair.x, pair.y, (i & 1u) != 0u);
}

fn bfloats(a: u32, b: u32) -> vec4<f32> {
	return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
}

// Every byte of v, shifted right and masked (mask + shift within a byte).
fn bytes(v: u32, shift: u32, mask: u32) -> vec4<u32> {
	return (vec4<u32>(v) >> (vec4<u32>(0u, 8u, 16u, 24u) + shift)) & vec4<u32>(mask);
}

fn nibbles(v: u32, shift: u32) -> vec4<f32> {
	return vec4<f32>(bytes(v, shift, 15u));
}

fn signed_bytes(v: u32) -> vec4<f32> {
	return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

// Bits i to i + 3 of v as 0 or 16.
fn fifth_bits(v: u32, i: u32) -> vec4<u32> {
	return ((vec4<u32>(v) >> (vec4<u32>(0u, 1u, 2u, 3u) + i)) & vec4<u32>(1u)) << vec4<u32>(4u);
}

fn unit_plain(base: u32, u: u32) -> Unit {
	var r: Unit;
	r.scale = vec2<f32>(1.0);
	r.offset = vec2<f32>(0.0);
	if (QUANT == F32) {
		for (var i = 0u; i < 8u; i++) {
			r.q[i] = bitcast<vec4<f32>>(w[base + u * 8u + i]);
		}
		return r;
	}
	for (var i = 0u; i < 4u; i++) {
		let v = w[base + u * 4u + i];
		if (QUANT == F16) {
			r.q[2u * i] = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
			r.q[2u * i + 1u] = vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
		} else {
			r.q[2u * i] = bfloats(v.x, v.y);
			r.q[2u * i + 1u] = bfloats(v.z, v.w);
		}
	}
	return r;
}

// Scale and offset of block b, whose scales start at base: d alone with quants centred on `zero`, or d and m.
fn unit_scale(base: u32, b: u32, zero: f32) -> vec2<f32> {
	if (QUANT == Q4_1 || QUANT == Q5_1) {
		return unpack2x16float(word_at(base, b));
	}
	let d = half_at(base, b);
	return vec2<f32>(d, -zero * d);
}

fn unit_q4(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let v = w[base + u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = nibbles(v[i], 0u);
		r.q[i + 4u] = nibbles(v[i], 4u);
	}
	let s = unit_scale(base + nb, u, 8.0);
	r.scale = s.xx;
	r.offset = s.yy;
	return r;
}

fn unit_q5(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let v = w[base + u];
	let h = word_at(base + nb, u);
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | fifth_bits(h, 4u * i));
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | fifth_bits(h, 4u * i + 16u));
	}
	let s = unit_scale(base + nb + (nb + 3u) / 4u, u, 16.0);
	r.scale = s.xx;
	r.offset = s.yy;
	return r;
}

fn unit_q8(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	for (var h = 0u; h < 2u; h++) {
		let v = w[base + 2u * u + h];
		for (var i = 0u; i < 4u; i++) {
			r.q[4u * h + i] = signed_bytes(v[i]);
		}
	}
	r.scale = vec2<f32>(half_at(base + 2u * nb, u));
	r.offset = vec2<f32>(0.0);
	return r;
}

// The six-bit scales and minima of sub-blocks 2 c and 2 c + 1: head holds d, dmin and the 12 packed bytes.
fn set_k_scales(r: ptr<function, Unit>, head: vec4<u32>, c: u32) {
	let v = (head.yzw >> vec3<u32>(c % 2u * 16u));
	let low = vec4<u32>(v.x, v.x >> 8u, v.y, v.y >> 8u);
	let both = vec4<u32>(v.z, v.z >> 8u, v.z >> 4u, v.z >> 12u) & vec4<u32>(15u);
	let six = select(both | (((low >> vec4<u32>(6u)) & vec4<u32>(3u)) << vec4<u32>(4u)), low & vec4<u32>(63u), c < 2u);
	let d = unpack2x16float(head.x);
	(*r).scale = d.x * vec2<f32>(six.xy);
	(*r).offset = -d.y * vec2<f32>(six.zw);
}

fn unit_q4_k(base: u32, u: u32) -> Unit {
	var r: Unit;
	let block = base + u / 8u * 9u;
	let v = w[block + 1u + u % 8u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = nibbles(v[i], 0u);
		r.q[i + 4u] = nibbles(v[i], 4u);
	}
	set_k_scales(&r, w[block], u % 8u / 2u);
	return r;
}

fn unit_q5_k(base: u32, u: u32) -> Unit {
	var r: Unit;
	let block = base + u / 8u * 11u;
	let c = u % 8u / 2u;
	let h = w[block + 1u + u % 2u] >> vec4<u32>(2u * c);
	let v = w[block + 3u + u % 8u];
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | (bytes(h[i], 0u, 1u) << vec4<u32>(4u)));
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | (bytes(h[i], 1u, 1u) << vec4<u32>(4u)));
	}
	set_k_scales(&r, w[block], c);
	return r;
}

fn unit_q6_k(base: u32, u: u32, nb: u32) -> Unit {
	var r: Unit;
	let b = u / 8u;
	let t = u % 8u;
	let block = base + b * 13u;
	let pair = t / 2u % 2u; // which 32 of the low 64
	let v = w[block + t];
	let h = w[block + 8u + t / 4u * 2u + t % 2u] >> vec4<u32>(2u * pair);
	for (var i = 0u; i < 4u; i++) {
		r.q[i] = vec4<f32>(bytes(v[i], 0u, 15u) | (bytes(h[i], 0u, 3u) << vec4<u32>(4u))) - 32.0;
		r.q[i + 4u] = vec4<f32>(bytes(v[i], 4u, 15u) | (bytes(h[i], 4u, 3u) << vec4<u32>(4u))) - 32.0;
	}
	let at = vec2<u32>(t / 4u * 2u) + vec2<u32>(0u, 1u);
	let s = w[block + 12u];
	let sc = vec2<u32>(s[at.x], s[at.y]) << vec2<u32>(24u - 8u * (t % 2u + 2u * pair));
	r.scale = half_at(base + nb * 13u, b) * vec2<f32>(bitcast<vec2<i32>>(sc) >> vec2<u32>(24u));
	r.offset = vec2<f32>(0.0);
	return r;
}

// Unit u of the row that starts at w[base]; nb = blocks_of(k).
fn unit_at(base: u32, u: u32, nb: u32) -> Unit {
	switch QUANT {
		case Q4_0, Q4_1: {
			return unit_q4(base, u, nb);
		}
		case Q5_0, Q5_1: {
			return unit_q5(base, u, nb);
		}
		case Q8_0: {
			return unit_q8(base, u, nb);
		}
		case Q4_K: {
			return unit_q4_k(base, u);
		}
		case Q5_K: {
			return unit_q5_k(base, u);
		}
		case Q6_K: {
			return unit_q6_k(base, u, nb);
		}
		default: {
			return unit_plain(base, u);
		}
	}
}
// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n_wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let runs = 2u * units_of(p.width);
	let at = lane_index(wg, n_wg, i);
	let row = at / runs;
	if (row >= p.n_rows) {
		return;
	}
	let id = rows[row].x;
	if (id < p.w_first || id - p.w_first >= p.w_count) {
		return;
	}
	let u = at % runs / 2u;
	let h = at % 2u;
	let unit = unit_at(p.w_base + (id - p.w_first) * p.w_stride, u, blocks_of(p.width));
	let k = runs_of(u)[h];
	for (var j = 0u; j < 4u; j++) {
		if (k + 4u * j < p.width) {
			y[(row * p.width + k) / 4u + j] = unit.scale[h] * unit.q[4u * h + j] + unit.offset[h];
		}
	}
}
