#include "model.h"

#include <string.h>

static const rp_dtype_info table[RP_DTYPE_COUNT] = {
	[RP_F32] = { "F32", 1, 4 },
	[RP_F16] = { "F16", 1, 2 },
	[RP_BF16] = { "BF16", 1, 2 },
	[RP_Q4_0] = { "Q4_0", 32, 18 },
	[RP_Q4_1] = { "Q4_1", 32, 20 },
	[RP_Q5_0] = { "Q5_0", 32, 22 },
	[RP_Q5_1] = { "Q5_1", 32, 24 },
	[RP_Q8_0] = { "Q8_0", 32, 34 },
	[RP_Q4_K] = { "Q4_K", 256, 144 },
	[RP_Q5_K] = { "Q5_K", 256, 176 },
	[RP_Q6_K] = { "Q6_K", 256, 210 },
	[RP_OTHER] = { "other", 0, 0 },
};

const rp_dtype_info *rp_dtype_get(rp_dtype t)
{
	return &table[(unsigned)t < RP_DTYPE_COUNT ? t : RP_OTHER];
}

bool rp_dtype_row_bytes(rp_dtype t, uint64_t k, uint64_t *bytes)
{
	const rp_dtype_info *d = rp_dtype_get(t);
	if (d->block_values == 0)
		return false;
	uint64_t blocks = k / d->block_values + (k % d->block_values != 0);
	return rp_mul_u64(blocks, d->block_bytes, bytes);
}

float rp_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3FFu, bits;
	if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in float32 */
		float f = (float)fraction * 0x1p-24f;
		memcpy(&bits, &f, sizeof bits);
	} else if (exponent == 31) {
		bits = 0x7F800000u | fraction << 13;
	} else {
		bits = (exponent + 112) << 23 | fraction << 13;
	}
	bits |= sign;
	float out;
	memcpy(&out, &bits, sizeof out);
	return out;
}

uint16_t rp_f32_to_f16(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
	uint32_t mag = bits & 0x7FFFFFFFu;
	if (mag > 0x7F800000u) /* NaN stays one, quiet */
		return (uint16_t)(sign | 0x7E00u | (mag >> 13 & 0x3FFu));
	if (mag >= 0x477FF000u) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7C00u);
	if (mag < 0x38800000u) { /* below 2^-14: adding 1/2, whose last place is 2^-24, rounds to the subnormal grid */
		float small;
		memcpy(&small, &mag, sizeof small);
		small += 0.5f;
		memcpy(&mag, &small, sizeof mag);
		return (uint16_t)(sign | (mag - 0x3F000000u));
	}
	mag += 0xFFFu + (mag >> 13 & 1u) - (112u << 23);
	return (uint16_t)(sign | mag >> 13);
}
