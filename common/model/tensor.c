#include "internal.h"

#include <stdlib.h>
#include <string.h>

bool rp_model_reserve_tensors(rp_model *m, size_t n)
{
	size_t cap = m->n_tensors + n;
	if (n > RP_MAX_TENSORS || cap > RP_MAX_TENSORS)
		return false;
	if (cap <= m->cap_tensors)
		return true;
	rp_tensor *grown = rp_grow_array(m->tensors, cap, sizeof *grown);
	if (grown == NULL)
		return false;
	m->tensors = grown;
	m->cap_tensors = cap;
	return true;
}

static rp_code check_name(const rp_model *m, rp_str name, rp_error *err)
{
	char shown[80];
	rp_show(shown, sizeof shown, name.s, name.n);
	if (name.n == 0 || name.n > RP_MAX_NAME)
		return rp_fail(err, RP_FORMAT, "%s: tensor %zu: a name of %zu bytes, expected 1 to %d", m->path, m->n_tensors, name.n,
			(int)RP_MAX_NAME);
	if (rp_utf8_valid(name.s, name.n) != name.n)
		return rp_fail(err, RP_FORMAT, "%s: tensor %zu: the name '%s' is not UTF-8", m->path, m->n_tensors, shown);
	if (memchr(name.s, '\0', name.n) != NULL)
		return rp_fail(err, RP_FORMAT, "%s: tensor %zu: the name '%s' has a NUL byte", m->path, m->n_tensors, shown);
	return RP_OK;
}

/* n_values and size; false when they do not fit (a size must also fit a file offset). */
static bool measure(rp_tensor *t, uint32_t other_bytes)
{
	uint64_t rows = 1, row_bytes;
	uint64_t k = t->n_dims > 0 ? t->dims[t->n_dims - 1] : 1;
	bool empty = false;
	for (uint32_t i = 0; i < t->n_dims; i++)
		empty = empty || t->dims[i] == 0;
	if (empty) {
		t->n_values = t->size = 0;
		return true;
	}
	for (uint32_t i = 0; i + 1 < t->n_dims; i++)
		if (!rp_mul_u64(rows, t->dims[i], &rows))
			return false;
	if (!rp_mul_u64(rows, k, &t->n_values))
		return false;
	bool ok = t->dtype == RP_OTHER ? rp_mul_u64(k, other_bytes, &row_bytes) : rp_dtype_row_bytes(t->dtype, k, &row_bytes);
	return ok && rp_mul_u64(rows, row_bytes, &t->size) && t->size <= INT64_MAX;
}

rp_code rp_model_add_tensor(rp_model *m, rp_str name, rp_dtype dtype, uint32_t other_bytes, const uint64_t *dims, uint32_t n_dims,
	rp_tensor **out, rp_error *err)
{
	rp_code rc = check_name(m, name, err);
	if (rc != RP_OK)
		return rc;
	if (m->n_tensors >= RP_MAX_TENSORS)
		return rp_fail(err, RP_FORMAT, "%s: more than %d tensors", m->path, (int)RP_MAX_TENSORS);
	if (m->n_tensors == m->cap_tensors && !rp_model_reserve_tensors(m, 1))
		return rp_no_memory(err, sizeof *m->tensors, "the tensor table");
	rp_tensor *t = &m->tensors[m->n_tensors];
	*t = (rp_tensor){ .dtype = dtype, .n_dims = n_dims };
	t->name = rp_arena_strndup(&m->arena, name.s, name.n);
	if (t->name == NULL)
		return rp_no_memory(err, name.n, "a tensor's name");
	memcpy(t->dims, dims, n_dims * sizeof *dims);
	if (!measure(t, other_bytes))
		return rp_fail(err, RP_FORMAT, "%s: tensor '%s': its size does not fit 63 bits", m->path, t->name);
	m->n_tensors++;
	*out = t;
	return RP_OK;
}

