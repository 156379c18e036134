#include "internal.h"
#include "json.h"

#include <stdio.h>
#include <string.h>

const cJSON *rp_json_field(const rp_json_at *at, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(at->object, name);
	return cJSON_IsNull(v) ? NULL : v;
}

const cJSON *rp_json_alias(const rp_json_at *at, const char *name, const char *other, bool *twice)
{
	const cJSON *v = rp_json_field(at, name), *w = rp_json_field(at, other);
	*twice = v != NULL && w != NULL;
	return v != NULL ? v : w;
}

static void describe(const cJSON *v, char *out, size_t size)
{
	char text[60];
	const char *string = cJSON_GetStringValue(v);
	const char *kind = cJSON_IsArray(v) ? "an array" : "an object";
	if (v == NULL || cJSON_IsNull(v))
		kind = "missing";
	else if (cJSON_IsBool(v))
		kind = cJSON_IsTrue(v) ? "true" : "false";
	if (cJSON_IsNumber(v))
		snprintf(out, size, "%.17g", cJSON_GetNumberValue(v));
	else if (string != NULL)
		snprintf(out, size, "\"%s\"", rp_show(text, sizeof text, string, strlen(string)));
	else
		snprintf(out, size, "%s", kind);
}

rp_code rp_json_wrong(const rp_json_at *at, const char *name, const cJSON *found, const char *expected)
{
	char what[80];
	describe(found, what, sizeof what);
	return rp_fail(at->err, RP_FORMAT, "%s: %s%s is %s, expected %s", at->file, at->where, name, what, expected);
}

rp_code rp_json_need_u64(const rp_json_at *at, const char *name, uint64_t min, uint64_t *out)
{
	const cJSON *v = rp_json_field(at, name);
	uint64_t n;
	if (!rp_json_whole(v, &n) || n < min)
		return rp_json_wrong(at, name, v, min > 0 ? "a positive whole number" : "a whole number, 0 or more");
	*out = n;
	return RP_OK;
}

rp_code rp_json_need_size(const rp_json_at *at, const char *name, uint64_t min, uint64_t *out)
{
	uint64_t n;
	rp_code rc = rp_json_need_u64(at, name, min, &n);
	if (rc == RP_OK && n >= (uint64_t)1 << 53)
		return rp_json_wrong(at, name, rp_json_field(at, name), "a whole number below 2^53");
	if (rc == RP_OK)
		*out = n;
	return rc;
}

rp_code rp_json_need_string(const rp_json_at *at, const char *name, const char **out)
{
	const cJSON *v = rp_json_field(at, name);
	if (!cJSON_IsString(v) || v->valuestring[0] == '\0')
		return rp_json_wrong(at, name, v, "a string that is not empty");
	*out = v->valuestring;
	return RP_OK;
}

rp_code rp_json_need_object(const rp_json_at *at, const char *name, const cJSON **out)
{
	const cJSON *v = rp_json_field(at, name);
	if (!cJSON_IsObject(v))
		return rp_json_wrong(at, name, v, "an object");
	*out = v;
	return RP_OK;
}

bool rp_is_hex64(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdefABCDEF") == 64;
}
