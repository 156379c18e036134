#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "make_model.h"
#include "model/internal.h"
#include "model/model.h"

/* ---- a file the published gguf package wrote (scripts/make-quant-golden.py) ---- */

static rp_model *open_or_fail(const char *path)
{
	rp_model *m = NULL;
	rp_error e;
	if (rp_model_open(path, &m, &e) != RP_OK)
		fail_msg("%s", e.msg);
	return m;
}

static void keys_of_the_gguf_package_read_back(void **state)
{
	(void)state;
	rp_model *m = open_or_fail("tests/golden/quants/small.gguf");
	rp_error e = { 0 };
	uint64_t u = 0, n = 0;
	double d = 0;
	bool b = false;
	rp_str s = { 0 };
	const rp_str *strings = NULL;
	rp_kv_type elem;
	int64_t i = 0;
	assert_int_equal(rp_model_format(m), RP_FORMAT_GGUF);
	assert_int_equal(rp_kv_str(m, "general.architecture", &s, &e), RP_OK);
	assert_memory_equal(s.s, "llama", 5);
	assert_int_equal(rp_kv_u64(m, "t.u8", &u, &e), RP_OK);
	assert_int_equal(u, 200);
	assert_int_equal(rp_kv_u64(m, "t.u32", &u, &e), RP_OK);
	assert_int_equal(u, 4000000000u);
	assert_int_equal(rp_kv_u64(m, "t.u64", &u, &e), RP_OK);
	assert_true(u == (1ull << 63) + 5);
	assert_int_equal(rp_kv_f64(m, "t.i8", &d, &e), RP_OK);
	assert_true(d == -100);
	assert_int_equal(rp_kv_f64(m, "t.i64", &d, &e), RP_OK);
	assert_true(d == -0x1p62);
	assert_int_equal(rp_kv_f64(m, "t.f32", &d, &e), RP_OK);
	assert_true(d == 0.5);
	assert_int_equal(rp_kv_f64(m, "t.f64", &d, &e), RP_OK);
	assert_true(d == 0.1);
	assert_int_equal(rp_kv_bool(m, "t.bool", &b, &e), RP_OK);
	assert_true(b);
	assert_int_equal(rp_kv_str(m, "t.string", &s, &e), RP_OK);
	assert_int_equal(s.n, 6);
	assert_memory_equal(s.s, "gr\xC3\xBC\xC3\x9F", 6);
	assert_int_equal(rp_kv_array_str(m, "t.strings", &strings, &n, &e), RP_OK);
	assert_int_equal(n, 3);
	assert_int_equal(strings[1].n, 0);
	assert_memory_equal(strings[2].s, "\xE4\xBD\xA0\xE5\xA5\xBD", 6);
	assert_int_equal(rp_kv_array(m, "t.ints", &elem, &n, &e), RP_OK);
	assert_int_equal(elem, RP_KV_I32);
	assert_int_equal(n, 3);
	assert_int_equal(rp_kv_array_i64(m, "t.ints", 0, &i, &e), RP_OK);
	assert_int_equal(i, -1);
	assert_int_equal(rp_kv_array_f64(m, "t.floats", 1, &d, &e), RP_OK);
	assert_true(d == -8);
	assert_int_equal(rp_kv_array_i64(m, "t.bools", 0, &i, &e), RP_OK);
	assert_int_equal(i, 1);
	rp_model_close(m);
}

static void tensors_of_the_gguf_package_read_back(void **state)
{
	(void)state;
	rp_model *m = open_or_fail("tests/golden/quants/small.gguf");
	rp_error e = { 0 };
	char *x = NULL;
	size_t n_x;
	assert_int_equal(rp_read_file("tests/golden/quants/small.x.f32", 1 << 20, &x, &n_x, &e), RP_OK);
	const rp_tensor *t = rp_model_find(m, "cube");
	assert_int_equal(t->n_dims, 3);
	assert_int_equal(t->dims[0], 2);
	assert_int_equal(t->dims[1], 3);
	assert_int_equal(t->dims[2], 4);
	float y[3 * 64];
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	for (size_t i = 0; i < 24; i++)
		assert_true(y[i] == (float)i);
	t = rp_model_find(m, "dense.f16");
	assert_int_equal(t->dtype, RP_F16);
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
	for (size_t i = 0; i < 5; i++)
		assert_true(y[i] == (float)i);
	static const struct {
		const char *name;
		float error;
	} quants[] = { { "quant.Q4_0", 0.25f }, { "quant.Q4_1", 0.2f }, { "quant.Q5_0", 0.13f }, { "quant.Q5_1", 0.1f },
		{ "quant.Q8_0", 0.02f } };
	for (size_t q = 0; q < sizeof quants / sizeof *quants; q++) {
		t = rp_model_find(m, quants[q].name);
		assert_non_null(t);
		assert_int_equal(t->dims[0], 3);
		assert_int_equal(t->dims[1], 64);
		assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
		for (size_t i = 0; i < 3 * 64; i++) {
			float expected;
			memcpy(&expected, x + i * sizeof expected, sizeof expected);
			assert_true(fabsf(y[i] - expected) <= quants[q].error);
		}
	}
	assert_null(rp_model_find(m, "quant.Q4"));
	assert_null(rp_model_find(m, ""));
	free(x);
	rp_model_close(m);
}

