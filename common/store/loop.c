/* The loop of a job: which connection brings which pieces, and what workers report. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/progress.h"
#include "store/job.h"

static const double SPLIT_SECONDS = 0.25; /* less is over before another connection has begun */

enum { RUN_SECONDS = 3, MAX_RUN_BYTES = 64 << 20, FIRST_BYTES = 1 << 20, LEAST_BYTES = 512 << 10, TELLING_BYTES = 64 << 10,
	TICK_MS = 100, SLOW_SECONDS = 4, FAST_CONNECTIONS = 2, SMOOTH_BYTES = 8 << 20,
	WAITING_BYTES = 128 << 10, FAR_PIECES = 64 };

/* ---- choosing ---- */

static double best_rate(const rp_job *job)
{
	double best = 1;
	for (size_t i = 0; i < job->n_origins; i++)
		if (!job->origins[i]->dead && job->origins[i]->rate > best)
			best = job->origins[i]->rate;
	return best;
}

/* The one source that an item is restricted to; NULL: any will do, also because that one is gone. */
static const rp_origin *only_source(const rp_item *item)
{
	for (size_t i = 0; i < item->n_places; i++)
		if (item->places[i].origin == item->only && rp_place_alive(&item->places[i]))
			return item->only;
	return NULL;
}

/* The source that promises most for one more connection; NULL: none may be asked now. */
static rp_place *best_place(const rp_job *job, const rp_item *item, uint64_t now)
{
	rp_place *best = NULL;
	double best_score = 0, most = best_rate(job);
	const rp_origin *only = only_source(item);
	for (size_t i = 0; i < item->n_places; i++) {
		rp_place *p = &item->places[i];
		const rp_origin *o = p->origin;
		if (!rp_place_alive(p) || (only != NULL && o != only) || now < o->wait_ns || (p->no_ranges && p->streaming))
			continue;
		/* where bytes wait for us, more connections only spoil the caches */
		if (job->behind > 0.5 && o->active >= FAST_CONNECTIONS)
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
		if (rp_place_alive(&item->places[i]))
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
	if (job->behind > 0.5 && item->so_far.sha != NULL) /* pieces in their order need not be read back for the whole hash */
		return 1;
	uint64_t size = rp_job_piece_size(item, piece), bytes = (uint64_t)(place->origin->rate * RUN_SECONDS);
	size_t most = (size_t)((bytes < MAX_RUN_BYTES ? bytes : MAX_RUN_BYTES) / size), share = (item->n_pieces - item->n_done) / (2 * job->n_conns);
	size_t run = most < share ? most : share;
	return run > 0 ? run : 1;
}

/* The network waits for us anyway: better for the hash of the whole, which then has the piece in memory, than for the disk. */
static bool hash_lags(const rp_job *job, const rp_item *item, size_t piece)
{
	const rp_whole *w = &item->so_far;
	return w->sha != NULL && job->behind > 0.5 && piece > w->next + RP_JOB_HELD && piece < w->next + FAR_PIECES;
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
		if (at == n || hash_lags(job, item, at))
			return false;
		*piece = at;
		size_t most = run_length(job, item, place, at);
		for (*end = at + 1; *end < n && *end - at < most && is_free(job, item, *end) && rp_open_of(job, item, *end) == NULL;)
			++*end;
		return true;
	}
	for (at = n; at > item->low && !is_free(job, item, at - 1);)
		at--;
	if (at == item->low)
		return false;
	*end = at;
	size_t most = run_length(job, item, place, at - 1);
	for (*piece = at - 1; *piece > item->low && *end - *piece < most && is_free(job, item, *piece - 1) && rp_open_of(job, item, *piece - 1) == NULL;)
		--*piece;
	return true;
}

/* Of a piece that would take long, ask only for a part: the end comes sooner where all connections have something to do. */
static void limit(rp_open *open, const rp_origin *origin)
{
	double bytes = origin->rate > 0 ? origin->rate * RUN_SECONDS : FIRST_BYTES;
	if (bytes < LEAST_BYTES)
		bytes = LEAST_BYTES;
	if (bytes < MAX_RUN_BYTES)
		rp_open_split(open, rp_open_gap(open, NULL), (uint64_t)bytes);
}

static bool start_on(rp_job *job, rp_conn *c, rp_item *item, uint64_t now)
{
	rp_place *place = best_place(job, item, now);
	size_t piece, end;
	rp_error error;
	if (place == NULL)
		return false;
	rp_open *open = place->no_ranges ? NULL : rp_open_waiting(job, item, place->origin);
	if (open != NULL)
		end = open->piece + 1;
	else if (!rp_open_room(job) || !find_run(job, item, place, &piece, &end) ||
		(open = rp_open_begin(job, item, piece, place->origin)) == NULL)
		return false;
	if (!place->no_ranges)
		limit(open, place->origin);
	if (rp_conn_start(c, place, open, end, &error) != RP_OK) {
		rp_place_drop(job, place, &error);
		return false;
	}
	return true;
}

