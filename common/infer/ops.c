/* The graph's operations but for the delta rule (ops_delta.c). */
#include "infer/ops.h"

#include <math.h>
#include <string.h>

float rp_ref_dot(const float *a, const float *b, size_t n)
{
	float acc[16] = {0}, tail = 0;
	size_t i = 0;

	for (; i + 16 <= n; i += 16)
		for (size_t j = 0; j < 16; j++)
			acc[j] += a[i + j] * b[i + j];
	for (; i < n; i++)
		tail += a[i] * b[i];
	for (size_t half = 8; half > 0; half /= 2)
		for (size_t j = 0; j < half; j++)
			acc[j] += acc[j + half];
	return acc[0] + tail;
}

float rp_ref_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

float rp_ref_silu(float x)
{
	return x / (1.0f + expf(-x));
}

float rp_ref_softplus(float x)
{
	return x > 20.0f ? x : log1pf(expf(x));
}

void rp_ref_embed(float *out, const float *table, const uint32_t *ids, size_t rows, size_t width)
{
	for (size_t r = 0; r < rows; r++)
		memcpy(out + r * width, table + (size_t)ids[r] * width, width * sizeof *out);
}

/* What a run of n values is multiplied with to have a mean square of 1. */
static float rms_factor(const float *x, size_t n, float eps)
{
	return 1.0f / sqrtf(rp_ref_dot(x, x, n) / (float)n + eps);
}

void rp_ref_norm(float *out, const float *in, const float *w, size_t rows, size_t width, size_t group, float eps, bool plus_one)
{
	for (size_t at = 0; at < rows * width; at += group) {
		float factor = rms_factor(in + at, group, eps);
		for (size_t i = 0; i < group; i++)
			out[at + i] = in[at + i] * factor * (plus_one ? 1.0f + w[i] : w[i]);
	}
}

void rp_ref_gated_norm(float *out, const float *in, const float *gate, const float *w, size_t rows, size_t width, size_t group,
	float eps)
{
	for (size_t at = 0; at < rows * width; at += group) {
		float factor = rms_factor(in + at, group, eps);
		for (size_t i = 0; i < group; i++)
			out[at + i] = in[at + i] * factor * w[i] * rp_ref_silu(gate[at + i]);
	}
}

void rp_ref_matmul_columns(float *out, const float *in, const float *w, const float *residual, size_t rows, size_t n_out,
	size_t n_in, size_t first, size_t last)
{
	for (size_t n = first; n < last; n++, w += n_in)
		for (size_t r = 0; r < rows; r++) {
			float sum = rp_ref_dot(in + r * n_in, w, n_in);
			out[r * n_out + n] = residual ? residual[r * n_out + n] + sum : sum;
		}
}

void rp_ref_matmul(float *out, const float *in, const float *w, const float *residual, size_t rows, size_t n_out, size_t n_in)
{
	rp_ref_matmul_columns(out, in, w, residual, rows, n_out, n_in, 0, n_out);
}

void rp_ref_split_heads(float *first, float *second, const float *in, size_t rows, size_t heads, size_t head_dim)
{
	for (size_t h = 0; h < rows * heads; h++) {
		memcpy(first + h * head_dim, in + 2 * h * head_dim, head_dim * sizeof *in);
		memcpy(second + h * head_dim, in + (2 * h + 1) * head_dim, head_dim * sizeof *in);
	}
}

static void rope_head(float *out, const float *in, size_t head_dim, size_t rotary_dim, const float *freqs, bool interleaved,
	float pos)
{
	size_t half = rotary_dim / 2;

	for (size_t i = 0; i < half; i++) {
		size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
		float c = cosf(pos * freqs[i]), s = sinf(pos * freqs[i]);
		float x = in[a], y = in[b];
		out[a] = x * c - y * s;
		out[b] = y * c + x * s;
	}
	for (size_t i = rotary_dim; i < head_dim; i++)
		out[i] = in[i];
}

