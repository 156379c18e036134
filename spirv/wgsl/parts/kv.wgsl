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
