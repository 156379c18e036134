// Woven from parts/half_matmul.in by weave: edit that.
// y = x w^T for many rows of x, on matrix units: halves times halves, summed in f32. A workgroup makes a tile of BM rows of x by BN
// rows of w; its SUB_M by SUB_N subgroups each make TILE_M by TILE_N matrices of it. A step is UNITS units of 32 values of both,
// unpacked into workgroup memory; the loads of the next step run ahead. GLU: y = silu(x w^T) * (x w_up^T), the rows of w and w_up
// interleaved by matrices.
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;

const SIDE = 8u; // rows and columns of a matrix
override WG: u32 = 128u; // SUB_M * SUB_N * SG
override SG: u32 = 32u;
override SUB_M: u32 = 2u;
override SUB_N: u32 = 2u;
override TILE_M: u32 = 2u; // at most MOST_TILES
override TILE_N: u32 = 2u;
override UNITS: u32 = 1u;
override BUFFERS: u32 = 1u; // 2: the next step is unpacked while others still multiply
override RESIDUAL: u32 = 0u;
override GLU: bool = false;

const MOST_TILES = 4u;
const MOST_UNITS = 4u; // of w a lane unpacks a step
const MOST_PARTS = 8u; // vectors of x a lane copies a step

override BM: u32 = SUB_M * TILE_M * SIDE;
override BN: u32 = SUB_N * TILE_N * SIDE;
override LD: u32 = UNITS * 4u + 1u;                // vectors a row in workgroup memory: an odd number spreads rows over banks
override BUFFER: u32 = (BM + BN) * LD;
override OUT_LD: u32 = TILE_N * SIDE / 4u + 1u;    // of a row of sums there
override OUT: u32 = SIDE * OUT_LD;                 // a subgroup's
override MEMORY: u32 = max(BUFFERS * BUFFER, SUB_M * SUB_N * OUT);

alias Left = subgroup_matrix_left<f16, SIDE, SIDE>;
alias Right = subgroup_matrix_right<f16, SIDE, SIDE>;
alias Sum = subgroup_matrix_result<f32, SIDE, SIDE>;

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
// Weight rows in the layout of README.md as halves, in two steps so that loads can run ahead of their use: a unit as it lies in
// memory, then its 32 values, four vectors of eight. Values are WORTH times the weight: the scales of small weights would lose bits
// as halves.
const WORTH = 16.0;

struct Raw { // what of a unit is read; its quants first
	a: vec4<u32>,
	b: vec4<u32>,
	c: vec4<u32>,
	d: vec4<u32>,
	e: vec4<u32>,
	f: vec4<u32>,
	g: vec4<u32>,
	h: vec4<u32>,
}

struct Halves {
	a: vec4<u32>,
	b: vec4<u32>,
	c: vec4<u32>,
	d: vec4<u32>,
}

fn raw_of(m: u32, at: u32) -> vec4<u32> {
	if (GLU && m != 0u) {
		return w_up[at];
	}
	return w[at];
}

fn raw_word(m: u32, base: u32, i: u32) -> u32 {
	if (GLU && m != 0u) {
		return w_up[base + i / 4u][i % 4u];
	}
	return w[base + i / 4u][i % 4u];
}

// Unit u of the row of matrix m that starts at base.
fn fetch_unit(m: u32, base: u32, u: u32, nb: u32) -> Raw {
	var r: Raw;
	switch QUANT {
		case Q4_0, Q4_1: {
			r.a = raw_of(m, base + u);
			r.b.x = raw_word(m, base + nb, select(u / 2u, u, QUANT == Q4_1));
		}
		case Q5_0, Q5_1: {
			r.a = raw_of(m, base + u);
			r.b.x = raw_word(m, base + nb + (nb + 3u) / 4u, select(u / 2u, u, QUANT == Q5_1));
			r.b.y = raw_word(m, base + nb, u);
		}
		case Q8_0: {
			r.a = raw_of(m, base + 2u * u);
			r.c = raw_of(m, base + 2u * u + 1u);
			r.b.x = raw_word(m, base + 2u * nb, u / 2u);
		}
		case Q4_K: {
			let block = base + u / 8u * 9u;
			r.a = raw_of(m, block + 1u + u % 8u);
			r.b = raw_of(m, block);
		}
		case Q5_K: {
			let block = base + u / 8u * 11u;
			r.a = raw_of(m, block + 3u + u % 8u);
			r.b = raw_of(m, block);
			r.c = raw_of(m, block + 1u + u % 2u);
		}
		case Q6_K: {
			let block = base + u / 8u * 13u;
			r.a = raw_of(m, block + u % 8u);
			r.b.x = raw_word(m, base + nb * 13u, u / 16u);
			r.c = raw_of(m, block + 8u + u % 8u / 4u * 2u + u % 2u);
			r.d = raw_of(m, block + 12u);
		}
		case F32: {
			let at = base + 8u * u;
			r.a = raw_of(m, at);
			r.b = raw_of(m, at + 1u);
			r.c = raw_of(m, at + 2u);
			r.d = raw_of(m, at + 3u);
			r.e = raw_of(m, at + 4u);
			r.f = raw_of(m, at + 5u);
			r.g = raw_of(m, at + 6u);
			r.h = raw_of(m, at + 7u);
		}
		default: {
			let at = base + 4u * u;
			r.a = raw_of(m, at);
			r.b = raw_of(m, at + 1u);
			r.c = raw_of(m, at + 2u);
			r.d = raw_of(m, at + 3u);
		}
	}
	return r;
}

