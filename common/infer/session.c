/* Many sequences side by side: who is there, their prompts, and handing out what was chosen. */
#include "infer/session.h"
#include "infer/backend.h"
#include "infer/sampler.h"

#include <stdlib.h>
#include <string.h>

typedef struct member {
	rp_join j; /* prompt is the session's copy, NULL when it was computed; ends points at own */
	uint32_t own[RP_MAX_EOS];
	uint32_t next, left; /* id to feed; ids still to choose */
	bool leaves;
} member;

struct rp_session {
	rp_engine *e;
	rp_sampler *greedy;
	member *v;
	size_t n, cap;
	rp_segment *segments; /* [cap] */
	rp_step_row *rows;
	uint32_t *ids; /* [cap, RP_SESSION_BLOCK] */
};

rp_code rp_session_new(rp_engine *e, rp_session **out, rp_error *err)
{
	static const rp_sampling best = {.top_p = 1, .repeat_penalty = 1};
	const rp_config *c = &e->graph->config;

	if (e->opts.layer_first != 0 || e->opts.layer_last != c->n_layers)
		return rp_fail(err, RP_INTERNAL, "an engine with a part of the layers cannot generate by itself");
	rp_session *s = rp_alloc(sizeof *s);
	if (!s)
		return rp_no_memory(err, sizeof *s, "the session");
	s->e = e;
	rp_code code = rp_sampler_new(&best, c->vocab, &s->greedy, err);
	if (code) {
		free(s);
		return code;
	}
	*out = s;
	return RP_OK;
}

static void free_member(member *m)
{
	free((void *)(uintptr_t)m->j.prompt);
	m->j.prompt = NULL;
}

static void leave(member *m, bool broken)
{
	m->leaves = true;
	m->j.seq->broken = m->j.seq->broken || broken;
}

void rp_session_free(rp_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free_member(&s->v[i]);
	rp_sampler_free(s->greedy);
	free(s->v);
	free(s->segments);
	free(s->rows);
	free(s->ids);
	free(s);
}

size_t rp_session_size(const rp_session *s)
{
	return s->n;
}

/* ---- joining ---- */
static rp_code check_join(const rp_session *s, const rp_join *j, rp_error *err)
{
	const rp_engine *e = s->e;
	uint32_t room = e->info.ctx - j->seq->len;

	if (j->seq->engine != e || j->seq->broken)
		return rp_fail(err, RP_INTERNAL, "a session needs a sequence of its engine whose last pass was not cut short");
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].j.seq == j->seq)
			return rp_fail(err, RP_INTERNAL, "the sequence is in the session already");
	if (j->n_prompt == 0)
		return rp_fail(err, RP_PROMPT, "the prompt is empty");
	if (j->n == 0 || j->n_ends > RP_MAX_EOS)
		return rp_fail(err, RP_INTERNAL, "%u ids to choose, %u that end: at least one, at most %d", j->n, j->n_ends, RP_MAX_EOS);
	for (size_t i = 0; i < j->n_prompt; i++)
		if (j->prompt[i] >= e->graph->config.vocab)
			return rp_fail(err, RP_PROMPT, "id %u (number %zu) is outside the vocabulary of %u", j->prompt[i], i,
				e->graph->config.vocab);
	if (j->n_prompt - 1 > room || j->n > room - (uint32_t)(j->n_prompt - 1))
		return rp_fail(err, RP_CONTEXT, "%zu ids and %u to choose do not fit: the context holds %u and %u are used", j->n_prompt, j->n,
			e->info.ctx, j->seq->len);
	return RP_OK;
}

static rp_code reserve(rp_session *s, rp_error *err)
{
	if (s->n < s->cap)
		return RP_OK;
	size_t cap = s->cap ? 2 * s->cap : 8;
	member *v = rp_grow_array(s->v, cap, sizeof *v);
	s->v = v ? v : s->v;
	rp_segment *segments = rp_grow_array(s->segments, cap, sizeof *segments);
	s->segments = segments ? segments : s->segments;
	rp_step_row *rows = rp_grow_array(s->rows, cap, sizeof *rows);
	s->rows = rows ? rows : s->rows;
	uint32_t *ids = rp_grow_array(s->ids, cap, RP_SESSION_BLOCK * sizeof *ids);
	s->ids = ids ? ids : s->ids;
	if (!v || !segments || !rows || !ids)
		return rp_no_memory(err, cap * sizeof *v, "the session's sequences");
	s->cap = cap;
	for (size_t i = 0; i < s->n; i++)
		s->v[i].j.ends = s->v[i].own; /* they moved */
	return RP_OK;
}

