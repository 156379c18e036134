/* One connection of a job: part of a piece or a run of pieces of one file from one place, into buffers, and what its end means. */
#include <stdlib.h>
#include <string.h>

#include "store/job.h"

enum { USEFUL_BYTES = 64 << 10, MAX_EXPIRED = 6, BASE_WAIT_MS = 500, MAX_WAIT_MS = 30000, MAX_ASKED_MS = 300000, MAX_UNANSWERED = 2,
	TRY_OTHER = 16, SLOW_RATE = 2 << 20 };

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
	size_t next = c->piece + (c->open != NULL);
	rp_open_leave(c->job, c, !c->stream);
	for (size_t i = next; !c->stream && i < c->end; i++) {
		if (item->state[i] != RP_PIECE_TAKEN)
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
	c->piece = 0;
	c->first = 0;
	c->last = c->item->size - 1;
	c->end = c->item->n_pieces;
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
static bool hand_over(rp_job *job, rp_open *open)
{
	rp_task t = {.kind = RP_TASK_PIECE, .item = open->item, .piece = open->piece, .buffer = open->buffer,
		.size = rp_job_piece_size(open->item, open->piece), .origin = open->other != NULL ? NULL : open->origin, .mixed = {open->origin, open->other},
		.past_cache = job->behind > 0.5};
	bool ok = rp_work_put(job, &t) == RP_OK;
	open->item->state[open->piece] = ok ? RP_PIECE_HASHING : RP_PIECE_MISSING;
	if (ok)
		open->buffer = NULL;
	rp_open_drop(job, open);
	return ok;
}

/* Its bytes begin. False: they have to wait for a buffer. */
static bool begin_piece(rp_conn *c)
{
	c->skipping = c->stream && c->item->state[c->piece] != RP_PIECE_MISSING;
	c->skipped = 0;
	if (c->skipping)
		return true;
	c->open = rp_open_begin(c->job, c->item, c->piece, c->place->origin);
	if (c->open == NULL)
		return false;
	c->open->gaps[0].conn = c;
	c->item->state[c->piece] = RP_PIECE_TAKEN;
	return true;
}

static size_t skip(rp_conn *c, size_t n)
{
	uint64_t left = rp_job_piece_size(c->item, c->piece) - c->skipped;
	size_t take = n < left ? n : (size_t)left;
	c->skipped += take;
	if (take == left) {
		c->skipping = false;
		c->piece++;
	}
	return take;
}

/* Bytes of the piece. RP_NET_STOP: no memory. */
static size_t take(rp_conn *c, const unsigned char *data, size_t n)
{
	rp_open *open = c->open;
	rp_gap *gap = rp_open_gap(open, c);
	uint64_t left = gap->end - gap->at, size = rp_job_piece_size(c->item, c->piece);
	size_t taken = n < left ? n : (size_t)left;
	memcpy(open->buffer->data + gap->at, data, taken);
	if (open->missing == size)
		open->origin = c->place->origin;
	if (open->origin != c->place->origin)
		open->other = c->place->origin;
	open->missing -= taken;
	gap->at += taken;
	if (taken < left)
		return taken;
	*gap = open->gaps[--open->n_gaps];
	c->open = NULL;
	c->piece++;
	if (open->missing > 0) {
		rp_open_settle(c->job, open, true);
		return taken;
	}
	c->kept++;
	return hand_over(c->job, open) ? taken : RP_NET_STOP;
}

static size_t on_body(void *user, const unsigned char *data, size_t n)
{
	rp_conn *c = user;
	size_t used = 0;
	c->heard_ns = rp_now_ns();
	while (used < n) {
		if (c->piece >= c->end) /* the rest was given to another connection */
			return RP_NET_STOP;
		if (c->open == NULL && !c->skipping && !begin_piece(c))
			return used;
		size_t some = c->skipping ? skip(c, n - used) : take(c, data + used, n - used);
		if (some == RP_NET_STOP)
			return some;
		used += some;
		c->bytes += some;
		c->job->received += some;
	}
	return c->piece >= c->end && c->first + c->bytes <= c->last ? RP_NET_STOP : used;
}

/* ---- the end ---- */

static void let_go(rp_conn *c)
{
	c->get = NULL;
	c->place->origin->active--;
	if (c->stream)
		c->place->streaming = false;
	release(c);
}

static void smooth(double *mean, double rate)
{
	*mean = *mean > 0 ? 0.6 * *mean + 0.4 * rate : rate;
}

static void measure(const rp_conn *c, bool fresh)
{
	rp_origin *o = c->place->origin;
	double seconds = (double)(rp_now_ns() - c->start_ns) / 1e9;
	if (c->bytes < USEFUL_BYTES || seconds <= 0)
		return;
	smooth(&o->rate, (double)c->bytes / seconds);
	smooth(fresh ? &o->fresh_rate : &o->reused_rate, (double)c->bytes / seconds);
}

/* Where packets are lost by chance, the window of a connection only shrinks, and a new one is faster, the time to make it included.
 * Now and then the other way is tried. */
static bool wants_fresh(rp_origin *o)
{
	bool fresh = o->fresh_rate > 1.2 * o->reused_rate;
	if (o->reused_rate == 0 || o->rate > SLOW_RATE)
		return false;
	return o->asked++ % TRY_OTHER == TRY_OTHER - 1 ? !fresh : fresh;
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
		error.code = rp_fail(&error, RP_NETWORK, "the server ended the answer after %llu of %llu bytes", (unsigned long long)c->bytes,
			(unsigned long long)(c->last - c->first + 1));
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
	measure(c, o->fresh);
	let_go(c);
	if (complete)
		c->place->expired = c->place->origin->silences = 0;
	else
		judge(c, o);
}

static const rp_net_handler handler = {.head = on_head, .body = on_body, .done = on_done};

rp_code rp_conn_start(rp_conn *c, rp_place *place, rp_open *open, size_t end, rp_error *err)
{
	rp_job *job = c->job;
	rp_item *item = open->item;
	rp_gap *gap = rp_open_gap(open, NULL);
	size_t piece = open->piece;
	uint64_t size = rp_job_piece_size(item, piece), offset = rp_job_piece_offset(item, piece);
	*c = (rp_conn){.job = job, .item = item, .place = place, .piece = piece, .end = end, .open = open, .start_ns = rp_now_ns()};
	c->heard_ns = c->start_ns;
	c->first = offset + gap->at;
	c->last = offset + gap->end - 1;
	if (gap->end == size)
		c->last = rp_job_piece_offset(item, end - 1) + rp_job_piece_size(item, end - 1) - 1;
	else
		c->end = piece + 1;
	rp_net_request r = {.url = place->resolved != NULL ? place->resolved : place->url, .home = place->secrets ? place->url : NULL,
		.first = place->no_ranges ? RP_NET_UNKNOWN : c->first,
		.last = c->last, .fresh = wants_fresh(place->origin), .handler = &handler, .user = c};
	rp_code rc = rp_net_start(job->net, &r, &c->get, err);
	if (rc != RP_OK) {
		c->get = NULL;
		c->open = NULL;
		return rc;
	}
	gap->conn = c;
	for (size_t i = piece; i < c->end; i++)
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
