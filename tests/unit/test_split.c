/* Plan ids against the values of the protocol; splits against every split there is. */
#include "plan/planid.h"
#include "plan/split.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

static void test_planid(void **state)
{
	static const struct {
		rp_planid p;
		const char *id;
		size_t bytes;
	} cases[] = {
		{ { "qwen-3-5-2b-q4k-ehaf16", 24, 2048, 248320, 4, false }, "sha256:4bdef6b590ec52d743ad2e88bca3d243bec552ac7de625d07551ce95cd1448a2", 870 },
		{ { "qwen-3-5-0-8b-q4k-ehaf16", 24, 1024, 248320, 0, false }, "sha256:c908ebff98a542b556e6b78417e4e6a4e4014c8c50a7c47ba36665cf4f2097a0", 876 },
		{ { "fixture", 4, 8, 128, 2, false }, "sha256:9b7c1b5b0a6360c9e62d46e6b4dd3318f9364360086ac350070cfc299e92430b", 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char id[72];
		rp_buf text;
		rp_error err;
		rp_buf_init(&text, 0);
		must(rp_planid_make(&cases[i].p, &text, id, &err), &err);
		assert_string_equal(id, cases[i].id);
		assert_true(cases[i].bytes == 0 || text.len == cases[i].bytes);
		rp_buf_free(&text);
	}
	char id[72];
	rp_error err;
	assert_int_equal(rp_planid_make(&(rp_planid){ "x", 4, 8, 128, 4, false }, NULL, id, &err), RP_USAGE);
	assert_int_equal(rp_planid_make(&(rp_planid){ "x", 1, 8, 128, 0, false }, NULL, id, &err), RP_UNSUPPORTED);
}

static void manifest(const char *text, rp_code code, const char *message)
{
	rp_planid p;
	rp_error err = { 0 };
	assert_int_equal(rp_planid_of_manifest("m.json", text, strlen(text), &p, &err), code);
	assert_non_null(strstr(err.msg, message));
}

static void test_manifest(void **state)
{
	(void)state;
	static const char good[] = "{\"modelId\":\"fixture\",\"architecture\":{\"numLayers\":4,\"hiddenSize\":8,\"vocabSize\":128},"
		"\"inference\":{\"session\":{\"compute\":{\"defaults\":{\"activationDtype\":\"f16\"}}}}}";
	rp_planid p;
	rp_error err;
	must(rp_planid_of_manifest("m.json", good, strlen(good), &p, &err), &err);
	assert_string_equal(p.model_id, "fixture");
	assert_true(p.layers == 4 && p.hidden == 8 && p.vocab == 128 && p.f16 && p.split == 0);
	manifest("{}", RP_FORMAT, "m.json: modelId is missing");
	manifest("{\"modelId\":\"x\",\"architecture\":{\"numLayers\":0}}", RP_FORMAT, "m.json: architecture.numLayers is 0");
	manifest("[]", RP_FORMAT, "expected a manifest");
	manifest("{\"modelId\":\"x\",\"architecture\":{\"numLayers\":4,\"hiddenSize\":8,\"vocabSize\":128},\"inference\":{\"session\":{\"compute\":"
		"{\"defaults\":{\"activationDtype\":\"int8\"}}}}}", RP_FORMAT, "activationDtype is \"int8\", expected f32 or f16");
}

static void test_of_model(void **state)
{
	(void)state;
	golden g;
	rp_planid p;
	rp_error err;
	golden_open(&g, "qwen3_5", "model.gguf");
	must(rp_planid_of_model(g.model, &p, &err), &err);
	assert_int_equal(p.layers, g.graph->n_layers);
	assert_int_equal(p.hidden, g.graph->config.hidden);
	assert_int_equal(p.vocab, g.graph->config.vocab);
	golden_close(&g);
}

/* ---- splits ---- */
typedef struct best {
	double longest, sum;
	bool found;
} best;

static void every_split(const rp_split_model *m, const rp_split_device *d, uint32_t n, uint32_t i, uint32_t first, double longest, double sum, best *b)
{
	if (i == n) {
		if (first == m->layers && (!b->found || longest < b->longest || (longest <= b->longest && sum < b->sum)))
			*b = (best){ longest, sum, true };
		return;
	}
	for (uint32_t end = first + 1; end <= m->layers; end++) {
		double t = rp_split_time(m, d[i].speed, i, n, first, end);
		if (rp_split_memory(m, i, n, first, end) <= d[i].memory)
			every_split(m, d, n, i + 1, end, t > longest ? t : longest, sum + t, b);
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 10;
}

static void test_every_split(void **state)
{
	(void)state;
	uint32_t seed = 7, fits = 0, fails = 0;
	for (int round = 0; round < 400; round++) {
		uint64_t bytes[9], cache[9];
		uint32_t layers = 2 + next_random(&seed) % 8, n = 1 + next_random(&seed) % (layers < 4 ? layers : 4), end[4];
		rp_split_device d[4];
		for (uint32_t l = 0; l < layers; l++) {
			bytes[l] = 1 + next_random(&seed) % 20;
			cache[l] = next_random(&seed) % 3;
		}
		for (uint32_t i = 0; i < n; i++)
			d[i] = (rp_split_device){ 5 + next_random(&seed) % 100, 1 + (double)(next_random(&seed) % 4) };
		rp_split_model m = { layers, bytes, cache, next_random(&seed) % 9, 3 + next_random(&seed) % 9, 3 };
		best b = { 0, 0, false };
		rp_error err;
		every_split(&m, d, n, 0, 0, 0, 0, &b);
		rp_code rc = rp_split_layers(&m, d, n, end, &err);
		assert_int_equal(rc, b.found ? RP_OK : RP_NO_MEMORY);
		fits += b.found;
		fails += !b.found;
		double longest = 0, sum = 0;
		for (uint32_t i = 0, first = 0; rc == RP_OK && i < n; first = end[i++]) {
			double t = rp_split_time(&m, d[i].speed, i, n, first, end[i]);
			assert_true(end[i] > first && rp_split_memory(&m, i, n, first, end[i]) <= d[i].memory);
			longest = t > longest ? t : longest;
			sum += t;
		}
		assert_true(rc != RP_OK || (end[n - 1] == layers && fabs(longest - b.longest) < 1e-9 && fabs(sum - b.sum) < 1e-9));
	}
	assert_true(fits > 50 && fails > 50);
}

static void test_split_errors(void **state)
{
	(void)state;
	uint64_t bytes[2] = { 10, 10 }, cache[2] = { 0, 0 };
	rp_split_model m = { 2, bytes, cache, 0, 0, 0 };
	rp_split_device d[3] = { { 12, 1 }, { 8, 1 }, { 100, 1 } };
	uint32_t end[3];
	rp_error err;
	assert_int_equal(rp_split_layers(&m, d, 3, end, &err), RP_USAGE);
	assert_int_equal(rp_split_layers(&m, d, 0, end, &err), RP_USAGE);
	assert_int_equal(rp_split_layers(&m, d, 2, end, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "but not where layers can be cut"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_planid), cmocka_unit_test(test_manifest), cmocka_unit_test(test_of_model),
		cmocka_unit_test(test_every_split), cmocka_unit_test(test_split_errors) };
	return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
