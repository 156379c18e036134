/* Merkle roots of tensors (integrityExtensions.blockMerkle). A leaf that is one range of one file is hashed as the file is read. The
 * few that are not (a tensor's block across two shards), and those of files the cache vouches for, are read once more. */
#include "subject.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

typedef struct leaf { /* that lies in one range */
	uint32_t file;
	uint64_t offset, size;
	size_t place; /* in hashes */
} leaf;

typedef struct rooted {
	const rp_tensor *t;
	unsigned char root[RP_HASH_BYTES];
	size_t first, n; /* its leaves in hashes */
} rooted;

struct verify_roots {
	uint64_t block;
	rooted *tensors;
	size_t n_tensors;
	unsigned char (*hashes)[RP_HASH_BYTES];
	bool *known;
	size_t n_hashes;
	leaf *leaves; /* in order of file and offset */
	size_t n_leaves;
	verify_item **items; /* of the model's files */
};

void roots_free(struct verify_roots *r)
{
	if (r == NULL)
		return;
	free(r->tensors);
	free(r->hashes);
	free(r->known);
	free(r->leaves);
	free(r->items);
	free(r);
}

size_t roots_count(const verify_subject *s)
{
	return s->roots != NULL ? s->roots->n_tensors : 0;
}

static const cJSON *merkle_of(const verify_subject *s)
{
	const cJSON *json = s->model != NULL && rp_model_format(s->model) == RP_FORMAT_RDRR ? rp_model_json(s->model) : NULL;
	const cJSON *extensions = json != NULL ? cJSON_GetObjectItemCaseSensitive(json, "integrityExtensions") : NULL;
	return cJSON_IsObject(extensions) ? cJSON_GetObjectItemCaseSensitive(extensions, "blockMerkle") : NULL;
}

/* The model's reader has checked the form of the roots. */
static rp_code list_tensors(verify_subject *s, struct verify_roots *r, const cJSON *roots, rp_error *err)
{
	uint64_t bytes = 0;
	size_t n = (size_t)cJSON_GetArraySize(roots);
	r->tensors = rp_alloc_array(n, sizeof *r->tensors);
	if (r->tensors == NULL)
		return rp_no_memory(err, n * sizeof *r->tensors, "roots of tensors");
	for (const cJSON *e = roots->child; e != NULL; e = e->next) {
		rooted *t = &r->tensors[r->n_tensors];
		t->t = rp_model_find(s->model, e->string);
		if (t->t == NULL)
			return rp_fail(err, RP_MODEL, "%s: integrityExtensions has a root for a tensor that does not exist: %s", s->path, e->string);
		if (!cJSON_IsString(e) || !rp_digest_parse(e->valuestring, t->root))
			return rp_fail(err, RP_FORMAT, "%s: the root of %s is no digest", s->path, e->string);
		/* each byte may be in a few tensors, but work stays in proportion to the files */
		if (!rp_add_u64(bytes, t->t->size, &bytes) || bytes > 4 * rp_model_bytes(s->model))
			return rp_fail(err, RP_MODEL, "%s: the tensors with roots are larger together than four times the files", s->path);
		t->first = r->n_hashes;
		t->n = (size_t)(t->t->size / r->block + (t->t->size % r->block != 0));
		r->n_hashes += t->n;
		r->n_tensors++;
	}
	r->hashes = rp_alloc_array(r->n_hashes, sizeof *r->hashes);
	r->known = rp_alloc_array(r->n_hashes, sizeof *r->known);
	r->leaves = rp_alloc_array(r->n_hashes, sizeof *r->leaves);
	return r->hashes == NULL || r->known == NULL || r->leaves == NULL ? rp_no_memory(err, r->n_hashes * 64, "roots of tensors") : RP_OK;
}

/* The leaves of a tensor that lie in one range each. */
static void list_leaves(struct verify_roots *r, const rooted *t)
{
	uint64_t start = 0; /* of the span, in the tensor */
	for (uint32_t i = 0; i < t->t->n_spans; i++) {
		const rp_span *span = &t->t->spans[i];
		uint64_t first = start / r->block + (start % r->block != 0), end = start + span->size;
		for (uint64_t k = first; k < t->n; k++) {
			uint64_t from = k * r->block, to = from + r->block < t->t->size ? from + r->block : t->t->size;
			if (to > end)
				break;
			r->leaves[r->n_leaves++] = (leaf){.file = span->file, .offset = span->offset + (from - start), .size = to - from,
				.place = t->first + (size_t)k};
		}
		start = end;
	}
}

