/* The threads of a scan. Each takes the next job; when there is none it reads the next block; when there is nothing to read
 * either it waits. */
#include "scan_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- jobs ---- */
static void push_job(scanner *s, job j, bool first)
{
	enum { RING = sizeof s->jobs / sizeof *s->jobs };
	if (first) {
		s->first_job = (s->first_job + RING - 1) % RING;
		s->jobs[s->first_job] = j;
	} else {
		s->jobs[(s->first_job + s->n_jobs) % RING] = j;
	}
	s->n_jobs++;
	pthread_cond_signal(&s->work);
}

static job pop_job(scanner *s)
{
	enum { RING = sizeof s->jobs / sizeof *s->jobs };
	job j = s->jobs[s->first_job];
	s->first_job = (s->first_job + 1) % RING;
	s->n_jobs--;
	return j;
}

static void finish_if_done(scanner *s, task *t)
{
	if (!t->all_read || t->in_flight > 0 || t->reading || t->done)
		return;
	while (t->strands != NULL) { /* ranges that go past the end */
		strand *dead = t->strands;
		t->strands = dead->next_of_file;
		rp_sha256_free(dead->sha);
		free(dead);
	}
	scan_finish(t);
	for (unsigned i = 0; i < s->n_active; i++)
		if (s->active[i] == t)
			s->active[i] = s->active[--s->n_active];
	if (t->f->standard_input)
		s->stdin_busy = false;
	s->n_done++;
	pthread_cond_broadcast(&s->work);
	pthread_cond_signal(&s->news);
}

static void release(scanner *s, block *b)
{
	task *t = b->task;
	b->task = NULL;
	b->ready = false;
	s->free_blocks[s->n_free++] = b;
	t->in_flight--;
	pthread_cond_signal(&s->work);
	finish_if_done(s, t);
}

static void unref(scanner *s, block *b)
{
	if (--b->refs == 0)
		release(s, b);
}

/* ---- strands ---- */
static bool overlaps(const strand *st, const block *b)
{
	return b->offset < st->range->offset + st->range->size && b->offset + b->n > st->next;
}

static void unlink_strand(task *t, const strand *st)
{
	strand **at = &t->strands;
	while (*at != st)
		at = &(*at)->next_of_file;
	*at = st->next_of_file;
}

/* The end of a strand: its hash may serve another. */
static void free_strand(scanner *s, task *t, strand *st)
{
	unlink_strand(t, st);
	if (s->n_spare < SCAN_BLOCKS)
		s->spare[s->n_spare++] = st->sha;
	else
		rp_sha256_free(st->sha);
	free(st);
}

/* A file that failed: what waits for bytes that never come lets its blocks go. Strands that are busy do it themselves later. */
static void kill_strand(scanner *s, task *t, strand *st)
{
	unsigned n = 0;
	block *held[SCAN_BLOCKS];
	for (unsigned i = 0; i < s->n_blocks; i++)
		if (s->blocks[i].task == t && s->blocks[i].ready && overlaps(st, &s->blocks[i]))
			held[n++] = &s->blocks[i];
	free_strand(s, t, st);
	t->in_flight++; /* keeps the task until all are let go */
	while (n > 0)
		unref(s, held[--n]);
	t->in_flight--;
	finish_if_done(s, t);
}

static void fail(scanner *s, task *t, rp_code code, int errnum)
{
	scan_fail(t, code, errnum);
	t->in_flight++;
	for (strand *st = t->strands, *next; st != NULL; st = next) {
		next = st->next_of_file;
		if (!st->busy)
			kill_strand(s, t, st);
	}
	t->in_flight--;
	finish_if_done(s, t);
}

static strand *find_strand(scanner *s, task *t, unsigned track, rp_scan_range *range)
{
	for (strand *st = t->strands; st != NULL; st = st->next_of_file)
		if (st->track == track && st->range == range)
			return st;
	strand *st = rp_alloc(sizeof *st);
	if (st == NULL)
		return NULL;
	*st = (strand){.next_of_file = t->strands, .track = track, .range = range, .next = range->offset};
	if (s->n_spare > 0) {
		st->sha = s->spare[--s->n_spare];
		rp_sha256_reset(st->sha);
	} else if (rp_sha256_new(&st->sha, NULL) != RP_OK) {
		free(st);
		return NULL;
	}
	t->strands = st;
	return st;
}

