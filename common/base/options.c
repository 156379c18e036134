#include "options_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

const rp_opt rp_common_opts[] = {
	{.name = "help", .letter = 'h', .group = "General", .help = "show this text", .at = offsetof(rp_common_values, help)},
	{.name = "version", .group = "General", .help = "show the version", .at = offsetof(rp_common_values, version)},
	{.name = "config", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "General", .arg = "FILE",
		.def_text = "~/.config/reploid/config", .help = "read defaults of options from FILE",
		.more = "Lines are `name = value' with long option names; see FILES.", .at = offsetof(rp_common_values, config)},
	{.name = "completion", .kind = RP_OPT_CHOICE, .group = "General", .choices = shells,
		.help = "print completions for a shell", .at = offsetof(rp_common_values, completion)},
	{.name = "exit-codes", .group = "General", .help = "list the exit codes of all programs: number, word, meaning",
		.at = offsetof(rp_common_values, exit_codes)},
	{.name = "man", .group = "General", .help = "print the generated sections of the manual page (mdoc)",
		.at = offsetof(rp_common_values, man)},
};
const size_t rp_n_common_opts = sizeof rp_common_opts / sizeof *rp_common_opts;

size_t rp_opt_count(const rp_program *p)
{
	return p->n_opts + rp_n_common_opts;
}

const rp_opt *rp_opt_at(const rp_program *p, size_t i)
{
	return i < p->n_opts ? &p->opts[i] : &rp_common_opts[i - p->n_opts];
}

bool rp_opt_is_common(const rp_program *p, size_t i)
{
	return i >= p->n_opts;
}

bool rp_opt_has_env(const rp_program *p, size_t i)
{
	return !rp_opt_is_common(p, i);
}

char *rp_env_name(char *out, size_t size, const char *option)
{
	snprintf(out, size, "REPLOID_%s", option);
	for (char *c = out; *c != '\0'; c++) {
		if (*c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
		else if (*c == '-')
			*c = '_';
	}
	return out;
}

void rp_opt_arg_text(const rp_opt *o, rp_buf *out)
{
	if (o->kind != RP_OPT_CHOICE) {
		if (o->kind != RP_OPT_FLAG)
			rp_buf_adds(out, o->arg);
		return;
	}
	for (size_t i = 0; o->choices[i] != NULL; i++)
		rp_buf_addf(out, "%s%s", i > 0 ? "|" : "", o->choices[i]);
}

/* ---- the nearest name: edits (insert, delete, replace, swap of neighbours) between two short words ---- */
static unsigned edits(const char *a, size_t na, const char *b)
{
	enum { MAX = 40 };
	size_t nb = strlen(b);
	if (na >= MAX || nb >= MAX)
		return MAX;
	unsigned d[MAX][MAX];
	for (size_t i = 0; i <= na; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[na][nb];
}

static const char *nearest(const rp_program *p, const char *word, size_t n)
{
	const char *found = NULL;
	unsigned best = n <= 4 ? 2 : 3; /* fewer edits than this, or the name begins with what was typed */
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		const rp_opt *o = rp_opt_at(p, i);
		const char *names[] = {o->name, o->alias};
		for (size_t k = 0; k < 2 && names[k] != NULL; k++) {
			unsigned e = n >= 2 && strncmp(names[k], word, n) == 0 ? 1 : edits(word, n, names[k]);
			if (e < best) {
				best = e;
				found = names[k];
			}
		}
	}
	return found;
}

/* ---- the command line ---- */
static bool find_long(const rp_program *p, const char *word, size_t n, size_t *index)
{
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		const rp_opt *o = rp_opt_at(p, i);
		if ((strlen(o->name) == n && memcmp(o->name, word, n) == 0) ||
			(o->alias != NULL && strlen(o->alias) == n && memcmp(o->alias, word, n) == 0)) {
			*index = i;
			return true;
		}
	}
	return false;
}

static bool find_letter(const rp_program *p, char letter, size_t *index)
{
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		if (rp_opt_at(p, i)->letter == letter) {
			*index = i;
			return true;
		}
	}
	return false;
}

static rp_code unknown_long(const rp_program *p, const char *word, size_t n, rp_error *err)
{
	char shown[80];
	rp_show(shown, sizeof shown, word, n);
	const char *near = nearest(p, word, n);
	if (near != NULL)
		return rp_fail(err, RP_USAGE, "unknown option --%s; did you mean --%s? (%s --help lists them all)", shown, near, p->name);
	return rp_fail(err, RP_USAGE, "unknown option --%s (%s --help lists them all)", shown, p->name);
}

typedef struct args {
	int n, next;
	char *const *v;
} args;

static rp_code parse_long(rp_opt_parse *s, args *a, const char *arg, rp_error *err)
{
	const char *word = arg + 2, *equals = strchr(word, '=');
	size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word), i = 0;
	const char *value = equals != NULL ? equals + 1 : NULL;
	char where[64];
	if (!find_long(s->p, word, n, &i)) {
		if (n <= 3 || memcmp(word, "no-", 3) != 0 || !find_long(s->p, word + 3, n - 3, &i) || rp_opt_is_common(s->p, i) ||
			rp_opt_at(s->p, i)->kind != RP_OPT_FLAG)
			return unknown_long(s->p, word, n, err);
		if (value != NULL)
			return rp_fail(err, RP_USAGE, "--no-%s takes no value", rp_opt_at(s->p, i)->name);
		return rp_opt_set(s, i, "off", RP_FROM_FLAG, "", err);
	}
	const rp_opt *o = rp_opt_at(s->p, i);
	snprintf(where, sizeof where, "--%s", o->name);
	if (o->kind == RP_OPT_FLAG) {
		if (value != NULL)
			return rp_fail(err, RP_USAGE, "--%s takes no value", o->name);
		return rp_opt_set(s, i, "on", RP_FROM_FLAG, where, err);
	}
	if (value == NULL) {
		if (a->next >= a->n)
			return rp_fail(err, RP_USAGE, "--%s needs a value: %s", o->name, o->help);
		value = a->v[a->next++];
	}
	return rp_opt_set(s, i, value, RP_FROM_FLAG, where, err);
}

