/* A model of the catalogue: manifest, piece index where it has one, then all its files. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/json.h"
#include "store/catalog.h"
#include "store/fetch_impl.h"
#include "store/listed_files.h"
#include "store/seeds.h"

typedef struct model_fetch {
	const rp_fetch_opts *o;
	const rp_catalog_model *m;
	rp_net *net; /* NULL: offline */
	rp_seeds seeds;
	bool seeds_known;
	int folder;
	char *shown; /* of the folder */
} model_fetch;

/* ---- what is there ---- */

/* A file gets its name only when it is whole, so its size is enough. */
static bool is_there(int folder, const char *name, uint64_t size)
{
	struct stat st;
	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

/* The text of a pinned file that is there and has its hash; RP_NOT_FOUND when it has to be fetched. */
static rp_code read_pinned(int folder, const rp_catalog_file *f, rp_buf *out, rp_error *err)
{
	unsigned char hash[RP_HASH_BYTES];
	int fd = is_there(folder, f->path, f->size) ? openat(folder, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd < 0)
		return RP_NOT_FOUND;
	rp_buf_init(out, 0);
	rp_code rc = rp_buf_reserve(out, (size_t)f->size) ? RP_OK : rp_no_memory(err, f->size, f->path);
	while (rc == RP_OK && out->len < f->size) {
		ssize_t n = read(fd, out->data + out->len, (size_t)f->size - out->len);
		if (n <= 0)
			rc = RP_NOT_FOUND;
		else
			out->len += (size_t)n;
	}
	close(fd);
	if (rc == RP_OK) {
		out->data[out->len] = '\0';
		rp_sha256_once(out->data, out->len, hash);
		if (memcmp(hash, f->sha256, sizeof hash) != 0)
			rc = RP_NOT_FOUND;
	}
	if (rc != RP_OK)
		rp_buf_free(out);
	return rc;
}

/* ---- where things come from ---- */

static rp_code add_places(const model_fetch *f, rp_job *job, rp_item *item, const char *name, const char *url, rp_error *err)
{
	rp_code rc = url != NULL && f->net != NULL ? rp_job_add_place(job, item, url, true, NULL, err) : RP_OK;
	for (size_t i = 0; rc == RP_OK && f->net != NULL && i < f->o->mirrors.n; i++) {
		const char *base = f->o->mirrors.v[i];
		if (!rp_net_is_http(base))
			continue;
		char *at = rp_asprintf("%s%s%s", base, base[strlen(base) - 1] == '/' ? "" : "/", name);
		if (at == NULL)
			return rp_no_memory(err, strlen(base), "a URL");
		rc = rp_job_add_place(job, item, at, url == NULL || rp_net_same_origin(at, url), NULL, err);
		free(at);
	}
	if (rc == RP_OK && item->n_places == 0 && item->n_done < item->n_pieces && !f->o->offline)
		rc = rp_fail(err, RP_NOT_FOUND, "%s: the catalogue names no source for %s; give one with --mirror (an address or a folder that holds "
			"the model's files)", f->m->id, name);
	return rc;
}

static rp_code key_of(const rp_listed_file *file, unsigned char out[RP_HASH_BYTES], rp_error *err)
{
	rp_sha256 *h;
	rp_code rc = rp_sha256_new(&h, err);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < file->n_pieces; i++)
		rp_sha256_update(h, file->pieces[i].sha256, RP_HASH_BYTES);
	if (file->pieces == NULL)
		rp_sha256_update(h, file->check.digest, RP_HASH_BYTES);
	rp_sha256_final(h, out);
	rp_sha256_free(h);
	return RP_OK;
}

static bool fits_in_buffers(const rp_listed_file *file)
{
	for (size_t i = 0; i < file->n_pieces; i++)
		if (file->pieces[i].size > RP_JOB_MAX_PIECE)
			return false;
	return file->pieces != NULL;
}

/* Pieces that are too long for memory, and files with a hash of the whole alone, come in pieces of our own; what they must be is looked
 * at when they are all here. */
