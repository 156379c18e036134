/* Custody transfer receipts: what a receiver noted of a transfer of files. Nobody signs the receipt itself; the requests and responses
 * in it are signed, and with the authorization of the transfer, which holds the keys, they can be checked. */
#include "record_impl.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "reploid.pool.pack-custody-"
#define DIGEST "\"sha256:\" and 64 hex digits"

static const char *const unsigned_member[] = {"signature", NULL};

typedef struct custody {
	record_at at;
	cJSON *authorization; /* owned */
	const cJSON *artifacts, *suppliers;
	const char *requester; /* its transport id */
	rp_public_key requester_key;
} custody;

static const cJSON *get(const cJSON *object, const char *member)
{
	return cJSON_GetObjectItemCaseSensitive(object, member);
}

static const char *text_of(const cJSON *object, const char *member)
{
	const char *s = cJSON_GetStringValue(get(object, member));
	return s != NULL ? s : "";
}

/* ---- shape ---- */
static rp_code read_costs(const record_at *at)
{
	static const char *const counts[] = {"reservedBytes", "receivedBytes", "verificationBytes", "cacheBytes", "corruptCacheBytes",
		"persistedBytes", "evictedBytes", "duplicateBytes", "maxConcurrentChunks", "peakInFlightBytes", "peakArtifactBytes"};
	static const char *const maybe[] = {"browserHeapBytes", "wireBytes", "relayBytes", "interruptedBytes"};
	static const char *const times[] = {"firstArtifactMs", "elapsedMs"};
	uint64_t n;
	rp_code code = RP_OK;
	for (size_t i = 0; i < sizeof counts / sizeof *counts && code == RP_OK; i++)
		code = record_whole(at, counts[i], 0, &n);
	for (size_t i = 0; i < sizeof maybe / sizeof *maybe && code == RP_OK; i++)
		if (!cJSON_IsNull(get(at->object, maybe[i]))) /* unknown is null, never 0 */
			code = record_whole(at, maybe[i], 1, &n);
	for (size_t i = 0; i < sizeof times / sizeof *times && code == RP_OK; i++) {
		const cJSON *v = get(at->object, times[i]);
		if (!cJSON_IsNull(v) && !(cJSON_IsNumber(v) && v->valuedouble >= 0))
			code = record_malformed(at, times[i], "a number of milliseconds, or null");
	}
	return code;
}

static rp_code read_completed(const record_at *at)
{
	const cJSON *list, *e;
	rp_code code = record_array(at, "completed", &list);
	if (code != RP_OK)
		return code;
	cJSON_ArrayForEach(e, list)
	{
		const record_at entry = {at->rd, "completed[].", e};
		const char *text;
		uint64_t n;
		code = cJSON_IsObject(e) ? record_string(&entry, "artifactId", 0, &text) : record_malformed(at, "completed[]", "objects");
		if (code == RP_OK)
			code = record_matching(&entry, "hash", rp_is_digest, DIGEST, &text);
		if (code == RP_OK)
			code = record_whole(&entry, "sizeBytes", 0, &n);
		if (code != RP_OK)
			break;
	}
	return code;
}

static rp_code read_attempts(const record_at *at)
{
	static const char *const statuses[] = {"pending", "accepted", "rejected", NULL};
	const cJSON *list, *e;
	rp_code code = record_array(at, "attempts", &list);
	if (code != RP_OK)
		return code;
	cJSON_ArrayForEach(e, list)
	{
		const record_at entry = {at->rd, "attempts[].", e};
		const char *text;
		code = cJSON_IsObject(e) ? record_one_of(&entry, "status", statuses, &text) : record_malformed(at, "attempts[]", "objects");
		if (code != RP_OK)
			break;
	}
	return code;
}

