/* Byte-pair encoding: the pair of lowest rank is merged first, the leftmost among equals, until no pair is left. A heap of
 * candidates keeps one huge word at O(n log n). */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t pair_slot(uint64_t seed, uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) ^ seed;
	x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
	x = (x ^ x >> 29) * 0x9E3779B97F4A7C15u;
	return (size_t)(x >> 32);
}

rp_code bpe_reserve(bpe *b, size_t n_merges, rp_error *err)
{
	size_t size = 16;
	while (size / 2 < n_merges)
		size *= 2;
	b->merges = rp_grow_array(NULL, size, sizeof *b->merges);
	if (b->merges == NULL)
		return rp_no_memory(err, size * sizeof *b->merges, "the merges");
	memset(b->merges, 0xFF, size * sizeof *b->merges);
	b->mask = size - 1;
	return RP_OK;
}

void bpe_put(bpe *b, uint64_t seed, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
	size_t at = pair_slot(seed, left, right) & b->mask;
	while (b->merges[at].a != NO_ID && (b->merges[at].a != left || b->merges[at].b != right))
		at = (at + 1) & b->mask;
	b->merges[at] = (merge){ left, right, rank, id };
	b->n_merges++;
}

void bpe_free(bpe *b)
{
	free(b->merges);
	free(b->rank);
	*b = (bpe){ 0 };
}

void scratch_free(scratch *s)
{
	free(s->symbols);
	free(s->heap);
	rp_buf_free(&s->word);
	*s = (scratch){ 0 };
}

static bool add_symbol(scratch *s, uint32_t id, size_t start, size_t len)
{
	if (s->n == s->cap) {
		size_t cap = s->cap != 0 ? s->cap * 2 : 64;
		symbol *grown = rp_grow_array(s->symbols, cap, sizeof *grown);
		if (grown == NULL)
			return false;
		s->symbols = grown;
		s->cap = cap;
	}
	s->symbols[s->n++] = (symbol){ .id = id, .start = (uint32_t)start, .len = (uint32_t)len };
	return true;
}

