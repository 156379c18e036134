#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "hash/hash.h"
#include "make_model.h"
#include "model/model.h"

static rp_code open_path(const char *path, rp_model **m, rp_error *e)
{
	*m = NULL;
	*e = (rp_error){ 0 };
	return rp_model_open(path, m, e);
}

/* ---- the toy manifest: two layers, one shard of zero bytes ---- */

#define TOY "tests/golden/rdrr/toy-manifest.json"
enum { TOY_SHARD = 876940 };

static char *toy,
	*toy_folder; /* the manifest's text without its execution graph, which readers pass over; a folder with its shard */

static int set_up(void **state)
{
	(void)state;
	rp_error e;
	size_t n;
	if (rp_read_file(TOY, 1 << 20, &toy, &n, &e) != RP_OK)
		return -1;
	char *graph = strstr(toy, ",\n\"execution\":"), *after = strstr(toy, "},\n\"shards\":");
	if (graph == NULL || after == NULL)
		return -1;
	memmove(graph, after, strlen(after) + 1);
	toy_folder = mm_temp_folder();
	char *zeros = rp_alloc(TOY_SHARD);
	mm_write(toy_folder, "shard_00000.bin", zeros, TOY_SHARD);
	free(zeros);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mm_remove_folder(toy_folder);
	free(toy);
	return 0;
}

static rp_code open_text(const char *manifest, rp_model **m, rp_error *e)
{
	mm_write(toy_folder, "manifest.json", manifest, strlen(manifest));
	mm_seed(manifest, strlen(manifest));
	return open_path(toy_folder, m, e);
}

/* The toy manifest with one change. */
static void expect(const char *from, const char *to, rp_code code, const char *in_message)
{
	char *text = mm_replace(toy, from, to);
	rp_model *m;
	rp_error e;
	rp_code rc = open_text(text, &m, &e);
	if (rc != code || (in_message != NULL && strstr(e.msg, in_message) == NULL))
		fail_msg("%s -> %s: got %s: %s; expected %s with '%s'", from, to, rp_code_word(rc), e.msg, rp_code_word(code),
			in_message);
	rp_model_close(m);
	free(text);
}

