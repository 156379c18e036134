/* jsonw: a streaming JSON writer: text appended to a buffer as it is made, commas and escapes taken care of.
 *
 * Output is one line of UTF-8. Bytes of a string that are not UTF-8 become U+FFFD, numbers that are not finite become null.
 * Misuse (a value without its key, an end without a begin, too deep) makes rp_jsonw_ok false; nothing is asserted.
 */
#ifndef RP_JSONW_H
#define RP_JSONW_H

#include "base/base.h"

enum { RP_JSONW_DEPTH = 32 };

typedef struct rp_jsonw {
	rp_buf *out;
	uint32_t depth;
	bool bad, keyed;              /* keyed: a key was written, its value is due */
	char kind[RP_JSONW_DEPTH];     /* '{' or '[' */
	bool comma[RP_JSONW_DEPTH];    /* something stands in the container already */
} rp_jsonw;

void rp_jsonw_init(rp_jsonw *w, rp_buf *out); /* appends to out; does not own it */
void rp_jsonw_object(rp_jsonw *w);
void rp_jsonw_array(rp_jsonw *w);
void rp_jsonw_end(rp_jsonw *w); /* the innermost object or array */
void rp_jsonw_key(rp_jsonw *w, const char *key);
void rp_jsonw_str(rp_jsonw *w, const char *s);              /* NULL gives null */
void rp_jsonw_strn(rp_jsonw *w, const char *s, size_t n);
void rp_jsonw_u64(rp_jsonw *w, uint64_t v);
void rp_jsonw_i64(rp_jsonw *w, int64_t v);
void rp_jsonw_f64(rp_jsonw *w, double v);  /* the shortest decimal that reads back as v */
void rp_jsonw_f32(rp_jsonw *w, float v);   /* the same for a float */
void rp_jsonw_bool(rp_jsonw *w, bool v);
void rp_jsonw_null(rp_jsonw *w);
/* A key with its value. */
void rp_jsonw_pair_str(rp_jsonw *w, const char *key, const char *s);
void rp_jsonw_pair_u64(rp_jsonw *w, const char *key, uint64_t v);
void rp_jsonw_pair_f64(rp_jsonw *w, const char *key, double v);
void rp_jsonw_pair_bool(rp_jsonw *w, const char *key, bool v);
/* A newline; valid after a whole document, which may be followed by another. */
void rp_jsonw_line(rp_jsonw *w);
/* Everything written is whole and nothing was lost. */
bool rp_jsonw_ok(const rp_jsonw *w);

#endif
