/* sums: lists of checksums as sha256sum and b3sum write and read them.
 *
 * A line is "HEX  NAME" or "HEX *NAME" (GNU), "ALGORITHM (NAME) = HEX" (BSD), or "HEX NAME" (BSD, reversed). In a line that begins
 * with a backslash the name has \\, \n and \r for those bytes.
 */
#ifndef RP_SUMS_H
#define RP_SUMS_H

#include "hash.h"

typedef struct rp_sums_reader {
	const char *tag; /* what BSD lines begin with: "SHA256", "BLAKE3"; lines of another algorithm are malformed */
	/* Out: reversed lines and GNU lines may not be mixed in one run, for then a name could gain or lose its first character. */
	enum { RP_SUMS_UNKNOWN, RP_SUMS_GNU, RP_SUMS_REVERSED } style;
} rp_sums_reader;

typedef struct rp_sums_line {
	const char *name; /* in the line that was parsed, which is changed */
	unsigned char digest[RP_HASH_BYTES];
} rp_sums_line;

/* line[0..n) has no newline and is followed by a NUL. False: malformed. Comments and empty lines are the caller's. */
bool rp_sums_parse(rp_sums_reader *r, char *line, size_t n, rp_sums_line *out);

/* Append a line. tag NULL: GNU form, with '*' when binary. end 0: names are not escaped and the line ends with a NUL. */
void rp_sums_write(rp_buf *out, const char *tag, bool binary, const char *name, const unsigned char digest[RP_HASH_BYTES], char end);
/* Append a name as lists and reports have it, a backslash first when something in it needed escaping. */
void rp_sums_write_name(rp_buf *out, const char *name);

/* Append a name as a shell would need it, plain where that is enough: how the GNU tools name files in messages. Which characters
 * are printable depends on the locale (LC_CTYPE). */
void rp_shell_name(rp_buf *out, const char *name);

#endif
