#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "make_model.h"
#include "model/model.h"

static rp_code open_path(const char *path, rp_model **m, rp_error *e)
{
	*m = NULL;
	*e = (rp_error){ 0 };
	return rp_model_open(path, m, e);
}

static void expect(const char *path, rp_code code, const char *in_message)
{
	rp_model *m;
	rp_error e;
	rp_code rc = open_path(path, &m, &e);
	if (rc != code || strstr(e.msg, in_message) == NULL)
		fail_msg("%s: got %s: %s; expected %s with '%s'", path, rp_code_word(rc), e.msg, rp_code_word(code), in_message);
	rp_model_close(m);
}

static void put_gguf(const char *folder, const char *name)
{
	static float x[4096];
	mm_values(x, 4096, 2, 1);
	mm_gguf g;
	rp_buf b;
	mm_gguf_init(&g);
	mm_gguf_str(&g, "general.architecture", "llama");
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 4096 }, x);
	mm_gguf_build(&g, &b);
	mm_write(folder, name, b.data, b.len);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

static void the_form_is_told_by_content(void **state)
{
	(void)state;
	char *folder = mm_temp_folder(), *path = mm_path(folder, "file");
	rp_model *m;
	rp_error e;
	put_gguf(folder, "file");
	assert_int_equal(open_path(path, &m, &e), RP_OK);
	assert_int_equal(rp_model_format(m), RP_FORMAT_GGUF);
	assert_string_equal(rp_model_path(m), path);
	rp_model_close(m);
	mm_write(folder, "file", "\2\0\0\0\0\0\0\0{}", 10);
	assert_int_equal(open_path(path, &m, &e), RP_OK);
	assert_int_equal(rp_model_format(m), RP_FORMAT_SAFETENSORS);
	rp_model_close(m);
	mm_write(folder, "file", " {\"shards\":[]}", 14);
	expect(path, RP_FORMAT, "version is missing");
	mm_write(folder, "file", "{\"a\":[]}", 8);
	expect(path, RP_FORMAT, "neither an RDRR manifest nor an index");
	mm_write(folder, "file", "<html>not found</html>", 22);
	expect(path, RP_FORMAT, "is no model file");
	mm_write(folder, "file", "", 0);
	expect(path, RP_FORMAT, "is no model file");
	mm_write(folder, "file", "GGUF", 4); /* CVE-2024-39720: four bytes */
	expect(path, RP_FORMAT, "truncated");
	mm_write(folder, "file", "FUGG\0\0\0\3", 8);
	expect(path, RP_UNSUPPORTED, "big-endian");
	mm_write(folder, "file", "version https://git-lfs.github.com/spec/v1\n", 43);
	expect(path, RP_FORMAT, "is no model file");
	free(path);
	mm_remove_folder(folder);
}

static void folders_hold_one_model(void **state)
{
	(void)state;
	char *folder = mm_temp_folder(), *missing = mm_path(folder, "missing");
	expect(missing, RP_NOT_FOUND, "missing");
	expect(folder, RP_NOT_FOUND, "no model in this folder");
	put_gguf(folder, "a.gguf");
	rp_model *m;
	rp_error e;
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	rp_model_close(m);
	put_gguf(folder, "b.gguf");
	expect(folder, RP_USAGE, "2 model files");
	free(missing);
	mm_remove_folder(folder);
}

static void only_regular_files_are_read(void **state)
{
	(void)state;
	char *folder = mm_temp_folder(), *path = mm_path(folder, "pipe.gguf");
	assert_int_equal(mkfifo(path, 0600), 0);
	expect(path, RP_READ, "is not a regular file"); /* and does not wait for a writer */
	expect("/dev/null", RP_READ, "is not a regular file");
	unlink(path);
	put_gguf(folder, "pipe.gguf");
	chmod(path, 0);
	if (geteuid() != 0)
		expect(path, RP_READ, "cannot open");
	free(path);
	mm_remove_folder(folder);
}

