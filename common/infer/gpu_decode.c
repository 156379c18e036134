/* Decode without the host in between: the recording of a token is submitted many times at once, and the host reads the ids a block
 * of tokens behind while the next block runs. When somebody stops, what ran ahead is undone: positions past the end need nothing,
 * and states that every token changes go back to a copy made before the block, from where the tokens up to the end are fed again. */
#include "infer/gpu_watch.h"
#include "infer/sampler.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8 }; /* tokens a submission: what is computed for nothing when somebody stops, against 50 us a submission */

typedef struct block { /* a submission */
	uint64_t ticket;
	uint32_t first, end; /* steps */
} block;

typedef struct decode {
	rp_gpu *g;
	rp_seq *seq;
	const rp_decode_opts *o;
	rp_id_fn *on_id;
	void *user;
	rp_gpu_step kind;
	uint32_t slot, pos;       /* of the sequence; position of the first step */
	uint32_t submitted, seen; /* steps */
	block blocks[2];          /* by turns, as out and saved are */
	uint32_t fed[2 * BLOCK];  /* what step n fed is at n % (2 * BLOCK) */
	bool saves;               /* copy the states before each block */
	bool alone;               /* there is no memory for that: a token a submission, nothing ahead */
	bool stopped, ended;      /* ended: by an id after which the device computes nothing more */
} decode;

/* ---- start ---- */
static rp_code write_counts(decode *d, const uint32_t *state, rp_error *err)
{
	uint32_t vocab = d->g->engine->graph->config.vocab, *counts = rp_alloc_array(vocab, sizeof *counts);
	if (counts == NULL)
		return rp_no_memory(err, vocab * sizeof *counts, "the repetition window");
	for (uint32_t i = 0; i < state[RP_SAMPLE_AT_USED]; i++)
		counts[state[RP_SAMPLE_AT_IDS + i]]++;
	rp_code rc = rp_vk_write(d->g->vk, d->g->run.counts, 0, counts, vocab * sizeof *counts, err);
	free(counts);
	return rc;
}

static rp_code write_sampler(decode *d, rp_error *err)
{
	static const size_t bytes = RP_SAMPLE_STATE * sizeof(uint32_t);
	uint32_t *state = rp_alloc(bytes);
	if (state == NULL)
		return rp_no_memory(err, bytes, "the state of the sampler");
	rp_sampler_words(d->o->sampler, state);
	rp_code rc = rp_vk_write(d->g->vk, d->g->run.state, 0, state, bytes, err);
	if (rc == RP_OK && d->kind == RP_GPU_PENALISED)
		rc = write_counts(d, state, err);
	free(state);
	return rc;
}

static rp_code write_batch(decode *d, rp_error *err)
{
	rp_gpu *g = d->g;
	uint32_t head[RP_RING_HEAD] = { 0, d->o->n_ends };
	rp_batch_row row = { d->o->first, d->pos, d->slot, 0 };
	rp_batch_segment seg = { 0, 1, d->pos, d->slot };
	if (d->o->n_ends != 0)
		memcpy(head + 2, d->o->ends, d->o->n_ends * sizeof *head);
	rp_code rc = rp_vk_write(g->vk, g->run.batch, 0, &row, sizeof row, err);
	if (rc == RP_OK)
		rc = rp_vk_write(g->vk, g->run.batch, g->segs_at, &seg, sizeof seg, err);
	return rc == RP_OK ? rp_vk_write(g->vk, g->run.ring, 0, head, sizeof head, err) : rc;
}

static rp_code start(decode *d, bool careful, rp_error *err)
{
	const rp_sampler *s = d->o->sampler;
	d->kind = s == NULL ? RP_GPU_GREEDY : rp_sampler_planned(s)->penalises ? RP_GPU_PENALISED : RP_GPU_SAMPLED;
	d->fed[0] = d->o->first;
	rp_code rc = rp_vk_wait(d->g->vk, d->g->ticket, err);
	if (rc == RP_OK)
		rc = write_batch(d, err);
	if (rc == RP_OK && d->pos < d->g->deep_from)
		rc = rp_gpu_run_record(d->g, d->kind, false, err);
	if (rc == RP_OK && d->pos + d->o->n > d->g->deep_from)
		rc = rp_gpu_run_record(d->g, d->kind, true, err);
	if (rc == RP_OK && careful) {
		rc = rp_gpu_run_saves(d->g, d->slot, &d->saves, err);
		d->alone = rc == RP_NO_MEMORY;
		d->saves = d->saves && !d->alone;
		rc = d->alone ? RP_OK : rc;
	}
	return rc == RP_OK && s != NULL ? write_sampler(d, err) : rc;
}

