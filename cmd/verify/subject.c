#include "subject.h"

#include "hash/sums.h"
#include "store/catalog.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

verify_item *subject_add(verify_subject *s, const char *path)
{
	if (s->n_items == s->room) {
		size_t room = s->room * 2 + 16;
		verify_item *grown = rp_grow_array(s->items, room, sizeof *grown);
		if (grown == NULL)
			return NULL;
		s->items = grown;
		s->room = room;
	}
	const char *copy = rp_arena_strndup(&s->arena, path, strlen(path));
	if (copy == NULL)
		return NULL;
	s->items[s->n_items] = (verify_item){.path = copy};
	return &s->items[s->n_items++];
}

/* ---- opening ---- */
static bool exists(const char *folder, const char *name)
{
	struct stat st;
	char *path = rp_asprintf("%s/%s", folder, name);
	bool there = path != NULL && stat(path, &st) == 0;
	free(path);
	return there;
}

/* Whether a file claims to be a model: by its first bytes or by its name. */
static bool claims_to_be_model(const char *path)
{
	static const char *const ends[] = {".gguf", ".safetensors", ".json"};
	char magic[4] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? pread(fd, magic, sizeof magic, 0) : -1;
	if (fd >= 0)
		close(fd);
	bool claims = n == sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		size_t k = strlen(ends[i]), length = strlen(path);
		claims |= length > k && strcmp(path + length - k, ends[i]) == 0;
	}
	return claims;
}

/* The operand's path: of a folder without the slash at its end, of a manifest.json its folder. */
static rp_code find(verify_subject *s, const char *operand, rp_error *err)
{
	static const char manifest[] = "manifest.json";
	struct stat st;
	char *found = NULL;
	rp_code code = rp_model_locate(operand, &found, err);
	if (code != RP_OK)
		return code;
	size_t n = strlen(found), k = sizeof manifest - 1;
	if (n >= k && strcmp(found + n - k, manifest) == 0 && (n == k || found[n - k - 1] == '/'))
		n -= n > k ? k + 1 : k;
	while (n > 1 && found[n - 1] == '/')
		n--;
	s->path = n == 0 ? (found[0] == '/' ? "/" : ".") : rp_arena_strndup(&s->arena, found, n);
	free(found);
	if (s->path == NULL)
		return rp_no_memory(err, n, "a path");
	if (stat(s->path, &st) != 0)
		return rp_fail(err, RP_NOT_FOUND, "%s: does not exist", s->path);
	s->folder = S_ISDIR(st.st_mode);
	return RP_OK;
}

rp_code subject_open(verify_state *v, const char *operand, verify_subject *s, rp_error *err)
{
	bool pieces_only = s->pieces_only;
	*s = (verify_subject){.v = v, .pieces_only = pieces_only};
	rp_arena_init(&s->arena, 0);
	rp_code code = find(s, operand, err);
	if (code != RP_OK)
		return code;
	if (s->folder && exists(s->path, "manifest.json")) {
		code = folder_read(s, err);
		if (code == RP_OK && !s->pieces_only)
			s->structure = rp_model_open(s->path, &s->model, &s->structure_error);
		return code;
	}
	s->no_model = !s->folder && !claims_to_be_model(s->path);
	if (!s->no_model)
		s->structure = rp_model_open(s->path, &s->model, &s->structure_error);
	return plain_read(s, err);
}

void subject_close(verify_subject *s)
{
	for (size_t i = 0; i < s->n_items; i++) {
		verify_item *item = &s->items[i];
		for (size_t k = 0; k < item->n_trees; k++)
			rp_tree_free(item->trees[k]);
		if (item->trees != NULL) { /* then a choice among them made the list of pieces */
			free((void *)item->trees);
			free((void *)item->pieces);
		}
		free(item->ranges);
	}
	roots_free(s->roots);
	rp_model_close(s->model);
	rp_piece_index_free(s->index);
	rp_catalog_free(s->catalogue);
	free(s->manifest);
	free(s->items);
	free((void *)s->order);
	free(s->files);
	rp_arena_free(&s->arena);
}

