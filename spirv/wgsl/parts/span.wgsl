// Positions of each split but the last when there are n in all: a multiple of the tile.
fn span(n: u32) -> u32 {
	return ((n + p.splits - 1u) / p.splits + p.tile - 1u) / p.tile * p.tile;
}
