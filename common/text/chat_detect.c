/* Which type of chat template a model's files ask for. The template is read, never run: it is taken for a type when the marks
 * of that type are there and no mark, variable or form that the type does not have. Anything else is refused. */
#include "internal.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE = 1 << 20, MAX_CONFIG = 64 << 20 };

#define HOW_TO_NAME "name one with --template qwen, chatml, llama3 or gemma4, or give the prompt as it is with --raw"

/* The template with "\n" escapes made newlines and 'a' + 'b' joined, so that one search finds a text however it is written. */
static char *flatten(rp_str s)
{
	char *out = rp_alloc(s.n + 1);
	size_t n = 0;
	for (size_t i = 0; out != NULL && i < s.n;) {
		char c = s.s[i];
		if (c == '\\' && i + 1 < s.n && s.s[i + 1] == 'n') {
			out[n++] = '\n';
			i += 2;
			continue;
		}
		size_t k = i + 1;
		while (k < s.n && s.s[k] == ' ')
			k++;
		if ((c == '\'' || c == '"') && k < s.n && s.s[k] == '+') {
			for (k++; k < s.n && s.s[k] == ' ';)
				k++;
			if (k < s.n && s.s[k] == c) {
				i = k + 1;
				continue;
			}
		}
		out[n++] = c;
		i++;
	}
	return out;
}

static bool has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

static rp_code unknown(const char *from, const char *why, rp_error *err)
{
	return rp_fail(err, RP_TEMPLATE, "%s: its chat template is none this build knows (%s); " HOW_TO_NAME, from, why);
}

typedef struct kind {
	rp_template type;
	const char *needs[6]; /* texts of the flattened template */
	const char *marks;    /* the marks <|...|>, <|...>, <...|> it may have, each between spaces */
	const char *not[8];   /* texts that mean another form */
} kind;

#define QWEN_MARKS "<|im_start|> <|im_end|> <|endoftext|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "

static const kind KINDS[] = {
	{ RP_TEMPLATE_QWEN,
		{ "<|im_start|>assistant\n", "<|im_end|>\n", "enable_thinking is ", "'<think>\n'", "'<think>\n\n</think>\n\n'", "|trim" },
		QWEN_MARKS, { "reasoning_effort", "bos_token", "eos_token" } },
	{ RP_TEMPLATE_CHATML, { "<|im_start|>assistant\n", "<|im_end|>\n", "add_generation_prompt" }, QWEN_MARKS,
		{ "think>", "enable_thinking", "reasoning", "bos_token", "eos_token", "strftime_now" } },
	{ RP_TEMPLATE_LLAMA3, { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>" },
		"<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|> ",
		{ "think>", "enable_thinking", "reasoning", "eos_token", "knowledge_cutoff" } },
	{ RP_TEMPLATE_GEMMA4, { "<|turn>model\n", "<turn|>\n", "<|turn>", "enable_thinking" },
		"<|turn> <turn|> <|think|> <|channel> <channel|> <|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> "
		"<|\"|> <|image|> <|audio|> <|video|> ",
		{ "reasoning_effort", "eos_token" } },
};

/* True when every mark of the template is in the list. */
static bool marks_known(const char *text, const char *list, char bad[64])
{
	for (const char *p = text; (p = strchr(p, '<')) != NULL; p++) {
		size_t n = 1;
		while (n < 60 && p[n] != '\0' && p[n] != '>' && p[n] != '<' && p[n] != ' ' && p[n] != '\n' && p[n] != '{')
			n++;
		if (p[n] != '>' || n < 3 || (p[1] != '|' && p[n - 1] != '|'))
			continue;
		char mark[64];
		memcpy(mark, p, n + 1);
		memcpy(mark + n + 1, " ", 2);
		if (strstr(list, mark) == NULL) {
			mark[n + 1] = '\0';
			memcpy(bad, mark, n + 2);
			return false;
		}
	}
	return true;
}

/* Text of a system message that stands in the template literally: behind "<|im_start|>system\n", up to the mark's end, inside
 * of one string or outside of all. *out is NULL when there is none. False: there are two that differ. */
static bool literal_system(const char *text, char **out)
{
	static const char head[] = "<|im_start|>system\n", tail[] = "<|im_end|>";
	*out = NULL;
	for (const char *p = text; (p = strstr(p, head)) != NULL;) {
		char quote = p > text ? p[-1] : '\0';
		const char *from = p + strlen(head), *end = strstr(from, tail);
		p = from;
		if (end == NULL || end == from)
			continue;
		bool quoted = quote == '\'' || quote == '"', open = true;
		rp_buf b;
		rp_buf_init(&b, 0);
		for (const char *q = from; q < end && open; q++) {
			if (quoted && *q == '\\' && q + 1 < end)
				q++;
			else if (quoted ? *q == quote : q[0] == '{' && (q[1] == '{' || q[1] == '%'))
				open = false;
			rp_buf_addc(&b, *q);
		}
		bool differs = open && *out != NULL && strcmp(*out, b.data) != 0;
		if (open && *out == NULL)
			*out = rp_buf_take(&b, NULL);
		rp_buf_free(&b);
		if (differs)
			return false;
	}
	return true;
}

static rp_code details(const char *from, const char *text, rp_chat_format *f, rp_error *err)
{
	/* what thinking is when nobody says: the branch that a comparison leaves for "undefined" */
	const char *last = text;
	for (const char *p = text; (p = strstr(p, "add_generation_prompt")) != NULL; p++)
		last = p;
	if (f->type == RP_TEMPLATE_QWEN) {
		bool off = has(last, "enable_thinking is true"), on = has(last, "enable_thinking is false");
		if (off == on)
			return unknown(from, "it does not say what thinking is by default", err);
		f->think_default = on;
	}
	if (f->type == RP_TEMPLATE_CHATML) {
		if (!literal_system(text, &f->default_system))
			return unknown(from, "two default system texts", err);
		f->quirks |= has(text, "| trim") || has(text, "|trim") || has(text, ".strip()") ? RP_CHAT_TRIM : 0u;
	}
	if (f->type == RP_TEMPLATE_LLAMA3 && has(text, "Cutting Knowledge Date: December 2023\n") && has(text, "26 Jul 2024")) {
		/* the date the template itself falls back on: the day's own would make one prompt two */
		f->system_prefix = rp_strdup("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
		if (f->system_prefix == NULL)
			return rp_no_memory(err, 64, "a chat template");
	} else if (f->type == RP_TEMPLATE_LLAMA3 && (has(text, "Knowledge") || has(text, "date_string"))) {
		return unknown(from, "its system text is of another kind", err);
	}
	if (f->type == RP_TEMPLATE_GEMMA4) {
		f->quirks |= has(text, "<|think|>\n") ? 0u : RP_CHAT_THINK_INLINE;
		f->quirks |= has(last, "<|channel>thought\n<channel|>") ? 0u : RP_CHAT_NO_EMPTY_THOUGHT;
	}
	return RP_OK;
}

/* Recognise the text of a template. from: for messages. */
static rp_code recognise(const char *from, rp_str template, rp_chat_format *out, rp_error *err)
{
	char bad[64] = "", why[100] = "no marks of a known kind";
	rp_chat_format f = { 0 };
	if (template.n > MAX_TEMPLATE || rp_utf8_valid(template.s, template.n) != template.n ||
		(template.n > 0 && memchr(template.s, '\0', template.n) != NULL))
		return rp_fail(err, RP_FORMAT, "%s: its chat template is no text, or longer than %d bytes", from, MAX_TEMPLATE);
	char *text = flatten(template);
	if (text == NULL)
		return rp_no_memory(err, template.n, "a chat template");
	for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS && f.type == RP_TEMPLATE_NONE; i++) {
		const kind *k = &KINDS[i];
		bool fits = true;
		for (size_t n = 0; n < 6 && k->needs[n] != NULL; n++)
			fits &= has(text, k->needs[n]);
		if (!fits)
			continue;
		if (!marks_known(text, k->marks, bad)) {
			snprintf(why, sizeof why, "near %s, but with the mark %s", rp_template_name(k->type), bad);
			continue;
		}
		for (size_t n = 0; n < 8 && k->not[n] != NULL && fits; n++)
			if (has(text, k->not[n])) {
				snprintf(why, sizeof why, "near %s, but with \"%s\"", rp_template_name(k->type), k->not[n]);
				fits = false;
			}
		if (fits)
			f.type = k->type;
	}
	rp_code code = f.type == RP_TEMPLATE_NONE ? unknown(from, why, err) : details(from, text, &f, err);
	free(text);
	if (code == RP_OK)
		*out = f;
	else
		rp_chat_format_free(&f);
	return code;
}

/* ---- where the text is ---- */
static rp_code absent(const rp_model *m, const char *where, rp_error *err)
{
	return rp_fail(err, RP_TEMPLATE, "%s: it carries no chat template (%s); " HOW_TO_NAME, rp_model_path(m), where);
}

static rp_code of_gguf(const rp_model *m, rp_chat_format *out, rp_error *err)
{
	rp_str text;
	rp_code code = rp_kv_str(m, "tokenizer.chat_template", &text, err);
	if (code == RP_NOT_FOUND)
		return absent(m, "key 'tokenizer.chat_template' is missing", err);
	return code == RP_OK ? recognise(rp_model_path(m), text, out, err) : code;
}

static rp_code of_manifest(const rp_model *m, rp_chat_format *out, rp_error *err)
{
	const cJSON *inference = cJSON_GetObjectItemCaseSensitive(rp_model_json(m), "inference");
	const cJSON *chat = cJSON_GetObjectItemCaseSensitive(inference, "chatTemplate");
	const cJSON *type = cJSON_GetObjectItemCaseSensitive(chat, "type"), *thinking = cJSON_GetObjectItemCaseSensitive(chat, "thinking");
	char shown[60];
	if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(chat, "enabled")) || !cJSON_IsString(type))
		return absent(m, "inference.chatTemplate is not enabled or has no type", err);
	if (thinking != NULL && !cJSON_IsBool(thinking) && !cJSON_IsNull(thinking))
		return rp_fail(err, RP_FORMAT, "%s: inference.chatTemplate.thinking is neither true nor false", rp_model_path(m));
	rp_chat_format f = { 0 };
	if (!rp_template_by_name(type->valuestring, &f.type) || f.type == RP_TEMPLATE_NONE)
		return rp_fail(err, RP_TEMPLATE, "%s: inference.chatTemplate.type \"%s\" is not known to this build; " HOW_TO_NAME,
			rp_model_path(m), rp_show(shown, sizeof shown, type->valuestring, strlen(type->valuestring)));
	f.think_default = cJSON_IsTrue(thinking);
	*out = f;
	return RP_OK;
}

