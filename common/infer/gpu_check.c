/* Checking kernels: a pass runs dispatch by dispatch, each alone, and what it wrote is read back; then the oracle computes the pass
 * operation by operation. Where a kernel wrote the result of an operation the two are compared, and the oracle goes on with the
 * device's values: every kernel is judged by what it made of its own inputs. */
#include "infer/gpu_watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OWNERS = 4, STEPS = 2 };

typedef struct result { /* of an operation, as a kernel wrote it */
	int layer;
	const rp_op *op;
	float *data;
	size_t n;
	rp_watch_kind *owners[MOST_OWNERS]; /* the kernel, and those before it that only it could read */
	uint32_t n_owners;
} result;

struct rp_gpu_check {
	rp_gpu *g;
	rp_vk_cmd *cmd;
	uint32_t rows, wanted; /* of the pass */
	result *results;
	size_t n;
	rp_watch_kind *unread[MOST_OWNERS]; /* kernels whose results nobody has seen yet */
	uint32_t n_unread;
	uint32_t pairs; /* of values and ids that the arg-max wrote last */
	rp_code code; /* of the comparison */
};

/* ---- what a dispatch wrote ---- */
static void operations(const rp_gpu *g, int layer, const rp_op **ops, uint32_t *n, bool post)
{
	const rp_graph *graph = g->engine->graph;
	*ops = layer >= 0 ? graph->layers[layer].ops : post ? graph->post : graph->pre;
	*n = layer >= 0 ? graph->layers[layer].n_ops : post ? graph->n_post : graph->n_pre;
}

/* Is the label one of the words? */
static bool names(const char *words, const char *label)
{
	size_t n = strlen(label);
	for (const char *at = words; (at = strstr(at, label)) != NULL; at += n)
		if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	return false;
}

static bool slot_of(const rp_gpu *g, const rp_vk_buf *b, unsigned *slot)
{
	for (uint32_t i = 0; i < g->engine->graph->n_slots; i++)
		if (g->slots[i] != NULL && g->slots[i] == b) {
			*slot = i;
			return true;
		}
	*slot = RP_SLOT_X;
	return b == g->gathered;
}

/* The last of the dispatch's operations that leaves its result in the slot; NULL when none does. */
static const rp_op *writer(const rp_work *w, unsigned slot, bool *post)
{
	for (int turn = 0; turn < 2; turn++) {
		const rp_op *ops = NULL, *found = NULL;
		uint32_t n = 0;
		operations(w->g, w->note.layer, &ops, &n, turn == 1);
		for (uint32_t i = 0; i < n; i++)
			if (ops[i].out == slot && names(w->note.ops, ops[i].label))
				found = &ops[i];
		*post = w->note.layer < 0 && turn == 1;
		if (found != NULL)
			return found;
	}
	return NULL;
}

static result *result_of(struct rp_gpu_check *c, int layer, const rp_op *op)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->results[i].layer == layer && c->results[i].op == op)
			return &c->results[i];
	result *grown = rp_grow_array(c->results, c->n + 1, sizeof *grown);
	if (grown == NULL)
		return NULL;
	c->results = grown;
	c->results[c->n] = (result){ .layer = layer, .op = op };
	return &c->results[c->n++];
}

static void own(result *r, rp_watch_kind *k)
{
	for (uint32_t i = 0; i < r->n_owners; i++)
		if (r->owners[i] == k)
			return;
	if (r->n_owners < MOST_OWNERS)
		r->owners[r->n_owners++] = k;
}

static rp_code keep(struct rp_gpu_check *c, const rp_work *w, rp_watch_kind *k, rp_vk_buf *b, unsigned slot, rp_error *err)
{
	bool post = false;
	const rp_op *op = writer(w, slot, &post);
	if (op == NULL)
		return RP_OK;
	result *r = result_of(c, w->note.layer, op);
	size_t n = (size_t)(post ? c->wanted : c->rows) * c->g->engine->graph->slot_width[slot];
	float *data = r != NULL ? rp_grow_array(r->data, n, sizeof *data) : NULL;
	if (data == NULL)
		return rp_no_memory(err, n * sizeof *data, "results of kernels");
	r->data = data;
	r->n = n;
	own(r, k);
	for (uint32_t i = 0; i < c->n_unread; i++)
		own(r, c->unread[i]);
	c->n_unread = 0;
	return rp_vk_read(c->g->vk, b, 0, data, n * sizeof *data, err);
}

