/* Opening a model while the Nth allocation fails: an error value each time, nothing lost, nothing used that is not there (the
 * sanitizer builds see the last two). The linker wraps the library's allocations (see the Makefile). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "make_model.h"
#include "model/model.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long until_failure = -1; /* allocations that still succeed; negative: all do */

static bool fails(void)
{
	return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

/* Open and read everything with one failure after n allocations; false when there was none to fail. */
static bool failed_at(const char *path, long n)
{
	static float values[64 * 64];
	rp_model *m = NULL;
	rp_error e = { 0 };
	until_failure = n;
	rp_code rc = rp_model_open(path, &m, &e);
	if (rc == RP_OK && rp_model_n_tensors(m) > 0)
		rc = rp_tensor_f32(m, rp_model_tensor(m, 0), values, &e);
	bool reached = until_failure < 0;
	until_failure = -1;
	rp_model_close(m);
	if (reached && rc != RP_NO_MEMORY)
		fail_msg("allocation %ld of %s: %s: %s", n, path, rp_code_word(rc), e.msg);
	if (!reached && rc != RP_OK)
		fail_msg("%s: %s", path, e.msg);
	return reached;
}

static void every_failure_is_an_error(const char *path)
{
	long n = 0;
	while (failed_at(path, n))
		n++;
	assert_true(n > 5);
}

static void gguf_without_memory(void **state)
{
	(void)state;
	every_failure_is_an_error("tests/golden/quants/small.gguf");
}

static void safetensors_without_memory(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	mm_safetensors s;
	rp_buf b;
	float x[12] = { 0 };
	mm_st_init(&s);
	mm_st_tensor(&s, "w", RP_F32, 2, (uint64_t[]){ 3, 4 }, x);
	mm_st_tensor(&s, "v", RP_F16, 1, (uint64_t[]){ 5 }, x);
	mm_st_build(&s, &b);
	mm_write(folder, "a.safetensors", b.data, b.len);
	mm_write(folder, "config.json", "{\"a\":{\"b\":[1,2]}}", 17);
	const char *index = "{\"weight_map\":{\"w\":\"a.safetensors\",\"v\":\"a.safetensors\"}}";
	mm_write(folder, "model.safetensors.index.json", index, strlen(index));
	every_failure_is_an_error(folder);
	rp_buf_free(&b);
	mm_st_free(&s);
	mm_remove_folder(folder);
}

static void rdrr_without_memory(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	static float x[64 * 64];
	mm_rdrr r;
	mm_rdrr_init(&r);
	r.shard_size = 4000;
	mm_values(x, 64 * 64, 1, 1);
	mm_rdrr_tensor(&r, "w", "matmul", RP_Q8_0, 2, (uint64_t[]){ 64, 64 }, x);
	mm_rdrr_tensor(&r, "v", "norm", RP_F32, 1, (uint64_t[]){ 64 }, x);
	mm_rdrr_write(&r, folder);
	every_failure_is_an_error(folder);
	mm_rdrr_free(&r);
	mm_remove_folder(folder);
}

int main(void)
{
	/* the cJSON library is linked dynamically: it gets the wrapped functions by its own hook */
	cJSON_InitHooks(&(cJSON_Hooks){ .malloc_fn = malloc, .free_fn = free });
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gguf_without_memory),
		cmocka_unit_test(safetensors_without_memory),
		cmocka_unit_test(rdrr_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
