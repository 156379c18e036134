# A Vulkan loader with a GPU that fails, for tests/cli/device.sh; it needs nothing of the library, so no sanitizer either.
build/tests/cli/libvulkan.so.1: tests/cli/broken_vulkan.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS_ALL) $(call cflags_of,$(HEADER_PKGS)) -std=c11 $(WARN) -O1 -fPIC -shared $< -o $@

# What tries to break out of a confined program.
build/tests/cli/probe.so: tests/cli/probe.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -std=c11 -O1 -fPIC -shared $< -ldl -o $@
