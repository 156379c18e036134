/* kernel_args: what the kernels of spirv/wgsl expect: parameter blocks (push constants), constants, grid sizes.
 * spirv/wgsl/README.md describes bindings and semantics. Every count is in values or rows unless it says bytes.
 */
#ifndef RP_KERNEL_ARGS_H
#define RP_KERNEL_ARGS_H

#include "model/model.h"

#include <stdbool.h>
#include <stdint.h>

/* A row of the batch and a segment of it, as the buffers `rows` and `segs` hold them. */
typedef struct rp_batch_row {
	uint32_t token, position, slot, segment;
} rp_batch_row;

typedef struct rp_batch_segment {
	uint32_t first_row, n_rows, position, slot; /* position of the first row */
} rp_batch_segment;

typedef struct rp_args_embed {
	uint32_t width, n_rows;
	uint32_t w_first, w_count; /* rows of the table this range holds */
	uint32_t w_base, w_stride; /* units of 16 bytes: start of the range in the binding, one row */
} rp_args_embed;

typedef struct rp_args_norm {
	uint32_t group, n_groups;
	float eps, w_offset; /* w_offset: 1 when weights are stored zero-centred, else 0 (always 0 for gated_norm) */
} rp_args_norm;

typedef struct rp_args_matmul {
	uint32_t k, n, n_rows;      /* width of x, rows of w in this range, rows of x */
	uint32_t w_base, w_stride;  /* units of 16 bytes */
	uint32_t y_first, y_stride; /* first column of y this range writes; width of y */
} rp_args_matmul;

/* Rows as halves, and products of them on matrix units: half_rows, half_matmul. */
typedef struct rp_args_half_rows {
	uint32_t k, stride; /* width of x; halves of a row, 32 * rp_units */
	uint32_t group;     /* RP_HALF_GATED_NORM: values normed together */
	float eps, w_offset;
} rp_args_half_rows;

enum { RP_HALF_COPY, RP_HALF_NORM, RP_HALF_SIGMOID_MUL, RP_HALF_SILU_MUL, RP_HALF_GATED_NORM }; /* override OP */

typedef struct rp_args_half_matmul {
	uint32_t n, n_rows;         /* rows of w in this range, rows of x */
	uint32_t units, blocks;     /* of a row: rp_units, rp_blocks */
	uint32_t w_base, w_stride;  /* units of 16 bytes */
	uint32_t y_first, y_stride; /* first column of y this range writes; width of y */
} rp_args_half_matmul;

typedef struct rp_args_split {
	uint32_t n, head_dim; /* values in each output: rows * heads * head_dim */
} rp_args_split;

typedef struct rp_args_rope {
	uint32_t n_rows, heads, head_dim, rotary_dim, interleaved;
} rp_args_rope;

typedef struct rp_args_attention {
	uint32_t n_rows, heads, kv_heads, head_dim;
	uint32_t ctx; /* positions a slot of the cache holds */
	float scale;
} rp_args_attention;

typedef struct rp_args_elementwise {
	uint32_t n;
} rp_args_elementwise;

enum { RP_EW_ADD, RP_EW_SIGMOID_MUL, RP_EW_SILU_MUL }; /* override OP */

typedef struct rp_args_conv {
	uint32_t width, kernel, n; /* n: rows (conv_rows) or segments (conv, conv_state) */
} rp_args_conv;

typedef struct rp_args_delta {
	uint32_t k_heads, v_heads, k_dim, v_dim;
	uint32_t head_mod; /* value head h reads key head h mod k_heads; else h / (v_heads / k_heads) */
	uint32_t n_segs;
} rp_args_delta;

typedef struct rp_args_gather {
	uint32_t width, n_rows;
} rp_args_gather;

typedef struct rp_args_topk {
	uint32_t n, n_rows, k, slice;
} rp_args_topk;

typedef struct rp_args_advance {
	uint32_t n_rows, id_stride, ring_steps;
} rp_args_advance;

typedef struct rp_args_choose {
	uint32_t n, ring_steps, ring_stride; /* pairs a row; words a row */
} rp_args_choose;

/* Rows that are a token of a sequence each: rows_stage, rows_product. runs: of 16 values, k / 16 up to a multiple of 16. */
typedef struct rp_args_stage {
	uint32_t k, runs, group;
	float eps, w_offset;
} rp_args_stage;

typedef struct rp_args_product {
	uint32_t k, n, n_rows, runs; /* n: rows of w in this range; n_rows: of x */
	uint32_t w_base, w_stride;   /* units of 16 bytes */
	uint32_t y_first, y_stride;
} rp_args_product;

/* sample_peaks, sample. Grids: (n_groups / lanes, rows), (rows). */
typedef struct rp_args_sample {
	uint32_t n, each, lanes, n_groups; /* ids; ids a group; groups side by side: WG of sample_peaks */
	uint32_t ring_steps, ring_stride, state_stride; /* words */
} rp_args_sample;

