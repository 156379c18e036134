/* Buffers cut from a few large blocks of memory. */
#include "vk/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block's size starts small and doubles, so that a small model does not reserve a quarter gigabyte. */
#define BLOCK_FIRST ((uint64_t)16 << 20)
#define BLOCK_LARGEST ((uint64_t)256 << 20)
enum { ALIGN = 256 }; /* covers every alignment a buffer can ask for, and cache lines */

#define MIB(bytes) ((double)(bytes) / 1048576.0)

static bool type_has(const rp_vk_phys *p, uint32_t type, VkMemoryPropertyFlags want)
{
	return (p->memory.memoryTypes[type].propertyFlags & want) == want;
}

/* The first type with all of `want` and none of `avoid`; the one on the largest heap when `largest`. */
static uint32_t find_type(const rp_vk_phys *p, uint32_t allowed, VkMemoryPropertyFlags want, VkMemoryPropertyFlags avoid,
	bool largest)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < p->memory.memoryTypeCount; i++) {
		if ((allowed >> i & 1) == 0 || !type_has(p, i, want) || (p->memory.memoryTypes[i].propertyFlags & avoid) != 0)
			continue;
		if (best == UINT32_MAX || (largest && p->memory.memoryHeaps[p->memory.memoryTypes[i].heapIndex].size >
				p->memory.memoryHeaps[p->memory.memoryTypes[best].heapIndex].size))
			best = i;
	}
	return best;
}

uint32_t rp_vk_memory_type(const rp_vk_phys *p, rp_vk_use use, bool staged, uint32_t allowed)
{
	const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
		host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
		odd = VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
		VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
	uint32_t t = UINT32_MAX;
	switch (use) {
	case RP_VK_LOCAL:
		if (!staged)
			t = find_type(p, allowed, local | host, odd, true);
		if (t == UINT32_MAX)
			t = find_type(p, allowed, local, odd | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, true);
		if (t == UINT32_MAX)
			t = find_type(p, allowed, local, odd, true);
		if (t == UINT32_MAX)
			t = find_type(p, allowed, 0, odd, true);
		return t;
	case RP_VK_STREAM:
		t = find_type(p, allowed, local | host, odd, false);
		return t != UINT32_MAX ? t : find_type(p, allowed, host, odd, false);
	case RP_VK_READBACK:
		t = find_type(p, allowed, host | cached, odd, false);
		return t != UINT32_MAX ? t : find_type(p, allowed, host, odd, false);
	}
	return t;
}

/* ---- what is free ---- */
/* Free bytes of a heap; when the driver keeps no budget, its size less what we took from it. */
static uint64_t heap_free(rp_vk *vk, uint32_t heap, uint64_t *total)
{
	if (vk->paper == NULL)
		rp_vk_phys_heaps(vk->instance, &vk->phys);
	const rp_vk_heap *h = &vk->phys.info.heaps[heap];
	uint64_t used = h->used, budget = h->budget;
	if (!(vk->phys.info.features & RP_VK_BUDGET) || vk->paper != NULL)
		for (size_t i = 0; i < vk->n_blocks; i++)
			if (vk->phys.memory.memoryTypes[vk->blocks[i]->type].heapIndex == heap)
				used += vk->blocks[i]->size;
	if (vk->max_memory != 0 && h->local) {
		budget = vk->max_memory;
		used = vk->local_bytes;
	}
	*total = budget;
	return budget > used ? budget - used : 0;
}

static rp_code no_room(rp_vk *vk, uint64_t bytes, uint64_t left, uint64_t total, const char *what, rp_error *err)
{
	return rp_fail(err, RP_NO_MEMORY,
		"%s: %s needs %.1f MiB, %.1f MiB of %.1f MiB are free: use a smaller model or a shorter "
		"--ctx, end other programs on this device, or try --device cpu",
		vk->phys.info.name, what, MIB(bytes), MIB(left), MIB(total));
}

rp_code rp_vk_fits(rp_vk *vk, uint64_t bytes, const char *what, rp_error *err)
{
	uint32_t type = rp_vk_memory_type(&vk->phys, RP_VK_LOCAL, vk->staged, UINT32_MAX);
	if (type == UINT32_MAX)
		return rp_fail(err, RP_DRIVER, "%s has no memory for buffers", vk->phys.info.name);
	uint64_t total, left = heap_free(vk, vk->phys.memory.memoryTypes[type].heapIndex, &total);
	return bytes <= left ? RP_OK : no_room(vk, bytes, left, total, what, err);
}

uint64_t rp_vk_allocated(const rp_vk *vk)
{
	return vk->local_bytes;
}

/* ---- free ranges of a block ---- */
static bool spans_grow(rp_vk_block *b)
{
	if (b->n_free < b->cap_free)
		return true;
	size_t cap = b->cap_free != 0 ? 2 * b->cap_free : 8;
	rp_vk_span *p = rp_grow_array(b->free_spans, cap, sizeof *p);
	if (p == NULL)
		return false;
	b->free_spans = p;
	b->cap_free = cap;
	return true;
}

