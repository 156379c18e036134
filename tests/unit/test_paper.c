/* The paper device: it obeys limits, keeps what is recorded, and an engine on it submits what it would submit on the real one. */
#include "vk/private.h"

#include "infer/gpu.h"
#include "infer/gpu_paper.h"
#include "plan/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "vk_hold.h"

static rp_plan_device lavapipe(void)
{
	rp_plan_device d;
	rp_error err;
	must(rp_plan_device_load("tests/golden/devices/lavapipe.json", &d, &err), &err);
	return d;
}

static rp_vk *open_paper(const rp_vk_opts *opts)
{
	rp_plan_device d = lavapipe();
	rp_vk *vk = NULL;
	rp_error err;
	must(rp_vk_open_paper(&d.facts, opts, &vk, &err), &err);
	assert_true(rp_vk_on_paper(vk));
	return vk;
}

static rp_vk_buf *buffer(rp_vk *vk, rp_vk_use use, uint64_t bytes, const char *name)
{
	rp_vk_buf *b = NULL;
	rp_error err;
	must(rp_vk_buf_new(vk, use, bytes, name, &b, &err), &err);
	return b;
}

/* ---- memory ---- */
static void test_memory(void **state)
{
	(void)state;
	rp_vk *vk = open_paper(&(rp_vk_opts){ .max_memory = 64 << 20 });
	rp_vk_buf *stream = buffer(vk, RP_VK_STREAM, 5000, "stream"), *local = buffer(vk, RP_VK_LOCAL, 1 << 20, "local");
	rp_error err;
	unsigned char in[5000], out[5000];
	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)(i * 7);
	must(rp_vk_write(vk, stream, 0, in, sizeof in, &err), &err);
	must(rp_vk_read(vk, stream, 0, out, sizeof out, &err), &err);
	assert_memory_equal(in, out, sizeof in);
	assert_memory_equal(rp_vk_buf_map(stream), in, sizeof in);
	must(rp_vk_write(vk, local, 0, in, sizeof in, &err), &err);

	size_t n = 0;
	const rp_vk_paper_buf *bufs = rp_vk_paper_bufs(vk, &n);
	assert_int_equal(n, 2);
	assert_ptr_equal(bufs[1].buf, local);
	assert_string_equal(bufs[1].name, "local");
	assert_int_equal(bufs[1].size, 1 << 20);
	assert_int_equal(rp_vk_paper_heap(vk, 0), 16 << 20); /* the first block */
	assert_int_equal(rp_vk_allocated(vk), 16 << 20);
	rp_vk_buf *more = NULL;
	assert_int_equal(rp_vk_buf_new(vk, RP_VK_LOCAL, 60 << 20, "too much", &more, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "too much needs 60.0 MiB, 48.0 MiB of 64.0 MiB are free"));
	assert_int_equal(rp_vk_buf_new(vk, RP_VK_LOCAL, (uint64_t)3 << 30, "a giant", &more, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "the device allows 2048.0 MiB in one piece"));
	rp_vk_buf_free(local);
	bufs = rp_vk_paper_bufs(vk, &n);
	assert_int_equal(n, 1);
	assert_ptr_equal(bufs[0].buf, stream);
	rp_vk_buf_free(stream);
	assert_int_equal(rp_vk_paper_heap(vk, 0), 0);
	rp_vk_close(vk);
}

/* Memory for weights is only counted, however much it is: a description may be of a larger machine than this one. */
static void test_large(void **state)
{
	(void)state;
	rp_plan_device d = lavapipe();
	d.facts.heaps[0].size = (uint64_t)1 << 42;
	d.facts.max_allocation = (uint64_t)1 << 40;
	rp_vk *vk = NULL;
	rp_error err;
	must(rp_vk_open_paper(&d.facts, NULL, &vk, &err), &err);
	rp_vk_buf *b = buffer(vk, RP_VK_LOCAL, (uint64_t)1 << 39, "weights of a giant");
	assert_int_equal(rp_vk_paper_heap(vk, 0), (uint64_t)1 << 39);
	rp_vk_buf_free(b);
	rp_vk_close(vk);
}

/* ---- pipelines ---- */
static rp_code pipeline(rp_vk *vk, const char *kernel, const char *constant, uint32_t value, rp_vk_pipeline **out, rp_error *err)
{
	const rp_kernel *k = rp_kernel_find(kernel);
	assert_non_null(k);
	return rp_vk_pipeline_get(vk, k, &(rp_vk_const){ constant, value }, 1, NULL, 0, out, err);
}

