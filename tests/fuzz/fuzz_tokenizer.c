/* Tokenizers and chat templates from untrusted files. The input is a GGUF file (by its magic), the text of a chat template
 * (begins with a brace and a percent sign or a second brace), or a tokenizer.json; what follows a JSON text's first NUL byte is
 * encoded with it and decoded again. */
#include <stdlib.h>
#include <string.h>

#include "model/internal.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_TEXT_BYTES = 4096 }; /* a made-up pattern may cost the square of the text: that is bounded, but slow */

/* Every id is one of the vocabulary, the stream is UTF-8 at every step, and the same in one piece. */
static void use(const rp_tokenizer *t, const char *text, size_t n, unsigned flags)
{
	rp_ids ids;
	rp_error err;
	rp_decoder *d;
	rp_buf out;
	bool stopped;
	static const char *const stops[] = { "</s>", "\n\n" };
	n = rp_utf8_valid(text, n < MAX_TEXT_BYTES ? n : MAX_TEXT_BYTES);
	if (rp_encode(t, text, n, flags, &ids, &err) != RP_OK)
		return;
	rp_buf_init(&out, 0);
	if (rp_decoder_new(t, stops, flags & RP_ENCODE_BOS ? 2 : 0, &d, &err) != RP_OK)
		abort();
	for (size_t i = 0; i < ids.n; i++) {
		if (ids.v[i] >= rp_tokenizer_vocab(t))
			abort();
		if (rp_decoder_push(d, ids.v[i], i % 2 == 0, &out, &stopped, &err) != RP_OK || rp_utf8_valid(out.data, out.len) != out.len)
			abort();
	}
	if (rp_decoder_flush(d, &out, &err) != RP_OK || rp_utf8_valid(out.data, out.len) != out.len)
		abort();
	rp_decoder_free(d);
	rp_buf_free(&out);
	free(ids.v);
}

static void use_all(const rp_tokenizer *t, const char *text, size_t n)
{
	uint32_t id;
	use(t, text, n, RP_ENCODE_SPECIAL);
	use(t, text, n, RP_ENCODE_BOS);
	rp_token_bos(t, &id);
	rp_token_id(t, "<s>", &id);
}

static void use_format(rp_chat_format *f)
{
	static const rp_message messages[] = { { "user", "a" }, { "assistant", "<think>b</think><|channel>c<channel|>d" }, { "user", " e " } };
	rp_prompt p;
	rp_error err;
	for (int thinking = RP_THINK_DEFAULT; thinking <= RP_THINK_ON; thinking++)
		if (rp_chat_render(f, messages, 3, (rp_thinking)thinking, &p, &err) == RP_OK)
			rp_prompt_free(&p);
	rp_chat_format_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *text = (const char *)data;
	static const char sample[] = "The fox isn't 12! \xC3\xA9 \xE4\xBD\xA0\n\n  <s>";
	rp_tokenizer *t = NULL;
	rp_chat_format f;
	rp_error err;
	if (n >= 4 && memcmp(data, "GGUF", 4) == 0) {
		rp_model *m = NULL;
		if (rp_model_open_memory(RP_FORMAT_GGUF, data, n, &m, &err) == RP_OK) {
			if (rp_tokenizer_from_gguf(m, &t, &err) == RP_OK)
				use_all(t, sample, sizeof sample - 1);
			if (rp_chat_format_of_model(m, &f, &err) == RP_OK)
				use_format(&f);
		}
		rp_tokenizer_free(t);
		rp_model_close(m);
		return 0;
	}
	if (n >= 2 && text[0] == '{' && (text[1] == '{' || text[1] == '%')) {
		if (rp_chat_format_of_text("template", text, n, &f, &err) == RP_OK)
			use_format(&f);
		return 0;
	}
	const char *nul = n > 0 ? memchr(text, '\0', n) : NULL;
	size_t n_json = nul != NULL ? (size_t)(nul - text) : n;
	if (rp_tokenizer_from_json("tokenizer.json", text, n_json, &t, &err) == RP_OK) {
		use_all(t, sample, sizeof sample - 1);
		if (nul != NULL)
			use_all(t, nul + 1, n - n_json - 1);
	}
	rp_tokenizer_free(t);
	return 0;
}
