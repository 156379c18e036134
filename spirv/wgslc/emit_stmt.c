/* emit_stmt: statements. */
#include "spirv/wgslc/emit.h"

#include <stdio.h>

static void statement(emitter *em, const stmt *s);

void em_line(emitter *em, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	for (unsigned i = 0; i < em->indent && i < 60; i++)
		rp_buf_addc(em->out, '\t');
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n > 0 && rp_buf_reserve(em->out, (size_t)n + 1)) {
		va_start(ap, fmt);
		vsnprintf(em->out->data + em->out->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
		em->out->len += (size_t)n;
	}
	rp_buf_addc(em->out, '\n');
}

/* ---- simple statements, as expressions so that a for header can hold them ---- */

/* a op= b: GLSL's own compound assignment where the operator means the same, else a = a op b. An inout parameter keeps the
 * left side evaluated once when it has effects. */
static const char *compound(emitter *em, const stmt *s, const char *lhs)
{
	const expr *op = s->e, *v = op->args[1];
	const char *text = em_expr_text(em, v);
	rp_buf b;
	rp_buf_init(&b, 0);
	bool boolean = wl_elem(s->lhs->type)->kind == TY_BOOL;
	bool plain = (s->op == T_PLUS || s->op == T_MINUS || s->op == T_STAR || s->op == T_AND || s->op == T_OR || s->op == T_XOR) && !boolean;
	if (s->op == T_SLASH && wl_is_float(wl_elem(s->lhs->type)))
		plain = true;
	if (plain) {
		rp_buf_addf(&b, "%s %s= %s", lhs, wl_tok_name(s->op), text);
	} else {
		rp_buf_addf(&b, "%s = ", lhs);
		em_binary(em, &b, s->op, ST_RUNTIME, s->lhs->type, lhs, v->type, text, v->val);
	}
	if (!plain && s->lhs->impure)
		wl_unsupported(em->w, s->at, "'%s=' to a place whose index calls functions; put the index into a 'let'", wl_tok_name(s->op));
	return em_text(em, &b);
}

static const char *simple(emitter *em, const stmt *s)
{
	if (s->kind == SM_CALL || s->kind == SM_PHONY)
		return em_expr_text(em, s->e);
	chain c;
	em_chain(em, s->lhs, false, &c);
	const char *lhs = em_chain_text(em, &c);
	if (s->kind == SM_INCDEC)
		return wl_printf(em->w, "%s%s", lhs, s->op == T_INC ? "++" : "--");
	if (s->op == T_ASSIGN)
		return wl_printf(em->w, "%s = %s", lhs, em_expr_text(em, s->e));
	return compound(em, s, lhs);
}

/* '_ = e' keeps e's effects, and marks a buffer as used */
static void phony(emitter *em, const stmt *s)
{
	if (s->e->type->kind == TY_PTR) {
		chain c;
		em_pointer(em, s->e, false, &c);
	} else if (s->e->is_ref) {
		chain c;
		em_chain(em, s->e, false, &c);
	} else if (!s->e->val) {
		const char *text = em_expr_text(em, s->e);
		if (s->e->impure)
			em_line(em, "%s;", text);
	}
}

static const char *declaration(emitter *em, decl *d)
{
	rp_buf b;
	rp_buf_init(&b, 0);
	const char *init = d->init ? em_expr_text(em, d->init) : NULL;
	em_declare(em, &b, d->type, em_name(em, d));
	if (!init && (d->type->kind == TY_ARRAY || d->type->kind == TY_STRUCT)) {
		em->needs |= NEED_NULL_INIT;
		init = "{}";
	}
	rp_buf_addf(&b, " = %s", init ? init : em_zero(em, d->type));
	return em_text(em, &b);
}

static void declare(emitter *em, decl *d)
{
	if (d->kind == D_CONST)
		return; /* written where it is used */
	if (d->type->kind == TY_PTR) {
		chain *c = wl_new(em->w, sizeof *c);
		em_pointer(em, d->init, true, c);
		d->chain = c;
		return;
	}
	em_line(em, "%s;", declaration(em, d));
}