static void the_toy_manifest_is_read(void **state)
{
	(void)state;
	rp_model *m;
	rp_error e;
	char *whole;
	size_t n;
	assert_int_equal(rp_read_file(TOY, 1 << 20, &whole, &n, &e), RP_OK);
	if (open_text(whole, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	assert_int_equal(rp_model_format(m), RP_FORMAT_RDRR);
	assert_int_equal(rp_model_n_tensors(m), 27);
	assert_int_equal(rp_model_bytes(m), TOY_SHARD);
	const rp_tensor *t = rp_model_find(m, "model.language_model.layers.0.linear_attn.out_proj.weight");
	assert_int_equal(t->dtype, RP_Q4_K);
	assert_int_equal(t->size, 256 * 144); /* rows of 64 values are one block each */
	assert_int_equal(t->n_values, 256 * 64);
	float *y = rp_alloc_array(t->n_values, sizeof *y);
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	free(y);
	unsigned char hash[RP_HASH_BYTES];
	char hex[RP_HASH_HEX];
	rp_sha256_once(whole, n, hash);
	free(whole);
	assert_string_equal(rp_model_identity(m) + 7, rp_hex(hex, hash, sizeof hash));
	const rp_file_info *f = rp_model_file(m, 0);
	assert_string_equal(f->algorithm, "sha256");
	assert_string_equal(f->hash, "9aae4de41d1a48714923ead02586d19186584f96fed2706b3c35b38ed43a422c");
	assert_non_null(cJSON_GetObjectItem(rp_model_json(m), "inference"));
	assert_null(rp_model_sibling(m, "tokenizer.json"));
	mm_write(toy_folder, "tokenizer.json", "{}", 2);
	char *sibling = rp_model_sibling(m, "tokenizer.json");
	assert_non_null(sibling);
	free(sibling);
	rp_model_close(m);
}

static void required_fields_are_required(void **state)
{
	(void)state;
	static const char *const fields[] = { "version", "modelId", "modelType", "quantization", "architecture", "inference",
		"shards", "tensors", "totalSize", "hashAlgorithm", "eos_token_id", "numLayers", "hiddenSize", "intermediateSize",
		"numAttentionHeads", "numKeyValueHeads", "headDim", "vocabSize", "maxSeqLen", "shape", "dtype", "role", "size", "hash",
		"filename" };
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		char *from = rp_asprintf("\"%s\":", fields[i]), *to = rp_asprintf("\"no_%s\":", fields[i]);
		expect(from, to, RP_FORMAT, fields[i]);
		free(from);
		free(to);
	}
	expect("\"eos_token_id\":[2]", "\"eos_token_id\":7", RP_OK, NULL);
	expect("\"eos_token_id\":[2]", "\"eos_token_id\":[]", RP_FORMAT, "eos_token_id");
	expect("\"eos_token_id\":[2]", "\"eos_token_id\":[2,\"x\"]", RP_FORMAT, "eos_token_id");
	expect("\"version\":1", "\"version\":\"1\"", RP_OK, NULL);
	expect("\"version\":1", "\"version\":2", RP_OK, NULL);
	expect("\"version\":1", "\"version\":0", RP_FORMAT, "version");
	expect("\"version\":1", "\"version\":\"new\"", RP_FORMAT, "version");
	expect("\"numLayers\":2", "\"numLayers\":0", RP_FORMAT, "architecture.numLayers is 0");
	expect("\"numLayers\":2", "\"numLayers\":2.5", RP_FORMAT, "numLayers");
	expect("\"hashAlgorithm\":\"sha256\"", "\"hashAlgorithm\":\"md5\"", RP_FORMAT, "hashAlgorithm is \"md5\"");
	expect("\"moeConfig\":null", "\"moeConfig\":{\"numExperts\":4,\"numExpertsPerToken\":5}", RP_FORMAT, "numExpertsPerToken");
	expect("\"moeConfig\":null", "\"moeConfig\":{\"numExperts\":4,\"numExpertsPerToken\":4}", RP_OK, NULL);
}

static void malformed_json_is_refused(void **state)
{
	(void)state;
	expect("\"version\":1,", "\"version\":1,\"version\":1,", RP_FORMAT, "'version' is there twice"); /* openasr#73 */
	expect("\"version\":1,", "\"version\":1,,", RP_FORMAT, "line 1");
	expect("layers.0.input_layernorm", "layers\xff.0.input_layernorm", RP_FORMAT, "not UTF-8");
}

static void shards_are_checked(void **state)
{
	(void)state;
	expect("\"index\":0", "\"index\":1", RP_FORMAT, "shards[0].index is 1");
	expect("\"filename\":", "\"fileName\":", RP_OK, NULL);
	expect("\"filename\":", "\"fileName\":\"x\",\"filename\":", RP_FORMAT, "fileName");
	expect("\"size\":876940", "\"size\":876939", RP_FORMAT, "the manifest says 876939");
	expect("\"size\":876940", "\"size\":0", RP_FORMAT, "shards[0].size");
	expect("\"totalSize\":876940", "\"totalSize\":876941", RP_FORMAT, "totalSize is 876941");
	expect("422c\",\"offset\":0}", "422c\",\"offset\":4}", RP_FORMAT, "shards[0].offset");
	expect("\"hash\":\"9aae", "\"hash\":\"sha256:9aae", RP_FORMAT, "64 hexadecimal digits without a prefix");
	expect("\"hash\":\"9aae", "\"hash\":\"9aa", RP_FORMAT, "64 hexadecimal digits");
	expect("\"hash\":\"9aae4de4", "\"hash\":\"9AAE4DE4", RP_OK, NULL);
	expect("\"shards\":[", "\"shards\":[],\"x\":[", RP_FORMAT, "shards");
	expect("shard_00000.bin", "shard_00001.bin", RP_NOT_FOUND, "shard_00001.bin");
}

static void sizes_of_shard_files_are_checked(void **state)
{
	(void)state;
	char *path = mm_path(toy_folder, "shard_00000.bin");
	static const long sizes[] = { 0, 4, TOY_SHARD - 1, TOY_SHARD + 1 };
	rp_model *m;
	rp_error e;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		assert_int_equal(truncate(path, sizes[i]), 0);
		assert_int_equal(open_text(toy, &m, &e), RP_FORMAT);
		assert_non_null(strstr(e.msg, "the manifest says 876940"));
	}
	assert_int_equal(truncate(path, TOY_SHARD), 0);
	free(path);
}

