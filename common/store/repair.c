/* Lists that others make: byte ranges that are wanted, bad pieces that are to be repaired. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/fetch_impl.h"
#include "store/seeds.h"

enum { MAX_SOURCES = 16 };

typedef struct lines {
	const char *name, *at, *end;
	size_t number;
	rp_error *err;
} lines;

/* The next line that says something, cut out of the text; NULL at the end. */
static char *next_line(lines *l)
{
	while (l->at < l->end) {
		size_t n = strcspn(l->at, "\n");
		if (n > (size_t)(l->end - l->at))
			n = (size_t)(l->end - l->at);
		char *line = (char *)l->at; /* a copy of ours: see begin */
		l->at += n + (l->at + n < l->end);
		l->number++;
		line[n] = '\0';
		if (n > 0 && line[n - 1] == '\r')
			line[n - 1] = '\0';
		if (*line != '\0' && *line != '#')
			return line;
	}
	return NULL;
}

static rp_code bad(const lines *l, const char *what)
{
	return rp_fail(l->err, RP_FORMAT, "%s: line %zu: expected %s", l->name, l->number, what);
}

static rp_code begin(lines *l, const char *name, const char *text, size_t n, char **copy, rp_error *err)
{
	*copy = rp_strndup(text, n);
	if (*copy == NULL)
		return rp_no_memory(err, n, "a list");
	*l = (lines){.name = name, .at = *copy, .end = *copy + n, .err = err};
	if (strlen(*copy) != n) {
		free(*copy);
		return rp_fail(err, RP_FORMAT, "%s: has a NUL byte, expected lines of text", name);
	}
	return RP_OK;
}

/* A number below 2^53 and the blank after it, or (last) the end of the line. */
static bool number(char **s, bool last, uint64_t *out)
{
	char *end;
	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	unsigned long long v = strtoull(*s, &end, 10);
	if (errno != 0 || v >= 1ull << 53 || (last ? *end != '\0' : *end != ' ' && *end != '\t'))
		return false;
	*out = v;
	*s = last ? end : end + strspn(end, " \t");
	return true;
}

rp_code rp_ranges_parse(const char *name, const char *text, size_t n, rp_range **out, size_t *n_out, rp_error *err)
{
	lines l;
	char *copy;
	rp_range *ranges = NULL;
	size_t used = 0, cap = 0;
	rp_code rc = begin(&l, name, text, n, &copy, err);
	if (rc != RP_OK)
		return rc;
	for (char *line; rc == RP_OK && (line = next_line(&l)) != NULL;) {
		if (used == cap) {
			rp_range *grown = rp_grow_array(ranges, cap + 256, sizeof *grown);
			if (grown == NULL) {
				rc = rp_no_memory(err, 0, "ranges");
				break;
			}
			ranges = grown;
			cap += 256;
		}
		if (!number(&line, false, &ranges[used].offset) || !number(&line, true, &ranges[used].size) || ranges[used].size == 0)
			rc = bad(&l, "an offset and a size above 0, in bytes");
		used++;
	}
	free(copy);
	if (rc == RP_OK && used == 0)
		rc = rp_fail(err, RP_FORMAT, "%s: lists no range", name);
	if (rc == RP_OK) {
		*out = ranges;
		*n_out = used;
	} else {
		free(ranges);
	}
	return rc;
}

/* ---- bad pieces ---- */

typedef struct block {
	const char *path; /* in the copy of the list */
	uint64_t size;
	const char *sources[MAX_SOURCES];
	size_t n_sources;
	rp_piece *pieces; /* the whole file: pieces to fetch, and between them pieces with a hash of zeros */
	size_t n, cap;
	uint64_t end;
	bool gaps;
} block;

static bool add_piece(block *b, uint64_t offset, uint64_t size, const unsigned char *hash)
{
	if (b->n == b->cap) {
		rp_piece *grown = rp_grow_array(b->pieces, b->cap + b->cap / 2 + 256, sizeof *grown);
		if (grown == NULL)
			return false;
		b->pieces = grown;
		b->cap += b->cap / 2 + 256;
	}
	rp_piece *p = &b->pieces[b->n++];
	*p = (rp_piece){.offset = offset, .size = size};
	if (hash != NULL)
		memcpy(p->sha256, hash, RP_HASH_BYTES);
	b->end = offset + size;
	return true;
}

static bool fill_to(block *b, uint64_t offset)
{
	while (b->end < offset) {
		uint64_t size = offset - b->end < RP_PIECE_BYTES ? offset - b->end : RP_PIECE_BYTES;
		b->gaps = true;
		if (!add_piece(b, b->end, size, NULL))
			return false;
	}
	return true;
}

