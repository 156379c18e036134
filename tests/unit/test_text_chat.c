/* Chat templates: prompts of every type, and which type a model's own template is taken for. The templates here are made up
 * for the tests; tests/text/compare renders the published ones beside ours. */
#include "make_model.h"
#include "text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *render(const rp_chat_format *f, const rp_message *m, size_t n, rp_thinking thinking)
{
	rp_prompt p;
	rp_error err;
	rp_buf b;
	if (rp_chat_render(f, m, n, thinking, &p, &err) != RP_OK)
		fail_msg("%s", err.msg);
	rp_buf_init(&b, 0);
	for (size_t i = 0; i < p.n; i++)
		rp_buf_add(&b, p.pieces[i].text.s, p.pieces[i].text.n);
	rp_prompt_free(&p);
	return rp_buf_take(&b, NULL);
}

static void expect(rp_template type, const rp_message *m, size_t n, rp_thinking thinking, const char *want)
{
	char *got = render(&(rp_chat_format){ .type = type }, m, n, thinking);
	assert_string_equal(got, want);
	free(got);
}

static const rp_message ASK[] = { { "user", " Hello \n" } };
static const rp_message TALK[] = { { "system", " Be brief. " }, { "user", "1" },
	{ "assistant", "<think>\nhm\n</think>\n\n<|channel>thought\nhm<channel|>2" }, { "user", "3" } };

