/* For leak checks in programs that use Vulkan drivers. Mesa and LLVM keep a few allocations for good, and the loader unloads
 * the drivers before the leak checker runs, which then cannot tell whose they are. Holding the drivers in memory gives the
 * traces a name to suppress. What we forget to destroy is found by the validation layers (rp_vk_closing_messages). */
#define _GNU_SOURCE
#include "vk_hold.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void vk_hold_drivers(void)
{
	static const char *const parts[] = { "/libvulkan", "/libVkLayer", "/libLLVM", "/libdrm", "/libnvidia" };
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		char *path = strchr(line, '/');
		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; path != NULL && i < sizeof parts / sizeof *parts; i++)
			if (strstr(path, parts[i]) != NULL)
				dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	}
	if (f != NULL)
		fclose(f);
}

const char *__lsan_default_suppressions(void)
{
	return "leak:libvulkan\nleak:libVkLayer\nleak:libLLVM\nleak:libdrm\nleak:libnvidia\n";
}