/* First fit. Ranges keep to multiples of ALIGN, so offsets need no rounding. */
static bool take(rp_vk_block *b, uint64_t size, uint64_t *offset)
{
	for (size_t i = 0; i < b->n_free; i++) {
		rp_vk_span *s = &b->free_spans[i];
		if (s->size < size)
			continue;
		*offset = s->offset;
		s->offset += size;
		s->size -= size;
		if (s->size == 0)
			memmove(s, s + 1, (--b->n_free - i) * sizeof *s);
		return true;
	}
	return false;
}

/* A range goes back and joins its neighbours. Room for one more span was made when the range was taken. */
static void give(rp_vk_block *b, uint64_t offset, uint64_t size)
{
	size_t i = 0;
	while (i < b->n_free && b->free_spans[i].offset < offset)
		i++;
	rp_vk_span *s = b->free_spans;
	bool before = i > 0 && s[i - 1].offset + s[i - 1].size == offset;
	bool after = i < b->n_free && offset + size == s[i].offset;
	if (before && after) {
		s[i - 1].size += size + s[i].size;
		memmove(&s[i], &s[i + 1], (--b->n_free - i) * sizeof *s);
	} else if (before) {
		s[i - 1].size += size;
	} else if (after) {
		s[i].offset = offset;
		s[i].size += size;
	} else {
		memmove(&s[i + 1], &s[i], (b->n_free++ - i) * sizeof *s);
		s[i] = (rp_vk_span){ offset, size };
	}
}

