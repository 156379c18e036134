/* vk: compute on a Vulkan device: choosing it, its memory, kernels, recorded work.
 *
 * The Vulkan loader (libvulkan.so.1) is opened when it is first needed, so programs start on machines that have none; then
 * every call here says RP_NO_DEVICE with what to install. Vulkan 1.2 is required, 1.3 and a few extensions are used where
 * present. Types are opaque: nothing else in the project includes a Vulkan header.
 *
 * One rp_vk is driven by one thread. Everything made from it must be freed before rp_vk_close. Any call that talks to the
 * device may return RP_DEVICE_LOST (the message names the work submitted last); after that every call does, and all that is
 * left to do is to free things. Out of memory is RP_NO_MEMORY with the numbers; any other error of a driver that is there is
 * RP_DRIVER with Vulkan's name of it. Sizes and offsets are bytes.
 */
#ifndef RP_VK_H
#define RP_VK_H

#include "base/base.h"
#include "vk/kernels.h"

typedef struct rp_vk rp_vk;

/* ---- devices ---- */
typedef enum rp_vk_type { RP_VK_DISCRETE, RP_VK_INTEGRATED, RP_VK_VIRTUAL, RP_VK_CPU, RP_VK_OTHER } rp_vk_type;

/* What a device can do, as far as kernels or memory care: bit, name for people and JSON. */
#define RP_VK_FEATURES(X)                                                                                                        \
	X(F16, "f16")                                     /* float16 arithmetic */                                               \
	X(INT8, "int8")                                   /* 8-bit integer arithmetic */                                         \
	X(INT16, "int16")                                                                                                        \
	X(INT64, "int64")                                                                                                        \
	X(STORAGE16, "storage16")                         /* 16-bit values in storage buffers */                                 \
	X(STORAGE8, "storage8")                                                                                                  \
	X(SUBGROUPS, "subgroups")                         /* basic, vote, ballot, shuffle, arithmetic in compute shaders */      \
	X(SUBGROUP_SIZE, "subgroup-size-control")                                                                                \
	X(DOT8, "dot8")                                   /* packed 4 x 8-bit dot product exists */                              \
	X(DOT8_FAST, "dot8-accelerated")                  /* and the device says it is fast */                                   \
	X(MEMORY_MODEL, "memory-model")                   /* Vulkan memory model with device scope */                            \
	X(COOPMAT, "cooperative-matrix")                  /* VK_KHR_cooperative_matrix, by subgroups */                          \
	X(COOPMAT2, "cooperative-matrix2")                /* VK_NV_cooperative_matrix2 */                                        \
	X(BUDGET, "memory-budget")                        /* VK_EXT_memory_budget: how much is free is known */                  \
	X(MAINTENANCE4, "maintenance4")                                                                                          \
	X(HOST_LOCAL, "host-visible-local")               /* the host can write device memory directly */                        \
	X(TRANSFER_QUEUE, "transfer-queue")               /* a queue that only copies */

enum {
#define X(name, text) RP_VK_BIT_##name,
	RP_VK_FEATURES(X)
#undef X
	RP_VK_N_FEATURES
};

enum rp_vk_feature {
#define X(name, text) RP_VK_##name = 1 << RP_VK_BIT_##name,
	RP_VK_FEATURES(X)
#undef X
};

enum { RP_VK_MAX_HEAPS = 16, RP_VK_MAX_TYPES = 32, RP_VK_MAX_MATRICES = 32 };

typedef struct rp_vk_heap {
	uint64_t size, budget, used; /* budget: what this process may use in all; used: what it uses. Without RP_VK_BUDGET: size, 0 */
	bool local;                  /* device memory */
} rp_vk_heap;

typedef struct rp_vk_memory { /* a type of memory, in the driver's order */
	uint32_t heap, flags; /* flags: VkMemoryPropertyFlagBits */
} rp_vk_memory;

