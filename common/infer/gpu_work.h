/* gpu_work: one dispatch in the making. Private to infer/. */
#ifndef RP_GPU_WORK_H
#define RP_GPU_WORK_H

#include "infer/gpu.h"

enum { RP_WORK_BINDINGS = 12, RP_WORK_CONSTANTS = 12 };

typedef struct rp_work {
	rp_gpu *g;
	rp_vk_cmd *c;
	const rp_kernel *kernel;
	rp_vk_const constants[RP_WORK_CONSTANTS];
	size_t n_constants;
	rp_vk_bind binds[RP_WORK_BINDINGS]; /* 0 is the parameter block */
	size_t n_binds;
	uint32_t wg; /* the kernel's own workgroup size */
	rp_vk_note note;
} rp_work;

/* `name`, or its variant with subgroups where the device uses those. */
rp_code rp_work_begin(rp_work *w, rp_gpu *g, rp_vk_cmd *c, const char *name, rp_error *err);
void rp_work_const(rp_work *w, const char *name, uint32_t bits);
/* The next binding. */
void rp_work_bind(rp_work *w, rp_vk_buf *b);
void rp_work_bind_range(rp_work *w, rp_vk_buf *b, uint64_t from, uint64_t bytes);
void rp_work_bind_rows(rp_work *w, const rp_gpu_shape *s);
void rp_work_bind_segs(rp_work *w, const rp_gpu_shape *s);
/* The subgroup size the kernel counts on; 0 for a portable one. Full subgroups are asked for together with a size. */
uint32_t rp_work_wide(const rp_work *w);
/* For plans: an operation that it computes, why it is this kernel, what else could have been and why not (constant text). */
void rp_work_for(rp_work *w, const rp_op *op);
void rp_work_why(rp_work *w, const char *why, const char *rejected);
rp_code rp_work_dispatch(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err);

#endif
