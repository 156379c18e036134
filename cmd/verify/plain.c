/* Model files that come without a list of their own: what --sha256, --index and the trees kept since they were fetched say of them. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

static rp_code expect_sha256(verify_item *item, const char *text, rp_error *err)
{
	if (!rp_unhex(item->sha256, RP_HASH_BYTES, text, strlen(text)))
		return rp_fail(err, RP_USAGE, "--sha256: expected 64 hexadecimal digits");
	item->sha256_known = true;
	return RP_OK;
}

static rp_code expect_index(verify_subject *s, verify_item *item, rp_error *err)
{
	const char *path = s->v->o.index, *name = base_name(item->path);
	char *text = NULL;
	size_t n = 0;
	rp_code code = RP_OK;
	if (s->index == NULL) {
		code = rp_read_file(path, RP_MAX_INDEX_BYTES, &text, &n, err);
		if (code == RP_OK)
			code = rp_piece_index_parse(path, text, n, &s->index, err);
		free(text);
	}
	if (code != RP_OK)
		return code;
	const rp_piece_file *file = rp_piece_index_find(s->index, name);
	if (file == NULL)
		return rp_fail(err, RP_NOT_FOUND, "%s: lists no file named %s", path, name);
	item->pieces = file->pieces;
	item->n_pieces = file->n_pieces;
	item->size = file->size;
	item->size_known = true;
	return RP_OK;
}

static rp_code expect(verify_subject *s, verify_item *item, rp_error *err)
{
	struct stat st;
	const verify_opts *o = &s->v->o;
	if (o->sha256 != NULL) {
		rp_code code = expect_sha256(item, o->sha256, err);
		if (code != RP_OK)
			return code;
	}
	if (o->index != NULL)
		return expect_index(s, item, err);
	if (s->v->store == NULL || stat(item->path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return RP_OK;
	rp_code code = rp_tree_load(s->v->store, (uint64_t)st.st_size, &item->trees, &item->n_trees, err);
	if (code != RP_OK || item->n_trees > 0)
		return code;
	free((void *)item->trees); /* perhaps it was cut short, or something was added */
	item->trees = NULL;
	return rp_tree_load(s->v->store, 0, &item->trees, &item->n_trees, err);
}

rp_code plain_read(verify_subject *s, rp_error *err)
{
	size_t n = s->model != NULL ? rp_model_n_files(s->model) : 0;
	rp_code code = RP_OK;
	if (s->folder && s->model == NULL) /* nothing says which files it should have */
		return RP_OK;
	for (size_t i = 0; code == RP_OK && (i < n || (i == 0 && n == 0)); i++) {
		verify_item *item = subject_add(s, n > 0 ? rp_model_file(s->model, i)->path : s->path);
		code = item == NULL ? rp_no_memory(err, sizeof *item, "the list of files") : expect(s, item, err);
	}
	return code;
}

/* The size of piece i of a tree. */
static uint64_t piece_size(const rp_tree *t, size_t i)
{
	uint64_t at = i * t->piece_bytes;
	return t->size - at < t->piece_bytes ? t->size - at : t->piece_bytes;
}

rp_code plain_make_ranges(verify_item *item, rp_error *err)
{
	const rp_tree *longest = item->trees[0];
	for (size_t i = 1; i < item->n_trees; i++)
		if (item->trees[i]->size > longest->size && item->trees[i]->piece_bytes == longest->piece_bytes)
			longest = item->trees[i];
	item->ranges = rp_alloc_array(longest->n_pieces, sizeof *item->ranges);
	if (item->ranges == NULL)
		return rp_no_memory(err, longest->n_pieces * sizeof *item->ranges, "pieces");
	for (size_t i = 0; i < longest->n_pieces; i++)
		item->ranges[i] = (rp_scan_range){.offset = i * longest->piece_bytes, .size = piece_size(longest, i)};
	item->scan.tracks[0] = (rp_scan_track){item->ranges, longest->n_pieces};
	return RP_OK;
}

static size_t equal_pieces(const verify_item *item, const rp_tree *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n_pieces; i++)
		n += item->ranges[i].done && item->ranges[i].size == piece_size(t, i) &&
			memcmp(item->ranges[i].sha256, t->pieces[i], RP_HASH_BYTES) == 0;
	return n;
}

/* Trees are found by size, or without it, so the file is taken for a copy of the one it shares most pieces with, if it shares half of
 * what it has. */
void plain_choose_tree(verify_item *item)
{
	const rp_tree *best = NULL;
	size_t most = 0;
	for (size_t i = 0; i < item->n_trees; i++) {
		size_t n = item->trees[i]->piece_bytes == item->trees[0]->piece_bytes ? equal_pieces(item, item->trees[i]) : 0;
		if (n > most) {
			most = n;
			best = item->trees[i];
		}
	}
	size_t has = best != NULL ? (size_t)(item->scan.size / best->piece_bytes) : 0;
	if (best == NULL || most * 2 < (has < best->n_pieces ? has : best->n_pieces))
		return;
	rp_piece *pieces = rp_alloc_array(best->n_pieces, sizeof *pieces);
	if (pieces == NULL)
		return;
	for (size_t i = 0; i < best->n_pieces; i++) {
		pieces[i] = (rp_piece){.offset = i * best->piece_bytes, .size = piece_size(best, i)};
		item->ranges[i].done &= item->ranges[i].size == pieces[i].size;
		memcpy(pieces[i].sha256, best->pieces[i], RP_HASH_BYTES);
	}
	item->pieces = pieces;
	item->n_pieces = best->n_pieces;
	item->size = best->size;
	item->size_known = true;
	item->sources = best->sources;
	item->n_sources = best->n_sources;
	if (best->whole_known && !item->sha256_known) {
		item->sha256_known = true;
		memcpy(item->sha256, best->whole, RP_HASH_BYTES);
	}
}
