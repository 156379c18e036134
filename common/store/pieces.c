#include "store/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

static const char schema[] = "doppler.verified-pieces/v1";

bool rp_digest_parse(const char *text, unsigned char out[RP_HASH_BYTES])
{
	return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 && strspn(text + 7, "0123456789abcdef") == 64 &&
		rp_unhex(out, RP_HASH_BYTES, text + 7, 64);
}

bool rp_piece_name_valid(const char *name)
{
	size_t n = strlen(name);
	return n >= 1 && n <= 200 && name[0] != '.' &&
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}

static rp_code read_piece(const rp_json_at *at, const cJSON *v, uint64_t max_piece, uint64_t expected, rp_piece *out)
{
	const char *identity;
	rp_json_at piece = *at;
	piece.object = v;
	rp_code rc = rp_json_need_size(&piece, "offset", 0, &out->offset);
	if (rc == RP_OK)
		rc = rp_json_need_size(&piece, "size", 1, &out->size);
	if (rc == RP_OK)
		rc = rp_json_need_string(&piece, "identity", &identity);
	if (rc != RP_OK)
		return rc;
	if (out->offset != expected)
		return rp_fail(at->err, RP_FORMAT, "%s: %soffset is %llu, but the pieces before it end at %llu", at->file, at->where,
			(unsigned long long)out->offset, (unsigned long long)expected);
	if (out->size > max_piece)
		return rp_json_wrong(&piece, "size", rp_json_field(&piece, "size"), "at most maxPieceBytes");
	if (!rp_digest_parse(identity, out->sha256))
		return rp_json_wrong(&piece, "identity", rp_json_field(&piece, "identity"), "\"sha256:\" and 64 lower-case hexadecimal digits");
	return RP_OK;
}

static rp_code read_pieces(rp_piece_index *index, const rp_json_at *at, size_t nth, const cJSON *list, rp_piece_file *file)
{
	size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
	rp_piece *pieces = rp_arena_array(&index->arena, n + 1, sizeof *pieces);
	if (pieces == NULL)
		return rp_no_memory(at->err, n * sizeof *pieces, "the pieces of a file");
	uint64_t end = 0;
	for (const cJSON *v = list->child; v != NULL; v = v->next, i++) {
		char where[80];
		snprintf(where, sizeof where, "files[%zu].pieces[%zu].", nth, i);
		rp_json_at one = {.file = at->file, .where = where, .err = at->err};
		rp_code rc = read_piece(&one, v, index->max_piece, end, &pieces[i]);
		if (rc != RP_OK)
			return rc;
		end += pieces[i].size; /* both are below 2^53 and end equals the offset, so no sum overflows */
	}
	if (end != file->size)
		return rp_fail(at->err, RP_FORMAT, "%s: %ssize is %llu, but its pieces add up to %llu", at->file, at->where,
			(unsigned long long)file->size, (unsigned long long)end);
	file->pieces = pieces;
	file->n_pieces = n;
	return RP_OK;
}

static rp_code read_file_entry(rp_piece_index *index, const rp_json_at *top, const cJSON *v, size_t nth)
{
	char where[40];
	snprintf(where, sizeof where, "files[%zu].", nth);
	rp_json_at at = {.file = top->file, .where = where, .object = v, .err = top->err};
	rp_piece_file *file = &index->files[nth];
	const char *path;
	rp_code rc = rp_json_need_string(&at, "path", &path);
	if (rc == RP_OK && !rp_piece_name_valid(path))
		rc = rp_json_wrong(&at, "path", rp_json_field(&at, "path"), "a file name of letters, digits, dot (not first), dash and underscore");
	if (rc == RP_OK)
		rc = rp_json_need_size(&at, "size", 1, &file->size);
	if (rc != RP_OK)
		return rc;
	const cJSON *pieces = rp_json_field(&at, "pieces");
	if (!cJSON_IsArray(pieces))
		return rp_json_wrong(&at, "pieces", pieces, "an array");
	file->path = rp_arena_strndup(&index->arena, path, strlen(path));
	if (file->path == NULL)
		return rp_no_memory(top->err, strlen(path), "a file name");
	return read_pieces(index, &at, nth, pieces, file);
}