/* Words of the state of a row that is sampled. */
enum {
	RP_SAMPLE_AT_TOP_K,
	RP_SAMPLE_AT_CUTS,
	RP_SAMPLE_AT_TOP_P,
	RP_SAMPLE_AT_MIN_WEIGHT,
	RP_SAMPLE_AT_SCALE,
	RP_SAMPLE_AT_UP,
	RP_SAMPLE_AT_DOWN,
	RP_SAMPLE_AT_SEED,
	RP_SAMPLE_AT_DRAWS = RP_SAMPLE_AT_SEED + 2,
	RP_SAMPLE_AT_WINDOW = RP_SAMPLE_AT_DRAWS + 2,
	RP_SAMPLE_AT_USED,
	RP_SAMPLE_AT_NEXT,
	RP_SAMPLE_AT_IDS = 16,
	RP_SAMPLE_TOP_K = 256, /* most ids ranked */
	RP_SAMPLE_WINDOW = 4096,
	RP_SAMPLE_STATE = RP_SAMPLE_AT_IDS + RP_SAMPLE_WINDOW,
	RP_SAMPLE_LANES = 64,
};

/* One row against a matrix: wide_matvec, wide_matvec_f32, wide_gated, wide_conv, wide_glu,
 * wide_best, wide_attend. */
typedef struct rp_args_wide {
	uint32_t k, n;             /* width of x, rows of w in this range */
	uint32_t w_base, w_stride; /* units of 16 bytes */
	uint32_t y_first;
	uint32_t group;            /* wide_gated: values normed together */
	float eps, w_offset;       /* of the norm on the way */
	uint32_t kernel, width;    /* wide_conv: taps, channels of the state */
	uint32_t heads, head_dim, ctx, q_stride, splits, tile; /* wide_attend: as of attention_split */
} rp_args_wide;

typedef struct rp_args_wide_delta {
	uint32_t k_heads, v_heads, k_dim, v_dim, head_mod; /* as of delta */
	uint32_t k, a_stride, b_stride;                    /* width of x; rows of the weights of a and b, units of 16 bytes */
	float eps, w_offset;
} rp_args_wide_delta;

/* Attention of rows that are a token of a sequence each: attention_split, attention_merge. */
typedef struct rp_args_split_attention {
	uint32_t heads, kv_heads, head_dim, ctx;
	uint32_t q_stride; /* values from head to head of q */
	uint32_t rotary_dim, interleaved;
	uint32_t splits, tile; /* most parts a head; positions one has at least: 4 * WG / LANES */
	float scale, eps, w_offset;
} rp_args_split_attention;

enum { RP_RING_ENDS = 16, RP_RING_HEAD = 2 + RP_RING_ENDS }; /* steps so far, ids that end it: how many, which; then the steps */

/* How half_matmul is cut: the overrides of the same names. A workgroup has sub_m * sub_n subgroups. */
typedef struct rp_half_shape {
	uint32_t sub_m, sub_n;   /* subgroups along rows of x, of w */
	uint32_t tile_m, tile_n; /* matrices a subgroup, at most RP_HALF_TILES; tile_n is even for the form with two matrices */
	uint32_t units, buffers; /* units of 32 values a step; 1 or 2 */
} rp_half_shape;

enum { RP_HALF_TILES = 4, RP_HALF_UNITS = 4, RP_HALF_PARTS = 8 }; /* and most units of w, vectors of x a lane moves a step */

/* ---- grids ---- */
typedef struct rp_grid {
	uint32_t x, y, z;
} rp_grid;

static inline uint32_t rp_ceil_div(uint64_t a, uint32_t b)
{
	return (uint32_t)((a + b - 1) / b);
}

/* n workgroups in a row, folded because an axis ends at 65,535. n > 0. */
static inline rp_grid rp_grid_fold(uint32_t n)
{
	uint32_t x = n < 65535 ? n : 65535;
	return (rp_grid){ x, rp_ceil_div(n, x), 1 };
}

/* lanes elements, wg lanes a workgroup */
static inline rp_grid rp_grid_lanes(uint64_t lanes, uint32_t wg)
{
	return rp_grid_fold(rp_ceil_div(lanes, wg));
}

/* How a kernel with cooperating lanes is cut: the overrides of the same names. */
typedef struct rp_shape {
	uint32_t wg, lanes, tile_m;
} rp_shape;

/* What a workgroup of a kernel covers, fixed in its source. RP_TOPK_SLICE is only a good slice for pass 1,
 * RP_ARGMAX_SLICE one when k is 1. */
