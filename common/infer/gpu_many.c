/* Tokens of many sequences at once: a recording of one token for each of some numbers of rows, replayed. Rows of no sequence are
 * switched off (position 0xffffffff, a segment without rows), and so is, by the device, one whose sequence ends. */
#include "infer/gpu_attention.h"

#include <stdlib.h>
#include <string.h>

enum { STRIDE = RP_RING_HEAD + RP_GPU_RING }; /* words of the ring a row */

/* Most rows at once: what activations and logits have room for. */
static uint32_t most_rows(const rp_gpu *g)
{
	uint32_t most = g->engine->chunk < g->out_rows ? g->engine->chunk : g->out_rows;
	return most < RP_BATCH_ROWS ? most : RP_BATCH_ROWS;
}

/* Attention by the kernels that know rows switched off; others would look for the angles of their position. */
static bool rows_may_be_off(const rp_gpu *g, const rp_op *ops, uint32_t n)
{
	rp_heads h;
	for (uint32_t i = 0; i < n; i++) {
		if (rp_heads_match(g, ops, n, i, &h))
			i = h.end - 1;
		else if (ops[i].kind == RP_OP_ROPE || ops[i].kind == RP_OP_ATTENTION)
			return false;
	}
	return true;
}

bool rp_gpu_can_steps(const rp_engine *e)
{
	const rp_gpu *g = e->state;
	const rp_graph *graph = e->graph;
	bool can = g->staged != NULL && g->run.ring != NULL && most_rows(g) >= 2;
	for (uint32_t l = 0; l < graph->n_layers && can; l++)
		can = graph->layers[l].n_ops <= RP_GPU_MOST_FUSED && rows_may_be_off(g, graph->layers[l].ops, graph->layers[l].n_ops);
	return can;
}

/* ---- recording ---- */
static rp_code make_buffers(rp_gpu *g, rp_error *err)
{
	rp_gpu_many *m = &g->many;
	uint64_t pairs = (uint64_t)most_rows(g) * rp_gpu_slices(g) * sizeof(uint32_t), ring = (uint64_t)most_rows(g) * STRIDE * sizeof(uint32_t);
	rp_code rc = RP_OK;
	if (m->out != NULL)
		return RP_OK;
	if (m->batch == NULL)
		rc = rp_vk_buf_new(
			g->vk, RP_VK_LOCAL, g->segs_at + most_rows(g) * sizeof(rp_batch_segment), "batch of many sequences", &m->batch, err);
	if (rc == RP_OK && m->values == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "best logits of many sequences", &m->values, err);
	if (rc == RP_OK && m->ids == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, pairs, "ids of the best logits of many sequences", &m->ids, err);
	if (rc == RP_OK && m->ring == NULL)
		rc = rp_vk_buf_new(g->vk, RP_VK_LOCAL, ring, "ids chosen for many sequences", &m->ring, err);
	if (rc == RP_OK && m->tail == NULL)
		rc = rp_vk_cmd_new(g->vk, "ids of many sequences for the host", &m->tail, err);
	return rc == RP_OK ? rp_vk_buf_new(g->vk, RP_VK_READBACK, ring, "ids of many sequences for the host", &m->out, err) : rc;
}

static rp_code record_choice(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err)
{
	rp_args_choose b = { .n = rp_gpu_slices(g), .ring_steps = RP_GPU_RING, .ring_stride = STRIDE };
	rp_work w;
	rp_code rc = rp_gpu_record_slices(g, c, s->rows, g->many.values, g->many.ids, err);
	if (rc == RP_OK)
		rc = rp_work_begin(&w, g, c, "choose", err);
	if (rc != RP_OK)
		return rc;
	rp_work_const(&w, "WG", g->cpu ? 64 : 256);
	rp_work_const(&w, "OFF", true);
	rp_work_bind(&w, g->many.values);
	rp_work_bind(&w, g->many.ids);
	rp_work_bind_rows(&w, s);
	rp_work_bind_segs(&w, s);
	rp_work_bind(&w, g->many.ring);
	return rp_work_dispatch(&w, &b, sizeof b, (rp_grid){ s->rows, 1, 1 }, err);
}

