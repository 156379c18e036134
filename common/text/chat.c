/* Chat templates by type: messages -> pieces of a prompt. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = { [RP_TEMPLATE_NONE] = "none", [RP_TEMPLATE_QWEN] = "qwen", [RP_TEMPLATE_CHATML] = "chatml",
	[RP_TEMPLATE_LLAMA3] = "llama3", [RP_TEMPLATE_GEMMA4] = "gemma4" };

bool rp_template_by_name(const char *name, rp_template *out)
{
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
		if (strcmp(name, NAMES[i]) == 0) {
			*out = (rp_template)i;
			return true;
		}
	return false;
}

const char *rp_template_name(rp_template t)
{
	return (size_t)t < sizeof NAMES / sizeof *NAMES ? NAMES[t] : "unknown";
}

void rp_chat_format_free(rp_chat_format *f)
{
	free(f->default_system);
	free(f->system_prefix);
	*f = (rp_chat_format){ 0 };
}

/* ---- writing pieces ---- */
typedef struct writer {
	rp_prompt *p;
	size_t cap;
	bool failed;
} writer;

static void piece(writer *w, rp_str text, bool special)
{
	if (text.n == 0 || w->failed)
		return;
	if (w->p->n == w->cap) {
		size_t cap = w->cap != 0 ? w->cap * 2 : 16;
		rp_prompt_piece *grown = rp_grow_array(w->p->pieces, cap, sizeof *grown);
		w->failed = grown == NULL;
		if (w->failed)
			return;
		w->p->pieces = grown;
		w->cap = cap;
	}
	char *copy = rp_arena_strndup(&w->p->arena, text.s, text.n);
	w->failed = copy == NULL;
	if (!w->failed)
		w->p->pieces[w->p->n++] = (rp_prompt_piece){ { copy, text.n }, special };
}

static void markup(writer *w, const char *s)
{
	piece(w, (rp_str){ s, strlen(s) }, true);
}

static void content(writer *w, rp_str s)
{
	piece(w, s, false);
}

/* ---- cutting text ---- */
static rp_str str(const char *s)
{
	return (rp_str){ s, strlen(s) };
}

/* White space as the templates' language trims it: that of Unicode, and the four separators of ASCII. */
static size_t space_at(const char *s, size_t n)
{
	unsigned char c = (unsigned char)s[0];
	if (c < 0x80)
		return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
	uint32_t cp = 0;
	size_t len = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
	if (len > n || len == 4)
		return 0;
	cp = c & (len == 2 ? 0x1F : 0x0F);
	for (size_t i = 1; i < len; i++)
		cp = cp << 6 | ((unsigned char)s[i] & 0x3F);
	return unicode_is_space(cp) ? len : 0;
}

static rp_str trim(rp_str s)
{
	for (size_t len; s.n > 0 && (len = space_at(s.s, s.n)) > 0;) {
		s.s += len;
		s.n -= len;
	}
	while (s.n > 0) {
		size_t from = s.n - 1;
		while (from > 0 && ((unsigned char)s.s[from] & 0xC0) == 0x80)
			from--;
		if (space_at(s.s + from, s.n - from) != s.n - from)
			break;
		s.n = from;
	}
	return s;
}

static rp_str trim_newlines(rp_str s, bool left, bool right)
{
	while (left && s.n > 0 && s.s[0] == '\n') {
		s.s++;
		s.n--;
	}
	while (right && s.n > 0 && s.s[s.n - 1] == '\n')
		s.n--;
	return s;
}

static const char *find(rp_str s, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; s.n >= n && i <= s.n - n; i++)
		if (memcmp(s.s + i, word, n) == 0)
			return s.s + i;
	return NULL;
}

/* What stands behind the last `word`; s itself when there is none. */
static rp_str behind_last(rp_str s, const char *word)
{
	for (const char *p; (p = find(s, word)) != NULL;) {
		p += strlen(word);
		s = (rp_str){ p, s.n - (size_t)(p - s.s) };
	}
	return s;
}

static rp_str before_first(rp_str s, const char *word)
{
	const char *p = find(s, word);
	return p != NULL ? (rp_str){ s.s, (size_t)(p - s.s) } : s;
}

static bool is_role(const rp_message *m, const char *role)
{
	return strcmp(m->role, role) == 0;
}

static bool begins(rp_str s, const char *word)
{
	return s.n >= strlen(word) && memcmp(s.s, word, strlen(word)) == 0;
}

static bool ends(rp_str s, const char *word)
{
	size_t n = strlen(word);
	return s.n >= n && memcmp(s.s + s.n - n, word, n) == 0;
}

/* ---- the types ---- */
typedef struct job {
	const rp_chat_format *f;
	const rp_message *m;
	size_t n;
	bool think;
	rp_error *err;
} job;

