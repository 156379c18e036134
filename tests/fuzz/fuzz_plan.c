/* A kept plan: any bytes; what is accepted can be written, explained, compared with itself and asked for its settings. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "plan/plan.h"
#include "sign/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(const rp_plan *p)
{
	rp_plan_opts o;
	rp_plan_device d = {.facts.n_heaps = 0};
	rp_error e;
	rp_buf b;
	rp_buf_init(&b, 1 << 22);
	rp_plan_text(p, &b, &e);
	rp_buf_clear(&b);
	rp_plan_explain(p, &b, &e);
	rp_buf_free(&b);
	rp_plan_settings(p, &o, &e);
	rp_plan_take_costs(p, &d, &e);
	if (rp_plan_compare("p.json", p, p, &e) != RP_OK)
		abort();
}

/* Nearly no input has the digest of its content: give it that. */
static char *seal(const uint8_t *data, size_t n)
{
	cJSON *v = NULL;
	unsigned char sum[32];
	char digest[RP_DIGEST_TEXT], *text = NULL;
	if (rp_json_parse("p.json", (const char *)data, n, &v, NULL) == RP_OK && cJSON_IsObject(v)) {
		cJSON_DeleteItemFromObjectCaseSensitive(v, "digest");
		if (rp_canonical_sha256(v, RP_KEYS_PLAIN, sum, NULL) == RP_OK) {
			cJSON_AddStringToObject(v, "digest", rp_digest_text(digest, sum));
			text = cJSON_PrintUnformatted(v);
		}
	}
	cJSON_Delete(v);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_plan *p = NULL, *q = NULL;
	rp_error e;
	char *text = seal(data, n);
	if (rp_plan_parse("p.json", (const char *)data, n, &p, &e) == RP_OK)
		use(p);
	if (text != NULL && rp_plan_parse("q.json", text, strlen(text), &q, &e) == RP_OK) {
		use(q);
		if (p != NULL && rp_plan_compare("p.json", p, q, &e) == RP_INTERNAL)
			abort();
	}
	cJSON_free(text);
	rp_plan_free(p);
	rp_plan_free(q);
	return 0;
}
