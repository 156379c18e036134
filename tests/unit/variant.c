#include "variant.h"

#include "base/base.h"
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *read_all(const char *name, const char *file, size_t *n)
{
	char path[200], *text;
	rp_error err;

	snprintf(path, sizeof path, "tests/golden/%s/%s", name, file);
	must(rp_read_file(path, 64 << 20, &text, n, &err), &err);
	return text;
}

void variant_start(variant *v, const char *name)
{
	size_t n;
	char *text = read_all(name, "config.json", &n);

	*v = (variant){.folder = "/tmp/reploid-variant-XXXXXX", .config = cJSON_Parse(text)};
	free(text);
	assert_non_null(mkdtemp(v->folder));
	text = read_all(name, "model.safetensors", &n);
	size_t header = (size_t)rp_le64(text);
	v->header = cJSON_ParseWithLength(text + 8, header);
	v->n_data = n - 8 - header;
	v->data = malloc(v->n_data);
	memcpy(v->data, text + 8 + header, v->n_data);
	free(text);
	assert_non_null(v->config);
	assert_non_null(v->header);
}

void variant_set(cJSON *root, const char *path, const char *json)
{
	const char *dot;
	char key[80];

	while ((dot = strchr(path, '.'))) {
		snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
		root = cJSON_GetObjectItemCaseSensitive(root, key);
		assert_non_null(root);
		path = dot + 1;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(root, path);
	if (json) {
		cJSON *value = cJSON_Parse(json);
		assert_non_null(value);
		cJSON_AddItemToObject(root, path, value);
	}
}

void variant_add_tensor(variant *v, const char *name, const char *dtype, uint64_t d0, uint64_t d1)
{
	size_t n = (size_t)(d0 * (d1 ? d1 : 1)) * (strcmp(dtype, "F32") == 0 ? 4 : 2);
	char json[200], shape[48];

	snprintf(shape, sizeof shape, d1 ? "%llu,%llu" : "%llu", (unsigned long long)d0, (unsigned long long)d1);
	snprintf(json, sizeof json, "{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", dtype, shape, v->n_data, v->n_data + n);
	cJSON_AddItemToObject(v->header, name, cJSON_Parse(json));
	v->data = realloc(v->data, v->n_data + n);
	memset(v->data + v->n_data, 0, n);
	v->n_data += n;
}

static void write_parts(const variant *v, const char *name, const void *a, size_t na, const void *b, size_t nb)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s", v->folder, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(a, 1, na, f), na);
	assert_int_equal(fwrite(b, 1, nb, f), nb);
	assert_int_equal(fclose(f), 0);
}

void variant_write_file(const variant *v, const char *name, const void *bytes, size_t n)
{
	write_parts(v, name, bytes, n, "", 0);
}

void variant_write(const variant *v)
{
	char *config = cJSON_Print(v->config), *header = cJSON_PrintUnformatted(v->header);
	size_t n = strlen(header);
	char *head = malloc(8 + n);

	for (int i = 0; i < 8; i++)
		head[i] = (char)(n >> 8 * i & 0xff);
	memcpy(head + 8, header, n);
	variant_write_file(v, "config.json", config, strlen(config));
	write_parts(v, "model.safetensors", head, 8 + n, v->data, v->n_data);
	free(head);
	free(header);
	free(config);
}

static void add_rdrr_tensor(cJSON *tensors, const cJSON *from)
{
	const cJSON *offsets = cJSON_GetObjectItem(from, "data_offsets");
	double first = cJSON_GetArrayItem(offsets, 0)->valuedouble, last = cJSON_GetArrayItem(offsets, 1)->valuedouble;
	cJSON *t = cJSON_AddObjectToObject(tensors, from->string);

	cJSON_AddNumberToObject(t, "shard", 0);
	cJSON_AddNumberToObject(t, "offset", first);
	cJSON_AddNumberToObject(t, "size", last - first);
	cJSON_AddItemToObject(t, "shape", cJSON_Duplicate(cJSON_GetObjectItem(from, "shape"), true));
	cJSON_AddItemToObject(t, "dtype", cJSON_Duplicate(cJSON_GetObjectItem(from, "dtype"), true));
	cJSON_AddStringToObject(t, "role", "other");
	cJSON_AddStringToObject(t, "group", "other");
}

void variant_write_rdrr(const variant *v, cJSON *manifest)
{
	cJSON *shards = cJSON_AddArrayToObject(manifest, "shards"), *shard = cJSON_CreateObject();
	cJSON *tensors = cJSON_AddObjectToObject(manifest, "tensors");
	const cJSON *t;
	char zeros[65];

	memset(zeros, '0', 64);
	zeros[64] = '\0';
	cJSON_AddNumberToObject(shard, "index", 0);
	cJSON_AddStringToObject(shard, "filename", "shard_00000.bin");
	cJSON_AddNumberToObject(shard, "size", (double)v->n_data);
	cJSON_AddStringToObject(shard, "hash", zeros);
	cJSON_AddNumberToObject(shard, "offset", 0);
	cJSON_AddItemToArray(shards, shard);
	cJSON_ArrayForEach(t, v->header)
		if (strcmp(t->string, "__metadata__") != 0)
			add_rdrr_tensor(tensors, t);
	cJSON_AddNumberToObject(manifest, "totalSize", (double)v->n_data);
	char *text = cJSON_Print(manifest);
	variant_write_file(v, "manifest.json", text, strlen(text));
	variant_write_file(v, "shard_00000.bin", v->data, v->n_data);
	free(text);
}

void variant_write_gguf(const variant *v, const char *name, const char *from, const char *to)
{
	size_t n, len = strlen(from), found = 0;
	char *bytes = read_all(name, "model.gguf", &n);

	assert_int_equal(strlen(to), len);
	for (size_t i = 0; i + len <= n; i++)
		if (memcmp(bytes + i, from, len) == 0) {
			memcpy(bytes + i, to, len);
			found++;
		}
	assert_true(found > 0);
	variant_write_file(v, "model.gguf", bytes, n);
	free(bytes);
}

void variant_end(variant *v)
{
	static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors", "model.gguf", "manifest.json",
		"shard_00000.bin"};
	char path[200];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", v->folder, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(v->folder), 0);
	cJSON_Delete(v->config);
	cJSON_Delete(v->header);
	free(v->data);
}