static bool start(rp_job *job, rp_conn *c, uint64_t now)
{
	bool backwards = !job->items[0]->part.first;
	for (size_t k = 0; k < job->n_items; k++) {
		rp_item *item = job->items[backwards ? job->n_items - 1 - k : k];
		if (item->n_done < item->n_pieces && start_on(job, c, item, now))
			return true;
	}
	return false;
}

/* ---- relief: nothing is missing that nobody brings, and a connection is idle ---- */

/* Bytes a second of this exchange; before it says much: of its source, or of the other exchanges. 0: nothing is known. */
static double rate_of(const rp_job *job, const rp_conn *c, uint64_t now)
{
	const rp_conn *from = c->bytes >= TELLING_BYTES ? c : &job->conns[0], *to = c->bytes >= TELLING_BYTES ? c + 1 : &job->conns[job->n_conns];
	double sum = 0;
	unsigned n = 0;
	if (from != c && c->place->origin->rate > 0)
		return c->place->origin->rate;
	for (; from < to; from++) {
		if (from->get == NULL || from->bytes == 0)
			continue;
		sum += (double)from->bytes / ((double)(now - from->start_ns) / 1e9 + 1e-3);
		n++;
	}
	return n > 0 ? sum / n : 0;
}

/* For the piece it is at; 0: not known. */
static double seconds_left(const rp_job *job, const rp_conn *c, uint64_t now)
{
	const rp_gap *gap = c->open != NULL ? rp_open_gap(c->open, c) : NULL;
	double rate = rate_of(job, c, now);
	return gap != NULL && rate > 0 ? (double)(gap->end - gap->at) / rate : 0;
}

static bool is_steady(const rp_conn *c)
{
	return c->get != NULL && !c->stream;
}

/* The pieces of its run from this one on are for others. */
static void shorten(rp_conn *c, size_t end)
{
	for (size_t i = end; i < c->end; i++)
		c->item->state[i] = RP_PIECE_MISSING;
	if (end < c->item->low)
		c->item->low = end;
	c->end = end;
}

/* The second half of the longest run. */
static bool share_run(rp_job *job, uint64_t now)
{
	rp_conn *longest = NULL;
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		if (is_steady(c) && c->end - c->piece >= 2 && (longest == NULL || c->end - c->piece > longest->end - longest->piece) &&
			best_place(job, c->item, now) != NULL)
			longest = c;
	}
	if (longest == NULL || !rp_open_room(job))
		return false;
	shorten(longest, longest->piece + (longest->end - longest->piece + 1) / 2);
	return true;
}

/* A part of what is left of the piece that takes longest, so that both parts come at the same time. */
static bool share_piece(rp_job *job, uint64_t now)
{
	rp_conn *slowest = NULL;
	double most = SPLIT_SECONDS;
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		double seconds = is_steady(c) ? seconds_left(job, c, now) : 0;
		const rp_place *other = seconds > most ? best_place(job, c->item, now) : NULL;
		if (other == NULL || other->no_ranges || !rp_open_fits(c->open, other->origin))
			continue;
		most = seconds;
		slowest = c;
	}
	if (slowest == NULL)
		return false;
	rp_gap *gap = rp_open_gap(slowest->open, slowest);
	double left = (double)(gap->end - gap->at), rate = left / most, other = slowest->place->origin->rate;
	if (!rp_open_split(slowest->open, gap, (uint64_t)(left * rate / (rate + (other > 0 ? other : rate)))))
		return false;
	shorten(slowest, slowest->piece + 1);
	return true;
}

/* Far slower than its source or another is for others, or silent for long. */
static bool gets_on_badly(const rp_conn *c, const rp_origin *other, uint64_t now)
{
	const rp_origin *own = c->place->origin;
	const rp_gap *gap = rp_open_gap(c->open, c);
	double age = (double)(now - c->start_ns) / 1e9, silence = (double)(now - c->heard_ns) / 1e9, rate = ((double)c->bytes + 1) / age;
	double patience = other == own ? 1 : SLOW_SECONDS;
	if (other == own && own->rate > 0 && silence > (double)(1u << (own->silences < 5 ? own->silences : 5)))
		return true;
	return age > patience && (double)(gap->end - gap->at) / rate > patience && other->rate > 4 * rate;
}

/* All of one that does not get on. */
static bool replace(rp_job *job, uint64_t now)
{
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		const rp_place *other = is_steady(c) && c->open != NULL ? best_place(job, c->item, now) : NULL;
		if (other == NULL || other->no_ranges || !gets_on_badly(c, other->origin, now))
			continue;
		if (other->origin == c->place->origin)
			other->origin->silences++; /* it is not tried over and over where a silence is no accident */
		else
			c->place->origin->rate = ((double)c->bytes + 1) / ((double)(now - c->start_ns) / 1e9);
		rp_conn_drop(c);
		return true;
	}
	return false;
}

