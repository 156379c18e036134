/* sign: keys, signatures, and the records that are signed with them.
 *
 * Ed25519 is libsodium's, ECDSA is libcrypto's; nothing of either is done here. Three kinds of signed things are read:
 *   - files with a minisign signature beside them (both forms, with the trusted comment) or a signify one (beside or around them);
 *   - models with an OpenSSF model signature v1.0 made with a key (oms.h);
 *   - the records that peers of a swarm exchange: receipts and grants (record.h).
 * Text from outside is parsed strictly; what does not verify is RP_SIGNATURE with the field named. Secret keys are wiped when they
 * are no longer needed and are read only from files that no one else may read.
 */
#ifndef RP_SIGN_H
#define RP_SIGN_H

#include "base/base.h"

struct cJSON;

/* ---- canonical JSON: the bytes that digests and signatures of records are about ---- */
/* Text as ECMAScript's JSON.stringify writes it, members in one of two orders. */
typedef enum rp_key_order {
	RP_KEYS_PLAIN,  /* by UTF-16 code units: ids, signatures, receipts, grants */
	RP_KEYS_LOCALE, /* case ignored first, lower case before upper on a tie: custody digests, plan ids */
} rp_key_order;

/* Append the text of v. RP_FORMAT: a number that is not finite. RP_UNSUPPORTED: RP_KEYS_LOCALE and a key that is not made of ASCII
 * letters and digits, whose place a locale would decide. */
rp_code rp_canonical(const struct cJSON *v, rp_key_order order, rp_buf *out, rp_error *err);
/* SHA-256 of that text. */
rp_code rp_canonical_sha256(const struct cJSON *v, rp_key_order order, unsigned char out[32], rp_error *err);
/* SHA-256 over the length (u32, big-endian) of the plain canonical text of metadata, the text, and n bytes. */
rp_code rp_fingerprint(const struct cJSON *metadata, const void *bytes, size_t n, unsigned char out[32], rp_error *err);
size_t rp_utf16_length(const char *utf8); /* of well-formed text: what the limits on characters count */

enum { RP_DIGEST_TEXT = 72 }; /* "sha256:", 64 hex digits, NUL */
char *rp_digest_text(char out[RP_DIGEST_TEXT], const unsigned char sha256[32]);
bool rp_is_digest(const char *s); /* "sha256:" and 64 lower-case hex digits */

/* ---- base64 ---- */
typedef enum rp_base64 { RP_BASE64, RP_BASE64URL } rp_base64; /* with padding; without */

/* Exactly want bytes. False for any other length, other characters, and bits left over that are not zero. */
bool rp_base64_exact(rp_base64 form, const char *text, size_t n, void *out, size_t want);
/* Any length up to size. */
bool rp_base64_decode(rp_base64 form, const char *text, size_t n, void *out, size_t size, size_t *len);
bool rp_base64_append(rp_base64 form, const void *bytes, size_t n, rp_buf *out);

/* ---- public keys ---- */
typedef enum rp_key_kind { RP_KEY_ED25519, RP_KEY_P256, RP_KEY_P384, RP_KEY_P521 } rp_key_kind;

enum { RP_KEY_BYTES = 133, RP_KEY_ID = 8, RP_SIG_BYTES = 64 };

typedef struct rp_public_key {
	rp_key_kind kind;
	size_t n;
	unsigned char bytes[RP_KEY_BYTES]; /* Ed25519: 32; a curve: its point as SEC 1 writes it */
	bool has_id;                       /* minisign's and signify's number of the key */
	unsigned char id[RP_KEY_ID];
} rp_public_key;

/* From text of any of these forms: a minisign or signify public key (file or the bare base64), PEM, SPKI in base64, a JWK, or an
 * identity file's JSON. name is for messages. */
rp_code rp_public_key_parse(const char *name, const char *text, size_t n, rp_public_key *out, rp_error *err);
/* The argument of an option: the base64 text of a key, or else the path of a file. */
rp_code rp_public_key_load(const char *text_or_path, rp_public_key *out, rp_error *err);
/* field names the JWK in messages ("providerKey"). Members other than kty, crv, x, y are ignored. */
rp_code rp_public_key_of_jwk(const char *name, const char *field, const struct cJSON *jwk, rp_public_key *out, rp_error *err);
rp_code rp_public_key_of_spki(const char *name, const char *field, const void *der, size_t n, rp_public_key *out, rp_error *err);
/* SHA-256 of the key as PEM (SPKI), in hex: what a model signature's bundle names its key by. */
rp_code rp_public_key_pem_sha256(const rp_public_key *key, char hex[65], rp_error *err);

typedef enum rp_sig_form { RP_SIG_RAW, RP_SIG_DER } rp_sig_form; /* ECDSA: r || s, or as X.509 has it. Ed25519: no difference */

/* The hash of ECDSA follows from the curve: SHA-256, -384, -512. False: the signature is not this key's over these bytes. */
bool rp_signature_ok(const rp_public_key *key, rp_sig_form form, const void *message, size_t n, const void *sig, size_t sig_n);

/* ---- participants ---- */
enum { RP_PARTICIPANT = 30 }; /* "peer:", 24 hex digits, NUL */
rp_code rp_participant_id(const struct cJSON *jwk, char out[RP_PARTICIPANT], rp_error *err);
bool rp_is_participant(const char *s);

/* ---- identities: a secret key of one's own ---- */
typedef enum rp_secret_form { RP_SECRET_IDENTITY, RP_SECRET_MINISIGN, RP_SECRET_SIGNIFY, RP_SECRET_PEM } rp_secret_form;

