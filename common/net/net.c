#include "net/net.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "net/reply.h"

enum { MAX_REDIRECTS = 10, CONNECT_SECONDS = 20, STALL_SECONDS = 20, STALL_BYTES = 1024, BUFFER_BYTES = 256 << 10, LEAST_BUCKET = 64 << 10, THROTTLE_MS = 10 };

struct rp_net {
	CURLM *multi;
	struct curl_slist *plain, *secret; /* headers for others, headers for home */
	char *proxy, *ca_file, *agent;
	bool netrc;
	uint64_t limit_rate;
	double allowance; /* bytes that may be taken now, under limit_rate */
	uint64_t filled_ns;
	unsigned connections, streams, stall_seconds;
	rp_net_get *all;
};

struct rp_net_get {
	rp_net *net;
	rp_net_get *next, *previous;
	CURL *easy;
	const rp_net_handler *handler;
	void *user;
	char *url, *home;
	unsigned redirects;
	size_t taken; /* of the bytes that will be delivered once more, because the exchange was paused */
	bool headed, paused, stopped;
	bool throttled; /* paused by limit_rate */
	rp_code stop_code;
	rp_error stop_error;
	char trouble[CURL_ERROR_SIZE];
	rp_net_reply reply;
};

/* ---- opening ---- */

static bool add_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *grown = curl_slist_append(*list, line);
	if (grown == NULL)
		return false;
	*list = grown;
	return true;
}

static rp_code check_header(const char *line, rp_error *err)
{
	size_t name = strcspn(line, ":");
	if (name == 0 || line[name] != ':' || strpbrk(line, "\r\n") != NULL || strcspn(line, " \t") < name)
		return rp_fail(err, RP_USAGE, "--header: expected 'Name: value' on one line");
	return RP_OK;
}

static rp_code make_headers(rp_net *net, const rp_net_opts *o, rp_error *err)
{
	static const char identity[] = "Accept-Encoding: identity";
	bool ok = add_header(&net->plain, identity) && add_header(&net->secret, identity);
	for (size_t i = 0; ok && i < o->n_headers; i++) {
		rp_code rc = check_header(o->headers[i], err);
		if (rc != RP_OK)
			return rc;
		ok = add_header(&net->secret, o->headers[i]);
	}
	return ok ? RP_OK : rp_no_memory(err, 0, "request headers");
}

static char *copy_of(const char *text)
{
	return text != NULL && *text != '\0' ? rp_strdup(text) : NULL;
}

rp_code rp_net_open(const rp_net_opts *o, rp_net **out, rp_error *err)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return rp_fail(err, RP_INTERNAL, "libcurl does not start");
	rp_net *net = rp_alloc(sizeof *net);
	if (net == NULL)
		return rp_no_memory(err, sizeof *net, "the network");
	const char *ca = o->ca_file != NULL ? o->ca_file : getenv("CURL_CA_BUNDLE");
	if (ca == NULL || *ca == '\0')
		ca = getenv("SSL_CERT_FILE");
	net->proxy = copy_of(o->proxy);
	net->ca_file = copy_of(ca);
	net->agent = rp_asprintf("%s/%s", o->program != NULL ? o->program : "reploid", RP_VERSION);
	net->netrc = o->netrc;
	net->limit_rate = o->limit_rate;
	net->connections = o->connections > 0 ? o->connections : 1;
	net->streams = o->streams > 0 ? o->streams : 1;
	net->stall_seconds = o->stall_seconds > 0 ? o->stall_seconds : STALL_SECONDS;
	net->multi = curl_multi_init();
	rp_code rc = net->multi != NULL && net->agent != NULL ? make_headers(net, o, err) : rp_no_memory(err, 0, "the network");
	if (rc != RP_OK) {
		rp_net_close(net);
		return rc;
	}
	/* one TCP connection each unless told otherwise: several streams in one share its losses */
	curl_multi_setopt(net->multi, CURLMOPT_PIPELINING, net->streams > 1 ? (long)CURLPIPE_MULTIPLEX : (long)CURLPIPE_NOTHING);
	curl_multi_setopt(net->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)net->streams);
	curl_multi_setopt(net->multi, CURLMOPT_MAXCONNECTS, (long)net->connections + 4);
	*out = net;
	return RP_OK;
}

static void unlink_get(rp_net_get *get)
{
	if (get->previous != NULL)
		get->previous->next = get->next;
	else
		get->net->all = get->next;
	if (get->next != NULL)
		get->next->previous = get->previous;
}

static void free_get(rp_net_get *get)
{
	if (get->easy != NULL) {
		curl_multi_remove_handle(get->net->multi, get->easy);
		curl_easy_cleanup(get->easy);
	}
	free(get->url);
	free(get->home);
	free(get);
}

