/* The oracle's operations against their formulas in double precision, at odd sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "infer/dots.h"
#include "infer/ops.h"

static rp_random dice;

static float uniform(void)
{
	return (float)(2 * rp_random_unit(&dice) - 1);
}

static float *numbers(size_t n)
{
	float *x = malloc(n * sizeof *x);

	for (size_t i = 0; i < n; i++)
		x[i] = uniform();
	return x;
}

static void near(float got, double want, double limit)
{
	if (!(fabs((double)got - want) <= limit))
		fail_msg("%.9g is not %.9g (limit %g)", (double)got, want, limit);
}

static void dot_and_matmul(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 9, 31, 64, 100, 577};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		size_t k = sizes[s], rows = 3, n = 5;
		float *x = numbers(rows * k), *w = numbers(n * k), *res = numbers(rows * n), *out = numbers(rows * n);
		rp_ref_matmul(out, x, w, res, rows, n, k);
		for (size_t r = 0; r < rows; r++)
			for (size_t j = 0; j < n; j++) {
				double want = (double)res[r * n + j];
				for (size_t i = 0; i < k; i++)
					want += (double)x[r * k + i] * (double)w[j * k + i];
				near(out[r * n + j], want, 1e-6 * sqrt((double)k) + 1e-6);
			}
		rp_ref_matmul(res, x, w, res, rows, n, k); /* the residual may be the output */
		assert_memory_equal(res, out, rows * n * sizeof *out);
		free(x);
		free(w);
		free(res);
		free(out);
	}
}

