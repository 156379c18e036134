/* private: what the files of vk/ share. Tests include it to stand in for a failing driver. */
#ifndef RP_VK_PRIVATE_H
#define RP_VK_PRIVATE_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "vk/vk.h"

#include <pthread.h>
#include <stdatomic.h>

/* Entry points come from the loader (global), from the instance, and from the device: the last skip the loader's dispatch. */
#define RP_VK_INSTANCE_FNS(X)                                                                                                    \
	X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2)             \
	X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties)    \
	X(CreateDevice) X(GetDeviceProcAddr) X(GetPhysicalDeviceProperties)

#define RP_VK_DEVICE_FNS(X)                                                                                                      \
	X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(AllocateMemory) X(FreeMemory) X(MapMemory)         \
	X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) X(CreateShaderModule)                \
	X(DestroyShaderModule) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreatePipelineLayout)                \
	X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache)     \
	X(GetPipelineCacheData) X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets)                       \
	X(FreeDescriptorSets) X(UpdateDescriptorSets) X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers)       \
	X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdBindDescriptorSets)              \
	X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdWriteTimestamp)          \
	X(CmdResetQueryPool) X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults) X(CreateSemaphore)                    \
	X(DestroySemaphore) X(WaitSemaphores)

typedef struct rp_vk_instance {
	void *lib;
	VkInstance handle;
	VkDebugUtilsMessengerEXT messenger;
	PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
	RP_VK_INSTANCE_FNS(X)
#undef X
	size_t n_messages; /* errors of the validation layers */
	char message[900]; /* the first of them */
} rp_vk_instance;

extern const char *rp_vk_loader_name; /* "libvulkan.so.1" */
extern atomic_size_t rp_vk_closing_messages; /* what the validation layers said while devices closed: objects left behind */

/* Without validation: the one instance of this process, which stays for good. With: one of its own. Give either back. */
rp_code rp_vk_instance_get(bool validate, rp_vk_instance **out, rp_error *err);
void rp_vk_instance_put(rp_vk_instance *in); /* NULL is allowed */

/* ---- what a physical device is, beyond the public facts ---- */
typedef struct rp_vk_phys {
	VkPhysicalDevice handle;
	rp_vk_info info;
	VkPhysicalDeviceMemoryProperties memory;
	uint32_t compute_family, transfer_family; /* equal when no queue only copies */
	bool has_portability_subset, core13, ext_subgroup_size, ext_dot, ext_maintenance4;
	bool memory_model, memory_model_device;
} rp_vk_phys;

