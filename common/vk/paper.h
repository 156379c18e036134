/* paper: a device that is only described. It opens without a driver, allocates, compiles and computes nothing, and obeys every
 * limit and feature of the description as the real one would: the code above vk runs on it as it is, and what it submits can be
 * read here afterwards. So a plan is made by the code that runs.
 *
 * Everything in vk.h works on it. Memory the host can see is there and is zero until written (device memory is never stored);
 * waiting takes no time; kernels leave memory as it is.
 */
#ifndef RP_VK_PAPER_H
#define RP_VK_PAPER_H

#include "vk/vk.h"

/* facts: of rp_vk_devices, or read from a file; checked (RP_FORMAT names the field). Of opts the limits and features_off count.
 * Memory that others use is not known, so budgets are the sizes of the heaps. */
rp_code rp_vk_open_paper(const rp_vk_info *facts, const rp_vk_opts *opts, rp_vk **out, rp_error *err);
bool rp_vk_on_paper(const rp_vk *vk);

/* ---- notes: why the next dispatch of a recording is what it is. Kept on paper only; elsewhere this costs nothing ---- */
enum { RP_VK_OPS_TEXT = 160 };

typedef struct rp_vk_note {
	int layer; /* -1: none */
	char ops[RP_VK_OPS_TEXT]; /* labels of the operations it computes, spaces between */
	const char *why, *rejected; /* constant text; NULL when there was nothing to choose */
} rp_vk_note;

void rp_vk_cmd_note(rp_vk_cmd *c, const rp_vk_note *note);

/* ---- what was submitted ---- */
typedef struct rp_vk_work_bind {
	const rp_kernel_binding *binding; /* NULL for copies and fills */
	const rp_vk_buf *buf;
	uint64_t offset, size;
} rp_vk_work_bind;

enum { RP_VK_WORK_BINDS = 16, RP_VK_WORK_PUSH = 256 };

typedef struct rp_vk_work {
	enum { RP_VK_DISPATCH, RP_VK_COPY, RP_VK_FILL } kind;
	char recording[64];
	const rp_vk_pipeline *pipeline; /* NULL for copies and fills */
	rp_vk_work_bind binds[RP_VK_WORK_BINDS]; /* copy: from, to; fill: to */
	uint32_t n_binds, push_bytes, groups[3];
	unsigned char push[RP_VK_WORK_PUSH];
	bool barrier; /* it waits for what was recorded before it */
	rp_vk_note note;
} rp_vk_work;

/* All work submitted since the device was opened or rp_vk_paper_forget, in order; belongs to vk, until the next submission. */
const rp_vk_work *rp_vk_paper_work(const rp_vk *vk, size_t *n);
void rp_vk_paper_forget(rp_vk *vk);

/* The values of a pipeline: of constant i of its kernel; its workgroup; the subgroup size asked for, 0 for none. */
const uint32_t *rp_vk_pipeline_values(const rp_vk_pipeline *p);
const uint32_t *rp_vk_pipeline_workgroup(const rp_vk_pipeline *p);
uint32_t rp_vk_pipeline_subgroup(const rp_vk_pipeline *p);

/* ---- memory ---- */
typedef struct rp_vk_paper_buf {
	const rp_vk_buf *buf;
	const char *name;
	uint32_t heap;
	uint64_t size; /* as asked for; what it takes is rounded up */
} rp_vk_paper_buf;

/* Buffers that live, in the order they were made. */
const rp_vk_paper_buf *rp_vk_paper_bufs(const rp_vk *vk, size_t *n);
uint64_t rp_vk_paper_heap(const rp_vk *vk, uint32_t heap); /* bytes of the blocks buffers are cut from */

#endif
