#define _DEFAULT_SOURCE /* mincore() */
#include "scan_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	DROP_FROM = 256 << 20, /* smaller files do not crowd others out of the page cache */
	/* The kernel keeps files in pieces of up to some MiB and drops only whole ones: so all that lies this far behind, now and then. Other
	 * threads read nothing there any more. */
	DROP_BEHIND = 32 << 20,
	DROP_EVERY = 16, /* blocks */
};

static uint64_t ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static rp_scan_stamp stamp_of(const struct stat *st)
{
	return (rp_scan_stamp){(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size, ns(st->st_mtim), ns(st->st_ctim)};
}

bool rp_scan_stamp_fd(int fd, rp_scan_stamp *out)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	*out = stamp_of(&st);
	return true;
}

bool rp_scan_stamp_path(const char *path, rp_scan_stamp *out)
{
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	*out = stamp_of(&st);
	return true;
}

void scan_fail(task *t, rp_code code, int errnum)
{
	if (t->f->code == RP_OK) {
		t->f->code = code;
		t->f->errnum = errnum;
	}
	t->all_read = true;
}

/* Whether most of the file lies in the page cache, by looks at 64 places. Unknown counts as yes: what somebody uses is not
 * thrown out. */
static bool cached(int fd, uint64_t size)
{
	enum { LOOKS = 64, AT_A_TIME = 16 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), hits = 0, looks = 0, length;
	if (!rp_u64_to_size(size, &length))
		return true;
	unsigned char *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return true;
	for (size_t i = 0; i < LOOKS; i++) {
		unsigned char seen[AT_A_TIME];
		size_t at = length / LOOKS * i / page * page;
		if (mincore(map + at, page * AT_A_TIME, seen) != 0)
			continue;
		for (size_t k = 0; k < AT_A_TIME; k++)
			hits += seen[k] & 1;
		looks += AT_A_TIME;
	}
	munmap(map, length);
	return looks == 0 || hits * 2 > looks;
}

/* Files of /sys claim a page and hold a line. */
static bool has_its_size(int fd, uint64_t size)
{
	char last;
	return pread(fd, &last, 1, (off_t)(size - 1)) != 0;
}

void scan_open(task *t)
{
	struct stat st;
	/* O_NONBLOCK: a pipe without a writer is waited for where a signal can end it */
	t->fd = t->f->standard_input ? STDIN_FILENO : open(t->f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (t->fd < 0 || fstat(t->fd, &st) != 0) {
		scan_fail(t, errno == ENOENT ? RP_NOT_FOUND : RP_READ, errno);
		return;
	}
	/* /proc has regular files that claim to be empty */
	t->stream = t->f->standard_input || !S_ISREG(st.st_mode) || st.st_size <= 0;
	t->f->steady = !t->f->standard_input && S_ISREG(st.st_mode);
	t->f->stamp = stamp_of(&st);
	t->stream = t->stream || !has_its_size(t->fd, (uint64_t)st.st_size);
	if (t->stream)
		return;
	t->size = (uint64_t)st.st_size;
	posix_fadvise(t->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	t->drop = t->size >= DROP_FROM && !cached(t->fd, t->size);
}

/* Wait for bytes, but not past the end of the scan. */
static bool wait_readable(const scanner *s, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;
	do {
		n = poll(&p, 1, 200);
	} while ((n == 0 || (n < 0 && errno == EINTR)) && !(s->scan->cancel != NULL && atomic_load(s->scan->cancel)));
	return n != 0;
}

/* read or pread until n bytes are there or the end is reached. */
static ssize_t read_full(const scanner *s, task *t, unsigned char *to, size_t n, uint64_t offset)
{
	size_t got = 0;
	while (got < n) {
		if (t->stream && !wait_readable(s, t->fd))
			break;
		ssize_t k = t->stream ? read(t->fd, to + got, n - got) : pread(t->fd, to + got, n - got, (off_t)(offset + got));
		if (k < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (k < 0)
			return -1;
		if (k == 0)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

bool scan_fill(const scanner *s, task *t, block *b, int *why)
{
	size_t want = t->stream ? SCAN_BLOCK : b->n;
	ssize_t got = read_full(s, t, b->data, want, b->offset);
	*why = got < 0 ? errno : 0;
	if (t->drop && got > 0 && (b->offset / SCAN_BLOCK) % DROP_EVERY == 0 && b->offset > DROP_BEHIND)
		posix_fadvise(t->fd, 0, (off_t)(b->offset - DROP_BEHIND), POSIX_FADV_DONTNEED);
	b->n = got > 0 ? (size_t)got : 0;
	return got >= 0 && (t->stream || b->n == want);
}

static void finish_blake3(task *t)
{
	if (t->tree == NULL) {
		rp_blake3_once("", 0, t->f->blake3_sum);
		return;
	}
	rp_blake3 *h = &t->tree->joined;
	const rp_blake3 *tail = &t->tree->tail;
	/* The last block's subtrees are smaller than a block, so none of them would have been joined with one before it. */
	memcpy(h->stack + h->n_stack, tail->stack, tail->n_stack * sizeof *h->stack);
	h->n_stack += tail->n_stack;
	h->chunks = tail->chunks;
	h->n_pending = tail->n_pending;
	memcpy(h->pending, tail->pending, tail->n_pending);
	rp_blake3_final(h, t->f->blake3_sum, RP_HASH_BYTES);
}

void scan_finish(task *t)
{
	rp_scan_file *f = t->f;
	rp_scan_stamp after;
	if (t->drop && t->fd >= 0)
		posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
	f->steady = f->steady && rp_scan_stamp_fd(t->fd, &after) && memcmp(&after, &f->stamp, sizeof after) == 0;
	if (t->fd > STDIN_FILENO)
		close(t->fd);
	if (f->code == RP_OK && f->blake3)
		finish_blake3(t);
	if (f->code == RP_OK && f->sha256) {
		if (f->size == 0)
			rp_sha256_once("", 0, f->sha256_sum);
		else
			memcpy(f->sha256_sum, t->whole.sha256, RP_HASH_BYTES);
	}
	free(t->tree);
	t->tree = NULL;
	t->done = true;
}
