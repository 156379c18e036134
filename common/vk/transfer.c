/* Bytes between host and device: straight into mapped memory where the host reaches it, else through a ring of staging
 * buffers copied on the transfer queue while the host fills the next one. */
#include "vk/private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

rp_code rp_vk_transfer_wait(rp_vk *vk, uint64_t value, rp_error *err)
{
	if (value <= vk->transfer.done)
		return rp_vk_alive(vk, err);
	VkSemaphoreWaitInfo wait = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
		.pSemaphores = &vk->transfer.timeline, .pValues = &value };
	VkResult r = vk->WaitSemaphores(vk->device, &wait, UINT64_MAX);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "waiting for an upload");
	vk->transfer.done = value;
	return RP_OK;
}

static rp_code check_range(const rp_vk_buf *b, uint64_t offset, uint64_t n, rp_error *err)
{
	if (offset > b->size || n > b->size - offset)
		return rp_fail(err, RP_INTERNAL, "bytes %" PRIu64 " + %" PRIu64 " lie outside the buffer %s of %" PRIu64, offset, n,
			b->name, b->size);
	return RP_OK;
}

static rp_code ring_slot(rp_vk *vk, rp_vk_staging **out, rp_error *err)
{
	rp_vk_staging *s = &vk->ring[vk->ring_at];
	rp_code rc = RP_OK;
	if (s->buf == NULL)
		rc = rp_vk_buf_new(vk, RP_VK_STREAM, RP_VK_STAGING_BYTES, "staging", &s->buf, err);
	if (rc == RP_OK && s->cmd == VK_NULL_HANDLE) {
		VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
			.commandPool = vk->transfer.pool, .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1 };
		VkResult r = vk->AllocateCommandBuffers(vk->device, &info, &s->cmd);
		if (r != VK_SUCCESS)
			rc = rp_vk_fail(vk, err, r, "cannot make a command buffer for uploads");
	}
	if (rc == RP_OK)
		rc = rp_vk_transfer_wait(vk, s->ticket, err);
	if (rc == RP_OK)
		*out = s;
	return rc;
}

uint64_t rp_vk_write_max(const rp_vk *vk)
{
	(void)vk;
	return RP_VK_STAGING_BYTES;
}

rp_code rp_vk_write_begin(rp_vk *vk, rp_vk_buf *b, uint64_t offset, uint64_t n, void **to, rp_error *err)
{
	if (vk->writing.open || n > RP_VK_STAGING_BYTES)
		return rp_fail(err, RP_INTERNAL, "a write of %" PRIu64 " bytes to %s: one at a time, at most %d bytes", n, b->name,
			(int)RP_VK_STAGING_BYTES);
	rp_code rc = check_range(b, offset, n, err);
	if (rc != RP_OK || (rc = rp_vk_alive(vk, err)) != RP_OK)
		return rc;
	if (b->block->map != NULL) {
		*to = b->block->map + b->offset + offset;
	} else {
		rp_vk_staging *s = NULL;
		rc = ring_slot(vk, &s, err);
		if (rc != RP_OK)
			return rc;
		*to = rp_vk_buf_map(s->buf);
	}
	vk->writing.buf = b;
	vk->writing.offset = offset;
	vk->writing.n = n;
	vk->writing.open = true;
	return RP_OK;
}

static rp_code submit_copy(rp_vk *vk, rp_vk_staging *s, rp_error *err)
{
	VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
	VkBufferCopy copy = { .dstOffset = vk->writing.offset, .size = vk->writing.n };
	VkResult r = vk->BeginCommandBuffer(s->cmd, &begin);
	if (r == VK_SUCCESS) {
		vk->CmdCopyBuffer(s->cmd, s->buf->handle, vk->writing.buf->handle, 1, &copy);
		r = vk->EndCommandBuffer(s->cmd);
	}
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot record an upload");
	uint64_t value = vk->transfer.submitted + 1;
	VkTimelineSemaphoreSubmitInfo timeline = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &value };
	VkSubmitInfo submit = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timeline, .commandBufferCount = 1,
		.pCommandBuffers = &s->cmd, .signalSemaphoreCount = 1, .pSignalSemaphores = &vk->transfer.timeline };
	strcpy(vk->last_work, "an upload");
	r = vk->QueueSubmit(vk->transfer.handle, 1, &submit, VK_NULL_HANDLE);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot submit an upload");
	s->ticket = vk->transfer.submitted = value;
	vk->ring_at = (vk->ring_at + 1) % RP_VK_RING;
	return vk->validate ? rp_vk_check(vk, NULL, err) : RP_OK;
}

