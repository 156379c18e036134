/* A tokenizer from GGUF metadata. What the file only names (`tokenizer.ggml.pre`) is spelled out here as the same steps that
 * the tokenizer.json of those families has. */
#include "internal.h"

#include "hash/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_TAIL "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

enum { MAX_PRE = 4 };

typedef struct pre_rule {
	const char *names; /* "|a|b|" */
	bool digits;                   /* first, every digit alone */
	const char *patterns[MAX_PRE]; /* each isolates what it matches in the pieces the one before left; NULL: GPT-2's */
	unsigned n;
	bool nfc, ignore_merges, bos;
} pre_rule;

static const pre_rule PRE_RULES[] = {
	{ "|gpt-2|gpt2|phi-2|olmo|", false, { NULL }, 1, false, false, false },
	{ "|smollm|starcoder|refact|", true, { NULL }, 1, false, false, false },
	{ "|qwen2|deepseek-r1-qwen|", false,
		{ CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_TAIL }, 1, true, false, false },
	{ "|qwen35|", false,
		{ CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACE_TAIL }, 1, true, false,
		false },
	{ "|llama-bpe|llama3|llama-v3|", false,
		{ CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACE_TAIL }, 1, false, true, true },
	{ "|gpt-4o|", false,
		{ "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS
			"?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE_TAIL },
		1, false, true, false },
	{ "|default|", false, { "[\\p{P}\\$\\+<=>\\^~\\|]+", NULL, "\\p{N}+", "[0-9][0-9][0-9]" }, 4, false, false, false },
};

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

typedef struct gguf_load {
	const rp_model *m;
	rp_tokenizer *t;
	const rp_str *tokens;
	uint64_t n_tokens;
	unsigned char *types;
	decode_rules rules;
	bool bos; /* the default of the form */
	rp_error *err;
} gguf_load;

static bool is(rp_str s, const char *word)
{
	return s.n == strlen(word) && memcmp(s.s, word, s.n) == 0;
}

/* Absent keys are no failure: *found says. */
static rp_code maybe(rp_code code, bool *found)
{
	*found = code == RP_OK;
	return code == RP_NOT_FOUND ? RP_OK : code;
}

static rp_code flag(const gguf_load *l, const char *key, bool missing, bool *out)
{
	bool found;
	*out = missing;
	return maybe(rp_kv_bool(l->m, key, out, l->err), &found);
}

static rp_code read_types(gguf_load *l)
{
	static const char key[] = "tokenizer.ggml.token_type";
	rp_kv_type elem;
	uint64_t n;
	bool found;
	rp_code code = maybe(rp_kv_array(l->m, key, &elem, &n, l->err), &found);
	if (code != RP_OK)
		return code;
	if (found && n != l->n_tokens)
		return rp_fail(l->err, RP_FORMAT, "%s: %s has %llu entries for %llu tokens", rp_model_path(l->m), key, (unsigned long long)n,
			(unsigned long long)l->n_tokens);
	l->types = rp_alloc(l->n_tokens);
	if (l->types == NULL)
		return rp_no_memory(l->err, l->n_tokens, "token types");
	for (uint64_t i = 0; i < l->n_tokens; i++) {
		int64_t type = TYPE_NORMAL;
		code = found ? rp_kv_array_i64(l->m, key, i, &type, l->err) : RP_OK;
		if (code == RP_OK && (type < TYPE_NORMAL || type > TYPE_BYTE))
			code = rp_fail(l->err, RP_FORMAT, "%s: %s: token %llu has type %lld; 1 to 6 are known", rp_model_path(l->m), key,
				(unsigned long long)i, (long long)type);
		if (code != RP_OK)
			return code;
		l->types[i] = (unsigned char)type;
	}
	return RP_OK;
}

static bool is_special(unsigned char type)
{
	return type == TYPE_CONTROL || type == TYPE_UNKNOWN;
}

static bool is_added(unsigned char type)
{
	return is_special(type) || type == TYPE_USER;
}

static rp_code read_tokens(gguf_load *l)
{
	const char *name = rp_model_path(l->m);
	vocab *v = &l->t->vocab;
	size_t n_added = 0;
	rp_code code = rp_kv_array_str(l->m, "tokenizer.ggml.tokens", &l->tokens, &l->n_tokens, l->err);
	if (code == RP_NOT_FOUND)
		return rp_fail(l->err, RP_FORMAT, "%s: key 'tokenizer.ggml.tokens' is missing", name);
	if (code == RP_OK && l->n_tokens > MAX_VOCAB)
		return rp_fail(l->err, RP_FORMAT, "%s: %llu tokens; at most %d are accepted", name, (unsigned long long)l->n_tokens, MAX_VOCAB);
	if (code == RP_OK)
		code = read_types(l);
	for (uint64_t i = 0; code == RP_OK && i < l->n_tokens; i++) {
		rp_str s = l->tokens[i];
		bool model = l->types[i] == TYPE_NORMAL || l->types[i] == TYPE_USER || l->types[i] == TYPE_BYTE;
		n_added += is_added(l->types[i]);
		if (rp_utf8_valid(s.s, s.n) != s.n)
			code = rp_fail(l->err, RP_FORMAT, "%s: token %llu is not UTF-8", name, (unsigned long long)i);
		else if (!is_special(l->types[i]))
			code = vocab_put(v, name, (uint32_t)i, s.s, s.n, model ? TOKEN_MODEL : 0, l->err);
	}
	if (code == RP_OK)
		code = vocab_index(v, name, l->err);
	return code == RP_OK ? tokenizer_reserve_added(l->t, n_added, l->err) : code;
}

static rp_code read_added(gguf_load *l)
{
	rp_code code = RP_OK;
	for (uint32_t i = 0; code == RP_OK && i < l->n_tokens; i++)
		if (is_added(l->types[i]) && l->tokens[i].n != 0)
			code = tokenizer_add_special(l->t, rp_model_path(l->m), (added_token){ .id = i, .special = is_special(l->types[i]) },
				l->tokens[i], false, l->err);
	return code;
}

static rp_code merge_fail(const gguf_load *l, uint64_t i, const char *what)
{
	const rp_str *merges;
	uint64_t n;
	char shown[80];
	rp_code code = rp_kv_array_str(l->m, "tokenizer.ggml.merges", &merges, &n, l->err);
	return code != RP_OK ? code
	                     : rp_fail(l->err, RP_FORMAT, "%s: merge %llu \"%s\": %s", rp_model_path(l->m), (unsigned long long)i,
	                               rp_show(shown, sizeof shown, merges[i].s, merges[i].n), what);
}

/* "left right"; a token may itself begin with a space (none does in files seen), so the space is looked for from byte 1. */
static rp_code read_merge(gguf_load *l, uint64_t i, rp_str s, rp_buf *joined)
{
	const vocab *v = &l->t->vocab;
	const char *space = s.n > 2 ? memchr(s.s + 1, ' ', s.n - 2) : NULL;
	if (space == NULL)
		return merge_fail(l, i, "expected two tokens with a space between");
	size_t at = (size_t)(space - s.s);
	uint32_t left = vocab_find(v, s.s, at), right = vocab_find(v, space + 1, s.n - at - 1);
	rp_buf_clear(joined);
	rp_buf_add(joined, s.s, at);
	rp_buf_add(joined, space + 1, s.n - at - 1);
	if (joined->failed)
		return rp_no_memory(l->err, s.n, "a merge");
	uint32_t id = vocab_find(v, joined->data, joined->len);
	if (left == NO_ID || right == NO_ID || id == NO_ID)
		return merge_fail(l, i, "a token of it is not in the vocabulary");
	bpe_put(&l->t->bpe, v->seed, left, right, (uint32_t)i, id);
	return RP_OK;
}

static rp_code read_merges(gguf_load *l)
{
	const rp_str *merges;
	uint64_t n;
	rp_buf joined;
	rp_code code = rp_kv_array_str(l->m, "tokenizer.ggml.merges", &merges, &n, l->err);
	if (code == RP_NOT_FOUND)
		return rp_fail(l->err, RP_FORMAT, "%s: key 'tokenizer.ggml.merges' is missing", rp_model_path(l->m));
	if (code == RP_OK && n > UINT32_MAX / 4)
		return rp_fail(l->err, RP_FORMAT, "%s: %llu merges", rp_model_path(l->m), (unsigned long long)n);
	if (code == RP_OK)
		code = bpe_reserve(&l->t->bpe, n, l->err);
	rp_buf_init(&joined, 0);
	for (uint64_t i = 0; code == RP_OK && i < n; i++)
		code = read_merge(l, i, merges[i], &joined);
	rp_buf_free(&joined);
	return code;
}

/* ---- model "gpt2": byte-level BPE, the pre-tokenizer by name ---- */
static rp_code find_rule(const gguf_load *l, const pre_rule **out)
{
	rp_str pre = { "", 0 };
	char wanted[64], shown[80];
	bool found;
	rp_code code = maybe(rp_kv_str(l->m, "tokenizer.ggml.pre", &pre, l->err), &found);
	if (code != RP_OK)
		return code;
	if (!found)
		return rp_fail(l->err, RP_UNSUPPORTED,
			"%s: key 'tokenizer.ggml.pre' is missing, so how it splits text is not known; convert the model anew", rp_model_path(l->m));
	if (pre.n < sizeof wanted - 3 && memchr(pre.s, '|', pre.n) == NULL && memchr(pre.s, '\0', pre.n) == NULL) {
		wanted[0] = '|';
		memcpy(wanted + 1, pre.s, pre.n);
		memcpy(wanted + 1 + pre.n, "|", 2);
		for (size_t i = 0; pre.n > 0 && i < sizeof PRE_RULES / sizeof *PRE_RULES; i++)
			if (strstr(PRE_RULES[i].names, wanted) != NULL) {
				*out = &PRE_RULES[i];
				return RP_OK;
			}
	}
	return rp_fail(l->err, RP_UNSUPPORTED, "%s: tokenizer.ggml.pre is \"%s\", a pre-tokenizer this build does not have",
		rp_model_path(l->m), rp_show(shown, sizeof shown, pre.s, pre.n));
}

static rp_code form_gpt2(gguf_load *l)
{
	rp_tokenizer *t = l->t;
	const char *name = rp_model_path(l->m);
	const pre_rule *rule = NULL;
	bool prefix;
	rp_code code = find_rule(l, &rule);
	if (code == RP_OK)
		code = flag(l, "tokenizer.ggml.add_space_prefix", false, &prefix);
	if (code == RP_OK && prefix)
		return rp_fail(l->err, RP_UNSUPPORTED, "%s: tokenizer.ggml.add_space_prefix with byte-level BPE", name);
	if (code == RP_OK && rule->nfc)
		code = add_norm(t, name, NORM_NFC, (rp_str){ "", 0 }, NULL, l->err);
	if (code == RP_OK && rule->digits)
		code = add_split(t, name, DIGITS_PATTERN, strlen(DIGITS_PATTERN), true, SPLIT_ISOLATED, false, l->err);
	for (unsigned i = 0; code == RP_OK && i < rule->n; i++) {
		const char *pattern = rule->patterns[i] != NULL ? rule->patterns[i] : GPT2_PATTERN;
		code = add_split(t, name, pattern, strlen(pattern), true, SPLIT_ISOLATED, false, l->err);
	}
	if (code != RP_OK)
		return code;
	t->bpe.byte_level = l->rules.byte_level = true;
	t->bpe.ignore_merges = rule->ignore_merges;
	l->bos = rule->bos;
	return read_merges(l);
}

/* ---- models "gemma4" and "llama": characters, spaces spelled U+2581, bytes where a character is missing ---- */
static rp_code spell_spaces(gguf_load *l)
{
	const char *name = rp_model_path(l->m);
	norm_step *step;
	rp_str mark = { METASPACE, 3 }, space = { " ", 1 };
	rp_code code = add_norm(l->t, name, NORM_REPLACE, mark, &step, l->err);
	if (code == RP_OK)
		code = matcher_literal(&step->match, name, " ", 1, l->err);
	l->t->bpe.byte_fallback = l->t->bpe.fuse_unk = l->rules.byte_fallback = true;
	l->bos = true;
	return code == RP_OK ? add_replace_rule(&l->rules, name, mark, space, l->err) : code;
}

static rp_code form_gemma4(gguf_load *l)
{
	rp_code code = spell_spaces(l);
	/* runs of newlines are tokens of their own, never merged with what stands beside them */
	if (code == RP_OK)
		code = add_split(l->t, rp_model_path(l->m), "\\n+", 3, true, SPLIT_ISOLATED, false, l->err);
	return code == RP_OK ? read_merges(l) : code;
}

typedef struct scored {
	double score;
	uint32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
	const scored *x = a, *y = b;
	return x->score > y->score ? -1 : x->score < y->score;
}

/* Rank of every token: tokens of one score share it, as the leftmost of equals is merged first. */
static rp_code read_scores(gguf_load *l)
{
	static const char key[] = "tokenizer.ggml.scores";
	rp_kv_type elem;
	uint64_t n = 0;
	rp_code code = rp_kv_array(l->m, key, &elem, &n, l->err);
	if (code == RP_NOT_FOUND || (code == RP_OK && n != l->n_tokens))
		return rp_fail(l->err, RP_FORMAT, "%s: %s must have a score for each of the %llu tokens", rp_model_path(l->m), key,
			(unsigned long long)l->n_tokens);
	scored *list = rp_alloc_array(n, sizeof *list);
	l->t->bpe.rank = rp_alloc_array(n, sizeof *l->t->bpe.rank);
	if (list == NULL || l->t->bpe.rank == NULL)
		code = rp_no_memory(l->err, n * sizeof *list, "scores");
	for (uint64_t i = 0; code == RP_OK && i < n; i++) {
		list[i].id = (uint32_t)i;
		code = rp_kv_array_f64(l->m, key, i, &list[i].score, l->err);
	}
	if (code == RP_OK)
		qsort(list, n, sizeof *list, by_score);
	for (uint32_t i = 0, rank = 0; code == RP_OK && i < n; i++) {
		rank += i > 0 && list[i].score < list[i - 1].score;
		l->t->bpe.rank[list[i].id] = l->types[list[i].id] == TYPE_BYTE ? NO_ID : rank; /* never spelled by characters */
	}
	free(list);
	return code;
}

static rp_code form_llama(gguf_load *l)
{
	const char *name = rp_model_path(l->m);
	bool prefix, squeeze;
	rp_code code = flag(l, "tokenizer.ggml.add_space_prefix", true, &prefix);
	if (code == RP_OK)
		code = flag(l, "tokenizer.ggml.remove_extra_whitespaces", false, &squeeze);
	if (code == RP_OK && squeeze)
		return rp_fail(l->err, RP_UNSUPPORTED, "%s: tokenizer.ggml.remove_extra_whitespaces", name);
	if (code == RP_OK && prefix)
		code = add_norm(l->t, name, NORM_PREPEND, (rp_str){ METASPACE, 3 }, NULL, l->err);
	if (code == RP_OK)
		code = spell_spaces(l);
	l->t->strip_first_space = prefix;
	l->t->bpe.by_score = true;
	return code == RP_OK ? read_scores(l) : code;
}

/* ---- ids with a meaning ---- */
static rp_code special_id(const gguf_load *l, const char *key, uint32_t *out)
{
	uint64_t id = 0;
	bool found;
	rp_code code = maybe(rp_kv_u64(l->m, key, &id, l->err), &found);
	if (code == RP_OK && found && id >= l->n_tokens)
		return rp_fail(l->err, RP_FORMAT, "%s: %s is %llu, but there are %llu tokens", rp_model_path(l->m), key, (unsigned long long)id,
			(unsigned long long)l->n_tokens);
	if (code == RP_OK && found)
		*out = (uint32_t)id;
	return code;
}

static rp_code read_ids(gguf_load *l)
{
	rp_tokenizer *t = l->t;
	bool bos, eos;
	rp_code code = special_id(l, "tokenizer.ggml.bos_token_id", &t->bos);
	if (code == RP_OK)
		code = flag(l, "tokenizer.ggml.add_bos_token", l->bos, &bos);
	if (code == RP_OK)
		code = flag(l, "tokenizer.ggml.add_eos_token", false, &eos);
	if (code == RP_OK && !t->bpe.byte_level)
		code = special_id(l, "tokenizer.ggml.unknown_token_id", &t->bpe.unk);
	if (code == RP_OK && eos)
		return rp_fail(l->err, RP_UNSUPPORTED, "%s: tokenizer.ggml.add_eos_token: a token behind every text", rp_model_path(l->m));
	if (code == RP_OK && bos && t->bos != NO_ID)
		t->prefix[t->n_prefix++] = t->bos;
	return code;
}

static void hash_str(rp_sha256 *h, rp_str s)
{
	uint64_t n = s.n;
	rp_sha256_update(h, &n, sizeof n);
	rp_sha256_update(h, s.s, s.n);
}

/* The digest is over what the tokenizer was made of: model, pre, tokens with their types, merges. */
static rp_code make_digest(gguf_load *l, rp_str model)
{
	rp_sha256 *h;
	rp_str pre = { "", 0 };
	const rp_str *merges = NULL;
	uint64_t n = 0;
	bool found;
	unsigned char hash[RP_HASH_BYTES];
	rp_code code = maybe(rp_kv_str(l->m, "tokenizer.ggml.pre", &pre, l->err), &found);
	if (code == RP_OK)
		code = maybe(rp_kv_array_str(l->m, "tokenizer.ggml.merges", &merges, &n, l->err), &found);
	if (code == RP_OK)
		code = rp_sha256_new(&h, l->err);
	if (code != RP_OK)
		return code;
	hash_str(h, model);
	hash_str(h, pre);
	for (uint64_t i = 0; i < l->n_tokens; i++)
		hash_str(h, l->tokens[i]);
	rp_sha256_update(h, l->types, l->n_tokens);
	for (uint64_t i = 0; i < n; i++)
		hash_str(h, merges[i]);
	rp_sha256_final(h, hash);
	rp_sha256_free(h);
	memcpy(l->t->digest, "sha256:", 8);
	rp_hex(l->t->digest + 7, hash, sizeof hash);
	return RP_OK;
}

static rp_code build(gguf_load *l, rp_str model)
{
	char shown[80];
	rp_code code = read_tokens(l);
	if (code == RP_OK && is(model, "gpt2"))
		code = form_gpt2(l);
	else if (code == RP_OK && is(model, "gemma4"))
		code = form_gemma4(l);
	else if (code == RP_OK && is(model, "llama"))
		code = form_llama(l);
	else if (code == RP_OK)
		code = rp_fail(l->err, RP_UNSUPPORTED, "%s: tokenizer.ggml.model is \"%s\"; this build has gpt2, gemma4 and llama",
			rp_model_path(l->m), rp_show(shown, sizeof shown, model.s, model.n));
	if (code == RP_OK)
		code = read_added(l);
	if (code == RP_OK)
		code = read_ids(l);
	if (code == RP_OK)
		code = tokenizer_finish(l->t, rp_model_path(l->m), &l->rules, l->err);
	return code == RP_OK ? make_digest(l, model) : code;
}

rp_code rp_tokenizer_from_gguf(const rp_model *m, rp_tokenizer **out, rp_error *err)
{
	gguf_load l = { .m = m, .err = err };
	rp_str model;
	rp_code code = rp_kv_str(m, "tokenizer.ggml.model", &model, err);
	if (code == RP_NOT_FOUND)
		return rp_fail(err, RP_NOT_FOUND, "%s: it carries no tokenizer (key 'tokenizer.ggml.model' is missing)", rp_model_path(m));
	if (code == RP_OK)
		code = tokenizer_new(&l.t, err);
	if (code == RP_OK)
		code = build(&l, model);
	decode_rules_free(&l.rules);
	free(l.types);
	if (code == RP_OK)
		*out = l.t;
	else
		rp_tokenizer_free(l.t);
	return code;
}
