// Index of this lane in a folded grid (README.md).
fn lane_index(wg: vec3<u32>, n_wg: vec3<u32>, i: u32) -> u32 {
	return (wg.y * n_wg.x + wg.x) * WG + i;
}
