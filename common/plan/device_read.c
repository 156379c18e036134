/* The description of a device: JSON to facts, strictly. */
#include "plan/device_impl.h"

#include "model/json.h"
#include "vk/paper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* ---- members ---- */
/* None but these: up to three lists of names, the tables of numbers among them. */
static rp_code only(const rp_json_at *at, const char *const *words, const rp_plan_number *numbers)
{
	for (const cJSON *m = at->object->child; m != NULL; m = m->next) {
		bool known = false;
		for (const char *const *w = words; *w != NULL && !known; w++)
			known = strcmp(*w, m->string) == 0;
		for (const rp_plan_number *n = numbers; n != NULL && n->name != NULL && !known; n++)
			known = strcmp(n->name, m->string) == 0;
		char shown[80];
		if (!known)
			return rp_fail(at->err, RP_FORMAT, "%s: %s%s is no member of a device description", at->file, at->where,
				rp_show(shown, sizeof shown, m->string, strlen(m->string)));
	}
	return RP_OK;
}

static rp_code number(const rp_json_at *at, const char *name, uint64_t most, uint64_t *out)
{
	char expected[60];
	rp_code rc = rp_json_need_u64(at, name, 0, out);
	if (rc != RP_OK || *out <= most)
		return rc;
	snprintf(expected, sizeof expected, "a whole number up to %llu", (unsigned long long)most);
	return rp_json_wrong(at, name, rp_json_field(at, name), expected);
}

static rp_code numbers(const rp_json_at *at, const rp_plan_number *list, rp_vk_info *f)
{
	for (; list->name != NULL; list++) {
		uint64_t wide;
		rp_code rc = number(at, list->name, list->most, &wide);
		if (rc != RP_OK)
			return rc;
		uint32_t narrow = (uint32_t)wide;
		if (list->size == sizeof wide)
			memcpy((char *)f + list->at, &wide, sizeof wide);
		else
			memcpy((char *)f + list->at, &narrow, sizeof narrow);
	}
	return RP_OK;
}

static rp_code text(const rp_json_at *at, const char *name, char *out, size_t size)
{
	const cJSON *v = rp_json_field(at, name);
	if (!cJSON_IsString(v) || strlen(v->valuestring) >= size)
		return rp_json_wrong(at, name, v, "a text of at most 255 bytes");
	memcpy(out, v->valuestring, strlen(v->valuestring) + 1);
	return RP_OK;
}

static rp_code array(const rp_json_at *at, const char *name, int least, int most, const cJSON **out)
{
	char expected[60];
	const cJSON *v = rp_json_field(at, name);
	snprintf(expected, sizeof expected, "a list of %d to %d", least, most);
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) < least || cJSON_GetArraySize(v) > most)
		return rp_json_wrong(at, name, v, expected);
	*out = v;
	return RP_OK;
}

static rp_code three(const rp_json_at *at, const char *name, uint32_t out[3])
{
	const cJSON *list = NULL;
	rp_code rc = array(at, name, 3, 3, &list);
	for (int i = 0; i < 3 && rc == RP_OK; i++) {
		uint64_t v = 0;
		const cJSON *item = cJSON_GetArrayItem(list, i);
		if (!rp_json_whole(item, &v) || v == 0 || v > UINT32_MAX)
			rc = rp_json_wrong(at, name, item, "three whole numbers from 1 to 4294967295");
		out[i] = (uint32_t)v;
	}
	return rc;
}

static rp_code object(const rp_json_at *at, const char *name, const char *where, rp_json_at *out)
{
	*out = (rp_json_at){ at->file, where, NULL, at->err };
	return rp_json_need_object(at, name, &out->object);
}

/* ---- parts ---- */
static rp_code kind(const rp_json_at *at, rp_vk_info *f)
{
	const char *word = NULL;
	rp_code rc = rp_json_need_string(at, "kind", &word);
	for (int t = RP_VK_DISCRETE; t <= RP_VK_OTHER && rc == RP_OK; t++)
		if (strcmp(word, rp_vk_type_name((rp_vk_type)t)) == 0) {
			f->type = (rp_vk_type)t;
			return RP_OK;
		}
	return rc != RP_OK ? rc : rp_json_wrong(at, "kind", rp_json_field(at, "kind"), "discrete, integrated, virtual, cpu or other");
}

