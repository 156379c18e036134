/* The header of a model at an address: asked for piece by piece until it is whole, and no byte of a tensor. */
#include "plan_cmd.h"

#include "base/signals.h"
#include "net/net.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 20, MOST_BYTES = 256 << 20, POLL_MS = 100, TRIES = 4 };

typedef struct exchange {
	rp_buf *head;        /* what is here of the file's beginning */
	uint64_t end, total; /* wanted: up to, in bytes; size of the file */
	bool over;
	rp_net_outcome outcome;
} exchange;

static rp_code on_head(void *user, const rp_net_reply *r, rp_error *err)
{
	exchange *x = user;
	bool whole = r->status == 200 && x->head->len == 0;
	if (!whole && (r->status != 206 || r->first != x->head->len))
		return rp_fail(err, RP_RANGE, "the server says %ld where a range from %zu was asked for: it cannot give a header alone", r->status,
			x->head->len);
	if (r->encoded)
		return rp_fail(err, RP_NETWORK, "the server encodes what it sends, which leaves no place for byte ranges");
	if (r->total == RP_NET_UNKNOWN)
		return rp_fail(err, RP_NETWORK, "the server does not say how large the file is");
	if (x->total != 0 && r->total != x->total)
		return rp_fail(err, RP_CHANGED, "the file has %llu bytes now, it had %llu", (unsigned long long)r->total, (unsigned long long)x->total);
	x->total = r->total;
	return RP_OK;
}

static size_t on_body(void *user, const unsigned char *data, size_t n)
{
	exchange *x = user;
	uint64_t left = x->end - x->head->len;
	size_t take = n < left ? n : (size_t)left;
	if (!rp_buf_add(x->head, data, take))
		return RP_NET_STOP;
	return x->head->len < x->end ? n : RP_NET_STOP; /* a server that sends all of the file is not heard to the end */
}

static void on_done(void *user, const rp_net_outcome *o)
{
	exchange *x = user;
	x->over = true;
	x->outcome = *o;
	x->outcome.reply = NULL;
}

static const rp_net_handler handler = {.head = on_head, .body = on_body, .done = on_done};

static rp_code once(rp_net *net, const char *url, exchange *x, rp_error *err)
{
	rp_net_get *get = NULL;
	rp_net_request r = {.url = url, .home = url, .first = x->head->len, .last = x->end - 1, .handler = &handler, .user = x};
	x->over = false;
	rp_code rc = rp_net_start(net, &r, &get, err);
	while (rc == RP_OK && !x->over && !atomic_load(rp_cancel()))
		rc = rp_net_poll(net, POLL_MS, err);
	if (rc == RP_OK && !x->over) {
		rp_net_cancel(get);
		return rp_fail(err, RP_CANCELLED, "stopped by a signal");
	}
	return rc;
}

/* The file's first `end` bytes, or all of it. */
static rp_code fetch_to(rp_net *net, const char *url, uint64_t end, exchange *x, rp_error *err)
{
	for (int i = 0; i < TRIES; i++) {
		x->end = x->total != 0 && end > x->total ? x->total : end;
		rp_code rc = once(net, url, x, err);
		if (rc != RP_OK || x->head->failed)
			return rc != RP_OK ? rc : rp_no_memory(err, end, "a header");
		if (x->total != 0 && (x->head->len == x->end || x->head->len == x->total))
			return RP_OK;
		if (x->outcome.code != RP_OK && !x->outcome.retry && !x->outcome.stopped)
			break;
		if (x->outcome.code != RP_OK && x->outcome.code != RP_CANCELLED && x->outcome.stopped)
			break;
	}
	return x->outcome.code != RP_OK ? rp_fail(err, x->outcome.code, "%s", x->outcome.error.msg)
		: rp_fail(err, RP_NETWORK, "the server sent %zu bytes where %llu were asked for", x->head->len, (unsigned long long)x->end);
}

static rp_code read_header(rp_net *net, const char *url, const char *shown, rp_buf *head, rp_model **out, rp_error *err)
{
	exchange x = {.head = head};
	uint64_t wanted = FIRST_BYTES;
	rp_code rc = RP_OK;
	while (rc == RP_OK && wanted != 0) {
		uint64_t next = wanted > 4 * (uint64_t)head->len ? wanted : 4 * (uint64_t)head->len;
		rc = fetch_to(net, url, next < MOST_BYTES ? next : MOST_BYTES, &x, err);
		if (rc != RP_OK)
			return rp_error_prefix(err, rc, "%s: ", shown);
		if (head->len < 4 || (memcmp(head->data, "GGUF", 4) != 0 && memcmp(head->data, "FUGG", 4) != 0))
			return rp_fail(err, RP_FORMAT, "%s: is no GGUF file; of a model elsewhere only such a header can be read", shown);
		rc = rp_model_open_header(shown, head->data, head->len, x.total, &wanted, out, err);
		if (rc != RP_OK && wanted != 0 && head->len < MOST_BYTES && head->len < x.total)
			rc = RP_OK;
	}
	return rc;
}

rp_code plan_open_remote(const char *url, rp_model **out, rp_error *err)
{
	rp_net *net = NULL;
	rp_buf head;
	char *shown = rp_net_shown(url);
	rp_net_opts o = {.connections = 1, .netrc = true, .program = plan_program.name};
	rp_buf_init(&head, MOST_BYTES);
	rp_code rc = shown != NULL && rp_net_is_usable(url) ? rp_net_open(&o, &net, err)
		: rp_fail(err, RP_USAGE, "%s: is no address", shown != NULL ? shown : url);
	if (rc == RP_OK)
		rc = read_header(net, url, shown, &head, out, err);
	rp_net_close(net);
	rp_buf_free(&head);
	free(shown);
	return rc;
}