/* ---- kernels that choose: right or wrong ---- */
static void judge(rp_watch_kind *k, double nmse, double bound)
{
	k->nmse = isnan(k->nmse) || nmse > k->nmse ? nmse : k->nmse;
	k->bound = bound;
}

static rp_code judge_gather(struct rp_gpu_check *c, rp_watch_kind *k, rp_error *err)
{
	size_t n = c->g->engine->graph->config.hidden;
	float *both = rp_alloc_array(2 * n, sizeof *both);
	if (both == NULL)
		return rp_no_memory(err, 2 * n * sizeof *both, "rows to compare");
	rp_code rc = rp_vk_read(c->g->vk, c->g->slots[RP_SLOT_X], (c->rows - 1) * n * sizeof *both, both, n * sizeof *both, err);
	if (rc == RP_OK)
		rc = rp_vk_read(c->g->vk, c->g->gathered, 0, both + n, n * sizeof *both, err);
	if (rc == RP_OK)
		judge(k, memcmp(both, both + n, n * sizeof *both) == 0 ? 0 : 1, 0);
	free(both);
	return rc;
}

/* Pairs of values and ids: the best of them. */
static rp_code best_pair(const struct rp_gpu_check *c, float *value, uint32_t *id, rp_error *err)
{
	const rp_gpu *g = c->g;
	size_t n = c->pairs;
	float *v = rp_alloc_array(n, sizeof *v);
	uint32_t *ids = rp_alloc_array(n, sizeof *ids);
	rp_code rc = v == NULL || ids == NULL ? rp_no_memory(err, n * sizeof *v, "pairs to compare") : RP_OK;
	if (rc == RP_OK)
		rc = rp_vk_read(g->vk, g->run.values, 0, v, n * sizeof *v, err);
	if (rc == RP_OK)
		rc = rp_vk_read(g->vk, g->run.ids, 0, ids, n * sizeof *ids, err);
	*value = -INFINITY;
	for (size_t i = 0; i < n && rc == RP_OK; i++)
		if (v[i] > *value || (v[i] == *value && ids[i] < *id)) {
			*value = v[i];
			*id = ids[i];
		}
	free(v);
	free(ids);
	return rc;
}

static rp_code judge_slices(struct rp_gpu_check *c, rp_watch_kind *k, rp_error *err)
{
	const rp_graph *graph = c->g->engine->graph;
	uint32_t vocab = graph->config.vocab, id = 0, want = 0;
	float value = 0, *logits = rp_alloc_array(vocab, sizeof *logits);
	if (logits == NULL)
		return rp_no_memory(err, vocab * sizeof *logits, "logits to compare");
	rp_code rc = rp_vk_read(c->g->vk, c->g->slots[graph->logits_slot], 0, logits, vocab * sizeof *logits, err);
	for (uint32_t i = 1; i < vocab && rc == RP_OK; i++)
		want = logits[i] > logits[want] ? i : want;
	if (rc == RP_OK)
		rc = best_pair(c, &value, &id, err);
	if (rc == RP_OK)
		judge(k, id == want && value == logits[want] ? 0 : 1, 0);
	free(logits);
	return rc;
}

static rp_code judge_choice(struct rp_gpu_check *c, rp_watch_kind *k, rp_error *err)
{
	uint32_t ring[RP_RING_HEAD + RP_GPU_RING], id = 0;
	float value = 0;
	rp_code rc = rp_vk_read(c->g->vk, c->g->run.ring, 0, ring, sizeof ring, err);
	if (rc == RP_OK)
		rc = best_pair(c, &value, &id, err);
	if (rc == RP_OK)
		judge(k, ring[RP_RING_HEAD + (ring[0] - 1) % RP_GPU_RING] == id ? 0 : 1, 0);
	return rc;
}

