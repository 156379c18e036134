/* get: single exchanges, waited for: the head of a file, a small text. Internal to common/store. */
#ifndef RP_GET_H
#define RP_GET_H

#include "net/net.h"
#include "store/fetch.h"

/* What a server says of a file. */
typedef struct rp_head {
	rp_net_reply reply; /* reply.url is NULL: see url */
	char *url;          /* where redirects led; free() it */
	bool ranges;        /* it answers ranges with them */
	uint64_t size;      /* RP_NET_UNKNOWN: it does not say */
} rp_head;

/* Ask for the first byte. secrets: the URL's origin gets them. Trouble that may pass is tried again as o says. */
rp_code rp_get_head(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, rp_head *out, rp_error *err);
/* A text of at most max bytes. */
rp_code rp_get_text(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, size_t max, rp_buf *out, rp_error *err);
/* A file whose size the server does not say, from its beginning to its end, each time anew. folder: where it goes, by name.
 * whole: its hash, or NULL. */
rp_code rp_get_stream(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, int folder, const char *path, const char *name,
	const unsigned char *whole, uint64_t *size, rp_error *err);
void rp_note(const rp_fetch_opts *o, const char *fmt, ...) RP_PRINTF(2, 3);
/* Put the URL before the message, without its secrets. */
rp_code rp_url_prefix(rp_error *err, rp_code code, const char *url);

#endif
