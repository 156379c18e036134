/* The Vulkan backend against numbers recorded from the published implementations: both families, both file layouts, both
 * kernel variants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "gpu_fixture.h"

static const golden_limits llama = {.logits = 1e-4f, .cosine = 0.99999, .rel = 1e-5};
/* The recorded run itself differs by 8e-4 between its own cached and uncached passes (see test_oracle_golden.c). */
static const golden_limits qwen = {.logits = 1e-3f, .cosine = 0.99999, .rel = 3e-4};

static void check(const char *name, const char *file, const char *variant, const golden_limits *limits)
{
	rp_engine_opts o = gpu_opts();
	golden g;

	gpu_need_variant(variant);
	o.variant = variant;
	o.chunk = 128; /* the prompt in one pass, as it was recorded */
	golden_open(&g, name, file);
	golden_check(&g, &o, limits);
	golden_check_free_running(&g, &o);
	golden_close(&g);
	gpu_no_leftovers();
}

static void llama_portable(void **state)
{
	(void)state;
	check("llama", NULL, "portable", &llama);
	check("llama", "model.gguf", "portable", &llama);
}

static void llama_subgroup(void **state)
{
	(void)state;
	check("llama", NULL, "subgroup", &llama);
	check("llama", "model.gguf", "subgroup", &llama);
}

static void llama_fused(void **state)
{
	(void)state;
	check("llama", NULL, "fused", &llama);
	check("llama", "model.gguf", "fused", &llama);
}

static void qwen3_5_portable(void **state)
{
	(void)state;
	check("qwen3_5", NULL, "portable", &qwen);
	check("qwen3_5", "model.gguf", "portable", &qwen);
}

static void qwen3_5_subgroup(void **state)
{
	(void)state;
	check("qwen3_5", NULL, "subgroup", &qwen);
	check("qwen3_5", "model.gguf", "subgroup", &qwen);
}

static void qwen3_5_fused(void **state)
{
	(void)state;
	check("qwen3_5", NULL, "fused", &qwen);
	check("qwen3_5", "model.gguf", "fused", &qwen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(llama_portable),
		cmocka_unit_test(llama_subgroup),
		cmocka_unit_test(llama_fused),
		cmocka_unit_test(qwen3_5_portable),
		cmocka_unit_test(qwen3_5_subgroup),
		cmocka_unit_test(qwen3_5_fused),
	};
	return gpu_run_tests("gpu golden", tests, sizeof tests / sizeof *tests);
}
