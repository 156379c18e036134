/* Local trees: the piece hashes of files that came without an index, as small JSON files in the store. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jsonw.h"
#include "model/json.h"
#include "store/folder.h"
#include "store/pieces.h"

static const char schema[] = "reploid.local-pieces/v1";

enum { MAX_TREE_BYTES = 64 << 20, MAX_TREES = 64 };

static rp_code read_hashes(rp_tree *t, const rp_json_at *top, const cJSON *list)
{
	size_t i = 0;
	t->pieces = rp_arena_array(&t->arena, t->n_pieces + 1, sizeof *t->pieces);
	if (t->pieces == NULL)
		return rp_no_memory(top->err, t->n_pieces * sizeof *t->pieces, "the pieces of a file");
	for (const cJSON *v = list->child; v != NULL; v = v->next, i++) {
		char name[40];
		snprintf(name, sizeof name, "pieces[%zu]", i);
		if (!cJSON_IsString(v) || strlen(v->valuestring) != 64 || !rp_unhex(t->pieces[i], RP_HASH_BYTES, v->valuestring, 64))
			return rp_json_wrong(top, name, v, "64 hexadecimal digits");
	}
	return RP_OK;
}

static rp_code read_sources(rp_tree *t, const rp_json_at *top)
{
	const cJSON *list = rp_json_field(top, "sources");
	if (list == NULL)
		return RP_OK;
	if (!cJSON_IsArray(list))
		return rp_json_wrong(top, "sources", list, "an array of URLs");
	t->sources = rp_arena_array(&t->arena, (size_t)cJSON_GetArraySize(list) + 1, sizeof *t->sources);
	if (t->sources == NULL)
		return rp_no_memory(top->err, 0, "a list of sources");
	for (const cJSON *v = list->child; v != NULL; v = v->next) {
		if (!cJSON_IsString(v))
			return rp_json_wrong(top, "sources", list, "an array of URLs");
		t->sources[t->n_sources] = rp_arena_strndup(&t->arena, v->valuestring, strlen(v->valuestring));
		if (t->sources[t->n_sources++] == NULL)
			return rp_no_memory(top->err, strlen(v->valuestring), "a list of sources");
	}
	return RP_OK;
}

static rp_code read_tree(rp_tree *t, const rp_json_at *top)
{
	const char *text;
	if (!cJSON_IsObject(top->object))
		return rp_fail(top->err, RP_FORMAT, "%s: not a JSON object, expected a tree of pieces", top->file);
	rp_code rc = rp_json_need_string(top, "schema", &text);
	if (rc == RP_OK && strcmp(text, schema) != 0)
		rc = rp_json_wrong(top, "schema", rp_json_field(top, "schema"), "reploid.local-pieces/v1");
	if (rc == RP_OK)
		rc = rp_json_need_size(top, "size", 1, &t->size);
	if (rc == RP_OK)
		rc = rp_json_need_size(top, "pieceBytes", 1, &t->piece_bytes);
	if (rc != RP_OK)
		return rc;
	const cJSON *whole = rp_json_field(top, "sha256"), *list = rp_json_field(top, "pieces");
	t->whole_known = whole != NULL;
	if (whole != NULL && (!cJSON_IsString(whole) || strlen(whole->valuestring) != 64 ||
		!rp_unhex(t->whole, RP_HASH_BYTES, whole->valuestring, 64)))
		return rp_json_wrong(top, "sha256", whole, "64 hexadecimal digits or null");
	if (!cJSON_IsArray(list))
		return rp_json_wrong(top, "pieces", list, "an array");
	t->n_pieces = (size_t)cJSON_GetArraySize(list);
	if (t->n_pieces != rp_piece_count(t->size, t->piece_bytes))
		return rp_fail(top->err, RP_FORMAT, "%s: pieces has %zu entries, expected %zu (size / pieceBytes)", top->file, t->n_pieces,
			rp_piece_count(t->size, t->piece_bytes));
	rc = read_hashes(t, top, list);
	return rc == RP_OK ? read_sources(t, top) : rc;
}

rp_code rp_tree_parse(const char *name, const char *text, size_t n, rp_tree **out, rp_error *err)
{
	cJSON *json;
	rp_code rc = rp_json_parse(name, text, n, &json, err);
	if (rc != RP_OK)
		return rc;
	rp_tree *t = rp_alloc(sizeof *t);
	if (t == NULL) {
		rc = rp_no_memory(err, sizeof *t, "a tree of pieces");
	} else {
		rp_json_at top = {.file = name, .where = "", .object = json, .err = err};
		rp_arena_init(&t->arena, 0);
		rc = read_tree(t, &top);
	}
	cJSON_Delete(json);
	if (rc == RP_OK)
		*out = t;
	else
		rp_tree_free(t);
	return rc;
}

void rp_tree_free(rp_tree *t)
{
	if (t == NULL)
		return;
	rp_arena_free(&t->arena);
	free(t);
}

static void write_tree(const rp_tree *t, rp_buf *out)
{
	char hex[RP_HASH_HEX];
	rp_jsonw w;
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	rp_jsonw_key(&w, "schema");
	rp_jsonw_str(&w, schema);
	rp_jsonw_key(&w, "size");
	rp_jsonw_u64(&w, t->size);
	rp_jsonw_key(&w, "sha256");
	rp_jsonw_str(&w, t->whole_known ? rp_hex(hex, t->whole, RP_HASH_BYTES) : NULL);
	rp_jsonw_key(&w, "pieceBytes");
	rp_jsonw_u64(&w, t->piece_bytes);
	rp_jsonw_key(&w, "sources");
	rp_jsonw_array(&w);
	for (size_t i = 0; i < t->n_sources; i++)
		rp_jsonw_str(&w, t->sources[i]);
	rp_jsonw_end(&w);
	rp_jsonw_key(&w, "pieces");
	rp_jsonw_array(&w);
	for (size_t i = 0; i < t->n_pieces; i++)
		rp_jsonw_str(&w, rp_hex(hex, t->pieces[i], RP_HASH_BYTES));
	rp_jsonw_end(&w);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
}

/* Atomically, and never through a link. */
static rp_code write_in(int folder, const char *store, const char *name, const rp_buf *text, rp_error *err)
{
	char *temp = rp_asprintf("%s.%ld", name, (long)getpid());
	if (temp == NULL)
		return rp_no_memory(err, strlen(name), "a file name");
	unlinkat(folder, temp, 0);
	int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	rp_code rc = fd < 0 ? rp_fail_errno(err, RP_WRITE, errno, "%s/trees/%s: cannot create", store, name) :
		rp_write_fd(fd, text->data, text->len, name, err);
	if (rc == RP_OK && fsync(fd) != 0)
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s/trees/%s: cannot write", store, name);
	if (fd >= 0)
		close(fd);
	if (rc == RP_OK && renameat(folder, temp, folder, name) != 0)
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s/trees/%s: cannot give the file its name", store, name);
	if (rc != RP_OK && fd >= 0)
		unlinkat(folder, temp, 0);
	free(temp);
	return rc;
}

