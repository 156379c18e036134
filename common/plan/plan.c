/* Making a plan: the engine on paper computes a pass and a token. */
#include "plan/plan_impl.h"

#include "hash/hash.h"
#include "sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rp_plan_free(rp_plan *p)
{
	if (p == NULL)
		return;
	cJSON_Delete(p->json);
	free(p);
}

const cJSON *rp_plan_json(const rp_plan *p)
{
	return p->json;
}

const char *rp_plan_digest(const rp_plan *p)
{
	return p->digest;
}

/* ---- what the engine does ---- */
static rp_code any_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)user, (void)id, (void)stop, (void)err;
	return RP_OK;
}

/* A pass of n rows of which the last one is wanted, on the sequence as it is. */
static rp_code forward(const rp_graph *g, rp_engine *e, rp_seq *s, uint32_t n, bool ids, rp_error *err)
{
	size_t width = ids ? 1 : g->config.hidden;
	uint32_t *in = rp_alloc_array(n, width * sizeof *in); /* zeros: ids, or float rows */
	if (in == NULL)
		return rp_no_memory(err, n * width * sizeof *in, "a pass on paper");
	rp_segment segment = { .seq = s, .n = n, .want = RP_WANT_LAST };
	if (ids)
		segment.ids = in;
	else
		segment.rows = (const float *)in;
	rp_output out;
	rp_code rc = rp_forward(e, &segment, 1, &out, err);
	free(in);
	return rc;
}

typedef struct passes {
	cJSON *prefill, *decode;
} passes;

static rp_code run(rp_plan_maker *m, const rp_graph *g, const rp_plan_opts *o, rp_seq *s, passes *out, rp_error *err)
{
	uint32_t chunk = rp_engine_chunk(m->engine), room = rp_engine_describe(m->engine)->ctx - 1;
	bool first = o->layer_first == 0, all = first && (o->layer_last == 0 || o->layer_last == g->n_layers);
	rp_plan_span prefill = { .rows = chunk < room ? chunk : room, .alone = true };
	rp_plan_span token = { .rows = 1, .at = o->depth, .alone = m->device->facts.type == RP_VK_CPU || !all };
	prefill.rows += prefill.rows == 0;
	rp_vk_paper_work(m->vk, &prefill.first);
	rp_code rc = forward(g, m->engine, s, prefill.rows, first, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_paper_work(m->vk, &prefill.end);
	token.first = prefill.end;
	rp_seq_reset(s);
	rp_decode_opts greedy = { .n = 1 };
	rc = all ? rp_decode(m->engine, s, &greedy, any_id, NULL, err) : forward(g, m->engine, s, 1, first, err);
	rp_vk_paper_work(m->vk, &token.end);
	if (rc == RP_OK)
		rc = rp_plan_roles(m, err);
	if (rc == RP_OK)
		rc = rp_plan_pass(m, &prefill, &out->prefill, err);
	return rc == RP_OK ? rp_plan_pass(m, &token, &out->decode, err) : rc;
}

/* ---- the document ---- */
static const char *format_word(rp_format f)
{
	return f == RP_FORMAT_GGUF ? "gguf" : f == RP_FORMAT_RDRR ? "rdrr" : "safetensors";
}

static cJSON *model_json(const rp_graph *g)
{
	const rp_config *c = &g->config;
	cJSON *o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "identity", rp_model_identity(g->model));
	cJSON_AddStringToObject(o, "format", format_word(rp_model_format(g->model)));
	cJSON_AddStringToObject(o, "family", c->family);
	cJSON_AddNumberToObject(o, "bytes", (double)rp_model_bytes(g->model));
	cJSON_AddNumberToObject(o, "tensors", (double)rp_model_n_tensors(g->model));
	cJSON_AddNumberToObject(o, "layers", (double)c->n_layers);
	cJSON_AddNumberToObject(o, "hidden", (double)c->hidden);
	cJSON_AddNumberToObject(o, "vocab", (double)c->vocab);
	return o;
}

static cJSON *settings_json(const rp_graph *g, const rp_plan_maker *m, const rp_plan_opts *o)
{
	cJSON *s = cJSON_CreateObject(), *stage;
	const char *why = NULL, *rejected = NULL;
	uint32_t last = o->layer_last == 0 ? g->n_layers : o->layer_last;
	cJSON_AddNumberToObject(s, "ctx", (double)rp_engine_describe(m->engine)->ctx);
	cJSON_AddNumberToObject(s, "batch", (double)rp_engine_chunk(m->engine));
	cJSON_AddNumberToObject(s, "depth", (double)o->depth);
	stage = cJSON_AddArrayToObject(s, "stage");
	cJSON_AddItemToArray(stage, cJSON_CreateNumber((double)o->layer_first));
	cJSON_AddItemToArray(stage, cJSON_CreateNumber((double)(last - 1)));
	cJSON_AddStringToObject(s, "kv", rp_engine_kv(m->engine) == RP_CACHE_F16 ? "f16" : "f32");
	cJSON_AddStringToObject(s, "variant", rp_engine_variant(m->engine, &why, &rejected));
	cJSON_AddBoolToObject(s, "variant_asked", o->variant != NULL);
	if (why != NULL)
		cJSON_AddStringToObject(s, "why", why);
	if (rejected != NULL)
		cJSON_AddStringToObject(s, "rejected", rejected);
	return s;
}

static cJSON *costs_json(const rp_plan_device *d)
{
	cJSON *o = cJSON_CreateObject();
	for (int c = 0; c < RP_COST_COUNT; c++) {
		cJSON *one = cJSON_AddObjectToObject(o, rp_cost_name((rp_cost)c));
		cJSON_AddNumberToObject(one, "value", d->cost[c]);
		cJSON_AddStringToObject(one, "from", d->measured[c] ? "description" : "default");
	}
	return o;
}

