/* gpu: what the files of the Vulkan backend share. Private to infer/.
 *
 * A pass becomes two recordings: the body (input, layers) and the post (the wanted rows to logits, copied to where the host
 * reads). A recording depends only on how many rows, segments and wanted rows there are: ids, positions and slots are in the
 * batch buffer, which the host writes before it submits. So decode replays one recording for good.
 *
 * The caches of all sequences lie in one buffer for each layer and kind, a slot a sequence. When the slots run out the buffers
 * are made twice as large and copied; recordings that bound the old ones are made again.
 */
#ifndef RP_GPU_H
#define RP_GPU_H

#include "infer/backend.h"
#include "infer/kernel_args.h"
#include "vk/paper.h"
#include "vk/vk.h"

/* ---- weights ---- */
typedef enum rp_gpu_role { RP_GPU_MATRIX, RP_GPU_VECTOR, RP_GPU_MINUS_EXP } rp_gpu_role; /* rows of blocks; f32; f32 of -exp(x) */

typedef struct rp_gpu_range { /* whole rows of a matrix in one buffer, no larger than a binding may be */
	rp_vk_buf *buf;
	uint32_t first, rows;
} rp_gpu_range;

typedef struct rp_gpu_weight {
	const rp_tensor *tensor;
	rp_gpu_role role;
	uint32_t k, rows;      /* a vector is one row */
	uint64_t stride, file_row; /* bytes of a row on the device, in the file */
	rp_gpu_range *ranges;
	uint32_t n_ranges;
} rp_gpu_weight;

typedef struct rp_gpu_weights {
	rp_gpu_weight *v; /* by (tensor, role) */
	size_t n;
	uint64_t bytes; /* on the device */
} rp_gpu_weights;

/* What the engine's layers need, with sizes but nothing allocated. */
rp_code rp_gpu_weights_list(const rp_engine *e, const rp_vk_info *device, rp_gpu_weights *w, rp_error *err);
rp_code rp_gpu_weights_load(const rp_engine *e, rp_vk *vk, rp_gpu_weights *w, rp_error *err);
void rp_gpu_weights_free(rp_gpu_weights *w);
/* Never NULL for a weight of the engine's operations. */
const rp_gpu_weight *rp_gpu_weight_find(const rp_gpu_weights *w, const rp_tensor *t, rp_gpu_role role);

/* ---- the engine ---- */
typedef struct rp_gpu_cache { /* of one layer; attention: keys, values; delta rule: convolution inputs, state */
	rp_vk_buf *a, *b;
	uint64_t a_bytes, b_bytes; /* of one slot */
} rp_gpu_cache;

typedef struct rp_gpu_table { /* angles of rope */
	const float *freqs;
	uint32_t rotary_dim;
	rp_vk_buf *buf;
} rp_gpu_table;

typedef struct rp_gpu_recording {
	rp_vk_cmd *cmd;
	uint32_t rows, segs; /* post: wanted rows; 1 when they are gathered, 0 when they are all rows */
	bool deep;
	uint64_t used;       /* 0: holds nothing */
} rp_gpu_recording;

enum { RP_GPU_RECORDINGS = 8 };

/* Decode: one recording a token, replayed; batch and ring are device memory, so that no kernel waits for the host's. */
typedef enum rp_gpu_step { RP_GPU_GREEDY, RP_GPU_SAMPLED, RP_GPU_PENALISED, RP_GPU_STEPS } rp_gpu_step; /* how the id is chosen */

typedef struct rp_gpu_run {
	rp_vk_buf *batch; /* a row, a segment (at segs_at of the large batch) */
	rp_vk_buf *values, *ids; /* greedy: the best of each slice of the logits */
	rp_vk_buf *peaks, *counts, *state; /* sampled, made when it first is: as in `sample` */
	rp_vk_buf *ring, *out[2]; /* [RP_RING_HEAD + RP_GPU_RING]; copies for the host, by turns */
	rp_vk_buf *saved[2];      /* states of the layers that keep one a sequence; NULL: not needed yet, or none does */
	rp_vk_cmd *step[2][RP_GPU_STEPS], *tail[2], *save[2]; /* step: the short form, the deep one (rp_gpu_shape) */
	uint32_t save_slot; /* the sequence `save` copies */
	bool made[2][RP_GPU_STEPS], made_save;
	bool recorded; /* all that is made fits the caches as they are */
} rp_gpu_run;

