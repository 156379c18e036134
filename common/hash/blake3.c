/* The BLAKE3 tree: chunks of 1 KiB, blocks of 64 bytes, parents of two chaining values. Left subtrees are as large as a power of
 * two allows, so a stack of finished subtrees is all the state; its depth is the number of one bits in the chunk count. */
#include "base/cpu.h"
#include "blake3_impl.h"

#include <string.h>

const uint32_t rp_blake3_iv[8] = { 0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19 };

/* Order of the message words in each round: the specification's permutation applied again and again. */
static const unsigned char schedule[7][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8 },
	{ 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1 },
	{ 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6 },
	{ 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4 },
	{ 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7 },
	{ 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13 },
};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void mix(uint32_t v[16], size_t a, size_t b, size_t c, size_t d, uint32_t x, uint32_t y)
{
	v[a] += v[b] + x;
	v[d] = rotate(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 12);
	v[a] += v[b] + y;
	v[d] = rotate(v[d] ^ v[a], 8);
	v[c] += v[d];
	v[b] = rotate(v[b] ^ v[c], 7);
}

static void compress(const uint32_t cv[8], const uint32_t words[16], uint64_t counter, uint32_t len, uint32_t flags, uint32_t v[16])
{
	memcpy(v, cv, 8 * sizeof *v);
	memcpy(v + 8, rp_blake3_iv, 4 * sizeof *v);
	v[12] = (uint32_t)counter;
	v[13] = (uint32_t)(counter >> 32);
	v[14] = len;
	v[15] = flags;
	for (size_t round = 0; round < 7; round++) {
		const unsigned char *s = schedule[round];
		mix(v, 0, 4, 8, 12, words[s[0]], words[s[1]]);
		mix(v, 1, 5, 9, 13, words[s[2]], words[s[3]]);
		mix(v, 2, 6, 10, 14, words[s[4]], words[s[5]]);
		mix(v, 3, 7, 11, 15, words[s[6]], words[s[7]]);
		mix(v, 0, 5, 10, 15, words[s[8]], words[s[9]]);
		mix(v, 1, 6, 11, 12, words[s[10]], words[s[11]]);
		mix(v, 2, 7, 8, 13, words[s[12]], words[s[13]]);
		mix(v, 3, 4, 9, 14, words[s[14]], words[s[15]]);
	}
	for (size_t i = 0; i < 8; i++) {
		v[i] ^= v[i + 8];
		v[i + 8] ^= cv[i];
	}
}

/* What is left to compress for one node: a chunk's last block or a parent. Root output needs it unfinished. */
typedef struct node {
	uint32_t cv[8], words[16], len, flags;
	uint64_t counter;
} node;

static void load_block(uint32_t words[16], const unsigned char *in, size_t n)
{
	unsigned char block[BLOCK_BYTES] = { 0 };
	if (n != 0)
		memcpy(block, in, n);
	for (size_t i = 0; i < 16; i++)
		words[i] = rp_le32(block + 4 * i);
}

static node chunk_node(const unsigned char *in, size_t n, uint64_t counter)
{
	node out = { .counter = counter };
	uint32_t v[16], flags = CHUNK_START;
	memcpy(out.cv, rp_blake3_iv, sizeof out.cv);
	while (n > BLOCK_BYTES) {
		load_block(out.words, in, BLOCK_BYTES);
		compress(out.cv, out.words, counter, BLOCK_BYTES, flags, v);
		memcpy(out.cv, v, sizeof out.cv);
		flags = 0;
		in += BLOCK_BYTES;
		n -= BLOCK_BYTES;
	}
	load_block(out.words, in, n);
	out.len = (uint32_t)n;
	out.flags = flags | CHUNK_END;
	return out;
}

static node parent_node(const uint32_t left[8], const uint32_t right[8])
{
	node out = { .len = BLOCK_BYTES, .flags = PARENT };
	memcpy(out.cv, rp_blake3_iv, sizeof out.cv);
	memcpy(out.words, left, 8 * sizeof *left);
	memcpy(out.words + 8, right, 8 * sizeof *right);
	return out;
}

static void node_cv(const node *n, uint32_t cv[8])
{
	uint32_t v[16];
	compress(n->cv, n->words, n->counter, n->len, n->flags, v);
	memcpy(cv, v, 8 * sizeof *cv);
}

/* ---- code paths ---- */
static void portable_chunks(const unsigned char *in, uint64_t counter, uint32_t out[][8])
{
	node n = chunk_node(in, RP_BLAKE3_CHUNK, counter);
	node_cv(&n, out[0]);
}

static void portable_parents(const uint32_t in[][8], uint32_t out[][8])
{
	node n = parent_node(in[0], in[1]);
	node_cv(&n, out[0]);
}

static const blake3_path portable = { "portable", 1, portable_chunks, portable_parents };

/* Paths are named after the levels of instructions they need. */
static bool supported(const char *name)
{
	rp_cpu_level level = rp_cpu_best();
	while (level > RP_CPU_PORTABLE && strcmp(name, rp_cpu_level_name(level)) != 0)
		level--;
	return strcmp(name, rp_cpu_level_name(level)) == 0;
}

static const blake3_path *const paths[] = {
#if defined(__x86_64__)
	&rp_blake3_avx512,
	&rp_blake3_avx2,
	&rp_blake3_sse41,
#endif
	&portable,
};

static const blake3_path *forced;

/* The best path this processor has, as a place in paths[]: narrower ones follow it. */
static const blake3_path *const *best(void)
{
	const blake3_path *const *p = paths;
	while (forced != NULL ? *p != forced : !supported((*p)->name))
		p++;
	return p;
}

const char *rp_blake3_path(void)
{
	return (*best())->name;
}

