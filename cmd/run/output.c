/* What is written: the answer on stdout, talk on stderr. */
#include "run.h"

#include "base/term.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const finish_words[] = {
	[RP_FINISH_STOP] = "stop", [RP_FINISH_LENGTH] = "length", [RP_FINISH_CANCELLED] = "cancelled"};
static char last_byte = '\n'; /* of what was written to stdout */

rp_code run_write(const char *text, size_t n, rp_error *err)
{
	if (n == 0)
		return RP_OK;
	rp_code code = rp_write_fd(STDOUT_FILENO, text, n, "standard output", err);
	if (code == RP_OK)
		last_byte = text[n - 1];
	return code;
}

rp_code run_write_json(const rp_buf *line, const rp_jsonw *w, rp_error *err)
{
	if (!rp_jsonw_ok(w))
		return line->failed ? rp_no_memory(err, line->len, "a line of JSON") :
			rp_fail(err, RP_INTERNAL, "a JSON object was left unfinished");
	return run_write(line->data, line->len, err);
}

/* Text of a model or a file for a terminal: control bytes other than newline and tab could command it, so they become U+FFFD. */
static rp_code write_text(const char *text, size_t n, rp_error *err)
{
	if (!isatty(STDOUT_FILENO))
		return run_write(text, n, err);
	rp_buf safe;
	rp_buf_init(&safe, 0);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool c1 = c == 0xc2 && i + 1 < n && (unsigned char)text[i + 1] < 0xa0; /* U+0080 to U+009F */
		if (c1 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			rp_buf_adds(&safe, "\xef\xbf\xbd");
		else
			rp_buf_addc(&safe, text[i]);
		i += c1;
	}
	rp_code code = safe.failed ? rp_no_memory(err, n, "output") : run_write(safe.data, safe.len, err);
	rp_buf_free(&safe);
	return code;
}

/* A prompt of the shell should not follow the answer on its line; files and pipes get the text alone. */
static rp_code end_line(rp_error *err)
{
	return isatty(STDOUT_FILENO) && last_byte != '\n' ? run_write("\n", 1, err) : RP_OK;
}

/* ---- one object a line ---- */
static void begin(rp_jsonw *w, rp_buf *line, const char *type)
{
	rp_buf_init(line, 0);
	rp_jsonw_init(w, line);
	rp_jsonw_object(w);
	rp_jsonw_key(w, "type");
	rp_jsonw_str(w, type);
}

static rp_code finish(rp_jsonw *w, rp_buf *line, rp_error *err)
{
	rp_jsonw_end(w);
	rp_jsonw_line(w);
	rp_code code = run_write_json(line, w, err);
	rp_buf_free(line);
	return code;
}

/* One of a row of ids, in the form --prompt-ids takes. */
static rp_code write_id(size_t at, uint32_t id, rp_error *err)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%s%u", at > 0 ? "," : "", id);
	return run_write(text, (size_t)n, err);
}

static rp_code write_prompt_text(const run_state *r, rp_error *err)
{
	rp_code code = write_text(r->prompt_text.data, r->prompt_text.len, err);
	for (size_t i = 0; r->o.prompt_ids != NULL && i < r->ids.n && code == RP_OK; i++)
		code = write_id(i, r->ids.v[i], err);
	return code == RP_OK ? end_line(err) : code;
}

rp_code run_write_prompt(const run_state *r, rp_error *err)
{
	if (!r->o.json)
		return write_prompt_text(r, err);
	rp_jsonw w;
	rp_buf line;
	begin(&w, &line, "prompt");
	rp_jsonw_pair_str(&w, "schema", RUN_SCHEMA);
	rp_jsonw_pair_str(&w, "template", rp_template_name(r->chat.type));
	rp_jsonw_key(&w, "text");
	if (r->o.prompt_ids == NULL)
		rp_jsonw_strn(&w, r->prompt_text.data, r->prompt_text.len);
	else
		rp_jsonw_null(&w);
	rp_jsonw_key(&w, "ids");
	rp_jsonw_array(&w);
	for (size_t i = 0; i < r->ids.n; i++)
		rp_jsonw_u64(&w, r->ids.v[i]);
	rp_jsonw_end(&w);
	return finish(&w, &line, err);
}

