/* plan: what will run, and why: every dispatch of a prompt's pass and of a token, memory by heap, bytes, predicted time.
 *
 * A plan is made by the code that runs: the engine is opened on a device of paper (vk/paper.h), computes one pass and one token
 * there, and what it submitted is written down. So it cannot differ from what would run. Equal inputs give equal bytes.
 * Format: reploid-plan/1, reploid-formats(5).
 */
#ifndef RP_PLAN_H
#define RP_PLAN_H

#include "base/base.h"
#include "graph/graph.h"
#include "infer/infer.h"
#include "plan/device.h"

#define RP_PLAN_SCHEMA "reploid-plan/1"

struct cJSON;
typedef struct rp_plan rp_plan;

typedef struct rp_plan_opts {
	uint32_t ctx, chunk;              /* as in rp_engine_opts: positions of a sequence, most rows a pass; 0: the engine's choice */
	uint32_t depth;                   /* positions in the cache, that bytes and time of a token are told for; 0: none */
	const char *variant;              /* kernels; NULL: the device's best */
	rp_cache_type kv;                 /* how keys and values are kept */
	uint32_t layer_first, layer_last; /* [first, last); 0, 0: all */
} rp_plan_opts;

/* Fails as opening the engine would: RP_NO_MEMORY when the model does not fit, RP_UNSUPPORTED ... */
rp_code rp_plan_make(const rp_graph *g, const rp_plan_device *device, const rp_plan_opts *opts, rp_plan **out, rp_error *err);
/* Of an engine that is open: what it does, on its device, with costs assumed by the device's kind. RP_UNSUPPORTED: it has no device. */
rp_code rp_plan_of_engine(const rp_engine *e, rp_plan **out, rp_error *err);
void rp_plan_free(rp_plan *p);

const struct cJSON *rp_plan_json(const rp_plan *p);
const char *rp_plan_digest(const rp_plan *p); /* "sha256:<hex>": of the canonical JSON without the member "digest" */
/* The document: members of the top and items of lists a line each, otherwise canonical. */
rp_code rp_plan_text(const rp_plan *p, rp_buf *out, rp_error *err);
/* For people: tables. */
rp_code rp_plan_explain(const rp_plan *p, rp_buf *out, rp_error *err);

/* ---- plans that were kept ---- */
/* Reads and checks the digest: RP_HASH when it is not that of the text. RP_FORMAT: no plan, or of another schema. */
rp_code rp_plan_parse(const char *name, const char *text, size_t n, rp_plan **out, rp_error *err);
rp_code rp_plan_load(const char *path, rp_plan **out, rp_error *err);
/* What a kept plan was made with. variant points into p. RP_FORMAT names the member. */
rp_code rp_plan_settings(const rp_plan *p, rp_plan_opts *out, rp_error *err);
/* Take over the costs that a kept plan assumes: they are its author's, and no fact about the device. */
rp_code rp_plan_take_costs(const rp_plan *p, rp_plan_device *device, rp_error *err);
/* Before a plan is made to compare with: is it of this model, and of this device (NULL: not asked)? RP_STALE_PLAN as below. */
rp_code rp_plan_belongs(const char *name, const rp_plan *kept, const rp_model *m, const rp_plan_device *device, rp_error *err);
/* RP_OK: equal. RP_STALE_PLAN: the first difference: which member, what the kept plan has, what is here. name: of the kept plan. */
rp_code rp_plan_compare(const char *name, const rp_plan *kept, const rp_plan *here, rp_error *err);

#endif
