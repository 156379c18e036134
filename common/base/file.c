#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static rp_code read_all(int fd, const char *path, size_t max, rp_buf *b, rp_error *err)
{
	for (;;) {
		if (!rp_buf_reserve(b, 64 * 1024))
			return rp_no_memory(err, b->len + 64 * 1024, path);
		ssize_t n = read(fd, b->data + b->len, 64 * 1024);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return rp_fail_errno(err, RP_READ, errno, "%s: cannot read", path);
		b->len += (size_t)n;
		b->data[b->len] = '\0';
		if (b->len > max)
			return rp_fail(err, RP_FORMAT, "%s: larger than the limit of %zu bytes for this kind of file", path, max);
		if (n == 0)
			return RP_OK;
	}
}

rp_code rp_read_file(const char *path, size_t max, char **data, size_t *len, rp_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	struct stat st;
	rp_buf b;
	rp_buf_init(&b, 0);
	rp_code rc = RP_OK;
	if (fstat(fd, &st) != 0)
		rc = rp_fail_errno(err, RP_READ, errno, "%s: cannot stat", path);
	else if (S_ISDIR(st.st_mode))
		rc = rp_fail(err, RP_READ, "%s: is a folder, expected a file", path);
	else
		rc = read_all(fd, path, max, &b, err);
	close(fd);
	if (rc == RP_OK)
		*data = rp_buf_take(&b, len);
	rp_buf_free(&b);
	return rc;
}

rp_code rp_write_fd(int fd, const void *data, size_t len, const char *name, rp_error *err)
{
	const char *p = data;
	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", name);
		p += n;
		len -= (size_t)n;
	}
	return RP_OK;
}

/* Without this a crash soon after the rename may bring the old name back. */
static void sync_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash == NULL ? rp_strdup(".") : rp_strndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(folder);
}

rp_code rp_write_file(const char *path, const void *data, size_t len, unsigned mode, rp_error *err)
{
	char *temp = rp_asprintf("%s.XXXXXX", path);
	if (temp == NULL)
		return rp_no_memory(err, strlen(path) + 8, "a file name");
	int fd = mkstemp(temp);
	rp_code rc = RP_OK;
	if (fd < 0) {
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot create", path);
		free(temp);
		return rc;
	}
	rc = rp_write_fd(fd, data, len, path, err);
	/* mkstemp makes it 0600; a confined program may not change modes */
	if (rc == RP_OK && ((mode != 0600 && fchmod(fd, (mode_t)mode) != 0) || fsync(fd) != 0))
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
	if (close(fd) != 0 && rc == RP_OK)
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot write", path);
	if (rc == RP_OK && rename(temp, path) != 0)
		rc = rp_fail_errno(err, RP_WRITE, errno, "%s: cannot rename into place", path);
	if (rc != RP_OK)
		unlink(temp);
	else
		sync_folder_of(path);
	free(temp);
	return rc;
}

uint64_t rp_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
