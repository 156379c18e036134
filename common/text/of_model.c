/* The tokenizer of a model, wherever its format keeps it. */
#include "internal.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* An RDRR manifest may say whether BOS is wanted; the tokenizer's own template is asked otherwise. */
static rp_code obey_manifest(rp_tokenizer *t, const rp_model *m, rp_error *err)
{
	const cJSON *tokenizer = cJSON_GetObjectItemCaseSensitive(rp_model_json(m), "tokenizer");
	const cJSON *add = cJSON_GetObjectItemCaseSensitive(tokenizer, "addBosToken");
	if (cJSON_IsFalse(add))
		t->n_prefix = 0;
	if (cJSON_IsTrue(add) && t->n_prefix == 0)
		return rp_fail(err, RP_MODEL, "%s: tokenizer.addBosToken is true, but its tokenizer.json does not say which token that is",
			rp_model_path(m));
	return RP_OK;
}

rp_code rp_tokenizer_of_model(const rp_model *m, rp_tokenizer **out, rp_error *err)
{
	if (rp_model_format(m) == RP_FORMAT_GGUF)
		return rp_tokenizer_from_gguf(m, out, err);
	char *path = rp_model_sibling(m, "tokenizer.json"), *text = NULL;
	size_t n = 0;
	if (path == NULL)
		return rp_fail(err, RP_NOT_FOUND, "%s: there is no tokenizer.json beside it", rp_model_path(m));
	rp_tokenizer *t = NULL;
	rp_code code = rp_read_file(path, MAX_JSON, &text, &n, err);
	if (code == RP_OK)
		code = rp_tokenizer_from_json(path, text, n, &t, err);
	if (code == RP_OK && rp_model_format(m) == RP_FORMAT_RDRR)
		code = obey_manifest(t, m, err);
	free(text);
	free(path);
	if (code == RP_OK)
		*out = t;
	else
		rp_tokenizer_free(t);
	return code;
}
