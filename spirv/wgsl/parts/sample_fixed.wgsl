// Numbers of 64 bits as (low, high); the functions of sampler.c that decide.
fn wide(a: u32, b: u32) -> vec2<u32> {
	let low = (a & 0xffffu) * (b & 0xffffu);
	let x = (a & 0xffffu) * (b >> 16u);
	let y = (a >> 16u) * (b & 0xffffu);
	let mid = (low >> 16u) + (x & 0xffffu) + (y & 0xffffu);
	return vec2<u32>((low & 0xffffu) | (mid << 16u), (a >> 16u) * (b >> 16u) + (x >> 16u) + (y >> 16u) + (mid >> 16u));
}

fn plus(a: vec2<u32>, b: u32) -> vec2<u32> {
	let low = a.x + b;
	return vec2<u32>(low, a.y + u32(low < b));
}

fn below(a: vec2<u32>, b: vec2<u32>) -> bool {
	return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// With 31 bits behind the point.
fn times(a: u32, b: u32) -> u32 {
	let product = wide(a, b);
	return (product.y << 1u) | (product.x >> 31u);
}

// 2^-(z / 2^26) for z < 2^31.
fn power(z: u32) -> u32 {
	let fraction = z << 6u;
	let t = wide(fraction & 0x0fffffffu, 0xb17217f8u).y;
	var w = ONE - (t >> 1u) / 5u;
	w = ONE - wide(t, w).y / 4u;
	w = ONE - wide(t, w).y / 3u;
	w = ONE - wide(t, w).y / 2u;
	w = ONE - wide(t, w).y;
	if ((fraction & 0x80000000u) != 0u) {
		w = times(w, 0x5a82799au);
	}
	if ((fraction & 0x40000000u) != 0u) {
		w = times(w, 0x6ba27e65u);
	}
	if ((fraction & 0x20000000u) != 0u) {
		w = times(w, 0x75606374u);
	}
	if ((fraction & 0x10000000u) != 0u) {
		w = times(w, 0x7a92be8bu);
	}
	return w >> (z >> 26u);
}

// What a sum of weights must reach to hold the part top_p of total.
fn part_of(total: vec2<u32>, top_p: u32) -> vec2<u32> {
	return plus(wide(total.y, top_p), wide(total.x, top_p).y);
}

// The high half of a product.
fn high64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
	let x = wide(a.y, b.x);
	let y = wide(a.x, b.y);
	let low = plus(plus(vec2<u32>(wide(a.x, b.x).y, 0u), x.x), y.x);
	return plus(plus(plus(wide(a.y, b.y), x.y), y.y), low.y);
}

// Philox4x32-10: the first two numbers of a place in the sequence of a seed.
fn philox(place: vec2<u32>, seed: vec2<u32>) -> vec2<u32> {
	var c = vec4<u32>(place, 0u, 0u);
	var key = seed;
	for (var round = 0u; round < 10u; round++) {
		let a = wide(0xd2511f53u, c.x);
		let b = wide(0xcd9e8d57u, c.z);
		c = vec4<u32>(b.y ^ c.y ^ key.x, b.x, a.y ^ c.w ^ key.y, a.x);
		key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
	}
	return c.xy;
}
