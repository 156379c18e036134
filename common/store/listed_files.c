#include "store/listed_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

enum { MAX_SHARDS = 65536 };

static rp_code add(rp_listed_files *files, const rp_listed_file *file, rp_error *err)
{
	rp_listed_file *to = &files->v[files->n];
	*to = *file;
	to->path = rp_arena_strndup(&files->arena, file->path, strlen(file->path));
	if (to->path == NULL)
		return rp_no_memory(err, strlen(file->path), "a file name");
	files->n++;
	return RP_OK;
}

static bool has(const rp_listed_files *files, const char *path)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->v[i].path, path) == 0)
			return true;
	return false;
}

/* A file that fits in one buffer is one piece: then nothing wrong of it is ever written. */
static rp_code one_piece(rp_listed_files *files, rp_listed_file *file, rp_error *err)
{
	if (file->check.kind != RP_CHECK_SHA256 || file->size > RP_PIECE_BYTES)
		return RP_OK;
	rp_piece *piece = rp_arena_alloc(&files->arena, sizeof *piece);
	if (piece == NULL)
		return rp_no_memory(err, sizeof *piece, "a piece");
	piece->size = file->size;
	memcpy(piece->sha256, file->check.digest, RP_HASH_BYTES);
	file->pieces = piece;
	file->n_pieces = 1;
	return RP_OK;
}

static rp_code read_kind(const rp_json_at *top, rp_check_kind *out)
{
	const char *word;
	rp_code rc = rp_json_need_string(top, "hashAlgorithm", &word);
	if (rc == RP_OK && strcmp(word, "sha256") != 0 && strcmp(word, "blake3") != 0)
		rc = rp_json_wrong(top, "hashAlgorithm", rp_json_field(top, "hashAlgorithm"), "\"sha256\" or \"blake3\"");
	if (rc == RP_OK)
		*out = strcmp(word, "sha256") == 0 ? RP_CHECK_SHA256 : RP_CHECK_BLAKE3;
	return rc;
}

static rp_code read_shard(const rp_json_at *at, rp_check_kind kind, rp_listed_files *files)
{
	const char *hash;
	rp_listed_file file = {.check.kind = kind};
	rp_code rc = rp_json_need_string(at, "filename", &file.path);
	if (rc == RP_OK && !rp_piece_name_valid(file.path))
		rc = rp_json_wrong(at, "filename", rp_json_field(at, "filename"), "a file name of letters, digits, dot (not first), dash and underscore");
	if (rc == RP_OK)
		rc = rp_json_need_size(at, "size", 1, &file.size);
	if (rc == RP_OK && (rc = rp_json_need_string(at, "hash", &hash)) == RP_OK &&
		!(strlen(hash) == 64 && rp_unhex(file.check.digest, RP_HASH_BYTES, hash, 64)))
		rc = rp_json_wrong(at, "hash", rp_json_field(at, "hash"), "64 hexadecimal digits");
	if (rc != RP_OK)
		return rc;
	file.check.size = file.size;
	rc = one_piece(files, &file, at->err);
	return rc == RP_OK ? add(files, &file, at->err) : rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const rp_listed_file *)a)->path, ((const rp_listed_file *)b)->path);
}

/* The manifest's shards by their own hashes. */
static rp_code read_shards(const rp_json_at *top, const cJSON *shards, rp_listed_files *files)
{
	rp_check_kind kind;
	rp_code rc = read_kind(top, &kind);
	size_t i = 0;
	for (const cJSON *v = shards->child; v != NULL && rc == RP_OK; v = v->next, i++) {
		char where[40];
		snprintf(where, sizeof where, "shards[%zu].", i);
		rp_json_at at = {.file = top->file, .where = where, .object = v, .err = top->err};
		rc = read_shard(&at, kind, files);
	}
	if (rc != RP_OK)
		return rc;
	qsort(files->v, files->n, sizeof *files->v, by_path);
	for (i = 1; i < files->n; i++)
		if (strcmp(files->v[i - 1].path, files->v[i].path) == 0)
			return rp_fail(top->err, RP_FORMAT, "%s: shards[].filename: '%s' is there twice", top->file, files->v[i].path);
	return RP_OK;
}

