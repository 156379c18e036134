#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "model/model.h"

#define QUANTS "tests/golden/quants/"

static void *read_golden(const char *type, const char *suffix, size_t *n)
{
	char *path = rp_asprintf(QUANTS "%s%s", type, suffix), *data = NULL;
	rp_error e;
	if (rp_read_file(path, 1 << 20, &data, n, &e) != RP_OK)
		fail_msg("%s", e.msg);
	free(path);
	return data;
}

/* Bits, so that a wrong sign of zero shows. */
static void assert_same_bits(const char *type, const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof *a) != 0)
			fail_msg("%s: value %zu is %a, expected %a", type, i, (double)a[i], (double)b[i]);
}

/* tests/golden/quants was written by the published gguf package (scripts/make-quant-golden.py). */
static void check_decoding(void)
{
	for (rp_dtype t = RP_F16; t < RP_OTHER; t++) {
		const rp_dtype_info *d = rp_dtype_get(t);
		size_t n_bytes, n_expected;
		unsigned char *blocks = read_golden(d->name, ".blocks", &n_bytes);
		float *expected = read_golden(d->name, ".f32", &n_expected);
		size_t n = n_bytes / d->block_bytes * d->block_values;
		assert_int_equal(n_bytes % d->block_bytes, 0);
		assert_int_equal(n_expected, n * sizeof(float));
		float *got = rp_alloc_array(n, sizeof *got);
		rp_dequant(t, blocks, n, got);
		assert_same_bits(d->name, got, expected, n);
		/* from any address, and to any length */
		unsigned char *odd = rp_alloc(n_bytes + 1);
		memcpy(odd + 1, blocks, n_bytes);
		size_t part = n - n / 3 - 1;
		memset(got, 0x7F, n * sizeof *got);
		rp_dequant(t, odd + 1, part, got);
		assert_same_bits(d->name, got, expected, part);
		for (size_t i = part * sizeof *got; i < n * sizeof *got; i++)
			assert_int_equal(((unsigned char *)got)[i], 0x7F);
		free(odd);
		free(got);
		free(expected);
		free(blocks);
	}
}

static void decoding_is_that_of_the_gguf_package(void **state)
{
	(void)state;
	for (rp_cpu_level level = RP_CPU_PORTABLE; level < RP_CPU_LEVELS; level++) {
		rp_cpu_limit(level); /* one the processor lacks is the next lower once more */
		check_decoding();
	}
}

/* Every half there is. */
static void halves_are_the_same_at_every_level(void **state)
{
	(void)state;
	enum { N = 1 << 16 };
	uint16_t *halves = rp_alloc_array(N, sizeof *halves);
	float *expected = rp_alloc_array(N, sizeof *expected), *got = rp_alloc_array(N, sizeof *got);
	for (unsigned i = 0; i < N; i++) {
		halves[i] = (uint16_t)i;
		expected[i] = rp_f16_to_f32((uint16_t)i);
	}
	for (rp_cpu_level level = RP_CPU_PORTABLE; level < RP_CPU_LEVELS; level++) {
		rp_cpu_limit(level);
		rp_dequant(RP_F16, halves, N, got);
		for (unsigned i = 0; i < N; i++)
			if (isnan(expected[i]) ? !isnan(got[i]) : memcmp(&got[i], &expected[i], sizeof *got) != 0)
				fail_msg("%s: %#x is %a, expected %a", rp_cpu_level_name(level), i, (double)got[i], (double)expected[i]);
	}
	free(halves);
	free(expected);
	free(got);
}

static void row_sizes_count_whole_blocks(void **state)
{
	(void)state;
	uint64_t n;
	assert_true(rp_dtype_row_bytes(RP_Q4_K, 1024, &n));
	assert_int_equal(n * 6144, 3538944);
	assert_int_equal(n * 248320, 143032320);
	assert_true(rp_dtype_row_bytes(RP_Q4_K, 704, &n));
	assert_int_equal(n, 3 * 144);
	assert_true(rp_dtype_row_bytes(RP_Q6_K, 0, &n));
	assert_int_equal(n, 0);
	assert_false(rp_dtype_row_bytes(RP_F32, UINT64_MAX / 2, &n));
	assert_false(rp_dtype_row_bytes(RP_OTHER, 1, &n));
	assert_string_equal(rp_dtype_get(RP_Q5_K)->name, "Q5_K");
}

