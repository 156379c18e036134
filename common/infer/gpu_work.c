/* One dispatch in the making: a kernel, its constants, what is bound. */
#include "infer/gpu_watch.h"

#include <stdio.h>
#include <string.h>

rp_code rp_work_begin(rp_work *w, rp_gpu *g, rp_vk_cmd *c, const char *name, rp_error *err)
{
	char variant[64];
	*w = (rp_work){ .g = g, .c = c, .n_binds = 1 };
	snprintf(variant, sizeof variant, "%s_subgroup", name);
	if (g->subgroups)
		w->kernel = rp_kernel_find(variant);
	if (w->kernel == NULL)
		w->kernel = rp_kernel_find(name);
	if (w->kernel == NULL)
		return rp_fail(err, RP_INTERNAL, "this build has no kernel %s", name);
	w->wg = w->kernel->workgroup[0];
	w->note.layer = g->layer;
	if (g->op != NULL)
		rp_work_for(w, g->op);
	return RP_OK;
}

void rp_work_const(rp_work *w, const char *name, uint32_t bits)
{
	w->constants[w->n_constants++] = (rp_vk_const){ name, bits };
}

void rp_work_bind(rp_work *w, rp_vk_buf *b)
{
	w->binds[w->n_binds++] = (rp_vk_bind){ b, 0, 0 };
}

void rp_work_bind_range(rp_work *w, rp_vk_buf *b, uint64_t from, uint64_t bytes)
{
	w->binds[w->n_binds++] = (rp_vk_bind){ b, from, bytes };
}

void rp_work_bind_rows(rp_work *w, const rp_gpu_shape *s)
{
	rp_work_bind_range(w, s->batch, 0, s->rows * sizeof(rp_batch_row));
}

void rp_work_bind_segs(rp_work *w, const rp_gpu_shape *s)
{
	rp_work_bind_range(w, s->batch, w->g->segs_at, s->segs * sizeof(rp_batch_segment));
}

uint32_t rp_work_wide(const rp_work *w)
{
	return w->kernel->features & RP_KERNEL_SUBGROUPS ? w->g->device->subgroup_size : 0;
}

void rp_work_for(rp_work *w, const rp_op *op)
{
	size_t n = strlen(w->note.ops);
	snprintf(w->note.ops + n, sizeof w->note.ops - n, "%s%s", n > 0 ? " " : "", op->label);
}

void rp_work_why(rp_work *w, const char *why, const char *rejected)
{
	w->note.why = why;
	w->note.rejected = rejected;
}

rp_code rp_work_dispatch(rp_work *w, const void *args, size_t n_args, rp_grid grid, rp_error *err)
{
	rp_vk_pipeline *p = NULL;
	if (w->g->asking)
		return rp_vk_pipeline_ask(w->g->vk, w->kernel, w->constants, w->n_constants, NULL, rp_work_wide(w), err);
	rp_code rc = rp_vk_pipeline_get(w->g->vk, w->kernel, w->constants, w->n_constants, NULL, rp_work_wide(w), &p, err);
	if (rc != RP_OK)
		return rc;
	if (w->g->watch != NULL && w->g->watch->check != NULL)
		return rp_gpu_check_work(w, p, args, n_args, grid, err);
	rp_vk_cmd_note(w->c, &w->note);
	if (w->g->watch != NULL)
		rc = rp_gpu_watch_start(w, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_dispatch(w->c, p, w->binds, w->n_binds, args, n_args, grid.x, grid.y, grid.z, err);
	return rc == RP_OK && w->g->watch != NULL ? rp_gpu_watch_work(w, args, n_args, grid, err) : rc;
}