static rp_code add_indexed(const rp_piece_index *index, rp_listed_files *files, rp_error *err)
{
	rp_code rc = RP_OK;
	for (size_t i = 0; i < index->n_files && rc == RP_OK; i++) {
		const rp_piece_file *f = &index->files[i];
		rc = add(files, &(rp_listed_file){.path = f->path, .size = f->size, .pieces = f->pieces, .n_pieces = f->n_pieces}, err);
	}
	return rc;
}

/* The tokenizer and whatever else the catalogue pins, unless the index has its pieces. */
static rp_code add_pinned(const rp_catalog_model *m, const char *manifest, bool indexed, rp_listed_files *files, rp_error *err)
{
	rp_code rc = RP_OK;
	for (size_t i = 0; i < m->n_files && rc == RP_OK; i++) {
		const rp_catalog_file *f = &m->files[i];
		if (f->role == RP_ROLE_MANIFEST || f->role == RP_ROLE_INDEX)
			continue;
		rp_listed_file file = {.path = f->path, .size = f->size, .check = {.kind = RP_CHECK_SHA256, .size = f->size}};
		memcpy(file.check.digest, f->sha256, RP_HASH_BYTES);
		bool listed = has(files, f->path);
		if (!listed && (rc = one_piece(files, &file, err)) == RP_OK)
			rc = add(files, &file, err);
		else if (listed && !indexed)
			rc = rp_fail(err, RP_MODEL, "%s: shards[].filename: '%s' is the name of a file that the catalogue pins", manifest, f->path);
	}
	for (size_t i = 0; i < files->n; i++)
		for (size_t k = 0; k < m->n_files; k++)
			if (strcmp(m->files[k].path, files->v[i].path) == 0)
				files->v[i].url = m->files[k].url;
	return rc;
}

static rp_code check_reserved(const rp_catalog_model *m, const char *manifest, const rp_listed_files *files, rp_error *err)
{
	for (size_t k = 0; k < m->n_files; k++)
		if ((m->files[k].role == RP_ROLE_MANIFEST || m->files[k].role == RP_ROLE_INDEX) && has(files, m->files[k].path))
			return rp_fail(err, RP_MODEL, "%s: filename: '%s' is the name of what describes the model", manifest, m->files[k].path);
	return RP_OK;
}

rp_code rp_listed_files_read(const rp_catalog_model *m, const char *manifest, const char *text, size_t n, const rp_piece_index *index,
	rp_listed_files *out, rp_error *err)
{
	cJSON *json;
	*out = (rp_listed_files){0};
	rp_arena_init(&out->arena, 0);
	rp_code rc = rp_json_parse(manifest, text, n, &json, err);
	if (rc != RP_OK)
		return rc;
	rp_json_at top = {.file = manifest, .where = "", .object = json, .err = err};
	const cJSON *shards = rp_json_field(&top, "shards");
	if (!cJSON_IsArray(shards) || cJSON_GetArraySize(shards) > MAX_SHARDS)
		rc = rp_json_wrong(&top, "shards", shards, "an array of at most 65536");
	size_t most = m->n_files + (index != NULL ? index->n_files : rc == RP_OK ? (size_t)cJSON_GetArraySize(shards) : 0) + 1;
	if (rc == RP_OK && (out->v = rp_arena_array(&out->arena, most, sizeof *out->v)) == NULL)
		rc = rp_no_memory(err, most * sizeof *out->v, "the files of a model");
	if (rc == RP_OK)
		rc = index != NULL ? add_indexed(index, out, err) : read_shards(&top, shards, out);
	if (rc == RP_OK)
		rc = check_reserved(m, manifest, out, err);
	if (rc == RP_OK)
		rc = add_pinned(m, manifest, index != NULL, out, err);
	cJSON_Delete(json);
	return rc;
}

void rp_listed_files_free(rp_listed_files *files)
{
	rp_arena_free(&files->arena);
	*files = (rp_listed_files){0};
}
