/* Claims in the toolkit's own envelope: certificates of custody, attestations of delivery, receipts of whole-model generations.
 *
 * {claim, publicJwk, signature}: the signature is over the canonical text of claim; the participant id in the claim's signer field must
 * follow from publicJwk. A whole-model receipt may be countersigned: consumerJwk and consumerSignature, over the same text. */
#include "record_impl.h"

#include "hash/hash.h"
#include "model/model.h"

#include <string.h>

enum { MAX_ID = 128, MAX_WORD = 64 };

typedef enum field_kind { SCHEMA, PARTICIPANT, DIGEST, DIGESTS, SORTED_DIGESTS, UUID, COUNT, WHOLE, TEXT, WORD, VERSION, RECEIPT, REQUEST, STATUS } field_kind;

typedef struct claim_field {
	const char *name;
	field_kind kind;
	bool optional;
} claim_field;

struct claim;

typedef struct claim_kind {
	const char *schema, *signer; /* the field that holds the signer's participant id */
	const claim_field *fields;
	rp_code (*bind)(struct claim *c); /* what must agree inside it, after the signature; then the times */
	bool countersigned;
	const char *id; /* the field that no two of its kind share; NULL: all of it */
} claim_kind;

typedef struct claim {
	record_at record, claim;
	const claim_kind *kind;
	bool consumer_signs;
} claim;

static const cJSON *get(const claim *c, const char *field)
{
	return cJSON_GetObjectItemCaseSensitive(c->claim.object, field);
}

static const char *text_of(const claim *c, const char *field)
{
	const char *s = cJSON_GetStringValue(get(c, field));
	return s != NULL ? s : "";
}

static uint64_t number_of(const claim *c, const char *field)
{
	uint64_t n = 0;
	rp_json_whole(get(c, field), &n);
	return n;
}

static rp_code mismatch(const claim *c, const char *field, const char *what)
{
	return record_fail(c->record.rd, RP_SIGNATURE, "binding-mismatch", "claim.%s: %s", field, what);
}

/* ---- shape ---- */
static rp_code read_digests(const record_at *at, const char *field, bool sorted)
{
	const cJSON *list, *e;
	const char *before = NULL;
	rp_code code = record_array(at, field, &list);
	if (code != RP_OK)
		return code;
	cJSON_ArrayForEach(e, list)
	{
		const char *s = cJSON_GetStringValue(e);
		if (s == NULL || !rp_is_digest(s))
			return record_malformed(at, field, "digests (\"sha256:\" and 64 hex digits)");
		if (sorted && before != NULL && strcmp(before, s) >= 0)
			return record_malformed(at, field, "digests in ascending order, none twice");
		before = s;
	}
	return sorted && before == NULL ? record_malformed(at, field, "at least one digest") : RP_OK;
}

static rp_code read_version(const record_at *at, const char *field)
{
	uint64_t n;
	rp_code code = record_whole(at, field, 0, &n);
	return code != RP_OK || n == 1 ? code : record_fail(at->rd, RP_UNSUPPORTED, "unsupported-schema", "%s%s: is %llu, expected 1", at->where,
		field, (unsigned long long)n);
}

static rp_code read_field(const record_at *at, const claim_field *f)
{
	const char *text;
	uint64_t n;
	switch (f->kind) {
	case PARTICIPANT:
		return record_matching(at, f->name, rp_is_participant, "a participant id (\"peer:\" and 24 hex digits)", &text);
	case DIGEST:
		return record_matching(at, f->name, rp_is_digest, "\"sha256:\" and 64 hex digits", &text);
	case DIGESTS:
	case SORTED_DIGESTS:
		return read_digests(at, f->name, f->kind == SORTED_DIGESTS);
	case UUID:
		return record_matching(at, f->name, record_is_uuid, "a UUID, version 4, in lower case", &text);
	case COUNT:
	case WHOLE:
		return record_whole(at, f->name, f->kind == COUNT, &n);
	case TEXT:
	case WORD:
		return record_string(at, f->name, f->kind == TEXT ? MAX_ID : MAX_WORD, &text);
	case VERSION:
		return read_version(at, f->name);
	case RECEIPT:
		return record_matching(at, f->name, record_is_receipt_id, "\"receipt:\" and 24 hex digits", &text);
	case REQUEST:
		return record_matching(at, f->name, record_is_request, "\"request:\" and the id of a request", &text);
	case STATUS:
		return record_one_of(at, f->name, record_statuses, &text);
	case SCHEMA:
		break; /* it chose the kind */
	}
	return RP_OK;
}

