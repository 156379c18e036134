/* Inside of the tokenizer: what its source files share. Nothing outside common/text includes this.
 *
 * A tokenizer is one pipeline: text -> added tokens cut out -> normalizer -> pre-tokenizer (pieces) -> BPE (ids), as in the
 * tokenizer.json of Hugging Face tokenizers; a GGUF file is loaded into the same form. Spellings are kept as the file has
 * them (byte-level files spell bytes in the GPT-2 alphabet); what a token decodes to is computed once, at load.
 */
#ifndef RP_TEXT_INTERNAL_H
#define RP_TEXT_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/text.h"

#include <pcre2.h>

enum {
	NO_ID = UINT32_MAX,       /* as uint32_t: "no token" */
	MAX_VOCAB = 1 << 22,      /* ids a file may use; the largest known vocabularies have 2^18 */
	MAX_ADDED_LEN = 4096,     /* bytes of one added token: bounds the work a position of a text can cost */
	MAX_STEPS = 32,           /* normalizer or pre-tokenizer steps */
	MAX_PATTERN = 1 << 16,    /* bytes of a regular expression */
	MAX_JSON = 1 << 28,       /* bytes of a tokenizer.json */
	MAX_PREFIX = 8,           /* ids the post-processor puts first */
	MAX_TEXT = INT32_MAX      /* bytes of one text: positions fit 32 bits */
};

/* ---- vocab.c: ids and spellings ---- */
enum { TOKEN_PRESENT = 1, TOKEN_MODEL = 2, TOKEN_ADDED = 4, TOKEN_SPECIAL = 8 };

typedef struct slot {
	uint32_t hash, id; /* id NO_ID: free */
} slot;

typedef struct vocab {
	rp_buf bytes;                 /* all spellings, one after another */
	uint32_t *off, *len;          /* [n] spelling of an id */
	unsigned char *flags;         /* [n] TOKEN_* */
	uint32_t n, cap, count;       /* highest id + 1; room; ids present */
	slot *slots;                  /* open addressing over TOKEN_MODEL spellings */
	uint32_t mask;
	uint64_t seed;                /* so that no file can be made to collide */
} vocab;

rp_code vocab_init(vocab *v, rp_error *err);
void vocab_free(vocab *v);
/* Give id its spelling, before vocab_index. RP_FORMAT: id out of range or taken. name is for messages. */
rp_code vocab_put(vocab *v, const char *name, uint32_t id, const char *s, size_t n, unsigned flags, rp_error *err);
/* Build the index over TOKEN_MODEL spellings. RP_FORMAT: a spelling twice. */
rp_code vocab_index(vocab *v, const char *name, rp_error *err);
uint32_t vocab_find(const vocab *v, const char *s, size_t n); /* NO_ID when absent */
static inline rp_str vocab_text(const vocab *v, uint32_t id)
{
	return (rp_str){ v->bytes.data + v->off[id], v->len[id] };
}

int hex_digit(char c); /* -1: none */
uint64_t text_hash(uint64_t seed, const char *s, size_t n);

/* The GPT-2 byte alphabet: byte -> code point and back (-1 for a code point outside of it). */
uint32_t alphabet_of_byte(unsigned char b);
int byte_of_alphabet(uint32_t cp);

/* ---- bpe.c ---- */
typedef struct merge {
	uint32_t a, b, rank, id; /* a NO_ID: free slot */
} merge;

typedef struct bpe {
	merge *merges; /* open addressing by (a, b) */
	size_t mask;
	uint32_t n_merges;
	uint32_t *rank; /* SentencePiece form: rank of a token by its score, smaller first, NO_ID never; any adjacent pair that spells
	                 * a token merges into it */
	bool by_score, ignore_merges, fuse_unk, byte_fallback, byte_level;
	uint32_t unk;             /* NO_ID: unknown characters vanish */
	uint32_t byte_char[256];  /* byte-level: id of a byte's character; else id of <0xNN>; NO_ID when the file has none */
} bpe;

typedef struct symbol {
	uint32_t id, start, len; /* token; its slice of the word; len 0: merged away */
	uint32_t prev, next;     /* NO_ID at the ends */
} symbol;

typedef struct candidate {
	uint64_t key; /* rank << 32 | position: the smallest is merged next */
	uint32_t id;
	uint32_t len; /* of the pair, to tell a stale candidate by */
} candidate;

/* Scratch memory of one encode call. */
typedef struct scratch {
	symbol *symbols;
	candidate *heap;
	size_t n, cap, heap_n, heap_cap;
	rp_buf word; /* alphabet spelling of a word */
} scratch;

