/* The loop of a job: which connection brings which pieces, and what workers report. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/progress.h"
#include "store/job.h"

enum { RUN_SECONDS = 3, MAX_RUN_BYTES = 64 << 20, TICK_MS = 100, SLOW_SECONDS = 4, MAX_LIES = 2,
	FAST_RATE = 200 << 20, FAST_CONNECTIONS = 2 };

/* ---- choosing ---- */

static double best_rate(const rp_job *job)
{
	double best = 1;
	for (size_t i = 0; i < job->n_origins; i++)
		if (!job->origins[i]->dead && job->origins[i]->rate > best)
			best = job->origins[i]->rate;
	return best;
}

/* The source that promises most for one more connection; NULL: none may be asked now. */
static rp_place *best_place(const rp_job *job, const rp_item *item, uint64_t now)
{
	rp_place *best = NULL;
	double best_score = 0, most = best_rate(job);
	for (size_t i = 0; i < item->n_places; i++) {
		rp_place *p = &item->places[i];
		const rp_origin *o = p->origin;
		if (p->dead || o->dead || now < o->wait_ns || (p->no_ranges && p->streaming))
			continue;
		/* where memory is the limit, more connections only spoil the caches */
		if (job->rate > FAST_RATE && o->active >= FAST_CONNECTIONS)
			continue;
		double score = (o->rate > 0 ? o->rate : most) / (1 + o->active) / (1 + o->lies);
		if (best == NULL || score > best_score) {
			best = p;
			best_score = score;
		}
	}
	return best;
}

static bool is_hopeless(const rp_item *item)
{
	for (size_t i = 0; i < item->n_places; i++)
		if (!item->places[i].dead && !item->places[i].origin->dead)
			return false;
	return true;
}

/* Not taken, and not brought by another process meanwhile. */
static bool is_free(rp_job *job, rp_item *item, size_t piece)
{
	return item->state[piece] == RP_PIECE_MISSING && !rp_job_look(job, item, piece, NULL);
}

static size_t run_length(const rp_job *job, const rp_item *item, const rp_place *place, size_t piece)
{
	uint64_t size = rp_job_piece_size(item, piece), bytes = (uint64_t)(place->origin->rate * RUN_SECONDS);
	size_t most = (size_t)((bytes < MAX_RUN_BYTES ? bytes : MAX_RUN_BYTES) / size), share = (item->n_pieces - item->n_done) / (2 * job->n_conns);
	size_t run = most < share ? most : share;
	return run > 0 ? run : 1;
}

static rp_stub *stub_of(rp_job *job, const rp_item *item, const rp_place *place)
{
	for (size_t i = 0; i < job->n_stubs; i++) {
		rp_stub *s = &job->stubs[i];
		/* bytes of two sources in one piece are for files whose pieces can be checked */
		if (s->item == item && item->state[s->piece] == RP_PIECE_MISSING && (item->pieces != NULL || s->origin == place->origin))
			return s;
	}
	return NULL;
}

static bool has_stub(const rp_job *job, const rp_item *item, size_t piece)
{
	for (size_t i = 0; i < job->n_stubs; i++)
		if (job->stubs[i].item == item && job->stubs[i].piece == piece)
			return true;
	return false;
}

/* Missing pieces for one request; false: none. From the front; from the back when another process works at the front. */
static bool find_run(rp_job *job, rp_item *item, const rp_place *place, size_t *piece, size_t *end)
{
	size_t n = item->n_pieces, at;
	while (item->low < n && item->state[item->low] != RP_PIECE_MISSING)
		item->low++;
	if (item->part.first || place->no_ranges) {
		for (at = item->low; at < n && !is_free(job, item, at);)
			at++;
		if (at == n)
			return false;
		*piece = at;
		size_t most = run_length(job, item, place, at);
		for (*end = at + 1; *end < n && *end - at < most && is_free(job, item, *end) && !has_stub(job, item, *end);)
			++*end;
		return true;
	}
	for (at = n; at > item->low && !is_free(job, item, at - 1);)
		at--;
	if (at == item->low)
		return false;
	*end = at;
	size_t most = run_length(job, item, place, at - 1);
	for (*piece = at - 1; *piece > item->low && *end - *piece < most && is_free(job, item, *piece - 1) && !has_stub(job, item, *piece - 1);)
		--*piece;
	return true;
}

static bool start_on(rp_job *job, rp_conn *c, rp_item *item, uint64_t now)
{
	rp_place *place = best_place(job, item, now);
	size_t piece, end;
	rp_error error;
	if (place == NULL)
		return false;
	rp_stub *stub = place->no_ranges ? NULL : stub_of(job, item, place);
	if (stub != NULL) {
		piece = stub->piece;
		end = piece + 1;
	} else if (!find_run(job, item, place, &piece, &end)) {
		return false;
	}
	if (rp_conn_start(c, item, place, piece, end, stub, &error) != RP_OK) {
		rp_place_drop(job, place, &error);
		return false;
	}
	return true;
}