/* CVE-2024-37032: a name from a file as a path. */
static void names_stay_in_the_folder(void **state)
{
	(void)state;
	static const char *const names[] = { "../shard_00000.bin", "/etc/passwd", "a/shard_00000.bin", "..", ".", "", ".hidden",
		"a\\\\b", "x\\n.bin" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		expect("shard_00000.bin", names[i], RP_FORMAT, "shards[0].filename");
		expect("\"file\":\"tokenizer.json\"", "\"file\":7", RP_FORMAT, "tokenizer.file");
		char *to = rp_asprintf("\"file\":\"%s\"", names[i]);
		expect("\"file\":\"tokenizer.json\"", to, RP_FORMAT, "tokenizer.file");
		free(to);
		to = rp_asprintf("\"tensorsFile\":\"%s\",\"x\":{", names[i]);
		expect("\"tensors\":{", to, RP_FORMAT, "tensorsFile");
		free(to);
	}
}

static void links_out_of_the_folder_are_refused(void **state)
{
	(void)state;
	char *elsewhere = mm_temp_folder(), *outside = mm_path(elsewhere, "secret"), *link = mm_path(toy_folder, "shard_00001.bin");
	char *zeros = rp_alloc(TOY_SHARD);
	mm_write(elsewhere, "secret", zeros, TOY_SHARD);
	free(zeros);
	assert_int_equal(symlink(outside, link), 0);
	expect("shard_00000.bin", "shard_00001.bin", RP_READ, "leads out of the model's folder");
	unlink(link);
	assert_int_equal(symlink("shard_00000.bin", link), 0);
	expect("shard_00000.bin", "shard_00001.bin", RP_OK, NULL);
	unlink(link);
	char *tokenizer = mm_path(toy_folder, "tokenizer.json");
	unlink(tokenizer);
	assert_int_equal(symlink(outside, tokenizer), 0);
	rp_model *m;
	rp_error e;
	assert_int_equal(open_text(toy, &m, &e), RP_OK);
	assert_null(rp_model_sibling(m, "tokenizer.json"));
	rp_model_close(m);
	unlink(tokenizer);
	free(tokenizer);
	free(link);
	free(outside);
	mm_remove_folder(elsewhere);
}

#define FIRST "\"shard\":0,\"offset\":0,\"size\":262144"

/* CVE-2025-1975 (an index into the list), llama.cpp#6885, CVE-2026-7482 (ranges), mlx#3363 (size against shape). */
static void tensors_stay_in_their_shards(void **state)
{
	(void)state;
	expect(FIRST, "\"shard\":1,\"offset\":0,\"size\":262144", RP_FORMAT,
		"embed_tokens.weight'].shard is 1, expected the index of a shard");
	expect(FIRST, "\"shard\":-1,\"offset\":0,\"size\":262144", RP_FORMAT, "shard is -1");
	expect(FIRST, "\"shard\":4294967296,\"offset\":0,\"size\":262144", RP_FORMAT, "shard is 4294967296");
	expect(FIRST, "\"shard\":0.5,\"offset\":0,\"size\":262144", RP_FORMAT, "shard is 0.5");
	expect(FIRST, "\"offset\":0,\"size\":262144", RP_FORMAT, "shard is missing");
	expect(FIRST, "\"shard\":0,\"size\":262144", RP_FORMAT, "offset is missing");
	expect(FIRST, "\"shard\":0,\"offset\":876940,\"size\":262144", RP_FORMAT, "past the end of shard 0");
	expect(FIRST, "\"shard\":0,\"offset\":614797,\"size\":262144", RP_FORMAT, "past the end of shard 0");
	expect(FIRST, "\"shard\":0,\"offset\":9007199254740992,\"size\":262144", RP_FORMAT, "past the end of shard 0");
	expect(FIRST, "\"shard\":0,\"offset\":-4,\"size\":262144", RP_FORMAT, "offset is -4");
	expect(FIRST, "\"shard\":0,\"offset\":0,\"size\":262145", RP_FORMAT, "size is 262145, its shape as F16 needs 262144");
	expect(FIRST, "\"shardIndex\":0,\"offset\":0,\"size\":262144", RP_OK, NULL);
	expect(FIRST, "\"shardIndex\":0,\"shard\":0,\"offset\":0,\"size\":262144", RP_FORMAT, "shardIndex");
	expect("\"offset\":262144,", "\"offset\":262142,", RP_FORMAT, "overlap");
}

