/* The streaming decoder: whole characters, stop strings, the same text however the bytes are cut into tokens.
 * The tokenizer has one token for each byte and a few longer ones, so a test says exactly what every id brings. */
#include "text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A tokenizer of the kind with byte fallback: ids 0..255 are bytes, then a special token and the words given. */
enum { SPECIAL = 256, FIRST_WORD = 257 };

static rp_tokenizer *make(const char *const *words, size_t n)
{
	rp_buf b;
	rp_error err;
	rp_tokenizer *t = NULL;
	rp_buf_init(&b, 0);
	rp_buf_adds(&b, "{\"added_tokens\":[{\"id\":256,\"content\":\"<end>\",\"special\":true}],\"decoder\":{\"type\":\"Sequence\",\"decoders\":"
	                "[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{");
	for (unsigned i = 0; i < 256; i++)
		rp_buf_addf(&b, "%s\"<0x%02X>\":%u", i ? "," : "", i, i);
	for (size_t i = 0; i < n; i++)
		rp_buf_addf(&b, ",\"%s\":%zu", words[i], FIRST_WORD + i);
	rp_buf_adds(&b, "},\"merges\":[]}}");
	rp_code code = rp_tokenizer_from_json("test", b.data, b.len, &t, &err);
	if (code != RP_OK)
		print_error("%s\n", err.msg);
	assert_int_equal(code, RP_OK);
	rp_buf_free(&b);
	return t;
}

typedef struct run {
	rp_buf out;
	bool stopped;
} run;

static run decode(const rp_tokenizer *t, const uint32_t *ids, size_t n, const char *const *stops, size_t n_stops, bool flush)
{
	rp_decoder *d;
	rp_error err;
	run r = { .stopped = false };
	rp_buf_init(&r.out, 0);
	assert_int_equal(rp_decoder_new(t, stops, n_stops, &d, &err), RP_OK);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(rp_decoder_push(d, ids[i], false, &r.out, &r.stopped, &err), RP_OK);
		assert_int_equal(rp_utf8_valid(r.out.data, r.out.len), r.out.len);
	}
	if (flush)
		assert_int_equal(rp_decoder_flush(d, &r.out, &err), RP_OK);
	rp_buf_addc(&r.out, '\0');
	rp_decoder_free(d);
	return r;
}

/* Decode the bytes of s, one token each. */
static void expect_bytes(const char *s, size_t n, const char *const *stops, size_t n_stops, const char *want, bool want_stop)
{
	rp_tokenizer *t = make(NULL, 0);
	uint32_t ids[256];
	for (size_t i = 0; i < n; i++)
		ids[i] = (unsigned char)s[i];
	run r = decode(t, ids, n, stops, n_stops, true);
	assert_string_equal(r.out.data, want);
	assert_int_equal(r.stopped, want_stop);
	rp_buf_free(&r.out);
	rp_tokenizer_free(t);
}

#define EXPECT(bytes, want) expect_bytes(bytes, sizeof bytes - 1, NULL, 0, want, false)
#define FFFD "\xEF\xBF\xBD"

static void emoji_split_across_tokens_is_whole(void **state)
{
	(void)state;
	EXPECT("a\xF0\x9F\x98\x80z", "a\xF0\x9F\x98\x80z");
	rp_tokenizer *t = make(NULL, 0);
	static const uint32_t ids[] = { 0xF0, 0x9F, 0x98 };
	run r = decode(t, ids, 3, NULL, 0, false);
	assert_string_equal(r.out.data, ""); /* nothing yet: it may still become a character */
	rp_buf_free(&r.out);
	rp_tokenizer_free(t);
}

static void unfinished_character_is_flushed_once(void **state)
{
	(void)state;
	EXPECT("a\xF0\x9F\x98", "a" FFFD);
}