/* Nothing is missing that nobody brings: take the second half of the longest run, or all of one that is far too slow. */
static bool relieve(rp_job *job, uint64_t now)
{
	rp_conn *longest = NULL;
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		if (c->get == NULL || c->stream || best_place(job, c->item, now) == NULL)
			continue;
		if (c->end - c->piece >= 2 && (longest == NULL || c->end - c->piece > longest->end - longest->piece))
			longest = c;
	}
	if (longest != NULL) {
		size_t half = longest->piece + (longest->end - longest->piece + 1) / 2;
		for (size_t i = half; i < longest->end; i++)
			longest->item->state[i] = RP_PIECE_MISSING;
		if (half < longest->item->low)
			longest->item->low = half;
		longest->end = half;
		return true;
	}
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		if (c->get == NULL || c->stream || now - c->start_ns < SLOW_SECONDS * 1000000000ull)
			continue;
		const rp_place *other = best_place(job, c->item, now);
		double seconds = (double)(now - c->start_ns) / 1e9, left = (double)(rp_job_piece_size(c->item, c->piece) - c->have);
		double rate = (double)c->bytes / seconds + 1;
		if (other == NULL || other->origin == c->place->origin || left / rate < SLOW_SECONDS || other->origin->rate < 4 * rate)
			continue;
		c->place->origin->rate = rate;
		rp_conn_drop(c);
		return true;
	}
	return false;
}

static void assign(rp_job *job)
{
	uint64_t now = rp_now_ns();
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		if (c->get != NULL)
			continue;
		bool started = false, backwards = !job->items[0]->part.first;
		for (size_t k = 0; k < job->n_items && !started; k++) {
			rp_item *item = job->items[backwards ? job->n_items - 1 - k : k];
			started = item->n_done < item->n_pieces && start_on(job, c, item, now);
		}
		if (!started && !relieve(job, now))
			return;
	}
}

/* ---- what workers report ---- */

static void piece_wrong(rp_job *job, const rp_task *t)
{
	t->item->state[t->piece] = RP_PIECE_MISSING;
	if (t->piece < t->item->low)
		t->item->low = t->piece;
	if (t->origin == NULL) {
		rp_job_note(job, "%s: a piece of two connections does not fit together; it is fetched again", t->item->part.name);
		return;
	}
	rp_error error;
	rp_fail(&error, RP_HASH, "%s sent wrong bytes: %s", t->origin->shown, t->error.msg);
	if (++t->origin->lies >= MAX_LIES)
		rp_origin_drop(job, t->origin, &error);
	else
		rp_job_note(job, "%s; the piece is fetched again", error.msg);
}

static void piece_right(rp_job *job, const rp_task *t)
{
	rp_item *item = t->item;
	if (item->found != NULL) {
		memcpy(item->found[t->piece], t->hash, RP_HASH_BYTES);
		item->from[t->piece] = t->origin;
	}
	rp_job_piece_done(job, item, t->piece);
	if (t->origin != NULL) {
		t->origin->bytes += t->size;
		t->origin->fails = 0;
	}
}

static void take_results(rp_job *job)
{
	bool freed = false;
	for (rp_task *t; (t = rp_work_take(job)) != NULL; free(t)) {
		if (t->kind == RP_TASK_PIECE) {
			rp_buffer_put(job, t->buffer);
			freed = true;
			if (t->code == RP_OK)
				piece_right(job, t);
			else if (t->code == RP_HASH)
				piece_wrong(job, t);
			else
				rp_job_fail(job, &t->error);
			continue;
		}
		if (t->code == RP_OK) {
			t->item->published = true;
			rp_fetch_event e = {.kind = RP_FETCH_FILE, .text = t->item->part.path};
			if (job->o->event != NULL)
				job->o->event(job->o->user, &e);
		} else {
			rp_job_fail(job, &t->error);
		}
	}
	for (unsigned i = 0; freed && i < job->n_conns; i++)
		if (job->conns[i].get != NULL)
			rp_net_resume(job->conns[i].get);
}

/* True when all files have their names. */
static bool publish(rp_job *job)
{
	bool all = true;
	for (size_t i = 0; i < job->n_items; i++) {
		rp_item *item = job->items[i];
		all &= item->published;
		if (item->n_done < item->n_pieces || item->publishing)
			continue;
		item->publishing = true;
		if (rp_work_put(job, &(rp_task){.kind = RP_TASK_PUBLISH, .item = item}) != RP_OK)
			rp_job_fail(job, &(rp_error){.code = RP_NO_MEMORY, .msg = "out of memory while publishing a file"});
	}
	return all;
}