static rp_code read_shape(const record_at *at)
{
	static const char *const sources[] = {"peer", "cache", "cache-and-peer", NULL};
	static const char *const digests[] = {"authorizationHash", "artifactSetIdentity", "indexDigest"};
	const char *text;
	uint64_t n;
	rp_code code = RP_OK;
	for (size_t i = 0; i < sizeof digests / sizeof *digests && code == RP_OK; i++)
		code = record_matching(at, digests[i], rp_is_digest, DIGEST, &text);
	if (code == RP_OK)
		code = record_matching(at, "transferId", record_is_uuid, "a UUID, version 4, in lower case", &text);
	if (code == RP_OK)
		code = record_whole(at, "attempt", 1, &n);
	if (code == RP_OK)
		code = record_one_of(at, "source", sources, &text);
	if (code == RP_OK)
		code = read_costs(at);
	if (code == RP_OK)
		code = read_completed(at);
	return code == RP_OK ? read_attempts(at) : code;
}

/* ---- the authorization ---- */
static rp_code mismatch(const custody *c, const char *field, const char *with)
{
	return record_fail(c->at.rd, RP_SIGNATURE, "binding-mismatch", "%s: is not that of %s", field, with);
}

static rp_code key_of(const custody *c, const cJSON *peer, const char *field, rp_public_key *out)
{
	const record_reader *rd = c->at.rd;
	unsigned char der[256];
	size_t n = 0;
	const char *text = text_of(peer, "publicKey");
	if (!rp_base64_decode(RP_BASE64, text, strlen(text), der, sizeof der, &n))
		return rp_fail(rd->err, RP_FORMAT, "%s: %s: expected a public key (SPKI) in base64 with padding", rd->check->authorization_name, field);
	return rp_public_key_of_spki(rd->check->authorization_name, field, der, n, out, rd->err);
}

/* Whether the order-L digest of v is the text. */
static rp_code digest_is(const custody *c, const cJSON *v, const char *text, bool *same)
{
	unsigned char sum[32];
	char digest[RP_DIGEST_TEXT];
	rp_code code = rp_canonical_sha256(v, RP_KEYS_LOCALE, sum, c->at.rd->err);
	if (code == RP_OK)
		*same = strcmp(rp_digest_text(digest, sum), text) == 0;
	return code;
}

static rp_code digest_without_signature_is(const custody *c, const cJSON *v, const char *text, bool *same)
{
	cJSON *copy = cJSON_Duplicate(v, true);
	if (copy == NULL)
		return rp_no_memory(c->at.rd->err, 4096, c->at.rd->name);
	cJSON_DeleteItemFromObjectCaseSensitive(copy, "signature");
	rp_code code = digest_is(c, copy, text, same);
	cJSON_Delete(copy);
	return code;
}

static rp_code read_authorization(custody *c)
{
	record_reader *rd = c->at.rd;
	const rp_record_check *check = rd->check;
	const cJSON *set, *requester;
	bool same = false;
	rp_code code = rp_json_parse(check->authorization_name, check->authorization, check->n_authorization, &c->authorization, rd->err);
	if (code != RP_OK)
		return code;
	set = get(c->authorization, "artifactSet");
	requester = get(c->authorization, "requester");
	c->artifacts = get(set, "artifacts");
	c->suppliers = get(c->authorization, "suppliers");
	c->requester = text_of(requester, "peerId");
	if (strcmp(text_of(c->authorization, "schema"), PREFIX "authorization/v2") != 0 || !cJSON_IsArray(c->artifacts) ||
		!cJSON_IsArray(c->suppliers))
		return rp_fail(rd->err, RP_FORMAT, "%s: expected an authorization (" PREFIX "authorization/v2)", check->authorization_name);
	code = digest_is(c, c->authorization, text_of(c->at.object, "authorizationHash"), &same);
	if (code == RP_OK && !same)
		code = mismatch(c, "authorizationHash", check->authorization_name);
	if (code == RP_OK)
		code = digest_is(c, c->artifacts, text_of(set, "identity"), &same);
	if (code == RP_OK && (!same || strcmp(text_of(set, "identity"), text_of(c->at.object, "artifactSetIdentity")) != 0))
		code = mismatch(c, "artifactSetIdentity", "the authorization's artifacts");
	if (code == RP_OK && strcmp(text_of(c->authorization, "indexDigest"), text_of(c->at.object, "indexDigest")) != 0)
		code = mismatch(c, "indexDigest", "the authorization");
	if (code == RP_OK && strcmp(text_of(c->authorization, "transferId"), text_of(c->at.object, "transferId")) != 0)
		code = mismatch(c, "transferId", "the authorization");
	if (code == RP_OK && !cJSON_Compare(get(c->authorization, "attempt"), get(c->at.object, "attempt"), true))
		code = mismatch(c, "attempt", "the authorization");
	return code == RP_OK ? key_of(c, requester, "requester.publicKey", &c->requester_key) : code;
}

