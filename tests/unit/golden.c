#include "golden.h"

#include "infer/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void must(rp_code code, const rp_error *err)
{
	if (code)
		fail_msg("%s: %s", rp_code_word(code), err->msg);
}

static const cJSON *at(const cJSON *o, const char *key)
{
	const cJSON *child = cJSON_GetObjectItemCaseSensitive(o, key);

	if (!child)
		fail_msg("golden.json has no %s", key);
	return child;
}

static double num(const cJSON *o, const char *key)
{
	return at(o, key)->valuedouble;
}

void golden_open(golden *g, const char *name, const char *file)
{
	rp_error err;
	char path[200];
	char *text;
	size_t n;

	snprintf(path, sizeof path, "tests/golden/%s/golden.json", name);
	must(rp_read_file(path, 64 << 20, &text, &n, &err), &err);
	must(rp_json_parse(path, text, n, &g->json, &err), &err);
	free(text);
	snprintf(path, sizeof path, "tests/golden/%s%s%s", name, file ? "/" : "", file ? file : "");
	must(rp_model_open(path, &g->model, &err), &err);
	must(rp_graph_build(g->model, &g->graph, &err), &err);
	const cJSON *ids = at(g->json, "prompt_ids"), *id;
	g->n_prompt = 0;
	g->prompt = rp_alloc_array((size_t)cJSON_GetArraySize(ids), sizeof *g->prompt);
	cJSON_ArrayForEach(id, ids)
		g->prompt[g->n_prompt++] = (uint32_t)id->valuedouble;
}

void golden_close(golden *g)
{
	rp_graph_free(g->graph);
	rp_model_close(g->model);
	cJSON_Delete(g->json);
	free(g->prompt);
}

/* ---- recorded taps ---- */

typedef struct tap {
	int layer;
	char label[24];
	size_t rows, width;
	float *data;
} tap;

typedef struct taps {
	tap v[512];
	size_t n;
} taps;

static void record(void *user, int layer, const char *label, const float *data, size_t rows, size_t width)
{
	taps *t = user;
	tap *one = &t->v[t->n++];

	assert_true(t->n <= sizeof t->v / sizeof *t->v);
	*one = (tap){.layer = layer, .rows = rows, .width = width, .data = rp_alloc_array(rows * width, sizeof(float))};
	snprintf(one->label, sizeof one->label, "%s", label);
	memcpy(one->data, data, rows * width * sizeof *data);
}

static void forget(taps *t)
{
	while (t->n > 0)
		free(t->v[--t->n].data);
}

static const tap *find(const taps *t, int layer, const char *label)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].layer == layer && strcmp(t->v[i].label, label) == 0)
			return &t->v[i];
	fail_msg("no tap %s in layer %d", label, layer);
	return NULL;
}

/* ---- summaries ---- */

static void near(double got, double want, double limit, const char *name, const char *what)
{
	if (!(fabs(got - want) <= limit))
		fail_msg("%s: %s is %.9g, recorded %.9g, limit %.3g", name, what, got, want, limit);
}

/* x: [rows, width] flattened in the recorded order. */
static void check_summary(const cJSON *want, const char *name, const float *x, size_t rows, size_t width, double rel)
{
	double sum = 0, sumsq = 0, absmax = 0, wsum = 0, n = (double)(rows * width);
	const cJSON *value;
	size_t i = 0;

	for (size_t k = 0; k < rows * width; k++) {
		double v = (double)x[k];
		sum += v;
		sumsq += v * v;
		absmax = fmax(absmax, fabs(v));
		wsum += v * ((double)(k % 97) - 48) / 48;
	}
	double error = rel * sqrt(num(want, "sumsq")); /* the most the norm of the difference may be */
	near(sum, num(want, "sum"), error * sqrt(n), name, "the sum");
	near(wsum, num(want, "wsum"), error * sqrt(n), name, "the weighted sum");
	near(sumsq, num(want, "sumsq"), 3 * rel * num(want, "sumsq"), name, "the sum of squares");
	near(absmax, num(want, "absmax"), error, name, "the largest magnitude");
	cJSON_ArrayForEach(value, at(want, "first8"))
		near((double)x[i++], value->valuedouble, error, name, "a value of the first row");
	i = (rows - 1) * width;
	cJSON_ArrayForEach(value, at(want, "last8"))
		near((double)x[i++], value->valuedouble, error, name, "a value of the last row");
}