double rp_plan_number_of(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

const char *rp_plan_text_of(const cJSON *o, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
	return cJSON_IsString(v) ? v->valuestring : "";
}

static cJSON *predicted_json(const passes *p)
{
	cJSON *o = cJSON_CreateObject();
	double prefill = rp_plan_number_of(p->prefill, "ns"), token = rp_plan_number_of(p->decode, "ns");
	cJSON_AddNumberToObject(o, "prefill_tokens_per_s", (double)(uint64_t)(rp_plan_number_of(p->prefill, "rows") / prefill * 1e9));
	cJSON_AddNumberToObject(o, "decode_tokens_per_s", (double)(uint64_t)(1e9 / token));
	return o;
}

static rp_code document(rp_plan_maker *m, const rp_graph *g, const rp_plan_opts *o, passes *p, cJSON **out, rp_error *err)
{
	cJSON *doc = cJSON_CreateObject(), *kernels = rp_plan_kernels(m);
	unsigned char sum[RP_HASH_BYTES];
	char text[RP_DIGEST_TEXT];
	rp_code rc = rp_canonical_sha256(kernels, RP_KEYS_PLAIN, sum, err);
	cJSON_AddStringToObject(doc, "schema", RP_PLAN_SCHEMA);
	cJSON_AddItemToObject(doc, "model", model_json(g));
	cJSON_AddItemToObject(doc, "device", rp_plan_device_json(m->device));
	cJSON_AddItemToObject(doc, "settings", settings_json(g, m, o));
	cJSON_AddItemToObject(doc, "costs", costs_json(m->device));
	if (rc == RP_OK)
		cJSON_AddStringToObject(doc, "kernel_set", rp_digest_text(text, sum));
	cJSON_AddItemToObject(doc, "kernels", kernels);
	cJSON_AddItemToObject(doc, "pipelines", rp_plan_pipelines(m));
	cJSON_AddItemToObject(doc, "buffers", rp_plan_buffers(m));
	cJSON_AddItemToObject(doc, "memory", rp_plan_memory(m));
	cJSON_AddNumberToObject(doc, "sequence_bytes", (double)rp_engine_describe(m->engine)->seq_bytes);
	cJSON_AddItemToObject(doc, "predicted", predicted_json(p));
	cJSON_AddItemToObject(doc, "prefill", p->prefill);
	cJSON_AddItemToObject(doc, "decode", p->decode);
	*p = (passes){ NULL, NULL };
	if (rc == RP_OK)
		*out = doc;
	else
		cJSON_Delete(doc);
	return rc;
}

rp_code rp_plan_seal(cJSON *json, rp_plan **out, rp_error *err)
{
	unsigned char sum[RP_HASH_BYTES];
	rp_plan *p = rp_alloc(sizeof *p);
	rp_code rc = p != NULL ? rp_canonical_sha256(json, RP_KEYS_PLAIN, sum, err) : rp_no_memory(err, sizeof *p, "a plan");
	if (rc != RP_OK) {
		cJSON_Delete(json);
		free(p);
		return rc;
	}
	rp_digest_text(p->digest, sum);
	cJSON_AddStringToObject(json, "digest", p->digest);
	p->json = json;
	*out = p;
	return RP_OK;
}

static rp_code make(rp_plan_maker *m, const rp_graph *g, const rp_plan_opts *o, rp_plan **out, rp_error *err)
{
	passes p = { NULL, NULL };
	cJSON *doc = NULL;
	rp_seq *s = NULL;
	rp_code rc = rp_seq_new(m->engine, &s, err);
	if (rc == RP_OK)
		rc = run(m, g, o, s, &p, err);
	if (rc == RP_OK)
		rc = document(m, g, o, &p, &doc, err);
	cJSON_Delete(p.prefill);
	cJSON_Delete(p.decode);
	rp_seq_free(s);
	return rc == RP_OK ? rp_plan_seal(doc, out, err) : rc;
}

rp_code rp_plan_make(const rp_graph *g, const rp_plan_device *device, const rp_plan_opts *opts, rp_plan **out, rp_error *err)
{
	rp_engine_opts o = { .paper = &device->facts, .ctx = opts->ctx, .chunk = opts->chunk, .variant = opts->variant,
		.layer_first = opts->layer_first, .layer_last = opts->layer_last, .kv = opts->kv };
	rp_plan_maker m = { .device = device };
	rp_code rc = rp_engine_open(g, &o, &m.engine, err);
	if (rc != RP_OK)
		return rc;
	m.vk = rp_engine_paper(m.engine);
	rc = make(&m, g, opts, out, err);
	free(m.roles);
	free(m.pipelines);
	rp_engine_close(m.engine);
	return rc;
}

rp_code rp_plan_of_engine(const rp_engine *e, rp_plan **out, rp_error *err)
{
	const rp_vk_info *facts = rp_engine_facts(e);
	const rp_graph *g = NULL;
	rp_engine_opts o;
	rp_plan_device d;
	if (facts == NULL)
		return rp_fail(err, RP_UNSUPPORTED, "%s: the plain C engine has no dispatches to plan", rp_engine_describe(e)->device);
	rp_engine_twin(e, &o, &g);
	rp_plan_device_of(facts, &d);
	return rp_plan_make(g, &d, &(rp_plan_opts){ .ctx = o.ctx, .chunk = o.chunk, .variant = o.variant, .kv = o.kv,
		.layer_first = o.layer_first, .layer_last = o.layer_last }, out, err);
}