/* ---- results ---- */
static void item_members(rp_jsonw *w, const verify_item *item)
{
	char hex[RP_HASH_HEX];
	const rp_scan_file *f = &item->scan;
	bool read = !item->cached && f->code == RP_OK;
	rp_jsonw_pair_u64(w, "size", item->cached ? item->stamp.size : f->size);
	rp_jsonw_pair_str(w, "sha256", read && f->sha256 ? rp_hex(hex, f->sha256_sum, RP_HASH_BYTES) :
		item->cached && item->sha256_known ? rp_hex(hex, item->sha256, RP_HASH_BYTES) : NULL);
	rp_jsonw_pair_str(w, "blake3", read && f->blake3 ? rp_hex(hex, f->blake3_sum, RP_HASH_BYTES) :
		item->cached && item->blake3_known ? rp_hex(hex, item->blake3, RP_HASH_BYTES) : NULL);
	rp_jsonw_pair_bool(w, "vouched", item->sha256_known || item->blake3_known || item->pieces != NULL);
	rp_jsonw_pair_u64(w, "pieces", item->n_pieces);
	rp_jsonw_pair_u64(w, "bad_pieces", item->bad_pieces);
	rp_jsonw_pair_bool(w, "cached", item->cached);
}

static void result_members(rp_jsonw *w, const char *path, rp_code code, const char *message)
{
	rp_jsonw_pair_str(w, "path", path);
	rp_jsonw_pair_str(w, "status", code == RP_OK ? "ok" : "failed");
	rp_jsonw_pair_str(w, "code", rp_code_word(code));
	rp_jsonw_pair_str(w, "message", message);
}

rp_code verify_result(verify_state *v, const char *path, const verify_item *item, rp_code code, const char *message, rp_error *err)
{
	v->n_ok += code == RP_OK;
	v->n_failed += code != RP_OK;
	v->first = v->first == RP_OK ? code : v->first;
	if (code != RP_OK && message != NULL && !v->o.status)
		verify_say(v, "%s", message);
	if (v->o.json) {
		rp_jsonw w;
		verify_record(v, &w, item != NULL ? "file" : "result");
		result_members(&w, path, code, message);
		if (item != NULL)
			item_members(&w, item);
		return verify_record_end(v, &w, err);
	}
	if (v->o.status || (v->o.quiet && code == RP_OK))
		return RP_OK;
	rp_sums_write_name(&v->out, path);
	rp_buf_adds(&v->out, code == RP_OK ? ": OK\n" : code == RP_NOT_FOUND || code == RP_READ ? ": FAILED open or read\n" : ": FAILED\n");
	return verify_written(v, err);
}

/* ---- judging ---- */
static rp_code check_hash(verify_item *item, const char *name, const unsigned char *found, const unsigned char *expected)
{
	char a[RP_HASH_HEX], b[RP_HASH_HEX];
	if (memcmp(found, expected, RP_HASH_BYTES) == 0)
		return RP_OK;
	return rp_fail(&item->error, RP_HASH, "%s: %s is %s, expected %s", item->path, name, rp_hex(a, found, RP_HASH_BYTES),
		rp_hex(b, expected, RP_HASH_BYTES));
}

static void count_bad_pieces(verify_item *item)
{
	for (size_t i = 0; item->pieces != NULL && i < item->n_pieces; i++)
		item->bad_pieces += !item->ranges[i].done || memcmp(item->ranges[i].sha256, item->pieces[i].sha256, RP_HASH_BYTES) != 0;
}

static rp_code judge_bytes(const verify_subject *s, verify_item *item)
{
	const rp_scan_file *f = &item->scan;
	rp_code code = rp_scan_error(f, &item->error);
	if (item->pieces == NULL && item->n_trees > 0)
		plain_choose_tree(item);
	count_bad_pieces(item);
	if (code != RP_OK)
		return code;
	if (item->size_known && f->size != item->size)
		return rp_fail(&item->error, RP_HASH, "%s: is %llu bytes long, expected %llu", item->path, (unsigned long long)f->size,
			(unsigned long long)item->size);
	if (item->bad_pieces > 0)
		return rp_fail(&item->error, RP_HASH, "%s: %zu of %zu pieces differ; to repair: reploid-verify --bad-pieces | reploid-fetch --only -",
			item->path, item->bad_pieces, item->n_pieces);
	if (item->sha256_known && f->sha256)
		code = check_hash(item, "SHA-256", f->sha256_sum, item->sha256);
	if (code == RP_OK && item->blake3_known && f->blake3)
		code = check_hash(item, "BLAKE3", f->blake3_sum, item->blake3);
	if (code == RP_OK && s->no_model && item->pieces == NULL && !item->sha256_known)
		code = rp_fail(&item->error, RP_UNSUPPORTED, "%s: neither GGUF nor safetensors, and nothing is known to check it against; "
			"give --sha256 or --index, or use --print or -c", item->path);
	return code;
}

