/* spirv-table: turns spirv/kernels.json and the .spv files beside it into a C source that defines the built-in kernel table
 * (common/vk/kernels.h). It runs in every build, so it needs nothing but the libraries the programs need anyway.
 *
 *   spirv-table KERNELS.json OUT.c
 *
 * The numbers are copied from kernels.json, which the translator wrote from reflection; here they are only checked for
 * plausibility, so that a hand-edited or half-written set stops the build with a message instead of becoming a wrong table. */
#include "base/base.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES(X) X("f16", "RP_KERNEL_F16") X("subgroups", "RP_KERNEL_SUBGROUPS") X("int_dot", "RP_KERNEL_INT_DOT") X("matrix", "RP_KERNEL_MATRIX")

enum { MAX_FILE = 64 << 20, SPIRV_MAGIC = 0x07230203 };

typedef struct table {
	const char *json_path, *folder; /* folder of kernels.json, "" or with a final slash */
	rp_buf data, rows;
} table;

static const cJSON *field(const cJSON *o, const char *name, rp_error *err)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
	if (!v)
		rp_fail(err, RP_FORMAT, "field \"%s\" is missing", name);
	return v;
}

static const char *text_field(const cJSON *o, const char *name, rp_error *err)
{
	const cJSON *v = field(o, name, err);
	if (!v)
		return NULL;
	if (!cJSON_IsString(v) || !v->valuestring[0] || strpbrk(v->valuestring, "\"\\\n")) {
		rp_fail(err, RP_FORMAT, "field \"%s\": expected a plain string", name);
		return NULL;
	}
	return v->valuestring;
}

static bool is_number(const cJSON *v, double low, double high)
{
	return cJSON_IsNumber(v) && v->valuedouble >= low && v->valuedouble <= high &&
	       v->valuedouble == (double)(int64_t)v->valuedouble;
}

static bool number_field(const cJSON *o, const char *name, uint32_t *out, rp_error *err)
{
	const cJSON *v = field(o, name, err);
	if (!v)
		return false;
	if (!is_number(v, 0, UINT32_MAX)) {
		rp_fail(err, RP_FORMAT, "field \"%s\": expected an integer from 0 to 4294967295", name);
		return false;
	}
	*out = (uint32_t)v->valuedouble;
	return true;
}

static const cJSON *array_field(const cJSON *o, const char *name, int n, rp_error *err)
{
	const cJSON *v = field(o, name, err);
	if (!v)
		return NULL;
	if (!cJSON_IsArray(v) || (n >= 0 && cJSON_GetArraySize(v) != n)) {
		rp_fail(err, RP_FORMAT, "field \"%s\": expected an array%s", name, n == 3 ? " of three" : "");
		return NULL;
	}
	return v;
}

static bool add_words(table *t, const char *name, size_t index, size_t *n_words, rp_error *err)
{
	char *path = rp_asprintf("%s%s.spv", t->folder, name), *bytes = NULL;
	size_t len = 0;
	bool ok = path && rp_read_file(path, MAX_FILE, &bytes, &len, err) == RP_OK;
	if (ok && (len < 20 || len % 4 != 0 || rp_le32(bytes) != SPIRV_MAGIC)) {
		rp_fail(err, RP_FORMAT, "%s: not a SPIR-V module in little-endian words", path);
		ok = false;
	}
	if (ok) {
		rp_buf_addf(&t->data, "static const uint32_t words_%zu[] = {", index);
		for (size_t i = 0; i < len; i += 4)
			rp_buf_addf(&t->data, "%s%u,", i % 48 ? "" : "\n", rp_le32(bytes + i));
		rp_buf_adds(&t->data, "\n};\n");
		*n_words = len / 4;
	}
	free(bytes);
	free(path);
	return ok;
}

static bool add_bindings(table *t, const cJSON *list, size_t index, rp_error *err)
{
	const cJSON *b;
	rp_buf_addf(&t->data, "static const rp_kernel_binding bindings_%zu[] = {\n", index);
	cJSON_ArrayForEach(b, list)
	{
		uint32_t group, binding;
		const char *name = text_field(b, "name", err), *kind = name ? text_field(b, "type", err) : NULL;
		const char *access = kind ? text_field(b, "access", err) : NULL;
		if (!access || !number_field(b, "group", &group, err) || !number_field(b, "binding", &binding, err))
			return false;
		rp_buf_addf(&t->data, "\t{\"%s\", %u, %u, %s, %s},\n", name, group, binding,
		            strcmp(kind, "uniform") == 0 ? "true" : "false", strcmp(access, "read_write") == 0 ? "true" : "false");
	}
	rp_buf_adds(&t->data, "};\n");
	return true;
}