enum { RP_GPU_RING = 64, RP_GPU_MANY = 6 };

typedef struct rp_gpu_many { /* decode of many sequences (gpu_many.c); made when it is first needed */
	rp_vk_buf *batch, *values, *ids, *ring, *out;
	rp_vk_cmd *step[RP_GPU_MANY], *tail; /* step: of 2, 4, .. 64 rows */
	bool made[RP_GPU_MANY]; /* and fits the caches as they are */
} rp_gpu_many;

typedef struct rp_gpu_watch rp_gpu_watch;

/* Many rows on matrix units (gpu_half.c). */
typedef struct rp_gpu_half {
	uint32_t side;   /* of the matrices; 0: not used */
	uint32_t stride; /* halves a row of what `rows` holds in the recording being made */
	rp_vk_buf *rows, *scale; /* of one product's input */
} rp_gpu_half;

typedef struct rp_gpu {
	rp_vk *vk;
	const rp_engine *engine;
	const rp_vk_info *device;
	bool subgroups; /* use the variants that need them */
	bool cpu;       /* choose forms and shapes for a CPU device */
	bool fused;     /* one token of one sequence by the fused kernels (gpu_fuse.c) */
	bool kv16;      /* caches hold keys and values as f16 */
	rp_gpu_half half;
	rp_vk_buf *parts; /* of attention (gpu_attention.c); NULL: it is not fused */
	rp_vk_buf *staged; /* rows of x as products of many rows read them (gpu_rows.c); NULL: there are no such products */
	uint32_t deep_from; /* positions that are too many for the short form of a token */
	bool deep;          /* the form of what is recorded or looked up next */
	rp_gpu_weights weights;
	rp_vk_buf **slots;   /* [n_slots] activations of `chunk` rows; the logits slot has out_rows */
	rp_vk_buf *gathered; /* [out_rows, hidden] wanted rows of the residual stream */
	rp_vk_buf *batch, *input, *output; /* rows, segments and wanted rows; rows of an earlier stage; what the host reads */
	uint64_t segs_at, index_at;        /* in batch; rows are at 0 */
	uint32_t out_rows;                 /* most wanted rows at once */
	rp_gpu_table *tables;
	size_t n_tables;
	rp_gpu_cache *caches; /* of the layers of the range */
	uint32_t n_slots_seq, used_slots; /* sequences the caches have room for, and hold */
	bool *slot_taken;
	rp_gpu_recording body[RP_GPU_RECORDINGS], post[RP_GPU_RECORDINGS];
	rp_gpu_many many;
	rp_gpu_run run; /* of an engine with all layers */
	uint64_t clock, ticket; /* ticket: of the last submission */
	rp_vk_cmd *one;         /* for single operations when somebody taps */
	int layer;              /* for notes (vk/paper.h): the layer that is being recorded, -1 outside; the operation, when it is one */
	const rp_op *op;
	const char *why_variant, *not_variant; /* of the choice of kernels; NULL: nothing was rejected */
	rp_gpu_watch *watch; /* gpu_watch.h; NULL: nobody profiles */
	bool asking;            /* what is recorded only asks for its pipelines */
} rp_gpu;

/* ---- recording (gpu_record.c) ---- */
typedef struct rp_gpu_shape { /* of what is recorded */
	uint32_t rows, segs;
	rp_vk_buf *x;     /* what RP_SLOT_X is: its slot, or the gathered rows */
	rp_vk_buf *batch; /* rows, and segments at segs_at */
	bool deep;        /* one row: attention over many positions, in more parts, which a kernel of its own joins */
} rp_gpu_shape;