static rp_code add_item(const model_fetch *f, rp_job *job, const rp_listed_file *file, rp_item **item, rp_error *err)
{
	unsigned char key[RP_HASH_BYTES + 1] = {0};
	rp_code rc = key_of(file, key, err);
	if (rc != RP_OK)
		return rc;
	if (fits_in_buffers(file))
		return rp_job_add(job, f->folder, f->shown, file->path, key, RP_HASH_BYTES, file->size, file->pieces, file->n_pieces, NULL, item, err);
	rc = rp_job_add(job, f->folder, f->shown, file->path, key, sizeof key, file->size, NULL, 0, NULL, item, err);
	if (rc == RP_OK && file->pieces == NULL)
		return rp_item_add_check(*item, &file->check, err);
	for (size_t i = 0; i < file->n_pieces && rc == RP_OK; i++) {
		rp_check check = {.kind = RP_CHECK_SHA256, .offset = file->pieces[i].offset, .size = file->pieces[i].size};
		memcpy(check.digest, file->pieces[i].sha256, RP_HASH_BYTES);
		rc = rp_item_add_check(*item, &check, err);
	}
	return rc;
}

static rp_code add_file(model_fetch *f, rp_job *job, const rp_listed_file *file, const char *url, rp_error *err)
{
	rp_item *item;
	rp_code rc = add_item(f, job, file, &item, err);
	if (rc == RP_OK && item->n_done < item->n_pieces && !f->seeds_known && !f->o->dry_run) {
		rc = rp_seeds_find(f->o, &f->seeds, err);
		f->seeds_known = true;
	}
	if (rc == RP_OK && item->n_done < item->n_pieces)
		rc = rp_seed_item(job, item, &f->seeds, err);
	return rc == RP_OK ? add_places(f, job, item, file->path, url, err) : rc;
}

/* ---- the steps ---- */

/* Fetch a pinned file unless it is there; its text goes to *out. */
static rp_code need_pinned(model_fetch *f, const rp_catalog_file *file, rp_buf *out, rp_error *err)
{
	rp_code rc = read_pinned(f->folder, file, out, err);
	if (rc == RP_OK)
		rp_part_sweep(f->folder, file->path, false);
	if (rc != RP_NOT_FOUND)
		return rc;
	rp_fetch_opts own = *f->o;
	own.dry_run = false; /* without them nothing could be said of the rest */
	rp_job *job;
	rp_piece all = {.size = file->size};
	rp_listed_file whole = {.path = file->path, .size = file->size, .pieces = &all, .n_pieces = 1};
	memcpy(all.sha256, file->sha256, RP_HASH_BYTES);
	if (file->size > RP_JOB_MAX_PIECE)
		return rp_fail(err, RP_UNSUPPORTED, "%s: %s has %llu bytes; this build takes %d MiB of such a file", f->m->id, file->path,
			(unsigned long long)file->size, RP_JOB_MAX_PIECE >> 20);
	rc = rp_job_new(&own, f->net, &job, err);
	if (rc != RP_OK)
		return rc;
	rc = add_file(f, job, &whole, file->url, err);
	if (rc == RP_OK)
		rc = rp_job_run(job, err);
	rp_job_free(job);
	if (rc == RP_OK && (rc = read_pinned(f->folder, file, out, err)) == RP_NOT_FOUND)
		rc = rp_fail(err, RP_READ, "%s/%s: was just written and reads differently", f->shown, file->path);
	return rc;
}

