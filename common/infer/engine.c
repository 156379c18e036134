/* The engine every backend shares: choosing a backend, checking batches, cutting them into passes. */
#include "infer/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vulkan first: without a device named, real hardware is preferred. */
static const rp_backend *const backends[] = {&rp_backend_vulkan, &rp_backend_cpu};
enum { N_BACKENDS = sizeof backends / sizeof *backends, DEFAULT_CTX = 4096, MAX_CHUNK = 1 << 16 };

static bool is_cpu(const rp_backend *b)
{
	return b == &rp_backend_cpu;
}

static bool all_digits(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0';
}

static rp_code resolve(rp_engine *e, const rp_engine_opts *o, rp_error *err)
{
	const rp_config *c = &e->graph->config;

	e->opts = *o;
	if (o->layer_first == 0 && o->layer_last == 0)
		e->opts.layer_last = c->n_layers;
	if (e->opts.layer_first >= e->opts.layer_last || e->opts.layer_last > c->n_layers)
		return rp_fail(err, RP_USAGE, "layers %u to %u are no range of the model's %u layers", o->layer_first, o->layer_last,
			c->n_layers);
	e->info.ctx = o->ctx ? o->ctx : c->max_ctx < DEFAULT_CTX ? c->max_ctx : DEFAULT_CTX;
	if (e->info.ctx > c->max_ctx)
		return rp_fail(err, RP_CONTEXT, "a context of %u positions was asked for; the model was made for %u", o->ctx, c->max_ctx);
	if (o->chunk > MAX_CHUNK)
		return rp_fail(err, RP_USAGE, "a chunk of %u rows was asked for; at most %d are computed at once", o->chunk, MAX_CHUNK);
	e->out_width = e->opts.layer_last == c->n_layers ? c->vocab : c->hidden;
	return RP_OK;
}

/* Whether the CPU may take over when no device was named: what is wrong lies with the device, and not with the model, the
 * options or this program. */
static bool may_go_on(const rp_engine_opts *o, rp_code code)
{
	if (o->device)
		return false;
	return code == RP_NO_DEVICE || code == RP_DRIVER || code == RP_DEVICE_LOST || code == RP_NO_MEMORY ||
		(code == RP_UNSUPPORTED && !o->variant && !o->validate);
}

/* Open the backend the device's name asks for. NULL tries each; one that cannot leaves the turn to the next. */
static rp_code open_backend(rp_engine *e, rp_error *err)
{
	const char *device = e->opts.device;
	bool cpu = device && strcmp(device, "cpu") == 0;
	const rp_engine_info info = e->info;
	rp_error first = {0}, now = {0};

	if (e->opts.paper) {
		e->backend = &rp_backend_vulkan;
		e->info.backend = e->backend->name;
		return e->backend->open(e, err);
	}
	if (device && !cpu && strcmp(device, "gpu") != 0 && !all_digits(device))
		return rp_fail(err, RP_USAGE, "\"%s\" is no device; it is cpu, gpu or the number of one", device);
	for (size_t i = 0; i < N_BACKENDS; i++) {
		if (device && cpu != is_cpu(backends[i]))
			continue;
		e->backend = backends[i];
		e->info = info;
		e->info.backend = backends[i]->name;
		rp_code code = backends[i]->open(e, &now);
		if (code == RP_OK) {
			snprintf(e->info.instead, sizeof e->info.instead, "%.*s", (int)sizeof e->info.instead - 1, first.msg);
			return RP_OK;
		}
		if (is_cpu(backends[i]) || !may_go_on(&e->opts, code))
			break;
		if (code != RP_NO_DEVICE)
			first = now;
	}
	return first.msg[0] ? rp_fail(err, now.code, "%.450s (and before that, on the GPU: %.450s)", now.msg, first.msg) :
		rp_fail(err, now.code, "%s", now.msg);
}