/* The last product with its arg-max: the best value counts as the logit of its id. */
static rp_code keep_best(struct rp_gpu_check *c, rp_watch_kind *k, rp_error *err)
{
	const rp_graph *graph = c->g->engine->graph;
	result *r = result_of(c, -1, &graph->post[graph->n_post - 1]);
	float *data = r != NULL ? rp_grow_array(r->data, 2, sizeof *data) : NULL;
	uint32_t id = 0;
	if (data == NULL)
		return rp_no_memory(err, 2 * sizeof *data, "results of kernels");
	r->data = data;
	r->n = 0; /* no row of logits */
	own(r, k);
	rp_code rc = best_pair(c, &data[0], &id, err);
	data[1] = (float)id;
	return rc;
}

static rp_code keep_all(struct rp_gpu_check *c, const rp_work *w, rp_watch_kind *k, rp_error *err)
{
	const char *name = k->kernel->name;
	size_t before = c->n_unread;
	bool seen = false;
	if (strcmp(name, "gather_rows") == 0)
		return judge_gather(c, k, err);
	if (strncmp(name, "topk", 4) == 0 || strcmp(name, "wide_best") == 0)
		c->pairs = k->grid.x;
	if (strncmp(name, "topk", 4) == 0)
		return judge_slices(c, k, err);
	if (strncmp(name, "choose", 6) == 0)
		return judge_choice(c, k, err);
	if (strcmp(name, "wide_best") == 0)
		return keep_best(c, k, err);
	rp_code rc = RP_OK;
	for (uint32_t i = 0; i < k->kernel->n_bindings && rc == RP_OK; i++) {
		const rp_kernel_binding *kb = &k->kernel->bindings[i];
		unsigned slot = 0;
		bool ours = kb->writable && kb->binding < w->n_binds && slot_of(c->g, w->binds[kb->binding].buf, &slot);
		seen = seen || ours;
		if (ours)
			rc = keep(c, w, k, w->binds[kb->binding].buf, slot, err);
	}
	if (!seen && before < MOST_OWNERS)
		c->unread[c->n_unread++] = k;
	return rc;
}

rp_code rp_gpu_check_work(rp_work *w, rp_vk_pipeline *p, const void *args, size_t n_args, rp_grid grid, rp_error *err)
{
	struct rp_gpu_check *c = w->g->watch->check;
	rp_watch_kind *k = rp_gpu_watch_kind(w, args, n_args, grid, err);
	rp_code rc = k != NULL ? rp_vk_cmd_begin(c->cmd, 0, err) : RP_NO_MEMORY;
	if (rc == RP_OK)
		rc = rp_vk_cmd_dispatch(c->cmd, p, w->binds, w->n_binds, args, n_args, grid.x, grid.y, grid.z, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(c->cmd, err);
	if (rc == RP_OK)
		rc = rp_vk_run(c->g->vk, c->cmd, err);
	return rc == RP_OK ? keep_all(c, w, k, err) : rc;
}

/* ---- the oracle ---- */
/* Rounding of float32 alone, or also of what products and sums over many values are computed with. */
static double bound_of(const rp_watch_kind *k, const rp_op *op)
{
	bool sums = op->kind == RP_OP_MATMUL || op->kind == RP_OP_ATTENTION || op->kind == RP_OP_DELTA;
	return sums || (k->k != 0 && op->kind != RP_OP_EMBED) || names(k->ops, "attention") ? 5e-4 : 1e-7;
}

static double error_of(const result *r, const float *want, size_t n)
{
	double wrong = 0, all = 0;
	if (r->n == 0) { /* the best logit and its id */
		size_t best = 0, id = (size_t)r->data[1];
		for (size_t i = 1; i < n; i++)
			best = want[i] > want[best] ? i : best;
		double gap = (double)want[best] - (double)want[id < n ? id : 0], off = (double)r->data[0] - (double)want[id < n ? id : 0];
		return id < n ? (gap * gap + off * off) / ((double)want[best] * (double)want[best] + 1e-30) : INFINITY;
	}
	for (size_t i = 0; i < n; i++) {
		double d = (double)r->data[i] - (double)want[i];
		wrong += d * d;
		all += (double)want[i] * (double)want[i];
	}
	return isfinite(wrong) ? wrong / (all + 1e-30) : INFINITY;
}

static void compare(void *user, int layer, const char *label, const float *data, size_t rows, size_t width)
{
	struct rp_gpu_check *c = user;
	for (size_t i = 0; i < c->n; i++) {
		result *r = &c->results[i];
		if (r->layer != layer || strcmp(r->op->label, label) != 0)
			continue;
		if (r->n != 0 && r->n != rows * width) {
			c->code = RP_INTERNAL;
			return;
		}
		double nmse = error_of(r, data, rows * width);
		for (uint32_t k = 0; k < r->n_owners; k++)
			judge(r->owners[k], nmse, bound_of(r->owners[k], r->op));
		memcpy((float *)(uintptr_t)data, r->data, r->n * sizeof *data); /* the oracle's own slot: it goes on with the device's values */
	}
}

static void forget(struct rp_gpu_check *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->results[i].data);
	c->n = 0;
	c->n_unread = 0;
}

