/* Signing a model: every file of a folder, but what belongs to git and the signature itself. */
#define _XOPEN_SOURCE 700 /* realpath() */
#include "verify.h"

#include "sign/oms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

static const char *const git_paths[] = {".git", ".gitattributes", ".github", ".gitignore"};
enum { N_GIT = sizeof git_paths / sizeof *git_paths };

typedef struct signing {
	verify_state *v;
	const char *path;
	rp_oms oms;
	size_t room;
	const char *ignored[N_GIT + 1];
} signing;

static rp_code add(signing *s, const char *relative, rp_error *err)
{
	if (s->oms.n_files == s->room) {
		size_t room = s->room * 2 + 64;
		rp_oms_file *grown = rp_grow_array(s->oms.files, room, sizeof *grown);
		if (grown == NULL)
			return rp_no_memory(err, room * sizeof *grown, s->path);
		s->oms.files = grown;
		s->room = room;
	}
	s->oms.files[s->oms.n_files++] = (rp_oms_file){.path = relative};
	return RP_OK;
}

static rp_code meet(void *context, const char *relative, unsigned depth, rp_error *err)
{
	signing *s = context;
	struct stat st;
	char shown[300];
	if (rp_oms_ignores(&s->oms, relative))
		return RP_OK;
	const char *path = rp_arena_printf(&s->oms.arena, "%s/%s", s->path, relative);
	if (path == NULL)
		return rp_no_memory(err, strlen(relative), s->path);
	rp_show(shown, sizeof shown, path, strlen(path));
	if (rp_utf8_valid(relative, strlen(relative)) != strlen(relative))
		return rp_fail(err, RP_UNSUPPORTED, "%s: a name that is not UTF-8 cannot stand in a signature", shown);
	if (lstat(path, &st) != 0)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot look at it", shown);
	if (S_ISDIR(st.st_mode))
		return depth == MAX_DEPTH ? rp_fail(err, RP_FORMAT, "%s: folders more than %d deep", shown, MAX_DEPTH) :
			verify_walk(&s->oms.arena, relative, path, depth + 1, meet, s, err);
	if (!S_ISREG(st.st_mode))
		return rp_fail(err, RP_UNSUPPORTED, "%s: is %s; models are signed as plain files in folders", shown,
			S_ISLNK(st.st_mode) ? "a link" : "neither a file nor a folder");
	return add(s, relative, err);
}

/* The real path of a file that need not exist yet; NULL when its folder does not. */
static char *real_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash == NULL ? rp_strdup(".") : rp_asprintf("%.*s", slash == path ? 1 : (int)(slash - path), path);
	char *real = folder != NULL ? realpath(folder, NULL) : NULL;
	char *out = real != NULL ? rp_asprintf("%s/%s", strcmp(real, "/") == 0 ? "" : real, slash == NULL ? path : slash + 1) : NULL;
	free(folder);
	free(real);
	return out;
}

/* What of the model's folder is left out: git's own, and the signature if it lies in it. */
static rp_code leave_out(signing *s, const char *model, const char *signature, rp_error *err)
{
	char *real = real_path(signature);
	size_t n = strlen(model);
	memcpy(s->ignored, git_paths, sizeof git_paths);
	s->oms.ignored = s->ignored;
	s->oms.n_ignored = N_GIT;
	bool inside = real != NULL && strncmp(real, model, n) == 0 && (real[n] == '/' || strcmp(model, "/") == 0);
	const char *relative = inside ? rp_arena_strndup(&s->oms.arena, real + n + (real[n] == '/'), strlen(real + n) - (real[n] == '/')) : NULL;
	free(real);
	if (inside && relative == NULL)
		return rp_no_memory(err, n, "a path");
	if (inside)
		s->ignored[s->oms.n_ignored++] = relative;
	return RP_OK;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const rp_oms_file *)a)->path, ((const rp_oms_file *)b)->path);
}

static rp_code hash(signing *s, rp_error *err)
{
	size_t n = s->oms.n_files;
	rp_scan_file *files = rp_arena_array(&s->oms.arena, n, sizeof *files);
	if (files == NULL)
		return rp_no_memory(err, n * sizeof *files, s->path);
	qsort(s->oms.files, n, sizeof *s->oms.files, by_path);
	for (size_t i = 0; i < n; i++) {
		const char *relative = s->oms.files[i].path;
		const char *path = strcmp(relative, ".") == 0 ? s->path : rp_arena_printf(&s->oms.arena, "%s/%s", s->path, relative);
		if (path == NULL)
			return rp_no_memory(err, strlen(relative), s->path);
		files[i] = (rp_scan_file){.path = path, .sha256 = !s->oms.blake3, .blake3 = s->oms.blake3};
	}
	rp_code code = verify_scan(s->v, files, n, NULL, NULL, err);
	for (size_t i = 0; code == RP_OK && i < n; i++) {
		code = rp_scan_error(&files[i], err);
		if (code == RP_OK && !files[i].steady)
			code = rp_fail(err, RP_CHANGED, "%s: changed while it was read", files[i].path);
		memcpy(s->oms.files[i].digest, s->oms.blake3 ? files[i].blake3_sum : files[i].sha256_sum, RP_HASH_BYTES);
	}
	return code;
}

static rp_code collect(signing *s, bool folder, const char *signature, rp_error *err)
{
	char *real = realpath(s->path, NULL);
	if (real == NULL)
		return rp_fail_errno(err, RP_READ, errno, "%s: cannot open", s->path);
	const char *base = strrchr(real, '/') + 1;
	s->oms.model = rp_arena_strndup(&s->oms.arena, base, strlen(base));
	rp_code code = s->oms.model == NULL ? rp_no_memory(err, strlen(base), "a name") : leave_out(s, real, signature, err);
	free(real);
	if (code == RP_OK)
		code = folder ? verify_walk(&s->oms.arena, "", s->path, 0, meet, s, err) : add(s, ".", err);
	if (code == RP_OK && s->oms.n_files == 0)
		code = rp_fail(err, RP_NOT_FOUND, "%s: holds no files to sign", s->path);
	return code == RP_OK ? hash(s, err) : code;
}

rp_code verify_sign_model(verify_state *v, const rp_identity *id, const char *model, char **out, rp_error *err)
{
	struct stat st;
	rp_buf text;
	signing s = {.v = v, .path = model, .oms.blake3 = v->o.blake3};
	if (stat(model, &st) != 0)
		return rp_fail_errno(err, errno == ENOENT ? RP_NOT_FOUND : RP_READ, errno, "%s: cannot open", model);
	bool folder = S_ISDIR(st.st_mode);
	*out = v->o.signature != NULL ? rp_strdup(v->o.signature) : rp_asprintf(folder ? "%s/model.sig" : "%s.sig", model);
	if (*out == NULL)
		return rp_no_memory(err, strlen(model), "a path");
	rp_arena_init(&s.oms.arena, 0);
	rp_buf_init(&text, 0);
	rp_code code = collect(&s, folder, *out, err);
	if (code == RP_OK)
		code = rp_oms_sign(&s.oms, id, &text, err);
	if (code == RP_OK)
		code = rp_write_file(*out, text.data, text.len, 0644, err);
	rp_buf_free(&text);
	free(s.oms.files);
	rp_arena_free(&s.oms.arena);
	return code;
}
