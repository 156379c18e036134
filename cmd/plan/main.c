/* reploid-plan: what will run, where, and why. */
#include "plan_cmd.h"

#include "base/confine.h"
#include "base/jsonw.h"
#include "base/signals.h"
#include "base/term.h"
#include "net/net.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Models and descriptions may be anywhere, so all that may be read stays readable; nothing is written, and there is no network. A
 * device that is here is asked through its driver, which opens and maps what it likes: then only a description can be confined. */
static rp_code confine(const plan_state *s, rp_error *err)
{
	const char *const read[] = {"/"};
	bool named = s->o.ranges || s->o.planid || s->o.split != 0; /* no device is asked */
	bool described = named || (strcmp(s->o.device, "gpu") != 0 && s->o.device[strspn(s->o.device, "0123456789")] != '\0');
	rp_confined got;
	return described ? rp_confine(&(rp_confinement){.read = read, .n_read = 1}, &got, err) : RP_OK;
}

static rp_code run(plan_state *s, int argc, char **argv, rp_error *err)
{
	rp_code rc = rp_signals(err);
	if (rc == RP_OK)
		rc = rp_options_parse(&plan_program, argc, argv, &s->o, &s->parsed, err);
	if (rc != RP_OK)
		return rc;
	if (s->parsed.action != RP_ACTION_RUN)
		return rp_action_text(&plan_program, &s->parsed, rp_term_width(STDOUT_FILENO), &s->out, err);
	bool flag = rp_option_source(&plan_program, &s->parsed, "model") == RP_FROM_FLAG;
	if (flag && s->parsed.operands.n > 0)
		return rp_fail(err, RP_USAGE, "the model is named twice: %s and -m %s", s->parsed.operands.v[0], s->o.model);
	s->name = s->parsed.operands.n > 0 ? s->parsed.operands.v[0] : s->o.model;
	if (s->o.describe && (s->parsed.operands.n > 0 || flag || s->o.explain || s->o.ranges || s->o.planid || s->o.split != 0 || s->o.stage != NULL))
		return rp_fail(err, RP_USAGE, "--describe-device stands alone: it is about a device, not about a model");
	if (s->o.ranges + s->o.planid + (s->o.split != 0) > 1)
		return rp_fail(err, RP_USAGE, "--ranges, --split and --planid stand alone: give one of them");
	bool remote = s->name != NULL && rp_net_is_http(s->name);
	if (remote)
		rc = plan_open_model(s, err); /* after that the network is given up like the rest */
	if (rc == RP_OK)
		rc = confine(s, err);
	if (rc != RP_OK || s->o.describe)
		return rc == RP_OK ? plan_describe(s, err) : rc;
	if (s->o.planid)
		return plan_planid(s, err);
	if (!remote)
		rc = plan_open_model(s, err);
	if (rc != RP_OK)
		return rc;
	return s->o.split != 0 ? plan_split(s, err) : s->o.ranges ? plan_ranges(s, err) : plan_make(s, err);
}

static void write_error_json(const rp_error *e, rp_buf *out)
{
	rp_jsonw w;
	rp_buf_clear(out);
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	rp_jsonw_pair_str(&w, "type", "error");
	rp_jsonw_pair_str(&w, "schema", RP_PLAN_SCHEMA);
	rp_jsonw_pair_str(&w, "error", rp_code_word(e->code));
	rp_jsonw_pair_u64(&w, "code", (uint64_t)e->code);
	rp_jsonw_pair_str(&w, "message", e->msg);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
}

int main(int argc, char **argv)
{
	plan_state s = {.graph = NULL};
	rp_error err = {0}, late = {0};
	rp_buf_init(&s.out, 0);
	rp_code rc = run(&s, argc, argv, &err);
	if (rc != RP_OK) {
		fprintf(stderr, "%s: %s%s\n", plan_program.name, rp_term_colour(STDERR_FILENO) ? "\033[1;31merror:\033[0m " : "error: ", err.msg);
		if (s.o.json)
			write_error_json(&err, &s.out);
		else
			rp_buf_clear(&s.out);
	}
	rp_code wrote = rp_write_fd(STDOUT_FILENO, s.out.data, s.out.len, "standard output", &late);
	if (wrote != RP_OK) {
		fprintf(stderr, "%s: error: %s\n", plan_program.name, late.msg);
		rc = rc == RP_OK ? wrote : rc;
	}
	rp_graph_free(s.graph);
	rp_model_close(s.model);
	rp_buf_free(&s.out);
	rp_parsed_free(&s.parsed);
	return (int)rc;
}