rp_code rp_vk_write_end(rp_vk *vk, rp_error *err)
{
	if (!vk->writing.open)
		return rp_fail(err, RP_INTERNAL, "a write ends that did not begin");
	vk->writing.open = false;
	if (vk->writing.buf->block->map != NULL || vk->writing.n == 0)
		return RP_OK;
	return submit_copy(vk, &vk->ring[vk->ring_at], err);
}

rp_code rp_vk_write(rp_vk *vk, rp_vk_buf *b, uint64_t offset, const void *data, uint64_t n, rp_error *err)
{
	rp_code rc = check_range(b, offset, n, err);
	const unsigned char *from = data;
	for (uint64_t at = 0; rc == RP_OK && at < n;) {
		uint64_t part = n - at < RP_VK_STAGING_BYTES ? n - at : RP_VK_STAGING_BYTES;
		void *to;
		rc = rp_vk_write_begin(vk, b, offset + at, part, &to, err);
		if (rc != RP_OK)
			break;
		if (vk->paper == NULL || b->use != RP_VK_LOCAL) /* device memory on paper is not stored */
			memcpy(to, from + at, (size_t)part);
		rc = rp_vk_write_end(vk, err);
		at += part;
	}
	return rc;
}

/* The copy runs on the compute queue: it is ordered after everything submitted there, and uploads are waited for first. */
static rp_code read_part(rp_vk *vk, rp_vk_buf *b, uint64_t offset, void *to, uint64_t n, rp_error *err)
{
	rp_code rc = rp_vk_cmd_begin(vk->read_cmd, 0, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_copy(vk->read_cmd, b, offset, vk->read_buf, 0, n, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_end(vk->read_cmd, err);
	if (rc == RP_OK)
		rc = rp_vk_run(vk, vk->read_cmd, err);
	if (rc == RP_OK)
		memcpy(to, rp_vk_buf_map(vk->read_buf), (size_t)n);
	return rc;
}

rp_code rp_vk_read(rp_vk *vk, rp_vk_buf *b, uint64_t offset, void *to, uint64_t n, rp_error *err)
{
	rp_code rc = check_range(b, offset, n, err);
	if (rc == RP_OK)
		rc = rp_vk_transfer_wait(vk, vk->transfer.submitted, err);
	if (rc == RP_OK)
		rc = rp_vk_wait(vk, vk->compute.submitted, err);
	if (rc != RP_OK || n == 0)
		return rc;
	if (b->block->map != NULL) {
		memcpy(to, b->block->map + b->offset + offset, (size_t)n);
		return RP_OK;
	}
	if (vk->read_buf == NULL)
		rc = rp_vk_buf_new(vk, RP_VK_READBACK, RP_VK_STAGING_BYTES, "readback", &vk->read_buf, err);
	if (rc == RP_OK && vk->read_cmd == NULL)
		rc = rp_vk_cmd_new(vk, "readback", &vk->read_cmd, err);
	unsigned char *p = to;
	for (uint64_t at = 0; rc == RP_OK && at < n; at += RP_VK_STAGING_BYTES) {
		uint64_t part = n - at < RP_VK_STAGING_BYTES ? n - at : RP_VK_STAGING_BYTES;
		rc = read_part(vk, b, offset + at, p + at, part, err);
	}
	return rc;
}

void rp_vk_memory_close(rp_vk *vk)
{
	for (size_t i = 0; i < RP_VK_RING; i++)
		rp_vk_buf_free(vk->ring[i].buf);
	rp_vk_cmd_free(vk->read_cmd);
	rp_vk_buf_free(vk->read_buf);
	free(vk->blocks); /* every block went with its last buffer */
}
