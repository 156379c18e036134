/* The 6-bit scales and minima of Q4_K and Q5_K blocks, shared by the decoder and the encoder. */
#ifndef RP_MODEL_BLOCKS_H
#define RP_MODEL_BLOCKS_H

#include <stdint.h>

enum { RP_K_VALUES = 256, RP_K_SUBS = 8, RP_K_SUB = 32, RP_K_SCALE_BYTES = 12 };

/* s: the 12 packed bytes; j: sub-block 0..7. */
static inline void rp_k_scale_min(const uint8_t *s, unsigned j, unsigned *scale, unsigned *min)
{
	if (j < 4) {
		*scale = s[j] & 63u;
		*min = s[j + 4] & 63u;
	} else {
		*scale = (s[j + 4] & 15u) | (unsigned)(s[j - 4] >> 6) << 4;
		*min = (unsigned)(s[j + 4] >> 4) | (unsigned)(s[j] >> 6) << 4;
	}
}

static inline void rp_k_pack_scale_min(uint8_t *s, const uint8_t scale[RP_K_SUBS], const uint8_t min[RP_K_SUBS])
{
	for (unsigned j = 0; j < 4; j++) {
		s[j] = (uint8_t)((scale[j] & 63u) | (unsigned)(scale[j + 4] >> 4) << 6);
		s[j + 4] = (uint8_t)((min[j] & 63u) | (unsigned)(min[j + 4] >> 4) << 6);
		s[j + 8] = (uint8_t)((scale[j + 4] & 15u) | (unsigned)(min[j + 4] & 15u) << 4);
	}
}

#endif
