/* split: layers over devices in their order, each a run of them, so that memory suffices and the slowest device is as fast as can be. */
#ifndef RP_PLAN_SPLIT_H
#define RP_PLAN_SPLIT_H

#include "base/base.h"
#include "model/model.h"

enum { RP_SPLIT_DEVICES = 64 };

typedef struct rp_split_device {
	uint64_t memory; /* bytes for weights and caches */
	double speed;    /* bytes it reads a second, in any unit that all share; above 0 */
} rp_split_device;

typedef struct rp_split_model {
	uint32_t layers;
	const uint64_t *bytes; /* [layers] weights of each: memory, and what a token reads */
	const uint64_t *cache; /* [layers] caches of each */
	uint64_t first, last, last_read; /* further memory of the first and the last stage; what of the last one's a token reads */
} rp_split_model;

/* end[i]: the layer behind those of device i; each device gets at least one. Of all splits that fit one with the least time of the
 * slowest stage, of those one with the least time in all, of those the one whose earlier stages are shorter: exact, by dynamic
 * programming. RP_USAGE: no devices, or more than layers. RP_NO_MEMORY: none fits. */
rp_code rp_split_layers(const rp_split_model *m, const rp_split_device *d, uint32_t n, uint32_t *end, rp_error *err);
/* Memory and time (last_read and bytes over speed) of layers [first, end) as stage i of n. */
uint64_t rp_split_memory(const rp_split_model *m, uint32_t i, uint32_t n, uint32_t first, uint32_t end);
double rp_split_time(const rp_split_model *m, double speed, uint32_t i, uint32_t n, uint32_t first, uint32_t end);

#endif
