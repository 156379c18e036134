#include "store/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

uint64_t rp_job_piece_offset(const rp_item *item, size_t piece)
{
	return item->pieces != NULL ? item->pieces[piece].offset : (uint64_t)piece * RP_PIECE_BYTES;
}

uint64_t rp_job_piece_size(const rp_item *item, size_t piece)
{
	if (item->pieces != NULL)
		return item->pieces[piece].size;
	uint64_t left = item->size - (uint64_t)piece * RP_PIECE_BYTES;
	return left < RP_PIECE_BYTES ? left : RP_PIECE_BYTES;
}

/* ---- talk ---- */

static void tell(rp_job *job, const rp_fetch_event *e)
{
	if (job->o->event != NULL)
		job->o->event(job->o->user, e);
}

void rp_job_note(rp_job *job, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	tell(job, &(rp_fetch_event){.kind = RP_FETCH_NOTE, .text = text});
}

void rp_job_fail(rp_job *job, const rp_error *error)
{
	if (job->code != RP_OK)
		return;
	job->code = error->code;
	if (job->err != NULL)
		*job->err = *error;
}

void rp_job_progress(rp_job *job, bool force)
{
	uint64_t now = rp_now_ns();
	if (!force && now - job->told_ns < 100000000u)
		return;
	rp_fetch_event e = {.kind = RP_FETCH_PROGRESS, .total = job->total, .verified = job->verified, .received = job->received,
		.at_start = job->at_start};
	for (size_t i = 0; i < job->n_origins; i++) {
		e.sources += job->origins[i]->active > 0;
		e.connections += job->origins[i]->active;
	}
	/* smoothed over some seconds, so that the time left does not jump */
	double seconds = (double)(now - job->told_ns) / 1e9, weight = seconds / (seconds + 2);
	if (job->told_ns != 0)
		job->rate += weight * ((double)(job->received - job->told_received) / seconds - job->rate);
	if ((double)(now - job->start_ns) / 1e9 < 4 && now > job->start_ns)
		job->rate = (double)job->received / ((double)(now - job->start_ns) / 1e9);
	e.rate = job->rate;
	job->told_ns = now;
	job->told_received = job->received;
	tell(job, &e);
}

void rp_job_piece_done(rp_job *job, rp_item *item, size_t piece)
{
	if (item->state[piece] == RP_PIECE_DONE)
		return;
	item->state[piece] = RP_PIECE_DONE;
	item->n_done++;
	job->verified += rp_job_piece_size(item, piece);
}

/* ---- making and ending ---- */

rp_code rp_job_new(const rp_fetch_opts *o, rp_net *net, rp_job **out, rp_error *err)
{
	rp_job *job = rp_alloc(sizeof *job);
	if (job == NULL)
		return rp_no_memory(err, sizeof *job, "a transfer");
	job->o = o;
	job->net = net;
	pthread_mutex_init(&job->lock, NULL);
	pthread_cond_init(&job->wake, NULL);
	if (getrandom(&job->seed, sizeof job->seed, GRND_NONBLOCK) != (ssize_t)sizeof job->seed)
		job->seed = rp_now_ns() ^ (uint64_t)getpid() << 32;
	*out = job;
	return RP_OK;
}

static void free_item(rp_item *item)
{
	for (size_t i = 0; i < item->n_places; i++) {
		free(item->places[i].url);
		free(item->places[i].resolved);
	}
	free(item->places);
	free(item->found);
	free(item->from);
	free(item->state);
	rp_whole_free(item);
	free(item->alone);
	free(item->checks);
	pthread_mutex_destroy(&item->writing);
	if (!item->published)
		rp_part_discard_empty(&item->part);
	rp_part_close(&item->part);
	free(item);
}

