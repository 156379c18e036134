#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "make_model.h"
#include "model/internal.h"
#include "model/model.h"

static void expect_bytes(const rp_buf *b, rp_code code, const char *in_message)
{
	rp_model *m = NULL;
	rp_error e = { 0 };
	mm_seed(b->data, b->len);
	rp_code rc = rp_model_open_memory(RP_FORMAT_SAFETENSORS, b->data, b->len, &m, &e);
	if (rc != code || (in_message != NULL && strstr(e.msg, in_message) == NULL))
		fail_msg("got %s: %s; expected %s with '%s'", rp_code_word(rc), e.msg, rp_code_word(code), in_message);
	rp_model_close(m);
}

/* A file of this header and n_data zero bytes. */
static void expect(const char *header, size_t n_data, rp_code code, const char *in_message)
{
	rp_buf b;
	mm_st_raw(&b, header, n_data);
	expect_bytes(&b, code, in_message);
	rp_buf_free(&b);
}

static void a_file_reads_back(void **state)
{
	(void)state;
	float x[24], y[24];
	mm_values(x, 24, 1, 1);
	mm_safetensors s;
	mm_st_init(&s);
	mm_st_tensor(&s, "a.weight", RP_F32, 2, (uint64_t[]){ 4, 6 }, x);
	mm_st_tensor(&s, "b.bias", RP_BF16, 1, (uint64_t[]){ 5 }, x);
	mm_st_tensor(&s, "scalar", RP_F16, 0, NULL, x);
	mm_st_tensor(&s, "five", RP_F32, 5, (uint64_t[]){ 1, 2, 3, 1, 4 }, x);
	rp_buf b;
	mm_st_build(&s, &b);
	mm_seed(b.data, b.len);
	rp_model *m = NULL;
	rp_error e;
	assert_int_equal(rp_model_open_memory(RP_FORMAT_SAFETENSORS, b.data, b.len, &m, &e), RP_OK);
	assert_int_equal(rp_model_n_tensors(m), 4);
	const rp_tensor *t = rp_model_find(m, "a.weight");
	assert_int_equal(t->dims[0], 4);
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	assert_memory_equal(x, y, sizeof x);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "b.bias"), y, &e), RP_OK);
	for (size_t i = 0; i < 5; i++)
		assert_true(y[i] - x[i] < 0.005f && x[i] - y[i] < 0.005f);
	assert_int_equal(rp_model_find(m, "scalar")->n_dims, 0);
	assert_int_equal(rp_model_find(m, "five")->dims[4], 4);
	rp_model_close(m);
	rp_buf_free(&b);
	mm_st_free(&s);
}

static void every_truncation_is_an_error(void **state)
{
	(void)state;
	rp_buf b;
	mm_st_raw(&b, "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16);
	for (size_t n = 0; n < b.len; n++) {
		char *copy = rp_alloc(n);
		memcpy(copy, b.data, n);
		rp_model *m = NULL;
		assert_int_equal(rp_model_open_memory(RP_FORMAT_SAFETENSORS, copy, n, &m, NULL), RP_FORMAT);
		free(copy);
	}
	expect_bytes(&b, RP_OK, NULL);
	rp_buf_free(&b);
}

/* fastllm#713: header length + 5 wrapped. */
static void header_lengths_are_held_against_the_file(void **state)
{
	(void)state;
	static const uint64_t lengths[] = { 0, 1, 3, 100000001, UINT64_MAX, UINT64_MAX - 4, 1ull << 63, UINT64_MAX - 7 };
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		rp_buf b;
		rp_buf_init(&b, 0);
		rp_buf_add(&b, &lengths[i], 8);
		rp_buf_adds(&b, "{}");
		expect_bytes(&b, RP_FORMAT, "a header of");
		rp_buf_free(&b);
	}
	expect("{}", 0, RP_OK, NULL);
	expect("{}   ", 0, RP_OK, NULL); /* padded, as writers do to align the data */
	expect(" {}", 0, RP_FORMAT, "does not start with '{'");
}

