#define _GNU_SOURCE /* fallocate, flock, sync_file_range */
#include "store/part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "store/folder.h"

/* The journal: a head (magic, size, pieces, 1 when it is shared; 64 bytes), then records of 40 bytes: SHA-256, check. Numbers are
 * little-endian. */
static const char magic[8] = "rpjrnl1\n";
enum { HEAD = 64, SHARED = 24, RECORD = RP_HASH_BYTES + 8 };

static void put64(unsigned char *out, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)(v >> (8 * i));
}

static void check_of(const rp_part *p, size_t piece, const unsigned char *hash, unsigned char out[8])
{
	unsigned char text[RP_HASH_BYTES + 3 * 8 + sizeof p->boot], digest[RP_HASH_BYTES];
	memcpy(text, hash, RP_HASH_BYTES);
	put64(text + RP_HASH_BYTES, piece);
	put64(text + RP_HASH_BYTES + 8, (uint64_t)p->inode);
	put64(text + RP_HASH_BYTES + 16, (uint64_t)p->device);
	memcpy(text + RP_HASH_BYTES + 24, p->boot, sizeof p->boot);
	rp_sha256_once(text, sizeof text, digest);
	memcpy(out, digest, 8);
}

static void read_boot(rp_part *p)
{
	char *text = NULL, hex[33];
	size_t n = 0, used = 0;
	if (rp_read_file("/proc/sys/kernel/random/boot_id", 100, &text, &n, NULL) == RP_OK)
		for (size_t i = 0; i < n && used < 32; i++)
			if (text[i] != '-')
				hex[used++] = text[i];
	free(text);
	p->boot_known = used == 32 && rp_unhex(p->boot, sizeof p->boot, hex, 32);
}

static rp_code pwrite_all(int fd, const void *data, size_t n, uint64_t offset, const char *path, rp_error *err)
{
	const char *at = data;
	while (n > 0) {
		ssize_t k = pwrite(fd, at, n, (off_t)offset);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
		at += k;
		n -= (size_t)k;
		offset += (uint64_t)k;
	}
	return RP_OK;
}

static bool pread_all(int fd, void *data, size_t n, uint64_t offset)
{
	char *at = data;
	while (n > 0) {
		ssize_t k = pread(fd, at, n, (off_t)offset);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		at += k;
		n -= (size_t)k;
		offset += (uint64_t)k;
	}
	return true;
}

static rp_code cannot(const rp_part *p, const char *what, rp_error *err)
{
	return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot %s (%s)", p->path, what, p->part_name);
}

/* The same file once more, for writes past the page cache. */
static void open_direct(rp_part *p)
{
#if defined(O_DIRECT)
	struct stat st;
	p->direct = openat(p->folder, p->part_name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECT);
	if (p->direct >= 0 && (fstat(p->direct, &st) != 0 || st.st_dev != p->device || st.st_ino != p->inode)) {
		close(p->direct);
		p->direct = -1;
	}
#else
	(void)p;
#endif
}

static rp_code open_bytes(rp_part *p, bool *fresh, rp_error *err)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	struct stat st;
	p->fd = openat(p->folder, p->part_name, flags | O_CREAT | O_EXCL, 0666);
	*fresh = p->created = p->fd >= 0;
	if (p->fd < 0 && errno == EEXIST)
		p->fd = openat(p->folder, p->part_name, flags | O_CREAT, 0666);
	if (p->fd < 0 || fstat(p->fd, &st) != 0)
		return cannot(p, "make a partial file", err);
	if (!S_ISREG(st.st_mode))
		return rp_fail(err, RP_WRITE, "%s: %s is there and is no regular file; remove it", p->path, p->part_name);
	*fresh |= (uint64_t)st.st_size < p->size;
	p->device = st.st_dev;
	p->inode = st.st_ino;
	p->first = flock(p->fd, LOCK_EX | LOCK_NB) == 0; /* only to share the work well; nothing depends on it */
	if ((uint64_t)st.st_size != p->size && ftruncate(p->fd, (off_t)p->size) != 0)
		return cannot(p, "make a partial file", err);
	open_direct(p);
	return RP_OK;
}

/* Who opens a journal that others have open marks it for them. Everybody holds a shared lock, whoever was alone for a moment an
 * exclusive one; where locks cannot be had it is marked too. */
