/* gpu_watch: what is kept of each kind of dispatch while an engine is profiled. Private to infer/. */
#ifndef RP_GPU_WATCH_H
#define RP_GPU_WATCH_H

#include "infer/gpu_work.h"
#include "infer/profile.h"

enum { RP_WATCH_ARGS = 128, RP_WATCH_SAMPLES = 1 << 14 };

typedef struct rp_watch_times { /* of a phase */
	uint64_t count;
	double ns, bytes;
	double *samples; /* the first of them */
	size_t n_samples;
} rp_watch_times;

typedef struct rp_watch_kind {
	const rp_kernel *kernel;
	char ops[RP_VK_OPS_TEXT];
	const char *layer;
	rp_vk_const constants[RP_WORK_CONSTANTS];
	size_t n_constants, n_args;
	unsigned char args[RP_WATCH_ARGS];
	rp_grid grid;
	uint64_t weights, position, state; /* bytes it reads: of weights, a position of each sequence, a sequence */
	double flop;
	uint32_t k, n; /* of its (first) matrix; 0: it has none */
	rp_watch_times times[2];
	double nmse, bound;
} rp_watch_kind;

struct rp_gpu_watch {
	rp_watch_kind **kinds;
	size_t n;
	bool prefill;       /* what is being submitted */
	uint64_t positions; /* of all its sequences, seen by attention */
	uint32_t sequences;
	uint64_t passes[2];
	struct rp_gpu_check *check; /* gpu_check.c; NULL: dispatches are recorded as usual */
};

rp_code rp_gpu_watch_new(rp_gpu *g, rp_error *err);
void rp_gpu_watch_free(rp_gpu *g);
/* What the next submissions compute. */
void rp_gpu_watch_pass(rp_gpu *g, bool prefill, uint64_t positions, uint32_t sequences);
/* Behind a dispatch that was recorded: a mark that leads to its kind. Before the first of a recording: where time starts. */
rp_code rp_gpu_watch_start(rp_work *w, rp_error *err);
rp_code rp_gpu_watch_work(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err);
/* As rp_vk_submit of recordings in order, one after the other, each waited for and its marks read. */
rp_code rp_gpu_watch_submit(rp_gpu *g, rp_vk_cmd *const *cmds, size_t n, rp_error *err);
rp_watch_kind *rp_gpu_watch_kind(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err); /* NULL: no memory */
/* Run it now, alone, and keep what it wrote. */
rp_code rp_gpu_check_work(rp_work *w, rp_vk_pipeline *p, const void *args, size_t n_args, rp_grid grid, rp_error *err);
rp_code rp_gpu_check(rp_engine *e, rp_engine *oracle, const uint32_t *ids, uint32_t n, rp_error *err);
rp_code rp_gpu_profile(const rp_engine *e, rp_profile *out, rp_error *err);
void rp_gpu_profile_forget(rp_engine *e);

#endif
