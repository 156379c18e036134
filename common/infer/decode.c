/* Decode: checks, and the form for backends and options that have none of their own. */
#include "infer/backend.h"
#include "infer/sampler.h"

static rp_code check(const rp_engine *e, const rp_seq *seq, const rp_decode_opts *o, rp_error *err)
{
	const rp_config *c = &e->graph->config;

	if (e->opts.layer_first != 0 || e->opts.layer_last != c->n_layers)
		return rp_fail(err, RP_INTERNAL, "an engine with a part of the layers cannot generate by itself");
	if (seq->engine != e || seq->broken)
		return rp_fail(err, RP_INTERNAL, "decode needs a sequence of this engine whose last pass was not cut short");
	if (o->first >= c->vocab)
		return rp_fail(err, RP_PROMPT, "id %u is outside the vocabulary of %u", o->first, c->vocab);
	if (o->n > e->info.ctx - seq->len)
		return rp_fail(err, RP_CONTEXT, "%u more positions do not fit: the context holds %u and %u are used", o->n, e->info.ctx,
			seq->len);
	return o->n_ends > RP_MAX_EOS ? rp_fail(err, RP_INTERNAL, "%u ids end a sequence, at most %d can", o->n_ends, RP_MAX_EOS) : RP_OK;
}

static bool ends(const rp_decode_opts *o, uint32_t id)
{
	for (uint32_t i = 0; i < o->n_ends; i++)
		if (o->ends[i] == id)
			return true;
	return false;
}

static rp_code by_passes(rp_engine *e, rp_seq *seq, const rp_decode_opts *o, rp_id_fn *on_id, void *user, rp_error *err)
{
	static const rp_sampling best = {.top_p = 1, .repeat_penalty = 1};
	rp_sampler *greedy = NULL, *sampler = o->sampler;
	uint32_t id = o->first;
	bool stop = false;
	rp_code code = sampler == NULL ? rp_sampler_new(&best, e->graph->config.vocab, &greedy, err) : RP_OK;

	sampler = sampler == NULL ? greedy : sampler;
	for (uint32_t i = 0; i < o->n && !stop && !code; i++) {
		rp_segment s = {.seq = seq, .ids = &id, .n = 1, .want = RP_WANT_LAST};
		rp_output out = {0};
		code = rp_forward(e, &s, 1, &out, err);
		if (!code)
			code = rp_sampler_next(sampler, out.logits, &id, err);
		if (!code) {
			rp_sampler_accept(sampler, id);
			code = on_id(user, id, &stop, err);
		}
		stop = stop || ends(o, id);
	}
	rp_sampler_free(greedy);
	return code;
}

bool rp_decode_on_device(const rp_engine *e, const rp_sampler *sampler)
{
	return e->backend->decode != NULL && e->opts.tap == NULL && (sampler == NULL || rp_sampler_on_device(sampler));
}

rp_code rp_decode(rp_engine *e, rp_seq *seq, const rp_decode_opts *o, rp_id_fn *on_id, void *user, rp_error *err)
{
	uint32_t fed = 0;
	rp_code code = check(e, seq, o, err);

	if (code || o->n == 0)
		return code;
	if (!rp_decode_on_device(e, o->sampler))
		return by_passes(e, seq, o, on_id, user, err);
	code = e->backend->decode(seq, o, on_id, user, &fed, err);
	seq->len += fed;
	seq->broken = seq->broken || code != RP_OK;
	return code;
}