static bool relieve(rp_job *job, uint64_t now)
{
	return share_run(job, now) || share_piece(job, now) || replace(job, now);
}

static void assign(rp_job *job)
{
	uint64_t now = rp_now_ns();
	for (unsigned i = 0; i < job->n_conns; i++) {
		rp_conn *c = &job->conns[i];
		if (c->get == NULL && !start(job, c, now) && !(relieve(job, now) && start(job, c, now)))
			return;
	}
}

/* ---- what workers report ---- */

static void blame(rp_job *job, rp_origin *o, const char *why)
{
	rp_error error;
	if (o->dead)
		return;
	rp_fail(&error, RP_HASH, "%s sent wrong bytes: %s", o->shown, why);
	if (++o->lies >= RP_JOB_MAX_LIES)
		rp_origin_drop(job, o, &error);
	else
		rp_job_note(job, "%s", error.msg);
}

static void piece_wrong(rp_job *job, const rp_task *t)
{
	t->item->state[t->piece] = RP_PIECE_MISSING;
	if (t->piece < t->item->low)
		t->item->low = t->piece;
	if (t->origin != NULL) {
		blame(job, t->origin, t->error.msg);
		return;
	}
	t->item->alone[t->piece] = 1;
	job->suspects[job->n_suspects++ % RP_JOB_SUSPECTS] = (rp_suspects){t->item, t->piece, {t->mixed[0], t->mixed[1]}};
	rp_job_note(job, "%s: a piece of two sources does not fit together; it is fetched again from one", t->item->part.name);
}

/* One of two brought alone what was wrong when both did: it was the other. */
static void name_liar(rp_job *job, const rp_task *t)
{
	for (size_t i = 0; i < RP_JOB_SUSPECTS; i++) {
		rp_suspects *s = &job->suspects[i];
		if (s->item != t->item || s->piece != t->piece)
			continue;
		if (s->origins[0] == t->origin || s->origins[1] == t->origin)
			blame(job, s->origins[s->origins[0] == t->origin], "a piece that it sent a part of was wrong, and right without it");
		s->item = NULL;
	}
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
		if (item->alone[t->piece])
			name_liar(job, t);
	}
}

static void take_results(rp_job *job)
{
	for (rp_task *t; (t = rp_work_take(job)) != NULL; free(t)) {
		if (t->kind == RP_TASK_WHOLE) {
			rp_whole_done(job, t);
			continue;
		}
		if (t->kind == RP_TASK_PIECE) {
			if (t->code != RP_OK || t->origin == NULL || !rp_whole_hold(job, t->item, t->piece, t->buffer))
				rp_buffer_put(job, t->buffer);
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
			rp_fetch_event e = {.kind = RP_FETCH_FILE, .text = t->item->part.path, .check = rp_item_checked(t->item)};
			if (job->o->event != NULL)
				job->o->event(job->o->user, &e);
		} else if (t->code != RP_HASH || !rp_item_again(job, t->item, &t->error)) {
			rp_job_fail(job, &t->error);
		}
	}
	for (unsigned i = 0; i < job->n_conns && rp_open_room(job); i++)
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
		if (!rp_whole_step(job, item) || item->n_done < item->n_pieces || item->publishing)
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

static rp_code receive(rp_job *job, rp_error *err)
{
	uint64_t before = job->received, active = 0;
	for (size_t i = 0; i < job->n_origins; i++)
		active += job->origins[i]->active;
	rp_code rc = rp_net_poll(job->net, wait_ms(job), err);
	double got = (double)(job->received - before), weight = got / (got + SMOOTH_BYTES);
	job->behind += weight * ((got >= (double)(active * WAITING_BYTES)) - job->behind);
	return rc;
}

static rp_code step(rp_job *job, rp_error *err)
{
	assign(job);
	check_hope(job);
	rp_job_progress(job, false);
	if (job->code != RP_OK)
		return job->code;
	if (job->net != NULL)
		return receive(job, err);
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
	if (job->max_buffers > RP_JOB_MAX_BUFFERS)
		job->max_buffers = RP_JOB_MAX_BUFFERS;
	job->n_conns = job->o->connections < RP_JOB_MAX_CONNECTIONS ? job->o->connections : RP_JOB_MAX_CONNECTIONS;
	for (unsigned i = 0; i < job->n_conns; i++)
		job->conns[i].job = job;
	for (size_t i = 0; i < job->n_items && rc == RP_OK; i++)
		rc = rp_whole_begin(job->items[i], err);
	if (rc == RP_OK)
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
	for (size_t i = 0; i < RP_JOB_MAX_BUFFERS; i++)
		if (job->open[i].item != NULL)
			rp_open_drop(job, &job->open[i]);
	rp_job_progress(job, true);
	if (job->code != RP_OK && err != NULL)
		*err = local;
	return job->code;
}
