/* random: integer arithmetic only, so a seed gives the same numbers on every machine. xoshiro256** seeded by splitmix64 (Blackman
 * and Vigna, public domain algorithms) for streams of numbers; Philox4x32-10 (Salmon and others, "Parallel Random Numbers: As Easy
 * as 1, 2, 3", 2011), whose numbers have a place instead of a state, for sampling: a GPU finds the same one. */
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

/* The four numbers of a place (counter) in the sequence of a key. */
static inline void rp_random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)b;
		c3 = (uint32_t)a;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

#endif