static rp_code check_manifest(const model_fetch *f, const char *text, size_t n, rp_error *err)
{
	cJSON *json;
	char *name = rp_asprintf("%s/manifest.json", f->shown);
	if (name == NULL)
		return rp_no_memory(err, 0, "a path");
	rp_code rc = rp_json_parse(name, text, n, &json, err);
	if (rc == RP_OK) {
		const char *id;
		rp_json_at top = {.file = name, .where = "", .object = json, .err = err};
		rc = cJSON_IsObject(json) ? rp_json_need_string(&top, "modelId", &id) : rp_fail(err, RP_FORMAT, "%s: not a JSON object", name);
		if (rc == RP_OK && strcmp(id, f->m->id) != 0)
			rc = rp_json_wrong(&top, "modelId", rp_json_field(&top, "modelId"), "the id of the catalogue");
		if (rc == RP_OK && rp_json_field(&top, "weightsRef") != NULL)
			rc = rp_fail(err, RP_UNSUPPORTED, "%s: weightsRef: the model has no weights of its own", name);
		const cJSON *tokenizer = rp_json_field(&top, "tokenizer");
		const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tokenizer, "file"));
		bool listed = file == NULL;
		for (size_t i = 0; rc == RP_OK && !listed && i < f->m->n_files; i++)
			listed = strcmp(f->m->files[i].path, file) == 0;
		if (rc == RP_OK && !listed)
			rc = rp_fail(err, RP_MODEL, "%s: tokenizer.file is not among the files the catalogue pins", name);
		cJSON_Delete(json);
	}
	free(name);
	return rc;
}

static rp_code fetch_files(model_fetch *f, const rp_listed_files *files, rp_error *err)
{
	rp_job *job;
	rp_code rc = rp_job_new(f->o, f->net, &job, err);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < files->n && rc == RP_OK; i++) {
		const rp_listed_file *file = &files->v[i];
		if (is_there(f->folder, file->path, file->size)) {
			rp_job_count_present(job, file->size);
			rp_part_sweep(f->folder, file->path, false);
			continue;
		}
		char *url = file->url != NULL ? rp_strdup(file->url) : f->m->base_url != NULL ? rp_asprintf("%s%s", f->m->base_url, file->path) : NULL;
		rc = add_file(f, job, file, url, err);
		free(url);
	}
	if (rc == RP_OK)
		rc = rp_job_run(job, err);
	for (size_t i = 0; i < job->n_items && rc == RP_OK && !f->o->dry_run; i++)
		rp_fetch_keep_tree(f->o, job->items[i]);
	rp_job_free(job);
	return rc;
}

/* The index, where the catalogue has one, and that it belongs to the manifest. */
static rp_code need_index(model_fetch *f, const rp_catalog_file *manifest, const rp_buf *text, rp_piece_index **index, rp_error *err)
{
	const rp_catalog_file *pieces = rp_catalog_role(f->m, RP_ROLE_INDEX);
	rp_buf list = {0};
	if (pieces == NULL)
		return RP_OK;
	rp_code rc = need_pinned(f, pieces, &list, err);
	if (rc == RP_OK)
		rc = rp_piece_index_parse(pieces->path, list.data, list.len, index, err);
	if (rc == RP_OK)
		rc = rp_piece_index_check_manifest(*index, pieces->path, manifest->path, text->data, text->len, err);
	rp_buf_free(&list);
	return rc;
}

static rp_code fetch_all(model_fetch *f, rp_error *err)
{
	const rp_catalog_file *manifest = rp_catalog_role(f->m, RP_ROLE_MANIFEST);
	if (manifest == NULL)
		return rp_fail(err, RP_UNSUPPORTED, "%s: the catalogue lists no manifest for it", f->m->id);
	rp_buf text = {0};
	rp_piece_index *index = NULL;
	rp_listed_files files = {0};
	rp_code rc = need_pinned(f, manifest, &text, err);
	if (rc == RP_OK)
		rc = check_manifest(f, text.data, text.len, err);
	if (rc == RP_OK)
		rc = need_index(f, manifest, &text, &index, err);
	if (rc == RP_OK)
		rc = rp_listed_files_read(f->m, manifest->path, text.data, text.len, index, &files, err);
	rp_buf_free(&text);
	if (rc == RP_OK)
		rc = fetch_files(f, &files, err);
	rp_listed_files_free(&files);
	rp_piece_index_free(index);
	return rc;
}

