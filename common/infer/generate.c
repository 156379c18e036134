/* One prompt, one answer. */
#include "infer/backend.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_TEXT = 1 << 20 }; /* bytes one id may release: far above any token plus what a stop string holds back */

typedef struct generation {
	rp_engine *engine;
	rp_seq *seq;
	const rp_generate_opts *opts;
	const rp_config *config;
	rp_sampler *sampler;
	rp_decoder *decoder; /* NULL without a tokenizer */
	rp_buf text;
	rp_logprob *top;
	uint32_t n_top;
	rp_token_fn *on_token;
	void *user;
	rp_generate_result result;
	uint64_t start_ns;
} generation;

static bool cancelled(const generation *g)
{
	return (g->opts->cancel && atomic_load_explicit(g->opts->cancel, memory_order_relaxed)) || rp_engine_cancelled(g->engine);
}

static rp_code check(const generation *g, const rp_tokenizer *t, size_t n, rp_error *err)
{
	uint32_t ctx = g->engine->info.ctx, used = rp_seq_len(g->seq);
	const rp_engine_opts *o = &g->engine->opts;

	if (o->layer_first != 0 || o->layer_last != g->config->n_layers)
		return rp_fail(err, RP_INTERNAL, "an engine with a part of the layers cannot generate by itself");
	if (g->opts->n_stops > 0 && !t)
		return rp_fail(err, RP_USAGE, "stop strings need a tokenizer, and this model carries none");
	if (n == 0)
		return rp_fail(err, RP_PROMPT, "the prompt is empty: there is nothing to continue");
	if (n > ctx - used)
		return rp_fail(err, RP_CONTEXT, "the prompt has %zu tokens and the context holds %u%s; shorten it or ask for a larger context",
			n, ctx - used, used ? " more" : "");
	return RP_OK;
}

static rp_code prepare(generation *g, const rp_tokenizer *t, rp_error *err)
{
	rp_code code = rp_sampler_new(&g->opts->sampling, g->config->vocab, &g->sampler, err);

	if (!code && t)
		code = rp_decoder_new(t, g->opts->stops, g->opts->n_stops, &g->decoder, err);
	if (code)
		return code;
	g->n_top = g->opts->n_logprobs < g->config->vocab ? g->opts->n_logprobs : g->config->vocab;
	g->top = rp_alloc_array(g->n_top, sizeof *g->top);
	return g->top ? RP_OK : rp_no_memory(err, g->n_top * sizeof *g->top, "log probabilities");
}

/* The prompt, a chunk at a time so that a person who gives up is heard. logits: of its last token; NULL when cancelled. */
static rp_code prefill(generation *g, const uint32_t *ids, size_t n, const float **logits, rp_error *err)
{
	rp_output out = {0};

	*logits = NULL;
	for (size_t at = 0; at < n;) {
		size_t take = n - at < g->engine->chunk ? n - at : g->engine->chunk;
		rp_segment s = {.seq = g->seq, .ids = ids + at, .n = (uint32_t)take, .want = at + take == n ? RP_WANT_LAST : RP_WANT_NONE};

		if (cancelled(g))
			return RP_OK;
		rp_code code = rp_forward(g->engine, &s, 1, &out, err);
		if (code)
			return code;
		at += take;
	}
	for (size_t i = 0; i < n; i++)
		rp_sampler_accept(g->sampler, ids[i]);
	g->result.prompt_tokens = (uint32_t)n;
	*logits = out.logits;
	return RP_OK;
}

static bool ends_text(const generation *g, uint32_t id)
{
	for (uint32_t i = 0; i < g->config->n_eos && !g->opts->ignore_eos; i++)
		if (g->config->eos[i] == id)
			return true;
	return false;
}

/* Tell the caller about one sampled id. */
static rp_code report(generation *g, uint32_t id, const float *logits, bool *stopped, rp_error *err)
{
	rp_token_event event = {.id = id, .logprob = NAN};
	rp_code code = RP_OK;

	if (g->n_top > 0) {
		code = rp_top_logprobs(logits, g->config->vocab, g->n_top, g->top, err);
		event.logprob = rp_logprob_of(logits, g->config->vocab, id);
		event.top = g->top;
		event.n_top = g->n_top;
	}
	if (!code && g->decoder) {
		rp_buf_clear(&g->text);
		code = rp_decoder_push(g->decoder, id, false, &g->text, stopped, err);
		event.text = g->text.len ? g->text.data : "";
		event.text_len = g->text.len;
	}
	return code ? code : g->on_token(g->user, &event, err);
}

/* Text held back for a stop string that never came. */
static rp_code flush(generation *g, rp_error *err)
{
	if (!g->decoder)
		return RP_OK;
	rp_buf_clear(&g->text);
	rp_code code = rp_decoder_flush(g->decoder, &g->text, err);
	rp_token_event event = {.id = UINT32_MAX, .text = g->text.data, .text_len = g->text.len, .logprob = NAN};
	return code || g->text.len == 0 ? code : g->on_token(g->user, &event, err);
}

