#include "kernel_rig.h"

#include "vk_hold.h"

#include "infer/repack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 4096 }; /* bytes behind every output that must stay as they are */

static rp_vk *device;
static char why_none[sizeof(((rp_error *)0)->msg)];

int rig_setup(void **state)
{
	rp_error err;
	rp_vk_opts opts = { .validate = vk_want_validation() };
	(void)state;
	rig_seed(1);
	rp_code code = rp_vk_open(&opts, &device, &err);
	if (code == RP_UNSUPPORTED) {
		opts.validate = false;
		code = rp_vk_open(&opts, &device, &err);
	}
	if (code != RP_OK)
		snprintf(why_none, sizeof why_none, "%s", err.msg);
	else
		vk_hold_drivers();
	return 0;
}

int rig_teardown(void **state)
{
	rp_error err;
	(void)state;
	rp_code code = device != NULL ? rp_vk_check(device, NULL, &err) : RP_OK;
	if (code != RP_OK)
		fprintf(stderr, "%s\n", err.msg);
	rp_vk_close(device);
	device = NULL;
	return code == RP_OK ? 0 : -1;
}

void rig_ready(void)
{
	if (device == NULL) {
		printf("SKIP: %s\n", why_none);
		skip();
	}
}

const rp_vk_info *rig_device(void)
{
	return rp_vk_describe(device);
}

bool rig_has(const char *kernel)
{
	const rp_kernel *k = rp_kernel_find(kernel);
	if (k == NULL) {
		fail_msg("kernel %s is not built in", kernel);
		return false;
	}
	return (k->features & RP_KERNEL_SUBGROUPS) == 0 || (rp_vk_describe(device)->features & RP_VK_SUBGROUPS) != 0;
}

static void ok(rp_code code, const rp_error *err, const rig_call *c)
{
	if (code != RP_OK)
		fail_msg("%s: %s", c->kernel, err->msg);
}

static size_t shared_with(const rig_call *c, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (c->args[j].data == c->args[i].data)
			return j;
	return i;
}

static void upload(const rig_call *c, rp_vk_buf **bufs, rp_vk_bind *binds)
{
	unsigned char guard[GUARD];
	rp_error err;
	memset(guard, 0xa5, sizeof guard);
	for (size_t i = 0; i < c->n_args; i++) {
		const rig_arg *a = &c->args[i];
		size_t same = shared_with(c, i);
		if (same == i) {
			ok(rp_vk_buf_new(device, RP_VK_LOCAL, a->bytes + GUARD, "argument", &bufs[i], &err), &err, c);
			ok(rp_vk_write(device, bufs[i], 0, a->data, a->bytes, &err), &err, c);
			ok(rp_vk_write(device, bufs[i], a->bytes, guard, GUARD, &err), &err, c);
		}
		/* the guard is bound too, so that a stray write lands in it rather than being dropped by the driver */
		binds[i + 1] = (rp_vk_bind){ .buf = bufs[same] };
	}
}

static void read_back(const rig_call *c, rp_vk_buf **bufs)
{
	unsigned char guard[GUARD];
	rp_error err;
	for (size_t i = 0; i < c->n_args; i++) {
		const rig_arg *a = &c->args[i];
		if (!a->out)
			continue;
		rp_vk_buf *b = bufs[shared_with(c, i)];
		ok(rp_vk_read(device, b, 0, a->data, a->bytes, &err), &err, c);
		ok(rp_vk_read(device, b, a->bytes, guard, GUARD, &err), &err, c);
		for (size_t g = 0; g < GUARD; g++)
			if (guard[g] != 0xa5)
				fail_msg("%s: binding %zu is written %zu bytes past its end", c->kernel, i + 1, g);
	}
}

static void run(const rig_call *c, uint32_t subgroup)
{
	enum { MAX_ARGS = 10 };
	rp_vk_buf *bufs[MAX_ARGS] = { 0 };
	rp_vk_bind binds[MAX_ARGS + 1] = { 0 };
	rp_vk_pipeline *pipe = NULL;
	rp_vk_cmd *cmd = NULL;
	rp_error err;

	assert_true(c->n_args <= MAX_ARGS);
	upload(c, bufs, binds);
	ok(rp_vk_pipeline_get(device, rp_kernel_find(c->kernel), c->consts, c->n_consts, NULL, subgroup, &pipe, &err), &err, c);
	ok(rp_vk_cmd_new(device, c->kernel, &cmd, &err), &err, c);
	ok(rp_vk_cmd_begin(cmd, 0, &err), &err, c);
	ok(rp_vk_cmd_dispatch(cmd, pipe, binds, c->n_args + 1, c->push, c->push_bytes, c->grid.x, c->grid.y, c->grid.z, &err), &err,
		c);
	ok(rp_vk_cmd_end(cmd, &err), &err, c);
	ok(rp_vk_run(device, cmd, &err), &err, c);
	read_back(c, bufs);
	rp_vk_cmd_free(cmd);
	for (size_t i = 0; i < c->n_args; i++)
		rp_vk_buf_free(bufs[i]);
}