void rp_net_cancel(rp_net_get *get)
{
	unlink_get(get);
	free_get(get);
}

void rp_net_close(rp_net *net)
{
	if (net == NULL)
		return;
	for (rp_net_get *get = net->all, *next; get != NULL; get = next) {
		next = get->next;
		free_get(get);
	}
	if (net->multi != NULL)
		curl_multi_cleanup(net->multi);
	curl_slist_free_all(net->plain);
	curl_slist_free_all(net->secret);
	free(net->proxy);
	free(net->ca_file);
	free(net->agent);
	free(net);
}

/* ---- limit_rate: one bucket for all exchanges (libcurl's own limit lets each one burst anew) ---- */

static void fill(rp_net *net)
{
	uint64_t now = rp_now_ns();
	double most = (double)net->limit_rate / 10 < LEAST_BUCKET ? LEAST_BUCKET : (double)net->limit_rate / 10;
	if (net->filled_ns != 0)
		net->allowance += (double)(now - net->filled_ns) / 1e9 * (double)net->limit_rate;
	if (net->allowance > most)
		net->allowance = most;
	net->filled_ns = now;
}

/* May these bytes be taken? If not, the exchange waits. */
static bool take(rp_net_get *get, size_t n)
{
	rp_net *net = get->net;
	if (net->limit_rate == 0)
		return true;
	fill(net);
	get->throttled = net->allowance < (double)n;
	if (!get->throttled)
		net->allowance -= (double)n;
	return !get->throttled;
}

/* True: some exchange waits still. */
static bool let_flow(rp_net *net)
{
	bool waits = false;
	if (net->limit_rate > 0)
		fill(net);
	for (rp_net_get *get = net->all; get != NULL; get = get->next) {
		if (get->throttled && net->allowance >= CURL_MAX_WRITE_SIZE) {
			get->throttled = false;
			curl_easy_pause(get->easy, CURLPAUSE_CONT);
		}
		waits |= get->throttled;
	}
	return waits;
}

/* ---- callbacks of libcurl ---- */

static size_t on_header(char *line, size_t one, size_t n, void *user)
{
	rp_net_get *get = user;
	(void)one;
	rp_reply_header(&get->reply, line, n);
	return n;
}

static bool is_success(const rp_net_get *get)
{
	return get->reply.status >= 200 && get->reply.status < 300;
}

/* Tell the handler of the head, once. */
static rp_code tell_head(rp_net_get *get)
{
	if (get->headed)
		return get->stopped ? get->stop_code : RP_OK;
	get->headed = true;
	get->reply.url = get->url;
	rp_reply_finish(&get->reply);
	rp_code rc = RP_OK;
	if (get->reply.encoded)
		rc = rp_fail(&get->stop_error, RP_NETWORK, "the server compresses the file although it was asked not to");
	else if (get->handler->head != NULL)
		rc = get->handler->head(get->user, &get->reply, &get->stop_error);
	if (rc != RP_OK) {
		get->stopped = true;
		get->stop_code = rc;
	}
	return rc;
}

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
	rp_net_get *get = user;
	(void)one;
	if (!is_success(get)) {
		/* what a refusal says to people is of no use here; enough is read to keep the connection, no more */
		get->taken += n;
		return get->taken <= 256 << 10 ? n : CURL_WRITEFUNC_ERROR;
	}
	if (tell_head(get) != RP_OK)
		return CURL_WRITEFUNC_ERROR;
	size_t skip = get->taken <= n ? get->taken : n, used = n - skip;
	if (used > 0 && !take(get, used))
		return CURL_WRITEFUNC_PAUSE;
	if (used > 0)
		used = get->handler->body(get->user, (const unsigned char *)data + skip, n - skip);
	if (used == RP_NET_STOP) {
		get->stopped = true;
		get->stop_code = RP_CANCELLED;
		return CURL_WRITEFUNC_ERROR;
	}
	if (used < n - skip) {
		get->taken = skip + used;
		get->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	get->taken = 0;
	return n;
}

/* ---- one exchange ---- */

static void set_limits(const rp_net *net, CURL *easy)
{
	uint64_t share = net->limit_rate / net->connections;
	long least = STALL_BYTES;
	if (net->limit_rate > 0) {
		if (share / 4 < (uint64_t)least)
			least = share / 4 > 0 ? (long)(share / 4) : 1;
	}
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, least);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)net->stall_seconds);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
}

