/* --list-devices. */
#include "run.h"

#include "vk/vk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEVICES_SCHEMA "reploid-devices/1"

static void text_device(const rp_vk_info *d, rp_buf *out)
{
	char a[32], b[32], c[32];
	rp_buf_addf(out, "%u    %s (%s)", d->index, d->name, rp_vk_type_name(d->type));
	if (!d->usable)
		rp_buf_addf(out, ": not usable: %s", d->why_not);
	rp_buf_addf(out, "\n     driver    %s %s, Vulkan %u.%u.%u\n", d->driver, d->driver_info, d->api_major, d->api_minor, d->api_patch);
	for (uint32_t i = 0; i < d->n_heaps; i++) {
		const rp_vk_heap *h = &d->heaps[i];
		rp_buf_addf(out, "     memory    %s%s", rp_size_text(a, sizeof a, h->size), h->local ? ", the device's own" : ", of the host");
		if (d->features & RP_VK_BUDGET)
			rp_buf_addf(out, ", %s free", rp_size_text(b, sizeof b, h->budget > h->used ? h->budget - h->used : 0));
		rp_buf_addc(out, '\n');
	}
	rp_buf_addf(out, "     limits    %s a binding, %s an allocation, %s shared memory, subgroups of %u\n",
		rp_size_text(a, sizeof a, d->max_binding), rp_size_text(b, sizeof b, d->max_allocation), rp_size_text(c, sizeof c, d->max_shared),
		d->subgroup_size);
	rp_buf_adds(out, "     features ");
	for (unsigned bit = 0; bit < RP_VK_N_FEATURES; bit++) {
		if (d->features & 1u << bit)
			rp_buf_addf(out, " %s", rp_vk_feature_name(bit));
	}
	rp_buf_addc(out, '\n');
	for (uint32_t i = 0; i < d->n_matrices; i++) {
		const rp_kernel_matrix *m = &d->matrices[i];
		rp_buf_addf(out, "%s%u x %u x %u %s to %s", i ? ", " : "     matrices  ", m->m, m->n, m->k, rp_vk_component_name(m->a),
			rp_vk_component_name(m->c));
	}
	if (d->n_matrices != 0)
		rp_buf_addc(out, '\n');
}

static void json_matrices(const rp_vk_info *d, rp_jsonw *w)
{
	rp_jsonw_key(w, "matrices");
	rp_jsonw_array(w);
	for (uint32_t i = 0; i < d->n_matrices; i++) {
		const rp_kernel_matrix *m = &d->matrices[i];
		rp_jsonw_object(w);
		rp_jsonw_pair_str(w, "factors", rp_vk_component_name(m->a));
		rp_jsonw_pair_str(w, "sum", rp_vk_component_name(m->c));
		rp_jsonw_pair_u64(w, "m", m->m);
		rp_jsonw_pair_u64(w, "n", m->n);
		rp_jsonw_pair_u64(w, "k", m->k);
		rp_jsonw_end(w);
	}
	rp_jsonw_end(w);
}

static void json_heaps(const rp_vk_info *d, rp_jsonw *w)
{
	rp_jsonw_key(w, "heaps");
	rp_jsonw_array(w);
	for (uint32_t i = 0; i < d->n_heaps; i++) {
		const rp_vk_heap *h = &d->heaps[i];
		rp_jsonw_object(w);
		rp_jsonw_pair_u64(w, "size", h->size);
		rp_jsonw_pair_u64(w, "budget", h->budget);
		rp_jsonw_pair_u64(w, "used", h->used);
		rp_jsonw_key(w, "local");
		rp_jsonw_bool(w, h->local);
		rp_jsonw_end(w);
	}
	rp_jsonw_end(w);
}

static void json_device(const rp_vk_info *d, rp_jsonw *w)
{
	char api[40];
	snprintf(api, sizeof api, "%u.%u.%u", d->api_major, d->api_minor, d->api_patch);
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "type", "device");
	rp_jsonw_pair_str(w, "schema", DEVICES_SCHEMA);
	rp_jsonw_pair_u64(w, "index", d->index);
	rp_jsonw_pair_str(w, "name", d->name);
	rp_jsonw_pair_str(w, "kind", rp_vk_type_name(d->type));
	rp_jsonw_pair_str(w, "driver", d->driver);
	rp_jsonw_pair_str(w, "driver_info", d->driver_info);
	rp_jsonw_pair_str(w, "vulkan", api);
	rp_jsonw_key(w, "usable");
	rp_jsonw_bool(w, d->usable);
	rp_jsonw_pair_str(w, "why_not", d->usable ? NULL : d->why_not);
	json_heaps(d, w);
	rp_jsonw_pair_u64(w, "max_binding", d->max_binding);
	rp_jsonw_pair_u64(w, "max_allocation", d->max_allocation);
	rp_jsonw_pair_u64(w, "max_shared", d->max_shared);
	rp_jsonw_pair_u64(w, "subgroup_size", d->subgroup_size);
	rp_jsonw_key(w, "features");
	rp_jsonw_array(w);
	for (unsigned bit = 0; bit < RP_VK_N_FEATURES; bit++) {
		if (d->features & 1u << bit)
			rp_jsonw_str(w, rp_vk_feature_name(bit));
	}
	rp_jsonw_end(w);
	json_matrices(d, w);
	rp_jsonw_end(w);
	rp_jsonw_line(w);
}

/* The engine that needs no driver stands last in both lists. */
static void cpu(bool json, rp_buf *out, rp_jsonw *w)
{
	if (!json) {
		rp_buf_adds(out, "cpu  the C engine: needs no driver, computes in float32 on the processor\n");
		return;
	}
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "type", "device");
	rp_jsonw_pair_str(w, "schema", DEVICES_SCHEMA);
	rp_jsonw_key(w, "index");
	rp_jsonw_null(w);
	rp_jsonw_pair_str(w, "name", "cpu");
	rp_jsonw_pair_str(w, "kind", "cpu-engine");
	rp_jsonw_key(w, "usable");
	rp_jsonw_bool(w, true);
	rp_jsonw_end(w);
	rp_jsonw_line(w);
}

rp_code run_list_devices(const run_opts *o, rp_error *err)
{
	rp_vk_info *list = NULL;
	size_t n = 0;
	rp_error none;
	rp_code code = rp_vk_devices(&list, &n, &none);
	if (code != RP_OK && code != RP_NO_DEVICE)
		return rp_fail(err, code, "%s", none.msg);
	if (code == RP_NO_DEVICE && !o->quiet)
		run_say("%s", none.msg); /* the list is still true without it */
	rp_buf out;
	rp_jsonw w;
	rp_buf_init(&out, 0);
	rp_jsonw_init(&w, &out);
	for (size_t i = 0; i < n; i++) {
		if (o->json)
			json_device(&list[i], &w);
		else
			text_device(&list[i], &out);
	}
	cpu(o->json, &out, &w);
	free(list);
	code = run_write_json(&out, &w, err);
	rp_buf_free(&out);
	return code;
}
