#include "store/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "net/net.h"
#include "store/pieces.h"
#include "store/store.h"

enum { MAX_MODELS = 4096, MAX_FILES = 1024 }; /* names are compared each with each */

typedef struct reader {
	rp_catalog *c;
	const char *file, *site;
	rp_error *err;
} reader;

static rp_code keep(reader *r, const char *text, const char **out)
{
	*out = rp_arena_strndup(&r->c->arena, text, strlen(text));
	return *out != NULL ? RP_OK : rp_no_memory(r->err, strlen(text), "the catalogue");
}

static rp_code need_kept(reader *r, const rp_json_at *at, const char *name, const char **out)
{
	const char *text;
	rp_code rc = rp_json_need_string(at, name, &text);
	return rc == RP_OK ? keep(r, text, out) : rc;
}

static rp_code optional_kept(reader *r, const rp_json_at *at, const char *name, const char **out)
{
	*out = NULL;
	return rp_json_field(at, name) != NULL ? need_kept(r, at, name, out) : RP_OK;
}

/* An address, whole or below the site; only https, or http to this machine. */
static rp_code need_url(reader *r, const rp_json_at *at, const char *name, const char **out)
{
	const char *text;
	rp_code rc = rp_json_need_string(at, name, &text);
	if (rc != RP_OK)
		return rc;
	char *url = rp_net_join(r->site, text);
	if (url == NULL || !rp_net_is_http(url) || !rp_net_is_private(url) || rp_net_has_userinfo(url))
		rc = rp_json_wrong(at, name, rp_json_field(at, name), "an https address without user and password");
	else
		rc = keep(r, url, out);
	free(url);
	return rc;
}

static rp_code need_digest(const rp_json_at *at, const char *name, unsigned char out[RP_HASH_BYTES])
{
	const char *text;
	rp_code rc = rp_json_need_string(at, name, &text);
	if (rc == RP_OK && !rp_digest_parse(text, out))
		rc = rp_json_wrong(at, name, rp_json_field(at, name), "\"sha256:\" and 64 lower-case hexadecimal digits");
	return rc;
}

static rp_code need_name(reader *r, const rp_json_at *at, const char *name, const char **out)
{
	rp_code rc = need_kept(r, at, name, out);
	if (rc == RP_OK && !rp_piece_name_valid(*out))
		rc = rp_json_wrong(at, name, rp_json_field(at, name), "a file name of letters, digits, dot (not first), dash and underscore");
	return rc;
}

static rp_code need_id(reader *r, const rp_json_at *at, const char **out)
{
	rp_code rc = need_kept(r, at, "id", out);
	if (rc == RP_OK && !rp_id_valid(*out))
		rc = rp_json_wrong(at, "id", rp_json_field(at, "id"), "an id of letters, digits, dot, dash and underscore");
	return rc;
}

static rp_role role_of(const char *word)
{
	return strcmp(word, "model-manifest") == 0 ? RP_ROLE_MANIFEST : strcmp(word, "tokenizer") == 0 ? RP_ROLE_TOKENIZER :
		strcmp(word, "model-piece-index") == 0 ? RP_ROLE_INDEX : RP_ROLE_OTHER;
}