static rp_code check_completed(const custody *c)
{
	const cJSON *done, *artifact;
	cJSON_ArrayForEach(done, get(c->at.object, "completed"))
	{
		bool known = false;
		cJSON_ArrayForEach(artifact, c->artifacts)
			known |= strcmp(text_of(artifact, "artifactId"), text_of(done, "artifactId")) == 0 &&
				strcmp(text_of(artifact, "hash"), text_of(done, "hash")) == 0 &&
				cJSON_Compare(get(artifact, "sizeBytes"), get(done, "sizeBytes"), true);
		if (!known)
			return mismatch(c, "completed[]", "any artifact of the authorization");
	}
	return RP_OK;
}

/* ---- what is signed in it ---- */
/* A signed message of an attempt, found by its schema whatever its member is called. */
static const cJSON *message(const cJSON *attempt, const char *schema)
{
	for (const cJSON *m = attempt->child; m != NULL; m = m->next)
		if (cJSON_IsObject(m) && strcmp(text_of(m, "schema"), schema) == 0)
			return m;
	return NULL;
}

/* why: NULL when the signature is that of the key over the record in the domain of its schema. */
static rp_code check_signature(const custody *c, const cJSON *record, const rp_public_key *key, const char **why)
{
	unsigned char signature[RP_SIG_BYTES];
	rp_buf bytes;
	const char *text = text_of(record, "signature");
	*why = "signature: expected 64 bytes in base64 with padding";
	if (!rp_base64_exact(RP_BASE64, text, strlen(text), signature, sizeof signature))
		return RP_OK;
	rp_buf_init(&bytes, 0);
	rp_code code = rp_domain_bytes(record, unsigned_member, text_of(record, "schema"), &bytes, c->at.rd->err);
	if (code == RP_OK)
		*why = rp_signature_ok(key, RP_SIG_RAW, bytes.data, bytes.len, signature, sizeof signature) ? NULL : "signature: does not verify";
	rp_buf_free(&bytes);
	return code;
}

static rp_code check_by_supplier(const custody *c, const cJSON *record, const char **why)
{
	const cJSON *s;
	rp_public_key key;
	*why = "peerId: no supplier of the authorization";
	cJSON_ArrayForEach(s, c->suppliers)
	{
		if (strcmp(text_of(s, "peerId"), text_of(record, "peerId")) != 0)
			continue;
		rp_code code = key_of(c, s, "suppliers[].publicKey", &key);
		return code == RP_OK ? check_signature(c, record, &key, why) : code;
	}
	return RP_OK;
}

static bool same_transfer(const custody *c, const cJSON *record)
{
	return strcmp(text_of(record, "authorizationHash"), text_of(c->at.object, "authorizationHash")) == 0;
}

static rp_code check_request(const custody *c, const cJSON *request, const char **why)
{
	*why = "authorizationHash, transferId or requesterPeerId: not those of this transfer";
	if (!same_transfer(c, request) || strcmp(text_of(request, "transferId"), text_of(c->at.object, "transferId")) != 0 ||
		strcmp(text_of(request, "requesterPeerId"), c->requester) != 0)
		return RP_OK;
	return check_signature(c, request, &c->requester_key, why);
}

static rp_code check_response(const custody *c, const cJSON *request, const cJSON *response, const char **why)
{
	bool same = false;
	*why = "authorizationHash: not that of this transfer";
	if (!same_transfer(c, response))
		return RP_OK;
	rp_code code = digest_without_signature_is(c, request, text_of(response, "requestHash"), &same);
	*why = "requestHash: not that of the request";
	return code == RP_OK && same ? check_by_supplier(c, response, why) : code;
}

static rp_code broken(const custody *c, size_t i, const char *what, const char *why)
{
	return record_fail(c->at.rd, RP_SIGNATURE, "bad-signature", "attempts[%zu]: %s: %s", i, what, why);
}