bool rp_blake3_force(const char *name)
{
	forced = NULL;
	if (name == NULL)
		return true;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (strcmp(paths[i]->name, name) == 0 && supported(name)) {
			forced = paths[i];
			return true;
		}
	return false;
}

/* ---- subtrees ---- */
enum { GROUP = 128 }; /* chunks hashed before their parents are joined: their values stay in the first cache */

/* Join n chaining values (a power of two, at most GROUP) into one, level by level, in place. The last levels are narrower than
 * the path: its spare lanes then read and write values nobody needs, which is why the array has room for 2 * MAX_LANES. */
static void join(const blake3_path *p, uint32_t cv[GROUP][8], size_t n)
{
	for (; n > 1; n /= 2)
		for (size_t at = 0; at < n / 2; at += p->lanes)
			p->parents((const uint32_t(*)[8])cv + 2 * at, cv + at);
}

static void small_subtree(const blake3_path *const *p, const unsigned char *in, size_t n_chunks, uint64_t counter, uint32_t cv[8])
{
	uint32_t values[GROUP][8];
	size_t at = 0;
	if (n_chunks < 2 * MAX_LANES)
		memset(values, 0, sizeof *values * 2 * MAX_LANES);
	for (const blake3_path *const *q = p; at < n_chunks; q++)
		for (; at + (*q)->lanes <= n_chunks; at += (*q)->lanes)
			(*q)->chunks(in + at * RP_BLAKE3_CHUNK, counter + at, values + at);
	join(*p, values, n_chunks);
	memcpy(cv, values[0], sizeof values[0]);
}

static void subtree(const blake3_path *const *p, const unsigned char *in, size_t n_chunks, uint64_t counter, uint32_t cv[8])
{
	if (n_chunks <= GROUP) {
		small_subtree(p, in, n_chunks, counter, cv);
		return;
	}
	uint32_t halves[2][8];
	subtree(p, in, n_chunks / 2, counter, halves[0]);
	subtree(p, in + n_chunks / 2 * RP_BLAKE3_CHUNK, n_chunks / 2, counter + n_chunks / 2, halves[1]);
	portable_parents((const uint32_t(*)[8])halves, (uint32_t(*)[8])cv);
}

void rp_blake3_subtree(const void *data, size_t n, uint64_t first_chunk, uint32_t cv[8])
{
	subtree(best(), data, n / RP_BLAKE3_CHUNK, first_chunk, cv);
}

/* ---- streaming ---- */
void rp_blake3_init(rp_blake3 *h)
{
	h->n_stack = 0;
	h->chunks = 0;
	h->n_pending = 0;
}

void rp_blake3_push(rp_blake3 *h, const uint32_t cv[8], uint64_t n_chunks)
{
	uint32_t value[8];
	memcpy(value, cv, sizeof value);
	/* Each one bit of chunks / n_chunks, from the lowest, is a finished subtree of the same size as what is joined so far. */
	for (uint64_t bits = h->chunks / n_chunks; (bits & 1) != 0; bits >>= 1) {
		node n = parent_node(h->stack[--h->n_stack], value);
		node_cv(&n, value);
	}
	memcpy(h->stack[h->n_stack++], value, sizeof value);
	h->chunks += n_chunks;
}

/* The largest power of two of chunks that may come next: aligned, and leaving at least one byte for the last chunk. */
static size_t next_subtree(uint64_t chunks, size_t bytes)
{
	size_t most = (bytes - 1) / RP_BLAKE3_CHUNK, size = 1;
	while (size * 2 <= most && chunks % (size * 2) == 0)
		size *= 2;
	return size;
}

void rp_blake3_update(rp_blake3 *h, const void *data, size_t n)
{
	const unsigned char *in = data;
	uint32_t cv[8];
	while (n > 0) {
		if (h->n_pending == RP_BLAKE3_CHUNK) { /* more follows, so it is not the last chunk */
			node c = chunk_node(h->pending, RP_BLAKE3_CHUNK, h->chunks);
			node_cv(&c, cv);
			h->n_pending = 0;
			rp_blake3_push(h, cv, 1);
		}
		size_t step;
		if (h->n_pending == 0 && n > RP_BLAKE3_CHUNK) {
			size_t n_chunks = next_subtree(h->chunks, n);
			step = n_chunks * RP_BLAKE3_CHUNK;
			rp_blake3_subtree(in, step, h->chunks, cv);
			rp_blake3_push(h, cv, n_chunks);
		} else {
			step = RP_BLAKE3_CHUNK - h->n_pending;
			step = step < n ? step : n;
			memcpy(h->pending + h->n_pending, in, step);
			h->n_pending += step;
		}
		in += step;
		n -= step;
	}
}

void rp_blake3_final(const rp_blake3 *h, void *out, size_t n)
{
	unsigned char *to = out;
	uint32_t cv[8], v[16];
	node last = chunk_node(h->pending, h->n_pending, h->chunks);
	for (uint32_t depth = h->n_stack; depth > 0;) {
		node_cv(&last, cv);
		last = parent_node(h->stack[--depth], cv);
	}
	for (uint64_t block = 0; n > 0; block++) {
		compress(last.cv, last.words, block, last.len, last.flags | ROOT, v);
		for (size_t i = 0; i < BLOCK_BYTES && n > 0; i++, n--)
			*to++ = (unsigned char)(v[i / 4] >> 8 * (i % 4));
	}
}

void rp_blake3_once(const void *data, size_t n, unsigned char out[RP_HASH_BYTES])
{
	rp_blake3 h;
	rp_blake3_init(&h);
	rp_blake3_update(&h, data, n);
	rp_blake3_final(&h, out, RP_HASH_BYTES);
}