rp_code rp_tensor_set_range(rp_model *m, rp_tensor *t, uint32_t file, uint64_t offset, rp_error *err)
{
	uint64_t file_size = m->sources[file].size;
	if (t->size > file_size || offset > file_size - t->size)
		return rp_fail(err, RP_FORMAT, "%s: tensor '%s': its %llu bytes at %llu reach past the end of the file (%llu bytes)",
			m->sources[file].path, t->name, (unsigned long long)t->size, (unsigned long long)offset,
			(unsigned long long)file_size);
	if (t->size == 0)
		return RP_OK;
	rp_span *span = rp_arena_alloc(&m->arena, sizeof *span);
	if (span == NULL)
		return rp_no_memory(err, sizeof *span, "a tensor's place");
	*span = (rp_span){ file, offset, t->size };
	t->spans = span;
	t->n_spans = 1;
	return RP_OK;
}

/* qsort has no context argument: sort (name, index) pairs. */
typedef struct named {
	const char *name;
	uint32_t index;
} named;

static int compare_named(const void *a, const void *b)
{
	return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static rp_code index_names(rp_model *m, rp_error *err)
{
	named *sorted = rp_alloc_array(m->n_tensors, sizeof *sorted);
	m->by_name = rp_alloc_array(m->n_tensors, sizeof *m->by_name);
	if (sorted == NULL || m->by_name == NULL) {
		free(sorted);
		return rp_no_memory(err, m->n_tensors * sizeof *sorted, "the names of tensors");
	}
	for (size_t i = 0; i < m->n_tensors; i++)
		sorted[i] = (named){ m->tensors[i].name, (uint32_t)i };
	if (m->n_tensors > 0)
		qsort(sorted, m->n_tensors, sizeof *sorted, compare_named);
	rp_code rc = RP_OK;
	for (size_t i = 0; i < m->n_tensors && rc == RP_OK; i++) {
		m->by_name[i] = sorted[i].index;
		if (i > 0 && strcmp(sorted[i - 1].name, sorted[i].name) == 0)
			rc = rp_fail(err, RP_FORMAT, "%s: tensor '%s' is there twice", m->path, sorted[i].name);
	}
	free(sorted);
	return rc;
}

typedef struct placed {
	rp_span span;
	uint32_t tensor;
} placed;

static int compare_placed(const void *a, const void *b)
{
	const rp_span *x = &((const placed *)a)->span, *y = &((const placed *)b)->span;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static rp_code check_overlap(const rp_model *m, rp_error *err)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < m->n_tensors; i++)
		n += m->tensors[i].n_spans;
	placed *all = rp_alloc_array(n, sizeof *all);
	if (all == NULL)
		return rp_no_memory(err, n * sizeof *all, "the places of tensors");
	for (size_t i = 0; i < m->n_tensors; i++)
		for (uint32_t s = 0; s < m->tensors[i].n_spans; s++)
			all[at++] = (placed){ m->tensors[i].spans[s], (uint32_t)i };
	if (n > 0)
		qsort(all, n, sizeof *all, compare_placed);
	rp_code rc = RP_OK;
	for (size_t i = 1; i < n && rc == RP_OK; i++)
		if (all[i].span.file == all[i - 1].span.file && all[i].span.offset - all[i - 1].span.offset < all[i - 1].span.size)
			rc = rp_fail(err, RP_FORMAT, "%s: tensors '%s' and '%s' overlap at byte %llu", m->sources[all[i].span.file].path,
				m->tensors[all[i - 1].tensor].name, m->tensors[all[i].tensor].name, (unsigned long long)all[i].span.offset);
	free(all);
	return rc;
}

rp_code rp_model_finish_tensors(rp_model *m, rp_error *err)
{
	rp_code rc = index_names(m, err);
	return rc == RP_OK ? check_overlap(m, err) : rc;
}

