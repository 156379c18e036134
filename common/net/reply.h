/* The head of a response, line by line. Internal to common/net and its tests. */
#ifndef RP_NET_REPLY_H
#define RP_NET_REPLY_H

#include "net/net.h"

/* Before a response; what redirects said of the linked file stays. */
void rp_reply_clear(rp_net_reply *r);
/* Before an exchange: that too is gone. */
void rp_reply_forget(rp_net_reply *r);
/* One header line with its end; a status line begins anew. */
void rp_reply_header(rp_net_reply *r, const char *line, size_t n);
/* All lines were seen: total of a 200. */
void rp_reply_finish(rp_net_reply *r);
/* "bytes 0-9/100", "bytes 0-9/" + "*", "bytes *" + "/100". False for anything else; then nothing is changed. */
bool rp_parse_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *total);

#endif
