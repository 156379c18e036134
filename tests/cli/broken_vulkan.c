/* A Vulkan loader for tests: it has one discrete GPU, and one call that fails. Put in front of the real libvulkan.so.1 by
 * LD_LIBRARY_PATH. BROKEN_CALL names the call (CreateInstance, EnumeratePhysicalDevices, CreateDevice), BROKEN_RESULT is the
 * VkResult it gives, a number. Devices cannot be opened in any case. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

static VkResult result_of(const char *call)
{
	const char *broken = getenv("BROKEN_CALL"), *result = getenv("BROKEN_RESULT");
	return broken != NULL && result != NULL && strcmp(broken, call) == 0 ? (VkResult)strtol(result, NULL, 10) : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL instance_version(uint32_t *v)
{
	*v = VK_API_VERSION_1_3;
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_extensions(const char *layer, uint32_t *n, VkExtensionProperties *out)
{
	(void)layer, (void)out;
	*n = 0;
	return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *out)
{
	static char instance;
	(void)info, (void)a;
	*out = (VkInstance)(void *)&instance;
	return result_of("CreateInstance");
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance i, const VkAllocationCallbacks *a)
{
	(void)i, (void)a;
}

static VKAPI_ATTR VkResult VKAPI_CALL devices(VkInstance i, uint32_t *n, VkPhysicalDevice *out)
{
	static char device;
	(void)i;
	*n = 1;
	if (out != NULL)
		*out = (VkPhysicalDevice)(void *)&device;
	return result_of("EnumeratePhysicalDevices");
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice d, VkPhysicalDeviceProperties *p)
{
	(void)d;
	memset(p, 0, sizeof *p);
	p->apiVersion = VK_API_VERSION_1_3;
	p->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
	snprintf(p->deviceName, sizeof p->deviceName, "Broken GPU");
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice d, VkPhysicalDeviceProperties2 *p)
{
	properties(d, &p->properties);
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice d, VkPhysicalDeviceFeatures2 *f)
{
	(void)d;
	for (VkBaseOutStructure *s = f->pNext; s != NULL; s = s->pNext)
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
			((VkPhysicalDeviceVulkan12Features *)(void *)s)->timelineSemaphore = VK_TRUE;
}

static VKAPI_ATTR void VKAPI_CALL memory2(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties2 *m)
{
	(void)d;
	m->memoryProperties.memoryHeapCount = m->memoryProperties.memoryTypeCount = 1;
	m->memoryProperties.memoryHeaps[0] = (VkMemoryHeap){.size = (VkDeviceSize)8 << 30, .flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
	m->memoryProperties.memoryTypes[0] = (VkMemoryType){.propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT};
}

static VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice d, uint32_t *n, VkQueueFamilyProperties *out)
{
	(void)d;
	*n = 1;
	if (out != NULL)
		*out = (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_COMPUTE_BIT, .queueCount = 1};
}

static VKAPI_ATTR VkResult VKAPI_CALL device_extensions(VkPhysicalDevice d, const char *layer, uint32_t *n, VkExtensionProperties *out)
{
	(void)d;
	return no_extensions(layer, n, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice d, const VkDeviceCreateInfo *i, const VkAllocationCallbacks *a, VkDevice *out)
{
	VkResult r = result_of("CreateDevice");
	(void)d, (void)i, (void)a, (void)out;
	return r != VK_SUCCESS ? r : VK_ERROR_UNKNOWN;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice d, const char *name)
{
	(void)d, (void)name;
	return NULL;
}

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance i, const char *name)
{
	static const struct {
		const char *name;
		PFN_vkVoidFunction f;
	} table[] = {
#define F(name, f) {"vk" #name, (PFN_vkVoidFunction)(void (*)(void))f}
		F(EnumerateInstanceVersion, instance_version), F(EnumerateInstanceExtensionProperties, no_extensions),
		F(CreateInstance, create_instance), F(DestroyInstance, destroy_instance), F(EnumeratePhysicalDevices, devices),
		F(GetPhysicalDeviceProperties, properties), F(GetPhysicalDeviceProperties2, properties2),
		F(GetPhysicalDeviceFeatures2, features2), F(GetPhysicalDeviceMemoryProperties2, memory2),
		F(GetPhysicalDeviceQueueFamilyProperties, families), F(EnumerateDeviceExtensionProperties, device_extensions),
		F(CreateDevice, create_device), F(GetDeviceProcAddr, device_function),
#undef F
	};
	(void)i;
	for (size_t k = 0; k < sizeof table / sizeof *table; k++)
		if (strcmp(table[k].name, name) == 0)
			return table[k].f;
	return NULL;
}
