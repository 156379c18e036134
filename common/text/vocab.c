#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PROBES = 4096 }; /* in a table at most half full: met only by spellings made to collide */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xD6E8FEB86659FD93u;
	x ^= x >> 32;
	return x;
}

uint64_t text_hash(uint64_t seed, const char *s, size_t n)
{
	uint64_t h = seed ^ n * 0x9E3779B97F4A7C15u, w;
	while (n >= 8) {
		memcpy(&w, s, 8);
		h = mix(h ^ w) * 0x9E3779B97F4A7C15u;
		s += 8;
		n -= 8;
	}
	w = 0;
	memcpy(&w, s, n);
	return mix(mix(h ^ w) + seed);
}

int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

rp_code vocab_init(vocab *v, rp_error *err)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	*v = (vocab){ 0 };
	rp_buf_init(&v->bytes, UINT32_MAX);
	v->seed = mix((uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)v ^ (uint64_t)(uintptr_t)&now << 16);
	if (!rp_buf_reserve(&v->bytes, 1)) /* so that data is never NULL */
		return rp_no_memory(err, 1, "the vocabulary");
	return RP_OK;
}

void vocab_free(vocab *v)
{
	rp_buf_free(&v->bytes);
	free(v->off);
	free(v->len);
	free(v->flags);
	free(v->slots);
	*v = (vocab){ 0 };
}

static rp_code make_room(vocab *v, uint32_t id, rp_error *err)
{
	if (id < v->cap)
		return RP_OK;
	uint32_t cap = v->cap != 0 ? v->cap : 1024;
	while (cap <= id)
		cap *= 2;
	uint32_t *off = rp_grow_array(v->off, cap, sizeof *off);
	v->off = off != NULL ? off : v->off;
	uint32_t *len = rp_grow_array(v->len, cap, sizeof *len);
	v->len = len != NULL ? len : v->len;
	unsigned char *flags = rp_grow_array(v->flags, cap, 1);
	v->flags = flags != NULL ? flags : v->flags;
	if (off == NULL || len == NULL || flags == NULL)
		return rp_no_memory(err, (uint64_t)cap * 9, "the vocabulary");
	memset(flags + v->cap, 0, cap - v->cap);
	memset(off + v->cap, 0, (cap - v->cap) * sizeof *off);
	memset(len + v->cap, 0, (cap - v->cap) * sizeof *len);
	v->cap = cap;
	return RP_OK;
}

rp_code vocab_put(vocab *v, const char *name, uint32_t id, const char *s, size_t n, unsigned flags, rp_error *err)
{
	char shown[80];
	if (id >= MAX_VOCAB)
		return rp_fail(err, RP_FORMAT, "%s: token \"%s\" has id %u; ids must be below %d", name, rp_show(shown, sizeof shown, s, n), id,
			MAX_VOCAB);
	rp_code code = make_room(v, id, err);
	if (code != RP_OK)
		return code;
	if (v->flags[id] & TOKEN_PRESENT) {
		char other[80];
		rp_str had = vocab_text(v, id);
		return rp_fail(err, RP_FORMAT, "%s: id %u is given to both \"%s\" and \"%s\"", name, id,
			rp_show(other, sizeof other, had.s, had.n), rp_show(shown, sizeof shown, s, n));
	}
	size_t at = v->bytes.len;
	if (!rp_buf_add(&v->bytes, s, n))
		return rp_no_memory(err, n, "the vocabulary");
	v->off[id] = (uint32_t)at;
	v->len[id] = (uint32_t)n;
	v->flags[id] = (unsigned char)(TOKEN_PRESENT | flags);
	v->n = id >= v->n ? id + 1 : v->n;
	v->count++;
	return RP_OK;
}

rp_code vocab_index(vocab *v, const char *name, rp_error *err)
{
	uint32_t size = 64;
	while (size / 2 < v->count)
		size *= 2;
	v->slots = malloc(size * sizeof *v->slots);
	if (v->slots == NULL)
		return rp_no_memory(err, size * sizeof *v->slots, "the vocabulary's index");
	memset(v->slots, 0xFF, size * sizeof *v->slots);
	v->mask = size - 1;
	for (uint32_t id = 0; id < v->n; id++) {
		if (!(v->flags[id] & TOKEN_MODEL))
			continue;
		rp_str s = vocab_text(v, id);
		uint32_t hash = (uint32_t)(text_hash(v->seed, s.s, s.n) >> 32), at = hash & v->mask, probes = 0;
		for (; v->slots[at].id != NO_ID; at = (at + 1) & v->mask, probes++) {
			rp_str other = vocab_text(v, v->slots[at].id);
			char shown[80];
			if (v->slots[at].hash == hash && other.n == s.n && memcmp(other.s, s.s, s.n) == 0)
				return rp_fail(err, RP_FORMAT, "%s: token \"%s\" is listed twice, as ids %u and %u", name,
					rp_show(shown, sizeof shown, s.s, s.n), v->slots[at].id, id);
			if (probes == MAX_PROBES)
				return rp_fail(err, RP_FORMAT, "%s: the vocabulary's spellings are made to collide", name);
		}
		v->slots[at] = (slot){ hash, id };
	}
	return RP_OK;
}

uint32_t vocab_find(const vocab *v, const char *s, size_t n)
{
	if (v->slots == NULL)
		return NO_ID;
	uint32_t hash = (uint32_t)(text_hash(v->seed, s, n) >> 32);
	for (uint32_t at = hash & v->mask; v->slots[at].id != NO_ID; at = (at + 1) & v->mask) {
		uint32_t id = v->slots[at].id;
		if (v->slots[at].hash == hash && v->len[id] == n && memcmp(v->bytes.data + v->off[id], s, n) == 0)
			return id;
	}
	return NO_ID;
}

/* Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 and following. */
static bool stands_for_itself(unsigned b)
{
	return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

uint32_t alphabet_of_byte(unsigned char b)
{
	if (stands_for_itself(b))
		return b;
	if (b <= 0x20)
		return 0x100u + b;
	return b <= 0xA0 ? 0x121u + (b - 0x7Fu) : 0x143u;
}

int byte_of_alphabet(uint32_t cp)
{
	if (cp < 0x100)
		return stands_for_itself(cp) ? (int)cp : -1;
	if (cp <= 0x120)
		return (int)(cp - 0x100);
	if (cp <= 0x142)
		return (int)(cp - 0x121 + 0x7F);
	return cp == 0x143 ? 0xAD : -1;
}
