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

/* What was read can be signed, and then reads the same. */
static void sign_again(const rp_oms *oms)
{
	static rp_identity id;
	rp_oms again;
	rp_buf bundle;
	rp_error e;
	if (id.n_secret == 0 && rp_identity_new(RP_KEY_P256, &id, &e) != RP_OK)
		abort();
	rp_buf_init(&bundle, 0);
	if (rp_oms_sign(oms, &id, &bundle, &e) != RP_OK || rp_oms_verify("bundle", bundle.data, bundle.len, &id.key, &again, &e) != RP_OK ||
		again.n_files != oms->n_files || again.n_ignored != oms->n_ignored || strcmp(again.model, oms->model) != 0)
		abort();
	for (size_t i = 0; i < oms->n_files; i++)
		if (strcmp(again.files[i].path, oms->files[i].path) != 0 || memcmp(again.files[i].digest, oms->files[i].digest, 32) != 0)
			abort();
	rp_oms_free(&again);
	rp_buf_free(&bundle);
}

static rp_code passphrase(void *context, const char *path, char out[RP_PASSPHRASE_MAX], rp_error *err)
{
	(void)context;
	(void)path;
	(void)err;
	memcpy(out, "secret", 7);
	return RP_OK;
}

/* A secret key that is read can sign for its public half. Minisign's encryption and that of PKCS #8 cost as much as the key says: for
 * these there is no passphrase here. */
static void secret(const char *text, size_t n)
{
	const rp_passphrase asked = {passphrase, NULL};
	bool pem = n > 14 && memcmp(text, "-----BEGIN EC ", 14) == 0;
	rp_identity id;
	rp_error e;
	rp_buf sig;
	if (rp_identity_parse("key", text, n, pem ? &asked : NULL, &id, &e) != RP_OK)
		return;
	rp_buf_init(&sig, 0);
	if (id.key.kind == RP_KEY_ED25519) {
		unsigned char raw[RP_SIG_BYTES];
		if (rp_identity_sign(&id, "x", 1, raw, &e) != RP_OK || !rp_signature_ok(&id.key, RP_SIG_RAW, "x", 1, raw, sizeof raw))
			abort();
	} else if (rp_identity_sign_der(&id, "x", 1, &sig, &e) != RP_OK || !rp_signature_ok(&id.key, RP_SIG_DER, "x", 1, sig.data, sig.len)) {
		abort();
	}
	rp_buf_free(&sig);
	rp_identity_wipe(&id);
}

static void statement(const char *text, size_t n)
{
	rp_oms oms;
	rp_error e;
	bool read = rp_oms_statement("statement", text, n, &oms, &e) == RP_OK;
	if (read && !oms.sharded)
		sign_again(&oms);
	if (read)
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
	case 'p':
		secret(text, n - 1);
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
