/* wgslc: WGSL compute shaders to SPIR-V 1.5 (Vulkan 1.2).
 *
 *   wgslc FILE.wgsl -o FILE.spv      one module for each entry point: FILE.spv when there is one (or --entry names it), else
 *                                    FILE.ENTRY.spv for every entry point
 *   wgslc --kernels DIR -o OUT       every DIR/NAME.wgsl to OUT/NAME.spv, and OUT/kernels.json; a stale .spv there is removed */
#include "spirv/wgslc/reflect.h"
#include "spirv/wgslc/spirv.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SOURCE = 8 << 20 };

static const char usage[] =
	"usage: wgslc FILE.wgsl -o OUT.spv [option...]\n"
	"       wgslc --kernels DIR -o OUTDIR [option...]\n"
	"\n"
	"  -o OUT                the SPIR-V file; with several entry points OUT.ENTRY.spv each\n"
	"  --entry NAME          only this entry point\n"
	"  --glsl                write the GLSL instead (to stdout without -o)\n"
	"  --push                a var<uniform> of at most 128 bytes in group 0 becomes the push-constant block\n"
	"  --no-workgroup-init   do not zero var<workgroup> at the start: for kernels that write before they read\n"
	"  --no-native-dot       expand dot4I8Packed and dot4U8Packed even where the source requires the feature\n"
	"  --kernels DIR         translate every NAME.wgsl of DIR and write OUTDIR/kernels.json\n"
	"  --version, --help\n";

typedef struct arguments {
	const char *file, *out, *entry, *kernels;
	bool glsl;
	wgsl_options options;
} arguments;

static rp_code fail(const rp_error *err)
{
	fprintf(stderr, "wgslc: %s\n", err->msg);
	return err->code;
}

static void show_diagnostics(const wgsl_module *m, const char *file)
{
	size_t n;
	wgsl_diagnostics(m, &n);
	for (size_t i = 0; i < n; i++) {
		char *text = wgsl_show_diagnostic(m, i, file);
		fputs(text ? text : "wgslc: no memory for a message\n", stderr);
		free(text);
	}
}

/* ---- one file ---- */

static rp_code compile_entry(wgsl_module *m, const arguments *a, const char *file, const char *entry, uint32_t **words, size_t *n, rp_error *err)
{
	char *glsl;
	rp_code rc = wgsl_to_glsl(m, entry, &a->options, &glsl, err);
	if (rc != RP_OK) {
		show_diagnostics(m, file);
		return rp_error_prefix(err, rc, "%s: entry point %s: ", file, entry);
	}
	rc = spirv_from_glsl(glsl, entry, words, n, err);
	free(glsl);
	return rc == RP_OK ? rc : rp_error_prefix(err, rc, "%s: entry point %s: ", file, entry);
}

static rp_code write_glsl(wgsl_module *m, const arguments *a, const char *entry, const char *path, rp_error *err)
{
	char *glsl;
	rp_code rc = wgsl_to_glsl(m, entry, &a->options, &glsl, err);
	if (rc != RP_OK) {
		show_diagnostics(m, a->file);
		return rc;
	}
	rc = path ? rp_write_file(path, glsl, strlen(glsl), 0644, err) : rp_write_fd(STDOUT_FILENO, glsl, strlen(glsl), "stdout", err);
	free(glsl);
	return rc;
}

/* OUT for one entry point; OUT without its ending, ".ENTRY", the ending for several. */
static char *out_path(const arguments *a, const char *entry, size_t n_entries)
{
	if (!a->out)
		return NULL;
	const char *dot = strrchr(a->out, '.'), *slash = strrchr(a->out, '/');
	if (n_entries == 1 || a->entry)
		return rp_strdup(a->out);
	if (!dot || (slash && dot < slash))
		return rp_asprintf("%s.%s", a->out, entry);
	return rp_asprintf("%.*s.%s%s", (int)(dot - a->out), a->out, entry, dot);
}

static rp_code emit_one(wgsl_module *m, const arguments *a, const char *entry, size_t n_entries, rp_error *err)
{
	uint32_t *words = NULL;
	size_t n = 0;
	char *path = out_path(a, entry, n_entries);
	rp_code rc;
	if (a->out && !path)
		rc = rp_no_memory(err, 0, "a path");
	else if (a->glsl)
		rc = write_glsl(m, a, entry, path, err);
	else
		rc = compile_entry(m, a, a->file, entry, &words, &n, err);
	if (rc == RP_OK && words)
		rc = rp_write_file(path, words, n * 4, 0644, err);
	free(words);
	free(path);
	return rc;
}

static rp_code load(const char *path, char **text, size_t *len, wgsl_module **m, rp_error *err)
{
	*m = NULL;
	rp_code rc = rp_read_file(path, MAX_SOURCE, text, len, err);
	if (rc != RP_OK)
		return rc;
	rc = wgsl_check(*text, *len, m, err);
	if (rc != RP_OK && *m)
		show_diagnostics(*m, path);
	return rc == RP_OK ? rc : rp_error_prefix(err, rc, "%s: ", path);
}