// The halves 1024 + n for two values n below 1,024: exact, and cheaper than a conversion.
fn counts(v: u32) -> vec2<f16> {
	return bitcast<vec2<f16>>(v | 0x64006400u);
}

// Four values from the low bits of the bytes of v (mask within a byte): (byte - zero) * scale + offset.
fn four(v: u32, zero: f16, scale: f16, offset: f16) -> vec2<u32> {
	let even = (counts(v & 0x00ff00ffu) - vec2<f16>(1024.0h + zero)) * scale + offset;
	let odd = (counts((v >> 8u) & 0x00ff00ffu) - vec2<f16>(1024.0h + zero)) * scale + offset;
	return vec2<u32>(bitcast<u32>(vec2<f16>(even.x, odd.x)), bitcast<u32>(vec2<f16>(even.y, odd.y)));
}

fn eight(a: u32, b: u32, zero: f16, scale: f16, offset: f16) -> vec4<u32> {
	return vec4<u32>(four(a, zero, scale, offset), four(b, zero, scale, offset));
}

fn half_of(v: u32, high: bool) -> f32 {
	let pair = unpack2x16float(v);
	return select(pair.x, pair.y, high);
}

// Bits i to i + 3 of v as the fifth bits of four bytes.
fn fifth(v: u32, i: u32) -> u32 {
	let n = (v >> i) & 15u;
	return ((n & 1u) | ((n & 2u) << 7u) | ((n & 4u) << 14u) | ((n & 8u) << 21u)) << 4u;
}

fn fifths(v: u32, i: u32) -> vec4<u32> {
	return vec4<u32>(fifth(v, i), fifth(v, i + 4u), fifth(v, i + 8u), fifth(v, i + 12u));
}

// Scales of the two runs, then what is added, of a unit of sub-blocks 2 c and 2 c + 1.
fn k_scales(head: vec4<u32>, c: u32) -> vec4<f32> {
	let v = (head.yzw >> vec3<u32>(c % 2u * 16u));
	let low = vec4<u32>(v.x, v.x >> 8u, v.y, v.y >> 8u);
	let both = vec4<u32>(v.z, v.z >> 8u, v.z >> 4u, v.z >> 12u) & vec4<u32>(15u);
	let six = select(both | (((low >> vec4<u32>(6u)) & vec4<u32>(3u)) << vec4<u32>(4u)), low & vec4<u32>(63u), c < 2u);
	let d = unpack2x16float(head.x) * WORTH;
	return vec4<f32>(d.x, d.x, -d.y, -d.y) * vec4<f32>(six);
}

// Quants of both runs (a byte each) with the scales of both.
fn two_runs(lo: vec4<u32>, hi: vec4<u32>, zero: f16, s: vec4<f32>) -> Halves {
	let h = vec4<f16>(s);
	return Halves(eight(lo.x, lo.y, zero, h.x, h.z), eight(lo.z, lo.w, zero, h.x, h.z), eight(hi.x, hi.y, zero, h.y, h.w),
		eight(hi.z, hi.w, zero, h.y, h.w));
}

fn pair(a: f32, b: f32) -> u32 {
	return pack2x16float(clamp(vec2<f32>(a, b) * WORTH, vec2<f32>(-65504.0), vec2<f32>(65504.0)));
}

fn from_floats(v: vec4<u32>, n: vec4<u32>) -> vec4<u32> {
	let a = bitcast<vec4<f32>>(v);
	let b = bitcast<vec4<f32>>(n);
	return vec4<u32>(pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w));
}

fn from_bfloats(v: vec4<u32>) -> vec4<u32> {
	let low = bitcast<vec4<f32>>(v << vec4<u32>(16u));
	let high = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
	return vec4<u32>(pair(low.x, high.x), pair(low.y, high.y), pair(low.z, high.z), pair(low.w, high.w));
}

