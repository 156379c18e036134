/* Recording: dispatches with barriers found from what they read and write; submitting, waiting, timestamps. */
#include "vk/paper.h"
#include "vk/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct access { /* since the last barrier */
	rp_vk_range range;
	bool write, copy; /* copy: by a transfer, else by a kernel */
	bool mapped_write; /* the host may read it afterwards */
} access;

typedef struct access_list {
	access *list;
	size_t n, cap;
} access_list;

struct rp_vk_cmd {
	rp_vk *vk;
	char name[64];
	VkCommandBuffer handle;
	bool recording, host_reads; /* host_reads: something mapped was written */
	bool copies_behind;         /* kernels ran since the last barrier that copies heed */
	access_list pending;
	rp_vk_pipeline *bound;
	rp_vk_cmd_stats stats;
	VkQueryPool queries;
	const char *labels[RP_VK_MAX_MARKS];
	rp_vk_mark *marks;
	uint32_t n_marks;
	rp_vk_paper_list paper; /* on a paper device: what was recorded */
	rp_vk_note note;        /* and the note for what comes next */
};

enum { COMPUTE = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, COPY = VK_PIPELINE_STAGE_TRANSFER_BIT };

rp_code rp_vk_cmd_new(rp_vk *vk, const char *name, rp_vk_cmd **out, rp_error *err)
{
	rp_code rc = rp_vk_alive(vk, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_cmd *c = rp_alloc(sizeof *c);
	if (c == NULL)
		return rp_no_memory(err, sizeof *c, name);
	c->vk = vk;
	snprintf(c->name, sizeof c->name, "%s", name);
	VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = vk->compute.pool, .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
	VkResult r = vk->AllocateCommandBuffers(vk->device, &info, &c->handle);
	if (r != VK_SUCCESS) {
		free(c);
		return rp_vk_fail(vk, err, r, "cannot make a command buffer for %s", name);
	}
	*out = c;
	return RP_OK;
}

void rp_vk_cmd_free(rp_vk_cmd *c)
{
	if (c == NULL)
		return;
	rp_vk *vk = c->vk;
	vk->FreeCommandBuffers(vk->device, vk->compute.pool, 1, &c->handle);
	if (c->queries != VK_NULL_HANDLE)
		vk->DestroyQueryPool(vk->device, c->queries, NULL);
	free(c->pending.list);
	free(c->paper.v);
	free(c->marks);
	free(c);
}

static void memory_barrier(
	rp_vk_cmd *c, VkPipelineStageFlags from, VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags seen)
{
	VkMemoryBarrier b = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = seen };
	c->vk->CmdPipelineBarrier(c->handle, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

rp_code rp_vk_cmd_begin(rp_vk_cmd *c, unsigned flags, rp_error *err)
{
	rp_vk *vk = c->vk;
	rp_code rc = rp_vk_alive(vk, err);
	if (rc != RP_OK)
		return rc;
	if (c->recording) /* an earlier recording was given up */
		vk->EndCommandBuffer(c->handle);
	VkCommandBufferBeginInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = flags & RP_VK_REPLAY ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT : 0 };
	VkResult r = vk->BeginCommandBuffer(c->handle, &info);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot record %s", c->name);
	c->recording = true;
	c->host_reads = c->copies_behind = false;
	c->bound = NULL;
	c->pending.n = 0;
	c->n_marks = 0;
	c->paper.n = 0;
	c->note = (rp_vk_note){ .layer = -1 };
	c->stats = (rp_vk_cmd_stats){ 0 };
	/* Submissions of one queue overlap unless told otherwise. */
	memory_barrier(c, COMPUTE | COPY, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, COMPUTE | COPY,
		VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_UNIFORM_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT |
		VK_ACCESS_TRANSFER_WRITE_BIT);
	return RP_OK;
}

/* ---- hazards ---- */
static bool overlap(const rp_vk_range *a, const rp_vk_range *b)
{
	return a->serial == b->serial && a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

static bool conflicts(const access_list *pending, const access *now, size_t n)
{
	for (size_t i = 0; i < pending->n; i++)
		for (size_t j = 0; j < n; j++)
			if ((pending->list[i].write || now[j].write) && overlap(&pending->list[i].range, &now[j].range))
				return true;
	return false;
}

/* One barrier orders everything pending before what comes, and lets it see what was written. Kernel after kernel is the
 * common case and gets the narrowest barrier: wider access masks cost microseconds on real hardware. */
static void order(rp_vk_cmd *c, bool copy_next)
{
	VkPipelineStageFlags from = COMPUTE, to = COMPUTE;
	VkAccessFlags written = VK_ACCESS_SHADER_WRITE_BIT, seen = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
	bool copies = copy_next;
	for (size_t i = 0; i < c->pending.n && !copies; i++)
		copies = c->pending.list[i].copy;
	if (copies) {
		from |= COPY;
		to |= COPY;
		written |= VK_ACCESS_TRANSFER_WRITE_BIT;
		seen |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_UNIFORM_READ_BIT;
		c->copies_behind = false;
	}
	memory_barrier(c, from, written, to, seen);
	c->stats.barriers++;
	c->pending.n = 0;
}

/* Order `now` after what it depends on, then remember it. A copy also needs to see what kernels wrote before an earlier
 * barrier, which was made for kernels only. */
static rp_code track(rp_vk_cmd *c, const access *now, size_t n, bool copy, rp_error *err)
{
	access_list *p = &c->pending;
	if (conflicts(p, now, n) || (copy && c->copies_behind))
		order(c, copy);
	if (!copy)
		c->copies_behind = true;
	if (p->n + n > p->cap) {
		size_t cap = 2 * (p->n + n) + 64;
		access *list = rp_grow_array(p->list, cap, sizeof *list);
		if (list == NULL)
			return rp_no_memory(err, cap * sizeof *list, "recording");
		p->list = list;
		p->cap = cap;
	}
	memcpy(p->list + p->n, now, n * sizeof *now);
	p->n += n;
	for (size_t i = 0; i < n; i++)
		c->host_reads = c->host_reads || now[i].mapped_write;
	return RP_OK;
}

static rp_code must_record(const rp_vk_cmd *c, rp_error *err)
{
	return c->recording ? RP_OK : rp_fail(err, RP_INTERNAL, "%s is not being recorded", c->name);
}

static access access_of(const rp_vk_bind *b, bool write, bool copy)
{
	return (access){ { b->buf->serial, b->offset, b->size }, write, copy, write && b->buf->block->map != NULL };
}

/* ---- on paper ---- */
void rp_vk_cmd_note(rp_vk_cmd *c, const rp_vk_note *note)
{
	if (c->vk->paper != NULL)
		c->note = *note;
}

/* Put down what was just recorded; barriers: how many there were before it. */
static rp_code put_down(rp_vk_cmd *c, int kind, uint32_t barriers, rp_vk_work **out, rp_error *err)
{
	rp_vk_work *w = rp_vk_paper_add(&c->paper, err);
	if (w == NULL)
		return RP_NO_MEMORY;
	w->kind = kind;
	w->barrier = c->stats.barriers != barriers;
	w->note = c->note;
	c->note = (rp_vk_note){ .layer = -1 };
	*out = w;
	return RP_OK;
}

static rp_code put_down_ranges(rp_vk_cmd *c, int kind, uint32_t barriers, const rp_vk_bind *ranges, uint32_t n, rp_error *err)
{
	rp_vk_work *w = NULL;
	rp_code rc = c->vk->paper != NULL ? put_down(c, kind, barriers, &w, err) : RP_OK;
	for (uint32_t i = 0; w != NULL && i < n; i++)
		w->binds[w->n_binds++] = (rp_vk_work_bind){ NULL, ranges[i].buf, ranges[i].offset, ranges[i].size };
	return rc;
}

static void put_down_binds(rp_vk_work *w, const rp_vk_pipeline *p, const rp_vk_bind *full, const void *push, size_t push_bytes)
{
	const rp_kernel *k = p->module->kernel;
	w->pipeline = p;
	for (uint32_t i = 0; i < k->n_bindings; i++) {
		const rp_vk_bind *b = &full[k->bindings[i].binding];
		w->binds[w->n_binds++] = (rp_vk_work_bind){ &k->bindings[i], b->buf, b->offset, b->size };
	}
	w->push_bytes = (uint32_t)(push_bytes < sizeof w->push ? push_bytes : sizeof w->push);
	if (w->push_bytes != 0)
		memcpy(w->push, push, w->push_bytes);
}

/* ---- dispatches ---- */
static rp_code check_bind(rp_vk *vk, const rp_kernel *k, const rp_kernel_binding *kb, rp_vk_bind *b, rp_error *err)
{
	if (b->buf == NULL)
		return rp_fail(err, RP_INTERNAL, "kernel %s: nothing is bound to %s (binding %u)", k->name, kb->name, kb->binding);
	uint64_t whole = b->buf->size, limit = kb->uniform ? vk->phys.info.max_uniform : vk->phys.info.max_binding;
	if (b->size == 0 && b->offset < whole)
		b->size = whole - b->offset;
	if (b->offset >= whole || b->size > whole - b->offset || b->offset % vk->phys.info.align_binding != 0)
		return rp_fail(err, RP_INTERNAL,
			"kernel %s: %s is bound to bytes %llu + %llu of %s, which has %llu (offsets are multiples of "
			"%llu)",
			k->name, kb->name, (unsigned long long)b->offset, (unsigned long long)b->size, b->buf->name,
			(unsigned long long)whole, (unsigned long long)vk->phys.info.align_binding);
	if (b->size > limit)
		return rp_fail(err, RP_INTERNAL, "kernel %s: %s is bound to %llu bytes of %s, the device allows %llu: bind it in ranges",
			k->name, kb->name, (unsigned long long)b->size, b->buf->name, (unsigned long long)limit);
	return RP_OK;
}

enum { MOST_BINDINGS = 64 };

/* full: what each binding sees, sizes filled in. */
static rp_code bind_all(
	rp_vk_cmd *c, rp_vk_pipeline *p, const rp_vk_bind *binds, size_t n_binds, rp_vk_bind full[MOST_BINDINGS], rp_error *err)
{
	const rp_kernel *k = p->module->kernel;
	access now[RP_VK_MAX_BINDINGS];
	for (uint32_t i = 0; i < k->n_bindings; i++) {
		const rp_kernel_binding *kb = &k->bindings[i];
		if (kb->binding < n_binds)
			full[kb->binding] = binds[kb->binding];
		rp_code rc = check_bind(c->vk, k, kb, &full[kb->binding], err);
		if (rc != RP_OK)
			return rc;
		now[i] = access_of(&full[kb->binding], kb->writable, false);
	}
	VkDescriptorSet set = VK_NULL_HANDLE;
	rp_code rc = rp_vk_set_get(c->vk, p->module, full, &set, err);
	if (rc == RP_OK)
		rc = track(c, now, k->n_bindings, false, err);
	if (rc != RP_OK)
		return rc;
	if (c->bound != p)
		c->vk->CmdBindPipeline(c->handle, VK_PIPELINE_BIND_POINT_COMPUTE, p->handle);
	c->bound = p;
	c->vk->CmdBindDescriptorSets(c->handle, VK_PIPELINE_BIND_POINT_COMPUTE, p->module->layout, 0, 1, &set, 0, NULL);
	return RP_OK;
}

rp_code rp_vk_cmd_dispatch(rp_vk_cmd *c, rp_vk_pipeline *p, const rp_vk_bind *binds, size_t n_binds, const void *push,
	size_t push_bytes, uint32_t x, uint32_t y, uint32_t z, rp_error *err)
{
	const rp_kernel *k = p->module->kernel;
	const uint32_t *max = c->vk->phys.info.max_groups;
	rp_code rc = must_record(c, err);
	if (rc != RP_OK || x == 0 || y == 0 || z == 0)
		return rc;
	if (push_bytes != k->push_bytes)
		return rp_fail(
			err, RP_INTERNAL, "kernel %s takes %u bytes of push constants, %zu were given", k->name, k->push_bytes, push_bytes);
	if (x > max[0] || y > max[1] || z > max[2])
		return rp_fail(err, RP_INTERNAL, "kernel %s: %u x %u x %u workgroups, the device allows %u x %u x %u", k->name, x, y, z,
			max[0], max[1], max[2]);
	rp_vk_bind full[MOST_BINDINGS] = { { 0 } };
	uint32_t barriers = c->stats.barriers;
	rc = bind_all(c, p, binds, n_binds, full, err);
	if (rc != RP_OK)
		return rc;
	if (push_bytes != 0)
		c->vk->CmdPushConstants(c->handle, p->module->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, (uint32_t)push_bytes, push);
	c->vk->CmdDispatch(c->handle, x, y, z);
	c->stats.dispatches++;
	rp_vk_work *w = NULL;
	rc = c->vk->paper != NULL ? put_down(c, RP_VK_DISPATCH, barriers, &w, err) : RP_OK;
	if (w != NULL) {
		put_down_binds(w, p, full, push, push_bytes);
		memcpy(w->groups, (uint32_t[3]){ x, y, z }, sizeof w->groups);
	}
	return rc;
}

/* ---- copies ---- */
static rp_code check_copy(const rp_vk_cmd *c, const rp_vk_buf *b, uint64_t offset, uint64_t n, rp_error *err)
{
	if (offset > b->size || n > b->size - offset)
		return rp_fail(err, RP_INTERNAL, "%s: bytes %llu + %llu lie outside the buffer %s of %llu", c->name,
			(unsigned long long)offset, (unsigned long long)n, b->name, (unsigned long long)b->size);
	return must_record(c, err);
}

rp_code rp_vk_cmd_copy(rp_vk_cmd *c, rp_vk_buf *from, uint64_t from_offset, rp_vk_buf *to, uint64_t to_offset, uint64_t n,
	rp_error *err)
{
	rp_code rc = check_copy(c, from, from_offset, n, err);
	if (rc == RP_OK)
		rc = check_copy(c, to, to_offset, n, err);
	if (rc != RP_OK || n == 0)
		return rc;
	rp_vk_bind ranges[2] = { { from, from_offset, n }, { to, to_offset, n } };
	access now[2] = { access_of(&ranges[0], false, true), access_of(&ranges[1], true, true) };
	uint32_t barriers = c->stats.barriers;
	rc = track(c, now, 2, true, err);
	if (rc != RP_OK)
		return rc;
	VkBufferCopy copy = { .srcOffset = from_offset, .dstOffset = to_offset, .size = n };
	c->vk->CmdCopyBuffer(c->handle, from->handle, to->handle, 1, &copy);
	c->stats.copies++;
	return put_down_ranges(c, RP_VK_COPY, barriers, ranges, 2, err);
}

rp_code rp_vk_cmd_fill(rp_vk_cmd *c, rp_vk_buf *b, uint64_t offset, uint64_t n, uint32_t word, rp_error *err)
{
	rp_code rc = check_copy(c, b, offset, n, err);
	if (rc == RP_OK && (offset % 4 != 0 || n % 4 != 0))
		rc = rp_fail(err, RP_INTERNAL, "%s: a fill of %s that is not of whole words", c->name, b->name);
	if (rc != RP_OK || n == 0)
		return rc;
	rp_vk_bind range = { b, offset, n };
	access now = access_of(&range, true, true);
	uint32_t barriers = c->stats.barriers;
	rc = track(c, &now, 1, true, err);
	if (rc != RP_OK)
		return rc;
	c->vk->CmdFillBuffer(c->handle, b->handle, offset, n, word);
	c->stats.copies++;
	return put_down_ranges(c, RP_VK_FILL, barriers, &range, 1, err);
}

/* ---- time ---- */
static rp_code queries_new(rp_vk_cmd *c, rp_error *err)
{
	VkQueryPoolCreateInfo info = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP,
		.queryCount = RP_VK_MAX_MARKS };
	VkResult r = c->vk->CreateQueryPool(c->vk->device, &info, NULL, &c->queries);
	return r == VK_SUCCESS ? RP_OK : rp_vk_fail(c->vk, err, r, "cannot make timestamps for %s", c->name);
}

rp_code rp_vk_cmd_mark(rp_vk_cmd *c, const char *label, rp_error *err)
{
	rp_code rc = must_record(c, err);
	if (rc != RP_OK || c->vk->phys.info.timestamp_bits == 0 || c->n_marks == RP_VK_MAX_MARKS)
		return rc;
	if (c->queries == VK_NULL_HANDLE && (rc = queries_new(c, err)) != RP_OK)
		return rc;
	if (c->n_marks == 0)
		c->vk->CmdResetQueryPool(c->handle, c->queries, 0, RP_VK_MAX_MARKS);
	c->labels[c->n_marks] = label;
	c->vk->CmdWriteTimestamp(c->handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, c->queries, c->n_marks++);
	return RP_OK;
}

rp_code rp_vk_cmd_marks(rp_vk_cmd *c, const rp_vk_mark **out, size_t *n, rp_error *err)
{
	rp_vk *vk = c->vk;
	*n = 0;
	if (c->n_marks == 0)
		return RP_OK;
	uint64_t *ticks = rp_alloc_array(c->n_marks, sizeof *ticks);
	rp_vk_mark *marks = rp_grow_array(c->marks, c->n_marks, sizeof *marks);
	c->marks = marks != NULL ? marks : c->marks;
	if (ticks == NULL || marks == NULL) {
		free(ticks);
		return rp_no_memory(err, c->n_marks * sizeof *marks, "timestamps");
	}
	VkResult r = vk->GetQueryPoolResults(vk->device, c->queries, 0, c->n_marks, c->n_marks * sizeof *ticks, ticks, sizeof *ticks,
		VK_QUERY_RESULT_64_BIT);
	uint64_t mask = vk->phys.info.timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << vk->phys.info.timestamp_bits) - 1;
	for (uint32_t i = 0; i < c->n_marks; i++)
		marks[i] = (rp_vk_mark){ c->labels[i],
			(uint64_t)((double)((ticks[i] - ticks[0]) & mask) * (double)vk->phys.info.timestamp_ns) };
	free(ticks);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "timestamps of %s, which has not run", c->name);
	*out = marks;
	*n = c->n_marks;
	return RP_OK;
}

