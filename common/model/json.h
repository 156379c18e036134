/* Fields of a JSON object with the messages a person needs; shared by the readers of JSON files in model/ and store/. */
#ifndef RP_MODEL_JSON_H
#define RP_MODEL_JSON_H

#include <cjson/cJSON.h>

#include "model/model.h"

/* The object a field is looked for in: file and where name it in messages ("manifest.json: shards[3].size: ..."). */
typedef struct rp_json_at {
	const char *file, *where; /* where: "" at the top, else with a final "." */
	const cJSON *object;
	rp_error *err;
} rp_json_at;

/* The field, NULL when absent or null. */
const cJSON *rp_json_field(const rp_json_at *at, const char *name);
/* The same under either of two names; both at once is an error told by *twice. */
const cJSON *rp_json_alias(const rp_json_at *at, const char *name, const char *other, bool *twice);
/* RP_FORMAT: "<file>: <where><name> is <what is there>, expected <expected>". */
rp_code rp_json_wrong(const rp_json_at *at, const char *name, const cJSON *found, const char *expected);

rp_code rp_json_need_u64(const rp_json_at *at, const char *name, uint64_t min, uint64_t *out);
/* The same below 2^53, as formats ask whose writers count in doubles. */
rp_code rp_json_need_size(const rp_json_at *at, const char *name, uint64_t min, uint64_t *out);
rp_code rp_json_need_string(const rp_json_at *at, const char *name, const char **out); /* not empty */
rp_code rp_json_need_object(const rp_json_at *at, const char *name, const cJSON **out);

bool rp_is_hex64(const char *s);

#endif
