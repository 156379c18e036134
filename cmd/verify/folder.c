/* An RDRR folder: what its manifest and piece index say of its files. */
#include "subject.h"

#include "model/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MANIFEST = 64 << 20 };

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && strcmp(s + n - k, end) == 0;
}

/* ---- the piece index: the one --index names, else a file of the folder that fits the manifest ---- */
static rp_code read_index(verify_subject *s, const char *path, bool named, rp_error *err)
{
	char *text = NULL;
	size_t n = 0;
	rp_piece_index *index = NULL;
	rp_code code = rp_read_file(path, RP_MAX_INDEX_BYTES, &text, &n, err);
	if (code == RP_OK)
		code = rp_piece_index_parse(path, text, n, &index, err);
	unsigned char identity[RP_HASH_BYTES];
	rp_sha256_once(s->manifest, s->manifest_len, identity);
	if (code == RP_OK && !named && memcmp(index->manifest, identity, sizeof identity) != 0) {
		rp_piece_index_free(index); /* of another model, or of another state of this one */
		free(text);
		return RP_OK;
	}
	const char *slash = strrchr(path, '/');
	if (code == RP_OK)
		code = catalogue_check_index(s, slash != NULL ? slash + 1 : path, path, text, n, err);
	free(text);
	if (code == RP_OK)
		code = rp_piece_index_check_manifest(index, path, s->path, s->manifest, s->manifest_len, err);
	if (code == RP_OK)
		s->index = index;
	else
		rp_piece_index_free(index);
	return code;
}

static rp_code find_index(verify_subject *s, const char **path, rp_error *err)
{
	rp_code code = RP_OK;
	*path = s->v->o.index;
	if (*path != NULL)
		return read_index(s, *path, true, err);
	DIR *dir = opendir(s->path);
	for (struct dirent *e; code == RP_OK && s->index == NULL && dir != NULL && (e = readdir(dir)) != NULL;) {
		if (!ends_with(e->d_name, "pieces.json") || !rp_piece_name_valid(e->d_name))
			continue;
		*path = rp_arena_printf(&s->arena, "%s/%s", s->path, e->d_name);
		code = *path == NULL ? rp_no_memory(err, strlen(s->path), "a path") : read_index(s, *path, false, err);
	}
	if (dir != NULL)
		closedir(dir);
	return code;
}

static void expect_pieces(const verify_subject *s, verify_item *item, const char *name)
{
	const rp_piece_file *file = s->index != NULL ? rp_piece_index_find(s->index, name) : NULL;
	if (file == NULL)
		return;
	item->pieces = file->pieces;
	item->n_pieces = file->n_pieces;
	item->size = file->size;
	item->size_known = true;
}

/* ---- the manifest ---- */
static verify_item *add_file(verify_subject *s, const char *name, rp_error *err)
{
	char *path = rp_arena_printf(&s->arena, "%s/%s", s->path, name);
	verify_item *item = path != NULL ? subject_add(s, path) : NULL;
	if (item == NULL) {
		rp_no_memory(err, sizeof *item, "the list of files");
		return NULL;
	}
	expect_pieces(s, item, name);
	return catalogue_add(s, item, name, err) == RP_OK ? item : NULL;
}

static rp_code read_shard(verify_subject *s, const rp_json_at *at, bool blake3, rp_error *err)
{
	bool twice = false;
	const cJSON *name = rp_json_alias(at, "filename", "fileName", &twice);
	const cJSON *own = rp_json_field(at, "blake3"), *hash = rp_json_field(at, "hash"), *expected = blake3 && own != NULL ? own : hash;
	uint64_t size = 0;
	if (!blake3 && expected == NULL)
		expected = own;
	if (twice || !cJSON_IsString(name) || !rp_piece_name_valid(name->valuestring))
		return rp_json_wrong(at, "filename", name, "the name of a file in this folder");
	if (!cJSON_IsString(expected) || !rp_is_hex64(expected->valuestring))
		return rp_json_wrong(at, "hash", expected, "64 hexadecimal digits");
	rp_code code = rp_json_need_u64(at, "size", 1, &size);
	if (code != RP_OK)
		return code;
	verify_item *item = add_file(s, name->valuestring, err);
	if (item == NULL)
		return RP_NO_MEMORY;
	item->size = size;
	item->size_known = true;
	item->blake3_known = blake3;
	item->sha256_known = !blake3;
	rp_unhex(blake3 ? item->blake3 : item->sha256, RP_HASH_BYTES, expected->valuestring, strlen(expected->valuestring));
	return RP_OK;
}