static void test_pipelines(void **state)
{
	(void)state;
	rp_vk *vk = open_paper(&(rp_vk_opts){ .features_off = RP_VK_SUBGROUPS });
	rp_vk_pipeline *a = NULL, *b = NULL;
	rp_error err;
	must(pipeline(vk, "matvec", "WG", 64, &a, &err), &err);
	must(pipeline(vk, "matvec", "WG", 64, &b, &err), &err);
	assert_ptr_equal(a, b);
	assert_int_equal(rp_vk_pipeline_workgroup(a)[0], 64);
	assert_int_equal(rp_vk_pipeline_subgroup(a), 0);
	assert_int_equal(pipeline(vk, "matvec", "NO_SUCH", 1, &a, &err), RP_INTERNAL);
	assert_string_equal(err.msg, "kernel matvec has no constant NO_SUCH");
	assert_int_equal(pipeline(vk, "matvec", "WG", 2048, &a, &err), RP_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "wants workgroups of 2048 x 1 x 1, the device allows 1024"));
	assert_int_equal(pipeline(vk, "matvec_subgroup", "WG", 64, &a, &err), RP_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "needs subgroup operations, which the device lacks"));
	rp_vk_close(vk);
}

/* ---- recordings ---- */
static void test_recording(void **state)
{
	(void)state;
	rp_vk *vk = open_paper(NULL);
	rp_vk_buf *x = buffer(vk, RP_VK_LOCAL, 4096, "x"), *y = buffer(vk, RP_VK_LOCAL, 4096, "y"), *z = buffer(vk, RP_VK_LOCAL, 4096, "z");
	rp_vk_pipeline *p = NULL;
	rp_vk_cmd *c = NULL;
	rp_error err;
	struct {
		uint32_t n;
	} args = { 256 };
	must(pipeline(vk, "elementwise", "OP", 0, &p, &err), &err);
	must(rp_vk_cmd_new(vk, "test", &c, &err), &err);
	must(rp_vk_cmd_begin(c, RP_VK_REPLAY, &err), &err);
	must(rp_vk_cmd_fill(c, x, 1024, 512, 7, &err), &err);
	rp_vk_cmd_note(c, &(rp_vk_note){ .layer = 3, .ops = "add", .why = "because", .rejected = "nothing" });
	rp_vk_bind binds[4] = { { 0 }, { x, 0, 0 }, { y, 1024, 1024 }, { z, 0, 0 } };
	must(rp_vk_cmd_dispatch(c, p, binds, 4, &args, sizeof args, 2, 1, 1, &err), &err);
	must(rp_vk_cmd_copy(c, z, 256, y, 0, 512, &err), &err);
	must(rp_vk_cmd_end(c, &err), &err);
	size_t n = 0;
	rp_vk_paper_work(vk, &n);
	assert_int_equal(n, 0); /* nothing was submitted yet */
	rp_vk_cmd *twice[2] = { c, c };
	must(rp_vk_submit(vk, twice, 2, NULL, &err), &err);
	const rp_vk_work *w = rp_vk_paper_work(vk, &n);
	assert_int_equal(n, 6);
	assert_int_equal(w[0].kind, RP_VK_FILL);
	assert_false(w[0].barrier);
	assert_ptr_equal(w[0].binds[0].buf, x);
	assert_int_equal(w[0].binds[0].offset, 1024);
	assert_int_equal(w[1].kind, RP_VK_DISPATCH);
	assert_true(w[1].barrier);
	assert_string_equal(w[1].recording, "test");
	assert_int_equal(w[1].n_binds, 3);
	assert_int_equal(w[1].binds[0].size, 4096); /* to the end of the buffer */
	assert_int_equal(w[1].binds[1].offset, 1024);
	assert_true(w[1].binds[2].binding->writable);
	assert_int_equal(w[1].groups[0], 2);
	assert_int_equal(w[1].push_bytes, sizeof args);
	assert_memory_equal(w[1].push, &args, sizeof args);
	assert_int_equal(w[1].note.layer, 3);
	assert_string_equal(w[1].note.rejected, "nothing");
	assert_int_equal(w[2].kind, RP_VK_COPY);
	assert_true(w[2].barrier);
	assert_int_equal(w[2].note.layer, -1); /* a note is for one piece of work */
	rp_vk_paper_forget(vk);
	rp_vk_paper_work(vk, &n);
	assert_int_equal(n, 0);

	must(rp_vk_cmd_begin(c, 0, &err), &err);
	assert_int_equal(rp_vk_cmd_dispatch(c, p, binds, 4, &args, sizeof args, 70000, 1, 1, &err), RP_INTERNAL);
	binds[2].offset = 8;
	assert_int_equal(rp_vk_cmd_dispatch(c, p, binds, 4, &args, sizeof args, 1, 1, 1, &err), RP_INTERNAL);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(x), rp_vk_buf_free(y), rp_vk_buf_free(z);
	rp_vk_close(vk);
}

/* ---- engines ---- */
typedef struct work { /* of a prompt's pass and of one chosen token */
	rp_engine_stats prompt, token;
	uint64_t device_bytes;
} work;

static rp_code any_id(void *user, uint32_t id, bool *stop, rp_error *err)
{
	(void)user, (void)id, (void)stop, (void)err;
	return RP_OK;
}

