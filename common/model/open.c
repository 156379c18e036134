/* Which form a path has, by content, and the reader for it. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

enum { MAX_JSON = 64 << 20 };

static const char INDEX_NAME[] = "model.safetensors.index.json";

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL)
		return rp_strdup(".");
	return rp_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* A new model whose folder is the one path lies in; NULL (RP_NO_MEMORY) when there is no memory for it. */
static rp_model *new_model(const char *path, rp_format format, rp_error *err)
{
	char *folder = folder_of(path);
	rp_model *m = folder != NULL ? rp_model_new(path, folder) : NULL;
	free(folder);
	if (m != NULL)
		m->format = format;
	else
		rp_no_memory(err, sizeof *m, path);
	return m;
}

static rp_code finish(rp_model *m, rp_code rc, rp_model **out)
{
	if (rc == RP_OK)
		*out = m;
	else
		rp_model_close(m);
	return rc;
}

static rp_code add_source(rp_model *m, const char *path, rp_error *err)
{
	rp_code rc = rp_source_open(&m->sources[m->n_sources], path, NULL, true, err);
	if (rc == RP_OK) {
		m->files[m->n_sources] = (rp_file_info){ .path = path, .size = m->sources[m->n_sources].size };
		m->n_sources++;
	}
	return rc;
}

static rp_code open_gguf(const char *path, rp_model **out, rp_error *err)
{
	rp_model *m = new_model(path, RP_FORMAT_GGUF, err);
	if (m == NULL)
		return RP_NO_MEMORY;
	rp_code rc = rp_model_reserve_sources(m, 1, err);
	if (rc == RP_OK)
		rc = add_source(m, m->path, err); /* not an arena copy: reading a GGUF header starts the arena anew */
	if (rc == RP_OK)
		rc = rp_gguf_read(m, err);
	return finish(m, rc, out);
}

rp_code rp_model_open_header(const char *name, const void *bytes, size_t n, uint64_t size, uint64_t *wanted, rp_model **out,
	rp_error *err)
{
	*wanted = 0;
	rp_model *m = new_model(name, RP_FORMAT_GGUF, err);
	rp_code rc = m != NULL ? rp_model_reserve_sources(m, 1, err) : RP_NO_MEMORY;
	if (rc != RP_OK)
		return m != NULL ? finish(m, rc, out) : rc;
	m->n_sources = 1;
	m->sources[0] = (rp_source){ .path = m->path, .size = size, .fd = -1 };
	m->files[0] = (rp_file_info){ .path = m->path, .size = size };
	return finish(m, rp_gguf_read_header(m, bytes, n < size ? n : (size_t)size, wanted, err), out);
}

static rp_code open_random(const char *path, rp_model **out, rp_error *err)
{
	rp_source s = { .fd = -1 };
	rp_model *m;
	rp_code rc = rp_random_make(path, &s.fd, &s.size, err);
	if (rc != RP_OK)
		return rc;
	m = new_model(path, RP_FORMAT_GGUF, err);
	rc = m != NULL ? rp_model_reserve_sources(m, 1, err) : RP_NO_MEMORY;
	if (rc != RP_OK) {
		rp_source_close(&s);
		return m != NULL ? finish(m, rc, out) : rc;
	}
	s.path = m->path;
	m->n_sources = 1;
	m->sources[0] = s;
	m->files[0] = (rp_file_info){ .path = m->path, .size = s.size };
	return finish(m, rp_gguf_read(m, err), out);
}

