/* parse_stmt: statements. */
#include "spirv/wgslc/internal.h"

#include <string.h>

static stmt *new_stmt(parser *p, stmt_kind kind, uint32_t at)
{
	stmt *s = wl_new(p->w, sizeof *s);
	s->kind = kind;
	s->at = at;
	return s;
}

static stmt *parse_statement(parser *p);

static void push_stmt(parser *p, stmt *list, stmt *s, uint32_t *cap)
{
	if (list->n_list == *cap) {
		*cap = *cap ? *cap * 2 : 8;
		stmt **bigger = wl_array(p->w, *cap, sizeof *bigger);
		if (list->n_list)
			memcpy(bigger, list->list, list->n_list * sizeof *bigger);
		list->list = bigger;
	}
	list->list[list->n_list++] = s;
}

/* Attributes allowed before statements (diagnostic filters) change nothing here. */
static void skip_attrs(parser *p)
{
	attrs a = {0};
	wl_parse_attrs(p, &a);
}

stmt *wl_parse_block(parser *p)
{
	uint32_t cap = 0;
	skip_attrs(p);
	stmt *b = new_stmt(p, SM_BLOCK, wl_peek(p)->at);
	wl_enter(p);
	if (wl_expect(p, T_LBRACE, "to open a block"))
		while (!p->panic && wl_peek(p)->kind != T_RBRACE && wl_peek(p)->kind != T_EOF) {
			stmt *s = parse_statement(p);
			if (s->kind != SM_EMPTY)
				push_stmt(p, b, s, &cap);
		}
	wl_expect(p, T_RBRACE, "to close the block");
	wl_leave(p);
	return b;
}

/* Assignment, increment, call or phony assignment, without the semicolon: also used in the header of for. */
static stmt *parse_simple(parser *p)
{
	const token *t = wl_peek(p);
	stmt *s = new_stmt(p, SM_ASSIGN, t->at);
	if (t->kind == T_IDENT && strcmp(t->name->s, "_") == 0 && wl_peek2(p)->kind == T_ASSIGN) {
		p->i += 2;
		s->kind = SM_PHONY;
		s->e = wl_parse_expr(p);
		return s;
	}
	if (t->kind != T_IDENT && t->kind != T_LPAREN && t->kind != T_STAR && t->kind != T_AND) {
		wl_syntax(p, "a statement");
		return s;
	}
	s->lhs = wl_parse_lhs(p);
	t = wl_peek(p);
	if (t->kind == T_ASSIGN || (t->kind >= T_ASSIGN_PLUS && t->kind <= T_ASSIGN_SHR)) {
		p->i++;
		s->at = t->at;
		s->op = t->kind == T_ASSIGN ? T_ASSIGN : (tok_kind)(t->kind - T_ASSIGN_PLUS + T_PLUS);
		s->e = wl_parse_expr(p);
	} else if (t->kind == T_INC || t->kind == T_DEC) {
		p->i++;
		s->kind = SM_INCDEC;
		s->op = t->kind;
	} else if (s->lhs && s->lhs->kind == EX_CALL && !s->lhs->paren) {
		s->kind = SM_CALL;
		s->e = s->lhs;
	} else {
		wl_syntax(p, "'=', a compound assignment, '++' or '--'");
	}
	return s;
}

static stmt *parse_variable_stmt(parser *p)
{
	stmt *s = new_stmt(p, SM_DECL, wl_peek(p)->at);
	s->decl = wl_parse_variable(p, true);
	return s;
}

static stmt *parse_if(parser *p)
{
	stmt *s = new_stmt(p, SM_IF, wl_peek(p)->at);
	wl_enter(p);
	p->i++;
	s->e = wl_parse_expr(p);
	s->body = wl_parse_block(p);
	if (wl_accept_kw(p, K_ELSE))
		s->other = wl_is_kw(p, K_IF) ? parse_if(p) : wl_parse_block(p);
	wl_leave(p);
	return s;
}

static void parse_selectors(parser *p, stmt *c)
{
	uint32_t cap = 0;
	while (!p->panic && wl_peek(p)->kind != T_COLON && wl_peek(p)->kind != T_LBRACE && wl_peek(p)->kind != T_AT) {
		if (c->n_selectors == cap) {
			cap = cap ? cap * 2 : 8;
			expr **bigger = wl_array(p->w, cap, sizeof *bigger);
			if (c->n_selectors)
				memcpy(bigger, c->selectors, c->n_selectors * sizeof *bigger);
			c->selectors = bigger;
		}
		if (wl_accept_kw(p, K_DEFAULT))
			c->has_default = true;
		else
			c->selectors[c->n_selectors++] = wl_parse_expr(p);
		if (!wl_accept(p, T_COMMA))
			break;
	}
	if (!c->n_selectors && !c->has_default)
		wl_syntax(p, "a case selector");
}

static stmt *parse_switch(parser *p)
{
	uint32_t cap = 0;
	stmt *s = new_stmt(p, SM_SWITCH, wl_peek(p)->at);
	p->i++;
	s->e = wl_parse_expr(p);
	skip_attrs(p);
	wl_expect(p, T_LBRACE, "to open the switch");
	while (!p->panic && wl_peek(p)->kind != T_RBRACE) {
		stmt *c = new_stmt(p, SM_CASE, wl_peek(p)->at);
		if (wl_accept_kw(p, K_DEFAULT))
			c->has_default = true;
		else if (wl_accept_kw(p, K_CASE))
			parse_selectors(p, c);
		else
			wl_syntax(p, "'case', 'default' or '}'");
		wl_accept(p, T_COLON);
		c->body = wl_parse_block(p);
		push_stmt(p, s, c, &cap);
	}
	wl_expect(p, T_RBRACE, "to close the switch");
	return s;
}

