/* Opening a device: the features that kernels use, its queues, and closing it again. Errors of the driver become ours here. */
#include "vk/paper.h"
#include "vk/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_code rp_vk_alive(rp_vk *vk, rp_error *err)
{
	if (!vk->lost)
		return RP_OK;
	return rp_fail(err, RP_DEVICE_LOST,
		"%s stopped answering (device lost); submitted last: %s. Start again; if it happens again, update the driver or use "
		"--device cpu", vk->phys.info.name, vk->last_work[0] != '\0' ? vk->last_work : "nothing");
}

rp_code rp_vk_fail(rp_vk *vk, rp_error *err, VkResult r, const char *what, ...)
{
	if (r == VK_ERROR_DEVICE_LOST) {
		vk->lost = true;
		return rp_vk_alive(vk, err);
	}
	char text[300];
	va_list ap;
	va_start(ap, what);
	vsnprintf(text, sizeof text, what, ap);
	va_end(ap);
	rp_code code = RP_DRIVER;
	if (r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_TOO_MANY_OBJECTS)
		code = RP_NO_MEMORY;
	else if (r == VK_ERROR_FEATURE_NOT_PRESENT || r == VK_ERROR_EXTENSION_NOT_PRESENT)
		code = RP_UNSUPPORTED;
	return rp_fail(err, code, "%s: %s: %s (%d)", vk->phys.info.name, text, rp_vk_result_name(r), (int)r);
}

const rp_vk_info *rp_vk_describe(const rp_vk *vk)
{
	return &vk->phys.info;
}

rp_code rp_vk_check(rp_vk *vk, size_t *count, rp_error *err)
{
	if (count != NULL)
		*count = vk->instance->n_messages;
	if (vk->instance->n_messages == 0)
		return RP_OK;
	return rp_fail(err, RP_INTERNAL, "%zu errors from the Vulkan validation layers; the first: %s", vk->instance->n_messages,
		vk->instance->message);
}

typedef struct wanted { /* feature structures, chained as far as the device has them */
	VkPhysicalDeviceFeatures2 all;
	VkPhysicalDeviceVulkan11Features v11;
	VkPhysicalDeviceVulkan12Features v12;
	VkPhysicalDeviceSubgroupSizeControlFeatures size;
	VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
	VkPhysicalDeviceMaintenance4Features m4;
	rp_vk_coopmat_features matrix;
	const char *extensions[8];
	uint32_t n_extensions;
} wanted;

static void want_optional(const rp_vk_phys *p, wanted *w, void **tail)
{
	uint32_t f = p->info.features;
	if (f & RP_VK_SUBGROUP_SIZE) {
		w->size = (VkPhysicalDeviceSubgroupSizeControlFeatures){
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
			.subgroupSizeControl = VK_TRUE, .computeFullSubgroups = VK_TRUE };
		*tail = &w->size, tail = &w->size.pNext;
		if (!p->core13)
			w->extensions[w->n_extensions++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
	}
	if (f & RP_VK_DOT8) {
		w->dot = (VkPhysicalDeviceShaderIntegerDotProductFeatures){
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
			.shaderIntegerDotProduct = VK_TRUE };
		*tail = &w->dot, tail = &w->dot.pNext;
		if (!p->core13)
			w->extensions[w->n_extensions++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
	}
	if (f & RP_VK_MAINTENANCE4) {
		w->m4 = (VkPhysicalDeviceMaintenance4Features){ .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
			.maintenance4 = VK_TRUE };
		*tail = &w->m4, tail = &w->m4.pNext;
		if (!p->core13)
			w->extensions[w->n_extensions++] = VK_KHR_MAINTENANCE_4_EXTENSION_NAME;
	}
	if (f & RP_VK_COOPMAT) {
		w->matrix = (rp_vk_coopmat_features){ .sType = (VkStructureType)RP_VK_COOPMAT_FEATURES, .cooperativeMatrix = VK_TRUE };
		*tail = &w->matrix;
		w->extensions[w->n_extensions++] = RP_VK_COOPMAT_NAME;
	}
	if (f & RP_VK_BUDGET)
		w->extensions[w->n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
	if (p->has_portability_subset)
		w->extensions[w->n_extensions++] = "VK_KHR_portability_subset"; /* must be enabled where it is present */
}

static VkBool32 on(const rp_vk_phys *p, uint32_t bit)
{
	return (p->info.features & bit) != 0 ? VK_TRUE : VK_FALSE;
}

static void want(const rp_vk_phys *p, wanted *w)
{
	*w = (wanted){ .all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &w->v11 },
		.v11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &w->v12 },
		.v12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES } };
	w->all.features.shaderInt16 = on(p, RP_VK_INT16);
	w->all.features.shaderInt64 = on(p, RP_VK_INT64);
	w->v11.storageBuffer16BitAccess = on(p, RP_VK_STORAGE16);
	w->v12.storageBuffer8BitAccess = on(p, RP_VK_STORAGE8);
	w->v12.shaderFloat16 = on(p, RP_VK_F16);
	w->v12.shaderInt8 = on(p, RP_VK_INT8);
	w->v12.timelineSemaphore = VK_TRUE;
	w->v12.vulkanMemoryModel = w->v12.vulkanMemoryModelDeviceScope = on(p, RP_VK_MEMORY_MODEL);
	want_optional(p, w, &w->v12.pNext);
}

