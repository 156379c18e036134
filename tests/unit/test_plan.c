/* Plans: deterministic, sealed, told apart, and what they say of models whose work is known. */
#include "plan/plan.h"

#include "sign/sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "golden.h"
#include "make_model.h"

static rp_plan_device device(const char *name)
{
	char path[80];
	rp_plan_device d;
	rp_error err;
	snprintf(path, sizeof path, "tests/golden/devices/%s.json", name);
	must(rp_plan_device_load(path, &d, &err), &err);
	return d;
}

static rp_plan *make(const rp_graph *g, const rp_plan_device *d, rp_plan_opts o)
{
	rp_plan *p = NULL;
	rp_error err;
	must(rp_plan_make(g, d, &o, &p, &err), &err);
	return p;
}

static char *text_of(const rp_plan *p)
{
	rp_buf b;
	rp_error err;
	rp_buf_init(&b, 0);
	must(rp_plan_text(p, &b, &err), &err);
	return rp_buf_take(&b, NULL);
}

static const cJSON *at(const rp_plan *p, const char *a, const char *b)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(rp_plan_json(p), a);
	return b != NULL ? cJSON_GetObjectItemCaseSensitive(v, b) : v;
}

static void test_deterministic(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "qwen3_5", "model.gguf");
	for (int i = 0; i < 2; i++) {
		rp_plan_device d = device(i == 0 ? "h200" : "lavapipe");
		rp_plan *a = make(g.graph, &d, (rp_plan_opts){ .ctx = 256 }), *b = make(g.graph, &d, (rp_plan_opts){ .ctx = 256 });
		char *x = text_of(a), *y = text_of(b);
		assert_string_equal(x, y);
		/* the digest is of the canonical text without it */
		cJSON *v = cJSON_Parse(x);
		cJSON_DeleteItemFromObject(v, "digest");
		unsigned char sum[32];
		char digest[RP_DIGEST_TEXT];
		assert_int_equal(rp_canonical_sha256(v, RP_KEYS_PLAIN, sum, NULL), RP_OK);
		assert_string_equal(rp_digest_text(digest, sum), rp_plan_digest(a));
		cJSON_Delete(v);
		free(x), free(y);
		rp_plan_free(a), rp_plan_free(b);
	}
	golden_close(&g);
}

/* What every dispatch says agrees with the tables, and the totals are sums. */
static void check_pass(const rp_plan *p, const char *name)
{
	const cJSON *o = at(p, name, NULL), *w;
	double read = 0, dispatches = 0, barriers = 0;
	cJSON_ArrayForEach(w, cJSON_GetObjectItemCaseSensitive(o, "work"))
	{
		const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(w, "kernel"), *b;
		read += cJSON_GetObjectItemCaseSensitive(w, "read")->valuedouble;
		barriers += cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(w, "barrier"));
		dispatches += kernel != NULL;
		if (kernel != NULL) {
			const cJSON *pipe = cJSON_GetArrayItem(at(p, "pipelines", NULL), (int)cJSON_GetObjectItemCaseSensitive(w, "pipeline")->valuedouble);
			assert_string_equal(cJSON_GetObjectItemCaseSensitive(pipe, "kernel")->valuestring, kernel->valuestring);
		}
		cJSON_ArrayForEach(b, cJSON_GetObjectItemCaseSensitive(w, "binds"))
		{
			const char *buffer = cJSON_GetObjectItemCaseSensitive(b, "buffer")->valuestring;
			const cJSON *known = at(p, "buffers", NULL)->child;
			while (known != NULL && strcmp(cJSON_GetObjectItemCaseSensitive(known, "name")->valuestring, buffer) != 0)
				known = known->next;
			assert_non_null(known);
			assert_true(cJSON_GetObjectItemCaseSensitive(b, "offset")->valuedouble + cJSON_GetObjectItemCaseSensitive(b, "size")->valuedouble <=
				cJSON_GetObjectItemCaseSensitive(known, "size")->valuedouble);
		}
	}
	assert_true(dispatches > 0);
	assert_true(cJSON_GetObjectItemCaseSensitive(o, "dispatches")->valuedouble == dispatches);
	assert_true(cJSON_GetObjectItemCaseSensitive(o, "barriers")->valuedouble == barriers);
	assert_true(cJSON_GetObjectItemCaseSensitive(o, "read")->valuedouble == read);
}

