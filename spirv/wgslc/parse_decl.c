/* parse_decl: directives, attributes, module-scope declarations. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static decl *new_decl(parser *p, decl_kind kind, uint32_t at)
{
	decl *d = wl_new(p->w, sizeof *d);
	d->kind = kind;
	d->at = at;
	return d;
}

/* ---- attributes ---- */

static void parse_io(parser *p, attrs *a)
{
	static const struct {
		const char *name;
		io_builtin io;
	} names[] = {{"global_invocation_id", IO_GLOBAL_ID}, {"local_invocation_id", IO_LOCAL_ID},
	             {"local_invocation_index", IO_LOCAL_INDEX}, {"workgroup_id", IO_WORKGROUP_ID},
	             {"num_workgroups", IO_NUM_WORKGROUPS}, {"subgroup_invocation_id", IO_SUBGROUP_INVOCATION},
	             {"subgroup_size", IO_SUBGROUP_SIZE}, {"subgroup_id", IO_SUBGROUP_ID}, {"num_subgroups", IO_NUM_SUBGROUPS},
	             {"global_invocation_index", IO_GLOBAL_INDEX}, {"workgroup_index", IO_WORKGROUP_INDEX}};
	uint32_t at = wl_peek(p)->at;
	sym *s = wl_ident(p, "the name of a built-in value");
	for (size_t i = 0; s && i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i].name, s->s) == 0)
			a->io = names[i].io;
	if (s && a->io == IO_NONE)
		wl_error(p->w, at, "'%s' is no built-in value of compute shaders", s->s);
}

/* '(' e, e, ... ')' of one attribute: fills out[min..max). */
static void attr_args(parser *p, const char *name, uint32_t min, uint32_t max, expr **out)
{
	uint32_t n, at = wl_peek(p)->at;
	wl_expect(p, T_LPAREN, "after the attribute");
	expr **list = wl_parse_list(p, T_RPAREN, &n, "to close the attribute");
	if (!p->panic && (n < min || n > max))
		wl_error(p->w, at, "@%s takes %s%u argument%s, found %u", name, min == max ? "" : "up to ", max, max == 1 ? "" : "s", n);
	for (uint32_t i = 0; i < n && i < max; i++)
		out[i] = list[i];
}

/* (severity, rule): read and ignored, because nothing here gives the warnings it turns off */
static void diagnostic_filter(parser *p)
{
	static const char severities[] = " off info warning error ";
	wl_expect(p, T_LPAREN, "after 'diagnostic'");
	const token *t = wl_peek(p);
	sym *s = wl_ident(p, "a severity: off, info, warning or error");
	if (s && !strstr(severities, wl_printf(p->w, " %s ", s->s)))
		wl_error(p->w, t->at, "'%s' is no severity; expected off, info, warning or error", s->s);
	wl_expect(p, T_COMMA, "after the severity");
	wl_ident(p, "a diagnostic rule");
	if (wl_accept(p, T_DOT))
		wl_ident(p, "a diagnostic rule");
	wl_accept(p, T_COMMA);
	wl_expect(p, T_RPAREN, "to close 'diagnostic'");
}

static void parse_attr(parser *p, attrs *a)
{
	const token *t = wl_peek(p);
	uint32_t at = t->at;
	if (wl_accept_kw(p, K_CONST))
		return;
	if (wl_accept_kw(p, K_DIAGNOSTIC)) {
		diagnostic_filter(p);
		return;
	}
	sym *name = wl_ident(p, "an attribute");
	if (!name)
		return;
	const char *s = name->s;
	if (strcmp(s, "group") == 0) {
		attr_args(p, s, 1, 1, &a->group);
	} else if (strcmp(s, "binding") == 0) {
		attr_args(p, s, 1, 1, &a->binding);
	} else if (strcmp(s, "id") == 0) {
		attr_args(p, s, 1, 1, &a->id);
	} else if (strcmp(s, "align") == 0) {
		attr_args(p, s, 1, 1, &a->align);
	} else if (strcmp(s, "size") == 0) {
		attr_args(p, s, 1, 1, &a->size);
	} else if (strcmp(s, "workgroup_size") == 0) {
		a->has_workgroup = true;
		attr_args(p, s, 1, 3, a->workgroup);
	} else if (strcmp(s, "compute") == 0) {
		a->compute = true;
	} else if (strcmp(s, "must_use") == 0) {
		a->must_use = true;
	} else if (strcmp(s, "builtin") == 0) {
		wl_expect(p, T_LPAREN, "after @builtin");
		parse_io(p, a);
		wl_accept(p, T_COMMA);
		wl_expect(p, T_RPAREN, "to close @builtin");
	} else if (strcmp(s, "vertex") == 0 || strcmp(s, "fragment") == 0 || strcmp(s, "location") == 0 ||
	           strcmp(s, "interpolate") == 0 || strcmp(s, "invariant") == 0 || strcmp(s, "blend_src") == 0) {
		wl_unsupported(p->w, at, "@%s belongs to vertex and fragment shaders; only compute shaders are translated", s);
		p->panic = true;
	} else {
		wl_error(p->w, at, "unknown attribute @%s", s);
		p->panic = true;
	}
}

