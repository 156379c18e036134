#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

rp_model *rp_model_new(const char *path, const char *folder)
{
	rp_model *m = rp_alloc(sizeof *m);
	if (m == NULL)
		return NULL;
	pthread_mutex_init(&m->map_lock, NULL);
	m->path = rp_strdup(path);
	m->folder = rp_strdup(folder);
	if (m->path == NULL || m->folder == NULL) {
		rp_model_close(m);
		return NULL;
	}
	return m;
}

rp_code rp_model_reserve_sources(rp_model *m, size_t n, rp_error *err)
{
	m->sources = rp_alloc_array(n, sizeof *m->sources);
	m->files = rp_alloc_array(n, sizeof *m->files);
	if (m->sources == NULL || m->files == NULL)
		return rp_no_memory(err, n * sizeof *m->sources, "the list of files");
	return RP_OK;
}

void rp_model_set_identity(rp_model *m, const unsigned char hash[RP_HASH_BYTES])
{
	static const char prefix[] = "sha256:";
	memcpy(m->identity, prefix, sizeof prefix);
	rp_hex(m->identity + sizeof prefix - 1, hash, RP_HASH_BYTES);
}

void rp_model_close(rp_model *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->n_sources; i++)
		rp_source_close(&m->sources[i]);
	pthread_mutex_destroy(&m->map_lock);
	cJSON_Delete(m->json);
	rp_arena_free(&m->arena);
	free(m->sources);
	free(m->files);
	free(m->tensors);
	free(m->by_name);
	free(m->head);
	free(m->tokenizer_file);
	free(m->path);
	free(m->folder);
	free(m);
}

rp_format rp_model_format(const rp_model *m)
{
	return m->format;
}

const char *rp_model_path(const rp_model *m)
{
	return m->path;
}

const char *rp_model_identity(const rp_model *m)
{
	return m->identity;
}

uint64_t rp_model_bytes(const rp_model *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->n_sources; i++)
		sum += m->sources[i].size; /* each is the size of a file that exists: no overflow */
	return sum;
}

size_t rp_model_n_files(const rp_model *m)
{
	return m->n_sources;
}

const rp_file_info *rp_model_file(const rp_model *m, size_t i)
{
	return &m->files[i];
}

size_t rp_model_n_tensors(const rp_model *m)
{
	return m->n_tensors;
}

const rp_tensor *rp_model_tensor(const rp_model *m, size_t i)
{
	return &m->tensors[i];
}

const struct cJSON *rp_model_json(const rp_model *m)
{
	return m->json;
}

char *rp_model_sibling(const rp_model *m, const char *name)
{
	if (m->tokenizer_file != NULL && strcmp(name, "tokenizer.json") == 0)
		name = m->tokenizer_file;
	char *path = rp_name_is_plain(name) ? rp_asprintf("%s/%s", m->folder, name) : NULL;
	rp_source s;
	if (path != NULL && rp_source_open(&s, path, m->format == RP_FORMAT_RDRR ? m->folder : NULL, false, NULL) == RP_OK)
		return path;
	free(path);
	return NULL;
}