rp_code rp_engine_open(const rp_graph *g, const rp_engine_opts *opts, rp_engine **out, rp_error *err)
{
	static const rp_engine_opts none;
	rp_engine *e = rp_alloc(sizeof *e);
	rp_code code;

	if (!e)
		return rp_no_memory(err, sizeof *e, "the engine");
	e->graph = g;
	code = resolve(e, opts ? opts : &none, err);
	if (!code)
		code = open_backend(e, err);
	if (!code && e->opts.profile && !e->backend->profile) {
		code = rp_fail(err, RP_UNSUPPORTED, "a profile is of a Vulkan device's kernels; here the %s engine computes", e->backend->name);
		e->backend->close(e);
	}
	if (code)
		free(e);
	else
		*out = e;
	return code;
}

void rp_engine_close(rp_engine *e)
{
	if (!e)
		return;
	e->backend->close(e);
	free(e->out);
	free(e);
}

const rp_engine_info *rp_engine_describe(const rp_engine *e)
{
	return &e->info;
}

rp_code rp_engine_profile(const rp_engine *e, rp_profile *out, rp_error *err)
{
	if (!e->opts.profile || !e->backend->profile)
		return rp_fail(err, RP_INTERNAL, "this engine was not opened for a profile");
	return e->backend->profile(e, out, err);
}

void rp_engine_profile_forget(rp_engine *e)
{
	if (e->opts.profile && e->backend->profile_forget)
		e->backend->profile_forget(e);
}

rp_code rp_engine_check(rp_engine *e, rp_engine *oracle, const uint32_t *ids, uint32_t n, rp_error *err)
{
	if (!e->opts.profile || !e->backend->check || oracle->graph != e->graph || oracle->backend != &rp_backend_cpu)
		return rp_fail(err, RP_INTERNAL, "kernels are checked on an engine opened for a profile, against the cpu engine of its graph");
	uint32_t most = e->chunk < oracle->chunk ? e->chunk : oracle->chunk;
	if (n == 0)
		return rp_fail(err, RP_INTERNAL, "no ids to check kernels with");
	return e->backend->check(e, oracle, ids, n < most ? n : most, err);
}

void rp_engine_count(const rp_engine *e, rp_engine_stats *out)
{
	*out = (rp_engine_stats){0};
	if (e->backend->count)
		e->backend->count(e, out);
}

/* ---- sequences ---- */

rp_code rp_seq_new(rp_engine *e, rp_seq **out, rp_error *err)
{
	rp_seq *s = rp_alloc(sizeof *s);

	if (!s)
		return rp_no_memory(err, sizeof *s, "a sequence");
	s->engine = e;
	rp_code code = e->backend->seq_new(s, err);
	if (code) {
		free(s);
		return code;
	}
	e->n_seqs++;
	*out = s;
	return RP_OK;
}

void rp_seq_free(rp_seq *s)
{
	if (!s)
		return;
	s->engine->backend->seq_free(s);
	s->engine->n_seqs--;
	free(s);
}

uint32_t rp_seq_len(const rp_seq *s)
{
	return s->len;
}

void rp_seq_reset(rp_seq *s)
{
	s->len = 0;
	s->broken = s->engine->backend->seq_reset(s, NULL) != RP_OK;
}

/* ---- a batch ---- */

static uint32_t wanted(const rp_segment *s)
{
	return s->want == RP_WANT_ALL ? s->n : s->want == RP_WANT_LAST;
}

static rp_code check_segment(rp_engine *e, const rp_segment *s, size_t index, rp_error *err)
{
	bool takes_ids = e->opts.layer_first == 0;
	const rp_config *c = &e->graph->config;

	if (!s->seq || s->seq->engine != e || s->n == 0 || (takes_ids ? !s->ids : !s->rows))
		return rp_fail(err, RP_INTERNAL, "segment %zu of the batch has no sequence of this engine, no tokens, or no %s", index,
			takes_ids ? "ids" : "rows");
	if (s->seq->broken)
		return rp_fail(err, RP_INTERNAL, "segment %zu continues a sequence whose last pass was cut short; reset it first", index);
	if (s->n > e->info.ctx - s->seq->len)
		return rp_fail(err, RP_CONTEXT, "%u more positions do not fit: the context holds %u and %u are used", s->n, e->info.ctx,
			s->seq->len);
	for (uint32_t i = 0; takes_ids && i < s->n; i++)
		if (s->ids[i] >= c->vocab)
			return rp_fail(err, RP_PROMPT, "id %u (number %u) is outside the vocabulary of %u", s->ids[i], i, c->vocab);
	return RP_OK;
}

