#include "options_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool rp_opt_switch(const char *value, bool *out)
{
	static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(value, words[i]) == 0) {
			*out = i % 2 == 1;
			return true;
		}
	}
	return false;
}

static void *field(rp_opt_parse *s, size_t i)
{
	char *base = rp_opt_is_common(s->p, i) ? (char *)&s->common : s->out;
	return base + rp_opt_at(s->p, i)->at;
}

static const char *show(char *out, size_t size, const char *value)
{
	return rp_show(out, size, value, strlen(value));
}

/* Factor of a size suffix; 0 when there is no such suffix. */
static uint64_t size_factor(const char *suffix)
{
	static const struct {
		const char *word;
		uint64_t factor;
	} table[] = {
		{"", 1}, {"B", 1},
		{"K", 1ull << 10}, {"KiB", 1ull << 10}, {"k", 1ull << 10}, {"kB", 1000ull}, {"KB", 1000ull},
		{"M", 1ull << 20}, {"MiB", 1ull << 20}, {"MB", 1000000ull},
		{"G", 1ull << 30}, {"GiB", 1ull << 30}, {"GB", 1000000000ull},
		{"T", 1ull << 40}, {"TiB", 1ull << 40}, {"TB", 1000000000000ull},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (strcmp(suffix, table[i].word) == 0)
			return table[i].factor;
	}
	return 0;
}

static rp_code set_uint(const rp_opt *o, uint64_t *to, const char *value, const char *where, rp_error *err)
{
	char shown[80];
	char *end;
	uint64_t hi = o->hi != 0 ? o->hi : UINT64_MAX;
	bool digits = value[0] >= '0' && value[0] <= '9';
	errno = 0;
	uint64_t n = digits ? strtoull(value, &end, 10) : 0;
	bool huge = digits && errno == ERANGE;
	uint64_t factor = 1;
	if (digits)
		factor = o->kind == RP_OPT_SIZE ? size_factor(end) : *end == '\0';
	bool negative = value[0] == '-' && value[1] >= '0' && value[1] <= '9';
	if (!negative && (!digits || factor == 0))
		return rp_fail(err, RP_USAGE, "%s: '%s' is not a %s", where, show(shown, sizeof shown, value),
			o->kind == RP_OPT_SIZE ? "size (a whole number with K, M, G, T, or kB, MB, GB, TB)" : "whole number");
	if (negative || huge || !rp_mul_u64(n, factor, &n) || n < o->lo || n > hi)
		return rp_fail(err, RP_USAGE, "%s: %s is out of range, %llu to %llu", where, show(shown, sizeof shown, value),
			(unsigned long long)o->lo, (unsigned long long)hi);
	*to = n;
	return RP_OK;
}

static rp_code set_float(const rp_opt *o, double *to, const char *value, const char *where, rp_error *err)
{
	char shown[80];
	char *end;
	double x = strtod(value, &end);
	bool plain = value[0] != '\0' && strspn(value, "0123456789+-.eE") == strlen(value);
	if (!plain || *end != '\0')
		return rp_fail(err, RP_USAGE, "%s: '%s' is not a number", where, show(shown, sizeof shown, value));
	if (!(x >= o->min && x <= o->max))
		return rp_fail(err, RP_USAGE, "%s: %s is out of range, %g to %g", where, show(shown, sizeof shown, value), o->min, o->max);
	*to = x;
	return RP_OK;
}

static rp_code set_choice(const rp_opt *o, int *to, const char *value, const char *where, rp_error *err)
{
	for (int i = 0; o->choices[i] != NULL; i++) {
		if (strcmp(value, o->choices[i]) == 0) {
			*to = i;
			return RP_OK;
		}
	}
	char shown[80];
	rp_buf known;
	rp_buf_init(&known, 500);
	rp_opt_arg_text(o, &known);
	rp_code code = rp_fail(err, RP_USAGE, "%s: '%s' is none of %s", where, show(shown, sizeof shown, value), known.data);
	rp_buf_free(&known);
	return code;
}

/* Lists grow by doubling inside the arena: full at 4, 8, 16... */
static rp_code append(rp_arena *arena, rp_strings *list, const char *value, rp_error *err)
{
	if (list->n == 0 || (list->n >= 4 && (list->n & (list->n - 1)) == 0)) {
		size_t cap = list->n == 0 ? 4 : list->n * 2;
		const char **v = rp_arena_array(arena, cap, sizeof *v);
		if (v == NULL)
			return rp_no_memory(err, cap * sizeof *v, "the values of an option");
		if (list->n > 0)
			memcpy(v, list->v, list->n * sizeof *v);
		list->v = v;
	}
	list->v[list->n++] = value;
	return RP_OK;
}

rp_code rp_opt_set(rp_opt_parse *s, size_t i, const char *value, rp_source from, const char *where, rp_error *err)
{
	const rp_opt *o = rp_opt_at(s->p, i);
	void *to = field(s, i);
	rp_code code = RP_OK;
	bool on = false;
	switch (o->kind) {
	case RP_OPT_FLAG:
		if (rp_opt_switch(value, &on))
			memcpy(to, &on, sizeof on);
		else {
			char shown[80];
			code = rp_fail(err, RP_USAGE, "%s: '%s' is neither on nor off", where, show(shown, sizeof shown, value));
		}
		break;
	case RP_OPT_STRING:
		if (!o->any_bytes && o->complete == RP_COMPLETE_NONE && rp_utf8_valid(value, strlen(value)) != strlen(value))
			code = rp_fail(err, RP_USAGE, "%s: the value is not UTF-8 (from byte %zu)", where, rp_utf8_valid(value, strlen(value)));
		else if (o->repeat)
			code = append(&s->parsed->arena, to, value, err);
		else
			memcpy(to, &value, sizeof value);
		break;
	case RP_OPT_UINT:
	case RP_OPT_SIZE: code = set_uint(o, to, value, where, err); break;
	case RP_OPT_FLOAT: code = set_float(o, to, value, where, err); break;
	case RP_OPT_CHOICE: code = set_choice(o, to, value, where, err); break;
	}
	if (code == RP_OK)
		s->source[i] = (uint8_t)from;
	return code;
}