static rp_code read_pinned(reader *r, const rp_json_at *at, const char *base, rp_catalog_file *f)
{
	const char *text;
	rp_code rc = need_name(r, at, "path", &f->path);
	if (rc == RP_OK && (rc = rp_json_need_string(at, "role", &text)) == RP_OK)
		f->role = role_of(text);
	if (rc == RP_OK)
		rc = rp_json_need_size(at, "sizeBytes", 1, &f->size);
	if (rc == RP_OK && f->size > RP_MAX_PINNED_BYTES)
		rc = rp_json_wrong(at, "sizeBytes", rp_json_field(at, "sizeBytes"), "at most 67108864");
	if (rc == RP_OK && (rc = rp_json_need_string(at, "hashAlgorithm", &text)) == RP_OK && strcmp(text, "sha256") != 0)
		rc = rp_json_wrong(at, "hashAlgorithm", rp_json_field(at, "hashAlgorithm"), "\"sha256\"");
	if (rc == RP_OK && (rc = rp_json_need_string(at, "hash", &text)) == RP_OK &&
		!(strlen(text) == 64 && rp_unhex(f->sha256, RP_HASH_BYTES, text, 64)))
		rc = rp_json_wrong(at, "hash", rp_json_field(at, "hash"), "64 hexadecimal digits");
	if (rc != RP_OK)
		return rc;
	if (rp_json_field(at, "url") != NULL)
		return need_url(r, at, "url", &f->url);
	f->url = base != NULL ? rp_arena_printf(&r->c->arena, "%s%s", base, f->path) : NULL;
	return base == NULL || f->url != NULL ? RP_OK : rp_no_memory(r->err, 0, "the catalogue");
}

static rp_code read_source(reader *r, const char *where, const cJSON *v, rp_catalog_model *m)
{
	char source[80], one[100];
	snprintf(source, sizeof source, "%ssource.", where);
	rp_json_at at = {.file = r->file, .where = source, .object = v, .err = r->err};
	rp_code rc = RP_OK;
	if (rp_json_field(&at, "baseUrl") != NULL) {
		rc = need_url(r, &at, "baseUrl", &m->base_url);
		if (rc == RP_OK && m->base_url[strlen(m->base_url) - 1] != '/')
			rc = rp_json_wrong(&at, "baseUrl", rp_json_field(&at, "baseUrl"), "an address that ends in '/'");
	}
	const cJSON *files = rp_json_field(&at, "files");
	if (rc == RP_OK && (!cJSON_IsArray(files) || cJSON_GetArraySize(files) > MAX_FILES))
		rc = rp_json_wrong(&at, "files", files, "an array of at most 1024");
	if (rc != RP_OK)
		return rc;
	m->files = rp_arena_array(&r->c->arena, (size_t)cJSON_GetArraySize(files) + 1, sizeof *m->files);
	if (m->files == NULL)
		return rp_no_memory(r->err, 0, "the catalogue");
	for (const cJSON *e = files->child; e != NULL && rc == RP_OK; e = e->next) {
		snprintf(one, sizeof one, "%sfiles[%zu].", source, m->n_files);
		rp_json_at file = {.file = r->file, .where = one, .object = e, .err = r->err};
		rc = read_pinned(r, &file, m->base_url, &m->files[m->n_files]);
		for (size_t i = 0; rc == RP_OK && i < m->n_files; i++)
			if (strcmp(m->files[i].path, m->files[m->n_files].path) == 0)
				rc = rp_fail(r->err, RP_FORMAT, "%s: %spath: '%s' is there twice", r->file, one, m->files[i].path);
		m->n_files++;
	}
	return rc;
}

