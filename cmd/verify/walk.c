/* The entries of a folder, one after another. */
#include "verify.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

rp_code verify_walk(rp_arena *arena, const char *relative, const char *path, unsigned depth, verify_meet *meet, void *context, rp_error *err)
{
	struct dirent *e;
	rp_code code = RP_OK;
	DIR *d = opendir(path);
	if (d == NULL)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	while (code == RP_OK && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		const char *below = *relative == '\0' ? rp_arena_strndup(arena, e->d_name, strlen(e->d_name)) :
			rp_arena_printf(arena, "%s/%s", relative, e->d_name);
		code = below == NULL ? rp_no_memory(err, strlen(e->d_name), path) : meet(context, below, depth, err);
	}
	closedir(d);
	return code;
}
