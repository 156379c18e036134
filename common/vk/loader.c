/* Opening the Vulkan loader and an instance; messages of the validation layers. */
#include "vk/private.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rp_vk_loader_name = "libvulkan.so.1";

#define INSTALL_HINT                                                                                                             \
	"install one (Debian, Ubuntu: apt install mesa-vulkan-drivers; NVIDIA: the vendor's driver), or use --device cpu"

const char *rp_vk_result_name(VkResult r)
{
	switch (r) {
	case VK_ERROR_OUT_OF_HOST_MEMORY:
		return "out of host memory";
	case VK_ERROR_OUT_OF_DEVICE_MEMORY:
		return "out of device memory";
	case VK_ERROR_INITIALIZATION_FAILED:
		return "initialization failed";
	case VK_ERROR_DEVICE_LOST:
		return "device lost";
	case VK_ERROR_LAYER_NOT_PRESENT:
		return "layer not present";
	case VK_ERROR_EXTENSION_NOT_PRESENT:
		return "extension not present";
	case VK_ERROR_FEATURE_NOT_PRESENT:
		return "feature not present";
	case VK_ERROR_INCOMPATIBLE_DRIVER:
		return "no compatible driver";
	case VK_ERROR_TOO_MANY_OBJECTS:
		return "too many objects";
	case VK_ERROR_FRAGMENTED_POOL:
		return "fragmented pool";
	case VK_ERROR_OUT_OF_POOL_MEMORY:
		return "out of pool memory";
	case VK_TIMEOUT:
		return "timeout";
	case VK_INCOMPLETE:
		return "incomplete";
	default:
		return "unknown error";
	}
}

static void *symbol(void *lib, const char *name)
{
	return dlsym(lib, name);
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static PFN_vkVoidFunction as_function(void *p)
{
	PFN_vkVoidFunction f;
	_Static_assert(sizeof f == sizeof p, "function pointers are as large as object pointers");
	memcpy(&f, &p, sizeof f);
	return f;
}

static PFN_vkVoidFunction global_function(rp_vk_instance *in, const char *name)
{
	return in->GetInstanceProcAddr(VK_NULL_HANDLE, name);
}

/* The specification fixes the type: const data, VkBool32 result. VK_FALSE lets the call that caused the message go on. */
static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
	VkDebugUtilsMessageTypeFlagsEXT types, const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
	rp_vk_instance *in = user;
	bool wrong = (types & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) != 0 &&
		severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
	if (wrong && in->n_messages++ == 0)
		snprintf(in->message, sizeof in->message, "%s", data->pMessage != NULL ? data->pMessage : "(no text)");
	return VK_FALSE;
}

static bool has_layer(rp_vk_instance *in, const char *name)
{
	PFN_vkEnumerateInstanceLayerProperties list =
		(PFN_vkEnumerateInstanceLayerProperties)global_function(in, "vkEnumerateInstanceLayerProperties");
	uint32_t n = 0;
	if (list == NULL || list(&n, NULL) < 0 || n == 0)
		return false;
	VkLayerProperties *p = rp_alloc_array(n, sizeof *p);
	bool found = false;
	if (p != NULL && list(&n, p) >= 0)
		for (uint32_t i = 0; i < n; i++)
			found = found || strcmp(p[i].layerName, name) == 0;
	free(p);
	return found;
}

static bool has_instance_extension(rp_vk_instance *in, const char *layer, const char *name)
{
	PFN_vkEnumerateInstanceExtensionProperties list =
		(PFN_vkEnumerateInstanceExtensionProperties)global_function(in, "vkEnumerateInstanceExtensionProperties");
	uint32_t n = 0;
	if (list == NULL || list(layer, &n, NULL) < 0 || n == 0)
		return false;
	VkExtensionProperties *p = rp_alloc_array(n, sizeof *p);
	bool found = false;
	if (p != NULL && list(layer, &n, p) >= 0)
		for (uint32_t i = 0; i < n; i++)
			found = found || strcmp(p[i].extensionName, name) == 0;
	free(p);
	return found;
}

static rp_code open_library(rp_vk_instance *in, rp_error *err)
{
	in->lib = dlopen(rp_vk_loader_name, RTLD_NOW | RTLD_LOCAL);
	if (in->lib == NULL)
		return rp_fail(err, RP_NO_DEVICE,
			"the Vulkan loader %s is not installed: apt install libvulkan1, and a driver: " INSTALL_HINT, rp_vk_loader_name);
	in->GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)as_function(symbol(in->lib, "vkGetInstanceProcAddr"));
	if (in->GetInstanceProcAddr == NULL)
		return rp_fail(err, RP_DRIVER, "%s has no vkGetInstanceProcAddr: it is not a Vulkan loader", rp_vk_loader_name);
	/* A 1.0 loader refuses a newer apiVersion; it lacks this function. */
	PFN_vkEnumerateInstanceVersion version =
		(PFN_vkEnumerateInstanceVersion)global_function(in, "vkEnumerateInstanceVersion");
	uint32_t v = VK_API_VERSION_1_0;
	if (version == NULL || version(&v) != VK_SUCCESS || v < VK_API_VERSION_1_2)
		return rp_fail(err, RP_NO_DEVICE, "%s is of Vulkan %u.%u, expected 1.2 or newer: upgrade it", rp_vk_loader_name,
			(unsigned)VK_API_VERSION_MAJOR(v), (unsigned)VK_API_VERSION_MINOR(v));
	return RP_OK;
}