static int by_place(const void *a, const void *b)
{
	const leaf *x = a, *y = b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The items of the model's files; NULL for one that is not there (its leaves are then read separately). */
static rp_code match_items(verify_subject *s, struct verify_roots *r, rp_error *err)
{
	size_t n = rp_model_n_files(s->model);
	r->items = rp_alloc_array(n, sizeof(verify_item *));
	if (r->items == NULL)
		return rp_no_memory(err, n * sizeof(verify_item *), "a list of files");
	for (size_t i = 0; i < n; i++) {
		const char *name = strrchr(rp_model_file(s->model, i)->path, '/');
		for (size_t k = 0; k < s->n_items && r->items[i] == NULL; k++) {
			const char *other = strrchr(s->items[k].path, '/');
			if (name != NULL && other != NULL && strcmp(name, other) == 0)
				r->items[i] = &s->items[k];
		}
	}
	return RP_OK;
}

static rp_code hand_out(verify_subject *s, struct verify_roots *r, rp_error *err)
{
	qsort(r->leaves, r->n_leaves, sizeof *r->leaves, by_place);
	for (size_t i = 0, next; i < r->n_leaves; i = next) {
		verify_item *item = r->items[r->leaves[i].file];
		for (next = i; next < r->n_leaves && r->leaves[next].file == r->leaves[i].file;)
			next++;
		if (item == NULL)
			continue;
		item->leaves = rp_arena_array(&s->arena, next - i, sizeof *item->leaves);
		if (item->leaves == NULL)
			return rp_no_memory(err, (next - i) * sizeof *item->leaves, "leaves of tensors");
		uint64_t end = 0;
		for (size_t k = i; k < next; k++) {
			const leaf *l = &r->leaves[k];
			if (l->offset < end) /* tensors that share bytes */
				continue;
			item->leaves[item->n_leaves++] = (rp_scan_range){.offset = l->offset, .size = l->size};
			end = l->offset + l->size;
		}
	}
	return RP_OK;
}

rp_code roots_prepare(verify_subject *s, rp_error *err)
{
	const cJSON *merkle = merkle_of(s), *roots = merkle != NULL ? cJSON_GetObjectItemCaseSensitive(merkle, "roots") : NULL;
	uint64_t block;
	if (roots == NULL || !cJSON_IsObject(roots))
		return RP_OK;
	if (!rp_json_whole(cJSON_GetObjectItemCaseSensitive(merkle, "blockSize"), &block) || block < 4096 || block > 64 << 20)
		return rp_fail(err, RP_UNSUPPORTED, "%s: integrityExtensions.blockMerkle.blockSize is not between 4096 and 67108864", s->path);
	struct verify_roots *r = s->roots = rp_alloc(sizeof *r);
	if (r == NULL)
		return rp_no_memory(err, sizeof *r, "roots of tensors");
	r->block = block;
	rp_code code = list_tensors(s, r, roots, err);
	if (code == RP_OK)
		code = match_items(s, r, err);
	for (size_t i = 0; code == RP_OK && i < r->n_tensors; i++)
		list_leaves(r, &r->tensors[i]);
	return code == RP_OK ? hand_out(s, r, err) : code;
}

/* Take over what the scan found. */
static void collect(struct verify_roots *r)
{
	size_t at = 0;
	for (size_t i = 0; i < r->n_leaves; i++) {
		const leaf *l = &r->leaves[i];
		const verify_item *item = r->items[l->file];
		if (i == 0 || l->file != r->leaves[i - 1].file)
			at = 0;
		if (item == NULL)
			continue;
		while (at < item->n_leaves && item->leaves[at].offset < l->offset)
			at++;
		const rp_scan_range *range = at < item->n_leaves ? &item->leaves[at] : NULL;
		if (range == NULL || range->offset != l->offset || range->size != l->size || !range->done)
			continue;
		memcpy(r->hashes[l->place], range->sha256, RP_HASH_BYTES);
		r->known[l->place] = true;
	}
}

/* The cache vouches for all the bytes of a tensor, roots included. */
static bool vouched_for(const struct verify_roots *r, const rp_tensor *t)
{
	for (uint32_t i = 0; i < t->n_spans; i++) {
		const verify_item *item = r->items[t->spans[i].file];
		if (item == NULL || !item->cached)
			return false;
	}
	return t->n_spans > 0;
}

static rp_code check_tensor(verify_subject *s, const rooted *t, unsigned char *buffer, rp_error *err)
{
	struct verify_roots *r = s->roots;
	unsigned char root[RP_HASH_BYTES];
	if (vouched_for(r, t->t))
		return RP_OK;
	for (size_t i = 0; i < t->n; i++) {
		uint64_t from = i * r->block, size = t->t->size - from < r->block ? t->t->size - from : r->block;
		if (r->known[t->first + i])
			continue;
		rp_code code = rp_tensor_read(s->model, t->t, from, buffer, (size_t)size, err);
		if (code != RP_OK)
			return code;
		rp_sha256_once(buffer, (size_t)size, r->hashes[t->first + i]);
		s->v->bytes += size;
	}
	rp_merkle_root(r->hashes + t->first, t->n, root);
	if (memcmp(root, t->root, sizeof root) == 0)
		return RP_OK;
	char found[RP_HASH_HEX], wanted[RP_HASH_HEX];
	return rp_fail(err, RP_HASH, "tensor %s: its root is sha256:%s, expected sha256:%s", t->t->name, rp_hex(found, root, RP_HASH_BYTES),
		rp_hex(wanted, t->root, RP_HASH_BYTES));
}

rp_code roots_check(verify_subject *s, rp_error *err)
{
	struct verify_roots *r = s->roots;
	rp_code code = RP_OK;
	if (r == NULL)
		return RP_OK;
	unsigned char *buffer = malloc((size_t)r->block);
	if (buffer == NULL)
		return rp_no_memory(err, r->block, "a block of a tensor");
	collect(r);
	for (size_t i = 0; code == RP_OK && i < r->n_tensors; i++)
		code = check_tensor(s, &r->tensors[i], buffer, err);
	free(buffer);
	return code;
}
