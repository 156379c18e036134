#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hash/hash.h"

static const char *const paths[] = { "portable", "sse4.1", "avx2", "avx512" };
enum { N_PATHS = sizeof paths / sizeof *paths };

static unsigned char *pattern(size_t n)
{
	unsigned char *p = malloc(n + 1);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i % 251);
	return p;
}

static void blake3_gives_the_published_vectors(void **state)
{
	(void)state;
	char *text, hex[2 * 131 + 1];
	size_t len, seen = 0;
	assert_int_equal(rp_read_file("tests/golden/hash/blake3.txt", 1 << 20, &text, &len, NULL), RP_OK);
	unsigned char *in = pattern(102400), out[131];
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		size_t n;
		char want[2 * 131 + 1];
		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%zu %262s", &n, want), 2);
		for (int p = 0; p < N_PATHS; p++) {
			if (!rp_blake3_force(paths[p]))
				continue;
			rp_blake3 h;
			rp_blake3_init(&h);
			rp_blake3_update(&h, in, n);
			rp_blake3_final(&h, out, sizeof out);
			assert_string_equal(rp_hex(hex, out, sizeof out), want);
		}
		seen++;
	}
	rp_blake3_force(NULL);
	assert_int_equal(seen, 35);
	free(in);
	free(text);
}

/* However the input is cut, and on every path, the answer is one. */
static void blake3_does_not_depend_on_the_cuts(void **state)
{
	(void)state;
	enum { N = 300 * 1024 + 77 };
	unsigned char *in = pattern(N), want[32], got[32];
	uint32_t random = 1;
	rp_blake3_force("portable");
	rp_blake3_once(in, N, want);
	for (int p = 0; p < N_PATHS; p++) {
		if (!rp_blake3_force(paths[p]))
			continue;
		for (int turn = 0; turn < 8; turn++) {
			rp_blake3 h;
			rp_blake3_init(&h);
			for (size_t at = 0; at < N;) {
				random = random * 1664525 + 1013904223;
				size_t step = (random >> 8) % (turn < 4 ? 3000 : 150000);
				step = step < N - at ? step : N - at;
				rp_blake3_update(&h, in + at, step);
				at += step;
			}
			rp_blake3_final(&h, got, sizeof got);
			assert_memory_equal(got, want, sizeof want);
		}
	}
	rp_blake3_force(NULL);
	free(in);
}

static void blake3_subtrees_join(void **state)
{
	(void)state;
	enum { PART = 64 * 1024, N = 5 * PART + 1 };
	unsigned char *in = pattern(N), want[32], got[32];
	rp_blake3_once(in, N, want);
	rp_blake3 h;
	rp_blake3_init(&h);
	for (size_t i = 0; i < 5; i++) {
		uint32_t cv[8];
		rp_blake3_subtree(in + i * PART, PART, i * PART / RP_BLAKE3_CHUNK, cv);
		rp_blake3_push(&h, cv, PART / RP_BLAKE3_CHUNK);
	}
	rp_blake3_update(&h, in + 5 * PART, 1);
	rp_blake3_final(&h, got, sizeof got);
	assert_memory_equal(got, want, sizeof want);
	free(in);
}

static void sha256_gives_the_published_vectors(void **state)
{
	(void)state;
	/* FIPS 180-4 examples */
	static const struct {
		const char *in, *hex;
	} cases[] = {
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
			"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	unsigned char out[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	rp_sha256 *h;
	assert_int_equal(rp_sha256_new(&h, NULL), RP_OK);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t n = strlen(cases[i].in);
		rp_sha256_once(cases[i].in, n, out);
		assert_string_equal(rp_hex(hex, out, sizeof out), cases[i].hex);
		rp_sha256_reset(h);
		rp_sha256_update(h, cases[i].in, n / 2);
		rp_sha256_update(h, cases[i].in + n / 2, n - n / 2);
		rp_sha256_final(h, out);
		assert_string_equal(rp_hex(hex, out, sizeof out), cases[i].hex);
	}
	rp_sha256_free(h);
}

static void hex_is_strict(void **state)
{
	(void)state;
	unsigned char b[2];
	char hex[5];
	assert_true(rp_unhex(b, 2, "0aFf", 4));
	assert_string_equal(rp_hex(hex, b, 2), "0aff");
	assert_false(rp_unhex(b, 2, "0aFf0", 5));
	assert_false(rp_unhex(b, 2, "0aF", 3));
	assert_false(rp_unhex(b, 2, "0aFg", 4));
	assert_false(rp_unhex(b, 2, " aFf", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blake3_gives_the_published_vectors),
		cmocka_unit_test(blake3_does_not_depend_on_the_cuts),
		cmocka_unit_test(blake3_subtrees_join),
		cmocka_unit_test(sha256_gives_the_published_vectors),
		cmocka_unit_test(hex_is_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
