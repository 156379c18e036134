/* Tokenizers: the checked-in vectors of the reference library, what must be refused and how, and what must never happen. */
#include "make_model.h"
#include "text/text.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN "tests/golden/text/"

static rp_tokenizer *load(const char *name)
{
	char path[128];
	rp_error err;
	rp_tokenizer *t = NULL;
	size_t n = strlen(name);
	snprintf(path, sizeof path, GOLDEN "%s", name);
	if (strcmp(name + n - 5, ".gguf") == 0) {
		rp_model *m;
		assert_int_equal(rp_model_open(path, &m, &err), RP_OK);
		assert_int_equal(rp_tokenizer_of_model(m, &t, &err), RP_OK);
		rp_model_close(m);
		return t;
	}
	char *text;
	assert_int_equal(rp_read_file(path, 1 << 20, &text, &n, &err), RP_OK);
	if (rp_tokenizer_from_json(path, text, n, &t, &err) != RP_OK)
		fail_msg("%s", err.msg);
	mm_seed(text, n);
	free(text);
	return t;
}

static rp_ids encode(const rp_tokenizer *t, const char *text, size_t n, unsigned flags)
{
	rp_ids ids;
	rp_error err;
	if (rp_encode(t, text, n, flags, &ids, &err) != RP_OK)
		fail_msg("%s", err.msg);
	return ids;
}

static void expect_ids(const rp_tokenizer *t, const char *text, unsigned flags, const uint32_t *want, size_t n)
{
	rp_ids ids = encode(t, text, strlen(text), flags);
	assert_int_equal(ids.n, n);
	assert_memory_equal(ids.v, want, n * sizeof *want);
	free(ids.v);
}

static size_t from_hex(char *s)
{
	size_t n = strlen(s) / 2;
	for (size_t i = 0; i < n; i++) {
		unsigned byte;
		sscanf(s + 2 * i, "%2x", &byte);
		s[i] = (char)byte;
	}
	s[n] = '\0';
	return n;
}

/* One line of a .tsv: mode, text, ids, decoded text. */
static void check_vector(const rp_tokenizer *t, const char *name, unsigned line, char *mode, char *text, char *want, char *decoded)
{
	size_t n = from_hex(text), n_decoded = from_hex(decoded);
	rp_ids ids = encode(t, text, n, *mode == 's' ? RP_ENCODE_SPECIAL : 0);
	rp_buf got, out;
	rp_decoder *d;
	rp_error err;
	bool stopped;
	rp_buf_init(&got, 0);
	rp_buf_init(&out, 0);
	assert_int_equal(rp_decoder_new(t, NULL, 0, &d, &err), RP_OK);
	for (size_t i = 0; i < ids.n; i++) {
		rp_buf_addf(&got, "%s%u", i ? " " : "", ids.v[i]);
		assert_int_equal(rp_decoder_push(d, ids.v[i], true, &out, &stopped, &err), RP_OK);
	}
	assert_int_equal(rp_decoder_flush(d, &out, &err), RP_OK);
	rp_buf_addc(&got, '\0');
	if (strcmp(got.data, want) != 0)
		fail_msg("%s.tsv:%u: ids are %s, expected %s", name, line, got.data, want);
	if (out.len != n_decoded || memcmp(out.len ? out.data : "", decoded, n_decoded) != 0)
		fail_msg("%s.tsv:%u: decoded to another text", name, line);
	rp_decoder_free(d);
	rp_buf_free(&got);
	rp_buf_free(&out);
	free(ids.v);
}

static void check_golden(const char *file, const char *vectors)
{
	char path[128];
	rp_error err;
	char *all;
	size_t n;
	unsigned line = 0;
	rp_tokenizer *t = load(file);
	snprintf(path, sizeof path, GOLDEN "%s.tsv", vectors);
	assert_int_equal(rp_read_file(path, 1 << 20, &all, &n, &err), RP_OK);
	for (char *p = all, *end; p < all + n; p = end + 1) {
		char *f[4] = { p };
		end = strchr(p, '\n');
		assert_non_null(end);
		*end = '\0';
		for (int i = 1; i < 4; i++) {
			f[i] = strchr(f[i - 1], '\t');
			assert_non_null(f[i]);
			*f[i]++ = '\0';
		}
		check_vector(t, vectors, ++line, f[0], f[1], f[2], f[3]);
	}
	assert_true(line > 100);
	free(all);
	rp_tokenizer_free(t);
}

