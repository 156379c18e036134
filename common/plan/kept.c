/* Plans that were kept: reading them, what they were made with, how they differ from the one made here. */
#include "plan/plan_impl.h"

#include "model/json.h"
#include "sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

/* ---- reading ---- */
static rp_code check(const rp_json_at *at)
{
	static const char *const objects[] = { "model", "device", "settings", "costs", "prefill", "decode" },
		*const lists[] = { "kernels", "pipelines", "buffers", "memory" };
	const char *text = NULL;
	rp_code rc = rp_json_need_string(at, "schema", &text);
	if (rc == RP_OK && strcmp(text, RP_PLAN_SCHEMA) != 0)
		return rp_json_wrong(at, "schema", rp_json_field(at, "schema"), "\"" RP_PLAN_SCHEMA "\"");
	if (rc == RP_OK)
		rc = rp_json_need_string(at, "digest", &text);
	if (rc == RP_OK && !rp_is_digest(text))
		return rp_json_wrong(at, "digest", rp_json_field(at, "digest"), "\"sha256:\" and 64 digits");
	for (size_t i = 0; i < sizeof objects / sizeof *objects && rc == RP_OK; i++) {
		const cJSON *o;
		rc = rp_json_need_object(at, objects[i], &o);
	}
	for (size_t i = 0; i < sizeof lists / sizeof *lists && rc == RP_OK; i++)
		if (!cJSON_IsArray(rp_json_field(at, lists[i])))
			rc = rp_json_wrong(at, lists[i], rp_json_field(at, lists[i]), "a list");
	return rc;
}

/* Takes v. */
static rp_code unseal(const char *name, cJSON *v, rp_plan **out, rp_error *err)
{
	rp_json_at at = { name, "", v, err };
	rp_code rc = cJSON_IsObject(v) ? check(&at) : rp_fail(err, RP_FORMAT, "%s: is no object, expected a plan", name);
	cJSON *digest = rc == RP_OK ? cJSON_DetachItemFromObjectCaseSensitive(v, "digest") : NULL;
	rp_plan *p = NULL;
	if (rc == RP_OK)
		rc = rp_plan_seal(v, &p, err);
	else
		cJSON_Delete(v);
	if (rc == RP_OK && strcmp(p->digest, digest->valuestring) != 0)
		rc = rp_fail(err, RP_HASH, "%s: its digest is %s, that of its content is %s: it was changed after it was made", name,
			digest->valuestring, p->digest);
	cJSON_Delete(digest);
	if (rc == RP_OK)
		*out = p;
	else
		rp_plan_free(p);
	return rc;
}

rp_code rp_plan_parse(const char *name, const char *text, size_t n, rp_plan **out, rp_error *err)
{
	cJSON *v = NULL;
	rp_code rc = rp_json_parse(name, text, n, &v, err);
	return rc == RP_OK ? unseal(name, v, out, err) : rc;
}

rp_code rp_plan_load(const char *path, rp_plan **out, rp_error *err)
{
	char *text = NULL;
	size_t n = 0;
	rp_code rc = rp_read_file(path, MOST_BYTES, &text, &n, err);
	if (rc == RP_OK)
		rc = rp_plan_parse(path, text, n, out, err);
	free(text);
	return rc;
}

/* ---- what it was made with ---- */
static rp_code small(const rp_json_at *at, const char *name, uint32_t *out)
{
	uint64_t v = 0;
	rp_code rc = rp_json_need_u64(at, name, 0, &v);
	if (rc == RP_OK && v > UINT32_MAX)
		rc = rp_json_wrong(at, name, rp_json_field(at, name), "a whole number up to 4294967295");
	*out = (uint32_t)v;
	return rc;
}

rp_code rp_plan_settings(const rp_plan *p, rp_plan_opts *out, rp_error *err)
{
	rp_json_at at = { "the plan", "settings.", cJSON_GetObjectItemCaseSensitive(p->json, "settings"), err };
	const cJSON *stage = rp_json_field(&at, "stage");
	uint64_t first = 0, last = 0;
	rp_plan_opts o = { 0 };
	rp_code rc = small(&at, "ctx", &o.ctx);
	if (rc == RP_OK)
		rc = small(&at, "batch", &o.chunk);
	if (rc == RP_OK)
		rc = small(&at, "depth", &o.depth);
	if (rc == RP_OK)
		rc = rp_json_need_string(&at, "variant", &o.variant);
	const char *kv = NULL;
	if (rc == RP_OK)
		rc = rp_json_need_string(&at, "kv", &kv);
	if (rc != RP_OK)
		return rc;
	if (strcmp(kv, "f16") != 0 && strcmp(kv, "f32") != 0)
		return rp_json_wrong(&at, "kv", rp_json_field(&at, "kv"), "f16 or f32");
	o.kv = strcmp(kv, "f16") == 0 ? RP_CACHE_F16 : RP_CACHE_F32;
	if (!cJSON_IsArray(stage) || cJSON_GetArraySize(stage) != 2 || !rp_json_whole(cJSON_GetArrayItem(stage, 0), &first) ||
		!rp_json_whole(cJSON_GetArrayItem(stage, 1), &last) || last < first || last >= RP_MAX_LAYERS)
		return rp_json_wrong(&at, "stage", stage, "the first and the last layer");
	o.layer_first = (uint32_t)first;
	o.layer_last = (uint32_t)last + 1;
	if (!cJSON_IsTrue(rp_json_field(&at, "variant_asked")))
		o.variant = NULL;
	*out = o;
	return RP_OK;
}

