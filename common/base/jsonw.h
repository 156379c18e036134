/* jsonw: a streaming JSON writer: text appended to a buffer as it is made, commas and escapes taken care of.
 *
 * Output is one line of UTF-8. Bytes of a string that are not UTF-8 become U+FFFD, numbers that are not finite become null.
 * Misuse (a value without its key, an end without a begin, too deep) makes rp_json_ok false; nothing is asserted.
 */
#ifndef RP_JSONW_H
#define RP_JSONW_H

#include "base/base.h"

enum { RP_JSON_DEPTH = 32 };

typedef struct rp_json {
	rp_buf *out;
	uint32_t depth;
	bool bad, keyed;              /* keyed: a key was written, its value is due */
	char kind[RP_JSON_DEPTH];     /* '{' or '[' */
	bool comma[RP_JSON_DEPTH];    /* something stands in the container already */
} rp_json;

void rp_json_init(rp_json *w, rp_buf *out); /* appends to out; does not own it */
void rp_json_object(rp_json *w);
void rp_json_array(rp_json *w);
void rp_json_end(rp_json *w); /* the innermost object or array */
void rp_json_key(rp_json *w, const char *key);
void rp_json_str(rp_json *w, const char *s);              /* NULL gives null */
void rp_json_strn(rp_json *w, const char *s, size_t n);
void rp_json_u64(rp_json *w, uint64_t v);
void rp_json_i64(rp_json *w, int64_t v);
void rp_json_f64(rp_json *w, double v);  /* the shortest decimal that reads back as v */
void rp_json_f32(rp_json *w, float v);   /* the same for a float */
void rp_json_bool(rp_json *w, bool v);
void rp_json_null(rp_json *w);
/* A newline; valid after a whole document, which may be followed by another. */
void rp_json_line(rp_json *w);
/* Everything written is whole and nothing was lost. */
bool rp_json_ok(const rp_json *w);

#endif
