/* Greedy decode without the host: the recording of one token ends by choosing the next id and moving the batch on, so that it can
 * be submitted many times at once. The host reads the ids a block of tokens behind. */
#include "infer/gpu_work.h"

#include <string.h>

enum { BLOCK = 8 }; /* tokens a submission: what is computed for nothing when somebody stops, against 50 us a submission */

static uint32_t slices(const rp_gpu *g)
{
	return rp_ceil_div(g->engine->graph->config.vocab, RP_ARGMAX_SLICE);
}

rp_code rp_gpu_run_init(rp_gpu *g, rp_error *err)
{
	rp_gpu_run *r = &g->run;
	uint64_t pairs = (slices(g) > RP_WIDE_BEST ? slices(g) : RP_WIDE_BEST) * sizeof(uint32_t);
	uint64_t ring = (RP_RING_HEAD + RP_GPU_RING) * sizeof(uint32_t);
	rp_code rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, g->segs_at + sizeof(rp_batch_segment), "batch of greedy decode", &r->batch, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "best logits", &r->values, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "ids of the best logits", &r->ids, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, ring, "ids chosen", &r->ring, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_new(g->vk, "a token", &r->step, err);
	for (int i = 0; i < 2 && rc == RP_OK; i++) {
		rc = rp_vk_buf_new(g->vk, RP_VK_READBACK, ring, "ids for the host", &r->out[i], err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_new(g->vk, "ids for the host", &r->tail[i], err);
	}
	return rc;
}

void rp_gpu_run_free(rp_gpu *g)
{
	rp_gpu_run *r = &g->run;
	rp_vk_cmd_free(r->step);
	for (int i = 0; i < 2; i++) {
		rp_vk_cmd_free(r->tail[i]);
		rp_vk_buf_free(r->out[i]);
	}
	rp_vk_buf_free(r->batch);
	rp_vk_buf_free(r->values);
	rp_vk_buf_free(r->ids);
	rp_vk_buf_free(r->ring);
}

/* ---- recording ---- */
static rp_code record_slices(rp_gpu *g, rp_vk_cmd *c, rp_error *err)
{
	const rp_graph *graph = g->engine->graph;
	rp_args_topk a = { .n = graph->config.vocab, .n_rows = 1, .k = 1, .slice = RP_ARGMAX_SLICE };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "topk", err);
	if (rc != RP_OK)
		return rc;
	rp_work_bind(&w, g->slots[graph->logits_slot]);
	rp_work_bind(&w, g->slots[graph->logits_slot]);
	rp_work_bind(&w, g->run.values);
	rp_work_bind(&w, g->run.ids);
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ slices(g), 1, 1 }, err);
}

static rp_code record_choice(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, uint32_t pairs, rp_error *err)
{
	rp_args_choose a = { .n = pairs, .ring_steps = RP_GPU_RING };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "choose", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "WG", g->cpu ? 64 : 256);
	rp_work_bind(&w, g->run.values);
	rp_work_bind(&w, g->run.ids);
	rp_work_bind_rows(&w, s);
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, g->run.ring);
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ 1, 1, 1 }, err);
}

