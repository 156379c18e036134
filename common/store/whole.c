/* The SHA-256 of a whole file where no hashes of its pieces are known: made while the pieces come, of each as soon as those before it
 * are there. What is hashed is what was written; the file is read once more only where another process may have written too. */
#include <stdlib.h>
#include <string.h>

#include "store/job.h"

enum { BLOCK = 256 << 10, MOST_PIECES = 16 /* in one go, read back */ };

rp_code rp_whole_begin(rp_item *item, rp_error *err)
{
	return item->whole_known && item->pieces == NULL && !item->partly ? rp_sha256_new(&item->so_far.sha, err) : RP_OK;
}

void rp_whole_free(rp_item *item)
{
	rp_sha256_free(item->so_far.sha);
	for (unsigned i = 0; i < item->so_far.n_held; i++) {
		free(item->so_far.held[i].buffer->data);
		free(item->so_far.held[i].buffer);
	}
}

void rp_whole_restart(rp_job *job, rp_item *item)
{
	rp_whole *w = &item->so_far;
	if (w->sha == NULL)
		return;
	rp_sha256_reset(w->sha);
	w->next = 0;
	job->n_held -= w->n_held;
	while (w->n_held > 0)
		rp_buffer_put(job, w->held[--w->n_held].buffer);
}

bool rp_whole_hold(rp_job *job, rp_item *item, size_t piece, rp_buffer *buffer)
{
	rp_whole *w = &item->so_far;
	/* most buffers, where that makes bytes wait which wait for us anyway; some must be left to get on with */
	size_t most = job->behind > 0.5 ? job->max_buffers - 3 : job->max_buffers / 2 - 1;
	if (w->sha == NULL || piece < w->next || piece > w->next + RP_JOB_HELD || w->n_held == RP_JOB_HELD || job->n_held >= most)
		return false;
	w->held[w->n_held].piece = piece;
	w->held[w->n_held++].buffer = buffer;
	job->n_held++;
	return true;
}

/* Where the piece is held; n_held: it is not. */
static unsigned held_at(const rp_whole *w, size_t piece)
{
	unsigned i = 0;
	while (i < w->n_held && w->held[i].piece != piece)
		i++;
	return i;
}

bool rp_whole_step(rp_job *job, rp_item *item)
{
	rp_whole *w = &item->so_far;
	if (w->sha == NULL || w->next == item->n_pieces)
		return true;
	if (w->busy || item->state[w->next] != RP_PIECE_DONE)
		return false;
	rp_task t = {.kind = RP_TASK_WHOLE, .item = item, .piece = w->next, .end = w->next + 1, .size = rp_job_piece_size(item, w->next)};
	unsigned i = held_at(w, w->next);
	if (i < w->n_held)
		t.buffer = w->held[i].buffer;
	for (; i == w->n_held && t.end - t.piece < MOST_PIECES && t.end < item->n_pieces && item->state[t.end] == RP_PIECE_DONE; t.end++) {
		if (held_at(w, t.end) < w->n_held)
			break;
		t.size += rp_job_piece_size(item, t.end);
	}
	if (rp_work_put(job, &t) != RP_OK) {
		rp_job_fail(job, &(rp_error){.code = RP_NO_MEMORY, .msg = "out of memory while hashing a file"});
		return false;
	}
	if (i < w->n_held) {
		w->held[i] = w->held[--w->n_held];
		job->n_held--;
	}
	w->busy = true;
	return false;
}

void rp_whole_done(rp_job *job, const rp_task *t)
{
	t->item->so_far.busy = false;
	t->item->so_far.next = t->end;
	if (t->buffer != NULL)
		rp_buffer_put(job, t->buffer);
	if (t->code != RP_OK)
		rp_job_fail(job, &t->error);
}

static rp_code read_and_hash(const rp_item *item, uint64_t from, uint64_t size, rp_error *err)
{
	unsigned char *block = rp_alloc(BLOCK);
	rp_code rc = block != NULL ? RP_OK : rp_no_memory(err, BLOCK, "hashing");
	for (uint64_t at = 0; rc == RP_OK && at < size;) {
		size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
		rc = rp_part_read(&item->part, from + at, block, n, err);
		if (rc == RP_OK)
			rp_sha256_update(item->so_far.sha, block, n);
		at += n;
	}
	free(block);
	return rc;
}

void rp_whole_work(rp_task *t)
{
	if (t->buffer != NULL)
		rp_sha256_update(t->item->so_far.sha, t->buffer->data, (size_t)t->size);
	else
		t->code = read_and_hash(t->item, rp_job_piece_offset(t->item, t->piece), t->size, &t->error);
}

void rp_whole_compare(rp_task *t)
{
	rp_item *item = t->item;
	char a[RP_HASH_HEX], b[RP_HASH_HEX];
	if (rp_part_shared(&item->part)) {
		rp_sha256_reset(item->so_far.sha);
		t->code = read_and_hash(item, 0, item->size, &t->error);
	}
	rp_sha256_final(item->so_far.sha, t->hash);
	if (t->code == RP_OK && memcmp(t->hash, item->whole, RP_HASH_BYTES) != 0)
		t->code = rp_fail(&t->error, RP_HASH, "%s: the file has sha256 %s, expected %s", item->part.path, rp_hex(a, t->hash, RP_HASH_BYTES),
			rp_hex(b, item->whole, RP_HASH_BYTES));
}