static void logprobs(rp_jsonw *w, const run_state *r, const rp_token_event *event)
{
	rp_jsonw_key(w, "logprob");
	rp_jsonw_f32(w, event->logprob);
	rp_jsonw_key(w, "logprobs");
	rp_jsonw_array(w);
	for (size_t i = 0; i < event->n_top; i++) {
		rp_jsonw_object(w);
		rp_jsonw_pair_u64(w, "id", event->top[i].id);
		if (r->tokenizer != NULL) {
			rp_str bytes = rp_token_bytes(r->tokenizer, event->top[i].id);
			rp_jsonw_key(w, "text");
			rp_jsonw_strn(w, bytes.s, bytes.n);
		}
		rp_jsonw_key(w, "logprob");
		rp_jsonw_f32(w, event->top[i].logprob);
		rp_jsonw_end(w);
	}
	rp_jsonw_end(w);
}

static rp_code write_token_json(const run_state *r, const rp_token_event *event, rp_error *err)
{
	rp_jsonw w;
	rp_buf line;
	bool token = event->id != UINT32_MAX; /* else text that was held back */
	begin(&w, &line, "token");
	rp_jsonw_key(&w, "id");
	if (token)
		rp_jsonw_u64(&w, event->id);
	else
		rp_jsonw_null(&w);
	rp_jsonw_key(&w, "text");
	if (event->text != NULL)
		rp_jsonw_strn(&w, event->text, event->text_len);
	else
		rp_jsonw_null(&w);
	if (token && r->o.logprobs > 0)
		logprobs(&w, r, event);
	return finish(&w, &line, err);
}

rp_code run_write_token(run_state *r, const rp_token_event *event, rp_error *err)
{
	if (r->o.json)
		return write_token_json(r, event, err);
	if (event->text != NULL)
		return write_text(event->text, event->text_len, err);
	return write_id(r->ids_out++, event->id, err); /* no tokenizer */
}

static double per_second(uint64_t n, uint64_t ns)
{
	return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

static uint64_t later_tokens(const run_state *r)
{
	return r->result.tokens > 0 ? r->result.tokens - 1 : 0; /* decode_ns leaves out the first */
}

static void model_object(rp_jsonw *w, const run_state *r)
{
	static const char *const formats[] = {[RP_FORMAT_GGUF] = "gguf", [RP_FORMAT_RDRR] = "rdrr", [RP_FORMAT_SAFETENSORS] = "safetensors"};
	rp_jsonw_key(w, "model");
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "path", rp_model_path(r->model));
	rp_jsonw_pair_str(w, "identity", rp_model_identity(r->model));
	rp_jsonw_pair_str(w, "format", formats[rp_model_format(r->model)]);
	rp_jsonw_pair_str(w, "family", r->graph->config.family);
	rp_jsonw_pair_u64(w, "bytes", rp_model_bytes(r->model));
	rp_jsonw_key(w, "tokenizer");
	rp_jsonw_str(w, r->tokenizer != NULL ? rp_tokenizer_digest(r->tokenizer) : NULL);
	rp_jsonw_end(w);
}

/* To three decimals: clocks know no more. */
static double rounded(double x)
{
	return round(x * 1000) / 1000;
}

/* Milliseconds; null for what was not reached. */
static void ms(rp_jsonw *w, const char *key, uint64_t ns)
{
	rp_jsonw_key(w, key);
	if (ns > 0)
		rp_jsonw_f64(w, rounded((double)ns / 1e6));
	else
		rp_jsonw_null(w);
}

