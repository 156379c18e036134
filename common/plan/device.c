/* The description of a device: facts to JSON. device_read.c has the way back. */
#include "plan/device_impl.h"

#include <stdio.h>
#include <string.h>

const rp_plan_flag rp_plan_flags[] = { { 1, "device-local" }, { 2, "host-visible" }, { 4, "host-coherent" }, { 8, "host-cached" },
	{ 16, "lazily-allocated" }, { 32, "protected" }, { 64, "device-coherent" }, { 128, "device-uncached" }, { 256, "rdma-capable" },
	{ 0, NULL } };

#define NUMBER(name, field, most) { name, offsetof(rp_vk_info, field), sizeof ((rp_vk_info *)0)->field, most }
const rp_plan_number rp_plan_ids[] = { NUMBER("vendor_id", vendor_id, UINT32_MAX), NUMBER("device_id", device_id, UINT32_MAX),
	NUMBER("driver_version", driver_version, UINT32_MAX), { NULL, 0, 0, 0 } };
const rp_plan_number rp_plan_subgroup[] = { NUMBER("size", subgroup_size, 128), NUMBER("min", subgroup_min, 128),
	NUMBER("max", subgroup_max, 128), NUMBER("max_subgroups", max_subgroups, UINT32_MAX), NUMBER("operations", subgroup_ops, UINT32_MAX),
	NUMBER("stages", subgroup_stages, UINT32_MAX), { NULL, 0, 0, 0 } };
const rp_plan_number rp_plan_limits[] = { NUMBER("max_binding", max_binding, RP_PLAN_MOST), NUMBER("max_uniform", max_uniform, RP_PLAN_MOST),
	NUMBER("max_allocation", max_allocation, RP_PLAN_MOST), NUMBER("align_binding", align_binding, 4096),
	NUMBER("max_push", max_push, UINT32_MAX), NUMBER("max_shared", max_shared, UINT32_MAX), NUMBER("max_buffers", max_buffers, UINT32_MAX),
	NUMBER("max_workgroup", max_workgroup, UINT32_MAX), { NULL, 0, 0, 0 } };

const char *rp_cost_name(rp_cost c)
{
	static const char *const names[] = {
#define X(name, member) member,
		RP_COSTS(X)
#undef X
	};
	return (unsigned)c < RP_COST_COUNT ? names[c] : "unknown";
}

/* Where nothing was measured: the order of magnitude of such a device. */
void rp_plan_default_costs(rp_plan_device *d)
{
	static const double discrete[] = { 500e9, 3000, 3000, 500, 50000, 10e12, 40e12 },
		integrated[] = { 60e9, 6000, 3000, 1500, 80000, 1e12, 4e12 }, cpu[] = { 7e9, 15000, 1, 5000, 20000, 20e9, 20e9 };
	const double *v = d->facts.type == RP_VK_CPU ? cpu : d->facts.type == RP_VK_DISCRETE || d->facts.type == RP_VK_VIRTUAL ? discrete
		: integrated;
	memcpy(d->cost, v, sizeof d->cost);
	memset(d->measured, 0, sizeof d->measured);
}

/* What a driver calls unlimited is as good at 2^53, which every reader of JSON can hold. */
static void cap(const rp_plan_number *list, rp_vk_info *f)
{
	for (; list->name != NULL; list++)
		if (list->size == sizeof(uint64_t)) {
			uint64_t v;
			memcpy(&v, (const char *)f + list->at, sizeof v);
			v = v > list->most ? list->most : v;
			memcpy((char *)f + list->at, &v, sizeof v);
		}
}

void rp_plan_device_of(const rp_vk_info *info, rp_plan_device *out)
{
	*out = (rp_plan_device){ .facts = *info };
	rp_vk_info *f = &out->facts;
	f->index = 0;
	memset(f->cache_uuid, 0, sizeof f->cache_uuid);
	for (uint32_t i = 0; i < f->n_heaps && i < RP_VK_MAX_HEAPS; i++)
		f->heaps[i] = (rp_vk_heap){ .size = f->heaps[i].size, .local = f->heaps[i].local };
	cap(rp_plan_limits, f);
	rp_plan_default_costs(out);
}

