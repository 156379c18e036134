// One row of x in workgroup memory, for weights that are floats themselves.
var<workgroup> x_run: array<vec4<f32>, 4u * RUNS>;

fn put(j: u32, v: vec4<f32>) {
	if (j < 4u * RUNS) {
		x_run[j] = v;
	}
}

struct XUnit {
	at: u32, // first of eight vectors
}

fn x_unit_at(u: u32) -> XUnit {
	return XUnit(8u * u);
}

struct WUnit {
	v: array<vec4<f32>, 8>,
}

fn w_unit_at(b: bool, base: u32, u: u32, nb: u32) -> WUnit {
	var r: WUnit;
	if (QUANT == F32) {
		for (var i = 0u; i < 8u; i++) {
			r.v[i] = bitcast<vec4<f32>>(fetch(b, base + u * 8u + i));
		}
		return r;
	}
	for (var i = 0u; i < 4u; i++) {
		let v = fetch(b, base + u * 4u + i);
		if (QUANT == F16) {
			r.v[2u * i] = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
			r.v[2u * i + 1u] = vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
		} else {
			r.v[2u * i] = bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
			r.v[2u * i + 1u] = bitcast<vec4<f32>>(vec4<u32>(v.z << 16u, v.z & 0xffff0000u, v.w << 16u, v.w & 0xffff0000u));
		}
	}
	return r;
}

fn dot_unit(w: WUnit, u: u32, x: XUnit) -> f32 {
	let a = (dot(w.v[0], x_run[x.at]) + dot(w.v[1], x_run[x.at + 1u]))
		+ (dot(w.v[2], x_run[x.at + 2u]) + dot(w.v[3], x_run[x.at + 3u]));
	let b = (dot(w.v[4], x_run[x.at + 4u]) + dot(w.v[5], x_run[x.at + 5u]))
		+ (dot(w.v[6], x_run[x.at + 6u]) + dot(w.v[7], x_run[x.at + 7u]));
	return a + b;
}
