/* Encoders of the storage types. Each block's scale is chosen among a few candidates by squared error against the values
 * as they decode (float16 scales included), so what is measured is what a reader gets. */
#include "model.h"

#include <math.h>
#include <string.h>

#include "blocks.h"

static const float MAX_F16 = 65504.0f;

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)v);
	put16(p + 2, (uint16_t)(v >> 16));
}

/* Nearest integer in [low, high]; 0 clamped into it for NaN. */
static int nearest(float x, int low, int high)
{
	if (!(x > (float)low))
		return isnan(x) && low < 0 ? 0 : low;
	return x >= (float)high ? high : (int)lrintf(x);
}

static uint16_t half(float x)
{
	return rp_f32_to_f16(x > MAX_F16 ? MAX_F16 : x < -MAX_F16 ? -MAX_F16 : x);
}

typedef struct fit {
	uint16_t d, m; /* float16 */
	float error;
} fit;

/* Squared error of x as d * q + m with q the best integer of [low, high]; q is stored when not NULL. */
static float try_scale(const float *x, unsigned n, float d, float m, int low, int high, int *q)
{
	float inverse = d != 0 ? 1 / d : 0, error = 0;
	if (!isfinite(inverse))
		inverse = 0;
	for (unsigned i = 0; i < n; i++) {
		int v = nearest((x[i] - m) * inverse, low, high);
		float e = x[i] - (d * (float)v + m);
		error += e * e;
		if (q != NULL)
			q[i] = v;
	}
	return error;
}

static void consider(fit *best, const float *x, unsigned n, float d, float m, int low, int high)
{
	fit f = { .d = half(d), .m = half(m) };
	f.error = try_scale(x, n, rp_f16_to_f32(f.d), rp_f16_to_f32(f.m), low, high, NULL);
	if (f.error < best->error)
		*best = f;
}

/* x = d * q, q in [-reach, reach - 1]: the value furthest from zero decides d, on the side that has one more step. */
static fit fit_signed(const float *x, unsigned n, int reach)
{
	float far = 0;
	for (unsigned i = 0; i < n; i++)
		if (fabsf(x[i]) > fabsf(far))
			far = x[i];
	fit best = { 0, 0, INFINITY };
	for (int step = -4; step <= 4; step++)
		consider(&best, x, n, far / (-(float)reach + 0.1f * (float)step), 0, -reach, reach - 1);
	return best;
}