static bool heap_push(scratch *s, candidate c)
{
	if (s->heap_n == s->heap_cap) {
		size_t cap = s->heap_cap != 0 ? s->heap_cap * 2 : 64;
		candidate *grown = rp_grow_array(s->heap, cap, sizeof *grown);
		if (grown == NULL)
			return false;
		s->heap = grown;
		s->heap_cap = cap;
	}
	size_t at = s->heap_n++;
	while (at > 0 && s->heap[(at - 1) / 2].key > c.key) {
		s->heap[at] = s->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	s->heap[at] = c;
	return true;
}

static candidate heap_pop(scratch *s)
{
	candidate top = s->heap[0], last = s->heap[--s->heap_n];
	size_t at = 0, child;
	while ((child = 2 * at + 1) < s->heap_n) {
		if (child + 1 < s->heap_n && s->heap[child + 1].key < s->heap[child].key)
			child++;
		if (s->heap[child].key >= last.key)
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	s->heap[at] = last;
	return top;
}

/* Put the pair that starts at symbol `at` on the heap, when it can merge. */
static bool consider(const bpe *b, const vocab *v, scratch *s, const char *word, uint32_t at)
{
	const symbol *left = &s->symbols[at];
	if (left->next == NO_ID)
		return true;
	const symbol *right = &s->symbols[left->next];
	uint32_t len = left->len + right->len;
	if (b->by_score) {
		uint32_t id = vocab_find(v, word + left->start, len);
		return id == NO_ID || b->rank[id] == NO_ID || heap_push(s, (candidate){ (uint64_t)b->rank[id] << 32 | at, id, len });
	}
	if (b->n_merges == 0)
		return true;
	for (size_t i = pair_slot(v->seed, left->id, right->id) & b->mask; b->merges[i].a != NO_ID; i = (i + 1) & b->mask)
		if (b->merges[i].a == left->id && b->merges[i].b == right->id)
			return heap_push(s, (candidate){ (uint64_t)b->merges[i].rank << 32 | at, b->merges[i].id, len });
	return true;
}

static bool merge_all(const bpe *b, const vocab *v, scratch *s, const char *word)
{
	s->heap_n = 0;
	for (size_t i = 0; i < s->n; i++) {
		s->symbols[i].prev = i == 0 ? NO_ID : (uint32_t)(i - 1);
		s->symbols[i].next = i + 1 == s->n ? NO_ID : (uint32_t)(i + 1);
	}
	for (size_t i = 0; i + 1 < s->n; i++)
		if (!consider(b, v, s, word, (uint32_t)i))
			return false;
	while (s->heap_n > 0) {
		candidate c = heap_pop(s);
		uint32_t at = (uint32_t)c.key;
		symbol *left = &s->symbols[at];
		if (left->len == 0 || left->next == NO_ID || left->len + s->symbols[left->next].len != c.len)
			continue; /* one of the two was merged since */
		symbol *right = &s->symbols[left->next];
		left->id = c.id;
		left->len = c.len;
		left->next = right->next;
		right->len = 0;
		if (left->next != NO_ID)
			s->symbols[left->next].prev = at;
		if (left->prev != NO_ID && !consider(b, v, s, word, left->prev))
			return false;
		if (!consider(b, v, s, word, at))
			return false;
	}
	return true;
}

static size_t char_len(const char *s)
{
	unsigned char c = (unsigned char)*s;
	return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static bool has_bytes(const bpe *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b->byte_char[(unsigned char)s[i]] == NO_ID)
			return false;
	return true;
}

/* Unknown text not yet added. The reference adds it only when the next known character comes, and bytes of the fallback do not
 * count as known; files with all 256 byte tokens never show the difference. */
typedef struct pending {
	size_t start, len;
} pending;

static bool flush_unknown(const bpe *b, scratch *s, pending *p)
{
	bool ok = p->len == 0 || add_symbol(s, b->unk, p->start, p->len);
	p->len = 0;
	return ok;
}

static bool start_bytes(const bpe *b, scratch *s, const char *word, size_t n)
{
	pending unk = { 0, 0 };
	for (size_t i = 0; i < n; i++) {
		uint32_t id = b->byte_char[(unsigned char)word[i]];
		if (id != NO_ID) {
			if (!flush_unknown(b, s, &unk) || !add_symbol(s, id, i, 1))
				return false;
		} else if (b->unk != NO_ID) {
			if (!b->fuse_unk && !flush_unknown(b, s, &unk))
				return false;
			unk = (pending){ unk.len == 0 ? i : unk.start, unk.len + 1 };
		}
	}
	return flush_unknown(b, s, &unk);
}

static bool start_chars(const bpe *b, const vocab *v, scratch *s, const char *word, size_t n)
{
	pending unk = { 0, 0 };
	for (size_t i = 0, len; i < n; i += len) {
		len = char_len(word + i);
		uint32_t id = vocab_find(v, word + i, len);
		if (id != NO_ID || b->by_score) {
			if (!flush_unknown(b, s, &unk) || !add_symbol(s, id, i, len))
				return false;
		} else if (b->byte_fallback && has_bytes(b, word + i, len)) {
			for (size_t k = 0; k < len; k++)
				if (!add_symbol(s, b->byte_char[(unsigned char)word[i + k]], i + k, 1))
					return false;
		} else if (b->unk != NO_ID) {
			if (!b->fuse_unk && !flush_unknown(b, s, &unk))
				return false;
			unk = (pending){ unk.len == 0 ? i : unk.start, unk.len + len };
		}
	}
	return flush_unknown(b, s, &unk);
}

static bool put_id(rp_buf *out, uint32_t id)
{
	return rp_buf_add(out, &id, sizeof id);
}

/* Symbols that spell no token (by_score only): their bytes, or the unknown token. */
static bool put_unspelled(const bpe *b, const char *s, size_t n, rp_buf *out)
{
	if (!has_bytes(b, s, n))
		return b->unk == NO_ID || put_id(out, b->unk);
	bool ok = true;
	for (size_t i = 0; i < n; i++)
		ok = ok && put_id(out, b->byte_char[(unsigned char)s[i]]);
	return ok;
}

/* The word as the file spells it: itself, or in the byte alphabet. */
static rp_str spelled(const bpe *b, scratch *s, const char *word, size_t n)
{
	if (!b->byte_level)
		return (rp_str){ word, n };
	rp_buf_clear(&s->word);
	for (size_t i = 0; i < n; i++) {
		uint32_t cp = alphabet_of_byte((unsigned char)word[i]);
		if (cp < 0x80) {
			rp_buf_addc(&s->word, (char)cp);
		} else {
			rp_buf_addc(&s->word, (char)(0xC0 | cp >> 6));
			rp_buf_addc(&s->word, (char)(0x80 | (cp & 0x3F)));
		}
	}
	return (rp_str){ s->word.failed ? NULL : s->word.data, s->word.len };
}

rp_code bpe_word(const bpe *b, const vocab *v, scratch *s, const char *word, size_t n, rp_buf *out, rp_error *err)
{
	bool ok = true;
	if (n == 0)
		return RP_OK;
	if (b->ignore_merges) {
		rp_str whole = spelled(b, s, word, n);
		uint32_t id = whole.s != NULL ? vocab_find(v, whole.s, whole.n) : NO_ID;
		if (id != NO_ID)
			return put_id(out, id) ? RP_OK : rp_no_memory(err, out->len, "the ids");
		ok = whole.s != NULL;
	}
	s->n = 0;
	ok = ok && (b->byte_level ? start_bytes(b, s, word, n) : start_chars(b, v, s, word, n)) && merge_all(b, v, s, word);
	for (size_t i = 0; ok && i < s->n; i++) {
		const symbol *y = &s->symbols[i];
		if (y->len != 0)
			ok = y->id != NO_ID ? put_id(out, y->id) : put_unspelled(b, word + y->start, y->len, out);
	}
	return ok ? RP_OK : rp_no_memory(err, n * sizeof(symbol), "the symbols of a word");
}
