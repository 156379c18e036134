/* Statements of model signatures: what is read, and what is refused before any file is opened. Whole signatures are compared with
 * the reference in tests/sign/run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hash/hash.h"
#include "sign/oms.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* A statement with these names, all with the digest A. serialization: members. */
static char *statement(const char *serialization, const char *algorithm, const char *const *names)
{
	unsigned char digests[8 * 32] = {0}, root[32];
	char hex[65];
	rp_buf out;
	size_t n = 0;
	while (names[n] != NULL)
		memset(digests + 32 * n++, 0xaa, 32);
	rp_sha256_once(digests, 32 * n, root);
	rp_buf_init(&out, 0);
	rp_buf_addf(&out, "{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicateType\":\"https://model_signing/signature/v1.0\","
		"\"subject\":[{\"name\":\"m\",\"digest\":{\"sha256\":\"%s\"}}],\"predicate\":{\"serialization\":{%s},\"resources\":[",
		rp_hex(hex, root, 32), serialization);
	for (size_t i = 0; i < n; i++)
		rp_buf_addf(&out, "%s{\"name\":\"%s\",\"algorithm\":\"%s\",\"digest\":\"" A "\"}", i > 0 ? "," : "", names[i], algorithm);
	rp_buf_adds(&out, "]}}");
	return rp_buf_take(&out, NULL);
}

#define FILES "\"method\":\"files\",\"hash_type\":\"sha256\",\"allow_symlinks\":false,\"ignore_paths\":[\".git\",\"a/b\"]"
#define SHARDS "\"method\":\"shards\",\"hash_type\":\"sha256\",\"shard_size\":10,\"allow_symlinks\":true"

static void outcome(const char *serialization, const char *algorithm, const char *const *names, rp_code code, const char *says)
{
	rp_oms oms;
	rp_error err = {0};
	char *text = statement(serialization, algorithm, names);
	rp_code got = rp_oms_statement("s", text, strlen(text), &oms, &err);
	if (got != code || (says != NULL && strstr(err.msg, says) == NULL))
		fail_msg("got %d \"%s\" for %s", (int)got, err.msg, text);
	rp_oms_free(&oms);
	free(text);
}

static void files(void **state)
{
	(void)state;
	static const char *const names[] = {"z/b.bin", "a.bin", NULL};
	rp_oms oms;
	rp_error err;
	char *text = statement(FILES, "sha256", names);
	assert_int_equal(rp_oms_statement("s", text, strlen(text), &oms, &err), RP_OK);
	assert_int_equal(oms.n_files, 2);
	assert_string_equal(oms.files[0].path, "a.bin"); /* in order */
	assert_false(oms.links || oms.sharded || oms.blake3);
	assert_true(rp_oms_ignores(&oms, ".git") && rp_oms_ignores(&oms, ".git/HEAD") && rp_oms_ignores(&oms, "a/b/c"));
	assert_false(rp_oms_ignores(&oms, ".gitignore") || rp_oms_ignores(&oms, "a") || rp_oms_ignores(&oms, "b/.git"));
	rp_oms_free(&oms);
	/* one digit of the root */
	char *digit = strstr(text, "\"sha256\":\"") + 10;
	*digit = *digit == '0' ? '1' : '0';
	assert_int_equal(rp_oms_statement("s", text, strlen(text), &oms, &err), RP_SIGNATURE);
	rp_oms_free(&oms);
	free(text);
}

static void shards(void **state)
{
	(void)state;
	static const char *const good[] = {"a:0:10", "a:10:15", "b:0:3", NULL}, *const gap[] = {"a:0:10", "a:11:15", NULL};
	static const char *const late[] = {"a:1:10", NULL}, *const empty[] = {"a:0:0", NULL}, *const none[] = {"a", NULL};
	static const char *const large[] = {"a:0:18446744073709551616", NULL}, *const apart[] = {"a:0:10", "b:0:3", "a:0:10", NULL};
	rp_oms oms;
	rp_error err;
	char *text = statement(SHARDS, "sha256-sharded-10", good);
	assert_int_equal(rp_oms_statement("s", text, strlen(text), &oms, &err), RP_OK);
	assert_int_equal(oms.n_files, 2);
	assert_int_equal(oms.files[0].n_shards, 2);
	assert_int_equal(oms.files[0].shards[1].end, 15);
	assert_true(oms.links && oms.sharded);
	rp_oms_free(&oms);
	free(text);
	outcome(SHARDS, "sha256-sharded-10", gap, RP_FORMAT, "do not follow each other");
	outcome(SHARDS, "sha256-sharded-10", late, RP_FORMAT, "do not follow each other");
	outcome(SHARDS, "sha256-sharded-10", empty, RP_FORMAT, "path:start:end");
	outcome(SHARDS, "sha256-sharded-10", none, RP_FORMAT, "path:start:end");
	outcome(SHARDS, "sha256-sharded-10", large, RP_FORMAT, "path:start:end");
	outcome(SHARDS, "sha256-sharded-10", apart, RP_FORMAT, "twice");
}

