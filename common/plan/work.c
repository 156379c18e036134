/* What was submitted on paper, as JSON: dispatches with their reasons, the tables they point into, bytes and time. */
#include "plan/plan_impl.h"

#include "hash/hash.h"
#include "sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */
/* Buffers of class other have no name of their own yet. */
static void name_other(rp_plan_maker *m, size_t i)
{
	rp_buf_role *r = &m->roles[i];
	unsigned same = 0;
	for (size_t k = 0; k < i; k++)
		same += strcmp(m->bufs[k].name, m->bufs[i].name) == 0;
	if (same == 0)
		snprintf(r->name, sizeof r->name, "%s", m->bufs[i].name);
	else
		snprintf(r->name, sizeof r->name, "%s %u", m->bufs[i].name, same + 1);
}

rp_code rp_plan_roles(rp_plan_maker *m, rp_error *err)
{
	m->bufs = rp_vk_paper_bufs(m->vk, &m->n_bufs);
	m->roles = rp_alloc_array(m->n_bufs + 1, sizeof *m->roles);
	if (m->roles == NULL)
		return rp_no_memory(err, m->n_bufs * sizeof *m->roles, "the buffers of a plan");
	for (size_t i = 0; i < m->n_bufs; i++) {
		rp_engine_role(m->engine, m->bufs[i].buf, &m->roles[i]);
		if (m->roles[i].name[0] == '\0')
			name_other(m, i);
	}
	m->roles[m->n_bufs] = (rp_buf_role){ .class = RP_BUF_OTHER, .name = "gone" };
	return RP_OK;
}

static size_t buffer_at(const rp_plan_maker *m, const rp_vk_buf *b)
{
	size_t i = 0;
	while (i < m->n_bufs && m->bufs[i].buf != b)
		i++;
	return i;
}