const rp_tensor *rp_model_find(const rp_model *m, const char *name)
{
	size_t low = 0, high = m->n_tensors;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const rp_tensor *t = &m->tensors[m->by_name[mid]];
		int c = strcmp(name, t->name);
		if (c == 0)
			return t;
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

rp_code rp_tensor_read(const rp_model *m, const rp_tensor *t, uint64_t offset, void *dst, size_t n, rp_error *err)
{
	if (n > t->size || offset > t->size - n)
		return rp_fail(err, RP_INTERNAL, "tensor '%s': read of %zu bytes at %llu of %llu", t->name, n, (unsigned long long)offset,
			(unsigned long long)t->size);
	char *to = dst;
	for (uint32_t i = 0; i < t->n_spans && n > 0; i++) {
		const rp_span *s = &t->spans[i];
		if (offset >= s->size) {
			offset -= s->size;
			continue;
		}
		size_t part = s->size - offset < n ? (size_t)(s->size - offset) : n;
		rp_code rc = rp_source_read(&m->sources[s->file], s->offset + offset, to, part, err);
		if (rc != RP_OK)
			return rp_error_prefix(err, rc, "tensor '%s': ", t->name);
		to += part;
		n -= part;
		offset = 0;
	}
	return RP_OK;
}

const void *rp_tensor_map(const rp_model *m, const rp_tensor *t)
{
	if (t->n_spans != 1)
		return t->n_spans == 0 ? "" : NULL;
	/* The model is immutable to its users; its mappings are made on first use, under a lock. */
	rp_model *own = (rp_model *)(uintptr_t)m;
	pthread_mutex_lock(&own->map_lock);
	const void *base = rp_source_map(&own->sources[t->spans[0].file]);
	pthread_mutex_unlock(&own->map_lock);
	return base != NULL ? (const char *)base + t->spans[0].offset : NULL;
}

enum { CHUNK = 256 * 1024 };

/* Rows without padding are one long row: decode it in pieces of whole blocks. */
static rp_code decode_long_row(const rp_model *m, const rp_tensor *t, uint64_t row, uint64_t k, void *chunk, float *dst,
	rp_error *err)
{
	const rp_dtype_info *d = rp_dtype_get(t->dtype);
	uint64_t per_piece = CHUNK / d->block_bytes * d->block_values, row_bytes = 0;
	rp_dtype_row_bytes(t->dtype, k, &row_bytes);
	uint64_t from = row * row_bytes;
	while (k > 0) {
		uint64_t n = k < per_piece ? k : per_piece, bytes = 0;
		rp_dtype_row_bytes(t->dtype, n, &bytes);
		rp_code rc = rp_tensor_read(m, t, from, chunk, (size_t)bytes, err);
		if (rc != RP_OK)
			return rc;
		rp_dequant(t->dtype, chunk, n, dst);
		from += bytes;
		dst += n;
		k -= n;
	}
	return RP_OK;
}

static rp_code decode_padded_rows(const rp_model *m, const rp_tensor *t, uint64_t k, void *chunk, float *dst, rp_error *err)
{
	uint64_t rows = t->n_values / k, row_bytes = t->size / rows, at_once = CHUNK / row_bytes;
	for (uint64_t r = 0; r < rows;) {
		if (at_once == 0) {
			rp_code rc = decode_long_row(m, t, r, k, chunk, dst + r * k, err);
			if (rc != RP_OK)
				return rc;
			r++;
			continue;
		}
		uint64_t n = rows - r < at_once ? rows - r : at_once;
		rp_code rc = rp_tensor_read(m, t, r * row_bytes, chunk, (size_t)(n * row_bytes), err);
		if (rc != RP_OK)
			return rc;
		for (uint64_t i = 0; i < n; i++)
			rp_dequant(t->dtype, (char *)chunk + i * row_bytes, k, dst + (r + i) * k);
		r += n;
	}
	return RP_OK;
}

rp_code rp_tensor_f32(const rp_model *m, const rp_tensor *t, float *dst, rp_error *err)
{
	if (t->dtype == RP_OTHER)
		return rp_fail(err, RP_UNSUPPORTED, "%s: tensor '%s' holds no type that reads as numbers here", m->path, t->name);
	if (t->n_values == 0)
		return RP_OK;
	void *chunk = rp_alloc(CHUNK);
	if (chunk == NULL)
		return rp_no_memory(err, CHUNK, "reading a tensor");
	uint64_t k = t->n_dims > 0 ? t->dims[t->n_dims - 1] : 1;
	bool padded = k % rp_dtype_get(t->dtype)->block_values != 0;
	rp_code rc = padded ? decode_padded_rows(m, t, k, chunk, dst, err) : decode_long_row(m, t, 0, t->n_values, chunk, dst, err);
	free(chunk);
	return rc;
}
