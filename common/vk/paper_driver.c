/* What stands in a driver's place on a paper device: every function of the device, doing nothing but to give out handles and, for
 * memory the host can see, addresses. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */

#include "vk/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A device's handle is its rp_vk. Others are numbers that nobody looks behind, but for memory. */
static rp_vk *of(VkDevice device)
{
	return (rp_vk *)device;
}

static uintptr_t next_handle(VkDevice device)
{
	return (uintptr_t)(atomic_fetch_add(&of(device)->paper->handles, 1) + 1);
}

typedef struct memory {
	void *map;
	size_t size;
} memory;

static VkResult allocate_memory(
	VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a, VkDeviceMemory *out)
{
	(void)device, (void)a;
	memory *m = rp_alloc(sizeof *m);
	if (m == NULL || !rp_u64_to_size(info->allocationSize, &m->size)) {
		free(m);
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	*out = (VkDeviceMemory)(uintptr_t)m;
	return VK_SUCCESS;
}

static void free_memory(VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks *a)
{
	(void)device, (void)a;
	memory *m = (memory *)(uintptr_t)handle;
	if (m->map != NULL)
		munmap(m->map, m->size);
	free(m);
}

/* Addresses without pages: a page comes when it is written, and device memory never is. */
static VkResult map_memory(
	VkDevice device, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags, void **out)
{
	(void)device, (void)offset, (void)size, (void)flags;
	memory *m = (memory *)(uintptr_t)handle;
	void *p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	*out = m->map = p;
	return VK_SUCCESS;
}

/* ---- things that are made and destroyed ---- */
#define MADE(name, Info, Handle)                                                                                                 \
	static VkResult make_##name(VkDevice device, const Info *info, const VkAllocationCallbacks *a, Handle *out)                  \
	{                                                                                                                            \
		(void)info, (void)a;                                                                                                     \
		*out = (Handle)next_handle(device);                                                                                      \
		return VK_SUCCESS;                                                                                                       \
	}                                                                                                                            \
	static void destroy_##name(VkDevice device, Handle handle, const VkAllocationCallbacks *a)                                   \
	{                                                                                                                            \
		(void)device, (void)handle, (void)a;                                                                                     \
	}

MADE(module, VkShaderModuleCreateInfo, VkShaderModule)
MADE(set_layout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
MADE(layout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
MADE(cache, VkPipelineCacheCreateInfo, VkPipelineCache)
MADE(set_pool, VkDescriptorPoolCreateInfo, VkDescriptorPool)
MADE(cmd_pool, VkCommandPoolCreateInfo, VkCommandPool)
MADE(queries, VkQueryPoolCreateInfo, VkQueryPool)
MADE(semaphore, VkSemaphoreCreateInfo, VkSemaphore)
MADE(buffer_handle, VkBufferCreateInfo, VkBuffer)

static VkResult make_buffer(VkDevice device, const VkBufferCreateInfo *info, const VkAllocationCallbacks *a, VkBuffer *out)
{
	of(device)->paper->asked = info->size;
	return make_buffer_handle(device, info, a, out);
}

/* Asked right after the buffer was made. */
static void buffer_needs(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out)
{
	(void)buffer;
	*out = (VkMemoryRequirements){ .size = of(device)->paper->asked, .alignment = 16, .memoryTypeBits = UINT32_MAX };
}

static VkResult bind_memory(VkDevice device, VkBuffer buffer, VkDeviceMemory m, VkDeviceSize offset)
{
	(void)device, (void)buffer, (void)m, (void)offset;
	return VK_SUCCESS;
}

static VkResult make_pipelines(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *info,
	const VkAllocationCallbacks *a, VkPipeline *out)
{
	(void)cache, (void)info, (void)a;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (VkPipeline)next_handle(device);
	return VK_SUCCESS;
}

static void destroy_pipeline(VkDevice device, VkPipeline p, const VkAllocationCallbacks *a)
{
	(void)device, (void)p, (void)a;
}

static VkResult cache_data(VkDevice device, VkPipelineCache cache, size_t *n, void *data)
{
	(void)device, (void)cache, (void)data;
	*n = 0;
	return VK_SUCCESS;
}

static VkResult make_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out)
{
	for (uint32_t i = 0; i < info->descriptorSetCount; i++)
		out[i] = (VkDescriptorSet)next_handle(device);
	return VK_SUCCESS;
}

static VkResult free_sets(VkDevice device, VkDescriptorPool pool, uint32_t n, const VkDescriptorSet *sets)
{
	(void)device, (void)pool, (void)n, (void)sets;
	return VK_SUCCESS;
}

static void write_sets(VkDevice device, uint32_t n, const VkWriteDescriptorSet *w, uint32_t n_copies, const VkCopyDescriptorSet *c)
{
	(void)device, (void)n, (void)w, (void)n_copies, (void)c;
}

/* ---- command buffers and queues ---- */
static VkResult make_commands(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
	for (uint32_t i = 0; i < info->commandBufferCount; i++)
		out[i] = (VkCommandBuffer)next_handle(device);
	return VK_SUCCESS;
}

static void free_commands(VkDevice device, VkCommandPool pool, uint32_t n, const VkCommandBuffer *c)
{
	(void)device, (void)pool, (void)n, (void)c;
}

static VkResult begin_commands(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
	(void)c, (void)info;
	return VK_SUCCESS;
}

static VkResult end_commands(VkCommandBuffer c)
{
	(void)c;
	return VK_SUCCESS;
}

static void get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
	(void)family, (void)index;
	*out = (VkQueue)next_handle(device);
}

static VkResult wait_idle(VkDevice device)
{
	(void)device;
	return VK_SUCCESS;
}

static VkResult submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
	(void)queue, (void)n, (void)info, (void)fence;
	return VK_SUCCESS;
}

