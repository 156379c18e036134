/* --describe-device. */
#include "plan_cmd.h"

#include <cjson/cJSON.h>

rp_code plan_describe(plan_state *s, rp_error *err)
{
	rp_plan_device d;
	rp_code rc = plan_device(s, &d, err);
	if (rc != RP_OK)
		return rc;
	cJSON *v = rp_plan_device_json(&d);
	char *text = v != NULL ? cJSON_Print(v) : NULL;
	cJSON_Delete(v);
	if (text == NULL)
		return rp_no_memory(err, sizeof d, "a description");
	rp_buf_addf(&s->out, "%s\n", text);
	cJSON_free(text);
	return RP_OK;
}