typedef struct rp_identity {
	rp_public_key key; /* Ed25519 with the number its file gives, or one made from it */
	rp_secret_form form; /* of the file it came from */
	char participant[RP_PARTICIPANT]; /* "" for P-384 and P-521: peers have no such keys */
	unsigned char secret[66]; /* Ed25519: seed and public key; a curve: the scalar, as long as a coordinate */
	size_t n_secret;
} rp_identity;

enum { RP_PASSPHRASE_MAX = 1024 };

/* Asked when a secret key turns out to be encrypted. */
typedef struct rp_passphrase {
	rp_code (*ask)(void *context, const char *path, char out[RP_PASSPHRASE_MAX], rp_error *err); /* with its NUL */
	void *context;
} rp_passphrase;

rp_code rp_identity_new(rp_key_kind kind, rp_identity *out, rp_error *err); /* Ed25519 or P-256 */
/* The public half as a JWK; cJSON_Delete it. NULL: out of memory. */
struct cJSON *rp_identity_jwk(const rp_identity *id);
/* A new file of mode 0600; one that is there already is never replaced (RP_WRITE). created_ms: Unix time for its createdAt. */
rp_code rp_identity_save(const rp_identity *id, const char *path, uint64_t created_ms, rp_error *err);
/* The same as minisign's secret key, encrypted: scrypt at the cost minisign takes (1 GiB of memory, less where there is less), which
 * is paid again by each rp_identity_load. RP_UNSUPPORTED for another kind than Ed25519. */
rp_code rp_identity_save_encrypted(const rp_identity *id, const char *path, const char *passphrase, rp_error *err);
/* An identity file, a secret key of minisign or signify, or a PEM private key of Ed25519, P-256, P-384 or P-521. passphrase NULL: there
 * is none to be had. RP_READ when others may read the file or it is another user's. RP_UNSUPPORTED: encrypted, and nobody to ask; or by
 * signify, whose bcrypt_pbkdf no library here has. RP_FORMAT also for a wrong passphrase. */
rp_code rp_identity_load(const char *path, const rp_passphrase *passphrase, rp_identity *out, rp_error *err);
/* The same of its text; wiping that is the caller's. */
rp_code rp_identity_parse(const char *name, const char *text, size_t n, const rp_passphrase *passphrase, rp_identity *out, rp_error *err);
/* Ed25519, or ECDSA of P-256 as r || s. RP_UNSUPPORTED for others. */
rp_code rp_identity_sign(const rp_identity *id, const void *message, size_t n, unsigned char sig[RP_SIG_BYTES], rp_error *err);
/* ECDSA of any curve as X.509 has it, appended. RP_UNSUPPORTED for Ed25519. */
rp_code rp_identity_sign_der(const rp_identity *id, const void *message, size_t n, rp_buf *sig, rp_error *err);
void rp_identity_wipe(rp_identity *id);
/* The public key as minisign and signify read it: a comment line and a line of base64. RP_UNSUPPORTED for a curve. */
rp_code rp_identity_minisign_pub(const rp_identity *id, rp_buf *out, rp_error *err);
/* The public key as PEM (SPKI), appended. */
rp_code rp_public_key_pem(const rp_public_key *key, rp_buf *out, rp_error *err);

/* ---- signatures of files ---- */
typedef enum rp_filesig_kind {
	RP_FILESIG_MINISIGN,       /* over a BLAKE2b-512 hash of the file */
	RP_FILESIG_MINISIGN_WHOLE, /* over the file's bytes (legacy) */
	RP_FILESIG_SIGNIFY,        /* over the file's bytes */
	RP_FILESIG_SIGNIFY_AROUND, /* over the bytes that follow in the signature file */
} rp_filesig_kind;

enum { RP_FILESIG_MAX = 1 << 20, RP_FILESIG_WHOLE_MAX = 1 << 30 };

typedef struct rp_filesig { /* points into the text it was parsed from */
	rp_filesig_kind kind;
	unsigned char id[RP_KEY_ID], sig[RP_SIG_BYTES];
	const char *trusted; /* minisign's trusted comment, not NUL-terminated; only to be believed after rp_filesig_verify */
	size_t n_trusted;
	unsigned char global[RP_SIG_BYTES]; /* minisign: over sig and the trusted comment */
	const char *message; /* RP_FILESIG_SIGNIFY_AROUND */
	size_t n_message;
} rp_filesig;

rp_code rp_filesig_parse(const char *name, const char *text, size_t n, rp_filesig *out, rp_error *err);
/* path: the file that was signed; ignored for RP_FILESIG_SIGNIFY_AROUND. Forms that sign the bytes themselves read up to
 * RP_FILESIG_WHOLE_MAX of them into memory, the limit of their own tools. */
rp_code rp_filesig_verify(const rp_filesig *s, const char *name, const char *path, const rp_public_key *key, rp_error *err);
/* The same for a file that is in memory already. what names it in messages. */
rp_code rp_filesig_verify_bytes(const rp_filesig *s, const char *name, const char *what, const void *bytes, size_t n,
	const rp_public_key *key, rp_error *err);
/* A minisign signature (hashed form) of the file at path. trusted NULL: time and name, as minisign has them. */
rp_code rp_minisign_sign(const rp_identity *id, const char *path, const char *trusted, uint64_t now_s, rp_buf *out, rp_error *err);
/* A signify signature, of a file up to RP_FILESIG_WHOLE_MAX bytes. key_name: the secret key's path, whose name the comment leads to. */
rp_code rp_signify_sign(const rp_identity *id, const char *key_name, const char *path, rp_buf *out, rp_error *err);

#endif