static rp_code read_piece(const lines *l, block *b, char *s)
{
	static const unsigned char none[RP_HASH_BYTES];
	uint64_t offset, size;
	unsigned char hash[RP_HASH_BYTES];
	if (!number(&s, false, &offset) || !number(&s, false, &size) || !rp_digest_parse(s, hash) || memcmp(hash, none, sizeof none) == 0)
		return bad(l, "piece OFFSET SIZE sha256:HEX");
	if (size == 0 || size > RP_JOB_MAX_PIECE)
		return bad(l, "a piece of 1 byte to 16 MiB");
	if (offset < b->end)
		return bad(l, "pieces in the order of their offsets, without overlap");
	if (offset > b->size || size > b->size - offset)
		return bad(l, "a piece within the file's size");
	return fill_to(b, offset) && add_piece(b, offset, size, hash) ? RP_OK : rp_no_memory(l->err, 0, "a list of pieces");
}

static rp_code read_file(const lines *l, block *b, char *s)
{
	unsigned char hash[RP_HASH_BYTES];
	char *blank;
	memset(b, 0, sizeof *b);
	if (!number(&s, false, &b->size) || b->size == 0 || (blank = strchr(s, ' ')) == NULL)
		return bad(l, "file SIZE sha256:HEX|- PATH");
	*blank = '\0';
	b->path = blank + 1;
	if ((strcmp(s, "-") != 0 && !rp_digest_parse(s, hash)) || *b->path == '\0')
		return bad(l, "file SIZE sha256:HEX|- PATH");
	if (b->size / RP_PIECE_BYTES > 1u << 24)
		return bad(l, "a file of less than 64 TiB");
	return RP_OK;
}

/* ---- one file ---- */

/* A file of the store that belongs to a model of the catalogue is fetched from there. */
static char *catalogue_url(const rp_fetch_opts *o, const char *path)
{
	rp_catalog *c;
	char *prefix = rp_asprintf("%s/models/", o->store), *url = NULL;
	if (prefix != NULL && strncmp(path, prefix, strlen(prefix)) == 0 && rp_fetch_catalog(o, &c, NULL) == RP_OK) {
		const char *id = path + strlen(prefix), *slash = strchr(id, '/');
		for (size_t i = 0; slash != NULL && i < c->n_models; i++) {
			const rp_catalog_model *m = &c->models[i];
			if (strlen(m->id) != (size_t)(slash - id) || strncmp(m->id, id, (size_t)(slash - id)) != 0)
				continue;
			for (size_t k = 0; k < m->n_files; k++)
				if (strcmp(m->files[k].path, slash + 1) == 0 && m->files[k].url != NULL && url == NULL)
					url = rp_strdup(m->files[k].url);
			if (url == NULL && m->base_url != NULL && rp_piece_name_valid(slash + 1))
				url = rp_asprintf("%s%s", m->base_url, slash + 1);
		}
		rp_catalog_free(c);
	}
	free(prefix);
	return url;
}

static rp_code add_sources(const rp_fetch_opts *o, rp_job *job, rp_item *item, const block *b, const char *source, const char *path, rp_error *err)
{
	char *url = source == NULL ? catalogue_url(o, path) : NULL;
	rp_code rc = RP_OK;
	if (job->net == NULL)
		return RP_OK;
	if (source != NULL)
		rc = rp_job_add_place(job, item, source, true, NULL, err);
	if (rc == RP_OK && url != NULL)
		rc = rp_job_add_place(job, item, url, false, NULL, err);
	free(url);
	for (size_t i = 0; i < b->n_sources && rc == RP_OK; i++)
		if (rp_net_is_usable(b->sources[i]))
			rc = rp_job_add_place(job, item, b->sources[i], false, NULL, err);
	for (size_t i = 0; i < o->mirrors.n && rc == RP_OK; i++)
		if (rp_net_is_usable(o->mirrors.v[i]))
			rc = rp_job_add_place(job, item, o->mirrors.v[i], source == NULL || rp_net_same_origin(source, o->mirrors.v[i]), NULL, err);
	if (rc == RP_OK && item->n_places == 0 && item->n_done < item->n_pieces)
		rc = rp_fail(err, RP_NOT_FOUND, "%s: the list names no source for its pieces; give an address", path);
	return rc;
}