static rp_code check_attempt(const custody *c, const cJSON *attempt, size_t i)
{
	record_reader *rd = c->at.rd;
	const cJSON *request = message(attempt, PREFIX "request/v1"), *response = message(attempt, PREFIX "response/v1");
	bool accepted = strcmp(text_of(attempt, "status"), "accepted") == 0;
	const char *why = NULL;
	if (request == NULL || (accepted && response == NULL))
		return broken(c, i, request == NULL ? "request" : "response", "is not there");
	rp_code code = check_request(c, request, &why);
	if (code == RP_OK && why != NULL)
		return broken(c, i, "request", why);
	if (code == RP_OK)
		code = record_fact(rd, RP_FACT_VERIFIED, "requester", NULL, "attempts[%zu].request", i);
	if (code != RP_OK || response == NULL)
		return code == RP_OK ? record_fact(rd, RP_FACT_UNAVAILABLE, NULL, NULL, "attempts[%zu].response", i) : code;
	code = check_response(c, request, response, &why);
	if (code == RP_OK && why != NULL && accepted)
		return broken(c, i, "response", why);
	/* a bad response may be why an attempt was rejected */
	return code == RP_OK ? record_fact(rd, why == NULL ? RP_FACT_VERIFIED : RP_FACT_CLAIMED, why == NULL ? "supplier" : NULL, NULL,
		"attempts[%zu].response", i) : code;
}

static rp_code check_signed(custody *c)
{
	static const char *const bound[] = {"authorizationHash", "artifactSetIdentity", "indexDigest", "transferId", "attempt"};
	const cJSON *e;
	size_t i = 0;
	rp_code code = read_authorization(c);
	if (code == RP_OK)
		code = check_completed(c);
	for (i = 0; i < sizeof bound / sizeof *bound && code == RP_OK; i++)
		code = record_fact(c->at.rd, RP_FACT_VERIFIED, NULL, get(c->at.object, bound[i]), "%s", bound[i]);
	i = 0;
	for (e = get(c->at.object, "attempts")->child; e != NULL && code == RP_OK; e = e->next)
		code = check_attempt(c, e, i++);
	i = 0;
	cJSON_ArrayForEach(e, get(c->at.object, "inventories"))
	{
		const char *why = "";
		if (code == RP_OK && cJSON_IsObject(e) && strcmp(text_of(e, "schema"), PREFIX "inventory/v1") == 0 && same_transfer(c, e))
			code = check_by_supplier(c, e, &why);
		if (code == RP_OK)
			code = record_fact(c->at.rd, why == NULL ? RP_FACT_VERIFIED : RP_FACT_CLAIMED, why == NULL ? "supplier" : NULL, NULL,
				"inventories[%zu]", i++);
	}
	return code;
}

/* The rest: what the receiver says. */
static rp_code report(const record_at *at, bool checked)
{
	rp_code code = RP_OK;
	for (const cJSON *m = at->object->child; m != NULL && code == RP_OK; m = m->next) {
		bool told = false;
		for (size_t i = 0; checked && i < at->rd->r->n_facts; i++)
			told |= strcmp(at->rd->r->facts[i].field, m->string) == 0;
		bool looked_into = checked && (strcmp(m->string, "attempts") == 0 || strcmp(m->string, "inventories") == 0);
		if (!told && !looked_into)
			code = record_fact(at->rd, cJSON_IsNull(m) ? RP_FACT_UNAVAILABLE : RP_FACT_CLAIMED, NULL, m, "%s", m->string);
	}
	return code;
}

rp_code record_custody(record_reader *rd)
{
	custody c = {.at = {rd, "", rd->r->json}};
	rp_code code = read_shape(&c.at);
	bool checked = code == RP_OK && rd->check->authorization != NULL;
	if (checked)
		code = check_signed(&c);
	if (code == RP_OK)
		code = report(&c.at, checked);
	if (code == RP_OK && !checked)
		code = record_fail(rd, RP_SIGNATURE, "no-key", "attempts: nobody signs this record, and the keys of the messages in it are in the "
			"transfer's authorization; give it with --authorization");
	cJSON_Delete(c.authorization);
	return code;
}
