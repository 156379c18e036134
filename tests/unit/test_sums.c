/* Lists of sums, names in messages, and the cache of hashes. What sha256sum itself does with lists is compared in tests/coreutils. */
#include "hash/sums.h"
#include "store/hashcache.h"

#include <locale.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HEX "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define UPPER "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"

static bool parse(rp_sums_reader *r, const char *text, char name[200])
{
	char line[400];
	rp_sums_line out;
	snprintf(line, sizeof line, "%s", text);
	if (!rp_sums_parse(r, line, strlen(line), &out))
		return false;
	char hex[RP_HASH_HEX];
	assert_string_equal(rp_hex(hex, out.digest, RP_HASH_BYTES), HEX);
	snprintf(name, 200, "%s", out.name);
	return true;
}

static void forms(void **state)
{
	static const struct {
		const char *line, *name; /* NULL: malformed */
	} cases[] = {
		{HEX "  a", "a"}, {HEX " *a", "a"}, {HEX "\t a", "a"}, {HEX "   a", " a"}, {"  " HEX "  a", "a"}, {UPPER "  a", "a"},
		{"\\" HEX "  a\\nb\\\\c\\r", "a\nb\\c\r"}, {"\\" HEX "  a\\x", NULL}, {"\\" HEX "  a\\", NULL}, {HEX "  a\\n", "a\\n"},
		{"SHA256 (a) = " HEX, "a"}, {"SHA256(a)= " HEX, "a"}, {"SHA256 (a) b) = " HEX, "a) b"}, {"SHA256 (a)=" HEX, "a"},
		{"\\SHA256 (a\\nb) = " HEX, "a\nb"}, {"SHA256 (a) = " HEX "0", NULL}, {"SHA256 (a) " HEX, NULL}, {"SHA256 a = " HEX, NULL},
		{"SHA256 (a) = " HEX " ", NULL}, {"SHA256 (", NULL}, {"SHA256 ()", NULL}, {"SHA1 (a) = " HEX, NULL}, {HEX, NULL}, {HEX " ", NULL}, {HEX "a  b", NULL},
		{"zz" HEX "  a", NULL}, {"", NULL}, {"\\", NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rp_sums_reader r = {.tag = "SHA256"};
		char name[200];
		bool ok = parse(&r, cases[i].line, name);
		if (ok != (cases[i].name != NULL))
			fail_msg("%s", cases[i].line);
		if (ok)
			assert_string_equal(name, cases[i].name);
	}
}

static void forms_do_not_mix(void **state)
{
	(void)state;
	char name[200];
	rp_sums_reader gnu = {.tag = "SHA256"}, reversed = {.tag = "SHA256"};
	assert_true(parse(&gnu, HEX "  a", name));
	assert_false(parse(&gnu, HEX " a", name));
	assert_true(parse(&reversed, HEX " a", name));
	assert_true(parse(&reversed, HEX "  a", name));
	assert_string_equal(name, " a");
	assert_true(parse(&reversed, HEX " *a", name));
	assert_string_equal(name, "*a");
	assert_true(parse(&reversed, "SHA256 (a) = " HEX, name));
}

static void round_trip(void **state)
{
	static const char *const names[] = {"a", " a", "*", "a\nb", "a\\b", "\r", "(x) = y", "\xc3\xa9", "SHA256 (a) = b"};
	(void)state;
	unsigned char digest[RP_HASH_BYTES];
	rp_unhex(digest, sizeof digest, HEX, 64);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (int tag = 0; tag < 2; tag++) {
			rp_buf line;
			char name[200];
			rp_sums_reader r = {.tag = "SHA256"};
			rp_buf_init(&line, 0);
			rp_sums_write(&line, tag ? "SHA256" : NULL, false, names[i], digest, '\n');
			line.data[--line.len] = '\0';
			assert_null(strchr(line.data, '\n'));
			assert_true(parse(&r, line.data, name));
			assert_string_equal(name, names[i]);
			rp_buf_free(&line);
		}
}

static void shell_names(void **state)
{
	static const char *const cases[][2] = {{"a", "a"}, {"", "''"}, {"a b", "'a b'"}, {"a'b", "\"a'b\""}, {"a'b$", "'a'\\''b$'"},
		{"a\nb", "'a'$'\\n''b'"}, {"\n", "''$'\\n'"}, {"a\001\002", "'a'$'\\001\\002'"}, {"c:d", "'c:d'"}, {"#", "'#'"}, {"a#", "a#"},
		{"{", "'{'"}, {"{}", "{}"}, {"\377", "''$'\\377'"}, {"a]b", "a]b"}, {"'", "\"'\""}};
	(void)state;
	setlocale(LC_CTYPE, "C");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rp_buf out;
		rp_buf_init(&out, 0);
		rp_shell_name(&out, cases[i][0]);
		assert_string_equal(out.data, cases[i][1]);
		rp_buf_free(&out);
	}
}