static rp_code create_device(rp_vk *vk, rp_error *err)
{
	rp_vk_phys *p = &vk->phys;
	wanted w;
	want(p, &w);
	float priority = 1.0f;
	VkDeviceQueueCreateInfo queues[2];
	uint32_t families[2] = { p->compute_family, p->transfer_family };
	for (int i = 0; i < 2; i++)
		queues[i] = (VkDeviceQueueCreateInfo){ .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = families[i], .queueCount = 1, .pQueuePriorities = &priority };
	vk->two_families = p->compute_family != p->transfer_family;
	VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &w.all,
		.queueCreateInfoCount = vk->two_families ? 2 : 1, .pQueueCreateInfos = queues,
		.enabledExtensionCount = w.n_extensions, .ppEnabledExtensionNames = w.extensions };
	VkResult r = vk->instance->CreateDevice(p->handle, &info, NULL, &vk->device);
	if (r != VK_SUCCESS)
		return rp_vk_fail(vk, err, r, "cannot open the device");
#define X(fn)                                                                                                                    \
	vk->fn = (PFN_vk##fn)vk->instance->GetDeviceProcAddr(vk->device, "vk" #fn);                                               \
	if (vk->fn == NULL)                                                                                                      \
		return rp_fail(err, RP_DRIVER, "%s: its driver has no vk" #fn, p->info.name);
	RP_VK_DEVICE_FNS(X)
#undef X
	return RP_OK;
}

static rp_code open_queue(rp_vk *vk, uint32_t family, rp_vk_queue *q, rp_error *err)
{
	vk->GetDeviceQueue(vk->device, family, 0, &q->handle);
	VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, .queueFamilyIndex = family };
	VkResult r = vk->CreateCommandPool(vk->device, &pool, NULL, &q->pool);
	VkSemaphoreTypeCreateInfo type = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
	VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };
	if (r == VK_SUCCESS)
		r = vk->CreateSemaphore(vk->device, &semaphore, NULL, &q->timeline);
	return r == VK_SUCCESS ? RP_OK : rp_vk_fail(vk, err, r, "cannot make a queue");
}

static void close_queue(rp_vk *vk, rp_vk_queue *q)
{
	if (q->timeline != VK_NULL_HANDLE)
		vk->DestroySemaphore(vk->device, q->timeline, NULL);
	if (q->pool != VK_NULL_HANDLE)
		vk->DestroyCommandPool(vk->device, q->pool, NULL);
}

static void lower(uint64_t *limit, uint64_t option)
{
	if (option != 0 && option < *limit)
		*limit = option;
}