/* ---- writing ---- */
static void add_numbers(cJSON *o, const rp_plan_number *list, const rp_vk_info *f)
{
	for (; list->name != NULL; list++) {
		uint64_t wide = 0;
		uint32_t narrow = 0;
		if (list->size == sizeof wide)
			memcpy(&wide, (const char *)f + list->at, sizeof wide);
		else
			memcpy(&narrow, (const char *)f + list->at, sizeof narrow);
		cJSON_AddNumberToObject(o, list->name, (double)(wide + narrow));
	}
}

static void add_three(cJSON *o, const char *name, const uint32_t v[3])
{
	cJSON *a = cJSON_AddArrayToObject(o, name);
	for (int i = 0; i < 3; i++)
		cJSON_AddItemToArray(a, cJSON_CreateNumber((double)v[i]));
}

static void add_memory(cJSON *o, const rp_vk_info *f)
{
	cJSON *heaps = cJSON_AddArrayToObject(o, "heaps"), *types = cJSON_AddArrayToObject(o, "memory_types");
	for (uint32_t i = 0; i < f->n_heaps && i < RP_VK_MAX_HEAPS; i++) {
		cJSON *h = cJSON_CreateObject();
		cJSON_AddNumberToObject(h, "size", (double)f->heaps[i].size);
		cJSON_AddBoolToObject(h, "local", f->heaps[i].local);
		cJSON_AddItemToArray(heaps, h);
	}
	for (uint32_t i = 0; i < f->n_types && i < RP_VK_MAX_TYPES; i++) {
		cJSON *t = cJSON_CreateObject();
		cJSON_AddNumberToObject(t, "heap", (double)f->types[i].heap);
		cJSON *flags = cJSON_AddArrayToObject(t, "flags");
		for (const rp_plan_flag *g = rp_plan_flags; g->word != NULL; g++)
			if (f->types[i].flags & g->bit)
				cJSON_AddItemToArray(flags, cJSON_CreateString(g->word));
		cJSON_AddItemToArray(types, t);
	}
}

static void add_matrices(cJSON *o, const rp_vk_info *f)
{
	cJSON *list = cJSON_AddArrayToObject(o, "matrices");
	for (uint32_t i = 0; i < f->n_matrices && i < RP_VK_MAX_MATRICES; i++) {
		const rp_kernel_matrix *m = &f->matrices[i];
		cJSON *one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "input", rp_vk_component_name(m->a));
		cJSON_AddStringToObject(one, "sums", rp_vk_component_name(m->c));
		cJSON_AddNumberToObject(one, "m", (double)m->m);
		cJSON_AddNumberToObject(one, "n", (double)m->n);
		cJSON_AddNumberToObject(one, "k", (double)m->k);
		cJSON_AddItemToArray(list, one);
	}
}

cJSON *rp_plan_device_json(const rp_plan_device *d)
{
	const rp_vk_info *f = &d->facts;
	cJSON *o = cJSON_CreateObject(), *features, *part;
	char api[40];
	snprintf(api, sizeof api, "%u.%u.%u", f->api_major, f->api_minor, f->api_patch);
	cJSON_AddStringToObject(o, "schema", RP_DEVICE_SCHEMA);
	cJSON_AddStringToObject(o, "name", f->name);
	cJSON_AddStringToObject(o, "kind", rp_vk_type_name(f->type));
	cJSON_AddStringToObject(o, "driver", f->driver);
	cJSON_AddStringToObject(o, "driver_info", f->driver_info);
	cJSON_AddStringToObject(o, "vulkan", api);
	add_numbers(o, rp_plan_ids, f);
	add_memory(o, f);
	features = cJSON_AddArrayToObject(o, "features");
	for (unsigned bit = 0; bit < RP_VK_N_FEATURES; bit++)
		if (f->features & 1u << bit)
			cJSON_AddItemToArray(features, cJSON_CreateString(rp_vk_feature_name(bit)));
	add_matrices(o, f);
	part = cJSON_AddObjectToObject(o, "subgroup");
	add_numbers(part, rp_plan_subgroup, f);
	part = cJSON_AddObjectToObject(o, "limits");
	add_numbers(part, rp_plan_limits, f);
	add_three(part, "max_workgroup_size", f->max_workgroup_size);
	add_three(part, "max_groups", f->max_groups);
	part = cJSON_AddObjectToObject(o, "timestamps");
	cJSON_AddNumberToObject(part, "ns", (double)f->timestamp_ns);
	cJSON_AddNumberToObject(part, "bits", (double)f->timestamp_bits);
	return o;
}
