/* Receipts of generations: those of peers, and those of the older pool. */
#include "record_impl.h"

#include "hash/hash.h"

#include <string.h>

/* ---- generation receipt: ten fields that the provider signs and the consumer may sign too ---- */
static const char *const fields[] = {"version", "receiptId", "provider", "consumer", "jobHash", "model", "inputTokens", "outputTokens",
	"status", "timestamp"};
enum { N_FIELDS = sizeof fields / sizeof *fields };

const char *const record_statuses[] = {"completed", "failed", "cancelled", NULL};

typedef struct party {
	const char *who, *id; /* the field of its id, and the id */
	char key_field[20], signature_field[24];
	rp_public_key key;
	unsigned char signature[RP_SIG_BYTES];
	bool signs;
} party;

bool record_is_receipt_id(const char *s)
{
	return strncmp(s, "receipt:", 8) == 0 && strlen(s) == 32 && strspn(s + 8, "0123456789abcdef") == 24;
}

bool record_is_request(const char *s)
{
	return strncmp(s, "request:", 8) == 0 && s[8] != '\0';
}

static void name_party(party *p, const char *who)
{
	p->who = who;
	memcpy(p->key_field, who, strlen(who));
	memcpy(p->key_field + strlen(who), "Key", 4);
	memcpy(p->signature_field, who, strlen(who));
	memcpy(p->signature_field + strlen(who), "Signature", 10);
}

static rp_code read_party(const record_at *at, party *p, bool required)
{
	const cJSON *jwk;
	rp_code code = record_matching(at, p->who, rp_is_participant, "a participant id (\"peer:\" and 24 hex digits)", &p->id);
	if (code != RP_OK)
		return code;
	if (!required && !cJSON_HasObjectItem(at->object, p->key_field) && !cJSON_HasObjectItem(at->object, p->signature_field))
		return RP_OK;
	p->signs = true;
	code = record_object(at, p->key_field, &jwk);
	if (code == RP_OK)
		code = record_signature(at, p->signature_field, RP_BASE64URL, p->signature);
	if (code == RP_OK) {
		code = rp_public_key_of_jwk(at->rd->name, p->key_field, jwk, &p->key, at->rd->err);
		at->rd->r->reason = code != RP_OK ? "malformed" : NULL;
	}
	return code;
}

static rp_code read_shape(const record_at *at, party *provider, party *consumer)
{
	const char *text;
	uint64_t n;
	rp_code code = record_whole(at, "version", 0, &n);
	if (code == RP_OK && n != 1)
		code = record_fail(at->rd, RP_UNSUPPORTED, "unsupported-schema", "version: is %llu, expected 1", (unsigned long long)n);
	if (code == RP_OK)
		code = record_matching(at, "receiptId", record_is_receipt_id, "\"receipt:\" and 24 hex digits", &text);
	if (code == RP_OK)
		code = read_party(at, provider, true);
	if (code == RP_OK)
		code = read_party(at, consumer, false);
	if (code == RP_OK)
		code = record_matching(at, "jobHash", record_is_request, "\"request:\" and the id of a request", &text);
	if (code == RP_OK)
		code = record_string(at, "model", 0, &text);
	if (code == RP_OK)
		code = record_whole(at, "inputTokens", 0, &n);
	if (code == RP_OK)
		code = record_whole(at, "outputTokens", 0, &n);
	if (code == RP_OK)
		code = record_one_of(at, "status", record_statuses, &text);
	return code == RP_OK ? record_whole(at, "timestamp", 0, &n) : code;
}

/* The signed text, with or without the receipt's id in it. */
static rp_code payload(const record_at *at, bool with_id, rp_buf *out)
{
	cJSON *v = cJSON_CreateObject();
	bool ok = v != NULL;
	for (size_t i = 0; i < N_FIELDS && ok; i++) {
		bool empty = !with_id && strcmp(fields[i], "receiptId") == 0;
		cJSON *copy = empty ? cJSON_CreateString("") : cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(at->object, fields[i]), true);
		ok = copy != NULL && cJSON_AddItemToObject(v, fields[i], copy);
	}
	rp_code code = ok ? rp_canonical(v, RP_KEYS_PLAIN, out, at->rd->err) : rp_no_memory(at->rd->err, 1024, at->rd->name);
	cJSON_Delete(v);
	return code;
}

static rp_code check_id(const record_at *at)
{
	unsigned char sum[RP_HASH_BYTES];
	char id[40] = "receipt:";
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_code code = payload(at, false, &text);
	if (code == RP_OK) {
		rp_sha256_once(text.data, text.len, sum);
		rp_hex(id + 8, sum, 12);
		const char *found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(at->object, "receiptId"));
		if (strcmp(found, id) != 0)
			code = record_fail(at->rd, RP_SIGNATURE, "binding-mismatch", "receiptId: is %s, the fields give %s", found, id);
	}
	rp_buf_free(&text);
	return code;
}

static rp_code check_party_id(const record_at *at, const party *p)
{
	char id[RP_PARTICIPANT];
	if (!p->signs)
		return RP_OK;
	rp_code code = rp_participant_id(cJSON_GetObjectItemCaseSensitive(at->object, p->key_field), id, at->rd->err);
	if (code == RP_OK && strcmp(id, p->id) != 0)
		code = record_fail(at->rd, RP_SIGNATURE, "identity-mismatch", "%s: is %s, but %s is the key of %s", p->who, p->id, p->key_field, id);
	return code;
}

