#include "options_impl.h"

#include <stdio.h>
#include <string.h>

/* Option help holds no character that the shells' quotes below would need escaped but ' and \; they are escaped anyway. */
static void quoted(rp_buf *out, const char *text, const char *also)
{
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '\'')
			rp_buf_adds(out, "'\\''");
		else if (strchr(also, *c) != NULL)
			rp_buf_addf(out, "\\%c", *c);
		else
			rp_buf_addc(out, *c);
	}
}

/* "reploid-run --bench" is _reploid_run___bench */
static void function_name(rp_buf *out, const rp_program *p)
{
	rp_buf_addc(out, '_');
	for (const char *c = p->name; *c != '\0'; c++)
		rp_buf_addc(out, *c == '-' || *c == ' ' ? '_' : *c);
}

static void choices(rp_buf *out, const rp_opt *o)
{
	for (size_t i = 0; o->choices[i] != NULL; i++)
		rp_buf_addf(out, "%s%s", i > 0 ? " " : "", o->choices[i]);
}

/* ---- bash: no dependence on the bash-completion package ---- */
static void bash_pattern(rp_buf *out, const rp_opt *o)
{
	rp_buf_addf(out, "\t--%s", o->name);
	if (o->alias != NULL)
		rp_buf_addf(out, "|--%s", o->alias);
	if (o->letter != 0)
		rp_buf_addf(out, "|-%c", o->letter);
	rp_buf_adds(out, ") ");
}

static void bash_function(const rp_program *p, rp_buf *out)
{
	function_name(out, p);
	rp_buf_adds(out, "()\n{\n");
	if (p->mode != NULL) {
		rp_buf_addf(out, "\tif [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == %s ]]; then ", p->mode_word);
		function_name(out, p->mode);
		rp_buf_adds(out, "; return; fi\n");
	}
	rp_buf_adds(out, "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tCOMPREPLY=()\n"
		"\tif [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
		"\tcase $prev in\n");
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		const rp_opt *o = rp_opt_at(p, i);
		if (o->kind == RP_OPT_FLAG)
			continue;
		bash_pattern(out, o);
		if (o->kind == RP_OPT_CHOICE) {
			rp_buf_adds(out, "COMPREPLY=($(compgen -W '");
			choices(out, o);
			rp_buf_adds(out, "' -- \"$cur\")); return;;\n");
		} else if (o->complete != RP_COMPLETE_NONE) {
			rp_buf_addf(out, "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\"); return;;\n",
				o->complete == RP_COMPLETE_DIR ? 'd' : 'f');
		} else {
			rp_buf_adds(out, "return;;\n");
		}
	}
	rp_buf_adds(out, "\tesac\n\tCOMPREPLY=($(compgen -W '");
	for (size_t i = 0; i < rp_opt_count(p); i++)
		rp_buf_addf(out, "%s--%s", i > 0 ? " " : "", rp_opt_at(p, i)->name);
	rp_buf_adds(out, "' -- \"$cur\"))\n}\n");
}

static void bash(const rp_program *p, rp_buf *out)
{
	rp_buf_addf(out, "# bash completion of %s, made by `%s --completion bash`\n", p->name, p->name);
	if (p->mode != NULL)
		bash_function(p->mode, out);
	bash_function(p, out);
	rp_buf_adds(out, "complete -F ");
	function_name(out, p);
	rp_buf_addf(out, " %s\n", p->name);
}

/* ---- zsh ---- */
static void zsh_spec(rp_buf *out, const rp_opt *o)
{
	rp_buf_adds(out, "\t'");
	if (o->repeat)
		rp_buf_adds(out, "*");
	else if (o->letter != 0)
		rp_buf_addf(out, "(-%c --%s)", o->letter, o->name);
	if (o->letter != 0)
		rp_buf_addf(out, "'{-%c%s,--%s%s}'", o->letter, o->kind == RP_OPT_FLAG ? "" : "+", o->name, o->kind == RP_OPT_FLAG ? "" : "=");
	else
		rp_buf_addf(out, "--%s%s", o->name, o->kind == RP_OPT_FLAG ? "" : "=");
	rp_buf_addc(out, '[');
	quoted(out, o->help, "[]\\");
	rp_buf_addc(out, ']');
	if (o->kind == RP_OPT_CHOICE) {
		rp_buf_adds(out, ":value:(");
		choices(out, o);
		rp_buf_addc(out, ')');
	} else if (o->kind != RP_OPT_FLAG) {
		rp_buf_addf(out, ":%s:%s", o->arg, o->complete == RP_COMPLETE_DIR ? "_files -/" : o->complete == RP_COMPLETE_FILE ? "_files" : " ");
	}
	rp_buf_adds(out, "' \\\n");
}