/* ---- blocks and branches ---- */

static void list(emitter *em, const stmt *s)
{
	em->indent++;
	for (uint32_t i = 0; i < s->n_list; i++)
		statement(em, s->list[i]);
	em->indent--;
}

void em_block(emitter *em, const stmt *s)
{
	em_line(em, "{");
	list(em, s);
	em_line(em, "}");
}

static void if_chain(emitter *em, const stmt *s)
{
	const char *word = "if";
	for (; s && s->kind == SM_IF; s = s->other) {
		em_line(em, "%s (%s)", word, em_expr_text(em, s->e));
		em_block(em, s->body);
		word = "else if";
	}
	if (s) {
		em_line(em, "else");
		em_block(em, s);
	}
}

static void push_loop(emitter *em, loop_ctx *c, const stmt *loop)
{
	*c = (loop_ctx){.up = em->loop, .loop = loop};
	em->loop = c;
}

static void switch_stmt(emitter *em, const stmt *s)
{
	loop_ctx c;
	const char *selector = em_expr_text(em, s->e);
	rp_buf before, *out = em->out; /* the flag, if one is needed, is declared before the switch */
	rp_buf_init(&before, WL_MAX_GLSL);
	push_loop(em, &c, NULL);
	em->out = &before;
	em_line(em, "switch (%s)", selector);
	em_line(em, "{");
	for (uint32_t i = 0; i < s->n_list; i++) {
		const stmt *k = s->list[i];
		for (uint32_t n = 0; n < k->n_selectors; n++)
			em_line(em, "case %s:", em_expr_text(em, k->selectors[n]));
		if (k->has_default)
			em_line(em, "default:");
		em_block(em, k->body);
		em_line(em, "break;");
	}
	em_line(em, "}");
	em->loop = c.up;
	em->out = out;
	if (c.flag)
		em_line(em, "bool %s = false;", c.flag);
	rp_buf_adds(em->out, em_text(em, &before));
	if (c.flag)
		em_line(em, "if (%s)", c.flag);
	if (c.flag && em->loop && !em->loop->loop) { /* a switch in a switch: hand it on */
		if (!em->loop->flag)
			em->loop->flag = wl_printf(em->w, "t_%u", em->temps++);
		em_line(em, "{ %s = true; break; }", em->loop->flag);
	} else if (c.flag) {
		em_line(em, "\tbreak;");
	}
}

/* ---- loops ---- */

/* GLSL has no continuing block: it is repeated before every continue and at the end of the body. 'break if' must leave the loop
 * even from inside a switch, whose own break would catch it: a flag carries it out. */
static void continuing(emitter *em, const stmt *loop)
{
	const stmt *b = loop->other;
	loop_ctx *inner = em->loop;
	for (uint32_t i = 0; b && i < b->n_list; i++) {
		const stmt *s = b->list[i];
		if (s->kind != SM_BREAK_IF) {
			statement(em, s);
		} else if (inner->loop) {
			em_line(em, "if (%s) break;", em_expr_text(em, s->e));
		} else {
			if (!inner->flag)
				inner->flag = wl_printf(em->w, "t_%u", em->temps++);
			em_line(em, "if (%s) { %s = true; break; }", em_expr_text(em, s->e), inner->flag);
		}
	}
}

static void loop_stmt(emitter *em, const stmt *s)
{
	loop_ctx c;
	push_loop(em, &c, s);
	em_line(em, "while (true)");
	em_line(em, "{");
	list(em, s->body);
	em->indent++;
	continuing(em, s);
	em->indent--;
	em_line(em, "}");
	em->loop = c.up;
}

static void continue_stmt(emitter *em)
{
	const loop_ctx *c = em->loop;
	while (c && !c->loop)
		c = c->up;
	if (c && c->loop->kind == SM_LOOP && c->loop->other) {
		em_line(em, "{");
		em->indent++;
		continuing(em, c->loop);
		em_line(em, "continue;");
		em->indent--;
		em_line(em, "}");
	} else {
		em_line(em, "continue;");
	}
}

