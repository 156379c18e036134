/* kernels: the compiled compute kernels, built into the library from the checked-in spirv/NAME.spv and spirv/kernels.json.
 *
 * Everything about a module's interface is read from the SPIR-V by reflection when the files are made; nothing is typed twice.
 * A module has one entry point. Overrides of the WGSL source are specialization constants; a small `var<uniform>` block is the
 * push-constant block; storage bindings keep their group and number.
 */
#ifndef RP_KERNELS_H
#define RP_KERNELS_H

#include "base/base.h"

typedef struct rp_kernel_constant {
	const char *name; /* of the WGSL override */
	uint32_t id;      /* SpecId */
	char type;        /* 'u' 'i' 'f' 'b': 32 bits each */
	uint32_t default_bits;
} rp_kernel_constant;

typedef struct rp_kernel_binding {
	const char *name;
	uint32_t group, binding;
	bool uniform;  /* a uniform buffer; else a storage buffer */
	bool writable; /* false: var<storage, read> */
} rp_kernel_binding;

/* A product of subgroup matrices: [m, k] times [k, n] of component `a`, added to [m, n] of component `c`. */
typedef struct rp_kernel_matrix {
	char a, c; /* 'h' f16, 'f' f32, 'b' i8, 'B' u8, 'i' i32, 'u' u32; '?' another */
	uint32_t m, n, k;
} rp_kernel_matrix;

/* Device features a module needs. INT_DOT is shaderIntegerDotProduct (packed 4x8-bit dot products as one instruction); MATRIX is
 * VK_KHR_cooperative_matrix with every shape of `matrices`. */
enum { RP_KERNEL_F16 = 1, RP_KERNEL_SUBGROUPS = 2, RP_KERNEL_INT_DOT = 4, RP_KERNEL_MATRIX = 8 };

typedef struct rp_kernel {
	const char *name;  /* file name without .spv, "matvec_q4k_subgroup" */
	const char *entry; /* entry point in the module */
	const char *digest; /* "sha256:<hex>" of the WGSL text by the rule of the kernel contract (text, newline, @@entry:, entry) */
	const uint32_t *words;
	size_t n_words;
	const rp_kernel_binding *bindings;
	uint32_t n_bindings;
	const rp_kernel_constant *constants;
	uint32_t n_constants;
	uint32_t push_bytes;
	uint32_t workgroup[3];    /* default size */
	int32_t workgroup_id[3];  /* SpecId that sets that dimension, -1 when fixed */
	uint32_t features;
	const rp_kernel_matrix *matrices; /* of the whole subgroup */
	uint32_t n_matrices;
} rp_kernel;

const rp_kernel *rp_kernels(size_t *n); /* sorted by name */
const rp_kernel *rp_kernel_find(const char *name); /* NULL when absent */

#endif