static rp_code check_signature(const record_at *at, const party *p, const rp_buf *text)
{
	if (p->signs && !rp_signature_ok(&p->key, RP_SIG_RAW, text->data, text->len, p->signature, RP_SIG_BYTES))
		return record_fail(at->rd, RP_SIGNATURE, "bad-signature", "%s: does not verify over the receipt's fields", p->signature_field);
	return RP_OK;
}

static bool is_party_field(const party *p, const char *field)
{
	return strcmp(field, p->key_field) == 0 || strcmp(field, p->signature_field) == 0;
}

static rp_code report(const record_at *at, const party *provider, const party *consumer)
{
	const char *signers = consumer->signs ? "provider, consumer" : "provider";
	rp_code code = RP_OK;
	for (size_t i = 0; i < N_FIELDS && code == RP_OK; i++) {
		bool proved = strcmp(fields[i], "receiptId") == 0 || strcmp(fields[i], "provider") == 0 ||
			(consumer->signs && strcmp(fields[i], "consumer") == 0);
		code = record_fact(at->rd, proved ? RP_FACT_VERIFIED : RP_FACT_CLAIMED, signers,
			cJSON_GetObjectItemCaseSensitive(at->object, fields[i]), "%s", fields[i]);
	}
	const party *parties[] = {provider, consumer};
	for (size_t i = 0; i < 2 && code == RP_OK; i++)
		code = record_fact(at->rd, parties[i]->signs ? RP_FACT_VERIFIED : RP_FACT_UNAVAILABLE, NULL, NULL, "%s", parties[i]->signature_field);
	for (const cJSON *m = at->object->child; m != NULL && code == RP_OK; m = m->next) {
		size_t i = 0;
		while (i < N_FIELDS && strcmp(fields[i], m->string) != 0)
			i++;
		if (i == N_FIELDS && !is_party_field(provider, m->string) && !is_party_field(consumer, m->string))
			code = record_fact(at->rd, RP_FACT_CLAIMED, NULL, m, "%s", m->string);
	}
	return code;
}

rp_code record_generation(record_reader *rd)
{
	const record_at at = {rd, "", rd->r->json};
	party provider = {.signs = false}, consumer = {.signs = false};
	rp_buf text;
	name_party(&provider, "provider");
	name_party(&consumer, "consumer");
	rp_buf_init(&text, 0);
	rp_code code = read_shape(&at, &provider, &consumer);
	rd->r->id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(at.object, "receiptId"));
	if (code == RP_OK)
		code = check_party_id(&at, &provider);
	if (code == RP_OK)
		code = check_party_id(&at, &consumer);
	if (code == RP_OK)
		code = check_id(&at);
	if (code == RP_OK)
		code = payload(&at, true, &text);
	if (code == RP_OK)
		code = check_signature(&at, &provider, &text);
	if (code == RP_OK)
		code = check_signature(&at, &consumer, &text);
	rp_buf_free(&text);
	return code == RP_OK ? report(&at, &provider, &consumer) : code;
}

/* ---- pool receipt ---- */
static const char *const not_signed[] = {"providerSignature", "requesterAcceptance", "verifierDecision", "ledgerEffects", NULL};

static rp_code report_pool(const record_at *at)
{
	rp_code code = RP_OK;
	for (const cJSON *m = at->object->child; m != NULL && code == RP_OK; m = m->next) {
		size_t i = 0;
		while (not_signed[i] != NULL && strcmp(not_signed[i], m->string) != 0)
			i++;
		if (i == 0) /* its own signature */
			code = record_fact(at->rd, RP_FACT_VERIFIED, NULL, NULL, "%s", m->string);
		else if (not_signed[i] != NULL) /* signed by others, if at all, whose keys are elsewhere */
			code = record_fact(at->rd, RP_FACT_UNAVAILABLE, NULL, m, "%s", m->string);
		else
			code = record_fact(at->rd, RP_FACT_CLAIMED, "provider", m, "%s", m->string);
	}
	return code;
}

rp_code record_pool(record_reader *rd)
{
	static const char domain[] = "poolday.provider_receipt.v1";
	static const char *const domains[] = {domain, NULL};
	static const char *const strings[] = {"assignmentId", "jobId", "requesterId", "providerId", "policyId", "status"};
	const record_at at = {rd, "", rd->r->json};
	const char *text;
	unsigned char signature[RP_SIG_BYTES];
	rp_buf bytes;
	rp_code code = record_one_of(&at, "signatureDomain", domains, &text);
	for (size_t i = 0; i < sizeof strings / sizeof *strings && code == RP_OK; i++)
		code = record_string(&at, strings[i], 0, &text);
	if (code == RP_OK)
		code = record_signature(&at, "providerSignature", RP_BASE64, signature);
	if (code == RP_OK && rd->check->key == NULL)
		code = record_fail(rd, RP_SIGNATURE, "no-key", "providerSignature: the record does not hold the provider's key; give it with --pubkey");
	if (code != RP_OK)
		return code;
	rp_buf_init(&bytes, 0);
	code = rp_domain_bytes(at.object, not_signed, domain, &bytes, rd->err);
	if (code == RP_OK && !rp_signature_ok(rd->check->key, RP_SIG_RAW, bytes.data, bytes.len, signature, RP_SIG_BYTES))
		code = record_fail(rd, RP_SIGNATURE, "bad-signature", "providerSignature: does not verify over the receipt with the key given");
	rp_buf_free(&bytes);
	return code == RP_OK ? report_pool(&at) : code;
}
