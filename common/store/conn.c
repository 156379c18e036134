/* One connection of a job: a run of pieces of one file from one place, into buffers, and what its end means. */
#include <stdlib.h>
#include <string.h>

#include "store/job.h"

enum { USEFUL_BYTES = 64 << 10, MAX_EXPIRED = 6, BASE_WAIT_MS = 500, MAX_WAIT_MS = 30000, MAX_ASKED_MS = 300000, MAX_UNANSWERED = 2 };

/* ---- buffers ---- */

rp_buffer *rp_buffer_get(rp_job *job)
{
	rp_buffer *b = job->idle;
	if (b != NULL) {
		job->idle = b->next;
		return b;
	}
	if (job->n_buffers < job->max_buffers && (b = rp_alloc(sizeof *b)) != NULL) {
		b->data = malloc((size_t)job->buffer_bytes); /* its pages come with what is written to them */
		if (b->data != NULL) {
			job->n_buffers++;
			return b;
		}
		free(b);
	}
	if (job->n_stubs == 0)
		return NULL;
	b = job->stubs[0].buffer; /* the oldest beginning of a piece is worth less than going on */
	memmove(job->stubs, job->stubs + 1, --job->n_stubs * sizeof *job->stubs);
	return b;
}

void rp_buffer_put(rp_job *job, rp_buffer *b)
{
	if (b == NULL)
		return;
	b->next = job->idle;
	job->idle = b;
}

/* ---- trouble with sources ---- */

static uint64_t jitter(rp_job *job, uint64_t ms)
{
	job->seed = job->seed * 6364136223846793005u + 1442695040888963407u;
	return ms / 2 + (job->seed >> 33) % (ms + 1);
}

void rp_origin_drop(rp_job *job, rp_origin *o, const rp_error *error)
{
	if (o->dead)
		return;
	o->dead = true;
	o->error = *error;
	if (job->n_origins > 1)
		rp_job_note(job, "%s is dropped: %s", o->shown, error->msg);
}

void rp_place_drop(rp_job *job, rp_place *p, const rp_error *error)
{
	if (p->dead)
		return;
	p->dead = true;
	p->origin->error = *error;
	if (job->n_origins > 1)
		rp_job_note(job, "%s is dropped for one file: %s", p->origin->shown, error->msg);
}

void rp_origin_failed(rp_job *job, rp_origin *o, const rp_error *error, uint64_t asked_ms, bool useful)
{
	uint64_t now = rp_now_ns();
	unsigned limit = o->answered || job->o->retries < MAX_UNANSWERED ? job->o->retries : MAX_UNANSWERED;
	if (now < o->wait_ns && asked_ms == 0) /* another connection met the same trouble at the same time */
		return;
	o->fails = useful ? 1 : o->fails + 1;
	o->failed_ns = now;
	if (o->fails > limit) {
		rp_origin_drop(job, o, error);
		return;
	}
	uint64_t wait = (uint64_t)BASE_WAIT_MS << (o->fails < 7 ? o->fails - 1 : 6);
	wait = jitter(job, wait < MAX_WAIT_MS ? wait : MAX_WAIT_MS);
	if (asked_ms > wait)
		wait = asked_ms < MAX_ASKED_MS ? asked_ms : MAX_ASKED_MS;
	o->wait_ns = now + wait * 1000000u;
	o->error = *error;
	rp_job_note(job, "%s: %s; trying again in %.1f s", o->shown, error->msg, (double)wait / 1000);
}

/* ---- receiving ---- */

static rp_code changed(const rp_conn *c, const char *what, rp_error *err)
{
	return rp_fail(err, RP_CHANGED, "%s changed at %s while it was being fetched (%s); what was verified is kept: run it again",
		c->item->part.name, c->place->origin->shown, what);
}

/* Etags and dates tell versions apart where no hash does. */
static rp_code check_version(rp_conn *c, const rp_net_reply *r, rp_error *err)
{
	rp_place *p = c->place;
	if (c->item->pieces != NULL)
		return RP_OK;
	if (p->etag[0] == '\0' && p->modified[0] == '\0') {
		memcpy(p->etag, r->etag, sizeof p->etag);
		memcpy(p->modified, r->modified, sizeof p->modified);
		return RP_OK;
	}
	if (p->etag[0] != '\0' && r->etag[0] != '\0')
		return strcmp(p->etag, r->etag) == 0 ? RP_OK : changed(c, "another ETag", err);
	if (p->modified[0] != '\0' && r->modified[0] != '\0' && strcmp(p->modified, r->modified) != 0)
		return changed(c, "another date", err);
	return RP_OK;
}