static rp_code check_batch(rp_engine *e, const rp_segment *segments, size_t n, size_t *n_rows, rp_error *err)
{
	size_t rows = 0;

	if (n == 0)
		return rp_fail(err, RP_INTERNAL, "a batch without segments");
	for (size_t i = 0; i < n; i++) {
		rp_code code = check_segment(e, &segments[i], i, err);
		if (code)
			return code;
		segments[i].seq->mark = 0;
		rows += wanted(&segments[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (segments[i].seq->mark++ > 0)
			return rp_fail(err, RP_INTERNAL, "segment %zu of the batch names a sequence a second time", i);
	*n_rows = rows;
	return RP_OK;
}

static rp_code reserve_output(rp_engine *e, size_t rows, rp_error *err)
{
	uint64_t values;

	if (!rp_mul_u64(rows, e->out_width, &values) || values > SIZE_MAX / sizeof(float) / 2)
		return rp_no_memory(err, UINT64_MAX, "the output rows");
	if (values <= e->out_cap)
		return RP_OK;
	float *grown = rp_grow_array(NULL, (size_t)values, sizeof *grown);
	if (!grown)
		return rp_no_memory(err, values * sizeof *grown, "the output rows");
	free(e->out);
	e->out = grown;
	e->out_cap = (size_t)values;
	return RP_OK;
}

/* Where the cutting of a batch stands: segment and token in it. */
typedef struct cursor {
	size_t segment;
	uint32_t token;
} cursor;

/* The next at most `limit` rows as parts of segments; the cursor moves behind them. */
static rp_pass next_pass(const rp_engine *e, const rp_segment *segments, size_t n, cursor *at, uint32_t limit, rp_part *parts)
{
	rp_pass pass = {.parts = parts};
	size_t hidden = e->graph->config.hidden;

	while (at->segment < n && pass.n_rows < limit) {
		const rp_segment *s = &segments[at->segment];
		uint32_t left = s->n - at->token, room = limit - pass.n_rows, take = left < room ? left : room;
		uint32_t silent = s->n - wanted(s); /* rows at the front that nobody wants */
		rp_part *p = &parts[pass.n_parts++];

		*p = (rp_part){.seq = s->seq, .n = take, .pos = s->seq->len + at->token};
		if (e->opts.layer_first == 0)
			p->ids = s->ids + at->token;
		else
			p->rows = s->rows + at->token * hidden;
		p->want_first = silent <= at->token ? 0 : silent - at->token < take ? silent - at->token : take;
		pass.n_rows += take;
		pass.n_want += take - p->want_first;
		at->token += take;
		if (at->token == s->n)
			*at = (cursor){at->segment + 1, 0};
	}
	return pass;
}

static rp_code run_passes(rp_engine *e, const rp_segment *segments, size_t n, rp_part *parts, rp_error *err)
{
	cursor at = {0};
	size_t done = 0;

	while (at.segment < n) {
		if (rp_engine_cancelled(e))
			return rp_fail(err, RP_CANCELLED, "stopped");
		rp_pass pass = next_pass(e, segments, n, &at, e->chunk, parts);
		if (pass.n_want > 0)
			pass.out = e->out + done * e->out_width;
		rp_code code = e->backend->forward(e, &pass, err);
		if (code)
			return code;
		done += pass.n_want;
	}
	return RP_OK;
}

rp_code rp_forward(rp_engine *e, const rp_segment *segments, size_t n, rp_output *out, rp_error *err)
{
	size_t n_rows = 0;
	rp_code code = check_batch(e, segments, n, &n_rows, err);

	if (!code)
		code = reserve_output(e, n_rows, err);
	if (code)
		return code;
	rp_part *parts = rp_alloc_array(n, sizeof *parts);
	if (!parts)
		return rp_no_memory(err, n * sizeof *parts, "the parts of a batch");
	code = run_passes(e, segments, n, parts, err);
	free(parts);
	for (size_t i = 0; i < n; i++) {
		segments[i].seq->broken = code != RP_OK;
		segments[i].seq->len += code ? 0 : segments[i].n;
	}
	if (!code && out)
		*out = (rp_output){.logits = e->out, .n_rows = n_rows, .width = e->out_width};
	return code;
}
