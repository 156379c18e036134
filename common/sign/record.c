/* Which kind a record is, and what its readers share. */
#include "record_impl.h"

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_code record_fail(record_reader *rd, rp_code code, const char *reason, const char *fmt, ...)
{
	char text[700];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	rd->r->reason = reason;
	return rp_fail(rd->err, code, "%s: %s (%s)", rd->name, text, reason);
}

rp_code record_malformed(const record_at *at, const char *field, const char *expected)
{
	return record_fail(at->rd, RP_FORMAT, "malformed", "%s%s: expected %s", at->where, field, expected);
}

/* ---- fields ---- */
static const cJSON *member(const record_at *at, const char *field)
{
	return cJSON_GetObjectItemCaseSensitive(at->object, field);
}

rp_code record_string(const record_at *at, const char *field, size_t max_utf16, const char **out)
{
	const char *s = cJSON_GetStringValue(member(at, field));
	if (s == NULL || *s == '\0')
		return record_malformed(at, field, "a string that is not empty");
	if (max_utf16 > 0 && rp_utf16_length(s) > max_utf16)
		return record_fail(at->rd, RP_FORMAT, "malformed", "%s%s: has %zu characters, at most %zu are allowed", at->where, field,
			rp_utf16_length(s), max_utf16);
	*out = s;
	return RP_OK;
}

rp_code record_matching(const record_at *at, const char *field, bool (*is)(const char *s), const char *expected, const char **out)
{
	const char *s = cJSON_GetStringValue(member(at, field));
	if (s == NULL || !is(s))
		return record_malformed(at, field, expected);
	*out = s;
	return RP_OK;
}

rp_code record_one_of(const record_at *at, const char *field, const char *const *words, const char **out)
{
	char list[200];
	size_t used = 0;
	const char *s = cJSON_GetStringValue(member(at, field));
	for (size_t i = 0; words[i] != NULL; i++) {
		if (s != NULL && strcmp(s, words[i]) == 0) {
			*out = s;
			return RP_OK;
		}
		int n = snprintf(list + used, sizeof list - used, "%s\"%s\"", i > 0 ? " or " : "", words[i]);
		used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
	}
	return record_malformed(at, field, list);
}

rp_code record_whole(const record_at *at, const char *field, uint64_t min, uint64_t *out)
{
	uint64_t v;
	if (!rp_json_whole(member(at, field), &v) || v < min || v >= (uint64_t)1 << 53)
		return record_malformed(at, field, min > 0 ? "a positive whole number below 2^53" : "a whole number from 0 to 2^53 - 1");
	*out = v;
	return RP_OK;
}

rp_code record_object(const record_at *at, const char *field, const cJSON **out)
{
	const cJSON *v = member(at, field);
	if (!cJSON_IsObject(v))
		return record_malformed(at, field, "an object");
	*out = v;
	return RP_OK;
}

rp_code record_array(const record_at *at, const char *field, const cJSON **out)
{
	const cJSON *v = member(at, field);
	if (!cJSON_IsArray(v))
		return record_malformed(at, field, "an array");
	*out = v;
	return RP_OK;
}

rp_code record_signature(const record_at *at, const char *field, rp_base64 form, unsigned char out[RP_SIG_BYTES])
{
	const char *s = cJSON_GetStringValue(member(at, field));
	if (s == NULL || !rp_base64_exact(form, s, strlen(s), out, RP_SIG_BYTES))
		return record_malformed(at, field, form == RP_BASE64URL ? "64 bytes in base64url without padding" : "64 bytes in base64 with padding");
	return RP_OK;
}

rp_code record_only(const record_at *at, const char *const *members)
{
	for (const cJSON *m = at->object->child; m != NULL; m = m->next) {
		size_t i = 0;
		while (members[i] != NULL && strcmp(members[i], m->string) != 0)
			i++;
		if (members[i] == NULL)
			return record_malformed(at, m->string, "no such member");
	}
	return RP_OK;
}

bool record_is_uuid(const char *s)
{
	static const char form[] = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx";
	if (strlen(s) != sizeof form - 1)
		return false;
	for (size_t i = 0; i < sizeof form - 1; i++) {
		const char *allowed = form[i] == 'x' ? "0123456789abcdef" : form[i] == 'v' ? "89ab" : form[i] == '4' ? "4" : "-";
		if (strchr(allowed, s[i]) == NULL)
			return false;
	}
	return true;
}

rp_code record_check_times(record_reader *rd, uint64_t issued_at, uint64_t expires_at, uint64_t longest)
{
	uint64_t now = rd->check->now_ms;
	if (expires_at <= issued_at)
		return record_fail(rd, RP_SIGNATURE, "expired", "claim.expiresAt: is not after claim.issuedAt");
	if (expires_at - issued_at > longest)
		return record_fail(rd, RP_SIGNATURE, "lifetime-too-long", "claim.expiresAt: is %llu ms after claim.issuedAt, at most %llu are allowed",
			(unsigned long long)(expires_at - issued_at), (unsigned long long)longest);
	if (issued_at > now + RP_CLOCK_SKEW_MS)
		return record_fail(rd, RP_SIGNATURE, "not-yet-valid", "claim.issuedAt: is %llu ms after the time it is judged by",
			(unsigned long long)(issued_at - now));
	if (expires_at <= now)
		return record_fail(rd, RP_SIGNATURE, "expired", "claim.expiresAt: was %llu ms before the time it is judged by",
			(unsigned long long)(now - expires_at));
	return RP_OK;
}