/* ---- files made here ---- */

static rp_code parse(const rp_buf *b, rp_model **m, rp_error *e)
{
	*m = NULL;
	mm_seed(b->data, b->len);
	return rp_model_open_memory(RP_FORMAT_GGUF, b->data, b->len, m, e);
}

static void expect(const rp_buf *b, rp_code code, const char *in_message)
{
	rp_model *m;
	rp_error e = { 0 };
	rp_code rc = parse(b, &m, &e);
	if (rc != code || (in_message != NULL && strstr(e.msg, in_message) == NULL))
		fail_msg("got %s: %s; expected %s with '%s'", rp_code_word(rc), e.msg, rp_code_word(code), in_message);
	rp_model_close(m);
}

/* Build g, expect the outcome, free g. */
static void expect_of(mm_gguf *g, rp_code code, const char *in_message)
{
	rp_buf b;
	mm_gguf_build(g, &b);
	expect(&b, code, in_message);
	rp_buf_free(&b);
	mm_gguf_free(g);
}

static void start(mm_gguf *g)
{
	mm_gguf_init(g);
	mm_gguf_str(g, "general.architecture", "llama");
}

static void both_versions_read(void **state)
{
	(void)state;
	for (uint32_t version = 2; version <= 3; version++) {
		mm_gguf g;
		start(&g);
		g.version = version;
		float x[64], y[64];
		mm_values(x, 64, 1, 1);
		mm_gguf_tensor(&g, "w", RP_F32, 2, (uint64_t[]){ 2, 32 }, x);
		mm_gguf_tensor(&g, "scalar", RP_F32, 0, NULL, x);
		mm_gguf_tensor(&g, "q", RP_Q8_0, 1, (uint64_t[]){ 64 }, x);
		rp_buf b;
		mm_gguf_build(&g, &b);
		rp_model *m;
		rp_error e;
		assert_int_equal(parse(&b, &m, &e), RP_OK);
		const rp_tensor *t = rp_model_find(m, "w");
		assert_int_equal(t->size, 256);
		assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_OK);
		assert_memory_equal(x, y, sizeof x);
		assert_memory_equal(rp_tensor_map(m, t), x, sizeof x);
		assert_int_equal(rp_model_find(m, "scalar")->n_values, 1);
		assert_int_equal(rp_model_n_tensors(m), 3);
		assert_string_equal(rp_model_tensor(m, 2)->name, "q");
		rp_model_close(m);
		rp_buf_free(&b);
		mm_gguf_free(&g);
	}
}

static void other_versions_and_byte_order_are_refused(void **state)
{
	(void)state;
	static const struct {
		uint32_t version;
		rp_code code;
		const char *word;
	} cases[] = { { 0, RP_FORMAT, "version 0" }, { 1, RP_UNSUPPORTED, "version 1" }, { 4, RP_UNSUPPORTED, "version 4" },
		{ 0x03000000, RP_UNSUPPORTED, "big-endian" }, { 0x02000000, RP_UNSUPPORTED, "big-endian" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		mm_gguf g;
		start(&g);
		g.version = cases[i].version;
		expect_of(&g, cases[i].code, cases[i].word);
	}
}

static void every_truncation_is_an_error(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_strings(&g, "tokens", (const char *const[]){ "a", "bc" }, 2);
	mm_gguf_array(&g, "types", RP_KV_I32, 2, "\1\0\0\0\2\0\0\0", 8);
	float x[32] = { 0 };
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 32 }, x);
	rp_buf b;
	mm_gguf_build(&g, &b);
	for (size_t n = 0; n < b.len; n++) {
		/* an own copy, so that a sanitizer sees any read past the end */
		char *copy = rp_alloc(n);
		memcpy(copy, b.data, n);
		rp_model *m = NULL;
		rp_error e;
		assert_int_equal(rp_model_open_memory(RP_FORMAT_GGUF, copy, n, &m, &e), RP_FORMAT);
		free(copy);
	}
	expect(&b, RP_OK, NULL);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