/* ids or rows of an earlier stage to the residual stream; the layers of the range; the residual stream to logits. */
rp_code rp_gpu_record_input(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err);
rp_code rp_gpu_record_layers(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err);
rp_code rp_gpu_record_logits(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, rp_error *err);
rp_code rp_gpu_record_op(rp_gpu *g, rp_vk_cmd *c, const rp_op *op, uint32_t layer, const rp_gpu_shape *s, rp_error *err);
enum { RP_GPU_MOST_FUSED = 64 };
/* The same for a list of at most that many operations of one row, in as few dispatches as there are kernels for (gpu_fuse.c). */
rp_code rp_gpu_record_fused(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err);
/* The same for rows that are a token of a sequence each, up to RP_BATCH_ROWS (gpu_rows.c). */
rp_code rp_gpu_record_rows(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err);
rp_code rp_gpu_rows_init(rp_gpu *g, rp_error *err);
/* The same for many rows on matrix units (gpu_half.c), when rp_gpu_half_takes them. */
bool rp_gpu_half_takes(const rp_gpu *g, const rp_gpu_shape *s, uint32_t n);
rp_code rp_gpu_record_half(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *ops, uint32_t n, uint32_t layer, const rp_gpu_shape *s, rp_error *err);
/* Attention of many rows a segment, keys and values appended already: is there a form for it? */
bool rp_gpu_half_attends(const rp_gpu *g, const rp_op *op);
rp_code rp_gpu_record_half_attention(
	rp_gpu *g, rp_vk_cmd *c, const rp_op *op, const rp_gpu_cache *cache, const rp_gpu_shape *s, rp_error *err);
uint32_t rp_gpu_half_side(const rp_vk_info *d); /* side of the matrices a device offers; 0: none that fit */
rp_code rp_gpu_half_init(rp_gpu *g, rp_error *err);
void rp_gpu_half_free(rp_gpu *g);
/* Pairs of best logits and their ids to run.values, run.ids; *pairs 0: there is no kernel for that here, nothing was recorded. */
rp_code rp_gpu_record_best(rp_gpu *g, rp_vk_cmd *c, const rp_gpu_shape *s, uint32_t *pairs, rp_error *err);
/* Wanted rows of the residual stream, by the batch buffer's index, to `gathered`. */
rp_code rp_gpu_record_gather(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, rp_error *err);
rp_vk_buf *rp_gpu_angles(const rp_gpu *g, const rp_op *op); /* the table of a rope operation */
rp_vk_buf *rp_gpu_slot(const rp_gpu *g, const rp_gpu_shape *s, unsigned slot);

/* Recordings as one submission, whose ticket is g->ticket; with a watch one by one. */
rp_code rp_gpu_submit(rp_gpu *g, rp_vk_cmd *const *cmds, size_t n, rp_error *err);

/* ---- decode: gpu_run.c records, gpu_decode.c runs ---- */
uint32_t rp_gpu_slices(const rp_gpu *g); /* of a row of logits, for its arg-max */
/* The largest logit of each slice of each row: to values and ids [rows, slices]. */
rp_code rp_gpu_record_slices(rp_gpu *g, rp_vk_cmd *c, uint32_t rows, rp_vk_buf *values, rp_vk_buf *ids, rp_error *err);
rp_code rp_gpu_run_init(rp_gpu *g, rp_error *err);
void rp_gpu_run_free(rp_gpu *g);
rp_code rp_gpu_run_ask(rp_gpu *g, rp_vk_cmd *c, rp_error *err); /* the greedy token, while g->asking */
/* Make the recording of a token unless it is there. Nothing submitted may still run. */
rp_code rp_gpu_run_record(rp_gpu *g, rp_gpu_step kind, bool deep, rp_error *err);
/* The same for copies of the states of the sequence in that slot to saved[0], saved[1]; *any: there are such states. */
rp_code rp_gpu_run_saves(rp_gpu *g, uint32_t slot, bool *any, rp_error *err);
rp_code rp_gpu_run_restore(rp_gpu *g, uint32_t slot, int turn, rp_error *err);
rp_code rp_gpu_decode(rp_seq *s, const rp_decode_opts *o, rp_id_fn *on_id, void *user, uint32_t *fed, rp_error *err);

/* ---- many sequences (gpu_many.c) ---- */
bool rp_gpu_can_steps(const rp_engine *e);
rp_code rp_gpu_steps(rp_engine *e, const rp_step_row *rows, size_t n, uint32_t steps, uint32_t *ids, rp_error *err);
void rp_gpu_many_free(rp_gpu *g);

/* ---- sequences (gpu_cache.c) ---- */
rp_code rp_gpu_choose_kv(rp_gpu *g, rp_error *err);
rp_code rp_gpu_caches_init(rp_gpu *g, rp_error *err);
void rp_gpu_caches_free(rp_gpu *g);
uint64_t rp_gpu_seq_bytes(const rp_gpu *g);
rp_code rp_gpu_slot_take(rp_gpu *g, uint32_t *slot, rp_error *err);
void rp_gpu_slot_give(rp_gpu *g, uint32_t slot);

#endif