static rp_code vulkan(const rp_json_at *at, rp_vk_info *f)
{
	const char *word = NULL;
	char again[40];
	rp_code rc = rp_json_need_string(at, "vulkan", &word);
	if (rc != RP_OK)
		return rc;
	uint32_t *const parts[] = { &f->api_major, &f->api_minor, &f->api_patch };
	char *at_part = (char *)(uintptr_t)word;
	for (int i = 0; i < 3; i++) {
		*parts[i] = (uint32_t)strtoul(at_part, &at_part, 10);
		at_part += *at_part == '.';
	}
	/* written again it must be what was read, which settles signs, spaces and what stands behind */
	snprintf(again, sizeof again, "%u.%u.%u", f->api_major, f->api_minor, f->api_patch);
	if (strcmp(word, again) != 0 || f->api_major != 1 || f->api_minor < 2)
		return rp_json_wrong(at, "vulkan", rp_json_field(at, "vulkan"), "a version from 1.2.0 below 2, as in \"1.3.230\"");
	return RP_OK;
}

static rp_code features(const rp_json_at *at, rp_vk_info *f)
{
	const cJSON *list = NULL, *item;
	rp_code rc = array(at, "features", 0, RP_VK_N_FEATURES, &list);
	if (rc != RP_OK)
		return rc;
	cJSON_ArrayForEach(item, list)
	{
		unsigned bit = 0;
		while (bit < RP_VK_N_FEATURES && (!cJSON_IsString(item) || strcmp(item->valuestring, rp_vk_feature_name(bit)) != 0))
			bit++;
		if (bit == RP_VK_N_FEATURES || (f->features & 1u << bit) != 0)
			return rp_json_wrong(at, "features", item, "names of features this build knows, each once");
		f->features |= 1u << bit;
	}
	return RP_OK;
}

static rp_code heap(const rp_json_at *at, rp_vk_heap *h)
{
	static const char *const words[] = { "size", "local", NULL };
	rp_code rc = only(at, words, NULL);
	if (rc == RP_OK)
		rc = number(at, "size", RP_PLAN_MOST, &h->size);
	const cJSON *local = rp_json_field(at, "local");
	if (rc == RP_OK && !cJSON_IsBool(local))
		rc = rp_json_wrong(at, "local", local, "true or false");
	h->local = cJSON_IsTrue(local);
	return rc;
}

static rp_code memory_type(const rp_json_at *at, uint32_t n_heaps, rp_vk_memory *t)
{
	static const char *const words[] = { "heap", "flags", NULL };
	const cJSON *list = NULL, *item;
	uint64_t h = 0;
	rp_code rc = only(at, words, NULL);
	if (rc == RP_OK)
		rc = number(at, "heap", n_heaps - 1, &h);
	if (rc == RP_OK)
		rc = array(at, "flags", 0, 32, &list);
	if (rc != RP_OK)
		return rc;
	t->heap = (uint32_t)h;
	cJSON_ArrayForEach(item, list)
	{
		const rp_plan_flag *g = rp_plan_flags;
		while (g->word != NULL && (!cJSON_IsString(item) || strcmp(g->word, item->valuestring) != 0))
			g++;
		if (g->word == NULL || (t->flags & g->bit) != 0)
			return rp_json_wrong(at, "flags", item, "names of properties of memory, each once");
		t->flags |= g->bit;
	}
	return RP_OK;
}

static rp_code memory(const rp_json_at *at, rp_vk_info *f)
{
	const cJSON *heaps = NULL, *types = NULL, *item;
	char where[40];
	rp_code rc = array(at, "heaps", 1, RP_VK_MAX_HEAPS, &heaps);
	if (rc == RP_OK)
		rc = array(at, "memory_types", 1, RP_VK_MAX_TYPES, &types);
	if (rc != RP_OK)
		return rc;
	cJSON_ArrayForEach(item, heaps)
	{
		snprintf(where, sizeof where, "heaps[%u].", f->n_heaps);
		rp_json_at in = { at->file, where, item, at->err };
		if ((rc = cJSON_IsObject(item) ? heap(&in, &f->heaps[f->n_heaps++]) : rp_json_wrong(at, "heaps", item, "a list of objects")) != RP_OK)
			return rc;
	}
	cJSON_ArrayForEach(item, types)
	{
		snprintf(where, sizeof where, "memory_types[%u].", f->n_types);
		rp_json_at in = { at->file, where, item, at->err };
		if ((rc = cJSON_IsObject(item) ? memory_type(&in, f->n_heaps, &f->types[f->n_types++])
					: rp_json_wrong(at, "memory_types", item, "a list of objects")) != RP_OK)
			return rc;
	}
	return RP_OK;
}

