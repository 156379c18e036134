/* Decoders of the storage types: one function decodes one block. Block layouts: GGML's, byte for byte. Every product below
 * fits 24 bits, so it is exact and fused multiply-add cannot change a result. */
#include "model.h"

#include <string.h>

#include "blocks.h"

static float f16_at(const uint8_t *p)
{
	return rp_f16_to_f32(rp_le16(p));
}

static void q4_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	for (unsigned j = 0; j < 16; j++) {
		out[j] = d * (float)((b[2 + j] & 15) - 8);
		out[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
	}
}

static void q4_1(const uint8_t *b, float *out)
{
	float d = f16_at(b), m = f16_at(b + 2);
	for (unsigned j = 0; j < 16; j++) {
		out[j] = d * (float)(b[4 + j] & 15) + m;
		out[j + 16] = d * (float)(b[4 + j] >> 4) + m;
	}
}

static int fifth_bit(uint32_t high, unsigned j)
{
	return (int)((high >> j & 1u) << 4);
}

static void q5_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	uint32_t high = rp_le32(b + 2);
	for (unsigned j = 0; j < 16; j++) {
		out[j] = d * (float)(((b[6 + j] & 15) | fifth_bit(high, j)) - 16);
		out[j + 16] = d * (float)((b[6 + j] >> 4 | fifth_bit(high, j + 16)) - 16);
	}
}

static void q5_1(const uint8_t *b, float *out)
{
	float d = f16_at(b), m = f16_at(b + 2);
	uint32_t high = rp_le32(b + 4);
	for (unsigned j = 0; j < 16; j++) {
		out[j] = d * (float)((b[8 + j] & 15) | fifth_bit(high, j)) + m;
		out[j + 16] = d * (float)(b[8 + j] >> 4 | fifth_bit(high, j + 16)) + m;
	}
}

static void q8_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	for (unsigned j = 0; j < 32; j++)
		out[j] = d * (float)(int8_t)b[2 + j];
}

static void q4_k(const uint8_t *b, float *out)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	for (unsigned j = 0; j < RP_K_SUBS; j++) {
		unsigned scale, min;
		rp_k_scale_min(b + 4, j, &scale, &min);
		float step = d * (float)scale, offset = dmin * (float)min;
		const uint8_t *q = b + 16 + j / 2 * 32;
		for (unsigned i = 0; i < RP_K_SUB; i++)
			out[j * RP_K_SUB + i] = step * (float)(j % 2 == 0 ? q[i] & 15 : q[i] >> 4) - offset;
	}
}

/* As Q4_K with the fifth bits in 32 bytes before the nibbles: bit j of byte i belongs to value i of sub-block j. */
static void q5_k(const uint8_t *b, float *out)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	const uint8_t *high = b + 16;
	for (unsigned j = 0; j < RP_K_SUBS; j++) {
		unsigned scale, min;
		rp_k_scale_min(b + 4, j, &scale, &min);
		float step = d * (float)scale, offset = dmin * (float)min;
		const uint8_t *q = b + 48 + j / 2 * 32;
		for (unsigned i = 0; i < RP_K_SUB; i++) {
			int low = j % 2 == 0 ? q[i] & 15 : q[i] >> 4;
			out[j * RP_K_SUB + i] = step * (float)(low | fifth_bit(high[i], j)) - offset;
		}
	}
}

static void q6_k(const uint8_t *b, float *out)
{
	float d = f16_at(b + 208);
	for (unsigned half = 0; half < 2; half++) {
		const uint8_t *ql = b + half * 64, *qh = b + 128 + half * 32, *sc = b + 192 + half * 8;
		float *y = out + half * 128;
		for (unsigned part = 0; part < 4; part++)
			for (unsigned l = 0; l < 32; l++) {
				unsigned low = ql[l + part % 2 * 32], high = (unsigned)qh[l] >> (2 * part) & 3u;
				int q = (int)((part < 2 ? low & 15u : low >> 4) | high << 4) - 32;
				y[part * 32 + l] = d * (float)(int8_t)sc[part * 2 + l / 16] * (float)q;
			}
	}
}

static void dense(rp_dtype t, const uint8_t *src, uint64_t n, float *dst)
{
	if (t == RP_F32) {
		for (uint64_t i = 0; i < n; i++) {
			uint32_t bits = rp_le32(src + 4 * i);
			memcpy(&dst[i], &bits, sizeof bits);
		}
	} else if (t == RP_F16) {
		for (uint64_t i = 0; i < n; i++)
			dst[i] = f16_at(src + 2 * i);
	} else {
		for (uint64_t i = 0; i < n; i++) {
			uint32_t bits = (uint32_t)rp_le16(src + 2 * i) << 16;
			memcpy(&dst[i], &bits, sizeof bits);
		}
	}
}

typedef void block_decoder(const uint8_t *block, float *out);

static block_decoder *const decoders[RP_DTYPE_COUNT] = {
	[RP_Q4_0] = q4_0,
	[RP_Q4_1] = q4_1,
	[RP_Q5_0] = q5_0,
	[RP_Q5_1] = q5_1,
	[RP_Q8_0] = q8_0,
	[RP_Q4_K] = q4_k,
	[RP_Q5_K] = q5_k,
	[RP_Q6_K] = q6_k,
};

void rp_dequant(rp_dtype t, const void *src, uint64_t n, float *dst)
{
	const rp_dtype_info *d = rp_dtype_get(t);
	const uint8_t *b = src;
	if (d->block_values == 1) {
		dense(t, b, n, dst);
		return;
	}
	block_decoder *decode = (unsigned)t < RP_DTYPE_COUNT ? decoders[t] : NULL;
	if (decode == NULL)
		return;
	for (; n >= d->block_values; n -= d->block_values, b += d->block_bytes, dst += d->block_values)
		decode(b, dst);
	if (n > 0) {
		float last[RP_K_VALUES];
		decode(b, last);
		memcpy(dst, last, (size_t)n * sizeof *dst);
	}
}
