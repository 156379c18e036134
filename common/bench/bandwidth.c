#include "bench/bench.h"

#include "base/random.h"
#include "infer/pool.h"
#include "vk/vk.h"

#include <stdlib.h>
#include <string.h>

/* A buffer repeats PATTERN bytes of random data: zeros could be answered without memory. LANE_GROUPS fills the largest GPUs. */
enum { RUNS = 5, PATTERN = 1 << 20, GROUP = 256, LANE_GROUPS = 2048, CPU_GROUPS = 64, HARDWARE_PASSES = 16, MAX_WORKERS = 256 };
#define LARGEST ((uint64_t)1 << 30)
#define LARGEST_HOST ((uint64_t)512 << 20)

static void *make_pattern(void)
{
	rp_random r;
	char *p = rp_alloc(PATTERN);
	rp_random_seed(&r, 1);
	for (size_t i = 0; p != NULL && i < PATTERN; i += sizeof(uint64_t)) {
		uint64_t v = rp_random_next(&r);
		memcpy(p + i, &v, sizeof v);
	}
	return p;
}

static rp_code wrong_sum(rp_error *err, const char *device)
{
	return rp_fail(err, RP_INTERNAL, "%s: what was read for the bandwidth is not what was written", device);
}

/* A buffer this size leaves most of what the host has free alone. */
static uint64_t host_size(uint64_t most)
{
	uint64_t left = rp_host_bytes_free() / 4;
	while (most > PATTERN && most > left)
		most /= 2;
	return most;
}

/* ---- the processor ---- */
typedef struct host_read {
	const uint64_t *v;
	uint64_t sums[MAX_WORKERS];
} host_read;

static void read_part(void *user, size_t first, size_t last, uint32_t worker)
{
	host_read *h = user;
	uint64_t sum = 0;
	for (size_t i = first; i < last; i++)
		sum += h->v[i];
	h->sums[worker % MAX_WORKERS] += sum;
}

static void fill_part(void *user, size_t first, size_t last, uint32_t worker)
{
	char *const *both = user; /* the buffer, the pattern */
	(void)worker;
	for (size_t i = first; i < last; i++)
		memcpy(both[0] + i * PATTERN, both[1], PATTERN);
}

static rp_code time_host(rp_pool *pool, char *buffer, char *pattern, uint64_t bytes, double *best, rp_error *err)
{
	host_read h = {.v = (const uint64_t *)(const void *)buffer};
	uint64_t want = 0, got = 0;
	for (size_t i = 0; i < PATTERN / sizeof want; i++) {
		uint64_t v;
		memcpy(&v, pattern + i * sizeof v, sizeof v);
		want += v;
	}
	rp_pool_run(pool, fill_part, (char *[]){buffer, pattern}, bytes / PATTERN);
	for (int i = 0; i < RUNS; i++) {
		uint64_t start = rp_now_ns();
		rp_pool_run(pool, read_part, &h, bytes / sizeof *h.v);
		double rate = (double)bytes * 1e9 / (double)(rp_now_ns() - start + 1);
		*best = rate > *best ? rate : *best;
	}
	for (size_t i = 0; i < MAX_WORKERS; i++)
		got += h.sums[i];
	return got == want * (bytes / PATTERN) * RUNS ? RP_OK : wrong_sum(err, "cpu");
}

static rp_code host_bandwidth(uint32_t threads, char *pattern, rp_bandwidth *out, rp_error *err)
{
	uint64_t bytes = host_size(LARGEST_HOST);
	rp_bandwidth b = {.bytes = bytes};
	rp_pool *pool = NULL;
	char *buffer = rp_alloc(bytes);
	rp_code code = buffer != NULL ? rp_pool_new(threads, &pool, err) : rp_no_memory(err, bytes, "measuring the bandwidth");
	if (code == RP_OK)
		code = time_host(pool, buffer, pattern, bytes, &b.bytes_per_s, err);
	rp_pool_free(pool);
	free(buffer);
	if (code == RP_OK)
		*out = b;
	return code;
}

/* ---- a Vulkan device ---- */
typedef struct device_read {
	rp_vk *vk;
	const rp_vk_info *info;
	rp_vk_buf *data, *sums;
	rp_vk_cmd *cmd;
	uint64_t bytes, range; /* of data; of a binding */
	uint32_t groups, passes, ranges; /* dispatches: passes x ranges */
} device_read;

