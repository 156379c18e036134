#include "options_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG = 1 << 16 };

/* One value, or one a line for a repeatable option. */
static rp_code set_lines(rp_opt_parse *s, size_t i, const char *text, rp_source from, const char *where, rp_error *err)
{
	bool repeat = rp_opt_at(s->p, i)->repeat;
	while (*text != '\0') {
		size_t n = repeat ? strcspn(text, "\n") : strlen(text);
		char *value = rp_arena_strndup(&s->parsed->arena, text, n);
		if (value == NULL)
			return rp_no_memory(err, n, where);
		rp_code code = rp_opt_set(s, i, value, from, where, err);
		if (code != RP_OK)
			return code;
		text += n;
		text += *text == '\n';
	}
	return RP_OK;
}

rp_code rp_opt_environment(rp_opt_parse *s, rp_error *err)
{
	for (size_t i = 0; i < rp_opt_count(s->p); i++) {
		char name[80];
		if (s->source[i] != RP_FROM_DEFAULT || !rp_opt_has_env(s->p, i))
			continue;
		const char *value = getenv(rp_env_name(name, sizeof name, rp_opt_at(s->p, i)->name));
		if (value == NULL || *value == '\0') /* set but empty is the usual way to unset */
			continue;
		rp_code code = set_lines(s, i, value, RP_FROM_ENV, name, err);
		if (code != RP_OK)
			return code;
	}
	return RP_OK;
}

/* ---- the file ---- */
static char *config_path(const rp_opt_parse *s, bool *named)
{
	const char *path = s->common.config != NULL ? s->common.config : getenv("REPLOID_CONFIG");
	*named = path != NULL && *path != '\0';
	if (*named)
		return rp_strdup(path);
	const char *base = getenv("XDG_CONFIG_HOME");
	if (base != NULL && *base == '/')
		return rp_asprintf("%s/reploid/config", base);
	base = getenv("HOME");
	return base != NULL && *base != '\0' ? rp_asprintf("%s/.config/reploid/config", base) : NULL;
}

static char *trim(char *text)
{
	text += strspn(text, " \t\r");
	size_t n = strlen(text);
	while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL)
		text[--n] = '\0';
	return text;
}

/* The option a line's name means: *mine false when it is for another program or unknown to this one without a prefix. */
static rp_code config_option(const rp_opt_parse *s, const char *name, const char *where, size_t *index, bool *mine, rp_error *err)
{
	const char *dot = strchr(name, '.'), *program = strchr(s->p->name, '-') != NULL ? strchr(s->p->name, '-') + 1 : s->p->name;
	*mine = false;
	if (dot != NULL && (strlen(program) != (size_t)(dot - name) || memcmp(program, name, (size_t)(dot - name)) != 0))
		return RP_OK;
	const char *option = dot != NULL ? dot + 1 : name;
	for (size_t i = 0; i < s->p->n_opts; i++) {
		if (strcmp(s->p->opts[i].name, option) == 0) {
			*index = i;
			*mine = true;
			return RP_OK;
		}
	}
	char shown[80];
	if (dot != NULL)
		return rp_fail(err, RP_USAGE, "%s: %s has no option '%s'", where, s->p->name, rp_show(shown, sizeof shown, option, strlen(option)));
	return RP_OK;
}

static rp_code config_line(rp_opt_parse *s, char *line, const char *path, unsigned number, rp_error *err)
{
	char where[400];
	line = trim(line);
	if (*line == '\0' || *line == '#')
		return RP_OK;
	snprintf(where, sizeof where, "%s:%u", path, number);
	char *equals = strchr(line, '=');
	if (equals == NULL)
		return rp_fail(err, RP_USAGE, "%s: expected `name = value'", where);
	*equals = '\0';
	size_t i = 0;
	bool mine;
	rp_code code = config_option(s, trim(line), where, &i, &mine, err);
	if (code != RP_OK || !mine || s->source[i] > RP_FROM_CONFIG)
		return code;
	snprintf(where, sizeof where, "%s:%u: %s", path, number, rp_opt_at(s->p, i)->name);
	return rp_opt_set(s, i, trim(equals + 1), RP_FROM_CONFIG, where, err);
}

static rp_code config_text(rp_opt_parse *s, const char *path, const char *data, size_t len, rp_error *err)
{
	size_t valid = rp_utf8_valid(data, len);
	if (valid != len || memchr(data, 0, len) != NULL)
		return rp_fail(err, RP_USAGE, "%s: not UTF-8 text (from byte %zu)", path, valid);
	char *text = rp_arena_strndup(&s->parsed->arena, data, len); /* values stay in use */
	if (text == NULL)
		return rp_no_memory(err, len, path);
	for (unsigned number = 1; text != NULL; number++) {
		char *next = strchr(text, '\n');
		if (next != NULL)
			*next++ = '\0';
		rp_code code = config_line(s, text, path, number, err);
		if (code != RP_OK)
			return code;
		text = next;
	}
	return RP_OK;
}

rp_code rp_opt_config_file(rp_opt_parse *s, rp_error *err)
{
	bool named;
	char *path = config_path(s, &named), *data = NULL;
	size_t len = 0;
	if (path == NULL)
		return RP_OK;
	rp_code code = strcmp(path, "/dev/null") == 0 ? RP_NOT_FOUND : rp_read_file(path, MAX_CONFIG, &data, &len, err);
	if (code == RP_NOT_FOUND && (!named || strcmp(path, "/dev/null") == 0))
		code = RP_OK;
	else if (code == RP_OK)
		code = config_text(s, path, data, len, err);
	else
		rp_error_prefix(err, code, "configuration: ");
	free(data);
	free(path);
	return code;
}

rp_code rp_opt_defaults(rp_opt_parse *s, rp_error *err)
{
	for (size_t i = 0; i < s->p->n_opts; i++) {
		const rp_opt *o = &s->p->opts[i];
		if (s->source[i] != RP_FROM_DEFAULT)
			continue;
		if (o->kind == RP_OPT_CHOICE) {
			int none = -1;
			memcpy((char *)s->out + o->at, &none, sizeof none);
		}
		if (o->def == NULL)
			continue;
		rp_code code = rp_opt_set(s, i, o->def, RP_FROM_DEFAULT, o->name, err);
		if (code != RP_OK)
			return rp_error_prefix(err, RP_INTERNAL, "the default of an option: ");
	}
	return RP_OK;
}
