/* reflect: what a SPIR-V module says about its interface, read by SPIRV-Cross, as one object of kernels.json. */
#ifndef WGSLC_REFLECT_H
#define WGSLC_REFLECT_H

#include "spirv/wgslc/wgslc.h"

/* Appends the object for one compiled kernel. Names of overrides come from the module (by SpecId), all else from the SPIR-V.
 * digest: "sha256:..." of the source. */
rp_code reflect_kernel(const uint32_t *words, size_t n_words, const char *name, const char *entry, const char *digest,
					   const wgsl_module *m, rp_buf *out, rp_error *err);

#endif