static void zsh_specs(rp_buf *out, const rp_program *p)
{
	for (size_t i = 0; i < rp_opt_count(p); i++)
		zsh_spec(out, rp_opt_at(p, i));
	rp_buf_adds(out, "\t'*:file:_files'\n");
}

static void zsh(const rp_program *p, rp_buf *out)
{
	rp_buf_addf(out, "#compdef %s\n# zsh completion of %s, made by `%s --completion zsh`\n", p->name, p->name, p->name);
	function_name(out, p);
	rp_buf_adds(out, "()\n{\n");
	if (p->mode != NULL) {
		rp_buf_addf(out, "\tif [[ $words[2] == %s && CURRENT -gt 2 ]]; then\n\t_arguments -s -S \\\n\t'%s' \\\n", p->mode_word,
			p->mode_word);
		zsh_specs(out, p->mode);
		rp_buf_adds(out, "\treturn\n\tfi\n");
	}
	rp_buf_adds(out, "\t_arguments -s -S \\\n");
	zsh_specs(out, p);
	rp_buf_adds(out, "}\n");
	/* Autoloaded from fpath the file is the function's body; sourced, it registers the function. */
	rp_buf_adds(out, "if [ \"$funcstack[1]\" = \"");
	function_name(out, p);
	rp_buf_adds(out, "\" ]; then\n\t");
	function_name(out, p);
	rp_buf_adds(out, " \"$@\"\nelse\n\tcompdef ");
	function_name(out, p);
	rp_buf_addf(out, " %s\nfi\n", p->name);
}

/* ---- fish ---- */
/* condition: fish code that must hold, or "" */
static void fish_options(const char *command, const char *condition, const rp_program *p, rp_buf *out)
{
	for (size_t i = 0; i < rp_opt_count(p); i++) {
		const rp_opt *o = rp_opt_at(p, i);
		rp_buf_addf(out, "complete -c %s%s -l %s", command, condition, o->name);
		if (o->letter != 0)
			rp_buf_addf(out, " -s %c", o->letter);
		if (o->kind == RP_OPT_CHOICE) {
			rp_buf_adds(out, " -x -a '");
			choices(out, o);
			rp_buf_addc(out, '\'');
		} else if (o->kind != RP_OPT_FLAG) {
			rp_buf_adds(out, o->complete == RP_COMPLETE_DIR ? " -x -a '(__fish_complete_directories)'" :
				o->complete == RP_COMPLETE_FILE ? " -r -F" : " -x");
		}
		rp_buf_adds(out, " -d '");
		for (const char *c = o->help; *c != '\0'; c++)
			rp_buf_addf(out, "%s%c", *c == '\'' || *c == '\\' ? "\\" : "", *c);
		rp_buf_adds(out, "'\n");
	}
}

static void fish(const rp_program *p, rp_buf *out)
{
	char in_mode[120], elsewhere[120];
	rp_buf_addf(out, "# fish completion of %s, made by `%s --completion fish`\n", p->name, p->name);
	if (p->mode == NULL) {
		fish_options(p->name, "", p, out);
		return;
	}
	snprintf(in_mode, sizeof in_mode, " -n 'contains -- %s (commandline -opc)[2]'", p->mode_word);
	snprintf(elsewhere, sizeof elsewhere, " -n 'not contains -- %s (commandline -opc)[2]'", p->mode_word);
	fish_options(p->name, in_mode, p->mode, out);
	fish_options(p->name, elsewhere, p, out);
}

void rp_completion_text(const rp_program *p, rp_shell shell, rp_buf *out)
{
	switch (shell) {
	case RP_SHELL_BASH: bash(p, out); break;
	case RP_SHELL_ZSH: zsh(p, out); break;
	case RP_SHELL_FISH: fish(p, out); break;
	}
}