static void spans_are_checked_and_joined(void **state)
{
	(void)state;
	expect(FIRST, "\"spans\":[{\"shardIndex\":0,\"offset\":0,\"size\":262143}],\"size\":262144", RP_FORMAT,
		"its spans have 262143");
	expect(FIRST, "\"spans\":[],\"size\":262144", RP_FORMAT, "its spans have 0");
	expect(FIRST, "\"spans\":7,\"size\":262144", RP_FORMAT, "spans is 7");
	expect(FIRST, "\"spans\":[7],\"size\":262144", RP_FORMAT, "spans[0].size");
	expect(FIRST, "\"spans\":[{\"shardIndex\":1,\"offset\":0,\"size\":262144}],\"size\":262144", RP_FORMAT,
		"spans[0].shardIndex is 1");
	expect(FIRST, "\"spans\":[{\"shardIndex\":0,\"offset\":800000,\"size\":262144}],\"size\":262144", RP_FORMAT,
		"spans[0].offset");
	expect(FIRST, "\"shard\":0,\"offset\":0,\"spans\":[{\"shardIndex\":0,\"offset\":0,\"size\":262144}],\"size\":262144",
		RP_FORMAT, "not both");
	expect(FIRST,
		"\"spans\":[{\"shardIndex\":0,\"offset\":0,\"size\":131072},{\"shardIndex\":0,\"offset\":0,\"size\":131072}],\"size\":262144",
		RP_FORMAT, "overlap");
	char *text = mm_replace(toy, FIRST,
		"\"spans\":[{\"shardIndex\":0,\"offset\":0,\"size\":100000},{\"shard\":0,\"offset\":100000,\"size\":100000},"
		"{\"shardIndex\":0,\"offset\":200000,\"size\":0},{\"shardIndex\":0,\"offset\":200000,\"size\":62144}],\"size\":262144");
	rp_model *m;
	rp_error e;
	assert_int_equal(open_text(text, &m, &e), RP_OK);
	assert_int_equal(rp_model_tensor(m, 0)->n_spans, 1);
	assert_int_equal(rp_model_tensor(m, 0)->spans[0].size, 262144);
	rp_model_close(m);
	free(text);
}

/* llama.cpp#18674, CVE-2025-53630. */
static void sizes_that_wrap_are_refused(void **state)
{
	(void)state;
	expect("\"shape\":[512,256]", "\"shape\":[4398046511105,4194304]", RP_FORMAT, "does not fit 63 bits");
	expect("\"shape\":[512,256]", "\"shape\":[2147483648,4294967296,131072]", RP_FORMAT, "does not fit 63 bits");
	expect("\"shape\":[192,256]", "\"shape\":[9007199254740992,9007199254740992]", RP_FORMAT, "does not fit 63 bits");
	expect("\"shape\":[512,256]", "\"shape\":[1,1,1,1,1,1,1,512,256]", RP_UNSUPPORTED, "more than 8");
	expect("\"shape\":[512,256]", "\"shape\":[1,1,1,1,1,1,512,256]", RP_OK, NULL);
}