void rp_ref_rope(float *out, const float *in, size_t rows, size_t heads, size_t head_dim, size_t rotary_dim, const float *freqs,
	bool interleaved, uint32_t pos)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t h = 0; h < heads; h++) {
			size_t at = (r * heads + h) * head_dim;
			rope_head(out + at, in + at, head_dim, rotary_dim, freqs, interleaved, (float)(pos + r));
		}
}

/* x becomes exp(x - max), not yet divided by the sum; the sum is returned. */
static float exp_shifted(float *x, size_t n)
{
	float max = x[0], sum = 0;

	for (size_t i = 1; i < n; i++)
		max = fmaxf(max, x[i]);
	for (size_t i = 0; i < n; i++) {
		x[i] = expf(x[i] - max);
		sum += x[i];
	}
	return sum;
}

void rp_ref_attention_head(float *out, const float *q, size_t q_stride, const float *keys, const float *values, size_t kv_stride,
	size_t rows, size_t head_dim, uint32_t pos, float scale, float *scores)
{
	for (size_t r = 0; r < rows; r++) {
		size_t n = pos + r + 1;
		float *o = out + r * q_stride;

		for (size_t j = 0; j < n; j++)
			scores[j] = scale * rp_ref_dot(q + r * q_stride, keys + j * kv_stride, head_dim);
		float sum = exp_shifted(scores, n);
		memset(o, 0, head_dim * sizeof *o);
		for (size_t j = 0; j < n; j++)
			for (size_t i = 0; i < head_dim; i++)
				o[i] += scores[j] / sum * values[j * kv_stride + i];
	}
}

void rp_ref_attention(float *out, const float *q, const float *keys, const float *values, size_t rows, size_t heads,
	size_t kv_heads, size_t head_dim, uint32_t pos, float scale, float *scores)
{
	for (size_t h = 0; h < heads; h++) {
		size_t kv = h / (heads / kv_heads);
		rp_ref_attention_head(out + h * head_dim, q + h * head_dim, heads * head_dim, keys + kv * head_dim,
			values + kv * head_dim, kv_heads * head_dim, rows, head_dim, pos, scale, scores);
	}
}

void rp_ref_sigmoid_mul(float *out, const float *in, const float *gate, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = in[i] * rp_ref_sigmoid(gate[i]);
}

void rp_ref_silu_mul(float *out, const float *gate, const float *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = rp_ref_silu(gate[i]) * in[i];
}

void rp_ref_add(float *out, const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = a[i] + b[i];
}

void rp_ref_conv(float *out, const float *in, const float *w, float *state, size_t rows, size_t width, size_t kernel)
{
	size_t past = kernel - 1;

	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < width; c++) {
			float sum = 0;
			for (size_t j = 0; j < kernel; j++) { /* tap j reads token r - past + j */
				float u = r + j < past ? state[(r + j) * width + c] : in[(r + j - past) * width + c];
				sum += u * w[c * kernel + j];
			}
			out[r * width + c] = rp_ref_silu(sum);
		}
	for (size_t j = 0; j < past; j++) { /* the last `past` inputs, taken from the old state while the run is shorter */
		const float *from = rows + j < past ? state + (rows + j) * width : in + (rows + j - past) * width;
		memmove(state + j * width, from, width * sizeof *state);
	}
}

uint32_t rp_ref_argmax(const float *x, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
			best = i;
	return best;
}

/* Order of top-k: larger first, then lower index; NaN last. */
static bool ranks_before(const float *x, uint32_t a, uint32_t b)
{
	bool nan_a = isnan(x[a]), nan_b = isnan(x[b]);

	if (nan_a || nan_b)
		return nan_a == nan_b ? a < b : nan_b;
	return x[a] > x[b] || (x[a] == x[b] && a < b);
}

void rp_ref_top_k(const float *x, uint32_t n, uint32_t k, uint32_t *ids)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < n && k > 0; i++) { /* insertion into a sorted list of the best so far */
		if (found == k && !ranks_before(x, i, ids[k - 1]))
			continue;
		uint32_t at = found < k ? found++ : k - 1;
		for (; at > 0 && ranks_before(x, i, ids[at - 1]); at--)
			ids[at] = ids[at - 1];
		ids[at] = i;
	}
}