static void test_document(void **state)
{
	static const char *const variants[] = { "portable", "subgroup", "fused", NULL };
	(void)state;
	golden g;
	golden_open(&g, "qwen3_5", NULL);
	for (int i = 0; i < 4; i++) {
		rp_plan_device d = device(i % 2 == 0 ? "h200" : "lavapipe");
		rp_plan *p = make(g.graph, &d, (rp_plan_opts){ .variant = variants[i], .depth = 100 });
		check_pass(p, "prefill");
		check_pass(p, "decode");
		assert_string_equal(at(p, "model", "identity")->valuestring, rp_model_identity(g.model));
		assert_string_equal(at(p, "settings", "variant")->valuestring, variants[i] != NULL ? variants[i] : "subgroup");
		rp_plan_free(p);
	}
	golden_close(&g);
}

/* Weights are read once a token; more positions are more bytes; each of these changes the digest. */
static void test_bytes(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "llama", "model.gguf");
	rp_plan_device d = device("h200");
	rp_plan *near = make(g.graph, &d, (rp_plan_opts){ .ctx = 512 }), *far = make(g.graph, &d, (rp_plan_opts){ .ctx = 512, .depth = 400 });
	double heap = cJSON_GetObjectItemCaseSensitive(at(near, "memory", NULL)->child, "weights")->valuedouble;
	double a = at(near, "decode", "read")->valuedouble, b = at(far, "decode", "read")->valuedouble;
	double ta = at(near, "decode", "ns")->valuedouble, tb = at(far, "decode", "ns")->valuedouble;
	assert_true(a > 0.5 * heap && a < 2 * heap && b > a && tb > ta);
	assert_string_not_equal(rp_plan_digest(near), rp_plan_digest(far));
	rp_plan_free(near), rp_plan_free(far);
	golden_close(&g);
}

static void test_no_room(void **state)
{
	(void)state;
	golden g;
	rp_plan *p = NULL;
	rp_error err;
	golden_open(&g, "llama", "model.gguf");
	rp_plan_device d = device("lavapipe");
	d.facts.heaps[0].size = 100000;
	assert_int_equal(rp_plan_make(g.graph, &d, &(rp_plan_opts){ 0 }, &p, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "the model with one sequence needs"));
	d = device("lavapipe");
	assert_int_equal(rp_plan_make(g.graph, &d, &(rp_plan_opts){ .variant = "none" }, &p, &err), RP_USAGE);
	golden_close(&g);
}

/* ---- stages ---- */
static void test_stages(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "qwen3_5", "model.gguf");
	rp_plan_device d = device("h200");
	uint32_t n = g.graph->n_layers;
	rp_plan *a = make(g.graph, &d, (rp_plan_opts){ .layer_last = 1 }), *b = make(g.graph, &d, (rp_plan_opts){ .layer_first = 1, .layer_last = n });
	char *x = text_of(a), *y = text_of(b);
	assert_non_null(strstr(x, "token_embd.weight"));
	assert_null(strstr(x, "output_norm.weight"));
	assert_null(strstr(x, "blk.1."));
	assert_non_null(strstr(y, "output_norm.weight"));
	assert_null(strstr(y, "blk.0."));
	assert_non_null(strstr(y, "\"input rows\""));
	check_pass(a, "decode");
	check_pass(b, "prefill");
	free(x), free(y);
	rp_plan_free(a), rp_plan_free(b);
	golden_close(&g);
}

/* ---- kept plans ---- */
static void differs(const rp_plan *kept, const rp_plan *here, const char *text)
{
	rp_error err = { 0 };
	assert_int_equal(rp_plan_compare("p.json", kept, here, &err), RP_STALE_PLAN);
	if (strstr(err.msg, text) == NULL)
		fail_msg("%s: not in: %s", text, err.msg);
}

static void test_compare(void **state)
{
	(void)state;
	golden g, other;
	golden_open(&g, "qwen3_5", "model.gguf");
	golden_open(&other, "llama", "model.gguf");
	rp_plan_device h200 = device("h200"), cpu = device("lavapipe"), newer = cpu, costly = cpu;
	rp_plan *kept = make(g.graph, &cpu, (rp_plan_opts){ .ctx = 256 }), *p[5];
	rp_error err;
	snprintf(newer.facts.driver_info, sizeof newer.facts.driver_info, "Mesa 25.1");
	costly.cost[RP_COST_BARRIER] = 9;
	p[0] = make(other.graph, &cpu, (rp_plan_opts){ .ctx = 256 });
	differs(kept, p[0], "it is the plan of another model: model.identity is ");
	p[1] = make(g.graph, &h200, (rp_plan_opts){ .ctx = 256 });
	differs(kept, p[1], "device.name is \"llvmpipe (LLVM 15.0.6, 256 bits)\" in the plan, \"NVIDIA H200\" here");
	p[2] = make(g.graph, &newer, (rp_plan_opts){ .ctx = 256 });
	differs(kept, p[2], "device.driver_info is \"Mesa 22.3.6 (LLVM 15.0.6)\" in the plan, \"Mesa 25.1\" here");
	p[3] = make(g.graph, &cpu, (rp_plan_opts){ .ctx = 300 });
	differs(kept, p[3], "settings.ctx is 256 in the plan, 300 here");
	p[4] = make(g.graph, &costly, (rp_plan_opts){ .ctx = 256 });
	differs(kept, p[4], "costs.barrier_ns.value is 15000 in the plan, 9 here");
	must(rp_plan_take_costs(kept, &costly, &err), &err);
	rp_plan *again = make(g.graph, &costly, (rp_plan_opts){ .ctx = 256 });
	must(rp_plan_compare("p.json", kept, again, &err), &err);
	rp_plan_free(again);
	rp_plan_free(kept);
	for (int i = 0; i < 5; i++)
		rp_plan_free(p[i]);
	golden_close(&g);
	golden_close(&other);
}