static rp_code system_first(const job *j)
{
	for (size_t i = 1; i < j->n; i++)
		if (is_role(&j->m[i], "system"))
			return rp_fail(j->err, RP_PROMPT, "message %zu is a system message; with the template %s it can only be the first", i + 1,
				rp_template_name(j->f->type));
	return RP_OK;
}

/* Thinking of turns before the last question is dropped; that of later ones is written in the template's own form. */
static void qwen_assistant(writer *w, rp_str text, bool later)
{
	rp_str reasoning = { "", 0 };
	if (find(text, "</think>") != NULL) {
		reasoning = trim_newlines(before_first(text, "</think>"), false, true);
		reasoning = trim(trim_newlines(behind_last(reasoning, "<think>"), true, false));
		text = trim_newlines(behind_last(text, "</think>"), true, false);
	}
	markup(w, "<|im_start|>assistant\n");
	if (later) {
		markup(w, "<think>\n");
		content(w, reasoning);
		markup(w, "\n</think>\n\n");
	}
	content(w, text);
	markup(w, "<|im_end|>\n");
}

static rp_code render_qwen(const job *j, writer *w)
{
	size_t last = j->n;
	for (size_t i = 0; i < j->n; i++) {
		rp_str text = trim(str(j->m[i].text));
		if (is_role(&j->m[i], "user") && !(begins(text, "<tool_response>") && ends(text, "</tool_response>")))
			last = i;
	}
	if (last == j->n)
		return rp_fail(j->err, RP_PROMPT, "no user message: the template qwen wants one");
	rp_code code = system_first(j);
	for (size_t i = 0; code == RP_OK && i < j->n; i++) {
		rp_str text = trim(str(j->m[i].text));
		if (is_role(&j->m[i], "assistant")) {
			qwen_assistant(w, text, i > last);
			continue;
		}
		markup(w, is_role(&j->m[i], "system") ? "<|im_start|>system\n" : "<|im_start|>user\n");
		content(w, text);
		markup(w, "<|im_end|>\n");
	}
	markup(w, "<|im_start|>assistant\n");
	markup(w, j->think ? "<think>\n" : "<think>\n\n</think>\n\n");
	return code;
}

static rp_code render_chatml(const job *j, writer *w)
{
	for (size_t i = 0; i < j->n; i++) {
		rp_str text = str(j->m[i].text);
		markup(w, "<|im_start|>");
		markup(w, j->m[i].role);
		markup(w, "\n");
		content(w, j->f->quirks & RP_CHAT_TRIM ? trim(text) : text);
		markup(w, "<|im_end|>\n");
	}
	markup(w, "<|im_start|>assistant\n");
	return RP_OK;
}

static void llama3_turn(writer *w, const char *role, const char *prefix, rp_str text)
{
	markup(w, "<|start_header_id|>");
	markup(w, role);
	markup(w, "<|end_header_id|>\n\n");
	if (prefix != NULL)
		markup(w, prefix);
	content(w, text);
	markup(w, "<|eot_id|>");
}

static rp_code render_llama3(const job *j, writer *w)
{
	const char *prefix = j->f->system_prefix;
	markup(w, "<|begin_of_text|>");
	if (prefix != NULL && !is_role(&j->m[0], "system"))
		llama3_turn(w, "system", prefix, (rp_str){ "", 0 });
	for (size_t i = 0; i < j->n; i++)
		llama3_turn(w, j->m[i].role, i == 0 && is_role(&j->m[0], "system") ? prefix : NULL, trim(str(j->m[i].text)));
	markup(w, "<|start_header_id|>assistant<|end_header_id|>\n\n");
	return RP_OK;
}

/* Without its thoughts: of every stretch that ends in <channel|>, what stands before <|channel>. */
static rp_str gemma_answer(writer *w, rp_str text)
{
	rp_buf b;
	rp_buf_init(&b, 0);
	for (rp_str rest = text; rest.n > 0;) {
		const char *end = find(rest, "<channel|>");
		rp_str part = { rest.s, end != NULL ? (size_t)(end - rest.s) : rest.n };
		rp_str keep = before_first(part, "<|channel>");
		rp_buf_add(&b, keep.s, keep.n);
		size_t used = end != NULL ? part.n + strlen("<channel|>") : rest.n;
		rest = (rp_str){ rest.s + used, rest.n - used };
	}
	char *copy = b.len != 0 ? rp_arena_strndup(&w->p->arena, b.data, b.len) : NULL;
	w->failed |= b.failed || (copy == NULL && b.len != 0);
	rp_str s = { copy != NULL ? copy : "", copy != NULL ? b.len : 0 };
	rp_buf_free(&b);
	return trim(s);
}

