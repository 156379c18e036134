/* Heads of responses, ranges, URLs. Exchanges are tested against a server in tests/net. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/reply.h"

static void feed(rp_net_reply *r, const char *text)
{
	rp_reply_forget(r);
	while (*text != '\0') {
		size_t n = strcspn(text, "\n") + 1;
		rp_reply_header(r, text, n);
		text += n;
	}
	rp_reply_finish(r);
}

static void test_head(void **state)
{
	(void)state;
	rp_net_reply r;
	feed(&r, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/100\r\nETag: \"a b\"\r\nLast-Modified: Tue\r\nContent-Length: 5\r\n\r\n");
	assert_int_equal(r.status, 206);
	assert_int_equal(r.first, 5);
	assert_int_equal(r.last, 9);
	assert_int_equal(r.total, 100);
	assert_int_equal(r.length, 5);
	assert_true(r.framed);
	assert_false(r.encoded);
	assert_string_equal(r.etag, "\"a b\"");
	assert_string_equal(r.modified, "Tue");
	feed(&r, "HTTP/1.1 200 OK\r\nETag: W/\"a b\"\r\n\r\n");
	assert_string_equal(r.etag, "\"a b\"");
	feed(&r, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\ncontent-encoding: gzip\r\n\r\n");
	assert_int_equal(r.total, 7);
	assert_true(r.encoded);
	feed(&r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	assert_true(r.total == RP_NET_UNKNOWN);
	assert_true(r.framed);
	feed(&r, "HTTP/1.0 200 OK\r\n\r\n");
	assert_false(r.framed);
	feed(&r, "HTTP/2 200\r\n\r\n");
	assert_true(r.framed);
}

/* What a redirect says of the linked file is kept; all else belongs to the response it came with. */
static void test_redirect(void **state)
{
	(void)state;
	rp_net_reply r;
	feed(&r, "HTTP/1.1 302 Found\r\nX-Linked-Size: 12\r\nX-Linked-Etag: \"ab\"\r\nETag: \"x\"\r\n\r\nHTTP/1.1 206 OK\r\nContent-Range: bytes 0-0/12\r\n\r\n");
	assert_int_equal(r.linked_size, 12);
	assert_string_equal(r.linked_etag, "\"ab\"");
	assert_string_equal(r.etag, "");
	assert_int_equal(r.total, 12);
}

static void test_nonsense(void **state)
{
	(void)state;
	rp_net_reply r;
	feed(&r, "HTTP/1.1 99999 what\r\nContent-Length: -5\r\nContent-Range: bytes 9-5/100\r\nno colon\r\n: empty\r\n\r\n");
	assert_int_equal(r.status, 0);
	assert_true(r.length == RP_NET_UNKNOWN && r.first == RP_NET_UNKNOWN);
	feed(&r, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n");
	assert_true(r.length == RP_NET_UNKNOWN);
	char longest[700];
	memset(longest, 'e', sizeof longest);
	rp_reply_header(&r, longest, sizeof longest);
	rp_reply_header(&r, "ETag: a\0b\r\n", 11);
	assert_string_equal(r.etag, "");
}

static void test_content_range(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool ok;
		uint64_t first, last, total;
	} cases[] = {
		{"bytes 0-0/1", true, 0, 0, 1}, {"bytes 5-9/*", true, 5, 9, RP_NET_UNKNOWN}, {"bytes */100", true, RP_NET_UNKNOWN, RP_NET_UNKNOWN, 100},
		{"Bytes 1-2/3", true, 1, 2, 3}, {"bytes 5-4/10", false, 0, 0, 0}, {"bytes 0-10/10", false, 0, 0, 0}, {"bytes 0-9", false, 0, 0, 0},
		{"bytes -9/10", false, 0, 0, 0}, {"bytes 0-9/10 ", false, 0, 0, 0}, {"items 0-9/10", false, 0, 0, 0}, {"", false, 0, 0, 0},
		{"bytes 0-18446744073709551616/*", false, 0, 0, 0}, {"bytes 0x0-9/10", false, 0, 0, 0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t a = 77, b = 77, n = 77;
		assert_int_equal(rp_parse_content_range(cases[i].text, &a, &b, &n), cases[i].ok);
		if (cases[i].ok)
			assert_true(a == cases[i].first && b == cases[i].last && n == cases[i].total);
		else
			assert_true(a == 77 && b == 77 && n == 77);
	}
}

static void test_origins(void **state)
{
	(void)state;
	assert_true(rp_net_same_origin("https://a.example/x", "https://A.example:443/y?z"));
	assert_false(rp_net_same_origin("https://a.example/", "http://a.example/"));
	assert_false(rp_net_same_origin("https://a.example/", "https://a.example:444/"));
	assert_false(rp_net_same_origin("https://a.example/", "https://a.example.evil/"));
	assert_false(rp_net_same_origin("https://a.example/", "https://a.example@evil/"));
	assert_true(rp_net_is_private("https://anywhere/"));
	assert_true(rp_net_is_private("http://127.0.0.1:1/"));
	assert_true(rp_net_is_private("http://[::1]/"));
	assert_true(rp_net_is_private("http://localhost/"));
	assert_false(rp_net_is_private("http://127.evil.example/"));
	assert_false(rp_net_is_private("http://localhost.evil/"));
	assert_false(rp_net_is_private("http://localhost@evil/"));
	assert_true(rp_net_has_userinfo("https://u:p@h/"));
	assert_false(rp_net_has_userinfo("https://h/u:p@x"));
	assert_false(rp_net_is_usable("http://[::1"));
	assert_false(rp_net_is_usable("ftp://h/"));
	assert_true(rp_net_is_usable("HTTPS://h/"));
}

static void expect_text(char *got, const char *expected)
{
	assert_non_null(got);
	assert_string_equal(got, expected);
	free(got);
}

static void test_texts(void **state)
{
	(void)state;
	expect_text(rp_net_shown("https://user:secret@h.example/a/b?token=secret#secret"), "https://h.example/a/b");
	expect_text(rp_net_shown("not a url?secret"), "not a url");
	expect_text(rp_net_origin("https://u:p@h.example:8443/a?b"), "https://h.example:8443");
	expect_text(rp_net_join("https://h.example", "/config/x.json"), "https://h.example/config/x.json");
	expect_text(rp_net_join("https://h.example", "https://other/x"), "https://other/x");
	assert_null(rp_net_join("nonsense://", "http://[::1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_redirect),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_content_range),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