static rp_code repair_job(const rp_fetch_opts *o, rp_net *net, const block *b, const char *source, const rp_target *t, rp_error *err)
{
	rp_job *job;
	rp_item *item;
	rp_seeds seeds = {0};
	unsigned char key[RP_HASH_BYTES];
	struct stat st;
	bool there = fstatat(t->folder, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!there && b->gaps)
		return rp_fail(err, RP_NOT_FOUND, "%s: is not there, and the list has only some of its pieces; fetch it whole", t->path);
	rp_code rc = rp_job_new(o, net, &job, err);
	if (rc != RP_OK)
		return rc;
	rp_sha256_once(b->pieces, b->n * sizeof *b->pieces, key);
	rc = there ? rp_job_add_repair(job, t->folder, t->shown, t->name, b->size, b->pieces, b->n, &item, err) :
		rp_job_add(job, t->folder, t->shown, t->name, key, sizeof key, b->size, b->pieces, b->n, NULL, &item, err);
	if (rc == RP_OK && !o->dry_run)
		rc = rp_seeds_find(o, &seeds, err);
	if (rc == RP_OK)
		rc = rp_seed_item(job, item, &seeds, err);
	if (rc == RP_OK)
		rc = add_sources(o, job, item, b, source, t->path, err);
	if (rc == RP_OK)
		rc = rp_job_run(job, err);
	rp_seeds_free(&seeds);
	rp_job_free(job);
	return rc;
}

static rp_code repair_file(const rp_fetch_opts *o, rp_net *net, block *b, const char *source, rp_buf *paths, rp_error *err)
{
	rp_target target;
	if (!fill_to(b, b->size))
		return rp_no_memory(err, 0, "a list of pieces");
	rp_code rc = rp_target_output(o->output != NULL ? o->output : b->path, NULL, &target, err);
	if (rc != RP_OK)
		return rc;
	rc = repair_job(o, net, b, source, &target, err);
	if (rc == RP_OK && !rp_buf_addf(paths, "%s%s", paths->len > 0 ? "\n" : "", target.path))
		rc = rp_no_memory(err, 0, "a path");
	rp_target_free(&target);
	return rc;
}

/* Reads the list file by file, so that a large one needs no more memory than its largest file. */
static rp_code repair_all(const rp_fetch_opts *o, rp_net *net, lines *l, const char *source, rp_buf *paths, rp_error *err)
{
	block b = {0};
	size_t files = 0;
	rp_code rc = RP_OK;
	char *line = next_line(l);
	if (line == NULL || strcmp(line, "reploid-pieces/1") != 0)
		return bad(l, "reploid-pieces/1 as the first line");
	for (line = next_line(l); rc == RP_OK && line != NULL; line = next_line(l)) {
		if (strncmp(line, "file ", 5) == 0) {
			if (b.n > 0)
				rc = repair_file(o, net, &b, source, paths, err);
			free(b.pieces);
			memset(&b, 0, sizeof b);
			if (rc == RP_OK && ++files > 1 && (o->output != NULL || source != NULL))
				rc = rp_fail(err, RP_USAGE, "%s: lists several files, and -o and an address are for one", l->name);
			if (rc == RP_OK)
				rc = read_file(l, &b, line + 5);
		} else if (b.path != NULL && strncmp(line, "source ", 7) == 0) {
			if (b.n_sources < MAX_SOURCES)
				b.sources[b.n_sources++] = line + 7;
		} else if (b.path != NULL && strncmp(line, "piece ", 6) == 0) {
			rc = read_piece(l, &b, line + 6);
		} else {
			rc = bad(l, files == 0 ? "file SIZE sha256:HEX|- PATH" : "a line that begins with file, source or piece");
		}
	}
	if (rc == RP_OK && b.n > 0)
		rc = repair_file(o, net, &b, source, paths, err);
	free(b.pieces);
	return rc;
}

rp_code rp_fetch_repair(const rp_fetch_opts *o, const char *name, const char *text, size_t n, const char *source, char **paths, rp_error *err)
{
	lines l;
	char *copy;
	rp_net *net = NULL;
	rp_buf done;
	if (source != NULL && !rp_net_is_usable(source))
		return rp_fail(err, RP_USAGE, "%s: pieces are fetched from an http or https address; folders and files are given with --mirror", source);
	rp_code rc = begin(&l, name, text, n, &copy, err);
	if (rc != RP_OK)
		return rc;
	rp_buf_init(&done, 0);
	if (!o->offline)
		rc = rp_fetch_net(o, &net, err);
	if (rc == RP_OK)
		rc = repair_all(o, net, &l, source, &done, err);
	rp_net_close(net);
	free(copy);
	if (rc == RP_OK)
		*paths = done.len > 0 ? rp_buf_take(&done, NULL) : rp_strdup("");
	rp_buf_free(&done);
	return rc;
}
