/* planid: the contract of two stages and its digest, as the original system's peers compute it (protocol, section 8.2). */
#ifndef RP_PLAN_PLANID_H
#define RP_PLAN_PLANID_H

#include "base/base.h"
#include "model/model.h"

typedef struct rp_planid {
	char model_id[256];
	uint64_t layers, hidden, vocab; /* layers >= 2, the others >= 1 */
	uint64_t split;                 /* 1 to layers - 1: layers of the first stage; 0: half of them, rounded down */
	bool f16;                       /* activations; else f32 */
} rp_planid;

/* Appends the contract's canonical JSON to text (may be NULL) and gives "sha256:<hex>" of it. RP_USAGE: a split that is none;
 * RP_UNSUPPORTED: fewer than two layers, numbers from 2^53. */
rp_code rp_planid_make(const rp_planid *p, rp_buf *text, char out[72], rp_error *err);

/* What an RDRR manifest says; its shards need not be here. RP_FORMAT names the member. */
rp_code rp_planid_of_manifest(const char *name, const char *text, size_t n, rp_planid *out, rp_error *err);
/* What the tensors of a model say, told by their names; model_id is left to the caller. RP_UNSUPPORTED: they do not. */
rp_code rp_planid_of_model(const rp_model *m, rp_planid *out, rp_error *err);

#endif