/* What depends on where the request goes. */
static void set_target(rp_net_get *get)
{
	rp_net *net = get->net;
	bool home = get->home != NULL && rp_net_same_origin(get->url, get->home);
	curl_easy_setopt(get->easy, CURLOPT_URL, get->url);
	curl_easy_setopt(get->easy, CURLOPT_HTTPHEADER, home ? net->secret : net->plain);
	curl_easy_setopt(get->easy, CURLOPT_NETRC, home && net->netrc && rp_net_is_private(get->url) ? (long)CURL_NETRC_OPTIONAL : (long)CURL_NETRC_IGNORED);
	rp_reply_clear(&get->reply);
	get->headed = false;
	get->taken = 0;
}

static void set_options(rp_net_get *get, const rp_net_request *r)
{
	CURL *easy = get->easy;
	char range[64];
	curl_easy_setopt(easy, CURLOPT_PRIVATE, get);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, get->trouble);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, get->net->streams > 1 ? 1L : 0L); /* for a connection that is being made */
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, get->net->agent);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, get);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, get);
	if (get->net->proxy != NULL)
		curl_easy_setopt(easy, CURLOPT_PROXY, get->net->proxy);
	if (get->net->ca_file != NULL)
		curl_easy_setopt(easy, CURLOPT_CAINFO, get->net->ca_file);
	set_limits(get->net, easy);
	if (r->fresh) {
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	}
	if (r->first != RP_NET_UNKNOWN) {
		if (r->last == RP_NET_UNKNOWN)
			snprintf(range, sizeof range, "%llu-", (unsigned long long)r->first);
		else
			snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->first, (unsigned long long)r->last);
		curl_easy_setopt(easy, CURLOPT_RANGE, range);
	}
}

rp_code rp_net_start(rp_net *net, const rp_net_request *r, rp_net_get **out, rp_error *err)
{
	if (!rp_net_is_usable(r->url))
		return rp_fail(err, RP_USAGE, "not a usable http or https address");
	bool secrets = r->home != NULL && (net->secret->next != NULL || rp_net_has_userinfo(r->home));
	if (secrets && !rp_net_is_private(r->home)) {
		char *shown = rp_net_shown(r->home);
		rp_fail(err, RP_AUTH, "%s: credentials would cross the network in the clear; use https", shown != NULL ? shown : "the source");
		free(shown);
		return RP_AUTH;
	}
	rp_net_get *get = rp_alloc(sizeof *get);
	if (get == NULL)
		return rp_no_memory(err, sizeof *get, "a request");
	get->net = net;
	get->handler = r->handler;
	get->user = r->user;
	get->easy = curl_easy_init();
	get->url = rp_strdup(r->url);
	get->home = r->home != NULL ? rp_strdup(r->home) : NULL;
	if (get->easy == NULL || get->url == NULL || (r->home != NULL && get->home == NULL)) {
		free_get(get);
		return rp_no_memory(err, 0, "a request");
	}
	set_options(get, r);
	set_target(get);
	rp_reply_forget(&get->reply);
	if (curl_multi_add_handle(net->multi, get->easy) != CURLM_OK) {
		free_get(get);
		return rp_fail(err, RP_INTERNAL, "libcurl refuses a request");
	}
	get->next = net->all;
	if (net->all != NULL)
		net->all->previous = get;
	net->all = get;
	*out = get;
	return RP_OK;
}

void rp_net_resume(rp_net_get *get)
{
	if (get->paused && !get->throttled) {
		get->paused = false;
		curl_easy_pause(get->easy, CURLPAUSE_CONT);
	}
}

/* ---- the end of an exchange ---- */

/* True: the request is on its way again. False: *o says why not. */
static bool follow(rp_net_get *get, rp_net_outcome *o)
{
	char *next = NULL;
	curl_easy_getinfo(get->easy, CURLINFO_REDIRECT_URL, &next);
	if (next == NULL || !rp_net_is_usable(next)) {
		o->code = rp_fail(&o->error, RP_NETWORK, "the server redirects (status %ld) to no http or https address", get->reply.status);
		return false;
	}
	if (++get->redirects > MAX_REDIRECTS) {
		o->code = rp_fail(&o->error, RP_NETWORK, "more than %d redirects", MAX_REDIRECTS);
		return false;
	}
	if (strncmp(get->url, "https:", 6) == 0 && !rp_net_is_private(next)) {
		o->code = rp_fail(&o->error, RP_NETWORK, "the server redirects from https to http");
		return false;
	}
	char *copy = rp_strdup(next);
	if (copy == NULL) {
		o->code = rp_no_memory(&o->error, strlen(next), "a URL");
		return false;
	}
	curl_multi_remove_handle(get->net->multi, get->easy);
	free(get->url);
	get->url = copy;
	set_target(get);
	if (curl_multi_add_handle(get->net->multi, get->easy) == CURLM_OK)
		return true;
	o->code = rp_fail(&o->error, RP_INTERNAL, "libcurl refuses a request");
	return false;
}

