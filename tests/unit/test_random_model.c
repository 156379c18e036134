/* Models of true shapes with weights by chance: what a reader and a family make of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "infer/infer.h"
#include "model/model.h"

static rp_model *open_model(const char *name)
{
	rp_model *m = NULL;
	rp_error err;
	if (rp_model_open(name, &m, &err) != RP_OK)
		fail_msg("%s: %s", name, err.msg);
	return m;
}

/* llama-135m has as many values as SmolLM2-135M; the others were counted by hand from the shapes. */
static void shapes_fit_their_families(void **state)
{
	static const struct {
		const char *name, *family;
		uint64_t values, bytes;
	} known[] = {
		{"random:tiny", "qwen3_5", 3357836, 2009648},
		{"random:tiny-llama", "llama", 1692928, 1212672},
		{"random:llama-135m", "llama", 134515008, 89941248},
	};
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		rp_model *m = open_model(known[i].name);
		rp_graph *g = NULL;
		rp_error err;
		uint64_t values = 0, bytes = 0;
		if (rp_graph_build(m, &g, &err) != RP_OK)
			fail_msg("%s: %s", known[i].name, err.msg);
		for (size_t k = 0; k < rp_model_n_tensors(m); k++) {
			values += rp_model_tensor(m, k)->n_values;
			bytes += rp_model_tensor(m, k)->size;
		}
		assert_string_equal(g->config.family, known[i].family);
		assert_int_equal(values, known[i].values);
		assert_int_equal(bytes, known[i].bytes);
		rp_graph_free(g);
		rp_model_close(m);
	}
}

/* Neither zeros nor copies: a mean near 0 and about the deviation 1 / sqrt(k) in every matrix, no two blocks equal. */
static void values_are_spread(void **state)
{
	rp_model *m = open_model("random:tiny");
	(void)state;
	for (size_t i = 0; i < rp_model_n_tensors(m); i++) {
		const rp_tensor *t = rp_model_tensor(m, i);
		float *v = malloc(t->n_values * sizeof *v);
		double sum = 0, squares = 0, n = (double)t->n_values;
		assert_non_null(v);
		assert_int_equal(rp_tensor_f32(m, t, v, NULL), RP_OK);
		for (uint64_t k = 0; k < t->n_values; k++) {
			assert_true(isfinite(v[k]));
			sum += (double)v[k];
			squares += (double)v[k] * (double)v[k];
		}
		if (t->n_dims == 2 && t->n_values > 10000) {
			double deviation = sqrt(squares / n) * sqrt((double)t->dims[1]);
			assert_true(fabs(sum / n) * sqrt((double)t->dims[1]) < 0.15);
			assert_true(deviation > 0.9 && deviation < 1.15);
		}
		if (t->dtype != RP_F32) {
			const char *bytes = rp_tensor_map(m, t);
			uint32_t block = rp_dtype_get(t->dtype)->block_bytes;
			for (uint64_t at = block; at < t->size; at += block)
				assert_memory_not_equal(bytes, bytes + at, block);
		}
		free(v);
	}
	rp_model_close(m);
}

static void a_seed_is_the_model(void **state)
{
	rp_model *a = open_model("random:tiny"), *b = open_model("random:tiny@1"), *c = open_model("random:tiny@2");
	const rp_tensor *t = rp_model_find(a, "blk.3.ffn_up.weight"), *u = rp_model_find(c, "blk.3.ffn_up.weight");
	(void)state;
	assert_string_equal(rp_model_identity(a), rp_model_identity(b));
	assert_string_not_equal(rp_model_identity(a), rp_model_identity(c));
	assert_memory_equal(rp_tensor_map(a, t), rp_tensor_map(b, rp_model_find(b, t->name)), t->size);
	assert_memory_not_equal(rp_tensor_map(a, t), rp_tensor_map(c, u), t->size);
	rp_model_close(a);
	rp_model_close(b);
	rp_model_close(c);
}

static void wrong_names(void **state)
{
	rp_model *m;
	rp_error err;
	(void)state;
	assert_int_equal(rp_model_open("random:", &m, &err), RP_NOT_FOUND);
	assert_int_equal(rp_model_open("random:tin", &m, &err), RP_NOT_FOUND);
	assert_non_null(strstr(err.msg, "qwen35-0.8b"));
	assert_int_equal(rp_model_open("random:tiny@", &m, &err), RP_USAGE);
	assert_int_equal(rp_model_open("random:tiny@-1", &m, &err), RP_USAGE);
	assert_int_equal(rp_model_open("random:tiny@18446744073709551616", &m, &err), RP_USAGE);
}

static void computes(void **state)
{
	static const char *const names[] = {"random:tiny", "random:tiny-llama"};
	const uint32_t ids[] = {1, 2, 3, 4, 5};
	(void)state;
	for (int i = 0; i < 2; i++) {
		rp_model *m = open_model(names[i]);
		rp_graph *g = NULL;
		rp_engine *e = NULL;
		rp_seq *s = NULL;
		rp_output out;
		rp_error err = {0};
		if (rp_graph_build(m, &g, &err) != RP_OK || rp_engine_open(g, &(rp_engine_opts){.device = "cpu", .ctx = 16}, &e, &err) != RP_OK ||
			rp_seq_new(e, &s, &err) != RP_OK ||
			rp_forward(e, &(rp_segment){.seq = s, .ids = ids, .n = 5, .want = RP_WANT_ALL}, 1, &out, &err) != RP_OK)
			fail_msg("%s: %s", names[i], err.msg);
		for (size_t k = 0; k < out.n_rows * out.width; k++)
			assert_true(isfinite(out.logits[k]));
		assert_memory_not_equal(out.logits, out.logits + out.width, out.width * sizeof(float));
		rp_seq_free(s);
		rp_engine_close(e);
		rp_graph_free(g);
		rp_model_close(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_fit_their_families),
		cmocka_unit_test(values_are_spread),
		cmocka_unit_test(a_seed_is_the_model),
		cmocka_unit_test(wrong_names),
		cmocka_unit_test(computes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
