/* pool: the same loop on several threads. */
#ifndef RP_POOL_H
#define RP_POOL_H

#include "base/base.h"

typedef struct rp_pool rp_pool;

/* Work on [first, last) of a loop; worker is 0 .. threads - 1 and picks scratch memory. */
typedef void rp_pool_fn(void *user, size_t first, size_t last, uint32_t worker);

/* threads - 1 helpers beside the caller; 0: the number of processors. */
rp_code rp_pool_new(uint32_t threads, rp_pool **out, rp_error *err);
void rp_pool_free(rp_pool *p); /* NULL is fine */
uint32_t rp_pool_threads(const rp_pool *p);
/* Cut [0, n) into one even range a thread, run them, return when all are done. Which thread computes what depends on n alone. */
void rp_pool_run(rp_pool *p, rp_pool_fn *fn, void *user, size_t n);

#endif
