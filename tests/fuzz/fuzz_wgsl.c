/* wgslc's library part: any bytes as a source; what checks is emitted too, with both settings of every option. */
#include "spirv/wgslc/wgslc.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void emit_all(wgsl_module *m, const wgsl_options *options)
{
	size_t n;
	const char *const *entries = wgsl_entries(m, &n);
	for (size_t i = 0; i < n && i < 4; i++) {
		rp_error e;
		char *glsl;
		if (wgsl_to_glsl(m, entries[i], options, &glsl, &e) != RP_OK)
			continue;
		if (strncmp(glsl, "#version 460\n", 13) != 0)
			abort();
		free(glsl);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const wgsl_options ours = {.push = true, .native_dot = true}, plain = {.workgroup_init = true};
	wgsl_module *m = NULL;
	rp_error e;
	size_t n_diags;
	rp_code rc = wgsl_check((const char *)data, n, &m, &e);
	if (rc == RP_OK) {
		emit_all(m, &ours);
		emit_all(m, &plain);
	} else if (m) {
		wgsl_diagnostics(m, &n_diags);
		if (!n_diags)
			abort();
		for (size_t i = 0; i < n_diags; i++)
			free(wgsl_show_diagnostic(m, i, "fuzz.wgsl"));
	}
	wgsl_free(m);
	return 0;
}