static bool add_constants(table *t, const cJSON *list, size_t index, rp_error *err)
{
	const cJSON *c;
	rp_buf_addf(&t->data, "static const rp_kernel_constant constants_%zu[] = {\n", index);
	cJSON_ArrayForEach(c, list)
	{
		uint32_t id, bits;
		const char *name = text_field(c, "name", err), *type = name ? text_field(c, "type", err) : NULL;
		if (!type || !number_field(c, "id", &id, err) || !number_field(c, "defaultBits", &bits, err))
			return false;
		if (strcmp(type, "u32") != 0 && strcmp(type, "i32") != 0 && strcmp(type, "f32") != 0 && strcmp(type, "bool") != 0) {
			rp_fail(err, RP_FORMAT, "constant %s: unknown type \"%s\"", name, type);
			return false;
		}
		rp_buf_addf(&t->data, "\t{\"%s\", %u, '%c', %uu},\n", name, id, type[0], bits);
	}
	rp_buf_adds(&t->data, "};\n");
	return true;
}

static bool add_features(table *t, const cJSON *list, rp_error *err)
{
	const cJSON *f;
	rp_buf_adds(&t->rows, "0");
	cJSON_ArrayForEach(f, list)
	{
		const char *flag = NULL;
#define X(word, name)                                                                                                            \
	if (cJSON_IsString(f) && strcmp(f->valuestring, word) == 0)                                                                  \
		flag = name;
		FEATURES(X)
#undef X
		if (!flag) {
			rp_fail(err, RP_FORMAT, "field \"features\": unknown feature");
			return false;
		}
		rp_buf_addf(&t->rows, " | %s", flag);
	}
	return true;
}

static bool add_triple(table *t, const cJSON *list, double low, rp_error *err)
{
	const cJSON *v;
	rp_buf_addc(&t->rows, '{');
	cJSON_ArrayForEach(v, list)
	{
		if (!is_number(v, low, INT32_MAX)) {
			rp_fail(err, RP_FORMAT, "workgroup sizes and ids must be integers");
			return false;
		}
		rp_buf_addf(&t->rows, "%d,", (int)v->valuedouble);
	}
	rp_buf_adds(&t->rows, "}, ");
	return true;
}

static bool component(const cJSON *v, char *out)
{
	static const char *const names[] = {"f16", "f32", "i8", "u8", "i32", "u32"};
	static const char letters[] = "hfbBiu";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (cJSON_IsString(v) && strcmp(v->valuestring, names[i]) == 0) {
			*out = letters[i];
			return true;
		}
	return false;
}

/* ["f16", "f32", m, n, k]: components of factors and sum */
static bool add_matrices(table *t, const cJSON *list, size_t index, rp_error *err)
{
	const cJSON *m;
	rp_buf_addf(&t->data, "static const rp_kernel_matrix matrices_%zu[] = {\n", index);
	cJSON_ArrayForEach(m, list)
	{
		char a, c;
		bool ok = cJSON_IsArray(m) && cJSON_GetArraySize(m) == 5 && component(cJSON_GetArrayItem(m, 0), &a) &&
		          component(cJSON_GetArrayItem(m, 1), &c);
		for (int i = 2; ok && i < 5; i++)
			ok = is_number(cJSON_GetArrayItem(m, i), 1, 255);
		if (!ok) {
			rp_fail(err, RP_FORMAT, "field \"matrices\": expected two component types and three sizes");
			return false;
		}
		rp_buf_addf(&t->data, "\t{'%c', '%c', %d, %d, %d},\n", a, c, cJSON_GetArrayItem(m, 2)->valueint,
		            cJSON_GetArrayItem(m, 3)->valueint, cJSON_GetArrayItem(m, 4)->valueint);
	}
	rp_buf_adds(&t->data, "};\n");
	return true;
}

