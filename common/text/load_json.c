/* tokenizer.json of Hugging Face tokenizers. The model's vocabulary and merges, most of the file, are read value by value; the
 * rest is small and goes through cJSON. A field that is not known here is refused by name: nothing is left out silently. */
#include "internal.h"

#include "hash/hash.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

typedef struct raw_merge {
	uint32_t left, right, id;
} raw_merge;

enum { PART_ADDED, PART_NORMALIZER, PART_PRE, PART_POST, PART_DECODER, PART_VERSION, PART_TRUNCATION, PART_PADDING, PART_MODEL,
	N_PARTS };

static const char *const PARTS[N_PARTS] = { "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "version",
	"truncation", "padding", "model" };

typedef struct loader {
	rp_tokenizer *t;
	jscan j;
	rp_error *err;
	cJSON *parts[N_PARTS];
	bool seen[N_PARTS];
	rp_str merges_text; /* when they come before the vocabulary */
	rp_str unk;
	char unk_text[MAX_ADDED_LEN];
	bool has_vocab, has_merges;
} loader;

static bool is(rp_str s, const char *word)
{
	return s.n == strlen(word) && memcmp(s.s, word, s.n) == 0;
}

static rp_code read_vocab(loader *l)
{
	jscan *j = &l->j;
	vocab *v = &l->t->vocab;
	bool first = true, more = true;
	rp_code code = jscan_take(j, '{');
	while (code == RP_OK) {
		rp_str key;
		uint32_t id;
		code = jscan_more(j, '}', &first, &more);
		if (code != RP_OK || !more)
			break;
		code = jscan_key(j, &key);
		if (code == RP_OK)
			code = jscan_u32(j, &id);
		if (code == RP_OK)
			code = vocab_put(v, j->name, id, key.s, key.n, TOKEN_MODEL, l->err);
	}
	if (code == RP_OK)
		code = vocab_index(v, j->name, l->err);
	l->has_vocab = true;
	return code;
}

static rp_code merge_fail(loader *l, size_t rank, const char *what, rp_str s)
{
	char shown[80];
	return rp_fail(l->err, RP_FORMAT, "%s: merge %zu: %s \"%s\"", l->j.name, rank, what, rp_show(shown, sizeof shown, s.s, s.n));
}

static rp_code find_part(loader *l, size_t rank, rp_str s, uint32_t *id)
{
	*id = vocab_find(&l->t->vocab, s.s, s.n);
	return *id != NO_ID ? RP_OK : merge_fail(l, rank, "the vocabulary has no token", s);
}

/* One merge, "left right" or ["left", "right"]. */
static rp_code read_merge(loader *l, size_t rank, raw_merge *m, rp_buf *joined)
{
	jscan *j = &l->j;
	rp_str left, right;
	rp_code code;
	rp_buf_clear(joined);
	if (jscan_peek(j) == '"') {
		code = jscan_string(j, &left);
		if (code != RP_OK)
			return code;
		const char *space = memchr(left.s, ' ', left.n);
		size_t at = space != NULL ? (size_t)(space - left.s) : left.n;
		right = (rp_str){ left.s + at + (space != NULL), left.n - at - (space != NULL) };
		if (space == NULL || memchr(right.s, ' ', right.n) != NULL)
			return merge_fail(l, rank, "expected two tokens with one space between, found", left);
		left.n = at;
		code = find_part(l, rank, left, &m->left);
		rp_buf_add(joined, left.s, left.n);
	} else {
		code = jscan_take(j, '[');
		if (code == RP_OK)
			code = jscan_string(j, &left);
		if (code == RP_OK)
			code = find_part(l, rank, left, &m->left);
		if (code == RP_OK) {
			rp_buf_add(joined, left.s, left.n);
			code = jscan_take(j, ',');
		}
		if (code == RP_OK)
			code = jscan_string(j, &right);
		if (code == RP_OK)
			code = jscan_take(j, ']');
	}
	if (code == RP_OK)
		code = find_part(l, rank, right, &m->right);
	if (code == RP_OK) {
		rp_buf_add(joined, right.s, right.n);
		code = joined->failed ? rp_no_memory(l->err, joined->len, "a merge")
		                      : find_part(l, rank, (rp_str){ joined->data, joined->len }, &m->id);
	}
	return code;
}

static rp_code read_merges(loader *l)
{
	bool first = true, more = true;
	raw_merge *list = NULL;
	size_t n = 0, cap = 0;
	rp_buf joined;
	rp_buf_init(&joined, 0);
	rp_buf_reserve(&joined, 64);
	rp_code code = jscan_take(&l->j, '[');
	while (code == RP_OK) {
		code = jscan_more(&l->j, ']', &first, &more);
		if (code != RP_OK || !more)
			break;
		if (n == cap) {
			cap = cap != 0 ? cap * 2 : 4096;
			raw_merge *grown = rp_grow_array(list, cap, sizeof *grown);
			if (grown == NULL) {
				code = rp_no_memory(l->err, cap * sizeof *grown, "the merges");
				break;
			}
			list = grown;
		}
		code = read_merge(l, n, &list[n], &joined);
		n += code == RP_OK;
	}
	if (code == RP_OK)
		code = bpe_reserve(&l->t->bpe, n, l->err);
	for (size_t i = 0; code == RP_OK && i < n; i++)
		bpe_put(&l->t->bpe, l->t->vocab.seed, list[i].left, list[i].right, (uint32_t)i, list[i].id);
	rp_buf_free(&joined);
	free(list);
	l->has_merges = true;
	return code;
}

