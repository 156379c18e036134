#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "model/model.h"

static rp_code parse(const char *text, size_t n, cJSON **v, rp_error *e)
{
	/* an own copy without a NUL, so that a sanitizer sees any read past the end */
	char *copy = rp_alloc(n);
	memcpy(copy, text, n);
	rp_code rc = rp_json_parse("x.json", copy, n, v, e);
	free(copy);
	return rc;
}

static void legal_text_is_read(void **state)
{
	(void)state;
	static const char *const texts[] = { "0", "-0.5e+10", "[]", "{}", " [ 1 , 2 ] \n", "\"\\u00e9\\ud83d\\ude00\\n\"", "true",
		"null", "{\"a\":{\"a\":1},\"b\":[{\"a\":2},{\"a\":3}]}", "\"\xF0\x9F\x98\x80\"", "1e308", "{\"\":0}" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		cJSON *v = NULL;
		rp_error e;
		if (parse(texts[i], strlen(texts[i]), &v, &e) != RP_OK)
			fail_msg("%s: %s", texts[i], e.msg);
		cJSON_Delete(v);
	}
	cJSON *v = NULL;
	assert_int_equal(parse("\"\\ud83d\\ude00\"", 14, &v, NULL), RP_OK);
	assert_string_equal(v->valuestring, "\xF0\x9F\x98\x80");
	cJSON_Delete(v);
}

#define CASE(text, word) { text, sizeof text - 1, word }

static void malformed_text_is_refused_with_its_place(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t n;
		const char *word;
	} cases[] = { CASE("", "too early"), CASE("  ", "too early"), CASE("{", "too early"), CASE("[1,", "too early"),
		CASE("\"abc", "too early"), CASE("[1 2]", "byte 4: expected ','"),
		CASE("{\n\"a\":1,\n}", "line 3, byte 1: expected a key"), CASE("[1,]", "expected a value"),
		CASE("{\"a\" 1}", "expected ':'"), CASE("{a:1}", "expected a key"), CASE("1 2", "more text"), CASE("{}x", "more text"),
		CASE("nul", "expected a value"), CASE("True", "expected a value"), CASE("NaN", "expected a value"),
		CASE("01", "more text"), CASE("1.", "too early"), CASE("1.x", "after the point"), CASE("1ex", "exponent"),
		CASE("+1", "expected a value"), CASE("-", "too early"), CASE("1e999", "too large"), CASE("-1e999", "too large"),
		CASE("1234567890123456789012345678901234567890123456789012345678901234", "more than 63"),
		CASE("\"\\x41\"", "unknown escape"), CASE("\"\\u12g4\"", "hexadecimal"), CASE("\"\\u12", "hexadecimal"),
		CASE("\"\\ud800\"", "surrogate"), CASE("\"\\ud800\\u0041\"", "surrogate"), CASE("\"\\udc00\"", "surrogate"),
		CASE("\"a\nb\"", "control character"), CASE("\"\\u0000\"", "NUL"), CASE("[1\0]", "NUL"), CASE("\"a\0b\"", "NUL"),
		CASE("1\0", "NUL"), CASE("\"\xff\"", "not UTF-8"), CASE("\"\xED\xA0\x80\"", "not UTF-8"),
		CASE("\xEF\xBB\xBF{}", "expected a value"), CASE("{} // c", "more text"), CASE("['a']", "expected a value") };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cJSON *v = NULL;
		rp_error e = { 0 };
		rp_code rc = parse(cases[i].text, cases[i].n, &v, &e);
		if (rc != RP_FORMAT || strstr(e.msg, cases[i].word) == NULL)
			fail_msg("'%s': %s '%s', expected '%s'", cases[i].text, rp_code_word(rc), e.msg, cases[i].word);
		assert_null(v);
		assert_non_null(strstr(e.msg, "x.json: line "));
	}
}

/* openasr#73: of two keys the last one won. */
static void duplicate_keys_are_refused(void **state)
{
	(void)state;
	static const char *const texts[] = { "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "[{\"x\":{\"b\":1,\"c\":2,\"b\":[]}}]",
		"{\"\":1,\"\":2}" };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		cJSON *v = NULL;
		rp_error e = { 0 };
		assert_int_equal(parse(texts[i], strlen(texts[i]), &v, &e), RP_FORMAT);
		assert_non_null(strstr(e.msg, "twice"));
	}
}

static void depth_is_bounded(void **state)
{
	(void)state;
	char text[400];
	cJSON *v = NULL;
	rp_error e;
	for (size_t depth = 63; depth <= 66; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		rp_code rc = parse(text, 2 * depth, &v, &e);
		assert_int_equal(rc, depth <= 64 ? RP_OK : RP_FORMAT);
		if (rc == RP_OK)
			cJSON_Delete(v);
	}
	size_t n = 10 << 20; /* no recursion per byte */
	char *deep = rp_alloc(n);
	memset(deep, '[', n);
	assert_int_equal(rp_json_parse("x.json", deep, n, &v, &e), RP_FORMAT);
	free(deep);
}

static void whole_numbers_are_exact(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool ok;
		uint64_t value;
	} cases[] = { { "0", true, 0 }, { "7.0", true, 7 }, { "9007199254740992", true, 1ull << 53 },
		{ "9007199254740994", false, 0 }, { "1e300", false, 0 }, { "-1", false, 0 }, { "0.5", false, 0 }, { "\"1\"", false, 0 },
		{ "true", false, 0 }, { "-0", true, 0 }, { "1e3", true, 1000 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cJSON *v = NULL;
		uint64_t n = 99;
		assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &v, NULL), RP_OK);
		assert_int_equal(rp_json_whole(v, &n), cases[i].ok);
		assert_int_equal(n, cases[i].ok ? cases[i].value : 99);
		cJSON_Delete(v);
	}
	uint64_t n;
	assert_false(rp_json_whole(NULL, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legal_text_is_read),
		cmocka_unit_test(malformed_text_is_refused_with_its_place),
		cmocka_unit_test(duplicate_keys_are_refused),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(whole_numbers_are_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
