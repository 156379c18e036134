/* Added tokens are found leftmost first, the longest of those that begin at one place. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void trie_init(trie *t)
{
	*t = (trie){ 0 };
	memset(t->root, 0xFF, sizeof t->root);
}

void trie_free(trie *t)
{
	free(t->nodes);
	trie_init(t);
}

/* Index of the child of the list *link for byte, made when absent; NO_ID when memory is short. */
static uint32_t child_for(trie *t, uint32_t head, unsigned char byte, uint32_t *made)
{
	for (uint32_t i = head; i != NO_ID; i = t->nodes[i].sibling)
		if (t->nodes[i].byte == byte)
			return i;
	if (t->n == t->cap) {
		uint32_t cap = t->cap != 0 ? t->cap * 2 : 256;
		trie_node *grown = rp_grow_array(t->nodes, cap, sizeof *grown);
		if (grown == NULL)
			return NO_ID;
		t->nodes = grown;
		t->cap = cap;
	}
	t->nodes[t->n] = (trie_node){ .child = NO_ID, .sibling = head, .token = NO_ID, .byte = byte };
	*made = t->n;
	return t->n++;
}

rp_code trie_put(trie *t, const char *s, size_t n, uint32_t token, rp_error *err)
{
	uint32_t at = NO_ID;
	for (size_t i = 0; i < n; i++) {
		unsigned char byte = (unsigned char)s[i];
		uint32_t made = NO_ID, head = i == 0 ? t->root[byte] : t->nodes[at].child;
		uint32_t child = child_for(t, head, byte, &made);
		if (child == NO_ID)
			return rp_no_memory(err, t->cap * sizeof *t->nodes, "the added tokens");
		if (made != NO_ID && i == 0)
			t->root[byte] = made;
		else if (made != NO_ID)
			t->nodes[at].child = made;
		at = child;
	}
	t->nodes[at].token = token;
	return RP_OK;
}

static bool inside(const open_span *spans, size_t n, size_t start, size_t end)
{
	size_t low = 0, high = n; /* the first span that ends at or after `end` */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (spans[mid].end < end)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && spans[low].start <= start;
}

static bool overlaps(const open_span *spans, size_t n, size_t start, size_t end)
{
	for (size_t i = 0; i < n && spans[i].start < end; i++)
		if (spans[i].end > start)
			return true;
	return false;
}

/* The longest token at `at`. One that is special and only partly in an open span would be made of a person's text and the
 * template's: it is not there. One wholly outside is found, and then not taken by trie_next. */
static uint32_t longest_at(const trie *t, const added_token *tokens, rp_str text, size_t at, const open_span *spans, size_t n_spans,
	size_t *end)
{
	uint32_t best = NO_ID;
	uint32_t node = t->root[(unsigned char)text.s[at]];
	for (size_t i = at + 1; node != NO_ID; i++) {
		uint32_t token = t->nodes[node].token;
		if (token != NO_ID && (!tokens[token].special || inside(spans, n_spans, at, i) || !overlaps(spans, n_spans, at, i))) {
			best = token;
			*end = i;
		}
		if (i == text.n)
			break;
		for (node = t->nodes[node].child; node != NO_ID && t->nodes[node].byte != (unsigned char)text.s[i];)
			node = t->nodes[node].sibling;
	}
	return best;
}

static uint32_t code_point_before(rp_str text, size_t at)
{
	utf8proc_int32_t cp = 0;
	size_t from = at;
	do
		from--;
	while (from > 0 && ((unsigned char)text.s[from] & 0xC0) == 0x80);
	utf8proc_iterate((const utf8proc_uint8_t *)text.s + from, (utf8proc_ssize_t)(at - from), &cp);
	return (uint32_t)cp;
}

static uint32_t code_point_at(rp_str text, size_t at, size_t *len)
{
	utf8proc_int32_t cp = 0;
	utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text.s + at, (utf8proc_ssize_t)(text.n - at), &cp);
	*len = n > 0 ? (size_t)n : 1;
	return (uint32_t)cp;
}

static bool part_of_word(rp_str text, size_t start, size_t end)
{
	size_t len;
	return (start > 0 && unicode_is_word(code_point_before(text, start))) ||
		(end < text.n && unicode_is_word(code_point_at(text, end, &len)));
}

static void strip(const added_token *a, rp_str text, size_t floor, added_match *m)
{
	size_t len;
	while (a->lstrip && m->start > floor && unicode_is_space(code_point_before(text, m->start)))
		do
			m->start--;
		while (m->start > floor && ((unsigned char)text.s[m->start] & 0xC0) == 0x80);
	while (a->rstrip && m->end < text.n && unicode_is_space(code_point_at(text, m->end, &len)))
		m->end += len;
}

added_match trie_next(const trie *t, const added_token *tokens, rp_str text, size_t resume, size_t floor, const open_span *spans,
	size_t n_spans)
{
	while (resume < text.n) {
		size_t start = resume, end = 0;
		uint32_t token = t->n == 0 ? NO_ID : longest_at(t, tokens, text, start, spans, n_spans, &end);
		if (token == NO_ID) {
			resume = t->n == 0 ? text.n : resume + 1;
			continue;
		}
		resume = end; /* a token that is found but not taken still covers its text */
		const added_token *a = &tokens[token];
		if ((a->special && !inside(spans, n_spans, start, end)) || (a->single_word && part_of_word(text, start, end)))
			continue;
		added_match m = { start, end, token, resume };
		strip(a, text, floor, &m);
		return m;
	}
	return (added_match){ text.n, text.n, NO_ID, text.n };
}