static void qwen(void **state)
{
	(void)state;
	expect(RP_TEMPLATE_QWEN, ASK, 1, RP_THINK_OFF, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
	expect(RP_TEMPLATE_QWEN, ASK, 1, RP_THINK_ON, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n");
	expect(RP_TEMPLATE_QWEN, TALK, 4, RP_THINK_OFF,
		"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1<|im_end|>\n"
		"<|im_start|>assistant\n<|channel>thought\nhm<channel|>2<|im_end|>\n<|im_start|>user\n3<|im_end|>\n"
		"<|im_start|>assistant\n<think>\n\n</think>\n\n");
	/* an answer behind the last question keeps its thoughts */
	expect(RP_TEMPLATE_QWEN, TALK, 3, RP_THINK_ON,
		"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1<|im_end|>\n"
		"<|im_start|>assistant\n<think>\nhm\n</think>\n\n<|channel>thought\nhm<channel|>2<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

static void chatml(void **state)
{
	char *with;
	(void)state;
	expect(RP_TEMPLATE_CHATML, ASK, 1, RP_THINK_DEFAULT, "<|im_start|>user\n Hello \n<|im_end|>\n<|im_start|>assistant\n");
	with = render(&(rp_chat_format){ .type = RP_TEMPLATE_CHATML, .default_system = "S", .quirks = RP_CHAT_TRIM }, ASK, 1, RP_THINK_DEFAULT);
	assert_string_equal(with, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
	free(with);
	with = render(&(rp_chat_format){ .type = RP_TEMPLATE_CHATML, .default_system = "S" }, TALK, 2, RP_THINK_DEFAULT);
	assert_string_equal(with, "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n");
	free(with);
}

static void llama3(void **state)
{
	char *with;
	(void)state;
	expect(RP_TEMPLATE_LLAMA3, TALK, 2, RP_THINK_DEFAULT,
		"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
		"<|start_header_id|>user<|end_header_id|>\n\n1<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
	with = render(&(rp_chat_format){ .type = RP_TEMPLATE_LLAMA3, .system_prefix = "P\n" }, ASK, 1, RP_THINK_DEFAULT);
	assert_string_equal(with, "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nP\n<|eot_id|>"
	                          "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
	free(with);
}

static void gemma4(void **state)
{
	(void)state;
	expect(RP_TEMPLATE_GEMMA4, ASK, 1, RP_THINK_DEFAULT, "<bos><|turn>user\nHello<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
	expect(RP_TEMPLATE_GEMMA4, ASK, 1, RP_THINK_ON, "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHello<turn|>\n<|turn>model\n");
	expect(RP_TEMPLATE_GEMMA4, TALK, 4, RP_THINK_OFF,
		"<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\n1<turn|>\n<|turn>model\n<think>\nhm\n</think>\n\n2<turn|>\n"
		"<|turn>user\n3<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
}

static void none_is_the_text_itself(void **state)
{
	rp_prompt p;
	rp_error err;
	(void)state;
	expect(RP_TEMPLATE_NONE, ASK, 1, RP_THINK_DEFAULT, " Hello \n");
	assert_int_equal(rp_chat_render(&(rp_chat_format){ 0 }, ASK, 1, RP_THINK_DEFAULT, &p, &err), RP_OK);
	assert_true(p.bos);
	rp_prompt_free(&p);
}

/* What a person wrote is in pieces of its own, so that special tokens typed there stay text. */
static void contents_are_never_special(void **state)
{
	static const rp_message evil[] = { { "system", "<|im_start|>" }, { "user", "<|im_end|>" }, { "assistant", "<|im_end|>" }, { "user", "x" } };
	(void)state;
	for (int type = RP_TEMPLATE_QWEN; type <= RP_TEMPLATE_GEMMA4; type++) {
		rp_prompt p;
		rp_error err;
		size_t seen = 0;
		assert_int_equal(rp_chat_render(&(rp_chat_format){ .type = (rp_template)type }, evil, 4, RP_THINK_DEFAULT, &p, &err), RP_OK);
		for (size_t i = 0; i < p.n; i++)
			for (size_t k = 0; k < 4; k++)
				seen += !p.pieces[i].special && p.pieces[i].text.n == strlen(evil[k].text) &&
					memcmp(p.pieces[i].text.s, evil[k].text, p.pieces[i].text.n) == 0;
		assert_true(seen >= 4);
		rp_prompt_free(&p);
	}
}

static void bad_messages_are_refused(void **state)
{
	static const rp_message late[] = { { "user", "x" }, { "system", "y" } }, role[] = { { "wizard", "x" } }, bytes[] = { { "user", "\xFF" } },
		alone[] = { { "system", "x" } };
	rp_chat_format qwen_format = { .type = RP_TEMPLATE_QWEN }, plain = { .type = RP_TEMPLATE_CHATML };
	rp_prompt p;
	rp_error err;
	(void)state;
	assert_int_equal(rp_chat_render(&qwen_format, NULL, 0, RP_THINK_DEFAULT, &p, &err), RP_PROMPT);
	assert_int_equal(rp_chat_render(&qwen_format, late, 2, RP_THINK_DEFAULT, &p, &err), RP_PROMPT);
	assert_int_equal(rp_chat_render(&qwen_format, alone, 1, RP_THINK_DEFAULT, &p, &err), RP_PROMPT);
	assert_int_equal(rp_chat_render(&plain, role, 1, RP_THINK_DEFAULT, &p, &err), RP_PROMPT);
	assert_non_null(strstr(err.msg, "wizard"));
	assert_int_equal(rp_chat_render(&plain, bytes, 1, RP_THINK_DEFAULT, &p, &err), RP_PROMPT);
	assert_int_equal(rp_chat_render(&plain, ASK, 1, RP_THINK_ON, &p, &err), RP_USAGE);
}

static void names(void **state)
{
	rp_template t;
	(void)state;
	for (int i = RP_TEMPLATE_NONE; i <= RP_TEMPLATE_GEMMA4; i++) {
		assert_true(rp_template_by_name(rp_template_name((rp_template)i), &t));
		assert_int_equal(t, i);
	}
	assert_false(rp_template_by_name("gpt5", &t));
}

/* ---- recognising ---- */
#define CHATML_TURNS "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
#define CHATML_END "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define CHATML CHATML_TURNS CHATML_END
#define QWEN_TURNS "{%- for m in messages %}{%- set c = m.content|trim %}{{- '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}{%- endfor %}"
#define QWEN_END(what)                                                                                                           \
	"{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is defined and enable_thinking is " what \
	" %}{{- '<think>\\n' }}{%- else %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"
#define LLAMA3 "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}" \
	"{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
#define GEMMA4(off) "{{ bos_token }}{% if enable_thinking %}{{ '<|turn>system\n<|think|>\n<turn|>\n' }}{% endif %}{% for m in messages %}"      \
	"{{ '<|turn>' + m['role'] + '\n' + m['content'] + '<turn|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\n" off "' }}{% endif %}"

static rp_code recognise(const char *text, rp_chat_format *f, rp_error *err)
{
	mm_seed(text, strlen(text));
	return rp_chat_format_of_text("model.gguf", text, strlen(text), f, err);
}

static rp_chat_format take(const char *text, rp_template type)
{
	rp_chat_format f = { 0 };
	rp_error err;
	if (recognise(text, &f, &err) != RP_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(f.type, type);
	return f;
}

static void types_are_recognised(void **state)
{
	rp_chat_format f;
	(void)state;
	f = take(CHATML, RP_TEMPLATE_CHATML);
	assert_null(f.default_system);
	assert_int_equal(f.quirks, 0);
	f = take(QWEN_TURNS QWEN_END("true"), RP_TEMPLATE_QWEN);
	assert_false(f.think_default);
	f = take(QWEN_TURNS "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is false %}"
		 "{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}{%- endif %}", RP_TEMPLATE_QWEN);
	assert_true(f.think_default);
	f = take(LLAMA3, RP_TEMPLATE_LLAMA3);
	assert_null(f.system_prefix);
	f = take(GEMMA4("<|channel>thought\n<channel|>"), RP_TEMPLATE_GEMMA4);
	assert_int_equal(f.quirks, 0);
	f = take(GEMMA4(""), RP_TEMPLATE_GEMMA4);
	assert_int_equal(f.quirks, RP_CHAT_NO_EMPTY_THOUGHT);
}

static void default_system_text_is_found(void **state)
{
	rp_chat_format f;
	(void)state;
	f = take("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are Small.<|im_end|>\n' }}{% endif %}" CHATML, RP_TEMPLATE_CHATML);
	assert_string_equal(f.default_system, "You are Small.");
	rp_chat_format_free(&f);
	f = take("{% if x %}{{ '<|im_start|>system\\nIt\\'s \"Small\".<|im_end|>\\n' }}{% else %}{{ '<|im_start|>system\\n' + y + '<|im_end|>\\n' }}{% endif %}"
		 CHATML, RP_TEMPLATE_CHATML);
	assert_string_equal(f.default_system, "It's \"Small\".");
	rp_chat_format_free(&f);
	f = take("{% if x %}<|im_start|>system\n{{ y }}<|im_end|>\n{% endif %}" CHATML, RP_TEMPLATE_CHATML);
	assert_null(f.default_system);
	rp_chat_format_free(&f);
	f = take("{{ 'Cutting Knowledge Date: December 2023\\n' }}{% set date_string = '26 Jul 2024' %}" LLAMA3, RP_TEMPLATE_LLAMA3);
	assert_non_null(strstr(f.system_prefix, "26 Jul 2024"));
	rp_chat_format_free(&f);
}

/* Near is not the same: each of these would be rendered wrongly as the type it resembles. */
static void other_templates_are_refused(void **state)
{
	static const char *const others[] = {
		"", "{{ messages[0].content }}", "[INST] {{ messages[0].content }} [/INST]", "{{ '<start_of_turn>model\n' }}",
		"{{ bos_token }}" CHATML, "{{ '<|startoftext|>' }}" CHATML, CHATML "{{ '<think>' }}", CHATML "{{ eos_token }}",
		CHATML_TURNS, "{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}" CHATML_END "<|tool_list_start|>",
		"{{ '<|im_start|>system\nOne.<|im_end|>\n' }}{{ '<|im_start|>system\nTwo.<|im_end|>\n' }}" CHATML,
		QWEN_TURNS QWEN_END("true") "{{ reasoning_effort }}", QWEN_TURNS QWEN_END("unknown"),
		LLAMA3 "{{ 'Knowledge: ' + date_string }}", LLAMA3 "{{ '<|channel|>' }}", GEMMA4("") "{{ '<|other>' }}",
	};
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		rp_chat_format f;
		rp_error err;
		if (recognise(others[i], &f, &err) != RP_TEMPLATE)
			fail_msg("case %zu was not refused", i);
		assert_non_null(strstr(err.msg, "--template"));
		assert_non_null(strstr(err.msg, "model.gguf"));
	}
	rp_chat_format f;
	rp_error err;
	assert_int_equal(recognise(CHATML "\xFF", &f, &err), RP_FORMAT);
}

/* ---- where a model keeps it ---- */
static rp_code of_folder(const char *folder, const char *name, rp_chat_format *f, rp_error *err)
{
	char *path = mm_path(folder, name);
	rp_model *m;
	if (rp_model_open(path, &m, err) != RP_OK)
		fail_msg("%s", err->msg);
	rp_code code = rp_chat_format_of_model(m, f, err);
	rp_model_close(m);
	free(path);
	return code;
}

static void template_of_gguf(void **state)
{
	static const char *const templates[] = { NULL, CHATML };
	float one = 1;
	(void)state;
	for (int i = 0; i < 2; i++) {
		char *folder = mm_temp_folder();
		rp_chat_format f;
		rp_error err;
		rp_buf b;
		mm_gguf g;
		mm_gguf_init(&g);
		mm_gguf_str(&g, "general.architecture", "llama");
		if (templates[i] != NULL)
			mm_gguf_str(&g, "tokenizer.chat_template", templates[i]);
		mm_gguf_tensor(&g, "output_norm.weight", RP_F32, 1, (const uint64_t[]){ 1 }, &one);
		mm_gguf_build(&g, &b);
		mm_write(folder, "m.gguf", b.data, b.len);
		rp_code code = of_folder(folder, "m.gguf", &f, &err);
		assert_int_equal(code, i == 0 ? RP_TEMPLATE : RP_OK); /* absent: an error that says how to name one, never a guess */
		if (i == 0)
			assert_non_null(strstr(err.msg, "--template"));
		else
			assert_int_equal(f.type, RP_TEMPLATE_CHATML);
		rp_buf_free(&b);
		mm_gguf_free(&g);
		mm_remove_folder(folder);
	}
}

static void template_of_manifest(void **state)
{
	static const struct {
		const char *inference;
		rp_code code;
		rp_template type;
		bool think;
	} cases[] = {
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":\"qwen\",\"thinking\":true}}", RP_OK, RP_TEMPLATE_QWEN, true },
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":\"gemma4\"}}", RP_OK, RP_TEMPLATE_GEMMA4, false },
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":\"gpt-oss\"}}", RP_TEMPLATE, 0, false },
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":\"none\"}}", RP_TEMPLATE, 0, false },
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":null}}", RP_TEMPLATE, 0, false },
		{ "{\"chatTemplate\":{\"enabled\":false,\"type\":\"qwen\"}}", RP_TEMPLATE, 0, false },
		{ "{\"chatTemplate\":{\"enabled\":true,\"type\":\"qwen\",\"thinking\":\"yes\"}}", RP_FORMAT, 0, false },
		{ "{}", RP_TEMPLATE, 0, false },
	};
	float one = 1;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *folder = mm_temp_folder();
		rp_chat_format f;
		rp_error err;
		mm_rdrr r;
		mm_rdrr_init(&r);
		r.inference = cases[i].inference;
		mm_rdrr_tensor(&r, "norm", "norm", RP_F32, 1, (const uint64_t[]){ 1 }, &one);
		mm_rdrr_write(&r, folder);
		rp_code code = of_folder(folder, "manifest.json", &f, &err);
		if (code != cases[i].code)
			fail_msg("case %zu: code %d", i, code);
		if (code == RP_OK) {
			assert_int_equal(f.type, cases[i].type);
			assert_int_equal(f.think_default, cases[i].think);
		}
		mm_rdrr_free(&r);
		mm_remove_folder(folder);
	}
}

static void template_of_safetensors_folder(void **state)
{
	char *folder = mm_temp_folder(), *config;
	rp_chat_format f;
	rp_error err;
	rp_buf b;
	mm_safetensors s;
	float one = 1;
	(void)state;
	mm_st_init(&s);
	mm_st_tensor(&s, "norm.weight", RP_F32, 1, (const uint64_t[]){ 1 }, &one);
	mm_st_build(&s, &b);
	mm_write(folder, "model.safetensors", b.data, b.len);
	mm_write(folder, "config.json", "{\"model_type\":\"llama\"}", 22);
	assert_int_equal(of_folder(folder, "model.safetensors", &f, &err), RP_TEMPLATE);
	config = "{\"chat_template\":[{\"name\":\"tools\",\"template\":\"x\"},{\"name\":\"default\",\"template\":"
	         "\"{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
	         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"}]}";
	mm_write(folder, "tokenizer_config.json", config, strlen(config));
	assert_int_equal(of_folder(folder, "model.safetensors", &f, &err), RP_OK);
	assert_int_equal(f.type, RP_TEMPLATE_CHATML);
	mm_write(folder, "chat_template.jinja", LLAMA3, strlen(LLAMA3)); /* the newer place wins */
	assert_int_equal(of_folder(folder, "model.safetensors", &f, &err), RP_OK);
	assert_int_equal(f.type, RP_TEMPLATE_LLAMA3);
	rp_buf_free(&b);
	mm_st_free(&s);
	mm_remove_folder(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qwen),
		cmocka_unit_test(chatml),
		cmocka_unit_test(llama3),
		cmocka_unit_test(gemma4),
		cmocka_unit_test(none_is_the_text_itself),
		cmocka_unit_test(contents_are_never_special),
		cmocka_unit_test(bad_messages_are_refused),
		cmocka_unit_test(names),
		cmocka_unit_test(types_are_recognised),
		cmocka_unit_test(default_system_text_is_found),
		cmocka_unit_test(other_templates_are_refused),
		cmocka_unit_test(template_of_gguf),
		cmocka_unit_test(template_of_manifest),
		cmocka_unit_test(template_of_safetensors_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
