/* The Vulkan runtime: devices, memory, pipelines, recorded work, errors. Runs on whatever device is best, lavapipe included. */
#include "vk/private.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vk_hold.h"
#include "vk_reverse.h"

static const rp_kernel_binding reverse_bindings[] = { { "x", 0, 1, false, false }, { "y", 0, 2, false, true } };
static const rp_kernel_constant reverse_constants[] = { { "K", 0, 'u', 3 }, { "WG", 1, 'u', 1 } };
static const rp_kernel reverse = { .name = "reverse", .entry = "main", .digest = "", .words = reverse_words,
	.n_words = sizeof reverse_words / 4, .bindings = reverse_bindings, .n_bindings = 2, .constants = reverse_constants,
	.n_constants = 2, .push_bytes = 8, .workgroup = { 1, 1, 1 }, .workgroup_id = { 1, -1, -1 } };

static bool have_validation;

static void ok_(rp_code rc, const rp_error *err, int line)
{
	if (rc != RP_OK)
		fail_msg("line %d: %s: %s", line, rp_code_word(rc), err->msg);
}

#define OK(call) ok_((call), &err, __LINE__)

static void bad_(rp_code rc, rp_code want, const rp_error *err, const char *word, int line)
{
	if (rc != want || strstr(err->msg, word) == NULL)
		fail_msg("line %d: got %s (%s), expected %s with '%s'", line, rp_code_word(rc), rc != RP_OK ? err->msg : "",
			rp_code_word(want), word);
}
#define BAD(call, code, word) bad_((call), code, &err, word, __LINE__)

static rp_vk *open_with(rp_vk_opts opts)
{
	rp_error err;
	rp_vk *vk = NULL;
	opts.validate = have_validation;
	OK(rp_vk_open(&opts, &vk, &err));
	return vk;
}

static void close_checked(rp_vk *vk)
{
	rp_error err;
	OK(rp_vk_check(vk, NULL, &err));
	rp_vk_close(vk);
	assert_int_equal(rp_vk_closing_messages, 0);
}

static rp_vk_buf *buf(rp_vk *vk, rp_vk_use use, uint64_t bytes)
{
	rp_error err;
	rp_vk_buf *b = NULL;
	OK(rp_vk_buf_new(vk, use, bytes, "test", &b, &err));
	return b;
}

static rp_vk_pipeline *pipeline(rp_vk *vk, uint32_t k, uint32_t wg)
{
	rp_error err;
	rp_vk_pipeline *p = NULL;
	rp_vk_const c = { "K", k };
	OK(rp_vk_pipeline_get(vk, &reverse, &c, 1, (const uint32_t[]){ wg, 0, 0 }, 0, &p, &err));
	return p;
}

static rp_code dispatch(rp_vk_cmd *c, rp_vk_pipeline *p, rp_vk_bind x, rp_vk_bind y, uint32_t n, uint32_t add, uint32_t groups,
	rp_error *err)
{
	rp_vk_bind binds[3] = { { 0 }, x, y };
	uint32_t push[2] = { n, add };
	return rp_vk_cmd_dispatch(c, p, binds, 3, push, sizeof push, groups, 1, 1, err);
}

static rp_vk_bind whole(rp_vk_buf *b)
{
	return (rp_vk_bind){ b, 0, 0 };
}

/* ---- devices ---- */
static void lists_devices(void **state)
{
	(void)state;
	rp_error err;
	rp_vk_info *list = NULL;
	size_t n = 0;
	OK(rp_vk_devices(&list, &n, &err));
	assert_true(n >= 1);
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < n; i++) /* older lavapipe names 2 GiB */
		assert_true(list[i].type != RP_VK_CPU || list[i].heaps[0].size >= memory);
	rp_vk *vk = NULL;
	BAD(rp_vk_open(&(rp_vk_opts){ .device = "77" }, &vk, &err), RP_NO_DEVICE, "77");
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(list[i].index, i);
		assert_true(list[i].name[0] != '\0' && list[i].n_heaps >= 1 && list[i].heaps[0].size > 0);
		assert_true(!list[i].usable || (list[i].max_binding >= 1 << 27 && list[i].max_push >= 128 && list[i].subgroup_size >= 1));
	}
	free(list);
}