rp_code rp_session_join(rp_session *s, const rp_join *j, rp_error *err)
{
	rp_code code = check_join(s, j, err);

	if (!code)
		code = reserve(s, err);
	if (code)
		return code;
	uint32_t *prompt = rp_alloc_array(j->n_prompt, sizeof *prompt);
	if (!prompt)
		return rp_no_memory(err, j->n_prompt * sizeof *prompt, "the prompt");
	memcpy(prompt, j->prompt, j->n_prompt * sizeof *prompt);
	member *m = &s->v[s->n++];
	*m = (member){.j = *j, .next = prompt[j->n_prompt - 1], .left = j->n};
	m->j.prompt = prompt;
	m->j.ends = m->own;
	if (j->n_ends)
		memcpy(m->own, j->ends, j->n_ends * sizeof *m->own);
	return RP_OK;
}

/* ---- a step ---- */
static rp_code compute_prompts(rp_session *s, rp_error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		const rp_join *j = &s->v[i].j;
		if (j->prompt && j->n_prompt > 1) /* the last id is fed with the first token */
			s->segments[n++] = (rp_segment){.seq = j->seq, .ids = j->prompt, .n = (uint32_t)(j->n_prompt - 1), .want = RP_WANT_NONE};
	}
	rp_code code = n ? rp_forward(s->e, s->segments, n, NULL, err) : RP_OK;
	for (size_t i = 0; i < s->n; i++)
		free_member(&s->v[i]);
	return code;
}

static bool ends(const member *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->j.n_ends; i++)
		if (m->own[i] == id)
			return true;
	return false;
}

/* Hand out an id; more: others were computed after it. The position it was chosen at is counted by the caller. */
static rp_code serve(member *m, uint32_t id, bool more, rp_error *err)
{
	bool stop = false;
	rp_code code = m->j.on_id(m->j.user, id, &stop, err);

	m->next = id;
	m->left--;
	if (ends(m, id) || m->left == 0)
		leave(m, code != RP_OK);
	else if (stop || code)
		leave(m, more || code != RP_OK);
	return code;
}

/* One token of each by a forward pass, chosen by the host. */
static rp_code by_pass(rp_session *s, rp_error *err)
{
	rp_output out = {0};
	rp_code first = RP_OK;

	for (size_t i = 0; i < s->n; i++)
		s->segments[i] = (rp_segment){.seq = s->v[i].j.seq, .ids = &s->v[i].next, .n = 1, .want = RP_WANT_LAST};
	rp_code code = rp_forward(s->e, s->segments, s->n, &out, err);
	for (size_t i = 0; i < s->n && !code; i++) {
		rp_sampler *sampler = s->v[i].j.sampler ? s->v[i].j.sampler : s->greedy;
		code = rp_sampler_next(sampler, out.logits + i * out.width, &s->ids[i], err);
		if (!code)
			rp_sampler_accept(sampler, s->ids[i]);
	}
	for (size_t i = 0; i < s->n && !code; i++) {
		rp_error own;
		rp_code one = serve(&s->v[i], s->ids[i], false, first ? &own : err);
		first = first ? first : one;
	}
	for (size_t i = 0; i < s->n && code; i++)
		leave(&s->v[i], true);
	return code ? code : first;
}

/* Some tokens of each on the device. */
static rp_code by_steps(rp_session *s, rp_error *err)
{
	uint32_t steps = RP_SESSION_BLOCK;
	rp_code first = RP_OK;

	for (size_t i = 0; i < s->n; i++) {
		const member *m = &s->v[i];
		steps = m->left < steps ? m->left : steps;
		s->rows[i] = (rp_step_row){m->j.seq, m->next, m->own, m->j.n_ends};
	}
	rp_code code = s->e->backend->steps(s->e, s->rows, s->n, steps, s->ids, err);
	for (size_t i = 0; i < s->n; i++) {
		member *m = &s->v[i];
		if (code)
			leave(m, true);
		for (uint32_t k = 0; k < steps && !m->leaves; k++) {
			rp_error own;
			m->j.seq->len++;
			rp_code one = serve(m, s->ids[i * steps + k], k + 1 < steps, first ? &own : err);
			first = first ? first : one;
		}
	}
	return code ? code : first;
}

static bool on_device(const rp_session *s)
{
	if (s->e->backend->steps == NULL || s->e->opts.tap)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].j.sampler)
			return false;
	return s->e->backend->can_steps == NULL || s->e->backend->can_steps(s->e);
}

rp_code rp_session_step(rp_session *s, rp_error *err)
{
	if (s->n == 0)
		return RP_OK;
	rp_code code = compute_prompts(s, err);
	for (size_t i = 0; i < s->n && code; i++)
		leave(&s->v[i], true);
	if (!code)
		code = on_device(s) ? by_steps(s, err) : by_pass(s, err);
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++)
		if (!s->v[i].leaves) {
			s->v[n] = s->v[i];
			s->v[n].j.ends = s->v[n].own;
			n++;
		}
	s->n = n;
	return code;
}