static void what_this_build_does_not_read_is_named(void **state)
{
	(void)state;
	expect("\"dtype\":\"F16\"", "\"dtype\":\"Q3_K\"", RP_UNSUPPORTED, "dtype is 'Q3_K'");
	expect("\"layout\":\"row\"", "\"layout\":\"col\"", RP_UNSUPPORTED, "layout is 'col'");
	expect("\"layout\":\"row\"", "\"layout\":\"flat\"", RP_UNSUPPORTED, "layout is 'flat'");
	expect("\"role\":\"embedding\"", "\"role\":\"embedding\",\"sourceTransform\":{\"kind\":\"transpose\"}", RP_UNSUPPORTED,
		"sourceTransform");
	expect("\"role\":\"embedding\"", "\"role\":\"embedding\",\"sourceTransform\":{\"kind\":\"identity\"}", RP_OK, NULL);
	expect("\"role\":\"embedding\"", "\"role\":\"embedding\",\"storage\":{\"packing\":\"w4a16\"}", RP_UNSUPPORTED, "w4a16");
	expect("\"role\":\"embedding\"",
		"\"role\":\"embedding\",\"storage\":{\"companions\":[{\"role\":\"scales\",\"tensorId\":\"x\"}]}", RP_UNSUPPORTED,
		"companions");
	expect("\"role\":\"embedding\"", "\"role\":\"ornament\"", RP_FORMAT, "role is \"ornament\"");
	expect("\"version\":1", "\"version\":1,\"weightsRef\":{\"weightPackId\":\"pack-7\"}", RP_UNSUPPORTED, "'pack-7'");
	expect("\"version\":1", "\"version\":1,\"weightsRef\":null", RP_OK, NULL);
	expect("\"version\":1", "\"version\":1,\"artifactIdentity\":{\"artifactCompleteness\":\"incomplete\"}", RP_UNSUPPORTED,
		"incomplete");
	expect("\"inference\":{", "\"inference\":{\"unsupported\":\"no kernels for it\",", RP_UNSUPPORTED, "no kernels for it");
	expect("\"inference\":{", "\"inference\":{\"unsupported\":null,", RP_OK, NULL);
}

static void norm_flags_agree_with_the_tensors(void **state)
{
	(void)state;
	expect("\"postAttentionNorm\":true", "\"postAttentionNorm\":false", RP_MODEL,
		"postAttentionNorm is false, but there are tensors");
	expect("\"preFeedforwardNorm\":false", "\"preFeedforwardNorm\":true", RP_MODEL,
		"preFeedforwardNorm is true, but there are no tensors");
	expect("\"postFeedforwardNorm\":false", "\"postFeedforwardNorm\":true", RP_MODEL, "postFeedforwardNorm");
}

static void integrity_extensions_are_checked(void **state)
{
	(void)state;
#define TREE(roots) \
	"\"version\":1,\"integrityExtensions\":{\"contractVersion\":1,\"blockMerkle\":{\"blockSize\":1048576,\"roots\":" roots "}}"
	expect("\"version\":1",
		TREE(
			"{\"model.language_model.norm.weight\":\"sha256:9aae4de41d1a48714923ead02586d19186584f96fed2706b3c35b38ed43a422c\"}"),
		RP_OK, NULL);
	expect("\"version\":1", TREE("{\"w\":\"9aae4de41d1a48714923ead02586d19186584f96fed2706b3c35b38ed43a422c\"}"), RP_FORMAT,
		"\"sha256:\" and 64");
	expect("\"version\":1", TREE("{\"w\":7}"), RP_FORMAT, "blockMerkle.w is 7");
	expect("\"version\":1", TREE("[]"), RP_FORMAT, "blockMerkle.roots");
	expect("\"version\":1", "\"version\":1,\"integrityExtensions\":{\"contractVersion\":2}", RP_UNSUPPORTED,
		"contractVersion is 2");
}