#define VALIDATION "VK_LAYER_KHRONOS_validation"

static rp_code create_instance(bool validate, rp_vk_instance *in, rp_error *err)
{
	const char *extensions[4];
	uint32_t n_ext = 0;
	VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "reploid",
		.pEngineName = "reploid", .apiVersion = VK_API_VERSION_1_3 };
	VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
	if (has_instance_extension(in, NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
		extensions[n_ext++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME; /* lists MoltenVK too */
		info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
	}
	const char *layers[1] = { VALIDATION };
	VkDebugUtilsMessengerCreateInfoEXT messenger = { .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
		.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
		.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, .pfnUserCallback = on_message, .pUserData = in };
	VkValidationFeatureEnableEXT sync = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
	VkValidationFeaturesEXT features = { .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, .pNext = &messenger,
		.enabledValidationFeatureCount = 1, .pEnabledValidationFeatures = &sync };
	if (validate) {
		if (!has_layer(in, VALIDATION) || !has_instance_extension(in, VALIDATION, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) ||
			!has_instance_extension(in, VALIDATION, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME))
			return rp_fail(err, RP_UNSUPPORTED,
				"the Vulkan validation layer " VALIDATION " is not installed: apt install vulkan-validationlayers");
		info.enabledLayerCount = 1;
		info.ppEnabledLayerNames = layers;
		extensions[n_ext++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
		extensions[n_ext++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
		info.pNext = &features;
	}
	info.enabledExtensionCount = n_ext;
	info.ppEnabledExtensionNames = extensions;
	PFN_vkCreateInstance create = (PFN_vkCreateInstance)global_function(in, "vkCreateInstance");
	VkResult r = create(&info, NULL, &in->handle);
	if (r == VK_ERROR_INCOMPATIBLE_DRIVER)
		return rp_fail(err, RP_NO_DEVICE, "no Vulkan driver is installed: " INSTALL_HINT);
	if (r != VK_SUCCESS)
		return rp_fail(err, r == VK_ERROR_OUT_OF_HOST_MEMORY ? RP_NO_MEMORY : RP_DRIVER, "Vulkan does not start: %s (%d)",
			rp_vk_result_name(r), (int)r);
#define X(name)                                                                                                                  \
	in->name = (PFN_vk##name)in->GetInstanceProcAddr(in->handle, "vk" #name);                                                \
	if (in->name == NULL)                                                                                                    \
		return rp_fail(err, RP_NO_DEVICE, "the Vulkan loader has no vk" #name ": upgrade it (1.2 or newer)");
	RP_VK_INSTANCE_FNS(X)
#undef X
	if (!validate)
		return RP_OK;
	PFN_vkCreateDebugUtilsMessengerEXT make =
		(PFN_vkCreateDebugUtilsMessengerEXT)in->GetInstanceProcAddr(in->handle, "vkCreateDebugUtilsMessengerEXT");
	if (make == NULL || make(in->handle, &messenger, NULL, &in->messenger) != VK_SUCCESS)
		return rp_fail(err, RP_UNSUPPORTED, "the validation layer does not take a message callback");
	return RP_OK;
}

static void close_instance(rp_vk_instance *in)
{
	if (in->messenger != VK_NULL_HANDLE) {
		PFN_vkDestroyDebugUtilsMessengerEXT destroy =
			(PFN_vkDestroyDebugUtilsMessengerEXT)in->GetInstanceProcAddr(in->handle, "vkDestroyDebugUtilsMessengerEXT");
		if (destroy != NULL)
			destroy(in->handle, in->messenger, NULL);
	}
	if (in->handle != VK_NULL_HANDLE && in->DestroyInstance != NULL)
		in->DestroyInstance(in->handle, NULL);
	if (in->lib != NULL)
		dlclose(in->lib);
	*in = (rp_vk_instance){ 0 };
}

static rp_code open_instance(bool validate, rp_vk_instance *in, rp_error *err)
{
	*in = (rp_vk_instance){ 0 };
	rp_code rc = open_library(in, err);
	if (rc == RP_OK)
		rc = create_instance(validate, in, err);
	if (rc != RP_OK)
		close_instance(in);
	return rc;
}

/* Destroying the last instance unloads the drivers, and not every driver survives being loaded a second time. */
static rp_vk_instance shared;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

rp_code rp_vk_instance_get(bool validate, rp_vk_instance **out, rp_error *err)
{
	pthread_mutex_lock(&shared_lock);
	rp_code rc = shared.handle == VK_NULL_HANDLE ? open_instance(false, &shared, err) : RP_OK;
	pthread_mutex_unlock(&shared_lock);
	if (rc != RP_OK || !validate) {
		*out = rc == RP_OK ? &shared : NULL;
		return rc;
	}
	rp_vk_instance *in = rp_alloc(sizeof *in);
	if (in == NULL)
		return rp_no_memory(err, sizeof *in, "a Vulkan instance");
	rc = open_instance(true, in, err); /* the driver's callback gets its address */
	if (rc != RP_OK) {
		free(in);
		return rc;
	}
	*out = in;
	return RP_OK;
}

void rp_vk_instance_put(rp_vk_instance *in)
{
	if (in == NULL || in == &shared)
		return;
	close_instance(in);
	free(in);
}
