var<workgroup> parts: array<f32, 4u * WG / SG>;

// Four sums over the LANES lanes of a team at once: afterwards lane l of the team, l < 4, holds sum l. Uniform control flow only.
fn team_sum(i: u32, v: vec4<f32>) -> f32 {
	let high = (i & 2u) != 0u;
	let pair = select(v.xy, v.zw, high) + subgroupShuffleXor(select(v.zw, v.xy, high), 2u);
	let odd = (i & 1u) != 0u;
	var s = select(pair.x, pair.y, odd) + subgroupShuffleXor(select(pair.y, pair.x, odd), 1u);
	for (var o = 4u; o < SG; o *= 2u) {
		s += subgroupShuffleXor(s, o);
	}
	if (LANES > SG) {
		workgroupBarrier(); // earlier readers are done
		if (i % SG < 4u) {
			parts[i / SG * 4u + i % SG] = s;
		}
		workgroupBarrier();
		if (i % LANES < 4u) {
			s = 0.0;
			for (var t = 0u; t < LANES / SG; t++) {
				s += parts[(i / LANES * (LANES / SG) + t) * 4u + i % LANES];
			}
		}
	}
	return s;
}
