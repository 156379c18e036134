/* The files of a repository of a Hub: /api/models/REPO/revision/REV?blobs=true lists them with sizes and, for large ones, their SHA-256,
 * for others the id of their git blob. All are fetched side by side in one job. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "model/json.h"
#include "store/hub.h"
#include "store/seeds.h"
#include "store/tally.h"

enum { MAX_LIST_BYTES = 16 << 20, MAX_FILES = 20000, FILES_OF_OTHERS = 96, FILES_EACH = 3, LEAST_GROUP = 16 };

typedef struct entry {
	const char *path, *sha256, *blob; /* of the list; hashes NULL: it says none */
	uint64_t size;                    /* RP_NET_UNKNOWN: it says none */
	rp_target target;
	rp_known known;
	rp_item *item; /* NULL: not in the job */
} entry;

/* Files that are fetched together, as many as may be open at once. */
typedef struct group {
	rp_hub *h;
	rp_fetch_opts o;
	const char *commit;
	entry *v;
	size_t n;
	rp_job *job;
	rp_seeds seeds;
	bool seeds_known;
} group;

/* ---- the list ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

/* Smaller ones first: they tell what the model is. */
static int by_size(const void *a, const void *b)
{
	uint64_t x = ((const entry *)a)->size, y = ((const entry *)b)->size;
	return x < y ? -1 : x > y ? 1 : by_path(a, b);
}

static rp_code read_entry(rp_hub *h, const rp_json_at *at, entry *out)
{
	char shown[300];
	unsigned char hash[RP_HASH_BYTES];
	rp_check git;
	const cJSON *lfs = rp_json_field(at, "lfs");
	rp_json_at large = *at;
	large.object = lfs;
	*out = (entry){.size = RP_NET_UNKNOWN, .target = {.folder = -1}};
	rp_code rc = rp_json_need_string(at, "rfilename", &out->path);
	if (rc == RP_OK && !rp_hub_path_is_plain(out->path))
		rc = rp_fail(h->err, RP_FORMAT, "hf:%s: '%s' is not a path this program would write", h->repo,
			rp_show(shown, sizeof shown, out->path, strlen(out->path)));
	if (rc == RP_OK && rp_json_field(at, "size") != NULL)
		rc = rp_json_need_size(at, "size", 0, &out->size);
	if (rc == RP_OK && lfs != NULL && rp_json_field(&large, "sha256") != NULL)
		rc = rp_json_need_string(&large, "sha256", &out->sha256);
	if (rc == RP_OK && out->sha256 != NULL && !(strlen(out->sha256) == 64 && rp_unhex(hash, sizeof hash, out->sha256, 64)))
		rc = rp_json_wrong(&large, "lfs.sha256", rp_json_field(&large, "sha256"), "64 hexadecimal digits");
	out->blob = lfs == NULL ? cJSON_GetStringValue(rp_json_field(at, "blobId")) : NULL;
	if (out->blob != NULL && !rp_check_git_parse(out->blob, 0, &git)) /* of git with another hash */
		out->blob = NULL;
	return rc;
}

static rp_code read_entries(rp_hub *h, const rp_json_at *top, const cJSON *files, entry *v, size_t *n)
{
	rp_code rc = RP_OK;
	for (const cJSON *f = files->child; f != NULL && rc == RP_OK; f = f->next) {
		rp_json_at at = {.file = top->file, .where = "siblings[].", .object = f, .err = top->err};
		rc = read_entry(h, &at, &v[*n]);
		if (rc == RP_OK && (h->path == NULL || fnmatch(h->path, v[*n].path, FNM_PATHNAME) == 0))
			++*n;
	}
	if (rc == RP_OK && *n == 0)
		return rp_fail(h->err, RP_NOT_FOUND, "hf:%s: no file fits %s", h->repo, h->path != NULL ? h->path : "");
	qsort(v, *n, sizeof *v, by_path);
	for (size_t i = 1; i < *n && rc == RP_OK; i++)
		if (strcmp(v[i - 1].path, v[i].path) == 0)
			rc = rp_fail(h->err, RP_FORMAT, "%s: siblings[].rfilename: '%s' is there twice", top->file, v[i].path);
	qsort(v, *n, sizeof *v, by_size);
	return rc;
}

/* ---- one group ---- */

