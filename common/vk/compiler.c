/* Compiling pipelines on several threads: drivers let any number of threads create pipelines, and a pipeline cache locks itself. */
#include "vk/private.h"

#include <unistd.h>

/* ---- the threads ---- */
/* Under the lock: the first that was asked for; NULL when there is none. */
static rp_vk_pipeline *take(rp_vk_compiler *c)
{
	rp_vk_pipeline *p = c->first;
	while (p != NULL && p->state != RP_VK_ASKED) /* somebody could not wait */
		p = p->next_asked;
	c->first = p != NULL ? p->next_asked : NULL;
	return p;
}

/* Under the lock, which is given back meanwhile. */
static void compile(rp_vk *vk, rp_vk_pipeline *p)
{
	rp_vk_compiler *c = &vk->compiler;
	c->n_asked--;
	p->state = RP_VK_COMPILING;
	pthread_mutex_unlock(&c->lock);
	rp_vk_compile(vk, p);
	pthread_mutex_lock(&c->lock);
	p->state = RP_VK_COMPILED;
	pthread_cond_broadcast(&c->compiled);
}

static void *work(void *user)
{
	rp_vk *vk = user;
	rp_vk_compiler *c = &vk->compiler;
	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		rp_vk_pipeline *p = take(c);
		if (p != NULL) {
			compile(vk, p);
			continue;
		}
		c->idle++;
		pthread_cond_wait(&c->asked, &c->lock);
		c->idle--;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- asking and waiting ---- */
rp_code rp_vk_compiler_open(rp_vk *vk, rp_error *err)
{
	rp_vk_compiler *c = &vk->compiler;
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	if (c->made)
		return RP_OK;
	if (pthread_mutex_init(&c->lock, NULL) != 0)
		return rp_no_memory(err, sizeof *c, "compiling kernels");
	if (pthread_cond_init(&c->asked, NULL) != 0) {
		pthread_mutex_destroy(&c->lock);
		return rp_no_memory(err, sizeof *c, "compiling kernels");
	}
	if (pthread_cond_init(&c->compiled, NULL) != 0) {
		pthread_cond_destroy(&c->asked);
		pthread_mutex_destroy(&c->lock);
		return rp_no_memory(err, sizeof *c, "compiling kernels");
	}
	c->most = n < 1 ? 1 : n > RP_VK_COMPILERS ? RP_VK_COMPILERS : (uint32_t)n;
	c->made = true;
	return RP_OK;
}

void rp_vk_compiler_ask(rp_vk *vk, rp_vk_pipeline *p)
{
	rp_vk_compiler *c = &vk->compiler;
	pthread_mutex_lock(&c->lock);
	c->n_asked++;
	if (vk->validate || vk->paper != NULL) { /* messages belong to the call that caused them; on paper there is nothing to do */
		compile(vk, p);
	} else {
		if (c->first == NULL)
			c->first = p;
		else
			c->last->next_asked = p;
		c->last = p;
		/* Where no thread can be made, the one that waits compiles. */
		if (c->n_asked > c->idle && c->n_threads < c->most && pthread_create(&c->threads[c->n_threads], NULL, work, vk) == 0)
			c->n_threads++;
		else
			pthread_cond_signal(&c->asked);
	}
	pthread_mutex_unlock(&c->lock);
}

void rp_vk_compiler_wait(rp_vk *vk, rp_vk_pipeline *p)
{
	rp_vk_compiler *c = &vk->compiler;
	pthread_mutex_lock(&c->lock);
	if (p->state == RP_VK_ASKED)
		compile(vk, p);
	while (p->state != RP_VK_COMPILED)
		pthread_cond_wait(&c->compiled, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void rp_vk_compiler_close(rp_vk *vk)
{
	rp_vk_compiler *c = &vk->compiler;
	if (!c->made)
		return;
	c->made = false;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->asked);
	pthread_mutex_unlock(&c->lock);
	for (uint32_t i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	pthread_cond_destroy(&c->asked);
	pthread_cond_destroy(&c->compiled);
	pthread_mutex_destroy(&c->lock);
}