void wl_parse_attrs(parser *p, attrs *a)
{
	a->at = wl_peek(p)->at;
	while (wl_accept(p, T_AT))
		parse_attr(p, a);
}

/* ---- variables ---- */

static void parse_var_template(parser *p, decl *d)
{
	static const struct {
		const char *name;
		space sp;
	} spaces[] = {{"function", SP_FUNCTION}, {"private", SP_PRIVATE}, {"workgroup", SP_WORKGROUP}, {"uniform", SP_UNIFORM},
	              {"storage", SP_STORAGE}};
	uint32_t at = wl_peek(p)->at;
	sym *s = wl_ident(p, "an address space");
	for (size_t i = 0; s && i < sizeof spaces / sizeof *spaces; i++)
		if (strcmp(s->s, spaces[i].name) == 0)
			d->space = spaces[i].sp;
	if (s && d->space == SP_NONE)
		wl_error(p->w, at, "'%s' is no address space; expected private, workgroup, uniform or storage", s->s);
	d->access = d->space == SP_STORAGE || d->space == SP_UNIFORM ? AC_READ : AC_READ_WRITE;
	if (wl_accept(p, T_COMMA) && wl_peek(p)->kind != T_TEMPLATE_CLOSE) {
		at = wl_peek(p)->at;
		s = wl_ident(p, "an access mode");
		if (s && d->space != SP_STORAGE)
			wl_error(p->w, at, "only var<storage> takes an access mode");
		else if (s && strcmp(s->s, "read_write") == 0)
			d->access = AC_READ_WRITE;
		else if (s && strcmp(s->s, "read") != 0)
			wl_error(p->w, at, "'%s' is no access mode of storage buffers; expected read or read_write", s->s);
		wl_accept(p, T_COMMA);
	}
	wl_expect(p, T_TEMPLATE_CLOSE, "after the address space");
}

/* var, let, const, override up to but without the semicolon */
decl *wl_parse_variable(parser *p, bool local)
{
	const token *t = wl_peek(p);
	decl *d = new_decl(p, t->kw == K_LET ? D_LET : t->kw == K_CONST ? D_CONST : t->kw == K_OVERRIDE ? D_OVERRIDE : D_VAR, t->at);
	d->local = local;
	p->i++;
	d->access = AC_READ_WRITE;
	if (d->kind == D_VAR) {
		if (wl_accept(p, T_TEMPLATE_OPEN))
			parse_var_template(p, d);
		else if (local)
			d->space = SP_FUNCTION;
	}
	d->at = wl_peek(p)->at;
	d->name = wl_ident(p, "a name");
	if (wl_accept(p, T_COLON))
		d->type_expr = wl_parse_type(p);
	if (wl_accept(p, T_ASSIGN))
		d->init = wl_parse_expr(p);
	if (!p->panic && !d->init && (d->kind == D_LET || d->kind == D_CONST))
		wl_syntax(p, "'=' (a value is needed)");
	if (!p->panic && !d->init && !d->type_expr)
		wl_syntax(p, "':' and a type, or '=' and a value");
	return d;
}

/* ---- structures and functions ---- */

static void member_list(parser *p, decl *owner, decl_kind kind, tok_kind close, const char *where)
{
	decl_list l = {0};
	while (!p->panic && wl_peek(p)->kind != close) {
		attrs a = {0};
		wl_parse_attrs(p, &a);
		decl *m = new_decl(p, kind, wl_peek(p)->at);
		m->attrs = a;
		m->local = kind == D_PARAM;
		m->name = wl_ident(p, kind == D_MEMBER ? "a member name" : "a parameter name");
		wl_expect(p, T_COLON, "and a type");
		m->type_expr = wl_parse_type(p);
		wl_push_decl(p->w, &l, m);
		if (!wl_accept(p, T_COMMA))
			break;
	}
	wl_expect(p, close, where);
	owner->members = l.d;
	owner->n_members = l.n;
}

static decl *parse_struct(parser *p)
{
	p->i++;
	decl *d = new_decl(p, D_STRUCT, wl_peek(p)->at);
	d->name = wl_ident(p, "a structure name");
	wl_expect(p, T_LBRACE, "to open the structure");
	member_list(p, d, D_MEMBER, T_RBRACE, "or ',' after the member");
	wl_accept(p, T_SEMI);
	return d;
}

static decl *parse_fn(parser *p)
{
	p->i++;
	decl *d = new_decl(p, D_FN, wl_peek(p)->at);
	d->name = wl_ident(p, "a function name");
	wl_expect(p, T_LPAREN, "after the function name");
	member_list(p, d, D_PARAM, T_RPAREN, "or ',' after the parameter");
	if (wl_accept(p, T_ARROW)) {
		attrs a = {0};
		wl_parse_attrs(p, &a);
		d->type_expr = wl_parse_type(p);
	}
	d->body = wl_parse_block(p);
	return d;
}