rp_code rp_vk_phys_list(rp_vk_instance *in, rp_vk_phys **out, size_t *n, rp_error *err);
/* Debian 12's headers (1.3.239) are older than this extension. */
#define RP_VK_COOPMAT_NAME "VK_KHR_cooperative_matrix"
enum { RP_VK_COOPMAT_FEATURES = 1000506000, RP_VK_COOPMAT_PROPERTIES = 1000506001 }; /* VkStructureType */
typedef struct rp_vk_coopmat_features { /* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
	VkStructureType sType;
	void *pNext;
	VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} rp_vk_coopmat_features;

/* Shapes of matrix products by subgroups, for a device that has the extension and the feature. */
void rp_vk_phys_matrices(rp_vk_instance *in, rp_vk_phys *p);
void rp_vk_phys_heaps(rp_vk_instance *in, rp_vk_phys *p); /* refresh the budgets */
/* The memory type for a use; UINT32_MAX when none. */
uint32_t rp_vk_memory_type(const rp_vk_phys *p, rp_vk_use use, bool staged, uint32_t allowed);

/* ---- memory ---- */
typedef struct rp_vk_span { /* a free range of a block */
	uint64_t offset, size;
} rp_vk_span;

typedef struct rp_vk_block {
	VkDeviceMemory memory;
	uint64_t size;
	unsigned char *map;
	uint32_t type;
	rp_vk_span *free_spans; /* by offset, never adjacent */
	size_t n_free, cap_free, n_bufs;
} rp_vk_block;

struct rp_vk_buf {
	rp_vk *vk;
	VkBuffer handle;
	rp_vk_block *block;
	uint64_t offset, reserved, size;
	uint64_t serial; /* never used again, unlike the handle */
	rp_vk_use use;
	char name[64];
};

typedef struct rp_vk_staging { /* one slot of the ring */
	rp_vk_buf *buf;
	VkCommandBuffer cmd;
	uint64_t ticket; /* of the transfer timeline; the slot is free when it is reached */
} rp_vk_staging;

enum { RP_VK_RING = 4, RP_VK_STAGING_BYTES = 4 << 20 };

/* ---- pipelines and sets ---- */
typedef struct rp_vk_module {
	const rp_kernel *kernel;
	VkShaderModule handle;
	VkDescriptorSetLayout set_layout;
	VkPipelineLayout layout;
	struct rp_vk_module *next;
} rp_vk_module;

struct rp_vk_pipeline {
	rp_vk_module *module;
	VkPipeline handle;
	uint32_t workgroup[3], subgroup_size;
	uint32_t *values; /* of every constant of the kernel */
	struct rp_vk_pipeline *next;
	/* guarded by the compiler's lock: */
	enum { RP_VK_ASKED, RP_VK_COMPILING, RP_VK_COMPILED } state;
	VkResult result;
	struct rp_vk_pipeline *next_asked;
};

/* Threads that compile what is asked for, started as there is work. */
enum { RP_VK_COMPILERS = 16 };
typedef struct rp_vk_compiler {
	pthread_mutex_t lock;
	pthread_cond_t asked, compiled;
	rp_vk_pipeline *first, *last; /* asked for */
	pthread_t threads[RP_VK_COMPILERS];
	uint32_t n_asked, n_threads, idle, most; /* n_asked: nobody has begun; idle: threads that wait for work */
	bool made, stop;
} rp_vk_compiler;

typedef struct rp_vk_range { /* what a descriptor or a hazard covers */
	uint64_t serial, offset, size;
} rp_vk_range;

enum { RP_VK_MAX_BINDINGS = 16 };

typedef struct rp_vk_set {
	struct rp_vk_set *next;
	VkDescriptorSet handle;
	struct rp_vk_set_pool *pool;
	const rp_vk_module *module;
	uint32_t n;
	rp_vk_range ranges[RP_VK_MAX_BINDINGS];
} rp_vk_set;

typedef struct rp_vk_set_pool {
	struct rp_vk_set_pool *next;
	VkDescriptorPool handle;
	uint32_t live;
} rp_vk_set_pool;

enum { RP_VK_SET_BUCKETS = 1024 };

/* ---- the device ---- */
typedef struct rp_vk_queue {
	VkQueue handle;
	VkCommandPool pool;
	VkSemaphore timeline;
	uint64_t submitted, done; /* values of the timeline */
} rp_vk_queue;

struct rp_vk {
	rp_vk_instance *instance;
	rp_vk_phys phys;
	VkDevice device;
#define X(name) PFN_vk##name name;
	RP_VK_DEVICE_FNS(X)
#undef X
	rp_vk_queue compute, transfer; /* transfer.handle is compute's when the device has no queue of its own for copies */
	bool two_families, staged, validate, lost;
	uint64_t max_memory;
	char last_work[160]; /* names of what was submitted last */
	rp_vk_counts counts;

	rp_vk_block **blocks;
	size_t n_blocks;
	uint64_t local_bytes, serial;
	rp_vk_staging ring[RP_VK_RING];
	size_t ring_at;
	struct {
		rp_vk_buf *buf;
		uint64_t offset, n;
		bool open;
	} writing;
	uint64_t uploads_seen; /* transfer value the compute queue already waits for */
	rp_vk_cmd *read_cmd;
	rp_vk_buf *read_buf;

	VkPipelineCache cache;
	char *cache_path;
	bool cache_loaded; /* the file was good */
	char cache_tag[96];
	unsigned char cache_digest[32]; /* of the data last read or written: unchanged data is not written again */
	rp_vk_module *modules;
	rp_vk_pipeline *pipelines;
	rp_vk_compiler compiler;
	rp_vk_set *sets[RP_VK_SET_BUCKETS];
	rp_vk_set_pool *set_pools;
	struct rp_vk_paper *paper; /* NULL on a real device (paper.c) */
};

/* One VkResult to one error. `what` says what was tried. A lost device stays lost. */
rp_code rp_vk_fail(rp_vk *vk, rp_error *err, VkResult r, const char *what, ...) RP_PRINTF(4, 5);
const char *rp_vk_result_name(VkResult r);
rp_code rp_vk_alive(rp_vk *vk, rp_error *err); /* RP_DEVICE_LOST once lost */

rp_code rp_vk_transfer_wait(rp_vk *vk, uint64_t value, rp_error *err);
void rp_vk_memory_close(rp_vk *vk);

void rp_vk_cache_open(rp_vk *vk, const char *dir, const char *tag);
void rp_vk_cache_close(rp_vk *vk);
void rp_vk_pipelines_close(rp_vk *vk);

/* compiler.c. Compile p, on this thread: the result is kept in p. */
void rp_vk_compile(rp_vk *vk, rp_vk_pipeline *p);
rp_code rp_vk_compiler_open(rp_vk *vk, rp_error *err);
void rp_vk_compiler_close(rp_vk *vk); /* waits for what is being compiled, drops the rest */
void rp_vk_compiler_ask(rp_vk *vk, rp_vk_pipeline *p);
void rp_vk_compiler_wait(rp_vk *vk, rp_vk_pipeline *p); /* p is compiled by then; by this thread when no other has begun */

rp_code rp_vk_set_get(rp_vk *vk, const rp_vk_module *m, const rp_vk_bind *binds, VkDescriptorSet *out, rp_error *err);
void rp_vk_sets_drop(rp_vk *vk, uint64_t serial); /* all sets that hold that buffer */
void rp_vk_sets_close(rp_vk *vk);

/* ---- the paper device: what is recorded on it is kept as a list (paper.h) ---- */
typedef struct rp_vk_paper_list {
	struct rp_vk_work *v;
	size_t n, cap;
} rp_vk_paper_list;

typedef struct rp_vk_paper {
	rp_vk_instance instance; /* has no functions: nothing asks a driver */
	atomic_uint_fast64_t handles; /* the last one given out; pipelines may be made by threads */
	uint64_t asked;          /* bytes of the buffer made last */
	rp_vk_paper_list submitted;
	struct rp_vk_paper_buf *bufs; /* that live, in the order they were made */
	size_t n_bufs, cap_bufs;
} rp_vk_paper;

void rp_vk_paper_driver(rp_vk *vk); /* functions that only keep count, in the place of a driver's (paper_driver.c) */
rp_code rp_vk_paper_check(const rp_vk_info *facts, rp_error *err);
void rp_vk_paper_facts(rp_vk *vk, const rp_vk_info *facts);
void rp_vk_paper_close(rp_vk *vk);
rp_code rp_vk_paper_buf_made(rp_vk *vk, rp_vk_buf *b, rp_error *err);
void rp_vk_paper_buf_gone(rp_vk *vk, const rp_vk_buf *b);
/* One more piece of work, all zero. NULL: out of memory. */
struct rp_vk_work *rp_vk_paper_add(rp_vk_paper_list *l, rp_error *err);
rp_code rp_vk_paper_submit(rp_vk *vk, const rp_vk_paper_list *l, const char *recording, rp_error *err);

#endif