static rp_code read_claim(const claim *c)
{
	const record_at *at = &c->claim;
	for (const cJSON *m = at->object->child; m != NULL; m = m->next) {
		const claim_field *f = c->kind->fields;
		while (f->name != NULL && strcmp(f->name, m->string) != 0)
			f++;
		if (f->name == NULL)
			return record_malformed(at, m->string, "no such member");
	}
	rp_code code = RP_OK;
	for (const claim_field *f = c->kind->fields; f->name != NULL && code == RP_OK; f++)
		if (!f->optional || get(c, f->name) != NULL)
			code = read_field(at, f);
	return code;
}

/* ---- signatures ---- */
typedef struct signer {
	const char *jwk, *signature, *id_field; /* members of the record, and the claim's field */
	const cJSON *jwk_value;
	rp_public_key key;
	unsigned char bytes[RP_SIG_BYTES];
} signer;

static rp_code read_signer(const claim *c, signer *s)
{
	record_reader *rd = c->record.rd;
	rp_code code = record_object(&c->record, s->jwk, &s->jwk_value);
	if (code == RP_OK)
		code = record_signature(&c->record, s->signature, RP_BASE64URL, s->bytes);
	if (code == RP_OK) {
		code = rp_public_key_of_jwk(rd->name, s->jwk, s->jwk_value, &s->key, rd->err);
		rd->r->reason = code != RP_OK ? "malformed" : NULL;
	}
	return code;
}

static rp_code check_id(const claim *c, const signer *s)
{
	record_reader *rd = c->record.rd;
	char id[RP_PARTICIPANT];
	rp_code code = rp_participant_id(s->jwk_value, id, rd->err);
	if (code == RP_OK && strcmp(id, text_of(c, s->id_field)) != 0)
		code = record_fail(rd, RP_SIGNATURE, "identity-mismatch", "claim.%s: is %s, but %s is the key of %s", s->id_field,
			text_of(c, s->id_field), s->jwk, id);
	return code;
}

static rp_code check_signatures(const claim *c, const signer *signers, size_t n)
{
	rp_buf text;
	rp_code code = RP_OK;
	for (size_t i = 0; i < n && code == RP_OK; i++)
		code = check_id(c, &signers[i]);
	if (code != RP_OK)
		return code;
	rp_buf_init(&text, 0);
	code = rp_canonical(c->claim.object, RP_KEYS_PLAIN, &text, c->record.rd->err);
	for (size_t i = 0; i < n && code == RP_OK; i++)
		if (!rp_signature_ok(&signers[i].key, RP_SIG_RAW, text.data, text.len, signers[i].bytes, RP_SIG_BYTES))
			code = record_fail(c->record.rd, RP_SIGNATURE, "bad-signature", "%s: does not verify over the claim", signers[i].signature);
	rp_buf_free(&text);
	return code;
}

/* ---- what must agree, and the times ---- */
static rp_code bind_certificate(claim *c)
{
	if ((get(c, "pieces") != NULL) == (get(c, "pieceSetHash") != NULL))
		return record_malformed(&c->claim, "pieces", "either it or pieceSetHash");
	return record_check_times(c->record.rd, number_of(c, "issuedAt"), number_of(c, "expiresAt"), RP_CERTIFICATE_MS);
}

