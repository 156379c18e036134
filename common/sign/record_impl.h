/* What the readers of the kinds of records share. */
#ifndef RP_RECORD_IMPL_H
#define RP_RECORD_IMPL_H

#include "record.h"

#include <cjson/cJSON.h>

typedef struct record_reader {
	const char *name;
	const rp_record_check *check;
	rp_record *r;
	rp_error *err;
} record_reader;

/* An object of a record: where names it in messages ("" or "claim.identity."). */
typedef struct record_at {
	record_reader *rd;
	const char *where;
	const cJSON *object;
} record_at;

/* Remember why, and fill err with "NAME: ... (REASON)". */
rp_code record_fail(record_reader *rd, rp_code code, const char *reason, const char *fmt, ...) RP_PRINTF(4, 5);
rp_code record_malformed(const record_at *at, const char *field, const char *expected);

/* ---- fields: RP_FORMAT names the field ---- */
rp_code record_string(const record_at *at, const char *field, size_t max_utf16, const char **out); /* not empty; max 0: no limit */
rp_code record_matching(const record_at *at, const char *field, bool (*is)(const char *s), const char *expected, const char **out);
rp_code record_one_of(const record_at *at, const char *field, const char *const *words, const char **out);
rp_code record_whole(const record_at *at, const char *field, uint64_t min, uint64_t *out); /* below 2^53 */
rp_code record_object(const record_at *at, const char *field, const cJSON **out);
rp_code record_array(const record_at *at, const char *field, const cJSON **out);
/* A signature of 64 bytes. */
rp_code record_signature(const record_at *at, const char *field, rp_base64 form, unsigned char out[RP_SIG_BYTES]);
/* No members but these (NULL-terminated). */
rp_code record_only(const record_at *at, const char *const *members);

bool record_is_uuid(const char *s);
bool record_is_receipt_id(const char *s);
bool record_is_request(const char *s);
extern const char *const record_statuses[];

/* Issue and expiry against the clock of the check: 0 < span <= longest. They are claim.issuedAt and claim.expiresAt in messages. */
rp_code record_check_times(record_reader *rd, uint64_t issued_at, uint64_t expires_at, uint64_t longest);

/* ---- facts ---- */
rp_code record_fact(record_reader *rd, rp_fact_state state, const char *signers, const cJSON *value, const char *fmt, ...) RP_PRINTF(5, 6);

rp_code record_generation(record_reader *rd);
rp_code record_pool(record_reader *rd);
rp_code record_grant(record_reader *rd);
rp_code record_custody(record_reader *rd);
/* The toolkit's own envelope, with one of these schemas. */
#define RECORD_CERTIFICATE "reploid-c.custody-certificate/v1"
#define RECORD_ATTESTATION "reploid-c.delivery-attestation/v1"
#define RECORD_WHOLE_RECEIPT "reploid-c.whole-model-receipt/v1"
rp_code record_claim(record_reader *rd);

#endif
