/* Recordings of decode: those of one token end by choosing the next id and moving the batch on, so that they can be submitted many
 * times without the host. Copies of the states a sequence has beside its positions, to go back to. */
#include "infer/gpu_work.h"

uint32_t rp_gpu_slices(const rp_gpu *g)
{
	return rp_ceil_div(g->engine->graph->config.vocab, RP_ARGMAX_SLICE);
}

/* ---- buffers ---- */
rp_code rp_gpu_run_init(rp_gpu *g, rp_error *err)
{
	rp_gpu_run *r = &g->run;
	uint64_t pairs = (rp_gpu_slices(g) > RP_WIDE_BEST ? rp_gpu_slices(g) : RP_WIDE_BEST) * sizeof(uint32_t);
	uint64_t ring = (RP_RING_HEAD + RP_GPU_RING) * sizeof(uint32_t);
	rp_code rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, g->segs_at + sizeof(rp_batch_segment), "batch of decode", &r->batch, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "best logits", &r->values, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "ids of the best logits", &r->ids, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, ring, "ids chosen", &r->ring, err);
	for (int i = 0; i < 2 && rc == RP_OK; i++) {
		rc = rp_vk_buf_new(g->vk, RP_VK_READBACK, ring, "ids for the host", &r->out[i], err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_new(g->vk, "ids for the host", &r->tail[i], err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_begin(r->tail[i], RP_VK_REPLAY, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_copy(r->tail[i], r->ring, 0, r->out[i], 0, ring, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_end(r->tail[i], err);
	}
	return rc;
}

void rp_gpu_run_free(rp_gpu *g)
{
	rp_gpu_run *r = &g->run;
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < RP_GPU_STEPS; k++)
			rp_vk_cmd_free(r->step[i][k]);
		rp_vk_cmd_free(r->tail[i]);
		rp_vk_cmd_free(r->save[i]);
		rp_vk_buf_free(r->out[i]);
		rp_vk_buf_free(r->saved[i]);
	}
	rp_vk_buf_free(r->batch);
	rp_vk_buf_free(r->values);
	rp_vk_buf_free(r->ids);
	rp_vk_buf_free(r->ring);
	rp_vk_buf_free(r->peaks);
	rp_vk_buf_free(r->counts);
	rp_vk_buf_free(r->state);
}

/* ---- choosing ---- */
rp_code rp_gpu_record_slices(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, rp_vk_buf *values, rp_vk_buf *ids, rp_error *err)
{
	const rp_graph *graph = g->engine->graph;
	rp_args_topk a = { .n = graph->config.vocab, .n_rows = rows, .k = 1, .slice = RP_ARGMAX_SLICE };
	rp_work w;
	rp_code rc = rp_work_begin(&w, g, c, "topk", err);
	if (rc != RP_OK)
		return rc;
	rp_work_bind(&w, g->slots[graph->logits_slot]);
	rp_work_bind(&w, g->slots[graph->logits_slot]);
	rp_work_bind(&w, values);
	rp_work_bind(&w, ids);
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ rp_gpu_slices(g), rows, 1 }, err);
}

static rp_code record_choice(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, uint32_t pairs, rp_error *err)
{
	rp_args_choose a = { .n = pairs, .ring_steps = RP_GPU_RING, .ring_stride = RP_RING_HEAD + RP_GPU_RING };
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

static rp_code record_greedy(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err)
{
	uint32_t pairs = 0;
	rp_code rc = rp_gpu_record_best(g, c, s, &pairs, err);
	if (rc == RP_OK && pairs == 0) {
		rc = rp_gpu_record_logits(g, c, s, err);
		if (rc == RP_OK)
			rc = rp_gpu_record_slices(g, c, 1, g->run.values, g->run.ids, err);
		pairs = rp_gpu_slices(g);
	}
	return rc == RP_OK ? record_choice(g, c, s, pairs, err) : rc;
}

static rp_code make_sampling(rp_gpu *g, rp_error *err)
{
	rp_gpu_run *r = &g->run;
	rp_args_sample a = rp_shape_sample(g->engine->graph->config.vocab);
	rp_code rc = RP_OK;
	if (r->peaks == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, a.n_groups * sizeof(uint32_t), "peaks of the logits", &r->peaks, err);
	if (rc == RP_OK && r->counts == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, a.n * sizeof(uint32_t), "ids of the repetition window", &r->counts, err);
	if (rc == RP_OK && r->state == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, RP_SAMPLE_STATE * sizeof(uint32_t), "state of the sampler", &r->state, err);
	return rc;
}

static rp_code record_sample(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, bool penalises, rp_error *err)
{
	const rp_gpu_run *r = &g->run;
	rp_vk_buf *logits = g->slots[g->engine->graph->logits_slot];
	rp_args_sample a = rp_shape_sample(g->engine->graph->config.vocab);
	rp_work w;
	a.ring_steps = RP_GPU_RING;
	a.ring_stride = RP_RING_HEAD + RP_GPU_RING;
	rp_code rc = rp_work_begin(&w, g, c, "sample_peaks", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "WG", a.lanes);
	rp_work_const(&w, "PENALTY", penalises);
	rp_work_bind(&w, logits);
	rp_work_bind(&w, r->counts);
	rp_work_bind(&w, r->state);
	rp_work_bind(&w, r->peaks);
	rc = rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ a.n_groups / a.lanes, 1, 1 }, err);
	if (rc == RP_OK)
		rc = rp_work_begin(&w, g, c, "sample", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "WG", g->cpu ? 64 : 256);
	rp_work_const(&w, "PENALTY", penalises);
	rp_work_bind(&w, logits);
	rp_work_bind(&w, r->peaks);
	rp_work_bind(&w, r->counts);
	rp_work_bind(&w, r->state);
	rp_work_bind_rows(&w, s);
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, r->ring);
	return rp_work_dispatch(&w, &a, sizeof a, (rp_grid){ 1, 1, 1 }, err);
}