/* mlx#3363: offsets that disagree with the shape. */
static void offsets_agree_with_the_shape(void **state)
{
	(void)state;
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,12]}}", 12, RP_FORMAT,
		"span 12 bytes, its shape and dtype need 16");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 12, RP_FORMAT, "no range within");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,0]}}", 16, RP_FORMAT, "no range within");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9007199254740988,9007199254740992]}}", 4, RP_FORMAT,
		"no range within");
	expect("{\"w\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0]}}", 4, RP_FORMAT, "no range within");
	expect("{\"w\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 4, RP_FORMAT, "more than 2 numbers");
}

/* llama.cpp#18674, zackshen/gguf#15. */
static void sizes_that_wrap_are_refused(void **state)
{
	(void)state;
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[4398046511105,4194304],\"data_offsets\":[0,16]}}", 16, RP_FORMAT,
		"does not fit 63 bits");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, RP_FORMAT,
		"does not fit 63 bits");
}

static void data_has_no_holes_and_no_overlaps(void **state)
{
	(void)state;
	expect(
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
		12, RP_FORMAT, "take 8 bytes, the file has 12");
	expect(
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"
		"\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
		20, RP_FORMAT, "'a' and 'b' overlap");
	expect("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, RP_FORMAT, "the file has 5");
}

/* openasr#73. */
static void duplicate_names_are_refused(void **state)
{
	(void)state;
	expect(
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
		8, RP_FORMAT, "'a' is there twice");
}

/* promptfoo/modelaudit#1607. */
static void empty_tensors_are_legal(void **state)
{
	(void)state;
	expect(
		"{\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
		"\"f\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[4,4]}}",
		4, RP_OK, NULL);
}

static void malformed_entries_are_refused(void **state)
{
	(void)state;
	expect("[]", 0, RP_FORMAT, NULL);
	expect("{\"w\":1}", 0, RP_FORMAT, "not described by an object");
	expect("{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RP_FORMAT, "dtype is missing");
	expect("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, RP_FORMAT, "shape is missing");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, RP_FORMAT, "data_offsets is missing");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, RP_FORMAT, "shape[0] is not a whole number");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[0.5,2],\"data_offsets\":[0,4]}}", 4, RP_FORMAT,
		"shape[0] is not a whole number");
	expect("{\"w\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RP_UNSUPPORTED, "'w' has dtype 'Q9'");
	expect("{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, RP_UNSUPPORTED, "more than 8");
	expect("{\"__metadata__\":{\"a\":1}}", 0, RP_FORMAT, "__metadata__");
	expect("{\"__metadata__\":{\"a\":\"1\"}}", 0, RP_OK, NULL);
	expect("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RP_FORMAT, "a name of 0 bytes");
	expect("{\"w\xff\":1}", 0, RP_FORMAT, "not UTF-8");
}

/* ---- folders ---- */

static void put_model(const char *folder, const char *name, const char *tensor, float value)
{
	mm_safetensors s;
	rp_buf b;
	mm_st_init(&s);
	mm_st_tensor(&s, tensor, RP_F32, 1, (uint64_t[]){ 1 }, &value);
	mm_st_build(&s, &b);
	mm_write(folder, name, b.data, b.len);
	rp_buf_free(&b);
	mm_st_free(&s);
}

static rp_code open_path(const char *path, rp_model **m, rp_error *e)
{
	*m = NULL;
	*e = (rp_error){ 0 };
	return rp_model_open(path, m, e);
}

static void a_folder_brings_its_config(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	rp_model *m;
	rp_error e;
	put_model(folder, "model.safetensors", "w", 3);
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	assert_null(rp_model_json(m));
	assert_null(rp_model_sibling(m, "config.json"));
	char *first = rp_strdup(rp_model_identity(m));
	assert_int_equal(strlen(first), 7 + 64);
	rp_model_close(m);
	mm_write(folder, "config.json", "{\"rope_theta\":7}", 16);
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	assert_int_equal(rp_model_format(m), RP_FORMAT_SAFETENSORS);
	assert_int_equal(cJSON_GetObjectItem(rp_model_json(m), "rope_theta")->valueint, 7);
	assert_string_not_equal(first, rp_model_identity(m));
	free(first);
	char *sibling = rp_model_sibling(m, "config.json");
	assert_non_null(sibling);
	free(sibling);
	assert_null(rp_model_sibling(m, "../config.json"));
	rp_model_close(m);
	mm_write(folder, "config.json", "{\"a\":1,\"a\":2}", 13);
	assert_int_equal(open_path(folder, &m, &e), RP_FORMAT);
	assert_non_null(strstr(e.msg, "config.json"));
	mm_remove_folder(folder);
}

static void several_files_are_one_model(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	rp_model *m;
	rp_error e;
	float y;
	put_model(folder, "model-00001-of-00002.safetensors", "a", 1);
	put_model(folder, "model-00002-of-00002.safetensors", "b", 2);
	const char *index =
		"{\"metadata\":{},\"weight_map\":{\"b\":\"model-00002-of-00002.safetensors\",\"a\":\"model-00001-of-00002.safetensors\"}}";
	mm_write(folder, "model.safetensors.index.json", index, strlen(index));
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	assert_int_equal(rp_model_n_tensors(m), 2);
	assert_int_equal(rp_model_n_files(m), 2);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "b"), &y, &e), RP_OK);
	assert_true(y == 2);
	rp_model_close(m);
	static const struct {
		const char *from, *to;
		rp_code code;
		const char *word;
	} cases[] = { { "\"b\":\"model-00002", "\"b\":\"model-00009", RP_NOT_FOUND, "model-00009" },
		{ "\"b\":\"model-00002", "\"b\":\"../model-00002", RP_FORMAT, "does not name a file" },
		{ "\"b\":\"model-00002", "\"b\":\"/model-00002", RP_FORMAT, "does not name a file" },
		{ "\"b\":\"model-00002-of-00002.safetensors\"", "\"b\":7", RP_FORMAT, "does not name a file" },
		{ "\"b\":", "\"c\":\"model-00002-of-00002.safetensors\",\"b\":", RP_MODEL, "'c' of the index is in none" },
		{ "\"a\":\"model-00001", "\"a\":\"model-00002", RP_MODEL, "'a' of the index is in none" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = mm_replace(index, cases[i].from, cases[i].to);
		mm_write(folder, "model.safetensors.index.json", text, strlen(text));
		rp_code rc = open_path(folder, &m, &e);
		if (rc != cases[i].code || strstr(e.msg, cases[i].word) == NULL)
			fail_msg("%s: %s %s", text, rp_code_word(rc), e.msg);
		free(text);
	}
	put_model(folder, "model-00002-of-00002.safetensors", "a", 2);
	mm_write(folder, "model.safetensors.index.json", index, strlen(index));
	assert_int_equal(open_path(folder, &m, &e), RP_FORMAT); /* 'a' twice */
	mm_remove_folder(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_reads_back),
		cmocka_unit_test(every_truncation_is_an_error),
		cmocka_unit_test(header_lengths_are_held_against_the_file),
		cmocka_unit_test(offsets_agree_with_the_shape),
		cmocka_unit_test(sizes_that_wrap_are_refused),
		cmocka_unit_test(data_has_no_holes_and_no_overlaps),
		cmocka_unit_test(duplicate_names_are_refused),
		cmocka_unit_test(empty_tensors_are_legal),
		cmocka_unit_test(malformed_entries_are_refused),
		cmocka_unit_test(a_folder_brings_its_config),
		cmocka_unit_test(several_files_are_one_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
