#include "options_impl.h"
#include "version.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_COLUMN = 26, MIN_WIDTH = 50, MAX_WIDTH = 110 };

/* Append words of text from column `at` on, broken before `width`, later lines indented to `indent`. */
static void wrap(rp_buf *out, const char *text, unsigned at, unsigned indent, unsigned width)
{
	bool first = true;
	while (*text != '\0') {
		size_t n = strcspn(text, " ");
		if (!first && at + 1 + n > width) {
			rp_buf_addf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			rp_buf_addc(out, ' ');
			at++;
		}
		rp_buf_add(out, text, n);
		at += (unsigned)n;
		first = false;
		text += n;
		text += strspn(text, " ");
	}
	rp_buf_addc(out, '\n');
}

/* "default 40; REPLOID_TOP_K" */
static void facts(const rp_program *p, size_t i, rp_buf *out)
{
	const rp_opt *o = rp_opt_at(p, i);
	const char *def = o->def_text != NULL ? o->def_text : o->def;
	char env[80];
	if (o->repeat)
		rp_buf_adds(out, "may be repeated; ");
	if (def != NULL)
		rp_buf_addf(out, "default %s; ", def);
	if (rp_opt_has_env(p, i))
		rp_buf_adds(out, rp_env_name(env, sizeof env, o->name));
	else if (out->len >= 2 && !out->failed)
		out->data[out->len -= 2] = '\0'; /* nothing follows the last "; " */
}

static void one_option(const rp_program *p, size_t i, unsigned width, rp_buf *out)
{
	const rp_opt *o = rp_opt_at(p, i);
	rp_buf head, text, more;
	rp_buf_init(&head, 400);
	rp_buf_init(&text, 4000);
	if (o->letter != 0)
		rp_buf_addf(&head, "  -%c, --%s", o->letter, o->name);
	else
		rp_buf_addf(&head, "      --%s", o->name);
	if (o->kind != RP_OPT_FLAG)
		rp_buf_addc(&head, ' ');
	rp_opt_arg_text(o, &head);
	rp_buf_adds(&text, o->help);
	rp_buf_init(&more, 400);
	facts(p, i, &more);
	if (more.len > 0)
		rp_buf_addf(&text, " (%s)", more.data);
	rp_buf_add(out, head.data, head.len);
	unsigned at = (unsigned)head.len;
	if (at + 2 > TEXT_COLUMN) {
		rp_buf_addc(out, '\n');
		at = 0;
	}
	rp_buf_addf(out, "%*s", (int)(TEXT_COLUMN - at), "");
	wrap(out, text.data, TEXT_COLUMN, TEXT_COLUMN, width);
	rp_buf_free(&head);
	rp_buf_free(&text);
	rp_buf_free(&more);
}

void rp_help_text(const rp_program *p, unsigned width, rp_buf *out)
{
	if (width < MIN_WIDTH)
		width = MIN_WIDTH;
	if (width > MAX_WIDTH)
		width = MAX_WIDTH;
	width--; /* a full last column makes some terminals break twice */
	rp_buf_addf(out, "%s: ", p->name);
	wrap(out, p->summary, (unsigned)strlen(p->name) + 2, 0, width);
	rp_buf_addc(out, '\n');
	unsigned indent = (unsigned)strlen(p->name) + 8;
	for (size_t i = 0; p->synopsis[i] != NULL; i++) {
		rp_buf_addf(out, "%s %s ", i == 0 ? "usage:" : "      ", p->name);
		wrap(out, p->synopsis[i], indent, indent, width);
	}
	const char *group = "";
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		const rp_opt *o = rp_opt_at(p, i);
		if (strcmp(o->group, group) != 0)
			rp_buf_addf(out, "\n%s\n", o->group);
		group = o->group;
		one_option(p, i, width, out);
	}
	rp_buf_addc(out, '\n');
	wrap(out, "A value on the command line wins over its REPLOID_ environment variable, that over the configuration file, that over "
		"the default. --no-NAME takes back a switch.", 0, 0, width);
	if (p->notes != NULL)
		wrap(out, p->notes, 0, 0, width);
}

void rp_exit_codes_text(rp_buf *out)
{
	size_t n;
	const rp_code_info *codes = rp_codes(&n);
	for (size_t i = 0; i < n; i++)
		rp_buf_addf(out, "%d\t%s\t%s\n", (int)codes[i].code, codes[i].word, codes[i].text);
}

rp_code rp_action_text(const rp_program *p, const rp_parsed *parsed, unsigned width, rp_buf *out, rp_error *err)
{
	switch (parsed->action) {
	case RP_ACTION_RUN: break;
	case RP_ACTION_HELP: rp_help_text(p, width, out); break;
	case RP_ACTION_VERSION: rp_buf_addf(out, "%s %s\n", p->name, RP_VERSION); break;
	case RP_ACTION_MAN: rp_man_text(p, out); break;
	case RP_ACTION_COMPLETION: rp_completion_text(p, parsed->shell, out); break;
	case RP_ACTION_CODES: rp_exit_codes_text(out); break;
	}
	return out->failed ? rp_no_memory(err, out->len, "the text of an option") : RP_OK;
}
