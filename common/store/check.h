/* check: what the bytes of a file, or of a part of it, must hash to, where that is looked at when all of them are here: whole files
 * whose hash is none of SHA-256, and pieces that are too long to be held in memory. Internal to common/store. */
#ifndef RP_CHECK_H
#define RP_CHECK_H

#include "store/part.h"

typedef enum rp_check_kind {
	RP_CHECK_SHA256,
	RP_CHECK_BLAKE3,
	RP_CHECK_GIT_SHA1, /* the id of a git blob: SHA-1 of "blob SIZE", a NUL and the bytes; of whole files only */
} rp_check_kind;

enum { RP_GIT_SHA1_BYTES = 20 };

typedef struct rp_check {
	rp_check_kind kind;
	uint64_t offset, size; /* size > 0 but for an empty file */
	unsigned char digest[RP_HASH_BYTES]; /* of GIT_SHA1 the first 20 count */
} rp_check;

const char *rp_check_word(rp_check_kind kind); /* "sha256", "blake3", "git-sha1" */
/* 40 hexadecimal digits, perhaps in quotes, of a whole file. */
bool rp_check_git_parse(const char *text, uint64_t size, rp_check *out);
/* Hash what fd has there. name is for messages. RP_HASH: something else; RP_READ: less. */
rp_code rp_check_fd(int fd, const char *name, const rp_check *c, rp_error *err);

#endif