/* ---- a token ---- */
static rp_code record_step(rp_gpu *g, rp_vk_cmd *c, rp_gpu_step kind, bool deep, rp_error *err)
{
	rp_gpu_shape s = { 1, 1, g->slots[RP_SLOT_X], g->run.batch, deep };
	rp_code rc = rp_gpu_record_input(g, c, &s, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_layers(g, c, &s, err);
	if (rc == RP_OK && kind == RP_GPU_GREEDY)
		return record_greedy(g, c, &s, err);
	if (rc == RP_OK)
		rc = make_sampling(g, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_logits(g, c, &s, err);
	return rc == RP_OK ? record_sample(g, c, &s, kind == RP_GPU_PENALISED, err) : rc;
}

rp_code rp_gpu_run_ask(rp_gpu *g, rp_vk_cmd *c, rp_error *err)
{
	return record_step(g, c, RP_GPU_GREEDY, false, err);
}

/* Recordings of before hold buffers that are gone. */
static void forget(rp_gpu_run *r)
{
	for (int i = 0; i < RP_GPU_STEPS && !r->recorded; i++)
		r->made[0][i] = r->made[1][i] = false;
	r->made_save = r->made_save && r->recorded;
	r->recorded = true;
}

rp_code rp_gpu_run_record(rp_gpu *g, rp_gpu_step kind, bool deep, rp_error *err)
{
	static const char *const names[] = { "a token", "a token that is sampled", "a token that is sampled with a penalty" };
	rp_gpu_run *r = &g->run;
	forget(r);
	rp_vk_cmd **c = &r->step[deep][kind];
	if (r->made[deep][kind])
		return RP_OK;
	rp_code rc = *c == NULL ? rp_vk_cmd_new(g->vk, names[kind], c, err) : RP_OK;
	if (rc == RP_OK)
		rc = rp_vk_cmd_begin(*c, RP_VK_REPLAY, err);
	if (rc == RP_OK)
		rc = record_step(g, *c, kind, deep, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(*c, err);
	r->made[deep][kind] = rc == RP_OK;
	return rc;
}

/* ---- states ---- */
static bool has_state(const rp_gpu *g, uint32_t l)
{
	return g->engine->graph->layers[l].kind == RP_LAYER_LINEAR;
}

/* Copy the states of a slot to the buffer or back. */
static rp_code copy_states(rp_gpu *g, rp_vk_cmd *c, uint32_t slot, rp_vk_buf *saved, bool back, rp_error *err)
{
	const rp_engine *e = g->engine;
	uint64_t at = 0;
	rp_code rc = RP_OK;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++) {
		const rp_gpu_cache *cache = &g->caches[l - e->opts.layer_first];
		rp_vk_buf *bufs[2] = { cache->a, cache->b };
		uint64_t bytes[2] = { cache->a_bytes, cache->b_bytes };
		for (int i = 0; i < 2 && has_state(g, l) && rc == RP_OK; i++) {
			rc = back ? rp_vk_cmd_copy(c, saved, at, bufs[i], slot * bytes[i], bytes[i], err)
				: rp_vk_cmd_copy(c, bufs[i], slot * bytes[i], saved, at, bytes[i], err);
			at += bytes[i];
		}
	}
	return rc;
}

static uint64_t state_bytes(const rp_gpu *g)
{
	const rp_engine *e = g->engine;
	uint64_t bytes = 0;
	for (uint32_t l = e->opts.layer_first; l < e->opts.layer_last; l++)
		if (has_state(g, l))
			bytes += g->caches[l - e->opts.layer_first].a_bytes + g->caches[l - e->opts.layer_first].b_bytes;
	return bytes;
}

rp_code rp_gpu_run_saves(rp_gpu *g, uint32_t slot, bool *any, rp_error *err)
{
	rp_gpu_run *r = &g->run;
	uint64_t bytes = state_bytes(g);
	*any = bytes != 0;
	forget(r);
	if (bytes == 0 || (r->made_save && r->save_slot == slot))
		return RP_OK;
	rp_code rc = RP_OK;
	r->made_save = false;
	for (int i = 0; i < 2 && rc == RP_OK; i++) {
		if (r->saved[i] == NULL)
			rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, bytes, "states to go back to", &r->saved[i], err);
		if (rc == RP_OK && r->save[i] == NULL)
			rc = rp_vk_cmd_new(g->vk, "copying the states", &r->save[i], err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_begin(r->save[i], RP_VK_REPLAY, err);
		if (rc == RP_OK)
			rc = copy_states(g, r->save[i], slot, r->saved[i], false, err);
		if (rc == RP_OK)
			rc = rp_vk_cmd_end(r->save[i], err);
	}
	r->save_slot = slot;
	r->made_save = rc == RP_OK;
	return rc;
}

rp_code rp_gpu_run_restore(rp_gpu *g, uint32_t slot, int turn, rp_error *err)
{
	rp_code rc = rp_vk_cmd_begin(g->one, 0, err);
	if (rc == RP_OK)
		rc = copy_states(g, g->one, slot, g->run.saved[turn], true, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(g->one, err);
	return rc == RP_OK ? rp_vk_run(g->vk, g->one, err) : rc;
}