static void chooses_devices(void **state)
{
	(void)state;
	rp_error err;
	rp_vk_info l[5] = { { .type = RP_VK_CPU, .usable = true, .n_heaps = 1, .heaps = { { .size = 1000, .local = true } } },
		{ .type = RP_VK_INTEGRATED, .usable = true, .n_heaps = 1, .heaps = { { .size = 500, .local = true } } },
		{ .type = RP_VK_DISCRETE,
			.usable = false,
			.why_not = "too old",
			.n_heaps = 1,
			.heaps = { { .size = 900, .local = true } } },
		{ .type = RP_VK_DISCRETE, .usable = true, .n_heaps = 1, .heaps = { { .size = 100, .local = true } } },
		{ .type = RP_VK_DISCRETE, .usable = true, .n_heaps = 1, .heaps = { { .size = 200, .local = true } } } };
	size_t at = 9;
	OK(rp_vk_choose(l, 5, "gpu", &at, &err));
	assert_int_equal(at, 4);
	OK(rp_vk_choose(l, 4, "gpu", &at, &err));
	assert_int_equal(at, 3);
	OK(rp_vk_choose(l, 3, "gpu", &at, &err));
	assert_int_equal(at, 1);
	OK(rp_vk_choose(l, 1, "gpu", &at, &err));
	assert_int_equal(at, 0);
	OK(rp_vk_choose(l, 5, "3", &at, &err));
	assert_int_equal(at, 3);
	BAD(rp_vk_choose(l, 5, "2", &at, &err), RP_NO_DEVICE, "too old");
	BAD(rp_vk_choose(l, 5, "5", &at, &err), RP_NO_DEVICE, "there are 5");
	static const char *const wrong[] = { "", "-1", "1x", "GPU", "cpu", "99999999999999999999" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		BAD(rp_vk_choose(l, 5, wrong[i], &at, &err), RP_USAGE, "expected gpu");
	BAD(rp_vk_choose(&l[2], 1, "gpu", &at, &err), RP_NO_DEVICE, "too old");
}

static void says_what_to_install(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = NULL;
	rp_vk_info *list = NULL;
	size_t n = 0;
	const char *name = rp_vk_loader_name;
	rp_vk_loader_name = "libvulkan-absent.so.1";
	BAD(rp_vk_devices(&list, &n, &err), RP_NO_DEVICE, "apt install");
	BAD(rp_vk_open(NULL, &vk, &err), RP_NO_DEVICE, "apt install");
	rp_vk_loader_name = name;
	static const char *const names[] = { "VK_ICD_FILENAMES", "VK_DRIVER_FILES" };
	char *was[2];
	for (int i = 0; i < 2; i++) {
		was[i] = getenv(names[i]) != NULL ? rp_strdup(getenv(names[i])) : NULL;
		setenv(names[i], "/nonexistent.json", 1);
	}
	BAD(rp_vk_open(NULL, &vk, &err), RP_NO_DEVICE, "apt install");
	for (int i = 0; i < 2; i++) {
		if (was[i] != NULL)
			setenv(names[i], was[i], 1);
		else
			unsetenv(names[i]);
		free(was[i]);
	}
	assert_null(vk);
	assert_null(list);
}

static void opens_again_and_again(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		rp_vk *vk = open_with((rp_vk_opts){ 0 });
		rp_vk_buf *b = buf(vk, RP_VK_LOCAL, 4096);
		pipeline(vk, 2, 8);
		rp_vk_buf_free(b);
		close_checked(vk);
	}
}

/* ---- memory ---- */
static void fill_pattern(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(seed = seed * 1664525u + 1013904223u, seed >> 24);
}

static void writes_and_reads(rp_vk *vk)
{
	rp_error err;
	const size_t n = 6 * (size_t)RP_VK_STAGING_BYTES + 12345; /* more than the ring holds */
	unsigned char *a = malloc(n), *b = calloc(1, n);
	assert_true(a != NULL && b != NULL);
	fill_pattern(a, n, 1);
	rp_vk_buf *d = buf(vk, RP_VK_LOCAL, n + 512);
	assert_non_null(rp_vk_buf_map(d));
	OK(rp_vk_write(vk, d, 300, a, n, &err));
	OK(rp_vk_read(vk, d, 300, b, n, &err));
	assert_memory_equal(a, b, n);
	OK(rp_vk_write(vk, d, 1, "xyz", 3, &err));
	OK(rp_vk_read(vk, d, 0, b, 8, &err));
	assert_memory_equal(b + 1, "xyz", 3);
	void *to = NULL;
	OK(rp_vk_write_begin(vk, d, 8, 4, &to, &err));
	memcpy(to, "1234", 4);
	BAD(rp_vk_write_begin(vk, d, 8, 4, &to, &err), RP_INTERNAL, "one at a time");
	OK(rp_vk_write_end(vk, &err));
	OK(rp_vk_read(vk, d, 8, b, 4, &err));
	assert_memory_equal(b, "1234", 4);
	BAD(rp_vk_write(vk, d, n + 510, "abc", 3, &err), RP_INTERNAL, "outside");
	BAD(rp_vk_read(vk, d, n + 512, b, 1, &err), RP_INTERNAL, "outside");
	BAD(rp_vk_read(vk, d, UINT64_MAX, b, 1, &err), RP_INTERNAL, "outside");
	rp_vk_buf_free(d);
	free(a);
	free(b);
}