/* continuing { ... break if e; } */
static stmt *parse_continuing(parser *p)
{
	uint32_t cap = 0;
	skip_attrs(p);
	stmt *b = new_stmt(p, SM_BLOCK, wl_peek(p)->at);
	wl_enter(p);
	wl_expect(p, T_LBRACE, "to open the continuing block");
	while (!p->panic && wl_peek(p)->kind != T_RBRACE && wl_peek(p)->kind != T_EOF) {
		const token *next = wl_peek2(p);
		stmt *s;
		if (wl_is_kw(p, K_BREAK) && next->kind == T_KEYWORD && next->kw == K_IF) {
			s = new_stmt(p, SM_BREAK_IF, wl_peek(p)->at);
			p->i += 2;
			s->e = wl_parse_expr(p);
			wl_expect(p, T_SEMI, "after 'break if'");
			push_stmt(p, b, s, &cap);
			break;
		}
		s = parse_statement(p);
		if (s->kind != SM_EMPTY)
			push_stmt(p, b, s, &cap);
	}
	wl_expect(p, T_RBRACE, "to close the continuing block ('break if' comes last)");
	wl_leave(p);
	return b;
}

static stmt *parse_loop(parser *p)
{
	uint32_t cap = 0;
	stmt *s = new_stmt(p, SM_LOOP, wl_peek(p)->at);
	p->i++;
	skip_attrs(p);
	s->body = new_stmt(p, SM_BLOCK, wl_peek(p)->at);
	wl_enter(p);
	wl_expect(p, T_LBRACE, "to open the loop");
	while (!p->panic && wl_peek(p)->kind != T_RBRACE && wl_peek(p)->kind != T_EOF) {
		if (wl_accept_kw(p, K_CONTINUING)) {
			s->other = parse_continuing(p);
			break;
		}
		stmt *b = parse_statement(p);
		if (b->kind != SM_EMPTY)
			push_stmt(p, s->body, b, &cap);
	}
	wl_expect(p, T_RBRACE, "to close the loop ('continuing' comes last)");
	wl_leave(p);
	return s;
}

static stmt *parse_for(parser *p)
{
	stmt *s = new_stmt(p, SM_FOR, wl_peek(p)->at);
	p->i++;
	wl_expect(p, T_LPAREN, "after 'for'");
	if (wl_is_kw(p, K_VAR) || wl_is_kw(p, K_LET) || wl_is_kw(p, K_CONST))
		s->init = parse_variable_stmt(p);
	else if (wl_peek(p)->kind != T_SEMI)
		s->init = parse_simple(p);
	wl_expect(p, T_SEMI, "after the first part of 'for'");
	if (!p->panic && wl_peek(p)->kind != T_SEMI)
		s->e = wl_parse_expr(p);
	wl_expect(p, T_SEMI, "after the condition of 'for'");
	if (!p->panic && wl_peek(p)->kind != T_RPAREN)
		s->update = parse_simple(p);
	wl_expect(p, T_RPAREN, "to close the header of 'for'");
	s->body = wl_parse_block(p);
	return s;
}

static stmt *parse_keyword(parser *p, const token *t)
{
	stmt *s = new_stmt(p, SM_EMPTY, t->at);
	switch (t->kw) {
	case K_IF:
		return parse_if(p);
	case K_SWITCH:
		return parse_switch(p);
	case K_LOOP:
		return parse_loop(p);
	case K_FOR:
		return parse_for(p);
	case K_WHILE:
		p->i++;
		s->kind = SM_WHILE;
		s->e = wl_parse_expr(p);
		s->body = wl_parse_block(p);
		return s;
	case K_VAR:
	case K_LET:
	case K_CONST:
		s = parse_variable_stmt(p);
		break;
	case K_BREAK:
		p->i++;
		s->kind = SM_BREAK;
		if (wl_is_kw(p, K_IF))
			wl_syntax(p, "';' ('break if' stands only at the end of a continuing block)");
		break;
	case K_CONTINUE:
		p->i++;
		s->kind = SM_CONTINUE;
		break;
	case K_RETURN:
		p->i++;
		s->kind = SM_RETURN;
		if (wl_peek(p)->kind != T_SEMI)
			s->e = wl_parse_expr(p);
		break;
	case K_CONST_ASSERT:
		p->i++;
		s->kind = SM_CONST_ASSERT;
		s->e = wl_parse_expr(p);
		break;
	case K_DISCARD:
		wl_unsupported(p->w, t->at, "'discard' is for fragment shaders");
		p->panic = true;
		break;
	default:
		wl_syntax(p, "a statement");
		break;
	}
	wl_expect(p, T_SEMI, "after the statement");
	return s;
}

static stmt *parse_statement(parser *p)
{
	stmt *s;
	wl_enter(p);
	if (wl_peek(p)->kind == T_AT)
		skip_attrs(p);
	const token *t = wl_peek(p);
	if (wl_accept(p, T_SEMI)) {
		s = new_stmt(p, SM_EMPTY, t->at);
	} else if (t->kind == T_LBRACE) {
		s = wl_parse_block(p);
	} else if (t->kind == T_KEYWORD) {
		s = parse_keyword(p, t);
	} else {
		s = parse_simple(p);
		wl_expect(p, T_SEMI, "after the statement");
	}
	wl_leave(p);
	return s;
}