static rp_code component(const rp_json_at *at, const char *name, char *out)
{
	const cJSON *v = rp_json_field(at, name);
	for (const char *c = RP_PLAN_COMPONENTS; *c != '\0'; c++)
		if (cJSON_IsString(v) && strcmp(v->valuestring, rp_vk_component_name(*c)) == 0) {
			*out = *c;
			return RP_OK;
		}
	return rp_json_wrong(at, name, v, "f16, f32, i8, u8, i32 or u32");
}

static rp_code matrix(const rp_json_at *at, rp_kernel_matrix *m)
{
	static const char *const words[] = { "input", "sums", "m", "n", "k", NULL };
	uint64_t size[3] = { 0 };
	rp_code rc = only(at, words, NULL);
	if (rc == RP_OK)
		rc = component(at, "input", &m->a);
	if (rc == RP_OK)
		rc = component(at, "sums", &m->c);
	for (int i = 0; i < 3 && rc == RP_OK; i++)
		rc = number(at, words[2 + i], 4096, &size[i]);
	m->m = (uint32_t)size[0];
	m->n = (uint32_t)size[1];
	m->k = (uint32_t)size[2];
	return rc;
}

static rp_code matrices(const rp_json_at *at, rp_vk_info *f)
{
	const cJSON *list = NULL, *item;
	char where[40];
	rp_code rc = array(at, "matrices", 0, RP_VK_MAX_MATRICES, &list);
	cJSON_ArrayForEach(item, list)
	{
		snprintf(where, sizeof where, "matrices[%u].", f->n_matrices);
		rp_json_at in = { at->file, where, item, at->err };
		if ((rc = cJSON_IsObject(item) ? matrix(&in, &f->matrices[f->n_matrices++]) : rp_json_wrong(at, "matrices", item, "a list of objects")) !=
			RP_OK)
			return rc;
	}
	return rc;
}

static rp_code subgroup_and_limits(const rp_json_at *at, rp_vk_info *f)
{
	static const char *const none[] = { NULL }, *const threes[] = { "max_workgroup_size", "max_groups", NULL };
	rp_json_at in;
	rp_code rc = object(at, "subgroup", "subgroup.", &in);
	if (rc == RP_OK)
		rc = only(&in, none, rp_plan_subgroup);
	if (rc == RP_OK)
		rc = numbers(&in, rp_plan_subgroup, f);
	if (rc == RP_OK)
		rc = object(at, "limits", "limits.", &in);
	if (rc == RP_OK)
		rc = only(&in, threes, rp_plan_limits);
	if (rc == RP_OK)
		rc = numbers(&in, rp_plan_limits, f);
	if (rc == RP_OK)
		rc = three(&in, "max_workgroup_size", f->max_workgroup_size);
	return rc == RP_OK ? three(&in, "max_groups", f->max_groups) : rc;
}

static rp_code timestamps(const rp_json_at *at, rp_vk_info *f)
{
	static const char *const words[] = { "ns", "bits", NULL };
	rp_json_at in;
	uint64_t bits = 0;
	rp_code rc = object(at, "timestamps", "timestamps.", &in);
	if (rc == RP_OK)
		rc = only(&in, words, NULL);
	if (rc == RP_OK)
		rc = number(&in, "bits", 64, &bits);
	const cJSON *ns = rc == RP_OK ? rp_json_field(&in, "ns") : NULL;
	if (rc == RP_OK && (!cJSON_IsNumber(ns) || ns->valuedouble < 0 || ns->valuedouble > 1e9))
		rc = rp_json_wrong(&in, "ns", ns, "a number from 0 to 1e9");
	if (rc == RP_OK) {
		f->timestamp_bits = (uint32_t)bits;
		f->timestamp_ns = (float)ns->valuedouble;
	}
	return rc;
}

static rp_code measured(const rp_json_at *at, rp_plan_device *d)
{
	rp_json_at in;
	rp_plan_default_costs(d);
	if (rp_json_field(at, "measured") == NULL)
		return RP_OK;
	rp_code rc = object(at, "measured", "measured.", &in);
	if (rc != RP_OK)
		return rc;
	for (const cJSON *m = in.object->child; m != NULL; m = m->next) {
		unsigned c = 0;
		while (c < RP_COST_COUNT && strcmp(m->string, rp_cost_name((rp_cost)c)) != 0)
			c++;
		char shown[80];
		if (c == RP_COST_COUNT)
			return rp_fail(at->err, RP_FORMAT, "%s: measured.%s is unknown; expected read_bytes_per_s, barrier_ns, phase_ns, dispatch_ns, "
				"submit_ns, flops_per_s or matrix_flops_per_s", at->file, rp_show(shown, sizeof shown, m->string, strlen(m->string)));
		if (!cJSON_IsNumber(m) || m->valuedouble < 1e-3 || m->valuedouble > 1e18)
			return rp_json_wrong(&in, rp_cost_name((rp_cost)c), m, "a number from 0.001 to 1e18");
		d->cost[c] = m->valuedouble;
		d->measured[c] = true;
	}
	return RP_OK;
}

