/* What a fetch may still reach after it began. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "fetch.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/confine.h"
#include "net/net.h"
#include "store/folder.h"
#include "store/seeds.h"
#include "store/store.h"

enum { MAX_PATHS = 64, MAX_DEPTH = 8 };

typedef struct paths {
	const char *v[MAX_PATHS];
	char *owned[MAX_PATHS];
	size_t n, n_owned;
} paths;

static void add(paths *p, const char *path)
{
	if (path != NULL && p->n < MAX_PATHS)
		p->v[p->n++] = path;
}

static void add_owned(paths *p, char *path)
{
	if (path != NULL && p->n < MAX_PATHS && p->n_owned < MAX_PATHS) {
		p->owned[p->n_owned++] = path;
		add(p, path);
	} else {
		free(path);
	}
}

/* What name resolution, certificates, random numbers and the count of processors are read from. */
static void add_system(paths *p)
{
	static const char *const always[] = {"/etc", "/usr", "/lib", "/lib64", "/run", "/proc", "/sys/devices/system/cpu", "/dev/null",
		"/dev/urandom", "/var/lib/ca-certificates", "/nix/store"};
	static const char *const variables[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"};
	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		add(p, always[i]);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		add(p, getenv(variables[i]));
	const char *home = getenv("HOME");
	if (home != NULL)
		add_owned(p, rp_asprintf("%s/.netrc", home));
}

static bool has(const paths *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->v[i], path) == 0)
			return true;
	return false;
}

/* Caches have links to files elsewhere: where these lie may be read. */
static void add_links(paths *p, const char *folder, unsigned depth)
{
	DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		struct stat st;
		char *path = e->d_name[0] != '.' ? rp_asprintf("%s/%s", folder, e->d_name) : NULL, *real = NULL, *slash;
		bool there = path != NULL && lstat(path, &st) == 0;
		if (there && S_ISDIR(st.st_mode))
			add_links(p, path, depth + 1);
		else if (there && S_ISLNK(st.st_mode))
			real = realpath(path, NULL);
		free(path);
		if (real == NULL || stat(real, &st) != 0 || !S_ISREG(st.st_mode) || (slash = strrchr(real, '/')) == NULL) {
			free(real);
			continue;
		}
		slash[slash == real] = '\0';
		if (has(p, real))
			free(real);
		else
			add_owned(p, real);
	}
	if (dir != NULL)
		closedir(dir);
}

static rp_code add_sources(const fetch_state *s, const char *source, paths *p, rp_error *err)
{
	char **roots, *data;
	size_t n;
	char *local = source != NULL && rp_is_local(source) ? rp_local_path(source) : NULL;
	if (local != NULL)
		add_links(p, local, 0);
	add_owned(p, local);
	for (size_t i = 0; i < s->o.mirrors.n && i < 16; i++)
		if (rp_is_local(s->o.mirrors.v[i]))
			add_owned(p, rp_local_path(s->o.mirrors.v[i]));
	if (s->o.catalog != NULL && rp_is_local(s->o.catalog))
		add_owned(p, rp_local_path(s->o.catalog));
	if (rp_data_locate("models.json", &data, NULL) == RP_OK)
		add_owned(p, data);
	rp_code rc = rp_seed_roots(s->store, &roots, &n, err);
	if (rc != RP_OK)
		return rc;
	for (size_t i = 0; i < n; i++)
		add_owned(p, roots[i]);
	free(roots);
	return RP_OK;
}

/* --only writes to the files its list names. */
static void add_repaired(const fetch_state *s, paths *p)
{
	for (const char *line = s->list; line != NULL && line < s->list + s->list_len;) {
		size_t n = strcspn(line, "\r\n");
		const char *size = n > 5 && strncmp(line, "file ", 5) == 0 ? line + 5 : NULL;
		const char *hash = size != NULL ? memchr(size, ' ', n - 5) : NULL;
		const char *path = hash != NULL ? memchr(hash + 1, ' ', n - (size_t)(hash + 1 - line)) : NULL;
		char *copy = path != NULL ? rp_strndup(path + 1, n - (size_t)(path + 1 - line)) : NULL, *slash = copy != NULL ? strrchr(copy, '/') : NULL;
		if (slash != NULL)
			slash[slash == copy] = '\0';
		bool known = copy == NULL || has(p, slash != NULL ? copy : ".");
		if (known)
			free(copy);
		else if (slash != NULL)
			add_owned(p, copy);
		else {
			add(p, ".");
			free(copy);
		}
		line += n + 1;
	}
}

/* The folder of -o, made when it is not there: what is confined must exist. */
static rp_code output_folder(const fetch_state *s, char **out, rp_error *err)
{
	const char *path = s->o.output, *slash = strrchr(path, '/');
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		*out = rp_strdup(path);
	else
		*out = slash == NULL ? rp_strdup(".") : rp_strndup(path, slash == path ? 1 : (size_t)(slash - path));
	return *out != NULL ? rp_folder_make(*out, err) : rp_no_memory(err, 0, "a path");
}

rp_code fetch_confine(const fetch_state *s, const char *source, rp_error *err)
{
	paths read = {0}, write = {0};
	rp_confined got;
	char *out = NULL;
	add_system(&read);
	add(&write, s->store);
	rp_code rc = rp_folder_make(s->store, s->o.output == NULL ? err : NULL);
	if (rc != RP_OK && s->o.output != NULL)
		rc = RP_OK; /* without a store the file still arrives; only its tree of pieces is not kept */
	if (rc == RP_OK && s->o.output != NULL)
		rc = output_folder(s, &out, err);
	add_owned(&write, out);
	if (s->o.only != NULL && s->o.output == NULL)
		add_repaired(s, &write);
	if (rc == RP_OK)
		rc = add_sources(s, source, &read, err);
	if (rc == RP_OK)
		rc = rp_confine(&(rp_confinement){.read = read.v, .n_read = read.n, .write = write.v, .n_write = write.n, .network = !s->o.offline}, &got,
			err);
	for (size_t i = 0; i < read.n_owned; i++)
		free(read.owned[i]);
	for (size_t i = 0; i < write.n_owned; i++)
		free(write.owned[i]);
	return rc;
}