void rig_run(const rig_call *c)
{
	run(c, 0);
}

void rig_run_subgroup(const rig_call *c)
{
	run(c, rp_vk_describe(device)->subgroup_size);
}

/* ---- random numbers: xorshift64* ---- */
static uint64_t stream;

void rig_seed(uint64_t seed)
{
	stream = seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t rig_u32(void)
{
	stream ^= stream >> 12;
	stream ^= stream << 25;
	stream ^= stream >> 27;
	return (uint32_t)((stream * 0x2545f4914f6cdd1du) >> 32);
}

uint32_t rig_below(uint32_t n)
{
	return (uint32_t)(((uint64_t)rig_u32() * n) >> 32);
}

float rig_normal(void)
{
	double u = (rig_u32() + 1.0) / 4294967296.0, v = rig_u32() / 4294967296.0;
	return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

float *rig_floats(size_t n, float scale)
{
	float *f = rp_alloc_array(n, sizeof *f);
	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		f[i] = rig_normal() * scale;
	return f;
}

/* ---- weights ---- */
static void put_f16(unsigned char *at, float scale)
{
	uint16_t h = rp_f32_to_f16(rig_normal() * scale);
	if (rig_below(16) == 0)
		h = (uint16_t)(1 + rig_below(1023)); /* subnormal */
	at[0] = (unsigned char)h;
	at[1] = (unsigned char)(h >> 8);
}

static void fill_block(rp_dtype t, unsigned char *b, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		b[i] = (unsigned char)rig_u32();
	if (t == RP_Q6_K) {
		put_f16(b + 208, 0.01f);
		return;
	}
	put_f16(b, 0.1f);
	if (t == RP_Q4_1 || t == RP_Q5_1 || t == RP_Q4_K || t == RP_Q5_K)
		put_f16(b + 2, 0.1f);
}

static void fill_plain(rp_dtype t, unsigned char *b)
{
	float f = rig_normal();
	uint32_t bits = rp_vk_f32_bits(f);
	if (t == RP_F16)
		put_f16(b, 1.0f);
	else if (t == RP_BF16)
		memcpy(b, &(uint16_t){ (uint16_t)(bits >> 16) }, 2);
	else
		memcpy(b, &f, 4);
}

void *rig_weights(rp_dtype t, size_t n, size_t k)
{
	const rp_dtype_info *info = rp_dtype_get(t);
	uint64_t row = 0;
	assert_true(rp_dtype_row_bytes(t, k, &row));
	unsigned char *w = rp_alloc_array(n, row);
	assert_non_null(w);
	for (size_t at = 0; at < n * row; at += info->block_bytes) {
		if (info->block_values == 1)
			fill_plain(t, w + at);
		else
			fill_block(t, w + at, info->block_bytes);
	}
	return w;
}

rig_matrix rig_matrix_new(rp_dtype t, uint32_t n, uint32_t k)
{
	rig_matrix w = { .type = t, .n = n, .k = k };
	uint64_t stride = 0, row = 0;
	assert_true(rp_repack_stride(t, k, &stride) && rp_dtype_row_bytes(t, k, &row));
	void *raw = rig_weights(t, n, k);
	w.bytes = RIG_GAP * 16 + n * stride;
	w.stride = (uint32_t)(stride / 16);
	w.repacked = rp_alloc(w.bytes);
	w.values = rp_alloc_array((size_t)n * k, sizeof *w.values);
	assert_true(w.repacked != NULL && w.values != NULL);
	rp_repack_rows(t, raw, n, k, w.repacked + RIG_GAP * 16);
	for (uint32_t j = 0; j < n; j++)
		rp_dequant(t, (char *)raw + j * row, k, w.values + (size_t)j * k);
	free(raw);
	return w;
}

void rig_matrix_free(rig_matrix *w)
{
	free(w->repacked);
	free(w->values);
}

/* ---- comparing ---- */
double rig_nmse(const float *y, const double *want, size_t n)
{
	double diff = 0, power = 0;
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(y[i]) && isfinite(want[i]))
			return INFINITY;
		diff += (y[i] - want[i]) * (y[i] - want[i]);
		power += want[i] * want[i];
	}
	return power > 0 ? diff / power : diff;
}

double rig_nmse_f32(const float *y, const float *want, size_t n)
{
	double *d = rp_alloc_array(n, sizeof *d);
	assert_non_null(d);
	for (size_t i = 0; i < n; i++)
		d[i] = want[i];
	double e = rig_nmse(y, d, n);
	free(d);
	return e;
}

void rig_close(const char *what, double nmse, double bound)
{
	if (!(nmse < bound))
		fail_msg("%s: normalised mean squared error %g, at most %g", what, nmse, bound);
}
