/* session: many sequences of an engine generating side by side (continuous batching). A sequence joins with a prompt, at any time; the
 * next step computes the prompts of all that joined, as one ragged batch, and then some tokens of every sequence, reading the weights
 * once for all of them. A sequence that ends leaves room for others. What it answers does not depend on who else is there, up to
 * rounding. Driven by the engine's one thread. */
#ifndef RP_SESSION_H
#define RP_SESSION_H

#include "infer/infer.h"

typedef struct rp_session rp_session;

typedef struct rp_join {
	rp_seq *seq;            /* of the engine; the session's until it leaves. Positions it has already stay before the prompt */
	const uint32_t *prompt; /* n_prompt ids, at least one, each < vocab; copied */
	size_t n_prompt;
	uint32_t n;             /* most ids to choose, at least one; the context must hold n_prompt + n - 1 positions more */
	const uint32_t *ends;   /* ids after which nothing follows, at most RP_MAX_EOS; copied */
	uint32_t n_ends;
	rp_sampler *sampler;    /* its next ids, which it accepts; NULL: the largest logit, ties to the lower id. The caller's */
	rp_id_fn *on_id;        /* sees each id chosen, in order, within a step; sets *stop to leave after it */
	void *user;
} rp_join;

rp_code rp_session_new(rp_engine *e, rp_session **out, rp_error *err); /* of an engine with all layers */
void rp_session_free(rp_session *s);                                   /* sequences still in it must be reset before they are used */

/* RP_PROMPT, RP_CONTEXT: nothing has changed. */
rp_code rp_session_join(rp_session *s, const rp_join *j, rp_error *err);
/* How many sequences are in it. */
size_t rp_session_size(const rp_session *s);

/* Prompts of those that joined, then at least one id for each sequence and at most RP_SESSION_BLOCK. One leaves when it has chosen an id
 * of `ends` or n ids, when on_id sets *stop (its sequence must then be reset: others may have been computed ahead of it) or fails; the
 * first failure of an on_id is handed back when all have been served. Any other error: all have left and must be reset. */
enum { RP_SESSION_BLOCK = 8 };
rp_code rp_session_step(rp_session *s, rp_error *err);

#endif