static double check_logits(const cJSON *want, const char *name, const float *x, uint32_t vocab, const golden_limits *l)
{
	const cJSON *ids = at(want, "top_ids"), *logits = at(want, "top_logits");
	double worst = 0, ab = 0, aa = 0, bb = 0, sum = 0;

	for (int i = 0; i < cJSON_GetArraySize(ids); i++) {
		double a = (double)x[(uint32_t)cJSON_GetArrayItem(ids, i)->valuedouble], b = cJSON_GetArrayItem(logits, i)->valuedouble;
		worst = fmax(worst, fabs(a - b));
		ab += a * b;
		aa += a * a;
		bb += b * b;
	}
	for (int i = 0; i < 8; i++)
		worst = fmax(worst, fabs((double)x[i] - cJSON_GetArrayItem(at(want, "first8"), i)->valuedouble));
	for (uint32_t i = 0; i < vocab; i++)
		sum += (double)x[i];
	near(worst, 0, (double)l->logits, name, "the largest difference of a logit");
	near(sum, num(want, "sum"), (double)l->logits * vocab, name, "the sum of logits");
	if (!(ab / sqrt(aa * bb) >= l->cosine))
		fail_msg("%s: cosine %.8f of the top logits is under %.8f", name, ab / sqrt(aa * bb), l->cosine);
	if (num(want, "margin") > 10 * (double)l->logits)
		assert_int_equal(rp_ref_argmax(x, vocab), (uint32_t)num(want, "argmax"));
	return worst;
}

static float *minus(const tap *a, const float *b)
{
	float *d = rp_alloc_array(a->rows * a->width, sizeof *d);

	for (size_t i = 0; i < a->rows * a->width; i++)
		d[i] = a->data[i] - b[i];
	return d;
}

/* "layer3.mlp" and the like: taps hold the residual stream, records hold what a branch adds to it. */
static void check_tensor(const cJSON *want, const taps *t, double rel)
{
	const char *name = at(want, "name")->valuestring;
	char part[24] = "";
	int layer = -1;

	if (sscanf(name, "layer%d.%23s", &layer, part) < 1) {
		const tap *top = find(t, -1, name);
		check_summary(want, name, top->data, top->rows, top->width, rel);
		return;
	}
	const tap *mixer = find(t, layer, "mixer"), *end = find(t, layer, "layer");
	if (part[0] == '\0') {
		check_summary(want, name, end->data, end->rows, end->width, rel);
		return;
	}
	const tap *before = layer == 0 ? find(t, -1, "embed") : find(t, layer - 1, "layer");
	float *branch = strcmp(part, "mlp") == 0 ? minus(end, mixer->data) : minus(mixer, before->data);
	check_summary(want, name, branch, end->rows, end->width, rel);
	free(branch);
}

static void check_tensors(const cJSON *list, const taps *t, double rel)
{
	const cJSON *want;

	cJSON_ArrayForEach(want, list)
		check_tensor(want, t, rel);
}

/* ---- caches, from what the prefill wrote into them ---- */

/* Taps are [token, head, value], the recorded caches [head, token, value]. */
static void check_kv(const cJSON *want, const char *name, const tap *t, size_t heads, double rel)
{
	size_t d = t->width / heads;
	float *x = rp_alloc_array(t->rows * t->width, sizeof *x);

	for (size_t r = 0; r < t->rows; r++)
		for (size_t h = 0; h < heads; h++)
			memcpy(x + (h * t->rows + r) * d, t->data + r * t->width + h * d, d * sizeof *x);
	check_summary(want, name, x, heads * t->rows, d, rel);
	free(x);
}

