/* device: the description of a device as a file: facts that a driver told once, so that plans can be made elsewhere.
 * Format: reploid-device/1, reploid-formats(5).
 */
#ifndef RP_PLAN_DEVICE_H
#define RP_PLAN_DEVICE_H

#include "base/base.h"
#include "vk/vk.h"

struct cJSON;

#define RP_DEVICE_SCHEMA "reploid-device/1"

/* What predictions of time are made from. X: C name, member of "measured". */
#define RP_COSTS(X)                                                                                                              \
	X(READ, "read_bytes_per_s")       /* streaming reads of device memory */                                                 \
	X(BARRIER, "barrier_ns")          /* a dispatch that waits for the one before it */                                      \
	X(PHASE, "phase_ns")              /* what it takes beyond the barrier and its bytes: filling and emptying the device */      \
	X(DISPATCH, "dispatch_ns")        /* one that runs beside it */                                                          \
	X(SUBMIT, "submit_ns")            /* submitting and waiting */                                                           \
	X(FLOPS, "flops_per_s")           /* products of matrices in ordinary instructions, multiplication and addition two */   \
	X(MATRIX, "matrix_flops_per_s")   /* the same with matrix units */

typedef enum rp_cost {
#define X(name, member) RP_COST_##name,
	RP_COSTS(X)
#undef X
	RP_COST_COUNT
} rp_cost;

const char *rp_cost_name(rp_cost c);

typedef struct rp_plan_device {
	rp_vk_info facts;              /* index and what a moment says (budgets, use) are zero */
	double cost[RP_COST_COUNT];    /* every one is above 0 */
	bool measured[RP_COST_COUNT];  /* from the file; else the default of the device's type */
	char assumed[400];             /* members of the file that no driver told, spaces between */
} rp_plan_device;

/* Of a device that is here. */
void rp_plan_device_of(const rp_vk_info *info, rp_plan_device *out);
/* Members as rp_plan_device_json gives them, none else, none missing but "measured", "assumed" and "source". RP_FORMAT names the
 * member. name is for messages. */
rp_code rp_plan_device_parse(const char *name, const char *text, size_t n, rp_plan_device *out, rp_error *err);
rp_code rp_plan_device_load(const char *path, rp_plan_device *out, rp_error *err);
/* The facts, without costs; cJSON_Delete it. NULL: out of memory. */
struct cJSON *rp_plan_device_json(const rp_plan_device *d);

#endif
