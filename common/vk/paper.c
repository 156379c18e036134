/* The paper device: its facts, and the list of what was done on it. */
#include "vk/paper.h"
#include "vk/private.h"

#include <stdlib.h>
#include <string.h>

/* ---- facts ---- */
static bool power_of_two(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* What a device must have for the code above not to divide by zero or to look past an array; by the names of the description. */
rp_code rp_vk_paper_check(const rp_vk_info *f, rp_error *err)
{
	const struct {
		const char *field, *expected;
		bool ok;
	} rules[] = {
		{ "name", "a text", f->name[0] != '\0' },
		{ "heaps", "a list of 1 to 16", f->n_heaps >= 1 && f->n_heaps <= RP_VK_MAX_HEAPS },
		{ "memory_types", "a list of 1 to 32", f->n_types >= 1 && f->n_types <= RP_VK_MAX_TYPES },
		{ "limits.max_binding", "a number of at least 65536", f->max_binding >= 65536 },
		{ "limits.max_allocation", "a number of at least 65536", f->max_allocation >= 65536 },
		{ "limits.align_binding", "a power of two from 16 to 4096", power_of_two(f->align_binding) && f->align_binding >= 16 &&
			f->align_binding <= 4096 },
		{ "limits.max_buffers", "a number above 0", f->max_buffers != 0 },
		{ "limits.max_workgroup", "a number above 0", f->max_workgroup != 0 },
		{ "limits.max_workgroup_size", "three numbers above 0", f->max_workgroup_size[0] != 0 && f->max_workgroup_size[1] != 0 &&
			f->max_workgroup_size[2] != 0 },
		{ "limits.max_groups", "three numbers above 0", f->max_groups[0] != 0 && f->max_groups[1] != 0 && f->max_groups[2] != 0 },
		{ "subgroup.size", "a power of two up to 128", power_of_two(f->subgroup_size) && f->subgroup_size <= 128 },
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!rules[i].ok)
			return rp_fail(err, RP_FORMAT, "device %s: %s is not %s", f->name, rules[i].field, rules[i].expected);
	for (uint32_t i = 0; i < f->n_types; i++)
		if (f->types[i].heap >= f->n_heaps)
			return rp_fail(err, RP_FORMAT, "device %s: memory_types[%u].heap is %u, there are %u heaps", f->name, i, f->types[i].heap,
				f->n_heaps);
	return RP_OK;
}

void rp_vk_paper_facts(rp_vk *vk, const rp_vk_info *facts)
{
	VkPhysicalDeviceMemoryProperties *m = &vk->phys.memory;
	vk->phys.info = *facts;
	vk->phys.transfer_family = facts->features & RP_VK_TRANSFER_QUEUE ? 1 : 0;
	vk->two_families = vk->phys.transfer_family != 0;
	m->memoryHeapCount = facts->n_heaps;
	m->memoryTypeCount = facts->n_types;
	for (uint32_t i = 0; i < facts->n_heaps; i++) {
		rp_vk_heap *h = &vk->phys.info.heaps[i];
		*h = (rp_vk_heap){ .size = h->size, .budget = h->size, .local = h->local };
		m->memoryHeaps[i] = (VkMemoryHeap){ h->size, h->local ? VK_MEMORY_HEAP_DEVICE_LOCAL_BIT : 0 };
	}
	for (uint32_t i = 0; i < facts->n_types; i++)
		m->memoryTypes[i] = (VkMemoryType){ facts->types[i].flags, facts->types[i].heap };
}

bool rp_vk_on_paper(const rp_vk *vk)
{
	return vk->paper != NULL;
}

void rp_vk_paper_close(rp_vk *vk)
{
	free(vk->paper->submitted.v);
	free(vk->paper->bufs);
	free(vk->paper);
	vk->paper = NULL;
}

/* ---- work ---- */
rp_vk_work *rp_vk_paper_add(rp_vk_paper_list *l, rp_error *err)
{
	if (l->n == l->cap) {
		size_t cap = l->cap != 0 ? 2 * l->cap : 64;
		rp_vk_work *v = rp_grow_array(l->v, cap, sizeof *v);
		if (v == NULL) {
			rp_no_memory(err, cap * sizeof *v, "the list of work");
			return NULL;
		}
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n] = (rp_vk_work){ .note.layer = -1 };
	return &l->v[l->n++];
}

rp_code rp_vk_paper_submit(rp_vk *vk, const rp_vk_paper_list *l, const char *recording, rp_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		rp_vk_work *w = rp_vk_paper_add(&vk->paper->submitted, err);
		if (w == NULL)
			return RP_NO_MEMORY;
		*w = l->v[i];
		strncpy(w->recording, recording, sizeof w->recording - 1);
	}
	return RP_OK;
}

const rp_vk_work *rp_vk_paper_work(const rp_vk *vk, size_t *n)
{
	*n = vk->paper->submitted.n;
	return vk->paper->submitted.v;
}

void rp_vk_paper_forget(rp_vk *vk)
{
	vk->paper->submitted.n = 0;
}

const uint32_t *rp_vk_pipeline_values(const rp_vk_pipeline *p)
{
	return p->values;
}

const uint32_t *rp_vk_pipeline_workgroup(const rp_vk_pipeline *p)
{
	return p->workgroup;
}

uint32_t rp_vk_pipeline_subgroup(const rp_vk_pipeline *p)
{
	return p->subgroup_size;
}

/* ---- memory ---- */
rp_code rp_vk_paper_buf_made(rp_vk *vk, rp_vk_buf *b, rp_error *err)
{
	rp_vk_paper *p = vk->paper;
	if (p->n_bufs == p->cap_bufs) {
		size_t cap = p->cap_bufs != 0 ? 2 * p->cap_bufs : 64;
		rp_vk_paper_buf *v = rp_grow_array(p->bufs, cap, sizeof *v);
		if (v == NULL)
			return rp_no_memory(err, cap * sizeof *v, "the list of buffers");
		p->bufs = v;
		p->cap_bufs = cap;
	}
	p->bufs[p->n_bufs++] = (rp_vk_paper_buf){ b, b->name, vk->phys.memory.memoryTypes[b->block->type].heapIndex, b->size };
	return RP_OK;
}

void rp_vk_paper_buf_gone(rp_vk *vk, const rp_vk_buf *b)
{
	rp_vk_paper *p = vk->paper;
	size_t i = p->n_bufs; /* those made last go first */
	while (i > 0 && p->bufs[i - 1].buf != b)
		i--;
	if (i > 0)
		memmove(&p->bufs[i - 1], &p->bufs[i], (p->n_bufs-- - i) * sizeof *p->bufs);
}

const rp_vk_paper_buf *rp_vk_paper_bufs(const rp_vk *vk, size_t *n)
{
	*n = vk->paper->n_bufs;
	return vk->paper->bufs;
}

uint64_t rp_vk_paper_heap(const rp_vk *vk, uint32_t heap)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < vk->n_blocks; i++)
		if (vk->phys.memory.memoryTypes[vk->blocks[i]->type].heapIndex == heap)
			bytes += vk->blocks[i]->size;
	return bytes;
}