rp_code rp_plan_take_costs(const rp_plan *p, rp_plan_device *device, rp_error *err)
{
	const cJSON *costs = cJSON_GetObjectItemCaseSensitive(p->json, "costs");
	for (int c = 0; c < RP_COST_COUNT; c++) {
		char where[60];
		const char *name = rp_cost_name((rp_cost)c), *from = NULL;
		snprintf(where, sizeof where, "costs.%s.", name);
		rp_json_at at = { "the plan", where, cJSON_GetObjectItemCaseSensitive(costs, name), err };
		const cJSON *value = at.object != NULL ? rp_json_field(&at, "value") : NULL;
		if (value == NULL || !cJSON_IsNumber(value) || value->valuedouble < 1e-3 || value->valuedouble > 1e18)
			return rp_json_wrong(&at, "value", value, "a number from 0.001 to 1e18");
		rp_code rc = rp_json_need_string(&at, "from", &from);
		if (rc != RP_OK)
			return rc;
		device->cost[c] = value->valuedouble;
		device->measured[c] = strcmp(from, "description") == 0;
	}
	return RP_OK;
}

/* ---- differences ---- */
static const char of_another_model[] = "it is the plan of another model", for_another_device[] = "it was made for another device or driver",
	with_other_settings[] = "it was made with other settings";

typedef struct difference {
	char where[200];
	char kept[80], here[80];
} difference;

static void show(const cJSON *v, char out[80])
{
	rp_buf b;
	rp_buf_init(&b, 4096);
	if (v == NULL || rp_canonical(v, RP_KEYS_PLAIN, &b, NULL) != RP_OK || b.data == NULL)
		snprintf(out, 80, "%s", v == NULL ? "nothing" : "something long");
	else
		rp_show(out, 80, b.data, b.len);
	rp_buf_free(&b);
}

static bool found(difference *d, size_t len, const cJSON *a, const cJSON *b)
{
	d->where[len] = '\0';
	show(a, d->kept);
	show(b, d->here);
	return true;
}

/* The first place where b differs from a; where holds len bytes of the way there. */
static bool differs(difference *d, size_t len, const cJSON *a, const cJSON *b)
{
	if (a == NULL || b == NULL || (a->type & 0xff) != (b->type & 0xff))
		return found(d, len, a, b);
	if (!cJSON_IsObject(a) && !cJSON_IsArray(a))
		return !cJSON_Compare(a, b, true) && found(d, len, a, b);
	size_t i = 0;
	const cJSON *y = b->child;
	for (const cJSON *x = a->child; x != NULL; x = x->next, i++) {
		int n = cJSON_IsObject(a) ? snprintf(d->where + len, sizeof d->where - len, "%s%s", len > 0 ? "." : "", x->string)
			: snprintf(d->where + len, sizeof d->where - len, "[%zu]", i);
		size_t next = n > 0 && (size_t)n < sizeof d->where - len ? len + (size_t)n : sizeof d->where - 1;
		if (differs(d, next, x, cJSON_IsObject(a) ? cJSON_GetObjectItemCaseSensitive(b, x->string) : y))
			return true;
		y = y != NULL ? y->next : NULL;
	}
	return cJSON_GetArraySize(a) != cJSON_GetArraySize(b) && found(d, len, a, b);
}

static rp_code stale(const char *name, const char *advice, const difference *d, rp_error *err)
{
	return rp_fail(err, RP_STALE_PLAN, "%s: %s: %s is %s in the plan, %s here; make a new one (reploid-plan)", name, advice, d->where, d->kept,
		d->here);
}

rp_code rp_plan_belongs(const char *name, const rp_plan *kept, const rp_model *m, const rp_plan_device *device, rp_error *err)
{
	difference d = { .where = "model.identity" };
	cJSON *here = cJSON_CreateString(rp_model_identity(m)), *facts = device != NULL ? rp_plan_device_json(device) : NULL;
	const cJSON *model = cJSON_GetObjectItemCaseSensitive(kept->json, "model");
	rp_code rc = RP_OK;
	if (differs(&d, strlen(d.where), cJSON_GetObjectItemCaseSensitive(model, "identity"), here))
		rc = stale(name, of_another_model, &d, err);
	snprintf(d.where, sizeof d.where, "device");
	if (rc == RP_OK && facts != NULL && differs(&d, strlen(d.where), cJSON_GetObjectItemCaseSensitive(kept->json, "device"), facts))
		rc = stale(name, for_another_device, &d, err);
	cJSON_Delete(here);
	cJSON_Delete(facts);
	return rc;
}

/* "a.b": member b of member a. */
static const cJSON *at_path(const cJSON *o, const char *path)
{
	const char *dot = strchr(path, '.');
	char first[40];
	if (dot == NULL)
		return cJSON_GetObjectItemCaseSensitive(o, path);
	snprintf(first, sizeof first, "%.*s", (int)(dot - path), path);
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, first), dot + 1);
}

rp_code rp_plan_compare(const char *name, const rp_plan *kept, const rp_plan *here, rp_error *err)
{
	/* causes before effects: another model explains another list of work */
	static const struct {
		const char *member, *advice;
	} order[] = { { "model", of_another_model }, { "device", for_another_device },
		{ "settings.variant", with_other_settings }, { "settings", with_other_settings }, { "costs", "it assumes other costs" },
		{ "kernels", "it was made by a build with other kernels" }, { "kernel_set", "it was made by a build with other kernels" } };
	difference d = { .where = "" };
	if (strcmp(kept->digest, here->digest) == 0)
		return RP_OK;
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		const char *member = order[i].member;
		snprintf(d.where, sizeof d.where, "%s", member);
		if (differs(&d, strlen(member), at_path(kept->json, member), at_path(here->json, member)))
			return stale(name, order[i].advice, &d, err);
	}
	if (!differs(&d, 0, kept->json, here->json))
		differs(&d, 0, here->json, kept->json);
	return stale(name, "it was made by another build", &d, err);
}
