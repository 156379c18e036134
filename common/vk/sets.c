/* Descriptor sets: written once for a kernel and the ranges bound, found again by them, dropped with their buffers.
 *
 * The key holds buffer serials, not handles: a freed handle may come back as another buffer. */
#include "vk/private.h"

#include <stdlib.h>
#include <string.h>

enum { SETS_A_POOL = 256, STORAGE_A_SET = 8 };

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ h >> 29;
}

static size_t bucket(const rp_vk_module *m, const rp_vk_range *r, uint32_t n)
{
	uint64_t h = mix(1, (uint64_t)(uintptr_t)m);
	for (uint32_t i = 0; i < n; i++)
		h = mix(mix(mix(h, r[i].serial), r[i].offset), r[i].size);
	return (size_t)(h % RP_VK_SET_BUCKETS);
}

static bool same(const rp_vk_set *s, const rp_vk_module *m, const rp_vk_range *r, uint32_t n)
{
	if (s->module != m || s->n != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (s->ranges[i].serial != r[i].serial || s->ranges[i].offset != r[i].offset || s->ranges[i].size != r[i].size)
			return false;
	return true;
}

static rp_code pool_new(rp_vk *vk, rp_error *err)
{
	rp_vk_set_pool *p = rp_alloc(sizeof *p);
	if (p == NULL)
		return rp_no_memory(err, sizeof *p, "descriptor sets");
	VkDescriptorPoolSize sizes[2] = { { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_A_POOL * STORAGE_A_SET },
		{ VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, SETS_A_POOL } };
	VkDescriptorPoolCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT,
		.maxSets = SETS_A_POOL,
		.poolSizeCount = 2,
		.pPoolSizes = sizes };
	VkResult r = vk->CreateDescriptorPool(vk->device, &info, NULL, &p->handle);
	if (r != VK_SUCCESS) {
		free(p);
		return rp_vk_fail(vk, err, r, "cannot make a pool of descriptor sets");
	}
	p->next = vk->set_pools;
	vk->set_pools = p;
	return RP_OK;
}

/* Old pools may have room again; a pool that says no (its descriptors are used up or scattered) is passed over. */
static rp_code allocate(rp_vk *vk, rp_vk_set *s, rp_error *err)
{
	VkDescriptorSetAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorSetCount = 1,
		.pSetLayouts = &s->module->set_layout };
	for (int round = 0; round < 2; round++) {
		for (rp_vk_set_pool *p = vk->set_pools; p != NULL; p = p->next) {
			if (p->live == SETS_A_POOL)
				continue;
			info.descriptorPool = p->handle;
			VkResult r = vk->AllocateDescriptorSets(vk->device, &info, &s->handle);
			if (r == VK_SUCCESS) {
				s->pool = p;
				p->live++;
				return RP_OK;
			}
			if (r != VK_ERROR_OUT_OF_POOL_MEMORY && r != VK_ERROR_FRAGMENTED_POOL)
				return rp_vk_fail(vk, err, r, "cannot make a descriptor set for %s", s->module->kernel->name);
		}
		rp_code rc = round == 0 ? pool_new(vk, err) : RP_OK;
		if (rc != RP_OK)
			return rc;
	}
	return rp_fail(err, RP_INTERNAL, "an empty pool has no room for the descriptor set of %s", s->module->kernel->name);
}

static void write_set(rp_vk *vk, const rp_vk_set *s, const rp_vk_bind *binds)
{
	const rp_kernel *k = s->module->kernel;
	VkDescriptorBufferInfo infos[RP_VK_MAX_BINDINGS];
	VkWriteDescriptorSet writes[RP_VK_MAX_BINDINGS];
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t b = k->bindings[i].binding;
		infos[i] = (VkDescriptorBufferInfo){ .buffer = binds[b].buf->handle, .offset = s->ranges[i].offset,
			.range = s->ranges[i].size };
		writes[i] = (VkWriteDescriptorSet){ .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = s->handle, .dstBinding = b,
			.descriptorCount = 1, .pBufferInfo = &infos[i],
			.descriptorType = k->bindings[i].uniform ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER };
	}
	vk->UpdateDescriptorSets(vk->device, s->n, writes, 0, NULL);
}

/* binds[b] for every binding b of the kernel, checked by the caller, sizes filled in. */
rp_code rp_vk_set_get(rp_vk *vk, const rp_vk_module *m, const rp_vk_bind *binds, VkDescriptorSet *out, rp_error *err)
{
	rp_vk_range ranges[RP_VK_MAX_BINDINGS] = { { 0 } };
	const rp_kernel *k = m->kernel;
	for (uint32_t i = 0; i < k->n_bindings; i++) {
		const rp_vk_bind *b = &binds[k->bindings[i].binding];
		ranges[i] = (rp_vk_range){ b->buf->serial, b->offset, b->size };
	}
	size_t at = bucket(m, ranges, k->n_bindings);
	for (rp_vk_set *s = vk->sets[at]; s != NULL; s = s->next)
		if (same(s, m, ranges, k->n_bindings)) {
			*out = s->handle;
			return RP_OK;
		}
	rp_vk_set *s = rp_alloc(sizeof *s);
	if (s == NULL)
		return rp_no_memory(err, sizeof *s, "a descriptor set");
	s->module = m;
	s->n = k->n_bindings;
	memcpy(s->ranges, ranges, sizeof ranges);
	rp_code rc = allocate(vk, s, err);
	if (rc != RP_OK) {
		free(s);
		return rc;
	}
	write_set(vk, s, binds);
	s->next = vk->sets[at];
	vk->sets[at] = s;
	*out = s->handle;
	return RP_OK;
}

static bool holds(const rp_vk_set *s, uint64_t serial)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->ranges[i].serial == serial)
			return true;
	return false;
}

void rp_vk_sets_drop(rp_vk *vk, uint64_t serial)
{
	for (size_t i = 0; i < RP_VK_SET_BUCKETS; i++)
		for (rp_vk_set **link = &vk->sets[i]; *link != NULL;) {
			rp_vk_set *s = *link;
			if (!holds(s, serial)) {
				link = &s->next;
				continue;
			}
			*link = s->next;
			vk->FreeDescriptorSets(vk->device, s->pool->handle, 1, &s->handle);
			s->pool->live--;
			free(s);
		}
}

void rp_vk_sets_close(rp_vk *vk)
{
	for (size_t i = 0; i < RP_VK_SET_BUCKETS; i++)
		while (vk->sets[i] != NULL) {
			rp_vk_set *s = vk->sets[i];
			vk->sets[i] = s->next;
			free(s);
		}
	while (vk->set_pools != NULL) {
		rp_vk_set_pool *p = vk->set_pools;
		vk->set_pools = p->next;
		vk->DestroyDescriptorPool(vk->device, p->handle, NULL);
		free(p);
	}
}