static rp_engine_stats since(const rp_engine *e, rp_engine_stats before)
{
	rp_engine_stats s;
	rp_engine_count(e, &s);
	return (rp_engine_stats){ s.submits - before.submits, s.dispatches - before.dispatches, s.barriers - before.barriers,
		s.copies - before.copies, 0 };
}

static work run_both(const rp_graph *graph, rp_engine_opts opts, size_t *listed)
{
	rp_engine *e = NULL;
	rp_seq *s = NULL;
	rp_error err;
	work w;
	must(rp_engine_open(graph, &opts, &e, &err), &err);
	must(rp_seq_new(e, &s, &err), &err);
	uint32_t ids[24] = { 1, 2, 3 };
	rp_engine_stats none = { 0 }, before = since(e, none);
	rp_vk *vk = ((rp_gpu *)e->state)->vk;
	if (opts.paper != NULL)
		rp_vk_paper_forget(vk);
	must(rp_forward(e, &(rp_segment){ .seq = s, .ids = ids, .n = 24, .want = RP_WANT_LAST }, 1, NULL, &err), &err);
	w.prompt = since(e, before);
	before = since(e, none);
	must(rp_decode(e, s, &(rp_decode_opts){ .first = 1, .n = 1, .careful = true }, any_id, NULL, NULL), NULL);
	w.token = since(e, before);
	w.device_bytes = rp_vk_allocated(vk);
	if (listed != NULL)
		rp_vk_paper_work(vk, listed);
	rp_seq_free(s);
	rp_engine_close(e);
	return w;
}

/* The same on the real device and on paper made of its facts, with every variant of the kernels. */
static void test_same_work(void **state)
{
	static const char *const models[][2] = { { "llama", "model.gguf" }, { "qwen3_5", NULL }, { "qwen3_5", "model.gguf" } };
	static const char *const variants[] = { "portable", "subgroup", "fused" };
	(void)state;
	rp_vk *vk = NULL;
	rp_error err;
	if (rp_vk_open(NULL, &vk, &err) != RP_OK) {
		print_message("SKIP: %s\n", err.msg);
		skip();
	}
	rp_plan_device d;
	rp_plan_device_of(rp_vk_describe(vk), &d);
	vk_hold_drivers();
	rp_vk_close(vk);
	for (size_t m = 0; m < sizeof models / sizeof *models; m++)
		for (size_t v = 0; v < 3; v++) {
			golden g;
			size_t listed = 0;
			golden_open(&g, models[m][0], models[m][1]);
			work real = run_both(g.graph, (rp_engine_opts){ .device = "gpu", .variant = variants[v] }, NULL);
			work paper = run_both(g.graph, (rp_engine_opts){ .paper = &d.facts, .variant = variants[v] }, &listed);
			assert_memory_equal(&real.prompt, &paper.prompt, sizeof real.prompt);
			assert_memory_equal(&real.token, &paper.token, sizeof real.token);
			assert_int_equal(real.device_bytes, paper.device_bytes);
			assert_int_equal(listed, paper.prompt.dispatches + paper.prompt.copies + paper.token.dispatches + paper.token.copies);
			golden_close(&g);
		}
}

/* Every buffer of an engine is known, and by a name of its own. */
static void test_roles(void **state)
{
	(void)state;
	rp_plan_device d = lavapipe();
	golden g;
	rp_engine *e = NULL;
	rp_error err;
	golden_open(&g, "qwen3_5", "model.gguf");
	must(rp_engine_open(g.graph, &(rp_engine_opts){ .paper = &d.facts }, &e, &err), &err);
	size_t n = 0;
	const rp_vk_paper_buf *bufs = rp_vk_paper_bufs(rp_engine_paper(e), &n);
	size_t count[RP_BUF_CLASS_COUNT] = { 0 };
	for (size_t i = 0; i < n; i++) {
		rp_buf_role a, b;
		rp_engine_role(e, bufs[i].buf, &a);
		count[a.class]++;
		assert_true(a.class == RP_BUF_OTHER || a.name[0] != '\0');
		for (size_t k = 0; k < i && a.class != RP_BUF_OTHER; k++) {
			rp_engine_role(e, bufs[k].buf, &b);
			assert_string_not_equal(a.name, b.name);
		}
	}
	size_t full = 0;
	for (uint32_t l = 0; l < g.graph->n_layers; l++)
		full += g.graph->layers[l].kind == RP_LAYER_FULL;
	assert_int_equal(count[RP_BUF_KV], 2 * full);
	assert_int_equal(count[RP_BUF_STATE], 2 * (g.graph->n_layers - full));
	assert_int_equal(count[RP_BUF_TABLE], 1);
	assert_int_equal(count[RP_BUF_WEIGHTS], ((rp_gpu *)e->state)->weights.n);
	rp_engine_close(e);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory), cmocka_unit_test(test_large), cmocka_unit_test(test_pipelines),
		cmocka_unit_test(test_recording), cmocka_unit_test(test_same_work), cmocka_unit_test(test_roles) };
	return cmocka_run_group_tests_name("paper", tests, NULL, NULL);
}