static void every_float16_goes_round(void **state)
{
	(void)state;
	for (uint32_t h = 0; h <= 0xFFFF; h++) {
		float f = rp_f16_to_f32((uint16_t)h);
		if ((h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0) {
			assert_true(isnan(f));
			assert_true(isnan(rp_f16_to_f32(rp_f32_to_f16(f))));
		} else {
			assert_int_equal(rp_f32_to_f16(f), h);
		}
	}
}

/* Halfway cases between every two neighbours go to the even one, anything beyond halfway to the nearer. */
static void float16_rounds_to_nearest_even(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x7BFF; h++) {
		float low = rp_f16_to_f32((uint16_t)h), high = rp_f16_to_f32((uint16_t)(h + 1)), mid = low + (high - low) / 2;
		assert_int_equal(rp_f32_to_f16(mid), h % 2 == 0 ? h : h + 1);
		assert_int_equal(rp_f32_to_f16(nextafterf(mid, 0)), h);
		assert_int_equal(rp_f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
	}
	assert_int_equal(rp_f32_to_f16(65519.996f), 0x7BFF);
	assert_int_equal(rp_f32_to_f16(65520.0f), 0x7C00);
	assert_int_equal(rp_f32_to_f16(-1e30f), 0xFC00);
}

static float *normal_values(size_t n, uint32_t seed)
{
	float *x = rp_alloc_array(n, sizeof *x);
	uint64_t s = seed;
	for (size_t i = 0; i < n; i++) {
		double sum = 0;
		for (int k = 0; k < 12; k++) {
			s = s * 6364136223846793005u + 1442695040888963407u;
			sum += (double)(s >> 11) * 0x1p-53;
		}
		x[i] = (float)(sum - 6);
	}
	return x;
}

/* Relative root-mean-square error of normal values: what the number of bits allows, not much more. */
static void encoding_loses_little(void **state)
{
	(void)state;
	static const double limit[RP_DTYPE_COUNT] = { [RP_F32] = 0,
		[RP_F16] = 3e-4,
		[RP_BF16] = 2.5e-3,
		[RP_Q4_0] = 0.085,
		[RP_Q4_1] = 0.075,
		[RP_Q5_0] = 0.042,
		[RP_Q5_1] = 0.037,
		[RP_Q8_0] = 0.006,
		[RP_Q4_K] = 0.075,
		[RP_Q5_K] = 0.038,
		[RP_Q6_K] = 0.021 };
	size_t rows = 40, k = 512;
	float *x = normal_values(rows * k, 7), *y = rp_alloc_array(rows * k, sizeof *y);
	for (rp_dtype t = 0; t < RP_OTHER; t++) {
		uint64_t row_bytes;
		assert_true(rp_dtype_row_bytes(t, k, &row_bytes));
		void *blocks = rp_alloc(rows * row_bytes);
		assert_true(rp_quantize(t, x, rows, k, blocks));
		rp_dequant(t, blocks, rows * k, y);
		double error = 0, power = 0;
		for (size_t i = 0; i < rows * k; i++) {
			error += pow((double)x[i] - (double)y[i], 2);
			power += pow((double)x[i], 2);
		}
		double relative = sqrt(error / power);
		print_message("%s: %.4f\n", rp_dtype_get(t)->name, relative);
		assert_true(relative <= limit[t]);
		free(blocks);
	}
	free(x);
	free(y);
}

static void short_rows_are_padded_to_a_block(void **state)
{
	(void)state;
	size_t rows = 3, k = 33;
	float *x = normal_values(rows * k, 3);
	for (rp_dtype t = 0; t < RP_OTHER; t++) {
		uint64_t row_bytes;
		assert_true(rp_dtype_row_bytes(t, k, &row_bytes));
		unsigned char *blocks = rp_alloc(rows * row_bytes + 1);
		blocks[rows * row_bytes] = 0xA5;
		assert_true(rp_quantize(t, x, rows, k, blocks));
		assert_int_equal(blocks[rows * row_bytes], 0xA5);
		for (size_t r = 0; r < rows; r++) {
			float y[33];
			rp_dequant(t, blocks + r * row_bytes, k, y);
			for (size_t i = 0; i < k; i++)
				assert_true(fabsf(y[i] - x[r * k + i]) < 0.4f);
		}
		free(blocks);
	}
	free(x);
}

static void extreme_values_encode_to_finite_blocks(void **state)
{
	(void)state;
	static const float edges[] = { 0, 1e-30f, -1e-8f, 65504, 3e38f, -3e38f, 1 };
	float x[256], y[256];
	unsigned char block[256 * 4];
	for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
		for (rp_dtype t = RP_Q4_0; t < RP_OTHER; t++) {
			for (size_t i = 0; i < 256; i++)
				x[i] = edges[e] * (i % 3 == 0 ? -0.5f : 1);
			assert_true(rp_quantize(t, x, 1, 256, block));
			rp_dequant(t, block, 256, y);
			for (size_t i = 0; i < 256; i++) {
				assert_true(isfinite(y[i]));
				assert_true(fabsf(edges[e]) > 65504 || fabsf(y[i] - x[i]) <= 0.08f * fabsf(edges[e]) + 1e-5f);
			}
		}
	assert_false(rp_quantize(RP_OTHER, x, 1, 1, y));
	assert_false(rp_quantize(RP_F32, x, UINT64_MAX, 3, y));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decoding_is_that_of_the_gguf_package),
		cmocka_unit_test(halves_are_the_same_at_every_level),
		cmocka_unit_test(row_sizes_count_whole_blocks),
		cmocka_unit_test(every_float16_goes_round),
		cmocka_unit_test(float16_rounds_to_nearest_even),
		cmocka_unit_test(encoding_loses_little),
		cmocka_unit_test(short_rows_are_padded_to_a_block),
		cmocka_unit_test(extreme_values_encode_to_finite_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