/* ---- blocks ---- */
static rp_code submit_block(decode *d, int turn, uint32_t most, rp_error *err)
{
	const rp_gpu_run *r = &d->g->run;
	rp_vk_cmd *cmds[BLOCK + 2];
	uint32_t left = d->o->n - d->submitted, steps = left < most ? left : most, n = 0;
	if (d->saves)
		cmds[n++] = r->save[turn];
	for (uint32_t i = 0; i < steps; i++)
		cmds[n++] = r->step[d->pos + d->submitted + i >= d->g->deep_from][d->kind];
	cmds[n++] = r->tail[turn];
	d->blocks[turn] = (block){ .first = d->submitted, .end = d->submitted + steps };
	d->submitted += steps;
	rp_gpu_watch_pass(d->g, false, d->pos + (uint64_t)d->submitted, 1);
	rp_code rc = rp_gpu_submit(d->g, cmds, n, err);
	d->blocks[turn].ticket = d->g->ticket;
	return rc;
}

static rp_code see(decode *d, uint32_t id, rp_error *err)
{
	if (id == UINT32_MAX)
		return rp_fail(err, RP_MODEL,
			"the model gave no finite largest value: its weights are damaged, or the device computes wrongly");
	d->seen++;
	d->fed[d->seen % (2 * BLOCK)] = id;
	if (d->o->sampler != NULL)
		rp_sampler_drawn(d->o->sampler, id);
	rp_code rc = d->on_id(d->user, id, &d->stopped, err);
	for (uint32_t i = 0; i < d->o->n_ends; i++)
		d->ended = d->ended || d->o->ends[i] == id;
	d->stopped = d->stopped || d->ended;
	return rc;
}

static rp_code read_block(decode *d, int turn, rp_error *err)
{
	const uint32_t *ring = rp_vk_buf_map(d->g->run.out[turn]);
	rp_code rc = rp_vk_wait(d->g->vk, d->blocks[turn].ticket, err);
	while (rc == RP_OK && !d->stopped && d->seen < d->blocks[turn].end)
		rc = see(d, ring[RP_RING_HEAD + d->seen % RP_GPU_RING], err);
	return rc;
}

/* ---- undoing ---- */
static rp_code feed_again(decode *d, uint32_t step, rp_error *err)
{
	rp_part part = { .seq = d->seq, .ids = &d->fed[step % (2 * BLOCK)], .n = 1, .pos = d->pos + step, .want_first = 1 };
	rp_pass pass = { .parts = &part, .n_parts = 1, .n_rows = 1 };
	return d->seq->engine->backend->forward(d->seq->engine, &pass, err);
}

/* The states as they were when only the steps seen had run. */
static rp_code undo(decode *d, rp_error *err)
{
	int turn = d->blocks[0].first <= d->seen && d->blocks[0].end > d->blocks[0].first ? 0 : 1;
	if (d->blocks[!turn].first <= d->seen && d->blocks[!turn].first > d->blocks[turn].first)
		turn = !turn;
	rp_code rc = rp_gpu_run_restore(d->g, d->slot, turn, err);
	for (uint32_t step = d->blocks[turn].first; step < d->seen && rc == RP_OK; step++)
		rc = feed_again(d, step, err);
	return rc;
}

rp_code rp_gpu_decode(rp_seq *s, const rp_decode_opts *o, rp_id_fn *on_id, void *user, uint32_t *fed, rp_error *err)
{
	decode d = { .g = s->engine->state, .seq = s, .o = o, .on_id = on_id, .user = user, .slot = *(const uint32_t *)s->state,
		.pos = s->len };
	/* A CPU device is not kept waiting by the host, and computes nothing cheaply. */
	bool ahead = !d.g->cpu && d.g->watch == NULL;
	rp_code rc = start(&d, ahead && o->careful, err);
	ahead = ahead && !d.alone;
	for (int turn = 0; rc == RP_OK && !d.stopped && d.seen < o->n; turn = ahead ? !turn : 0) {
		if (d.submitted < o->n)
			rc = submit_block(&d, turn, ahead ? BLOCK : 1, err);
		if (rc == RP_OK)
			rc = read_block(&d, ahead ? !turn : turn, err); /* the one before: this one runs meanwhile */
	}
	rp_code end = rp_vk_wait(d.g->vk, d.g->ticket, rc == RP_OK ? err : NULL);
	if (rc == RP_OK && end == RP_OK && d.submitted != d.seen && !d.ended) {
		if (d.saves)
			rc = undo(&d, err);
		else
			s->broken = !o->careful; /* its states hold what nobody asked for; without states there is nothing to undo */
	}
	*fed = d.seen;
	return rc == RP_OK ? end : rc;
}
