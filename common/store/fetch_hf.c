/* Hugging Face and what speaks like it: /REPO/resolve/REV/PATH gives files, and says size and hash in X-Linked-Size and X-Linked-Etag,
 * or in ETag the id of a git blob. Lists of files are in fetch_hub.c. $HF_ENDPOINT names another host, $HF_TOKEN goes to that host alone. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/hub.h"

static rp_code parse(rp_hub *h, const char *source)
{
	const char *text = source + 3, *slash = strchr(text, '/'), *at;
	size_t n = slash != NULL ? (size_t)(slash - text) + 1 + strcspn(slash + 1, "/@") : 0;
	char shown[300];
	if (slash == NULL || slash == text || text[n - 1] == '/')
		return rp_fail(h->err, RP_USAGE, "%s: expected hf:org/repo, hf:org/repo@revision or hf:org/repo/path",
			rp_show(shown, sizeof shown, source, strlen(source)));
	h->repo = rp_strndup(text, n);
	at = text + n;
	if (*at == '@') {
		size_t r = strcspn(at + 1, "/");
		h->revision = rp_strndup(at + 1, r);
		at += 1 + r;
	} else {
		h->revision = rp_strdup("main");
	}
	if (*at == '/' && at[1] != '\0')
		h->path = rp_strdup(at + 1);
	if (h->repo == NULL || h->revision == NULL || (*at == '/' && at[1] != '\0' && h->path == NULL))
		return rp_no_memory(h->err, strlen(source), "a name");
	static const char fine[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	const char *name = strchr(h->repo, '/');
	if (strspn(h->repo, fine) != (size_t)(name - h->repo) || strspn(name + 1, fine) != strlen(name + 1) || h->repo[0] == '.' || name[1] == '.' ||
		*h->revision == '\0' || *h->revision == '.' || strspn(h->revision, fine) != strlen(h->revision))
		return rp_fail(h->err, RP_USAGE, "%s: names and revisions are of letters, digits, dot, dash and underscore",
			rp_show(shown, sizeof shown, source, strlen(source)));
	h->folder = rp_asprintf("%.*s--%s", (int)(name - h->repo), h->repo, name + 1);
	return h->folder != NULL ? RP_OK : rp_no_memory(h->err, 0, "a name");
}

static rp_code start(rp_hub *h)
{
	const char *endpoint = getenv("HF_ENDPOINT"), *token = getenv("HF_TOKEN");
	h->endpoint = endpoint != NULL && *endpoint != '\0' ? endpoint : "https://huggingface.co";
	if (!rp_net_is_http(h->endpoint))
		return rp_fail(h->err, RP_USAGE, "HF_ENDPOINT: expected an http or https address");
	h->own = *h->o;
	h->own.hub = true;
	if (token != NULL && *token != '\0') {
		h->token = rp_asprintf("Authorization: Bearer %s", token);
		h->headers = rp_alloc_array(h->o->headers.n + 1, sizeof *h->headers);
		if (h->token == NULL || h->headers == NULL)
			return rp_no_memory(h->err, 0, "headers");
		for (size_t i = 0; i < h->o->headers.n; i++)
			h->headers[i] = h->o->headers.v[i];
		h->headers[h->o->headers.n] = h->token;
		h->own.headers = (rp_strings){h->headers, h->o->headers.n + 1};
	}
	if (h->o->offline)
		return rp_fail(h->err, RP_OFFLINE, "hf:%s: --offline forbids to ask for it", h->repo);
	return rp_fetch_net(&h->own, &h->net, h->err);
}

char *rp_hub_encoded(const char *path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~/";
	rp_buf b;
	rp_buf_init(&b, 0);
	for (; *path != '\0'; path++) {
		if (strchr(plain, *path) != NULL)
			rp_buf_addc(&b, *path);
		else
			rp_buf_addf(&b, "%%%02X", (unsigned)(unsigned char)*path);
	}
	return rp_buf_take(&b, NULL);
}

bool rp_hub_path_is_plain(const char *path)
{
	size_t depth = 0;
	if (rp_utf8_valid(path, strlen(path)) != strlen(path))
		return false;
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		if (!rp_component_valid(p, n) || *p == '.' || ++depth > 16)
			return *p == '.' && rp_component_valid(p, n) && n > 1 && p[n] == '\0' && p[1] != '.'; /* .gitattributes and its like */
		p += n;
		if (*p == '\0')
			return true;
	}
}