static rp_fetch_opts opts_of(const group *g, const entry *e)
{
	rp_fetch_opts o = g->o;
	o.sha256 = e->sha256;
	o.git_sha1 = e->blob;
	return o;
}

static char *url_of(const group *g, const entry *e)
{
	char *safe = rp_hub_encoded(e->path), *url = NULL;
	if (safe != NULL)
		url = rp_asprintf("%s/%s/resolve/%s/%s", g->h->endpoint, g->h->repo, g->commit, safe);
	free(safe);
	return url;
}

/* A mirror has the repository's files under their paths. Its bytes count only where a hash tells that they are right. */
static rp_code add_places(group *g, const entry *e, const char *url)
{
	rp_code rc = rp_job_add_place(g->job, e->item, url, true, NULL, g->h->err);
	bool checked = e->known.whole_known || e->known.check_known;
	for (size_t i = 0; i < g->o.mirrors.n && checked && rc == RP_OK; i++) {
		const char *base = g->o.mirrors.v[i];
		if (!rp_net_is_http(base))
			continue;
		char *safe = rp_hub_encoded(e->path), *at = NULL;
		if (safe != NULL)
			at = rp_asprintf("%s%s%s", base, base[strlen(base) - 1] == '/' ? "" : "/", safe);
		rc = at != NULL ? rp_job_add_place(g->job, e->item, at, rp_net_same_origin(at, url), NULL, g->h->err) : rp_no_memory(g->h->err, 0, "a URL");
		free(at);
		free(safe);
	}
	return rc;
}

static rp_code add_entry(group *g, entry *e, const char *url)
{
	rp_fetch_opts o = opts_of(g, e);
	rp_known *k = &e->known;
	rp_code rc = rp_known_given(&o, e->size, k, g->h->err);
	if (rc == RP_OK && e->size == 0)
		return o.dry_run ? RP_OK : rp_fetch_empty(&o, &e->target, k, g->h->err);
	if (rc == RP_OK)
		rc = rp_known_pieces(&o, k, g->h->err);
	if (rc == RP_OK && !rp_known_key(k)) /* what a commit has never changes */
		rp_buf_addf(&k->key, "commit %s %llu", url, (unsigned long long)e->size);
	if (rc == RP_OK && k->key.failed)
		rc = rp_no_memory(g->h->err, 0, "a key");
	if (rc == RP_OK)
		rc = rp_fetch_add(g->job, &e->target, k, &e->item, g->h->err);
	if (rc == RP_OK && !g->seeds_known && !o.dry_run && e->item->n_done < e->item->n_pieces && k->whole_known) {
		rc = rp_seeds_find(&o, &g->seeds, g->h->err);
		g->seeds_known = true;
	}
	if (rc == RP_OK && !o.dry_run && k->whole_known)
		rc = rp_seed_item(g->job, e->item, &g->seeds, g->h->err);
	return rc == RP_OK ? add_places(g, e, url) : rc;
}

static rp_code prepare(group *g, entry *e)
{
	rp_fetch_opts o = opts_of(g, e);
	rp_code rc = rp_hub_target(g->h, e->path, true, &e->target);
	if (rc != RP_OK || e->size == RP_NET_UNKNOWN)
		return rc;
	rc = rp_fetch_present(&o, &e->target, g->h->err);
	if (rc == RP_OK) {
		rp_job_count_present(g->job, e->size);
	} else if (rc == RP_NOT_FOUND) {
		char *url = url_of(g, e);
		rc = url != NULL ? add_entry(g, e, url) : rp_no_memory(g->h->err, 0, "a URL");
		free(url);
	}
	return rc;
}

/* Pieces of right files are kept as trees; what turned out to be wrong goes. */
static void settle(group *g, bool all)
{
	for (size_t i = 0; i < g->n && !g->o.dry_run; i++) {
		rp_item *item = g->v[i].item;
		if (item != NULL && (all || item->published))
			rp_fetch_keep_tree(&g->o, item);
		else if (item != NULL && item->wrong > 0)
			rp_part_discard(&item->part);
	}
}

