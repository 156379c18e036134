/* The tokenizer as a whole: encoding, and the small questions about tokens. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_code tokenizer_new(rp_tokenizer **out, rp_error *err)
{
	rp_tokenizer *t = rp_alloc(sizeof *t);
	if (t == NULL)
		return rp_no_memory(err, sizeof *t, "a tokenizer");
	trie_init(&t->raw);
	trie_init(&t->normalized);
	t->bos = t->bpe.unk = NO_ID;
	memset(t->bpe.byte_char, 0xFF, sizeof t->bpe.byte_char);
	rp_code code = vocab_init(&t->vocab, err);
	if (code != RP_OK) {
		free(t);
		return code;
	}
	*out = t;
	return RP_OK;
}

void rp_tokenizer_free(rp_tokenizer *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n_norm; i++) {
		matcher_free(&t->norm[i].match);
		free(t->norm[i].text);
	}
	for (size_t i = 0; i < t->n_pre; i++)
		matcher_free(&t->pre[i].match);
	vocab_free(&t->vocab);
	bpe_free(&t->bpe);
	trie_free(&t->raw);
	trie_free(&t->normalized);
	free(t->added);
	rp_buf_free(&t->decoded);
	free(t->dec_off);
	free(t->dec_len);
	free(t);
}

rp_code tokenizer_reserve_added(rp_tokenizer *t, size_t n, rp_error *err)
{
	t->added = rp_alloc_array(n, sizeof *t->added);
	return t->added != NULL ? RP_OK : rp_no_memory(err, n * sizeof *t->added, "the added tokens");
}

rp_code tokenizer_add_special(rp_tokenizer *t, const char *name, added_token a, rp_str content, bool is_normalized, rp_error *err)
{
	char shown[80];
	if (content.n == 0 || content.n > MAX_ADDED_LEN)
		return rp_fail(err, RP_FORMAT, "%s: added token %u is %zu bytes long; 1 to %d are accepted", name, a.id, content.n,
			MAX_ADDED_LEN);
	uint32_t had = vocab_find(&t->vocab, content.s, content.n);
	if (had != NO_ID && had != a.id)
		return rp_fail(err, RP_FORMAT, "%s: added token \"%s\" has id %u but the vocabulary lists it as %u", name,
			rp_show(shown, sizeof shown, content.s, content.n), a.id, had);
	unsigned flags = TOKEN_ADDED | (a.special ? TOKEN_SPECIAL : 0u);
	rp_code code = RP_OK;
	if (had == NO_ID)
		code = vocab_put(&t->vocab, name, a.id, content.s, content.n, flags, err);
	else
		t->vocab.flags[had] = (unsigned char)(t->vocab.flags[had] | flags);
	if (code != RP_OK)
		return code;
	rp_buf bufs[2];
	rp_buf_init(&bufs[0], NORM_ROOM(content.n));
	rp_buf_init(&bufs[1], NORM_ROOM(content.n));
	match_state ms = { 0 };
	rp_str pattern = content;
	if (is_normalized && t->n_norm != 0) {
		code = match_state_init(&ms, err);
		if (code == RP_OK)
			code = normalize(t->norm, t->n_norm, &ms, content, bufs, &pattern, err);
	}
	if (code == RP_OK && pattern.n != 0)
		code = trie_put(is_normalized ? &t->normalized : &t->raw, pattern.s, pattern.n, t->n_added, err);
	if (code == RP_OK) {
		a.off = t->vocab.off[a.id];
		a.len = t->vocab.len[a.id];
		if (pattern.s != content.s) {
			a.off = (uint32_t)t->vocab.bytes.len;
			a.len = (uint32_t)pattern.n;
			code = rp_buf_add(&t->vocab.bytes, pattern.s, pattern.n) ? RP_OK : rp_no_memory(err, pattern.n, "an added token");
		}
		t->added[t->n_added++] = a;
	}
	match_state_free(&ms);
	rp_buf_free(&bufs[0]);
	rp_buf_free(&bufs[1]);
	return code;
}

/* Ids of <0x00>..<0xFF>, or of the characters that stand for bytes. */
static void find_byte_tokens(rp_tokenizer *t)
{
	for (unsigned b = 0; b < 256; b++) {
		char s[8];
		uint32_t cp = alphabet_of_byte((unsigned char)b);
		if (!t->bpe.byte_level)
			snprintf(s, sizeof s, "<0x%02X>", b);
		else if (cp < 0x80)
			snprintf(s, sizeof s, "%c", (int)cp);
		else
			snprintf(s, sizeof s, "%c%c", (int)(0xC0 | cp >> 6), (int)(0x80 | (cp & 0x3F)));
		t->bpe.byte_char[b] = vocab_find(&t->vocab, s, strlen(s));
	}
}