static void moves_bytes_directly(void **state)
{
	(void)state;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	bool direct = (rp_vk_describe(vk)->features & RP_VK_HOST_LOCAL) != 0;
	if (direct)
		writes_and_reads(vk);
	close_checked(vk);
	if (!direct) {
		print_message("SKIP: the host cannot reach this device's memory\n");
		skip();
	}
}

/* Lavapipe has a single memory type, which the host reaches: hide its map so that the staged path runs everywhere. */
static void hide_maps(rp_vk *vk)
{
	for (size_t i = 0; i < vk->n_blocks; i++)
		vk->blocks[i]->map = NULL;
}

static void moves_bytes_through_staging(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ .staged = true });
	const size_t n = 6 * (size_t)RP_VK_STAGING_BYTES + 12345;
	unsigned char *a = malloc(n), *b = calloc(1, n);
	assert_true(a != NULL && b != NULL);
	rp_vk_buf *d = buf(vk, RP_VK_LOCAL, n + 512);
	hide_maps(vk);
	for (unsigned round = 0; round < 2; round++) {
		fill_pattern(a, n, round);
		OK(rp_vk_write(vk, d, 300, a, n, &err));
		OK(rp_vk_read(vk, d, 300, b, n, &err));
		assert_memory_equal(a, b, n);
	}
	/* work submitted after an upload sees it, without the host waiting in between */
	rp_vk_buf *out = buf(vk, RP_VK_READBACK, 4096);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "reverse", &c, &err));
	OK(rp_vk_cmd_begin(c, 0, &err));
	OK(dispatch(c, pipeline(vk, 1, 32), (rp_vk_bind){ d, 256, 4096 }, whole(out), 1024, 5, 32, &err));
	OK(rp_vk_cmd_end(c, &err));
	uint32_t v[1024];
	for (uint32_t i = 0; i < 1024; i++)
		v[i] = i * i;
	OK(rp_vk_write(vk, d, 256, v, sizeof v, &err));
	OK(rp_vk_run(vk, c, &err));
	const uint32_t *got = rp_vk_buf_map(out);
	for (uint32_t i = 0; i < 1024; i++)
		assert_int_equal(got[i], v[1023 - i] + 5);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(out);
	rp_vk_buf_free(d);
	free(a);
	free(b);
	close_checked(vk);
}

static void cuts_blocks_into_buffers(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ .max_allocation = 1 << 20 });
	enum { N = 64 };
	rp_vk_buf *b[N] = { NULL };
	unsigned char *want = malloc(256 * 1024), *got = malloc(256 * 1024);
	assert_true(want != NULL && got != NULL);
	unsigned seed = 7;
	for (int step = 0; step < 400; step++) {
		seed = seed * 1664525u + 1013904223u;
		unsigned i = seed >> 8 & (N - 1), size = 1 + (seed >> 14 & 0x3ffff);
		if (b[i] != NULL) {
			fill_pattern(want, rp_vk_buf_size(b[i]), i);
			OK(rp_vk_read(vk, b[i], 0, got, rp_vk_buf_size(b[i]), &err));
			assert_memory_equal(want, got, rp_vk_buf_size(b[i]));
			rp_vk_buf_free(b[i]);
			b[i] = NULL;
		} else {
			b[i] = buf(vk, RP_VK_LOCAL, size > 256 * 1024 ? 256 * 1024 : size);
			fill_pattern(want, rp_vk_buf_size(b[i]), i);
			OK(rp_vk_write(vk, b[i], 0, want, rp_vk_buf_size(b[i]), &err));
		}
		for (size_t k = 0; k < vk->n_blocks; k++)
			assert_true(vk->blocks[k]->size <= 1 << 20);
	}
	for (int i = 0; i < N; i++)
		rp_vk_buf_free(b[i]);
	assert_int_equal(vk->n_blocks, 0);
	assert_int_equal(rp_vk_allocated(vk), 0);
	rp_vk_buf *x = NULL;
	BAD(rp_vk_buf_new(vk, RP_VK_LOCAL, (1 << 20) + 1, "big", &x, &err), RP_NO_MEMORY, "big needs 1.0 MiB");
	free(want);
	free(got);
	close_checked(vk);
}

