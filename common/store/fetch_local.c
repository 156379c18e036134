#define _XOPEN_SOURCE 700 /* realpath */
/* Files that are on this machine already: copied as carefully as if they came from afar. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/progress.h"
#include "store/fetch_impl.h"
#include "store/seeds.h"
#include "store/tally.h"

enum { MAX_FILES = 20000, MAX_DEPTH = 8 };

/* Names the content as well as a file can: a copy that was interrupted goes on only from the same file, unchanged. */
static void make_key(const struct stat *st, const char *path, rp_buf *key)
{
	rp_buf_init(key, 8192);
	rp_buf_addf(key, "local %s %llu %llu %lld %lld.%09ld", path, (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
		(long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* Before anything is copied. */
static rp_code check_room(const rp_item *item, rp_error *err)
{
	uint64_t wanted, room;
	char a[32], b[32];
	rp_code rc = rp_part_room(&item->part, &wanted, &room, err);
	return rc == RP_OK && wanted > room ? rp_fail(err, RP_DISK_FULL, "%s: %s more are needed there and %s are free", item->part.path,
		rp_size_text(a, sizeof a, wanted), rp_size_text(b, sizeof b, room)) : rc;
}

static rp_code copy_bytes(const rp_fetch_opts *o, int fd, const struct stat *st, const char *path, const rp_target *target, rp_error *err)
{
	rp_job *job;
	rp_item *item = NULL;
	rp_buf key;
	bool whole_known;
	unsigned char whole[RP_HASH_BYTES];
	rp_code rc = rp_fetch_whole(o, &whole_known, whole, err);
	if (rc == RP_OK)
		rc = rp_job_new(o, NULL, &job, err);
	if (rc != RP_OK)
		return rc;
	make_key(st, path, &key);
	rc = rp_job_add(job, target->folder, target->shown, target->name, key.data, key.len, (uint64_t)st->st_size, NULL, 0,
		whole_known ? whole : NULL, &item, err);
	if (rc == RP_OK && !o->dry_run)
		rc = check_room(item, err);
	if (rc == RP_OK && !o->dry_run)
		rc = rp_seed_from(job, item, fd, path, true, err);
	if (rc == RP_OK && !o->dry_run && item->n_done < item->n_pieces)
		rc = rp_fail(err, RP_READ, "%s: cannot read all of it; it is shorter than it was", path);
	if (rc == RP_OK)
		rc = rp_job_run(job, err);
	if (rc == RP_OK && !o->dry_run)
		rp_fetch_keep_tree(o, item);
	else if (item != NULL && rc == RP_HASH)
		rp_part_discard(&item->part);
	rp_job_free(job);
	rp_buf_free(&key);
	return rc;
}

static rp_code copy_file(const rp_fetch_opts *o, const char *path, const rp_target *target, rp_error *err)
{
	struct stat st, there;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", path);
	rp_code rc = RP_OK;
	if (fstat(fd, &st) != 0)
		rc = rp_fail_errno(err, RP_READ, errno, "%s: cannot stat", path);
	else if (!S_ISREG(st.st_mode))
		rc = rp_fail(err, RP_READ, "%s: is no regular file", path);
	else if (fstatat(target->folder, target->name, &there, 0) == 0 && there.st_dev == st.st_dev && there.st_ino == st.st_ino)
		rc = rp_fail(err, RP_USAGE, "%s: is the file itself; nothing to copy", target->path);
	else if (st.st_size == 0 && !o->dry_run)
		rc = rp_write_file(target->path, "", 0, 0644, err);
	else if (st.st_size > 0)
		rc = copy_bytes(o, fd, &st, path, target, err);
	close(fd);
	return rc;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

static rp_code local_file(const rp_fetch_opts *o, const char *path, char **out, rp_error *err)
{
	rp_target target;
	char *id = rp_id_of_name(last_name(path));
	rp_code rc = id == NULL ? rp_no_memory(err, 0, "a name") : o->output != NULL ? rp_target_output(o->output, last_name(path), &target, err) :
		rp_target_store(o->store, id, last_name(path), &target, err);
	free(id);
	if (rc != RP_OK)
		return rc;
	rc = copy_file(o, path, &target, err);
	if (rc == RP_OK && (*out = rp_strdup(target.path)) == NULL)
		rc = rp_no_memory(err, 0, "a path");
	rp_target_free(&target);
	return rc;
}

/* ---- folders ---- */

typedef struct found {
	char *path; /* below the folder */
	uint64_t size;
} found;

typedef struct walk {
	const char *root;
	const char *to, *below; /* where it goes: below (of the store) is followed through no link */
	found *v;
	size_t n, cap;
	rp_error *err;
} walk;

static rp_code keep(walk *w, char *path, uint64_t size)
{
	if (path != NULL && w->n < MAX_FILES && w->n == w->cap) {
		found *grown = rp_grow_array(w->v, w->cap + w->cap / 2 + 64, sizeof *grown);
		if (grown != NULL) {
			w->v = grown;
			w->cap += w->cap / 2 + 64;
		}
	}
	if (path == NULL || w->n == w->cap || w->n == MAX_FILES) {
		free(path);
		return w->n == MAX_FILES ? rp_fail(w->err, RP_UNSUPPORTED, "%s: has more than %d files", w->root, MAX_FILES) :
			rp_no_memory(w->err, 0, "a list of files");
	}
	w->v[w->n++] = (found){path, size};
	return RP_OK;
}

/* Files, also behind links, as caches have them; folders below, but not behind links. Hidden ones are passed over. */
static rp_code look(walk *w, const char *below, unsigned depth)
{
	char *folder = *below != '\0' ? rp_asprintf("%s/%s", w->root, below) : rp_strdup(w->root);
	DIR *dir = folder != NULL ? opendir(folder) : NULL;
	rp_code rc = folder == NULL ? rp_no_memory(w->err, 0, "a path") :
		dir == NULL ? rp_fail_errno(w->err, RP_READ, errno, "%s: cannot open this folder", folder) : RP_OK;
	for (struct dirent *e; rc == RP_OK && (e = readdir(dir)) != NULL;) {
		struct stat st;
		char *path = e->d_name[0] != '.' ? rp_asprintf("%s/%s", folder, e->d_name) : NULL;
		char *inside = path != NULL ? rp_asprintf("%s%s%s", below, *below != '\0' ? "/" : "", e->d_name) : NULL;
		if (path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
			rc = keep(w, inside, (uint64_t)st.st_size);
			inside = NULL;
		} else if (inside != NULL && lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			rc = depth < MAX_DEPTH ? look(w, inside, depth + 1) : rp_fail(w->err, RP_UNSUPPORTED, "%s: folders are nested too deeply", path);
		}
		free(inside);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
	free(folder);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const found *)a)->path, ((const found *)b)->path);
}

/* One file of the folder, to the same place. */
static rp_code copy_entry(const rp_fetch_opts *o, const walk *w, const found *f, rp_error *err)
{
	const char *slash = strrchr(f->path, '/'), *name = slash != NULL ? slash + 1 : f->path;
	int n = slash != NULL ? (int)(slash - f->path) : 0;
	char *path = rp_asprintf("%s/%s", w->root, f->path), *below = rp_asprintf("%s%s%.*s", w->below, *w->below != '\0' && n > 0 ? "/" : "", n, f->path);
	char *shown = below != NULL ? rp_asprintf("%s%s%s", w->to, *below != '\0' ? "/" : "", below) : NULL;
	rp_target target = {.folder = -1, .shown = shown, .name = rp_strdup(name), .path = shown != NULL ? rp_asprintf("%s/%s", shown, name) : NULL};
	struct stat from, there;
	rp_code rc = path == NULL || target.path == NULL || target.name == NULL ? rp_no_memory(err, 0, "a path") :
		rp_folder_open(w->to, below, true, &target.folder, err);
	bool same = rc == RP_OK && stat(path, &from) == 0 && fstatat(target.folder, name, &there, 0) == 0 && there.st_dev == from.st_dev &&
		there.st_ino == from.st_ino;
	if (rc == RP_OK && !same)
		rc = copy_file(o, path, &target, err);
	rp_target_free(&target);
	free(below);
	free(path);
	return rc;
}

static rp_code copy_all(const rp_fetch_opts *o, walk *w, rp_error *err)
{
	rp_tally t = {.o = o};
	rp_fetch_opts own = rp_tally_opts(&t, o);
	rp_code rc = look(w, "", 0);
	if (rc == RP_OK && w->n > 0)
		qsort(w->v, w->n, sizeof *w->v, by_path);
	for (size_t i = 0; i < w->n; i++)
		t.later += w->v[i].size;
	for (size_t i = 0; i < w->n && rc == RP_OK; i++) {
		t.later -= w->v[i].size;
		rc = copy_entry(&own, w, &w->v[i], err);
		rp_tally_next(&t);
	}
	if (rc == RP_OK)
		rp_tally_end(&t);
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	free(w->v);
	return rc;
}

static rp_code local_folder(const rp_fetch_opts *o, char *path, char **out, rp_error *err)
{
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	if (o->sha256 != NULL)
		return rp_fail(err, RP_USAGE, "--sha256 is for one file, and %s is a folder", path);
	char *real = realpath(path, NULL), *id = rp_id_of_name(last_name(real != NULL ? real : path)), *below = NULL, *shown = NULL;
	int to = -1;
	rp_code rc = id != NULL ? RP_OK : rp_no_memory(err, 0, "a name");
	if (rc == RP_OK) {
		below = rp_asprintf("models/%s", id);
		shown = o->output != NULL ? rp_strdup(o->output) : rp_asprintf("%s/models/%s", o->store, id);
		rc = below == NULL || shown == NULL ? rp_no_memory(err, 0, "a path") :
			o->output != NULL ? rp_folder_open(o->output, "", true, &to, err) : rp_folder_open(o->store, below, true, &to, err);
	}
	if (to >= 0)
		close(to);
	walk w = {.root = path, .to = o->output != NULL ? o->output : o->store, .below = o->output != NULL ? "" : below, .err = err};
	if (rc == RP_OK)
		rc = copy_all(o, &w, err);
	free(real);
	free(id);
	free(below);
	if (rc == RP_OK)
		*out = shown;
	else
		free(shown);
	return rc;
}

rp_code rp_fetch_local(const rp_fetch_opts *o, const char *source, char **out, rp_error *err)
{
	struct stat st;
	char *path = rp_local_path(source);
	if (path == NULL)
		return rp_fail(err, RP_USAGE, "%s: not a usable file address; expected file:///path", source);
	rp_code rc = stat(path, &st) != 0 ? rp_fail_errno(err, RP_READ, errno, "%s: cannot be read", path) :
		S_ISDIR(st.st_mode) ? local_folder(o, path, out, err) : local_file(o, path, out, err);
	free(path);
	return rc;
}