static rp_code record(rp_gpu *g, int which, uint32_t rows, rp_error *err)
{
	rp_gpu_many *m = &g->many;
	rp_gpu_shape s = { rows, rows, g->slots[RP_SLOT_X], m->batch, false };
	rp_code rc = m->step[which] == NULL ? rp_vk_cmd_new(g->vk, "a token of many sequences", &m->step[which], err) : RP_OK;
	if (rc == RP_OK)
		rc = rp_vk_cmd_begin(m->step[which], RP_VK_REPLAY, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_input(g, m->step[which], &s, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_layers(g, m->step[which], &s, err);
	if (rc == RP_OK)
		rc = rp_gpu_record_logits(g, m->step[which], &s, err);
	if (rc == RP_OK)
		rc = record_choice(g, m->step[which], &s, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(m->step[which], err);
	m->made[which] = rc == RP_OK;
	return rc;
}

/* The recording for at least n rows: powers of two, so that few are made however sequences come and go. */
static rp_code recording(rp_gpu *g, uint32_t n, uint32_t *rows, rp_vk_cmd **out, rp_error *err)
{
	rp_gpu_many *m = &g->many;
	int which = 0;
	*rows = 2;
	while (*rows < n) {
		*rows *= 2;
		which++;
	}
	*rows = *rows < most_rows(g) ? *rows : most_rows(g);
	rp_code rc = make_buffers(g, err);
	if (rc == RP_OK && !m->made[which])
		rc = record(g, which, *rows, err);
	*out = m->step[which];
	return rc;
}

void rp_gpu_many_free(rp_gpu *g)
{
	rp_gpu_many *m = &g->many;
	for (int i = 0; i < RP_GPU_MANY; i++)
		rp_vk_cmd_free(m->step[i]);
	rp_vk_cmd_free(m->tail);
	rp_vk_buf_free(m->batch);
	rp_vk_buf_free(m->values);
	rp_vk_buf_free(m->ids);
	rp_vk_buf_free(m->ring);
	rp_vk_buf_free(m->out);
}

/* ---- running ---- */
static rp_code write_rows(rp_gpu *g, const rp_step_row *from, uint32_t n, uint32_t rows, rp_error *err)
{
	rp_batch_row row[RP_BATCH_ROWS];
	rp_batch_segment seg[RP_BATCH_ROWS];
	uint32_t *ring = rp_alloc_array((size_t)rows * STRIDE, sizeof *ring);
	if (ring == NULL)
		return rp_no_memory(err, (uint64_t)rows * STRIDE * sizeof *ring, "the ids of many sequences");
	for (uint32_t r = 0; r < rows; r++) {
		row[r] = (rp_batch_row){ 0, UINT32_MAX, 0, r };
		seg[r] = (rp_batch_segment){ r, 0, 0, 0 };
		if (r >= n)
			continue;
		uint32_t slot = *(const uint32_t *)from[r].seq->state, len = from[r].seq->len;
		row[r] = (rp_batch_row){ from[r].first, len, slot, r };
		seg[r] = (rp_batch_segment){ r, 1, len, slot };
		ring[(size_t)r * STRIDE + 1] = from[r].n_ends;
		if (from[r].n_ends != 0)
			memcpy(ring + (size_t)r * STRIDE + 2, from[r].ends, from[r].n_ends * sizeof *ring);
	}
	rp_code rc = rp_vk_write(g->vk, g->many.batch, 0, row, rows * sizeof *row, err);
	if (rc == RP_OK)
		rc = rp_vk_write(g->vk, g->many.batch, g->segs_at, seg, rows * sizeof *seg, err);
	if (rc == RP_OK)
		rc = rp_vk_write(g->vk, g->many.ring, 0, ring, (uint64_t)rows * STRIDE * sizeof *ring, err);
	free(ring);
	return rc;
}

static rp_code record_tail(rp_gpu *g, uint32_t rows, rp_error *err)
{
	rp_gpu_many *m = &g->many;
	rp_code rc = rp_vk_cmd_begin(m->tail, 0, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_copy(m->tail, m->ring, 0, m->out, 0, (uint64_t)rows * STRIDE * sizeof(uint32_t), err);
	return rc == RP_OK ? rp_vk_cmd_end(m->tail, err) : rc;
}

static bool is_end(const rp_step_row *r, uint32_t id)
{
	for (uint32_t i = 0; i < r->n_ends; i++)
		if (r->ends[i] == id)
			return true;
	return false;
}

static rp_code read_ids(const rp_gpu *g, const rp_step_row *from, uint32_t n, uint32_t steps, uint32_t *ids, rp_error *err)
{
	const uint32_t *ring = rp_vk_buf_map(g->many.out);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t k = 0; k < steps; k++) {
			uint32_t id = ids[r * steps + k] = ring[(size_t)r * STRIDE + RP_RING_HEAD + k];
			if (id == UINT32_MAX)
				return rp_fail(err, RP_MODEL,
					"the model gave no finite largest value: its weights are damaged, or the device computes wrongly");
			if (is_end(&from[r], id))
				break;
		}
	return RP_OK;
}

static rp_code run_rows(rp_gpu *g, const rp_step_row *from, uint32_t n, uint32_t steps, uint32_t *ids, rp_error *err)
{
	rp_vk_cmd *cmds[RP_GPU_RING + 1], *step = NULL;
	uint32_t rows = 0;
	rp_code rc = rp_vk_wait(g->vk, g->ticket, err);
	if (rc == RP_OK)
		rc = recording(g, n, &rows, &step, err);
	if (rc == RP_OK)
		rc = write_rows(g, from, n, rows, err);
	if (rc == RP_OK)
		rc = record_tail(g, rows, err);
	if (rc != RP_OK)
		return rc;
	for (uint32_t k = 0; k < steps; k++)
		cmds[k] = step;
	cmds[steps] = g->many.tail;
	rc = rp_vk_submit(g->vk, cmds, steps + 1, &g->ticket, err);
	if (rc == RP_OK)
		rc = rp_vk_wait(g->vk, g->ticket, err);
	return rc == RP_OK ? read_ids(g, from, n, steps, ids, err) : rc;
}

rp_code rp_gpu_steps(rp_engine *e, const rp_step_row *rows, size_t n, uint32_t steps, uint32_t *ids, rp_error *err)
{
	rp_gpu *g = e->state;
	rp_code rc = RP_OK;
	for (size_t at = 0, now; at < n && rc == RP_OK; at += now) {
		now = n - at < most_rows(g) ? n - at : most_rows(g);
		rc = run_rows(g, rows + at, (uint32_t)now, steps, ids + at * steps, err);
	}
	return rc;
}
