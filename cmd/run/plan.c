/* --plan, and the digest of what runs. */
#include "run.h"

#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_code run_read_plan(run_state *r, rp_error *err)
{
	rp_plan_opts o;
	if (r->o.plan == NULL)
		return RP_OK;
	rp_code code = rp_plan_load(r->o.plan, &r->plan, err);
	if (code == RP_OK)
		code = rp_plan_belongs(r->o.plan, r->plan, r->model, NULL, err);
	if (code == RP_OK)
		code = rp_plan_settings(r->plan, &o, err);
	if (code != RP_OK)
		return code;
	if (o.layer_first != 0 || o.layer_last != r->graph->n_layers)
		return rp_fail(err, RP_STALE_PLAN, "%s: it is for layers %u to %u; one that answers has all %u", r->o.plan, o.layer_first, o.layer_last - 1,
			r->graph->n_layers);
	if (rp_option_source(&run_program, &r->parsed, "ctx") == RP_FROM_DEFAULT)
		r->o.ctx = o.ctx;
	r->chunk = o.chunk;
	return RP_OK;
}

/* The device is chosen and compared before weights are loaded, which may take a while. */
static rp_code facts_of(const run_state *r, rp_plan_device *out, rp_error *err)
{
	rp_vk_info *list = NULL;
	size_t n = 0, at = 0;
	const char *device = r->o.device != NULL ? r->o.device : "gpu";
	if (strcmp(device, "cpu") == 0)
		return rp_fail(err, RP_STALE_PLAN, "%s: it is for a Vulkan device; --device cpu has no dispatches", r->o.plan);
	rp_code code = rp_vk_devices(&list, &n, err);
	if (code == RP_OK)
		code = rp_vk_choose(list, n, device, &at, err);
	if (code == RP_OK)
		rp_plan_device_of(&list[at], out);
	free(list);
	return code;
}

rp_code run_check_plan(run_state *r, rp_error *err)
{
	rp_plan_device device;
	rp_plan_opts o;
	rp_plan *here = NULL;
	if (r->plan == NULL)
		return RP_OK;
	rp_code code = facts_of(r, &device, err);
	if (code == RP_OK)
		code = rp_plan_belongs(r->o.plan, r->plan, r->model, &device, err);
	if (code == RP_OK)
		code = rp_plan_take_costs(r->plan, &device, err);
	if (code == RP_OK)
		code = rp_plan_settings(r->plan, &o, err);
	if (code != RP_OK)
		return code;
	o.ctx = (uint32_t)r->o.ctx;
	if (r->o.variant >= 0)
		o.variant = run_variant(&r->o);
	if (r->o.kv >= 0)
		o.kv = run_kv(r->o.kv);
	code = rp_plan_make(r->graph, &device, &o, &here, err);
	if (code == RP_OK)
		code = rp_plan_compare(r->o.plan, r->plan, here, err);
	rp_plan_free(here);
	if (code != RP_OK)
		return code;
	/* it fits: the engine is opened as the plan was made */
	for (int v = 0; o.variant != NULL && r->o.variant < 0 && v < 8; v++) {
		const char *word = run_variant(&(run_opts){.variant = v});
		if (word == NULL)
			break;
		if (strcmp(word, o.variant) == 0)
			r->o.variant = v;
	}
	r->o.kv = o.kv == RP_CACHE_F16;
	if (r->o.device == NULL)
		r->o.device = "gpu";
	return RP_OK;
}

char *run_plan_digest(const rp_engine *e, char out[80])
{
	rp_plan *p = NULL;
	out[0] = '\0';
	if (rp_plan_of_engine(e, &p, NULL) == RP_OK)
		snprintf(out, 80, "%s", rp_plan_digest(p));
	rp_plan_free(p);
	return out;
}