static rp_code translate_file(const arguments *a, rp_error *err)
{
	char *text = NULL;
	size_t len, n = 0;
	wgsl_module *m;
	rp_code rc = load(a->file, &text, &len, &m, err);
	if (rc == RP_OK && a->entry) {
		rc = emit_one(m, a, a->entry, 1, err);
	} else if (rc == RP_OK) {
		const char *const *entries = wgsl_entries(m, &n);
		if (!n)
			rc = rp_fail(err, RP_FORMAT, "%s: no @compute entry point", a->file);
		for (size_t i = 0; rc == RP_OK && i < n; i++)
			rc = emit_one(m, a, entries[i], n, err);
	}
	wgsl_free(m);
	free(text);
	return rc;
}

/* ---- a folder of kernels ---- */

typedef struct kernel {
	char *name, *row; /* row: its object in kernels.json */
} kernel;

typedef struct kernel_set {
	kernel *k;
	size_t n, cap;
} kernel_set;

static int by_name(const void *a, const void *b)
{
	return strcmp(((const kernel *)a)->name, ((const kernel *)b)->name);
}

/* "sha256:" of the text with CRLF made LF, a newline, "@@entry:" and the entry point: the rule of the RDRR format. */
static void kernel_digest(const char *text, size_t len, const char *entry, char out[72])
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	rp_buf b;
	rp_buf_init(&b, 0);
	for (size_t i = 0; i < len; i++)
		if (!(text[i] == '\r' && i + 1 < len && text[i + 1] == '\n'))
			rp_buf_addc(&b, text[i]);
	rp_buf_addf(&b, "\n@@entry:%s", entry);
	SHA256((const unsigned char *)b.data, b.len, sum);
	rp_buf_free(&b);
	memcpy(out, "sha256:", 7);
	for (size_t i = 0; i < sizeof sum; i++)
		snprintf(out + 7 + 2 * i, 3, "%02x", sum[i]);
}

static bool add_kernel(kernel_set *set, char *name, char *row)
{
	if (set->n == set->cap) {
		size_t cap = set->cap ? set->cap * 2 : 64;
		kernel *bigger = rp_grow_array(set->k, cap, sizeof *bigger);
		if (!bigger)
			return false;
		set->k = bigger;
		set->cap = cap;
	}
	set->k[set->n++] = (kernel){name, row};
	return name && row;
}

static rp_code build_entry(const arguments *a, const char *stem, const char *path, const char *text, size_t len, wgsl_module *m,
						   const char *entry, bool only, kernel_set *set, rp_error *err)
{
	uint32_t *words = NULL;
	size_t n;
	char digest[72];
	rp_buf row;
	rp_code rc = compile_entry(m, a, path, entry, &words, &n, err);
	if (rc != RP_OK)
		return rc;
	char *name = only ? rp_strdup(stem) : rp_asprintf("%s.%s", stem, entry), *out = rp_asprintf("%s/%s.spv", a->out, name ? name : "");
	rp_buf_init(&row, 0);
	kernel_digest(text, len, entry, digest);
	rc = reflect_kernel(words, n, name ? name : "", entry, digest, m, &row, err);
	if (rc == RP_OK && out)
		rc = rp_write_file(out, words, n * 4, 0644, err);
	if (!add_kernel(set, name, rp_buf_take(&row, NULL)) || !out)
		rc = rp_no_memory(err, 0, "the kernel list");
	free(out);
	free(words);
	return rc;
}

static rp_code build_file(const arguments *a, const char *file, kernel_set *set, rp_error *err)
{
	char *path = rp_asprintf("%s/%s", a->kernels, file), *text = NULL, *stem = rp_strndup(file, strlen(file) - 5);
	size_t len = 0, n = 0;
	wgsl_module *m = NULL;
	rp_code rc = path && stem ? load(path, &text, &len, &m, err) : rp_no_memory(err, 0, "a path");
	const char *const *entries = rc == RP_OK ? wgsl_entries(m, &n) : NULL;
	if (rc == RP_OK && !n)
		rc = rp_fail(err, RP_FORMAT, "%s: no @compute entry point", path);
	for (size_t i = 0; rc == RP_OK && i < n; i++)
		rc = build_entry(a, stem, path, text, len, m, entries[i], n == 1, set, err);
	wgsl_free(m);
	free(text);
	free(stem);
	free(path);
	return rc;
}

static bool has_ending(const char *s, const char *ending)
{
	size_t n = strlen(s), k = strlen(ending);
	return n > k && strcmp(s + n - k, ending) == 0;
}

