// Every statement that moves control, nested.
@group(0) @binding(0) var<storage, read_write> out: array<i32>;

fn find(n: i32) -> i32 {
	switch n {
		case 0, 1: { return 5; }
		case 2 { if n > 1 { break; } return 6; }
		default: { return 7; }
		case -3, (4 + 1): { return 8; }
	}
	loop {
		if n > 2 { return 1; }
		return 2;
	}
}

fn only_default(n: u32) -> u32 {
	var r = n;
	switch (n) { default { r *= 2u; } }
	switch n { case 3, default, 4u: { r++; } }
	return r;
}

@compute @workgroup_size(1)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
	var n = i32(gid.x);
	var total = 0;
	loop {
		let step = n + 1;
		if step % 2 == 0 { continue; }
		switch step {
			case 3: { total += 10; continue; }
			case 5: { switch total { case 1: { continue; } default: { total--; } } }
			default: {}
		}
		total += step;
		if total > 100 { break; }
		continuing {
			n += step;
			let limit = 40;
			break if n > limit || step > 30;
		}
	}
	for (var i = 0; i < 4; i++) { let i = i * 2; if i == 4 { continue; } total += i; }
	for (; n > 0;) { n -= 3; while n > 10 { n /= 2; if n == 11 { break; } } }
	for (var k = 0u; ; k += 1u) { if k > 3 { break; } }
	if (total > 3) { total = 3; } else if total < 0 { total = 0; } else { total |= 8; }
	{ let total = 4; n += total; }
	for (const c = 3; total < c; total += c) {}
	var v = vec3<i32>(total, n, find(n));
	v[n & 1] <<= 2u;
	v.y ^= 5; v.z %= 3; v *= 2;
	out[0] = v.x + v.y + v.z;
	out[1] = i32(only_default(3)) + select(1, 2, v.x > 3 && (v.y < 2 || (v.z == 1) == (v.x != 2)));
}