typedef struct rp_vk_info {
	uint32_t index; /* its number for --device */
	char name[256], driver[256], driver_info[256];
	rp_vk_type type;
	uint32_t api_major, api_minor, api_patch;
	uint32_t vendor_id, device_id, driver_version;
	uint8_t cache_uuid[16];
	bool usable;
	char why_not[128]; /* what it lacks when it is not usable */
	uint32_t n_heaps;
	rp_vk_heap heaps[RP_VK_MAX_HEAPS];
	uint32_t n_types;
	rp_vk_memory types[RP_VK_MAX_TYPES];
	uint32_t features; /* enum rp_vk_feature */
	uint32_t subgroup_size, subgroup_min, subgroup_max; /* default, and the range that can be required */
	uint32_t max_subgroups; /* of a workgroup whose subgroup size is required; 0 without RP_VK_SUBGROUP_SIZE */
	uint32_t subgroup_ops, subgroup_stages;             /* VkSubgroupFeatureFlagBits, VkShaderStageFlagBits */
	/* limits */
	uint64_t max_binding;    /* bytes of one storage buffer binding */
	uint64_t max_uniform;    /* of one uniform buffer binding */
	uint64_t max_allocation; /* of one block of memory */
	uint64_t align_binding;  /* offsets of bindings are multiples of this */
	uint32_t max_push;       /* push constant bytes */
	uint32_t max_shared;     /* workgroup memory */
	uint32_t max_buffers;    /* storage buffers a kernel can see */
	uint32_t max_workgroup, max_workgroup_size[3]; /* invocations a workgroup: in all, in each dimension */
	uint32_t max_groups[3];                        /* workgroups a dispatch */
	float timestamp_ns; /* nanoseconds a timestamp tick */
	uint32_t timestamp_bits; /* 0: the compute queue has no timestamps */
	/* products of subgroup matrices that RP_VK_COOPMAT brings; each component of sums once, saturating ones left out */
	uint32_t n_matrices;
	rp_kernel_matrix matrices[RP_VK_MAX_MATRICES];
} rp_vk_info;

const char *rp_vk_type_name(rp_vk_type t);         /* "discrete", "integrated", "virtual", "cpu", "other" */
const char *rp_vk_feature_name(unsigned bit);      /* bit < RP_VK_N_FEATURES */
const char *rp_vk_component_name(char component);   /* of rp_kernel_matrix: "f16", "f32", ... */
bool rp_vk_has_matrix(const rp_vk_info *device, const rp_kernel_matrix *shape);

/* All devices in the order of their numbers, unusable ones included; free() the array. No driver at all: RP_NO_DEVICE. */
rp_code rp_vk_devices(rp_vk_info **out, size_t *n, rp_error *err);

/* "gpu": the best usable device (discrete, integrated, virtual, CPU; within a kind the one with most memory, then the lowest
 * number); "0", "1", ...: by number. Gives its place in the list. Malformed: RP_USAGE; no such or unusable: RP_NO_DEVICE. */
rp_code rp_vk_choose(const rp_vk_info *list, size_t n, const char *selector, size_t *at, rp_error *err);

typedef struct rp_vk_opts {
	const char *device;    /* NULL: "gpu" */
	bool hardware;         /* a device that is only the CPU in disguise (lavapipe) counts as none: RP_NO_DEVICE */
	const char *cache_dir; /* where the pipeline cache is kept (made if absent); NULL: nowhere. An unusable cache is ignored */
	const char *cache_tag; /* digest of the kernel set: a cache with another tag is discarded; NULL: "" */
	bool validate;         /* VK_LAYER_KHRONOS_validation with synchronization validation; not installed: RP_UNSUPPORTED */
	/* For tests and for sharing a device: limits below the device's own; 0: the device's. */
	uint64_t max_binding, max_allocation, max_memory; /* max_memory: of device memory in all */
	bool staged;             /* write device memory through staging even where the host could write it directly */
	uint32_t features_off;   /* features (enum rp_vk_feature) to do without; they are not enabled and not in the info */
} rp_vk_opts;

rp_code rp_vk_open(const rp_vk_opts *opts, rp_vk **out, rp_error *err); /* opts NULL: all defaults */
void rp_vk_close(rp_vk *vk);                  /* waits for submitted work; writes the pipeline cache; NULL is allowed */
const rp_vk_info *rp_vk_describe(const rp_vk *vk); /* with limits lowered by the options, features as enabled */

