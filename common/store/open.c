/* Pieces on their way: their buffers, and which connection brings which of their bytes. */
#include <stdlib.h>
#include <string.h>

#include "store/job.h"

enum { USEFUL_BYTES = 64 << 10 };

/* ---- buffers ---- */

void rp_buffer_put(rp_job *job, rp_buffer *b)
{
	b->next = job->idle;
	job->idle = b;
}

/* The oldest piece that nobody works at: worth less than going on. */
static rp_open *oldest_kept(const rp_job *job)
{
	const rp_open *found = NULL;
	for (size_t i = 0; i < RP_JOB_MAX_BUFFERS; i++) {
		const rp_open *o = &job->open[i];
		if (o->item != NULL && !rp_open_busy(o) && (found == NULL || o->number < found->number))
			found = o;
	}
	return (rp_open *)found;
}

bool rp_open_room(const rp_job *job)
{
	return job->idle != NULL || job->n_buffers < job->max_buffers || oldest_kept(job) != NULL;
}

static rp_buffer *get_buffer(rp_job *job)
{
	rp_buffer *b = NULL;
	if (job->idle == NULL && job->n_buffers < job->max_buffers && (b = rp_alloc(sizeof *b)) != NULL) {
		b->data = aligned_alloc(RP_PART_ALIGN, (size_t)(job->buffer_bytes + RP_PART_ALIGN - 1) / RP_PART_ALIGN * RP_PART_ALIGN);
		if (b->data != NULL) {
			job->n_buffers++;
			return b;
		}
		free(b);
	}
	if (job->idle == NULL && oldest_kept(job) != NULL)
		rp_open_drop(job, oldest_kept(job));
	b = job->idle;
	if (b != NULL)
		job->idle = b->next;
	return b;
}

/* ---- pieces ---- */

rp_open *rp_open_of(rp_job *job, const rp_item *item, size_t piece)
{
	for (size_t i = 0; i < RP_JOB_MAX_BUFFERS; i++)
		if (job->open[i].item == item && job->open[i].piece == piece)
			return &job->open[i];
	return NULL;
}

rp_open *rp_open_begin(rp_job *job, rp_item *item, size_t piece, rp_origin *origin)
{
	rp_open *open = rp_open_of(job, item, piece);
	if (open != NULL)
		rp_open_drop(job, open);
	rp_buffer *buffer = get_buffer(job);
	if (buffer == NULL)
		return NULL;
	for (open = job->open; open->item != NULL;) /* there are as many entries as buffers */
		open++;
	*open = (rp_open){.item = item, .piece = piece, .buffer = buffer, .missing = rp_job_piece_size(item, piece), .number = job->opened++,
		.origin = origin, .n_gaps = 1};
	open->gaps[0].end = open->missing;
	return open;
}

void rp_open_drop(rp_job *job, rp_open *open)
{
	if (open->buffer != NULL)
		rp_buffer_put(job, open->buffer);
	*open = (rp_open){0};
}

bool rp_open_busy(const rp_open *open)
{
	for (unsigned i = 0; i < open->n_gaps; i++)
		if (open->gaps[i].conn != NULL)
			return true;
	return false;
}

/* Bytes of two sources in one piece are for pieces that can be checked; and then a lie has no name, so only when there is much to win. */
bool rp_open_fits(const rp_open *open, const rp_origin *origin)
{
	if (open->origin == origin)
		return true;
	return open->item->pieces != NULL && !open->item->alone[open->piece] && (!rp_open_busy(open) || origin->rate > 4 * open->origin->rate);
}

rp_gap *rp_open_gap(rp_open *open, const rp_conn *conn)
{
	rp_gap *found = NULL;
	for (unsigned i = 0; i < open->n_gaps; i++) {
		rp_gap *s = &open->gaps[i];
		if (s->conn == conn && (found == NULL || s->end - s->at > found->end - found->at))
			found = s;
	}
	return found;
}

rp_open *rp_open_waiting(rp_job *job, rp_item *item, const rp_origin *origin)
{
	rp_open *found = NULL;
	for (size_t i = 0; i < RP_JOB_MAX_BUFFERS; i++) {
		rp_open *o = &job->open[i];
		if (o->item != item || rp_open_gap(o, NULL) == NULL || !rp_open_fits(o, origin))
			continue;
		if (!rp_open_busy(o) && (item->state[o->piece] != RP_PIECE_MISSING || rp_job_look(job, item, o->piece, NULL)))
			rp_open_drop(job, o); /* it came by another way */
		else if (found == NULL || o->number < found->number)
			found = o;
	}
	return found;
}

bool rp_open_split(rp_open *open, rp_gap *gap, uint64_t keep)
{
	uint64_t left = gap->end - gap->at;
	if (keep < RP_JOB_LEAST_GAP || left < keep + RP_JOB_LEAST_GAP || open->n_gaps == RP_JOB_GAPS)
		return false;
	open->gaps[open->n_gaps++] = (rp_gap){.at = gap->at + keep, .end = gap->end};
	gap->end = gap->at + keep;
	return true;
}

void rp_open_leave(rp_job *job, rp_conn *c, bool keep)
{
	rp_open *open = c->open;
	rp_gap *gap = open != NULL ? rp_open_gap(open, c) : NULL;
	c->open = NULL;
	if (gap == NULL)
		return;
	gap->conn = NULL;
	rp_open_settle(job, open, keep);
}

void rp_open_settle(rp_job *job, rp_open *open, bool keep)
{
	rp_item *item = open->item;
	if (rp_open_busy(open))
		return;
	item->state[open->piece] = RP_PIECE_MISSING;
	if (open->piece < item->low)
		item->low = open->piece;
	if (!keep || rp_job_piece_size(item, open->piece) - open->missing < USEFUL_BYTES)
		rp_open_drop(job, open);
}
