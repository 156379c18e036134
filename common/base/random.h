/* random: the generator behind sampling. xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain algorithms):
 * integer arithmetic only, so a seed gives the same numbers on every machine. */
#ifndef RP_RANDOM_H
#define RP_RANDOM_H

#include <stdint.h>

typedef struct rp_random {
	uint64_t s[4];
} rp_random;

static inline uint64_t rp_random_splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void rp_random_seed(rp_random *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = rp_random_splitmix(&seed);
}

static inline uint64_t rp_random_rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static inline uint64_t rp_random_next(rp_random *r)
{
	uint64_t *s = r->s, result = rp_random_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rp_random_rotl(s[3], 45);
	return result;
}

/* In [0, 1), a multiple of 2^-53. */
static inline double rp_random_unit(rp_random *r)
{
	return (double)(rp_random_next(r) >> 11) * 0x1p-53;
}

#endif