static rp_code read_adapter(reader *r, const rp_json_at *at, const rp_catalog_model *m, rp_catalog_adapter *a)
{
	char artifact[120], manifest[120];
	unsigned char identity[RP_HASH_BYTES], hash[RP_HASH_BYTES], base[RP_HASH_BYTES];
	const char *text;
	snprintf(artifact, sizeof artifact, "%sartifact.", at->where);
	snprintf(manifest, sizeof manifest, "%smanifest.", at->where);
	rp_json_at art = {.file = r->file, .where = artifact, .err = r->err}, man = {.file = r->file, .where = manifest, .err = r->err};
	rp_code rc = need_id(r, at, &a->id);
	if (rc == RP_OK)
		rc = need_kept(r, at, "name", &a->name);
	if (rc == RP_OK)
		rc = need_digest(at, "identity", identity);
	if (rc == RP_OK && (rc = need_digest(at, "baseModelIdentity", base)) == RP_OK && memcmp(base, m->identity, sizeof base) != 0)
		rc = rp_json_wrong(at, "baseModelIdentity", rp_json_field(at, "baseModelIdentity"), "the model's identity");
	if (rc == RP_OK && (rc = rp_json_need_object(at, "artifact", &art.object)) == RP_OK)
		rc = need_name(r, &art, "path", &a->path);
	if (rc == RP_OK)
		rc = rp_json_need_size(&art, "sizeBytes", 1, &a->size);
	if (rc == RP_OK && a->size > RP_MAX_PINNED_BYTES)
		rc = rp_json_wrong(&art, "sizeBytes", rp_json_field(&art, "sizeBytes"), "at most 67108864");
	if (rc == RP_OK)
		rc = need_digest(&art, "hash", hash);
	if (rc == RP_OK)
		rc = need_url(r, &art, "url", &a->url);
	if (rc == RP_OK)
		rc = rp_json_need_object(at, "manifest", &man.object);
	if (rc != RP_OK)
		return rc;
	rp_hex(a->sha256, hash, sizeof hash);
	rc = rp_json_need_string(&man, "checksum", &text);
	if (rc == RP_OK && strcmp(text, a->sha256) != 0)
		rc = rp_json_wrong(&man, "checksum", rp_json_field(&man, "checksum"), "the hash of the artifact");
	if (rc == RP_OK && (rc = rp_json_need_string(&man, "baseModel", &text)) == RP_OK && strcmp(text, m->id) != 0)
		rc = rp_json_wrong(&man, "baseModel", rp_json_field(&man, "baseModel"), "the model's id");
	if (rc == RP_OK && rp_json_field(&man, "weightsPath") != NULL)
		rc = need_url(r, &man, "weightsPath", &a->other_url);
	return rc;
}

static rp_code read_adapters(reader *r, const char *where, const cJSON *list, rp_catalog_model *m)
{
	rp_code rc = RP_OK;
	m->adapters = rp_arena_array(&r->c->arena, (size_t)cJSON_GetArraySize(list) + 1, sizeof *m->adapters);
	if (m->adapters == NULL)
		return rp_no_memory(r->err, 0, "the catalogue");
	for (const cJSON *e = list->child; e != NULL && rc == RP_OK; e = e->next) {
		char one[80];
		snprintf(one, sizeof one, "%savailableAdapters[%zu].", where, m->n_adapters);
		rp_json_at at = {.file = r->file, .where = one, .object = e, .err = r->err};
		rc = read_adapter(r, &at, m, &m->adapters[m->n_adapters++]);
	}
	return rc;
}

static rp_code check_identity(const reader *r, const char *where, const rp_catalog_model *m)
{
	const rp_catalog_file *manifest = rp_catalog_role(m, RP_ROLE_MANIFEST);
	if (m->n_files > 0 && manifest == NULL)
		return rp_fail(r->err, RP_FORMAT, "%s: %ssource.files has no file with the role model-manifest", r->file, where);
	if (manifest != NULL && memcmp(manifest->sha256, m->identity, RP_HASH_BYTES) != 0)
		return rp_fail(r->err, RP_FORMAT, "%s: %sidentity is not the hash of its model-manifest", r->file, where);
	return RP_OK;
}

