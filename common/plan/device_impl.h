/* device_impl: what the writer and the reader of device descriptions share: the tables of members. */
#ifndef RP_PLAN_DEVICE_IMPL_H
#define RP_PLAN_DEVICE_IMPL_H

#include "plan/device.h"

#include <cjson/cJSON.h>

#define RP_PLAN_MOST ((uint64_t)1 << 53)

typedef struct rp_plan_flag { /* of a type of memory */
	uint32_t bit;
	const char *word;
} rp_plan_flag;

typedef struct rp_plan_number { /* a uint32_t or uint64_t of rp_vk_info */
	const char *name;
	size_t at, size;
	uint64_t most;
} rp_plan_number;

/* Each ends with a row without a name. */
extern const rp_plan_flag rp_plan_flags[];
extern const rp_plan_number rp_plan_ids[], rp_plan_subgroup[], rp_plan_limits[];

#define RP_PLAN_COMPONENTS "hfbBiu" /* of rp_kernel_matrix, by rp_vk_component_name */

void rp_plan_default_costs(rp_plan_device *d);

#endif