rp_code rp_vk_cmd_end(rp_vk_cmd *c, rp_error *err)
{
	rp_code rc = must_record(c, err);
	if (rc != RP_OK)
		return rc;
	if (c->host_reads)
		memory_barrier(c, COMPUTE | COPY, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
			VK_ACCESS_HOST_READ_BIT);
	c->recording = false;
	VkResult r = c->vk->EndCommandBuffer(c->handle);
	if (r != VK_SUCCESS)
		return rp_vk_fail(c->vk, err, r, "cannot record %s", c->name);
	return c->vk->validate ? rp_vk_check(c->vk, NULL, err) : RP_OK;
}

rp_vk_cmd_stats rp_vk_cmd_describe(const rp_vk_cmd *c)
{
	return c->stats;
}

/* ---- submitting ---- */
static void name_work(rp_vk *vk, rp_vk_cmd *const *cmds, size_t n, uint64_t ticket)
{
	int used = snprintf(vk->last_work, sizeof vk->last_work, "%s", cmds[0]->name);
	if (n > 1 && used > 0 && (size_t)used < sizeof vk->last_work)
		used += snprintf(vk->last_work + used, sizeof vk->last_work - (size_t)used, " to %s (%zu)", cmds[n - 1]->name, n);
	if (used > 0 && (size_t)used < sizeof vk->last_work)
		snprintf(vk->last_work + used, sizeof vk->last_work - (size_t)used, ", submission %llu", (unsigned long long)ticket);
}

