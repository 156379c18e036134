/* record: the signed records that peers of a swarm exchange, checked by someone who was not there.
 *
 * Read: generation receipts, custody transfer receipts, legacy pool receipts, partition grants; and in the toolkit's own envelope
 * certificates of custody, attestations of delivery, and receipts of whole-model generations. A record is checked in this order:
 * its shape, the participant ids against the keys, the signatures, what must agree inside it, the times; the first failure ends it.
 * What a verified record says is of three sorts, and each of its fields is given with its own: proved by the check, only stated by
 * who signed (or nobody), or not there to be checked.
 */
#ifndef RP_RECORD_H
#define RP_RECORD_H

#include "sign.h"

enum { RP_RECORD_MAX = 16 << 20, RP_GRANT_MS = 900000, RP_CERTIFICATE_MS = 1800000, RP_CLOCK_SKEW_MS = 250 };

typedef enum rp_fact_state { RP_FACT_VERIFIED, RP_FACT_CLAIMED, RP_FACT_UNAVAILABLE } rp_fact_state;

typedef struct rp_fact {
	const char *field; /* "provider", "claim.limits.maxTokens", "attempts[0].request" */
	rp_fact_state state;
	const char *signers; /* who signed it: "provider", "provider, consumer"; NULL: nobody */
	const struct cJSON *value; /* NULL: none; lives as long as the record */
} rp_fact;

typedef struct rp_record {
	const char *kind;   /* "generation-receipt", "custody-receipt", "pool-receipt", "partition-grant", "custody-certificate",
	                       "delivery-attestation", "whole-model-receipt"; NULL: not known */
	const char *id;     /* what no other record of the kind has: its receiptId, claim.id, ...; NULL: it has none */
	const char *reason; /* why it failed: malformed, unsupported-schema, identity-mismatch, bad-signature, binding-mismatch,
	                       not-yet-valid, expired, lifetime-too-long, no-key; NULL: it did not */
	rp_fact *facts;
	size_t n_facts, room;
	rp_arena arena;
	struct cJSON *json;
} rp_record;

typedef struct rp_record_check {
	uint64_t now_ms; /* Unix time by which grants, certificates and attestations are judged */
	const rp_public_key *key; /* of a pool receipt's provider: the record does not hold it. NULL: not known */
	const char *authorization_name, *authorization; /* of a custody transfer: JSON text; NULL: not at hand */
	size_t n_authorization;
} rp_record_check;

/* Fills *out also on failure, as far as it came; free it in any case. name is for messages. RP_FORMAT: malformed. RP_UNSUPPORTED:
 * another schema. RP_SIGNATURE: everything else that fails a check. */
rp_code rp_record_verify(const char *name, const char *text, size_t n, const rp_record_check *check, rp_record *out, rp_error *err);
void rp_record_free(rp_record *r);
const char *rp_fact_word(rp_fact_state state); /* "verified", "claimed", "unavailable" */
/* Whether an object is a record of a kind that is read here, or claims to be one of the same families. */
bool rp_record_looks_like(const struct cJSON *v);

/* Append the bytes a domain-separated record signs: {"payload": the record without the members left out, "signatureDomain"}. */
rp_code rp_domain_bytes(const struct cJSON *record, const char *const *left_out, const char *domain, rp_buf *out, rp_error *err);

#endif
