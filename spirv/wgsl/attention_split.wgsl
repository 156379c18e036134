// Woven from parts/attention_split.in by weave: edit that.
// Causal attention of rows that are one token of a sequence each: query heads that share a key head, and a span of positions, a
// workgroup. Norm and rope of the queries and the key, the row appended to the caches, and the span's part of the softmax, which
// attention_merge or wide_attend joins with the others.
//
// A team of LANES lanes takes four positions at a time, a lane eight values (an oct) of them or OCTS times as many, for all HEADS
// queries: each key and value is loaded once. Teams have a running softmax each, so nobody waits until they are joined.
enable subgroups;

override WG: u32 = 256u;
override SG: u32 = 32u;      // the subgroup size, which must be required of the pipeline
override LANES: u32 = 32u;   // a power of two, 4 to SG
override OCTS: u32 = 1u;     // at least head_dim / 8 / LANES, at most MOST_OCTS
override HEADS: u32 = 1u;    // query heads a workgroup, 1 to 4: divides heads / kv_heads
override DIM4: u32 = 128u;   // head_dim / 4, or more
override NORM: bool = false; // of queries and keys, a head

const MOST_OCTS = 16u;
const LOWEST = -3.4e38;

struct Params {
	heads: u32,
	kv_heads: u32,
	head_dim: u32,
	ctx: u32,
	q_stride: u32, // values from head to head of q
	rotary_dim: u32,
	interleaved: u32,
	splits: u32,
	tile: u32, // positions a split has at least
	scale: f32,
	eps: f32,
	w_offset: f32,
}

@group(0) @binding(0) var<uniform> p: Params;
// Positions of each split but the last when there are n in all: a multiple of the tile.
fn span(n: u32) -> u32 {
	return ((n + p.splits - 1u) / p.splits + p.tile - 1u) / p.tile * p.tile;
}
// Keys and values as a cache holds them: f32, or halves two to a word (KV16).
override KV16: bool = false;

const MOST_HALF = vec4<f32>(65504.0);

// Eight values, and as they lie in a cache: halves take only a.
struct Oct {
	a: vec4<f32>,
	b: vec4<f32>,
}

struct Raw {
	a: vec4<u32>,
	b: vec4<u32>,
}

fn oct_of(r: Raw) -> Oct {
	if (KV16) {
		let lo = vec4<f32>(unpack2x16float(r.a.x), unpack2x16float(r.a.y));
		return Oct(lo, vec4<f32>(unpack2x16float(r.a.z), unpack2x16float(r.a.w)));
	}
	return Oct(bitcast<vec4<f32>>(r.a), bitcast<vec4<f32>>(r.b));
}

// What no half can hold becomes the largest one.
fn raw_of(o: Oct) -> Raw {
	if (KV16) {
		let a = clamp(o.a, -MOST_HALF, MOST_HALF);
		let b = clamp(o.b, -MOST_HALF, MOST_HALF);
		return Raw(vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw)), vec4<u32>(0u));
	}
	return Raw(bitcast<vec4<u32>>(o.a), bitcast<vec4<u32>>(o.b));
}

// Units of 16 bytes that n values take.
fn kv_units(n: u32) -> u32 {
	return select(n / 4u, n / 8u, KV16);
}
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> q_norm: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> k_norm: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> table: array<vec4<f32>>; // two pairs' angles each
@group(0) @binding(7) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> kcache: array<vec4<u32>>;
@group(0) @binding(9) var<storage, read_write> vcache: array<vec4<u32>>;
@group(0) @binding(10) var<storage, read_write> part: array<vec4<f32>>; // [row][head][split][dims + 1]: sums; then maximum and total

var<workgroup> query: array<vec4<f32>, HEADS * DIM4>;
var<workgroup> new_key: array<vec4<u32>, DIM4>; // of this row, as it will lie in the cache
var<workgroup> new_value: array<vec4<u32>, DIM4>;
var<workgroup> rms: array<f32, 5>;              // of the queries, then of the key
var<workgroup> team_most: array<vec4<f32>, WG / LANES>;
var<workgroup> team_total: array<vec4<f32>, WG / LANES>;
var<workgroup> sums: array<vec4<f32>, 4u * WG>;

// ---- the queries and the key of this row ----

