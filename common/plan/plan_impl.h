/* plan_impl: what the files of plan/ share. */
#ifndef RP_PLAN_IMPL_H
#define RP_PLAN_IMPL_H

#include "infer/gpu_paper.h"
#include "plan/plan.h"

#include <cjson/cJSON.h>

struct rp_plan {
	cJSON *json;
	char digest[72];
};

/* ---- work.c: passes to JSON ---- */
typedef struct rp_plan_maker {
	rp_engine *engine;
	const rp_vk *vk;
	const rp_plan_device *device;
	rp_buf_role *roles; /* of the buffers of rp_vk_paper_bufs, in their order; one more for those that are gone */
	const rp_vk_paper_buf *bufs;
	size_t n_bufs;
	const rp_vk_pipeline **pipelines; /* in the order of their first use */
	size_t n_pipelines, cap_pipelines;
} rp_plan_maker;

rp_code rp_plan_roles(rp_plan_maker *m, rp_error *err);
typedef struct rp_plan_span { /* of the work submitted on paper */
	size_t first, end;
	uint32_t rows, at; /* rows of the pass, positions in the cache before it */
	bool alone;        /* the host waits for it */
} rp_plan_span;

rp_code rp_plan_pass(rp_plan_maker *m, const rp_plan_span *span, cJSON **out, rp_error *err);
cJSON *rp_plan_buffers(const rp_plan_maker *m);
cJSON *rp_plan_memory(const rp_plan_maker *m);
cJSON *rp_plan_pipelines(const rp_plan_maker *m);
cJSON *rp_plan_kernels(const rp_plan_maker *m); /* sorted by name */

/* A number that must be there, as rp_plan_parse has checked. 0 when it is not. */
double rp_plan_number_of(const cJSON *o, const char *name);
const char *rp_plan_text_of(const cJSON *o, const char *name); /* "" when it is not there */

rp_code rp_plan_seal(cJSON *json, rp_plan **out, rp_error *err); /* adds the digest; takes json, also when it fails */

#endif
