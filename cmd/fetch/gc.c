/* --gc: partial files of interrupted fetches and trees of pieces without a file of their size. Complete models are never touched. */
#define _DEFAULT_SOURCE /* flock */
#include "fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 8 };

typedef struct found {
	char **paths; /* to remove */
	size_t n, cap;
	uint64_t bytes;
	uint64_t *sizes; /* of complete files in the store */
	size_t n_sizes, cap_sizes;
	bool failed;
} found;

static void add_path(found *f, char *path, uint64_t bytes)
{
	if (f->n == f->cap) {
		char **grown = rp_grow_array(f->paths, f->cap + 64, sizeof *grown);
		if (grown == NULL) {
			f->failed = true;
			free(path);
			return;
		}
		f->paths = grown;
		f->cap += 64;
	}
	f->paths[f->n++] = path;
	f->bytes += bytes;
}

static void add_size(found *f, uint64_t size)
{
	if (f->n_sizes == f->cap_sizes) {
		uint64_t *grown = rp_grow_array(f->sizes, f->cap_sizes + 256, sizeof *grown);
		if (grown == NULL) {
			f->failed = true;
			return;
		}
		f->sizes = grown;
		f->cap_sizes += 256;
	}
	f->sizes[f->n_sizes++] = size;
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);
	return n > k && strcmp(name + n - k, end) == 0;
}

/* A fetch that runs holds a lock on its partial file. */
static bool is_in_use(const char *path)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool used = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0;
	if (fd >= 0)
		close(fd);
	return used;
}

static bool part_of_journal_is_in_use(const char *journal)
{
	struct stat st;
	size_t n = strlen(journal) - strlen("journal");
	char *part = rp_asprintf("%.*spart", (int)n, journal);
	bool used = part == NULL || (lstat(part, &st) == 0 && is_in_use(part));
	free(part);
	return used;
}

static void walk_models(found *f, const char *folder, unsigned depth)
{
	DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		struct stat st;
		char *path = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ? NULL : rp_asprintf("%s/%s", folder, e->d_name);
		if (path == NULL || lstat(path, &st) != 0) {
			free(path);
			continue;
		}
		bool part = ends_with(e->d_name, ".part"), journal = ends_with(e->d_name, ".journal");
		if (S_ISDIR(st.st_mode))
			walk_models(f, path, depth + 1);
		else if (S_ISREG(st.st_mode) && ((part && !is_in_use(path)) || (journal && !part_of_journal_is_in_use(path)))) {
			add_path(f, path, (uint64_t)st.st_blocks * 512);
			continue;
		} else if (S_ISREG(st.st_mode) && !part && !journal)
			add_size(f, (uint64_t)st.st_size);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
}

static void walk_trees(found *f, const char *store)
{
	char *folder = rp_asprintf("%s/trees", store);
	DIR *dir = folder != NULL ? opendir(folder) : NULL;
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		struct stat st;
		char *end;
		unsigned long long size = strtoull(e->d_name, &end, 10);
		bool used = end == e->d_name || *end != '-' || !ends_with(e->d_name, ".json");
		for (size_t i = 0; i < f->n_sizes && !used; i++)
			used = f->sizes[i] == size;
		char *path = used ? NULL : rp_asprintf("%s/%s", folder, e->d_name);
		if (path != NULL && lstat(path, &st) == 0 && S_ISREG(st.st_mode))
			add_path(f, path, (uint64_t)st.st_blocks * 512);
		else
			free(path);
	}
	if (dir != NULL)
		closedir(dir);
	free(folder);
}

static rp_code confirm(const fetch_state *s, const found *f, rp_error *err)
{
	char size[32], answer[16];
	if (s->o.yes)
		return RP_OK;
	if (!isatty(STDIN_FILENO))
		return rp_fail(err, RP_USAGE, "--gc asks before it removes anything; give -y where nobody can answer");
	fetch_say("remove these %zu files (%s)? Trees of files outside the store are among them when they were fetched with -o. [y/N]", f->n,
		rp_size_text(size, sizeof size, f->bytes));
	if (!rp_wait_readable(STDIN_FILENO) || fgets(answer, sizeof answer, stdin) == NULL || (answer[0] != 'y' && answer[0] != 'Y'))
		return rp_fail(err, RP_CANCELLED, "nothing was removed");
	return RP_OK;
}

static rp_code remove_all(const fetch_state *s, const found *f, rp_error *err)
{
	for (size_t i = 0; i < f->n; i++) {
		if (unlink(f->paths[i]) != 0 && errno != ENOENT)
			return rp_fail_errno(err, RP_WRITE, errno, "%s: cannot remove", f->paths[i]);
		if (s->o.json) {
			rp_jsonw w;
			rp_buf text;
			fetch_json_begin(&w, &text, "removed");
			rp_jsonw_pair_str(&w, "path", f->paths[i]);
			rp_code rc = fetch_json_end(&w, &text, err);
			if (rc != RP_OK)
				return rc;
		}
	}
	return RP_OK;
}

rp_code fetch_gc(fetch_state *s, rp_error *err)
{
	found f = {0};
	char *models = rp_asprintf("%s/models", s->store), size[32];
	rp_code rc = models == NULL ? rp_no_memory(err, 0, "a path") : RP_OK;
	if (rc == RP_OK) {
		walk_models(&f, models, 0);
		walk_trees(&f, s->store);
		rc = f.failed ? rp_no_memory(err, 0, "a list of files") : RP_OK;
	}
	for (size_t i = 0; i < f.n && rc == RP_OK && !s->o.quiet && !s->o.json; i++)
		fetch_say("%s", f.paths[i]);
	if (rc == RP_OK && f.n > 0)
		rc = confirm(s, &f, err);
	if (rc == RP_OK)
		rc = remove_all(s, &f, err);
	if (rc == RP_OK && !s->o.quiet && !s->o.json)
		fetch_say("removed %zu files, %s", f.n, rp_size_text(size, sizeof size, f.bytes));
	for (size_t i = 0; i < f.n; i++)
		free(f.paths[i]);
	free(f.paths);
	free(f.sizes);
	free(models);
	return rc;
}
