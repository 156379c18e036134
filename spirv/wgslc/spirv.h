/* spirv: GLSL to SPIR-V 1.5 for Vulkan 1.2 by glslang's C interface. */
#ifndef WGSLC_SPIRV_H
#define WGSLC_SPIRV_H

#include "base/base.h"

/* The generator whose output is checked in: "glslang MAJOR.MINOR.PATCH". */
const char *spirv_generator(void);

/* glsl is a compute shader; its entry point gets the name `entry`. *words is free()d by the caller. A message of glslang is
 * RP_INTERNAL: wgslc emitted GLSL that does not compile. */
rp_code spirv_from_glsl(const char *glsl, const char *entry, uint32_t **words, size_t *n_words, rp_error *err);
void spirv_finish(void); /* once, at the end of the program */

#endif
