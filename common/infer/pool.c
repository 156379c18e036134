#include "infer/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Loops follow each other within microseconds, and waking a thread takes as long: look for the next one a while before sleeping. */
enum { MAX_THREADS = 256, LOOKS = 300 };

typedef struct worker {
	rp_pool *pool;
	uint32_t index;
	pthread_t thread;
} worker;

struct rp_pool {
	uint32_t threads, started;
	/* A thread that sleeps counts itself first and looks once more; who changes what it waits for looks at the count after. */
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	atomic_uint sleeping;  /* helpers */
	atomic_bool waiting;   /* the caller */
	atomic_ulong round;    /* counts loops; a helper waits for the next one */
	atomic_uint busy;      /* helpers still in this loop */
	atomic_bool quit;
	rp_pool_fn *fn;
	void *user;
	size_t n;
	worker *workers;       /* the helpers: index 1 .. threads - 1 */
};

static void run_part(const rp_pool *p, uint32_t index)
{
	size_t first = p->n / p->threads * index + (p->n % p->threads) * index / p->threads;
	size_t last = p->n / p->threads * (index + 1) + (p->n % p->threads) * (index + 1) / p->threads;

	if (first < last)
		p->fn(p->user, first, last, index);
}

static void breathe(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* False: the pool is being freed. */
static bool await_round(rp_pool *p, unsigned long seen)
{
	for (int i = 0; i < LOOKS && p->round == seen && !p->quit; i++)
		breathe();
	if (p->round == seen && !p->quit) {
		pthread_mutex_lock(&p->lock);
		p->sleeping++;
		while (p->round == seen && !p->quit)
			pthread_cond_wait(&p->work, &p->lock);
		p->sleeping--;
		pthread_mutex_unlock(&p->lock);
	}
	return !p->quit;
}

static void *helper(void *arg)
{
	worker *w = arg;
	rp_pool *p = w->pool;

	for (unsigned long seen = 0; await_round(p, seen);) {
		seen++;
		run_part(p, w->index);
		if (atomic_fetch_sub(&p->busy, 1) == 1 && p->waiting) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
		}
	}
	return NULL;
}

static void await_helpers(rp_pool *p)
{
	for (int i = 0; i < LOOKS && p->busy > 0; i++)
		breathe();
	if (p->busy == 0)
		return;
	pthread_mutex_lock(&p->lock);
	p->waiting = true;
	while (p->busy > 0)
		pthread_cond_wait(&p->done, &p->lock);
	p->waiting = false;
	pthread_mutex_unlock(&p->lock);
}

/* After a change of round or quit. */
static void wake(rp_pool *p)
{
	if (p->sleeping == 0)
		return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
}

rp_code rp_pool_new(uint32_t threads, rp_pool **out, rp_error *err)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	rp_pool *p = rp_alloc(sizeof *p);

	if (threads == 0)
		threads = online > 0 ? (uint32_t)online : 1;
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	worker *workers = rp_alloc_array(threads, sizeof *workers);
	if (!p || !workers) {
		free(p);
		free(workers);
		return rp_no_memory(err, threads * sizeof *workers, "the list of threads");
	}
	*p = (rp_pool){.threads = threads, .workers = workers};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	for (uint32_t i = 1; i < threads; i++) {
		p->workers[i] = (worker){.pool = p, .index = i};
		int e = pthread_create(&p->workers[i].thread, NULL, helper, &p->workers[i]);
		if (e) {
			rp_pool_free(p);
			return rp_fail_errno(err, RP_NO_MEMORY, e, "cannot start thread %u of %u", i + 1, threads);
		}
		p->started++;
	}
	*out = p;
	return RP_OK;
}

void rp_pool_free(rp_pool *p)
{
	if (!p)
		return;
	p->quit = true;
	wake(p);
	for (uint32_t i = 1; i <= p->started; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	free(p->workers);
	free(p);
}

uint32_t rp_pool_threads(const rp_pool *p)
{
	return p->threads;
}

void rp_pool_run(rp_pool *p, rp_pool_fn *fn, void *user, size_t n)
{
	if (p->threads == 1 || n < 2) { /* not worth waking anyone */
		if (n > 0)
			fn(user, 0, n, 0);
		return;
	}
	p->fn = fn;
	p->user = user;
	p->n = n;
	p->busy = p->threads - 1;
	p->round++;
	wake(p);
	run_part(p, 0);
	await_helpers(p);
}