static void keys_of_the_wrong_type_are_named(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_f32(&g, "f", 2);
	mm_gguf_f32(&g, "nan", NAN);
	mm_gguf_key(&g, "negative", RP_KV_I32, "\xff\xff\xff\xff", 4);
	mm_gguf_array(&g, "tokenizer.ggml.token_type", RP_KV_U8, 3, "\1\2\3", 3); /* llama.cpp#26690: u8 read as i32 */
	mm_gguf_array(&g, "big", RP_KV_U64, 1, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	mm_gguf_array(&g, "empty", RP_KV_F32, 0, "", 0);
	rp_buf b;
	mm_gguf_build(&g, &b);
	rp_model *m;
	rp_error e = { 0 };
	uint64_t u = 77, n;
	double d;
	bool flag;
	int64_t i;
	rp_str s;
	const rp_str *strings;
	assert_int_equal(parse(&b, &m, &e), RP_OK);
	assert_int_equal(rp_kv_u64(m, "absent", &u, &e), RP_NOT_FOUND);
	assert_string_equal(e.msg, ""); /* untouched */
	assert_int_equal(rp_kv_u64(m, "f", &u, &e), RP_FORMAT);
	assert_non_null(strstr(e.msg, "'f' is of type f32, expected an integer"));
	assert_int_equal(rp_kv_u64(m, "negative", &u, &e), RP_FORMAT);
	assert_int_equal(u, 77);
	assert_int_equal(rp_kv_f64(m, "nan", &d, &e), RP_FORMAT);
	assert_int_equal(rp_kv_bool(m, "f", &flag, &e), RP_FORMAT);
	assert_int_equal(rp_kv_str(m, "f", &s, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_str(m, "tokenizer.ggml.token_type", &strings, &n, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_i64(m, "tokenizer.ggml.token_type", 2, &i, &e), RP_OK);
	assert_int_equal(i, 3);
	assert_int_equal(rp_kv_array_i64(m, "tokenizer.ggml.token_type", 3, &i, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_i64(m, "big", 0, &i, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_i64(m, "empty", 0, &i, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_i64(m, "f", 0, &i, &e), RP_FORMAT);
	assert_int_equal(rp_kv_array_f64(m, "general.architecture", 0, &d, &e), RP_FORMAT);
	rp_model_close(m);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

static void malformed_keys_are_refused(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_u32(&g, "general.architecture", 1);
	expect_of(&g, RP_FORMAT, "'general.architecture' is there twice");
	start(&g);
	mm_gguf_key(&g, "k", 13, "", 0);
	expect_of(&g, RP_FORMAT, "unknown type 13");
	start(&g);
	mm_gguf_array(&g, "k", 99, 1, "\0\0\0\0", 4);
	expect_of(&g, RP_FORMAT, "unknown type 99");
	start(&g);
	mm_gguf_array(&g, "k", RP_KV_ARRAY, 1, "", 0);
	expect_of(&g, RP_UNSUPPORTED, "array of arrays");
	start(&g);
	mm_gguf_key(&g, "k", RP_KV_BOOL, "\2", 1);
	expect_of(&g, RP_FORMAT, "a bool with the value 2");
	start(&g);
	mm_gguf_u32(&g, "\xff\xfe", 1);
	expect_of(&g, RP_FORMAT, "not UTF-8");
	start(&g);
	mm_gguf_u32(&g, "", 1);
	expect_of(&g, RP_FORMAT, "empty");
}

/* CVE-2024-21802 and siblings (ggml#709), ollama#16189, CVE-2025-0315: counts from the header alone. */
static void counts_are_held_against_the_bytes_left(void **state)
{
	(void)state;
	static const uint64_t counts[] = { 3, 1u << 20, 1ull << 32, 1ull << 60, UINT64_MAX };
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		mm_gguf g;
		start(&g);
		g.n_keys = counts[i];
		expect_of(&g, RP_FORMAT, NULL);
		start(&g);
		g.n_tensors = counts[i];
		expect_of(&g, RP_FORMAT, NULL);
		start(&g);
		mm_gguf_array(&g, "k", RP_KV_F64, counts[i], "", 0);
		expect_of(&g, RP_FORMAT, NULL);
		start(&g);
		mm_gguf_array(&g, "k", RP_KV_STRING, counts[i], "", 0);
		expect_of(&g, RP_FORMAT, NULL);
	}
}

/* ggml#1516: a 160-byte file that asks for strings of 1 GiB. */
static void string_lengths_are_held_against_the_bytes_left(void **state)
{
	(void)state;
	static const char lengths[][8] = { "\0\0\0\x40\0\0\0\0", "\xff\xff\xff\xff\xff\xff\xff\xff",
		"\xf8\xff\xff\xff\xff\xff\xff\x7f" };
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		mm_gguf g;
		start(&g);
		mm_gguf_key(&g, "k", RP_KV_STRING, lengths[i], 8);
		expect_of(&g, RP_FORMAT, "truncated");
		start(&g);
		rp_buf_add(&g.infos, lengths[i], 8);
		rp_buf_add(&g.infos, "0123456789012345678901234", 25);
		g.n_tensors = 1;
		expect_of(&g, RP_FORMAT, "truncated");
	}
}

/* ggml#1516 (2^30), GHSA-96jg-mvhq-q7q7 (overflow), CVE-2025-0317 (division by zero). */
static void alignment_is_a_small_power_of_two(void **state)
{
	(void)state;
	static const uint32_t wrong[] = { 0, 3, 48, 1u << 30, 0x80000000u, UINT32_MAX };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		mm_gguf g;
		start(&g);
		mm_gguf_u32(&g, "general.alignment", wrong[i]);
		expect_of(&g, RP_FORMAT, "general.alignment");
	}
	mm_gguf g;
	start(&g);
	mm_gguf_str(&g, "general.alignment", "32");
	expect_of(&g, RP_FORMAT, "general.alignment");
	start(&g);
	g.alignment = 1024;
	mm_gguf_u32(&g, "general.alignment", 1024);
	float x[4] = { 1, 2, 3, 4 };
	mm_gguf_tensor(&g, "a", RP_F32, 1, (uint64_t[]){ 4 }, x);
	mm_gguf_tensor(&g, "b", RP_F32, 1, (uint64_t[]){ 4 }, x);
	expect_of(&g, RP_OK, NULL);
}

/* antirez/gguf-tools#25, zackshen/gguf#15: the count of dimensions indexed an array. */
static void five_dimensions_are_refused(void **state)
{
	(void)state;
	static const uint32_t counts[] = { 5, 9, 1000 };
	for (size_t i = 0; i < 3; i++) {
		mm_gguf g;
		start(&g);
		uint64_t *dims = rp_alloc_array(counts[i], sizeof *dims);
		for (uint32_t k = 0; k < counts[i]; k++)
			dims[k] = 1;
		mm_gguf_info(&g, "w", counts[i], dims, 0, 0);
		expect_of(&g, RP_FORMAT, "at most 4");
		free(dims);
	}
}

/* llama.cpp#18674 (2^42 + 1), zackshen/gguf#15, CVE-2025-53630, CVE-2026-27940, CVE-2026-53923: sizes that wrap. */
static void sizes_that_wrap_are_refused(void **state)
{
	(void)state;
	static const struct {
		uint64_t dims[4];
		uint32_t n, type;
	} cases[] = { { { (1ull << 42) + 1, 1ull << 22 }, 2, 0 }, { { 1ull << 32, 1ull << 32 }, 2, 0 }, { { UINT64_MAX }, 1, 0 },
		{ { 1ull << 62 }, 1, 0 }, { { 1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16 }, 4, 1 }, { { UINT64_MAX - 31, 2 }, 2, 8 },
		{ { UINT64_MAX & ~255ull, 1 }, 2, 12 }, { { 32, UINT64_MAX }, 2, 2 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		mm_gguf g;
		start(&g);
		mm_gguf_info(&g, "w", cases[i].n, cases[i].dims, cases[i].type, 0);
		rp_buf_adds(&g.data, "some data");
		expect_of(&g, RP_FORMAT, "does not fit 63 bits");
	}
}

/* llama.cpp#6885, CVE-2026-7482: data beyond the end of the file. */
static void data_past_the_end_is_refused(void **state)
{
	(void)state;
	static const uint64_t offsets[] = { 32, 1ull << 40, UINT64_MAX - 31, 0x8000000000000000u };
	for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		mm_gguf g;
		start(&g);
		mm_gguf_info(&g, "w", 1, (uint64_t[]){ 16 }, 0, offsets[i]);
		for (int k = 0; k < 64; k++)
			rp_buf_addc(&g.data, 'x');
		expect_of(&g, RP_FORMAT, "past the end of the file");
	}
	mm_gguf g;
	start(&g);
	mm_gguf_info(&g, "w", 1, (uint64_t[]){ 16 }, 0, 16);
	for (int k = 0; k < 96; k++)
		rp_buf_addc(&g.data, 'x');
	expect_of(&g, RP_FORMAT, "multiple of the alignment");
}

static void overlapping_tensors_are_refused(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_info(&g, "a", 1, (uint64_t[]){ 16 }, 0, 0);
	mm_gguf_info(&g, "b", 1, (uint64_t[]){ 16 }, 0, 32);
	for (int k = 0; k < 128; k++)
		rp_buf_addc(&g.data, 'x');
	expect_of(&g, RP_FORMAT, "tensors 'a' and 'b' overlap");
	start(&g);
	mm_gguf_info(&g, "a", 1, (uint64_t[]){ 8 }, 0, 0);
	mm_gguf_info(&g, "b", 1, (uint64_t[]){ 8 }, 0, 0);
	for (int k = 0; k < 128; k++)
		rp_buf_addc(&g.data, 'x');
	expect_of(&g, RP_FORMAT, "overlap");
}

/* promptfoo/modelaudit#1607. */
static void empty_tensors_are_legal(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	float x[8] = { 1 };
	mm_gguf_tensor(&g, "empty", RP_F32, 2, (uint64_t[]){ 0, 7 }, x);
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 8 }, x);
	mm_gguf_tensor(&g, "empty.q", RP_Q4_K, 1, (uint64_t[]){ 0 }, x);
	rp_buf b;
	mm_gguf_build(&g, &b);
	rp_model *m;
	rp_error e;
	float y;
	assert_int_equal(parse(&b, &m, &e), RP_OK);
	const rp_tensor *t = rp_model_find(m, "empty");
	assert_int_equal(t->n_values, 0);
	assert_int_equal(t->n_spans, 0);
	assert_non_null(rp_tensor_map(m, t));
	assert_int_equal(rp_tensor_f32(m, t, &y, &e), RP_OK);
	rp_model_close(m);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

/* llama.cpp#13067: a type byte as an index. */
static void unknown_types_name_the_tensor(void **state)
{
	(void)state;
	static const struct {
		uint32_t id;
		const char *words;
	} cases[] = { { 4, "tensor 'w' has type 4 (unknown)" }, { 10, "type 10 (Q2_K)" }, { 39, "MXFP4" },
		{ 256, "type 256 (unknown)" }, { UINT32_MAX, "unknown" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		mm_gguf g;
		start(&g);
		mm_gguf_info(&g, "w", 1, (uint64_t[]){ 256 }, cases[i].id, 0);
		expect_of(&g, RP_UNSUPPORTED, cases[i].words);
	}
}

static void integer_tensors_are_listed_but_not_read(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_info(&g, "ids", 1, (uint64_t[]){ 3 }, 26, 0);
	rp_buf_adds(&g.data, "123456789012");
	rp_buf b;
	mm_gguf_build(&g, &b);
	rp_model *m;
	rp_error e;
	float y[3];
	char raw[12];
	assert_int_equal(parse(&b, &m, &e), RP_OK);
	const rp_tensor *t = rp_model_find(m, "ids");
	assert_int_equal(t->dtype, RP_OTHER);
	assert_int_equal(rp_tensor_read(m, t, 0, raw, 12, &e), RP_OK);
	assert_memory_equal(raw, "123456789012", 12);
	assert_int_equal(rp_tensor_f32(m, t, y, &e), RP_UNSUPPORTED);
	rp_model_close(m);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

static void malformed_tensor_entries_are_refused(void **state)
{
	(void)state;
	mm_gguf g;
	float x[8] = { 0 };
	start(&g);
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 8 }, x);
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 8 }, x);
	expect_of(&g, RP_FORMAT, "tensor 'w' is there twice");
	start(&g);
	mm_gguf_tensor(&g, "w\xC0\x80", RP_F32, 1, (uint64_t[]){ 8 }, x);
	expect_of(&g, RP_FORMAT, "not UTF-8");
	start(&g);
	mm_gguf_tensor(&g, "", RP_F32, 1, (uint64_t[]){ 8 }, x);
	expect_of(&g, RP_FORMAT, NULL);
	start(&g);
	mm_gguf_info(&g, "w", 1, (uint64_t[]){ 33 }, 8, 0);
	expect_of(&g, RP_FORMAT, "not whole blocks");
	start(&g);
	mm_gguf_info(&g, "w", 0, NULL, 8, 0);
	expect_of(&g, RP_FORMAT, "not whole blocks");
	char long_name[1100];
	memset(long_name, 'n', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	start(&g);
	mm_gguf_tensor(&g, long_name, RP_F32, 1, (uint64_t[]){ 8 }, x);
	expect_of(&g, RP_FORMAT, "a name of 1099 bytes");
}

static void one_part_of_several_is_refused(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	mm_gguf_key(&g, "split.count", RP_KV_U16, "\3\0", 2);
	expect_of(&g, RP_UNSUPPORTED, "one of 3 parts");
	start(&g);
	mm_gguf_key(&g, "split.count", RP_KV_U16, "\1\0", 2);
	expect_of(&g, RP_OK, NULL);
}

/* A header longer than the first read, so that the parse starts again on more of the file. */
static void long_headers_read_whole(void **state)
{
	(void)state;
	mm_gguf g;
	start(&g);
	size_t n = 60000;
	mm_gguf_array(&g, "tokens", RP_KV_STRING, n, "", 0);
	for (size_t i = 0; i < n; i++) {
		char token[64];
		uint64_t len = (uint64_t)snprintf(token, sizeof token, "token number %zu with some length", i);
		rp_buf_add(&g.keys, &len, 8); /* little-endian machines run these tests */
		rp_buf_add(&g.keys, token, len);
	}
	float x[32];
	mm_values(x, 32, 5, 1);
	mm_gguf_tensor(&g, "w", RP_F32, 1, (uint64_t[]){ 32 }, x);
	rp_buf b;
	mm_gguf_build(&g, &b);
	assert_true(b.len > 2 << 20);
	char *folder = mm_temp_folder(), *path = mm_path(folder, "long.gguf");
	mm_write(folder, "long.gguf", b.data, b.len);
	rp_model *m = open_or_fail(path);
	const rp_str *tokens;
	uint64_t count;
	rp_error e;
	float y[32];
	assert_int_equal(rp_kv_array_str(m, "tokens", &tokens, &count, &e), RP_OK);
	assert_int_equal(count, n);
	assert_memory_equal(tokens[n - 1].s, "token number 59999 with some length", tokens[n - 1].n);
	assert_int_equal(rp_tensor_f32(m, rp_model_find(m, "w"), y, &e), RP_OK);
	assert_memory_equal(x, y, sizeof x);
	rp_model_close(m);
	free(path);
	mm_remove_folder(folder);
	rp_buf_free(&b);
	mm_gguf_free(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_the_gguf_package_read_back),
		cmocka_unit_test(tensors_of_the_gguf_package_read_back),
		cmocka_unit_test(both_versions_read),
		cmocka_unit_test(other_versions_and_byte_order_are_refused),
		cmocka_unit_test(every_truncation_is_an_error),
		cmocka_unit_test(keys_of_the_wrong_type_are_named),
		cmocka_unit_test(malformed_keys_are_refused),
		cmocka_unit_test(counts_are_held_against_the_bytes_left),
		cmocka_unit_test(string_lengths_are_held_against_the_bytes_left),
		cmocka_unit_test(alignment_is_a_small_power_of_two),
		cmocka_unit_test(five_dimensions_are_refused),
		cmocka_unit_test(sizes_that_wrap_are_refused),
		cmocka_unit_test(data_past_the_end_is_refused),
		cmocka_unit_test(overlapping_tensors_are_refused),
		cmocka_unit_test(empty_tensors_are_legal),
		cmocka_unit_test(unknown_types_name_the_tensor),
		cmocka_unit_test(integer_tensors_are_listed_but_not_read),
		cmocka_unit_test(malformed_tensor_entries_are_refused),
		cmocka_unit_test(one_part_of_several_is_refused),
		cmocka_unit_test(long_headers_read_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
