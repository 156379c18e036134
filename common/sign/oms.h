/* oms: OpenSSF model signatures v1.0, those made with a key: reading and writing.
 *
 * A sigstore bundle (JSON) around a DSSE envelope, whose payload is an in-toto statement: the sums of a model's files. Read here:
 * keys of P-256, P-384 and P-521; whole files by SHA-256 or BLAKE3, shards by SHA-256. Source: the OpenSSF model signing
 * specification v1.0, and DSSE's protocol v1.0 for what is signed.
 */
#ifndef RP_OMS_H
#define RP_OMS_H

#include "sign.h"

enum { RP_OMS_MAX = 256 << 20 };

typedef struct rp_oms_shard {
	uint64_t start, end; /* from 0 without gaps, start < end */
	unsigned char digest[32];
} rp_oms_shard;

typedef struct rp_oms_file {
	const char *path; /* relative, no "..", no empty parts; "." when the model is one file */
	unsigned char digest[32]; /* without shards */
	const rp_oms_shard *shards;
	size_t n_shards;
} rp_oms_file;

typedef struct rp_oms {
	const char *model; /* the name it was signed under; nothing depends on it */
	bool blake3, sharded, links; /* links: to files were followed, else there were none */
	const char **ignored; /* relative paths that were left out, with all beneath */
	size_t n_ignored, n_files;
	rp_oms_file *files; /* no path twice */
	rp_arena arena;
} rp_oms;

/* Check the signature, then read what it signs. name is for messages. RP_SIGNATURE: the key, the signature or the root digest.
 * RP_UNSUPPORTED: made otherwise than with a key, another version or hash. Free *out in any case. */
rp_code rp_oms_verify(const char *name, const char *text, size_t n, const rp_public_key *key, rp_oms *out, rp_error *err);
/* Read a statement alone, whose signature is checked elsewhere. Free *out in any case. */
rp_code rp_oms_statement(const char *name, const char *text, size_t n, rp_oms *out, rp_error *err);
void rp_oms_free(rp_oms *oms);
/* Sign whole files. Of what model gives, these are used: model, blake3, links, ignored, and files, which must be in the order of their
 * paths. Appends the bundle to out. RP_UNSUPPORTED: an Ed25519 key. */
rp_code rp_oms_sign(const rp_oms *model, const rp_identity *id, rp_buf *out, rp_error *err);
/* Whether a path of the model lies under one that was left out. */
bool rp_oms_ignores(const rp_oms *oms, const char *path);

#endif