/* ---- facts ---- */
rp_code record_fact(record_reader *rd, rp_fact_state state, const char *signers, const cJSON *value, const char *fmt, ...)
{
	rp_record *r = rd->r;
	char field[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(field, sizeof field, fmt, ap);
	va_end(ap);
	if (r->n_facts == r->room) {
		size_t room = r->room > 0 ? r->room * 2 : 32;
		rp_fact *grown = rp_grow_array(r->facts, room, sizeof *grown);
		if (grown == NULL)
			return rp_no_memory(rd->err, room * sizeof *grown, rd->name);
		r->facts = grown;
		r->room = room;
	}
	char *copy = rp_arena_strndup(&r->arena, field, strlen(field));
	if (copy == NULL)
		return rp_no_memory(rd->err, strlen(field), rd->name);
	r->facts[r->n_facts++] = (rp_fact){.field = copy, .state = state, .signers = signers, .value = value};
	return RP_OK;
}

const char *rp_fact_word(rp_fact_state state)
{
	static const char *const words[] = {"verified", "claimed", "unavailable"};
	return words[state];
}

/* ---- signed bytes ---- */
rp_code rp_domain_bytes(const cJSON *record, const char *const *left_out, const char *domain, rp_buf *out, rp_error *err)
{
	cJSON *whole = cJSON_CreateObject(), *payload = cJSON_Duplicate(record, true);
	rp_code code = RP_OK;
	for (size_t i = 0; payload != NULL && left_out[i] != NULL; i++)
		cJSON_DeleteItemFromObjectCaseSensitive(payload, left_out[i]);
	if (whole == NULL || payload == NULL || cJSON_AddStringToObject(whole, "signatureDomain", domain) == NULL ||
		!cJSON_AddItemToObject(whole, "payload", payload)) {
		cJSON_Delete(payload);
		code = rp_no_memory(err, 4096, "a record");
	}
	if (code == RP_OK)
		code = rp_canonical(whole, RP_KEYS_PLAIN, out, err);
	cJSON_Delete(whole);
	return code;
}

/* ---- kinds ---- */
static const char *text_of(const cJSON *v, const char *member_name)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(v, member_name));
	return s != NULL ? s : "";
}

static const struct kind {
	const char *name;
	rp_code (*read)(record_reader *rd);
} kinds[] = {{"generation-receipt", record_generation}, {"pool-receipt", record_pool}, {"partition-grant", record_grant},
	{"custody-receipt", record_custody}, {"custody-certificate", record_claim}, {"delivery-attestation", record_claim},
	{"whole-model-receipt", record_claim}};

static const struct kind *kind_of(const cJSON *v)
{
	const cJSON *claim = cJSON_GetObjectItemCaseSensitive(v, "claim");
	if (strcmp(text_of(v, "receiptVersion"), "reploid_browser_inference/v1") == 0)
		return &kinds[1];
	if (strcmp(text_of(claim, "schema"), "reploid.partition-grant/v2") == 0)
		return &kinds[2];
	if (strcmp(text_of(v, "schema"), "reploid.pool.pack-custody-receipt/v1") == 0)
		return &kinds[3];
	static const char *const own[] = {RECORD_CERTIFICATE, RECORD_ATTESTATION, RECORD_WHOLE_RECEIPT};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (strcmp(text_of(claim, "schema"), own[i]) == 0)
			return &kinds[4 + i];
	return cJSON_HasObjectItem(v, "receiptId") && cJSON_HasObjectItem(v, "provider") ? &kinds[0] : NULL;
}

bool rp_record_looks_like(const cJSON *v)
{
	const cJSON *claim = cJSON_GetObjectItemCaseSensitive(v, "claim");
	return cJSON_IsObject(v) && (kind_of(v) != NULL || (cJSON_IsObject(claim) && cJSON_HasObjectItem(v, "signature")) ||
		strncmp(text_of(v, "schema"), "reploid.pool.pack-custody-", 26) == 0 || strncmp(text_of(v, "receiptVersion"), "reploid", 7) == 0);
}

rp_code rp_record_verify(const char *name, const char *text, size_t n, const rp_record_check *check, rp_record *out, rp_error *err)
{
	record_reader rd = {.name = name, .check = check, .r = out, .err = err};
	*out = (rp_record){.kind = NULL};
	rp_arena_init(&out->arena, 0);
	if (n > RP_RECORD_MAX)
		return record_fail(&rd, RP_FORMAT, "malformed", "%zu bytes are more than a record may have (%d)", n, RP_RECORD_MAX);
	rp_code code = rp_json_parse(name, text, n, &out->json, err);
	if (code != RP_OK) {
		out->reason = code == RP_FORMAT ? "malformed" : NULL;
		return code;
	}
	if (!cJSON_IsObject(out->json))
		return record_fail(&rd, RP_FORMAT, "malformed", "expected a JSON object");
	const struct kind *kind = kind_of(out->json);
	if (kind == NULL) {
		const cJSON *claim = cJSON_GetObjectItemCaseSensitive(out->json, "claim");
		char shown[80];
		const char *schema = text_of(claim != NULL ? claim : out->json, "schema");
		return record_fail(&rd, RP_UNSUPPORTED, "unsupported-schema", "schema \"%s\": no record that is known here",
			rp_show(shown, sizeof shown, schema, strlen(schema)));
	}
	out->kind = kind->name;
	return kind->read(&rd);
}

void rp_record_free(rp_record *r)
{
	cJSON_Delete(r->json);
	free(r->facts);
	rp_arena_free(&r->arena);
	*r = (rp_record){.kind = NULL};
}
