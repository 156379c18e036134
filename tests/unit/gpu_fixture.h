/* gpu_fixture: what tests of the Vulkan backend share: whether there is a device, validation layers where installed. */
#ifndef GPU_FIXTURE_H
#define GPU_FIXTURE_H

#include "infer/infer.h"

struct CMUnitTest;

/* Device "gpu", caches in f32, validated when the layers are installed. */
rp_engine_opts gpu_opts(void);
/* skip() when the device has no such kernel variant. */
void gpu_need_variant(const char *variant);
/* Everything made on devices that are closed by now was destroyed. */
void gpu_no_leftovers(void);
/* Run the group, or print SKIP and succeed when there is no Vulkan device. */
int gpu_run_tests(const char *name, const struct CMUnitTest *tests, size_t n);

#endif
