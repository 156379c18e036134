#include "store/seeds.h"

#include <dirent.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/fs.h>
#endif

#include "store/folder.h"

enum { MAX_DEPTH = 6, MAX_SEEDS = 20000, MIN_SEED_BYTES = 64 << 10, MAX_MISSES = 4 };

/* ---- where to look ---- */

static char *of_variable(const char *name, const char *below)
{
	const char *value = getenv(name);
	return value != NULL && *value == '/' ? rp_asprintf("%s%s", value, below) : NULL;
}

static char *below_home(const char *below)
{
	return of_variable("HOME", below);
}

static char *first_of(char *a, char *b, char *c)
{
	char *all[] = {a, b, c}, *found = NULL;
	for (size_t i = 0; i < 3; i++) {
		if (found == NULL)
			found = all[i];
		else
			free(all[i]);
	}
	return found;
}

rp_code rp_seed_roots(const char *store, char ***out, size_t *n, rp_error *err)
{
	char **roots = rp_alloc_array(5, sizeof *roots);
	if (roots == NULL)
		return rp_no_memory(err, 0, "folders to look into");
	roots[0] = rp_asprintf("%s/models", store);
	roots[1] = first_of(of_variable("HF_HUB_CACHE", ""), of_variable("HF_HOME", "/hub"), below_home("/.cache/huggingface/hub"));
	roots[2] = first_of(of_variable("OLLAMA_MODELS", "/blobs"), below_home("/.ollama/models/blobs"), NULL);
	roots[3] = below_home("/.lmstudio/models");
	roots[4] = below_home("/.cache/lm-studio/models");
	*n = 0;
	for (size_t i = 0; i < 5; i++) {
		struct stat st;
		char *root = roots[i];
		if (root != NULL && stat(root, &st) == 0 && S_ISDIR(st.st_mode))
			roots[(*n)++] = root;
		else
			free(root);
	}
	*out = roots;
	return RP_OK;
}

static bool add(rp_seeds *s, const char *path, const char *name, uint64_t size)
{
	if (s->n == s->cap) {
		size_t more = s->cap > 0 ? 2 * s->cap : 64;
		rp_seed *grown = rp_grow_array(s->v, more, sizeof *grown);
		if (grown == NULL)
			return false;
		s->v = grown;
		s->cap = more;
	}
	rp_seed *seed = &s->v[s->n];
	*seed = (rp_seed){.path = rp_strdup(path), .size = size};
	const char *hex = strncmp(name, "sha256-", 7) == 0 ? name + 7 : name;
	seed->named = strlen(hex) == 64 && rp_unhex(seed->sha256, RP_HASH_BYTES, hex, 64);
	s->n += seed->path != NULL;
	return seed->path != NULL;
}