static void bad(const char *text, const char *from, const char *to, rp_code code, const char *message)
{
	char *changed = mm_replace(text, from, to);
	rp_plan *p = NULL;
	rp_error err = { 0 };
	if (rp_plan_parse("p.json", changed, strlen(changed), &p, &err) != code || strstr(err.msg, message) == NULL)
		fail_msg("%s -> %s: %d %s", from, to, (int)err.code, err.msg);
	free(changed);
}

static void test_kept(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "llama", "model.gguf");
	rp_plan_device d = device("h200");
	rp_plan *p = make(g.graph, &d, (rp_plan_opts){ .kv = RP_CACHE_F32, .ctx = 128, .chunk = 32, .depth = 7, .variant = "subgroup", .layer_last = 1 }), *q = NULL;
	char *text = text_of(p);
	rp_plan_opts o;
	rp_error err;
	must(rp_plan_parse("p.json", text, strlen(text), &q, &err), &err);
	assert_string_equal(rp_plan_digest(p), rp_plan_digest(q));
	must(rp_plan_settings(q, &o, &err), &err);
	assert_int_equal(o.ctx, 128);
	assert_int_equal(o.chunk, 32);
	assert_int_equal(o.depth, 7);
	assert_string_equal(o.variant, "subgroup");
	assert_int_equal(o.layer_first, 0);
	assert_int_equal(o.layer_last, 1);
	rp_plan *again = make(g.graph, &d, o);
	must(rp_plan_compare("p.json", q, again, &err), &err);
	bad(text, "\"ctx\":128", "\"ctx\":129", RP_HASH, "it was changed after it was made");
	bad(text, "reploid-plan/1", "reploid-plan/2", RP_FORMAT, "schema is \"reploid-plan/2\", expected \"reploid-plan/1\"");
	bad(text, "\"digest\":\"sha256:", "\"digest\":\"md5:", RP_FORMAT, "digest is");
	bad(text, "\"settings\":", "\"settlings\":", RP_FORMAT, "settings is missing, expected an object");
	bad(text, "\"buffers\":[", "\"buffers\":5,\"x\":[", RP_FORMAT, "buffers is 5, expected a list");
	must(rp_plan_belongs("p.json", q, g.model, &d, &err), &err);
	d.facts.max_shared /= 2;
	assert_int_equal(rp_plan_belongs("p.json", q, g.model, &d, &err), RP_STALE_PLAN);
	assert_non_null(strstr(err.msg, "device.limits.max_shared is 49152 in the plan, 24576 here"));
	rp_plan_free(p), rp_plan_free(q), rp_plan_free(again);
	free(text);
	golden_close(&g);
}

static void test_explain(void **state)
{
	(void)state;
	rp_model *m = NULL;
	rp_graph *g = NULL;
	rp_buf b;
	rp_error err;
	must(rp_model_open("random:tiny", &m, &err), &err);
	must(rp_graph_build(m, &g, &err), &err);
	rp_plan_device d = device("h200");
	rp_plan *p = make(g, &d, (rp_plan_opts){ 0 });
	rp_buf_init(&b, 0);
	must(rp_plan_explain(p, &b, &err), &err);
	static const char *const parts[] = { "plan      sha256:", "device    NVIDIA H200 (discrete, Vulkan 1.4.312, NVIDIA 580.159)", "\nprefill: ",
		"\ndecode: 1 row at position 0: ", "input_norm in_proj_qkv conv", "wide_glu", "rejected two products and elementwise", "\nmemory\n",
		"kv-cache", "assumed for a device of this kind" };
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strstr(b.data, parts[i]) == NULL)
			fail_msg("not explained: %s", parts[i]);
	rp_buf_free(&b);
	rp_plan_free(p);
	rp_graph_free(g);
	rp_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_deterministic), cmocka_unit_test(test_document), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_no_room), cmocka_unit_test(test_stages), cmocka_unit_test(test_compare), cmocka_unit_test(test_kept),
		cmocka_unit_test(test_explain) };
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