static rp_code model_fail(loader *l, const char *field, rp_str value, const char *want)
{
	char shown[80];
	return rp_fail(l->err, RP_UNSUPPORTED, "%s: model.%s is %s; this build has %s", l->j.name, field,
		rp_show(shown, sizeof shown, value.s, value.n), want);
}

/* A field of the model that is one value: flags and the unknown token, or one that must be off. */
static rp_code read_setting(loader *l, rp_str key, rp_str value)
{
	bpe *b = &l->t->bpe;
	static const struct {
		const char *name;
		size_t at;
	} flags[] = { { "fuse_unk", offsetof(bpe, fuse_unk) }, { "byte_fallback", offsetof(bpe, byte_fallback) },
		{ "ignore_merges", offsetof(bpe, ignore_merges) } };
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (is(key, flags[i].name)) {
			if (!is(value, "true") && !is(value, "false") && !is(value, "null"))
				return rp_fail(l->err, RP_FORMAT, "%s: model.%s is neither true nor false", l->j.name, flags[i].name);
			*(bool *)(void *)((char *)b + flags[i].at) = is(value, "true");
			return RP_OK;
		}
	if (is(key, "type"))
		return is(value, "\"BPE\"") ? RP_OK : model_fail(l, "type", value, "\"BPE\" only");
	if (is(key, "dropout"))
		return is(value, "null") || is(value, "0") || is(value, "0.0") ? RP_OK : model_fail(l, "dropout", value, "none");
	if (is(key, "continuing_subword_prefix"))
		return is(value, "null") || is(value, "\"\"") ? RP_OK : model_fail(l, "continuing_subword_prefix", value, "none");
	if (is(key, "end_of_word_suffix"))
		return is(value, "null") || is(value, "\"\"") ? RP_OK : model_fail(l, "end_of_word_suffix", value, "none");
	char shown[80];
	return rp_fail(l->err, RP_UNSUPPORTED, "%s: field model.%s is not known to this build", l->j.name,
		rp_show(shown, sizeof shown, key.s, key.n));
}

static rp_code read_unk(loader *l)
{
	rp_str s;
	if (jscan_peek(&l->j) != '"')
		return jscan_skip(&l->j, &s); /* null */
	rp_code code = jscan_string(&l->j, &s);
	if (code != RP_OK)
		return code;
	if (s.n > sizeof l->unk_text)
		return rp_fail(l->err, RP_FORMAT, "%s: model.unk_token is %zu bytes long", l->j.name, s.n);
	memcpy(l->unk_text, s.s, s.n);
	l->unk = (rp_str){ l->unk_text, s.n };
	return RP_OK;
}

static rp_code read_model(loader *l)
{
	static const char *const fields[] = { "type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
		"byte_fallback", "ignore_merges", "vocab", "merges" };
	bool seen[sizeof fields / sizeof *fields] = { 0 }, first = true, more = true;
	jscan *j = &l->j;
	rp_code code = jscan_take(j, '{');
	while (code == RP_OK) {
		rp_str key, value;
		char name[32];
		code = jscan_more(j, '}', &first, &more);
		if (code != RP_OK || !more)
			break;
		code = jscan_key(j, &key);
		if (code != RP_OK)
			break;
		for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
			if (is(key, fields[i])) {
				if (seen[i])
					return jscan_fail(j, "a field of the model is there twice");
				seen[i] = true;
			}
		size_t n = key.n < sizeof name ? key.n : sizeof name;
		memcpy(name, key.s, n);
		key = (rp_str){ name, n };
		if (is(key, "vocab")) {
			code = read_vocab(l);
		} else if (is(key, "merges") && l->has_vocab) {
			code = read_merges(l);
		} else if (is(key, "merges")) {
			code = jscan_skip(j, &l->merges_text);
		} else if (is(key, "unk_token")) {
			code = read_unk(l);
		} else {
			code = jscan_skip(j, &value);
			if (code == RP_OK)
				code = read_setting(l, key, value);
		}
	}
	if (code == RP_OK && !l->has_vocab)
		return rp_fail(l->err, RP_FORMAT, "%s: model.vocab is missing", j->name);
	if (code == RP_OK && l->merges_text.s != NULL) {
		size_t at = j->at;
		j->at = (size_t)(l->merges_text.s - j->s);
		code = read_merges(l);
		j->at = at;
	}
	if (code == RP_OK && !l->has_merges)
		return rp_fail(l->err, RP_UNSUPPORTED, "%s: model.merges is missing: only BPE models with merges are read", j->name);
	return code;
}

