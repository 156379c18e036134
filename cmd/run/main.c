/* reploid-run: answer one prompt. One-shot by design: there is no interactive mode to fall into. */
#include "bench.h"

#include "base/term.h"

#include <string.h>
#include <unistd.h>

/* Options that do not go together, or not without another. */
static rp_code check_options(run_state *r, rp_error *err)
{
	run_opts *o = &r->o;
	rp_source ids = rp_option_source(&run_program, &r->parsed, "prompt-ids");
	rp_source text = rp_option_source(&run_program, &r->parsed, "prompt"), file = rp_option_source(&run_program, &r->parsed, "file");
	rp_source best = r->stdin_wanted ? RP_FROM_FLAG : text > file ? text : file;
	if (o->prompt_ids != NULL && (o->prompt != NULL || o->file != NULL || r->stdin_wanted)) {
		if (ids == best)
			return rp_fail(err, RP_USAGE, "--prompt-ids is the whole prompt; leave out -p, -f and -");
		if (ids > best)
			o->prompt = o->file = NULL;
		else
			o->prompt_ids = NULL;
	}
	if (o->logprobs > 0 && !o->json)
		return rp_fail(err, RP_USAGE, "--logprobs needs --json: plain output is the text alone");
	if (o->raw && o->template_type >= 0 && run_template(&(run_opts){.template_type = o->template_type}) != RP_TEMPLATE_NONE)
		return rp_fail(err, RP_USAGE, "--raw means no template; leave out --template");
	for (size_t i = 0; i < o->stop.n; i++) {
		if (*o->stop.v[i] == '\0')
			return rp_fail(err, RP_USAGE, "--stop: the text is empty, and an empty text is everywhere");
	}
	return RP_OK;
}

/* Found before the weights are loaded, which may take a while. */
static rp_code check_prompt(const run_state *r, rp_error *err)
{
	uint32_t made_for = r->graph->config.max_ctx, ctx = (uint32_t)r->o.ctx;
	if (ctx == 0)
		ctx = made_for > 0 && made_for < 4096 ? made_for : 4096;
	if (r->ids.n == 0)
		return rp_fail(err, RP_PROMPT, "the prompt is empty");
	if (r->ids.n >= ctx && ctx < made_for)
		return rp_fail(err, RP_CONTEXT, "the prompt has %zu tokens and leaves no room for an answer in a context of %u; shorten it or "
			"raise --ctx (the model was made for %u)", r->ids.n, ctx, made_for);
	if (r->ids.n >= ctx)
		return rp_fail(err, RP_CONTEXT, "the prompt has %zu tokens and leaves no room for an answer in a context of %u, all the model was "
			"made for; shorten it", r->ids.n, ctx);
	if (r->tokenizer == NULL && r->o.stop.n > 0)
		return rp_fail(err, RP_USAGE, "--stop needs text, and this model has no tokenizer");
	return RP_OK;
}

static rp_code answer(run_state *r, rp_error *err)
{
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_code code = r->o.prompt_ids != NULL ? RP_OK : run_read_prompt(r, &text, err);
	if (code == RP_OK && rp_option_source(&run_program, &r->parsed, "model") == RP_FROM_DEFAULT && !r->o.quiet && isatty(STDERR_FILENO))
		run_say("answering with the small embedded model, which knows only these programs; -m names another");
	if (code == RP_OK)
		code = run_open_model(r, err);
	if (code == RP_OK)
		code = run_open_tokenizer(r, err);
	if (code == RP_OK)
		code = run_make_prompt(r, &text, err);
	rp_buf_free(&text);
	if (code != RP_OK)
		return code;
	if (r->o.show_prompt)
		return run_write_prompt(r, err);
	code = run_read_plan(r, err);
	if (code == RP_OK)
		code = check_prompt(r, err);
	if (code == RP_OK)
		code = run_check_plan(r, err);
	if (code == RP_OK)
		code = run_open_engine(r, err);
	if (code == RP_OK)
		code = run_generate(r, err);
	if (code == RP_OK)
		code = run_write_done(r, err);
	if (code == RP_OK && r->o.profile)
		code = run_write_profile(r, err);
	if (code == RP_OK && r->o.stats)
		run_write_stats(r);
	if (code == RP_OK && r->result.finish == RP_FINISH_CANCELLED)
		code = rp_fail(err, RP_CANCELLED, "stopped by a signal; what was written is the beginning of the answer");
	return code;
}

rp_code run_print_action(const rp_program *p, const rp_parsed *parsed, rp_error *err)
{
	rp_buf out;
	rp_buf_init(&out, 0);
	rp_code code = rp_action_text(p, parsed, rp_term_width(STDOUT_FILENO), &out, err);
	if (code == RP_OK)
		code = run_write(out.data, out.len, err);
	rp_buf_free(&out);
	return code;
}

static rp_code run(run_state *r, int argc, char **argv, rp_error *err)
{
	rp_code code = rp_signals(err);
	if (code == RP_OK && argc > 1 && strcmp(argv[1], "--bench") == 0)
		return run_bench(r, argc - 1, argv + 1, err);
	if (code == RP_OK)
		code = rp_options_parse(&run_program, argc, argv, &r->o, &r->parsed, err);
	if (code != RP_OK)
		return code;
	if (r->parsed.action != RP_ACTION_RUN)
		return run_print_action(&run_program, &r->parsed, err);
	if (r->o.bench)
		return rp_fail(err, RP_USAGE, "--bench must be the first argument: it has options of its own (%s --bench --help)", run_program.name);
	if (r->parsed.operands.n > 0) {
		if (strcmp(r->parsed.operands.v[0], "-") != 0)
			return rp_fail(err, RP_USAGE, "unexpected argument: %s; a lone - reads standard input", run_program.no_operand);
		r->stdin_wanted = true;
	}
	rp_progress_init(&r->progress, run_program.name, STDERR_FILENO, r->o.quiet);
	code = check_options(r, err);
	if (code != RP_OK)
		return code;
	return r->o.list_devices ? run_list_devices(&r->o, err) : answer(r, err);
}

/* A command line that is wrong still says how its author wants to hear it. */
static bool asks_for_json(const run_state *r, int argc, char **argv)
{
	bool json = r->o.json;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		json |= strcmp(argv[i], "--json") == 0;
	return json;
}

int main(int argc, char **argv)
{
	run_state r = {.start_ns = rp_now_ns()};
	rp_error err = {0};
	rp_code code = run(&r, argc, argv, &err);
	bool answered = r.result.finish == RP_FINISH_CANCELLED; /* the done object has been written */
	if (code != RP_OK) {
		if (!answered && asks_for_json(&r, argc, argv))
			run_write_error_json(&err);
		if (code != RP_CANCELLED || !r.o.quiet)
			run_say_error(&err);
	}
	run_close(&r);
	return (int)code;
}
