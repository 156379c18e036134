/* Everything signed that comes from outside. The first byte chooses what the rest is read as. */
#include "model/model.h"
#include "sign/oms.h"
#include "sign/record.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* A record, and after a NUL byte the authorization of its transfer. */
static void record(const char *text, size_t n)
{
	rp_public_key key = {.kind = RP_KEY_P256, .n = 65, .bytes = {4}};
	rp_record_check check = {.now_ms = 1767225600000, .key = &key};
	rp_record r;
	rp_error e;
	const char *nul = memchr(text, '\0', n);
	if (nul != NULL) {
		check.authorization_name = "authorization";
		check.authorization = nul + 1;
		check.n_authorization = n - (size_t)(nul + 1 - text);
		n = (size_t)(nul - text);
	}
	if (rp_record_verify("record", text, n, &check, &r, &e) == RP_OK && r.kind == NULL)
		abort();
	for (size_t i = 0; i < r.n_facts; i++)
		if (strlen(r.facts[i].field) == 0 || *rp_fact_word(r.facts[i].state) == '\0')
			abort();
	rp_record_free(&r);
}

static void filesig(const char *text, size_t n)
{
	rp_filesig s;
	rp_error e;
	rp_public_key key = {.kind = RP_KEY_ED25519, .n = 32};
	if (rp_filesig_parse("signature", text, n, &s, &e) != RP_OK)
		return;
	if ((s.trusted != NULL && (s.trusted < text || s.trusted + s.n_trusted > text + n)) ||
		(s.message != NULL && s.message + s.n_message != text + n))
		abort();
	rp_filesig_verify_bytes(&s, "signature", "file", "x", 1, &key, &e);
}

static void statement(const char *text, size_t n)
{
	rp_oms oms;
	rp_error e;
	if (rp_oms_statement("statement", text, n, &oms, &e) == RP_OK)
		for (size_t i = 0; i < oms.n_files; i++) {
			const char *path = oms.files[i].path;
			if (*path == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 || strstr(path, "/../") != NULL)
				abort();
			rp_oms_ignores(&oms, path);
		}
	rp_oms_free(&oms);
}

/* Canonical text is JSON, and its own canonical text. */
static void canonical(const char *text, size_t n)
{
	cJSON *v = NULL, *again = NULL;
	rp_buf once, twice;
	rp_error e;
	rp_buf_init(&once, 0);
	rp_buf_init(&twice, 0);
	if (rp_json_parse("json", text, n, &v, &e) == RP_OK && rp_canonical(v, RP_KEYS_PLAIN, &once, &e) == RP_OK) {
		if (rp_json_parse("canonical", once.data, once.len, &again, &e) != RP_OK || rp_canonical(again, RP_KEYS_PLAIN, &twice, &e) != RP_OK ||
			once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
			abort();
	}
	cJSON_Delete(v);
	cJSON_Delete(again);
	rp_buf_free(&once);
	rp_buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_public_key key;
	rp_oms oms;
	rp_error e;
	if (n == 0)
		return 0;
	char *text = malloc(n > 1 ? n - 1 : 1); /* of its own size, so that a read past the end shows */
	memcpy(text, data + 1, n - 1);
	switch (data[0]) {
	case 'f':
		filesig(text, n - 1);
		break;
	case 's':
		statement(text, n - 1);
		break;
	case 'k':
		rp_public_key_parse("key", text, n - 1, &key, &e);
		break;
	case 'b':
		key = (rp_public_key){.kind = RP_KEY_P256, .n = 65, .bytes = {4}};
		rp_oms_verify("bundle", text, n - 1, &key, &oms, &e);
		rp_oms_free(&oms);
		break;
	case 'c':
		canonical(text, n - 1);
		break;
	default:
		record(text, n - 1);
	}
	free(text);
	return 0;
}