/* Hash block after block as long as they are there. */
static void run_strand(scanner *s, block *b, strand *st)
{
	task *t = b->task;
	while (b != NULL) {
		uint64_t end = st->range->offset + st->range->size, to = b->offset + b->n < end ? b->offset + b->n : end;
		pthread_mutex_unlock(&s->lock);
		rp_sha256_update(st->sha, b->data + (st->next - b->offset), (size_t)(to - st->next));
		bool whole = to == end;
		if (whole)
			rp_sha256_final(st->sha, st->range->sha256);
		pthread_mutex_lock(&s->lock);
		st->next = to;
		t->in_flight++;
		unref(s, b);
		b = NULL;
		if (whole || t->f->code != RP_OK) {
			st->range->done = whole;
			if (whole)
				free_strand(s, t, st);
			else
				kill_strand(s, t, st);
		} else {
			for (unsigned i = 0; i < s->n_blocks && b == NULL; i++)
				if (s->blocks[i].task == t && s->blocks[i].ready && s->blocks[i].offset == to)
					b = &s->blocks[i];
			st->busy = b != NULL;
		}
		t->in_flight--;
		if (b == NULL)
			finish_if_done(s, t);
	}
}

static void run_inner(scanner *s, const job *j)
{
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < j->n; i++) {
		rp_sha256_once(j->b->data + (j->ranges[i].offset - j->b->offset), (size_t)j->ranges[i].size, j->ranges[i].sha256);
		j->ranges[i].done = true;
	}
	pthread_mutex_lock(&s->lock);
	unref(s, j->b);
}

static uint64_t n_joined(const tree *t)
{
	return t->joined.chunks / BLOCK_CHUNKS;
}

/* Blocks are done in any order and joined in theirs. */
static void join(tree *t, uint64_t block_number, const uint32_t value[8])
{
	memcpy(t->values[block_number % SCAN_VALUES], value, sizeof *t->values);
	t->known[block_number % SCAN_VALUES] = true;
	for (uint64_t i = n_joined(t) % SCAN_VALUES; t->known[i]; i = n_joined(t) % SCAN_VALUES) {
		t->known[i] = false;
		rp_blake3_push(&t->joined, t->values[i], BLOCK_CHUNKS);
	}
}

static bool need_tree(task *t)
{
	if (t->tree != NULL)
		return true;
	t->tree = rp_alloc(sizeof *t->tree);
	if (t->tree == NULL)
		return false;
	memset(t->tree->known, 0, sizeof t->tree->known);
	rp_blake3_init(&t->tree->joined);
	rp_blake3_init(&t->tree->tail);
	return true;
}

static void run_blake3(scanner *s, block *b)
{
	tree *t = b->task->tree;
	uint64_t first = b->offset / RP_BLAKE3_CHUNK;
	uint32_t value[8];
	pthread_mutex_unlock(&s->lock);
	if (b->last) {
		t->tail.chunks = first;
		rp_blake3_update(&t->tail, b->data, b->n);
	} else {
		rp_blake3_subtree(b->data, b->n, first, value);
	}
	pthread_mutex_lock(&s->lock);
	if (!b->last)
		join(t, b->offset / SCAN_BLOCK, value);
	unref(s, b);
}

