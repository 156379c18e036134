/* What a source on the command line names. */
#include "store/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/progress.h"
#include "store/fetch_impl.h"
#include "store/seeds.h"
#include "store/store.h"

static const char default_site[] = "https://replo.id";

static rp_code read_catalog(const rp_fetch_opts *o, char **text, size_t *n, char **name, rp_error *err)
{
	rp_net *net;
	rp_buf body;
	if (o->catalog == NULL || !rp_net_is_http(o->catalog)) {
		rp_code rc = o->catalog != NULL ? RP_OK : rp_data_locate("models.json", name, err);
		if (rc == RP_OK && o->catalog != NULL && (*name = rp_local_path(o->catalog)) == NULL)
			rc = rp_fail(err, RP_USAGE, "--catalog: '%s' is neither a file nor an http or https address", o->catalog);
		return rc == RP_OK ? rp_read_file(*name, RP_MAX_CATALOG_BYTES, text, n, err) : rc;
	}
	if (!rp_net_is_private(o->catalog))
		return rp_fail(err, RP_USAGE, "--catalog: over http anyone could change it; use https");
	if (o->offline)
		return rp_fail(err, RP_OFFLINE, "--offline forbids to fetch the catalogue; name a file with --catalog");
	*name = rp_net_shown(o->catalog);
	rp_code rc = *name == NULL ? rp_no_memory(err, 0, "a URL") : rp_fetch_net(o, &net, err);
	if (rc != RP_OK)
		return rc;
	rc = rp_get_text(o, net, o->catalog, true, RP_MAX_CATALOG_BYTES, &body, err);
	rp_net_close(net);
	if (rc == RP_OK && (*text = rp_buf_take(&body, n)) == NULL)
		rc = rp_fail(err, RP_FORMAT, "%s: the catalogue is empty", *name);
	return rc;
}

rp_code rp_fetch_catalog(const rp_fetch_opts *o, rp_catalog **out, rp_error *err)
{
	char *text = NULL, *name = NULL, *own = NULL;
	size_t n = 0;
	rp_code rc = read_catalog(o, &text, &n, &name, err);
	if (rc == RP_OK && o->site == NULL && o->catalog != NULL && rp_net_is_http(o->catalog))
		own = rp_net_origin(o->catalog);
	if (rc == RP_OK)
		rc = rp_catalog_parse(name, text, n, o->site != NULL ? o->site : own != NULL ? own : default_site, out, err);
	free(text);
	free(name);
	free(own);
	return rc;
}

/* A name without a slash: an id where the catalogue has it, else perhaps a file here. */
static rp_code fetch_id(const rp_fetch_opts *o, const char *id, char **path, rp_error *err)
{
	rp_catalog *c;
	struct stat st;
	bool here = stat(id, &st) == 0;
	rp_code rc = rp_fetch_catalog(o, &c, err);
	if (rc != RP_OK)
		return here && o->catalog == NULL ? rp_fetch_local(o, id, path, err) : rc;
	const rp_catalog_model *m = rp_catalog_find(c, id);
	const rp_catalog_adapter *a = m == NULL ? rp_catalog_find_adapter(c, id) : NULL;
	if (m != NULL && o->sha256 != NULL)
		rc = rp_fail(err, RP_USAGE, "--sha256 is for one file; a model's hashes are in the catalogue");
	else if (m != NULL)
		rc = rp_fetch_model(o, m, path, err);
	else if (a != NULL)
		rc = rp_fetch_adapter(o, a, path, err);
	else if (here)
		rc = rp_fetch_local(o, id, path, err);
	else
		rc = rp_fail(err, RP_NOT_FOUND, "%s: no such id in the catalogue (--list shows it), and no file or folder here", id);
	rp_catalog_free(c);
	return rc;
}

rp_code rp_fetch(const rp_fetch_opts *o, const char *source, char **path, rp_error *err)
{
	struct stat st;
	char shown[300];
	if (rp_net_is_http(source))
		return rp_fetch_url(o, source, path, err);
	if (strncmp(source, "hf:", 3) == 0)
		return rp_fetch_hf(o, source, path, err);
	if (rp_id_valid(source))
		return fetch_id(o, source, path, err);
	if (strncmp(source, "file://", 7) == 0 || (rp_is_local(source) && stat(source, &st) == 0))
		return rp_fetch_local(o, source, path, err);
	return rp_fail(err, strchr(source, '/') != NULL && strstr(source, "://") == NULL ? RP_NOT_FOUND : RP_USAGE,
		"%s: neither an http, https or file address, nor hf:org/repo, a file or folder here, nor an id of the catalogue",
		rp_show(shown, sizeof shown, source, strlen(source)));
}

char *rp_fetch_facts(char *out, size_t size, const rp_fetch_event *e)
{
	char a[32], b[32];
	rp_buf text;
	rp_buf_init(&text, 1000);
	if (e->total > 0)
		rp_buf_addf(&text, "  %u%%  %s of %s verified", (unsigned)((double)e->verified / (double)e->total * 100),
			rp_size_text(a, sizeof a, e->verified), rp_size_text(b, sizeof b, e->total));
	if (e->rate >= 1)
		rp_buf_addf(&text, "  %s/s", rp_size_text(a, sizeof a, (uint64_t)e->rate));
	if (e->rate >= 1 && e->total > e->verified && (double)(e->total - e->verified) / e->rate < 1e6) {
		uint64_t s = (uint64_t)((double)(e->total - e->verified) / e->rate);
		rp_buf_addf(&text, s >= 3600 ? "  %llu:%02llu:%02llu left" : "  %.0llu%llu:%02llu left", (unsigned long long)(s / 3600),
			(unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
	}
	if (e->sources > 1)
		rp_buf_addf(&text, "  %u sources", e->sources);
	snprintf(out, size, "%s", text.data != NULL ? text.data : "");
	rp_buf_free(&text);
	return out;
}
