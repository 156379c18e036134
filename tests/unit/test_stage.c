/* Which tensors a stage needs, against what the operations of its layers use; headers without their files. */
#include "plan/stage.h"

#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"

static void use(const rp_model *m, const rp_op *ops, uint32_t n, bool *used)
{
	for (uint32_t i = 0; i < n; i++)
		for (int w = 0; w < 2; w++)
			for (size_t t = 0; t < rp_model_n_tensors(m); t++)
				used[t] = used[t] || rp_model_tensor(m, t) == ops[i].w[w];
}

/* Every tensor an operation of the stage reads is needed, and no other but those that nothing reads. */
static void check_stage(const rp_graph *g, uint32_t first, uint32_t last)
{
	const rp_model *m = g->model;
	size_t n = rp_model_n_tensors(m);
	bool *need = rp_alloc_array(n, 1), *used = rp_alloc_array(n, 1), *all = rp_alloc_array(n, 1);
	rp_stage_tensors(m, first, last, need);
	use(m, g->pre, g->n_pre, all);
	use(m, g->post, g->n_post, all);
	if (first == 0)
		use(m, g->pre, g->n_pre, used);
	if (last == g->n_layers)
		use(m, g->post, g->n_post, used);
	for (uint32_t l = 0; l < g->n_layers; l++) {
		use(m, g->layers[l].ops, g->layers[l].n_ops, all);
		if (l >= first && l < last)
			use(m, g->layers[l].ops, g->layers[l].n_ops, used);
	}
	for (size_t t = 0; t < n; t++)
		if (need[t] != used[t] && (all[t] || !need[t]))
			fail_msg("layers %u to %u: %s is %s", first, last - 1, rp_model_tensor(m, t)->name, need[t] ? "not used" : "left out");
	free(need), free(used), free(all);
}

static void test_tensors(void **state)
{
	static const char *const models[][2] = { { "llama", NULL }, { "llama", "model.gguf" }, { "qwen3_5", NULL }, { "qwen3_5", "model.gguf" } };
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		golden g;
		golden_open(&g, models[i][0], models[i][1]);
		assert_int_equal(rp_stage_layers(g.model), g.graph->n_layers);
		for (uint32_t first = 0; first < g.graph->n_layers; first++)
			for (uint32_t last = first + 1; last <= g.graph->n_layers; last++)
				check_stage(g.graph, first, last);
		golden_close(&g);
	}
}

/* In order, apart, inside the file; every needed span is covered; the header is there. */
static void test_ranges(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "qwen3_5", "model.gguf");
	size_t n = rp_model_n_tensors(g.model), n_ranges = 0;
	bool *need = rp_alloc_array(n, 1);
	rp_stage_range *r = NULL;
	rp_error err;
	rp_stage_tensors(g.model, 1, 2, need);
	must(rp_stage_ranges(g.model, need, 0, &r, &n_ranges, &err), &err);
	assert_true(n_ranges > 0 && r[0].offset == 0);
	for (size_t i = 1; i < n_ranges; i++)
		assert_true(r[i].offset > r[i - 1].offset + r[i - 1].size + 4096);
	assert_true(r[n_ranges - 1].offset + r[n_ranges - 1].size <= rp_model_bytes(g.model));
	for (size_t t = 0; t < n; t++) {
		const rp_span *s = rp_model_tensor(g.model, t)->spans;
		size_t in = 0;
		while (need[t] && in < n_ranges && !(s->offset >= r[in].offset && s->offset + s->size <= r[in].offset + r[in].size))
			in++;
		assert_true(!need[t] || in < n_ranges);
	}
	assert_true(rp_stage_bytes(g.model, need) < rp_model_bytes(g.model));
	free(need);
	free(r);
	golden_close(&g);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		int layer;
	} cases[] = { { "blk.7.attn_q.weight", 7 }, { "model.layers.23.mlp.up_proj.weight", 23 }, { "layers.0.x", 0 }, { "token_embd.weight", -1 },
		{ "xblk.3.y", -1 }, { "blk.x.y", -1 }, { "blk.5", -1 }, { "blk.99999.y", -1 }, { "blk.1024.y", -1 }, { "a.blk.2.b", 2 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(rp_stage_layer_of(&(rp_tensor){ .name = cases[i].name }), cases[i].layer);
}

/* A header alone: the same table of tensors; too few bytes say how many more. */
static void test_header(void **state)
{
	(void)state;
	golden g;
	golden_open(&g, "llama", "model.gguf");
	char *bytes = NULL;
	size_t n = 0;
	rp_error err;
	must(rp_read_file(rp_model_path(g.model), 1 << 26, &bytes, &n, &err), &err);
	uint64_t wanted = 0;
	rp_model *m = NULL;
	size_t have = 16, steps = 0;
	rp_code rc = RP_READ;
	while ((rc = rp_model_open_header("far", bytes, have, n, &wanted, &m, &err)) != RP_OK) {
		assert_int_equal(rc, RP_READ);
		assert_true(wanted > have && wanted <= n);
		have = (size_t)wanted;
		steps++;
	}
	assert_true(steps > 10 && have < n / 2);
	assert_string_equal(rp_model_identity(m), rp_model_identity(g.model));
	assert_int_equal(rp_model_n_tensors(m), rp_model_n_tensors(g.model));
	assert_int_equal(rp_model_bytes(m), n);
	for (size_t t = 0; t < rp_model_n_tensors(m); t++)
		assert_int_equal(rp_model_tensor(m, t)->spans[0].offset, rp_model_tensor(g.model, t)->spans[0].offset);
	float x[4];
	assert_int_not_equal(rp_tensor_read(m, rp_model_tensor(m, 0), 0, x, sizeof x, &err), RP_OK);
	rp_model_close(m);
	assert_int_equal(rp_model_open_header("far", bytes, have, have / 2, &wanted, &m, &err), RP_FORMAT);
	assert_int_equal(wanted, 0);
	assert_int_equal(rp_model_open_header("far", "GGUF\1\0\0\0", 8, 1000, &wanted, &m, &err), RP_UNSUPPORTED);
	assert_int_equal(rp_model_open_header("far", "<htm\3\0\0\0", 8, 1000, &wanted, &m, &err), RP_FORMAT);
	assert_non_null(strstr(err.msg, "3c 68 74 6d"));
	assert_int_equal(wanted, 0);
	free(bytes);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_tensors), cmocka_unit_test(test_ranges), cmocka_unit_test(test_names),
		cmocka_unit_test(test_header) };
	return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