/* x = d * q + m, q in [0, top]. */
static fit fit_range(const float *x, unsigned n, int top)
{
	float low = x[0], high = x[0];
	for (unsigned i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	fit best = { 0, half(low), INFINITY };
	float range = high - low;
	for (int a = 0; a <= 3; a++)
		for (int b = 0; b <= 3; b++) {
			float m = low + 0.02f * (float)a * range;
			consider(&best, x, n, (high - 0.02f * (float)b * range - m) / (float)top, m, 0, top);
		}
	return best;
}

static void nibbles(const int *q, int bias, uint8_t *out)
{
	for (unsigned j = 0; j < 16; j++)
		out[j] = (uint8_t)(((q[j] + bias) & 15) | ((q[j + 16] + bias) & 15) << 4);
}

static uint32_t fifth_bits(const int *q, int bias)
{
	uint32_t high = 0;
	for (unsigned j = 0; j < 32; j++)
		high |= (uint32_t)((q[j] + bias) >> 4 & 1) << j;
	return high;
}

static void q4_0(const float *x, uint8_t *b)
{
	int q[32];
	fit f = fit_signed(x, 32, 8);
	try_scale(x, 32, rp_f16_to_f32(f.d), 0, -8, 7, q);
	put16(b, f.d);
	nibbles(q, 8, b + 2);
}

static void q4_1(const float *x, uint8_t *b)
{
	int q[32];
	fit f = fit_range(x, 32, 15);
	try_scale(x, 32, rp_f16_to_f32(f.d), rp_f16_to_f32(f.m), 0, 15, q);
	put16(b, f.d);
	put16(b + 2, f.m);
	nibbles(q, 0, b + 4);
}

static void q5_0(const float *x, uint8_t *b)
{
	int q[32];
	fit f = fit_signed(x, 32, 16);
	try_scale(x, 32, rp_f16_to_f32(f.d), 0, -16, 15, q);
	put16(b, f.d);
	put32(b + 2, fifth_bits(q, 16));
	nibbles(q, 16, b + 6);
}

static void q5_1(const float *x, uint8_t *b)
{
	int q[32];
	fit f = fit_range(x, 32, 31);
	try_scale(x, 32, rp_f16_to_f32(f.d), rp_f16_to_f32(f.m), 0, 31, q);
	put16(b, f.d);
	put16(b + 2, f.m);
	put32(b + 4, fifth_bits(q, 0));
	nibbles(q, 0, b + 8);
}

static void q8_0(const float *x, uint8_t *b)
{
	int q[32];
	float far = 0;
	for (unsigned i = 0; i < 32; i++)
		far = fabsf(x[i]) > far ? fabsf(x[i]) : far;
	uint16_t d = half(far / 127);
	try_scale(x, 32, rp_f16_to_f32(d), 0, -127, 127, q);
	put16(b, d);
	for (unsigned i = 0; i < 32; i++)
		b[2 + i] = (uint8_t)q[i];
}

/* Scale and minimum (both >= 0) of one sub-block of Q4_K or Q5_K: x = scale * q - min. */
static void fit_sub_block(const float *x, int top, float *scale, float *min)
{
	float low = 0, high = 0, best = INFINITY; /* a minimum cannot be positive, nor may an all-negative run lose its reach */
	for (unsigned i = 0; i < RP_K_SUB; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	*scale = *min = 0;
	for (int a = 0; a <= 3; a++)
		for (int b = 0; b <= 3; b++) {
			float m = low * (1 - 0.04f * (float)a), d = (high * (1 - 0.04f * (float)b) - m) / (float)top;
			float error = try_scale(x, RP_K_SUB, d, m, 0, top, NULL);
			if (error < best) {
				best = error;
				*scale = d;
				*min = -m;
			}
		}
}

/* The header of a Q4_K or Q5_K block (16 bytes) and its 256 integers. */
static void k_block(const float *x, int top, uint8_t *b, int *q)
{
	float scale[RP_K_SUBS], min[RP_K_SUBS], max_scale = 0, max_min = 0;
	for (unsigned j = 0; j < RP_K_SUBS; j++) {
		fit_sub_block(x + j * RP_K_SUB, top, &scale[j], &min[j]);
		max_scale = scale[j] > max_scale ? scale[j] : max_scale;
		max_min = min[j] > max_min ? min[j] : max_min;
	}
	uint16_t d16 = half(max_scale / 63), m16 = half(max_min / 63);
	float d = rp_f16_to_f32(d16), dmin = rp_f16_to_f32(m16);
	uint8_t ls[RP_K_SUBS], lm[RP_K_SUBS];
	for (unsigned j = 0; j < RP_K_SUBS; j++) {
		ls[j] = (uint8_t)(d > 0 ? nearest(scale[j] / d, 0, 63) : 0);
		lm[j] = (uint8_t)(dmin > 0 ? nearest(min[j] / dmin, 0, 63) : 0);
		try_scale(x + j * RP_K_SUB, RP_K_SUB, d * ls[j], -(dmin * lm[j]), 0, top, q + j * RP_K_SUB);
	}
	put16(b, d16);
	put16(b + 2, m16);
	rp_k_pack_scale_min(b + 4, ls, lm);
}

static void q4_k(const float *x, uint8_t *b)
{
	int q[RP_K_VALUES];
	k_block(x, 15, b, q);
	for (unsigned c = 0; c < 4; c++)
		for (unsigned i = 0; i < 32; i++)
			b[16 + 32 * c + i] = (uint8_t)(q[64 * c + i] | q[64 * c + 32 + i] << 4);
}

static void q5_k(const float *x, uint8_t *b)
{
	int q[RP_K_VALUES];
	k_block(x, 31, b, q);
	for (unsigned i = 0; i < 32; i++) {
		unsigned high = 0;
		for (unsigned j = 0; j < RP_K_SUBS; j++)
			high |= (unsigned)(q[j * RP_K_SUB + i] >> 4) << j;
		b[16 + i] = (uint8_t)high;
	}
	for (unsigned c = 0; c < 4; c++)
		for (unsigned i = 0; i < 32; i++)
			b[48 + 32 * c + i] = (uint8_t)((q[64 * c + i] & 15) | (q[64 * c + 32 + i] & 15) << 4);
}

static void q6_k(const float *x, uint8_t *b)
{
	float scale[16], far = 0;
	int q[RP_K_VALUES];
	for (unsigned g = 0; g < 16; g++) {
		fit f = fit_signed(x + 16 * g, 16, 32);
		scale[g] = rp_f16_to_f32(f.d);
		far = fabsf(scale[g]) > fabsf(far) ? scale[g] : far;
	}
	uint16_t d16 = half(far / -128);
	float d = rp_f16_to_f32(d16);
	put16(b + 208, d16);
	for (unsigned g = 0; g < 16; g++) {
		int s = d != 0 ? nearest(scale[g] / d, -128, 127) : 0;
		b[192 + g] = (uint8_t)s;
		try_scale(x + 16 * g, 16, d * (float)s, 0, -32, 31, q + 16 * g);
	}
	for (unsigned h = 0; h < 2; h++)
		for (unsigned l = 0; l < 32; l++) {
			unsigned v[4];
			for (unsigned part = 0; part < 4; part++)
				v[part] = (unsigned)(q[128 * h + 32 * part + l] + 32);
			b[64 * h + l] = (uint8_t)((v[0] & 15) | (v[2] & 15) << 4);
			b[64 * h + 32 + l] = (uint8_t)((v[1] & 15) | (v[3] & 15) << 4);
			b[128 + 32 * h + l] = (uint8_t)(v[0] >> 4 | v[1] >> 4 << 2 | v[2] >> 4 << 4 | v[3] >> 4 << 6);
		}
}

static void dense(rp_dtype t, const float *x, uint64_t n, uint8_t *b)
{
	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, &x[i], sizeof bits);
		if (t == RP_F32)
			put32(b + 4 * i, bits);
		else if (t == RP_F16)
			put16(b + 2 * i, rp_f32_to_f16(x[i]));
		else if (isnan(x[i]))
			put16(b + 2 * i, (uint16_t)(bits >> 16 | 0x40u));
		else
			put16(b + 2 * i, (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16));
	}
}

