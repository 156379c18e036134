#include "model/model.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool rp_id_valid(const char *id)
{
	size_t n = strlen(id);
	return n >= 1 && n <= RP_MAX_ID && id[0] != '.' && id[0] != '-' &&
		strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value != NULL && *value != '\0' ? value : NULL;
}

/* $own, else $xdg/reploid, else $HOME/fallback/reploid; relative XDG paths are to be ignored by their specification. */
static rp_code user_dir(const char *own, const char *xdg, const char *fallback, char **out, rp_error *err)
{
	const char *base = own != NULL ? variable(own) : NULL;
	char *path = NULL;
	if (base != NULL)
		path = rp_strdup(base);
	else if ((base = variable(xdg)) != NULL && *base == '/')
		path = rp_asprintf("%s/reploid", base);
	else if ((base = variable("HOME")) != NULL)
		path = rp_asprintf("%s/%s/reploid", base, fallback);
	else
		return rp_fail(err, RP_NOT_FOUND, "no folder for reploid's files: set %s, %s or HOME", own != NULL ? own : xdg, xdg);
	if (path == NULL)
		return rp_no_memory(err, strlen(base), "a path");
	*out = path;
	return RP_OK;
}

rp_code rp_store_dir(char **out, rp_error *err)
{
	return user_dir("REPLOID_HOME", "XDG_DATA_HOME", ".local/share", out, err);
}

rp_code rp_cache_dir(char **out, rp_error *err)
{
	return user_dir(NULL, "XDG_CACHE_HOME", ".cache", out, err);
}

/* path when something is there, else it is freed and NULL. */
static char *existing(char *path)
{
	struct stat st;
	if (path != NULL && stat(path, &st) == 0)
		return path;
	free(path);
	return NULL;
}

static char *beside_executable(const char *name)
{
	static const char *const places[] = {"../manifests", "../share/reploid"};
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	if (n <= 0 || (size_t)n == sizeof exe - 1)
		return NULL;
	exe[n] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash == NULL)
		return NULL;
	*slash = '\0';
	char *found = NULL;
	for (size_t i = 0; i < sizeof places / sizeof *places && found == NULL; i++)
		found = existing(rp_asprintf("%s/%s/%s", exe, places[i], name));
	return found;
}

static char *in_data_dirs(const char *name)
{
	const char *dirs = variable("XDG_DATA_DIRS");
	if (dirs == NULL)
		dirs = "/usr/local/share:/usr/share";
	char *found = NULL;
	while (*dirs != '\0' && found == NULL) {
		size_t n = strcspn(dirs, ":");
		if (*dirs == '/' && n < 4096)
			found = existing(rp_asprintf("%.*s/reploid/%s", (int)n, dirs, name));
		dirs += n;
		dirs += *dirs == ':';
	}
	return found;
}

/* A file or folder that comes with the programs. */
static char *find_data(const char *name)
{
	const char *own = variable("REPLOID_DATA");
	if (own != NULL)
		return existing(rp_asprintf("%s/%s", own, name));
	char *found = beside_executable(name);
	return found != NULL ? found : in_data_dirs(name);
}

rp_code rp_data_locate(const char *name, char **path, rp_error *err)
{
	const char *own = variable("REPLOID_DATA");
	char *found = find_data(name);
	if (found == NULL && own != NULL)
		return rp_fail(err, RP_NOT_FOUND, "%s is not in %s (REPLOID_DATA)", name, own);
	if (found == NULL)
		return rp_fail(err, RP_NOT_FOUND, "%s is neither in ../manifests or ../share/reploid beside the program nor in XDG_DATA_DIRS; set "
			"REPLOID_DATA to the folder that holds it", name);
	*path = found;
	return RP_OK;
}

static rp_code locate_embedded(char **path, rp_error *err)
{
	const char *own = variable("REPLOID_DATA");
	char *found = find_data("embedded");
	if (found == NULL && own != NULL)
		return rp_fail(err, RP_NOT_FOUND, "the embedded model is not in %s (REPLOID_DATA); name a model with -m", own);
	if (found == NULL)
		return rp_fail(err, RP_NOT_FOUND, "the embedded model is neither in ../manifests or ../share/reploid beside the program nor in "
			"XDG_DATA_DIRS; name a model with -m, or set REPLOID_DATA to the folder that holds `embedded'");
	*path = found;
	return RP_OK;
}

rp_code rp_model_locate(const char *model, char **path, rp_error *err)
{
	char shown[300];
	if (strcmp(model, "embedded") == 0)
		return locate_embedded(path, err);
	rp_show(shown, sizeof shown, model, strlen(model));
	char *found = rp_model_is_random(model) ? rp_strdup(model) : existing(rp_strdup(model));
	if (found != NULL) {
		*path = found;
		return RP_OK;
	}
	if (!rp_id_valid(model))
		return rp_fail(err, RP_NOT_FOUND, "%s: no such file or folder", shown);
	char *store;
	rp_code code = rp_store_dir(&store, err);
	if (code != RP_OK)
		return code;
	found = existing(rp_asprintf("%s/models/%s", store, model));
	if (found == NULL)
		code = rp_fail(err, RP_NOT_FOUND, "%s: neither a file or folder here nor a model in the store (%s/models); "
			"give a path, put the model's files into that folder, or use -m embedded", shown, store);
	free(store);
	if (code == RP_OK)
		*path = found;
	return code;
}