/* A file that no source can bring: say what the last one said. */
static void check_hope(rp_job *job)
{
	for (size_t i = 0; i < job->n_items; i++) {
		rp_item *item = job->items[i];
		if (item->n_done == item->n_pieces || !is_hopeless(item))
			continue;
		rp_error error;
		if (item->n_places == 0 || job->net == NULL) {
			error.code = rp_fail(&error, job->o->offline ? RP_OFFLINE : RP_NETWORK, "%s: %zu of %zu pieces are missing and %s", item->part.path,
				item->n_pieces - item->n_done, item->n_pieces, job->o->offline ? "--offline forbids to fetch them" : "there is no source for them");
		} else {
			error = item->places[0].origin->error;
			for (size_t k = 1; k < item->n_places; k++) /* a lie says more than a silence */
				if (item->places[k].origin->error.code == RP_HASH)
					error = item->places[k].origin->error;
			char *url = rp_net_shown(item->places[0].url);
			rp_error_prefix(&error, error.code, "%s: ", url != NULL ? url : item->part.path);
			free(url);
		}
		rp_job_fail(job, &error);
		return;
	}
}

static int wait_ms(const rp_job *job)
{
	uint64_t now = rp_now_ns(), least = TICK_MS * 1000000ull;
	for (size_t i = 0; i < job->n_origins; i++) {
		uint64_t until = job->origins[i]->wait_ns;
		if (until > now && until - now < least)
			least = until - now;
	}
	return (int)(least / 1000000) + 1;
}

static rp_code step(rp_job *job, rp_error *err)
{
	assign(job);
	check_hope(job);
	rp_job_progress(job, false);
	if (job->code != RP_OK)
		return job->code;
	if (job->net != NULL)
		return rp_net_poll(job->net, wait_ms(job), err);
	struct timespec tick = {0, 5000000};
	nanosleep(&tick, NULL);
	return RP_OK;
}

/* Room for everything, before anything is fetched. All files of a job go to one folder. */
static rp_code make_room(rp_job *job, rp_error *err)
{
	uint64_t wanted = 0, room = 0;
	char a[32], b[32];
	rp_code rc = RP_OK;
	for (size_t i = 0; i < job->n_items && rc == RP_OK; i++) {
		uint64_t one = 0;
		if (job->items[i]->partly)
			continue;
		rc = rp_part_room(&job->items[i]->part, &one, &room, err);
		wanted += one;
	}
	if (rc == RP_OK && job->o->dry_run && job->o->event != NULL)
		job->o->event(job->o->user, &(rp_fetch_event){.kind = RP_FETCH_PLAN, .total = job->total, .verified = job->verified, .room = room});
	if (rc == RP_OK && wanted > room)
		rc = rp_fail(err, RP_DISK_FULL, "%s: %s more are needed there and %s are free", job->items[0]->part.path, rp_size_text(a, sizeof a, wanted),
			rp_size_text(b, sizeof b, room));
	for (size_t i = 0; i < job->n_items && rc == RP_OK && !job->o->dry_run; i++)
		if (job->items[i]->n_done < job->items[i]->n_pieces && !job->items[i]->partly)
			rc = rp_part_reserve(&job->items[i]->part, err);
	return rc;
}

rp_code rp_job_run(rp_job *job, rp_error *err)
{
	rp_error local = {0};
	job->err = &local;
	job->start_ns = rp_now_ns();
	if (job->n_items == 0) {
		if (job->o->dry_run && job->o->event != NULL)
			job->o->event(job->o->user, &(rp_fetch_event){.kind = RP_FETCH_PLAN, .total = job->total, .verified = job->verified});
		return RP_OK;
	}
	rp_code rc = make_room(job, err);
	if (rc != RP_OK || job->o->dry_run)
		return rc;
	job->max_buffers = job->buffer_bytes > 0 ? RP_JOB_POOL_BYTES / job->buffer_bytes : 1;
	if (job->max_buffers > 2 * RP_JOB_MAX_CONNECTIONS)
		job->max_buffers = 2 * RP_JOB_MAX_CONNECTIONS;
	job->n_conns = job->max_buffers > 3 ? (unsigned)job->max_buffers - 2 : 1;
	if (job->n_conns > job->o->connections)
		job->n_conns = job->o->connections;
	for (unsigned i = 0; i < job->n_conns; i++)
		job->conns[i].job = job;
	rc = rp_work_start(job, err);
	if (rc != RP_OK)
		return rc;
	while (job->code == RP_OK) {
		take_results(job);
		if (publish(job))
			break;
		if (job->o->cancel != NULL && atomic_load(job->o->cancel))
			rp_job_fail(job, &(rp_error){.code = RP_CANCELLED, .msg = "stopped by a signal; what was verified is kept for the next time"});
		else if ((rc = step(job, &local)) != RP_OK)
			rp_job_fail(job, &local);
	}
	for (unsigned i = 0; i < job->n_conns; i++)
		rp_conn_drop(&job->conns[i]);
	rp_work_stop(job);
	take_results(job);
	for (size_t i = 0; i < job->n_stubs; i++)
		rp_buffer_put(job, job->stubs[i].buffer);
	job->n_stubs = 0;
	rp_job_progress(job, true);
	if (job->code != RP_OK && err != NULL)
		*err = local;
	return job->code;
}