static rp_code judge(verify_subject *s, verify_item *item, rp_error *err)
{
	verify_state *v = s->v;
	item->judged = true;
	item->code = item->cached ? RP_OK : judge_bytes(s, item);
	bool alone = !s->folder && s->n_items == 1;
	if (item->code == RP_OK && alone && s->structure != RP_OK) {
		item->code = s->structure;
		item->error = s->structure_error;
	}
	if (s->pieces_only)
		return RP_OK;
	bool vouched = item->sha256_known || item->blake3_known || item->pieces != NULL;
	if (item->code == RP_OK && !vouched && s->manifest == NULL && !v->o.quiet && !v->o.status && !v->o.json)
		verify_say(v, "%s: its structure is sound; no hash of it is known, so nothing vouches for its bytes", item->path);
	return verify_result(v, item->path, item, item->code, item->code != RP_OK ? item->error.msg : NULL, err);
}

/* Items before `end`, in order; those the cache vouches for have been waiting. */
static rp_code judge_up_to(verify_subject *s, const verify_item *end, rp_error *err)
{
	rp_code code = RP_OK;
	for (; code == RP_OK && s->next < s->n_items && &s->items[s->next] < end; s->next++)
		code = judge(s, &s->items[s->next], err);
	return code;
}

static rp_code one_read(void *context, size_t i, rp_error *err)
{
	verify_subject *s = context;
	verify_item *item = s->order[i];
	item->scan = s->files[i];
	return judge_up_to(s, item + 1, err);
}

/* ---- reading ---- */
static rp_code make_ranges(verify_item *item, rp_error *err)
{
	if (item->pieces == NULL && item->n_trees > 0)
		return plain_make_ranges(item, err);
	if (item->pieces == NULL)
		return RP_OK;
	item->ranges = rp_alloc_array(item->n_pieces, sizeof *item->ranges);
	if (item->ranges == NULL)
		return rp_no_memory(err, item->n_pieces * sizeof *item->ranges, "pieces");
	for (size_t i = 0; i < item->n_pieces; i++)
		item->ranges[i] = (rp_scan_range){.offset = item->pieces[i].offset, .size = item->pieces[i].size};
	item->scan.tracks[0] = (rp_scan_track){item->ranges, item->n_pieces};
	return RP_OK;
}

rp_code subject_scan(verify_subject *s, rp_error *err)
{
	const verify_opts *o = &s->v->o;
	size_t n = 0;
	s->order = rp_alloc_array(s->n_items, sizeof(verify_item *));
	s->files = rp_alloc_array(s->n_items, sizeof *s->files);
	if (s->order == NULL || s->files == NULL)
		return rp_no_memory(err, s->n_items * sizeof *s->files, "the list of files");
	for (size_t i = 0; i < s->n_items; i++) {
		verify_item *item = &s->items[i];
		bool alone = item->pieces == NULL;
		if (item->cached)
			continue;
		item->scan = (rp_scan_file){.path = item->path};
		item->scan.sha256 = s->pieces_only ? item->sha256_known && alone && item->n_trees == 0 : item->sha256_known || s->manifest == NULL;
		item->scan.blake3 = !s->pieces_only && (item->blake3_known || o->blake3);
		item->scan.tracks[1] = (rp_scan_track){item->leaves, item->n_leaves};
		rp_code code = make_ranges(item, err);
		if (code != RP_OK)
			return code;
		s->order[n] = item;
		s->files[n++] = item->scan;
	}
	rp_code code = verify_scan(s->v, s->files, n, one_read, s, err);
	return code == RP_OK ? judge_up_to(s, s->items + s->n_items, err) : code;
}