/* With the transfer's authorization at hand it must be that one. */
static rp_code bind_authorization(const claim *c)
{
	record_reader *rd = c->record.rd;
	const rp_record_check *check = rd->check;
	unsigned char sum[RP_HASH_BYTES];
	char digest[RP_DIGEST_TEXT];
	cJSON *v = NULL;
	if (check->authorization == NULL)
		return RP_OK;
	rp_code code = rp_json_parse(check->authorization_name, check->authorization, check->n_authorization, &v, rd->err);
	if (code == RP_OK)
		code = rp_canonical_sha256(v, RP_KEYS_LOCALE, sum, rd->err);
	if (code == RP_OK && strcmp(rp_digest_text(digest, sum), text_of(c, "authorizationHash")) != 0)
		code = mismatch(c, "authorizationHash", "is not that of the authorization");
	const char *transfer = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(v, "transferId"));
	if (code == RP_OK && (transfer == NULL || strcmp(transfer, text_of(c, "transferId")) != 0))
		code = mismatch(c, "transferId", "is not that of the authorization");
	cJSON_Delete(v);
	return code;
}

static rp_code bind_delivery(claim *c)
{
	record_reader *rd = c->record.rd;
	uint64_t finished = number_of(c, "finishedAt");
	if (strcmp(text_of(c, "supplier"), text_of(c, "receiver")) == 0)
		return mismatch(c, "supplier", "is the receiver itself");
	if (finished < number_of(c, "startedAt"))
		return mismatch(c, "finishedAt", "is before claim.startedAt");
	if (finished > rd->check->now_ms + RP_CLOCK_SKEW_MS)
		return record_fail(rd, RP_SIGNATURE, "not-yet-valid", "claim.finishedAt: is %llu ms after the time it is judged by",
			(unsigned long long)(finished - rd->check->now_ms));
	return bind_authorization(c);
}

static rp_code bind_receipt(claim *c)
{
	record_reader *rd = c->record.rd;
	unsigned char sum[RP_HASH_BYTES];
	char id[40] = "receipt:";
	cJSON *copy = cJSON_Duplicate(c->claim.object, true), *empty = cJSON_CreateString("");
	if (copy == NULL || empty == NULL || !cJSON_ReplaceItemInObjectCaseSensitive(copy, "receiptId", empty)) {
		cJSON_Delete(copy);
		cJSON_Delete(empty);
		return rp_no_memory(rd->err, 1024, rd->name);
	}
	rp_code code = rp_canonical_sha256(copy, RP_KEYS_PLAIN, sum, rd->err);
	rp_hex(id + 8, sum, 12);
	if (code == RP_OK && strcmp(id, text_of(c, "receiptId")) != 0)
		code = record_fail(rd, RP_SIGNATURE, "binding-mismatch", "claim.receiptId: is %s, the fields give %s", text_of(c, "receiptId"), id);
	cJSON_Delete(copy);
	return code;
}

/* ---- kinds ---- */
static const claim_field certificate[] = {{"schema", SCHEMA, false}, {"participantId", PARTICIPANT, false}, {"modelIdentity", DIGEST, false},
	{"indexIdentity", DIGEST, false}, {"pieces", SORTED_DIGESTS, true}, {"pieceSetHash", DIGEST, true}, {"issuedAt", WHOLE, false},
	{"expiresAt", WHOLE, false}, {NULL, SCHEMA, false}};
static const claim_field attestation[] = {{"schema", SCHEMA, false}, {"supplier", PARTICIPANT, false}, {"receiver", PARTICIPANT, false},
	{"modelIdentity", DIGEST, false}, {"transferId", UUID, false}, {"authorizationHash", DIGEST, false}, {"bytes", COUNT, false},
	{"pieces", COUNT, false}, {"startedAt", WHOLE, false}, {"finishedAt", WHOLE, false}, {NULL, SCHEMA, false}};