static decl *parse_keyword_decl(parser *p, const token *t)
{
	decl *d = NULL;
	switch (t->kw) {
	case K_STRUCT:
		return parse_struct(p);
	case K_FN:
		return parse_fn(p);
	case K_VAR:
	case K_CONST:
	case K_OVERRIDE:
		d = wl_parse_variable(p, false);
		break;
	case K_ALIAS:
		p->i++;
		d = new_decl(p, D_ALIAS, wl_peek(p)->at);
		d->name = wl_ident(p, "a name");
		wl_expect(p, T_ASSIGN, "after the name of the alias");
		d->type_expr = wl_parse_type(p);
		break;
	case K_CONST_ASSERT:
		p->i++;
		d = new_decl(p, D_ASSERT, wl_peek(p)->at);
		d->init = wl_parse_expr(p);
		break;
	case K_LET:
		wl_error(p->w, t->at, "'let' stands only in functions; use 'const' or 'override' here");
		p->panic = true;
		break;
	default:
		wl_syntax(p, "a declaration");
		break;
	}
	wl_expect(p, T_SEMI, "after the declaration");
	return d;
}

/* ---- directives ---- */

static void enable(parser *p, const token *t)
{
	wl *w = p->w;
	if (strcmp(t->name->s, "f16") == 0)
		w->f16 = true;
	else if (strcmp(t->name->s, "subgroups") == 0)
		w->subgroups = true;
	else if (strcmp(t->name->s, "chromium_experimental_subgroup_matrix") == 0)
		w->matrices = true;
	else
		wl_unsupported(w, t->at, "the extension '%s' is not supported; f16, subgroups and chromium_experimental_subgroup_matrix are",
		               t->name->s);
}

static void require(parser *p, const token *t)
{
	static const char known[] = " packed_4x8_integer_dot_product unrestricted_pointer_parameters pointer_composite_access"
	                            " readonly_and_readwrite_storage_textures subgroup_id subgroup_uniformity linear_indexing"
	                            " ";
	char *word = wl_printf(p->w, " %s ", t->name->s);
	if (!strstr(known, word))
		wl_unsupported(p->w, t->at, "the language feature '%s' is not supported", t->name->s);
	if (strcmp(t->name->s, "packed_4x8_integer_dot_product") == 0)
		p->w->int_dot = true;
}

static void name_list(parser *p, void (*each)(parser *, const token *))
{
	do {
		const token *t = wl_peek(p);
		if (t->kind == T_SEMI)
			break;
		if (wl_ident(p, "the name of an extension"))
			each(p, t);
	} while (wl_accept(p, T_COMMA));
}

static bool parse_directive(parser *p)
{
	if (wl_accept_kw(p, K_ENABLE)) {
		name_list(p, enable);
	} else if (wl_accept_kw(p, K_REQUIRES)) {
		name_list(p, require);
	} else if (wl_accept_kw(p, K_DIAGNOSTIC)) {
		diagnostic_filter(p);
	} else {
		return false;
	}
	wl_expect(p, T_SEMI, "after the directive");
	return true;
}

/* After a syntax error: to the next ';' or '}' outside braces that a declaration keyword or attribute follows. */
static void synchronise(parser *p, uint32_t start)
{
	wl *w = p->w;
	uint32_t depth = 0;
	p->panic = false;
	p->depth = 0;
	for (uint32_t i = start; w->tokens[i].kind != T_EOF; i++) {
		tok_kind k = w->tokens[i].kind;
		depth += k == T_LBRACE ? 1 : 0;
		depth -= k == T_RBRACE && depth ? 1 : 0;
		const token *next = &w->tokens[i + 1];
		bool starts = next->kind == T_AT || next->kind == T_EOF ||
		              (next->kind == T_KEYWORD && (next->kw == K_FN || next->kw == K_STRUCT || next->kw == K_VAR || next->kw == K_CONST ||
		                                           next->kw == K_OVERRIDE || next->kw == K_ALIAS));
		if ((k == T_SEMI || k == T_RBRACE) && !depth && i + 1 > p->i && starts) {
			p->i = i + 1;
			return;
		}
	}
	p->i = w->n_tokens - 1;
}

void wl_parse(wl *w)
{
	parser parser_state = {.w = w}, *p = &parser_state;
	bool directives = true;
	while (w->tokens[p->i].kind != T_EOF) {
		uint32_t start = p->i;
		attrs a = {0};
		if (directives && parse_directive(p)) {
			if (p->panic)
				synchronise(p, start);
			continue;
		}
		if (wl_accept(p, T_SEMI))
			continue;
		directives = false;
		wl_parse_attrs(p, &a);
		const token *t = wl_peek(p);
		decl *d = NULL;
		if (t->kind == T_KEYWORD && (t->kw == K_ENABLE || t->kw == K_REQUIRES || t->kw == K_DIAGNOSTIC))
			wl_syntax(p, "a declaration (directives come first in the file)");
		else if (t->kind == T_KEYWORD)
			d = parse_keyword_decl(p, t);
		else
			wl_syntax(p, "a declaration");
		if (p->panic) {
			synchronise(p, start);
		} else if (d) {
			d->attrs = a;
			wl_push_decl(w, &w->globals, d);
		}
	}
}
