#define _DEFAULT_SOURCE
#include "store/hashcache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char HEAD[] = "reploid-hashes/1\n";

enum { MAX_ENTRIES = 1 << 16, MAX_BYTES = 32 << 20 };

#define ONE_SECOND 1000000000u

typedef struct entry {
	rp_scan_stamp stamp;
	rp_hash_facts facts;
} entry;

struct rp_hash_cache {
	char *path;
	entry *entries; /* oldest first */
	size_t n, room;
	bool changed;
};

uint64_t rp_wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * ONE_SECOND + (uint64_t)t.tv_nsec;
}

static bool settled(const rp_scan_stamp *s, uint64_t now)
{
	uint64_t latest = s->mtime_ns > s->ctime_ns ? s->mtime_ns : s->ctime_ns;
	return latest <= now && now - latest > ONE_SECOND;
}

static bool same(const rp_scan_stamp *a, const rp_scan_stamp *b)
{
	return memcmp(a, b, sizeof *a) == 0; /* five words without padding */
}

static entry *find(const rp_hash_cache *c, const rp_scan_stamp *stamp)
{
	for (size_t i = c->n; i > 0; i--)
		if (same(&c->entries[i - 1].stamp, stamp))
			return &c->entries[i - 1];
	return NULL;
}

static bool add(rp_hash_cache *c, const entry *e)
{
	if (c->n == MAX_ENTRIES) {
		c->n -= MAX_ENTRIES / 4;
		memmove(c->entries, c->entries + MAX_ENTRIES / 4, c->n * sizeof *c->entries);
	}
	if (c->n == c->room) {
		size_t room = c->room * 2 + 64;
		entry *grown = rp_grow_array(c->entries, room, sizeof *grown);
		if (grown == NULL)
			return false;
		c->entries = grown;
		c->room = room;
	}
	c->entries[c->n++] = *e;
	return true;
}

/* ---- text: five decimal numbers and three hashes or dashes a line ---- */
static const char *read_number(const char *p, uint64_t *out)
{
	uint64_t n = 0;
	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (!rp_mul_u64(n, 10, &n) || !rp_add_u64(n, (uint64_t)(*p - '0'), &n))
			return NULL;
	*out = n;
	return *p == ' ' ? p + 1 : NULL;
}

static const char *read_hash(const char *p, const char *end, char after, bool *known, unsigned char out[RP_HASH_BYTES])
{
	*known = *p != '-';
	size_t n = *known ? 2 * RP_HASH_BYTES : 1;
	if ((size_t)(end - p) <= n || p[n] != after || (*known && !rp_unhex(out, RP_HASH_BYTES, p, n)))
		return NULL;
	return p + n + 1;
}

static const char *read_entry(const char *p, const char *end, entry *e)
{
	uint64_t *const numbers[] = {&e->stamp.device, &e->stamp.inode, &e->stamp.size, &e->stamp.mtime_ns, &e->stamp.ctime_ns};
	memset(e, 0, sizeof *e);
	for (size_t i = 0; i < 5 && p != NULL; i++)
		p = read_number(p, numbers[i]); /* stops at the NUL after the text at the latest */
	if (p != NULL)
		p = read_hash(p, end, ' ', &e->facts.sha256_known, e->facts.sha256);
	if (p != NULL)
		p = read_hash(p, end, ' ', &e->facts.blake3_known, e->facts.blake3);
	return p != NULL ? read_hash(p, end, '\n', &e->facts.checked_known, e->facts.checked) : NULL;
}