#define GOLDEN_TEST(name, file, vectors)                                                                                         \
	static void name(void **state)                                                                                               \
	{                                                                                                                            \
		(void)state;                                                                                                             \
		check_golden(file, vectors);                                                                                             \
	}
GOLDEN_TEST(ids_of_qwen_kind, "qwen.json", "qwen")
GOLDEN_TEST(ids_of_smollm_kind, "smollm.json", "smollm")
GOLDEN_TEST(ids_of_gpt2_kind, "gpt2.json", "gpt2")
GOLDEN_TEST(ids_of_gemma_kind, "gemma.json", "gemma")
GOLDEN_TEST(ids_of_llama_kind, "llama.json", "llama")
GOLDEN_TEST(ids_of_metaspace_kind, "metaspace.json", "metaspace")
GOLDEN_TEST(ids_of_every_step_and_flag, "steps.json", "steps")
GOLDEN_TEST(ids_of_gguf_qwen35, "qwen.gguf", "qwen")
GOLDEN_TEST(ids_of_gguf_smollm, "smollm.gguf", "smollm")
GOLDEN_TEST(ids_of_gguf_llama_with_scores, "llama.gguf", "llama")

/* ---- tokenizers small enough to say every id ---- */
#define BYTES_MODEL                                                                                                              \
	"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"\xC4\xA0\":5,\"\xC4\xA0"                           \
	"a\":6,\"\xC4\x8A\":7,\"\xC3\x83\":8,\"\xC2\xA9\":9},"                                                                       \
	"\"merges\":[\"a b\",\"ab c\",\"\xC4\xA0 a\"]}"
#define BYTES_DECODER "\"decoder\":{\"type\":\"ByteLevel\"}"
#define BYTES_PRE "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define BYTES_ADDED                                                                                                              \
	"\"added_tokens\":[{\"id\":10,\"content\":\"<s>\",\"special\":true},{\"id\":11,\"content\":\"<t>\",\"special\":false,\"normalized\":false}]"
#define BYTES_POST                                                                                                               \
	"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"               \
	"{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"                                                                                \
	"\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[10],\"tokens\":[\"<s>\"]}}}"
static const char BYTES[] = "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null," BYTES_ADDED
	",\"normalizer\":{\"type\":\"NFC\"}," BYTES_PRE "," BYTES_POST "," BYTES_DECODER "," BYTES_MODEL "}";

static rp_code parse(const char *text, size_t n, rp_tokenizer **t, rp_error *err)
{
	mm_seed(text, n);
	*t = NULL;
	return rp_tokenizer_from_json("tokenizer.json", text, n, t, err);
}

static rp_tokenizer *bytes_tokenizer(void)
{
	rp_tokenizer *t;
	rp_error err;
	if (parse(BYTES, sizeof BYTES - 1, &t, &err) != RP_OK)
		fail_msg("%s", err.msg);
	return t;
}

static void lowest_rank_merges_first(void **state)
{
	static const uint32_t abc[] = { 4 }, aab[] = { 0, 3 };
	rp_tokenizer *t = bytes_tokenizer();
	(void)state;
	expect_ids(t, "abc", 0, abc, 1);
	expect_ids(t, "aab", 0, aab, 2);
	expect_ids(t, "cab ab", 0, (const uint32_t[]){ 2, 3, 5, 3 }, 4); /* "a b" has rank 0, " a" rank 2 */
	rp_tokenizer_free(t);
}

/* What decodes is bytes, not the letters they are spelled with. */
static void byte_alphabet_is_decoded(void **state)
{
	rp_tokenizer *t = bytes_tokenizer();
	(void)state;
	rp_str space = rp_token_bytes(t, 6), newline = rp_token_bytes(t, 7), part = rp_token_bytes(t, 8);
	assert_int_equal(space.n, 2);
	assert_memory_equal(space.s, " a", 2);
	assert_int_equal(newline.n, 1);
	assert_memory_equal(newline.s, "\n", 1);
	assert_int_equal(part.n, 1);
	assert_memory_equal(part.s, "\xC3", 1);
	assert_int_equal(rp_token_bytes(t, 12345678).n, 0);
	rp_tokenizer_free(t);
}

