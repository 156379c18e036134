/* The workers of a job: hash and write pieces, publish files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/job.h"

static void push(rp_queue *q, rp_task *t)
{
	t->next = NULL;
	if (q->tail != NULL)
		q->tail->next = t;
	else
		q->head = t;
	q->tail = t;
}

static rp_task *pop(rp_queue *q)
{
	rp_task *t = q->head;
	if (t != NULL) {
		q->head = t->next;
		if (q->head == NULL)
			q->tail = NULL;
	}
	return t;
}

static void do_piece(rp_task *t)
{
	rp_item *item = t->item;
	unsigned char there[RP_HASH_BYTES];
	rp_sha256_once(t->buffer->data, (size_t)t->size, t->hash);
	if (item->pieces != NULL && memcmp(t->hash, item->pieces[t->piece].sha256, RP_HASH_BYTES) != 0) {
		char a[RP_HASH_HEX], b[RP_HASH_HEX];
		t->code = rp_fail(&t->error, RP_HASH, "%s: piece %zu has sha256 %s, expected %s", item->part.path, t->piece,
			rp_hex(a, t->hash, RP_HASH_BYTES), rp_hex(b, item->pieces[t->piece].sha256, RP_HASH_BYTES));
		return;
	}
	if (rp_part_lookup(&item->part, t->piece, there) == RP_RECORD_SURE &&
		(item->pieces == NULL || memcmp(there, t->hash, RP_HASH_BYTES) == 0)) { /* another process was first: verified bytes stay */
		memcpy(t->hash, there, RP_HASH_BYTES);
		t->origin = NULL;
		t->size = 0; /* none of these bytes are used */
		return;
	}
	uint64_t offset = rp_job_piece_offset(item, t->piece);
	size_t written = t->past_cache ? rp_part_write_past_cache(&item->part, offset, t->buffer->data, (size_t)t->size) : 0;
	pthread_mutex_lock(&item->writing);
	t->code = rp_part_write(&item->part, t->piece, offset, t->buffer->data, (size_t)t->size, written, t->hash, &t->error);
	pthread_mutex_unlock(&item->writing);
}

static void do_publish(rp_task *t)
{
	rp_item *item = t->item;
	if (item->partly) {
		t->code = rp_part_expose(&item->part, &t->error);
		return;
	}
	t->code = rp_item_check(item, &t->error);
	if (t->code == RP_OK && item->so_far.sha != NULL)
		rp_whole_compare(t);
	if (t->code == RP_OK)
		t->code = rp_part_publish(&item->part, &t->error);
}

static void *work(void *user)
{
	rp_job *job = user;
	pthread_mutex_lock(&job->lock);
	for (;;) {
		rp_task *t = pop(&job->todo);
		if (t == NULL && job->stop)
			break;
		if (t == NULL) {
			pthread_cond_wait(&job->wake, &job->lock);
			continue;
		}
		pthread_mutex_unlock(&job->lock);
		if (t->kind == RP_TASK_PIECE)
			do_piece(t);
		else if (t->kind == RP_TASK_WHOLE)
			rp_whole_work(t);
		else
			do_publish(t);
		pthread_mutex_lock(&job->lock);
		push(&job->done, t);
		if (job->net != NULL)
			rp_net_wakeup(job->net);
	}
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

rp_code rp_work_start(rp_job *job, rp_error *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned wanted = cores < 1 ? 2 : cores >= RP_JOB_MAX_WORKERS ? RP_JOB_MAX_WORKERS : (unsigned)cores + 1; /* one may wait for the disk */
	for (job->n_threads = 0; job->n_threads < wanted; job->n_threads++) {
		int failed = pthread_create(&job->threads[job->n_threads], NULL, work, job);
		if (failed && job->n_threads == 0)
			return rp_fail_errno(err, RP_NO_MEMORY, failed, "cannot start a thread");
		if (failed)
			break;
	}
	return RP_OK;
}

void rp_work_stop(rp_job *job)
{
	pthread_mutex_lock(&job->lock);
	job->stop = true; /* what is queued is still done: its bytes are verified or about to be */
	pthread_cond_broadcast(&job->wake);
	pthread_mutex_unlock(&job->lock);
	for (unsigned i = 0; i < job->n_threads; i++)
		pthread_join(job->threads[i], NULL);
	job->n_threads = 0;
}

rp_code rp_work_put(rp_job *job, const rp_task *task)
{
	rp_task *t = rp_alloc(sizeof *t);
	if (t == NULL)
		return RP_NO_MEMORY;
	*t = *task;
	pthread_mutex_lock(&job->lock);
	push(&job->todo, t);
	pthread_cond_signal(&job->wake);
	pthread_mutex_unlock(&job->lock);
	job->in_work++;
	return RP_OK;
}

rp_task *rp_work_take(rp_job *job)
{
	pthread_mutex_lock(&job->lock);
	rp_task *t = pop(&job->done);
	pthread_mutex_unlock(&job->lock);
	if (t != NULL)
		job->in_work--;
	return t;
}