/* ---- blocks ---- */
static void block_free(rp_vk *vk, rp_vk_block *b)
{
	if (b->memory != VK_NULL_HANDLE) {
		vk->FreeMemory(vk->device, b->memory, NULL); /* unmaps */
		if (type_has(&vk->phys, b->type, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
			vk->local_bytes -= b->size;
	}
	free(b->free_spans);
	free(b);
}

static uint64_t block_size(const rp_vk *vk, uint64_t need, uint32_t type)
{
	uint64_t size = BLOCK_FIRST;
	for (size_t i = 0; i < vk->n_blocks; i++)
		if (vk->blocks[i]->type == type && size < BLOCK_LARGEST)
			size *= 2;
	if (size > vk->phys.info.max_allocation)
		size = vk->phys.info.max_allocation;
	return need > size ? need : size;
}

static rp_code block_new(rp_vk *vk, uint64_t need, uint32_t type, const char *name, rp_vk_block **out, rp_error *err)
{
	uint64_t total, left = heap_free(vk, vk->phys.memory.memoryTypes[type].heapIndex, &total);
	if (need > left)
		return no_room(vk, need, left, total, name, err);
	uint64_t size = block_size(vk, need, type);
	if (size > left)
		size = need;
	rp_vk_block **list = rp_grow_array(vk->blocks, vk->n_blocks + 1, sizeof(rp_vk_block *));
	if (list == NULL)
		return rp_no_memory(err, sizeof *list, "the list of memory blocks");
	vk->blocks = list;
	rp_vk_block *b = rp_alloc(sizeof *b);
	if (b == NULL || !spans_grow(b)) {
		free(b);
		return rp_no_memory(err, sizeof *b, "a memory block");
	}
	b->type = type;
	b->size = size;
	VkMemoryAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = size,
		.memoryTypeIndex = type };
	VkResult r = vk->AllocateMemory(vk->device, &info, NULL, &b->memory);
	if (r != VK_SUCCESS && size > need) {
		info.allocationSize = b->size = size = need;
		r = vk->AllocateMemory(vk->device, &info, NULL, &b->memory);
	}
	if (r == VK_SUCCESS && type_has(&vk->phys, type, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
		vk->local_bytes += size;
	void *map = NULL;
	if (r == VK_SUCCESS && type_has(&vk->phys, type, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
		r = vk->MapMemory(vk->device, b->memory, 0, VK_WHOLE_SIZE, 0, &map);
	if (r != VK_SUCCESS) {
		rp_code rc = r == VK_ERROR_OUT_OF_DEVICE_MEMORY ? no_room(vk, need, left, total, name, err)
			: rp_vk_fail(vk, err, r, "cannot allocate %.1f MiB for %s", MIB(size), name);
		block_free(vk, b);
		return rc;
	}
	b->map = map;
	b->free_spans[b->n_free++] = (rp_vk_span){ 0, size };
	vk->blocks[vk->n_blocks++] = b;
	*out = b;
	return RP_OK;
}

static void block_drop(rp_vk *vk, rp_vk_block *b)
{
	for (size_t i = 0; i < vk->n_blocks; i++)
		if (vk->blocks[i] == b)
			vk->blocks[i] = vk->blocks[--vk->n_blocks];
	block_free(vk, b);
}

static rp_code place(rp_vk *vk, rp_vk_buf *b, uint64_t size, uint32_t type, rp_error *err)
{
	for (size_t i = 0; i < vk->n_blocks; i++) {
		rp_vk_block *k = vk->blocks[i];
		if (k->type == type && spans_grow(k) && take(k, size, &b->offset)) {
			b->block = k;
			break;
		}
	}
	if (b->block == NULL) {
		rp_vk_block *k = NULL;
		rp_code rc = block_new(vk, size, type, b->name, &k, err);
		if (k == NULL)
			return rc;
		take(k, size, &b->offset);
		if (!spans_grow(k)) {
			block_drop(vk, k);
			return rp_no_memory(err, sizeof(rp_vk_span), "a memory block");
		}
		b->block = k;
	}
	b->reserved = size;
	b->block->n_bufs++;
	return RP_OK;
}

static rp_code buf_make(rp_vk *vk, rp_vk_use use, rp_vk_buf *b, rp_error *err)
{
	uint32_t families[2] = { vk->phys.compute_family, vk->phys.transfer_family };
	VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = b->size,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
			VK_BUFFER_USAGE_TRANSFER_DST_BIT,
		.sharingMode = vk->two_families ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
		.queueFamilyIndexCount = vk->two_families ? 2 : 0, .pQueueFamilyIndices = families };
	VkResult r = vk->CreateBuffer(vk->device, &info, NULL, &b->handle);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot make the buffer %s of %.1f MiB", b->name, MIB(b->size));
	VkMemoryRequirements need;
	vk->GetBufferMemoryRequirements(vk->device, b->handle, &need);
	uint32_t type = rp_vk_memory_type(&vk->phys, use, vk->staged, need.memoryTypeBits);
	uint64_t size;
	if (type == UINT32_MAX)
		return rp_fail(err, RP_DRIVER, "%s has no memory type for the buffer %s", vk->phys.info.name, b->name);
	if (need.alignment > ALIGN || !rp_round_up_u64(need.size, ALIGN, &size))
		return rp_fail(err, RP_INTERNAL, "the buffer %s wants an alignment of %" PRIu64 ", at most %d is foreseen", b->name,
			(uint64_t)need.alignment, ALIGN);
	rp_code rc = place(vk, b, size, type, err);
	if (rc != RP_OK)
		return rc;
	r = vk->BindBufferMemory(vk->device, b->handle, b->block->memory, b->offset);
	return r == VK_SUCCESS ? RP_OK : rp_vk_fail(vk, err, r, "cannot bind memory to the buffer %s", b->name);
}

rp_code rp_vk_buf_new(rp_vk *vk, rp_vk_use use, uint64_t bytes, const char *name, rp_vk_buf **out, rp_error *err)
{
	rp_code rc = rp_vk_alive(vk, err);
	if (rc != RP_OK)
		return rc;
	if (bytes == 0)
		return rp_fail(err, RP_INTERNAL, "the buffer %s has no bytes", name);
	if (bytes > vk->phys.info.max_allocation)
		return rp_fail(err, RP_NO_MEMORY, "%s: the buffer %s needs %.1f MiB, the device allows %.1f MiB in one piece",
			vk->phys.info.name, name, MIB(bytes), MIB(vk->phys.info.max_allocation));
	rp_vk_buf *b = rp_alloc(sizeof *b);
	if (b == NULL)
		return rp_no_memory(err, sizeof *b, name);
	b->vk = vk;
	b->size = bytes;
	b->serial = ++vk->serial;
	b->use = use;
	snprintf(b->name, sizeof b->name, "%s", name);
	rc = buf_make(vk, use, b, err);
	if (rc == RP_OK && vk->paper != NULL)
		rc = rp_vk_paper_buf_made(vk, b, err);
	if (rc != RP_OK)
		rp_vk_buf_free(b);
	else
		*out = b;
	return rc;
}

void rp_vk_buf_free(rp_vk_buf *b)
{
	if (b == NULL)
		return;
	rp_vk *vk = b->vk;
	if (vk->paper != NULL)
		rp_vk_paper_buf_gone(vk, b);
	rp_vk_sets_drop(vk, b->serial);
	if (b->handle != VK_NULL_HANDLE)
		vk->DestroyBuffer(vk->device, b->handle, NULL);
	if (b->block != NULL) {
		give(b->block, b->offset, b->reserved);
		if (--b->block->n_bufs == 0)
			block_drop(vk, b->block);
	}
	free(b);
}

uint64_t rp_vk_buf_size(const rp_vk_buf *b)
{
	return b->size;
}

void *rp_vk_buf_map(const rp_vk_buf *b)
{
	return b->block->map != NULL ? b->block->map + b->offset : NULL;
}
