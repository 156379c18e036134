#include "store/target.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/folder.h"
#include "store/store.h"

static rp_code finish(rp_target *t, rp_error *err)
{
	if (t->shown == NULL || t->name == NULL)
		return rp_no_memory(err, 0, "a path");
	t->path = *t->shown == '\0' ? rp_strdup(t->name) : rp_asprintf("%s%s%s", t->shown, strcmp(t->shown, "/") == 0 ? "" : "/", t->name);
	return t->path != NULL ? RP_OK : rp_no_memory(err, 0, "a path");
}

void rp_target_free(rp_target *t)
{
	if (t->path != NULL || t->name != NULL || t->shown != NULL)
		close(t->folder);
	free(t->shown);
	free(t->name);
	free(t->path);
	*t = (rp_target){.folder = -1};
}

rp_code rp_target_output(const char *output, const char *default_name, rp_target *out, rp_error *err)
{
	struct stat st;
	size_t n = strlen(output);
	rp_target t = {.folder = -1};
	bool folder = n > 0 && (output[n - 1] == '/' || (stat(output, &st) == 0 && S_ISDIR(st.st_mode)));
	if (n == 0)
		return rp_fail(err, RP_USAGE, "-o: the path is empty");
	if (folder && default_name == NULL)
		return rp_fail(err, RP_USAGE, "-o %s is a folder, and the source gives no name for the file: name it", output);
	const char *slash = strrchr(output, '/');
	if (folder)
		t.shown = rp_strndup(output, output[n - 1] == '/' && n > 1 ? n - 1 : n);
	else
		t.shown = slash == NULL ? rp_strdup("") : rp_strndup(output, slash == output ? 1 : (size_t)(slash - output));
	t.name = rp_strdup(folder ? default_name : slash != NULL ? slash + 1 : output);
	rp_code rc = finish(&t, err);
	if (rc == RP_OK && !rp_component_valid(t.name, strlen(t.name)))
		rc = rp_fail(err, RP_USAGE, "-o: the name of the file is not one");
	if (rc == RP_OK && lstat(output, &st) == 0 && !folder && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		rc = rp_fail(err, RP_WRITE, "-o %s: is a device or a pipe, which a file would replace; name a file", output);
	if (rc == RP_OK)
		rc = rp_folder_open(*t.shown != '\0' ? t.shown : ".", "", *t.shown != '\0', &t.folder, err);
	if (rc == RP_OK) {
		*out = t;
	} else {
		free(t.shown);
		free(t.name);
		free(t.path);
	}
	return rc;
}

rp_code rp_target_store(const char *store, const char *relative, const char *name, rp_target *out, rp_error *err)
{
	rp_target t = {.folder = -1, .shown = rp_asprintf("%s/models/%s", store, relative), .name = rp_strdup(name)};
	char *below = rp_asprintf("models/%s", relative);
	rp_code rc = finish(&t, err);
	if (rc == RP_OK && below == NULL)
		rc = rp_no_memory(err, 0, "a path");
	if (rc == RP_OK && !rp_component_valid(name, strlen(name)))
		rc = rp_fail(err, RP_FORMAT, "the name of a file is not one");
	if (rc == RP_OK)
		rc = rp_folder_open(store, below, true, &t.folder, err);
	free(below);
	if (rc == RP_OK) {
		*out = t;
	} else {
		free(t.shown);
		free(t.name);
		free(t.path);
	}
	return rc;
}

char *rp_name_of_url(const char *url)
{
	CURLU *u = curl_url();
	char *path = NULL, *name = NULL;
	if (u != NULL && curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
		curl_url_get(u, CURLUPART_PATH, &path, 0) == CURLUE_OK) {
		int length = 0;
		const char *slash = strrchr(path, '/');
		char *decoded = curl_easy_unescape(NULL, slash != NULL ? slash + 1 : path, 0, &length);
		if (decoded != NULL && (size_t)length == strlen(decoded) && rp_component_valid(decoded, (size_t)length) && decoded[0] != '.' &&
			rp_utf8_valid(decoded, (size_t)length) == (size_t)length)
			name = rp_strdup(decoded);
		curl_free(decoded);
	}
	curl_free(path);
	curl_url_cleanup(u);
	return name;
}

char *rp_id_of_name(const char *name)
{
	static const char *const endings[] = {".gguf", ".safetensors", ".bin", ".json"};
	size_t n = strlen(name);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t k = strlen(endings[i]);
		if (n > k && strcmp(name + n - k, endings[i]) == 0) {
			n -= k;
			break;
		}
	}
	char *id = rp_strndup(name, n < RP_MAX_ID ? n : RP_MAX_ID);
	for (char *p = id; p != NULL && *p != '\0'; p++) {
		bool fine = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("._-", *p) != NULL;
		if (!fine || (p == id && (*p == '.' || *p == '-')))
			*p = p == id ? '0' : '-';
	}
	return id;
}
