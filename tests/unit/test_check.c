/* Hashes of whole files and of parts of them, read back: git's blob ids, SHA-256, BLAKE3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/check.h"

static int file_of(const void *data, size_t n)
{
	FILE *f = tmpfile();
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fflush(f), 0);
	int fd = dup(fileno(f));
	fclose(f);
	assert_true(fd >= 0);
	return fd;
}

/* `git hash-object` of an empty file and of one line. */
static void test_git(void **state)
{
	(void)state;
	rp_check c;
	rp_error err;
	assert_true(rp_check_git_parse("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", 0, &c));
	assert_int_equal(rp_check_fd(-1, "empty", &c, &err), RP_OK);
	assert_true(rp_check_git_parse("\"ce013625030ba8dba906f756967f9e9ca394464a\"", 6, &c));
	int fd = file_of("hello\n", 6);
	assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_OK);
	close(fd);
	fd = file_of("hellO\n", 6);
	assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_HASH);
	assert_non_null(strstr(err.msg, "git-sha1"));
	assert_non_null(strstr(err.msg, "expected ce013625030ba8dba906f756967f9e9ca394464a"));
	close(fd);
	fd = file_of("hello", 5);
	assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_READ);
	close(fd);
}

static void test_git_names(void **state)
{
	(void)state;
	rp_check c;
	static const char *const bad[] = {"", "\"", "\"\"", "e69de29bb2d1d6434b8b29ae775ad8c2e48c539", "e69de29bb2d1d6434b8b29ae775ad8c2e48c53911",
		"\"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\"", "E69DE29BB2D1D6434B8B29AE775AD8C2E48C5391",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(rp_check_git_parse(bad[i], 0, &c));
}

/* Parts of a file larger than what is read at once, against the hashes of the same bytes in memory. */
static void test_parts(void **state)
{
	(void)state;
	enum { SIZE = 1000003 };
	unsigned char *data = malloc(SIZE);
	assert_non_null(data);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 13);
	int fd = file_of(data, SIZE);
	static const size_t parts[][2] = {{0, SIZE}, {0, 1}, {1, 300000}, {SIZE - 5, 5}, {262144, 262144}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		rp_error err;
		rp_check c = {.kind = RP_CHECK_SHA256, .offset = parts[i][0], .size = parts[i][1]};
		rp_sha256_once(data + c.offset, (size_t)c.size, c.digest);
		assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_OK);
		c.digest[31] ^= 1;
		assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_HASH);
		c.kind = RP_CHECK_BLAKE3;
		rp_blake3_once(data + c.offset, (size_t)c.size, c.digest);
		assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_OK);
		c.digest[0] ^= 1;
		assert_int_equal(rp_check_fd(fd, "f", &c, &err), RP_HASH);
	}
	close(fd);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_git), cmocka_unit_test(test_git_names), cmocka_unit_test(test_parts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