static VkResult submit(rp_vk *vk, const VkCommandBuffer *handles, size_t n, uint64_t value)
{
	/* Uploads are on another queue's timeline: work waits for those it was not yet told about. */
	uint64_t uploads = vk->transfer.submitted;
	bool waits = uploads > vk->uploads_seen;
	VkPipelineStageFlags at = COMPUTE | COPY;
	VkTimelineSemaphoreSubmitInfo timeline = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = waits ? 1 : 0, .pWaitSemaphoreValues = &uploads, .signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &value };
	VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timeline, .waitSemaphoreCount = waits ? 1 : 0,
		.pWaitSemaphores = &vk->transfer.timeline, .pWaitDstStageMask = &at, .commandBufferCount = (uint32_t)n,
		.pCommandBuffers = handles, .signalSemaphoreCount = 1, .pSignalSemaphores = &vk->compute.timeline };
	VkResult r = vk->QueueSubmit(vk->compute.handle, 1, &info, VK_NULL_HANDLE);
	if (r == VK_SUCCESS)
		vk->uploads_seen = uploads;
	return r;
}

static void count(rp_vk *vk, rp_vk_cmd *const *cmds, size_t n)
{
	vk->counts.submits++;
	for (size_t i = 0; i < n; i++) {
		rp_vk_cmd_stats s = rp_vk_cmd_describe(cmds[i]);
		vk->counts.dispatches += s.dispatches;
		vk->counts.barriers += s.barriers;
		vk->counts.copies += s.copies;
	}
}

