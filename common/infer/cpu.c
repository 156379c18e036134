/* The CPU engine, and the oracle: the graph computed operation by operation with the functions of ops.h, in float32 throughout;
 * matrix products by dots.h, which gives the same bits. Threads share the columns of matrix products and the heads of attention
 * and delta rule; results depend neither on their number nor on the processor. */
#include "infer/cpu_weights.h"
#include "infer/dots.h"
#include "infer/ops.h"
#include "infer/pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CHUNK = 128, SMALL_WORK = 1 << 16, DOTS_TURN = 16 };

typedef struct cpu_state {
	rp_pool *pool;
	rp_cpu_weights weights;
	float **slots; /* [n_slots], each [chunk, width]; the logits slot has no memory of its own */
	float *scratch;
	size_t scratch_stride; /* floats a thread */
} cpu_state;

/* What one layer of one sequence remembers. Attention: a, b = keys, values [ctx, kv_heads * head_dim]. Delta rule: a =
 * convolution inputs [kernel - 1, width], b = state [v_heads, k_dim, v_dim]. */
typedef struct layer_cache {
	float *a, *b;
} layer_cache;

/* ---- sizes ---- */

static void cache_sizes(const rp_config *c, rp_layer_kind kind, uint32_t ctx, size_t *a, size_t *b)
{
	if (kind == RP_LAYER_FULL) {
		*a = *b = (size_t)ctx * c->n_kv_heads * c->head_dim;
	} else {
		*a = (size_t)(c->conv_kernel - 1) * (2 * (size_t)c->lin_k_heads * c->lin_k_dim + (size_t)c->lin_v_heads * c->lin_v_dim);
		*b = (size_t)c->lin_v_heads * c->lin_k_dim * c->lin_v_dim;
	}
}

static uint64_t seq_bytes(const rp_engine *e)
{
	uint64_t bytes = 0;
	size_t a, b;

	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++) {
		cache_sizes(&e->graph->config, e->graph->layers[l].kind, e->info.ctx, &a, &b);
		if (!rp_add_u64(bytes, (a + b) * sizeof(float), &bytes))
			return UINT64_MAX; /* no machine has it */
	}
	return bytes;
}

/* Scratch of one thread: attention scores, the delta rule's vectors, or decoded rows of weights. */
static size_t scratch_floats(const rp_engine *e)
{
	const rp_config *c = &e->graph->config;
	size_t most = e->info.ctx, delta = 2 * (size_t)c->lin_k_dim + c->lin_v_dim;

	most = delta > most ? delta : most;
	for (uint32_t s = 0; s < e->graph->n_slots; s++)
		if (s != e->graph->logits_slot && (size_t)RP_DOTS_ROWS * e->graph->slot_width[s] > most)
			most = (size_t)RP_DOTS_ROWS * e->graph->slot_width[s];
	return most;
}

/* ---- open and close ---- */

static void close_state(rp_engine *e)
{
	cpu_state *s = e->state;

	if (!s)
		return;
	for (uint32_t i = 0; s->slots && i < e->graph->n_slots; i++)
		free(s->slots[i]);
	free(s->slots);
	free(s->scratch);
	rp_cpu_weights_free(&s->weights);
	rp_pool_free(s->pool);
	free(s);
	e->state = NULL;
}

static rp_code make_slots(rp_engine *e, cpu_state *s, rp_error *err)
{
	const rp_graph *g = e->graph;

	s->slots = rp_alloc_array(g->n_slots, sizeof *s->slots);
	s->scratch_stride = scratch_floats(e);
	s->scratch = rp_alloc_array(rp_pool_threads(s->pool), s->scratch_stride * sizeof *s->scratch);
	if (!s->slots || !s->scratch)
		return rp_no_memory(err, s->scratch_stride * sizeof *s->scratch, "the oracle's scratch");
	for (uint32_t i = 0; i < g->n_slots; i++) {
		if (i == g->logits_slot)
			continue;
		s->slots[i] = rp_alloc_array(e->chunk, g->slot_width[i] * sizeof(float));
		if (!s->slots[i])
			return rp_no_memory(err, (uint64_t)e->chunk * g->slot_width[i] * sizeof(float), "activations");
	}
	return RP_OK;
}

