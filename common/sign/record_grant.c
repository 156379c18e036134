/* Partition grants: the leave that the holder of an input gives another peer to compute one attempt of one request. */
#include "record_impl.h"

#include <string.h>

enum { MAX_IDENTITY = 256, MAX_ID = 128 };

typedef struct grant {
	record_at record, claim, identity, limits;
	const cJSON *jwk;
	const char *participant_a;
	uint64_t issued_at, expires_at;
	rp_public_key key;
	unsigned char signature[RP_SIG_BYTES];
} grant;

static rp_code read_record(grant *g)
{
	static const char *const members[] = {"claim", "publicJwk", "signature", NULL};
	rp_code code = record_only(&g->record, members);
	if (code == RP_OK)
		code = record_object(&g->record, "claim", &g->claim.object);
	if (code == RP_OK)
		code = record_object(&g->record, "publicJwk", &g->jwk);
	if (code == RP_OK)
		code = record_signature(&g->record, "signature", RP_BASE64URL, g->signature);
	if (code == RP_OK) {
		code = rp_public_key_of_jwk(g->record.rd->name, "publicJwk", g->jwk, &g->key, g->record.rd->err);
		g->record.rd->r->reason = code != RP_OK ? "malformed" : NULL;
	}
	return code;
}

/* With a requester of its own the identity has two members more, else neither. */
static rp_code read_requester(const record_at *at)
{
	const char *text;
	uint64_t n;
	if (!cJSON_HasObjectItem(at->object, "requesterId") && !cJSON_HasObjectItem(at->object, "placementGeneration"))
		return RP_OK;
	rp_code code = record_matching(at, "requesterId", rp_is_participant, "a participant id (\"peer:\" and 24 hex digits)", &text);
	return code == RP_OK ? record_whole(at, "placementGeneration", 0, &n) : code;
}

static rp_code read_identity(grant *g)
{
	static const char *const members[] = {"modelId", "modelIdentity", "planId", "threadId", "attemptId", "participantA", "participantB",
		"requesterId", "placementGeneration", NULL};
	enum { STRINGS = 7, A = 5, B = 6 };
	const char *values[STRINGS] = {NULL};
	const record_at *at = &g->identity;
	rp_code code = record_only(at, members);
	for (size_t i = 0; i < STRINGS && code == RP_OK; i++)
		code = record_string(at, members[i], MAX_IDENTITY, &values[i]);
	const char *text;
	if (code == RP_OK)
		code = record_matching(at, "modelIdentity", rp_is_digest, "\"sha256:\" and 64 hex digits", &text);
	if (code == RP_OK)
		code = read_requester(at);
	if (code == RP_OK && strcmp(values[A], values[B]) == 0)
		code = record_malformed(at, "participantB", "another participant than participantA");
	g->participant_a = values[A];
	return code;
}

static rp_code read_limits(const record_at *at)
{
	static const char *const members[] = {"maxTokens", "maxPromptTokens", "maxActivationBytes", "maxOutputCharacters", NULL};
	uint64_t n;
	rp_code code = record_only(at, members);
	for (size_t i = 0; members[i] != NULL && code == RP_OK; i++)
		code = record_whole(at, members[i], 1, &n);
	return code;
}

static rp_code read_claim(grant *g)
{
	static const char *const members[] = {"schema", "id", "meshId", "identity", "disclosure", "generationDigest", "issuedAt", "expiresAt",
		"limits", NULL};
	static const char *const disclosures[] = {"partition-activations", "partition-activations-and-tokens", NULL};
	const record_at *at = &g->claim;
	const char *text;
	rp_code code = record_only(at, members);
	if (code == RP_OK)
		code = record_string(at, "id", MAX_ID, &text);
	if (code == RP_OK)
		code = record_matching(at, "id", record_is_uuid, "a UUID, version 4, in lower case", &text);
	if (code == RP_OK)
		code = record_string(at, "meshId", 0, &text);
	if (code == RP_OK)
		code = record_object(at, "identity", &g->identity.object);
	if (code == RP_OK)
		code = read_identity(g);
	if (code == RP_OK)
		code = record_one_of(at, "disclosure", disclosures, &text);
	if (code == RP_OK)
		code = record_matching(at, "generationDigest", rp_is_digest, "\"sha256:\" and 64 hex digits", &text);
	if (code == RP_OK)
		code = record_whole(at, "issuedAt", 0, &g->issued_at);
	if (code == RP_OK)
		code = record_whole(at, "expiresAt", 0, &g->expires_at);
	if (code == RP_OK)
		code = record_object(at, "limits", &g->limits.object);
	return code == RP_OK ? read_limits(&g->limits) : code;
}

static rp_code check_signature(const grant *g)
{
	record_reader *rd = g->record.rd;
	char id[RP_PARTICIPANT];
	rp_buf text;
	rp_code code = rp_participant_id(g->jwk, id, rd->err);
	if (code == RP_OK && strcmp(id, g->participant_a) != 0)
		code = record_fail(rd, RP_SIGNATURE, "identity-mismatch", "claim.identity.participantA: is another participant than %s, whose key "
			"publicJwk is", id);
	if (code != RP_OK)
		return code;
	rp_buf_init(&text, 0);
	code = rp_canonical(g->claim.object, RP_KEYS_PLAIN, &text, rd->err);
	if (code == RP_OK && !rp_signature_ok(&g->key, RP_SIG_RAW, text.data, text.len, g->signature, RP_SIG_BYTES))
		code = record_fail(rd, RP_SIGNATURE, "bad-signature", "signature: does not verify over the claim");
	rp_buf_free(&text);
	return code;
}

static rp_code report_members(const record_at *at)
{
	rp_code code = RP_OK;
	for (const cJSON *m = at->object->child; m != NULL && code == RP_OK; m = m->next)
		if (!cJSON_IsObject(m))
			code = record_fact(at->rd, strcmp(m->string, "participantA") == 0 ? RP_FACT_VERIFIED : RP_FACT_CLAIMED, "participantA", m, "%s%s",
				at->where, m->string);
	return code;
}

rp_code record_grant(record_reader *rd)
{
	grant g = {.record = {rd, "", rd->r->json}, .claim = {rd, "claim.", NULL}, .identity = {rd, "claim.identity.", NULL},
		.limits = {rd, "claim.limits.", NULL}};
	rp_code code = read_record(&g);
	if (code == RP_OK)
		code = read_claim(&g);
	if (code == RP_OK)
		code = check_signature(&g);
	rd->r->id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(g.claim.object, "id"));
	if (code == RP_OK)
		code = record_check_times(rd, g.issued_at, g.expires_at, RP_GRANT_MS);
	if (code == RP_OK)
		code = record_fact(rd, RP_FACT_VERIFIED, NULL, NULL, "signature");
	if (code == RP_OK)
		code = report_members(&g.claim);
	if (code == RP_OK)
		code = report_members(&g.identity);
	if (code == RP_OK)
		code = report_members(&g.limits);
	/* only its authority knows whether it was taken back */
	return code == RP_OK ? record_fact(rd, RP_FACT_UNAVAILABLE, NULL, NULL, "revocation") : code;
}
