/* What ids decode to, computed once at load. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void decode_rules_free(decode_rules *r)
{
	for (size_t i = 0; i < r->n_replace; i++) {
		free(r->replace[i].from);
		free(r->replace[i].to);
	}
	*r = (decode_rules){ 0 };
}

/* Bytes that a spelling in the byte alphabet stands for; false (and nothing added) when a character is not of it. */
static bool add_alphabet(rp_buf *out, rp_str s)
{
	size_t had = out->len;
	for (size_t i = 0; i < s.n;) {
		utf8proc_int32_t cp = 0;
		utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)s.s + i, (utf8proc_ssize_t)(s.n - i), &cp);
		int byte = len > 0 ? byte_of_alphabet((uint32_t)cp) : -1;
		if (byte < 0) {
			out->len = had;
			return false;
		}
		rp_buf_addc(out, (char)byte);
		i += (size_t)len;
	}
	return true;
}

/* The byte of <0xNN>, or -1. */
static int byte_token(rp_str s)
{
	if (s.n != 6 || memcmp(s.s, "<0x", 3) != 0 || s.s[5] != '>')
		return -1;
	int high = hex_digit(s.s[3]), low = hex_digit(s.s[4]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void add_replaced(rp_buf *out, rp_str s, const replace_rule *r)
{
	for (size_t i = 0; i < s.n;)
		if (s.n - i >= r->from_len && memcmp(s.s + i, r->from, r->from_len) == 0) {
			rp_buf_add(out, r->to, r->to_len);
			i += r->from_len;
		} else {
			rp_buf_addc(out, s.s[i++]);
		}
}

static void decode_one(const decode_rules *rules, rp_str s, rp_buf *out, rp_buf tmp[2])
{
	if (rules->byte_level) {
		if (!add_alphabet(out, s))
			rp_buf_add(out, s.s, s.n);
		return;
	}
	for (size_t i = 0; i < rules->n_replace; i++) {
		rp_buf *to = &tmp[i % 2];
		rp_buf_clear(to);
		add_replaced(to, s, &rules->replace[i]);
		s = (rp_str){ to->data, to->len };
	}
	int byte = rules->byte_fallback ? byte_token(s) : -1;
	if (byte >= 0)
		rp_buf_addc(out, (char)byte);
	else
		rp_buf_add(out, s.s, s.n);
}

static bool put_decoded(rp_tokenizer *t, const decode_rules *rules, uint32_t id, rp_str spelling, rp_buf tmp[2])
{
	size_t had = t->decoded.len;
	decode_one(rules, spelling, &t->decoded, tmp);
	t->dec_off[id] = (uint32_t)had;
	t->dec_len[id] = (uint32_t)(t->decoded.len - had);
	return !t->decoded.failed && !tmp[0].failed && !tmp[1].failed;
}

rp_code decode_table(rp_tokenizer *t, const decode_rules *rules, rp_error *err)
{
	const vocab *v = &t->vocab;
	rp_buf tmp[2];
	rp_buf_init(&tmp[0], 0);
	rp_buf_init(&tmp[1], 0);
	rp_buf_init(&t->decoded, UINT32_MAX);
	t->dec_off = rp_alloc_array(v->n, sizeof *t->dec_off);
	t->dec_len = rp_alloc_array(v->n, sizeof *t->dec_len);
	bool ok = t->dec_off != NULL && t->dec_len != NULL && rp_buf_reserve(&t->decoded, v->bytes.len + 1);
	for (uint32_t id = 0; ok && id < v->n; id++)
		if (v->flags[id] & TOKEN_PRESENT)
			ok = put_decoded(t, rules, id, vocab_text(v, id), tmp);
	/* a token that is matched after normalization decodes to what it matched */
	for (uint32_t i = 0; ok && i < t->n_added; i++)
		if (t->added[i].off != v->off[t->added[i].id])
			ok = put_decoded(t, rules, t->added[i].id, (rp_str){ v->bytes.data + t->added[i].off, t->added[i].len }, tmp);
	rp_buf_free(&tmp[0]);
	rp_buf_free(&tmp[1]);
	return ok ? RP_OK : rp_no_memory(err, v->bytes.len, "the decoding table");
}