static VkResult VKAPI_CALL no_memory(VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a, VkDeviceMemory *m)
{
	(void)d, (void)i, (void)a, (void)m;
	return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void counts_memory(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ .max_memory = 48 << 20 });
	OK(rp_vk_fits(vk, 48 << 20, "weights", &err));
	BAD(rp_vk_fits(vk, (48 << 20) + 1, "weights", &err), RP_NO_MEMORY, "weights needs 48.0 MiB, 48.0 MiB of 48.0 MiB");
	rp_vk_buf *a = buf(vk, RP_VK_LOCAL, 30 << 20), *b = NULL;
	BAD(rp_vk_buf_new(vk, RP_VK_LOCAL, 30 << 20, "cache", &b, &err), RP_NO_MEMORY, "cache needs 30.0 MiB, 18.0 MiB of 48.0 MiB");
	assert_null(b);
	rp_vk_buf_free(a);
	vk->AllocateMemory = no_memory;
	BAD(rp_vk_buf_new(vk, RP_VK_LOCAL, 1 << 20, "cache", &b, &err), RP_NO_MEMORY, "cache needs 1.0 MiB");
	BAD(rp_vk_buf_new(vk, RP_VK_LOCAL, 0, "nothing", &b, &err), RP_INTERNAL, "no bytes");
	assert_null(b);
	close_checked(vk);
}

/* ---- pipelines ---- */
static void makes_pipelines(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	rp_vk_pipeline *p = pipeline(vk, 2, 8), *q = NULL;
	assert_ptr_equal(p, pipeline(vk, 2, 8));
	assert_ptr_not_equal(p, pipeline(vk, 3, 8));
	assert_ptr_not_equal(p, pipeline(vk, 2, 16));
	assert_ptr_equal(rp_vk_pipeline_kernel(p), &reverse);
	OK(rp_vk_pipeline_get(vk, &reverse, NULL, 0, NULL, rp_vk_describe(vk)->subgroup_size, &q, &err));
	BAD(rp_vk_pipeline_get(vk, &reverse, &(rp_vk_const){ "NOPE", 1 }, 1, NULL, 0, &q, &err), RP_INTERNAL, "no constant NOPE");
	BAD(rp_vk_pipeline_get(vk, &reverse, NULL, 0, (const uint32_t[]){ 8, 2, 1 }, 0, &q, &err), RP_INTERNAL, "is fixed");
	BAD(rp_vk_pipeline_get(vk, &reverse, NULL, 0, (const uint32_t[]){ 1 << 20, 0, 0 }, 0, &q, &err), RP_UNSUPPORTED, "1048576");
	BAD(rp_vk_pipeline_get(vk, &reverse, NULL, 0, NULL, 3, &q, &err), RP_UNSUPPORTED, "subgroups of 3");
	rp_kernel odd = reverse;
	odd.push_bytes = 4096;
	BAD(rp_vk_pipeline_get(vk, &odd, NULL, 0, NULL, 0, &q, &err), RP_UNSUPPORTED, "4096 bytes");
	rp_kernel_binding b[2] = { reverse_bindings[0], reverse_bindings[1] };
	b[1].group = 1;
	odd = reverse;
	odd.bindings = b;
	BAD(rp_vk_pipeline_get(vk, &odd, NULL, 0, NULL, 0, &q, &err), RP_INTERNAL, "group");
	close_checked(vk);
	vk = open_with((rp_vk_opts){ .features_off = RP_VK_SUBGROUPS | RP_VK_F16 });
	odd = reverse;
	odd.features = RP_KERNEL_SUBGROUPS;
	BAD(rp_vk_pipeline_get(vk, &odd, NULL, 0, NULL, 0, &q, &err), RP_UNSUPPORTED, "subgroup operations");
	odd.features = RP_KERNEL_F16;
	BAD(rp_vk_pipeline_get(vk, &odd, NULL, 0, NULL, 0, &q, &err), RP_UNSUPPORTED, "16-bit");
	close_checked(vk);
}

static PFN_vkCreateComputePipelines create_pipelines;
static atomic_uint created;

/* What is to multiply by 13 cannot be compiled. */
static VKAPI_ATTR VkResult VKAPI_CALL no_thirteen(VkDevice d, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *info,
	const VkAllocationCallbacks *a, VkPipeline *out)
{
	const uint32_t *values = info->stage.pSpecializationInfo->pData;
	created++;
	for (size_t i = 0; i < info->stage.pSpecializationInfo->dataSize / sizeof *values; i++)
		if (values[i] == 13)
			return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	return create_pipelines(d, cache, n, info, a, out);
}

