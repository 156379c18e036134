#define _DEFAULT_SOURCE /* flock */
#include "store/get.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "store/folder.h"

enum { MAX_UNANSWERED = 2, BASE_MS = 500, MAX_MS = 30000, MAX_ASKED_MS = 300000 };

/* One exchange: where its body goes, how it ended. */
typedef struct exchange {
	rp_buf *text; /* NULL: the body is not wanted */
	int fd;       /* >= 0: or into a file */
	rp_sha256 *hash;
	uint64_t written;
	rp_head *head;
	bool over, answered;
	rp_net_outcome outcome;
} exchange;

void rp_note(const rp_fetch_opts *o, const char *fmt, ...)
{
	char text[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (o->event != NULL)
		o->event(o->user, &(rp_fetch_event){.kind = RP_FETCH_NOTE, .text = text});
}

rp_code rp_url_prefix(rp_error *err, rp_code code, const char *url)
{
	char *shown = rp_net_shown(url);
	rp_error_prefix(err, code, "%s: ", shown != NULL ? shown : "the source");
	free(shown);
	return code;
}

static rp_code on_head(void *user, const rp_net_reply *r, rp_error *err)
{
	exchange *x = user;
	x->answered = true;
	if (r->status != 200 && !(r->status == 206 && x->head != NULL))
		return rp_fail(err, RP_NETWORK, "the server says %ld where %s was expected", r->status, x->head != NULL ? "200 or 206" : "200");
	if (x->head != NULL) {
		free(x->head->url);
		x->head->reply = *r;
		x->head->reply.url = NULL;
		x->head->url = rp_strdup(r->url);
		x->head->ranges = r->status == 206 && r->first == 0;
		x->head->size = r->total;
		if (x->head->url == NULL)
			return rp_no_memory(err, strlen(r->url), "a URL");
	}
	if (x->fd >= 0 && !r->framed && x->hash == NULL)
		return rp_fail(err, RP_NETWORK, "the server tells neither a length nor the end, so that a cut file would look whole; give --sha256");
	return RP_OK;
}

static size_t on_body(void *user, const unsigned char *data, size_t n)
{
	exchange *x = user;
	if (x->fd >= 0) {
		rp_error error;
		rp_code rc = rp_write_fd(x->fd, data, n, "", &error);
		if (rc != RP_OK) {
			x->outcome.code = rc;
			return RP_NET_STOP;
		}
		if (x->hash != NULL)
			rp_sha256_update(x->hash, data, n);
		x->written += n;
		return n;
	}
	if (x->text == NULL)
		return x->head != NULL && x->head->ranges ? n : RP_NET_STOP;
	return rp_buf_add(x->text, data, n) ? n : RP_NET_STOP;
}

static void on_done(void *user, const rp_net_outcome *o)
{
	exchange *x = user;
	rp_code written = x->outcome.code;
	x->outcome = *o;
	x->over = true;
	if (written != RP_OK)
		x->outcome.code = written;
	if (x->head != NULL && x->head->url == NULL) { /* refused: the status is what matters */
		x->head->reply = *o->reply;
		x->head->reply.url = NULL;
	}
	x->outcome.reply = NULL;
}

static const rp_net_handler handler = {.head = on_head, .body = on_body, .done = on_done};

static bool is_cancelled(const rp_fetch_opts *o)
{
	return o->cancel != NULL && atomic_load(o->cancel);
}

static rp_code exchange_once(const rp_fetch_opts *o, rp_net *net, rp_net_request *r, exchange *x, rp_error *err)
{
	rp_net_get *get;
	x->over = false;
	x->outcome = (rp_net_outcome){.code = RP_OK};
	r->handler = &handler;
	r->user = x;
	rp_code rc = rp_net_start(net, r, &get, err);
	while (rc == RP_OK && !x->over && !is_cancelled(o))
		rc = rp_net_poll(net, 100, err);
	if (!x->over && rc == RP_OK) {
		rp_net_cancel(get);
		rc = rp_fail(err, RP_CANCELLED, "stopped by a signal");
	}
	return rc;
}

static rp_code wait_ms(const rp_fetch_opts *o, uint64_t ms, rp_error *err)
{
	for (uint64_t end = rp_now_ns() + ms * 1000000u; rp_now_ns() < end;) {
		struct timespec t = {0, 50000000};
		if (is_cancelled(o))
			return rp_fail(err, RP_CANCELLED, "stopped by a signal");
		nanosleep(&t, NULL);
	}
	return RP_OK;
}

/* restart: called before each try; NULL: nothing to do. */
static rp_code exchange_retried(const rp_fetch_opts *o, rp_net *net, rp_net_request *r, exchange *x, rp_code (*restart)(exchange *, rp_error *),
	rp_error *err)
{
	for (unsigned fails = 0;;) {
		rp_code rc = restart != NULL ? restart(x, err) : RP_OK;
		if (rc == RP_OK)
			rc = exchange_once(o, net, r, x, err);
		if (rc != RP_OK)
			return rc == RP_AUTH || rc == RP_CANCELLED ? rc : rp_url_prefix(err, rc, r->url);
		const rp_net_outcome *e = &x->outcome;
		if (!e->retry || (e->code != RP_OK && e->stopped))
			return RP_OK;
		bool patient = x->answered || e->error.code != RP_NETWORK || x->outcome.retry_after_ms > 0 || o->retries < MAX_UNANSWERED;
		unsigned limit = patient ? o->retries : MAX_UNANSWERED;
		if (++fails > limit)
			return RP_OK;
		uint64_t wait = (uint64_t)BASE_MS << (fails < 7 ? fails - 1 : 6);
		wait = wait < MAX_MS ? wait / 2 + rp_now_ns() % wait : MAX_MS;
		if (e->retry_after_ms > wait)
			wait = e->retry_after_ms < MAX_ASKED_MS ? e->retry_after_ms : MAX_ASKED_MS;
		char *shown = rp_net_origin(r->url);
		rp_note(o, "%s: %s; trying again in %.1f s", shown != NULL ? shown : "the source", e->error.msg, (double)wait / 1000);
		free(shown);
		rc = wait_ms(o, wait, err);
		if (rc != RP_OK)
			return rc;
	}
}

static rp_code outcome_of(const exchange *x, const char *url, rp_error *err)
{
	if (err != NULL)
		*err = x->outcome.error;
	return rp_url_prefix(err, x->outcome.code, url);
}

rp_code rp_get_head(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, rp_head *out, rp_error *err)
{
	rp_head head = {.size = RP_NET_UNKNOWN};
	exchange x = {.fd = -1, .head = &head};
	rp_net_request r = {.url = url, .home = secrets ? url : NULL, .first = 0, .last = 0};
	rp_code rc = exchange_retried(o, net, &r, &x, NULL, err);
	if (rc == RP_OK && x.outcome.code == RP_RANGE && head.reply.total == 0)
		head.size = 0; /* an empty file has no first byte */
	else if (rc == RP_OK && x.outcome.code != RP_OK && !(x.outcome.stopped && x.outcome.code == RP_CANCELLED))
		rc = outcome_of(&x, url, err);
	else if (rc == RP_OK && head.reply.status == 206 && (!head.ranges || head.size == RP_NET_UNKNOWN))
		rc = rp_url_prefix(err, rp_fail(err, RP_NETWORK, "the server answers a range with a Content-Range that makes no sense"), url);
	if (rc == RP_OK)
		*out = head;
	else
		free(head.url);
	return rc;
}

static rp_code clear_text(exchange *x, rp_error *err)
{
	(void)err;
	rp_buf_clear(x->text);
	return RP_OK;
}

rp_code rp_get_text(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, size_t max, rp_buf *out, rp_error *err)
{
	rp_buf_init(out, max);
	exchange x = {.fd = -1, .text = out};
	rp_net_request r = {.url = url, .home = secrets ? url : NULL, .first = RP_NET_UNKNOWN, .last = RP_NET_UNKNOWN};
	rp_code rc = exchange_retried(o, net, &r, &x, clear_text, err);
	if (rc == RP_OK && out->failed)
		rc = rp_url_prefix(err, rp_fail(err, RP_FORMAT, "larger than the limit of %zu bytes for this kind of text", max), url);
	else if (rc == RP_OK && x.outcome.code != RP_OK)
		rc = outcome_of(&x, url, err);
	if (rc != RP_OK)
		rp_buf_free(out);
	return rc;
}

static rp_code restart_file(exchange *x, rp_error *err)
{
	x->written = 0;
	if (x->hash != NULL)
		rp_sha256_reset(x->hash);
	return ftruncate(x->fd, 0) == 0 && lseek(x->fd, 0, SEEK_SET) == 0 ? RP_OK : rp_fail_errno(err, RP_WRITE, errno, "cannot start the file again");
}

static rp_code end_stream(exchange *x, int folder, const char *path, const char *name, const char *temp, const unsigned char *whole, rp_error *err)
{
	unsigned char real[RP_HASH_BYTES];
	char a[RP_HASH_HEX], b[RP_HASH_HEX];
	if (whole != NULL) {
		rp_sha256_final(x->hash, real);
		if (memcmp(real, whole, sizeof real) != 0)
			return rp_fail(err, RP_HASH, "%s: the file has sha256 %s, expected %s", path, rp_hex(a, real, sizeof real), rp_hex(b, whole, RP_HASH_BYTES));
	}
	if (fsync(x->fd) != 0 || renameat(folder, temp, folder, name) != 0)
		return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot give the file its name", path);
	return rp_folder_sync(folder, path, err);
}

rp_code rp_get_stream(const rp_fetch_opts *o, rp_net *net, const char *url, bool secrets, int folder, const char *path, const char *name,
	const unsigned char *whole, uint64_t *size, rp_error *err)
{
	char *temp = rp_asprintf("%s.%ld.part", name, (long)getpid());
	if (temp == NULL)
		return rp_no_memory(err, strlen(name), "a file name");
	exchange x = {.fd = openat(folder, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)};
	rp_net_request r = {.url = url, .home = secrets ? url : NULL, .first = RP_NET_UNKNOWN, .last = RP_NET_UNKNOWN};
	rp_code rc = x.fd < 0 ? rp_fail_errno(err, RP_WRITE, errno, "%s: cannot make a partial file", path) : RP_OK;
	if (x.fd >= 0)
		flock(x.fd, LOCK_EX | LOCK_NB); /* says that it is in use (rp_part_sweep) */
	if (rc == RP_OK && whole != NULL)
		rc = rp_sha256_new(&x.hash, err);
	if (rc == RP_OK)
		rc = exchange_retried(o, net, &r, &x, restart_file, err);
	if (rc == RP_OK && x.outcome.code != RP_OK)
		rc = x.outcome.stopped && x.outcome.error.code == RP_OK ?
			rp_fail(err, x.outcome.code, "%s: cannot write; is the disk full?", path) : outcome_of(&x, url, err);
	if (rc == RP_OK)
		rc = end_stream(&x, folder, path, name, temp, whole, err);
	if (rc == RP_OK)
		*size = x.written;
	else if (x.fd >= 0)
		unlinkat(folder, temp, 0);
	if (x.fd >= 0)
		close(x.fd);
	rp_sha256_free(x.hash);
	free(temp);
	return rc;
}