static bool is_file(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* config.json beside safetensors files, when there is one; its bytes belong to the identity. */
static rp_code read_config(rp_model *m, rp_sha256 *digest, rp_error *err)
{
	char *path = rp_asprintf("%s/config.json", m->folder), *text = NULL;
	if (path == NULL)
		return rp_no_memory(err, strlen(m->folder), m->path);
	size_t n = 0;
	bool there = is_file(path);
	rp_code rc = there ? rp_read_file(path, MAX_JSON, &text, &n, err) : RP_OK;
	if (rc == RP_OK && there)
		rc = rp_json_parse(path, text, n, &m->json, err);
	if (rc == RP_OK && there)
		rp_sha256_update(digest, text, n);
	free(text);
	free(path);
	return rc;
}

/* All sources are open. */
static rp_code read_safetensors(rp_model *m, rp_error *err)
{
	rp_sha256 *digest = NULL;
	unsigned char hash[RP_HASH_BYTES];
	rp_code rc = rp_sha256_new(&digest, err);
	for (size_t i = 0; i < m->n_sources && rc == RP_OK; i++)
		rc = rp_safetensors_read(m, (uint32_t)i, digest, err);
	if (rc == RP_OK)
		rc = read_config(m, digest, err);
	if (rc == RP_OK) {
		rp_sha256_final(digest, hash);
		rp_model_set_identity(m, hash);
	}
	rp_sha256_free(digest);
	return rc == RP_OK ? rp_model_finish_tensors(m, err) : rc;
}

static rp_code open_safetensors(const char *path, rp_model **out, rp_error *err)
{
	rp_model *m = new_model(path, RP_FORMAT_SAFETENSORS, err);
	if (m == NULL)
		return RP_NO_MEMORY;
	rp_code rc = rp_model_reserve_sources(m, 1, err);
	if (rc == RP_OK)
		rc = add_source(m, m->path, err);
	if (rc == RP_OK)
		rc = read_safetensors(m, err);
	return finish(m, rc, out);
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different file names of weight_map, sorted; free() the array, not the names. */
static rp_code index_files(const char *path, const cJSON *weight_map, const char ***out, size_t *n, rp_error *err)
{
	size_t entries = 0, kept = 0;
	for (const cJSON *e = weight_map->child; e != NULL; e = e->next) {
		if (!cJSON_IsString(e) || !rp_name_is_plain(e->valuestring))
			return rp_fail(err, RP_FORMAT, "%s: weight_map: '%s' does not name a file of this folder", path, e->string);
		entries++;
	}
	const char **names = rp_alloc_array(entries, sizeof *names);
	if (names == NULL)
		return rp_no_memory(err, entries * sizeof *names, path);
	for (const cJSON *e = weight_map->child; e != NULL; e = e->next)
		names[kept++] = e->valuestring;
	if (entries > 0)
		qsort(names, entries, sizeof *names, compare_text);
	kept = 0;
	for (size_t i = 0; i < entries; i++)
		if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
			names[kept++] = names[i];
	*out = names;
	*n = kept;
	return RP_OK;
}

static rp_code open_indexed(rp_model *m, const char *const *names, size_t n, rp_error *err)
{
	if (n == 0 || n > RP_MAX_FILES)
		return rp_fail(err, RP_FORMAT, "%s: weight_map names %zu files", m->path, n);
	rp_code rc = rp_model_reserve_sources(m, n, err);
	for (size_t i = 0; i < n && rc == RP_OK; i++) {
		char *path = rp_arena_printf(&m->arena, "%s/%s", m->folder, names[i]);
		rc = path != NULL ? add_source(m, path, err) : rp_no_memory(err, 0, names[i]);
	}
	return rc == RP_OK ? read_safetensors(m, err) : rc;
}

/* Every tensor the index promises must be in the file it names. */
static rp_code check_index(const rp_model *m, const cJSON *weight_map, rp_error *err)
{
	for (const cJSON *e = weight_map->child; e != NULL; e = e->next) {
		const rp_tensor *t = rp_model_find(m, e->string);
		if (t == NULL)
			return rp_fail(err, RP_MODEL, "%s: tensor '%s' of the index is in none of the files", m->path, e->string);
		const char *file = t->n_spans > 0 ? strrchr(m->files[t->spans[0].file].path, '/') : NULL;
		if (file != NULL && strcmp(file + 1, e->valuestring) != 0)
			return rp_fail(err, RP_MODEL, "%s: tensor '%s' is in %s, the index says %s", m->path, e->string, file + 1,
				e->valuestring);
	}
	return RP_OK;
}

static rp_code open_index(const char *path, const cJSON *weight_map, rp_model **out, rp_error *err)
{
	const char **names = NULL;
	size_t n = 0;
	rp_model *m = new_model(path, RP_FORMAT_SAFETENSORS, err);
	if (m == NULL)
		return RP_NO_MEMORY;
	rp_code rc = index_files(path, weight_map, &names, &n, err);
	if (rc == RP_OK)
		rc = open_indexed(m, names, n, err);
	if (rc == RP_OK)
		rc = check_index(m, weight_map, err);
	free(names);
	return finish(m, rc, out);
}

static rp_code open_rdrr(const char *path, const char *text, size_t n, cJSON *manifest, rp_model **out, rp_error *err)
{
	rp_model *m = new_model(path, RP_FORMAT_RDRR, err);
	if (m == NULL) {
		cJSON_Delete(manifest);
		return RP_NO_MEMORY;
	}
	m->json = manifest;
	return finish(m, rp_rdrr_read(m, text, n, true, err), out);
}

/* A JSON file: a manifest, or the index of safetensors files. */
static rp_code open_json(const char *path, rp_model **out, rp_error *err)
{
	char *text = NULL;
	size_t n = 0;
	cJSON *v = NULL;
	rp_code rc = rp_read_file(path, MAX_JSON, &text, &n, err);
	if (rc == RP_OK)
		rc = rp_json_parse(path, text, n, &v, err);
	if (rc == RP_OK) {
		const cJSON *weight_map = cJSON_GetObjectItemCaseSensitive(v, "weight_map");
		if (cJSON_IsObject(weight_map)) {
			rc = open_index(path, weight_map, out, err);
		} else if (cJSON_HasObjectItem(v, "shards") || cJSON_HasObjectItem(v, "modelId")) {
			rc = open_rdrr(path, text, n, v, out, err);
			v = NULL;
		} else {
			rc = rp_fail(err, RP_FORMAT, "%s: is neither an RDRR manifest nor an index of safetensors files", path);
		}
	}
	cJSON_Delete(v);
	free(text);
	return rc;
}

static rp_code open_file(const char *path, rp_model **out, rp_error *err)
{
	rp_source s;
	unsigned char start[9] = { 0 };
	rp_code rc = rp_source_open(&s, path, NULL, true, err);
	if (rc != RP_OK)
		return rc;
	size_t n = s.size < sizeof start ? (size_t)s.size : sizeof start;
	rc = rp_source_read(&s, 0, start, n, err);
	rp_source_close(&s);
	if (rc != RP_OK)
		return rc;
	if (n >= 4 && (memcmp(start, "GGUF", 4) == 0 || memcmp(start, "FUGG", 4) == 0))
		return open_gguf(path, out, err);
	/* text has no NUL byte; the length of a legal safetensors header has one */
	if (n > 0 && memchr(start, '\0', n) == NULL && (start[0] == '{' || strchr(" \t\r\n", start[0]) != NULL))
		return open_json(path, out, err);
	if (start[8] == '{')
		return open_safetensors(path, out, err);
	return rp_fail(err, RP_FORMAT, "%s: is no model file: expected GGUF, safetensors, or an RDRR manifest.json (%llu bytes)",
		path, (unsigned long long)s.size);
}

static bool has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);
	return n > k && strcmp(s + n - k, suffix) == 0;
}