enum {
	RP_MATVEC_ROWS = 4, /* rows of w a group of LANES lanes */
	RP_MATMUL_M = 32,   /* rows of x, rows of w */
	RP_MATMUL_N = 64,
	RP_PREFILL_ROWS = 16,
	RP_DELTA_COLS = 32,
	RP_DELTA_CHUNK_COLS = 16,
	RP_TOPK_SLICE = 4096,
	RP_ARGMAX_SLICE = 1024,
	/* Of the products of one row, for a device of about 132 cores: workgroups that run at once, how many are too few, and how
	 * many share the last product. */
	RP_WIDE_GROUPS = 264,
	RP_WIDE_FEW = 60,
	RP_WIDE_BEST = 264,
	/* Attention of one-token rows: WG of attention_split and attention_merge; vectors of a head a workgroup of the latter; query
	 * heads that may share a workgroup; parts when the product after it joins them; parts at least when there are many rows. */
	RP_SPLIT_WG = 256,
	RP_MERGE_VECTORS = 16,
	RP_SPLIT_HEADS = 4,
	RP_SPLIT_FEW = 32,
	RP_SPLIT_LEAST = 8,
	RP_STAGE_WG = 128, /* of rows_stage, rows_product */
	RP_PRODUCT_WG = 256,
	RP_BATCH_ROWS = 64, /* sequences one recording may decode a token of */
	RP_DEEP = 1024, /* positions from which one row's attention has more parts and a kernel to join them */
};

/* Units of 32 values a kernel reads of a row of k. */
static inline uint32_t rp_units(rp_dtype t, uint32_t k)
{
	return rp_dtype_get(t)->block_values == 256 ? rp_ceil_div(k, 256) * 8 : rp_ceil_div(k, 32);
}

/* Blocks of a row of k; units, for types without blocks. */
static inline uint32_t rp_blocks(rp_dtype t, uint32_t k)
{
	return rp_dtype_get(t)->block_values == 256 ? rp_ceil_div(k, 256) : rp_ceil_div(k, 32);
}

/* Bytes of workgroup memory half_matmul takes with matrices of `side`. */
static inline uint32_t rp_half_memory(const rp_half_shape *s, uint32_t side)
{
	uint32_t steps = s->buffers * (s->sub_m * s->tile_m + s->sub_n * s->tile_n) * side * (4 * s->units + 1);
	uint32_t sums = s->sub_m * s->sub_n * side * (s->tile_n * side / 4 + 1);
	return 16 * (steps > sums ? steps : sums);
}

/* What the kernel's own limits allow, for subgroups of sg lanes. */
static inline bool rp_half_possible(const rp_half_shape *s, uint32_t side, uint32_t sg)
{
	uint32_t wg = s->sub_m * s->sub_n * sg, x = s->sub_m * s->tile_m * side * s->units * 4, w = s->sub_n * s->tile_n * side * s->units;
	return s->tile_m <= RP_HALF_TILES && s->tile_n <= RP_HALF_TILES && x <= RP_HALF_PARTS * wg && w <= RP_HALF_UNITS * wg &&
		(s->buffers == 1 || s->buffers == 2);
}

static inline rp_grid rp_grid_half_matmul(const rp_args_half_matmul *a, const rp_half_shape *s, uint32_t side, bool glu)
{
	uint32_t columns = s->sub_n * s->tile_n * side / (glu ? 2 : 1);
	return (rp_grid){ rp_ceil_div(a->n_rows, s->sub_m * s->tile_m * side), rp_ceil_div(a->n, columns), 1 };
}

/* Bytes of workgroup memory half_attention takes; `keys` is its constant KEYS. */
static inline uint32_t rp_half_attention_memory(uint32_t head_dim, uint32_t side, uint32_t sg, uint32_t subgroups, uint32_t keys)
{
	uint32_t m = subgroups * side, tall = m > 2 * keys ? m : 2 * keys;
	return tall * (head_dim / 8 + 1) * 16 + m * (keys + 4) * 4 + m * (keys / 8 + 1) * 16 + subgroups * sg * 4 + m * 4 + 4;
}

/* m: rows of its tile, the side of a matrix for each subgroup; at least heads / kv_heads. */
static inline rp_grid rp_grid_half_attention(const rp_args_attention *a, uint32_t m)
{
	return (rp_grid){ a->kv_heads, rp_ceil_div(a->n_rows, m / (a->heads / a->kv_heads)), 1 };
}

static inline rp_grid rp_grid_embed(const rp_args_embed *a, rp_dtype t, uint32_t wg)
{
	return rp_grid_lanes((uint64_t)a->n_rows * 2 * rp_units(t, a->width), wg);
}

/* A lane 16 bytes of keys and of values. */
static inline rp_grid rp_grid_kv_append(const rp_args_attention *a, bool kv16, uint32_t wg)
{
	return rp_grid_lanes((uint64_t)a->n_rows * a->kv_heads * a->head_dim / (kv16 ? 8 : 4), wg);
}

