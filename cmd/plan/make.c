/* Plans of models, and the device they are for. */
#include "plan_cmd.h"

#include "net/net.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

static rp_code layer_number(const char **at, uint32_t *out)
{
	char *end;
	if (**at < '0' || **at > '9')
		return RP_USAGE;
	unsigned long v = strtoul(*at, &end, 10);
	if (v >= RP_MAX_LAYERS)
		return RP_USAGE;
	*at = end;
	*out = (uint32_t)v;
	return RP_OK;
}

rp_code plan_stage(const char *text, uint32_t n_layers, uint32_t *first, uint32_t *last, rp_error *err)
{
	const char *at = text;
	uint32_t a = 0, b = 0;
	rp_code rc = layer_number(&at, &a);
	b = a;
	if (rc == RP_OK && *at == '-') {
		at++;
		rc = layer_number(&at, &b);
	}
	if (rc != RP_OK || *at != '\0' || b < a)
		return rp_fail(err, RP_USAGE, "--stage %s: expected the first and the last layer, as in 0-11", text);
	if (n_layers != 0 && b >= n_layers)
		return rp_fail(err, RP_USAGE, "--stage %s: the model has layers 0 to %u", text, n_layers - 1);
	*first = a;
	*last = b + 1;
	return RP_OK;
}

rp_code plan_open_model(plan_state *s, rp_error *err)
{
	char *path = NULL;
	const char *name = s->name;
	if (name == NULL)
		return rp_fail(err, RP_USAGE, "name a model: a file, a folder, or an id in the store");
	if (rp_net_is_http(name))
		return plan_open_remote(name, &s->model, err);
	rp_code rc = rp_model_is_random(name) ? RP_OK : rp_model_locate(name, &path, err);
	if (rc == RP_OK)
		rc = rp_model_open(path != NULL ? path : name, &s->model, err);
	free(path);
	return rc;
}

static bool is_number(const char *s)
{
	return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

rp_code plan_device(const plan_state *s, rp_plan_device *out, rp_error *err)
{
	rp_vk_info *list = NULL;
	size_t n = 0, at = 0;
	if (strcmp(s->o.device, "cpu") == 0)
		return rp_fail(err, RP_UNSUPPORTED, "--device cpu: the plain C engine has no dispatches to plan; name a Vulkan device or a description");
	if (strcmp(s->o.device, "gpu") != 0 && !is_number(s->o.device))
		return rp_plan_device_load(s->o.device, out, err);
	rp_code rc = rp_vk_devices(&list, &n, err);
	if (rc == RP_OK)
		rc = rp_vk_choose(list, n, s->o.device, &at, err);
	if (rc == RP_OK)
		rp_plan_device_of(&list[at], out);
	free(list);
	return rc;
}

rp_code plan_make(plan_state *s, rp_error *err)
{
	rp_plan_opts o = {.ctx = (uint32_t)s->o.ctx, .chunk = (uint32_t)s->o.batch, .depth = (uint32_t)s->o.depth, .variant = plan_variant(&s->o),
		.kv = plan_kv(&s->o)};
	rp_plan_device device;
	rp_plan *plan = NULL;
	rp_code rc = rp_graph_build(s->model, &s->graph, err);
	if (rc == RP_OK && s->o.stage != NULL)
		rc = plan_stage(s->o.stage, s->graph->n_layers, &o.layer_first, &o.layer_last, err);
	if (rc == RP_OK)
		rc = plan_device(s, &device, err);
	if (rc == RP_OK)
		rc = rp_plan_make(s->graph, &device, &o, &plan, err);
	if (rc == RP_OK)
		rc = s->o.explain ? rp_plan_explain(plan, &s->out, err) : rp_plan_text(plan, &s->out, err);
	rp_plan_free(plan);
	return rc;
}