/* RP_OK, or RP_INTERNAL with the first message of the validation layers (count says how many). Submitting and waiting call
 * this by themselves; call it once more before closing. Always RP_OK without validate. */
rp_code rp_vk_check(rp_vk *vk, size_t *count, rp_error *err);

/* ---- memory: buffers cut from a few large blocks ---- */
typedef enum rp_vk_use {
	RP_VK_LOCAL,    /* device memory: weights, caches, activations */
	RP_VK_STREAM,   /* mapped, written by the host, read by kernels: what changes from step to step */
	RP_VK_READBACK, /* mapped, written by kernels or copies, read by the host */
} rp_vk_use;

typedef struct rp_vk_buf rp_vk_buf;

/* Contents are undefined until written. RP_NO_MEMORY: over the heap's budget or the buffer size limit. name is for messages
 * and copied. bytes > 0. A buffer may be larger than max_binding: bind it in ranges. */
rp_code rp_vk_buf_new(rp_vk *vk, rp_vk_use use, uint64_t bytes, const char *name, rp_vk_buf **out, rp_error *err);
void rp_vk_buf_free(rp_vk_buf *b); /* no submitted work may still use it; NULL is allowed */
uint64_t rp_vk_buf_size(const rp_vk_buf *b);
/* Host address; NULL for device memory the host cannot reach. Coherent: no flushing. The caller keeps the host's and the
 * device's turns apart by rp_vk_wait and rp_vk_submit. */
void *rp_vk_buf_map(const rp_vk_buf *b);

/* Would `bytes` more of device memory fit the budget? Otherwise RP_NO_MEMORY with needed, free and total; what: for messages. */
rp_code rp_vk_fits(rp_vk *vk, uint64_t bytes, const char *what, rp_error *err);
uint64_t rp_vk_allocated(const rp_vk *vk); /* of device memory, by this rp_vk */

/* Write to a buffer of any use; device memory the host cannot reach goes through a ring of staging buffers on the transfer
 * queue. Work submitted afterwards sees the bytes; work submitted before must not be using them. data may be reused at once. */
rp_code rp_vk_write(rp_vk *vk, rp_vk_buf *b, uint64_t offset, const void *data, uint64_t n, rp_error *err);
/* The same without a copy: *to is where to put n <= rp_vk_write_max() bytes, front to back, never read; then rp_vk_write_end.
 * One at a time. */
rp_code rp_vk_write_begin(rp_vk *vk, rp_vk_buf *b, uint64_t offset, uint64_t n, void **to, rp_error *err);
rp_code rp_vk_write_end(rp_vk *vk, rp_error *err);
uint64_t rp_vk_write_max(const rp_vk *vk);
/* Wait for all submitted work, then read. */
rp_code rp_vk_read(rp_vk *vk, rp_vk_buf *b, uint64_t offset, void *to, uint64_t n, rp_error *err);

/* ---- pipelines ---- */
typedef struct rp_vk_pipeline rp_vk_pipeline;

typedef struct rp_vk_const {
	const char *name; /* of the WGSL override */
	uint32_t bits;
} rp_vk_const;

static inline uint32_t rp_vk_f32_bits(float f)
{
	union {
		float f;
		uint32_t u;
	} v = { .f = f };
	return v.u;
}

/* A kernel with values for its constants (others keep their defaults). workgroup NULL, or 0 in a dimension: the kernel's own.
 * subgroup_size 0: the driver's choice; else required where the device can (RP_VK_SUBGROUP_SIZE), and then subgroups are
 * full. The pipeline belongs to vk; the same arguments give the same pipeline. k and its tables must outlive vk.
 * RP_UNSUPPORTED: the kernel needs a feature or size the device lacks. RP_INTERNAL: an unknown constant, a group but 0. */
rp_code rp_vk_pipeline_get(rp_vk *vk, const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3],
	uint32_t subgroup_size, rp_vk_pipeline **out, rp_error *err);
/* The same in advance: threads compile what is asked for, and the one that gets it waits only for what is left to do. What goes
 * wrong in a compiler is told to the one that gets it. With validation it is compiled at once. */
rp_code rp_vk_pipeline_ask(rp_vk *vk, const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3],
	uint32_t subgroup_size, rp_error *err);