/* Pieces that were meant for this connection and that it will not bring. */
static void release(rp_conn *c)
{
	rp_item *item = c->item;
	size_t end = c->stream ? c->piece + 1 : c->end;
	if (c->skipping)
		return;
	for (size_t i = c->piece; i < end && i < item->n_pieces; i++) {
		if (item->state[i] != RP_PIECE_TAKEN || (c->stream && c->buffer == NULL))
			continue;
		item->state[i] = RP_PIECE_MISSING;
		if (i < item->low)
			item->low = i;
	}
}

static rp_code begin_stream(rp_conn *c, rp_error *err)
{
	rp_place *p = c->place;
	if (p->streaming)
		return rp_fail(err, RP_CANCELLED, "the whole file comes on another connection");
	if (!p->no_ranges && c->item->n_pieces > 1 && c->item->n_done > 0)
		rp_job_note(c->job, "%s sends the whole file instead of a range: it is read from its beginning, verified pieces are kept",
			p->origin->shown);
	p->no_ranges = true;
	release(c);
	rp_buffer_put(c->job, c->buffer);
	c->buffer = NULL;
	c->piece = 0;
	c->have = 0;
	c->end = c->item->n_pieces;
	c->mixed = false;
	c->stream = p->streaming = true;
	return RP_OK;
}

static rp_code on_head(void *user, const rp_net_reply *r, rp_error *err)
{
	rp_conn *c = user;
	rp_place *p = c->place;
	c->headed = p->origin->answered = true;
	if (r->status != 200 && r->status != 206)
		return rp_fail(err, RP_NETWORK, "the server says %ld where 200 or 206 was expected", r->status);
	if (r->total != RP_NET_UNKNOWN && r->total != c->item->size)
		return changed(c, "another size", err);
	rp_code rc = check_version(c, r, err);
	if (rc != RP_OK)
		return rc;
	if (strcmp(r->url, p->resolved != NULL ? p->resolved : p->url) != 0) {
		free(p->resolved);
		p->resolved = strcmp(r->url, p->url) != 0 ? rp_strdup(r->url) : NULL;
	}
	if (r->status == 200)
		return begin_stream(c, err);
	if (r->first != c->first)
		return rp_fail(err, RP_NETWORK, "the server answers with another range than was asked for (bytes from %llu, not %llu)",
			(unsigned long long)r->first, (unsigned long long)c->first);
	return RP_OK;
}

/* A piece is whole: off to the workers. False: no memory. */
static bool hand_over(rp_conn *c)
{
	rp_task t = {.kind = RP_TASK_PIECE, .item = c->item, .piece = c->piece, .buffer = c->buffer, .size = c->have,
		.origin = c->mixed ? NULL : c->place->origin};
	if (rp_work_put(c->job, &t) != RP_OK)
		return false;
	c->item->state[c->piece] = RP_PIECE_HASHING;
	c->kept++;
	c->buffer = NULL;
	return true;
}

static void next_piece(rp_conn *c)
{
	c->piece++;
	c->have = 0;
	c->mixed = c->skipping = false;
}

static size_t on_body(void *user, const unsigned char *data, size_t n)
{
	rp_conn *c = user;
	size_t used = 0;
	while (used < n) {
		if (c->piece >= c->end) /* the rest was given to a faster connection */
			return RP_NET_STOP;
		if (c->have == 0 && c->buffer == NULL && c->stream) {
			c->skipping = c->item->state[c->piece] != RP_PIECE_MISSING;
			if (!c->skipping)
				c->item->state[c->piece] = RP_PIECE_TAKEN;
		}
		if (!c->skipping && c->buffer == NULL) {
			c->buffer = rp_buffer_get(c->job);
			if (c->buffer == NULL) {
				if (c->stream)
					c->item->state[c->piece] = RP_PIECE_MISSING; /* looked at again when bytes come */
				return used;
			}
		}
		uint64_t left = rp_job_piece_size(c->item, c->piece) - c->have;
		size_t take = n - used < left ? n - used : (size_t)left;
		if (!c->skipping)
			memcpy(c->buffer->data + c->have, data + used, take);
		c->have += take;
		used += take;
		c->bytes += take;
		c->job->received += take;
		if (take < left)
			break;
		if (!c->skipping && !hand_over(c))
			return RP_NET_STOP;
		next_piece(c);
	}
	return used;
}

/* ---- the end ---- */

static void keep_stub(rp_conn *c)
{
	rp_job *job = c->job;
	if (c->buffer != NULL && c->have >= USEFUL_BYTES && !c->stream && job->n_stubs < RP_JOB_MAX_CONNECTIONS &&
		job->n_stubs + 2 < job->max_buffers) {
		job->stubs[job->n_stubs++] = (rp_stub){c->item, c->piece, c->buffer, c->have, c->mixed ? NULL : c->place->origin};
	} else {
		rp_buffer_put(job, c->buffer);
	}
	c->buffer = NULL;
}

