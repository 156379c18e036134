/* Which form a path has, by content, and the reader for it. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL)
		return rp_strdup(".");
	return rp_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool rp_model_reserve_sources(rp_model *m, size_t n)
{
	m->sources = rp_alloc_array(n, sizeof *m->sources);
	m->files = rp_alloc_array(n, sizeof *m->files);
	return m->sources != NULL && m->files != NULL;
}

static rp_code read_gguf(const char *path, rp_model **out, rp_error *err)
{
	char *folder = folder_of(path);
	rp_model *m = folder != NULL ? rp_model_new(path, folder, err) : NULL;
	free(folder);
	if (m == NULL || !rp_model_reserve_sources(m, 1)) {
		rp_model_close(m);
		return rp_no_memory(err, sizeof *m, path);
	}
	m->format = RP_FORMAT_GGUF;
	rp_code rc = rp_source_open(&m->sources[0], m->path, NULL, true, err);
	if (rc == RP_OK) {
		m->n_sources = 1;
		m->files[0] = (rp_file_info){ .path = m->path, .size = m->sources[0].size };
		rc = rp_gguf_read(m, err);
	}
	if (rc == RP_OK)
		*out = m;
	else
		rp_model_close(m);
	return rc;
}

rp_code rp_model_open(const char *path, rp_model **out, rp_error *err)
{
	return read_gguf(path, out, err);
}