/* Every level of vector instructions, every number of rows: the bits of rp_ref_dot. */
static void products_are_the_same_at_every_level(void **state)
{
	static const size_t sizes[] = {1, 15, 16, 17, 63, 64, 100, 577};
	enum { ROWS = 11, STRIDE = 600, OUT = 7 };
	float *x = numbers((size_t)ROWS * STRIDE), out[ROWS * OUT];

	(void)state;
	for (rp_cpu_level level = RP_CPU_PORTABLE; level < RP_CPU_LEVELS; level++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
			for (size_t n_w = 1; n_w <= RP_DOTS_ROWS; n_w++) {
				size_t k = sizes[s];
				float *w = numbers(n_w * k);
				rp_cpu_limit(level);
				for (size_t i = 0; i < ROWS * OUT; i++)
					out[i] = -99;
				rp_dots_best()(out, OUT, w, n_w, x, STRIDE, ROWS, k);
				for (size_t r = 0; r < ROWS; r++)
					for (size_t j = 0; j < OUT; j++) {
						float want = j < n_w ? rp_ref_dot(x + r * STRIDE, w + j * k, k) : -99;
						if (memcmp(&out[r * OUT + j], &want, sizeof want) != 0)
							fail_msg("%s, %zu values, row %zu, weight %zu: %a, not %a", rp_cpu_level_name(level), k, r, j,
								(double)out[r * OUT + j], (double)want);
					}
				free(w);
			}
	free(x);
}

static void norms(void **state)
{
	enum { ROWS = 3, GROUP = 13, WIDTH = 2 * GROUP };
	float *x = numbers(ROWS * WIDTH), *z = numbers(ROWS * WIDTH), *w = numbers(GROUP);
	float out[ROWS * WIDTH], gated[ROWS * WIDTH];

	(void)state;
	for (int plus_one = 0; plus_one < 2; plus_one++) {
		rp_ref_norm(out, x, w, ROWS, WIDTH, GROUP, 1e-3f, plus_one);
		rp_ref_gated_norm(gated, x, z, w, ROWS, WIDTH, GROUP, 1e-3f);
		for (size_t at = 0; at < ROWS * WIDTH; at += GROUP) {
			double sum = 0;
			for (size_t i = 0; i < GROUP; i++)
				sum += (double)x[at + i] * (double)x[at + i];
			double unit = 1 / sqrt(sum / GROUP + 1e-3);
			for (size_t i = 0; i < GROUP; i++) {
				double n = (double)x[at + i] * unit, g = (double)z[at + i];
				near(out[at + i], n * ((double)w[i] + plus_one), 1e-5);
				near(gated[at + i], n * (double)w[i] * g / (1 + exp(-g)), 1e-5);
			}
		}
	}
	rp_ref_norm(x, x, w, ROWS, WIDTH, GROUP, 1e-3f, true);
	assert_memory_equal(x, out, sizeof out);
	free(x);
	free(z);
	free(w);
}

static void check_rope(size_t head_dim, size_t rotary, bool interleaved, uint32_t pos)
{
	size_t rows = 2, heads = 3, half = rotary / 2, n = rows * heads * head_dim;
	float *x = numbers(n), *out = numbers(n), freqs[16];

	for (size_t i = 0; i < half; i++)
		freqs[i] = (float)pow(10000, -2.0 * (double)i / (double)rotary);
	rp_ref_rope(out, x, rows, heads, head_dim, rotary, freqs, interleaved, pos);
	for (size_t r = 0; r < rows; r++)
		for (size_t h = 0; h < heads; h++) {
			const float *in = x + (r * heads + h) * head_dim, *o = out + (r * heads + h) * head_dim;
			for (size_t i = 0; i < half; i++) {
				size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
				float angle = (float)(pos + r) * freqs[i];
				double c = cos((double)angle), s = sin((double)angle);
				near(o[a], (double)in[a] * c - (double)in[b] * s, 1e-6);
				near(o[b], (double)in[b] * c + (double)in[a] * s, 1e-6);
			}
			assert_memory_equal(o + rotary, in + rotary, (head_dim - rotary) * sizeof *o);
		}
	rp_ref_rope(x, x, rows, heads, head_dim, rotary, freqs, interleaved, pos);
	assert_memory_equal(x, out, n * sizeof *x);
	free(x);
	free(out);
}

static void rope(void **state)
{
	(void)state;
	for (int interleaved = 0; interleaved < 2; interleaved++) {
		check_rope(8, 8, interleaved, 0);
		check_rope(8, 8, interleaved, 5000);
		check_rope(14, 6, interleaved, 131071);
	}
}

static void attention(void **state)
{
	enum { ROWS = 4, POS = 3, HEADS = 6, KV = 2, D = 5, ALL = ROWS + POS };
	float *q = numbers(ROWS * HEADS * D), *k = numbers(ALL * KV * D), *v = numbers(ALL * KV * D);
	float out[ROWS * HEADS * D], scores[ALL];

	(void)state;
	rp_ref_attention(out, q, k, v, ROWS, HEADS, KV, D, POS, 0.7f, scores);
	for (size_t r = 0; r < ROWS; r++)
		for (size_t h = 0; h < HEADS; h++) {
			double sum = 0, want[D] = {0};
			for (size_t j = 0; j <= POS + r; j++) {
				double dot = 0;
				for (size_t i = 0; i < D; i++)
					dot += (double)q[(r * HEADS + h) * D + i] * (double)k[(j * KV + h / 3) * D + i];
				double e = exp((double)0.7f * dot);
				sum += e;
				for (size_t i = 0; i < D; i++)
					want[i] += e * (double)v[(j * KV + h / 3) * D + i];
			}
			for (size_t i = 0; i < D; i++)
				near(out[(r * HEADS + h) * D + i], want[i] / sum, 1e-6);
		}
	free(q);
	free(k);
	free(v);
}

static void elementwise(void **state)
{
	enum { N = 37 };
	float *a = numbers(N), *b = numbers(N), out[N];

	(void)state;
	a[0] = 90; /* saturates without overflow */
	a[1] = -90;
	rp_ref_sigmoid_mul(out, b, a, N);
	for (int i = 0; i < N; i++)
		near(out[i], (double)b[i] / (1 + exp(-(double)a[i])), 1e-6);
	rp_ref_silu_mul(out, a, b, N);
	for (int i = 0; i < N; i++)
		near(out[i], (double)a[i] / (1 + exp(-(double)a[i])) * (double)b[i], 1e-5);
	rp_ref_add(out, a, b, N);
	for (int i = 0; i < N; i++)
		near(out[i], (double)a[i] + (double)b[i], 1e-5);
	near(rp_ref_softplus(-30), log1p(exp(-30.0)), 1e-18);
	near(rp_ref_softplus(0.5f), log1p(exp(0.5)), 1e-6);
	near(rp_ref_softplus(25), 25, 0);
	float first[4], second[4];
	rp_ref_split_heads(first, second, (const float[]){1, 2, 3, 4, 5, 6, 7, 8}, 1, 2, 2);
	assert_memory_equal(first, ((const float[]){1, 2, 5, 6}), sizeof first);
	assert_memory_equal(second, ((const float[]){3, 4, 7, 8}), sizeof second);
	rp_ref_embed(first, (const float[]){1, 2, 3, 4, 5, 6}, (const uint32_t[]){2, 0}, 2, 2);
	assert_memory_equal(first, ((const float[]){5, 6, 1, 2}), sizeof first);
	free(a);
	free(b);
}

/* The whole run against the formula; then cut in two at every place: same bits, same state. */
static void check_conv(size_t kernel)
{
	enum { ROWS = 6, WIDTH = 5 };
	float *x = numbers(ROWS * WIDTH), *w = numbers(WIDTH * kernel), out[ROWS * WIDTH], cut[ROWS * WIDTH];
	float state[16 * WIDTH] = {0}, state2[16 * WIDTH];
	size_t bytes = (kernel - 1) * WIDTH * sizeof *state;

	rp_ref_conv(out, x, w, state, ROWS, WIDTH, kernel);
	for (size_t r = 0; r < ROWS; r++)
		for (size_t c = 0; c < WIDTH; c++) {
			double sum = 0;
			for (size_t j = 0; j < kernel && j <= r; j++) /* j tokens ago */
				sum += (double)x[(r - j) * WIDTH + c] * (double)w[c * kernel + kernel - 1 - j];
			near(out[r * WIDTH + c], sum / (1 + exp(-sum)), 1e-6);
		}
	for (size_t n = 1; n < ROWS; n++) {
		memset(state2, 0, sizeof state2);
		rp_ref_conv(cut, x, w, state2, n, WIDTH, kernel);
		rp_ref_conv(cut + n * WIDTH, x + n * WIDTH, w, state2, ROWS - n, WIDTH, kernel);
		assert_memory_equal(cut, out, sizeof out);
		assert_memory_equal(state2, state, bytes);
	}
	free(x);
	free(w);
}

static void convolution(void **state)
{
	(void)state;
	for (size_t kernel = 2; kernel <= 9; kernel++)
		check_conv(kernel);
}

/* The definition, in double, for one head. */
static void delta_double(double *out, const float *qkv, const float *a, const float *b, const float *A, const float *dt, size_t rows,
	const rp_delta_shape *s, uint32_t head)
{
	size_t dk = s->k_dim, dv = s->v_dim, keys = s->k_heads * dk, width = 2 * keys + s->v_heads * dv;
	size_t g = s->head_mod ? head % s->k_heads : head / (s->v_heads / s->k_heads);
	double *m = calloc(dk * dv, sizeof *m);

	for (size_t t = 0; t < rows; t++) {
		const float *q = qkv + t * width + g * dk, *k = q + keys, *v = qkv + t * width + 2 * keys + head * dv;
		double qq = 0, kk = 0, x = (double)a[t * s->v_heads + head] + (double)dt[head];
		double decay = exp((s->a_neg_exp ? (double)A[head] : -exp((double)A[head])) * log1p(exp(x)));
		double beta = 1 / (1 + exp(-(double)b[t * s->v_heads + head]));
		for (size_t i = 0; i < dk; i++) {
			qq += (double)q[i] * (double)q[i];
			kk += (double)k[i] * (double)k[i];
		}
		qq = 1 / sqrt(qq + (double)s->eps) / sqrt((double)dk);
		kk = 1 / sqrt(kk + (double)s->eps);
		for (size_t j = 0; j < dv; j++) {
			double r = (double)v[j], o = 0;
			for (size_t i = 0; i < dk; i++) {
				m[i * dv + j] *= decay;
				r -= (double)k[i] * kk * m[i * dv + j];
			}
			for (size_t i = 0; i < dk; i++) {
				m[i * dv + j] += (double)k[i] * kk * beta * r;
				o += (double)q[i] * qq * m[i * dv + j];
			}
			out[t * dv + j] = o;
		}
	}
	free(m);
}

static void check_delta(rp_delta_shape s, size_t rows, const size_t *chunks, size_t n_chunks)
{
	size_t dv = s.v_dim, each = (size_t)s.k_dim * dv, width = 2 * (size_t)s.k_heads * s.k_dim + s.v_heads * dv, n = rows * s.v_heads * dv;
	float *qkv = numbers(rows * width), *a = numbers(rows * s.v_heads), *b = numbers(rows * s.v_heads);
	float *A = numbers(s.v_heads), *dt = numbers(s.v_heads), *out = numbers(n), *chunked = numbers(n);
	float *states = calloc(s.v_heads * each, sizeof *states), *state = calloc(each, sizeof *state);
	float *scratch = numbers(2 * s.k_dim + dv);
	double *want = calloc(rows * dv, sizeof *want);

	for (uint32_t h = 0; s.a_neg_exp && h < s.v_heads; h++)
		A[h] = -expf(A[h]);
	rp_ref_delta(out, qkv, a, b, A, dt, states, rows, &s, scratch);
	for (uint32_t h = 0; h < s.v_heads; h++) {
		delta_double(want, qkv, a, b, A, dt, rows, &s, h);
		for (size_t i = 0; i < rows * dv; i++)
			near(out[(i / dv * s.v_heads + h) * dv + i % dv], want[i], 2e-6);
	}
	for (size_t c = 0; c < n_chunks; c++) {
		float *space = numbers(rp_ref_delta_chunk_scratch(&s, chunks[c]));
		for (uint32_t h = 0; h < s.v_heads; h++) {
			memset(state, 0, each * sizeof *state);
			rp_ref_delta_head_chunked(chunked, qkv, a, b, A, dt, state, rows, &s, h, chunks[c], space);
			for (size_t i = 0; i < each; i++)
				near(state[i], (double)states[h * each + i], 2e-6);
		}
		for (size_t i = 0; i < n; i++)
			near(chunked[i], (double)out[i], 2e-6);
		free(space);
	}
	free(qkv), free(a), free(b), free(A), free(dt), free(out), free(chunked), free(states), free(state), free(scratch), free(want);
}

static void delta_rule(void **state)
{
	static const size_t chunks[] = {1, 2, 7, 64, 100};

	(void)state;
	check_delta((rp_delta_shape){6, 2, 16, 16, false, false, 1e-6f}, 70, chunks, 5);
	check_delta((rp_delta_shape){6, 2, 5, 9, true, true, 1e-6f}, 65, chunks, 5);
	check_delta((rp_delta_shape){3, 3, 8, 1, true, false, 1e-6f}, 1, chunks, 5);
}

static const float *ranked_by;

static int by_rank(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (ranked_by[x] > ranked_by[y])
		return -1;
	if (ranked_by[x] < ranked_by[y])
		return 1;
	return x < y ? -1 : 1;
}

static void choosing(void **state)
{
	enum { N = 501 };
	float x[N];
	uint32_t all[N], got[N];

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		x[i] = (float)(rp_random_next(&dice) % 40);
		all[i] = i;
	}
	x[77] = -INFINITY;
	ranked_by = x;
	qsort(all, N, sizeof *all, by_rank);
	for (uint32_t k = 0; k <= N; k += 100) {
		rp_ref_top_k(x, N, k, got);
		assert_memory_equal(got, all, k * sizeof *got);
	}
	assert_int_equal(rp_ref_argmax(x, N), all[0]);
	float broken[] = {NAN, 1, NAN, 3, 3, NAN};
	static const uint32_t want[] = {3, 4, 1, 0, 2, 5};
	rp_ref_top_k(broken, 6, 6, got);
	assert_memory_equal(got, want, sizeof want);
	assert_int_equal(rp_ref_argmax(broken, 6), 3);
	assert_int_equal(rp_ref_argmax(broken, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dot_and_matmul),
		cmocka_unit_test(products_are_the_same_at_every_level),
		cmocka_unit_test(norms),
		cmocka_unit_test(rope),
		cmocka_unit_test(attention),
		cmocka_unit_test(elementwise),
		cmocka_unit_test(convolution),
		cmocka_unit_test(delta_rule),
		cmocka_unit_test(choosing),
	};

	rp_random_seed(&dice, 20);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