const rp_kernel *rp_vk_pipeline_kernel(const rp_vk_pipeline *p);

/* ---- recorded work ----
 * A recorder keeps track of which ranges are written and read and puts a barrier only before work that needs one: neighbours
 * that touch different ranges, or only read the same, run side by side. What a kernel writes is told by rp_kernel_binding.
 * Everything of one submission is ordered after everything of the submissions before. */
typedef struct rp_vk_cmd rp_vk_cmd;

typedef struct rp_vk_bind {
	rp_vk_buf *buf;
	uint64_t offset, size; /* offset a multiple of align_binding; size 0: to the end of the buffer. At most max_binding bytes */
} rp_vk_bind;

enum { RP_VK_REPLAY = 1 }; /* may be submitted again while an earlier submission is still running */

/* name (copied) is what a device-lost message shows. */
rp_code rp_vk_cmd_new(rp_vk *vk, const char *name, rp_vk_cmd **out, rp_error *err);
void rp_vk_cmd_free(rp_vk_cmd *c); /* none of its submissions may still run; NULL is allowed */
/* Start over, also after a recording that failed half way. None of its submissions may still run. */
rp_code rp_vk_cmd_begin(rp_vk_cmd *c, unsigned flags, rp_error *err);
/* binds[b] is what binding number b of group 0 sees; entries whose number the kernel does not have are ignored. push must
 * be as many bytes as the kernel's push-constant block. Descriptor sets are written once and kept until a buffer in them is
 * freed. x, y, z: workgroups; a dimension of 0 records nothing. */
rp_code rp_vk_cmd_dispatch(rp_vk_cmd *c, rp_vk_pipeline *p, const rp_vk_bind *binds, size_t n_binds, const void *push,
	size_t push_bytes, uint32_t x, uint32_t y, uint32_t z, rp_error *err);
rp_code rp_vk_cmd_copy(rp_vk_cmd *c, rp_vk_buf *from, uint64_t from_offset, rp_vk_buf *to, uint64_t to_offset, uint64_t n,
	rp_error *err);
/* offset and n are multiples of 4 */
rp_code rp_vk_cmd_fill(rp_vk_cmd *c, rp_vk_buf *b, uint64_t offset, uint64_t n, uint32_t word, rp_error *err);
/* A point in time: when all work before it is done. label must outlive c. At most RP_VK_MAX_MARKS a recording, later ones are
 * ignored, as all are when the queue has no timestamps. */
enum { RP_VK_MAX_MARKS = 4096 };
rp_code rp_vk_cmd_mark(rp_vk_cmd *c, const char *label, rp_error *err);
rp_code rp_vk_cmd_end(rp_vk_cmd *c, rp_error *err);

typedef struct rp_vk_cmd_stats {
	uint32_t dispatches, barriers, copies;
} rp_vk_cmd_stats;
rp_vk_cmd_stats rp_vk_cmd_describe(const rp_vk_cmd *c);

typedef struct rp_vk_mark {
	const char *label;
	uint64_t ns; /* since the recording's first mark */
} rp_vk_mark;
/* The marks of the last submission, which must have been waited for; the array belongs to c. */
rp_code rp_vk_cmd_marks(rp_vk_cmd *c, const rp_vk_mark **out, size_t *n, rp_error *err);

/* Submit n recordings in order, as one; *ticket (may be NULL) is for rp_vk_wait. Tickets grow. A recording may be in cmds
 * more than once when it was begun with RP_VK_REPLAY. */
rp_code rp_vk_submit(rp_vk *vk, rp_vk_cmd *const *cmds, size_t n, uint64_t *ticket, rp_error *err);
/* Until that submission and all before it are done; ticket 0 is done. */
rp_code rp_vk_wait(rp_vk *vk, uint64_t ticket, rp_error *err);
rp_code rp_vk_run(rp_vk *vk, rp_vk_cmd *c, rp_error *err); /* submit and wait */

/* What was submitted since the device was opened (replays count each time), and how long rp_vk_wait has waited. */
typedef struct rp_vk_counts {
	uint64_t submits, dispatches, barriers, copies, wait_ns;
} rp_vk_counts;
const rp_vk_counts *rp_vk_counted(const rp_vk *vk);

#endif
