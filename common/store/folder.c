#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool rp_component_valid(const char *name, size_t n)
{
	if (n == 0 || n > 255 || (name[0] == '.' && (n == 1 || (n == 2 && name[1] == '.'))))
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || (unsigned char)name[i] < 0x20 || name[i] == 0x7F)
			return false;
	return true;
}

rp_code rp_folder_make(const char *path, rp_error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return RP_OK;
	char *copy = rp_strdup(path);
	if (copy == NULL)
		return rp_no_memory(err, strlen(path), "a path");
	for (char *p = copy + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		mkdir(copy, 0777);
		*p = '/';
	}
	int failed = mkdir(copy, 0777) != 0 && errno != EEXIST ? errno : 0;
	free(copy);
	return failed ? rp_fail_errno(err, RP_WRITE, failed, "%s: cannot make this folder", path) : RP_OK;
}

static rp_code step(int at, const char *name, const char *root, bool create, int *fd, rp_error *err)
{
	if (create && mkdirat(at, name, 0777) != 0 && errno != EEXIST)
		return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot make the folder '%s' in it", root, name);
	*fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return RP_OK;
	if (errno == ELOOP || errno == ENOTDIR)
		return rp_fail(err, RP_READ, "%s: '%s' in it is no folder of its own (a link or a file); remove it", root, name);
	return rp_fail_errno(err, RP_READ, errno, "%s: cannot open '%s' in it", root, name);
}

rp_code rp_folder_open(const char *root, const char *relative, bool create, int *fd, rp_error *err)
{
	rp_code rc = create ? rp_folder_make(root, err) : RP_OK;
	if (rc != RP_OK)
		return rc;
	int at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open this folder", root);
	while (rc == RP_OK && *relative != '\0') {
		char name[256], shown[300];
		size_t n = strcspn(relative, "/");
		if (!rp_component_valid(relative, n)) {
			rc = rp_fail(err, RP_FORMAT, "'%s' is not a name for a folder of the store", rp_show(shown, sizeof shown, relative, n));
			break;
		}
		memcpy(name, relative, n);
		name[n] = '\0';
		int next = -1;
		rc = step(at, name, root, create, &next, err);
		close(at);
		at = next;
		relative += n;
		relative += *relative == '/';
	}
	if (rc == RP_OK)
		*fd = at;
	else if (at >= 0)
		close(at);
	return rc;
}

rp_code rp_folder_sync(int fd, const char *shown, rp_error *err)
{
	/* some file systems have no fsync of folders; they say EINVAL */
	return fsync(fd) == 0 || errno == EINVAL ? RP_OK : rp_fail_errno(err, RP_WRITE, errno, "%s: cannot be made lasting", shown);
}