cJSON *rp_plan_buffers(const rp_plan_maker *m)
{
	cJSON *list = cJSON_CreateArray();
	for (size_t i = 0; i < m->n_bufs; i++) {
		cJSON *o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "name", m->roles[i].name);
		cJSON_AddStringToObject(o, "class", rp_buf_class_word(m->roles[i].class));
		cJSON_AddNumberToObject(o, "heap", (double)m->bufs[i].heap);
		cJSON_AddNumberToObject(o, "size", (double)m->bufs[i].size);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

cJSON *rp_plan_memory(const rp_plan_maker *m)
{
	cJSON *list = cJSON_CreateArray();
	for (uint32_t h = 0; h < m->device->facts.n_heaps; h++) {
		uint64_t by_class[RP_BUF_CLASS_COUNT] = { 0 };
		cJSON *o = cJSON_CreateObject();
		for (size_t i = 0; i < m->n_bufs; i++)
			if (m->bufs[i].heap == h)
				by_class[m->roles[i].class] += m->bufs[i].size;
		cJSON_AddNumberToObject(o, "heap", (double)h);
		cJSON_AddNumberToObject(o, "size", (double)m->device->facts.heaps[h].size);
		cJSON_AddBoolToObject(o, "local", m->device->facts.heaps[h].local);
		cJSON_AddNumberToObject(o, "taken", (double)rp_vk_paper_heap(m->vk, h));
		for (int c = 0; c < RP_BUF_CLASS_COUNT; c++)
			cJSON_AddNumberToObject(o, rp_buf_class_word((rp_buf_class)c), (double)by_class[c]);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

/* ---- kernels and pipelines ---- */
static rp_code pipeline_at(rp_plan_maker *m, const rp_vk_pipeline *p, size_t *at, rp_error *err)
{
	for (*at = 0; *at < m->n_pipelines; ++*at)
		if (m->pipelines[*at] == p)
			return RP_OK;
	if (m->n_pipelines == m->cap_pipelines) {
		size_t cap = m->cap_pipelines + 64;
		const rp_vk_pipeline **v = rp_grow_array(m->pipelines, cap, sizeof(const rp_vk_pipeline *));
		if (v == NULL)
			return rp_no_memory(err, cap * sizeof *v, "the pipelines of a plan");
		m->pipelines = v;
		m->cap_pipelines = cap;
	}
	m->pipelines[m->n_pipelines++] = p;
	return RP_OK;
}

static cJSON *three(const uint32_t v[3])
{
	cJSON *a = cJSON_CreateArray();
	for (int i = 0; i < 3; i++)
		cJSON_AddItemToArray(a, cJSON_CreateNumber((double)v[i]));
	return a;
}

static void add_constant(cJSON *o, const rp_kernel_constant *c, uint32_t bits)
{
	union {
		uint32_t u;
		int32_t i;
		float f;
	} v = { .u = bits };
	if (c->type == 'b')
		cJSON_AddBoolToObject(o, c->name, bits != 0);
	else
		cJSON_AddNumberToObject(o, c->name, c->type == 'f' ? (double)v.f : c->type == 'i' ? (double)v.i : (double)v.u);
}

cJSON *rp_plan_pipelines(const rp_plan_maker *m)
{
	cJSON *list = cJSON_CreateArray();
	for (size_t i = 0; i < m->n_pipelines; i++) {
		const rp_kernel *k = rp_vk_pipeline_kernel(m->pipelines[i]);
		cJSON *o = cJSON_CreateObject(), *constants;
		cJSON_AddStringToObject(o, "kernel", k->name);
		constants = cJSON_AddObjectToObject(o, "constants");
		for (uint32_t c = 0; c < k->n_constants; c++)
			add_constant(constants, &k->constants[c], rp_vk_pipeline_values(m->pipelines[i])[c]);
		cJSON_AddItemToObject(o, "workgroup", three(rp_vk_pipeline_workgroup(m->pipelines[i])));
		cJSON_AddNumberToObject(o, "subgroup", (double)rp_vk_pipeline_subgroup(m->pipelines[i]));
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static int by_name(const void *a, const void *b)
{
	const rp_kernel *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

static cJSON *kernel_json(const rp_kernel *k)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} needs[] = { { RP_KERNEL_F16, "f16" }, { RP_KERNEL_SUBGROUPS, "subgroups" }, { RP_KERNEL_INT_DOT, "dot8" },
		{ RP_KERNEL_MATRIX, "cooperative-matrix" } };
	unsigned char sum[RP_HASH_BYTES];
	char text[RP_DIGEST_TEXT];
	cJSON *o = cJSON_CreateObject(), *list;
	rp_sha256_once(k->words, k->n_words * sizeof *k->words, sum);
	cJSON_AddStringToObject(o, "name", k->name);
	cJSON_AddStringToObject(o, "entry", k->entry);
	cJSON_AddStringToObject(o, "wgsl", k->digest);
	cJSON_AddStringToObject(o, "spirv", rp_digest_text(text, sum));
	list = cJSON_AddArrayToObject(o, "needs");
	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
		if (k->features & needs[i].bit)
			cJSON_AddItemToArray(list, cJSON_CreateString(needs[i].word));
	return o;
}

cJSON *rp_plan_kernels(const rp_plan_maker *m)
{
	cJSON *list = cJSON_CreateArray();
	const rp_kernel **k = rp_alloc_array(m->n_pipelines + 1, sizeof(const rp_kernel *));
	for (size_t i = 0; k != NULL && i < m->n_pipelines; i++)
		k[i] = rp_vk_pipeline_kernel(m->pipelines[i]);
	if (k != NULL && m->n_pipelines > 0)
		qsort(k, m->n_pipelines, sizeof(const rp_kernel *), by_name);
	for (size_t i = 0; k != NULL && i < m->n_pipelines; i++)
		if (i == 0 || k[i] != k[i - 1])
			cJSON_AddItemToArray(list, kernel_json(k[i]));
	free(k);
	return list;
}

/* ---- bytes and time ---- */
typedef struct cost {
	double read, written, flops, ns;
} cost;

typedef struct pass {
	rp_plan_maker *m;
	uint32_t rows, at; /* positions in the cache before the pass */
	cost total;
	uint32_t dispatches, barriers, copies;
} pass;

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* What the binding must move at least: weights once, rows that there are, positions that are held. */
static void count_bind(const pass *p, const rp_vk_work *w, const rp_vk_work_bind *b, cost *c)
{
	const rp_buf_role *r = &p->m->roles[buffer_at(p->m, b->buf)];
	const char *kernel = rp_vk_pipeline_kernel(w->pipeline)->name;
	double rows = strcmp(w->recording, "output") == 0 ? 1 : p->rows, bytes = (double)b->size, row = (double)r->row_bytes;
	bool embeds = starts(kernel, "embed"), reads = !b->binding->writable, writes = b->binding->writable;
	if (r->class == RP_BUF_WEIGHTS && !embeds)
		c->flops += 2 * rows * (double)r->values;
	if (r->class == RP_BUF_ACTIVATIONS || r->class == RP_BUF_TABLE || (r->class == RP_BUF_WEIGHTS && embeds))
		bytes = rows * row < bytes ? rows * row : bytes;
	if (r->class == RP_BUF_STATE)
		reads = true;
	if (r->class == RP_BUF_KV) {
		c->written += writes ? rows * row : 0;
		reads = !starts(kernel, "kv_append");
		writes = false;
		bytes = (p->at + rows) * row < bytes ? (p->at + rows) * row : bytes;
	}
	c->read += reads ? bytes : 0;
	c->written += writes ? bytes : 0;
}

static cost cost_of(const pass *p, const rp_vk_work *w)
{
	const double *unit = p->m->device->cost;
	cost c = { 0 };
	if (w->kind == RP_VK_DISPATCH)
		for (uint32_t i = 0; i < w->n_binds; i++)
			count_bind(p, w, &w->binds[i], &c);
	else {
		c.written = (double)w->binds[w->n_binds - 1].size;
		c.read = w->kind == RP_VK_COPY ? c.written : 0;
	}
	bool matrix = w->pipeline != NULL && (rp_vk_pipeline_kernel(w->pipeline)->features & RP_KERNEL_MATRIX) != 0;
	double moving = (c.read + c.written) / unit[RP_COST_READ] * 1e9;
	double computing = c.flops / unit[matrix ? RP_COST_MATRIX : RP_COST_FLOPS] * 1e9;
	c.ns = (moving > computing ? moving : computing) + (w->barrier ? unit[RP_COST_BARRIER] + unit[RP_COST_PHASE] : unit[RP_COST_DISPATCH]);
	return c;
}

static double whole(double v)
{
	return (double)(uint64_t)(v + 0.5);
}

static void add_cost(cJSON *o, const cost *c)
{
	cJSON_AddNumberToObject(o, "read", whole(c->read));
	cJSON_AddNumberToObject(o, "written", whole(c->written));
	cJSON_AddNumberToObject(o, "flops", whole(c->flops));
	cJSON_AddNumberToObject(o, "ns", whole(c->ns));
}

/* ---- work ---- */
static cJSON *binds_json(const pass *p, const rp_vk_work *w)
{
	static const char *const copied[] = { "from", "to" };
	cJSON *list = cJSON_CreateArray();
	for (uint32_t i = 0; i < w->n_binds; i++) {
		const rp_vk_work_bind *b = &w->binds[i];
		cJSON *o = cJSON_CreateObject();
		const char *name = b->binding != NULL ? b->binding->name : copied[i > 0 || w->n_binds == 1];
		cJSON_AddStringToObject(o, "name", name);
		if (b->binding != NULL)
			cJSON_AddNumberToObject(o, "binding", (double)b->binding->binding);
		cJSON_AddStringToObject(o, "buffer", p->m->roles[buffer_at(p->m, b->buf)].name);
		cJSON_AddNumberToObject(o, "offset", (double)b->offset);
		cJSON_AddNumberToObject(o, "size", (double)b->size);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static rp_code dispatch_json(pass *p, const rp_vk_work *w, cJSON *o, rp_error *err)
{
	char hex[2 * RP_VK_WORK_PUSH + 1];
	size_t at = 0;
	rp_code rc = pipeline_at(p->m, w->pipeline, &at, err);
	if (rc != RP_OK)
		return rc;
	cJSON_AddStringToObject(o, "kernel", rp_vk_pipeline_kernel(w->pipeline)->name);
	cJSON_AddNumberToObject(o, "pipeline", (double)at);
	cJSON_AddItemToObject(o, "groups", three(w->groups));
	rp_hex(hex, w->push, w->push_bytes);
	cJSON_AddStringToObject(o, "push", hex);
	if (w->note.layer >= 0)
		cJSON_AddNumberToObject(o, "layer", (double)w->note.layer);
	if (w->note.ops[0] != '\0')
		cJSON_AddStringToObject(o, "ops", w->note.ops);
	if (w->note.why != NULL)
		cJSON_AddStringToObject(o, "why", w->note.why);
	if (w->note.rejected != NULL)
		cJSON_AddStringToObject(o, "rejected", w->note.rejected);
	return RP_OK;
}

static rp_code work_json(pass *p, const rp_vk_work *w, cJSON *list, rp_error *err)
{
	static const char *const kinds[] = { "dispatch", "copy", "fill" };
	cJSON *o = cJSON_CreateObject();
	cost c = cost_of(p, w);
	cJSON_AddItemToArray(list, o);
	cJSON_AddStringToObject(o, "kind", kinds[w->kind]);
	cJSON_AddStringToObject(o, "recording", w->recording);
	cJSON_AddBoolToObject(o, "barrier", w->barrier);
	cJSON_AddItemToObject(o, "binds", binds_json(p, w));
	add_cost(o, &c);
	p->total.read += c.read;
	p->total.written += c.written;
	p->total.flops += c.flops;
	p->total.ns += c.ns;
	p->barriers += w->barrier;
	p->dispatches += w->kind == RP_VK_DISPATCH;
	p->copies += w->kind != RP_VK_DISPATCH;
	return w->kind == RP_VK_DISPATCH ? dispatch_json(p, w, o, err) : RP_OK;
}

rp_code rp_plan_pass(rp_plan_maker *m, const rp_plan_span *span, cJSON **out, rp_error *err)
{
	pass p = { .m = m, .rows = span->rows, .at = span->at };
	size_t n = 0;
	const rp_vk_work *w = rp_vk_paper_work(m->vk, &n);
	cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "work");
	rp_code rc = list != NULL ? RP_OK : rp_no_memory(err, n, "a plan");
	for (size_t i = span->first; i < span->end && i < n && rc == RP_OK; i++)
		rc = work_json(&p, &w[i], list, err);
	if (rc != RP_OK) {
		cJSON_Delete(o);
		return rc;
	}
	if (span->alone)
		p.total.ns += m->device->cost[RP_COST_SUBMIT];
	cJSON_AddNumberToObject(o, "rows", (double)span->rows);
	cJSON_AddNumberToObject(o, "at", (double)span->at);
	cJSON_AddNumberToObject(o, "dispatches", (double)p.dispatches);
	cJSON_AddNumberToObject(o, "barriers", (double)p.barriers);
	cJSON_AddNumberToObject(o, "copies", (double)p.copies);
	add_cost(o, &p.total);
	*out = o;
	return RP_OK;
}