/* One id: sample, report, decide whether it was the last. */
static rp_code step(generation *g, const float *logits, uint32_t *id, bool *done, bool *by_string, rp_error *err)
{
	rp_code code = rp_sampler_next(g->sampler, logits, id, err);

	if (code)
		return code;
	rp_sampler_accept(g->sampler, *id);
	if (g->result.tokens++ == 0)
		g->result.first_ns = rp_now_ns() - g->start_ns;
	code = report(g, *id, logits, by_string, err);
	bool stop = *by_string || ends_text(g, *id);
	g->result.finish = stop ? RP_FINISH_STOP : RP_FINISH_LENGTH;
	*done = stop || g->result.tokens == g->opts->max_tokens || rp_seq_len(g->seq) == g->engine->info.ctx;
	return code;
}

/* ---- the rest of an answer, without logits on the host ---- */
static bool is_greedy(const generation *g)
{
	const rp_sampling *s = &g->opts->sampling;

	return s->temperature <= 0 && (s->repeat_penalty == 1.0f || s->repeat_window == 0);
}

typedef struct rest {
	generation *g;
	bool *by_string;
} rest;

static rp_code on_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	rest *s = user;
	generation *g = s->g;

	if (cancelled(g)) {
		g->result.finish = RP_FINISH_CANCELLED;
		*stop = true;
		return RP_OK;
	}
	g->result.tokens++;
	rp_code code = report(g, id, NULL, s->by_string, err);
	*stop = *s->by_string;
	g->result.finish = *stop || ends_text(g, id) ? RP_FINISH_STOP : RP_FINISH_LENGTH;
	return code;
}

static bool on_device(const generation *g)
{
	return g->n_top == 0 && rp_decode_on_device(g->engine, is_greedy(g) ? NULL : g->sampler);
}

static rp_code finish_on_device(generation *g, uint32_t first, bool *by_string, rp_error *err)
{
	uint32_t room = g->engine->info.ctx - rp_seq_len(g->seq), most = g->opts->max_tokens - g->result.tokens;
	rp_decode_opts o = {.first = first, .n = g->opts->max_tokens == 0 || most > room ? room : most, .ends = g->config->eos,
		.n_ends = g->opts->ignore_eos ? 0 : g->config->n_eos, .careful = g->opts->n_stops > 0,
		.sampler = is_greedy(g) ? NULL : g->sampler};
	rest s = {g, by_string};

	return rp_decode(g->engine, g->seq, &o, on_id, &s, err);
}

static rp_code run(generation *g, const uint32_t *prompt, size_t n, rp_error *err)
{
	const float *logits;
	bool done = false, by_string = false;
	uint32_t id;
	rp_output out = {0};
	rp_code code = prefill(g, prompt, n, &logits, err);

	g->result.prompt_ns = rp_now_ns() - g->start_ns;
	while (!code && !done) {
		if (!logits || cancelled(g)) {
			g->result.finish = RP_FINISH_CANCELLED;
			break;
		}
		code = step(g, logits, &id, &done, &by_string, err);
		if (code || done)
			break;
		if (on_device(g)) {
			code = finish_on_device(g, id, &by_string, err);
			break;
		}
		rp_segment s = {.seq = g->seq, .ids = &id, .n = 1, .want = RP_WANT_LAST};
		code = rp_forward(g->engine, &s, 1, &out, err);
		logits = out.logits;
	}
	if (code == RP_CANCELLED && cancelled(g)) { /* noticed inside a forward pass */
		g->result.finish = RP_FINISH_CANCELLED;
		code = RP_OK;
	}
	if (g->result.tokens > 0)
		g->result.decode_ns = rp_now_ns() - g->start_ns - g->result.first_ns;
	return code || by_string ? code : flush(g, err);
}

rp_code rp_generate(rp_engine *e, rp_seq *seq, const rp_tokenizer *t, const uint32_t *prompt, size_t n,
	const rp_generate_opts *opts, rp_token_fn *on_token, void *user, rp_generate_result *out, rp_error *err)
{
	generation g = {.engine = e, .seq = seq, .opts = opts, .config = &e->graph->config, .on_token = on_token, .user = user,
		.start_ns = rp_now_ns()};
	rp_code code = check(&g, t, n, err);

	rp_buf_init(&g.text, MAX_TEXT);
	if (!code)
		code = prepare(&g, t, err);
	if (!code)
		code = run(&g, prompt, n, err);
	rp_sampler_free(g.sampler);
	rp_decoder_free(g.decoder);
	rp_buf_free(&g.text);
	free(g.top);
	if (!code)
		*out = g.result;
	return code;
}