static rp_code cpu_open(rp_engine *e, rp_error *err)
{
	if (e->opts.kv == RP_CACHE_F16)
		return rp_fail(err, RP_UNSUPPORTED, "the cpu keeps keys and values in f32: use --kv f32, or a device that is a GPU");
	cpu_state *s = rp_alloc(sizeof *s);

	if (!s)
		return rp_no_memory(err, sizeof *s, "the oracle");
	e->state = s;
	e->chunk = e->opts.chunk ? e->opts.chunk : DEFAULT_CHUNK;
	rp_code code = rp_pool_new(e->opts.threads, &s->pool, err);
	if (!code)
		code = make_slots(e, s, err);
	e->info.seq_bytes = seq_bytes(e);
	if (!code)
		code = rp_cpu_weights_load(e, e->info.seq_bytes, &s->weights, err);
	if (code) {
		close_state(e);
		return code;
	}
	e->info.weight_bytes = s->weights.bytes;
	snprintf(e->info.device, sizeof e->info.device, "CPU, %u thread%s, float32", rp_pool_threads(s->pool),
		rp_pool_threads(s->pool) == 1 ? "" : "s");
	return RP_OK;
}

/* ---- sequences ---- */

static void cpu_seq_free(rp_seq *seq)
{
	const rp_engine *e = seq->engine;
	layer_cache *caches = seq->state;

	for (uint32_t l = 0; caches && l < e->opts.layer_last - e->opts.layer_first; l++) {
		free(caches[l].a);
		free(caches[l].b);
	}
	free(caches);
	seq->state = NULL;
}

static rp_code cpu_seq_new(rp_seq *seq, rp_error *err)
{
	const rp_engine *e = seq->engine;
	uint32_t n = e->opts.layer_last - e->opts.layer_first;
	layer_cache *caches = rp_alloc_array(n, sizeof *caches);
	bool ok = caches != NULL;

	seq->state = caches;
	for (uint32_t l = 0; ok && l < n; l++) {
		size_t a, b;
		cache_sizes(&e->graph->config, e->graph->layers[e->opts.layer_first + l].kind, e->info.ctx, &a, &b);
		caches[l].a = rp_alloc_array(a, sizeof(float));
		caches[l].b = rp_alloc_array(b, sizeof(float));
		ok = caches[l].a && caches[l].b;
	}
	if (!ok) {
		cpu_seq_free(seq);
		return rp_no_memory(err, e->info.seq_bytes, "the caches of a sequence");
	}
	return RP_OK;
}

static rp_code cpu_seq_reset(rp_seq *seq, rp_error *err)
{
	const rp_engine *e = seq->engine;
	layer_cache *caches = seq->state;

	(void)err;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++) {
		layer_cache *c = &caches[l - e->opts.layer_first];
		size_t a, b;
		if (e->graph->layers[l].kind != RP_LAYER_LINEAR)
			continue;
		cache_sizes(&e->graph->config, RP_LAYER_LINEAR, e->info.ctx, &a, &b);
		memset(c->a, 0, a * sizeof(float));
		memset(c->b, 0, b * sizeof(float));
	}
	return RP_OK;
}

/* ---- one pass ---- */

/* What an operation works on. rows: of the whole pass, or of the rows that want logits after the last layer. */
typedef struct step {
	rp_engine *e;
	cpu_state *s;
	const rp_pass *pass;
	const rp_op *op;
	uint32_t layer, rows;
	/* of the part at hand, for operations that look at segments */
	const rp_part *part;
	size_t row0;
} step;

static float *slot(const step *st, unsigned index)
{
	return st->s->slots[index];
}

static size_t width(const step *st, unsigned index)
{
	return st->e->graph->slot_width[index];
}

/* Slot rows of the part at hand. */
static float *part_rows(const step *st, unsigned index)
{
	return slot(st, index) + st->row0 * width(st, index);
}

static const float *weights(const step *st, int i)
{
	const rp_cpu_weight *w = rp_cpu_weight_find(&st->s->weights, st->op->w[i]);
	return w ? w->f32 : NULL;
}

static layer_cache *cache(const step *st)
{
	return (layer_cache *)st->part->seq->state + (st->layer - st->e->opts.layer_first);
}

static float *scratch(const step *st, uint32_t worker)
{
	return st->s->scratch + worker * st->s->scratch_stride;
}

/* Columns [n, n + n_w) of rows [r, r + n_x), from sums [n_x, RP_DOTS_ROWS]. */
static void store_sums(const step *st, size_t n, size_t n_w, size_t r, size_t n_x, const float *sums)
{
	const float *residual = st->op->n_in > 1 ? slot(st, st->op->in[1]) : NULL;
	float *out = slot(st, st->op->out);

	for (size_t i = 0; i < n_x; i++)
		for (size_t j = 0; j < n_w; j++) {
			size_t at = (r + i) * width(st, st->op->out) + n + j;
			float sum = sums[i * RP_DOTS_ROWS + j];
			out[at] = residual ? residual[at] + sum : sum;
		}
}

