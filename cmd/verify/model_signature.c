/* Models with an OpenSSF model signature: the signature, then every file it names, then that there are no others. */
#include "verify.h"

#include "sign/oms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

typedef struct signed_model {
	verify_state *v;
	const char *path, *signature;
	rp_oms oms;
	rp_arena arena;
	rp_scan_file *files; /* of oms.files, in order */
	bool one; /* the model is one file, whose line is the model's */
	rp_code one_code;
	rp_error one_error;
	size_t n_unsigned, n_bad;
} signed_model;

static rp_code tell(signed_model *m, const char *path, rp_code code, const rp_error *why, rp_error *err)
{
	m->n_bad += code != RP_OK;
	return verify_verdict(m->v, "file", path, code, why->msg, NULL, NULL, err);
}

/* ---- what lies in the folder ---- */
static int by_name(const void *a, const void *b)
{
	const char *const *path = a;
	return strcmp(*path, ((const rp_oms_file *)b)->path);
}

static rp_code meet_file(signed_model *m, const char *relative, const char *path, const struct stat *st, rp_error *err)
{
	rp_error why;
	const rp_oms_file *f = m->oms.n_files > 0 ?
		bsearch(&relative, m->oms.files, m->oms.n_files, sizeof *m->oms.files, by_name) : NULL;
	if (f != NULL || m->v->o.ignore_unsigned || (m->oms.sharded && st->st_size == 0)) /* without bytes there is no shard to sign */
		return RP_OK;
	m->n_unsigned++;
	return tell(m, path, rp_fail(&why, RP_SIGNATURE, "%s: is not in the signature", path), &why, err);
}

static bool is_signature(const signed_model *m, const struct stat *st)
{
	struct stat own;
	return stat(m->signature, &own) == 0 && own.st_dev == st->st_dev && own.st_ino == st->st_ino;
}

static rp_code meet(void *context, const char *relative, unsigned depth, rp_error *err)
{
	signed_model *m = context;
	struct stat st;
	rp_error why;
	if (rp_oms_ignores(&m->oms, relative))
		return RP_OK;
	const char *path = rp_arena_printf(&m->arena, "%s/%s", m->path, relative);
	if (path == NULL)
		return rp_no_memory(err, strlen(relative), m->path);
	if (lstat(path, &st) != 0)
		return tell(m, path, rp_fail_errno(&why, RP_READ, errno, "%s: cannot look at it", path), &why, err);
	bool link = S_ISLNK(st.st_mode);
	if (link && !m->oms.links)
		return m->v->o.ignore_unsigned ? RP_OK :
			tell(m, path, rp_fail(&why, RP_SIGNATURE, "%s: is a link, and the model was signed without any", path), &why, err);
	if (link && stat(path, &st) != 0)
		return tell(m, path, rp_fail_errno(&why, RP_READ, errno, "%s: cannot follow the link", path), &why, err);
	if (S_ISDIR(st.st_mode))
		return link ? RP_OK : depth == MAX_DEPTH ? rp_fail(err, RP_FORMAT, "%s: folders more than %d deep", path, MAX_DEPTH) :
			verify_walk(&m->arena, relative, path, depth + 1, meet, m, err);
	if (!S_ISREG(st.st_mode))
		return tell(m, path, rp_fail(&why, RP_SIGNATURE, "%s: is neither a file nor a folder", path), &why, err);
	return is_signature(m, &st) ? RP_OK : meet_file(m, relative, path, &st, err);
}

/* ---- what was signed ---- */
static rp_code expect(signed_model *m, size_t i, rp_error *err)
{
	const rp_oms_file *f = &m->oms.files[i];
	rp_scan_file *scan = &m->files[i];
	const char *path = strcmp(f->path, ".") == 0 ? m->path : rp_arena_printf(&m->arena, "%s/%s", m->path, f->path);
	if (path == NULL)
		return rp_no_memory(err, strlen(f->path), m->path);
	*scan = (rp_scan_file){.path = path, .sha256 = !m->oms.sharded && !m->oms.blake3, .blake3 = m->oms.blake3};
	if (f->n_shards == 0)
		return RP_OK;
	rp_scan_range *ranges = rp_arena_array(&m->arena, f->n_shards, sizeof *ranges);
	if (ranges == NULL)
		return rp_no_memory(err, f->n_shards * sizeof *ranges, m->path);
	for (size_t k = 0; k < f->n_shards; k++)
		ranges[k] = (rp_scan_range){.offset = f->shards[k].start, .size = f->shards[k].end - f->shards[k].start};
	scan->tracks[0] = (rp_scan_track){.v = ranges, .n = f->n_shards};
	return RP_OK;
}

