/* How products of one row are cut: lanes that share a row, rows in flight, workgroups.
 *
 * The default was measured on an H200 with the shapes of Qwen 3.5 0.8B. The model says what should matter for other shapes:
 * - a lane with units / lanes units takes whole turns: 192 units (k 6,144) on 128 lanes leave half of them idle in the second turn, 64
 *   lanes none;
 * - the core with most workgroup turns is the last: 384 workgroups' worth of rows (n 6,144, k 2,048, two rows of two matrices) cut into
 *   192 with two turns each give some of 132 cores four turns and others two; 264, of which 120 have a second turn, at most three;
 * - each turn waits for memory once, so many short turns lose what they gain in balance. */
#include "infer/gpu_cut.h"

enum { MOST_LANES = 128, CORES = 132 };

const rp_gpu_tune *rp_gpu_tuned(const rp_gpu *g)
{
	static const rp_gpu_tune none;
	return g->engine->opts.tune != NULL ? g->engine->opts.tune : &none;
}

static uint32_t at_once(uint32_t groups, const rp_wide_product *p)
{
	uint32_t share = p->share > p->n ? p->share : p->n, most = (uint32_t)((uint64_t)groups * p->n / share);
	return most > 0 ? most : 1;
}

/* Workgroups and turns: each workgroup as many turns as the others, or as many workgroups as run at once. */
static void spread(rp_wide_cut *c, const rp_wide_product *p, uint32_t groups, bool uneven)
{
	uint32_t all = rp_ceil_div(p->n, c->wg / c->lanes * c->rows), most = at_once(groups, p);
	c->turns = rp_ceil_div(all, most);
	c->groups = uneven ? (all < most ? all : most) : rp_ceil_div(all, c->turns);
}

/* ---- the model ---- */
/* Turns of the busiest core, when workgroups go to cores in order and the first ones have the turns left over. */
static uint32_t busiest_turns(const rp_wide_product *p, const rp_wide_cut *c, uint32_t cores)
{
	uint32_t all = rp_ceil_div(p->n, c->wg / c->lanes * c->rows), sum = 0;
	uint32_t share = p->share > p->n ? p->share : p->n, own = (uint32_t)((uint64_t)cores * p->n / share);
	own = own > 0 ? own : 1; /* the cores that are this product's */
	for (uint32_t w = 0; w < c->groups; w += own)
		sum += (all - w + c->groups - 1) / c->groups;
	return sum;
}

double rp_wide_cut_ns(const rp_wide_product *p, const rp_wide_cut *c, uint32_t subgroup, uint32_t cores)
{
	/* 45 instructions a unit and row for a subgroup, four subgroups a clock of 1.7 GHz; 34 bytes a ns a core; a load 700 ns; a sum
	 * over lanes 60 ns, over subgroups 150 */
	double rounds = (double)rp_ceil_div(p->units, c->lanes) * c->rows * p->matrices, busiest = (double)busiest_turns(p, c, cores);
	double issue = busiest * rounds * 45.0 / 4 * ((double)c->wg / subgroup) / 1.7;
	uint32_t rows = c->wg / c->lanes * c->rows * p->matrices; /* of the matrices, a turn */
	double bytes = busiest * rows * p->row_bytes / 34.0;
	return (issue > bytes ? issue : bytes) + (double)c->turns * (700 + (c->lanes > subgroup ? 150 : 60));
}

rp_wide_cut rp_wide_cut_model(const rp_wide_product *p, uint32_t wg, uint32_t subgroup, uint32_t groups, uint32_t cores)
{
	rp_wide_cut best = { .wg = 0 };
	double least = 0;
	for (uint32_t lanes = subgroup; lanes <= wg && (lanes == subgroup || lanes <= MOST_LANES); lanes *= 2)
		for (uint32_t rows = p->matrices > 1 ? 2 : 4; rows >= 1; rows /= 2)
			for (int uneven = 0; uneven < 2; uneven++) {
				rp_wide_cut c = { .wg = wg, .lanes = lanes, .rows = rows };
				spread(&c, p, groups, uneven);
				double ns = rp_wide_cut_ns(p, &c, subgroup, cores);
				if (best.wg == 0 || ns < least) {
					best = c;
					least = ns;
				}
			}
	return best;
}

/* ---- as measured ---- */
rp_wide_cut rp_gpu_wide_cut(const rp_gpu *g, const rp_wide_product *p)
{
	const rp_gpu_tune *t = rp_gpu_tuned(g);
	const rp_vk_info *d = g->device;
	uint32_t wg = t->wg != 0 ? t->wg : rp_wide_wg(d->max_workgroup, d->subgroup_size, d->max_subgroups);
	uint32_t groups = t->groups != 0 ? t->groups : RP_WIDE_GROUPS, rows = p->matrices > 1 ? t->glu_rows : t->rows;
	if (t->model)
		return rp_wide_cut_model(p, wg, d->subgroup_size, groups, CORES);
	rp_wide_cut c = { .wg = wg, .lanes = d->subgroup_size, .rows = 2 };
	while (c.lanes < p->units && c.lanes < MOST_LANES)
		c.lanes *= 2;
	if (t->lanes >= d->subgroup_size && t->lanes <= wg)
		c.lanes = t->lanes;
	/* two rows (four measured slower on an H200), unless that leaves parts of the device without work */
	if (p->matrices == 1 && p->n < 2 * (wg / c.lanes) * RP_WIDE_FEW)
		c.rows = 1;
	c.rows = rows != 0 ? rows : c.rows;
	spread(&c, p, groups, t->uneven);
	return c;
}