static void decomposed_text_gives_the_ids_of_composed_text(void **state)
{
	static const uint32_t want[] = { 8, 9 };
	rp_tokenizer *t = bytes_tokenizer();
	(void)state;
	expect_ids(t, "e\xCC\x81", 0, want, 2); /* U+0065 U+0301 is U+00E9 */
	expect_ids(t, "\xC3\xA9", 0, want, 2);
	rp_tokenizer_free(t);
}

static void bos_is_put_once(void **state)
{
	rp_tokenizer *t = bytes_tokenizer();
	uint32_t bos;
	(void)state;
	expect_ids(t, "a", RP_ENCODE_BOS, (const uint32_t[]){ 10, 0 }, 2);
	expect_ids(t, "<s>a", RP_ENCODE_BOS | RP_ENCODE_SPECIAL, (const uint32_t[]){ 10, 0 }, 2);
	expect_ids(t, "", RP_ENCODE_BOS, (const uint32_t[]){ 10 }, 1);
	assert_true(rp_token_bos(t, &bos));
	assert_int_equal(bos, 10);
	rp_tokenizer_free(t);
}

static void empty_text_has_no_ids(void **state)
{
	rp_tokenizer *t = bytes_tokenizer();
	rp_ids ids = encode(t, "", 0, 0);
	(void)state;
	assert_int_equal(ids.n, 0);
	assert_non_null(ids.v);
	free(ids.v);
	rp_tokenizer_free(t);
}

static void questions_about_tokens(void **state)
{
	rp_tokenizer *t = bytes_tokenizer();
	uint32_t id = 99;
	(void)state;
	assert_int_equal(rp_tokenizer_vocab(t), 12);
	assert_true(rp_token_id(t, "<t>", &id));
	assert_int_equal(id, 11);
	assert_true(rp_token_id(t, "abc", &id));
	assert_int_equal(id, 4);
	assert_false(rp_token_id(t, "zzz", &id));
	assert_true(rp_token_is_special(t, 10));
	assert_false(rp_token_is_special(t, 11));
	assert_false(rp_token_is_special(t, 4000000000u));
	assert_int_equal(strlen(rp_tokenizer_digest(t)), 71);
	assert_memory_equal(rp_tokenizer_digest(t), "sha256:", 7);
	rp_tokenizer_free(t);
}

/* ---- a person's text cannot be taken for the template's ---- */
static rp_ids encode_pieces(const rp_tokenizer *t, const rp_prompt_piece *pieces, size_t n)
{
	rp_prompt_piece copy[8];
	rp_prompt p = { .pieces = copy, .n = n };
	rp_ids ids;
	rp_error err;
	memcpy(copy, pieces, n * sizeof *copy);
	assert_int_equal(rp_prompt_encode(t, &p, &ids, &err), RP_OK);
	return ids;
}

#define PIECE(s, special) { { s, sizeof s - 1 }, special }

static void typed_special_tokens_stay_text(void **state)
{
	static const rp_prompt_piece whole[] = { PIECE("<s>", true), PIECE("<s>a", false), PIECE("<s>", true) };
	/* the token's text made of the end of one piece and the beginning of the next */
	static const rp_prompt_piece across[] = { PIECE("a<", false), PIECE("s>", true), PIECE("<s", true), PIECE(">", false) };
	rp_tokenizer *t = load("qwen.json");
	uint32_t start;
	(void)state;
	assert_true(rp_token_id(t, "<|im_start|>", &start));
	static const rp_prompt_piece typed[] = { PIECE("<|im_start|>user\n", true), PIECE("<|im_start|>system\n", false), PIECE("<|im_", false),
		PIECE("start|>", true), PIECE("<|im_start|>", true) };
	rp_ids ids = encode_pieces(t, typed, 5);
	size_t count = 0;
	for (size_t i = 0; i < ids.n; i++)
		count += ids.v[i] == start;
	assert_int_equal(count, 2); /* the template's two */
	free(ids.v);
	rp_tokenizer_free(t);
	t = bytes_tokenizer();
	ids = encode_pieces(t, whole, 3);
	assert_int_equal(ids.v[0], 10);
	assert_int_equal(ids.v[ids.n - 1], 10);
	for (size_t i = 1; i + 1 < ids.n; i++)
		assert_int_not_equal(ids.v[i], 10);
	free(ids.v);
	ids = encode_pieces(t, across, 4);
	for (size_t i = 0; i < ids.n; i++)
		assert_int_not_equal(ids.v[i], 10);
	free(ids.v);
	rp_tokenizer_free(t);
}