/* least: smaller files are passed over; in caches they are many and gain nothing. */
static void walk(rp_seeds *s, const char *folder, unsigned depth, off_t least)
{
	DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
	for (struct dirent *e; dir != NULL && s->n < MAX_SEEDS && (e = readdir(dir)) != NULL;) {
		struct stat st;
		char *path = e->d_name[0] != '.' ? rp_asprintf("%s/%s", folder, e->d_name) : NULL;
		/* links are passed over: what they lead to is found at its own place */
		if (path != NULL && lstat(path, &st) == 0) {
			size_t n = strlen(e->d_name);
			bool partial = n > 5 && strcmp(e->d_name + n - 5, ".part") == 0;
			if (S_ISDIR(st.st_mode))
				walk(s, path, depth + 1, least);
			else if (S_ISREG(st.st_mode) && st.st_size >= least && !partial)
				add(s, path, e->d_name, (uint64_t)st.st_size);
		}
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
}

bool rp_is_local(const char *source)
{
	return strncasecmp(source, "file://", 7) == 0 || strstr(source, "://") == NULL;
}

char *rp_local_path(const char *source)
{
	if (strncasecmp(source, "file://", 7) != 0)
		return strstr(source, "://") == NULL ? rp_strdup(source) : NULL;
	source += 7;
	if (strncasecmp(source, "localhost/", 10) == 0)
		source += 9;
	int n = 0;
	char *decoded = *source == '/' ? curl_easy_unescape(NULL, source, 0, &n) : NULL, *copy = NULL;
	if (decoded != NULL && strlen(decoded) == (size_t)n)
		copy = rp_strdup(decoded);
	curl_free(decoded);
	return copy;
}

rp_code rp_seeds_find(const rp_fetch_opts *o, rp_seeds *out, rp_error *err)
{
	char **roots;
	size_t n;
	rp_code rc = rp_seed_roots(o->store, &roots, &n, err);
	if (rc != RP_OK)
		return rc;
	*out = (rp_seeds){0};
	for (size_t i = 0; i < n; i++) {
		walk(out, roots[i], 0, MIN_SEED_BYTES);
		free(roots[i]);
	}
	free(roots);
	for (size_t i = 0; i < o->mirrors.n; i++) {
		char *path = rp_is_local(o->mirrors.v[i]) ? rp_local_path(o->mirrors.v[i]) : NULL;
		struct stat st;
		if (path != NULL && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			walk(out, path, MAX_DEPTH - 2, 1);
		else if (path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode))
			add(out, path, path, (uint64_t)st.st_size);
		free(path);
	}
	return RP_OK;
}

void rp_seeds_free(rp_seeds *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
	*s = (rp_seeds){0};
}

/* ---- taking bytes ---- */

static bool read_at(int fd, void *data, size_t n, uint64_t offset)
{
	for (char *p = data; n > 0;) {
		ssize_t k = pread(fd, p, n, (off_t)offset);
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
		offset += (uint64_t)k;
	}
	return true;
}

static rp_code stop_asked(const rp_job *job, rp_error *err)
{
	return job->o->cancel != NULL && atomic_load(job->o->cancel) ?
		rp_fail(err, RP_CANCELLED, "stopped by a signal; what was verified is kept for the next time") : RP_OK;
}

/* Which pieces that the item misses are in the file; no more than a look when it begins with too many others. */
static rp_code compare(rp_job *job, const rp_item *item, int fd, unsigned char *scratch, uint8_t *same, size_t *n_same, rp_error *err)
{
	size_t misses = 0;
	unsigned char hash[RP_HASH_BYTES];
	*n_same = 0;
	for (size_t i = 0; i < item->n_pieces; i++) {
		size_t size = (size_t)rp_job_piece_size(item, i);
		rp_code rc = stop_asked(job, err);
		if (rc != RP_OK)
			return rc;
		same[i] = false;
		if (item->state[i] != RP_PIECE_MISSING)
			continue;
		if (!read_at(fd, scratch, size, rp_job_piece_offset(item, i)))
			return RP_OK;
		rp_sha256_once(scratch, size, hash);
		same[i] = memcmp(hash, item->pieces[i].sha256, RP_HASH_BYTES) == 0;
		*n_same += same[i];
		if (!same[i] && ++misses >= MAX_MISSES && *n_same == 0)
			return RP_OK;
	}
	return RP_OK;
}

static rp_code record(rp_job *job, rp_item *item, size_t piece, rp_error *err)
{
	rp_code rc = rp_part_record(&item->part, piece, item->pieces[piece].sha256, err);
	if (rc == RP_OK) {
		rp_job_piece_done(job, item, piece);
		job->at_start += rp_job_piece_size(item, piece);
		rp_job_progress(job, false);
	}
	return rc;
}

/* All pieces at once and without room of their own, where the file system shares extents. */
static bool clone_whole(const rp_item *item, int fd)
{
#if defined(FICLONE)
	return ioctl(item->part.fd, FICLONE, fd) == 0;
#else
	(void)item;
	(void)fd;
	return false;
#endif
}

static rp_code copy_same(rp_job *job, rp_item *item, int fd, unsigned char *scratch, const uint8_t *same, rp_error *err)
{
	unsigned char hash[RP_HASH_BYTES];
	rp_code rc = RP_OK;
	for (size_t i = 0; i < item->n_pieces && rc == RP_OK; i++) {
		size_t size = (size_t)rp_job_piece_size(item, i);
		if (!same[i] || (rc = stop_asked(job, err)) != RP_OK || !read_at(fd, scratch, size, rp_job_piece_offset(item, i)))
			continue;
		rp_sha256_once(scratch, size, hash); /* the owner may have changed it between the looks */
		if (memcmp(hash, item->pieces[i].sha256, RP_HASH_BYTES) != 0)
			continue;
		rc = rp_part_write(&item->part, i, rp_job_piece_offset(item, i), scratch, size, 0, hash, err);
		if (rc == RP_OK)
			rc = record(job, item, i, err);
	}
	return rc;
}

/* Which of its pieces lie where the file's checks find nothing wrong. */
static rp_code mark_right(const rp_job *job, const rp_item *item, int fd, const char *path, uint8_t *right, rp_error *err)
{
	memset(right, true, item->n_pieces);
	for (size_t k = 0; k < item->n_checks; k++) {
		const rp_check *c = &item->checks[k];
		rp_code rc = stop_asked(job, err);
		if (rc != RP_OK)
			return rc;
		if (rp_check_fd(fd, path, c, NULL) == RP_OK)
			continue;
		for (uint64_t i = c->offset / RP_PIECE_BYTES; i < item->n_pieces && i * RP_PIECE_BYTES < c->offset + c->size; i++)
			right[i] = false;
	}
	return RP_OK;
}

static rp_code take_unknown(rp_job *job, rp_item *item, int fd, unsigned char *scratch, const uint8_t *right, rp_error *err)
{
	rp_code rc = RP_OK;
	for (size_t i = 0; i < item->n_pieces && rc == RP_OK; i++) {
		size_t size = (size_t)rp_job_piece_size(item, i);
		if (!right[i] || item->state[i] != RP_PIECE_MISSING || (rc = stop_asked(job, err)) != RP_OK)
			continue;
		if (!read_at(fd, scratch, size, rp_job_piece_offset(item, i)))
			break;
		rp_sha256_once(scratch, size, item->found[i]);
		rc = rp_part_write(&item->part, i, rp_job_piece_offset(item, i), scratch, size, 0, item->found[i], err);
		if (rc == RP_OK) {
			rp_job_piece_done(job, item, i);
			job->at_start += size;
			rp_job_progress(job, false);
		}
	}
	return rc;
}

rp_code rp_seed_from(rp_job *job, rp_item *item, int fd, const char *path, bool trusted, rp_error *err)
{
	unsigned char *scratch = malloc((size_t)job->buffer_bytes);
	uint8_t *same = rp_alloc(item->n_pieces);
	size_t n = 0, before = item->n_done;
	rp_code rc = scratch == NULL || same == NULL ? rp_no_memory(err, job->buffer_bytes, "a piece") : RP_OK;
	if (rc == RP_OK && item->pieces == NULL) {
		rc = trusted ? mark_right(job, item, fd, path, same, err) : RP_OK;
		if (rc == RP_OK && trusted)
			rc = take_unknown(job, item, fd, scratch, same, err);
	} else if (rc == RP_OK) {
		rc = compare(job, item, fd, scratch, same, &n, err);
		if (rc == RP_OK && n == item->n_pieces && clone_whole(item, fd))
			for (size_t i = 0; i < item->n_pieces && rc == RP_OK; i++)
				rc = record(job, item, i, err);
		else if (rc == RP_OK && n > 0)
			rc = copy_same(job, item, fd, scratch, same, err);
	}
	free(scratch);
	free(same);
	if (rc == RP_OK && item->n_done > before)
		rp_job_note(job, "%s: %zu of %zu pieces taken from %s", item->part.name, item->n_done - before, item->n_pieces, path);
	return rc;
}

/* Candidates: of the same size; where no piece can be checked, only a file whose name says that it is the one wanted (the whole is
 * hashed before it is published), or is the same and whose bytes the checks find right. */
static bool fits(const rp_item *item, const rp_seed *seed)
{
	if (seed->size != item->size)
		return false;
	const char *slash = strrchr(seed->path, '/');
	if (item->n_checks > 0 && strcmp(slash != NULL ? slash + 1 : seed->path, item->part.name) == 0)
		return true;
	return item->pieces != NULL || (item->whole_known && seed->named && memcmp(seed->sha256, item->whole, RP_HASH_BYTES) == 0);
}

rp_code rp_seed_item(rp_job *job, rp_item *item, const rp_seeds *seeds, rp_error *err)
{
	rp_code rc = RP_OK;
	int old = openat(item->part.folder, item->part.name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (old >= 0 && fstat(old, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == item->size && item->pieces != NULL)
		rc = rp_seed_from(job, item, old, "the file that is there", false, err);
	if (old >= 0)
		close(old);
	for (size_t i = 0; i < seeds->n && rc == RP_OK && item->n_done < item->n_pieces; i++) {
		const rp_seed *seed = &seeds->v[i];
		if (!fits(item, seed))
			continue;
		int fd = open(seed->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		rc = rp_seed_from(job, item, fd, seed->path, true, err);
		close(fd);
	}
	return rc;
}