static rp_code assumed(const rp_json_at *at, rp_plan_device *d)
{
	const cJSON *list = NULL, *item;
	if (rp_json_field(at, "assumed") == NULL)
		return RP_OK;
	rp_code rc = array(at, "assumed", 0, 64, &list);
	if (rc != RP_OK)
		return rc;
	cJSON_ArrayForEach(item, list)
	{
		size_t n = strlen(d->assumed);
		if (!cJSON_IsString(item) || n + strlen(item->valuestring) + 2 > sizeof d->assumed)
			return rp_json_wrong(at, "assumed", item, "names of members, 400 bytes in all");
		snprintf(d->assumed + n, sizeof d->assumed - n, "%s%s", n > 0 ? " " : "", item->valuestring);
	}
	return RP_OK;
}

static rp_code parse(const rp_json_at *at, rp_plan_device *d)
{
	static const char *const words[] = { "schema", "name", "kind", "driver", "driver_info", "vulkan", "heaps", "memory_types", "features",
		"matrices", "subgroup", "limits", "timestamps", "measured", "assumed", "source", NULL };
	rp_vk_info *f = &d->facts;
	const char *schema = NULL;
	rp_code rc = rp_json_need_string(at, "schema", &schema);
	if (rc == RP_OK && strcmp(schema, RP_DEVICE_SCHEMA) != 0)
		rc = rp_json_wrong(at, "schema", rp_json_field(at, "schema"), "\"" RP_DEVICE_SCHEMA "\"");
	if (rc == RP_OK)
		rc = only(at, words, rp_plan_ids);
	if (rc == RP_OK)
		rc = text(at, "name", f->name, sizeof f->name);
	if (rc == RP_OK)
		rc = kind(at, f);
	if (rc == RP_OK)
		rc = text(at, "driver", f->driver, sizeof f->driver);
	if (rc == RP_OK)
		rc = text(at, "driver_info", f->driver_info, sizeof f->driver_info);
	if (rc == RP_OK)
		rc = vulkan(at, f);
	if (rc == RP_OK)
		rc = numbers(at, rp_plan_ids, f);
	if (rc == RP_OK)
		rc = memory(at, f);
	if (rc == RP_OK)
		rc = features(at, f);
	if (rc == RP_OK)
		rc = matrices(at, f);
	if (rc == RP_OK)
		rc = subgroup_and_limits(at, f);
	if (rc == RP_OK)
		rc = timestamps(at, f);
	if (rc == RP_OK)
		rc = measured(at, d);
	return rc == RP_OK ? assumed(at, d) : rc;
}

/* A description that opens on paper is one that plans can be made with. */
static rp_code check(const char *name, const rp_plan_device *d, rp_error *err)
{
	rp_vk *vk = NULL;
	rp_code rc = rp_vk_open_paper(&d->facts, NULL, &vk, err);
	if (rc == RP_OK)
		rc = rp_vk_fits(vk, 0, "nothing", err);
	rp_vk_close(vk);
	return rc == RP_OK ? RP_OK : rp_error_prefix(err, rc, "%s: ", name);
}

rp_code rp_plan_device_parse(const char *name, const char *text_, size_t n, rp_plan_device *out, rp_error *err)
{
	cJSON *v = NULL;
	rp_plan_device d = { .facts.usable = true };
	rp_code rc = rp_json_parse(name, text_, n, &v, err);
	rp_json_at at = { name, "", v, err };
	if (rc == RP_OK)
		rc = cJSON_IsObject(v) ? parse(&at, &d) : rp_fail(err, RP_FORMAT, "%s: is no object, expected a device description", name);
	cJSON_Delete(v);
	if (rc == RP_OK)
		rc = check(name, &d, err);
	if (rc == RP_OK)
		*out = d;
	return rc;
}

rp_code rp_plan_device_load(const char *path, rp_plan_device *out, rp_error *err)
{
	char *data = NULL;
	size_t n = 0;
	rp_code rc = rp_read_file(path, MOST_BYTES, &data, &n, err);
	if (rc == RP_OK)
		rc = rp_plan_device_parse(path, data, n, out, err);
	free(data);
	return rc;
}
