#include "run.h"

#include "plan/plan.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

rp_code run_open_model(run_state *r, rp_error *err)
{
	char *path;
	rp_code code = run_locate(r, &path, err);
	if (code != RP_OK)
		return code;
	code = rp_model_open(path, &r->model, err);
	free(path);
	return code == RP_OK ? rp_graph_build(r->model, &r->graph, err) : code;
}

rp_code run_open_tokenizer(run_state *r, rp_error *err)
{
	rp_code code = rp_tokenizer_of_model(r->model, &r->tokenizer, err);
	if (code != RP_OK && code != RP_NOT_FOUND && r->o.prompt_ids != NULL) {
		/* Ids need none. A broken one is worth a word, for the answer will be ids as well. */
		if (!r->o.quiet && err != NULL)
			run_say("answering with ids, for the tokenizer cannot be used: %s", err->msg);
		return RP_OK;
	}
	return code == RP_NOT_FOUND ? RP_OK : code; /* who needs it says so */
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
	rp_progress_update(user, done, total);
}

static const char *model_name(const run_state *r)
{
	const char *path = rp_model_path(r->model), *slash = strrchr(path, '/');
	return strcmp(r->o.model, "embedded") == 0 ? "the embedded model" : slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

char *run_cache_dir(const char *option)
{
	char *dir = NULL;
	if (option != NULL)
		return *option != '\0' ? rp_strdup(option) : NULL;
	if (rp_cache_dir(&dir, NULL) != RP_OK)
		return NULL; /* without HOME there is none, and that is no failure */
	char *slash = strrchr(dir, '/');
	if (slash != NULL && slash != dir) { /* ~/.cache is not there in a new account */
		*slash = '\0';
		mkdir(dir, 0700);
		*slash = '/';
	}
	return dir;
}

rp_code run_open_engine(run_state *r, rp_error *err)
{
	char *cache = run_cache_dir(r->o.cache_dir), *what = rp_asprintf("loading %s", model_name(r));
	rp_engine_opts opts = {
		.device = r->o.device,
		.ctx = (uint32_t)r->o.ctx,
		.threads = (uint32_t)r->o.threads,
		.cancel = rp_cancel(),
		.progress = on_progress,
		.progress_user = &r->progress,
		.cache_dir = cache,
		.validate = r->o.validate,
		.profile = r->o.profile,
		.variant = run_variant(&r->o),
		.kv = run_kv(r->o.kv),
		.chunk = r->chunk,
	};
	if (what != NULL)
		rp_progress_begin(&r->progress, what);
	rp_code code = rp_engine_open(r->graph, &opts, &r->engine, err);
	rp_progress_end(&r->progress);
	free(what);
	free(cache);
	if (code == RP_OK)
		code = rp_seq_new(r->engine, &r->seq, err);
	if (code != RP_OK)
		return code;
	r->load_ns = rp_now_ns() - r->start_ns;
	const rp_engine_info *info = rp_engine_describe(r->engine);
	run_say_device(r->engine, r->o.quiet);
	if (info->instead[0] == '\0' && r->o.device == NULL && !r->o.quiet && isatty(STDERR_FILENO) && strcmp(info->backend, "cpu") == 0)
		run_say("no GPU here, so the C engine computes (--list-devices shows what else could)");
	return RP_OK;
}

void run_close_model(run_state *r)
{
	rp_graph_free(r->graph);
	rp_model_close(r->model);
	r->graph = NULL;
	r->model = NULL;
}

void run_close(run_state *r)
{
	if (r->seq != NULL)
		rp_seq_free(r->seq);
	if (r->engine != NULL)
		rp_engine_close(r->engine);
	if (r->tokenizer != NULL)
		rp_tokenizer_free(r->tokenizer);
	run_close_model(r);
	rp_plan_free(r->plan);
	rp_chat_format_free(&r->chat);
	rp_buf_free(&r->prompt_text);
	free(r->ids.v);
	rp_parsed_free(&r->parsed);
}