// Signed bytes become unsigned by a flip of their top bits: then zero is 128.
fn unpack_unit(r: Raw, u: u32) -> Halves {
	let nibble = vec4<u32>(0x0f0f0f0fu);
	let lo = r.a & nibble;
	let hi = (r.a >> vec4<u32>(4u)) & nibble;
	switch QUANT {
		case Q4_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			return two_runs(lo, hi, 8.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q4_1: {
			return two_runs(lo, hi, 0.0h, (unpack2x16float(r.b.x) * WORTH).xxyy);
		}
		case Q5_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			return two_runs(lo | fifths(r.b.y, 0u), hi | fifths(r.b.y, 16u), 16.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q5_1: {
			return two_runs(lo | fifths(r.b.y, 0u), hi | fifths(r.b.y, 16u), 0.0h, (unpack2x16float(r.b.x) * WORTH).xxyy);
		}
		case Q8_0: {
			let d = half_of(r.b.x, (u & 1u) != 0u) * WORTH;
			let flip = vec4<u32>(0x80808080u);
			return two_runs(r.a ^ flip, r.c ^ flip, 128.0h, vec4<f32>(d, d, 0.0, 0.0));
		}
		case Q4_K: {
			return two_runs(lo, hi, 0.0h, k_scales(r.b, u % 8u / 2u));
		}
		case Q5_K: {
			let c = u % 8u / 2u;
			let h = r.c >> vec4<u32>(2u * c);
			let one = vec4<u32>(0x01010101u);
			return two_runs(lo | ((h & one) << vec4<u32>(4u)), hi | (((h >> vec4<u32>(1u)) & one) << vec4<u32>(4u)), 0.0h,
				k_scales(r.b, c));
		}
		case Q6_K: {
			let t = u % 8u;
			let half_block = t / 2u % 2u; // which 32 of the low 64
			let h = r.c >> vec4<u32>(2u * half_block);
			let two = vec4<u32>(0x03030303u);
			let shift = 24u - 8u * (t % 2u + 2u * half_block);
			let at = t / 4u * 2u;
			let sc = vec2<u32>(r.d[at], r.d[at + 1u]) << vec2<u32>(shift);
			let s = half_of(r.b.x, (u / 8u) % 2u != 0u) * WORTH * vec2<f32>(bitcast<vec2<i32>>(sc) >> vec2<u32>(24u));
			return two_runs(lo | ((h & two) << vec4<u32>(4u)), hi | (((h >> vec4<u32>(4u)) & two) << vec4<u32>(4u)), 32.0h,
				vec4<f32>(s, 0.0, 0.0));
		}
		case F32: {
			return Halves(from_floats(r.a, r.b), from_floats(r.c, r.d), from_floats(r.e, r.f), from_floats(r.g, r.h));
		}
		case BF16: {
			return Halves(from_bfloats(r.a), from_bfloats(r.b), from_bfloats(r.c), from_bfloats(r.d));
		}
		default: {
			return Halves(r.a, r.b, r.c, r.d); // worth 1
		}
	}
}

var<workgroup> tile: array<vec4<u32>, MEMORY>;

// Part t of a step of x: eight halves. Past the last unit there are zeros.
fn fetch_x(t: u32, row0: u32, step: u32) -> vec4<u32> {
	let part = t % (UNITS * 4u);
	let u = step * UNITS + part / 4u;
	if (u >= p.units) {
		return vec4<u32>(0u);
	}
	let row = min(row0 + t / (UNITS * 4u), p.n_rows - 1u);
	return x[row * p.units * 4u + runs_of(u)[part / 2u % 2u] / 8u + part % 2u];
}

// Unit t of a step of w.
fn fetch_w(t: u32, col0: u32, step: u32) -> Raw {
	let r = t / UNITS;
	let u = min(step * UNITS + t % UNITS, p.units - 1u);
	var col = col0 + r;
	var m = 0u;
	if (GLU) {
		col = col0 + r / (2u * SIDE) * SIDE + r % SIDE;
		m = r / SIDE % 2u;
	}
	return fetch_unit(m, p.w_base + min(col, p.n - 1u) * p.w_stride, u, p.blocks);
}

fn finish(row: u32, col: u32, sum: f32) {
	if (row < p.n_rows && col < p.n) {
		let at = row * p.y_stride + p.y_first + col;
		var v = sum;
		if (RESIDUAL == 1u) {
			v += y[at];
		}
		if (RESIDUAL == 2u) {
			v += res[at];
		}
		y[at] = v;
	}
}

fn sum_at(i: u32) -> f32 {
	return bitcast<f32>(tile[i / 4u][i % 4u]);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32, @builtin(subgroup_id) sg: u32) {
	let row0 = wg.x * BM;
	let col0 = wg.y * select(BN, BN / 2u, GLU);
	let sub_m = sg % SUB_M * TILE_M * SIDE;
	let sub_n = sg / SUB_M * TILE_N * SIDE;
	let steps = (p.units + UNITS - 1u) / UNITS;
	var sums: array<array<Sum, MOST_TILES>, MOST_TILES>;
	var xs: array<vec4<u32>, MOST_PARTS>;
	var ws: array<Raw, MOST_UNITS>;
	for (var j = 0u; j < BM * UNITS * 4u; j += WG) {
		xs[j / WG] = fetch_x(min(i + j, BM * UNITS * 4u - 1u), row0, 0u);
	}
	for (var j = 0u; j < BN * UNITS; j += WG) {
		ws[j / WG] = fetch_w(min(i + j, BN * UNITS - 1u), col0, 0u);
	}
	for (var step = 0u; step < steps; step++) {
		let buffer = step % BUFFERS * BUFFER;
		for (var j = 0u; j < BM * UNITS * 4u; j += WG) {
			let t = i + j;
			if (t < BM * UNITS * 4u) {
				tile[buffer + t / (UNITS * 4u) * LD + t % (UNITS * 4u)] = xs[j / WG];
			}
		}
		for (var j = 0u; j < BN * UNITS; j += WG) {
			let t = i + j;
			if (t < BN * UNITS) {
				let h = unpack_unit(ws[j / WG], min(step * UNITS + t % UNITS, p.units - 1u));
				let to = buffer + (BM + t / UNITS) * LD + t % UNITS * 4u;
				tile[to] = h.a;
				tile[to + 1u] = h.b;
				tile[to + 2u] = h.c;
				tile[to + 3u] = h.d;
			}
		}
		workgroupBarrier();
		if (step + 1u < steps) {
			for (var j = 0u; j < BM * UNITS * 4u; j += WG) {
				xs[j / WG] = fetch_x(min(i + j, BM * UNITS * 4u - 1u), row0, step + 1u);
			}
			for (var j = 0u; j < BN * UNITS; j += WG) {
				ws[j / WG] = fetch_w(min(i + j, BN * UNITS - 1u), col0, step + 1u);
			}
		}
		for (var k = 0u; k < UNITS * 32u / SIDE; k++) {
			var l: array<Left, MOST_TILES>;
			for (var a = 0u; a < TILE_M; a++) {
				l[a] = subgroupMatrixLoad<Left, row_major>(&tile, buffer + (sub_m + a * SIDE) * LD + k * SIDE / 8u, LD);
			}
			for (var b = 0u; b < TILE_N; b++) {
				let r = subgroupMatrixLoad<Right, col_major>(&tile, buffer + (BM + sub_n + b * SIDE) * LD + k * SIDE / 8u, LD);
				for (var a = 0u; a < TILE_M; a++) {
					sums[a][b] = subgroupMatrixMultiplyAccumulate(l[a], r, sums[a][b]);
				}
			}
		}
		if (BUFFERS == 1u) {
			workgroupBarrier();
		}
	}
	// Sums go by way of workgroup memory, a row of matrices of each subgroup at a time: only there a lane knows which they are.
	let lane = i % SG;
	let cols = TILE_N * SIDE;
	let worth = select(1.0 / WORTH, 1.0, QUANT == F16);
	for (var a = 0u; a < TILE_M; a++) {
		workgroupBarrier();
		for (var b = 0u; b < TILE_N; b++) {
			subgroupMatrixStore<row_major>(&tile, sg * OUT + b * SIDE / 4u, sums[a][b], OUT_LD);
		}
		workgroupBarrier();
		let row1 = row0 + sub_m + a * SIDE;
		if (GLU) {
			for (var e = lane; e < SIDE * cols / 2u; e += SG) {
				let r = e / (cols / 2u);
				let c = e % (cols / 2u);
				let at = sg * OUT * 4u + r * OUT_LD * 4u + c / SIDE * 2u * SIDE + c % SIDE;
				let scale = x_scale[min(row1 + r, p.n_rows - 1u)] * worth;
				let g = sum_at(at) * scale;
				finish(row1 + r, col0 + sub_n / 2u + c, g / (1.0 + exp(-g)) * sum_at(at + SIDE) * scale);
			}
		} else {
			for (var e = lane; e < SIDE * cols; e += SG) {
				let r = e / cols;
				let c = e % cols;
				let scale = x_scale[min(row1 + r, p.n_rows - 1u)] * worth;
				finish(row1 + r, col0 + sub_n + c, sum_at(sg * OUT * 4u + r * OUT_LD * 4u + c) * scale);
			}
		}
	}
}
