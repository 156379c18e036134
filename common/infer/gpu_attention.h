/* gpu_attention: attention of rows that are one token of a sequence each, with what surrounds it. Private to infer/. */
#ifndef RP_GPU_ATTENTION_H
#define RP_GPU_ATTENTION_H

#include "infer/gpu_work.h"

typedef struct rp_heads { /* operations that the kernels do at once */
	const rp_op *split, *q_norm, *k_norm, *q_rope, *k_rope, *attention, *gate; /* the first three and the last may be NULL */
	unsigned q;   /* slot the queries are read from, with their gates when there is a split */
	uint32_t end; /* the operation after them */
} rp_heads;

/* Room for the parts, once for all recordings. g->parts stays NULL where attention cannot be done this way. */
rp_code rp_gpu_parts_init(rp_gpu *g, rp_error *err);
/* Are the operations from i on heads up to their gate, as the kernels take them? */
bool rp_heads_match(const rp_gpu *g, const rp_op *ops, uint32_t n, uint32_t i, rp_heads *h);
/* All of them but the joining of the parts; a: for the kernel that joins them. */
rp_code rp_heads_split(rp_gpu *g, rp_vk_cmd *c, const rp_heads *h, const rp_gpu_cache *cache, const rp_gpu_shape *s,
	rp_args_split_attention *a, rp_error *err);
rp_code rp_heads_merge(
	rp_gpu *g, rp_vk_cmd *c, const rp_heads *h, const rp_gpu_shape *s, const rp_args_split_attention *a, rp_error *err);

#endif
