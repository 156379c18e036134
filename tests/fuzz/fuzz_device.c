/* A device description: any bytes; one that is accepted opens on paper, and what is written of it reads as the same facts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "plan/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_plan_device d, again;
	rp_error e;
	if (rp_plan_device_parse("d.json", (const char *)data, n, &d, &e) != RP_OK)
		return 0;
	cJSON *v = rp_plan_device_json(&d);
	char *text = cJSON_PrintUnformatted(v);
	if (text == NULL || rp_plan_device_parse("again", text, strlen(text), &again, &e) != RP_OK || memcmp(&d.facts, &again.facts, sizeof d.facts) != 0)
		abort();
	for (int c = 0; c < RP_COST_COUNT; c++)
		if (!(d.cost[c] > 0))
			abort();
	cJSON_free(text);
	cJSON_Delete(v);
	return 0;
}