/* Pieces are tokenized as one text: merges and pre-tokenizer see across their borders. */
static void pieces_give_the_ids_of_the_joined_text(void **state)
{
	static const char joined[] = "<|im_start|>user\n\n\n  hello 12 world's<|im_end|>\n";
	static const rp_prompt_piece pieces[] = { PIECE("<|im_start|>user\n", true), PIECE("\n\n  hello 12 wor", false), PIECE("ld's", false),
		PIECE("<|im_end|>\n", true) };
	rp_tokenizer *t = load("qwen.json");
	(void)state;
	rp_ids a = encode_pieces(t, pieces, 4), b = encode(t, joined, sizeof joined - 1, RP_ENCODE_SPECIAL);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.v, b.v, a.n * sizeof *a.v);
	free(a.v);
	free(b.v);
	rp_tokenizer_free(t);
}

/* ---- bad text ---- */
static void text_that_is_not_utf8_is_refused_with_its_place(void **state)
{
	static const char *const bad[] = { "ab\xFF", "ab\xC3", "ab\xED\xA0\x80", "ab\xC0\x80", "ab\xF4\x90\x80\x80" };
	rp_tokenizer *t = bytes_tokenizer();
	rp_ids ids;
	rp_error err;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(rp_encode(t, bad[i], strlen(bad[i]), 0, &ids, &err), RP_PROMPT);
		assert_non_null(strstr(err.msg, "byte 2"));
	}
	rp_tokenizer_free(t);
}

/* One word of half a million characters: the work must not grow with the square. */
static void one_huge_word(void **state)
{
	static const char *const files[] = { "qwen.json", "gemma.json", "llama.gguf" };
	enum { N = 500000 };
	char *text = malloc(N);
	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < N; i++)
		text[i] = "the quick brown"[(i * i / 7 + i) % 15 == 9 || (i * i / 7 + i) % 15 == 3 ? 0 : (i * i / 7 + i) % 15];
	for (size_t f = 0; f < 3; f++) {
		rp_tokenizer *t = load(files[f]);
		rp_ids ids = encode(t, text, N, 0);
		size_t n = 0;
		for (size_t i = 0; i < ids.n; i++)
			n += rp_token_bytes(t, ids.v[i]).n;
		assert_true(n == N || n == N + 1); /* llama's first space */
		free(ids.v);
		rp_tokenizer_free(t);
	}
	free(text);
}

/* ---- bad files ---- */
typedef struct change {
	const char *from, *to;
	rp_code code;
	const char *says; /* the message has this */
} change;

static void expect_changes(const change *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *text = mm_replace(BYTES, list[i].from, list[i].to);
		rp_tokenizer *t;
		rp_error err;
		rp_code code = parse(text, strlen(text), &t, &err);
		if (code != list[i].code)
			fail_msg("%s: code %d (%s), expected %d", list[i].to, code, code != RP_OK ? err.msg : "", list[i].code);
		if (strstr(err.msg, list[i].says) == NULL || strstr(err.msg, "tokenizer.json") == NULL)
			fail_msg("%s: the message is \"%s\", without \"%s\"", list[i].to, err.msg, list[i].says);
		free(text);
	}
}