static rp_code read_model(reader *r, const cJSON *v, size_t nth, rp_catalog_model *m)
{
	char where[40];
	const char *text;
	snprintf(where, sizeof where, "[%zu].", nth);
	rp_json_at at = {.file = r->file, .where = where, .object = v, .err = r->err};
	rp_code rc = need_id(r, &at, &m->id);
	if (rc == RP_OK)
		rc = need_kept(r, &at, "name", &m->name);
	if (rc == RP_OK)
		rc = need_digest(&at, "identity", m->identity);
	if (rc == RP_OK && (rc = rp_json_need_string(&at, "provider", &text)) == RP_OK && strcmp(text, "doppler") != 0)
		rc = rp_json_wrong(&at, "provider", rp_json_field(&at, "provider"), "\"doppler\"");
	if (rc == RP_OK)
		rc = rp_json_need_size(&at, "contextLength", 1, &m->context);
	if (rc == RP_OK)
		rc = optional_kept(r, &at, "quantization", &m->quantization);
	if (rc == RP_OK)
		rc = optional_kept(r, &at, "size", &m->size_label);
	m->recommended = cJSON_IsTrue(rp_json_field(&at, "recommended"));
	const cJSON *source = rp_json_field(&at, "source"), *adapters = rp_json_field(&at, "availableAdapters");
	if (rc == RP_OK && source != NULL)
		rc = cJSON_IsObject(source) ? read_source(r, where, source, m) : rp_json_wrong(&at, "source", source, "an object");
	if (rc == RP_OK)
		rc = check_identity(r, where, m);
	if (rc == RP_OK && adapters != NULL)
		rc = cJSON_IsArray(adapters) ? read_adapters(r, where, adapters, m) : rp_json_wrong(&at, "availableAdapters", adapters, "an array");
	return rc;
}

static rp_code read_all(reader *r, const cJSON *json)
{
	rp_catalog *c = r->c;
	if (!cJSON_IsArray(json) || cJSON_GetArraySize(json) > MAX_MODELS)
		return rp_fail(r->err, RP_FORMAT, "%s: not a JSON array of at most %d, expected a catalogue of models", r->file, MAX_MODELS);
	c->models = rp_arena_array(&c->arena, (size_t)cJSON_GetArraySize(json) + 1, sizeof *c->models);
	if (c->models == NULL)
		return rp_no_memory(r->err, 0, "the catalogue");
	rp_code rc = RP_OK;
	for (const cJSON *e = json->child; e != NULL && rc == RP_OK; e = e->next) {
		rp_catalog_model *m = &c->models[c->n_models];
		rc = read_model(r, e, c->n_models, m);
		if (rc == RP_OK && rp_catalog_find(c, m->id) != NULL)
			rc = rp_fail(r->err, RP_FORMAT, "%s: [%zu].id: '%s' is there twice", r->file, c->n_models, m->id);
		c->n_models++;
	}
	return rc;
}

rp_code rp_catalog_parse(const char *name, const char *text, size_t n, const char *site, rp_catalog **out, rp_error *err)
{
	cJSON *json;
	if (!rp_net_is_http(site) || !rp_net_is_private(site))
		return rp_fail(err, RP_USAGE, "the site of the catalogue is '%s', expected an https address", site);
	rp_code rc = rp_json_parse(name, text, n, &json, err);
	if (rc != RP_OK)
		return rc;
	rp_catalog *c = rp_alloc(sizeof *c);
	if (c == NULL) {
		rc = rp_no_memory(err, sizeof *c, "the catalogue");
	} else {
		reader r = {.c = c, .file = name, .site = site, .err = err};
		rp_arena_init(&c->arena, 0);
		rc = read_all(&r, json);
	}
	cJSON_Delete(json);
	if (rc == RP_OK)
		*out = c;
	else
		rp_catalog_free(c);
	return rc;
}

void rp_catalog_free(rp_catalog *c)
{
	if (c == NULL)
		return;
	rp_arena_free(&c->arena);
	free(c);
}

const rp_catalog_model *rp_catalog_find(const rp_catalog *c, const char *id)
{
	for (size_t i = 0; i < c->n_models; i++)
		if (strcmp(c->models[i].id, id) == 0)
			return &c->models[i];
	return NULL;
}

const rp_catalog_adapter *rp_catalog_find_adapter(const rp_catalog *c, const char *id)
{
	for (size_t i = 0; i < c->n_models; i++)
		for (size_t k = 0; k < c->models[i].n_adapters; k++)
			if (strcmp(c->models[i].adapters[k].id, id) == 0)
				return &c->models[i].adapters[k];
	return NULL;
}

const rp_catalog_file *rp_catalog_role(const rp_catalog_model *m, rp_role role)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i].role == role)
			return &m->files[i];
	return NULL;
}