static rp_code render_gemma4(const job *j, writer *w)
{
	bool system = is_role(&j->m[0], "system");
	rp_code code = system_first(j);
	markup(w, "<bos>");
	if (system || j->think) {
		markup(w, "<|turn>system\n");
		if (j->think)
			markup(w, j->f->quirks & RP_CHAT_THINK_INLINE ? "<|think|>" : "<|think|>\n");
		if (system)
			content(w, trim(str(j->m[0].text)));
		markup(w, "<turn|>\n");
	}
	for (size_t i = system; i < j->n; i++) {
		bool model = is_role(&j->m[i], "assistant");
		markup(w, model ? "<|turn>model\n" : "<|turn>user\n");
		content(w, model ? gemma_answer(w, str(j->m[i].text)) : trim(str(j->m[i].text)));
		markup(w, "<turn|>\n");
	}
	markup(w, "<|turn>model\n");
	if (!j->think && !(j->f->quirks & RP_CHAT_NO_EMPTY_THOUGHT))
		markup(w, "<|channel>thought\n<channel|>");
	return code;
}

static rp_code render_none(const job *j, writer *w)
{
	for (size_t i = 0; i < j->n; i++)
		markup(w, j->m[i].text);
	w->p->bos = true;
	return RP_OK;
}

static rp_code check_messages(const job *j)
{
	if (j->n == 0)
		return rp_fail(j->err, RP_PROMPT, "the prompt is empty: there is no message");
	for (size_t i = 0; i < j->n; i++) {
		char shown[60];
		size_t n = strlen(j->m[i].text), valid = rp_utf8_valid(j->m[i].text, n);
		if (!is_role(&j->m[i], "system") && !is_role(&j->m[i], "user") && !is_role(&j->m[i], "assistant"))
			return rp_fail(j->err, RP_PROMPT, "message %zu has the role \"%s\"; expected system, user or assistant", i + 1,
				rp_show(shown, sizeof shown, j->m[i].role, strlen(j->m[i].role)));
		if (valid != n)
			return rp_fail(j->err, RP_PROMPT, "message %zu is not UTF-8: byte %zu (0x%02x) does not belong there", i + 1, valid,
				(unsigned)(unsigned char)j->m[i].text[valid]);
	}
	return RP_OK;
}

static rp_code render(const job *j, writer *w)
{
	switch (j->f->type) {
	case RP_TEMPLATE_NONE:
		return render_none(j, w);
	case RP_TEMPLATE_QWEN:
		return render_qwen(j, w);
	case RP_TEMPLATE_CHATML:
		return render_chatml(j, w);
	case RP_TEMPLATE_LLAMA3:
		return render_llama3(j, w);
	case RP_TEMPLATE_GEMMA4:
		return render_gemma4(j, w);
	}
	return rp_fail(j->err, RP_INTERNAL, "chat template number %d", (int)j->f->type);
}

/* The messages with the default system text before them. */
static rp_message *with_default(const rp_chat_format *f, const rp_message *messages, size_t n)
{
	rp_message *all = rp_alloc_array(n + 1, sizeof *all);
	if (all != NULL) {
		all[0] = (rp_message){ "system", f->default_system };
		memcpy(all + 1, messages, n * sizeof *all);
	}
	return all;
}

rp_code rp_chat_render(const rp_chat_format *f, const rp_message *messages, size_t n, rp_thinking thinking, rp_prompt *out,
	rp_error *err)
{
	job j = { f, messages, n, thinking == RP_THINK_ON || (thinking == RP_THINK_DEFAULT && f->think_default), err };
	rp_prompt p = { 0 };
	writer w = { .p = &p };
	rp_message *own = NULL;
	rp_arena_init(&p.arena, 0);
	rp_code code = check_messages(&j);
	if (code == RP_OK && thinking == RP_THINK_ON && f->type != RP_TEMPLATE_QWEN && f->type != RP_TEMPLATE_GEMMA4)
		code = rp_fail(err, RP_USAGE, "the chat template %s has no thinking to turn on", rp_template_name(f->type));
	if (code == RP_OK && f->default_system != NULL && f->type != RP_TEMPLATE_NONE && !is_role(&messages[0], "system")) {
		own = with_default(f, messages, n);
		j.m = own;
		j.n = n + 1;
		if (own == NULL)
			code = rp_no_memory(err, n, "the prompt");
	}
	if (code == RP_OK)
		code = render(&j, &w);
	if (code == RP_OK && w.failed)
		code = rp_no_memory(err, p.arena.used, "the prompt");
	free(own);
	if (code == RP_OK)
		*out = p;
	else
		rp_prompt_free(&p);
	return code;
}

void rp_prompt_free(rp_prompt *p)
{
	free(p->pieces);
	rp_arena_free(&p->arena);
	*p = (rp_prompt){ 0 };
}