static void let_go(rp_conn *c)
{
	c->get = NULL;
	c->place->origin->active--;
	if (c->stream)
		c->place->streaming = false;
	release(c);
	keep_stub(c);
}

static void measure(const rp_conn *c)
{
	rp_origin *o = c->place->origin;
	double seconds = (double)(rp_now_ns() - c->start_ns) / 1e9;
	if (c->bytes < USEFUL_BYTES || seconds <= 0)
		return;
	double rate = (double)c->bytes / seconds;
	o->rate = o->rate > 0 ? 0.6 * o->rate + 0.4 * rate : rate;
}

/* The exchange ended before its time. */
static void judge(rp_conn *c, const rp_net_outcome *o)
{
	rp_job *job = c->job;
	rp_place *p = c->place;
	/* of a whole file that is read again only pieces that were missing count, else a wrong length would be read for ever */
	bool useful = c->stream ? c->kept > 0 : c->bytes >= USEFUL_BYTES;
	rp_error error = o->error;
	if (o->stopped && o->code == RP_CANCELLED)
		return;
	if (o->code == RP_OK) {
		error.code = rp_fail(&error, RP_NETWORK, "the server ended the answer %llu bytes into piece %zu", (unsigned long long)c->have,
			c->piece);
		rp_origin_failed(job, p->origin, &error, 0, useful);
	} else if ((o->code == RP_AUTH || o->code == RP_NOT_FOUND) && p->resolved != NULL && p->expired < MAX_EXPIRED) {
		free(p->resolved); /* addresses that redirects lead to may hold for minutes only */
		p->resolved = NULL;
		p->expired++;
	} else if (o->code == RP_CHANGED && c->item->pieces == NULL) {
		if (c->item->n_places > 1)
			rp_place_drop(job, p, &error);
		else
			rp_job_fail(job, &error);
	} else if (o->code == RP_RANGE && o->reply->total != RP_NET_UNKNOWN && o->reply->total != c->item->size) {
		changed(c, "another size", &error);
		rp_place_drop(job, p, &error);
	} else if (o->retry || (o->stopped && o->code == RP_NETWORK)) {
		rp_origin_failed(job, p->origin, &error, o->retry_after_ms, useful);
	} else {
		rp_place_drop(job, p, &error);
	}
}

static void on_done(void *user, const rp_net_outcome *o)
{
	rp_conn *c = user;
	bool complete = c->headed && c->piece >= c->end;
	measure(c);
	let_go(c);
	if (complete)
		c->place->expired = 0;
	else
		judge(c, o);
}

static const rp_net_handler handler = {.head = on_head, .body = on_body, .done = on_done};

static bool take_stub(rp_conn *c, const rp_stub *stub)
{
	if (stub == NULL)
		return false;
	rp_job *job = c->job;
	size_t i = (size_t)(stub - job->stubs);
	c->buffer = stub->buffer;
	c->have = stub->have;
	c->mixed = stub->origin != c->place->origin;
	memmove(&job->stubs[i], &job->stubs[i + 1], (--job->n_stubs - i) * sizeof *job->stubs);
	return true;
}

rp_code rp_conn_start(rp_conn *c, rp_item *item, rp_place *place, size_t piece, size_t end, rp_stub *stub, rp_error *err)
{
	rp_job *job = c->job;
	memset(c, 0, sizeof *c);
	c->job = job;
	c->item = item;
	c->place = place;
	c->piece = piece;
	c->end = end;
	take_stub(c, stub);
	c->start_ns = rp_now_ns();
	c->first = rp_job_piece_offset(item, piece) + c->have;
	rp_net_request r = {.url = place->resolved != NULL ? place->resolved : place->url, .home = place->secrets ? place->url : NULL,
		.first = c->first, .last = rp_job_piece_offset(item, end - 1) + rp_job_piece_size(item, end - 1) - 1,
		.handler = &handler, .user = c};
	if (place->no_ranges)
		r.first = RP_NET_UNKNOWN;
	rp_code rc = rp_net_start(job->net, &r, &c->get, err);
	if (rc != RP_OK) {
		rp_buffer_put(job, c->buffer);
		c->get = NULL;
		return rc;
	}
	for (size_t i = piece; i < end; i++)
		item->state[i] = RP_PIECE_TAKEN;
	place->origin->active++;
	return RP_OK;
}

void rp_conn_drop(rp_conn *c)
{
	if (c->get == NULL)
		return;
	rp_net_cancel(c->get);
	let_go(c);
}