static void compiles_in_advance(void **state)
{
	(void)state;
	enum { N = 24 };
	rp_error err;
	rp_vk *vk = NULL;
	OK(rp_vk_open(NULL, &vk, &err)); /* with validation there are no threads */
	create_pipelines = vk->CreateComputePipelines;
	vk->CreateComputePipelines = no_thirteen;
	created = 0;
	for (int round = 0; round < 2; round++) /* asked for twice, compiled once */
		for (uint32_t i = 0; i < N; i++)
			OK(rp_vk_pipeline_ask(vk, &reverse, &(rp_vk_const){ "K", 100 + i }, 1, NULL, 0, &err));
	OK(rp_vk_pipeline_ask(vk, &reverse, &(rp_vk_const){ "K", 13 }, 1, NULL, 0, &err));
	rp_vk_pipeline *p[N], *q = NULL;
	for (uint32_t i = N; i-- > 0;) {
		OK(rp_vk_pipeline_get(vk, &reverse, &(rp_vk_const){ "K", 100 + i }, 1, NULL, 0, &p[i], &err));
		assert_true(p[i]->handle != VK_NULL_HANDLE);
	}
	BAD(rp_vk_pipeline_get(vk, &reverse, &(rp_vk_const){ "K", 13 }, 1, NULL, 0, &q, &err), RP_NO_MEMORY, "cannot compile the kernel");
	assert_int_equal(created, N + 1);
	BAD(rp_vk_pipeline_ask(vk, &reverse, &(rp_vk_const){ "NOPE", 1 }, 1, NULL, 0, &err), RP_INTERNAL, "no constant NOPE");
	for (uint32_t i = 0; i < N; i++) /* nobody gets these */
		OK(rp_vk_pipeline_ask(vk, &reverse, &(rp_vk_const){ "K", 200 + i }, 1, NULL, 0, &err));
	rp_vk_close(vk);
}

/* ---- recorded work ---- */
static void orders_what_depends(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	enum { N = 5000 };
	rp_vk_buf *a = buf(vk, RP_VK_LOCAL, N * 4), *b = buf(vk, RP_VK_LOCAL, N * 4), *other = buf(vk, RP_VK_LOCAL, N * 4 + 256);
	rp_vk_buf *out = buf(vk, RP_VK_READBACK, N * 4);
	uint32_t *v = malloc(N * 4);
	assert_non_null(v);
	for (uint32_t i = 0; i < N; i++)
		v[i] = i;
	OK(rp_vk_write(vk, a, 0, v, N * 4, &err));
	rp_vk_pipeline *p = pipeline(vk, 3, 64);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "chain", &c, &err));
	OK(rp_vk_cmd_begin(c, RP_VK_REPLAY, &err));
	for (int i = 0; i < 4; i++) { /* a -> b -> a ...: each waits for the one before */
		OK(dispatch(c, p, whole(i % 2 ? b : a), whole(i % 2 ? a : b), N, 1, (N + 63) / 64, &err));
		assert_int_equal(rp_vk_cmd_describe(c).barriers, i);
	}
	/* reads of the same and writes elsewhere need none; two halves of one buffer neither */
	OK(dispatch(c, p, whole(b), (rp_vk_bind){ other, 0, 1024 }, 256, 0, 4, &err));
	OK(dispatch(c, p, whole(b), (rp_vk_bind){ other, 1024, 1024 }, 256, 0, 4, &err));
	assert_int_equal(rp_vk_cmd_describe(c).barriers, 3);
	OK(rp_vk_cmd_copy(c, a, 0, out, 0, N * 4, &err));
	OK(rp_vk_cmd_fill(c, other, 1024, 1024, 0x01020304, &err));
	OK(rp_vk_cmd_end(c, &err));
	assert_int_equal(rp_vk_cmd_describe(c).dispatches, 6);
	assert_int_equal(rp_vk_cmd_describe(c).copies, 2);
	assert_int_equal(rp_vk_cmd_describe(c).barriers, 4);
	uint64_t ticket = 0;
	OK(rp_vk_submit(vk, (rp_vk_cmd *[]){ c, c, c }, 3, &ticket, &err)); /* 12 steps */
	OK(rp_vk_submit(vk, &c, 1, &ticket, &err));
	OK(rp_vk_wait(vk, ticket, &err));
	const uint32_t *got = rp_vk_buf_map(out);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t want = i; /* 16 steps: reversed an even number of times */
		for (int s = 0; s < 16; s++)
			want = want * 3 + 1;
		assert_int_equal(got[i], want);
	}
	uint32_t word = 0;
	OK(rp_vk_read(vk, other, 1024, &word, 4, &err));
	assert_int_equal(word, 0x01020304);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(a);
	rp_vk_buf_free(b);
	rp_vk_buf_free(other);
	rp_vk_buf_free(out);
	free(v);
	close_checked(vk);
}