// Where vector 0 of query `item`, or of the key (item HEADS), lies.
fn source_of(item: u32, row: u32, head: u32, kv_head: u32) -> u32 {
	return select((row * p.kv_heads + kv_head) * (p.head_dim / 4u), (row * p.heads + head + item) * (p.q_stride / 4u), item < HEADS);
}

fn read_source(item: u32, at: u32) -> vec4<f32> {
	if (item < HEADS) {
		return q[at];
	}
	return k[at];
}

fn normed(item: u32, at: u32, d: u32) -> vec4<f32> {
	let x = read_source(item, at + d);
	if (NORM) {
		let w = select(k_norm[d], q_norm[d], item < HEADS);
		return x * rms[item] * (w + p.w_offset);
	}
	return x;
}

// Where the partner of vector d is, in vectors, when pairs are half a rotation apart.
fn partner(d: u32) -> u32 {
	let half4 = p.rotary_dim / 8u;
	return select(d, select(d - half4, d + half4, d < half4), p.interleaved == 0u && d < 2u * half4);
}

// Vector d of a head turned by the angles of a position; `other` is its partner.
fn turned(own: vec4<f32>, other: vec4<f32>, d: u32, position: u32) -> vec4<f32> {
	let half = p.rotary_dim / 2u;
	if (4u * d >= p.rotary_dim) {
		return own;
	}
	if (p.interleaved != 0u) {
		let t = table[(position * half + 2u * d) / 2u];
		return vec4<f32>(own.x * t.x - own.y * t.y, own.y * t.x + own.x * t.y, own.z * t.z - own.w * t.w, own.w * t.z + own.z * t.w);
	}
	let at = (position * half + 4u * d % half) / 2u;
	let a = table[at];
	let b = table[at + 1u];
	let sine = vec4<f32>(a.y, a.w, b.y, b.w);
	return own * vec4<f32>(a.x, a.z, b.x, b.z) + other * select(sine, -sine, 4u * d < half);
}

fn made(item: u32, at: u32, d: u32, position: u32) -> vec4<f32> {
	return turned(normed(item, at, d), normed(item, at, partner(d)), d, position);
}

fn keep(to_key: bool, unit: u32, r: Raw) {
	if (to_key) {
		new_key[unit] = r.a;
		if (!KV16) {
			new_key[unit + 1u] = r.b;
		}
	} else {
		new_value[unit] = r.a;
		if (!KV16) {
			new_value[unit + 1u] = r.b;
		}
	}
}

// Fill query, new_key, new_value. All lanes.
fn make(i: u32, row: u32, head: u32, kv_head: u32, position: u32) {
	let dims = p.head_dim / 4u;
	if (NORM) {
		// All subgroups take all turns, the last ones without an item: a subgroup operation wants uniform control flow.
		for (var turn = 0u; turn <= HEADS; turn += WG / SG) {
			let item = turn + i / SG;
			let at = source_of(item, row, head, kv_head);
			var sum = 0.0;
			for (var d = i % SG; d < select(0u, dims, item <= HEADS); d += SG) {
				let x = read_source(item, at + d);
				sum += dot(x, x);
			}
			sum = subgroupAdd(sum);
			if (i % SG == 0u && item <= HEADS) {
				rms[item] = inverseSqrt(sum / f32(p.head_dim) + p.eps);
			}
		}
		workgroupBarrier();
	}
	let octs = dims / 2u;
	for (var e = i; e < (HEADS + 2u) * octs; e += WG) {
		let item = e / octs;
		let d = e % octs * 2u;
		if (item <= HEADS) {
			let at = source_of(item, row, head, kv_head);
			let x = Oct(made(item, at, d, position), made(item, at, d + 1u, position));
			if (item < HEADS) {
				query[item * dims + d] = x.a * p.scale;
				query[item * dims + d + 1u] = x.b * p.scale;
			} else {
				keep(true, kv_units(4u * d), raw_of(x));
			}
		} else {
			let at = (row * p.kv_heads + kv_head) * dims + d;
			keep(false, kv_units(4u * d), raw_of(Oct(v[at], v[at + 1u])));
		}
	}
	workgroupBarrier();
}

// ---- four positions ----

struct Raws {
	r0: Raw,
	r1: Raw,
	r2: Raw,
	r3: Raw,
}

// An oct of each query head, or of its sum.
struct Heads {
	h0: Oct,
	h1: Oct,
	h2: Oct,
	h3: Oct,
}