static rp_code parse_short(rp_opt_parse *s, args *a, const char *arg, rp_error *err)
{
	for (const char *c = arg + 1; *c != '\0'; c++) {
		size_t i;
		char shown[16], where[64];
		if (!find_letter(s->p, *c, &i))
			return rp_fail(err, RP_USAGE, "unknown option -%s (%s --help lists them all)", rp_show(shown, sizeof shown, c, 1), s->p->name);
		const rp_opt *o = rp_opt_at(s->p, i);
		snprintf(where, sizeof where, "-%c (--%s)", *c, o->name);
		if (o->kind == RP_OPT_FLAG) {
			rp_code code = rp_opt_set(s, i, "on", RP_FROM_FLAG, where, err);
			if (code != RP_OK)
				return code;
			continue;
		}
		if (c[1] == '\0' && a->next >= a->n)
			return rp_fail(err, RP_USAGE, "-%c (--%s) needs a value: %s", *c, o->name, o->help);
		return rp_opt_set(s, i, c[1] != '\0' ? c + 1 : a->v[a->next++], RP_FROM_FLAG, where, err);
	}
	return RP_OK;
}

static bool wants_text(const rp_opt_parse *s)
{
	const rp_common_values *c = &s->common;
	rp_parsed *out = s->parsed;
	if (c->help)
		out->action = RP_ACTION_HELP;
	else if (c->version)
		out->action = RP_ACTION_VERSION;
	else if (c->man)
		out->action = RP_ACTION_MAN;
	else if (c->exit_codes)
		out->action = RP_ACTION_CODES;
	else if (c->completion >= 0) {
		out->action = RP_ACTION_COMPLETION;
		out->shell = (rp_shell)c->completion;
	}
	return out->action != RP_ACTION_RUN;
}

static rp_code parse_operand(rp_opt_parse *s, const char *arg, rp_error *err)
{
	rp_parsed *out = s->parsed;
	if (out->operands.n >= s->p->max_operands) {
		char shown[80];
		rp_show(shown, sizeof shown, arg, strlen(arg));
		return rp_fail(err, RP_USAGE, "unexpected argument '%s': %s", shown, s->p->no_operand);
	}
	out->operands.v[out->operands.n++] = arg;
	return RP_OK;
}

static rp_code parse_args(rp_opt_parse *s, args *a, rp_error *err)
{
	bool options = true;
	while (a->next < a->n) {
		const char *arg = a->v[a->next++];
		rp_code code;
		if (options && strcmp(arg, "--") == 0) {
			options = false;
			continue;
		}
		if (!options || arg[0] != '-' || arg[1] == '\0')
			code = parse_operand(s, arg, err);
		else if (arg[1] == '-')
			code = parse_long(s, a, arg, err);
		else
			code = parse_short(s, a, arg, err);
		if (code != RP_OK)
			return code;
		if (wants_text(s))
			return RP_OK;
	}
	return RP_OK;
}

rp_code rp_options_parse(const rp_program *p, int argc, char *const *argv, void *out, rp_parsed *parsed, rp_error *err)
{
	memset(parsed, 0, sizeof *parsed);
	rp_arena_init(&parsed->arena, 16 << 20);
	if (rp_opt_count(p) > RP_MAX_OPTS)
		return rp_fail(err, RP_INTERNAL, "the option table of %s is longer than %d", p->name, RP_MAX_OPTS);
	rp_opt_parse s = {.p = p, .out = out, .parsed = parsed, .common = {.completion = -1}};
	size_t most = p->max_operands < (size_t)argc ? p->max_operands : (size_t)argc;
	parsed->operands.v = rp_arena_array(&parsed->arena, most + 1, sizeof *parsed->operands.v);
	if (parsed->operands.v == NULL)
		return rp_no_memory(err, most * sizeof(char *), "the command line");
	args a = {.n = argc, .next = 1, .v = argv};
	rp_code code = parse_args(&s, &a, err);
	if (code != RP_OK || parsed->action != RP_ACTION_RUN)
		return code;
	code = rp_opt_environment(&s, err);
	if (code == RP_OK)
		code = rp_opt_config_file(&s, err);
	if (code == RP_OK)
		code = rp_opt_defaults(&s, err);
	memcpy(parsed->source, s.source, sizeof parsed->source);
	return code;
}

void rp_parsed_free(rp_parsed *parsed)
{
	rp_arena_free(&parsed->arena);
	memset(parsed, 0, sizeof *parsed);
}

rp_source rp_option_source(const rp_program *p, const rp_parsed *parsed, const char *name)
{
	size_t i;
	return find_long(p, name, strlen(name), &i) ? (rp_source)parsed->source[i] : RP_FROM_DEFAULT;
}