static rp_code record_step(rp_gpu *g, rp_vk_cmd *c, rp_error *err)
{
	rp_gpu_shape s = { 1, 1, g->slots[RP_SLOT_X], g->run.batch };
	rp_code rc = rp_vk_cmd_begin(c, RP_VK_REPLAY, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_input(g, c, &s, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_layers(g, c, &s, err);
	uint32_t pairs = 0;
	if (rc == RP_OK)
		rc = rp_gpu_record_best(g, c, &s, &pairs, err);
	if (rc == RP_OK && pairs == 0) {
		rc = rp_gpu_record_logits(g, c, &s, err);
		if (rc == RP_OK)
			rc = record_slices(g, c, err);
		pairs = slices(g);
	}
	if (rc == RP_OK)
		rc = record_choice(g, c, &s, pairs, err);
	return rc == RP_OK ? rp_vk_cmd_end(c, err) : rc;
}

rp_code rp_gpu_run_record(rp_gpu *g, rp_error *err)
{
	rp_gpu_run *r = &g->run;
	r->recorded = false;
	rp_code rc = record_step(g, r->step, err);
	for (int i = 0; i < 2 && rc == RP_OK; i++) {
		rc = rp_vk_cmd_begin(r->tail[i], RP_VK_REPLAY, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_copy(r->tail[i], r->ring, 0, r->out[i], 0, rp_vk_buf_size(r->ring), err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_end(r->tail[i], err);
	}
	r->recorded = rc == RP_OK;
	return rc;
}

/* ---- running ---- */
typedef struct greedy {
	rp_gpu *g;
	const rp_greedy *o;
	rp_id_fn *on_id;
	void *user;
	uint32_t submitted, seen; /* steps */
	uint64_t tickets[2];      /* of the block that used out[i] last */
	uint32_t ends_at[2];      /* steps submitted with it and before */
	bool stopped, ended; /* ended: by an id after which the device computes nothing more */
} greedy;

static rp_code start(greedy *d, const rp_seq *seq, rp_error *err)
{
	rp_gpu *g = d->g;
	uint32_t slot = *(const uint32_t *)seq->state, head[RP_RING_HEAD] = { 0, d->o->n_ends };
	rp_batch_row row = { d->o->first, seq->len, slot, 0 };
	rp_batch_segment seg = { 0, 1, seq->len, slot };
	if (d->o->n_ends != 0)
		memcpy(head + 2, d->o->ends, d->o->n_ends * sizeof *head);
	rp_code rc = rp_vk_wait(g->vk, g->ticket, err);
	if (rc == RP_OK && !g->run.recorded)
		rc = rp_gpu_run_record(g, err);
	if (rc == RP_OK)
		rc = rp_vk_write(g->vk, g->run.batch, 0, &row, sizeof row, err);
	if (rc == RP_OK)
		rc = rp_vk_write(g->vk, g->run.batch, g->segs_at, &seg, sizeof seg, err);
	return rc == RP_OK ? rp_vk_write(g->vk, g->run.ring, 0, head, sizeof head, err) : rc;
}

static rp_code submit_block(greedy *d, int turn, uint32_t most, rp_error *err)
{
	rp_gpu *g = d->g;
	rp_vk_cmd *cmds[BLOCK + 1];
	uint32_t left = d->o->n - d->submitted, n = left < most ? left : most;
	for (uint32_t i = 0; i < n; i++)
		cmds[i] = g->run.step;
	cmds[n] = g->run.tail[turn];
	d->submitted += n;
	d->ends_at[turn] = d->submitted;
	rp_code rc = rp_vk_submit(g->vk, cmds, n + 1, &g->ticket, err);
	d->tickets[turn] = g->ticket;
	return rc;
}

static rp_code see(greedy *d, uint32_t id, rp_error *err)
{
	if (id == UINT32_MAX)
		return rp_fail(err, RP_MODEL,
			"the model gave no finite largest value: its weights are damaged, or the device computes wrongly");
	d->seen++;
	rp_code rc = d->on_id(d->user, id, &d->stopped, err);
	for (uint32_t i = 0; i < d->o->n_ends; i++)
		d->ended = d->ended || d->o->ends[i] == id;
	d->stopped = d->stopped || d->ended;
	return rc;
}

static rp_code read_block(greedy *d, int turn, rp_error *err)
{
	const uint32_t *ring = rp_vk_buf_map(d->g->run.out[turn]);
	rp_code rc = rp_vk_wait(d->g->vk, d->tickets[turn], err);
	while (rc == RP_OK && !d->stopped && d->seen < d->ends_at[turn])
		rc = see(d, ring[RP_RING_HEAD + d->seen % RP_GPU_RING], err);
	return rc;
}

rp_code rp_gpu_greedy(rp_seq *s, const rp_greedy *o, rp_id_fn *on_id, void *user, uint32_t *fed, rp_error *err)
{
	greedy d = { .g = s->engine->state, .o = o, .on_id = on_id, .user = user };
	/* A CPU device is not kept waiting by the host, and computes nothing cheaply. */
	bool ahead = !o->careful && !d.g->cpu;
	rp_code rc = start(&d, s, err);
	for (int turn = 0; rc == RP_OK && !d.stopped && d.seen < o->n; turn = ahead ? !turn : 0) {
		if (d.submitted < o->n)
			rc = submit_block(&d, turn, ahead ? BLOCK : 1, err);
		if (rc == RP_OK)
			rc = read_block(&d, ahead ? !turn : turn, err); /* the one before: this one runs meanwhile */
	}
	rp_code end = rp_vk_wait(d.g->vk, d.g->ticket, rc == RP_OK ? err : NULL);
	if (d.submitted != d.seen && !d.ended)
		s->broken = true; /* its caches hold what nobody asked for */
	*fed = d.seen;
	return rc == RP_OK ? end : rc;
}