static void judge_status(rp_net_get *get, rp_net_outcome *o)
{
	long status = get->reply.status;
	curl_off_t wait = 0;
	curl_easy_getinfo(get->easy, CURLINFO_RETRY_AFTER, &wait);
	o->retry_after_ms = wait > 0 && wait < 1000000 ? (uint64_t)wait * 1000 : 0;
	o->retry = status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
	if (status == 401 || status == 403 || status == 407)
		o->code = rp_fail(&o->error, RP_AUTH, "the server says %ld: %s", status,
			status == 401 ? "credentials are needed" : status == 403 ? "not allowed" : "the proxy wants credentials");
	else if (status == 404 || status == 410)
		o->code = rp_fail(&o->error, RP_NOT_FOUND, "the server says %ld: there is no such file", status);
	else if (status == 416)
		o->code = rp_fail(&o->error, RP_RANGE, "the server says 416: the range is outside the file");
	else if (status == 429 || status == 503)
		o->code = rp_fail(&o->error, RP_NETWORK, "the server says %ld: too busy", status);
	else
		o->code = rp_fail(&o->error, RP_NETWORK, "the server says %ld", status);
}

static void judge_failure(rp_net_get *get, CURLcode result, rp_net_outcome *o)
{
	const char *text = get->trouble[0] != '\0' ? get->trouble : curl_easy_strerror(result);
	long tunnel = 0;
	curl_easy_getinfo(get->easy, CURLINFO_HTTP_CONNECTCODE, &tunnel);
	if (tunnel == 407 || tunnel == 403) {
		o->code = rp_fail(&o->error, RP_AUTH, "the proxy says %ld: %s", tunnel, tunnel == 407 ? "it wants credentials" : "not allowed");
		return;
	}
	switch (result) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
		o->code = rp_fail(&o->error, RP_NETWORK, "the server's certificate is not accepted: %s", text);
		return;
	case CURLE_OUT_OF_MEMORY:
		o->code = rp_no_memory(&o->error, 0, "a transfer");
		return;
	case CURLE_LOGIN_DENIED:
		o->code = rp_fail(&o->error, RP_AUTH, "%s", text);
		return;
	case CURLE_OPERATION_TIMEDOUT:
		o->retry = true;
		o->code = rp_fail(&o->error, RP_NETWORK, "too slow or silent: %s", text);
		return;
	default:
		o->retry = true;
		o->code = rp_fail(&o->error, RP_NETWORK, "%s", text);
	}
}

static void finish(rp_net_get *get, CURLcode result)
{
	rp_net_outcome o = {.reply = &get->reply, .code = RP_OK};
	long connects = 0;
	curl_easy_getinfo(get->easy, CURLINFO_NUM_CONNECTS, &connects);
	o.fresh = connects > 0;
	get->reply.url = get->url;
	bool redirect = get->reply.status >= 300 && get->reply.status < 400 && get->reply.status != 304;
	bool refused = get->reply.status != 0 && !is_success(get) && !redirect;
	if (result == CURLE_OK && redirect) {
		if (follow(get, &o))
			return;
	} else if (refused && (result == CURLE_OK || result == CURLE_WRITE_ERROR)) {
		rp_reply_finish(&get->reply);
		judge_status(get, &o);
	} else if (result == CURLE_OK && get->reply.status != 0) {
		tell_head(get); /* of an empty body */
	} else if (!get->stopped) {
		judge_failure(get, result, &o);
	}
	if (get->stopped) {
		o.stopped = true;
		o.code = get->stop_code;
		o.error = get->stop_error;
	}
	unlink_get(get);
	curl_multi_remove_handle(get->net->multi, get->easy);
	get->handler->done(get->user, &o);
	free_get(get);
}

rp_code rp_net_poll(rp_net *net, int timeout_ms, rp_error *err)
{
	int running, left;
	if (let_flow(net) && timeout_ms > THROTTLE_MS)
		timeout_ms = THROTTLE_MS;
	CURLMcode rc = curl_multi_perform(net->multi, &running);
	if (rc == CURLM_OK && timeout_ms > 0)
		rc = curl_multi_poll(net->multi, NULL, 0, timeout_ms, NULL);
	if (rc == CURLM_OK)
		rc = curl_multi_perform(net->multi, &running);
	if (rc != CURLM_OK)
		return rp_fail(err, RP_INTERNAL, "libcurl: %s", curl_multi_strerror(rc));
	for (CURLMsg *m; (m = curl_multi_info_read(net->multi, &left)) != NULL;) {
		rp_net_get *get = NULL;
		CURLcode result = m->data.result;
		if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&get) == CURLE_OK && get != NULL)
			finish(get, result);
	}
	return RP_OK;
}

void rp_net_wakeup(rp_net *net)
{
	curl_multi_wakeup(net->multi);
}
