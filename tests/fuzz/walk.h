/* What a reader's fuzz target does with a model it got: everything a user of the table may do. */
#ifndef FUZZ_WALK_H
#define FUZZ_WALK_H

#include <stdlib.h>
#include <string.h>

#include "model/internal.h"

enum { WALK_VALUES = 4096 };

static inline void walk_bytes(const rp_model *m, const rp_tensor *t)
{
	float values[WALK_VALUES];
	unsigned char bytes[64];
	rp_error e;
	size_t n = t->size < sizeof bytes ? (size_t)t->size : sizeof bytes;
	if (rp_tensor_read(m, t, t->size - n, bytes, n, &e) != RP_OK)
		abort(); /* the table said these bytes are there */
	const unsigned char *mapped = rp_tensor_map(m, t);
	if (mapped == NULL || memcmp(mapped + t->size - n, bytes, n) != 0)
		abort();
	if (t->n_values <= WALK_VALUES)
		rp_tensor_f32(m, t, values, &e);
}

/* readable: the tensors' bytes are in memory too. */
static inline void walk_tensors(const rp_model *m, bool readable)
{
	for (size_t i = 0; i < rp_model_n_tensors(m); i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		uint64_t sum = 0;
		for (uint32_t s = 0; s < t->n_spans; s++) {
			const rp_span *span = &t->spans[s];
			if (span->file >= rp_model_n_files(m) || span->size > rp_model_file(m, span->file)->size ||
				span->offset > rp_model_file(m, span->file)->size - span->size)
				abort();
			sum += span->size;
		}
		if (sum != t->size || rp_model_find(m, t->name) != t || rp_utf8_valid(t->name, strlen(t->name)) != strlen(t->name))
			abort();
		if (readable)
			walk_bytes(m, t);
	}
}

#endif
