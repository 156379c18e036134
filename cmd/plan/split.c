/* --split: layers over devices; --planid: the contract of two stages. */
#include "plan_cmd.h"

#include "base/jsonw.h"
#include "base/progress.h"
#include "net/net.h"
#include "plan/planid.h"
#include "plan/split.h"
#include "plan/stage.h"
#include "store/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SPLIT_SCHEMA "reploid-split/1"

/* ---- lists of numbers ---- */
static double suffix_factor(const char *s)
{
	static const char letters[] = "KMGT";
	const char *at = *s != '\0' ? strchr(letters, *s) : NULL;
	double f = 1;
	if (*s == '\0')
		return 1;
	for (const char *l = letters; at != NULL && l <= at; l++)
		f *= 1024;
	return at != NULL && (s[1] == '\0' || strcmp(s + 1, "iB") == 0) ? f : 0;
}

/* n numbers with commas between, or one for all. */
static rp_code read_list(const char *option, const char *text, bool sizes, uint32_t n, double *out, rp_error *err)
{
	char copy[1024], *at = copy, *next;
	uint32_t used = 0;
	bool ok = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy;
	for (; ok && at != NULL; at = next) {
		char *end = at;
		if ((next = strchr(at, ',')) != NULL)
			*next++ = '\0';
		errno = 0;
		double v = strtod(at, &end) * 1;
		double f = sizes ? suffix_factor(end) : *end == '\0' ? 1 : 0;
		ok = end != at && errno == 0 && isfinite(v) && v > 0 && f > 0 && v * f < 9e15 && used < n;
		if (ok)
			out[used++] = v * f;
	}
	for (uint32_t i = 1; ok && used == 1 && i < n; i++)
		out[i] = out[0];
	if (!ok || (used != n && used != 1))
		return rp_fail(err, RP_USAGE, "%s %s: expected %u %s above 0 with commas between, or one for all", option, text, n,
			sizes ? "sizes (8G, 512M)" : "numbers");
	return RP_OK;
}

/* ---- the model as a split sees it ---- */
typedef struct sizes {
	rp_split_model m;
	uint64_t *bytes, *cache, rest; /* rest: what every stage has */
	bool caches;                   /* are counted: the family is known */
} sizes;

/* Caches of a sequence, as the engine keeps them on a GPU: f16 keys and values, float32 states. */
static void count_caches(const rp_graph *g, uint64_t ctx, sizes *z)
{
	const rp_config *c = &g->config;
	uint64_t width = 2 * (uint64_t)c->lin_k_heads * c->lin_k_dim + (uint64_t)c->lin_v_heads * c->lin_v_dim;
	uint64_t state = 4 * ((uint64_t)c->lin_v_heads * c->lin_k_dim * c->lin_v_dim + (uint64_t)(c->conv_kernel > 1 ? c->conv_kernel - 1 : 1) * width);
	uint64_t kv = 2 * 2 * ctx * c->n_kv_heads * c->head_dim;
	for (uint32_t l = 0; l < z->m.layers && l < g->n_layers; l++)
		z->cache[l] = g->layers[l].kind == RP_LAYER_FULL ? kv : state;
	z->caches = true;
}