/* chat_template of tokenizer_config.json: one text, or a list of named ones of which "default" counts. */
static const char *template_in(const cJSON *config)
{
	const cJSON *t = cJSON_GetObjectItemCaseSensitive(config, "chat_template");
	if (cJSON_IsString(t))
		return t->valuestring;
	for (const cJSON *e = cJSON_IsArray(t) ? t->child : NULL; e != NULL; e = e->next) {
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(e, "name"), *text = cJSON_GetObjectItemCaseSensitive(e, "template");
		if (cJSON_IsString(name) && strcmp(name->valuestring, "default") == 0 && cJSON_IsString(text))
			return text->valuestring;
	}
	return NULL;
}

static rp_code of_config(const rp_model *m, const char *path, rp_chat_format *out, rp_error *err)
{
	char *text = NULL;
	size_t n = 0;
	cJSON *config = NULL;
	rp_code code = rp_read_file(path, MAX_CONFIG, &text, &n, err);
	if (code == RP_OK)
		code = rp_json_parse(path, text, n, &config, err);
	if (code == RP_OK) {
		const char *t = template_in(config);
		code = t != NULL ? recognise(path, (rp_str){ t, strlen(t) }, out, err)
		                 : absent(m, "tokenizer_config.json has no chat_template", err);
	}
	cJSON_Delete(config);
	free(text);
	return code;
}

static rp_code of_folder(const rp_model *m, rp_chat_format *out, rp_error *err)
{
	char *path = rp_model_sibling(m, "chat_template.jinja"), *text = NULL;
	size_t n = 0;
	rp_code code;
	if (path != NULL) {
		code = rp_read_file(path, MAX_TEMPLATE, &text, &n, err);
		if (code == RP_OK)
			code = recognise(path, (rp_str){ text, n }, out, err);
		free(text);
	} else {
		path = rp_model_sibling(m, "tokenizer_config.json");
		code = path != NULL ? of_config(m, path, out, err)
		                    : absent(m, "there is neither chat_template.jinja nor tokenizer_config.json beside it", err);
	}
	free(path);
	return code;
}

rp_code rp_chat_format_of_model(const rp_model *m, rp_chat_format *out, rp_error *err)
{
	switch (rp_model_format(m)) {
	case RP_FORMAT_GGUF:
		return of_gguf(m, out, err);
	case RP_FORMAT_RDRR:
		return of_manifest(m, out, err);
	case RP_FORMAT_SAFETENSORS:
		return of_folder(m, out, err);
	}
	return rp_fail(err, RP_INTERNAL, "model format %d", (int)rp_model_format(m));
}

rp_code rp_chat_format_of_text(const char *name, const char *text, size_t n, rp_chat_format *out, rp_error *err)
{
	return recognise(name, (rp_str){ text, n }, out, err);
}