static void tensors_may_stand_in_a_file_of_their_own(void **state)
{
	(void)state;
	const char *tensors = strstr(toy, "\"tensors\":{") + strlen("\"tensors\":"), *end = strstr(tensors, "},\"tensorCount\"");
	mm_write(toy_folder, "tensors.json", tensors, (size_t)(end + 1 - tensors));
	char *text = rp_asprintf("%.*s\"tensorsFile\":\"tensors.json\"%s", (int)(strstr(toy, "\"tensors\":{") - toy), toy, end + 1);
	rp_model *m;
	rp_error e;
	if (open_text(text, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	assert_int_equal(rp_model_n_tensors(m), 27);
	rp_model_close(m);
	mm_write(toy_folder, "tensors.json", "[]", 2);
	assert_int_equal(open_text(text, &m, &e), RP_FORMAT);
	char *path = mm_path(toy_folder, "tensors.json");
	unlink(path);
	assert_int_equal(open_text(text, &m, &e), RP_NOT_FOUND);
	free(path);
	free(text);
}

/* ---- made here ---- */

static void tensors_cross_shards(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	mm_rdrr r;
	mm_rdrr_init(&r);
	r.shard_size = 1000;
	static float x[40 * 300], y[40 * 300];
	mm_values(x, 40 * 300, 9, 1);
	mm_rdrr_tensor(&r, "norm", "norm", RP_F32, 1, (uint64_t[]){ 3 }, x);
	mm_rdrr_tensor(&r, "big", "matmul", RP_Q4_K, 2, (uint64_t[]){ 40, 300 },
		x); /* rows of 300 values: two blocks, the second padded */
	mm_rdrr_tensor(&r, "exact", "matmul", RP_F32, 2, (uint64_t[]){ 40, 300 }, x);
	mm_rdrr_tensor(&r, "empty", "other", RP_F16, 1, (uint64_t[]){ 0 }, x);
	mm_rdrr_write(&r, folder);
	rp_model *m;
	rp_error e;
	if (open_path(folder, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	const rp_tensor *t = rp_model_find(m, "exact");
	assert_true(t->n_spans > 40);
	assert_null(rp_tensor_map(m, t));
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	assert_memory_equal(x, y, sizeof x);
	float part[7];
	assert_int_equal(rp_tensor_read(m, t, 980 * 4, part, sizeof part, &e), RP_OK);
	assert_memory_equal(part, x + 980, sizeof part);
	assert_int_equal(rp_tensor_read(m, t, t->size - 4, part, 8, &e), RP_INTERNAL);
	t = rp_model_find(m, "big");
	assert_int_equal(t->size, 40 * 2 * 144);
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	unsigned char *blocks = rp_alloc(40 * 288);
	float row[300];
	assert_true(rp_quantize(RP_Q4_K, x, 40, 300, blocks));
	for (size_t i = 0; i < 40; i++) {
		rp_dequant(RP_Q4_K, blocks + i * 288, 300, row);
		assert_memory_equal(row, y + i * 300, sizeof row);
	}
	free(blocks);
	assert_non_null(rp_tensor_map(m, rp_model_find(m, "norm")));
	rp_model_close(m);
	mm_rdrr_free(&r);
	mm_remove_folder(folder);
}

/* More shards than are kept open. */
static void hundreds_of_shards_read(void **state)
{
	(void)state;
	char *folder = mm_temp_folder();
	mm_rdrr r;
	mm_rdrr_init(&r);
	r.shard_size = 32;
	static float x[4096], y[4096];
	mm_values(x, 4096, 4, 1);
	mm_rdrr_tensor(&r, "w", "matmul", RP_F32, 2, (uint64_t[]){ 64, 64 }, x);
	mm_rdrr_write(&r, folder);
	rp_model *m;
	rp_error e;
	assert_int_equal(open_path(folder, &m, &e), RP_OK);
	assert_int_equal(rp_model_n_files(m), 512);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "w"), y, &e), RP_OK);
	assert_memory_equal(x, y, sizeof x);
	/* one that is exchanged meanwhile is not read as if it were the same */
	char *path = mm_path(folder, "shard_00007.bin"), *other = mm_path(folder, "other");
	mm_write(folder, "other", x, 32);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "w"), y, &e), RP_READ);
	assert_non_null(strstr(e.msg, "shard_00007.bin"));
	free(other);
	free(path);
	rp_model_close(m);
	mm_rdrr_free(&r);
	mm_remove_folder(folder);
}