static rp_code read_manifest(verify_subject *s, const rp_json_at *top, rp_error *err)
{
	const cJSON *algorithm = rp_json_field(top, "hashAlgorithm"), *shards = rp_json_field(top, "shards");
	if (!cJSON_IsString(algorithm) || (strcmp(algorithm->valuestring, "sha256") != 0 && strcmp(algorithm->valuestring, "blake3") != 0))
		return rp_json_wrong(top, "hashAlgorithm", algorithm, "\"sha256\" or \"blake3\"");
	if (!cJSON_IsArray(shards))
		return rp_json_wrong(top, "shards", shards, "an array");
	rp_code code = RP_OK;
	size_t i = 0;
	for (const cJSON *e = shards->child; e != NULL && code == RP_OK; e = e->next, i++) {
		char where[40];
		snprintf(where, sizeof where, "shards[%zu].", i);
		rp_json_at at = {.file = top->file, .where = where, .object = e, .err = err};
		code = read_shard(s, &at, strcmp(algorithm->valuestring, "blake3") == 0, err);
	}
	const cJSON *tokenizer = code == RP_OK ? rp_json_field(top, "tokenizer") : NULL;
	const cJSON *file = tokenizer != NULL ? cJSON_GetObjectItemCaseSensitive(tokenizer, "file") : NULL;
	if (file != NULL && cJSON_IsString(file) && rp_piece_name_valid(file->valuestring) && add_file(s, file->valuestring, err) == NULL)
		code = RP_NO_MEMORY;
	return code;
}

static rp_code check_identity(verify_subject *s, const char *path, rp_error *err)
{
	unsigned char wanted[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	const char *text = s->v->o.identity;
	if (text == NULL)
		return RP_OK;
	text += strncmp(text, "sha256:", 7) == 0 ? 7 : 0;
	if (!rp_unhex(wanted, sizeof wanted, text, strlen(text)))
		return rp_fail(err, RP_USAGE, "--identity: expected sha256: and 64 hexadecimal digits");
	if (memcmp(wanted, s->identity, sizeof wanted) != 0)
		return rp_fail(err, RP_HASH, "%s: its SHA-256 is %s, which is not the identity that was named", path,
			rp_hex(hex, s->identity, RP_HASH_BYTES));
	return RP_OK;
}

rp_code folder_read(verify_subject *s, rp_error *err)
{
	const char *path = rp_arena_printf(&s->arena, "%s/manifest.json", s->path), *index = NULL;
	cJSON *json = NULL;
	if (path == NULL)
		return rp_no_memory(err, strlen(s->path), "a path");
	rp_code code = rp_read_file(path, MAX_MANIFEST, &s->manifest, &s->manifest_len, err);
	if (code != RP_OK)
		return code;
	rp_sha256_once(s->manifest, s->manifest_len, s->identity);
	code = rp_json_parse(path, s->manifest, s->manifest_len, &json, err);
	if (code == RP_OK)
		code = check_identity(s, path, err);
	const cJSON *id = code == RP_OK ? cJSON_GetObjectItemCaseSensitive(json, "modelId") : NULL;
	if (id != NULL && cJSON_IsString(id))
		code = catalogue_find(s, id->valuestring, path, err);
	if (code == RP_OK)
		code = find_index(s, &index, err);
	if (code == RP_OK) {
		rp_json_at top = {.file = path, .where = "", .object = json, .err = err};
		code = read_manifest(s, &top, err);
	}
	cJSON_Delete(json);
	if (s->pieces_only)
		return code;
	/* its own lines: what was just read */
	rp_code told = verify_result(s->v, path, NULL, code, code != RP_OK && err != NULL ? err->msg : NULL, err);
	if (told == RP_OK && code == RP_OK && s->index != NULL)
		told = verify_result(s->v, index, NULL, RP_OK, NULL, err);
	return told != RP_OK ? told : code;
}
