/* reploid-run: what its files share. main.c drives: options (table.c), the prompt (prompt.c), the model's place (fetch.c),
 * the model and its engine (load.c),
 * generation (generate.c), what is written (output.c, profile.c), devices (devices.c). */
#ifndef RUN_H
#define RUN_H

#include "base/jsonw.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/signals.h"
#include "infer/infer.h"

#define RUN_SCHEMA "reploid-run/1"

typedef struct run_opts {
	const char *model, *prompt, *file, *prompt_ids, *system, *device, *cache_dir, *plan;
	int template_type, think, variant, kv; /* as chosen; -1: not given */
	bool raw, show_prompt, json, quiet, stats, list_devices, profile, ignore_eos, validate, yes, bench;
	uint64_t tokens, ctx, threads, top_k, repeat_window, seed, logprobs;
	double temp, top_p, min_p, repeat_penalty;
	rp_strings stop;
} run_opts;

extern const rp_program run_program;
/* The template, thinking mode and kernel variant an option's number means. */
rp_template run_template(const run_opts *o);
rp_thinking run_thinking(const run_opts *o);
const char *run_variant(const run_opts *o);
rp_cache_type run_kv(int choice); /* of --kv, here and of --bench */

/* One run, from options to answer. */
typedef struct run_state {
	run_opts o;
	rp_parsed parsed;
	uint64_t start_ns; /* of the program */
	bool stdin_wanted; /* "-" was given */
	rp_progress progress;
	rp_model *model;
	rp_graph *graph;
	rp_tokenizer *tokenizer; /* NULL: the model has none */
	rp_chat_format chat;     /* type NONE: raw text */
	rp_buf prompt_text;      /* as rendered, template included; empty with --prompt-ids */
	rp_ids ids;
	uint32_t chunk;    /* rows a pass, of --plan; 0: the engine's choice */
	struct rp_plan *plan; /* --plan */
	rp_engine *engine;
	rp_seq *seq;
	uint64_t load_ns, first_token_ns; /* program start to: engine ready; first token written. 0: not reached */
	rp_generate_result result;
	size_t ids_out; /* ids written in place of text */
} run_state;

/* ---- prompt.c ---- */
/* The person's text: -p, -f, standard input, one after the other. */
rp_code run_read_prompt(run_state *r, rp_buf *text, rp_error *err);
/* --prompt-ids to ids. */
rp_code run_parse_ids(const char *text, uint32_t vocab, rp_ids *out, rp_error *err);
/* Fill r->chat, r->prompt_text and r->ids. */
rp_code run_make_prompt(run_state *r, const rp_buf *text, rp_error *err);

/* ---- fetch.c ---- */
/* Where r->o.model is. A model of the catalogue that is not in the store is fetched when the user agrees; the network is not touched
 * otherwise. free() *path. */
rp_code run_locate(run_state *r, char **path, rp_error *err);

/* ---- load.c ---- */
rp_code run_open_model(run_state *r, rp_error *err); /* model, graph */
rp_code run_open_tokenizer(run_state *r, rp_error *err);
rp_code run_open_engine(run_state *r, rp_error *err); /* engine and sequence */
void run_close_model(run_state *r);                   /* so that another may be opened */
void run_close(run_state *r);
/* The folder for compiled kernels that an option's value means, or NULL for none; free() it. */
char *run_cache_dir(const char *option);

/* ---- plan.c ---- */
/* --plan: read it, take over its settings where no option says otherwise; then see that the plan made here is the same. */
rp_code run_read_plan(run_state *r, rp_error *err);
rp_code run_check_plan(run_state *r, rp_error *err);
/* Digest of the plan an engine executes; "" when it has none. */
char *run_plan_digest(const rp_engine *e, char out[80]);

/* ---- main.c ---- */
rp_code run_print_action(const rp_program *p, const rp_parsed *parsed, rp_error *err); /* --help and its like */

/* ---- generate.c ---- */
rp_code run_generate(run_state *r, rp_error *err);

/* ---- output.c: stdout is data ---- */
rp_code run_write(const char *text, size_t n, rp_error *err);
rp_code run_write_json(const rp_buf *line, const rp_jsonw *w, rp_error *err); /* a finished object and its newline */
rp_code run_write_prompt(const run_state *r, rp_error *err);                 /* --show-prompt */
rp_code run_write_token(run_state *r, const rp_token_event *event, rp_error *err);
rp_code run_write_done(run_state *r, rp_error *err); /* the end of the answer: a newline, or the done object */
rp_code run_write_profile(const run_state *r, rp_error *err); /* profile.c: a table on stderr, or the profile object */
void run_write_error_json(const rp_error *error);
void run_write_stats(const run_state *r); /* on stderr */
/* One line of talk on stderr: "reploid-run: ...". */
void run_say(const char *fmt, ...) RP_PRINTF(1, 2);
/* A warning when the engine computes on the CPU because a GPU that is there failed. */
void run_say_device(const rp_engine *e, bool quiet);
void run_say_error(const rp_error *error);

/* ---- devices.c ---- */
rp_code run_list_devices(const run_opts *o, rp_error *err);

#endif
