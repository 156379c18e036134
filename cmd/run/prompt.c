#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROMPT = 64 << 20 };

static rp_code too_long(rp_error *err, const char *name)
{
	return rp_fail(err, RP_CONTEXT, "%s: a prompt of more than %d MiB fits no context", name, MAX_PROMPT >> 20);
}

static rp_code read_stdin(rp_buf *text, rp_error *err)
{
	for (;;) {
		char chunk[1 << 16];
		if (!rp_wait_readable(STDIN_FILENO))
			return rp_fail(err, RP_CANCELLED, "stopped while reading the prompt");
		ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
		if (n == 0)
			return RP_OK;
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return rp_fail_errno(err, RP_READ, errno, "standard input: cannot read the prompt");
		if (text->len + (size_t)n > MAX_PROMPT)
			return too_long(err, "standard input");
		if (!rp_buf_add(text, chunk, (size_t)n))
			return rp_no_memory(err, text->len, "the prompt");
	}
}

static rp_code read_prompt_file(const char *path, rp_buf *text, rp_error *err)
{
	char *data;
	size_t n;
	rp_code code = rp_read_file(path, MAX_PROMPT, &data, &n, err);
	if (code == RP_FORMAT)
		return too_long(err, path);
	if (code != RP_OK)
		return rp_error_prefix(err, code, "prompt: ");
	bool added = rp_buf_add(text, data != NULL ? data : "", n);
	free(data);
	return added ? RP_OK : rp_no_memory(err, n, "the prompt");
}

/* One more text after those already there, a newline between; shells and editors end files with a newline nobody meant. */
static rp_code append(rp_buf *text, const char *file, rp_error *err)
{
	if (text->len > 0 && !rp_buf_addc(text, '\n'))
		return rp_no_memory(err, text->len, "the prompt");
	size_t before = text->len;
	rp_code code = strcmp(file, "-") == 0 ? read_stdin(text, err) : read_prompt_file(file, text, err);
	if (code == RP_OK && text->len > before && text->data[text->len - 1] == '\n')
		text->data[--text->len] = '\0';
	return code;
}

rp_code run_read_prompt(run_state *r, rp_buf *text, rp_error *err)
{
	const run_opts *o = &r->o;
	bool from_file = o->file != NULL && strcmp(o->file, "-") != 0, from_stdin = r->stdin_wanted || (o->file != NULL && !from_file);
	if (o->prompt == NULL && o->file == NULL && !from_stdin) {
		if (isatty(STDIN_FILENO))
			return rp_fail(err, RP_USAGE, "no prompt: give it with -p TEXT, with -f FILE or through a pipe (reploid-run --help)");
		from_stdin = true;
	}
	rp_code code = RP_OK;
	if (o->prompt != NULL && !rp_buf_adds(text, o->prompt))
		code = rp_no_memory(err, strlen(o->prompt), "the prompt");
	if (code == RP_OK && from_file)
		code = append(text, o->file, err);
	if (code == RP_OK && from_stdin)
		code = append(text, "-", err);
	if (code != RP_OK)
		return code;
	if (text->len == 0)
		return rp_fail(err, RP_PROMPT, "the prompt is empty");
	size_t valid = rp_utf8_valid(text->data, text->len);
	if (valid != text->len)
		return rp_fail(err, RP_PROMPT, "the prompt is not UTF-8: byte %zu (0x%02x) begins no character; convert it first, "
			"for example with iconv", valid, (unsigned)(unsigned char)text->data[valid]);
	return RP_OK;
}

/* One id and the spaces around it; *next is the comma or the end after it. False when no number stands there. */
static bool parse_id(const char *c, const char **next, uint64_t *id)
{
	char *end;
	c += strspn(c, " ");
	if (*c < '0' || *c > '9')
		return false;
	*id = strtoull(c, &end, 10); /* too large a number becomes UINT64_MAX, which no vocabulary holds */
	end += strspn(end, " ");
	*next = end;
	return *end == ',' || *end == '\0';
}

