/* Pre-tokenizers. Each step cuts a piece into smaller ones and hands them on at once, so no list of pieces is kept. */
#include "internal.h"

#include <string.h>

typedef struct chain {
	const pre_step *steps;
	size_t n;
	match_state *ms;
	piece_fn *fn;
	void *user;
	rp_error *err;
	const char *origin; /* where the text at the very beginning of the input starts; NULL when it does not */
} chain;

static rp_code run(chain *c, size_t step, rp_str piece);

static rp_code pass(chain *c, size_t step, const char *s, size_t from, size_t to)
{
	return to > from ? run(c, step + 1, (rp_str){ s + from, to - from }) : RP_OK;
}

/* Spans of the text in order, matches and what lies between them, joined as the behaviour asks. A span waits in [from, to)
 * until it is known that nothing joins it. */
typedef struct joiner {
	size_t from, to;
	bool match, any;
} joiner;

static bool joins(split_behavior behavior, const joiner *held, bool match)
{
	switch (behavior) {
	case SPLIT_CONTIGUOUS:
		return held->match == match;
	case SPLIT_WITH_PREVIOUS:
		return match && !held->match;
	case SPLIT_WITH_NEXT:
		return held->match && !match;
	default:
		return false;
	}
}

static rp_code span(chain *c, size_t step, const char *s, joiner *j, size_t from, size_t to, bool match)
{
	const pre_step *p = &c->steps[step];
	rp_code code = RP_OK;
	match = match != p->invert;
	if (from == to || (p->behavior == SPLIT_REMOVED && match))
		return RP_OK;
	if (j->any && joins(p->behavior, j, match)) {
		j->to = to;
	} else {
		if (j->any)
			code = pass(c, step, s, j->from, j->to);
		*j = (joiner){ from, to, match, true };
		return code;
	}
	j->match = match;
	return code;
}

static rp_code split(chain *c, size_t step, rp_str piece)
{
	joiner j = { 0 };
	size_t start, end;
	for (size_t at = 0; at < piece.n; at = end) {
		rp_code code = matcher_next(&c->steps[step].match, c->ms, piece.s, piece.n, at, &start, &end, c->err);
		if (code == RP_OK)
			code = span(c, step, piece.s, &j, at, start, false);
		if (code == RP_OK)
			code = span(c, step, piece.s, &j, start, end, true);
		if (code != RP_OK)
			return code;
	}
	return j.any ? pass(c, step, piece.s, j.from, j.to) : RP_OK;
}

/* A copy of the piece with the prefix put before it. */
static rp_code with_prefix(chain *c, size_t step, rp_str piece, const char *prefix, size_t len)
{
	rp_buf copy;
	rp_buf_init(&copy, MAX_TEXT);
	rp_buf_add(&copy, prefix, len);
	rp_buf_add(&copy, piece.s, piece.n);
	rp_code code = copy.failed ? rp_no_memory(c->err, piece.n, "a piece of text") : RP_OK;
	if (code == RP_OK) {
		bool first = c->origin == piece.s;
		c->origin = first ? copy.data : c->origin;
		code = run(c, step + 1, (rp_str){ copy.data, copy.len });
		c->origin = first ? NULL : c->origin;
	}
	rp_buf_free(&copy);
	return code;
}

static rp_code metaspace(chain *c, size_t step, rp_str piece)
{
	const pre_step *p = &c->steps[step];
	rp_buf copy;
	rp_buf_init(&copy, MAX_TEXT);
	bool spelled = (piece.n >= p->len && memcmp(piece.s, p->text, p->len) == 0) || piece.s[0] == ' ';
	if (!spelled && (p->prepend == META_ALWAYS || (p->prepend == META_FIRST && piece.s == c->origin)))
		rp_buf_add(&copy, p->text, p->len);
	for (size_t i = 0; i < piece.n; i++)
		if (piece.s[i] == ' ')
			rp_buf_add(&copy, p->text, p->len);
		else
			rp_buf_addc(&copy, piece.s[i]);
	rp_code code = copy.failed ? rp_no_memory(c->err, piece.n, "a piece of text") : RP_OK;
	if (code == RP_OK)
		code = p->split ? split(c, step, (rp_str){ copy.data, copy.len }) : pass(c, step, copy.data, 0, copy.len);
	rp_buf_free(&copy);
	return code;
}

static rp_code run(chain *c, size_t step, rp_str piece)
{
	if (step == c->n)
		return c->fn(c->user, piece, c->err);
	const pre_step *p = &c->steps[step];
	switch (p->kind) {
	case PRE_PREFIX:
		return piece.s[0] == p->text[0] ? run(c, step + 1, piece) : with_prefix(c, step, piece, p->text, p->len);
	case PRE_METASPACE:
		return metaspace(c, step, piece);
	default:
		return split(c, step, piece);
	}
}

rp_code pretokenize(const pre_step *steps, size_t n_steps, match_state *ms, rp_str text, bool at_start, piece_fn *fn, void *user,
	rp_error *err)
{
	chain c = { steps, n_steps, ms, fn, user, err, at_start ? text.s : NULL };
	return text.n != 0 ? run(&c, 0, text) : RP_OK;
}