bool rp_hash_cache_read(rp_hash_cache *c, const char *text, size_t n)
{
	const char *end = text + n, *p = text + strlen(HEAD);
	size_t before = c->n;
	if (n < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
		return false;
	while (p < end) {
		entry e;
		p = read_entry(p, end, &e);
		if (p == NULL || c->n - before >= MAX_ENTRIES || !add(c, &e)) {
			c->n = before;
			return false;
		}
	}
	return true;
}

static void write_hash(rp_buf *out, bool known, const unsigned char hash[RP_HASH_BYTES], char after)
{
	char hex[RP_HASH_HEX];
	rp_buf_addf(out, "%s%c", known ? rp_hex(hex, hash, RP_HASH_BYTES) : "-", after);
}

static void write_text(const rp_hash_cache *c, rp_buf *out)
{
	rp_buf_adds(out, HEAD);
	for (size_t i = 0; i < c->n; i++) {
		const entry *e = &c->entries[i];
		const rp_scan_stamp *s = &e->stamp;
		rp_buf_addf(out, "%llu %llu %llu %llu %llu ", (unsigned long long)s->device, (unsigned long long)s->inode,
			(unsigned long long)s->size, (unsigned long long)s->mtime_ns, (unsigned long long)s->ctime_ns);
		write_hash(out, e->facts.sha256_known, e->facts.sha256, ' ');
		write_hash(out, e->facts.blake3_known, e->facts.blake3, ' ');
		write_hash(out, e->facts.checked_known, e->facts.checked, '\n');
	}
}

/* ---- the file ---- */
static void load(rp_hash_cache *c)
{
	struct stat st;
	int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	bool ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
		st.st_size > 0 && st.st_size <= MAX_BYTES;
	char *text = ours ? malloc((size_t)st.st_size + 1) : NULL;
	ssize_t n = text != NULL ? pread(fd, text, (size_t)st.st_size, 0) : -1;
	close(fd);
	if (text != NULL && n == st.st_size) {
		text[n] = '\0';
		rp_hash_cache_read(c, text, (size_t)n);
	}
	free(text);
}

rp_code rp_hash_cache_open(const char *store, rp_hash_cache **out, rp_error *err)
{
	rp_hash_cache *c = rp_alloc(sizeof *c);
	char *path = rp_asprintf("%s/hashes", store);
	if (c == NULL || path == NULL) {
		free(c);
		free(path);
		return rp_no_memory(err, sizeof *c, "the cache of hashes");
	}
	c->path = path;
	load(c);
	*out = c;
	return RP_OK;
}

void rp_hash_cache_close(rp_hash_cache *c)
{
	if (c == NULL)
		return;
	free(c->entries);
	free(c->path);
	free(c);
}

bool rp_hash_cache_find(const rp_hash_cache *c, const rp_scan_stamp *stamp, rp_hash_facts *out)
{
	const entry *e = settled(stamp, rp_wall_ns()) ? find(c, stamp) : NULL;
	if (e != NULL)
		*out = e->facts;
	return e != NULL;
}

static void merge(rp_hash_facts *to, const rp_hash_facts *from)
{
	if (from->sha256_known)
		memcpy(to->sha256, from->sha256, RP_HASH_BYTES);
	if (from->blake3_known)
		memcpy(to->blake3, from->blake3, RP_HASH_BYTES);
	if (from->checked_known)
		memcpy(to->checked, from->checked, RP_HASH_BYTES);
	to->sha256_known |= from->sha256_known;
	to->blake3_known |= from->blake3_known;
	to->checked_known |= from->checked_known;
}

rp_code rp_hash_cache_put(rp_hash_cache *c, const rp_scan_stamp *stamp, const rp_hash_facts *facts, uint64_t read_ns, rp_error *err)
{
	entry fresh = {.stamp = *stamp};
	if (!settled(stamp, read_ns))
		return RP_OK;
	for (size_t i = 0; i < c->n;) {
		const rp_scan_stamp *s = &c->entries[i].stamp;
		if (s->device != stamp->device || s->inode != stamp->inode) {
			i++;
			continue;
		}
		if (same(s, stamp))
			fresh.facts = c->entries[i].facts;
		c->n--;
		memmove(&c->entries[i], &c->entries[i + 1], (c->n - i) * sizeof *c->entries);
	}
	merge(&fresh.facts, facts);
	c->changed = true;
	return add(c, &fresh) ? RP_OK : rp_no_memory(err, sizeof fresh, "the cache of hashes");
}

rp_code rp_hash_cache_save(rp_hash_cache *c, rp_error *err)
{
	if (!c->changed)
		return RP_OK;
	/* What others wrote since we read: take what we do not know. */
	rp_hash_cache theirs = {.path = c->path};
	load(&theirs);
	for (size_t i = 0; i < theirs.n; i++)
		if (find(c, &theirs.entries[i].stamp) == NULL && c->n < MAX_ENTRIES)
			add(c, &theirs.entries[i]);
	free(theirs.entries);
	rp_buf text;
	rp_buf_init(&text, MAX_BYTES);
	write_text(c, &text);
	rp_code code = text.failed ? rp_no_memory(err, text.len, "the cache of hashes") : rp_write_file(c->path, text.data, text.len, 0600, err);
	rp_buf_free(&text);
	if (code == RP_OK)
		c->changed = false;
	return code;
}
