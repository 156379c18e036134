/* The piece index: layout, checks, names; local trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/pieces.h"

#define Z64 "0000000000000000000000000000000000000000000000000000000000000000"

/* The example of the format: one shard of eight bytes in two pieces. */
static const char example[] =
	"{\n  \"schema\": \"doppler.verified-pieces/v1\",\n  \"manifestIdentity\": \"sha256:%s\",\n  \"maxPieceBytes\": 4,\n"
	"  \"files\": [\n    {\n      \"path\": \"w.bin\",\n      \"size\": 8,\n      \"pieces\": [\n"
	"        {\n          \"offset\": 0,\n          \"size\": 4,\n          \"identity\": \"sha256:"
	"9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a\"\n        },\n"
	"        {\n          \"offset\": 4,\n          \"size\": 4,\n          \"identity\": \"sha256:"
	"fa6b5e6ae0b2ba3a7d4b9e7b1f7d3f4bcbd7ea9bbdd7d1a6c1a9f1d7b6c0a4d2\"\n        }\n      ]\n    }\n  ]\n}\n";
static const char manifest[] = "{\"shards\":[{\"filename\":\"w.bin\",\"size\":8}]}";

static char *text_of_example(void)
{
	unsigned char hash[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	rp_sha256_once(manifest, strlen(manifest), hash);
	return rp_asprintf(example, rp_hex(hex, hash, sizeof hash));
}

static rp_piece_index *parsed(const char *text)
{
	rp_piece_index *index = NULL;
	rp_error err;
	if (rp_piece_index_parse("pieces.json", text, strlen(text), &index, &err) != RP_OK)
		fail_msg("%s", err.msg);
	return index;
}

static void test_round_trip(void **state)
{
	(void)state;
	char *text = text_of_example();
	rp_piece_index *index = parsed(text);
	assert_int_equal(index->n_files, 1);
	assert_int_equal(index->max_piece, 4);
	const rp_piece_file *file = rp_piece_index_find(index, "w.bin");
	assert_non_null(file);
	assert_null(rp_piece_index_find(index, "x.bin"));
	assert_int_equal(file->n_pieces, 2);
	assert_int_equal(file->pieces[1].offset, 4);
	rp_buf out;
	rp_buf_init(&out, 0);
	rp_piece_index_write(index, &out);
	assert_string_equal(out.data, text);
	rp_buf_free(&out);
	rp_error err;
	assert_int_equal(rp_piece_index_check_manifest(index, "pieces.json", "manifest.json", manifest, strlen(manifest), &err), RP_OK);
	assert_int_equal(rp_piece_index_check_manifest(index, "pieces.json", "manifest.json", "{}", 2, &err), RP_HASH);
	rp_piece_index_free(index);
	free(text);
}

/* The published index of the 0.8B has fixed pieces of 4 MiB: 19 files, 277 pieces, 50,016 bytes, 1,506 lines. */
static void test_published_size(void **state)
{
	(void)state;
	rp_piece_index index = {.max_piece = RP_PIECE_BYTES, .n_files = 19};
	index.files = calloc(19, sizeof *index.files);
	rp_piece *all = calloc(300, sizeof *all);
	char names[19][20];
	size_t used = 0;
	for (size_t i = 0; i < 19; i++) {
		rp_piece_file *f = &index.files[i];
		snprintf(names[i], sizeof names[i], i < 18 ? "shard_%05zu.bin" : "tokenizer.json", i);
		f->path = names[i];
		f->size = i < 17 ? 67108864 : i == 17 ? 1146048704 - 17 * 67108864ull : 9088480;
		f->n_pieces = rp_piece_count(f->size, RP_PIECE_BYTES);
		f->pieces = all + used;
		for (size_t k = 0; k < f->n_pieces; k++) {
			uint64_t offset = k * (uint64_t)RP_PIECE_BYTES, left = f->size - offset;
			all[used].offset = offset;
			all[used++].size = left < RP_PIECE_BYTES ? left : RP_PIECE_BYTES;
		}
	}
	rp_buf out;
	rp_buf_init(&out, 0);
	rp_piece_index_write(&index, &out);
	size_t lines = 0;
	for (size_t i = 0; i < out.len; i++)
		lines += out.data[i] == '\n';
	assert_int_equal(used, 277);
	assert_int_equal(out.len, 50016);
	assert_int_equal(lines, 1506);
	rp_piece_index_free(parsed(out.data));
	rp_buf_free(&out);
	free(all);
	free(index.files);
}

#define INDEX(max, files) \
	"{\"schema\":\"doppler.verified-pieces/v1\",\"manifestIdentity\":\"sha256:" Z64 "\",\"maxPieceBytes\":" max ",\"files\":" files "}"
#define ID "\"identity\":\"sha256:" Z64 "\""
#define ONE(path, size, pieces) "[{\"path\":\"" path "\",\"size\":" size ",\"pieces\":" pieces "}]"

static void test_refusals(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"[]", "not a JSON object"},
		{"{\"schema\":\"other\"}", "schema is \"other\""},
		{INDEX("0", "[]"), "maxPieceBytes is 0"},
		{INDEX("9007199254740992", "[]"), "maxPieceBytes"},
		{INDEX("4.5", "[]"), "maxPieceBytes"},
		{INDEX("-4", "[]"), "maxPieceBytes"},
		{INDEX("4", "{}"), "files is an object"},
		{INDEX("4", ONE("../w", "4", "[{\"offset\":0,\"size\":4," ID "}]")), "files[0].path is \"../w\""},
		{INDEX("4", ONE("/etc/passwd", "4", "[]")), "files[0].path"},
		{INDEX("4", ONE("..", "4", "[]")), "files[0].path"},
		{INDEX("4", ONE("a b", "4", "[]")), "files[0].path"},
		{INDEX("4", ONE("w", "0", "[]")), "files[0].size is 0"},
		{INDEX("4", ONE("w", "4", "[]")), "files[0].size is 4, but its pieces add up to 0"},
		{INDEX("4", ONE("w", "9007199254740993", "[]")), "files[0].size"},
		{INDEX("4", ONE("w", "8", "[{\"offset\":0,\"size\":8," ID "}]")), "files[0].pieces[0].size is 8, expected at most maxPieceBytes"},
		{INDEX("4", ONE("w", "4", "[{\"offset\":1,\"size\":3," ID "}]")), "files[0].pieces[0].offset is 1"},
		{INDEX("4", ONE("w", "4", "[{\"offset\":0,\"size\":2," ID "},{\"offset\":3,\"size\":1," ID "}]")), "files[0].pieces[1].offset is 3"},
		{INDEX("4", ONE("w", "4", "[{\"offset\":0,\"size\":0," ID "}]")), "files[0].pieces[0].size is 0"},
		{INDEX("4", ONE("w", "4", "[{\"offset\":0,\"size\":4,\"identity\":\"" Z64 "\"}]")), "files[0].pieces[0].identity"},
		{INDEX("4", "[{\"path\":\"w\",\"size\":1,\"pieces\":[{\"offset\":0,\"size\":1," ID "}]},"
			"{\"path\":\"w\",\"size\":1,\"pieces\":[{\"offset\":0,\"size\":1," ID "}]}]"), "is there twice"},
		{"{\"schema\":\"doppler.verified-pieces/v1\",\"schema\":\"x\"}", "twice"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rp_piece_index *index = NULL;
		rp_error err;
		assert_int_equal(rp_piece_index_parse("p.json", cases[i].text, strlen(cases[i].text), &index, &err), RP_FORMAT);
		assert_null(index);
		if (strstr(err.msg, cases[i].says) == NULL)
			fail_msg("case %zu says: %s", i, err.msg);
	}
}

