#define _XOPEN_SOURCE 700 /* realpath */

#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK so that a FIFO put in a model's place cannot hang us; it has no effect on regular files. */
static int open_for_reading(const char *path)
{
	int fd;
	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* Does the file path names, links followed, lie in the folder? */
static bool stays_inside(const char *path, const char *folder)
{
	char *real = realpath(path, NULL), *real_folder = realpath(folder, NULL);
	bool ok = false;
	if (real != NULL && real_folder != NULL) {
		size_t n = strlen(real_folder);
		ok = strncmp(real, real_folder, n) == 0 && (real[n] == '/' || (n > 0 && real_folder[n - 1] == '/'));
	}
	free(real);
	free(real_folder);
	return ok;
}

rp_code rp_source_open(rp_source *s, const char *path, const char *inside, bool keep, rp_error *err)
{
	int fd = open_for_reading(path);
	if (fd < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	struct stat st;
	rp_code rc = RP_OK;
	if (fstat(fd, &st) != 0)
		rc = rp_fail_errno(err, RP_READ, errno, "%s: cannot stat", path);
	else if (!S_ISREG(st.st_mode))
		rc = rp_fail(err, RP_READ, "%s: is not a regular file", path);
	else if (inside != NULL && !stays_inside(path, inside))
		rc = rp_fail(err, RP_READ, "%s: is a link that leads out of the model's folder; put the file itself there", path);
	if (rc != RP_OK || !keep) {
		close(fd);
		fd = -1;
	}
	if (rc == RP_OK)
		*s = (rp_source){ .path = path, .size = (uint64_t)st.st_size, .fd = fd, .device = st.st_dev, .inode = st.st_ino };
	return rc;
}

void rp_source_close(rp_source *s)
{
	if (s->map != NULL)
		munmap((void *)(uintptr_t)s->map, (size_t)s->size);
	if (s->memory == NULL && s->fd >= 0)
		close(s->fd);
	s->map = NULL;
	s->fd = -1;
}

/* The kept descriptor, or a new one that must still be the same file. */
static int descriptor(const rp_source *s)
{
	if (s->fd >= 0)
		return s->fd;
	int fd = open_for_reading(s->path);
	struct stat st;
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != s->device || st.st_ino != s->inode)) {
		close(fd);
		errno = ESTALE;
		fd = -1;
	}
	return fd;
}

static void release(const rp_source *s, int fd)
{
	if (fd >= 0 && fd != s->fd)
		close(fd);
}

rp_code rp_source_read(const rp_source *s, uint64_t offset, void *dst, size_t n, rp_error *err)
{
	if (n > s->size || offset > s->size - n)
		return rp_fail(err, RP_FORMAT, "%s: %zu bytes at %llu reach past the end of the file (%llu bytes)", s->path, n,
			(unsigned long long)offset, (unsigned long long)s->size);
	if (n == 0)
		return RP_OK;
	if (s->memory != NULL) {
		memcpy(dst, (const char *)s->memory + offset, n);
		return RP_OK;
	}
	int fd = descriptor(s);
	if (fd < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open again", s->path);
	char *to = dst;
	rp_code rc = RP_OK;
	while (n > 0 && rc == RP_OK) {
		ssize_t got = pread(fd, to, n, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			rc = rp_fail_errno(err, RP_READ, errno, "%s: cannot read", s->path);
		} else if (got == 0) {
			rc = rp_fail(err, RP_READ, "%s: became shorter while in use (%llu bytes when opened)", s->path,
				(unsigned long long)s->size);
		} else {
			to += got;
			offset += (uint64_t)got;
			n -= (size_t)got;
		}
	}
	release(s, fd);
	return rc;
}

const void *rp_source_map(rp_source *s)
{
	size_t size;
	if (s->memory != NULL || s->map != NULL)
		return s->memory != NULL ? s->memory : s->map;
	int fd = descriptor(s);
	struct stat st;
	/* Touching pages past a file's end kills the process: never map more than there is now. */
	if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= s->size && s->size > 0 && rp_u64_to_size(s->size, &size)) {
		void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			s->map = p;
	}
	release(s, fd);
	return s->map;
}

bool rp_name_is_plain(const char *name)
{
	size_t n = strlen(name);
	if (n == 0 || n > 255 || name[0] == '.' || rp_utf8_valid(name, n) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || name[i] == '\\' || (unsigned char)name[i] < 0x20 || name[i] == 0x7F)
			return false;
	return true;
}
