/* What each physical device is and can do, as plain facts. */
#include "vk/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Debian 12's headers (1.3.239) are older than this extension; only its name is needed to list it. */
#define COOPMAT2_NV "VK_NV_cooperative_matrix2"
#define PORTABILITY_SUBSET "VK_KHR_portability_subset"

const char *rp_vk_type_name(rp_vk_type t)
{
	static const char *const names[] = { "discrete", "integrated", "virtual", "cpu", "other" };
	return (unsigned)t < sizeof names / sizeof *names ? names[t] : "other";
}

const char *rp_vk_feature_name(unsigned bit)
{
	static const char *const names[] = {
#define X(name, text) text,
		RP_VK_FEATURES(X)
#undef X
	};
	return bit < RP_VK_N_FEATURES ? names[bit] : "unknown";
}

static rp_vk_type type_of(VkPhysicalDeviceType t)
{
	switch (t) {
	case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
		return RP_VK_DISCRETE;
	case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
		return RP_VK_INTEGRATED;
	case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
		return RP_VK_VIRTUAL;
	case VK_PHYSICAL_DEVICE_TYPE_CPU:
		return RP_VK_CPU;
	default:
		return RP_VK_OTHER;
	}
}

typedef struct extensions {
	VkExtensionProperties *list;
	uint32_t n;
} extensions;

static bool has(const extensions *e, const char *name)
{
	for (uint32_t i = 0; i < e->n; i++)
		if (strcmp(e->list[i].extensionName, name) == 0)
			return true;
	return false;
}

static rp_code read_extensions(rp_vk_instance *in, VkPhysicalDevice d, extensions *e, rp_error *err)
{
	*e = (extensions){ 0 };
	uint32_t n = 0;
	if (in->EnumerateDeviceExtensionProperties(d, NULL, &n, NULL) < 0 || n == 0)
		return RP_OK;
	e->list = rp_alloc_array(n, sizeof *e->list);
	if (e->list == NULL)
		return rp_no_memory(err, n * sizeof *e->list, "the list of device extensions");
	if (in->EnumerateDeviceExtensionProperties(d, NULL, &n, e->list) >= 0)
		e->n = n;
	return RP_OK;
}

/* A CPU device's memory is the system's, whatever it says: older lavapipe always says 2 GiB, and allocates more all the same. */
static uint64_t system_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

void rp_vk_phys_heaps(rp_vk_instance *in, rp_vk_phys *p)
{
	VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = { .sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT };
	VkPhysicalDeviceMemoryProperties2 m = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2 };
	bool known = (p->info.features & RP_VK_BUDGET) != 0;
	if (known)
		m.pNext = &budget;
	in->GetPhysicalDeviceMemoryProperties2(p->handle, &m);
	p->memory = m.memoryProperties;
	p->info.n_heaps = p->memory.memoryHeapCount;
	for (uint32_t i = 0; i < p->info.n_heaps && i < RP_VK_MAX_HEAPS; i++) {
		rp_vk_heap *h = &p->info.heaps[i];
		h->size = p->memory.memoryHeaps[i].size;
		h->local = (p->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
		if (p->info.type == RP_VK_CPU && h->size < system_bytes())
			h->size = system_bytes();
		h->budget = known && budget.heapBudget[i] != 0 ? budget.heapBudget[i] : h->size;
		h->used = known ? budget.heapUsage[i] : 0;
	}
	p->info.n_types = p->memory.memoryTypeCount;
	for (uint32_t i = 0; i < p->info.n_types && i < RP_VK_MAX_TYPES; i++)
		p->info.types[i] = (rp_vk_memory){ p->memory.memoryTypes[i].heapIndex, p->memory.memoryTypes[i].propertyFlags };
}

static void read_limits(rp_vk_phys *p, const VkPhysicalDeviceLimits *l, uint64_t max_allocation, uint64_t max_buffer)
{
	rp_vk_info *f = &p->info;
	f->max_binding = l->maxStorageBufferRange;
	f->max_uniform = l->maxUniformBufferRange;
	f->max_allocation = max_allocation < max_buffer ? max_allocation : max_buffer;
	f->align_binding = l->minStorageBufferOffsetAlignment > l->minUniformBufferOffsetAlignment ?
		l->minStorageBufferOffsetAlignment : l->minUniformBufferOffsetAlignment;
	if (f->align_binding < 16)
		f->align_binding = 16; /* 16-byte loads are the widest kernels use */
	f->max_push = l->maxPushConstantsSize;
	f->max_shared = l->maxComputeSharedMemorySize;
	f->max_buffers = l->maxPerStageDescriptorStorageBuffers;
	if (f->max_buffers > l->maxPerStageResources)
		f->max_buffers = l->maxPerStageResources;
	f->max_workgroup = l->maxComputeWorkGroupInvocations;
	memcpy(f->max_workgroup_size, l->maxComputeWorkGroupSize, sizeof f->max_workgroup_size);
	memcpy(f->max_groups, l->maxComputeWorkGroupCount, sizeof f->max_groups);
	f->timestamp_ns = l->timestampPeriod;
}

