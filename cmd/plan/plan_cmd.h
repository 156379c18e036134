/* reploid-plan: what its files share. main.c drives: options (table.c), plans (make.c), descriptions of devices (describe.c). */
#ifndef PLAN_CMD_H
#define PLAN_CMD_H

#include "base/options.h"
#include "graph/graph.h"
#include "plan/device.h"
#include "plan/plan.h"

typedef struct plan_cmd_opts {
	const char *model, *device, *stage, *memory, *speed, *id;
	uint64_t ctx, batch, depth, split, split_at;
	int variant, kv;
	bool explain, describe, ranges, planid;
	bool quiet, json;
} plan_cmd_opts;

typedef struct plan_state {
	plan_cmd_opts o;
	rp_parsed parsed;
	const char *name; /* of the model, as the user gave it; NULL: not given */
	rp_buf out; /* what goes to standard output */
	rp_model *model;
	rp_graph *graph;
} plan_state;

extern const rp_program plan_program;
const char *plan_variant(const plan_cmd_opts *o);
rp_cache_type plan_kv(const plan_cmd_opts *o);

/* "0-11", "5": layers [first, last). RP_USAGE. n_layers 0: not known. */
rp_code plan_stage(const char *text, uint32_t n_layers, uint32_t *first, uint32_t *last, rp_error *err);
rp_code plan_open_model(plan_state *s, rp_error *err); /* by s->name: a file or an address */
rp_code plan_open_remote(const char *url, rp_model **out, rp_error *err);
rp_code plan_device(const plan_state *s, rp_plan_device *out, rp_error *err); /* --device: a file or one that is here */
rp_code plan_make(plan_state *s, rp_error *err);
rp_code plan_ranges(plan_state *s, rp_error *err);
rp_code plan_split(plan_state *s, rp_error *err);
rp_code plan_planid(plan_state *s, rp_error *err);
rp_code plan_describe(plan_state *s, rp_error *err);

#endif
