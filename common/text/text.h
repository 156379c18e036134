/* text: tokenizers, chat templates, and the decoder that turns a stream of ids into a stream of whole characters.
 *
 * A tokenizer gives the ids the reference library (Hugging Face tokenizers) gives for the same file. It is immutable after
 * loading and may be used from many threads.
 */
#ifndef RP_TEXT_H
#define RP_TEXT_H

#include "base/base.h"
#include "model/model.h"

typedef struct rp_tokenizer rp_tokenizer;

/* From the model's tokenizer.json, or from GGUF metadata. RP_NOT_FOUND when the model carries no tokenizer, RP_FORMAT when it is
 * malformed, RP_UNSUPPORTED when it asks for something this build does not have: the message names it. */
rp_code rp_tokenizer_of_model(const rp_model *m, rp_tokenizer **out, rp_error *err);
rp_code rp_tokenizer_from_json(const char *name, const char *text, size_t n, rp_tokenizer **out, rp_error *err);
rp_code rp_tokenizer_from_gguf(const rp_model *m, rp_tokenizer **out, rp_error *err);
void rp_tokenizer_free(rp_tokenizer *t);

uint32_t rp_tokenizer_vocab(const rp_tokenizer *t); /* highest id + 1 */
const char *rp_tokenizer_digest(const rp_tokenizer *t); /* "sha256:<hex>" of the tokenizer's source */

enum {
	RP_ENCODE_SPECIAL = 1, /* recognise special tokens written in the text (prompt templates do; user text must not); added
	                        * tokens that are not special (Gemma's runs of newlines, Qwen's <think>) are recognised always */
	RP_ENCODE_BOS = 2      /* put BOS first where the model's files ask for it, unless the text already begins with it */
};

typedef struct rp_ids {
	uint32_t *v; /* free() it */
	size_t n;
} rp_ids;

/* Text must be UTF-8 (RP_PROMPT with the byte offset otherwise). out->v is never NULL on success. */
rp_code rp_encode(const rp_tokenizer *t, const char *text, size_t n, unsigned flags, rp_ids *out, rp_error *err);
/* Id of a token by its exact spelling; false when there is none. */
bool rp_token_id(const rp_tokenizer *t, const char *spelling, uint32_t *id);
bool rp_token_is_special(const rp_tokenizer *t, uint32_t id);
bool rp_token_bos(const rp_tokenizer *t, uint32_t *id);
/* Bytes of one token as it decodes in the middle of a text; may be a part of a character. Special tokens give their spelling. */
rp_str rp_token_bytes(const rp_tokenizer *t, uint32_t id);

/* ---- chat templates: by type, never by running a template from a file ---- */
typedef enum rp_template {
	RP_TEMPLATE_NONE, /* raw text */
	RP_TEMPLATE_QWEN,
	RP_TEMPLATE_CHATML,
	RP_TEMPLATE_LLAMA3,
	RP_TEMPLATE_GEMMA4
} rp_template;

typedef enum rp_thinking { RP_THINK_DEFAULT, RP_THINK_OFF, RP_THINK_ON } rp_thinking;

typedef struct rp_message {
	const char *role; /* "system", "user", "assistant" */
	const char *text;
} rp_message;

/* How a model's own template differs from its type. 0 is the plain type: qwen, llama3 and gemma4 trim white space around
 * contents, chatml does not. */
enum {
	RP_CHAT_TRIM = 1,            /* chatml: contents are trimmed */
	RP_CHAT_THINK_INLINE = 2,    /* gemma4: no newline behind <|think|> (its first revision) */
	RP_CHAT_NO_EMPTY_THOUGHT = 4 /* gemma4: thinking off adds nothing behind the model's header (the small sizes) */
};

typedef struct rp_chat_format {
	rp_template type;
	char *default_system; /* text put first when no system message is given; NULL for none; owned */
	char *system_prefix;  /* text before any system text, there even without one (Llama 3.1's dates); NULL for none; owned */
	bool think_default;   /* what RP_THINK_DEFAULT means for this model */
	unsigned quirks;      /* RP_CHAT_* */
} rp_chat_format; /* all zero but type: the plain type, for --template */

bool rp_template_by_name(const char *name, rp_template *out); /* "qwen", "chatml", "llama3", "gemma4", "none" */
const char *rp_template_name(rp_template t);
/* What the model's own files say: RDRR chatTemplate.type, or the text of the template in GGUF or tokenizer_config.json /
 * chat_template.jinja, recognised by content. RP_TEMPLATE with how to name one when absent or unknown; never a guess. */
rp_code rp_chat_format_of_model(const rp_model *m, rp_chat_format *out, rp_error *err);
/* The same from the text of a template; name is for messages. */
rp_code rp_chat_format_of_text(const char *name, const char *text, size_t n, rp_chat_format *out, rp_error *err);
void rp_chat_format_free(rp_chat_format *f);
/* The whole prompt. A person's text cannot forge special tokens: it stays in pieces of its own, and rp_prompt_encode, which
 * tokenizes the pieces as one text, recognises special tokens only inside of the template's pieces. RP_TEMPLATE_NONE joins the
 * contents as they are; who writes raw text writes special tokens too. RP_PROMPT: no message, an unknown role, a system message
 * that is not the first (qwen, gemma4), no user message (qwen). RP_USAGE: RP_THINK_ON with a type that has no thinking. */
typedef struct rp_prompt_piece {
	rp_str text;
	bool special; /* template text, special tokens recognised; false: a person's text, encoded plainly */
} rp_prompt_piece;

typedef struct rp_prompt {
	rp_prompt_piece *pieces;
	size_t n;
	bool bos;       /* raw text, not a whole template: RP_ENCODE_BOS applies */
	rp_arena arena; /* owns the text */
} rp_prompt; /* joining the pieces gives what --show-prompt shows */

rp_code rp_chat_render(const rp_chat_format *f, const rp_message *messages, size_t n, rp_thinking thinking, rp_prompt *out,
	rp_error *err);
rp_code rp_prompt_encode(const rp_tokenizer *t, const rp_prompt *p, rp_ids *out, rp_error *err);
void rp_prompt_free(rp_prompt *p);

/* ---- streaming decoder ---- */
/* Feeds on ids, gives out text that is always whole UTF-8; bytes that can never become a character turn into U+FFFD by the
 * Unicode rule (table 3-8: one for each maximal subpart). Text that may be the beginning of a stop string is held back until it
 * is decided. Of several stop strings the one that is completed first wins, the longest of those completed at once; the text
 * before it is given out, it and what follows are not. Concatenating all output gives the same bytes however the ids are split
 * into calls. */
typedef struct rp_decoder rp_decoder;

rp_code rp_decoder_new(const rp_tokenizer *t, const char *const *stops, size_t n_stops, rp_decoder **out, rp_error *err);
void rp_decoder_free(rp_decoder *d);
/* Append what one more id releases to out. *stopped: a stop string was completed; nothing after it is ever given out.
 * Special tokens give no text unless show_special. */
rp_code rp_decoder_push(rp_decoder *d, uint32_t id, bool show_special, rp_buf *out, bool *stopped, rp_error *err);
/* The stream ended for another reason: give out what was held back. */
rp_code rp_decoder_flush(rp_decoder *d, rp_buf *out, rp_error *err);

#endif