typedef struct named {
	const char *name;
	uint32_t at;
} named;

static int compare_named(const void *a, const void *b)
{
	return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static rp_code index_names(rp_piece_index *index, const rp_json_at *top)
{
	named *names = rp_alloc_array(index->n_files + 1, sizeof *names);
	index->by_name = rp_arena_array(&index->arena, index->n_files + 1, sizeof *index->by_name);
	rp_code rc = RP_OK;
	if (names == NULL || index->by_name == NULL)
		rc = rp_no_memory(top->err, index->n_files * sizeof *names, "file names");
	for (size_t i = 0; rc == RP_OK && i < index->n_files; i++)
		names[i] = (named){index->files[i].path, (uint32_t)i};
	if (rc == RP_OK)
		qsort(names, index->n_files, sizeof *names, compare_named);
	for (size_t i = 0; rc == RP_OK && i < index->n_files; i++) {
		index->by_name[i] = names[i].at;
		if (i > 0 && strcmp(names[i - 1].name, names[i].name) == 0)
			rc = rp_fail(top->err, RP_FORMAT, "%s: files[%u].path: '%s' is there twice", top->file, names[i].at, names[i].name);
	}
	free(names);
	return rc;
}

static rp_code read_index(rp_piece_index *index, const rp_json_at *top)
{
	const char *text;
	if (!cJSON_IsObject(top->object))
		return rp_fail(top->err, RP_FORMAT, "%s: not a JSON object, expected a piece index", top->file);
	rp_code rc = rp_json_need_string(top, "schema", &text);
	if (rc == RP_OK && strcmp(text, schema) != 0)
		rc = rp_json_wrong(top, "schema", rp_json_field(top, "schema"), "doppler.verified-pieces/v1");
	if (rc == RP_OK)
		rc = rp_json_need_string(top, "manifestIdentity", &text);
	if (rc == RP_OK && !rp_digest_parse(text, index->manifest))
		rc = rp_json_wrong(top, "manifestIdentity", rp_json_field(top, "manifestIdentity"),
			"\"sha256:\" and 64 lower-case hexadecimal digits");
	if (rc == RP_OK)
		rc = rp_json_need_size(top, "maxPieceBytes", 1, &index->max_piece);
	if (rc != RP_OK)
		return rc;
	const cJSON *files = rp_json_field(top, "files");
	if (!cJSON_IsArray(files))
		return rp_json_wrong(top, "files", files, "an array");
	size_t n = (size_t)cJSON_GetArraySize(files);
	index->files = rp_arena_array(&index->arena, n + 1, sizeof *index->files);
	if (index->files == NULL)
		return rp_no_memory(top->err, n * sizeof *index->files, "the files of an index");
	for (const cJSON *v = files->child; v != NULL && rc == RP_OK; v = v->next)
		if ((rc = read_file_entry(index, top, v, index->n_files)) == RP_OK)
			index->n_files++;
	return rc == RP_OK ? index_names(index, top) : rc;
}

rp_code rp_piece_index_parse(const char *name, const char *text, size_t n, rp_piece_index **out, rp_error *err)
{
	cJSON *json;
	rp_code rc = rp_json_parse(name, text, n, &json, err);
	if (rc != RP_OK)
		return rc;
	rp_piece_index *index = rp_alloc(sizeof *index);
	if (index == NULL) {
		rc = rp_no_memory(err, sizeof *index, "a piece index");
	} else {
		rp_json_at top = {.file = name, .where = "", .object = json, .err = err};
		rp_arena_init(&index->arena, 0);
		rc = read_index(index, &top);
	}
	cJSON_Delete(json);
	if (rc == RP_OK)
		*out = index;
	else
		rp_piece_index_free(index);
	return rc;
}

void rp_piece_index_free(rp_piece_index *index)
{
	if (index == NULL)
		return;
	rp_arena_free(&index->arena);
	free(index);
}

const rp_piece_file *rp_piece_index_find(const rp_piece_index *index, const char *path)
{
	size_t lo = 0, hi = index->n_files;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const rp_piece_file *file = &index->files[index->by_name[mid]];
		int c = strcmp(path, file->path);
		if (c == 0)
			return file;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static rp_code check_shards(const rp_piece_index *index, const char *index_name, const rp_json_at *top)
{
	const cJSON *shards = rp_json_field(top, "shards");
	if (!cJSON_IsArray(shards))
		return rp_json_wrong(top, "shards", shards, "an array");
	size_t i = 0;
	for (const cJSON *v = shards->child; v != NULL; v = v->next, i++) {
		char where[40];
		snprintf(where, sizeof where, "shards[%zu].", i);
		rp_json_at at = {.file = top->file, .where = where, .object = v, .err = top->err};
		const char *name;
		uint64_t size;
		rp_code rc = rp_json_need_string(&at, "filename", &name);
		if (rc == RP_OK)
			rc = rp_json_need_size(&at, "size", 1, &size);
		if (rc != RP_OK)
			return rc;
		const rp_piece_file *file = rp_piece_name_valid(name) ? rp_piece_index_find(index, name) : NULL;
		if (file == NULL)
			return rp_json_wrong(&at, "filename", rp_json_field(&at, "filename"), "the name of a file of the piece index");
		if (file->size != size)
			return rp_fail(top->err, RP_MODEL, "%s: %ssize is %llu, but %s says %llu", top->file, where, (unsigned long long)size,
				index_name, (unsigned long long)file->size);
	}
	return RP_OK;
}

rp_code rp_piece_index_check_manifest(const rp_piece_index *index, const char *index_name, const char *manifest_name,
	const char *text, size_t n, rp_error *err)
{
	unsigned char hash[RP_HASH_BYTES];
	char a[RP_HASH_HEX], b[RP_HASH_HEX];
	rp_sha256_once(text, n, hash);
	if (memcmp(hash, index->manifest, sizeof hash) != 0)
		return rp_fail(err, RP_HASH, "%s: manifestIdentity is sha256:%s, but %s has %s: they do not belong together", index_name,
			rp_hex(a, index->manifest, RP_HASH_BYTES), manifest_name, rp_hex(b, hash, RP_HASH_BYTES));
	cJSON *json;
	rp_code rc = rp_json_parse(manifest_name, text, n, &json, err);
	if (rc != RP_OK)
		return rc;
	rp_json_at top = {.file = manifest_name, .where = "", .object = json, .err = err};
	rc = check_shards(index, index_name, &top);
	cJSON_Delete(json);
	return rc;
}

void rp_piece_index_write(const rp_piece_index *index, rp_buf *out)
{
	char hex[RP_HASH_HEX];
	rp_buf_addf(out, "{\n  \"schema\": \"%s\",\n  \"manifestIdentity\": \"sha256:%s\",\n  \"maxPieceBytes\": %llu,\n  \"files\": [", schema,
		rp_hex(hex, index->manifest, RP_HASH_BYTES), (unsigned long long)index->max_piece);
	for (size_t i = 0; i < index->n_files; i++) {
		const rp_piece_file *f = &index->files[i];
		rp_buf_addf(out, "%s\n    {\n      \"path\": \"%s\",\n      \"size\": %llu,\n      \"pieces\": [", i > 0 ? "," : "", f->path,
			(unsigned long long)f->size);
		for (size_t k = 0; k < f->n_pieces; k++)
			rp_buf_addf(out, "%s\n        {\n          \"offset\": %llu,\n          \"size\": %llu,\n          \"identity\": \"sha256:%s\"\n        }",
				k > 0 ? "," : "", (unsigned long long)f->pieces[k].offset, (unsigned long long)f->pieces[k].size,
				rp_hex(hex, f->pieces[k].sha256, RP_HASH_BYTES));
		rp_buf_adds(out, f->n_pieces > 0 ? "\n      ]\n    }" : "]\n    }");
	}
	rp_buf_adds(out, index->n_files > 0 ? "\n  ]\n}\n" : "]\n}\n");
}