/* ---- blocks ---- */
/* The first range that ends after offset. */
static size_t first_range(const rp_scan_track *track, uint64_t offset)
{
	size_t low = 0, high = track->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (track->v[middle].offset + track->v[middle].size <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool dispatch_track(scanner *s, block *b, unsigned number)
{
	task *t = b->task;
	uint64_t end = b->offset + b->n;
	rp_scan_track whole = {&t->whole, t->f->sha256}, *track = number == TRACK_WHOLE ? &whole : &t->f->tracks[number];
	for (size_t i = first_range(track, b->offset); i < track->n && track->v[i].offset < end; i++) {
		rp_scan_range *r = &track->v[i];
		if (r->offset >= b->offset && r->offset + r->size <= end) {
			size_t first = i;
			while (i + 1 < track->n && track->v[i + 1].offset + track->v[i + 1].size <= end)
				i++;
			b->refs++;
			push_job(s, (job){.kind = JOB_INNER, .b = b, .ranges = track->v + first, .n = i + 1 - first}, false);
			continue;
		}
		strand *st = find_strand(s, t, number, r);
		if (st == NULL)
			return false;
		b->refs++;
		if (!st->busy && st->next == (r->offset > b->offset ? r->offset : b->offset)) {
			st->busy = true;
			push_job(s, (job){.kind = JOB_STRAND, .b = b, .s = st}, number == TRACK_WHOLE); /* the longest chain goes first */
		}
	}
	return true;
}

/* The block has been read: hand it to all that want its bytes. */
static void dispatch(scanner *s, block *b)
{
	task *t = b->task;
	if (b->last)
		t->whole.size = b->offset + b->n;
	t->f->size = b->offset + b->n > t->f->size ? b->offset + b->n : t->f->size;
	b->ready = true;
	b->refs = 1; /* ours */
	bool fits = true;
	for (unsigned i = 0; i < ALL_TRACKS && fits; i++)
		fits = dispatch_track(s, b, i);
	if (fits && t->f->blake3 && (fits = need_tree(t))) {
		b->refs++;
		push_job(s, (job){.kind = JOB_BLAKE3, .b = b}, false);
	}
	t->in_flight++;
	if (!fits) {
		s->no_memory = true;
		pthread_cond_signal(&s->news);
	}
	unref(s, b);
	t->in_flight--;
	finish_if_done(s, t);
}

static void take_in_stream(scanner *s, block *b)
{
	task *t = b->task;
	bool end = b->n < SCAN_BLOCK;
	block *before = t->held;
	t->held = NULL;
	t->next += b->n;
	t->all_read = end;
	if (before != NULL) {
		before->last = b->n == 0;
		dispatch(s, before);
	}
	if (b->n == 0) {
		release(s, b);
	} else if (end) {
		b->last = true;
		dispatch(s, b);
	} else {
		t->held = b;
	}
}

static void read_block(scanner *s, task *t)
{
	enum { PAGE = 4096 }; /* the kernel copies a quarter faster to where a page begins */
	block *b = s->free_blocks[--s->n_free];
	*b = (block){.data = b->data, .task = t, .offset = t->next};
	t->in_flight++;
	if (t->stream) {
		t->reading = true;
	} else {
		uint64_t left = t->size - t->next;
		b->n = left < SCAN_BLOCK ? (size_t)left : SCAN_BLOCK;
		b->last = b->n == left;
		t->next += b->n;
		t->all_read = b->last;
	}
	pthread_mutex_unlock(&s->lock);
	if (b->data == NULL)
		b->data = aligned_alloc(PAGE, SCAN_BLOCK);
	int why = ENOMEM;
	bool read = b->data != NULL && scan_fill(s, t, b, &why);
	pthread_mutex_lock(&s->lock);
	s->bytes += b->n;
	t->reading = false;
	if (!read || t->f->code != RP_OK) {
		if (t->held != NULL) {
			block *held = t->held;
			t->held = NULL;
			release(s, held);
		}
		if (!read)
			fail(s, t, why == 0 ? RP_CHANGED : why == ENOMEM ? RP_NO_MEMORY : RP_READ, why);
		release(s, b);
	} else if (t->stream) {
		take_in_stream(s, b);
	} else {
		dispatch(s, b);
	}
}

/* How many blocks of a file may be about. A single chain of SHA-256 gains nothing from blocks read long before it comes to them:
 * they only leave the processor's caches again. Pieces need several chains at once. */
static unsigned most_blocks(const scanner *s, const task *t)
{
	enum { A_CHAIN = 4, A_PIECE = (4 << 20) / SCAN_BLOCK };
	for (unsigned i = 0; i < RP_SCAN_TRACKS; i++)
		if (t->f->tracks[i].n > 0)
			return (s->n_threads + 1) * A_PIECE;
	return s->n_threads + A_CHAIN;
}

static bool has_room(const task *t)
{
	return t->tree == NULL || t->next / SCAN_BLOCK < n_joined(t->tree) + SCAN_VALUES;
}

/* The file to read from: the one with the fewest blocks about. */
static task *readable(const scanner *s)
{
	task *best = NULL;
	for (unsigned i = 0; i < s->n_active; i++) {
		task *t = s->active[i];
		if (!t->reading && !t->all_read && t->in_flight < most_blocks(s, t) && has_room(t) && (best == NULL || t->in_flight < best->in_flight))
			best = t;
	}
	return best;
}

static bool may_open(const scanner *s)
{
	return s->next_file < s->scan->n_files && s->n_active < s->max_active &&
		!(s->scan->files[s->next_file].standard_input && s->stdin_busy);
}

static void open_next(scanner *s)
{
	task *t = &s->tasks[s->next_file];
	rp_scan_file *f = &s->scan->files[s->next_file++];
	*t = (task){.f = f, .fd = -1, .reading = true, .whole = {.size = UINT64_MAX}};
	f->code = RP_OK;
	f->errnum = 0;
	f->size = 0;
	s->active[s->n_active++] = t;
	if (f->standard_input)
		s->stdin_busy = true;
	pthread_cond_signal(&s->work); /* another may open the one after */
	pthread_mutex_unlock(&s->lock);
	scan_open(t);
	pthread_mutex_lock(&s->lock);
	t->reading = false;
	finish_if_done(s, t);
	pthread_cond_signal(&s->work);
}

static void *work(void *argument)
{
	scanner *s = argument;
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		task *t;
		if (s->n_jobs > 0) {
			job j = pop_job(s);
			if (j.kind == JOB_STRAND)
				run_strand(s, j.b, j.s);
			else if (j.kind == JOB_INNER)
				run_inner(s, &j);
			else
				run_blake3(s, j.b);
		} else if (s->n_free > 0 && (t = readable(s)) != NULL) {
			read_block(s, t);
		} else if (may_open(s)) {
			open_next(s);
		} else {
			pthread_cond_wait(&s->work, &s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- the caller ---- */
static void wait_for_news(scanner *s)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 100000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&s->news, &s->lock, &until);
}

static rp_code report(scanner *s, rp_error *err)
{
	const rp_scan *scan = s->scan;
	rp_code code = RP_OK;
	size_t told = 0;
	pthread_mutex_lock(&s->lock);
	while (code == RP_OK && told < scan->n_files) {
		bool news = s->next_file > told && s->tasks[told].done;
		if (!news)
			wait_for_news(s);
		uint64_t bytes = s->bytes;
		bool no_memory = s->no_memory;
		pthread_mutex_unlock(&s->lock);
		if (no_memory)
			code = rp_no_memory(err, SCAN_BLOCK, "hashing files");
		else if (scan->cancel != NULL && atomic_load(scan->cancel))
			code = rp_fail(err, RP_CANCELLED, "stopped by a signal");
		else if (news && scan->finished != NULL)
			code = scan->finished(scan->context, told, err);
		else if (!news && scan->progress != NULL)
			scan->progress(scan->context, bytes);
		told += news;
		pthread_mutex_lock(&s->lock);
	}
	s->stop = true;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	return code;
}

static rp_code with_threads(scanner *s, pthread_t *threads, rp_error *err)
{
	unsigned n = 0;
	while (n < s->n_threads && pthread_create(&threads[n], NULL, work, s) == 0)
		n++;
	if (n == 0)
		return rp_fail(err, RP_NO_MEMORY, "no thread can be started to read with");
	rp_code code = report(s, err);
	while (n > 0)
		pthread_join(threads[--n], NULL);
	return code;
}

static void clean(scanner *s)
{
	for (size_t i = 0; i < s->next_file; i++) { /* what a cancelled scan leaves */
		task *t = &s->tasks[i];
		for (strand *st = t->strands, *next; st != NULL; st = next) {
			next = st->next_of_file;
			rp_sha256_free(st->sha);
			free(st);
		}
		if (!t->done && t->fd > STDIN_FILENO)
			close(t->fd);
		free(t->tree);
	}
	for (unsigned i = 0; i < s->n_blocks; i++)
		free(s->blocks[i].data);
	while (s->n_spare > 0)
		rp_sha256_free(s->spare[--s->n_spare]);
	free(s->tasks);
	free(s->active);
}

rp_code rp_scan_run(const rp_scan *scan, rp_error *err)
{
	enum { MOST_THREADS = 64 };
	pthread_t threads[MOST_THREADS];
	pthread_condattr_t clock;
	if (scan->n_files == 0)
		return RP_OK;
	scanner *s = rp_alloc(sizeof *s);
	if (s == NULL)
		return rp_no_memory(err, sizeof *s, "reading files");
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned wanted = scan->threads != 0 ? scan->threads : processors > 0 ? (unsigned)processors : 1;
	s->scan = scan;
	s->n_threads = s->max_active = wanted < MOST_THREADS ? wanted : MOST_THREADS;
	s->tasks = rp_alloc_array(scan->n_files, sizeof *s->tasks);
	s->active = rp_alloc_array(s->max_active, sizeof *s->active);
	s->n_blocks = s->n_free = SCAN_BLOCKS;
	for (unsigned i = 0; i < s->n_blocks; i++)
		s->free_blocks[i] = &s->blocks[s->n_blocks - 1 - i];
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&s->news, &clock);
	pthread_condattr_destroy(&clock);
	rp_code code = s->tasks == NULL || s->active == NULL ? rp_no_memory(err, scan->n_files * sizeof *s->tasks, "reading files") :
		with_threads(s, threads, err);
	clean(s);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->news);
	free(s);
	return code;
}

rp_code rp_scan_error(const rp_scan_file *f, rp_error *err)
{
	const char *name = f->standard_input ? "standard input" : f->path;
	switch (f->code) {
	case RP_OK:
		return RP_OK;
	case RP_CHANGED:
		return rp_fail(err, RP_CHANGED, "%s: became shorter while it was read", name);
	case RP_NO_MEMORY:
		return rp_fail(err, RP_NO_MEMORY, "%s: too little memory to read it", name);
	default:
		return rp_fail_errno(err, f->code, f->errnum, "%s: cannot read", name);
	}
}