// Of four positions, each for the query heads.
struct Scores {
	s0: vec4<f32>,
	s1: vec4<f32>,
	s2: vec4<f32>,
	s3: vec4<f32>,
}

fn key_raw(at: u32) -> Raw {
	if (KV16) {
		return Raw(kcache[at], vec4<u32>(0u));
	}
	return Raw(kcache[at], kcache[at + 1u]);
}

fn value_raw(at: u32) -> Raw {
	if (KV16) {
		return Raw(vcache[at], vec4<u32>(0u));
	}
	return Raw(vcache[at], vcache[at + 1u]);
}

// Oct o of the positions that start at these units.
fn load_keys(at: vec4<u32>, o: u32) -> Raws {
	let u = at + vec4<u32>(kv_units(8u * o));
	return Raws(key_raw(u.x), key_raw(u.y), key_raw(u.z), key_raw(u.w));
}

fn load_values(at: vec4<u32>, o: u32) -> Raws {
	let u = at + vec4<u32>(kv_units(8u * o));
	return Raws(value_raw(u.x), value_raw(u.y), value_raw(u.z), value_raw(u.w));
}

fn either(old: Raw, fresh: Raw, is_new: bool) -> Raw {
	return Raw(select(old.a, fresh.a, is_new), select(old.b, fresh.b, is_new));
}

// What is not in the cache yet comes from this row; so does what lies behind it, whose memory may hold anything.
fn with_new(old: Raws, fresh: Raw, is_new: vec4<bool>) -> Raws {
	return Raws(either(old.r0, fresh, is_new.x), either(old.r1, fresh, is_new.y), either(old.r2, fresh, is_new.z),
		either(old.r3, fresh, is_new.w));
}

fn fresh_key(o: u32) -> Raw {
	let u = kv_units(8u * o);
	return Raw(new_key[u], new_key[u + select(1u, 0u, KV16)]);
}

fn fresh_value(o: u32) -> Raw {
	let u = kv_units(8u * o);
	return Raw(new_value[u], new_value[u + select(1u, 0u, KV16)]);
}

fn dot8(a: Oct, b: Oct) -> f32 {
	return dot(a.a, b.a) + dot(a.b, b.b);
}

fn dots(h: Heads, r: Raw) -> vec4<f32> {
	let x = oct_of(r);
	var s = vec4<f32>(dot8(h.h0, x), 0.0, 0.0, 0.0);
	if (HEADS > 1u) {
		s.y = dot8(h.h1, x);
	}
	if (HEADS > 2u) {
		s.z = dot8(h.h2, x);
	}
	if (HEADS > 3u) {
		s.w = dot8(h.h3, x);
	}
	return s;
}

fn score(h: Heads, r: Raws, s: Scores) -> Scores {
	return Scores(s.s0 + dots(h, r.r0), s.s1 + dots(h, r.r1), s.s2 + dots(h, r.r2), s.s3 + dots(h, r.r3));
}

// The sum of a head goes on: what it was worth under the old maximum, and four weighted values.
fn grown(sum: Oct, shrink: f32, w: vec4<f32>, x0: Oct, x1: Oct, x2: Oct, x3: Oct) -> Oct {
	return Oct(sum.a * shrink + ((w.x * x0.a + w.y * x1.a) + (w.z * x2.a + w.w * x3.a)),
		sum.b * shrink + ((w.x * x0.b + w.y * x1.b) + (w.z * x2.b + w.w * x3.b)));
}

fn mix(h: Heads, shrink: vec4<f32>, w: Scores, r: Raws) -> Heads {
	let x0 = oct_of(r.r0);
	let x1 = oct_of(r.r1);
	let x2 = oct_of(r.r2);
	let x3 = oct_of(r.r3);
	var to = h;
	to.h0 = grown(h.h0, shrink.x, vec4<f32>(w.s0.x, w.s1.x, w.s2.x, w.s3.x), x0, x1, x2, x3);
	if (HEADS > 1u) {
		to.h1 = grown(h.h1, shrink.y, vec4<f32>(w.s0.y, w.s1.y, w.s2.y, w.s3.y), x0, x1, x2, x3);
	}
	if (HEADS > 2u) {
		to.h2 = grown(h.h2, shrink.z, vec4<f32>(w.s0.z, w.s1.z, w.s2.z, w.s3.z), x0, x1, x2, x3);
	}
	if (HEADS > 3u) {
		to.h3 = grown(h.h3, shrink.w, vec4<f32>(w.s0.w, w.s1.w, w.s2.w, w.s3.w), x0, x1, x2, x3);
	}
	return to;
}