/* ---- manifests that were published, with sparse shards of their true sizes ---- */

static void read_published(const char *name, size_t n_tensors, size_t n_files, uint64_t bytes, const char *identity)
{
	char *source = rp_asprintf("../shared/fixtures/manifests/%s.json", name), *text = NULL;
	size_t n;
	rp_error e;
	rp_code rc = rp_read_file(source, 1 << 24, &text, &n, &e);
	free(source);
	if (rc == RP_NOT_FOUND) {
		print_message("SKIP: ../shared/fixtures/manifests is not there\n");
		skip();
		return;
	}
	char *folder = mm_temp_folder();
	cJSON *manifest = cJSON_Parse(text);
	const cJSON *shard;
	mm_write(folder, "manifest.json", text, n);
	cJSON_ArrayForEach(shard, cJSON_GetObjectItem(manifest, "shards"))
	{
		char *path = mm_path(folder, cJSON_GetObjectItem(shard, "filename")->valuestring);
		mm_write(folder, cJSON_GetObjectItem(shard, "filename")->valuestring, "", 0);
		assert_int_equal(truncate(path, (off_t)cJSON_GetObjectItem(shard, "size")->valuedouble), 0);
		free(path);
	}
	rp_model *m;
	if (open_path(folder, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	assert_int_equal(rp_model_n_tensors(m), n_tensors);
	assert_int_equal(rp_model_n_files(m), n_files);
	assert_true(rp_model_bytes(m) == bytes);
	assert_memory_equal(rp_model_identity(m), identity, strlen(identity));
	uint64_t sum = 0;
	for (size_t i = 0; i < n_tensors; i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		unsigned char last[2];
		sum += t->size;
		assert_int_equal(rp_tensor_read(m, t, t->size - 2, last, 2, &e), RP_OK);
	}
	assert_true(sum == bytes);
	rp_model_close(m);
	cJSON_Delete(manifest);
	free(text);
	mm_remove_folder(folder);
}

static void the_published_0_8b_manifest_is_read(void **state)
{
	(void)state;
	read_published("qwen-3-5-0-8b-q4k-ehaf16", 489, 18, 1146048704, "sha256:edeb69dd65cbb269");
}

static void the_published_2b_manifest_is_read(void **state)
{
	(void)state;
	read_published("qwen-3-5-2b-q4k-ehaf16", 321, 32, 2078134976, "sha256:502fbd6d4c9ed6a8");
}

static void the_published_26b_manifest_is_read(void **state)
{
	(void)state;
	read_published("diffusiongemma-26b-a4b-it-q4k-ehf16-af16", 691, 234, 15680106104, "sha256:ef2075f3394f0ab2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_toy_manifest_is_read),
		cmocka_unit_test(required_fields_are_required),
		cmocka_unit_test(malformed_json_is_refused),
		cmocka_unit_test(shards_are_checked),
		cmocka_unit_test(sizes_of_shard_files_are_checked),
		cmocka_unit_test(names_stay_in_the_folder),
		cmocka_unit_test(links_out_of_the_folder_are_refused),
		cmocka_unit_test(tensors_stay_in_their_shards),
		cmocka_unit_test(spans_are_checked_and_joined),
		cmocka_unit_test(sizes_that_wrap_are_refused),
		cmocka_unit_test(what_this_build_does_not_read_is_named),
		cmocka_unit_test(norm_flags_agree_with_the_tensors),
		cmocka_unit_test(integrity_extensions_are_checked),
		cmocka_unit_test(tensors_may_stand_in_a_file_of_their_own),
		cmocka_unit_test(tensors_cross_shards),
		cmocka_unit_test(hundreds_of_shards_read),
		cmocka_unit_test(the_published_0_8b_manifest_is_read),
		cmocka_unit_test(the_published_2b_manifest_is_read),
		cmocka_unit_test(the_published_26b_manifest_is_read),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
