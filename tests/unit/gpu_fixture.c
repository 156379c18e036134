#include "infer/gpu.h"
#include "vk/private.h"

#include "gpu_fixture.h"
#include "vk_hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool have_validation, have_subgroups, have_fused, have_matrix;

rp_engine_opts gpu_opts(void)
{
	return (rp_engine_opts){.device = "gpu", .validate = have_validation, .kv = RP_CACHE_F32};
}

void gpu_need_variant(const char *variant)
{
	if (strcmp(variant, "subgroup") == 0 && !have_subgroups) {
		print_message("SKIP: this device has no subgroup operations\n");
		skip();
	}
	if (strcmp(variant, "fused") == 0 && !have_fused) {
		print_message("SKIP: this device lacks what the fused kernels need\n");
		skip();
	}
	if (strcmp(variant, "matrix") == 0 && !have_matrix) {
		print_message("SKIP: this device multiplies no matrices of halves\n");
		skip();
	}
}

void gpu_no_leftovers(void)
{
	assert_int_equal(rp_vk_closing_messages, 0);
}

int gpu_run_tests(const char *name, const struct CMUnitTest *tests, size_t n)
{
	rp_error err;
	rp_vk *vk = NULL;
	rp_code code = rp_vk_open(&(rp_vk_opts){.validate = vk_want_validation()}, &vk, &err);

	size_t n_kernels = 0;

	rp_kernels(&n_kernels);
	if (n_kernels == 0) {
		print_message("SKIP: this build has no kernels\n");
		rp_vk_close(vk);
		return 0;
	}
	have_validation = code == RP_OK && vk_want_validation();
	if (code == RP_UNSUPPORTED) {
		print_message("SKIP: validation in the tests below: %s\n", err.msg);
		code = rp_vk_open(NULL, &vk, &err);
	}
	if (code != RP_OK) {
		print_message("SKIP: %s\n", err.msg);
		return 0;
	}
	uint32_t need = RP_VK_SUBGROUPS | RP_VK_SUBGROUP_SIZE;
	const rp_vk_info *device = rp_vk_describe(vk);
	have_subgroups = (device->features & need) == need && (device->type != RP_VK_CPU || device->subgroup_size >= 8);
	have_fused = have_subgroups && (device->features & RP_VK_DOT8) && device->max_workgroup >= 256;
	have_matrix = have_subgroups && rp_gpu_half_side(device) != 0;
	vk_hold_drivers();
	rp_vk_close(vk);
	return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}