// The scores of a position over all lanes of the team: lane l of it gets position l % 4.
fn over_team(s: Scores, lane: u32) -> vec4<f32> {
	let high = (lane & 2u) != 0u;
	let a = select(s.s0, s.s2, high) + subgroupShuffleXor(select(s.s2, s.s0, high), 2u);
	let b = select(s.s1, s.s3, high) + subgroupShuffleXor(select(s.s3, s.s1, high), 2u);
	let odd = (lane & 1u) != 0u;
	var sum = select(a, b, odd) + subgroupShuffleXor(select(b, a, odd), 1u);
	for (var o = 4u; o < LANES; o *= 2u) {
		sum += subgroupShuffleXor(sum, o);
	}
	return sum;
}

fn oct_of_query(h: u32, o: u32, live: bool) -> Oct {
	let at = h * (p.head_dim / 4u) + 2u * o;
	return Oct(select(vec4<f32>(0.0), query[at], live), select(vec4<f32>(0.0), query[at + 1u], live));
}

fn queries_at(o: u32, live: bool) -> Heads {
	let none = Oct(vec4<f32>(0.0), vec4<f32>(0.0));
	var h = Heads(oct_of_query(0u, o, live), none, none, none);
	if (HEADS > 1u) {
		h.h1 = oct_of_query(1u, o, live);
	}
	if (HEADS > 2u) {
		h.h2 = oct_of_query(2u, o, live);
	}
	if (HEADS > 3u) {
		h.h3 = oct_of_query(3u, o, live);
	}
	return h;
}

fn nothing() -> Heads {
	let none = Oct(vec4<f32>(0.0), vec4<f32>(0.0));
	return Heads(none, none, none, none);
}

// ---- the teams joined ----

fn scaled(x: Oct, by: f32) -> Oct {
	return Oct(x.a * by, x.b * by);
}

// Sums of two query heads, of octs first_oct + lane of each team, to their parts.
fn join(i: u32, a: Oct, b: Oct, head: u32, two: bool, first_oct: u32, out: u32, stride: u32) {
	let octs = p.head_dim / 8u;
	sums[i] = a.a;
	sums[WG + i] = a.b;
	if (two) {
		sums[2u * WG + i] = b.a;
		sums[3u * WG + i] = b.b;
	}
	workgroupBarrier();
	for (var e = i; e < select(2u, 4u, two) * LANES; e += WG) {
		let c = e / LANES;
		let o = first_oct + e % LANES;
		var sum = sums[c * WG + e % LANES];
		for (var t = 1u; t < WG / LANES; t++) {
			sum += sums[c * WG + t * LANES + e % LANES];
		}
		if (o < octs) {
			part[out + (head + c / 2u) * stride + 2u * o + c % 2u] = sum;
		}
	}
	workgroupBarrier();
}

