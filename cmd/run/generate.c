#include "run.h"

static rp_code on_token(void *user, const rp_token_event *event, rp_error *err)
{
	run_state *r = user;
	rp_code code = run_write_token(r, event, err);
	if (code == RP_OK && r->first_token_ns == 0 && event->id != UINT32_MAX)
		r->first_token_ns = rp_now_ns() - r->start_ns;
	return code;
}

rp_code run_generate(run_state *r, rp_error *err)
{
	const run_opts *o = &r->o;
	rp_generate_opts opts = {
		.sampling = {
			.temperature = (float)o->temp,
			.top_k = (uint32_t)o->top_k,
			.top_p = (float)o->top_p,
			.min_p = (float)o->min_p,
			.repeat_penalty = (float)o->repeat_penalty,
			.repeat_window = (uint32_t)o->repeat_window,
			.seed = o->seed,
		},
		.max_tokens = (uint32_t)o->tokens,
		.ignore_eos = o->ignore_eos,
		.n_logprobs = (uint32_t)o->logprobs,
		.stops = o->stop.v,
		.n_stops = o->stop.n,
		.cancel = rp_cancel(),
	};
	rp_code code = rp_generate(r->engine, r->seq, r->tokenizer, r->ids.v, r->ids.n, &opts, on_token, r, &r->result, err);
	if (code == RP_CANCELLED) {
		r->result.finish = RP_FINISH_CANCELLED;
		r->result.prompt_tokens = (uint32_t)r->ids.n;
		code = RP_OK;
	}
	return code;
}
