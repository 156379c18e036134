#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/store.h"

static void ids_stay_in_their_folder(void **state)
{
	(void)state;
	static const char *const good[] = {"a", "smollm2-135m-instruct-q4_1", "Qwen3.5_0.8B"};
	static const char *const bad[] = {"", ".", "..", ".hidden", "-m", "a/b", "../a", "a b", "a\n", "\xc3\xa9"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(rp_id_valid(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(rp_id_valid(bad[i]));
	char longest[RP_MAX_ID + 2];
	memset(longest, 'x', sizeof longest);
	longest[RP_MAX_ID] = '\0';
	assert_true(rp_id_valid(longest));
	longest[RP_MAX_ID] = 'x';
	longest[RP_MAX_ID + 1] = '\0';
	assert_false(rp_id_valid(longest));
}

static void expect_dir(rp_code (*get)(char **, rp_error *), const char *expected)
{
	char *path = NULL;
	rp_error err;
	assert_int_equal(get(&path, &err), RP_OK);
	assert_string_equal(path, expected);
	free(path);
}

static void folders(void **state)
{
	(void)state;
	char *path = NULL;
	rp_error err;
	setenv("HOME", "/home/u", 1);
	expect_dir(rp_store_dir, "/home/u/.local/share/reploid");
	expect_dir(rp_cache_dir, "/home/u/.cache/reploid");
	setenv("XDG_DATA_HOME", "relative", 1); /* to be ignored */
	expect_dir(rp_store_dir, "/home/u/.local/share/reploid");
	setenv("XDG_DATA_HOME", "/data", 1);
	setenv("XDG_CACHE_HOME", "/cache", 1);
	expect_dir(rp_store_dir, "/data/reploid");
	expect_dir(rp_cache_dir, "/cache/reploid");
	setenv("REPLOID_HOME", "here", 1);
	expect_dir(rp_store_dir, "here");
	unsetenv("REPLOID_HOME");
	unsetenv("XDG_DATA_HOME");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_int_equal(rp_store_dir(&path, &err), RP_NOT_FOUND);
	assert_non_null(strstr(err.msg, "REPLOID_HOME"));
	assert_null(path);
}

static void expect_model(const char *model, const char *expected)
{
	char *path = NULL;
	rp_error err;
	assert_int_equal(rp_model_locate(model, &path, &err), RP_OK);
	assert_string_equal(path, expected);
	free(path);
}

static void models(void **state)
{
	(void)state;
	char base[] = "/tmp/reploid-store-XXXXXX", name[64];
	char *path = NULL;
	rp_error err;
	assert_non_null(mkdtemp(base));
	assert_int_equal(chdir(base), 0);
	assert_int_equal(mkdir("models", 0700) | mkdir("models/m1", 0700) | mkdir("embedded", 0700) | mkdir("here", 0700), 0);
	setenv("REPLOID_HOME", base, 1);
	setenv("REPLOID_DATA", base, 1);
	strcpy(name, base);
	expect_model("m1", strcat(name, "/models/m1"));
	expect_model("here", "here");
	expect_model("./models/m1", "./models/m1");
	strcpy(name, base);
	expect_model("embedded", strcat(name, "/embedded"));
	static const char *const absent[] = {"m2", "../m1", "models/m2", "", "a\x1b[2J"};
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		assert_int_equal(rp_model_locate(absent[i], &path, &err), RP_NOT_FOUND);
		assert_null(strchr(err.msg, '\x1b'));
	}
	unsetenv("REPLOID_DATA");
	setenv("XDG_DATA_DIRS", "relative::/nonexistent", 1);
	rp_code code = rp_model_locate("embedded", &path, &err); /* a source tree has it beside the programs, not beside a test */
	assert_int_equal(code, RP_NOT_FOUND);
	assert_int_equal(rmdir("models/m1") | rmdir("models") | rmdir("embedded") | rmdir("here"), 0);
	assert_int_equal(chdir("/") | rmdir(base), 0);
}

int main(void)
{
	unsetenv("REPLOID_HOME");
	unsetenv("REPLOID_DATA");
	unsetenv("XDG_DATA_HOME");
	unsetenv("XDG_CACHE_HOME");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_stay_in_their_folder),
		cmocka_unit_test(folders),
		cmocka_unit_test(models),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