rp_code rp_fetch_model(const rp_fetch_opts *o, const rp_catalog_model *m, char **path, rp_error *err)
{
	model_fetch f = {.o = o, .m = m, .folder = -1};
	f.shown = o->output != NULL ? rp_strdup(o->output) : rp_asprintf("%s/models/%s", o->store, m->id);
	char *below = rp_asprintf("models/%s", m->id);
	rp_code rc = f.shown != NULL && below != NULL ? RP_OK : rp_no_memory(err, 0, "a path");
	if (rc == RP_OK)
		rc = o->output != NULL ? rp_folder_open(o->output, "", true, &f.folder, err) : rp_folder_open(o->store, below, true, &f.folder, err);
	if (rc == RP_OK && !o->offline)
		rc = rp_fetch_net(o, &f.net, err);
	if (rc == RP_OK)
		rc = fetch_all(&f, err);
	rp_net_close(f.net);
	rp_seeds_free(&f.seeds);
	if (f.folder >= 0)
		close(f.folder);
	if (rc != RP_OK && o->output == NULL && f.shown != NULL)
		rmdir(f.shown); /* when nothing is in it */
	free(below);
	if (rc == RP_OK)
		*path = f.shown;
	else
		free(f.shown);
	return rc;
}

rp_code rp_fetch_adapter(const rp_fetch_opts *o, const rp_catalog_adapter *a, char **path, rp_error *err)
{
	rp_target target = {.folder = -1};
	rp_net *net = NULL;
	rp_fetch_opts own = *o;
	const char *other[1] = {a->other_url};
	own.sha256 = a->sha256;
	if (own.mirrors.n == 0 && a->other_url != NULL)
		own.mirrors = (rp_strings){other, 1};
	rp_code rc = o->output != NULL ? rp_target_output(o->output, a->path, &target, err) : rp_target_store(o->store, a->id, a->path, &target, err);
	if (rc == RP_OK)
		rc = rp_fetch_present(&own, &target, err);
	if (rc == RP_NOT_FOUND) {
		rc = o->offline ? rp_fail(err, RP_OFFLINE, "%s: not in the store, and --offline forbids to fetch it", a->id) : rp_fetch_net(o, &net, err);
		if (rc == RP_OK)
			rc = rp_fetch_to(&own, net, a->url, &target, err);
	}
	if (rc == RP_OK && (*path = rp_strdup(target.path)) == NULL)
		rc = rp_no_memory(err, 0, "a path");
	rp_net_close(net);
	rp_target_free(&target);
	return rc;
}

static rp_presence look_at_files(int folder, const rp_listed_files *files, uint64_t *bytes)
{
	bool all = true;
	for (size_t i = 0; i < files->n; i++) {
		*bytes += files->v[i].size;
		all &= is_there(folder, files->v[i].path, files->v[i].size);
	}
	return all ? RP_PRESENT : RP_PARTLY;
}

/* By what describes the model and is here. */
static rp_presence look_at_model(int folder, const rp_catalog_model *m, uint64_t *bytes)
{
	const rp_catalog_file *manifest = rp_catalog_role(m, RP_ROLE_MANIFEST), *pieces = rp_catalog_role(m, RP_ROLE_INDEX);
	rp_piece_index *index = NULL;
	rp_listed_files files = {0};
	rp_buf text = {0}, list = {0};
	rp_presence found = RP_PARTLY;
	rp_code rc = read_pinned(folder, manifest, &text, NULL);
	if (rc == RP_OK && pieces != NULL && (rc = read_pinned(folder, pieces, &list, NULL)) == RP_OK)
		rc = rp_piece_index_parse(pieces->path, list.data, list.len, &index, NULL);
	if (rc == RP_OK)
		rc = rp_listed_files_read(m, manifest->path, text.data, text.len, index, &files, NULL);
	if (rc == RP_OK)
		found = look_at_files(folder, &files, bytes);
	rp_listed_files_free(&files);
	rp_piece_index_free(index);
	rp_buf_free(&text);
	rp_buf_free(&list);
	return found;
}

rp_presence rp_fetch_presence(const char *store, const rp_catalog_model *m, uint64_t *bytes)
{
	char *below = rp_asprintf("models/%s", m->id);
	int folder = -1;
	rp_presence found = RP_ABSENT;
	*bytes = 0;
	if (below != NULL && rp_catalog_role(m, RP_ROLE_MANIFEST) != NULL && rp_folder_open(store, below, false, &folder, NULL) == RP_OK) {
		found = look_at_model(folder, m, bytes);
		close(folder);
	}
	free(below);
	return found;
}
