#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
	const char *at, *where;
	uint32_t lo, hi;
	rp_error *err;
} reader;

static rp_code bad(const reader *r, const char *item)
{
	char shown[60];
	rp_show(shown, sizeof shown, item, strcspn(item, ","));
	return rp_fail(r->err, RP_USAGE, "%s: '%s' is no number from %u to %u and no range of them (1-4, 8-64+8, 64-512*2)", r->where, shown,
		r->lo, r->hi);
}

/* Digits, at most hi. */
static bool take(reader *r, uint32_t hi, uint32_t *out)
{
	uint64_t v = 0;
	const char *start = r->at;
	for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
		v = v * 10 + (uint64_t)(*r->at - '0');
		if (v > hi)
			return false;
	}
	*out = (uint32_t)v;
	return r->at != start;
}

static rp_code push(const reader *r, rp_counts *out, uint32_t v)
{
	if (out->n == RP_MAX_COUNTS)
		return rp_fail(r->err, RP_USAGE, "%s: more than %d numbers", r->where, RP_MAX_COUNTS);
	out->v[out->n++] = v;
	return RP_OK;
}

/* The part after "first-": "last", "last+step", "last*factor". */
static rp_code take_range(reader *r, const char *item, uint32_t first, rp_counts *out)
{
	uint32_t last = 0, step = 1;
	bool times = false;
	if (!take(r, r->hi, &last) || last < first)
		return bad(r, item);
	if (*r->at == '+' || *r->at == '*') {
		times = *r->at++ == '*';
		if (!take(r, UINT32_MAX, &step) || step == 0 || (times && (step == 1 || first == 0)))
			return bad(r, item);
	}
	rp_code code = RP_OK;
	for (uint64_t v = first; v <= last && code == RP_OK; v = times ? v * step : v + step)
		code = push(r, out, (uint32_t)v);
	return code;
}

static rp_code take_all(reader *r, rp_counts *out)
{
	for (;;) {
		const char *item = r->at;
		uint32_t first = 0;
		rp_code code;
		if (!take(r, r->hi, &first) || first < r->lo)
			return bad(r, item);
		if (*r->at == '-') {
			r->at++;
			code = take_range(r, item, first, out);
		} else {
			code = push(r, out, first);
		}
		if (code != RP_OK)
			return code;
		if (*r->at == '\0')
			return RP_OK;
		if (*r->at++ != ',')
			return bad(r, item);
	}
}

rp_code rp_counts_parse(const char *text, uint32_t lo, uint32_t hi, const char *where, rp_counts *out, rp_error *err)
{
	reader r = {.at = text, .where = where, .lo = lo, .hi = hi, .err = err};
	rp_counts made = {.v = rp_alloc_array(RP_MAX_COUNTS, sizeof *made.v)};
	if (made.v == NULL)
		return rp_no_memory(err, RP_MAX_COUNTS * sizeof *made.v, where);
	rp_code code = take_all(&r, &made);
	if (code != RP_OK)
		free(made.v);
	else
		*out = made;
	return code;
}