static void timings_object(rp_jsonw *w, const run_state *r)
{
	rp_jsonw_key(w, "timings");
	rp_jsonw_object(w);
	ms(w, "load_ms", r->load_ns);
	ms(w, "prompt_ms", r->result.prompt_ns);
	ms(w, "generation_ms", r->result.decode_ns);
	ms(w, "first_token_ms", r->first_token_ns);
	rp_jsonw_pair_f64(w, "prompt_per_second", rounded(per_second(r->result.prompt_tokens, r->result.prompt_ns)));
	rp_jsonw_pair_f64(w, "generation_per_second", rounded(per_second(later_tokens(r), r->result.decode_ns)));
	rp_jsonw_end(w);
}

rp_code run_write_done(run_state *r, rp_error *err)
{
	if (!r->o.json)
		return end_line(err);
	const rp_engine_info *engine = rp_engine_describe(r->engine);
	rp_jsonw w;
	rp_buf line;
	begin(&w, &line, "done");
	rp_jsonw_pair_str(&w, "schema", RUN_SCHEMA);
	rp_jsonw_pair_str(&w, "reason", finish_words[r->result.finish]);
	rp_jsonw_pair_u64(&w, "prompt_tokens", r->result.prompt_tokens);
	rp_jsonw_pair_u64(&w, "tokens", r->result.tokens);
	timings_object(&w, r);
	model_object(&w, r);
	rp_jsonw_key(&w, "device");
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "backend", engine->backend);
	rp_jsonw_pair_str(&w, "name", engine->device);
	if (engine->instead[0] != '\0')
		rp_jsonw_pair_str(&w, "instead", engine->instead);
	rp_jsonw_end(&w);
	rp_jsonw_pair_u64(&w, "ctx", engine->ctx);
	char plan[80];
	if (*run_plan_digest(r->engine, plan) != '\0')
		rp_jsonw_pair_str(&w, "plan", plan);
	rp_jsonw_pair_str(&w, "template", rp_template_name(r->chat.type));
	rp_jsonw_pair_f64(&w, "temperature", r->o.temp);
	rp_jsonw_pair_u64(&w, "seed", r->o.seed);
	return finish(&w, &line, err);
}

void run_write_error_json(const rp_error *error)
{
	rp_jsonw w;
	rp_buf line;
	begin(&w, &line, "error");
	rp_jsonw_pair_str(&w, "schema", RUN_SCHEMA);
	rp_jsonw_pair_str(&w, "code", rp_code_word(error->code));
	rp_jsonw_pair_u64(&w, "exit", (uint64_t)error->code);
	rp_jsonw_pair_str(&w, "message", error->msg);
	finish(&w, &line, NULL);
}

/* ---- stderr ---- */
static void say(const char *label, const char *text)
{
	rp_buf line;
	rp_buf_init(&line, 4000);
	rp_buf_addf(&line, "reploid-run: %s%s\n", label, text);
	if (!line.failed)
		rp_write_fd(STDERR_FILENO, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
}

void run_say(const char *fmt, ...)
{
	char text[2000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	say("", text);
}

void run_say_device(const rp_engine *e, bool quiet)
{
	const rp_engine_info *info = rp_engine_describe(e);
	if (info->instead[0] != '\0' && !quiet)
		run_say("%s%s; computing on the CPU instead (--device cpu chooses that without trying, --device gpu accepts nothing else)",
			rp_term_colour(STDERR_FILENO) ? "\033[1;33mwarning:\033[0m " : "warning: ", info->instead);
}

void run_say_error(const rp_error *error)
{
	end_line(NULL);
	say(rp_term_colour(STDERR_FILENO) ? "\033[1;31merror:\033[0m " : "error: ", error->msg);
}

void run_write_stats(const run_state *r)
{
	const rp_engine_info *engine = rp_engine_describe(r->engine);
	char weights[32];
	run_say("%s: %s of weights, ready after %.2f s", engine->device, rp_size_text(weights, sizeof weights, engine->weight_bytes),
		(double)r->load_ns / 1e9);
	run_say("prompt: %u tokens, %.1f tokens/s; generation: %u tokens, %.1f tokens/s; first token after %.2f s", r->result.prompt_tokens,
		per_second(r->result.prompt_tokens, r->result.prompt_ns), r->result.tokens, per_second(later_tokens(r), r->result.decode_ns),
		(double)r->first_token_ns / 1e9);
}
