/* stage: which bytes of a model's files a range of layers needs, told by the names of tensors: it works on a model whose family the
 * engine does not have, and on one of which only the header is here.
 */
#ifndef RP_PLAN_STAGE_H
#define RP_PLAN_STAGE_H

#include "base/base.h"
#include "model/model.h"

/* Layers by the tensors' names ("blk.N.", "layers.N."); 0: none has such a name. */
uint32_t rp_stage_layers(const rp_model *m);
enum { RP_STAGE_LAYERS = 1024 }; /* at most */
/* The table of embeddings; NULL: none has such a name. */
const rp_tensor *rp_stage_table(const rp_model *m);
/* The layer a tensor belongs to; -1: none. */
int rp_stage_layer_of(const rp_tensor *t);

/* need[i]: tensor i is needed by layers [first, last). The first stage embeds; the last one has the norm and the head, which is the
 * table of embeddings where no other is there; tensors that belong to no layer and are neither go to every stage. */
void rp_stage_tensors(const rp_model *m, uint32_t first, uint32_t last, bool *need);

typedef struct rp_stage_range {
	uint64_t offset, size;
} rp_stage_range;

/* The ranges of file number `file`, in order, what is at most 4 KiB apart joined; the header that stands before the first tensor with
 * them (GGUF, safetensors). free() *out; *n 0 when none is needed. */
rp_code rp_stage_ranges(const rp_model *m, const bool *need, uint32_t file, rp_stage_range **out, size_t *n, rp_error *err);
/* Bytes of the tensors that are needed. */
uint64_t rp_stage_bytes(const rp_model *m, const bool *need);

#endif
