/* gpu_cut: how products of one row are cut into workgroups. Private to infer/, and to the benches that try other cuts. */
#ifndef RP_GPU_CUT_H
#define RP_GPU_CUT_H

#include "infer/gpu.h"

/* What a bench may set instead of the default, 0: nothing. rp_engine_opts.tune, which must outlive the engine. */
typedef struct rp_gpu_tune {
	uint32_t wg, lanes, rows, glu_rows, head_rows; /* of the products of one row: workgroup, lanes a row, rows in flight */
	uint32_t groups;                               /* workgroups that run at once, for RP_WIDE_GROUPS */
	bool model;                                    /* lanes, rows and turns by rp_wide_cut_model */
	bool uneven;                                   /* as many workgroups as run at once, some with a turn more than others */
	uint32_t many_rows, many_tile, many_groups;    /* of the products of many rows: rows of w a team, rows of x, workgroups */
	uint32_t split_groups, deep_from;              /* of attention: workgroups at least, position of the deep form */
} rp_gpu_tune;

typedef struct rp_wide_cut {
	uint32_t wg, lanes, rows; /* rows of w in flight a team of `lanes` */
	uint32_t turns;           /* most times a workgroup goes on to other rows */
	uint32_t groups;          /* workgroups */
} rp_wide_cut;

typedef struct rp_wide_product {
	uint32_t n, units, matrices; /* rows of w, units of 32 values in one, matrices multiplied side by side in a workgroup (1, or 2) */
	uint32_t row_bytes;
	uint32_t share;              /* rows of all the products that run at the same time, this one among them */
} rp_wide_product;

/* The cut of this engine: as measured, or as its tune has it. */
rp_wide_cut rp_gpu_wide_cut(const rp_gpu *g, const rp_wide_product *p);
/* The cut with the least predicted time for a device of `cores`, on which `groups` workgroups of wg lanes run at once. */
rp_wide_cut rp_wide_cut_model(const rp_wide_product *p, uint32_t wg, uint32_t subgroup, uint32_t groups, uint32_t cores);
/* Nanoseconds the model predicts for a cut. */
double rp_wide_cut_ns(const rp_wide_product *p, const rp_wide_cut *c, uint32_t subgroup, uint32_t cores);
const rp_gpu_tune *rp_gpu_tuned(const rp_gpu *g); /* never NULL */

#endif