void rp_job_free(rp_job *job)
{
	if (job == NULL)
		return;
	for (size_t i = 0; i < job->n_items; i++)
		free_item(job->items[i]);
	for (size_t i = 0; i < job->n_origins; i++) {
		free(job->origins[i]->shown);
		free(job->origins[i]);
	}
	for (rp_buffer *b = job->idle, *next; b != NULL; b = next) {
		next = b->next;
		free(b->data);
		free(b);
	}
	free(job->items);
	free(job->origins);
	pthread_cond_destroy(&job->wake);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

/* Room for one more pointer in an array of them. */
static bool grow(void ***array, size_t n, size_t *cap)
{
	if (n < *cap)
		return true;
	size_t more = *cap > 0 ? *cap * 2 : 8;
	void **grown = rp_grow_array(*array, more, sizeof *grown);
	if (grown == NULL)
		return false;
	*array = grown;
	*cap = more;
	return true;
}

/* ---- what is there already ---- */

static bool matches(const rp_item *item, size_t piece, const unsigned char hash[RP_HASH_BYTES])
{
	return item->pieces == NULL || memcmp(hash, item->pieces[piece].sha256, RP_HASH_BYTES) == 0;
}

bool rp_job_look(rp_job *job, rp_item *item, size_t piece, unsigned char *scratch)
{
	unsigned char hash[RP_HASH_BYTES], real[RP_HASH_BYTES];
	rp_record record = rp_part_lookup(&item->part, piece, hash);
	if (record == RP_RECORD_NONE || !matches(item, piece, hash))
		return false;
	if (record == RP_RECORD_UNSURE) {
		size_t n = (size_t)rp_job_piece_size(item, piece);
		if (scratch == NULL || rp_part_read(&item->part, rp_job_piece_offset(item, piece), scratch, n, NULL) != RP_OK)
			return false;
		rp_sha256_once(scratch, n, real);
		if (memcmp(real, hash, RP_HASH_BYTES) != 0) {
			rp_part_record(&item->part, piece, NULL, NULL);
			return false;
		}
		rp_part_record(&item->part, piece, hash, NULL);
	}
	if (item->found != NULL)
		memcpy(item->found[piece], hash, RP_HASH_BYTES);
	rp_job_piece_done(job, item, piece);
	return true;
}

static rp_code look_at_all(rp_job *job, rp_item *item, rp_error *err)
{
	unsigned char *scratch = malloc((size_t)job->buffer_bytes);
	if (scratch == NULL)
		return rp_no_memory(err, job->buffer_bytes, "a piece");
	uint64_t before = job->verified;
	for (size_t i = 0; i < item->n_pieces; i++)
		rp_job_look(job, item, i, scratch);
	job->at_start += job->verified - before;
	free(scratch);
	return RP_OK;
}

static rp_code make_item(rp_item *item, uint64_t size, const rp_piece *pieces, size_t n_pieces, const unsigned char *whole, rp_error *err)
{
	item->size = size;
	item->pieces = pieces;
	item->n_pieces = n_pieces;
	item->whole_known = whole != NULL;
	if (whole != NULL)
		memcpy(item->whole, whole, RP_HASH_BYTES);
	pthread_mutex_init(&item->writing, NULL);
	item->state = rp_alloc(n_pieces);
	item->alone = rp_alloc(n_pieces);
	if (pieces == NULL) {
		item->found = rp_alloc_array(n_pieces, sizeof *item->found);
		item->from = rp_alloc_array(n_pieces, sizeof *item->from);
	}
	if (item->state == NULL || item->alone == NULL || (pieces == NULL && (item->found == NULL || item->from == NULL)))
		return rp_no_memory(err, n_pieces * (RP_HASH_BYTES + 10), "the pieces of a file");
	return RP_OK;
}

rp_code rp_job_add(rp_job *job, int folder, const char *shown, const char *name, const void *key, size_t key_len, uint64_t size,
	const rp_piece *pieces, size_t n_known, const unsigned char *whole, rp_item **out, rp_error *err)
{
	uint64_t largest = RP_PIECE_BYTES, n = pieces != NULL ? n_known : size / RP_PIECE_BYTES + (size % RP_PIECE_BYTES != 0);
	if (n > (1u << 26))
		return rp_fail(err, RP_UNSUPPORTED, "%s: a size of %llu bytes is too large", name, (unsigned long long)size);
	if (size < largest)
		largest = size;
	for (size_t i = 0; pieces != NULL && i < n; i++)
		if (pieces[i].size > largest)
			largest = pieces[i].size;
	if (largest > RP_JOB_MAX_PIECE)
		return rp_fail(err, RP_UNSUPPORTED, "%s: has pieces of %llu bytes; this build fetches pieces of at most %d MiB", name,
			(unsigned long long)largest, RP_JOB_MAX_PIECE >> 20);
	if (largest > job->buffer_bytes)
		job->buffer_bytes = largest;
	rp_item *item = rp_alloc(sizeof *item);
	if (item == NULL || !grow((void ***)&job->items, job->n_items, &job->cap_items)) {
		free(item);
		return rp_no_memory(err, sizeof *item, "a file to fetch");
	}
	rp_code rc = make_item(item, size, pieces, (size_t)n, whole, err);
	if (rc == RP_OK)
		rc = rp_part_open(&item->part, folder, shown, name, key, key_len, size, (size_t)n, err);
	if (rc == RP_OK)
		rc = look_at_all(job, item, err);
	if (rc != RP_OK) {
		free_item(item);
		return rc;
	}
	job->items[job->n_items++] = item;
	job->total += size;
	*out = item;
	return RP_OK;
}

rp_code rp_job_add_repair(rp_job *job, int folder, const char *shown, const char *name, uint64_t size, const rp_piece *pieces, size_t n_pieces,
	rp_item **out, rp_error *err)
{
	static const unsigned char none[RP_HASH_BYTES];
	if (pieces == NULL)
		return rp_fail(err, RP_FORMAT, "%s: no pieces are listed", name);
	rp_item *item = rp_alloc(sizeof *item);
	if (item == NULL || !grow((void ***)&job->items, job->n_items, &job->cap_items)) {
		free(item);
		return rp_no_memory(err, sizeof *item, "a file to repair");
	}
	rp_code rc = make_item(item, size, pieces, n_pieces, NULL, err);
	if (rc == RP_OK)
		rc = rp_part_open_file(&item->part, folder, shown, name, size, n_pieces, err);
	if (rc != RP_OK) {
		free_item(item);
		return rc;
	}
	for (size_t i = 0; i < n_pieces; i++) {
		if (memcmp(pieces[i].sha256, none, sizeof none) == 0) {
			item->state[i] = RP_PIECE_DONE;
			item->n_done++;
			continue;
		}
		job->total += pieces[i].size;
		if (pieces[i].size > job->buffer_bytes)
			job->buffer_bytes = pieces[i].size;
	}
	job->items[job->n_items++] = item;
	*out = item;
	return RP_OK;
}

rp_code rp_job_want(rp_job *job, rp_item *item, const rp_range *ranges, size_t n, rp_error *err)
{
	uint8_t *wanted = rp_alloc(item->n_pieces);
	rp_code rc = wanted == NULL ? rp_no_memory(err, item->n_pieces, "ranges") : RP_OK;
	for (size_t i = 0; i < n && rc == RP_OK; i++) {
		uint64_t end = 0;
		if (!rp_add_u64(ranges[i].offset, ranges[i].size, &end) || end > item->size)
			rc = rp_fail(err, RP_USAGE, "--ranges: %llu bytes at %llu are not within the %llu of the file", (unsigned long long)ranges[i].size,
				(unsigned long long)ranges[i].offset, (unsigned long long)item->size);
		size_t lo = 0, hi = item->n_pieces; /* the first piece that ends after the range begins */
		while (rc == RP_OK && lo < hi) {
			size_t mid = lo + (hi - lo) / 2;
			if (rp_job_piece_offset(item, mid) + rp_job_piece_size(item, mid) > ranges[i].offset)
				hi = mid;
			else
				lo = mid + 1;
		}
		for (; rc == RP_OK && lo < item->n_pieces && rp_job_piece_offset(item, lo) < end; lo++)
			wanted[lo] = true;
	}
	for (size_t i = 0; i < item->n_pieces && rc == RP_OK; i++) {
		if (wanted[i] || item->state[i] == RP_PIECE_DONE)
			continue;
		item->state[i] = RP_PIECE_DONE;
		item->n_done++;
		item->partly = true;
		job->total -= rp_job_piece_size(item, i);
	}
	free(wanted);
	return rc;
}

void rp_job_count_present(rp_job *job, uint64_t bytes)
{
	job->total += bytes;
	job->verified += bytes;
	job->at_start += bytes;
}

/* The origin of a URL, made when it is new. */
static rp_origin *origin_of(rp_job *job, const char *url)
{
	char *shown = rp_net_origin(url);
	for (size_t i = 0; shown != NULL && i < job->n_origins; i++) {
		if (strcmp(job->origins[i]->shown, shown) == 0) {
			free(shown);
			return job->origins[i];
		}
	}
	rp_origin *o = shown != NULL ? rp_alloc(sizeof *o) : NULL;
	if (o == NULL || !grow((void ***)&job->origins, job->n_origins, &job->cap_origins)) {
		free(o);
		free(shown);
		return NULL;
	}
	o->shown = shown;
	job->origins[job->n_origins++] = o;
	return o;
}

rp_code rp_job_add_place(rp_job *job, rp_item *item, const char *url, bool secrets, rp_place **out, rp_error *err)
{
	rp_place *grown = rp_grow_array(item->places, item->n_places + 1, sizeof *grown);
	if (grown == NULL)
		return rp_no_memory(err, sizeof *grown, "a source");
	item->places = grown;
	rp_place *p = &grown[item->n_places];
	memset(p, 0, sizeof *p);
	p->origin = origin_of(job, url);
	p->url = rp_strdup(url);
	p->secrets = secrets;
	if (p->origin == NULL || p->url == NULL) {
		free(p->url);
		return rp_no_memory(err, 0, "a source");
	}
	item->n_places++;
	if (out != NULL)
		*out = p;
	return RP_OK;
}