static void refuses_wrong_bindings(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ .max_binding = 4096 });
	rp_vk_buf *a = buf(vk, RP_VK_LOCAL, 8192), *b = buf(vk, RP_VK_LOCAL, 4096);
	rp_vk_pipeline *p = pipeline(vk, 3, 64);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "wrong", &c, &err));
	BAD(dispatch(c, p, whole(b), whole(b), 1, 1, 1, &err), RP_INTERNAL, "not being recorded");
	OK(rp_vk_cmd_begin(c, 0, &err));
	BAD(dispatch(c, p, whole(a), whole(b), 1, 1, 1, &err), RP_INTERNAL, "bind it in ranges");
	OK(dispatch(c, p, (rp_vk_bind){ a, 4096, 4096 }, whole(b), 1, 1, 1, &err));
	BAD(dispatch(c, p, (rp_vk_bind){ a, 4, 16 }, whole(b), 1, 1, 1, &err), RP_INTERNAL, "multiples of");
	BAD(dispatch(c, p, (rp_vk_bind){ a, 8192, 0 }, whole(b), 1, 1, 1, &err), RP_INTERNAL, "bound to bytes");
	BAD(dispatch(c, p, (rp_vk_bind){ b, 2048, 4096 }, whole(b), 1, 1, 1, &err), RP_INTERNAL, "bound to bytes");
	BAD(dispatch(c, p, (rp_vk_bind){ 0 }, whole(b), 1, 1, 1, &err), RP_INTERNAL, "nothing is bound to x");
	BAD(dispatch(c, p, whole(b), whole(b), 1, 1, UINT32_MAX, &err), RP_INTERNAL, "workgroups");
	BAD(rp_vk_cmd_dispatch(c, p, NULL, 0, NULL, 0, 1, 1, 1, &err), RP_INTERNAL, "8 bytes of push");
	BAD(rp_vk_cmd_copy(c, a, 0, b, 0, 8192, &err), RP_INTERNAL, "outside");
	BAD(rp_vk_cmd_fill(c, b, 2, 4, 0, &err), RP_INTERNAL, "whole words");
	OK(dispatch(c, p, whole(b), whole(b), 1, 1, 0, &err)); /* nothing to do is not an error */
	OK(rp_vk_cmd_begin(c, 0, &err)); /* giving up half way neither */
	OK(dispatch(c, p, (rp_vk_bind){ a, 4096, 4096 }, whole(b), 1, 1, 1, &err));
	OK(rp_vk_cmd_end(c, &err));
	rp_vk_cmd_free(c);
	rp_vk_buf_free(a);
	rp_vk_buf_free(b);
	close_checked(vk);
}

/* Buffers come and go: handles and addresses are born again, sets must not be. */
static void forgets_sets_with_their_buffers(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	rp_vk_pipeline *p = pipeline(vk, 1, 64);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "sets", &c, &err));
	for (uint32_t round = 0; round < 300; round++) {
		uint32_t n = 64 + round % 7 * 64, v[512];
		rp_vk_buf *a = buf(vk, RP_VK_LOCAL, n * 4), *b = buf(vk, RP_VK_READBACK, n * 4);
		for (uint32_t i = 0; i < n; i++)
			v[i] = i ^ round;
		OK(rp_vk_write(vk, a, 0, v, n * 4, &err));
		OK(rp_vk_cmd_begin(c, 0, &err));
		OK(dispatch(c, p, whole(a), whole(b), n, round, n / 64, &err));
		OK(rp_vk_cmd_end(c, &err));
		OK(rp_vk_run(vk, c, &err));
		const uint32_t *got = rp_vk_buf_map(b);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(got[i], v[n - 1 - i] + round);
		rp_vk_buf_free(a);
		rp_vk_buf_free(b);
	}
	for (size_t i = 0; i < RP_VK_SET_BUCKETS; i++)
		assert_null(vk->sets[i]);
	rp_vk_cmd_free(c);
	close_checked(vk);
}