static void remove_stale(const arguments *a, const kernel_set *set)
{
	DIR *d = opendir(a->out);
	const struct dirent *e;
	while (d && (e = readdir(d)) != NULL) {
		bool known = !has_ending(e->d_name, ".spv");
		for (size_t i = 0; i < set->n && !known; i++)
			known = strncmp(e->d_name, set->k[i].name, strlen(e->d_name) - 4) == 0 && set->k[i].name[strlen(e->d_name) - 4] == 0;
		if (!known)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

static rp_code write_json(const arguments *a, kernel_set *set, rp_error *err)
{
	rp_buf b;
	rp_buf_init(&b, 0);
	if (set->n)
		qsort(set->k, set->n, sizeof *set->k, by_name);
	rp_buf_addf(&b, "{\n\t\"schema\": \"reploid.kernels/v1\",\n\t\"generator\": \"wgslc %s, %s\",\n\t\"kernels\": [", WGSLC_VERSION, spirv_generator());
	for (size_t i = 0; i < set->n; i++)
		rp_buf_addf(&b, "%s\n%s", i ? "," : "", set->k[i].row);
	rp_buf_adds(&b, set->n ? "\n\t]\n}\n" : "]\n}\n");
	char *path = rp_asprintf("%s/kernels.json", a->out);
	rp_code rc = path && !b.failed ? rp_write_file(path, b.data, b.len, 0644, err) : rp_no_memory(err, b.len, "kernels.json");
	free(path);
	rp_buf_free(&b);
	return rc;
}

/* Every file is tried, so that one run shows all errors; nothing stale is removed and no table written when one fails. */
static rp_code build_kernels(const arguments *a, rp_error *err)
{
	kernel_set set = {0};
	rp_code rc = RP_OK;
	DIR *d = opendir(a->kernels);
	const struct dirent *e;
	if (!d)
		return rp_fail_errno(err, RP_READ, errno, "%s", a->kernels);
	while ((e = readdir(d)) != NULL) {
		rp_error one = {0};
		if (!has_ending(e->d_name, ".wgsl"))
			continue;
		rp_code got = build_file(a, e->d_name, &set, &one);
		if (got != RP_OK && rc != RP_OK)
			fail(&one);
		if (got != RP_OK && rc == RP_OK) {
			rc = got;
			*err = one;
		}
	}
	closedir(d);
	if (rc == RP_OK)
		rc = write_json(a, &set, err);
	if (rc == RP_OK)
		remove_stale(a, &set);
	for (size_t i = 0; i < set.n; i++) {
		free(set.k[i].name);
		free(set.k[i].row);
	}
	free(set.k);
	return rc;
}

/* ---- command line ---- */

static bool value_of(char **argv, int *i, const char *name, const char **out)
{
	size_t n = strlen(name);
	if (strcmp(argv[*i], name) == 0 && argv[*i + 1]) {
		*out = argv[++*i];
		return true;
	}
	if (n > 2 && strncmp(argv[*i], name, n) == 0 && argv[*i][n] == '=') {
		*out = argv[*i] + n + 1;
		return true;
	}
	return false;
}

static rp_code parse(char **argv, arguments *a, rp_error *err)
{
	for (int i = 1; argv[i]; i++) {
		if (value_of(argv, &i, "-o", &a->out) || value_of(argv, &i, "--entry", &a->entry) || value_of(argv, &i, "--kernels", &a->kernels))
			continue;
		if (strcmp(argv[i], "--glsl") == 0)
			a->glsl = true;
		else if (strcmp(argv[i], "--push") == 0)
			a->options.push = true;
		else if (strcmp(argv[i], "--no-workgroup-init") == 0)
			a->options.workgroup_init = false;
		else if (strcmp(argv[i], "--no-native-dot") == 0)
			a->options.native_dot = false;
		else if (argv[i][0] == '-')
			return rp_fail(err, RP_USAGE, "unknown option or missing value: %s (see --help)", argv[i]);
		else if (a->file)
			return rp_fail(err, RP_USAGE, "one file at a time: %s after %s", argv[i], a->file);
		else
			a->file = argv[i];
	}
	if (!a->file == !a->kernels)
		return rp_fail(err, RP_USAGE, "name a WGSL file or --kernels DIR (see --help)");
	if (!a->out && !(a->glsl && a->file))
		return rp_fail(err, RP_USAGE, "name the output with -o");
	return RP_OK;
}

int main(int argc, char **argv)
{
	rp_error err = {0};
	arguments a = {.options = {.workgroup_init = true, .native_dot = true}};
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return fputs(usage, stdout) < 0 ? RP_WRITE : RP_OK;
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return printf("wgslc %s, %s\n", WGSLC_VERSION, spirv_generator()) < 0 ? RP_WRITE : RP_OK;
	rp_code rc = parse(argv, &a, &err);
	if (rc == RP_OK)
		rc = a.kernels ? build_kernels(&a, &err) : translate_file(&a, &err);
	spirv_finish();
	return rc == RP_OK ? RP_OK : (int)fail(&err);
}