static void invalid_utf8_is_replaced_by_maximal_subparts(void **state)
{
	(void)state;
	/* the example of the Unicode standard, table 3-8, and its neighbours */
	EXPECT("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
	EXPECT("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
	EXPECT("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
	EXPECT("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", FFFD FFFD FFFD FFFD "A");
}

static void stop_across_tokens(void **state)
{
	static const char *const stops[] = { "\nUser:" };
	(void)state;
	expect_bytes("hello\nUser: hi", 14, stops, 1, "hello", true);
}

static void stop_prefix_is_held_back_then_released(void **state)
{
	static const char *const stops[] = { "</s>" }, *const words[] = { "ab<", "/", "s", "x" };
	static const uint32_t ids[] = { FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2, FIRST_WORD + 3 };
	(void)state;
	rp_tokenizer *t = make(words, 4);
	run held = decode(t, ids, 3, stops, 1, false), released = decode(t, ids, 4, stops, 1, false);
	assert_string_equal(held.out.data, "ab");
	assert_string_equal(released.out.data, "ab</sx");
	rp_buf_free(&held.out);
	rp_buf_free(&released.out);
	rp_tokenizer_free(t);
}

static void held_text_is_flushed_when_another_reason_ends_it(void **state)
{
	static const char *const stops[] = { "STOP" };
	(void)state;
	expect_bytes("abc ST", 6, stops, 1, "abc ST", false);
}

static void overlapping_stops(void **state)
{
	static const char *const one[] = { "aab" }, *const several[] = { "abcd", "bc", "xbc" };
	(void)state;
	expect_bytes("aaaab", 5, one, 1, "aa", true);
	expect_bytes("zabcd", 5, several, 3, "za", true); /* "bc" is complete first */
	expect_bytes("zxbcd", 5, several, 3, "z", true);  /* of "bc" and "xbc", complete at once, the longer */
}

static void stop_inside_of_one_token(void **state)
{
	static const char *const stops[] = { "." }, *const words[] = { "one. two." };
	static const uint32_t ids[] = { FIRST_WORD, FIRST_WORD };
	(void)state;
	rp_tokenizer *t = make(words, 1);
	run r = decode(t, ids, 2, stops, 1, true);
	assert_string_equal(r.out.data, "one");
	assert_true(r.stopped);
	rp_buf_free(&r.out);
	rp_tokenizer_free(t);
}

static void stop_of_many_bytes_is_cut_between_characters(void **state)
{
	static const char *const stops[] = { "\xC3\xA9nd" }; /* begins with the first byte of many letters */
	(void)state;
	expect_bytes("caf\xC3\xA8 \xC3\xA9n\xC3\xA9nd!", 15, stops, 1, "caf\xC3\xA8 \xC3\xA9n", true);
}

static void special_tokens_give_no_text_unless_asked(void **state)
{
	rp_tokenizer *t = make(NULL, 0);
	rp_decoder *d;
	rp_error err;
	rp_buf out;
	bool stopped;
	(void)state;
	rp_buf_init(&out, 0);
	assert_int_equal(rp_decoder_new(t, NULL, 0, &d, &err), RP_OK);
	assert_int_equal(rp_decoder_push(d, 'a', false, &out, &stopped, &err), RP_OK);
	assert_int_equal(rp_decoder_push(d, SPECIAL, false, &out, &stopped, &err), RP_OK);
	assert_int_equal(rp_decoder_push(d, 4000000, false, &out, &stopped, &err), RP_OK); /* a row of the matrix without a token */
	assert_string_equal(out.data, "a");
	assert_int_equal(rp_decoder_push(d, SPECIAL, true, &out, &stopped, &err), RP_OK);
	assert_string_equal(out.data, "a<end>");
	rp_decoder_free(d);
	rp_buf_free(&out);
	rp_tokenizer_free(t);
}

static void bad_stops_are_refused(void **state)
{
	static const char *const empty[] = { "" }, *const broken[] = { "\xC3" };
	rp_tokenizer *t = make(NULL, 0);
	rp_decoder *d;
	rp_error err;
	(void)state;
	assert_int_equal(rp_decoder_new(t, empty, 1, &d, &err), RP_USAGE);
	assert_int_equal(rp_decoder_new(t, broken, 1, &d, &err), RP_USAGE);
	rp_tokenizer_free(t);
}

/* Any cut of a byte string into tokens gives the same text, with and without stop strings. */
static void every_split_gives_the_same_text(void **state)
{
	static const char *const texts[] = { "caf\xC3\xA9 \xF0\x9F\x98\x80\xE2\x82", "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "xx</s </s></s>yy",
		"a\xCC\x81" "b\xFF" "ab\xC3\xA9" };
	static const char *const stops[] = { "</s>", "b\xC3\xA9" };
	(void)state;
	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
		size_t n = strlen(texts[k]);
		uint32_t ids[64];
		for (size_t i = 0; i < n; i++)
			ids[i] = (unsigned char)texts[k][i];
		rp_tokenizer *t = make(NULL, 0);
		for (size_t n_stops = 0; n_stops <= 2; n_stops++) {
			rp_error err;
			run whole = decode(t, ids, n, stops, n_stops, true);
			for (size_t cut = 0; cut <= n; cut++) { /* two calls' worth, flushed only at the end */
				rp_decoder *d;
				rp_buf a, b;
				bool stopped;
				rp_buf_init(&a, 0);
				rp_buf_init(&b, 0);
				assert_int_equal(rp_decoder_new(t, stops, n_stops, &d, &err), RP_OK);
				for (size_t i = 0; i < n; i++)
					assert_int_equal(rp_decoder_push(d, ids[i], false, i < cut ? &a : &b, &stopped, &err), RP_OK);
				assert_int_equal(rp_decoder_flush(d, &b, &err), RP_OK);
				assert_int_equal(rp_utf8_valid(a.data, a.len), a.len);
				rp_buf_add(&a, b.data, b.len);
				rp_buf_addc(&a, '\0');
				assert_string_equal(a.data, whole.out.data);
				rp_buf_free(&a);
				rp_buf_free(&b);
				rp_decoder_free(d);
			}
			rp_buf_free(&whole.out);
		}
		rp_tokenizer_free(t);
	}
}

/* The same text from tokens of other lengths: pairs and triples of its characters. */
static void longer_tokens_give_the_same_text(void **state)
{
	static const char text[] = "one two</sthree</s>four";
	static const char *const stops[] = { "</s>", "four" };
	(void)state;
	for (size_t size = 1; size <= sizeof text - 1; size++) {
		char words[32][32];
		const char *list[32];
		uint32_t ids[32];
		size_t n = 0;
		for (size_t at = 0; at < sizeof text - 1; at += size, n++) {
			snprintf(words[n], sizeof words[n], "%.*s", (int)size, text + at);
			list[n] = words[n];
			ids[n] = (uint32_t)(FIRST_WORD + n);
		}
		for (size_t i = 0; i < n; i++) /* no word twice in a vocabulary */
			for (size_t k = 0; k < i; k++)
				if (strcmp(words[i], words[k]) == 0) {
					ids[i] = ids[k];
					snprintf(words[i], sizeof words[i], "unused%zu", i);
				}
		rp_tokenizer *t = make(list, n);
		run r = decode(t, ids, n, stops, 2, true);
		assert_string_equal(r.out.data, "one two</sthree");
		assert_true(r.stopped);
		rp_buf_free(&r.out);
		rp_tokenizer_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emoji_split_across_tokens_is_whole),
		cmocka_unit_test(unfinished_character_is_flushed_once),
		cmocka_unit_test(invalid_utf8_is_replaced_by_maximal_subparts),
		cmocka_unit_test(stop_across_tokens),
		cmocka_unit_test(stop_prefix_is_held_back_then_released),
		cmocka_unit_test(held_text_is_flushed_when_another_reason_ends_it),
		cmocka_unit_test(overlapping_stops),
		cmocka_unit_test(stop_inside_of_one_token),
		cmocka_unit_test(stop_of_many_bytes_is_cut_between_characters),
		cmocka_unit_test(special_tokens_give_no_text_unless_asked),
		cmocka_unit_test(bad_stops_are_refused),
		cmocka_unit_test(every_split_gives_the_same_text),
		cmocka_unit_test(longer_tokens_give_the_same_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
