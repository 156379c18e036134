/* net: HTTP exchanges over libcurl, several at once in one thread, with what a careful client must check done here.
 *
 * Redirects are followed by hand: secrets (the headers of --header, netrc, user:password in a URL) go to the origin they were
 * given for and to no other, and https never becomes http. Responses are asked for as they are (`Accept-Encoding: identity`).
 * Not thread-safe, but for rp_net_wakeup.
 */
#ifndef RP_NET_H
#define RP_NET_H

#include "base/base.h"

#define RP_NET_UNKNOWN UINT64_MAX

typedef struct rp_net rp_net;
typedef struct rp_net_get rp_net_get;

typedef struct rp_net_opts {
	const char *const *headers; /* "Name: value", secret: for home only (see rp_net_request) */
	size_t n_headers;
	bool netrc;           /* look for the home's host in ~/.netrc */
	const char *proxy;    /* NULL: what the environment says (https_proxy, no_proxy ...) */
	const char *ca_file;  /* NULL: $CURL_CA_BUNDLE, $SSL_CERT_FILE, or the system's */
	uint64_t limit_rate;  /* bytes a second, all exchanges together; 0: none */
	unsigned connections; /* most exchanges at once; limit_rate is shared among so many */
	unsigned streams;     /* most exchanges at once in one connection, where the server speaks HTTP/2; 0: 1 */
	unsigned stall_seconds; /* give up on a server that sends less than 1 KiB a second for so long; 0: 20 */
	const char *program;  /* for User-Agent */
} rp_net_opts;

rp_code rp_net_open(const rp_net_opts *o, rp_net **out, rp_error *err);
void rp_net_close(rp_net *net); /* ends exchanges that run, without calling their handlers */

/* What a response's head says. Fields that were not there: RP_NET_UNKNOWN, "". */
typedef struct rp_net_reply {
	long status;
	uint64_t first, last; /* of Content-Range; unknown without one */
	uint64_t total;       /* size of the whole: of Content-Range, or Content-Length of a 200 */
	uint64_t length;      /* of the body */
	bool framed;          /* the end of the body can be told from a cut connection */
	bool encoded;         /* Content-Encoding is there and not identity */
	char etag[256], modified[80]; /* a weak etag without its W/ */
	char linked_etag[256]; /* X-Linked-Etag, X-Linked-Size, X-Repo-Commit of this response or of a redirect that led to it */
	char commit[80];
	uint64_t linked_size;
	const char *url; /* where the response came from at last */
} rp_net_reply;

typedef struct rp_net_outcome {
	rp_code code; /* RP_OK: a 2xx response came to its end */
	bool retry;   /* the trouble may pass: a lost connection, a busy server */
	bool stopped; /* the handler asked for the end; code is RP_CANCELLED or what head returned */
	bool fresh;   /* a new connection was made for it */
	uint64_t retry_after_ms; /* what the server asks for; 0: nothing */
	const rp_net_reply *reply; /* status 0: no response came */
	rp_error error;
} rp_net_outcome;

typedef struct rp_net_handler {
	/* The head of a 2xx response is there. Anything but RP_OK ends the exchange with it. May be NULL. */
	rp_code (*head)(void *user, const rp_net_reply *reply, rp_error *err);
	/* Bytes of its body. Take some and return how many; fewer than n pauses the exchange until rp_net_resume.
	 * RP_NET_STOP ends it. */
	size_t (*body)(void *user, const unsigned char *data, size_t n);
	/* The exchange is over and *get is gone. New ones may be started from here. */
	void (*done)(void *user, const rp_net_outcome *outcome);
} rp_net_handler;

#define RP_NET_STOP SIZE_MAX

typedef struct rp_net_request {
	const char *url;
	const char *home;      /* the URL whose origin gets the secrets; NULL: none does */
	uint64_t first, last;  /* the range to ask for; first RP_NET_UNKNOWN: no Range; last unknown: to the end */
	bool fresh;            /* on a new connection, which is closed afterwards */
	const rp_net_handler *handler;
	void *user;
} rp_net_request;

rp_code rp_net_start(rp_net *net, const rp_net_request *r, rp_net_get **out, rp_error *err);
void rp_net_resume(rp_net_get *get);
void rp_net_cancel(rp_net_get *get); /* ends it without calling done; not from inside a handler */
/* Move data and call handlers; waits for at most so long. */
rp_code rp_net_poll(rp_net *net, int timeout_ms, rp_error *err);
void rp_net_wakeup(rp_net *net); /* from any thread: rp_net_poll returns soon */

/* ---- URLs ---- */
bool rp_net_is_http(const char *url);
/* The same, and it can be parsed: it has a host. */
bool rp_net_is_usable(const char *url);
bool rp_net_same_origin(const char *a, const char *b); /* scheme, host and port */
/* https, or a host that is this machine: fit for secrets. */
bool rp_net_is_private(const char *url);
/* The URL has user:password. */
bool rp_net_has_userinfo(const char *url);
/* For people: without user, password, query and fragment; free() it. */
char *rp_net_shown(const char *url);
/* base + relative (RFC 3986); free() it. NULL when it cannot be. */
char *rp_net_join(const char *base, const char *relative);
/* scheme://host[:port] of a URL; free() it. */
char *rp_net_origin(const char *url);

#endif