static rp_code pick(rp_vk *vk, const rp_vk_opts *opts, rp_error *err)
{
	rp_vk_phys *list = NULL;
	size_t n = 0, at = 0;
	rp_code rc = rp_vk_phys_list(vk->instance, &list, &n, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_info *infos = rp_alloc_array(n, sizeof *infos);
	if (infos == NULL)
		rc = rp_no_memory(err, n * sizeof *infos, "the list of devices");
	for (size_t i = 0; rc == RP_OK && i < n; i++)
		infos[i] = list[i].info;
	if (rc == RP_OK)
		rc = rp_vk_choose(infos, n, opts->device != NULL ? opts->device : "gpu", &at, err);
	if (rc == RP_OK)
		vk->phys = list[at];
	if (rc == RP_OK && opts->hardware && vk->phys.info.type == RP_VK_CPU)
		rc = rp_fail(
			err, RP_NO_DEVICE, "the only Vulkan device is the CPU (%s): name it with --device gpu to use it", vk->phys.info.name);
	free(infos);
	free(list);
	return rc;
}

/* What the options lower or leave out. */
static void adapt(rp_vk *vk, const rp_vk_opts *opts)
{
	rp_vk_info *f = &vk->phys.info;
	f->features &= ~opts->features_off;
	if (!(f->features & RP_VK_MEMORY_MODEL))
		f->features &= ~(uint32_t)RP_VK_COOPMAT;
	if (!(f->features & RP_VK_COOPMAT))
		f->n_matrices = 0;
	if (!(f->features & RP_VK_TRANSFER_QUEUE))
		vk->phys.transfer_family = vk->phys.compute_family;
	lower(&f->max_binding, opts->max_binding);
	lower(&f->max_allocation, opts->max_allocation);
	vk->max_memory = opts->max_memory;
	vk->staged = opts->staged || !(f->features & RP_VK_HOST_LOCAL);
}

static rp_code open_queues(rp_vk *vk, rp_error *err)
{
	rp_code rc = open_queue(vk, vk->phys.compute_family, &vk->compute, err);
	return rc == RP_OK ? open_queue(vk, vk->phys.transfer_family, &vk->transfer, err) : rc;
}

static rp_code open_on(rp_vk *vk, const rp_vk_opts *opts, rp_error *err)
{
	rp_code rc = rp_vk_instance_get(opts->validate, &vk->instance, err);
	if (rc == RP_OK)
		rc = pick(vk, opts, err);
	if (rc != RP_OK)
		return rc;
	vk->validate = opts->validate;
	adapt(vk, opts);
	rc = create_device(vk, err);
	if (rc == RP_OK)
		rc = open_queues(vk, err);
	if (rc == RP_OK)
		rp_vk_cache_open(vk, opts->cache_dir, opts->cache_tag);
	return rc;
}

rp_code rp_vk_open(const rp_vk_opts *opts, rp_vk **out, rp_error *err)
{
	static const rp_vk_opts defaults = { 0 };
	rp_vk *vk = rp_alloc(sizeof *vk);
	if (vk == NULL)
		return rp_no_memory(err, sizeof *vk, "a device");
	rp_code rc = open_on(vk, opts != NULL ? opts : &defaults, err);
	if (rc != RP_OK)
		rp_vk_close(vk);
	else
		*out = vk;
	return rc;
}

rp_code rp_vk_open_paper(const rp_vk_info *facts, const rp_vk_opts *opts, rp_vk **out, rp_error *err)
{
	static const rp_vk_opts defaults = { 0 };
	rp_code rc = rp_vk_paper_check(facts, err);
	if (rc != RP_OK)
		return rc;
	rp_vk *vk = rp_alloc(sizeof *vk);
	rp_vk_paper *paper = rp_alloc(sizeof *paper);
	if (vk == NULL || paper == NULL) {
		free(vk);
		free(paper);
		return rp_no_memory(err, sizeof *vk, "a device");
	}
	vk->paper = paper;
	vk->instance = &paper->instance;
	vk->device = (VkDevice)vk;
	rp_vk_paper_driver(vk);
	rp_vk_paper_facts(vk, facts);
	adapt(vk, opts != NULL ? opts : &defaults);
	rc = open_queues(vk, err);
	if (rc != RP_OK)
		rp_vk_close(vk);
	else
		*out = vk;
	return rc;
}

atomic_size_t rp_vk_closing_messages;

void rp_vk_close(rp_vk *vk)
{
	if (vk == NULL)
		return;
	rp_vk_compiler_close(vk);
	if (vk->device != VK_NULL_HANDLE && vk->DestroyDevice != NULL) {
		if (vk->DeviceWaitIdle != NULL)
			vk->DeviceWaitIdle(vk->device);
		rp_vk_memory_close(vk);
		rp_vk_sets_close(vk);
		rp_vk_cache_close(vk);
		rp_vk_pipelines_close(vk);
		close_queue(vk, &vk->compute);
		close_queue(vk, &vk->transfer);
		size_t before = vk->instance->n_messages;
		vk->DestroyDevice(vk->device, NULL);
		rp_vk_closing_messages += vk->instance->n_messages - before;
	}
	if (vk->paper != NULL)
		rp_vk_paper_close(vk);
	else
		rp_vk_instance_put(vk->instance);
	free(vk->cache_path);
	free(vk);
}
