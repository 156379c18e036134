/* cpu_weights: the CPU engine's weights. Matrices stay as stored, in the model's own mapping where there is one, and are decoded
 * a few rows at a time when used: a quarter of the memory, and less to read a token. Vectors are float32. Private to infer/. */
#ifndef RP_CPU_WEIGHTS_H
#define RP_CPU_WEIGHTS_H

#include "infer/backend.h"

typedef struct rp_cpu_weight {
	const rp_tensor *tensor;
	const float *f32; /* the whole tensor; NULL when kept as stored */
	const char *raw;  /* rows of row_bytes, when f32 is NULL */
	void *owned;      /* what to free: f32, a copy of raw, or NULL (raw is a mapping of the model's) */
	size_t rows, width, row_bytes; /* width: length of the last dimension */
	bool by_row;      /* operations use it a row at a time, so that it may stay as stored */
} rp_cpu_weight;

typedef struct rp_cpu_weights {
	rp_cpu_weight *v; /* sorted by tensor address */
	size_t n;
	uint64_t bytes; /* held in memory */
} rp_cpu_weights;

/* Load what the engine's layers need. other_bytes: what the engine will take besides weights, for the check of memory. */
rp_code rp_cpu_weights_load(const rp_engine *e, uint64_t other_bytes, rp_cpu_weights *out, rp_error *err);
void rp_cpu_weights_free(rp_cpu_weights *w);
const rp_cpu_weight *rp_cpu_weight_find(const rp_cpu_weights *w, const rp_tensor *t); /* NULL for a NULL tensor */
/* Rows [first, first + n) as float32, packed: a pointer into the weight, or scratch [n, width] filled from what is stored. */
const float *rp_cpu_weight_rows(const rp_cpu_weight *w, size_t first, size_t n, float *scratch);

#endif