static void tells_time(void **state)
{
	(void)state;
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	if (rp_vk_describe(vk)->timestamp_bits == 0) {
		close_checked(vk);
		print_message("SKIP: this device has no timestamps\n");
		skip();
	}
	rp_vk_buf *a = buf(vk, RP_VK_LOCAL, 1 << 20), *b = buf(vk, RP_VK_LOCAL, 1 << 20);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "timed", &c, &err));
	const rp_vk_mark *marks = NULL;
	size_t n = 9;
	OK(rp_vk_cmd_marks(c, &marks, &n, &err));
	assert_int_equal(n, 0);
	OK(rp_vk_cmd_begin(c, 0, &err));
	OK(rp_vk_cmd_fill(c, a, 0, 1 << 20, 1, &err));
	OK(rp_vk_cmd_mark(c, "start", &err));
	OK(dispatch(c, pipeline(vk, 1, 64), whole(a), whole(b), 1 << 18, 0, 1 << 12, &err));
	OK(rp_vk_cmd_mark(c, "reverse", &err));
	OK(rp_vk_cmd_end(c, &err));
	OK(rp_vk_run(vk, c, &err));
	OK(rp_vk_cmd_marks(c, &marks, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(marks[1].label, "reverse");
	assert_int_equal(marks[0].ns, 0);
	assert_true(marks[1].ns < 60u * 1000000000u);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(a);
	rp_vk_buf_free(b);
	close_checked(vk);
}

/* ---- the pipeline cache ---- */
static bool loads(const char *dir, const char *tag)
{
	rp_vk *vk = open_with((rp_vk_opts){ .cache_dir = dir, .cache_tag = tag });
	bool loaded = vk->cache_loaded;
	pipeline(vk, 5, 8);
	close_checked(vk);
	return loaded;
}

static void put(const char *path, const char *data, size_t n, mode_t mode)
{
	rp_error err;
	OK(rp_write_file(path, data, n, (unsigned)mode, &err));
}

static void keeps_a_pipeline_cache(void **state)
{
	(void)state;
	rp_error err;
	char dir[] = "/tmp/rp-vk-cache-XXXXXX";
	assert_non_null(mkdtemp(dir));
	assert_false(loads(dir, "one"));
	rp_vk *vk = open_with((rp_vk_opts){ .cache_dir = dir, .cache_tag = "one" });
	assert_true(vk->cache_loaded);
	char *path = rp_strdup(vk->cache_path), *data = NULL;
	size_t n = 0;
	close_checked(vk);
	assert_false(loads(dir, "two")); /* other kernels: a new cache */
	assert_true(loads(dir, "two"));
	OK(rp_read_file(path, 1 << 26, &data, &n, &err));
	for (size_t i = 0; i < n; i += i < 200 ? 4 : n / 8 + 1) { /* every field of the header, some of the data */
		data[i] ^= 0x10;
		put(path, data, n, 0600);
		assert_false(loads(dir, "two"));
		data[i] ^= 0x10;
	}
	for (size_t cut = 0; cut < n; cut += n / 8 + 1) {
		put(path, data, cut, 0600);
		assert_false(loads(dir, "two"));
	}
	put(path, data, n, 0622); /* others may have written it */
	assert_false(loads(dir, "two"));
	unlink(path);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_false(loads(dir, "two"));
	assert_true(loads(dir, "two")); /* the rename replaced the link */
	assert_false(loads("/nonexistent/folder", "two"));
	unlink(path);
	rmdir(dir);
	free(path);
	free(data);
}

/* ---- a device that stops answering ---- */
static VkResult VKAPI_CALL lost_submit(VkQueue q, uint32_t n, const VkSubmitInfo *s, VkFence f)
{
	(void)q, (void)n, (void)s, (void)f;
	return VK_ERROR_DEVICE_LOST;
}

static VkResult VKAPI_CALL lost_wait(VkDevice d, const VkSemaphoreWaitInfo *w, uint64_t t)
{
	(void)d, (void)w, (void)t;
	return VK_ERROR_DEVICE_LOST;
}

static void loses_the_device(void **state)
{
	(void)state;
	rp_error err;
	for (int at_wait = 0; at_wait < 2; at_wait++) {
		rp_vk *vk = open_with((rp_vk_opts){ 0 });
		rp_vk_buf *a = buf(vk, RP_VK_LOCAL, 4096), *x = NULL;
		rp_vk_cmd *c = NULL, *d = NULL;
		OK(rp_vk_cmd_new(vk, "layer 7", &c, &err));
		OK(rp_vk_cmd_begin(c, 0, &err));
		OK(rp_vk_cmd_fill(c, a, 0, 4096, 0, &err));
		OK(rp_vk_cmd_end(c, &err));
		PFN_vkWaitSemaphores wait = vk->WaitSemaphores;
		if (at_wait)
			vk->WaitSemaphores = lost_wait;
		else
			vk->QueueSubmit = lost_submit;
		BAD(rp_vk_run(vk, c, &err), RP_DEVICE_LOST, "submitted last: layer 7, submission 1");
		vk->WaitSemaphores = wait;
		uint32_t word;
		rp_vk_pipeline *p = NULL;
		BAD(rp_vk_run(vk, c, &err), RP_DEVICE_LOST, "layer 7");
		BAD(rp_vk_read(vk, a, 0, &word, 4, &err), RP_DEVICE_LOST, "layer 7");
		BAD(rp_vk_write(vk, a, 0, &word, 4, &err), RP_DEVICE_LOST, "layer 7");
		BAD(rp_vk_buf_new(vk, RP_VK_LOCAL, 4, "x", &x, &err), RP_DEVICE_LOST, "layer 7");
		BAD(rp_vk_cmd_new(vk, "x", &d, &err), RP_DEVICE_LOST, "layer 7");
		BAD(rp_vk_pipeline_get(vk, &reverse, NULL, 0, NULL, 0, &p, &err), RP_DEVICE_LOST, "layer 7");
		vk->DeviceWaitIdle(vk->device);
		rp_vk_cmd_free(c);
		rp_vk_buf_free(a);
		rp_vk_close(vk);
	}
}

/* Nothing is forgotten: what is left behind is told by the layers when the device closes. */
static void validation_sees_leaks(void **state)
{
	(void)state;
	if (!have_validation) {
		print_message("SKIP: VK_LAYER_KHRONOS_validation is not installed\n");
		skip();
	}
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "left", &c, &err));
	rp_vk_buf *left = buf(vk, RP_VK_LOCAL, 16);
	VkBuffer handle = left->handle;
	left->handle = VK_NULL_HANDLE;
	rp_vk_buf_free(left);
	assert_true(handle != VK_NULL_HANDLE);
	rp_vk_cmd_free(c);
	rp_vk_close(vk);
	assert_true(rp_vk_closing_messages > 0);
	rp_vk_closing_messages = 0;
}