/* Compute on a family without graphics where there is one (it does not wait behind a desktop); copies on one that only copies. */
static bool choose_families(rp_vk_instance *in, rp_vk_phys *p)
{
	VkQueueFamilyProperties q[32];
	uint32_t n = sizeof q / sizeof *q;
	in->GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, q);
	p->compute_family = p->transfer_family = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++) {
		if (q[i].queueCount == 0)
			continue;
		VkQueueFlags f = q[i].queueFlags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_TRANSFER_BIT);
		bool better = p->compute_family == UINT32_MAX ||
			((f & VK_QUEUE_GRAPHICS_BIT) == 0 && (q[p->compute_family].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0);
		if ((f & VK_QUEUE_COMPUTE_BIT) != 0 && better)
			p->compute_family = i;
		if (f == VK_QUEUE_TRANSFER_BIT && p->transfer_family == UINT32_MAX)
			p->transfer_family = i;
	}
	if (p->compute_family == UINT32_MAX)
		return false;
	p->info.timestamp_bits = q[p->compute_family].timestampValidBits;
	if (p->transfer_family == UINT32_MAX)
		p->transfer_family = p->compute_family;
	else
		p->info.features |= RP_VK_TRANSFER_QUEUE;
	return true;
}

enum { SUBGROUP_NEED = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT |
	VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT };

static void set_feature(rp_vk_phys *p, bool on, uint32_t bit)
{
	if (on)
		p->info.features |= bit;
}

static void read_properties(rp_vk_instance *in, rp_vk_phys *p, const extensions *e)
{
	VkPhysicalDeviceShaderIntegerDotProductProperties dot = { .sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES };
	VkPhysicalDeviceSubgroupSizeControlProperties size = { .sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES };
	VkPhysicalDeviceMaintenance4Properties m4 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES };
	VkPhysicalDeviceVulkan11Properties v11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES };
	VkPhysicalDeviceDriverProperties driver = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES };
	VkPhysicalDeviceProperties2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver };
	driver.pNext = &v11;
	void **tail = &v11.pNext;
	p->ext_dot = p->core13 || has(e, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
	p->ext_subgroup_size = p->core13 || has(e, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
	p->ext_maintenance4 = p->core13 || has(e, VK_KHR_MAINTENANCE_4_EXTENSION_NAME);
	if (p->ext_dot)
		*tail = &dot, tail = &dot.pNext;
	if (p->ext_subgroup_size)
		*tail = &size, tail = &size.pNext;
	if (p->ext_maintenance4)
		*tail = &m4;
	in->GetPhysicalDeviceProperties2(p->handle, &all);

	rp_vk_info *f = &p->info;
	snprintf(f->driver, sizeof f->driver, "%s", driver.driverName);
	snprintf(f->driver_info, sizeof f->driver_info, "%s", driver.driverInfo);
	read_limits(p, &all.properties.limits, v11.maxMemoryAllocationSize, p->ext_maintenance4 ? m4.maxBufferSize : UINT64_MAX);
	f->subgroup_size = f->subgroup_min = f->subgroup_max = v11.subgroupSize;
	f->subgroup_ops = v11.subgroupSupportedOperations;
	f->subgroup_stages = v11.subgroupSupportedStages;
	bool compute = (f->subgroup_stages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
	set_feature(p, compute && (f->subgroup_ops & SUBGROUP_NEED) == SUBGROUP_NEED, RP_VK_SUBGROUPS);
	if (p->ext_subgroup_size && (size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
		f->subgroup_min = size.minSubgroupSize;
		f->subgroup_max = size.maxSubgroupSize;
		f->max_subgroups = size.maxComputeWorkgroupSubgroups;
	} else {
		p->ext_subgroup_size = false;
	}
	set_feature(p, p->ext_dot && dot.integerDotProduct4x8BitPackedSignedAccelerated, RP_VK_DOT8_FAST);
}

static void read_features(rp_vk_instance *in, rp_vk_phys *p, const extensions *e)
{
	rp_vk_coopmat_features matrix = { .sType = (VkStructureType)RP_VK_COOPMAT_FEATURES };
	VkPhysicalDeviceShaderIntegerDotProductFeatures dot = { .sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES };
	VkPhysicalDeviceSubgroupSizeControlFeatures size = { .sType =
		VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES };
	VkPhysicalDeviceMaintenance4Features m4 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES };
	VkPhysicalDeviceVulkan12Features v12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES };
	VkPhysicalDeviceVulkan11Features v11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &v12 };
	VkPhysicalDeviceFeatures2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11 };
	void **tail = &v12.pNext;
	if (p->ext_dot)
		*tail = &dot, tail = &dot.pNext;
	if (p->ext_subgroup_size)
		*tail = &size, tail = &size.pNext;
	if (p->ext_maintenance4)
		*tail = &m4, tail = &m4.pNext;
	if (has(e, RP_VK_COOPMAT_NAME))
		*tail = &matrix;
	in->GetPhysicalDeviceFeatures2(p->handle, &all);
	set_feature(p, v12.shaderFloat16, RP_VK_F16);
	set_feature(p, v12.shaderInt8, RP_VK_INT8);
	set_feature(p, all.features.shaderInt16, RP_VK_INT16);
	set_feature(p, all.features.shaderInt64, RP_VK_INT64);
	set_feature(p, v11.storageBuffer16BitAccess, RP_VK_STORAGE16);
	set_feature(p, v12.storageBuffer8BitAccess, RP_VK_STORAGE8);
	set_feature(p, p->ext_subgroup_size && size.subgroupSizeControl && size.computeFullSubgroups, RP_VK_SUBGROUP_SIZE);
	set_feature(p, p->ext_dot && dot.shaderIntegerDotProduct, RP_VK_DOT8);
	set_feature(p, v12.vulkanMemoryModel && v12.vulkanMemoryModelDeviceScope, RP_VK_MEMORY_MODEL);
	set_feature(p, p->ext_maintenance4 && m4.maintenance4, RP_VK_MAINTENANCE4);
	/* modules that use matrices declare the Vulkan memory model */
	set_feature(p, matrix.cooperativeMatrix && v12.vulkanMemoryModel && v12.vulkanMemoryModelDeviceScope, RP_VK_COOPMAT);
	if (!v12.timelineSemaphore && p->info.why_not[0] == '\0')
		snprintf(p->info.why_not, sizeof p->info.why_not, "it has no timeline semaphores");
}