/* What this build does not have is named, never left out. */
static void unknown_parts_are_named(void **state)
{
	static const change list[] = {
		{ "\"NFC\"", "\"NFKC\"", RP_UNSUPPORTED, "NFKC" },
		{ "\"NFC\"", "\"Lowercase\"", RP_UNSUPPORTED, "Lowercase" },
		{ "{\"type\":\"NFC\"}", "{\"type\":\"NFC\",\"left\":true}", RP_UNSUPPORTED, "left" },
		{ "\"type\":\"BPE\"", "\"type\":\"Unigram\"", RP_UNSUPPORTED, "Unigram" },
		{ "\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.1", RP_UNSUPPORTED, "dropout" },
		{ "\"type\":\"BPE\"", "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"", RP_UNSUPPORTED, "end_of_word_suffix" },
		{ "\"type\":\"BPE\"", "\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\"", RP_UNSUPPORTED, "continuing_subword_prefix" },
		{ "\"type\":\"BPE\"", "\"type\":\"BPE\",\"shiny\":1", RP_UNSUPPORTED, "shiny" },
		{ "\"version\"", "\"novelty\":1,\"version\"", RP_UNSUPPORTED, "novelty" },
		{ "\"padding\":null", "\"padding\":{\"pad_id\":0}", RP_UNSUPPORTED, "padding" },
		{ "\"truncation\":null", "\"truncation\":{\"max_length\":4}", RP_UNSUPPORTED, "truncation" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}", RP_UNSUPPORTED, "BertPreTokenizer" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\bx\"},\"behavior\":\"Isolated\"}", RP_UNSUPPORTED, "\\b" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Han}\"},\"behavior\":\"Isolated\"}", RP_UNSUPPORTED,
			"general category" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z&&[^b]]\"},\"behavior\":\"Isolated\"}", RP_UNSUPPORTED,
			"intersection" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a*\"},\"behavior\":\"Isolated\"}", RP_UNSUPPORTED,
			"nothing at all" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Dissolved\"}", RP_UNSUPPORTED,
			"Dissolved" },
		{ BYTES_DECODER, "\"decoder\":{\"type\":\"WordPiece\"}", RP_UNSUPPORTED, "WordPiece" },
		{ BYTES_DECODER, "\"decoder\":null", RP_UNSUPPORTED, "decoder" },
		{ "\"type\":\"TemplateProcessing\"", "\"type\":\"RobertaProcessing\"", RP_UNSUPPORTED, "RobertaProcessing" },
		{ "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]", "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"<s>\"}}]", RP_UNSUPPORTED,
			"behind the text" },
		{ "\"special\":true", "\"special\":true,\"colour\":1", RP_UNSUPPORTED, "colour" },
	};
	(void)state;
	expect_changes(list, sizeof list / sizeof *list);
}

static void malformed_files_are_refused(void **state)
{
	static const change list[] = {
		{ "\"b\":1", "\"a\":1", RP_FORMAT, "listed twice" },
		{ "\"b\":1", "\"b\":0", RP_FORMAT, "id 0" },
		{ "\"b\":1", "\"b\":4194304", RP_FORMAT, "4194304" },
		{ "\"b\":1", "\"b\":4294967296", RP_FORMAT, "whole number" },
		{ "\"b\":1", "\"b\":-1", RP_FORMAT, "whole number" },
		{ "\"b\":1", "\"b\":1.5", RP_FORMAT, "whole number" },
		{ "\"b\":1", "\"b\":01", RP_FORMAT, "zero" },
		{ "\"b\":1", "\"b\":\"1\"", RP_FORMAT, "whole number" },
		{ "\"b\":1", "\"b\":1,", RP_FORMAT, "expected" },
		{ "\"b\":1", "\"\xFF\":1", RP_FORMAT, "UTF-8" },
		{ "\"b\":1", "\"\\ud800\":1", RP_FORMAT, "surrogate" },
		{ "\"b\":1", "\"\\u0000\":1", RP_FORMAT, "NUL" },
		{ "\"b\":1", "\"b\n\":1", RP_FORMAT, "control" },
		{ "\"a b\"", "\"a z\"", RP_FORMAT, "\"z\"" },
		{ "\"a b\"", "\"b a\"", RP_FORMAT, "\"ba\"" },
		{ "\"a b\"", "\"ab\"", RP_FORMAT, "one space" },
		{ "\"a b\"", "\"a b c\"", RP_FORMAT, "one space" },
		{ "\"a b\"", "[\"a\"]", RP_FORMAT, "expected" },
		{ "\"a b\"", "[\"a\",\"b\",\"c\"]", RP_FORMAT, "expected" },
		{ "\"a b\"", "7", RP_FORMAT, "expected" },
		{ "\"merges\"", "\"vocab\":{},\"merges\"", RP_FORMAT, "twice" },
		{ "\"merges\":", "\"unk_token\":\"nope\",\"merges\":", RP_FORMAT, "nope" },
		{ "\"merges\":", "\"fuse_unk\":3,\"merges\":", RP_FORMAT, "fuse_unk" },
		{ BYTES_MODEL, "\"model\":{}", RP_FORMAT, "vocab" },
		{ BYTES_MODEL, "\"model\":{\"vocab\":{\"a\":0}}", RP_UNSUPPORTED, "merges" },
		{ "," BYTES_MODEL, "", RP_FORMAT, "model" },
		{ "\"version\":\"1.0\",", "\"version\":\"1.0\",\"version\":\"1.0\",", RP_FORMAT, "twice" },
		{ "{\"version\"", "[\"version\"", RP_FORMAT, "expected" },
		{ "\"id\":10,\"content\":\"<s>\"", "\"id\":3,\"content\":\"<s>\"", RP_FORMAT, "id 3" },
		{ "\"id\":10,\"content\":\"<s>\"", "\"id\":10,\"content\":\"a\"", RP_FORMAT, "id 10" },
		{ "\"id\":10,\"content\":\"<s>\"", "\"id\":10,\"content\":\"\"", RP_FORMAT, "0 bytes" },
		{ "\"id\":10,\"content\":\"<s>\"", "\"id\":-1,\"content\":\"<s>\"", RP_FORMAT, "id" },
		{ "\"id\":10,\"content\":\"<s>\"", "\"id\":10", RP_FORMAT, "content" },
		{ "\"special\":true", "\"special\":1", RP_FORMAT, "special" },
		{ "\"ids\":[10]", "\"ids\":[99]", RP_FORMAT, "ids" },
		{ "\"ids\":[10]", "\"ids\":10", RP_FORMAT, "ids" },
		{ "\"NFC\"", "5", RP_FORMAT, "type" },
		{ BYTES_PRE, "\"pre_tokenizer\":[]", RP_FORMAT, "pre_tokenizer" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}", RP_FORMAT, "(a" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":\"a\",\"behavior\":\"Isolated\"}", RP_FORMAT, "pattern" },
		{ BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":3}", RP_FORMAT, "pretokenizers" },
	};
	(void)state;
	expect_changes(list, sizeof list / sizeof *list);
}