rp_code bpe_reserve(bpe *b, size_t n_merges, rp_error *err);
/* Merge number `rank` of the file: left + right -> id. A pair given twice keeps the later rank, as the reference does. */
void bpe_put(bpe *b, uint64_t seed, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
void bpe_free(bpe *b);
/* Ids of one word (a piece of the pre-tokenizer) are appended to out. */
rp_code bpe_word(const bpe *b, const vocab *v, scratch *s, const char *word, size_t n, rp_buf *out, rp_error *err);
void scratch_free(scratch *s);

/* ---- unicode.c: what the reference library knows of Unicode, whatever this system's libraries know ---- */
/* Ranges of general category `name` ("L", "Nd") newer than Unicode 14, as text for a PCRE2 class ("\x{897}-\x{89f}..."), to
 * out. False: not the name of a general category this table knows. */
bool unicode_newer_ranges(const char *name, size_t n, rp_buf *out);
/* True for code points that the reference library's normalization does not know: they stay as they are, and split. */
bool unicode_outside_normalization(uint32_t cp);
bool unicode_is_space(uint32_t cp); /* White_Space */
bool unicode_is_word(uint32_t cp);  /* for single_word: letters, marks, decimal digits, connectors */

/* ---- pattern.c: matchers ---- */
typedef struct matcher {
	pcre2_code *code; /* NULL: the literal text */
	char *literal;
	size_t literal_len;
} matcher;

rp_code matcher_regex(matcher *m, const char *name, const char *pattern, size_t n, rp_error *err);
rp_code matcher_literal(matcher *m, const char *name, const char *text, size_t n, rp_error *err);
void matcher_free(matcher *m);
/* First match in text[0..n) at or after from; *start == *end == n when there is none. data: from match_state_new. */
typedef struct match_state {
	pcre2_match_data *data;
	pcre2_match_context *context;
} match_state;

rp_code match_state_init(match_state *s, rp_error *err);
void match_state_free(match_state *s);
rp_code matcher_next(const matcher *m, match_state *s, const char *text, size_t n, size_t from, size_t *start, size_t *end,
	rp_error *err);

/* ---- normalize.c ---- */
typedef enum norm_kind { NORM_NFC, NORM_NFD, NORM_REPLACE, NORM_PREPEND } norm_kind;

typedef struct norm_step {
	norm_kind kind;
	matcher match; /* REPLACE */
	char *text;    /* REPLACE: the replacement; PREPEND: the prefix */
	size_t len;
} norm_step;

/* Bytes a normalizer may make of n: honest ones need three a byte; a file could ask for as much as it likes. */
#define NORM_ROOM(n) (4096 + 32 * (n))
/* Run the steps over text; *out is text itself when nothing changes, else bytes of one of the two buffers. */
rp_code normalize(const norm_step *steps, size_t n_steps, match_state *ms, rp_str text, rp_buf bufs[2], rp_str *out, rp_error *err);

/* ---- pretokenize.c ---- */
typedef enum split_behavior { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_CONTIGUOUS, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT } split_behavior;
typedef enum pre_kind { PRE_SPLIT, PRE_PREFIX, PRE_METASPACE } pre_kind;
typedef enum meta_prepend { META_ALWAYS, META_FIRST, META_NEVER } meta_prepend;

typedef struct pre_step {
	pre_kind kind;
	matcher match; /* SPLIT; METASPACE with split: its replacement character */
	split_behavior behavior;
	bool invert;
	meta_prepend prepend; /* METASPACE */
	bool split;
	char text[8]; /* PREFIX: the space; METASPACE: the replacement character */
	size_t len;
} pre_step;

typedef rp_code piece_fn(void *user, rp_str piece, rp_error *err);
/* Hand every piece of text, in order, to fn. at_start: text stands at the very beginning of what is encoded. */
rp_code pretokenize(const pre_step *steps, size_t n_steps, match_state *ms, rp_str text, bool at_start, piece_fn *fn, void *user,
	rp_error *err);

/* ---- added.c: added tokens, cut out of a text before anything else ---- */
typedef struct added_token {
	uint32_t id;
	uint32_t off, len; /* what it matches, in vocab.bytes: its spelling, or that normalized */
	bool lstrip, rstrip, single_word, special;
} added_token;

typedef struct trie_node {
	uint32_t child, sibling, token; /* token: index into added_token; NO_ID for none */
	unsigned char byte;
} trie_node;

typedef struct trie {
	trie_node *nodes;
	uint32_t n, cap;
	uint32_t root[256];
} trie;

void trie_init(trie *t);
void trie_free(trie *t);
rp_code trie_put(trie *t, const char *s, size_t n, uint32_t token, rp_error *err); /* n > 0; a spelling twice keeps the later */

/* Spans of a text in which special tokens may be recognised (sorted, not overlapping). */
typedef struct open_span {
	size_t start, end;
} open_span;

typedef struct added_match {
	size_t start, end; /* of the text taken, stripped space included */
	uint32_t token;    /* index into added_token; NO_ID: no more */
	size_t resume;     /* where the search goes on */
} added_match;

/* Next added token at or after `resume` (text before `floor` is taken already). */
added_match trie_next(const trie *t, const added_token *tokens, rp_str text, size_t resume, size_t floor, const open_span *spans,
	size_t n_spans);

/* ---- jscan.c: reads a JSON text value by value, without a tree: a tokenizer.json has a million values ---- */
typedef struct jscan {
	const char *name, *s; /* name: for messages */
	size_t n, at;
	rp_buf text; /* of the last string that had escapes */
	rp_error *err;
} jscan;

rp_code jscan_fail(jscan *j, const char *what); /* RP_FORMAT with the place */
char jscan_peek(jscan *j);                       /* first byte of what comes next, NUL at the end */
rp_code jscan_take(jscan *j, char c);            /* exactly this byte */
/* Inside of an object or array: *more, and the comma is taken. first is true on entry to the loop and cleared here. */
rp_code jscan_more(jscan *j, char close, bool *first, bool *more);
/* A string; *out points into the text or into j->text, until the next string. UTF-8, no NUL. */
rp_code jscan_string(jscan *j, rp_str *out);
rp_code jscan_key(jscan *j, rp_str *out); /* a string and its colon */
rp_code jscan_u32(jscan *j, uint32_t *out);
/* Any value; *out is its text, which is not checked further than to find its end. */
rp_code jscan_skip(jscan *j, rp_str *out);

/* ---- the whole ---- */
struct rp_tokenizer {
	vocab vocab;
	bpe bpe;
	norm_step norm[MAX_STEPS];
	pre_step pre[MAX_STEPS];
	size_t n_norm, n_pre;
	added_token *added;
	uint32_t n_added;
	trie raw, normalized; /* added tokens matched before and after normalization */
	uint32_t prefix[MAX_PREFIX]; /* what RP_ENCODE_BOS puts first */
	size_t n_prefix;
	uint32_t bos; /* NO_ID: none known */
	/* decoding */
	rp_buf decoded;
	uint32_t *dec_off, *dec_len; /* [vocab.n] into decoded */
	bool strip_first_space;      /* of the whole decoded text */
	char digest[72];
};

typedef struct replace_rule {
	char *from, *to;
	size_t from_len, to_len;
} replace_rule;

typedef struct decode_rules {
	bool byte_level, byte_fallback;
	replace_rule replace[MAX_STEPS];
	size_t n_replace;
} decode_rules;

void decode_rules_free(decode_rules *r);
/* Compute what every id decodes to. */
rp_code decode_table(rp_tokenizer *t, const decode_rules *rules, rp_error *err);
/* After vocab and settings are in: byte characters, checks. name is for messages. */
rp_code tokenizer_finish(rp_tokenizer *t, const char *name, const decode_rules *rules, rp_error *err);
rp_code tokenizer_new(rp_tokenizer **out, rp_error *err);
/* Added token number n_added: put into the vocabulary and the right trie. */
rp_code tokenizer_add_special(rp_tokenizer *t, const char *name, added_token a, rp_str content, bool is_normalized, rp_error *err);
/* Room for n added tokens in all. */
rp_code tokenizer_reserve_added(rp_tokenizer *t, size_t n, rp_error *err);

/* ---- load_steps.c: the parts of a tokenizer.json around the model; v NULL or null: absent ---- */
struct cJSON;
rp_code load_normalizer(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err);
rp_code load_pre_tokenizer(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err);
rp_code load_post_processor(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err); /* after the added tokens */
rp_code load_decoder(rp_tokenizer *t, const char *name, const struct cJSON *v, decode_rules *rules, rp_error *err);
rp_code load_added(rp_tokenizer *t, const char *name, const struct cJSON *v, rp_error *err); /* after vocabulary and normalizer */

/* Steps, for both loaders. */
rp_code add_norm(rp_tokenizer *t, const char *name, norm_kind kind, rp_str text, norm_step **out, rp_error *err);
rp_code add_split(rp_tokenizer *t, const char *name, const char *pattern, size_t n, bool regex, split_behavior behavior, bool invert,
	rp_error *err);
rp_code add_replace_rule(decode_rules *rules, const char *name, rp_str from, rp_str to, rp_error *err);
extern const char GPT2_PATTERN[], DIGITS_PATTERN[];
#define METASPACE "\xE2\x96\x81" /* U+2581, how SentencePiece spells a space */

#endif