/* Device memory the host can write is worth using only when all of it is such: a small window (256 MiB) fills at once. */
static bool host_reaches_local(const VkPhysicalDeviceMemoryProperties *m)
{
	uint64_t all = 0, reached = 0;
	for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
		VkMemoryPropertyFlags f = m->memoryTypes[i].propertyFlags;
		uint64_t size = m->memoryHeaps[m->memoryTypes[i].heapIndex].size;
		VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
		if ((f & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) == 0)
			continue;
		all = size > all ? size : all;
		if ((f & host) == host && size > reached)
			reached = size;
	}
	return all != 0 && reached == all;
}

static rp_code read_device(rp_vk_instance *in, VkPhysicalDevice d, uint32_t index, rp_vk_phys *p, rp_error *err)
{
	VkPhysicalDeviceProperties props;
	in->GetPhysicalDeviceProperties(d, &props);
	*p = (rp_vk_phys){ .handle = d };
	rp_vk_info *f = &p->info;
	f->index = index;
	snprintf(f->name, sizeof f->name, "%s", props.deviceName);
	f->type = type_of(props.deviceType);
	f->api_major = VK_API_VERSION_MAJOR(props.apiVersion);
	f->api_minor = VK_API_VERSION_MINOR(props.apiVersion);
	f->api_patch = VK_API_VERSION_PATCH(props.apiVersion);
	f->vendor_id = props.vendorID;
	f->device_id = props.deviceID;
	f->driver_version = props.driverVersion;
	memcpy(f->cache_uuid, props.pipelineCacheUUID, sizeof f->cache_uuid);
	if (props.apiVersion < VK_API_VERSION_1_2) {
		snprintf(f->why_not, sizeof f->why_not, "its driver has Vulkan %u.%u, 1.2 is needed", f->api_major, f->api_minor);
		rp_vk_phys_heaps(in, p);
		return RP_OK;
	}
	p->core13 = props.apiVersion >= VK_API_VERSION_1_3;
	extensions e;
	rp_code rc = read_extensions(in, d, &e, err);
	if (rc != RP_OK)
		return rc;
	p->has_portability_subset = has(&e, PORTABILITY_SUBSET);
	read_properties(in, p, &e);
	read_features(in, p, &e);
	if (f->features & RP_VK_COOPMAT)
		rp_vk_phys_matrices(in, p);
	set_feature(p, has(&e, COOPMAT2_NV), RP_VK_COOPMAT2);
	set_feature(p, has(&e, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME), RP_VK_BUDGET);
	free(e.list);
	rp_vk_phys_heaps(in, p);
	set_feature(p, host_reaches_local(&p->memory), RP_VK_HOST_LOCAL);
	if (!choose_families(in, p))
		snprintf(f->why_not, sizeof f->why_not, "it has no compute queue");
	f->usable = f->why_not[0] == '\0';
	return RP_OK;
}

