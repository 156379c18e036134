/* The decoders of the storage types, compiled once a level of vector instructions: the including file defines TARGET (an
 * attribute of every function), NAME, WIDE (values converted at a time: 16, 8 or 4), WIDEN(q, i) (WIDE of 16 bytes, from the
 * i-th, as 32-bit integers) and, where the processor has them, F16 and F16_8 (a half, eight halves to float). One function decodes
 * one block, sixteen values at a time. Block layouts: GGML's, byte for byte. Every product below fits 24 bits, so it is exact,
 * and all levels give the same bits. */
#include "model/dequant_levels.h"

#include <string.h>

#include "model/blocks.h"

#ifdef F16
TARGET static inline float f16_value(uint16_t h)
{
	return F16(h);
}
#else
/* rp_f16_to_f32 without branches: the exponent moved to its place, then rescaled, which also makes subnormals right. */
TARGET static inline float f16_value(uint16_t h)
{
	uint32_t bits = (uint32_t)(h & 0x7FFFu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
	uint32_t special = (h & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u; /* infinities and NaN */
	float f;
	memcpy(&f, &bits, sizeof f);
	f *= 0x1p112f;
	memcpy(&bits, &f, sizeof bits);
	bits |= special | sign;
	memcpy(&f, &bits, sizeof f);
	return f;
}
#endif

TARGET static inline float f16_at(const uint8_t *p)
{
	return f16_value(rp_le16(p));
}

typedef uint64_t words2 __attribute__((vector_size(16)));
typedef float floats_wide __attribute__((vector_size(WIDE * sizeof(float))));

TARGET static inline bytes16 load16(const uint8_t *p)
{
	bytes16 v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* out[i] = step * (q[i] - zero) - offset, for 16 values */
TARGET static inline void put16(float *out, bytes16 q, int zero, float step, float offset)
{
	for (unsigned i = 0; i < 16; i += WIDE) {
		floats_wide v = __builtin_convertvector(WIDEN(q, i) - zero, floats_wide) * step - offset;
		memcpy(out + i, &v, sizeof v);
	}
}

/* Bit i of `bits` as 0 or 16, for 16 values. */
TARGET static inline bytes16 fifth_bits(uint32_t bits)
{
	static const uint8_t one_each[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
	words2 spread = { (bits & 255u) * UINT64_C(0x0101010101010101), (bits >> 8 & 255u) * UINT64_C(0x0101010101010101) };
	return (bytes16)(((bytes16)spread & load16(one_each)) != 0) & 16;
}

TARGET static inline void q4_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	bytes16 q = load16(b + 2);
	put16(out, q & 15, 8, d, 0);
	put16(out + 16, q >> 4, 8, d, 0);
}

TARGET static inline void q4_1(const uint8_t *b, float *out)
{
	float d = f16_at(b), m = f16_at(b + 2);
	bytes16 q = load16(b + 4);
	put16(out, q & 15, 0, d, -m);
	put16(out + 16, q >> 4, 0, d, -m);
}

TARGET static inline void q5_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	uint32_t high = rp_le32(b + 2);
	bytes16 q = load16(b + 6);
	put16(out, (q & 15) | fifth_bits(high), 16, d, 0);
	put16(out + 16, (q >> 4) | fifth_bits(high >> 16), 16, d, 0);
}

TARGET static inline void q5_1(const uint8_t *b, float *out)
{
	float d = f16_at(b), m = f16_at(b + 2);
	uint32_t high = rp_le32(b + 4);
	bytes16 q = load16(b + 8);
	put16(out, (q & 15) | fifth_bits(high), 0, d, -m);
	put16(out + 16, (q >> 4) | fifth_bits(high >> 16), 0, d, -m);
}

/* Signed bytes, as unsigned ones around 128. */
TARGET static inline void q8_0(const uint8_t *b, float *out)
{
	float d = f16_at(b);
	put16(out, load16(b + 2) ^ 128, 128, d, 0);
	put16(out + 16, load16(b + 18) ^ 128, 128, d, 0);
}

TARGET static inline void q4_k(const uint8_t *b, float *out)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	for (unsigned j = 0; j < RP_K_SUBS; j++, out += RP_K_SUB) {
		unsigned scale, min;
		rp_k_scale_min(b + 4, j, &scale, &min);
		float step = d * (float)scale, offset = dmin * (float)min;
		for (unsigned i = 0; i < RP_K_SUB; i += 16) {
			bytes16 q = load16(b + 16 + j / 2 * 32 + i);
			put16(out + i, j % 2 == 0 ? q & 15 : q >> 4, 0, step, offset);
		}
	}
}

/* As Q4_K with the fifth bits in 32 bytes before the nibbles: bit j of byte i belongs to value i of sub-block j. */
TARGET static inline void q5_k(const uint8_t *b, float *out)
{
	float d = f16_at(b), dmin = f16_at(b + 2);
	for (unsigned j = 0; j < RP_K_SUBS; j++, out += RP_K_SUB) {
		unsigned scale, min;
		rp_k_scale_min(b + 4, j, &scale, &min);
		float step = d * (float)scale, offset = dmin * (float)min;
		for (unsigned i = 0; i < RP_K_SUB; i += 16) {
			bytes16 q = load16(b + 48 + j / 2 * 32 + i), high = (bytes16)((load16(b + 16 + i) & (uint8_t)(1 << j)) != 0) & 16;
			put16(out + i, (j % 2 == 0 ? q & 15 : q >> 4) | high, 0, step, offset);
		}
	}
}

/* Sub-block s of 16: a half of 128 values, a part of 32 within it, a half of that. The bytes of a half hold four parts. */
TARGET static inline void q6_k(const uint8_t *b, float *out)
{
	float d = f16_at(b + 208);
	for (unsigned half = 0; half < 2; half++)
		for (unsigned first = 0; first < 32; first += 16) {
			bytes16 low = load16(b + half * 64 + first), low2 = load16(b + half * 64 + 32 + first), high = load16(b + 128 + half * 32 + first);
			const uint8_t *scale = b + 192 + half * 8 + first / 16;
			float *to = out + half * 128 + first;
			put16(to, (low & 15) | (high & 3) << 4, 32, d * (float)(int8_t)scale[0], 0);
			put16(to + 32, (low2 & 15) | (high & 12) << 2, 32, d * (float)(int8_t)scale[2], 0);
			put16(to + 64, low >> 4 | (high & 48), 32, d * (float)(int8_t)scale[4], 0);
			put16(to + 96, low2 >> 4 | (high & 192) >> 2, 32, d * (float)(int8_t)scale[6], 0);
		}
}

/* Types with blocks: X(type, its decoder, values and bytes of a block). */
#define BLOCK_TYPES(X)         \
	X(RP_Q4_0, q4_0, 32, 18)   \
	X(RP_Q4_1, q4_1, 32, 20)   \
	X(RP_Q5_0, q5_0, 32, 22)   \
	X(RP_Q5_1, q5_1, 32, 24)   \
	X(RP_Q8_0, q8_0, 32, 34)   \
	X(RP_Q4_K, q4_k, 256, 144) \
	X(RP_Q5_K, q5_k, 256, 176) \
	X(RP_Q6_K, q6_k, 256, 210)

TARGET static inline void dense(rp_dtype t, const uint8_t *src, uint64_t n, float *dst)
{
	if (t == RP_F32) {
		for (uint64_t i = 0; i < n; i++) {
			uint32_t bits = rp_le32(src + 4 * i);
			memcpy(&dst[i], &bits, sizeof bits);
		}
	} else if (t == RP_F16) {
		uint64_t i = 0;
#ifdef F16_8
		for (; i + 8 <= n; i += 8)
			F16_8(dst + i, src + 2 * i);
#endif
		for (; i < n; i++)
			dst[i] = f16_at(src + 2 * i);
	} else {
		for (uint64_t i = 0; i < n; i++) {
			uint32_t bits = (uint32_t)rp_le16(src + 2 * i) << 16;
			memcpy(&dst[i], &bits, sizeof bits);
		}
	}
}

/* n values from whole blocks; what is left of the last block is dropped. A function a type, so that its decoder is inlined. */
#define DECODE_ROW(dtype, type, values, bytes)                                             \
	TARGET static void type##_row(const uint8_t *b, uint64_t n, float *dst)                \
	{                                                                                      \
		for (; n >= (values); n -= (values), b += (bytes), dst += (values))                \
			type(b, dst);                                                                  \
		if (n > 0) {                                                                       \
			float last[values];                                                            \
			type(b, last);                                                                 \
			memcpy(dst, last, (size_t)n * sizeof *dst);                                    \
		}                                                                                  \
	}
BLOCK_TYPES(DECODE_ROW)

void NAME(rp_dequant)(rp_dtype t, const void *src, uint64_t n, float *dst)
{
#define ROW(dtype, type, values, bytes) [dtype] = type##_row,
	static void (*const rows[RP_DTYPE_COUNT])(const uint8_t *, uint64_t, float *) = { BLOCK_TYPES(ROW) };
	if (rp_dtype_get(t)->block_values == 1)
		dense(t, src, n, dst);
	else if ((unsigned)t < RP_DTYPE_COUNT && rows[t] != NULL)
		rows[t](src, n, dst);
}
