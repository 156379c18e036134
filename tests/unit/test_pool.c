/* The same loop on several threads: every index once, whatever the sizes, as often as one likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "infer/pool.h"

enum { MOST = 1000 };

typedef struct counts {
	unsigned char seen[MOST];
	uint32_t threads;
} counts;

static void count(void *user, size_t first, size_t last, uint32_t worker)
{
	counts *c = user;
	assert_true(worker < c->threads);
	for (size_t i = first; i < last; i++)
		c->seen[i]++;
}

static void every_index_once(void **state)
{
	(void)state;
	for (uint32_t threads = 1; threads <= 5; threads++) {
		rp_pool *pool;
		rp_error err;
		assert_int_equal(rp_pool_new(threads, &pool, &err), RP_OK);
		assert_int_equal(rp_pool_threads(pool), threads);
		for (size_t n = 0; n <= MOST; n += n < 20 ? 1 : 97) {
			counts c = { .threads = threads };
			rp_pool_run(pool, count, &c, n);
			for (size_t i = 0; i < MOST; i++)
				assert_int_equal(c.seen[i], i < n);
		}
		rp_pool_free(pool);
	}
}

typedef struct sums {
	size_t of[4]; /* a thread's own */
} sums;

static void add(void *user, size_t first, size_t last, uint32_t worker)
{
	for (size_t i = first; i < last; i++)
		((sums *)user)->of[worker] += i;
}

/* What the helpers wrote is there when the loop returns, also when the next loop begins at once or after a sleep. */
static void results_are_there(void **state)
{
	(void)state;
	rp_pool *pool;
	rp_error err;
	assert_int_equal(rp_pool_new(4, &pool, &err), RP_OK);
	for (int round = 0; round < 3000; round++) {
		sums s = { { 0 } };
		if (round % 1000 == 999)
			nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL); /* the helpers fall asleep */
		rp_pool_run(pool, add, &s, 100);
		assert_int_equal(s.of[0] + s.of[1] + s.of[2] + s.of[3], 4950);
	}
	rp_pool_free(pool);
}

static void freed_unused(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		rp_pool *pool;
		rp_error err;
		assert_int_equal(rp_pool_new(3, &pool, &err), RP_OK);
		rp_pool_free(pool);
	}
	rp_pool_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_index_once),
		cmocka_unit_test(results_are_there),
		cmocka_unit_test(freed_unused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