static void a_file_that_shrinks_gives_an_error(void **state)
{
	(void)state;
	char *folder = mm_temp_folder(), *path = mm_path(folder, "a.gguf");
	put_gguf(folder, "a.gguf");
	rp_model *m;
	rp_error e;
	static float y[4096];
	assert_int_equal(open_path(path, &m, &e), RP_OK);
	assert_int_equal(truncate(path, 4096), 0);
	const rp_tensor *t = rp_model_find(m, "w");
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_READ);
	assert_non_null(strstr(e.msg, "became shorter"));
	assert_null(rp_tensor_map(m, t));
	rp_model_close(m);
	free(path);
	mm_remove_folder(folder);
}

static void a_file_that_is_replaced_stays_the_one_opened(void **state)
{
	(void)state;
	char *folder = mm_temp_folder(), *path = mm_path(folder, "a.gguf");
	put_gguf(folder, "a.gguf");
	rp_model *m;
	rp_error e;
	static float y[4096];
	assert_int_equal(open_path(path, &m, &e), RP_OK);
	unlink(path);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "w"), y, &e), RP_OK);
	const float *mapped = rp_tensor_map(m, rp_model_find(m, "w"));
	assert_memory_equal(mapped, y, sizeof y);
	assert_ptr_equal(mapped, rp_tensor_map(m, rp_model_find(m, "w")));
	rp_model_close(m);
	free(path);
	mm_remove_folder(folder);
}

static void *read_and_map(void *model)
{
	const rp_model *m = model;
	const rp_tensor *t = rp_model_find(m, "w");
	float *y = rp_alloc_array(4096, sizeof *y);
	bool same = rp_tensor_f32(m, t, y, NULL) == RP_OK && memcmp(y, rp_tensor_map(m, t), 4096 * sizeof *y) == 0;
	free(y);
	return same ? model : NULL;
}

static void many_threads_read_one_model(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	put_gguf(folder, "a.gguf");
	rp_model *m;
	rp_error e;
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	pthread_t threads[8];
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_and_map, m), 0);
	for (size_t i = 0; i < 8; i++) {
		void *result;
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_ptr_equal(result, m);
	}
	rp_model_close(m);
	mm_remove_folder(folder);
}

static char *smollm2_path(void)
{
	static const char file[] = "models/smollm2-135m-instruct-q4_1/SmolLM2-135M-Instruct.Q4_1.gguf";
	const char *store = getenv("REPLOID_HOME"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	if (store != NULL)
		return rp_asprintf("%s/%s", store, file);
	if (data != NULL)
		return rp_asprintf("%s/reploid/%s", data, file);
	return rp_asprintf("%s/.local/share/reploid/%s", home != NULL ? home : "", file);
}

/* The real thing, when scripts/get-smollm2 has put it in the store. */
static void smollm2_is_read(void **state)
{
	(void)state;
	char *path = smollm2_path();
	if (access(path, R_OK) != 0) {
		print_message("SKIP: %s is not there (scripts/get-smollm2)\n", path);
		free(path);
		skip();
		return;
	}
	rp_model *m;
	rp_error e;
	if (open_path(path, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	assert_int_equal(rp_model_n_tensors(m), 272);
	const rp_str *tokens;
	uint64_t n = 0, layers = 0;
	assert_int_equal(rp_kv_array_str(m, "tokenizer.ggml.tokens", &tokens, &n, &e), RP_OK);
	assert_int_equal(n, 49152);
	assert_int_equal(rp_kv_u64(m, "llama.block_count", &layers, &e), RP_OK);
	assert_int_equal(layers, 30);
	const rp_tensor *t = rp_model_find(m, "blk.29.ffn_down.weight");
	assert_int_equal(t->dtype, RP_Q4_1);
	assert_int_equal(t->dims[0], 576);
	assert_int_equal(t->dims[1], 1536);
	rp_model_close(m);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_form_is_told_by_content),
		cmocka_unit_test(folders_hold_one_model),
		cmocka_unit_test(only_regular_files_are_read),
		cmocka_unit_test(a_file_that_shrinks_gives_an_error),
		cmocka_unit_test(a_file_that_is_replaced_stays_the_one_opened),
		cmocka_unit_test(many_threads_read_one_model),
		cmocka_unit_test(smollm2_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