static rp_code measure(plan_state *s, sizes *z, rp_error *err)
{
	const rp_model *m = s->model;
	size_t n = rp_model_n_tensors(m);
	z->m.layers = rp_stage_layers(m);
	if (z->m.layers == 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: no tensor's name says which layer it belongs to", rp_model_path(m));
	z->bytes = rp_alloc_array(z->m.layers, sizeof *z->bytes);
	z->cache = rp_alloc_array(z->m.layers, sizeof *z->cache);
	bool *first = rp_alloc_array(n + 1, 1), *last = rp_alloc_array(n + 1, 1);
	rp_code rc = z->bytes == NULL || z->cache == NULL || first == NULL || last == NULL ? rp_no_memory(err, n, "the layers") : RP_OK;
	if (rc == RP_OK) {
		rp_stage_tensors(m, 0, 0, first);
		rp_stage_tensors(m, z->m.layers, z->m.layers, last);
	}
	for (size_t i = 0; rc == RP_OK && i < n; i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		int l = rp_stage_layer_of(t);
		if (l >= 0)
			z->bytes[l] += t->size;
		else if (first[i] && last[i] && t != rp_stage_table(m))
			z->rest += t->size;
		else {
			z->m.first += first[i] ? t->size : 0;
			z->m.last += last[i] ? t->size : 0;
		}
	}
	z->m.last_read = z->m.last;
	z->m.bytes = z->bytes;
	z->m.cache = z->cache;
	free(first);
	free(last);
	return rc;
}

/* A family the engine does not have is split by its weights alone. */
static rp_code add_caches(plan_state *s, sizes *z, rp_error *err)
{
	rp_code rc = rp_graph_build(s->model, &s->graph, err);
	if (rc == RP_OK)
		count_caches(s->graph, s->o.ctx != 0 ? s->o.ctx : s->graph->config.max_ctx < 4096 ? s->graph->config.max_ctx : 4096, z);
	else if (rc == RP_UNSUPPORTED && !s->o.quiet)
		fprintf(stderr, "%s: caches are not counted, for the engine does not have this family: %s\n", plan_program.name,
			err != NULL ? err->msg : "");
	return rc == RP_UNSUPPORTED ? RP_OK : rc;
}

/* ---- what is written ---- */
typedef struct result {
	const sizes *z;
	const rp_split_device *d;
	uint32_t n, end[RP_SPLIT_DEVICES];
	double longest;
} result;

static void write_json(const plan_state *s, const result *r, rp_buf *out)
{
	rp_jsonw w;
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "schema", SPLIT_SCHEMA);
	rp_jsonw_pair_str(&w, "model", rp_model_identity(s->model));
	rp_jsonw_pair_u64(&w, "layers", r->z->m.layers);
	rp_jsonw_key(&w, "caches");
	rp_jsonw_bool(&w, r->z->caches);
	rp_jsonw_key(&w, "stages");
	rp_jsonw_array(&w);
	for (uint32_t i = 0, first = 0; i < r->n; first = r->end[i++]) {
		rp_jsonw_object(&w);
		rp_jsonw_key(&w, "layers");
		rp_jsonw_array(&w);
		rp_jsonw_u64(&w, first);
		rp_jsonw_u64(&w, r->end[i] - 1);
		rp_jsonw_end(&w);
		rp_jsonw_pair_u64(&w, "takes", rp_split_memory(&r->z->m, i, r->n, first, r->end[i]) + r->z->rest);
		rp_jsonw_pair_u64(&w, "memory", r->d[i].memory + r->z->rest);
		rp_jsonw_pair_f64(&w, "speed", r->d[i].speed);
		rp_jsonw_pair_f64(&w, "time", rp_split_time(&r->z->m, r->d[i].speed, i, r->n, first, r->end[i]) / r->longest);
		rp_jsonw_end(&w);
	}
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
}

static void write_table(const result *r, rp_buf *out)
{
	char a[32], b[32];
	rp_buf_adds(out, "stage  layers     takes          of             speed  time of the slowest\n");
	for (uint32_t i = 0, first = 0; i < r->n; first = r->end[i++]) {
		char layers[40];
		snprintf(layers, sizeof layers, "%u-%u", first, r->end[i] - 1);
		rp_buf_addf(out, "%-6u %-10s %-14s %-12s %7g  %5.1f %%\n", i, layers,
			rp_size_text(a, sizeof a, rp_split_memory(&r->z->m, i, r->n, first, r->end[i]) + r->z->rest),
			rp_size_text(b, sizeof b, r->d[i].memory + r->z->rest), r->d[i].speed,
			100 * rp_split_time(&r->z->m, r->d[i].speed, i, r->n, first, r->end[i]) / r->longest);
	}
	rp_buf_addf(out, "weights as stored%s; time is what a token reads over the speed\n", r->z->caches ? " and the caches of one sequence" : "");
}