/* The one file in the folder that is named *.gguf or *.safetensors; *n counts such files. */
static rp_code find_only_file(const char *folder, char **out, size_t *n, rp_error *err)
{
	DIR *d = opendir(folder);
	if (d == NULL)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot list", folder);
	char *found = NULL;
	struct dirent *e;
	*n = 0;
	while ((e = readdir(d)) != NULL)
		if (e->d_name[0] != '.' && (has_suffix(e->d_name, ".gguf") || has_suffix(e->d_name, ".safetensors"))) {
			free(found);
			found = rp_asprintf("%s/%s", folder, e->d_name);
			++*n;
		}
	closedir(d);
	*out = found;
	return RP_OK;
}

static rp_code open_folder(const char *folder, rp_model **out, rp_error *err)
{
	static const char *const usual[] = { "manifest.json", INDEX_NAME, "model.safetensors" };
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
		char *path = rp_asprintf("%s/%s", folder, usual[i]);
		if (path == NULL)
			return rp_no_memory(err, strlen(folder), folder);
		rp_code rc = RP_NOT_FOUND;
		bool there = is_file(path);
		if (there)
			rc = open_file(path, out, err);
		free(path);
		if (there)
			return rc;
	}
	char *path = NULL;
	size_t n = 0;
	rp_code rc = find_only_file(folder, &path, &n, err);
	if (rc == RP_OK && n == 1)
		rc = path != NULL ? open_file(path, out, err) : rp_no_memory(err, strlen(folder), folder);
	else if (rc == RP_OK && n == 0)
		rc = rp_fail(err, RP_NOT_FOUND, "%s: no model in this folder: no manifest.json, no .gguf, no .safetensors file", folder);
	else if (rc == RP_OK)
		rc = rp_fail(err, RP_USAGE, "%s: %zu model files in this folder; name the one you mean", folder, n);
	free(path);
	return rc;
}

rp_code rp_model_open(const char *path, rp_model **out, rp_error *err)
{
	struct stat st;
	if (rp_model_is_random(path))
		return open_random(path, out, err);
	if (stat(path, &st) != 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	return S_ISDIR(st.st_mode) ? open_folder(path, out, err) : open_file(path, out, err);
}

rp_code rp_model_open_memory(rp_format format, const void *bytes, size_t n, rp_model **out, rp_error *err)
{
	rp_model *m = new_model("(memory)", format, err);
	rp_code rc;
	if (m == NULL)
		return RP_NO_MEMORY;
	if (format == RP_FORMAT_RDRR) {
		rc = rp_json_parse(m->path, bytes, n, &m->json, err);
		return finish(m, rc == RP_OK ? rp_rdrr_read(m, bytes, n, false, err) : rc, out);
	}
	rc = rp_model_reserve_sources(m, 1, err);
	if (rc == RP_OK) {
		m->n_sources = 1;
		m->sources[0] = (rp_source){ .path = m->path, .size = n, .memory = bytes, .fd = -1 };
		m->files[0] = (rp_file_info){ .path = m->path, .size = n };
		rc = format == RP_FORMAT_GGUF ? rp_gguf_read(m, err) : read_safetensors(m, err);
	}
	return finish(m, rc, out);
}