static void every_truncation_is_refused(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof BYTES - 1; n++) {
		rp_tokenizer *t;
		rp_error err;
		char *exact = malloc(n + 1); /* so that a read past the end is seen */
		assert_non_null(exact);
		memcpy(exact, BYTES, n);
		assert_int_equal(parse(exact, n, &t, &err), RP_FORMAT);
		free(exact);
	}
}

static void trailing_bytes_are_refused(void **state)
{
	char text[sizeof BYTES + 4];
	rp_tokenizer *t;
	rp_error err;
	(void)state;
	snprintf(text, sizeof text, "%s x", BYTES);
	assert_int_equal(parse(text, strlen(text), &t, &err), RP_FORMAT);
	assert_int_equal(parse(BYTES, sizeof BYTES, &t, &err), RP_FORMAT); /* a NUL byte */
}

static void deep_nesting_is_refused(void **state)
{
	rp_buf b;
	rp_tokenizer *t;
	rp_error err;
	(void)state;
	rp_buf_init(&b, 0);
	rp_buf_adds(&b, "{\"normalizer\":");
	for (int i = 0; i < 100000; i++)
		rp_buf_addc(&b, '[');
	assert_int_equal(rp_tokenizer_from_json("tokenizer.json", b.data, b.len, &t, &err), RP_FORMAT);
	rp_buf_free(&b);
}

/* A pattern given as a string is that string, whatever it looks like: the weights were made with it. */
static void literal_pattern_is_not_a_regular_expression(void **state)
{
	char *text = mm_replace(BYTES, BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
	                                          "{\"String\":\"b+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
	                                          "\"add_prefix_space\":false,\"use_regex\":false}]}");
	rp_tokenizer *t;
	rp_error err;
	(void)state;
	assert_int_equal(parse(text, strlen(text), &t, &err), RP_OK);
	expect_ids(t, "abc", 0, (const uint32_t[]){ 4 }, 1); /* as a regular expression it would have cut out the b */
	free(text);
	rp_tokenizer_free(t);
}

/* A replacement a million times as long as what it replaces would fill the memory. */
static void exploding_normalizer_is_stopped(void **state)
{
	rp_buf b;
	rp_tokenizer *t;
	rp_error err;
	rp_ids ids;
	(void)state;
	rp_buf_init(&b, 0);
	rp_buf_adds(&b, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"");
	for (int i = 0; i < 1000000; i++)
		rp_buf_addc(&b, 'b');
	rp_buf_adds(&b, "\"}");
	char *text = mm_replace(BYTES, "{\"type\":\"NFC\"}", b.data);
	assert_int_equal(rp_tokenizer_from_json("tokenizer.json", text, strlen(text), &t, &err), RP_OK);
	assert_int_equal(rp_encode(t, "aaaa", 4, 0, &ids, &err), RP_NO_MEMORY);
	assert_non_null(strstr(err.msg, "normalizer"));
	expect_ids(t, "c", 0, (const uint32_t[]){ 2 }, 1);
	free(text);
	rp_buf_free(&b);
	rp_tokenizer_free(t);
}