/* Recordings made before or meanwhile are not to be used: what runs now leaves them empty. */
static void record_anew(rp_gpu *g)
{
	for (int i = 0; i < RP_GPU_RECORDINGS; i++)
		g->body[i].used = g->post[i].used = 0;
	g->run.recorded = false;
}

static rp_code on_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)stop, (void)err;
	*(uint32_t *)user = id;
	return RP_OK;
}

/* One pass on both: the ids as a prompt, or the first of them as a token to decode, which becomes the next one. */
static rp_code one_pass(struct rp_gpu_check *c, rp_seq *const seqs[2], const uint32_t *ids, uint32_t n, uint32_t *next, rp_error *err)
{
	rp_engine *e = seqs[0]->engine, *oracle = seqs[1]->engine;
	rp_segment s = { .seq = seqs[0], .ids = ids, .n = n, .want = RP_WANT_LAST };
	uint32_t fed = ids[0];
	rp_decode_opts d = { .first = fed, .n = 1 };
	forget(c);
	record_anew(c->g);
	c->rows = n;
	c->wanted = 1;
	rp_code rc = next == NULL ? rp_forward(e, &s, 1, NULL, err) : rp_decode(e, seqs[0], &d, on_id, next, err);
	s.seq = seqs[1];
	s.ids = next != NULL ? &fed : ids;
	if (rc == RP_OK)
		rc = rp_forward(oracle, &s, 1, NULL, err);
	if (rc == RP_OK && c->code != RP_OK)
		rc = rp_fail(err, c->code, "the device wrote another number of values than the oracle");
	return rc;
}

static rp_code run(struct rp_gpu_check *c, rp_seq *const seqs[2], const uint32_t *ids, uint32_t n, rp_error *err)
{
	uint32_t token = ids[n - 1];
	rp_code rc = one_pass(c, seqs, ids, n, NULL, err);
	for (int i = 0; i < STEPS && rc == RP_OK; i++)
		rc = one_pass(c, seqs, &(uint32_t){ token }, 1, &token, err);
	return rc;
}

rp_code rp_gpu_check(rp_engine *e, rp_engine *oracle, const uint32_t *ids, uint32_t n, rp_error *err)
{
	struct rp_gpu_check c = { .g = e->state };
	rp_tap_fn *tap = oracle->opts.tap;
	void *user = oracle->opts.tap_user;
	rp_seq *seqs[2] = { NULL, NULL };
	rp_code rc = rp_vk_cmd_new(c.g->vk, "one dispatch", &c.cmd, err);
	if (rc == RP_OK)
		rc = rp_seq_new(e, &seqs[0], err);
	if (rc == RP_OK)
		rc = rp_seq_new(oracle, &seqs[1], err);
	if (rc == RP_OK) {
		c.g->watch->check = &c;
		oracle->opts.tap = compare;
		oracle->opts.tap_user = &c;
		rc = run(&c, seqs, ids, n, err);
		oracle->opts.tap = tap;
		oracle->opts.tap_user = user;
		c.g->watch->check = NULL;
	}
	record_anew(c.g);
	forget(&c);
	free(c.results);
	rp_vk_cmd_free(c.cmd);
	rp_seq_free(seqs[0]);
	rp_seq_free(seqs[1]);
	return rc;
}