const rp_vk_counts *rp_vk_counted(const rp_vk *vk)
{
	return &vk->counts;
}

rp_code rp_vk_submit(rp_vk *vk, rp_vk_cmd *const *cmds, size_t n, uint64_t *ticket, rp_error *err)
{
	rp_code rc = rp_vk_alive(vk, err);
	if (rc != RP_OK)
		return rc;
	if (n == 0 || n > UINT32_MAX)
		return rp_fail(err, RP_INTERNAL, "%zu recordings to submit", n);
	VkCommandBuffer few[16], *handles = n <= 16 ? few : rp_alloc_array(n, sizeof(VkCommandBuffer));
	if (handles == NULL)
		return rp_no_memory(err, n * sizeof *handles, "a submission");
	for (size_t i = 0; i < n; i++)
		handles[i] = cmds[i]->handle;
	uint64_t value = vk->compute.submitted + 1;
	name_work(vk, cmds, n, value);
	VkResult r = submit(vk, handles, n, value);
	if (handles != few)
		free(handles);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot submit %s", vk->last_work);
	vk->compute.submitted = value;
	count(vk, cmds, n);
	if (ticket != NULL)
		*ticket = value;
	for (size_t i = 0; vk->paper != NULL && i < n && rc == RP_OK; i++)
		rc = rp_vk_paper_submit(vk, &cmds[i]->paper, cmds[i]->name, err);
	return rc == RP_OK && vk->validate ? rp_vk_check(vk, NULL, err) : rc;
}

rp_code rp_vk_wait(rp_vk *vk, uint64_t ticket, rp_error *err)
{
	if (ticket <= vk->compute.done)
		return rp_vk_alive(vk, err);
	VkSemaphoreWaitInfo wait = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
		.pSemaphores = &vk->compute.timeline, .pValues = &ticket };
	uint64_t start = rp_now_ns();
	VkResult r = vk->WaitSemaphores(vk->device, &wait, UINT64_MAX);
	vk->counts.wait_ns += rp_now_ns() - start;
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "waiting for %s", vk->last_work);
	vk->compute.done = ticket;
	return vk->validate ? rp_vk_check(vk, NULL, err) : RP_OK;
}

rp_code rp_vk_run(rp_vk *vk, rp_vk_cmd *c, rp_error *err)
{
	uint64_t ticket = 0;
	rp_code rc = rp_vk_submit(vk, &c, 1, &ticket, err);
	return rc == RP_OK ? rp_vk_wait(vk, ticket, err) : rc;
}
