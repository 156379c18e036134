#include "infer/repack.h"

#include <math.h>
#include <string.h>

/* Bytes [src, src + size) of every block of a row become one plane of the repacked row. */
typedef struct field {
	uint8_t src, size;
} field;

enum { MAX_FIELDS = 3 };

typedef struct layout {
	uint8_t n_fields;
	field fields[MAX_FIELDS];
} layout;

/* Planes in their order; a type without any is copied and padded. */
static const layout layouts[RP_DTYPE_COUNT] = {
	[RP_Q4_0] = { 2, { { 2, 16 }, { 0, 2 } } },
	[RP_Q4_1] = { 2, { { 4, 16 }, { 0, 4 } } },
	[RP_Q5_0] = { 3, { { 6, 16 }, { 2, 4 }, { 0, 2 } } },
	[RP_Q5_1] = { 3, { { 8, 16 }, { 4, 4 }, { 0, 4 } } },
	[RP_Q8_0] = { 2, { { 2, 32 }, { 0, 2 } } },
	[RP_Q4_K] = { 1, { { 0, 144 } } },
	[RP_Q5_K] = { 1, { { 0, 176 } } },
	[RP_Q6_K] = { 2, { { 0, 208 }, { 208, 2 } } },
};

/* Units of 32 values for the plain types, whose kernels read that many at once; blocks for the others. */
static uint64_t blocks_of(const rp_dtype_info *info, uint64_t k)
{
	uint64_t unit = info->block_values == 1 ? 32 : info->block_values;
	return k / unit + (k % unit != 0);
}

bool rp_repack_stride(rp_dtype t, uint64_t k, uint64_t *bytes)
{
	if (t >= RP_OTHER || k == 0)
		return false;
	const rp_dtype_info *info = rp_dtype_get(t);
	uint64_t nb = blocks_of(info, k);
	if (info->block_values == 1)
		return rp_mul_u64(nb, 32u * info->block_bytes, bytes);
	const layout *l = &layouts[t];
	uint64_t total = 0;
	for (unsigned i = 0; i < l->n_fields; i++) {
		uint64_t plane;
		if (!rp_mul_u64(nb, l->fields[i].size, &plane) || !rp_round_up_u64(plane, 16, &plane)
			|| !rp_add_u64(total, plane, &total))
			return false;
	}
	*bytes = total;
	return true;
}

static void repack_row(const layout *l, uint64_t nb, uint32_t block_bytes, const unsigned char *src, unsigned char *dst)
{
	for (unsigned i = 0; i < l->n_fields; i++) {
		const field f = l->fields[i];
		uint64_t size = nb * f.size, rest = (16 - size % 16) % 16;
		for (uint64_t b = 0; b < nb; b++)
			memcpy(dst + b * f.size, src + b * block_bytes + f.src, f.size);
		memset(dst + size, 0, rest);
		dst += size + rest;
	}
}

void rp_repack_rows(rp_dtype t, const void *src, uint64_t n, uint64_t k, void *dst)
{
	const rp_dtype_info *info = rp_dtype_get(t);
	uint64_t row_bytes = 0, stride = 0, nb = blocks_of(info, k);
	if (!rp_dtype_row_bytes(t, k, &row_bytes) || !rp_repack_stride(t, k, &stride))
		return;
	const unsigned char *from = src;
	unsigned char *to = dst;
	if (row_bytes == stride && layouts[t].n_fields <= 1) { /* the file's own order */
		memcpy(to, from, n * stride);
		return;
	}
	for (uint64_t r = 0; r < n; r++, from += row_bytes, to += stride) {
		if (layouts[t].n_fields != 0) {
			repack_row(&layouts[t], nb, info->block_bytes, from, to);
		} else {
			memcpy(to, from, row_bytes);
			memset(to + row_bytes, 0, stride - row_bytes);
		}
	}
}

void rp_rope_table(const float *freqs, uint32_t n_freqs, uint32_t n_pos, float *out)
{
	for (uint32_t p = 0; p < n_pos; p++)
		for (uint32_t i = 0; i < n_freqs; i++) {
			double angle = (double)((float)p * freqs[i]);
			*out++ = (float)cos(angle);
			*out++ = (float)sin(angle);
		}
}
