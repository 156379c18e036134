#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/jsonw.h"
#include "base/progress.h"

static rp_buf out;
static rp_jsonw w;

static int start(void **state)
{
	(void)state;
	rp_buf_init(&out, 1 << 16);
	rp_jsonw_init(&w, &out);
	return 0;
}

static int end(void **state)
{
	(void)state;
	rp_buf_free(&out);
	return 0;
}

static void nested(void **state)
{
	(void)state;
	rp_jsonw_object(&w);
	rp_jsonw_key(&w, "a");
	rp_jsonw_array(&w);
	rp_jsonw_u64(&w, UINT64_MAX);
	rp_jsonw_i64(&w, INT64_MIN);
	rp_jsonw_object(&w);
	rp_jsonw_end(&w);
	rp_jsonw_array(&w);
	rp_jsonw_end(&w);
	rp_jsonw_bool(&w, true);
	rp_jsonw_null(&w);
	rp_jsonw_end(&w);
	rp_jsonw_key(&w, "b\"");
	rp_jsonw_str(&w, NULL);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
	assert_true(rp_jsonw_ok(&w));
	assert_string_equal(out.data, "{\"a\":[18446744073709551615,-9223372036854775808,{},[],true,null],\"b\\\"\":null}\n");
}

static void pairs(void **state)
{
	(void)state;
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "s", "x");
	rp_jsonw_pair_str(&w, "n", NULL);
	rp_jsonw_pair_u64(&w, "u", 7);
	rp_jsonw_pair_f64(&w, "f", 0.5);
	rp_jsonw_pair_bool(&w, "b", true);
	rp_jsonw_end(&w);
	assert_true(rp_jsonw_ok(&w));
	assert_string_equal(out.data, "{\"s\":\"x\",\"n\":null,\"u\":7,\"f\":0.5,\"b\":true}");
}

static void strings_are_always_json(void **state)
{
	(void)state;
	static const char raw[] = "q\" b\\ n\n t\t r\r z\0 e\x1b d\x7f \xc3\xa9 bad\xff\xc3 end\xe2\x82";
	rp_jsonw_strn(&w, raw, sizeof raw - 1);
	assert_true(rp_jsonw_ok(&w));
	assert_string_equal(out.data, "\"q\\\" b\\\\ n\\n t\\t r\\r z\\u0000 e\\u001b d\\u007f \xc3\xa9 bad\xef\xbf\xbd\xef\xbf\xbd end"
		"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void numbers_read_back(void **state)
{
	(void)state;
	static const double doubles[] = {0, 1, -1.5, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789012345678.0};
	for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
		rp_buf_clear(&out);
		rp_jsonw_init(&w, &out);
		rp_jsonw_f64(&w, doubles[i]);
		assert_true(strtod(out.data, NULL) == doubles[i]);
		rp_buf_clear(&out);
		rp_jsonw_f32(&w, (float)doubles[i]);
		if (isfinite((float)doubles[i]))
			assert_true(strtof(out.data, NULL) == (float)doubles[i]);
		else
			assert_string_equal(out.data, "null");
	}
	rp_buf_clear(&out);
	rp_jsonw_f32(&w, 0.1f);
	assert_string_equal(out.data, "0.1");
	rp_buf_clear(&out);
	rp_jsonw_f64(&w, (double)NAN);
	assert_string_equal(out.data, "null");
}

static void misuse_is_reported(void **state)
{
	(void)state;
	rp_jsonw_object(&w);
	rp_jsonw_u64(&w, 1); /* no key */
	assert_false(rp_jsonw_ok(&w));
	rp_jsonw_init(&w, &out);
	rp_jsonw_end(&w);
	assert_false(rp_jsonw_ok(&w));
	rp_jsonw_init(&w, &out);
	rp_jsonw_array(&w);
	rp_jsonw_key(&w, "k");
	assert_false(rp_jsonw_ok(&w));
	rp_jsonw_init(&w, &out);
	for (int i = 0; i <= RP_JSONW_DEPTH; i++)
		rp_jsonw_array(&w);
	assert_false(rp_jsonw_ok(&w));
	rp_jsonw_init(&w, &out);
	rp_jsonw_array(&w);
	rp_jsonw_line(&w);
	assert_false(rp_jsonw_ok(&w));
}

static void progress_line_fits(void **state)
{
	(void)state;
	rp_progress_line("loading tiny.gguf", 43200000, 102760448, 1000000000, 120, &out);
	assert_string_equal(out.data, "loading tiny.gguf  42%  41.2 MiB of 98.0 MiB  41.2 MiB/s  0:01 left");
	rp_buf_clear(&out);
	rp_progress_line("loading", 5, 0, 0, 120, &out);
	assert_string_equal(out.data, "loading  5 B");
	for (unsigned width = 0; width < 90; width++) {
		rp_buf_clear(&out);
		rp_progress_line("laden \xc3\xa4\xc3\xb6\xc3\xbc.gguf", 1, UINT64_MAX, UINT64_MAX, width, &out);
		assert_true(out.len == 0 || out.len < width);
		assert_int_equal(rp_utf8_valid(out.data, out.len), out.len);
	}
}

static void plain_lines_where_no_terminal_is(void **state)
{
	(void)state;
	int fds[2];
	char text[200];
	assert_int_equal(pipe(fds), 0);
	rp_progress p;
	rp_progress_init(&p, "reploid-test", fds[1], false);
	rp_progress_begin(&p, "loading a\033b");
	rp_progress_update(&p, 1, 2);
	rp_progress_end(&p);
	rp_progress_init(&p, "reploid-test", fds[1], true);
	rp_progress_begin(&p, "quiet");
	rp_progress_end(&p);
	close(fds[1]);
	ssize_t n = read(fds[0], text, sizeof text - 1);
	close(fds[0]);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, "reploid-test: loading a\\x1bb\n");
}

static void sizes(void **state)
{
	(void)state;
	char text[32];
	assert_string_equal(rp_size_text(text, sizeof text, 0), "0 B");
	assert_string_equal(rp_size_text(text, sizeof text, 1536), "1.50 KiB");
	assert_string_equal(rp_size_text(text, sizeof text, UINT64_MAX), "16.0 EiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nested, start, end),
		cmocka_unit_test_setup_teardown(pairs, start, end),
		cmocka_unit_test_setup_teardown(pairs, start, end),
		cmocka_unit_test_setup_teardown(strings_are_always_json, start, end),
		cmocka_unit_test_setup_teardown(numbers_read_back, start, end),
		cmocka_unit_test_setup_teardown(misuse_is_reported, start, end),
		cmocka_unit_test_setup_teardown(progress_line_fits, start, end),
		cmocka_unit_test(plain_lines_where_no_terminal_is),
		cmocka_unit_test(sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
