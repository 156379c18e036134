/* For leak checks in programs that use Vulkan drivers. Drivers and layers keep a few allocations for good: their traces are
 * suppressed by name. Drivers stay loaded, but the validation layer goes with its last instance and its traces lose their
 * name, so it is held here. What we forget to destroy is found by the validation layers (rp_vk_closing_messages). */
#define _GNU_SOURCE
#include "vk_hold.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void vk_hold_drivers(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		char *path = strchr(line, '/');
		line[strcspn(line, "\n")] = '\0';
		if (path != NULL && strstr(path, "/libVkLayer") != NULL)
			dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	}
	if (f != NULL)
		fclose(f);
}

bool vk_want_validation(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

const char *__lsan_default_suppressions(void)
{
	return "leak:libvulkan\nleak:libVkLayer\nleak:libLLVM\nleak:libdrm\nleak:libnvidia\n";
}
