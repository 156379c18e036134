/* How products of one row are cut: every row has a team, shapes the kernels allow, and what the model is for. */
#include "infer/gpu_cut.h"
#include "infer/gpu_work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WG = 512, SG = 32, GROUPS = 264, CORES = 132 };

static void fits(const rp_wide_product *p, const rp_wide_cut *c)
{
	assert_true(c->lanes >= SG && c->lanes <= 128 && (c->lanes & (c->lanes - 1)) == 0 && c->wg % c->lanes == 0);
	assert_true(c->rows == 1 || c->rows == 2 || (c->rows == 4 && p->matrices == 1));
	assert_true(c->groups > 0 && c->groups <= GROUPS);
	uint64_t a_turn = (uint64_t)c->groups * (c->wg / c->lanes) * c->rows;
	assert_true(a_turn * c->turns >= p->n && a_turn * (c->turns - 1) < p->n);
}

static void any_shape(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 20000; n = n * 3 / 2 + 1)
		for (uint32_t units = 1; units <= 400; units += 13)
			for (uint32_t matrices = 1; matrices <= 2; matrices++) {
				rp_wide_product p = {.n = n, .units = units, .matrices = matrices, .row_bytes = units * 18, .share = n + units % 3 * 1000};
				rp_wide_cut c = rp_wide_cut_model(&p, WG, SG, GROUPS, CORES);
				fits(&p, &c);
				assert_true(rp_wide_cut_ns(&p, &c, SG, CORES) > 0);
			}
}

/* Nothing it could have chosen is predicted to be faster. */
static void the_least(void **state)
{
	static const rp_wide_product shapes[] = {{6144, 64, 2, 1152, 0}, {2048, 192, 1, 3456, 0}, {3584, 32, 2, 576, 0}, {512, 64, 1, 1152, 5120}};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const rp_wide_product *p = &shapes[i];
		rp_wide_cut best = rp_wide_cut_model(p, WG, SG, GROUPS, CORES);
		for (uint32_t lanes = SG; lanes <= 128; lanes *= 2)
			for (uint32_t rows = 1; rows <= 2; rows++) {
				uint32_t all = rp_ceil_div(p->n, WG / lanes * rows), most = p->share > p->n ? GROUPS * p->n / p->share : GROUPS;
				rp_wide_cut c = {WG, lanes, rows, rp_ceil_div(all, most), rp_ceil_div(all, rp_ceil_div(all, most))};
				assert_true(rp_wide_cut_ns(p, &best, SG, CORES) <= rp_wide_cut_ns(p, &c, SG, CORES));
			}
	}
}

/* 192 units on 128 lanes leave half of them idle in the second round; 384 workgroups' worth of rows as 192 with two turns leave half of
 * the cores idle half of the time. */
static void sees_what_is_uneven(void **state)
{
	rp_wide_product down = {.n = 2048, .units = 192, .matrices = 1, .row_bytes = 3456}, up = {6144, 64, 2, 1152, 0};
	rp_wide_cut wide = {WG, 128, 2, 1, 256}, even = {WG, 64, 1, 1, 256}, pairs = {WG, 64, 2, 2, 192}, full = {WG, 64, 2, 2, 264};
	(void)state;
	assert_true(rp_wide_cut_ns(&down, &even, SG, CORES) <= rp_wide_cut_ns(&down, &wide, SG, CORES));
	assert_true(rp_wide_cut_ns(&up, &full, SG, CORES) < rp_wide_cut_ns(&up, &pairs, SG, CORES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_shape),
		cmocka_unit_test(the_least),
		cmocka_unit_test(sees_what_is_uneven),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