/* The layers must really be watching: a hazard made on purpose, behind the recorder's back, is reported. */
static void validation_sees_hazards(void **state)
{
	(void)state;
	if (!have_validation) {
		print_message("SKIP: VK_LAYER_KHRONOS_validation is not installed\n");
		skip();
	}
	rp_error err;
	rp_vk *vk = open_with((rp_vk_opts){ 0 });
	rp_vk_buf *a = buf(vk, RP_VK_LOCAL, 4096), *b = buf(vk, RP_VK_LOCAL, 4096);
	rp_vk_cmd *c = NULL;
	OK(rp_vk_cmd_new(vk, "hazard", &c, &err));
	OK(rp_vk_cmd_begin(c, 0, &err));
	OK(rp_vk_cmd_fill(c, a, 0, 4096, 0, &err));
	uint64_t serial = a->serial;
	a->serial = 0; /* the recorder no longer recognises it */
	OK(rp_vk_cmd_copy(c, a, 0, b, 0, 4096, &err));
	a->serial = serial;
	BAD(rp_vk_cmd_end(c, &err), RP_INTERNAL, "READ_AFTER_WRITE");
	size_t n = 0;
	BAD(rp_vk_check(vk, &n, &err), RP_INTERNAL, "validation layers");
	assert_true(n >= 1);
	rp_vk_cmd_free(c);
	rp_vk_buf_free(a);
	rp_vk_buf_free(b);
	rp_vk_close(vk);
}

int main(void)
{
	rp_error err;
	rp_vk *vk = NULL;
	/* First, while this process has no instance yet: it would keep the drivers. */
	const struct CMUnitTest always[] = { cmocka_unit_test(chooses_devices), cmocka_unit_test(says_what_to_install) };
	int bad = cmocka_run_group_tests_name("vk, any machine", always, NULL, NULL);
	rp_code rc = rp_vk_open(&(rp_vk_opts){ .validate = vk_want_validation() }, &vk, &err);
	have_validation = rc == RP_OK && vk_want_validation();
	if (rc == RP_UNSUPPORTED) {
		print_message("SKIP: validation in the tests below: %s\n", err.msg);
		rc = rp_vk_open(NULL, &vk, &err);
	}
	if (rc == RP_OK)
		vk_hold_drivers();
	rp_vk_close(vk);
	if (rc == RP_NO_DEVICE) {
		print_message("SKIP: %s\n", err.msg);
		return bad;
	}
	const struct CMUnitTest tests[] = { cmocka_unit_test(lists_devices), cmocka_unit_test(opens_again_and_again),
		cmocka_unit_test(moves_bytes_directly), cmocka_unit_test(moves_bytes_through_staging),
		cmocka_unit_test(cuts_blocks_into_buffers), cmocka_unit_test(counts_memory), cmocka_unit_test(makes_pipelines), cmocka_unit_test(compiles_in_advance),
		cmocka_unit_test(orders_what_depends), cmocka_unit_test(refuses_wrong_bindings),
		cmocka_unit_test(forgets_sets_with_their_buffers), cmocka_unit_test(tells_time), cmocka_unit_test(keeps_a_pipeline_cache),
		cmocka_unit_test(loses_the_device), cmocka_unit_test(validation_sees_hazards), cmocka_unit_test(validation_sees_leaks) };
	return bad + cmocka_run_group_tests_name("vk", tests, NULL, NULL);
}