static rp_code make_buffers(device_read *d, rp_error *err)
{
	bool cpu = d->info->type == RP_VK_CPU;
	uint64_t most = cpu ? host_size(LARGEST_HOST) : LARGEST;
	while (most > PATTERN && (most > d->info->max_allocation || rp_vk_fits(d->vk, 2 * most, "measuring the bandwidth", NULL) != RP_OK))
		most /= 2;
	d->bytes = d->range = most;
	while (d->range > PATTERN && d->range > d->info->max_binding)
		d->range /= 2; /* a power of two, so that it divides the whole and fits every alignment */
	d->groups = cpu ? CPU_GROUPS : LANE_GROUPS;
	d->passes = cpu ? 1 : HARDWARE_PASSES; /* so that the cost of a submission does not count */
	d->ranges = (uint32_t)(d->bytes / d->range);
	rp_code rc = rp_vk_buf_new(d->vk, RP_VK_LOCAL, d->bytes, "bandwidth", &d->data, err);
	if (rc == RP_OK)
		rc = rp_vk_buf_new(d->vk, RP_VK_LOCAL, (uint64_t)d->passes * d->ranges * d->groups * GROUP * sizeof(uint32_t), "sums", &d->sums, err);
	return rc == RP_OK ? rp_vk_cmd_new(d->vk, "bandwidth", &d->cmd, err) : rc;
}

/* Every dispatch has sums of its own: none waits for another. */
static rp_code record(device_read *d, rp_error *err)
{
	const rp_kernel *k = rp_kernel_find("read_sum");
	rp_vk_pipeline *p = NULL;
	uint32_t n = (uint32_t)(d->range / 16);
	uint64_t sums = (uint64_t)d->groups * GROUP * sizeof(uint32_t);
	if (k == NULL)
		return rp_fail(err, RP_INTERNAL, "this build has no kernel read_sum");
	rp_code rc = rp_vk_pipeline_get(d->vk, k, &(rp_vk_const){"WG", GROUP}, 1, NULL, 0, &p, err);
	if (rc == RP_OK)
		rc = rp_vk_cmd_begin(d->cmd, RP_VK_REPLAY, err);
	for (uint32_t pass = 0; pass < d->passes; pass++)
		for (uint32_t i = 0; i < d->ranges && rc == RP_OK; i++) {
			uint64_t to = ((uint64_t)pass * d->ranges + i) * sums;
			rp_vk_bind binds[] = {{0}, {d->data, i * d->range, d->range}, {d->sums, to, sums}};
			rc = rp_vk_cmd_dispatch(d->cmd, p, binds, 3, &n, sizeof n, d->groups, 1, 1, err);
		}
	return rc == RP_OK ? rp_vk_cmd_end(d->cmd, err) : rc;
}

static rp_code check_sums(device_read *d, const char *pattern, rp_error *err)
{
	size_t n = (size_t)d->passes * d->ranges * d->groups * GROUP;
	uint32_t want = 0, got = 0, *v = rp_alloc_array(n, sizeof *v);
	if (v == NULL)
		return rp_no_memory(err, n * sizeof *v, "measuring the bandwidth");
	rp_code rc = rp_vk_read(d->vk, d->sums, 0, v, n * sizeof *v, err);
	for (size_t i = 0; i < n; i++)
		got += v[i];
	for (size_t i = 0; i < PATTERN; i += 4)
		want += rp_le32(pattern + i);
	free(v);
	if (rc != RP_OK)
		return rc;
	return got == want * (uint32_t)(d->bytes / PATTERN) * d->passes ? RP_OK : wrong_sum(err, d->info->name);
}

static rp_code time_device(device_read *d, const char *pattern, double *best, rp_error *err)
{
	rp_code rc = make_buffers(d, err);
	for (uint64_t at = 0; at < d->bytes && rc == RP_OK; at += PATTERN)
		rc = rp_vk_write(d->vk, d->data, at, pattern, PATTERN, err);
	if (rc == RP_OK)
		rc = record(d, err);
	for (int i = 0; i < RUNS && rc == RP_OK; i++) {
		uint64_t start = rp_now_ns();
		rc = rp_vk_run(d->vk, d->cmd, err);
		double rate = (double)d->bytes * d->passes * 1e9 / (double)(rp_now_ns() - start + 1);
		*best = rate > *best ? rate : *best;
	}
	return rc == RP_OK ? check_sums(d, pattern, err) : rc;
}

static rp_code device_bandwidth(const char *device, const char *pattern, rp_bandwidth *out, rp_error *err)
{
	device_read d = {.vk = NULL};
	rp_bandwidth b = {0};
	rp_code rc = rp_vk_open(&(rp_vk_opts){.device = device}, &d.vk, err);
	if (rc != RP_OK)
		return rc;
	d.info = rp_vk_describe(d.vk);
	rc = time_device(&d, pattern, &b.bytes_per_s, err);
	b.bytes = d.bytes;
	rp_vk_cmd_free(d.cmd);
	rp_vk_buf_free(d.data);
	rp_vk_buf_free(d.sums);
	rp_vk_close(d.vk);
	if (rc == RP_OK)
		*out = b;
	return rc;
}

rp_code rp_bench_bandwidth(const char *device, uint32_t threads, rp_bandwidth *out, rp_error *err)
{
	char *pattern = make_pattern();
	if (pattern == NULL)
		return rp_no_memory(err, PATTERN, "measuring the bandwidth");
	rp_code rc = strcmp(device, "cpu") == 0 ? host_bandwidth(threads, pattern, out, err) : device_bandwidth(device, pattern, out, err);
	free(pattern);
	return rc;
}
