/* reploid-verify: what its files share. main.c drives: options (table.c), then one mode: sums as sha256sum prints them (print.c),
 * lists of them (check.c), pieces that need repair (bad_pieces.c), or models and model files (operands.c and what it calls). */
#ifndef VERIFY_H
#define VERIFY_H

#include "base/confine.h"
#include "base/jsonw.h"
#include "base/options.h"
#include "base/progress.h"
#include "hash/scan.h"
#include "sign/sign.h"

#define VERIFY_SCHEMA "reploid-verify/1"

typedef struct verify_opts {
	bool check, print, bad_pieces, blake3, tag, binary, text, zero, ignore_missing, quiet, status, strict, warn, json, paranoid, no_cache;
	bool record, ignore_unsigned, want_signed, encrypt;
	int key_type; /* 0: Ed25519, 1: P-256 */
	const char *sha256, *identity, *index, *catalog, *store, *pubkey, *signature, *keygen, *sign, *trusted_comment, *authorization, *passphrase_file;
	uint64_t threads, at;
} verify_opts;

extern const rp_program verify_program;

typedef struct verify_state {
	verify_opts o;
	rp_parsed parsed;
	uint64_t start_ns;
	rp_progress progress;
	rp_confined confined;
	char *store; /* NULL: there is none */
	struct rp_hash_cache *cache; /* NULL: none is used */
	rp_buf out;       /* on its way to standard output */
	bool stdin_read;
	unsigned char (*seen)[RP_HASH_BYTES]; /* ids of records that were good: a table with free places, all zeros */
	size_t n_seen, seen_room;
	rp_code first;    /* of what failed; RP_OK: nothing did */
	uint64_t n_ok, n_failed, n_cached, bytes; /* results; files not read again; bytes read */
} verify_state;

/* ---- modes ---- */
/* A mode is chosen by its option; the first of the table in main.c wins. The code returned is the exit status; a message in err
 * that is not empty is told to the person. */
typedef struct verify_mode {
	const char *option;
	size_t wanted_at; /* offset of its flag in verify_opts; of its string, when text */
	rp_code (*run)(verify_state *v, rp_error *err);
	bool text;
} verify_mode;

rp_code verify_print(verify_state *v, rp_error *err);
rp_code verify_check(verify_state *v, rp_error *err);
rp_code verify_bad_pieces(verify_state *v, rp_error *err);
rp_code verify_operands(verify_state *v, rp_error *err);
rp_code verify_keygen(verify_state *v, rp_error *err);
rp_code verify_sign(verify_state *v, rp_error *err);
rp_code verify_signatures(verify_state *v, rp_error *err);
rp_code verify_records(verify_state *v, rp_error *err);

/* ---- output.c ---- */
/* Data for standard output; kept back until there is more of it, something is said, or the end. */
rp_code verify_flush(verify_state *v, rp_error *err);
rp_code verify_written(verify_state *v, rp_error *err); /* after appending to v->out */
/* "reploid-verify: ..." on standard error. */
void verify_say(verify_state *v, const char *fmt, ...) RP_PRINTF(2, 3);
/* "reploid-verify: NAME: text", the name quoted as GNU tools do. */
void verify_say_of(verify_state *v, const char *name, const char *text);
/* A JSON record: {"type": type, ... ; then members, and verify_record_end. */
void verify_record(verify_state *v, rp_jsonw *w, const char *type);
rp_code verify_record_end(verify_state *v, rp_jsonw *w, rp_error *err);
void verify_error_record(verify_state *v, const rp_error *error);
rp_code verify_summary(verify_state *v, rp_error *err);

/* ---- signing.c ---- */
/* The folders that keygen and sign write into, in v->parsed's arena. */
rp_code verify_signing_folders(verify_state *v, const char *const **folders, size_t *n, rp_error *err);

/* ---- passphrase.c ---- */
/* That of the file named, or asked for on the terminal; again: asked for twice, for a new key. */
rp_code verify_passphrase(const verify_state *v, const char *key, bool again, char out[RP_PASSPHRASE_MAX], rp_error *err);

/* ---- sign_model.c ---- */
/* An OpenSSF model signature of a folder or a file. *out: where it was put, to be freed; "" when nowhere. */
rp_code verify_sign_model(verify_state *v, const rp_identity *id, const char *model, char **out, rp_error *err);

/* ---- signature.c ---- */
/* Read a list of sums whose signature is in it or beside it, with the key of --pubkey. *list: its text, in *owned, to be freed. */
rp_code verify_signed_list(verify_state *v, const char *path, char **owned, const char **list, size_t *n, rp_error *err);
/* One verdict about a signed thing, as a line or as a record of this type; more adds members. */
rp_code verify_verdict(verify_state *v, const char *type, const char *path, rp_code code, const char *message,
	void (*more)(rp_jsonw *w, const void *context), const void *context, rp_error *err);

/* ---- model_signature.c ---- */
struct rp_public_key;
rp_code verify_model_signature(verify_state *v, const struct rp_public_key *key, const char *model, const char *signature,
	const char *text, size_t n, rp_error *err);

/* ---- walk.c ---- */
/* Meet every entry of the folder at path, which is `relative` ("" itself) below the model: with its name below the model, in the
 * arena, and depth. What is met may walk on. */
typedef rp_code verify_meet(void *context, const char *relative, unsigned depth, rp_error *err);
rp_code verify_walk(rp_arena *arena, const char *relative, const char *path, unsigned depth, verify_meet *meet, void *context, rp_error *err);

/* ---- record.c ---- */
rp_code verify_record_file(verify_state *v, const char *path, rp_error *err);
bool verify_is_record(const char *path); /* what it holds tells */

/* ---- scan.c: a scan with the options' threads, signals and progress ---- */
rp_code verify_scan(verify_state *v, rp_scan_file *files, size_t n, rp_code (*finished)(void *context, size_t i, rp_error *err),
	void *context, rp_error *err);

#endif