/* A pattern that backtracks without end meets the limit instead of hanging. */
static void endless_backtracking_is_stopped(void **state)
{
	char *text = mm_replace(BYTES, BYTES_PRE, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
	                                          "{\"Regex\":\"(?:a|a|ab|b)+(?:c|d)\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\"}]}");
	rp_tokenizer *t;
	rp_error err;
	rp_ids ids;
	(void)state;
	assert_int_equal(parse(text, strlen(text), &t, &err), RP_OK);
	char many[200];
	memset(many, 'a', sizeof many);
	assert_int_equal(rp_encode(t, many, sizeof many, 0, &ids, &err), RP_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "limit"));
	free(text);
	rp_tokenizer_free(t);
}

/* ---- GGUF metadata ---- */
static rp_code of_gguf(mm_gguf *g, rp_tokenizer **t, rp_error *err)
{
	char *folder = mm_temp_folder(), *path = mm_path(folder, "m.gguf");
	rp_buf b;
	rp_model *m;
	float one = 1;
	mm_gguf_tensor(g, "output_norm.weight", RP_F32, 1, (const uint64_t[]){ 1 }, &one);
	mm_gguf_build(g, &b);
	mm_seed(b.data, b.len);
	mm_write(folder, "m.gguf", b.data, b.len);
	rp_code code = rp_model_open(path, &m, err);
	if (code == RP_OK) {
		code = rp_tokenizer_of_model(m, t, err);
		rp_model_close(m);
	}
	rp_buf_free(&b);
	mm_gguf_free(g);
	free(path);
	mm_remove_folder(folder);
	return code;
}

typedef struct gguf_case {
	const char *model, *pre, *merge;
	uint32_t types_elem; /* GGUF's number of the element type of token_type */
	uint64_t n_types;
	rp_code code;
	const char *says;
} gguf_case;

static rp_code try_gguf(const gguf_case *c, rp_error *err)
{
	static const char *const tokens[] = { "a", "b", "ab", "<s>" };
	static const int32_t types[] = { 1, 1, 1, 3, 9 };
	mm_gguf g;
	rp_tokenizer *t = NULL;
	mm_gguf_init(&g);
	mm_gguf_str(&g, "general.architecture", "llama");
	if (c->model != NULL)
		mm_gguf_str(&g, "tokenizer.ggml.model", c->model);
	if (c->pre != NULL)
		mm_gguf_str(&g, "tokenizer.ggml.pre", c->pre);
	mm_gguf_strings(&g, "tokenizer.ggml.tokens", tokens, 4);
	mm_gguf_array(&g, "tokenizer.ggml.token_type", c->types_elem, c->n_types, types, c->types_elem == 0 ? c->n_types : 4 * c->n_types);
	if (c->merge != NULL)
		mm_gguf_strings(&g, "tokenizer.ggml.merges", &c->merge, 1);
	rp_code code = of_gguf(&g, &t, err);
	rp_tokenizer_free(t);
	return code;
}