fn join_heads(i: u32, h: Heads, by: vec4<f32>, first_oct: u32, out: u32, stride: u32) {
	join(i, scaled(h.h0, by.x), scaled(h.h1, by.y), 0u, HEADS > 1u, first_oct, out, stride);
	if (HEADS > 2u) {
		join(i, scaled(h.h2, by.z), scaled(h.h3, by.w), 2u, HEADS > 3u, first_oct, out, stride);
	}
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) i: u32) {
	let place = rows[wg.z];
	let n_keys = min(place.y + 1u, p.ctx); // none in a row that is switched off: its position is the largest number
	let step = span(n_keys);
	let start = wg.y * step;
	if (start >= n_keys) {
		return;
	}
	let end = min(start + step, n_keys);
	let newest = n_keys - 1u;
	let last_old = max(newest, 1u) - 1u;
	let head = wg.x * HEADS;
	let kv_head = head / (p.heads / p.kv_heads);
	let unit = kv_units(p.head_dim);
	let cache = (place.z * p.kv_heads + kv_head) * p.ctx * unit;
	let octs = p.head_dim / 8u;
	let lane = i % LANES;
	let o = min(lane, octs - 1u);
	let first = 4u * (i / LANES) + start;
	let four = vec4<u32>(0u, 1u, 2u, 3u);
	// on their way while the query is made
	var at = vec4<u32>(cache) + min(vec4<u32>(first) + four, vec4<u32>(last_old)) * unit;
	var keys = load_keys(at, o);
	var values = load_values(at, o);
	make(i, wg.z, head, kv_head, place.y);
	if (end == n_keys && place.y < p.ctx && head % (p.heads / p.kv_heads) == 0u) {
		for (var u = i; u < unit; u += WG) {
			kcache[cache + newest * unit + u] = new_key[u];
			vcache[cache + newest * unit + u] = new_value[u];
		}
	}
	let ask = queries_at(o, lane < octs);
	var sum = nothing();
	var more: array<Heads, MOST_OCTS - 1u>; // sums of the octs after the first
	if (OCTS > 1u) {
		for (var j = 1u; j < OCTS; j++) {
			more[j - 1u] = nothing();
		}
	}
	var most = vec4<f32>(LOWEST);
	var total = vec4<f32>(0.0); // of the position of this lane in each four
	for (var tile = 0u; start + tile < end; tile += 4u * (WG / LANES)) {
		let t = vec4<u32>(first + tile) + four;
		let is_new = t >= vec4<u32>(newest);
		let any_new = any(is_new);
		if (any_new) {
			keys = with_new(keys, fresh_key(o), is_new);
			values = with_new(values, fresh_value(o), is_new);
		}
		let none = vec4<f32>(0.0);
		var s = score(ask, keys, Scores(none, none, none, none));
		if (OCTS > 1u) {
			for (var j = 1u; j < OCTS; j++) {
				let oj = min(lane + j * LANES, octs - 1u);
				let other = with_new(load_keys(at, oj), fresh_key(oj), is_new);
				s = score(queries_at(oj, lane + j * LANES < octs), other, s);
			}
		}
		let next = vec4<u32>(cache) + min(t + vec4<u32>(4u * (WG / LANES)), vec4<u32>(last_old)) * unit;
		keys = load_keys(next, o);
		let live = first + tile + lane % 4u < end;
		let mine = select(none + LOWEST, over_team(s, lane), live);
		var now = max(mine, subgroupShuffleXor(mine, 1u));
		now = max(most, max(now, subgroupShuffleXor(now, 2u)));
		let shrink = exp(most - now);
		let e = select(none, exp(mine - now), live);
		most = now;
		total = total * shrink + e;
		let base = i % SG / LANES * LANES;
		let w = Scores(subgroupShuffle(e, base), subgroupShuffle(e, base + 1u), subgroupShuffle(e, base + 2u),
			subgroupShuffle(e, base + 3u));
		sum = mix(sum, shrink, w, values);
		if (OCTS > 1u) {
			for (var j = 1u; j < OCTS; j++) {
				let oj = min(lane + j * LANES, octs - 1u);
				more[j - 1u] = mix(more[j - 1u], shrink, w, with_new(load_values(at, oj), fresh_value(oj), is_new));
			}
		}
		values = load_values(next, o);
		at = next;
	}
	total += subgroupShuffleXor(total, 1u);
	total += subgroupShuffleXor(total, 2u);
	if (lane == 0u) {
		team_most[i / LANES] = most;
		team_total[i / LANES] = total;
	}
	workgroupBarrier();
	var all = most;
	for (var t = 0u; t < WG / LANES; t++) {
		all = max(all, team_most[t]);
	}
	let stride = p.splits * (2u * octs + 1u); // from head to head of the parts
	let out = (wg.z * p.heads + head) * stride + wg.y * (2u * octs + 1u);
	if (i < HEADS) {
		var sum_of_all = 0.0;
		for (var t = 0u; t < WG / LANES; t++) {
			sum_of_all += exp(team_most[t][i] - all[i]) * team_total[t][i];
		}
		part[out + i * stride + 2u * octs] = vec4<f32>(all[i], sum_of_all, 0.0, 0.0);
	}
	let by = exp(most - all);
	join_heads(i, sum, by, 0u, out, stride);
	if (OCTS > 1u) {
		for (var j = 1u; j < OCTS; j++) {
			join_heads(i, more[j - 1u], by, j * LANES, out, stride);
		}
	}
}