static VkResult wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
	(void)device, (void)info, (void)timeout;
	return VK_SUCCESS;
}

static VkResult query_results(VkDevice device, VkQueryPool q, uint32_t first, uint32_t n, size_t size, void *data, VkDeviceSize stride,
	VkQueryResultFlags flags)
{
	(void)device, (void)q, (void)first, (void)n, (void)stride, (void)flags;
	memset(data, 0, size);
	return VK_SUCCESS;
}

static void destroy_device(VkDevice device, const VkAllocationCallbacks *a)
{
	(void)device, (void)a;
}

/* ---- commands: record.c keeps the list ---- */
static void bind_pipeline(VkCommandBuffer c, VkPipelineBindPoint at, VkPipeline p)
{
	(void)c, (void)at, (void)p;
}

static void bind_sets(VkCommandBuffer c, VkPipelineBindPoint at, VkPipelineLayout l, uint32_t first, uint32_t n,
	const VkDescriptorSet *sets, uint32_t n_offsets, const uint32_t *offsets)
{
	(void)c, (void)at, (void)l, (void)first, (void)n, (void)sets, (void)n_offsets, (void)offsets;
}

static void push_constants(
	VkCommandBuffer c, VkPipelineLayout l, VkShaderStageFlags stages, uint32_t offset, uint32_t size, const void *values)
{
	(void)c, (void)l, (void)stages, (void)offset, (void)size, (void)values;
}

static void dispatch(VkCommandBuffer c, uint32_t x, uint32_t y, uint32_t z)
{
	(void)c, (void)x, (void)y, (void)z;
}

static void barrier(VkCommandBuffer c, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t n,
	const VkMemoryBarrier *b, uint32_t n_buffers, const VkBufferMemoryBarrier *buffers, uint32_t n_images,
	const VkImageMemoryBarrier *images)
{
	(void)c, (void)from, (void)to, (void)flags, (void)n, (void)b, (void)n_buffers, (void)buffers, (void)n_images, (void)images;
}

static void copy_buffer(VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *regions)
{
	(void)c, (void)from, (void)to, (void)n, (void)regions;
}

static void fill_buffer(VkCommandBuffer c, VkBuffer b, VkDeviceSize offset, VkDeviceSize n, uint32_t word)
{
	(void)c, (void)b, (void)offset, (void)n, (void)word;
}

static void write_timestamp(VkCommandBuffer c, VkPipelineStageFlagBits stage, VkQueryPool q, uint32_t i)
{
	(void)c, (void)stage, (void)q, (void)i;
}

static void reset_queries(VkCommandBuffer c, VkQueryPool q, uint32_t first, uint32_t n)
{
	(void)c, (void)q, (void)first, (void)n;
}

static void fill_in_objects(rp_vk *vk)
{
	vk->AllocateMemory = allocate_memory, vk->FreeMemory = free_memory, vk->MapMemory = map_memory;
	vk->CreateBuffer = make_buffer, vk->DestroyBuffer = destroy_buffer_handle;
	vk->GetBufferMemoryRequirements = buffer_needs, vk->BindBufferMemory = bind_memory;
	vk->CreateShaderModule = make_module, vk->DestroyShaderModule = destroy_module;
	vk->CreateDescriptorSetLayout = make_set_layout, vk->DestroyDescriptorSetLayout = destroy_set_layout;
	vk->CreatePipelineLayout = make_layout, vk->DestroyPipelineLayout = destroy_layout;
	vk->CreateComputePipelines = make_pipelines, vk->DestroyPipeline = destroy_pipeline;
	vk->CreatePipelineCache = make_cache, vk->DestroyPipelineCache = destroy_cache, vk->GetPipelineCacheData = cache_data;
	vk->CreateDescriptorPool = make_set_pool, vk->DestroyDescriptorPool = destroy_set_pool;
	vk->AllocateDescriptorSets = make_sets, vk->FreeDescriptorSets = free_sets, vk->UpdateDescriptorSets = write_sets;
	vk->CreateQueryPool = make_queries, vk->DestroyQueryPool = destroy_queries, vk->GetQueryPoolResults = query_results;
	vk->CreateSemaphore = make_semaphore, vk->DestroySemaphore = destroy_semaphore;
}

void rp_vk_paper_driver(rp_vk *vk)
{
	fill_in_objects(vk);
	vk->CreateCommandPool = make_cmd_pool, vk->DestroyCommandPool = destroy_cmd_pool;
	vk->AllocateCommandBuffers = make_commands, vk->FreeCommandBuffers = free_commands;
	vk->BeginCommandBuffer = begin_commands, vk->EndCommandBuffer = end_commands;
	vk->DestroyDevice = destroy_device, vk->GetDeviceQueue = get_queue, vk->DeviceWaitIdle = wait_idle;
	vk->QueueSubmit = submit, vk->WaitSemaphores = wait_semaphores;
	vk->CmdBindPipeline = bind_pipeline, vk->CmdBindDescriptorSets = bind_sets, vk->CmdPushConstants = push_constants;
	vk->CmdDispatch = dispatch, vk->CmdPipelineBarrier = barrier;
	vk->CmdCopyBuffer = copy_buffer, vk->CmdFillBuffer = fill_buffer;
	vk->CmdWriteTimestamp = write_timestamp, vk->CmdResetQueryPool = reset_queries;
}
