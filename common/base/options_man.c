#include "options_impl.h"

#include <stdio.h>
#include <string.h>

/* Append running text as mdoc: roff's own characters escaped, a new line after each sentence, none beginning with a dot. */
static void prose(rp_buf *out, const char *text)
{
	bool line_start = true;
	for (const char *c = text; *c != '\0'; c++) {
		if (line_start && (*c == '.' || *c == '\''))
			rp_buf_adds(out, "\\&");
		line_start = false;
		if (*c == '\\')
			rp_buf_adds(out, "\\e");
		else if (*c == '-')
			rp_buf_adds(out, "\\-");
		else if (*c == '"')
			rp_buf_adds(out, "\\(dq");
		else if (*c == '`')
			rp_buf_adds(out, "\\(oq");
		else if (*c == '\'')
			rp_buf_adds(out, "\\(cq");
		else if (*c == '~')
			rp_buf_adds(out, "\\(ti");
		else if (*c == ' ' && c > text && strchr(".?!", c[-1]) != NULL) {
			rp_buf_addc(out, '\n');
			line_start = true;
		} else
			rp_buf_addc(out, *c);
	}
}

/* A sentence from a phrase of the table: capital first letter, full stop. */
static void sentence(rp_buf *out, const char *phrase)
{
	rp_buf text;
	rp_buf_init(&text, 4000);
	rp_buf_adds(&text, phrase);
	if (text.len > 0 && text.data[0] >= 'a' && text.data[0] <= 'z')
		text.data[0] = (char)(text.data[0] - 'a' + 'A');
	rp_buf_addc(&text, '.');
	prose(out, text.data);
	rp_buf_addc(out, '\n');
	rp_buf_free(&text);
}

static void argument(const rp_opt *o, rp_buf *out)
{
	if (o->kind == RP_OPT_CHOICE) {
		for (size_t i = 0; o->choices[i] != NULL; i++)
			rp_buf_addf(out, "%s %s", i > 0 ? " | Cm" : " Cm", o->choices[i]);
	} else if (o->kind != RP_OPT_FLAG) {
		rp_buf_addf(out, " Ar %s", o->arg);
	}
}

static void range(const rp_opt *o, rp_buf *out)
{
	if (o->kind == RP_OPT_FLOAT)
		rp_buf_addf(out, "The range is %g to %g.\n", o->min, o->max);
	else if ((o->kind == RP_OPT_UINT || o->kind == RP_OPT_SIZE) && o->hi != 0)
		rp_buf_addf(out, "The range is %llu to %llu.\n", (unsigned long long)o->lo, (unsigned long long)o->hi);
}

/* "--top-k" as an argument of .Fl, which writes the first dash. */
static void long_name(rp_buf *out, const char *name)
{
	rp_buf_adds(out, " \\-");
	for (; *name != '\0'; name++)
		rp_buf_addf(out, "%s%c", *name == '-' ? "\\" : "", *name);
}

static void one_option(const rp_opt *o, rp_buf *out)
{
	rp_buf_adds(out, ".It Fl");
	if (o->letter != 0) {
		rp_buf_addf(out, " %c", o->letter);
		argument(o, out);
		rp_buf_adds(out, " , Fl");
	}
	long_name(out, o->name);
	argument(o, out);
	if (o->alias != NULL) {
		rp_buf_adds(out, " , Fl");
		long_name(out, o->alias);
		argument(o, out);
	}
	rp_buf_addc(out, '\n');
	sentence(out, o->help);
	if (o->more != NULL) {
		prose(out, o->more);
		rp_buf_addc(out, '\n');
	}
	range(o, out);
	const char *def = o->def_text != NULL ? o->def_text : o->def;
	if (def != NULL) {
		rp_buf_adds(out, "The default is ");
		prose(out, def);
		rp_buf_adds(out, ".\n");
	}
	if (o->repeat)
		rp_buf_adds(out, "May be repeated.\n");
}

/* The first n options of a program. */
static void option_groups(const rp_program *p, size_t n, rp_buf *out)
{
	const char *group = NULL;
	for (size_t i = 0; i < n; i++) {
		const rp_opt *o = rp_opt_at(p, i);
		if (group == NULL || strcmp(o->group, group) != 0) {
			rp_buf_addf(out, "%s.Ss %s\n.Bl -tag -width Ds\n", group != NULL ? ".El\n" : "", o->group);
			group = o->group;
		}
		one_option(o, out);
	}
	rp_buf_adds(out, ".El\n");
}

static void options(const rp_program *p, rp_buf *out)
{
	rp_buf_adds(out, ".Sh OPTIONS\n");
	option_groups(p, rp_opt_count(p), out);
	if (p->mode != NULL)
		option_groups(p->mode, p->mode->n_opts, out);
}

static bool has_option(const rp_program *p, const char *name)
{
	for (size_t i = 0; i < p->n_opts; i++)
		if (strcmp(p->opts[i].name, name) == 0)
			return true;
	return false;
}

static void twin(const rp_opt *o, rp_buf *out)
{
	char name[80];
	rp_buf_addf(out, ".It Ev %s\n.Fl", rp_env_name(name, sizeof name, o->name));
	long_name(out, o->name);
	rp_buf_addc(out, '\n');
}

static void environment(const rp_program *p, rp_buf *out)
{
	rp_buf_adds(out, ".Sh ENVIRONMENT\n"
		"Each of these is the twin of an option, used where the option is not given; a switch takes\n"
		".Cm on\nor\n.Cm off ,\na repeatable option one value a line.\n.Bl -tag -width Ds -compact\n");
	for (size_t i = 0; i < p->n_opts; i++)
		twin(&p->opts[i], out);
	for (size_t i = 0; p->mode != NULL && i < p->mode->n_opts; i++)
		if (!has_option(p, p->mode->opts[i].name))
			twin(&p->mode->opts[i], out);
	rp_buf_adds(out, ".El\n");
}

static void exit_status(const rp_program *p, rp_buf *out)
{
	size_t n;
	const rp_code_info *codes = rp_codes(&n);
	rp_buf_adds(out, ".Sh EXIT STATUS\n.Bl -tag -width 130 -compact\n");
	for (size_t i = 0; i < n; i++) {
		bool mine = codes[i].code == RP_OK;
		for (size_t k = 1; p->codes[k] != RP_OK; k++)
			mine |= p->codes[k] == codes[i].code;
		if (!mine)
			continue;
		rp_buf_addf(out, ".It %d\n", (int)codes[i].code);
		sentence(out, codes[i].text);
	}
	rp_buf_adds(out, ".El\n.Pp\nAll programs of the toolkit share these numbers; see\n.Xr reploid-exit 7 .\n");
}

void rp_man_text(const rp_program *p, rp_buf *out)
{
	options(p, out);
	environment(p, out);
	exit_status(p, out);
}