rp_code rp_vk_phys_list(rp_vk_instance *in, rp_vk_phys **out, size_t *n, rp_error *err)
{
	uint32_t count = 0;
	VkResult r = in->EnumeratePhysicalDevices(in->handle, &count, NULL);
	if (r < 0 && r != VK_ERROR_INITIALIZATION_FAILED) /* which is the loader's word for none */
		return rp_fail(err, RP_DRIVER, "the Vulkan devices cannot be listed: %s (%d)", rp_vk_result_name(r), (int)r);
	if (r < 0 || count == 0)
		return rp_fail(err, RP_NO_DEVICE,
			"Vulkan is installed but no driver found a device (apt install mesa-vulkan-drivers adds "
			"one that runs on the CPU); --device cpu needs none");
	VkPhysicalDevice *d = rp_alloc_array(count, sizeof *d);
	rp_vk_phys *list = rp_alloc_array(count, sizeof *list);
	rp_code rc = RP_OK;
	if (d == NULL || list == NULL)
		rc = rp_no_memory(err, count * sizeof *list, "the list of devices");
	else if (in->EnumeratePhysicalDevices(in->handle, &count, d) < 0)
		rc = rp_fail(err, RP_DRIVER, "the Vulkan devices cannot be listed");
	for (uint32_t i = 0; rc == RP_OK && i < count; i++)
		rc = read_device(in, d[i], i, &list[i], err);
	free(d);
	if (rc != RP_OK) {
		free(list);
		return rc;
	}
	*out = list;
	*n = count;
	return RP_OK;
}

rp_code rp_vk_devices(rp_vk_info **out, size_t *n, rp_error *err)
{
	rp_vk_instance *in = NULL;
	rp_vk_phys *list = NULL;
	size_t count = 0;
	rp_code rc = rp_vk_instance_get(false, &in, err);
	if (rc != RP_OK)
		return rc;
	rc = rp_vk_phys_list(in, &list, &count, err);
	rp_vk_instance_put(in);
	if (rc != RP_OK)
		return rc;
	rp_vk_info *infos = rp_alloc_array(count, sizeof *infos);
	if (infos == NULL)
		rc = rp_no_memory(err, count * sizeof *infos, "the list of devices");
	for (size_t i = 0; rc == RP_OK && i < count; i++)
		infos[i] = list[i].info;
	free(list);
	if (rc == RP_OK) {
		*out = infos;
		*n = count;
	}
	return rc;
}

static uint64_t local_memory(const rp_vk_info *f)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < f->n_heaps; i++)
		if (f->heaps[i].local && f->heaps[i].size > most)
			most = f->heaps[i].size;
	return most;
}

static bool better(const rp_vk_info *a, const rp_vk_info *b)
{
	return a->type != b->type ? a->type < b->type : local_memory(a) > local_memory(b);
}

rp_code rp_vk_choose(const rp_vk_info *list, size_t n, const char *selector, size_t *at, rp_error *err)
{
	if (strcmp(selector, "gpu") == 0) {
		size_t best = n;
		for (size_t i = 0; i < n; i++)
			if (list[i].usable && (best == n || better(&list[i], &list[best])))
				best = i;
		if (best == n)
			return rp_fail(err, RP_NO_DEVICE, "none of the %zu Vulkan devices is usable: %s: %s", n,
				n > 0 ? list[0].name : "none", n > 0 ? list[0].why_not : "install a driver");
		*at = best;
		return RP_OK;
	}
	size_t digits = strspn(selector, "0123456789");
	if (digits == 0 || digits > 4 || selector[digits] != '\0')
		return rp_fail(err, RP_USAGE, "--device %s: expected gpu, cpu, or a device number (see --list-devices)", selector);
	size_t i = (size_t)strtoul(selector, NULL, 10);
	if (i >= n)
		return rp_fail(
			err, RP_NO_DEVICE, "--device %zu: there are %zu Vulkan devices, numbered from 0 (see --list-devices)", i, n);
	if (!list[i].usable)
		return rp_fail(err, RP_NO_DEVICE, "--device %zu (%s) cannot be used: %s", i, list[i].name, list[i].why_not);
	*at = i;
	return RP_OK;
}
