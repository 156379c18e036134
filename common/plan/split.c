/* Splits by dynamic programming, in two rounds: the least time the slowest stage can have, then the least sum within it. */
#include "plan/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t rp_split_memory(const rp_split_model *m, uint32_t i, uint32_t n, uint32_t first, uint32_t end)
{
	uint64_t all = (i == 0 ? m->first : 0) + (i + 1 == n ? m->last : 0);
	for (uint32_t l = first; l < end; l++)
		all += m->bytes[l] + m->cache[l];
	return all;
}

double rp_split_time(const rp_split_model *m, double speed, uint32_t i, uint32_t n, uint32_t first, uint32_t end)
{
	uint64_t read = i + 1 == n ? m->last_read : 0;
	for (uint32_t l = first; l < end; l++)
		read += m->bytes[l];
	return (double)read / speed;
}

typedef struct table {
	const rp_split_model *m;
	const rp_split_device *d;
	uint32_t n;
	double *best;   /* [n + 1][layers + 1]: of the first i devices with the first l layers; infinite: impossible */
	uint32_t *from; /* the same shape: layers before device i - 1 in that */
} table;

static size_t cell(const table *t, uint32_t i, uint32_t l)
{
	return (size_t)i * (t->m->layers + 1) + l;
}

/* Time of layers [k, l) on device i; infinite when they do not fit, or take longer than limit. */
static double stage(const table *t, uint32_t i, uint32_t k, uint32_t l, double limit)
{
	if (rp_split_memory(t->m, i, t->n, k, l) > t->d[i].memory)
		return INFINITY;
	double ns = rp_split_time(t->m, t->d[i].speed, i, t->n, k, l);
	return ns <= limit ? ns : INFINITY;
}

/* With sums: the least sum of times; else the least longest one. */
static double fill(table *t, bool sums, double limit)
{
	uint32_t layers = t->m->layers;
	for (size_t c = 0; c <= cell(t, t->n, layers); c++)
		t->best[c] = INFINITY;
	t->best[cell(t, 0, 0)] = 0;
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t l = i + 1; l <= layers - (t->n - 1 - i); l++)
			for (uint32_t k = i; k < l; k++) {
				double before = t->best[cell(t, i, k)], one = isinf(before) ? INFINITY : stage(t, i, k, l, limit);
				double all = sums ? before + one : before > one ? before : one;
				if (all < t->best[cell(t, i + 1, l)]) {
					t->best[cell(t, i + 1, l)] = all;
					t->from[cell(t, i + 1, l)] = k;
				}
			}
	return t->best[cell(t, t->n, layers)];
}

static rp_code none_fits(const table *t, rp_error *err)
{
	uint64_t need = rp_split_memory(t->m, 0, 1, 0, t->m->layers), have = 0;
	for (uint32_t i = 0; i < t->n; i++)
		have += t->d[i].memory < UINT64_MAX - have ? t->d[i].memory : UINT64_MAX - have;
	return rp_fail(err, RP_NO_MEMORY, "no split of %u layers over %u devices fits: all need %.1f MiB, the devices have %.1f MiB together%s",
		t->m->layers, t->n, (double)need / 1048576.0, (double)have / 1048576.0, need <= have ? ", but not where layers can be cut" : "");
}

rp_code rp_split_layers(const rp_split_model *m, const rp_split_device *d, uint32_t n, uint32_t *end, rp_error *err)
{
	table t = { .m = m, .d = d, .n = n };
	if (n == 0 || n > RP_SPLIT_DEVICES || n > m->layers)
		return rp_fail(err, RP_USAGE, "%u layers cannot be split over %u devices, each of which takes at least one (at most %d)", m->layers, n,
			(int)RP_SPLIT_DEVICES);
	size_t cells = cell(&t, n, m->layers) + 1;
	t.best = rp_alloc_array(cells, sizeof *t.best);
	t.from = rp_alloc_array(cells, sizeof *t.from);
	rp_code rc = t.best == NULL || t.from == NULL ? rp_no_memory(err, cells * sizeof *t.best, "a split") : RP_OK;
	if (rc == RP_OK) {
		double longest = fill(&t, false, INFINITY);
		rc = isinf(longest) ? none_fits(&t, err) : RP_OK;
		if (rc == RP_OK)
			fill(&t, true, longest);
	}
	for (uint32_t i = n, l = m->layers; rc == RP_OK && i > 0; i--) {
		end[i - 1] = l;
		l = t.from[cell(&t, i, l)];
	}
	free(t.best);
	free(t.from);
	return rc;
}
