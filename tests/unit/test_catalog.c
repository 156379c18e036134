/* The catalogue: the one that comes with the programs, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/catalog.h"

#define SITE "https://site.example"
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_own(void **state)
{
	(void)state;
	char *text;
	size_t n;
	rp_catalog *c;
	rp_error err;
	assert_int_equal(rp_read_file("manifests/models.json", RP_MAX_CATALOG_BYTES, &text, &n, &err), RP_OK);
	if (rp_catalog_parse("models.json", text, n, SITE, &c, &err) != RP_OK)
		fail_msg("%s", err.msg);
	free(text);
	assert_int_equal(c->n_models, 3);
	const rp_catalog_model *m = rp_catalog_find(c, "qwen-3-5-0-8b-q4k-ehaf16");
	assert_non_null(m);
	assert_string_equal(m->base_url, "https://replo.id/model-files/qwen-3-5-0-8b-q4k-ehaf16/");
	const rp_catalog_file *f = rp_catalog_role(m, RP_ROLE_MANIFEST);
	assert_int_equal(f->size, 213026);
	assert_string_equal(f->url, SITE "/config/model-manifests/fa6eb7bbc3ba63571f8cede780b877d9272bde948697af93dd3d33837cb46137.json");
	f = rp_catalog_role(m, RP_ROLE_TOKENIZER);
	assert_string_equal(f->url, "https://replo.id/model-files/qwen-3-5-0-8b-q4k-ehaf16/tokenizer.json");
	assert_true(rp_catalog_find(c, "qwen-3-5-2b-q4k-ehaf16")->recommended);
	m = rp_catalog_find(c, "qwen-3-6-35b-a3b-text-source-q4_0-af32");
	assert_null(m->base_url);
	assert_null(rp_catalog_role(m, RP_ROLE_TOKENIZER)->url);
	const rp_catalog_adapter *a = rp_catalog_find_adapter(c, "qwen35-0-8b-ner-json-lora");
	assert_int_equal(a->size, 43346432);
	assert_non_null(a->other_url);
	assert_null(rp_catalog_find(c, "embedded"));
	rp_catalog_free(c);
}

#define HEAD "[{\"id\":\"m\",\"name\":\"M\",\"identity\":\"sha256:" A64 "\",\"provider\":\"doppler\",\"contextLength\":9,\"future\":[1]"
#define FILE1(path, size, hash) "{\"path\":\"" path "\",\"role\":\"model-manifest\",\"sizeBytes\":" size ",\"hashAlgorithm\":\"sha256\",\"hash\":\"" hash "\"}"
#define SOURCE(x) HEAD ",\"source\":{" x "}}]"

static rp_code parse(const char *text, rp_catalog **c, rp_error *err)
{
	*c = NULL;
	return rp_catalog_parse("c.json", text, strlen(text), SITE, c, err);
}

static void test_small(void **state)
{
	(void)state;
	rp_catalog *c;
	rp_error err;
	assert_int_equal(parse(SOURCE("\"files\":[" FILE1("manifest.json", "5", A64) "]"), &c, &err), RP_OK);
	assert_null(c->models[0].files[0].url);
	rp_catalog_free(c);
	assert_int_equal(parse(HEAD "}]", &c, &err), RP_OK);
	assert_int_equal(c->models[0].n_files, 0);
	rp_catalog_free(c);
	assert_int_equal(parse("[]", &c, &err), RP_OK);
	rp_catalog_free(c);
}

static void test_refusals(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"{}", "not a JSON array"},
		{"[7]", "[0].id"},
		{"[{\"id\":\"../m\"}]", "[0].id is \"../m\""},
		{"[{\"id\":\"-m\"}]", "[0].id"},
		{"[{\"id\":\"m\",\"id\":\"m\"}]", "twice"},
		{"[{\"id\":\"m\",\"name\":\"M\",\"identity\":\"" A64 "\"}]", "[0].identity"},
		{"[{\"id\":\"m\",\"name\":\"M\",\"identity\":\"sha256:" A64 "\",\"provider\":\"other\"}]", "[0].provider"},
		{"[{\"id\":\"m\",\"name\":\"M\",\"identity\":\"sha256:" A64 "\",\"provider\":\"doppler\",\"contextLength\":9007199254740992}]", "[0].contextLength"},
		{SOURCE("\"files\":7"), "[0].source.files"},
		{SOURCE("\"files\":[]"), NULL},
		{SOURCE("\"files\":[" FILE1("../manifest.json", "5", A64) "]"), "[0].source.files[0].path"},
		{SOURCE("\"files\":[" FILE1("/etc/passwd", "5", A64) "]"), "[0].source.files[0].path"},
		{SOURCE("\"files\":[" FILE1(".hidden", "5", A64) "]"), "[0].source.files[0].path"},
		{SOURCE("\"files\":[" FILE1("m", "0", A64) "]"), "[0].source.files[0].sizeBytes"},
		{SOURCE("\"files\":[" FILE1("m", "67108865", A64) "]"), "[0].source.files[0].sizeBytes"},
		{SOURCE("\"files\":[" FILE1("m", "1e300", A64) "]"), "[0].source.files[0].sizeBytes"},
		{SOURCE("\"files\":[" FILE1("m", "5", "aa") "]"), "[0].source.files[0].hash"},
		{SOURCE("\"files\":[" FILE1("m", "5", A64) "," FILE1("m", "5", A64) "]"), "is there twice"},
		{SOURCE("\"files\":[{\"path\":\"t\",\"role\":\"tokenizer\",\"sizeBytes\":5,\"hashAlgorithm\":\"sha256\",\"hash\":\"" A64 "\"}]"),
			"no file with the role model-manifest"},
		{SOURCE("\"files\":[{\"path\":\"t\",\"role\":\"model-manifest\",\"sizeBytes\":5,\"hashAlgorithm\":\"md5\",\"hash\":\"" A64 "\"}]"),
			"hashAlgorithm"},
		{SOURCE("\"baseUrl\":\"http://h.example/\",\"files\":[]"), "baseUrl"},
		{SOURCE("\"baseUrl\":\"file:///etc/\",\"files\":[]"), "baseUrl"},
		{SOURCE("\"baseUrl\":\"https://u:p@h/\",\"files\":[]"), "baseUrl"},
		{SOURCE("\"baseUrl\":\"https://h/x\",\"files\":[]"), "ends in '/'"},
		{HEAD "}," "{\"id\":\"m\",\"name\":\"M\",\"identity\":\"sha256:" A64 "\",\"provider\":\"doppler\",\"contextLength\":9}]", "[1].id: 'm' is there twice"},
		{HEAD ",\"availableAdapters\":[{\"id\":\"a\",\"name\":\"A\",\"identity\":\"sha256:" A64 "\",\"baseModelIdentity\":\"sha256:"
			"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}]}]", "baseModelIdentity"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rp_catalog *c;
		rp_error err = {0};
		rp_code rc = parse(cases[i].text, &c, &err);
		if (cases[i].says == NULL) {
			assert_int_equal(rc, RP_OK);
			rp_catalog_free(c);
			continue;
		}
		assert_int_equal(rc, RP_FORMAT);
		assert_null(c);
		if (strstr(err.msg, cases[i].says) == NULL)
			fail_msg("case %zu says: %s", i, err.msg);
	}
}

static void test_identity(void **state)
{
	(void)state;
	rp_catalog *c;
	rp_error err;
	assert_int_equal(parse(SOURCE("\"files\":[" FILE1("m", "5", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb") "]"), &c, &err),
		RP_FORMAT);
	assert_non_null(strstr(err.msg, "[0].identity is not the hash of its model-manifest"));
	assert_int_equal(rp_catalog_parse("c.json", "[]", 2, "http://far.example", &c, &err), RP_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_identity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