static const claim_field receipt[] = {{"schema", SCHEMA, false}, {"version", VERSION, false}, {"receiptId", RECEIPT, false},
	{"provider", PARTICIPANT, false}, {"consumer", PARTICIPANT, false}, {"jobHash", REQUEST, false}, {"model", TEXT, false},
	{"inputTokens", WHOLE, false}, {"outputTokens", WHOLE, false}, {"status", STATUS, false}, {"timestamp", WHOLE, false},
	{"modelIdentity", DIGEST, false}, {"adapterIdentities", DIGESTS, false}, {"attemptId", TEXT, false}, {"inputHash", DIGEST, false},
	{"outputHash", DIGEST, false}, {"stopReason", WORD, false}, {NULL, SCHEMA, false}};

static const claim_kind kinds[] = {
	{RECORD_CERTIFICATE, "participantId", certificate, bind_certificate, false, NULL},
	{RECORD_ATTESTATION, "receiver", attestation, bind_delivery, false, "transferId"},
	{RECORD_WHOLE_RECEIPT, "provider", receipt, bind_receipt, true, "receiptId"},
};

static rp_code report(const claim *c)
{
	const char *signers = c->consumer_signs ? "provider, consumer" : c->kind->countersigned ? "provider" : "signer";
	rp_code code = record_fact(c->record.rd, RP_FACT_VERIFIED, NULL, NULL, "signature");
	if (code == RP_OK && c->kind->countersigned)
		code = record_fact(c->record.rd, c->consumer_signs ? RP_FACT_VERIFIED : RP_FACT_UNAVAILABLE, NULL, NULL, "consumerSignature");
	for (const cJSON *m = c->claim.object->child; m != NULL && code == RP_OK; m = m->next) {
		bool bound = strcmp(m->string, "authorizationHash") == 0 && c->record.rd->check->authorization != NULL;
		bool proved = bound || strcmp(m->string, c->kind->signer) == 0 || strcmp(m->string, "receiptId") == 0 ||
			(c->consumer_signs && strcmp(m->string, "consumer") == 0);
		code = record_fact(c->record.rd, proved ? RP_FACT_VERIFIED : RP_FACT_CLAIMED, signers, m, "claim.%s", m->string);
	}
	/* only its signer knows whether a certificate was taken back */
	return code == RP_OK && c->kind->bind == bind_certificate ? record_fact(c->record.rd, RP_FACT_UNAVAILABLE, NULL, NULL, "revocation") : code;
}

rp_code record_claim(record_reader *rd)
{
	static const char *const members[] = {"claim", "publicJwk", "signature", NULL};
	static const char *const more[] = {"claim", "publicJwk", "signature", "consumerJwk", "consumerSignature", NULL};
	claim c = {.record = {rd, "", rd->r->json}, .claim = {rd, "claim.", cJSON_GetObjectItemCaseSensitive(rd->r->json, "claim")}, .kind = kinds};
	while (strcmp(c.kind->schema, text_of(&c, "schema")) != 0) /* the reader was chosen by it */
		c.kind++;
	signer signers[] = {{.jwk = "publicJwk", .signature = "signature", .id_field = c.kind->signer},
		{.jwk = "consumerJwk", .signature = "consumerSignature", .id_field = "consumer"}};
	c.consumer_signs = c.kind->countersigned &&
		(cJSON_HasObjectItem(c.record.object, "consumerJwk") || cJSON_HasObjectItem(c.record.object, "consumerSignature"));
	rp_code code = record_only(&c.record, c.kind->countersigned ? more : members);
	for (size_t i = 0; code == RP_OK && i < 1u + c.consumer_signs; i++)
		code = read_signer(&c, &signers[i]);
	if (code == RP_OK)
		code = read_claim(&c);
	if (code == RP_OK)
		code = check_signatures(&c, signers, 1u + c.consumer_signs);
	if (code == RP_OK)
		code = c.kind->bind(&c);
	rd->r->id = c.kind->id != NULL ? text_of(&c, c.kind->id) : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(rd->r->json, "signature"));
	return code == RP_OK ? report(&c) : code;
}
