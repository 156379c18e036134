#include "bench/bench.h"

#include "base/random.h"

#include <stdlib.h>

typedef struct kernels {
	rp_engine *e;
	const rp_bench_kernels *o;
	rp_seq *seq;
	uint32_t *ids, vocab;
	size_t n_ids;
	rp_random random;
} kernels;

static rp_code on_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)user, (void)id, (void)stop, (void)err;
	return RP_OK;
}

static rp_code feed(kernels *k, uint32_t n, rp_error *err)
{
	rp_segment s = {.seq = k->seq, .ids = k->ids, .n = n, .want = RP_WANT_LAST};
	for (uint32_t i = 0; i < n; i++)
		k->ids[i] = (uint32_t)(rp_random_unit(&k->random) * k->vocab);
	return n > 0 ? rp_forward(k->e, &s, 1, NULL, err) : RP_OK;
}

/* A prompt behind the positions nobody times, and what is generated after it. */
static rp_code repetition(kernels *k, rp_error *err)
{
	rp_decode_opts d = {.first = k->ids[0], .n = k->o->n_gen};
	rp_code code = RP_OK;
	if (k->o->depth == 0)
		rp_seq_reset(k->seq);
	code = feed(k, k->o->n_prompt, err);
	return code == RP_OK && d.n > 0 ? rp_decode(k->e, k->seq, &d, on_id, NULL, err) : code;
}

static rp_code measure(kernels *k, rp_error *err)
{
	rp_code code = rp_seq_new(k->e, &k->seq, err);
	if (code == RP_OK)
		code = feed(k, k->o->depth, err);
	if (code == RP_OK)
		code = repetition(k, err); /* touches memory, makes recordings */
	rp_engine_profile_forget(k->e);
	for (uint32_t i = 0; i < k->o->reps && code == RP_OK; i++)
		code = repetition(k, err);
	return code;
}

uint64_t rp_bench_kernels_ctx(const rp_bench_kernels *o)
{
	uint64_t each = (uint64_t)o->n_prompt + o->n_gen, rounds = o->depth > 0 ? (uint64_t)o->reps + 1 : 1;
	uint64_t check = (uint64_t)(o->n_prompt > 0 ? o->n_prompt : 1) + 2;
	return o->depth + rounds * each > check ? o->depth + rounds * each : check;
}

rp_code rp_bench_run_kernels(rp_engine *e, rp_engine *oracle, const rp_graph *g, const rp_bench_kernels *o, rp_profile *out, rp_error *err)
{
	kernels k = {.e = e, .o = o, .vocab = g->config.vocab, .n_ids = o->n_prompt > o->depth ? o->n_prompt : o->depth};
	uint32_t rows = o->n_prompt > 0 ? o->n_prompt : 1;
	rp_random_seed(&k.random, o->seed);
	k.n_ids = k.n_ids > rows ? k.n_ids : rows;
	k.ids = rp_alloc_array(k.n_ids, sizeof *k.ids);
	if (k.ids == NULL)
		return rp_no_memory(err, k.n_ids * sizeof *k.ids, "the ids of a test");
	for (size_t i = 0; i < k.n_ids; i++)
		k.ids[i] = (uint32_t)(rp_random_unit(&k.random) * k.vocab);
	rp_code code = oracle != NULL ? rp_engine_check(e, oracle, k.ids, rows < o->checked ? rows : o->checked, err) : RP_OK;
	if (code == RP_OK)
		code = measure(&k, err);
	rp_seq_free(k.seq);
	free(k.ids);
	return code == RP_OK ? rp_engine_profile(e, out, err) : code;
}
