/* What a fetch may still reach after it began. */
#include "fetch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/confine.h"
#include "net/net.h"
#include "store/folder.h"
#include "store/seeds.h"
#include "store/store.h"

enum { MAX_PATHS = 64 };

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

static rp_code add_sources(const fetch_state *s, const char *source, paths *p, rp_error *err)
{
	char **roots, *data;
	size_t n;
	if (source != NULL && rp_is_local(source))
		add_owned(p, rp_local_path(source));
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
		bool known = copy == NULL;
		for (size_t i = 0; i < p->n && !known; i++)
			known = strcmp(p->v[i], slash != NULL ? copy : ".") == 0;
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