static void test_manifest_must_fit(void **state)
{
	(void)state;
	static const char *const shards[] = {"[{\"filename\":\"v.bin\",\"size\":8}]", "[{\"filename\":\"w.bin\",\"size\":9}]", "{}",
		"[{\"filename\":\"../w.bin\",\"size\":8}]"};
	char *text = text_of_example();
	rp_piece_index *index = parsed(text);
	for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
		char *other = rp_asprintf("{\"shards\":%s}", shards[i]);
		rp_error err;
		rp_sha256_once(other, strlen(other), index->manifest);
		rp_code rc = rp_piece_index_check_manifest(index, "p.json", "m.json", other, strlen(other), &err);
		assert_true(rc == RP_MODEL || rc == RP_FORMAT);
		assert_non_null(strstr(err.msg, "m.json: shards"));
		free(other);
	}
	rp_piece_index_free(index);
	free(text);
}

static void test_digest(void **state)
{
	(void)state;
	unsigned char out[RP_HASH_BYTES];
	assert_true(rp_digest_parse("sha256:" Z64, out));
	assert_false(rp_digest_parse(Z64, out));
	assert_false(rp_digest_parse("sha256:" Z64 "0", out));
	assert_false(rp_digest_parse("sha256:A" Z64, out));
	assert_true(rp_piece_name_valid("shard_00000.bin"));
	assert_false(rp_piece_name_valid("."));
	assert_false(rp_piece_name_valid(""));
	assert_false(rp_piece_name_valid("a/b"));
}

static void test_trees(void **state)
{
	(void)state;
	char folder[] = "/tmp/test_pieces.XXXXXX";
	assert_non_null(mkdtemp(folder));
	unsigned char hashes[3][RP_HASH_BYTES] = {{1}, {2}, {3}};
	const char *sources[] = {"https://a.example/m.gguf"};
	rp_tree t = {.size = 2 * (uint64_t)RP_PIECE_BYTES + 5, .piece_bytes = RP_PIECE_BYTES, .pieces = hashes, .n_pieces = 3, .sources = sources, .n_sources = 1};
	rp_error err;
	assert_int_equal(rp_tree_save(folder, &t, &err), RP_OK);
	assert_int_equal(rp_tree_save(folder, &t, &err), RP_OK); /* the same one again */
	t.whole_known = true;
	hashes[2][31] = 9;
	assert_int_equal(rp_tree_save(folder, &t, &err), RP_OK);
	rp_tree **trees;
	size_t n;
	assert_int_equal(rp_tree_load(folder, t.size, &trees, &n, &err), RP_OK);
	assert_int_equal(n, 2);
	assert_int_equal(trees[0]->n_pieces, 3);
	assert_memory_equal(trees[0]->pieces[0], hashes[0], sizeof hashes[0]);
	assert_string_equal(trees[1]->sources[0], sources[0]);
	assert_true(trees[0]->whole_known != trees[1]->whole_known);
	for (size_t i = 0; i < n; i++)
		rp_tree_free(trees[i]);
	free(trees);
	assert_int_equal(rp_tree_load(folder, 7, &trees, &n, &err), RP_OK);
	assert_int_equal(n, 0);
	free(trees);
	char *command = rp_asprintf("rm -r %s", folder);
	assert_int_equal(system(command), 0);
	free(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_published_size),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_manifest_must_fit),
		cmocka_unit_test(test_digest),
		cmocka_unit_test(test_trees),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