/* ---- the cache ---- */
static const rp_scan_stamp old = {.device = 1, .inode = 2, .size = 3, .mtime_ns = 4000000000u, .ctime_ns = 5000000000u};

static void cache_remembers(void **state)
{
	(void)state;
	char folder[] = "/tmp/test_sums.XXXXXX";
	assert_non_null(mkdtemp(folder));
	rp_hash_cache *c;
	rp_hash_facts facts = {.sha256_known = true}, found;
	rp_error err;
	memset(facts.sha256, 7, sizeof facts.sha256);
	assert_int_equal(rp_hash_cache_open(folder, &c, &err), RP_OK);
	assert_false(rp_hash_cache_find(c, &old, &found));
	assert_int_equal(rp_hash_cache_put(c, &old, &facts, rp_wall_ns(), &err), RP_OK);
	facts = (rp_hash_facts){.blake3_known = true};
	assert_int_equal(rp_hash_cache_put(c, &old, &facts, rp_wall_ns(), &err), RP_OK);
	assert_int_equal(rp_hash_cache_save(c, &err), RP_OK);
	rp_hash_cache_close(c);
	assert_int_equal(rp_hash_cache_open(folder, &c, &err), RP_OK);
	assert_true(rp_hash_cache_find(c, &old, &found));
	assert_true(found.sha256_known && found.blake3_known && !found.checked_known);
	assert_int_equal(found.sha256[31], 7);
	/* each part of the stamp counts */
	for (size_t i = 0; i < 5; i++) {
		rp_scan_stamp other = old;
		((uint64_t *)&other)[i]++;
		assert_false(rp_hash_cache_find(c, &other, &found));
	}
	/* another state of the same inode takes its place */
	rp_scan_stamp next = old;
	next.mtime_ns++;
	assert_int_equal(rp_hash_cache_put(c, &next, &facts, rp_wall_ns(), &err), RP_OK);
	assert_false(rp_hash_cache_find(c, &old, &found));
	rp_hash_cache_close(c);
	char *path = rp_asprintf("%s/hashes", folder);
	unlink(path);
	free(path);
	rmdir(folder);
}

static void cache_doubts(void **state)
{
	(void)state;
	rp_hash_cache *c;
	rp_error err;
	rp_hash_facts facts = {.sha256_known = true}, found;
	uint64_t now = rp_wall_ns();
	const uint64_t fresh[] = {now, now - 900000000u, now + 5000000000u, UINT64_MAX};
	assert_int_equal(rp_hash_cache_open("/nonexistent", &c, &err), RP_OK);
	for (size_t i = 0; i < 4; i++) {
		rp_scan_stamp s = old;
		s.mtime_ns = fresh[i];
		rp_hash_cache_put(c, &s, &facts, now, &err);
		assert_false(rp_hash_cache_find(c, &s, &found));
		s = old;
		s.ctime_ns = fresh[i];
		rp_hash_cache_put(c, &s, &facts, now, &err);
		assert_false(rp_hash_cache_find(c, &s, &found));
	}
	rp_hash_cache_close(c);
}

static void cache_text(void **state)
{
	static const char *const bad[] = {"", "reploid-hashes/2\n", "reploid-hashes/1", "reploid-hashes/1\n1 2 3 4 5 " HEX " - -",
		"reploid-hashes/1\n1 2 3 4 5 " HEX " -\n", "reploid-hashes/1\n1 2 3 4 " HEX " - -\n", "reploid-hashes/1\n1 2 3 4 5 x - -\n",
		"reploid-hashes/1\n1 2 3 4 -5 - - -\n", "reploid-hashes/1\n18446744073709551616 2 3 4 5 - - -\n",
		"reploid-hashes/1\n1 2 3 4 5 - - -\n\n", "reploid-hashes/1\n1 2 3 4 5 - - - \n", "reploid-hashes/1\n1 2 3 4 5 - - -\n1 2"};
	(void)state;
	rp_hash_cache *c;
	rp_error err;
	assert_int_equal(rp_hash_cache_open("/nonexistent", &c, &err), RP_OK);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (rp_hash_cache_read(c, bad[i], strlen(bad[i])))
			fail_msg("%s", bad[i]);
	static const char good[] = "reploid-hashes/1\n18446744073709551615 2 3 4 5 - " HEX " -\n";
	assert_true(rp_hash_cache_read(c, good, strlen(good)));
	rp_hash_facts found;
	rp_scan_stamp s = {UINT64_MAX, 2, 3, 4, 5};
	assert_true(rp_hash_cache_find(c, &s, &found));
	assert_true(found.blake3_known && !found.sha256_known);
	rp_hash_cache_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms),
		cmocka_unit_test(forms_do_not_mix),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(shell_names),
		cmocka_unit_test(cache_remembers),
		cmocka_unit_test(cache_doubts),
		cmocka_unit_test(cache_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