rp_code tokenizer_finish(rp_tokenizer *t, const char *name, const decode_rules *rules, rp_error *err)
{
	if (t->vocab.count == 0)
		return rp_fail(err, RP_FORMAT, "%s: the vocabulary is empty", name);
	find_byte_tokens(t);
	return decode_table(t, rules, err);
}

/* ---- encoding ---- */
typedef struct encoding {
	const rp_tokenizer *t;
	match_state ms;
	scratch scratch;
	rp_buf ids, norm[2];
} encoding;

static rp_code encode_piece(void *user, rp_str piece, rp_error *err)
{
	encoding *e = user;
	return bpe_word(&e->t->bpe, &e->t->vocab, &e->scratch, piece.s, piece.n, &e->ids, err);
}

static rp_code encode_plain(encoding *e, rp_str text, bool at_start, rp_error *err)
{
	return pretokenize(e->t->pre, e->t->n_pre, &e->ms, text, at_start, encode_piece, e, err);
}

static rp_code put_added(encoding *e, const added_match *m, rp_error *err)
{
	return rp_buf_add(&e->ids, &e->t->added[m->token].id, sizeof(uint32_t)) ? RP_OK : rp_no_memory(err, e->ids.len, "the ids");
}

/* Text between added tokens: normalized, then searched for the tokens that are matched after normalization. */
static rp_code encode_between(encoding *e, rp_str text, bool at_start, bool special, rp_error *err)
{
	rp_str n;
	rp_code code = normalize(e->t->norm, e->t->n_norm, &e->ms, text, e->norm, &n, err);
	open_span all = { 0, n.n };
	for (size_t at = 0, resume = 0; code == RP_OK && at < n.n;) {
		added_match m = trie_next(&e->t->normalized, e->t->added, n, resume, at, &all, special ? 1 : 0);
		if (m.start > at)
			code = encode_plain(e, (rp_str){ n.s + at, m.start - at }, at_start && at == 0, err);
		if (code == RP_OK && m.token != NO_ID)
			code = put_added(e, &m, err);
		at = m.end > at ? m.end : at;
		resume = m.resume;
	}
	return code;
}

/* True when some of text[from..to) may hold special tokens that are matched after normalization. Where a stretch mixes a
 * template's text and a person's, it may not: nothing of the latter can then pass for a special token. */
static bool wholly_open(const open_span *spans, size_t n, size_t from, size_t to)
{
	for (size_t i = 0; i < n; i++)
		if (spans[i].start <= from && to <= spans[i].end)
			return true;
	return false;
}

static rp_code encode_text(encoding *e, rp_str text, const open_span *spans, size_t n_spans, rp_error *err)
{
	rp_code code = RP_OK;
	for (size_t at = 0, resume = 0; code == RP_OK && at < text.n;) {
		added_match m = trie_next(&e->t->raw, e->t->added, text, resume, at, spans, n_spans);
		if (m.start > at)
			code = encode_between(e, (rp_str){ text.s + at, m.start - at }, at == 0, wholly_open(spans, n_spans, at, m.start), err);
		if (code == RP_OK && m.token != NO_ID)
			code = put_added(e, &m, err);
		at = m.end > at ? m.end : at;
		resume = m.resume;
	}
	return code;
}

static rp_code check_text(const char *text, size_t n, rp_error *err)
{
	if (n > MAX_TEXT)
		return rp_fail(err, RP_PROMPT, "the text is %zu bytes long; at most %d are accepted", n, MAX_TEXT);
	size_t valid = rp_utf8_valid(text, n);
	if (valid != n)
		return rp_fail(err, RP_PROMPT,
			"the text is not UTF-8: byte %zu (0x%02x) does not belong there; convert it first (iconv -t UTF-8)", valid,
			 (unsigned)(unsigned char)text[valid]);
	return RP_OK;
}

/* The prefix goes first unless the text's own ids begin with it. */
static rp_code put_prefix(encoding *e, rp_error *err)
{
	const rp_tokenizer *t = e->t;
	size_t n = t->n_prefix * sizeof *t->prefix;
	if (n == 0 || (e->ids.len >= n && memcmp(e->ids.data, t->prefix, n) == 0))
		return RP_OK;
	size_t had = e->ids.len;
	if (!rp_buf_add(&e->ids, t->prefix, n))
		return rp_no_memory(err, n, "the ids");
	memmove(e->ids.data + n, e->ids.data, had);
	memcpy(e->ids.data, t->prefix, n);
	return RP_OK;
}