rp_code run_parse_ids(const char *text, uint32_t vocab, rp_ids *out, rp_error *err)
{
	size_t n = 0, most = 1;
	for (const char *c = text; *c != '\0'; c++)
		most += *c == ',';
	uint32_t *ids = rp_alloc_array(most, sizeof *ids);
	if (ids == NULL)
		return rp_no_memory(err, most * sizeof *ids, "the prompt's ids");
	rp_code code = RP_OK, wrong = *text == '\0' ? RP_PROMPT : RP_USAGE;
	for (const char *c = text, *next = c;; c = next + 1) {
		uint64_t id;
		char shown[40];
		if (!parse_id(c, &next, &id))
			code = rp_fail(err, wrong, "--prompt-ids: expected whole numbers with commas between, found '%s'",
				rp_show(shown, sizeof shown, c, strlen(c)));
		else if (id >= vocab)
			code = rp_fail(err, RP_PROMPT, "--prompt-ids: id %llu is outside the vocabulary, 0 to %u", (unsigned long long)id,
				vocab - 1);
		else
			ids[n++] = (uint32_t)id;
		if (code != RP_OK || *next == '\0')
			break;
	}
	if (code != RP_OK)
		free(ids);
	else
		*out = (rp_ids){.v = ids, .n = n};
	return code;
}

static rp_code choose_format(run_state *r, rp_error *err)
{
	const run_opts *o = &r->o;
	rp_code code = RP_OK;
	if (o->raw || o->template_type >= 0) {
		/* A named type replaces the file's; if the file has the same type, its default system text still counts. */
		rp_template named = run_template(o);
		if (named == RP_TEMPLATE_NONE || rp_chat_format_of_model(r->model, &r->chat, NULL) != RP_OK || r->chat.type != named) {
			rp_chat_format_free(&r->chat);
			r->chat = (rp_chat_format){.type = named};
		}
	} else {
		code = rp_chat_format_of_model(r->model, &r->chat, err);
	}
	if (code == RP_OK && r->chat.type == RP_TEMPLATE_NONE && o->system != NULL)
		return rp_fail(err, RP_USAGE, "--system needs a chat template; with --raw or --template none write it into the prompt itself");
	if (code == RP_OK && o->system != NULL && *o->system == '\0') {
		free(r->chat.default_system);
		r->chat.default_system = NULL;
	}
	return code;
}

static rp_code render_and_encode(run_state *r, const char *text, rp_error *err)
{
	rp_message messages[2];
	size_t n = 0;
	if (r->o.system != NULL && *r->o.system != '\0')
		messages[n++] = (rp_message){.role = "system", .text = r->o.system};
	messages[n++] = (rp_message){.role = "user", .text = text};
	rp_prompt prompt = {0};
	rp_code code = rp_chat_render(&r->chat, messages, n, run_thinking(&r->o), &prompt, err);
	if (code != RP_OK)
		return code;
	for (size_t i = 0; i < prompt.n; i++)
		rp_buf_add(&r->prompt_text, prompt.pieces[i].text.s, prompt.pieces[i].text.n);
	code = r->prompt_text.failed ? rp_no_memory(err, r->prompt_text.len, "the prompt") :
		rp_prompt_encode(r->tokenizer, &prompt, &r->ids, err);
	rp_prompt_free(&prompt);
	return code;
}

rp_code run_make_prompt(run_state *r, const rp_buf *text, rp_error *err)
{
	if (r->o.prompt_ids != NULL)
		return run_parse_ids(r->o.prompt_ids, r->graph->config.vocab, &r->ids, err);
	if (r->tokenizer == NULL)
		return rp_fail(err, RP_MODEL, "%s: the model has no tokenizer (tokenizer.json, or tokenizer.ggml.* keys); "
			"only --prompt-ids can be used", rp_model_path(r->model));
	if (r->o.system != NULL && rp_utf8_valid(r->o.system, strlen(r->o.system)) != strlen(r->o.system))
		return rp_fail(err, RP_PROMPT, "the system message is not UTF-8");
	if (memchr(text->data, 0, text->len) != NULL)
		return rp_fail(err, RP_PROMPT, "the prompt has a NUL byte (at %zu): is it a text file?", strlen(text->data));
	rp_code code = choose_format(r, err);
	return code == RP_OK ? render_and_encode(r, text->data, err) : code;
}
