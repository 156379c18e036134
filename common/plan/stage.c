/* Which bytes a range of layers needs. */
#include "plan/stage.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 4096 };

int rp_stage_layer_of(const rp_tensor *t)
{
	static const char *const words[] = { "blk.", "layers." };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *at = strstr(t->name, words[i]);
		if (at == NULL || (at != t->name && at[-1] != '.'))
			continue;
		at += strlen(words[i]);
		size_t digits = strspn(at, "0123456789");
		long layer = digits > 0 && digits <= 4 && at[digits] == '.' ? strtol(at, NULL, 10) : RP_STAGE_LAYERS;
		if (layer < RP_STAGE_LAYERS)
			return (int)layer;
	}
	return -1;
}

uint32_t rp_stage_layers(const rp_model *m)
{
	int last = -1;
	for (size_t i = 0; i < rp_model_n_tensors(m); i++) {
		int l = rp_stage_layer_of(rp_model_tensor(m, i));
		last = l > last ? l : last;
	}
	return (uint32_t)(last + 1);
}

static bool names(const rp_tensor *t, const char *const *words)
{
	for (; *words != NULL; words++)
		if (strstr(t->name, *words) != NULL)
			return true;
	return false;
}

/* "output.weight" and "output_norm.weight" of GGUF, "lm_head.weight" and "model.norm.weight" of the others. */
static bool is_table(const rp_tensor *t)
{
	static const char *const words[] = { "token_embd.", "embed_tokens.", NULL };
	return names(t, words);
}

const rp_tensor *rp_stage_table(const rp_model *m)
{
	for (size_t i = 0; i < rp_model_n_tensors(m); i++)
		if (is_table(rp_model_tensor(m, i)))
			return rp_model_tensor(m, i);
	return NULL;
}

static bool is_head(const rp_tensor *t)
{
	static const char *const words[] = { "lm_head.", NULL };
	return names(t, words) || strncmp(t->name, "output.", 7) == 0;
}

static bool is_last_norm(const rp_tensor *t)
{
	static const char *const words[] = { "output_norm.", "model.norm.", "language_model.norm.", NULL };
	return names(t, words) || strncmp(t->name, "norm.", 5) == 0;
}

void rp_stage_tensors(const rp_model *m, uint32_t first, uint32_t last, bool *need)
{
	bool starts = first == 0, ends = last == rp_stage_layers(m), headless = true;
	for (size_t i = 0; i < rp_model_n_tensors(m); i++)
		headless = headless && !is_head(rp_model_tensor(m, i));
	for (size_t i = 0; i < rp_model_n_tensors(m); i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		int l = rp_stage_layer_of(t);
		if (l >= 0)
			need[i] = (uint32_t)l >= first && (uint32_t)l < last;
		else if (is_table(t))
			need[i] = starts || (ends && headless);
		else if (is_head(t) || is_last_norm(t))
			need[i] = ends;
		else
			need[i] = true;
	}
}

uint64_t rp_stage_bytes(const rp_model *m, const bool *need)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < rp_model_n_tensors(m); i++)
		bytes += need[i] ? rp_model_tensor(m, i)->size : 0;
	return bytes;
}

static int by_offset(const void *a, const void *b)
{
	const rp_stage_range *x = a, *y = b;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t join(rp_stage_range *r, size_t n)
{
	size_t kept = 0;
	qsort(r, n, sizeof *r, by_offset);
	for (size_t i = 0; i < n; i++) {
		rp_stage_range *before = kept > 0 ? &r[kept - 1] : NULL;
		if (before != NULL && r[i].offset <= before->offset + before->size + GAP) {
			uint64_t end = r[i].offset + r[i].size;
			if (end > before->offset + before->size)
				before->size = end - before->offset;
		} else {
			r[kept++] = r[i];
		}
	}
	return kept;
}

rp_code rp_stage_ranges(const rp_model *m, const bool *need, uint32_t file, rp_stage_range **out, size_t *n, rp_error *err)
{
	size_t most = 1, used = 0;
	uint64_t data = UINT64_MAX; /* where tensors begin */
	for (size_t i = 0; i < rp_model_n_tensors(m); i++)
		most += rp_model_tensor(m, i)->n_spans;
	rp_stage_range *r = rp_alloc_array(most, sizeof *r);
	if (r == NULL)
		return rp_no_memory(err, most * sizeof *r, "ranges");
	for (size_t i = 0; i < rp_model_n_tensors(m); i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		for (uint32_t s = 0; s < t->n_spans; s++) {
			if (t->spans[s].file != file || t->spans[s].size == 0)
				continue;
			data = t->spans[s].offset < data ? t->spans[s].offset : data;
			if (need[i])
				r[used++] = (rp_stage_range){ t->spans[s].offset, t->spans[s].size };
		}
	}
	if (rp_model_format(m) != RP_FORMAT_RDRR && data != UINT64_MAX && data != 0)
		r[used++] = (rp_stage_range){ 0, data };
	if (used > 0)
		used = join(r, used);
	*out = r;
	*n = used;
	return RP_OK;
}
