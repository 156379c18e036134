#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static void checked_arithmetic(void **state)
{
	(void)state;
	uint64_t r = 7;
	assert_true(rp_mul_u64(1u << 31, 1u << 31, &r));
	assert_int_equal(r, 1ull << 62);
	assert_false(rp_mul_u64((1ull << 42) + 1, 1ull << 22, &r));
	assert_int_equal(r, 1ull << 62); /* untouched */
	assert_true(rp_mul_u64(UINT64_MAX, 0, &r));
	assert_int_equal(r, 0);
	assert_false(rp_add_u64(UINT64_MAX, 1, &r));
	assert_true(rp_round_up_u64(33, 32, &r));
	assert_int_equal(r, 64);
	assert_false(rp_round_up_u64(UINT64_MAX, 32, &r));
	assert_null(rp_alloc_array(SIZE_MAX / 2, 4));
}

static void buffer_stays_bounded(void **state)
{
	(void)state;
	rp_buf b;
	rp_buf_init(&b, 10);
	assert_true(rp_buf_adds(&b, "12345"));
	assert_true(rp_buf_addf(&b, "%d", 67890));
	assert_string_equal(b.data, "1234567890");
	assert_false(rp_buf_addc(&b, 'x'));
	assert_true(b.failed);
	assert_false(rp_buf_adds(&b, "")); /* sticky */
	assert_int_equal(b.len, 10);
	rp_buf_clear(&b);
	assert_true(rp_buf_adds(&b, "abcdef"));
	rp_buf_drop(&b, 2);
	assert_string_equal(b.data, "cdef");
	size_t n;
	char *s = rp_buf_take(&b, &n);
	assert_int_equal(n, 4);
	free(s);
	rp_buf_free(&b);
}

static void arena_gives_zeroed_aligned_memory(void **state)
{
	(void)state;
	rp_arena a;
	rp_arena_init(&a, 1 << 20);
	for (size_t i = 1; i < 3000; i += 7) {
		unsigned char *p = rp_arena_alloc(&a, i);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < i; k++)
			assert_int_equal(p[k], 0);
		memset(p, 0xAA, i);
	}
	assert_null(rp_arena_alloc(&a, 1 << 20));
	assert_null(rp_arena_array(&a, SIZE_MAX / 2, 8));
	rp_arena_free(&a);
}

static void utf8_follows_table_3_7(void **state)
{
	(void)state;
	static const struct {
		const char *s;
		size_t n, valid;
	} cases[] = { { "abc", 3, 3 }, { "\xC3\xA9", 2, 2 }, { "\xC0\x80", 2, 0 }, { "a\xED\xA0\x80", 4, 1 }, { "\xF4\x8F\xBF\xBF", 4, 4 },
		{ "\xF4\x90\x80\x80", 4, 0 }, { "x\xE2\x82", 3, 1 }, { "\xE0\x9F\xBF", 3, 0 }, { "", 0, 0 }, { "a\0b", 3, 3 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(rp_utf8_valid(cases[i].s, cases[i].n), cases[i].valid);
}

static void messages_cannot_drive_a_terminal(void **state)
{
	(void)state;
	rp_error e;
	assert_int_equal(rp_fail(&e, RP_FORMAT, "field %s", "a\x1b[2J\xff\xc2\x9b"), RP_FORMAT);
	assert_string_equal(e.msg, "field a\\x1b[2J\\xff\\xc2\\x9b");
	char out[16];
	assert_string_equal(rp_show(out, sizeof out, "0123456789abcdefgh", 18), "0123456789ab...");
	assert_string_equal(rp_show(out, sizeof out, "0123456789abcde", 15), "0123456789abcde");
	rp_fail(&e, RP_FORMAT, "size is 3");
	assert_int_equal(rp_error_prefix(&e, RP_FORMAT, "%s: ", "f.gguf"), RP_FORMAT);
	assert_string_equal(e.msg, "f.gguf: size is 3");
}

static void errno_picks_the_code(void **state)
{
	(void)state;
	rp_error e;
	assert_int_equal(rp_fail_errno(&e, RP_WRITE, ENOSPC, "x"), RP_DISK_FULL);
	assert_int_equal(rp_fail_errno(&e, RP_READ, ENOENT, "x"), RP_NOT_FOUND);
	assert_int_equal(rp_fail_errno(NULL, RP_READ, EACCES, "x"), RP_READ);
}

static void exit_codes_are_unique(void **state)
{
	(void)state;
	size_t n;
	const rp_code_info *c = rp_codes(&n);
	for (size_t i = 0; i < n; i++) {
		assert_in_range(c[i].code, 0, 255);
		for (size_t k = 0; k < i; k++) {
			assert_int_not_equal(c[i].code, c[k].code);
			assert_string_not_equal(c[i].word, c[k].word);
		}
	}
	assert_string_equal(rp_code_word(RP_HASH), "hash");
}

static void files_are_replaced_whole(void **state)
{
	(void)state;
	char folder[] = "/tmp/reploid-base-XXXXXX";
	assert_non_null(mkdtemp(folder));
	char *path = rp_asprintf("%s/f", folder);
	rp_error e;
	char *data;
	size_t n;
	assert_int_equal(rp_write_file(path, "one", 3, 0644, &e), RP_OK);
	assert_int_equal(rp_write_file(path, "second", 6, 0644, &e), RP_OK);
	assert_int_equal(rp_read_file(path, 100, &data, &n, &e), RP_OK);
	assert_int_equal(n, 6);
	assert_string_equal(data, "second");
	free(data);
	assert_int_equal(rp_read_file(path, 5, &data, &n, &e), RP_FORMAT);
	assert_int_equal(rp_read_file(folder, 5, &data, &n, &e), RP_READ);
	unlink(path);
	assert_int_equal(rp_read_file(path, 5, &data, &n, &e), RP_NOT_FOUND);
	free(path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checked_arithmetic),
		cmocka_unit_test(buffer_stays_bounded),
		cmocka_unit_test(arena_gives_zeroed_aligned_memory),
		cmocka_unit_test(utf8_follows_table_3_7),
		cmocka_unit_test(messages_cannot_drive_a_terminal),
		cmocka_unit_test(errno_picks_the_code),
		cmocka_unit_test(exit_codes_are_unique),
		cmocka_unit_test(files_are_replaced_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