static rp_code read_part(loader *l, rp_str key)
{
	char shown[80];
	size_t i = 0;
	while (i < N_PARTS && !is(key, PARTS[i]))
		i++;
	if (i == N_PARTS)
		return rp_fail(l->err, RP_UNSUPPORTED,
			"%s: field \"%s\" is not known to this build; a tokenizer.json of Hugging Face tokenizers is expected", l->j.name,
			 rp_show(shown, sizeof shown, key.s, key.n));
	if (l->seen[i])
		return rp_fail(l->err, RP_FORMAT, "%s: field \"%s\" is there twice", l->j.name, PARTS[i]);
	l->seen[i] = true;
	if (i == PART_MODEL)
		return read_model(l);
	rp_str text;
	rp_code code = jscan_skip(&l->j, &text);
	if (code != RP_OK)
		return code;
	char *where = rp_asprintf("%s, %s", l->j.name, PARTS[i]);
	code = where != NULL ? rp_json_parse(where, text.s, text.n, &l->parts[i], l->err) : rp_no_memory(l->err, 64, "a message");
	free(where);
	return code;
}

static rp_code read_all(loader *l)
{
	bool first = true, more = true;
	rp_code code = jscan_take(&l->j, '{');
	while (code == RP_OK) {
		rp_str key;
		code = jscan_more(&l->j, '}', &first, &more);
		if (code != RP_OK || !more)
			break;
		code = jscan_key(&l->j, &key);
		if (code == RP_OK)
			code = read_part(l, key);
	}
	if (code == RP_OK && jscan_peek(&l->j) != '\0')
		return jscan_fail(&l->j, "bytes behind the end");
	if (code == RP_OK && l->j.at < l->j.n)
		return jscan_fail(&l->j, "a NUL byte");
	if (code == RP_OK && !l->seen[PART_MODEL])
		return rp_fail(l->err, RP_FORMAT, "%s: field \"model\" is missing", l->j.name);
	return code;
}

static rp_code must_be_off(loader *l, int part)
{
	if (l->parts[part] == NULL || cJSON_IsNull(l->parts[part]))
		return RP_OK;
	return rp_fail(l->err, RP_UNSUPPORTED, "%s: %s is set; this build neither cuts nor fills texts", l->j.name, PARTS[part]);
}

static rp_code find_unk(loader *l)
{
	bpe *b = &l->t->bpe;
	if (l->unk.s == NULL)
		return RP_OK;
	b->unk = vocab_find(&l->t->vocab, l->unk.s, l->unk.n);
	char shown[80];
	if (b->unk == NO_ID)
		return rp_fail(l->err, RP_FORMAT, "%s: model.unk_token \"%s\" is not in the vocabulary", l->j.name,
			rp_show(shown, sizeof shown, l->unk.s, l->unk.n));
	return RP_OK;
}

static rp_code build(loader *l)
{
	const char *name = l->j.name;
	decode_rules rules = { 0 };
	rp_code code = must_be_off(l, PART_TRUNCATION);
	if (code == RP_OK)
		code = must_be_off(l, PART_PADDING);
	if (code == RP_OK)
		code = find_unk(l);
	if (code == RP_OK)
		code = load_normalizer(l->t, name, l->parts[PART_NORMALIZER], l->err);
	if (code == RP_OK)
		code = load_pre_tokenizer(l->t, name, l->parts[PART_PRE], l->err);
	if (code == RP_OK)
		code = load_added(l->t, name, l->parts[PART_ADDED], l->err);
	if (code == RP_OK)
		code = load_post_processor(l->t, name, l->parts[PART_POST], l->err);
	if (code == RP_OK)
		code = load_decoder(l->t, name, l->parts[PART_DECODER], &rules, l->err);
	if (code == RP_OK)
		code = tokenizer_finish(l->t, name, &rules, l->err);
	decode_rules_free(&rules);
	return code;
}

rp_code rp_tokenizer_from_json(const char *name, const char *text, size_t n, rp_tokenizer **out, rp_error *err)
{
	if (n > MAX_JSON)
		return rp_fail(err, RP_FORMAT, "%s: %zu bytes; at most %d are accepted", name, n, MAX_JSON);
	loader *l = rp_alloc(sizeof *l);
	if (l == NULL)
		return rp_no_memory(err, sizeof *l, "a tokenizer");
	l->j = (jscan){ .name = name, .s = text, .n = n, .err = err };
	l->err = err;
	rp_buf_init(&l->j.text, 0);
	rp_code code = tokenizer_new(&l->t, err);
	if (code == RP_OK)
		code = read_all(l);
	if (code == RP_OK)
		code = build(l);
	if (code == RP_OK) {
		unsigned char hash[RP_HASH_BYTES];
		rp_sha256_once(text, n, hash);
		memcpy(l->t->digest, "sha256:", 8);
		rp_hex(l->t->digest + 7, hash, sizeof hash);
		*out = l->t;
		l->t = NULL;
	}
	rp_tokenizer_free(l->t);
	for (size_t i = 0; i < N_PARTS; i++)
		cJSON_Delete(l->parts[i]);
	rp_buf_free(&l->j.text);
	free(l);
	return code;
}