rp_code rp_hub_target(const rp_hub *h, const char *path, bool many, rp_target *out)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	int n = slash != NULL ? (int)(slash - path) : 0;
	char *where = many || h->o->output == NULL ? rp_asprintf("%s%s%.*s", many && h->o->output != NULL ? "" : h->folder, n > 0 ? "/" : "", n, path) : NULL;
	rp_code rc;
	if (!many && h->o->output != NULL) {
		rc = rp_target_output(h->o->output, name, out, h->err);
	} else if (where == NULL) {
		rc = rp_no_memory(h->err, 0, "a path");
	} else if (h->o->output == NULL) {
		rc = rp_target_store(h->o->store, where, name, out, h->err);
	} else {
		char *below = rp_asprintf("%.*s", n, path), *shown = rp_asprintf("%s%s", h->o->output, where), *copy = rp_strdup(name);
		char *final = rp_asprintf("%s/%s", shown != NULL ? shown : "", name);
		*out = (rp_target){.folder = -1, .shown = shown, .name = copy, .path = final};
		rc = below == NULL || shown == NULL || copy == NULL || final == NULL ? rp_no_memory(h->err, 0, "a path") :
			rp_folder_open(h->o->output, below, true, &out->folder, h->err);
		free(below);
		if (rc != RP_OK) {
			free(shown);
			free(copy);
			free(final);
			*out = (rp_target){.folder = -1};
		}
	}
	free(where);
	return rc;
}

rp_code rp_hub_fetch_one(rp_hub *h, const char *path, const char *revision, bool many, char **final)
{
	rp_target target = {.folder = -1};
	char shown[300];
	if (!rp_hub_path_is_plain(path))
		return rp_fail(h->err, RP_FORMAT, "hf:%s: '%s' is not a path this program would write", h->repo, rp_show(shown, sizeof shown, path, strlen(path)));
	char *safe = rp_hub_encoded(path);
	char *url = safe != NULL ? rp_asprintf("%s/%s/resolve/%s/%s", h->endpoint, h->repo, revision, safe) : NULL;
	rp_code rc = url != NULL ? rp_hub_target(h, path, many, &target) : rp_no_memory(h->err, 0, "a URL");
	if (rc == RP_OK) {
		rc = rp_fetch_present(&h->own, &target, h->err);
		if (rc == RP_NOT_FOUND)
			rc = rp_fetch_to(&h->own, h->net, url, &target, h->err);
	}
	if (rc == RP_OK && final != NULL && (*final = rp_strdup(target.path)) == NULL)
		rc = rp_no_memory(h->err, 0, "a path");
	rp_target_free(&target);
	free(url);
	free(safe);
	return rc;
}

rp_code rp_fetch_hf(const rp_fetch_opts *o, const char *source, char **path, rp_error *err)
{
	rp_hub h = {.o = o, .err = err};
	rp_code rc = parse(&h, source);
	if (rc == RP_OK && o->sha256 != NULL && h.path == NULL)
		rc = rp_fail(err, RP_USAGE, "--sha256 is for one file: name it in %s", source);
	if (rc == RP_OK)
		rc = start(&h);
	if (rc == RP_OK)
		rc = h.path != NULL && strpbrk(h.path, "*?[") == NULL ? rp_hub_fetch_one(&h, h.path, h.revision, false, path) : rp_hub_fetch_list(&h, path);
	rp_net_close(h.net);
	free(h.repo);
	free(h.revision);
	free(h.path);
	free(h.folder);
	free(h.token);
	free(h.headers);
	return rc;
}