/* Recorded: the last `n` inputs of every channel, [channel, n]. */
static void check_conv_state(const cJSON *want, const tap *t, double rel)
{
	size_t n = (size_t)cJSON_GetArrayItem(at(want, "shape"), 2)->valuedouble;
	float *x = rp_alloc_array(n * t->width, sizeof *x);

	for (size_t c = 0; c < t->width; c++)
		for (size_t j = 0; j < n; j++)
			x[c * n + j] = t->data[(t->rows - n + j) * t->width + c];
	check_summary(want, "conv_states", x, t->width, n, rel);
	free(x);
}

/* The state after the prompt, computed chunk by chunk from the recorded inputs; what the chunks read must be what the run
 * read token by token. Value heads are recorded in the order of the safetensors layout. */
static void check_delta_state(const golden *g, const cJSON *want, const taps *t, int layer, double rel)
{
	const rp_op *op = NULL;
	const tap *qkv = find(t, layer, "conv"), *read = find(t, layer, "delta");

	for (uint32_t i = 0; i < g->graph->layers[layer].n_ops; i++)
		if (g->graph->layers[layer].ops[i].kind == RP_OP_DELTA)
			op = &g->graph->layers[layer].ops[i];
	assert_non_null(op);
	rp_delta_shape shape = {op->heads, op->kv_heads, op->head_dim, op->group, op->head_mod, op->neg_exp, op->eps};
	size_t each = (size_t)op->head_dim * op->group, chunk = 64;
	float *state = rp_alloc_array(op->heads * each, sizeof *state), *out = rp_alloc_array(read->rows * read->width, sizeof *out);
	float *scratch = rp_alloc_array(rp_ref_delta_chunk_scratch(&shape, chunk), sizeof *scratch);
	float A[64], dt[64];
	rp_error err;

	assert_true(op->heads <= 64);
	must(rp_tensor_f32(g->model, op->w[0], A, &err), &err);
	must(rp_tensor_f32(g->model, op->w[1], dt, &err), &err);
	for (uint32_t h = 0; h < op->heads; h++) {
		uint32_t place = op->head_mod ? h % op->kv_heads * (op->heads / op->kv_heads) + h / op->kv_heads : h;
		rp_ref_delta_head_chunked(out, qkv->data, find(t, layer, "in_proj_a")->data, find(t, layer, "in_proj_b")->data, A, dt,
			state + place * each, qkv->rows, &shape, h, chunk, scratch);
	}
	check_summary(want, "recurrent_states", state, op->heads * op->head_dim, op->group, rel);
	double diff = 0, norm = 0;
	for (size_t i = 0; i < read->rows * read->width; i++) {
		diff += pow((double)out[i] - (double)read->data[i], 2);
		norm += pow((double)out[i], 2);
	}
	near(sqrt(diff / norm), 0, 1e-5, "delta", "the difference between chunks and single tokens");
	free(state);
	free(out);
	free(scratch);
}

static void check_caches(const golden *g, const cJSON *list, const taps *t, double rel)
{
	const rp_config *c = &g->graph->config;
	const cJSON *one;
	int layer = 0;

	cJSON_ArrayForEach(one, list) {
		if (c->layer_kind[layer] == RP_LAYER_FULL) {
			if (!c->rope_interleaved) /* else the keys' values stand in another order */
				check_kv(at(one, "keys"), "keys", find(t, layer, "k_rope"), c->n_kv_heads, rel);
			check_kv(at(one, "values"), "values", find(t, layer, "v_proj"), c->n_kv_heads, rel);
		} else {
			if (!c->lin_head_mod) /* else the channels do */
				check_conv_state(at(one, "conv_states"), find(t, layer, "in_proj_qkv"), rel);
			check_delta_state(g, at(one, "recurrent_states"), t, layer, rel);
		}
		layer++;
	}
	assert_int_equal(layer, c->n_layers);
}