static rp_code judge(const signed_model *m, size_t i, rp_error *why)
{
	const rp_oms_file *f = &m->oms.files[i];
	const rp_scan_file *scan = &m->files[i];
	struct stat st;
	if (scan->code != RP_OK)
		return rp_scan_error(scan, why);
	if (!m->oms.links && (lstat(scan->path, &st) != 0 || S_ISLNK(st.st_mode)))
		return rp_fail(why, RP_SIGNATURE, "%s: is a link, and the model was signed without any", scan->path);
	if (f->n_shards == 0 && memcmp(m->oms.blake3 ? scan->blake3_sum : scan->sha256_sum, f->digest, RP_HASH_BYTES) != 0)
		return rp_fail(why, RP_HASH, "%s: is not what was signed", scan->path);
	if (f->n_shards > 0 && scan->size != f->shards[f->n_shards - 1].end)
		return rp_fail(why, RP_HASH, "%s: has %llu bytes, %llu were signed", scan->path, (unsigned long long)scan->size,
			(unsigned long long)f->shards[f->n_shards - 1].end);
	for (size_t k = 0; k < f->n_shards; k++)
		if (!scan->tracks[0].v[k].done || memcmp(scan->tracks[0].v[k].sha256, f->shards[k].digest, RP_HASH_BYTES) != 0)
			return rp_fail(why, RP_HASH, "%s: bytes %llu to %llu are not what was signed", scan->path, (unsigned long long)f->shards[k].start,
				(unsigned long long)f->shards[k].end);
	return RP_OK;
}

static rp_code one_read(void *context, size_t i, rp_error *err)
{
	signed_model *m = context;
	rp_error why = {0};
	rp_code code = judge(m, i, &why);
	if (m->one) {
		m->one_code = code;
		m->one_error = why;
		return RP_OK;
	}
	return tell(m, m->files[i].path, code, &why, err);
}

static rp_code check_files(signed_model *m, rp_error *err)
{
	struct stat st;
	size_t n = m->oms.n_files;
	m->files = rp_arena_array(&m->arena, n + 1, sizeof *m->files);
	if (m->files == NULL)
		return rp_no_memory(err, n * sizeof *m->files, m->path);
	bool folder = stat(m->path, &st) == 0 && S_ISDIR(st.st_mode);
	m->one = n == 1 && strcmp(m->oms.files[0].path, ".") == 0;
	if (m->one == folder)
		return rp_fail(err, RP_SIGNATURE, "%s: is a %s, and a %s was signed", m->path, folder ? "folder" : "file", folder ? "file" : "folder");
	rp_code code = RP_OK;
	for (size_t i = 0; i < n && code == RP_OK; i++)
		code = expect(m, i, err);
	if (code == RP_OK)
		code = verify_scan(m->v, m->files, n, one_read, m, err);
	if (code == RP_OK && m->one && m->one_code != RP_OK)
		return rp_fail(err, m->one_code, "%s", m->one_error.msg);
	return code == RP_OK && folder ? verify_walk(&m->arena, "", m->path, 0, meet, m, err) : code;
}

static void members(rp_jsonw *w, const void *context)
{
	const signed_model *m = context;
	rp_jsonw_pair_str(w, "signature", m->signature);
	rp_jsonw_pair_str(w, "kind", "openssf-model-signature");
	rp_jsonw_pair_str(w, "signed_name", m->oms.model);
	rp_jsonw_pair_u64(w, "files", m->oms.n_files);
	rp_jsonw_pair_u64(w, "bad", m->n_bad);
}

static bool ends_all(rp_code code)
{
	return code == RP_CANCELLED || code == RP_WRITE || code == RP_DISK_FULL || code == RP_NO_MEMORY || code == RP_USAGE || code == RP_INTERNAL;
}

rp_code verify_model_signature(verify_state *v, const rp_public_key *key, const char *model, const char *signature, const char *text, size_t n,
	rp_error *err)
{
	signed_model m = {.v = v, .path = model, .signature = signature};
	rp_error why = {0};
	rp_arena_init(&m.arena, 0);
	rp_code code = rp_oms_verify(signature, text, n, key, &m.oms, &why);
	bool well_signed = code == RP_OK;
	if (code == RP_OK)
		code = check_files(&m, &why);
	if (code == RP_OK && m.n_bad > 0)
		code = rp_fail(&why, RP_SIGNATURE, "%s: %zu of its files are not as they were signed", model, m.n_bad);
	code = ends_all(code) ? rp_fail(err, code, "%s", why.msg) :
		verify_verdict(v, "model", model, code, why.msg, well_signed ? members : NULL, &m, err);
	rp_oms_free(&m.oms);
	rp_arena_free(&m.arena);
	return code;
}