static void hostile_paths(void **state)
{
	(void)state;
	static const char *const paths[] = {"/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b", "a/", "./a", "a/./b", ""};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		const char *const names[] = {paths[i], NULL};
		outcome(FILES, "sha256", names, RP_FORMAT, "predicate.resources[].name");
	}
	static const char *const twice[] = {"a", "a", NULL}, *const whole_and_more[] = {".", "a", NULL}, *const more_and_whole[] = {"!", ".", NULL};
	outcome(FILES, "sha256", twice, RP_FORMAT, "twice");
	outcome(FILES, "sha256", whole_and_more, RP_FORMAT, "among others");
	outcome(FILES, "sha256", more_and_whole, RP_FORMAT, "among others");
}

static void other_hashes(void **state)
{
	(void)state;
	static const char *const names[] = {"a", NULL};
	outcome("\"method\":\"files\",\"hash_type\":\"blake2b\",\"allow_symlinks\":false", "blake2b", names, RP_UNSUPPORTED, "hash_type");
	outcome("\"method\":\"tree\",\"hash_type\":\"sha256\",\"allow_symlinks\":false", "sha256", names, RP_UNSUPPORTED, "method");
	outcome("\"method\":\"files\",\"hash_type\":\"sha256\"", "sha256", names, RP_FORMAT, "allow_symlinks");
	outcome(FILES, "blake3", names, RP_FORMAT, "algorithm");
	outcome(FILES, "sha256-sharded-10", names, RP_FORMAT, "algorithm");
}

/* What is signed reads back, and only with its own key. */
static void signing(void **state)
{
	(void)state;
	static const rp_key_kind kinds[] = {RP_KEY_P256, RP_KEY_ED25519};
	rp_oms_file files[] = {{.path = "a \"b\"", .digest = {1}}, {.path = "sub/\xc3\xa9", .digest = {2}}};
	const char *ignored[] = {".git", "model.sig"};
	rp_oms model = {.model = "name", .blake3 = true, .ignored = ignored, .n_ignored = 2, .files = files, .n_files = 2}, back;
	rp_identity id, other;
	rp_error err;
	rp_buf text;
	rp_buf_init(&text, 0);
	assert_int_equal(rp_identity_new(kinds[0], &id, &err), RP_OK);
	assert_int_equal(rp_identity_new(kinds[0], &other, &err), RP_OK);
	assert_int_equal(rp_oms_sign(&model, &id, &text, &err), RP_OK);
	assert_int_equal(rp_oms_verify("s", text.data, text.len, &id.key, &back, &err), RP_OK);
	assert_int_equal(back.n_files, 2);
	assert_string_equal(back.model, "name");
	assert_true(back.blake3 && !back.sharded && !back.links);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(back.files[i].path, files[i].path);
		assert_memory_equal(back.files[i].digest, files[i].digest, 32);
	}
	assert_true(rp_oms_ignores(&back, ".git/HEAD") && rp_oms_ignores(&back, "model.sig") && !rp_oms_ignores(&back, "model.sigh"));
	rp_oms_free(&back);
	assert_int_equal(rp_oms_verify("s", text.data, text.len, &other.key, &back, &err), RP_SIGNATURE);
	rp_oms_free(&back);
	rp_identity_wipe(&id);
	assert_int_equal(rp_identity_new(kinds[1], &id, &err), RP_OK);
	rp_buf_clear(&text);
	assert_int_equal(rp_oms_sign(&model, &id, &text, &err), RP_UNSUPPORTED);
	rp_buf_free(&text);
	rp_identity_wipe(&id);
	rp_identity_wipe(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(files), cmocka_unit_test(signing), cmocka_unit_test(shards), cmocka_unit_test(hostile_paths),
		cmocka_unit_test(other_hashes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