/* ---- runs ---- */

static double check_prefill(const golden *g, rp_engine *e, rp_seq *seq, taps *t, const golden_limits *l)
{
	const cJSON *want = at(g->json, "prefill"), *argmax = at(want, "argmax_per_position"), *id;
	rp_segment segment = {.seq = seq, .ids = g->prompt, .n = g->n_prompt, .want = RP_WANT_ALL};
	uint32_t vocab = g->graph->config.vocab, wrong = 0, row = 0;
	rp_output out;
	rp_error err;

	must(rp_forward(e, &segment, 1, &out, &err), &err);
	assert_int_equal(out.n_rows, g->n_prompt);
	assert_int_equal(out.width, vocab);
	check_tensors(at(want, "tensors"), t, l->rel);
	check_caches(g, at(want, "cache"), t, l->rel);
	check_summary(at(want, "logits_all"), "logits_all", out.logits, out.n_rows, out.width, l->rel);
	cJSON_ArrayForEach(id, argmax)
		wrong += rp_ref_argmax(out.logits + (size_t)row++ * vocab, vocab) != (uint32_t)id->valuedouble;
	assert_int_equal(row, g->n_prompt);
	assert_int_equal(wrong, 0);
	return check_logits(at(want, "logits_last"), "prefill", out.logits + (size_t)(g->n_prompt - 1) * vocab, vocab, l);
}

void golden_check(const golden *g, const rp_engine_opts *opts, const golden_limits *l)
{
	taps *t = rp_alloc(sizeof *t);
	rp_engine_opts o = *opts;
	rp_engine *e;
	rp_seq *seq;
	rp_error err;
	rp_output out;
	const cJSON *step;
	double worst = 0;
	int steps = 0;

	o.tap = record;
	o.tap_user = t;
	must(rp_engine_open(g->graph, &o, &e, &err), &err);
	must(rp_seq_new(e, &seq, &err), &err);
	double prefill = check_prefill(g, e, seq, t, l);
	cJSON_ArrayForEach(step, at(g->json, "decode")) {
		uint32_t id = (uint32_t)num(step, "input_id");
		rp_segment segment = {.seq = seq, .ids = &id, .n = 1, .want = RP_WANT_LAST};
		char name[32];

		forget(t);
		must(rp_forward(e, &segment, 1, &out, &err), &err);
		snprintf(name, sizeof name, "step %d", steps++);
		worst = fmax(worst, check_logits(at(step, "logits"), name, out.logits, g->graph->config.vocab, l));
		check_tensors(at(step, "tensors"), t, l->rel);
	}
	print_message("largest difference of a recorded logit: prefill %.2g, %d steps %.2g\n", prefill, steps, worst);
	assert_true(steps >= 64);
	forget(t);
	free(t);
	rp_seq_free(seq);
	rp_engine_close(e);
}

void golden_check_free_running(const golden *g, const rp_engine_opts *opts)
{
	const cJSON *want = at(g->json, "chosen_ids"), *id;
	const uint32_t *ids = g->prompt;
	uint32_t n = g->n_prompt, next, same = 0;
	rp_engine *e;
	rp_seq *seq;
	rp_error err;
	rp_output out;

	must(rp_engine_open(g->graph, opts, &e, &err), &err);
	must(rp_seq_new(e, &seq, &err), &err);
	cJSON_ArrayForEach(id, want) {
		rp_segment segment = {.seq = seq, .ids = ids, .n = n, .want = RP_WANT_LAST};
		must(rp_forward(e, &segment, 1, &out, &err), &err);
		next = rp_ref_argmax(out.logits, g->graph->config.vocab);
		assert_int_equal(next, (uint32_t)id->valuedouble);
		ids = &next;
		n = 1;
		same++;
	}
	assert_true(same >= 64);
	rp_seq_free(seq);
	rp_engine_close(e);
}