static rp_code mark_journal(rp_part *p, unsigned char head[HEAD], rp_error *err)
{
	bool alone = flock(p->journal, LOCK_EX | LOCK_NB) == 0;
	if (alone) {
		rp_code rc = pwrite_all(p->journal, head, HEAD, 0, p->path, err);
		flock(p->journal, LOCK_SH);
		return rc;
	}
	for (int i = 0; flock(p->journal, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK && i < 100; i++)
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	head[SHARED] = 1;
	return pwrite_all(p->journal, head, HEAD, 0, p->path, err);
}

bool rp_part_shared(const rp_part *p)
{
	unsigned char mark;
	return p->journal < 0 || !pread_all(p->journal, &mark, 1, SHARED) || mark != 0;
}

static rp_code open_journal(rp_part *p, bool fresh, rp_error *err)
{
	unsigned char head[HEAD] = {0}, found[HEAD];
	memcpy(head, magic, sizeof magic);
	put64(head + 8, p->size);
	put64(head + 16, p->n_pieces);
	p->journal = openat(p->folder, p->journal_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0666);
	if (p->journal < 0)
		return cannot(p, "make a journal", err);
	if (!fresh && pread_all(p->journal, found, HEAD, 0) && memcmp(found, head, SHARED) == 0)
		fresh = false;
	else
		fresh = true;
	if (fresh && ftruncate(p->journal, 0) != 0) /* records of bytes that are gone */
		return cannot(p, "clear the journal", err);
	if (ftruncate(p->journal, (off_t)(HEAD + (uint64_t)RECORD * p->n_pieces)) != 0)
		return cannot(p, "make a journal", err);
	return mark_journal(p, head, err);
}

rp_code rp_part_open(rp_part *p, int folder, const char *shown, const char *name, const void *key, size_t key_len, uint64_t size,
	size_t n_pieces, rp_error *err)
{
	unsigned char digest[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	bool fresh;
	memset(p, 0, sizeof *p);
	p->folder = folder;
	p->fd = p->journal = p->direct = -1;
	p->size = size;
	p->n_pieces = n_pieces;
	rp_sha256_once(key, key_len, digest);
	rp_hex(hex, digest, sizeof digest);
	hex[RP_PART_KEY] = '\0';
	p->path = *shown != '\0' ? rp_asprintf("%s/%s", shown, name) : rp_strdup(name);
	p->part_name = rp_asprintf("%s.%s.part", name, hex);
	p->journal_name = rp_asprintf("%s.%s.journal", name, hex);
	rp_code rc = RP_OK;
	if (p->path == NULL || p->part_name == NULL || p->journal_name == NULL) {
		rc = rp_no_memory(err, 0, "file names");
	} else if (size > INT64_MAX || n_pieces > (INT64_MAX - HEAD) / RECORD) {
		rc = rp_fail(err, RP_FORMAT, "%s: a size of %llu bytes is beyond what files can have", p->path, (unsigned long long)size);
	} else {
		p->name = p->path + strlen(p->path) - strlen(name);
		read_boot(p);
		rc = open_bytes(p, &fresh, err);
		if (rc == RP_OK)
			rc = open_journal(p, fresh, err);
	}
	if (rc != RP_OK)
		rp_part_close(p);
	return rc;
}

rp_code rp_part_open_file(rp_part *p, int folder, const char *shown, const char *name, uint64_t size, size_t n_pieces, rp_error *err)
{
	struct stat st;
	memset(p, 0, sizeof *p);
	p->folder = folder;
	p->size = size;
	p->n_pieces = n_pieces;
	p->first = true;
	p->fd = p->journal = p->direct = -1;
	p->path = *shown != '\0' ? rp_asprintf("%s/%s", shown, name) : rp_strdup(name);
	p->part_name = rp_strdup(name);
	if (p->path == NULL || p->part_name == NULL) {
		rp_part_close(p);
		return rp_no_memory(err, 0, "file names");
	}
	p->name = p->path + strlen(p->path) - strlen(name);
	p->fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	rp_code rc = RP_OK;
	if (p->fd < 0 || fstat(p->fd, &st) != 0)
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot open for repair", p->path);
	else if (!S_ISREG(st.st_mode))
		rc = rp_fail(err, RP_WRITE, "%s: is no regular file", p->path);
	if (rc != RP_OK)
		rp_part_close(p);
	return rc;
}

void rp_part_close(rp_part *p)
{
	if (p->path != NULL && p->fd >= 0)
		close(p->fd);
	if (p->path != NULL && p->journal >= 0)
		close(p->journal);
	if (p->path != NULL && p->direct >= 0)
		close(p->direct);
	free(p->path);
	free(p->part_name);
	free(p->journal_name);
	memset(p, 0, sizeof *p);
	p->fd = p->journal = p->direct = -1;
}

rp_code rp_part_room(const rp_part *p, uint64_t *wanted, uint64_t *free_bytes, rp_error *err)
{
	struct stat st;
	struct statvfs fs;
	if (fstat(p->fd, &st) != 0 || fstatvfs(p->fd, &fs) != 0)
		return cannot(p, "ask for the room of the file system", err);
	uint64_t has = (uint64_t)st.st_blocks * 512;
	*wanted = has < p->size ? p->size - has : 0;
	if (!rp_mul_u64(fs.f_bavail, fs.f_frsize, free_bytes))
		*free_bytes = UINT64_MAX;
	return RP_OK;
}

rp_code rp_part_reserve(rp_part *p, rp_error *err)
{
#if defined(__linux__)
	while (fallocate(p->fd, 0, 0, (off_t)p->size) != 0) {
		if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
			return rp_fail_errno(err, RP_WRITE, errno, "%s: no room for %llu bytes", p->path, (unsigned long long)p->size);
		if (errno != EINTR)
			break; /* a file system that cannot; the disk is then found full when it is */
	}
#else
	(void)p;
	(void)err;
#endif
	return RP_OK;
}

rp_record rp_part_lookup(const rp_part *p, size_t piece, unsigned char hash[RP_HASH_BYTES])
{
	static const unsigned char none[RP_HASH_BYTES];
	unsigned char record[RECORD], check[8];
	if (p->journal < 0 || !pread_all(p->journal, record, RECORD, HEAD + (uint64_t)RECORD * piece) || memcmp(record, none, sizeof none) == 0)
		return RP_RECORD_NONE;
	memcpy(hash, record, RP_HASH_BYTES);
	check_of(p, piece, record, check);
	return p->boot_known && memcmp(check, record + RP_HASH_BYTES, sizeof check) == 0 ? RP_RECORD_SURE : RP_RECORD_UNSURE;
}

rp_code rp_part_record(rp_part *p, size_t piece, const unsigned char hash[RP_HASH_BYTES], rp_error *err)
{
	unsigned char record[RECORD] = {0};
	if (p->journal < 0)
		return RP_OK;
	if (hash != NULL) {
		memcpy(record, hash, RP_HASH_BYTES);
		check_of(p, piece, hash, record + RP_HASH_BYTES);
	}
	return pwrite_all(p->journal, record, RECORD, HEAD + (uint64_t)RECORD * piece, p->path, err);
}

size_t rp_part_write_past_cache(rp_part *p, uint64_t offset, const void *data, size_t n)
{
	size_t done = 0;
	if (p->direct < 0 || (uintptr_t)data % RP_PART_ALIGN != 0 || offset % RP_PART_ALIGN != 0)
		return 0;
	for (n -= n % RP_PART_ALIGN; done < n;) {
		ssize_t k = pwrite(p->direct, (const char *)data + done, n - done, (off_t)(offset + done));
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0 || k % RP_PART_ALIGN != 0)
			break;
		done += (size_t)k;
	}
	return done;
}

rp_code rp_part_write(rp_part *p, size_t piece, uint64_t offset, const void *data, size_t n, size_t written, const unsigned char hash[RP_HASH_BYTES],
	rp_error *err)
{
	rp_code rc = pwrite_all(p->fd, (const char *)data + written, n - written, offset + written, p->path, err);
	if (rc != RP_OK)
		return rc;
#if defined(__linux__)
	if (written < n)
		sync_file_range(p->fd, (off_t)(offset + written), (off_t)(n - written), SYNC_FILE_RANGE_WRITE); /* so that little is left for fsync */
#endif
	return rp_part_record(p, piece, hash, err);
}

rp_code rp_part_read(const rp_part *p, uint64_t offset, void *data, size_t n, rp_error *err)
{
	return pread_all(p->fd, data, n, offset) ? RP_OK : rp_fail_errno(err, RP_READ, errno, "%s: cannot read back %s", p->path, p->part_name);
}

/* The name is that of the very file that is open here. */
static bool is_at(const rp_part *p, const char *name)
{
	struct stat st;
	return fstatat(p->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == p->device && st.st_ino == p->inode;
}

/* The name is taken by this very file: another process came first. */
static bool is_published(const rp_part *p)
{
	return is_at(p, p->name);
}

/* The repaired file: what is past its right end goes. */
static rp_code end_repair(const rp_part *p, rp_error *err)
{
	struct stat st;
	if (fstat(p->fd, &st) != 0 || ((uint64_t)st.st_size > p->size && ftruncate(p->fd, (off_t)p->size) != 0) || fsync(p->fd) != 0)
		return cannot(p, "make the file lasting", err);
	return RP_OK;
}

rp_code rp_part_expose(rp_part *p, rp_error *err)
{
	char *temp = rp_asprintf("%s.link", p->part_name);
	if (temp == NULL)
		return rp_no_memory(err, 0, "a file name");
	rp_code rc = fsync(p->fd) != 0 ? cannot(p, "make the file lasting", err) : RP_OK;
	if (rc == RP_OK && !is_published(p)) {
		unlinkat(p->folder, temp, 0);
		if (linkat(p->folder, p->part_name, p->folder, temp, 0) != 0 || renameat(p->folder, temp, p->folder, p->name) != 0)
			rc = cannot(p, "give the file its name as a second one", err);
	}
	free(temp);
	return rc == RP_OK ? rp_folder_sync(p->folder, p->path, err) : rc;
}

/* It had its name, and yet another process has put an equal file there since: one that began when the partial file was gone. */
static bool is_replaced(const rp_part *p)
{
	struct stat own, st;
	return fstat(p->fd, &own) == 0 && own.st_nlink == 0 && fstatat(p->folder, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size == p->size;
}

rp_code rp_part_publish(rp_part *p, rp_error *err)
{
	if (p->journal < 0)
		return end_repair(p, err);
	if (fsync(p->fd) != 0)
		return cannot(p, "make the file lasting", err);
	if (is_published(p)) {
		/* Another process was first; or it was shown with holes before: then both names are of one file, and rename would keep both. */
		if (is_at(p, p->part_name))
			unlinkat(p->folder, p->part_name, 0);
	} else if (!is_at(p, p->part_name)) { /* the partial file is another process's by now, and not whole */
		if (!is_replaced(p))
			return rp_fail(err, RP_WRITE, "%s: its partial file (%s) was removed meanwhile; run it again", p->path, p->part_name);
	} else if (renameat(p->folder, p->part_name, p->folder, p->name) != 0 && !(errno == ENOENT && (is_published(p) || is_replaced(p)))) {
		return cannot(p, "give the file its name", err);
	}
	rp_code rc = rp_folder_sync(p->folder, p->path, err);
	if (rc == RP_OK)
		unlinkat(p->folder, p->journal_name, 0);
	if (rc == RP_OK)
		rp_part_sweep(p->folder, p->name, true);
	return rc;
}

void rp_part_discard(rp_part *p)
{
	unlinkat(p->folder, p->part_name, 0);
	unlinkat(p->folder, p->journal_name, 0);
}

void rp_part_discard_empty(rp_part *p)
{
	unsigned char hash[RP_HASH_BYTES];
	if (p->path == NULL || !p->created || !p->first || is_published(p))
		return;
	for (size_t i = 0; i < p->n_pieces; i++)
		if (rp_part_lookup(p, i, hash) != RP_RECORD_NONE)
			return;
	rp_part_discard(p);
}

/* NAME.KEY and the end; or NAME.NUMBER.part of a file whose size was not known. */
static bool is_part_of(const char *entry, const char *name, const char *end, size_t *key)
{
	size_t n = strlen(name), k;
	if (strncmp(entry, name, n) != 0 || entry[n] != '.')
		return false;
	k = strspn(entry + n + 1, "0123456789abcdef");
	*key = n + 1 + k;
	return k > 0 && k <= RP_PART_KEY && strcmp(entry + n + 1 + k, end) == 0;
}

/* A journal whose partial file is gone: a process died when it had just given the file its name. */
static void sweep_journal(int folder, const char *journal, size_t key)
{
	char part[300];
	struct stat st;
	snprintf(part, sizeof part, "%.*s.part", (int)key, journal);
	if (fstatat(folder, part, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
		unlinkat(folder, journal, 0);
}

void rp_part_sweep(int folder, const char *name, bool parts)
{
	int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	if (dir == NULL && copy >= 0)
		close(copy);
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		size_t key;
		char journal[300];
		if (is_part_of(e->d_name, name, ".journal", &key))
			sweep_journal(folder, e->d_name, key);
		if (!parts || !is_part_of(e->d_name, name, ".part", &key))
			continue;
		int fd = openat(folder, e->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			snprintf(journal, sizeof journal, "%.*s.journal", (int)key, e->d_name);
			unlinkat(folder, e->d_name, 0);
			unlinkat(folder, journal, 0);
		}
		if (fd >= 0)
			close(fd);
	}
	if (dir != NULL)
		closedir(dir);
}