static void matmul_columns(void *user, size_t first, size_t last, uint32_t worker)
{
	const step *st = user;
	const rp_cpu_weight *w = rp_cpu_weight_find(&st->s->weights, st->op->w[0]);
	const float *in = slot(st, st->op->in[0]);
	size_t n_in = width(st, st->op->in[0]);
	rp_dots_fn *dots = rp_dots_best();
	float sums[RP_DOTS_ROWS * DOTS_TURN];

	for (size_t n = first; n < last; n += RP_DOTS_ROWS) {
		size_t n_w = last - n < RP_DOTS_ROWS ? last - n : RP_DOTS_ROWS;
		const float *rows = rp_cpu_weight_rows(w, n, n_w, scratch(st, worker));
		for (size_t r = 0; r < st->rows; r += DOTS_TURN) {
			size_t n_x = st->rows - r < DOTS_TURN ? st->rows - r : DOTS_TURN;
			dots(sums, RP_DOTS_ROWS, rows, n_w, in + r * n_in, n_in, n_x, n_in);
			store_sums(st, n, n_w, r, n_x, sums);
		}
	}
}

static void do_matmul(step *st)
{
	size_t n_out = width(st, st->op->out), work = n_out * width(st, st->op->in[0]) * st->rows;

	if (work < SMALL_WORK)
		matmul_columns(st, 0, n_out, 0);
	else
		rp_pool_run(st->s->pool, matmul_columns, st, n_out);
}

static void do_embed(step *st)
{
	const rp_cpu_weight *w = rp_cpu_weight_find(&st->s->weights, st->op->w[0]);

	for (uint32_t r = 0; r < st->part->n; r++) {
		float *out = part_rows(st, st->op->out) + r * w->width;
		const float *row = rp_cpu_weight_rows(w, st->part->ids[r], 1, out);
		if (row != out)
			memcpy(out, row, w->width * sizeof *out);
	}
}

static void attention_heads(void *user, size_t first, size_t last, uint32_t worker)
{
	const step *st = user;
	const rp_op *op = st->op;
	const layer_cache *c = cache(st);
	size_t kv_width = (size_t)op->kv_heads * op->head_dim;

	for (size_t h = first; h < last; h++) {
		size_t at = h * op->head_dim, kv = h / (op->heads / op->kv_heads) * op->head_dim;
		rp_ref_attention_head(part_rows(st, op->out) + at, part_rows(st, op->in[0]) + at, width(st, op->out), c->a + kv,
			c->b + kv, kv_width, st->part->n, op->head_dim, st->part->pos, op->scale, scratch(st, worker));
	}
}

static void do_attention(step *st)
{
	const rp_op *op = st->op;
	const layer_cache *c = cache(st);
	size_t kv_width = (size_t)op->kv_heads * op->head_dim, at = st->part->pos * kv_width;

	memcpy(c->a + at, part_rows(st, op->in[1]), st->part->n * kv_width * sizeof(float));
	memcpy(c->b + at, part_rows(st, op->in[2]), st->part->n * kv_width * sizeof(float));
	rp_pool_run(st->s->pool, attention_heads, st, op->heads);
}

static void delta_heads(void *user, size_t first, size_t last, uint32_t worker)
{
	const step *st = user;
	const rp_op *op = st->op;
	rp_delta_shape shape = {op->heads, op->kv_heads, op->head_dim, op->group, op->head_mod, op->neg_exp, op->eps};

	for (size_t h = first; h < last; h++)
		rp_ref_delta_head(part_rows(st, op->out), part_rows(st, op->in[0]), part_rows(st, op->in[1]), part_rows(st, op->in[2]),
			weights(st, 0), weights(st, 1), cache(st)->b + h * op->head_dim * op->group, st->part->n, &shape, (uint32_t)h,
			scratch(st, worker));
}

/* Operations that look at segments: once for every part. */
static void do_part(step *st)
{
	const rp_op *op = st->op;
	float *out = part_rows(st, op->out);
	const float *in = part_rows(st, op->in[0]);

	switch (op->kind) {
	case RP_OP_EMBED:
		do_embed(st);
		break;
	case RP_OP_ROPE:
		rp_ref_rope(out, in, st->part->n, op->heads, op->head_dim, op->rotary_dim, op->freqs, op->interleaved, st->part->pos);
		break;
	case RP_OP_ATTENTION:
		do_attention(st);
		break;
	case RP_OP_CONV:
		rp_ref_conv(out, in, weights(st, 0), cache(st)->a, st->part->n, width(st, op->out), op->kernel);
		break;
	default: /* RP_OP_DELTA */
		rp_pool_run(st->s->pool, delta_heads, st, op->heads);
		break;
	}
}