static bool add_kernel(table *t, const cJSON *k, size_t index, rp_error *err)
{
	size_t n_words = 0;
	uint32_t push;
	const char *name = text_field(k, "name", err), *entry = name ? text_field(k, "entry", err) : NULL;
	const char *digest = entry ? text_field(k, "digest", err) : NULL;
	const cJSON *bindings = digest ? array_field(k, "bindings", -1, err) : NULL;
	const cJSON *constants = bindings ? array_field(k, "constants", -1, err) : NULL;
	const cJSON *size = constants ? array_field(k, "workgroup", 3, err) : NULL;
	const cJSON *ids = size ? array_field(k, "workgroupIds", 3, err) : NULL;
	const cJSON *features = ids ? array_field(k, "features", -1, err) : NULL;
	const cJSON *matrices = features && cJSON_HasObjectItem(k, "matrices") ? array_field(k, "matrices", -1, err) : NULL;
	if (!features || !number_field(k, "pushBytes", &push, err) || !add_words(t, name, index, &n_words, err))
		return false;
	int n_bindings = cJSON_GetArraySize(bindings), n_constants = cJSON_GetArraySize(constants);
	if (n_bindings && !add_bindings(t, bindings, index, err))
		return false;
	if (n_constants && !add_constants(t, constants, index, err))
		return false;
	if (matrices && !add_matrices(t, matrices, index, err))
		return false;
	rp_buf_addf(&t->rows, "\t{\"%s\", \"%s\", \"%s\", words_%zu, %zu, ", name, entry, digest, index, n_words);
	if (n_bindings)
		rp_buf_addf(&t->rows, "bindings_%zu, %d, ", index, n_bindings);
	else
		rp_buf_adds(&t->rows, "NULL, 0, ");
	if (n_constants)
		rp_buf_addf(&t->rows, "constants_%zu, %d, ", index, n_constants);
	else
		rp_buf_adds(&t->rows, "NULL, 0, ");
	rp_buf_addf(&t->rows, "%u, ", push);
	if (!add_triple(t, size, 0, err) || !add_triple(t, ids, -1, err) || !add_features(t, features, err))
		return false;
	if (matrices)
		rp_buf_addf(&t->rows, ", matrices_%zu, %d},\n", index, cJSON_GetArraySize(matrices));
	else
		rp_buf_adds(&t->rows, ", NULL, 0},\n");
	return true;
}

static bool add_kernels(table *t, const cJSON *root, rp_error *err)
{
	const cJSON *list = array_field(root, "kernels", -1, err), *k;
	const char *before = "";
	size_t n = 0;
	if (!list)
		return false;
	cJSON_ArrayForEach(k, list)
	{
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(k, "name");
		if (!add_kernel(t, k, n++, err)) {
			rp_error_prefix(err, err->code, "kernel %zu (%s): ", n, cJSON_IsString(name) ? name->valuestring : "no name");
			return false;
		}
		if (strcmp(before, name->valuestring) >= 0) { /* the table is searched by bisection */
			rp_fail(err, RP_FORMAT, "kernel %s: names must be unique and sorted", name->valuestring);
			return false;
		}
		before = name->valuestring;
	}
	rp_buf_addf(&t->rows, "\t{0},\n};\nconst size_t rp_kernel_table_size = %zu;\n", n);
	return true;
}

static rp_code make_table(const char *json_path, const char *out, rp_error *err)
{
	table t = {.json_path = json_path};
	const char *slash = strrchr(json_path, '/');
	char *folder = rp_strndup(json_path, slash ? (size_t)(slash - json_path) + 1 : 0), *json = NULL;
	size_t len;
	rp_code rc = folder ? rp_read_file(json_path, MAX_FILE, &json, &len, err) : rp_no_memory(err, 0, "a path");
	cJSON *root = rc == RP_OK ? cJSON_ParseWithLength(json, len) : NULL;
	t.folder = folder;
	rp_buf_init(&t.data, 0);
	rp_buf_init(&t.rows, 0);
	rp_buf_adds(&t.data, "/* Made by spirv-table from the checked-in kernels: do not edit. */\n"
	                     "#include \"vk/kernel_table.h\"\n\n");
	rp_buf_adds(&t.rows, "\nconst rp_kernel rp_kernel_table[] = {\n");
	if (rc == RP_OK && !root)
		rc = rp_fail(err, RP_FORMAT, "%s: not JSON", json_path);
	if (rc == RP_OK && !add_kernels(&t, root, err))
		rc = rp_error_prefix(err, err->code, "%s: ", json_path);
	if (rc == RP_OK && (!rp_buf_add(&t.data, t.rows.data, t.rows.len) || t.rows.failed))
		rc = rp_no_memory(err, t.data.len, "the kernel table");
	if (rc == RP_OK)
		rc = rp_write_file(out, t.data.data, t.data.len, 0644, err);
	rp_buf_free(&t.data);
	rp_buf_free(&t.rows);
	cJSON_Delete(root);
	free(json);
	free(folder);
	return rc;
}

int main(int argc, char **argv)
{
	rp_error err = {0};
	if (argc != 3) {
		fputs("usage: spirv-table KERNELS.json OUT.c\n", stderr);
		return RP_USAGE;
	}
	if (make_table(argv[1], argv[2], &err) != RP_OK)
		fprintf(stderr, "spirv-table: %s\n", err.msg);
	return err.code;
}