static bool header_can_hold(const stmt *init)
{
	return !init || (init->kind != SM_DECL && init->kind != SM_PHONY) ||
	       (init->kind == SM_DECL && init->decl->kind != D_CONST && init->decl->type->kind != TY_PTR && init->decl->type->kind != TY_ARRAY);
}

/* Arrays of subgroup matrices must not go to memory, so in modules that have them a counted loop asks for unrolling: one whose
 * variable is compared with something known when the pipeline is made. */
static bool wants_unroll(emitter *em, const stmt *s)
{
	const expr *e = s->e;
	bool counts = em->w->matrices && s->init && s->init->kind == SM_DECL && s->init->decl->init && s->init->decl->init->stage != ST_RUNTIME;
	return counts && e && e->kind == EX_BINARY && (e->op == T_LT || e->op == T_LE) && e->args[1]->stage != ST_RUNTIME;
}

static void for_stmt(emitter *em, const stmt *s)
{
	loop_ctx c;
	bool outside = !header_can_hold(s->init);
	if (outside) {
		em_line(em, "{");
		em->indent++;
		statement(em, s->init);
	}
	const char *init = !s->init || outside ? "" : s->init->kind == SM_DECL ? declaration(em, s->init->decl) : simple(em, s->init);
	const char *cond = s->e ? em_expr_text(em, s->e) : "";
	const char *update = s->update && !(s->update->kind == SM_PHONY && !s->update->e->impure) ? simple(em, s->update) : "";
	bool unroll = wants_unroll(em, s);
	if (unroll)
		em->needs |= NEED_UNROLL;
	em_line(em, "%sfor (%s; %s; %s)", unroll ? "[[unroll]] " : "", init, cond, update);
	push_loop(em, &c, s);
	em_block(em, s->body);
	em->loop = c.up;
	if (outside) {
		em->indent--;
		em_line(em, "}");
	}
}

static void while_stmt(emitter *em, const stmt *s)
{
	loop_ctx c;
	em_line(em, "while (%s)", em_expr_text(em, s->e));
	push_loop(em, &c, s);
	em_block(em, s->body);
	em->loop = c.up;
}

static void any_statement(emitter *em, const stmt *s)
{
	switch (s->kind) {
	case SM_BLOCK:
		em_block(em, s);
		break;
	case SM_DECL:
		declare(em, s->decl);
		break;
	case SM_ASSIGN:
	case SM_INCDEC:
	case SM_CALL:
		em_line(em, "%s;", simple(em, s));
		break;
	case SM_PHONY:
		phony(em, s);
		break;
	case SM_IF:
		if_chain(em, s);
		break;
	case SM_SWITCH:
		switch_stmt(em, s);
		break;
	case SM_LOOP:
		loop_stmt(em, s);
		break;
	case SM_FOR:
		for_stmt(em, s);
		break;
	case SM_WHILE:
		while_stmt(em, s);
		break;
	case SM_BREAK:
		em_line(em, "break;");
		break;
	case SM_CONTINUE:
		continue_stmt(em);
		break;
	case SM_RETURN:
		if (s->e)
			em_line(em, "return %s;", em_expr_text(em, s->e));
		else
			em_line(em, "return;");
		break;
	case SM_BREAK_IF:
	case SM_CASE:
	case SM_CONST_ASSERT:
	case SM_EMPTY:
		break;
	}
}

static void statement(emitter *em, const stmt *s)
{
	if (em->too_large || em->out->failed || em->depth > WL_MAX_RECURSION) {
		em->too_large = true;
		return;
	}
	em->depth++;
	any_statement(em, s);
	em->depth--;
}

/* The statements of a function, into a buffer of its own: callees are written while the caller still is. */
void em_function(emitter *em, const decl *fn, rp_buf *body)
{
	rp_buf *out = em->out;
	unsigned indent = em->indent;
	loop_ctx *loop = em->loop;
	em->out = body;
	em->indent = 0;
	em->loop = NULL;
	list(em, fn->body);
	em->out = out;
	em->indent = indent;
	em->loop = loop;
}