typedef void block_encoder(const float *x, uint8_t *block);

static block_encoder *const encoders[RP_DTYPE_COUNT] = {
	[RP_Q4_0] = q4_0,
	[RP_Q4_1] = q4_1,
	[RP_Q5_0] = q5_0,
	[RP_Q5_1] = q5_1,
	[RP_Q8_0] = q8_0,
	[RP_Q4_K] = q4_k,
	[RP_Q5_K] = q5_k,
	[RP_Q6_K] = q6_k,
};

static void quantize_row(block_encoder *encode, const rp_dtype_info *d, const float *x, uint64_t k, uint8_t *b)
{
	for (; k >= d->block_values; k -= d->block_values, x += d->block_values, b += d->block_bytes)
		encode(x, b);
	if (k > 0) {
		float last[RP_K_VALUES] = { 0 };
		memcpy(last, x, (size_t)k * sizeof *x);
		encode(last, b);
	}
}

bool rp_quantize(rp_dtype t, const float *src, uint64_t rows, uint64_t k, void *dst)
{
	const rp_dtype_info *d = rp_dtype_get(t);
	uint64_t row_bytes, total, values;
	if (!rp_dtype_row_bytes(t, k, &row_bytes) || !rp_mul_u64(rows, row_bytes, &total) || !rp_mul_u64(rows, k, &values))
		return false;
	uint8_t *b = dst;
	if (d->block_values == 1)
		dense(t, src, values, b);
	else
		for (uint64_t r = 0; r < rows; r++)
			quantize_row(encoders[t], d, src + r * k, k, b + r * row_bytes);
	return true;
}