static void do_parts(step *st)
{
	st->row0 = 0;
	for (size_t i = 0; i < st->pass->n_parts; i++) {
		st->part = &st->pass->parts[i];
		do_part(st);
		st->row0 += st->part->n;
	}
}

static void do_op(step *st)
{
	const rp_op *op = st->op;
	float *out = slot(st, op->out);
	const float *in = slot(st, op->in[0]);
	size_t n = st->rows * width(st, op->out);

	switch (op->kind) {
	case RP_OP_NORM:
		rp_ref_norm(out, in, weights(st, 0), st->rows, width(st, op->out), op->group, op->eps, op->plus_one);
		break;
	case RP_OP_GATED_NORM:
		rp_ref_gated_norm(out, in, slot(st, op->in[1]), weights(st, 0), st->rows, width(st, op->out), op->group, op->eps);
		break;
	case RP_OP_MATMUL:
		do_matmul(st);
		break;
	case RP_OP_SPLIT_HEADS:
		rp_ref_split_heads(out, slot(st, op->out1), in, st->rows, op->heads, op->head_dim);
		break;
	case RP_OP_SIGMOID_MUL:
		rp_ref_sigmoid_mul(out, in, slot(st, op->in[1]), n);
		break;
	case RP_OP_SILU_MUL:
		rp_ref_silu_mul(out, in, slot(st, op->in[1]), n);
		break;
	case RP_OP_ADD:
		rp_ref_add(out, in, slot(st, op->in[1]), n);
		break;
	default:
		do_parts(st);
		break;
	}
}

static void run_ops(step *st, const rp_op *ops, uint32_t n, int layer)
{
	const rp_engine_opts *o = &st->e->opts;

	for (uint32_t i = 0; i < n; i++) {
		st->op = &ops[i];
		do_op(st);
		if (o->tap)
			o->tap(o->tap_user, layer, st->op->label, slot(st, st->op->out), st->rows, width(st, st->op->out));
	}
}

static void take_rows(step *st)
{
	size_t hidden = st->e->graph->config.hidden, at = 0;

	for (size_t i = 0; i < st->pass->n_parts; at += st->pass->parts[i].n, i++)
		memcpy(slot(st, RP_SLOT_X) + at * hidden, st->pass->parts[i].rows, st->pass->parts[i].n * hidden * sizeof(float));
}

/* Move the wanted rows of the residual stream, in order, to `to` (which may be the slot itself). */
static void pack_rows(step *st, float *to)
{
	size_t hidden = st->e->graph->config.hidden, at = 0;

	for (size_t i = 0; i < st->pass->n_parts; at += st->pass->parts[i].n, i++) {
		const rp_part *p = &st->pass->parts[i];
		size_t n = (p->n - p->want_first) * hidden;
		memmove(to, slot(st, RP_SLOT_X) + (at + p->want_first) * hidden, n * sizeof *to);
		to += n;
	}
}

static rp_code cpu_forward(rp_engine *e, const rp_pass *pass, rp_error *err)
{
	const rp_graph *g = e->graph;
	step st = {.e = e, .s = e->state, .pass = pass, .rows = pass->n_rows};

	if (e->opts.layer_first == 0)
		run_ops(&st, g->pre, g->n_pre, -1);
	else
		take_rows(&st);
	for (st.layer = e->opts.layer_first; st.layer < e->opts.layer_last; st.layer++) {
		if (rp_engine_cancelled(e))
			return rp_fail(err, RP_CANCELLED, "stopped");
		run_ops(&st, g->layers[st.layer].ops, g->layers[st.layer].n_ops, (int)st.layer);
	}
	if (pass->n_want == 0)
		return RP_OK;
	if (e->opts.layer_last < g->n_layers) {
		pack_rows(&st, pass->out);
		return RP_OK;
	}
	pack_rows(&st, slot(&st, RP_SLOT_X));
	st.rows = pass->n_want;
	st.s->slots[g->logits_slot] = pass->out;
	run_ops(&st, g->post, g->n_post, -1);
	st.s->slots[g->logits_slot] = NULL;
	return RP_OK;
}

const rp_backend rp_backend_cpu = {
	.name = "cpu",
	.open = cpu_open,
	.close = close_state,
	.seq_new = cpu_seq_new,
	.seq_free = cpu_seq_free,
	.seq_reset = cpu_seq_reset,
	.forward = cpu_forward,
};