rp_code rp_tree_save(const char *store, const rp_tree *t, rp_error *err)
{
	unsigned char root[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	rp_sha256_once(t->pieces, t->n_pieces * sizeof *t->pieces, root);
	char *name = rp_asprintf("%llu-%.32s.json", (unsigned long long)t->size, rp_hex(hex, root, RP_HASH_BYTES));
	rp_buf text;
	int folder = -1;
	rp_buf_init(&text, MAX_TREE_BYTES);
	write_tree(t, &text);
	rp_code rc = name == NULL || text.failed ? rp_no_memory(err, text.len, "a tree of pieces") :
		rp_folder_open(store, "trees", true, &folder, err);
	if (rc == RP_OK)
		rc = write_in(folder, store, name, &text, err);
	if (folder >= 0)
		close(folder);
	rp_buf_free(&text);
	free(name);
	return rc;
}

static rp_tree *load_one(const char *folder, const char *name, uint64_t size)
{
	rp_tree *t = NULL;
	char *text = NULL, *path = rp_asprintf("%s/%s", folder, name);
	size_t n;
	if (path != NULL && rp_read_file(path, MAX_TREE_BYTES, &text, &n, NULL) == RP_OK && rp_tree_parse(path, text, n, &t, NULL) == RP_OK &&
		size != 0 && t->size != size) {
		rp_tree_free(t);
		t = NULL;
	}
	free(text);
	free(path);
	return t;
}

rp_code rp_tree_load(const char *store, uint64_t size, rp_tree ***out, size_t *n, rp_error *err)
{
	char prefix[40];
	size_t length = (size_t)snprintf(prefix, sizeof prefix, "%llu-", (unsigned long long)size);
	char *folder = rp_asprintf("%s/trees", store);
	rp_tree **trees = rp_alloc_array(MAX_TREES, sizeof *trees);
	if (folder == NULL || trees == NULL) {
		free(folder);
		free(trees);
		return rp_no_memory(err, MAX_TREES * sizeof *trees, "trees of pieces");
	}
	size_t found = 0;
	DIR *dir = opendir(folder);
	for (struct dirent *e; dir != NULL && found < MAX_TREES && (e = readdir(dir)) != NULL;) {
		if (size != 0 && strncmp(e->d_name, prefix, length) != 0)
			continue;
		if (e->d_name[0] == '.')
			continue;
		trees[found] = load_one(folder, e->d_name, size);
		found += trees[found] != NULL;
	}
	if (dir != NULL)
		closedir(dir);
	free(folder);
	*out = trees;
	*n = found;
	return RP_OK;
}