static rp_code encode(const rp_tokenizer *t, rp_str text, const open_span *spans, size_t n_spans, bool prefix, rp_ids *out,
	rp_error *err)
{
	encoding e = { .t = t };
	rp_buf_init(&e.ids, 0);
	rp_buf_init(&e.norm[0], NORM_ROOM(text.n));
	rp_buf_init(&e.norm[1], NORM_ROOM(text.n));
	rp_buf_init(&e.scratch.word, 0);
	rp_code code = check_text(text.s, text.n, err);
	if (code == RP_OK)
		code = match_state_init(&e.ms, err);
	if (code == RP_OK && !rp_buf_reserve(&e.ids, sizeof(uint32_t)))
		code = rp_no_memory(err, sizeof(uint32_t), "the ids");
	if (code == RP_OK)
		code = encode_text(&e, text, spans, n_spans, err);
	if (code == RP_OK && prefix)
		code = put_prefix(&e, err);
	if (code == RP_OK) {
		out->n = e.ids.len / sizeof(uint32_t);
		out->v = (uint32_t *)(void *)rp_buf_take(&e.ids, NULL);
	}
	match_state_free(&e.ms);
	scratch_free(&e.scratch);
	rp_buf_free(&e.norm[0]);
	rp_buf_free(&e.norm[1]);
	rp_buf_free(&e.ids);
	return code;
}

rp_code rp_encode(const rp_tokenizer *t, const char *text, size_t n, unsigned flags, rp_ids *out, rp_error *err)
{
	open_span all = { 0, n };
	return encode(t, (rp_str){ text, n }, &all, flags & RP_ENCODE_SPECIAL ? 1 : 0, flags & RP_ENCODE_BOS, out, err);
}

rp_code rp_prompt_encode(const rp_tokenizer *t, const rp_prompt *p, rp_ids *out, rp_error *err)
{
	rp_buf text;
	rp_buf_init(&text, MAX_TEXT);
	size_t n_spans = 0;
	open_span *spans = rp_alloc_array(p->n + 1, sizeof *spans);
	if (spans == NULL)
		return rp_no_memory(err, p->n, "the prompt");
	for (size_t i = 0; i < p->n; i++) {
		const rp_prompt_piece *piece = &p->pieces[i];
		size_t from = text.len;
		rp_buf_add(&text, piece->text.s, piece->text.n);
		if (!piece->special || text.len == from)
			continue;
		if (n_spans > 0 && spans[n_spans - 1].end == from)
			spans[n_spans - 1].end = text.len;
		else
			spans[n_spans++] = (open_span){ from, text.len };
	}
	rp_code code = text.failed ? rp_fail(err, RP_PROMPT, "the prompt is longer than %d bytes", MAX_TEXT)
	                           : encode(t, (rp_str){ text.len != 0 ? text.data : "", text.len }, spans, n_spans, p->bos, out, err);
	rp_buf_free(&text);
	free(spans);
	return code;
}

/* ---- questions about tokens ---- */
uint32_t rp_tokenizer_vocab(const rp_tokenizer *t)
{
	return t->vocab.n;
}

const char *rp_tokenizer_digest(const rp_tokenizer *t)
{
	return t->digest;
}

bool rp_token_id(const rp_tokenizer *t, const char *spelling, uint32_t *id)
{
	size_t n = strlen(spelling);
	uint32_t found = vocab_find(&t->vocab, spelling, n);
	for (uint32_t i = 0; found == NO_ID && i < t->n_added; i++) {
		rp_str s = vocab_text(&t->vocab, t->added[i].id);
		if (s.n == n && memcmp(s.s, spelling, n) == 0)
			found = t->added[i].id;
	}
	if (found == NO_ID)
		return false;
	*id = found;
	return true;
}

bool rp_token_is_special(const rp_tokenizer *t, uint32_t id)
{
	return id < t->vocab.n && (t->vocab.flags[id] & TOKEN_SPECIAL) != 0;
}

bool rp_token_bos(const rp_tokenizer *t, uint32_t *id)
{
	if (t->bos == NO_ID)
		return false;
	*id = t->bos;
	return true;
}

rp_str rp_token_bytes(const rp_tokenizer *t, uint32_t id)
{
	if (id >= t->vocab.n || !(t->vocab.flags[id] & TOKEN_PRESENT))
		return (rp_str){ "", 0 };
	return (rp_str){ t->decoded.data + t->dec_off[id], t->dec_len[id] };
}
