/* Signed records: receipts and grants. */
#include "verify.h"

#include "model/model.h"
#include "sign/record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cjson/cJSON.h>

static void value(rp_jsonw *w, const cJSON *v)
{
	if (cJSON_IsString(v))
		rp_jsonw_str(w, v->valuestring);
	else if (cJSON_IsNumber(v))
		rp_jsonw_f64(w, v->valuedouble);
	else if (cJSON_IsBool(v))
		rp_jsonw_bool(w, cJSON_IsTrue(v));
	else
		rp_jsonw_null(w);
}

static void members(rp_jsonw *w, const void *context)
{
	const rp_record *r = context;
	rp_jsonw_pair_str(w, "kind", r->kind);
	rp_jsonw_pair_str(w, "reason", r->reason);
	rp_jsonw_key(w, "fields");
	rp_jsonw_array(w);
	for (size_t i = 0; i < r->n_facts; i++) {
		rp_jsonw_object(w);
		rp_jsonw_pair_str(w, "field", r->facts[i].field);
		rp_jsonw_pair_str(w, "state", rp_fact_word(r->facts[i].state));
		rp_jsonw_pair_str(w, "signers", r->facts[i].signers);
		rp_jsonw_key(w, "value");
		value(w, r->facts[i].value);
		rp_jsonw_end(w);
	}
	rp_jsonw_end(w);
}

/* One line for each state: which fields are in it. */
static void tell_states(verify_state *v, const rp_record *r)
{
	for (int state = RP_FACT_VERIFIED; state <= RP_FACT_UNAVAILABLE; state++) {
		bool any = false;
		for (size_t i = 0; i < r->n_facts; i++) {
			char shown[120];
			if (r->facts[i].state != (rp_fact_state)state)
				continue;
			rp_buf_addf(&v->out, "%s%s", any ? " " : state == RP_FACT_VERIFIED ? "  verified: " : state == RP_FACT_CLAIMED ? "  claimed: " :
				"  unavailable: ", rp_show(shown, sizeof shown, r->facts[i].field, strlen(r->facts[i].field)));
			any = true;
		}
		if (any)
			rp_buf_addc(&v->out, '\n');
	}
}

/* ---- records that come twice ---- */
/* Where an id is in the table, or the free place where it would go. */
static size_t place_of(unsigned char (*table)[RP_HASH_BYTES], size_t room, const unsigned char id[RP_HASH_BYTES])
{
	static const unsigned char nothing[RP_HASH_BYTES];
	size_t at = (size_t)rp_le64(id) & (room - 1);
	while (memcmp(table[at], nothing, RP_HASH_BYTES) != 0 && memcmp(table[at], id, RP_HASH_BYTES) != 0)
		at = (at + 1) & (room - 1);
	return at;
}

static bool grow_table(verify_state *v)
{
	static const unsigned char nothing[RP_HASH_BYTES];
	size_t room = v->seen_room > 0 ? 2 * v->seen_room : 64;
	unsigned char (*table)[RP_HASH_BYTES] = rp_alloc_array(room, sizeof *table);
	if (table == NULL)
		return false;
	memset(table, 0, room * sizeof *table);
	for (size_t i = 0; i < v->seen_room; i++)
		if (memcmp(v->seen[i], nothing, RP_HASH_BYTES) != 0)
			memcpy(table[place_of(table, room, v->seen[i])], v->seen[i], RP_HASH_BYTES);
	free((void *)v->seen);
	v->seen = table;
	v->seen_room = room;
	return true;
}

/* A receipt that counts twice would be paid twice, so of two records with one id the second is refused. */
static rp_code check_duplicate(verify_state *v, const char *path, rp_record *r, rp_error *own)
{
	unsigned char id[RP_HASH_BYTES];
	rp_sha256 *h;
	char shown[120];
	if (r->id == NULL)
		return RP_OK;
	if ((2 * v->n_seen >= v->seen_room && !grow_table(v)) || rp_sha256_new(&h, own) != RP_OK)
		return rp_no_memory(own, v->seen_room, "the ids of records");
	rp_sha256_update(h, r->kind, strlen(r->kind) + 1);
	rp_sha256_update(h, r->id, strlen(r->id));
	rp_sha256_final(h, id);
	rp_sha256_free(h);
	unsigned char *at = v->seen[place_of(v->seen, v->seen_room, id)];
	if (memcmp(at, id, sizeof id) == 0) {
		r->reason = "duplicate";
		return rp_fail(own, RP_SIGNATURE, "%s: a record with the id %s was there before (duplicate)", path,
			rp_show(shown, sizeof shown, r->id, strlen(r->id)));
	}
	memcpy(at, id, sizeof id);
	v->n_seen++;
	return RP_OK;
}

static rp_code check_text(verify_state *v, const char *path, const char *text, size_t n, const rp_record_check *check, rp_error *err)
{
	rp_record r;
	rp_error own = {0};
	rp_code code = rp_record_verify(path, text, n, check, &r, &own), told;
	if (code == RP_OK)
		code = check_duplicate(v, path, &r, &own);
	if (code == RP_NO_MEMORY)
		told = rp_fail(err, code, "%s", own.msg);
	else
		told = verify_verdict(v, "record", path, code, own.msg, members, &r, err);
	if (told == RP_OK && code == RP_OK && !v->o.json && !v->o.quiet && !v->o.status) {
		tell_states(v, &r);
		told = verify_written(v, err);
	}
	rp_record_free(&r);
	return told;
}

rp_code verify_record_file(verify_state *v, const char *path, rp_error *err)
{
	rp_public_key key;
	rp_error own = {0};
	char *text = NULL, *authorization = NULL;
	size_t n = 0;
	rp_record_check check = {.now_ms = v->o.at != 0 ? v->o.at : (uint64_t)time(NULL) * 1000, .authorization_name = v->o.authorization};
	rp_code code = RP_OK;
	if (v->o.pubkey != NULL) {
		code = rp_public_key_load(v->o.pubkey, &key, err);
		check.key = &key;
	}
	if (code == RP_OK && v->o.authorization != NULL) {
		code = rp_read_file(v->o.authorization, RP_RECORD_MAX, &authorization, &check.n_authorization, err);
		check.authorization = authorization;
	}
	if (code == RP_OK) {
		code = rp_read_file(path, RP_RECORD_MAX, &text, &n, &own);
		code = code == RP_OK ? check_text(v, path, text, n, &check, err) :
			verify_verdict(v, "record", path, code, own.msg, NULL, NULL, err);
	}
	free(authorization);
	free(text);
	return code;
}

bool verify_is_record(const char *path)
{
	struct stat st;
	char *text = NULL;
	size_t n = 0;
	cJSON *json = NULL;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > RP_RECORD_MAX || rp_read_file(path, RP_RECORD_MAX, &text, &n, NULL) != RP_OK)
		return false;
	bool is = n > 0 && text[0] == '{' && rp_json_parse(path, text, n, &json, NULL) == RP_OK && rp_record_looks_like(json);
	cJSON_Delete(json);
	free(text);
	return is;
}

rp_code verify_records(verify_state *v, rp_error *err)
{
	rp_code code = v->parsed.operands.n > 0 ? RP_OK : rp_fail(err, RP_USAGE, "--record: name the files of the records");
	for (size_t i = 0; code == RP_OK && i < v->parsed.operands.n; i++)
		code = verify_record_file(v, v->parsed.operands.v[i], err);
	if (code == RP_OK && v->o.json)
		code = verify_summary(v, err);
	return code == RP_OK ? v->first : code;
}
