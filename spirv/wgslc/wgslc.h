/* wgslc: WGSL compute shaders to GLSL 460 for glslang's Vulkan front end.
 *
 * This header is the contract of the library part (lexer, parser, checker, emitter): it depends on common/base and utf8proc
 * only, never prints and never exits, and takes any bytes as input. spirv.h adds the step to SPIR-V, reflect.h reads it back.
 *
 * Language: WGSL as of the 2025 candidate recommendation, as far as compute shaders reach: no textures, samplers, vertex or
 * fragment stages. Source: https://www.w3.org/TR/WGSL/
 */
#ifndef WGSLC_H
#define WGSLC_H

#include "base/base.h"

/* Changes whenever the same source gives other SPIR-V; written into kernels.json. */
#define WGSLC_VERSION "1"

typedef struct wgsl_module wgsl_module;

typedef struct wgsl_diagnostic {
	uint32_t line, column; /* from 1; columns count code points */
	const char *message;   /* one line */
} wgsl_diagnostic;

typedef struct wgsl_options {
	bool push;           /* a var<uniform> of at most 128 bytes in group 0 becomes the push-constant block */
	bool workgroup_init; /* zero var<workgroup> before the entry point starts, as the language demands */
	bool native_dot;     /* dot4I8Packed and dot4U8Packed as one instruction where the source says `requires
	                        packed_4x8_integer_dot_product;`; else they are always expanded */
} wgsl_options;

/* Parse and check len bytes of source. On RP_FORMAT and RP_UNSUPPORTED *out is set too, so that its diagnostics can be shown;
 * err then holds the first of them with "line:column: " before it. The text is copied. */
rp_code wgsl_check(const char *text, size_t len, wgsl_module **out, rp_error *err);
void wgsl_free(wgsl_module *m); /* NULL is fine */

const wgsl_diagnostic *wgsl_diagnostics(const wgsl_module *m, size_t *n);
/* "FILE:LINE:COLUMN: error: MESSAGE", the source line, a caret; free() the result. NULL when memory is short. */
char *wgsl_show_diagnostic(const wgsl_module *m, size_t index, const char *file);

/* Compute entry points in source order; i < *n. */
const char *const *wgsl_entries(const wgsl_module *m, size_t *n);

/* The override that has this SpecId, NULL when none has. */
const char *wgsl_override_name(const wgsl_module *m, uint32_t id);

/* The GLSL of one entry point of a module that checked without errors. All user names carry the prefix "w_", so that they
 * meet no GLSL keyword: reflection strips it again. *glsl is free()d by the caller. What GLSL cannot say is RP_UNSUPPORTED;
 * wgsl_diagnostics then has it too. */
rp_code wgsl_to_glsl(wgsl_module *m, const char *entry, const wgsl_options *options, char **glsl, rp_error *err);

#endif