static rp_code fetch_group(group *g)
{
	rp_code rc = rp_job_new(&g->o, g->h->net, &g->job, g->h->err);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < g->n && rc == RP_OK; i++)
		rc = prepare(g, &g->v[i]);
	if (rc == RP_OK)
		rc = rp_job_run(g->job, g->h->err);
	settle(g, rc == RP_OK);
	rp_job_free(g->job);
	rp_seeds_free(&g->seeds);
	for (size_t i = 0; i < g->n; i++) {
		entry *e = &g->v[i];
		rp_known_free(&e->known);
		rp_target_free(&e->target);
		if (rc == RP_OK && e->size == RP_NET_UNKNOWN) /* the list is one of an old Hub: ask for each */
			rc = rp_hub_fetch_one(g->h, e->path, g->commit, true, NULL);
	}
	return rc;
}

/* ---- all ---- */

/* Each file has its folder, its bytes and its journal open. */
static size_t files_at_once(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return LEAST_GROUP;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > FILES_OF_OTHERS + (rlim_t)FILES_EACH * MAX_FILES)
		return MAX_FILES;
	return limit.rlim_cur > FILES_OF_OTHERS + FILES_EACH * LEAST_GROUP ? (size_t)(limit.rlim_cur - FILES_OF_OTHERS) / FILES_EACH : LEAST_GROUP;
}

static rp_code fetch_entries(rp_hub *h, const char *commit, entry *v, size_t n)
{
	size_t most = files_at_once();
	rp_tally t = {.o = h->o};
	rp_code rc = RP_OK;
	for (size_t i = 0; i < n; i++)
		t.later += v[i].size != RP_NET_UNKNOWN ? v[i].size : 0;
	for (size_t first = 0; first < n && rc == RP_OK; first += most) {
		group g = {.h = h, .o = rp_tally_opts(&t, &h->own), .commit = commit, .v = v + first, .n = n - first < most ? n - first : most};
		for (size_t i = 0; i < g.n; i++)
			t.later -= g.v[i].size != RP_NET_UNKNOWN ? g.v[i].size : 0;
		rc = fetch_group(&g);
		rp_tally_next(&t);
	}
	if (rc == RP_OK)
		rp_tally_end(&t);
	return rc;
}

static rp_code fetch_listed(rp_hub *h, const rp_json_at *top)
{
	const cJSON *files = rp_json_field(top, "siblings");
	const char *commit;
	size_t n = 0;
	rp_code rc = rp_json_need_string(top, "sha", &commit);
	if (rc == RP_OK && strspn(commit, "0123456789abcdef") != strlen(commit))
		rc = rp_json_wrong(top, "sha", rp_json_field(top, "sha"), "a commit");
	if (rc == RP_OK && (!cJSON_IsArray(files) || cJSON_GetArraySize(files) > MAX_FILES))
		rc = rp_json_wrong(top, "siblings", files, "an array of at most 20000 files");
	if (rc != RP_OK)
		return rc;
	entry *v = rp_alloc_array((size_t)cJSON_GetArraySize(files) + 1, sizeof *v);
	if (v == NULL)
		return rp_no_memory(h->err, 0, "a list of files");
	rc = read_entries(h, top, files, v, &n);
	if (rc == RP_OK)
		rc = fetch_entries(h, commit, v, n);
	free(v);
	return rc;
}

rp_code rp_hub_fetch_list(rp_hub *h, char **path)
{
	rp_buf text;
	cJSON *json;
	char *url = rp_asprintf("%s/api/models/%s/revision/%s?blobs=true", h->endpoint, h->repo, h->revision);
	char *name = url != NULL ? rp_net_shown(url) : NULL;
	if (name == NULL) {
		free(url);
		return rp_no_memory(h->err, 0, "a URL");
	}
	rp_code rc = rp_get_text(&h->own, h->net, url, true, MAX_LIST_BYTES, &text, h->err);
	if (rc == RP_OK) {
		rc = rp_json_parse(name, text.len > 0 ? text.data : "", text.len, &json, h->err);
		rp_buf_free(&text);
	}
	if (rc == RP_OK) {
		rp_json_at top = {.file = name, .where = "", .object = json, .err = h->err};
		rc = cJSON_IsObject(json) ? fetch_listed(h, &top) : rp_fail(h->err, RP_FORMAT, "%s: not a JSON object", name);
		cJSON_Delete(json);
	}
	free(name);
	free(url);
	if (rc == RP_OK) {
		*path = h->o->output != NULL ? rp_strdup(h->o->output) : rp_asprintf("%s/models/%s", h->o->store, h->folder);
		rc = *path != NULL ? RP_OK : rp_no_memory(h->err, 0, "a path");
	}
	return rc;
}