static inline rp_grid rp_grid_matvec(const rp_args_matmul *a, rp_shape s)
{
	rp_grid g = rp_grid_fold(rp_ceil_div(a->n, RP_MATVEC_ROWS * (s.wg / s.lanes))); /* a vocabulary can be that long */
	return (rp_grid){ g.x, rp_ceil_div(a->n_rows, s.tile_m), g.y };
}

static inline rp_grid rp_grid_matmul(const rp_args_matmul *a)
{
	return (rp_grid){ rp_ceil_div(a->n, RP_MATMUL_N), rp_ceil_div(a->n_rows, RP_MATMUL_M), 1 };
}

static inline rp_grid rp_grid_norm(const rp_args_norm *a, rp_shape s)
{
	return rp_grid_fold(rp_ceil_div(a->n_groups, s.wg / s.lanes));
}

/* Groups of up to 32 ids, about 4,096 of them or more. */
static inline rp_args_sample rp_shape_sample(uint32_t vocab)
{
	uint32_t each = vocab / 4096 < 1 ? 1 : vocab / 4096 > 32 ? 32 : vocab / 4096;
	return (rp_args_sample){ .n = vocab, .each = each, .lanes = RP_SAMPLE_LANES,
		.n_groups = rp_ceil_div(vocab, RP_SAMPLE_LANES * each) * RP_SAMPLE_LANES, .state_stride = RP_SAMPLE_STATE };
}

static inline rp_grid rp_grid_delta(const rp_args_delta *a)
{
	return (rp_grid){ a->v_heads, a->n_segs, rp_ceil_div(a->v_dim, RP_DELTA_COLS) };
}

static inline rp_grid rp_grid_delta_chunk(const rp_args_delta *a)
{
	return (rp_grid){ a->v_heads, a->n_segs, rp_ceil_div(a->v_dim, RP_DELTA_CHUNK_COLS) };
}

/* Shapes to start from. On a CPU device (lavapipe) lanes that work alone are fastest: barriers are dear there. `wide` is the
 * subgroup size for a _subgroup kernel, 0 for the portable one; on a CPU device matvec_subgroup wants at least 4. Few different
 * tiles: each is a pipeline to compile, and lavapipe takes half a second of processor time for a tile of 8, 0.1 s for 1. */
static inline rp_shape rp_shape_matvec(bool cpu, uint32_t wide, uint32_t units, uint32_t n_rows)
{
	if (cpu)
		return (rp_shape){ 16, 1, n_rows > 1 ? 4 : 1 };
	uint32_t lanes = wide > 32 ? wide : 32, tile_m = n_rows > 4 ? 8 : n_rows > 2 ? 4 : n_rows;
	while (lanes < units && lanes < 128) /* a unit a lane, as far as that goes */
		lanes *= 2;
	return (rp_shape){ wide != 0 ? lanes : 128, lanes, tile_m };
}

/* WG of the products of one row. On an H200 512 lanes, one workgroup a core, beat 256 and two. */
static inline uint32_t rp_wide_wg(uint32_t max_workgroup, uint32_t subgroup, uint32_t max_subgroups)
{
	return max_workgroup >= 512 && 512 / subgroup <= max_subgroups ? 512 : 256;
}

/* WG of attention_decode: positions it scores at once. */
static inline uint32_t rp_attention_wg(bool cpu)
{
	return cpu ? 8 : 256;
}

static inline rp_shape rp_shape_norm(bool cpu, uint32_t wide, uint32_t group)
{
	uint32_t lanes = group >= 512 && !cpu ? 256 : wide > 32 ? wide : 32;
	if (wide != 0)
		return (rp_shape){ lanes, lanes, 1 };
	return cpu ? (rp_shape){ 8, group >= 512 ? 8 : 1, 1 } : lanes == 256 ? (rp_shape){ 256, 256, 1 } : (rp_shape){ 128, 32, 1 };
}

/* Which of two kernels for the same operation: n_rows and n_segs of the batch. On a CPU device the forms that stage tiles in
 * workgroup memory lose at every size. */
static inline bool rp_prefer_matmul(bool cpu, uint32_t n_rows)
{
	return !cpu && n_rows > 8;
}

static inline bool rp_prefer_delta_chunk(bool cpu, uint32_t n_rows, uint32_t n_segs)
{
	return !cpu && n_rows > 16 * n_segs;
}

/* Override K_TAIL: whether k ends inside a unit of 32 values or a block. */
static inline bool rp_k_tail(rp_dtype t, uint32_t k)
{
	uint32_t block = rp_dtype_get(t)->block_values;
	return k % 32 != 0 || k % block != 0;
}

#endif