static rp_code devices_of(const plan_state *s, const sizes *z, uint32_t n, rp_split_device *d, rp_error *err)
{
	double memory[RP_SPLIT_DEVICES], speed[RP_SPLIT_DEVICES];
	rp_code rc = s->o.memory != NULL ? read_list("--memory", s->o.memory, true, n, memory, err)
		: rp_fail(err, RP_USAGE, "--split needs --memory: what each device has, as in 8G,8G,24G");
	if (rc == RP_OK)
		rc = read_list("--speed", s->o.speed != NULL ? s->o.speed : "1", false, n, speed, err);
	for (uint32_t i = 0; rc == RP_OK && i < n; i++) {
		uint64_t bytes = (uint64_t)memory[i];
		d[i] = (rp_split_device){bytes > z->rest ? bytes - z->rest : 0, speed[i]};
	}
	return rc;
}

rp_code plan_split(plan_state *s, rp_error *err)
{
	sizes z = {.rest = 0};
	rp_split_device d[RP_SPLIT_DEVICES] = {{0}};
	result r = {.z = &z, .d = d, .n = (uint32_t)s->o.split};
	rp_code rc = measure(s, &z, err);
	if (rc == RP_OK)
		rc = devices_of(s, &z, r.n, d, err);
	if (rc == RP_OK)
		rc = add_caches(s, &z, err);
	if (rc == RP_OK)
		rc = rp_split_layers(&z.m, d, r.n, r.end, err);
	for (uint32_t i = 0, first = 0; rc == RP_OK && i < r.n; first = r.end[i++]) {
		double t = rp_split_time(&z.m, d[i].speed, i, r.n, first, r.end[i]);
		r.longest = t > r.longest ? t : r.longest;
	}
	if (rc == RP_OK && s->o.explain)
		write_table(&r, &s->out);
	else if (rc == RP_OK)
		write_json(s, &r, &s->out);
	free(z.bytes);
	free(z.cache);
	return rc;
}

/* ---- plan ids ---- */
enum { MOST_MANIFEST = 64 << 20 };

/* The manifest of a folder or a file, when the operand is one. NULL: it is not. */
static char *manifest_of(const char *operand)
{
	struct stat st;
	char *path = NULL;
	size_t n = strlen(operand);
	if (rp_model_is_random(operand) || rp_net_is_http(operand) || rp_model_locate(operand, &path, NULL) != RP_OK || stat(path, &st) != 0) {
		free(path);
		return NULL;
	}
	if (S_ISDIR(st.st_mode)) {
		char *inside = rp_asprintf("%s/manifest.json", path);
		free(path);
		path = inside;
	} else if (n < 5 || strcmp(operand + n - 5, ".json") != 0) {
		free(path);
		return NULL;
	}
	if (path != NULL && stat(path, &st) != 0) {
		free(path);
		path = NULL;
	}
	return path;
}

static rp_code facts(plan_state *s, rp_planid *p, rp_error *err)
{
	char *path = manifest_of(s->name), *text = NULL;
	size_t n = 0;
	rp_code rc = path != NULL ? rp_read_file(path, MOST_MANIFEST, &text, &n, err) : RP_OK;
	if (rc == RP_OK && path != NULL)
		rc = rp_planid_of_manifest(path, text, n, p, err);
	else if (rc == RP_OK && s->model == NULL)
		rc = plan_open_model(s, err);
	if (rc == RP_OK && path == NULL)
		rc = rp_planid_of_model(s->model, p, err);
	free(text);
	free(path);
	return rc;
}

rp_code plan_planid(plan_state *s, rp_error *err)
{
	rp_planid p = {.split = 0};
	char id[72];
	if (s->name == NULL)
		return rp_fail(err, RP_USAGE, "name a model: a file, a folder, a manifest, or an id in the store");
	rp_code rc = facts(s, &p, err);
	if (rc == RP_OK && s->o.id != NULL && snprintf(p.model_id, sizeof p.model_id, "%s", s->o.id) >= (int)sizeof p.model_id)
		rc = rp_fail(err, RP_USAGE, "--id: more than 255 bytes");
	if (rc == RP_OK && p.model_id[0] == '\0')
		rc = rp_fail(err, RP_USAGE, "this model has no manifest that names it; give the name that peers know it by with --id");
	p.split = s->o.split_at;
	if (rc == RP_OK)
		rc = rp_planid_make(&p, s->o.explain ? &s->out : NULL, id, err);
	if (rc == RP_OK)
		rp_buf_addf(&s->out, "%s%s\n", s->o.explain ? "\n" : "", id);
	return rc;
}