static void gguf_metadata_is_checked(void **state)
{
	static const gguf_case cases[] = {
		{ "gpt2", "qwen2", "a b", 5, 4, RP_OK, NULL },
		{ NULL, "qwen2", "a b", 5, 4, RP_NOT_FOUND, "tokenizer.ggml.model" },
		{ "bert", "qwen2", "a b", 5, 4, RP_UNSUPPORTED, "bert" },
		{ "gpt2", NULL, "a b", 5, 4, RP_UNSUPPORTED, "tokenizer.ggml.pre" },
		{ "gpt2", "falcon", "a b", 5, 4, RP_UNSUPPORTED, "falcon" },
		{ "gpt2", "qwen2|gpt-2", "a b", 5, 4, RP_UNSUPPORTED, "qwen2|gpt-2" },
		{ "gpt2", "qwen2", NULL, 5, 4, RP_FORMAT, "merges" },
		{ "gpt2", "qwen2", "ab", 5, 4, RP_FORMAT, "merge 0" },
		{ "gpt2", "qwen2", "b a", 5, 4, RP_FORMAT, "merge 0" },
		{ "gpt2", "qwen2", "a b", 0, 4, RP_FORMAT, "token_type" }, /* bytes of i32 read as u8: the second is 0, no type */
		{ "gpt2", "qwen2", "a b", 6, 4, RP_FORMAT, "token_type" }, /* floats */
		{ "gpt2", "qwen2", "a b", 5, 3, RP_FORMAT, "3 entries" },
		{ "gpt2", "qwen2", "a b", 5, 5, RP_FORMAT, "5 entries" },
		{ "llama", NULL, NULL, 5, 4, RP_FORMAT, "scores" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		rp_error err = { .msg = "" };
		rp_code code = try_gguf(&cases[i], &err);
		if (code != cases[i].code || (cases[i].says != NULL && strstr(err.msg, cases[i].says) == NULL))
			fail_msg("case %zu: code %d, \"%s\"", i, code, err.msg);
	}
}

static void model_without_tokenizer_is_not_found(void **state)
{
	char *folder = mm_temp_folder(), *path;
	mm_rdrr r;
	rp_model *m;
	rp_error err;
	rp_tokenizer *t;
	float one = 1;
	(void)state;
	mm_rdrr_init(&r);
	mm_rdrr_tensor(&r, "norm", "norm", RP_F32, 1, (const uint64_t[]){ 1 }, &one);
	mm_rdrr_write(&r, folder);
	path = mm_path(folder, "manifest.json");
	if (rp_model_open(path, &m, &err) != RP_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(rp_tokenizer_of_model(m, &t, &err), RP_NOT_FOUND);
	rp_model_close(m);
	mm_write(folder, "tokenizer.json", BYTES, sizeof BYTES - 1);
	assert_int_equal(rp_model_open(path, &m, &err), RP_OK);
	assert_int_equal(rp_tokenizer_of_model(m, &t, &err), RP_OK);
	rp_tokenizer_free(t);
	rp_model_close(m);
	mm_rdrr_free(&r);
	free(path);
	mm_remove_folder(folder);
}

/* ---- threads ---- */
static void *encode_often(void *user)
{
	const rp_tokenizer *t = user;
	static const char text[] = "The quick brown fox isn't 12345 years old! e\xCC\x81 \xE4\xBD\xA0";
	rp_error err;
	size_t n = 0;
	for (int i = 0; i < 50; i++) {
		rp_ids ids;
		if (rp_encode(t, text, sizeof text - 1, 0, &ids, &err) != RP_OK || (i > 0 && ids.n != n))
			return (void *)1;
		n = ids.n;
		free(ids.v);
	}
	return NULL;
}

static void many_threads_share_one(void **state)
{
	pthread_t threads[4];
	rp_tokenizer *t = load("qwen.json");
	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
	for (int i = 0; i < 4; i++) {
		void *bad;
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	rp_tokenizer_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_of_qwen_kind),
		cmocka_unit_test(ids_of_smollm_kind),
		cmocka_unit_test(ids_of_gpt2_kind),
		cmocka_unit_test(ids_of_gemma_kind),
		cmocka_unit_test(ids_of_llama_kind),
		cmocka_unit_test(ids_of_metaspace_kind),
		cmocka_unit_test(ids_of_every_step_and_flag),
		cmocka_unit_test(ids_of_gguf_qwen35),
		cmocka_unit_test(ids_of_gguf_smollm),
		cmocka_unit_test(ids_of_gguf_llama_with_scores),
		cmocka_unit_test(lowest_rank_merges_first),
		cmocka_unit_test(byte_alphabet_is_decoded),
		cmocka_unit_test(decomposed_text_gives_the_ids_of_composed_text),
		cmocka_unit_test(bos_is_put_once),
		cmocka_unit_test(empty_text_has_no_ids),
		cmocka_unit_test(questions_about_tokens),
		cmocka_unit_test(typed_special_tokens_stay_text),
		cmocka_unit_test(pieces_give_the_ids_of_the_joined_text),
		cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_place),
		cmocka_unit_test(one_huge_word),
		cmocka_unit_test(unknown_parts_are_named),
		cmocka_unit_test(malformed_files_are_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(trailing_bytes_are_refused),
		cmocka_unit_test(deep_nesting_is_refused),
		cmocka_unit_test(literal_pattern_is_not_a_regular_expression),
		cmocka_unit_test(exploding_normalizer_is_stopped),
		cmocka_unit_test(endless_backtracking_is_stopped),
		cmocka_unit_test(gguf_metadata_is_checked),
		cmocka_unit_test(model_without_tokenizer_is_not_found),
		cmocka_unit_test(many_threads_share_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
