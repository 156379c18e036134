/* Repacked rows: sizes, places of planes, padding. What the kernels make of them is tested in test_kernels_matmul. */
#include "infer/repack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint64_t stride(rp_dtype t, uint64_t k)
{
	uint64_t bytes = 0;
	assert_true(rp_repack_stride(t, k, &bytes));
	return bytes;
}

static void strides(void **state)
{
	(void)state;
	assert_int_equal(stride(RP_F32, 4), 128);
	assert_int_equal(stride(RP_F16, 33), 128);
	assert_int_equal(stride(RP_BF16, 32), 64);
	assert_int_equal(stride(RP_Q4_0, 32), 16 + 16);
	assert_int_equal(stride(RP_Q4_0, 32 * 9), 9 * 16 + 32);
	assert_int_equal(stride(RP_Q4_1, 576), 18 * 16 + 80);
	assert_int_equal(stride(RP_Q5_0, 64), 32 + 16 + 16);
	assert_int_equal(stride(RP_Q5_1, 32 * 5), 80 + 32 + 32);
	assert_int_equal(stride(RP_Q8_0, 32), 32 + 16);
	assert_int_equal(stride(RP_Q4_K, 704), 3 * 144);
	assert_int_equal(stride(RP_Q5_K, 256), 176);
	assert_int_equal(stride(RP_Q6_K, 256 * 9), 9 * 208 + 32);
	uint64_t bytes = 7;
	assert_false(rp_repack_stride(RP_OTHER, 32, &bytes));
	assert_false(rp_repack_stride(RP_F32, 0, &bytes));
	assert_false(rp_repack_stride(RP_F32, UINT64_MAX - 3, &bytes));
	assert_false(rp_repack_stride(RP_Q8_0, UINT64_MAX, &bytes) && bytes < UINT64_MAX / 2);
}

/* Every byte of the file's rows arrives exactly once, and the rest is zero. */
static void every_byte_moves(void **state)
{
	(void)state;
	for (rp_dtype t = RP_F32; t < RP_OTHER; t++) {
		const uint64_t k = 256 * 3, n = 2;
		uint64_t row;
		assert_true(rp_dtype_row_bytes(t, k, &row));
		uint64_t to = stride(t, k);
		unsigned char src[2 * 256 * 3 * 4], dst[sizeof src];
		assert_true(n * row <= sizeof src && n * to <= sizeof dst);
		memset(dst, 0xff, n * to);
		long count[256] = { 0 };
		for (uint64_t i = 0; i < n * row; i++) {
			src[i] = (unsigned char)(1 + i % 251);
			count[src[i]]++;
		}
		rp_repack_rows(t, src, n, k, dst);
		for (uint64_t i = 0; i < n * to; i++)
			count[dst[i]]--;
		assert_int_equal(count[0], -(long)(n * (to - row)));
		for (int b = 1; b < 256; b++)
			assert_int_equal(count[b], 0);
	}
}

static void planes(void **state)
{
	unsigned char src[2 * 22], dst[64];
	(void)state;
	for (unsigned i = 0; i < sizeof src; i++)
		src[i] = (unsigned char)(1 + i);
	rp_repack_rows(RP_Q5_0, src, 1, 64, dst);
	assert_memory_equal(dst, src + 6, 16);
	assert_memory_equal(dst + 16, src + 22 + 6, 16);
	assert_memory_equal(dst + 32, src + 2, 4);
	assert_memory_equal(dst + 36, src + 22 + 2, 4);
	assert_memory_equal(dst + 48, src, 2);
	assert_memory_equal(dst + 50, src + 22, 2);
	for (int i = 0; i < 8; i++)
		assert_int_equal(dst[40 + i], 0);
	for (int i = 0; i < 12; i++)
		assert_int_equal(dst[52 + i], 0);
}

static void rope_angles(void **state)
{
	const float freqs[2] = { 1.0f, 0.25f };
	float t[12];
	(void)state;
	rp_rope_table(freqs, 2, 3, t);
	assert_true(t[0] == 1.0f && t[1] == 0.0f && t[2] == 1.0f && t[3] == 0.0f);
	assert_true(fabs(t[4] - cos(1.0)) < 1e-7 && fabs(t[5] - sin(1.0)) < 1e-7);
	assert_true(fabs(t[10] - cos(0.5)) < 1e-7 && fabs(t[11] - sin(0.5)) < 1e-7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strides),
		cmocka_unit_test(every_byte_moves),
		cmocka_unit_test(planes),
		cmocka_unit_test(rope_angles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
