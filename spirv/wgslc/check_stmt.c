/* check_stmt: function bodies: scopes, statements, and where control can go. */
#include "spirv/wgslc/internal.h"

#include <string.h>

/* Where a statement stands. */
typedef struct place {
	bool loop;        /* in a loop, for or while */
	bool breakable;   /* in a loop or a switch */
	bool continuing;  /* in a continuing block */
	uint32_t *first_continue; /* body of a loop with a continuing block: where its first continue stands */
} place;

static void check_stmt(wl *w, stmt *s, place at);

/* ---- scopes ---- */

static uint32_t enter_scope(wl *w, uint32_t *outer)
{
	*outer = w->scope;
	w->scope = ++w->last_scope;
	return w->locals.n;
}

static void leave_scope(wl *w, uint32_t mark, uint32_t outer)
{
	while (w->locals.n > mark) {
		decl *d = w->locals.d[--w->locals.n];
		d->name->bound = d->outer;
	}
	w->scope = outer;
}

void wl_bind(wl *w, decl *d)
{
	decl *before = d->name->bound;
	if (strcmp(d->name->s, "_") == 0)
		wl_error(w, d->at, "'_' is no name");
	if (before && before->local && before->scope == w->scope) {
		wl_error(w, d->at, "'%s' is declared twice in this scope", d->name->s);
		return;
	}
	d->outer = before;
	d->scope = w->scope;
	d->name->bound = d;
	wl_push_decl(w, &w->locals, d);
}

void wl_add_callee(wl *w, decl *callee)
{
	decl *fn = w->fn;
	for (uint32_t i = 0; i < fn->n_callees; i++)
		if (fn->callees[i] == callee)
			return;
	decl_list l = {fn->callees, fn->n_callees, fn->cap_callees};
	wl_push_decl(w, &l, callee);
	fn->callees = l.d;
	fn->n_callees = l.n;
	fn->cap_callees = l.cap;
}

static void check_block(wl *w, stmt *b, place at)
{
	uint32_t outer, mark = enter_scope(w, &outer);
	for (uint32_t i = 0; i < b->n_list; i++)
		check_stmt(w, b->list[i], at);
	leave_scope(w, mark, outer);
}

/* ---- statements ---- */

/* v.xy = ...: of a variable, each component once */
static bool writable_swizzle(const expr *e)
{
	unsigned seen = 0;
	for (unsigned i = 0; i < e->n_swizzle; i++) {
		if (seen & 1u << e->swizzle[i])
			return false;
		seen |= 1u << e->swizzle[i];
	}
	return e->kind == EX_MEMBER && e->n_swizzle > 1 && e->args[0]->is_ref && e->args[0]->access != AC_READ;
}

static bool writable(wl *w, expr *e)
{
	const type *t = wl_check_expr(w, e);
	if (t->kind == TY_ERROR)
		return false;
	if (writable_swizzle(e))
		return true;
	if (!e->is_ref) {
		const char *why = e->kind == EX_MEMBER && e->n_swizzle > 1 ? "each component of a variable only once"
		                  : e->kind == EX_IDENT && e->decl && e->decl->kind == D_LET ? "'let' names a value; use 'var'"
		                  : e->kind == EX_IDENT && e->decl && e->decl->kind == D_PARAM ? "parameters cannot change; copy into a 'var'"
		                                                                             : "it is no variable";
		wl_error(w, e->at, "cannot assign to this: %s", why);
		return false;
	}
	if (e->access == AC_READ) {
		wl_error(w, e->at, "cannot assign to this: it is read-only%s", e->space == SP_STORAGE ? "; declare var<storage, read_write>" : "");
		return false;
	}
	if (t->kind == TY_ATOMIC) {
		wl_error(w, e->at, "an atomic is written by atomicStore(&x, v), not by assignment");
		return false;
	}
	if (!wl_is_constructible(t)) {
		wl_error(w, e->at, "a value of type %s cannot be assigned", wl_type_name(w, t));
		return false;
	}
	return true;
}

/* a op= b is checked as a = a op b, on a copy of the node so that the emitter can read the operator's types. */
static void check_assign(wl *w, stmt *s)
{
	bool ok = writable(w, s->lhs);
	const type *v = wl_check_value(w, s->e);
	if (!ok || v->kind == TY_ERROR)
		return;
	if (s->op == T_ASSIGN) {
		wl_coerce(w, s->e, s->lhs->type, "assigned value");
		return;
	}
	expr *op = wl_new(w, sizeof *op);
	op->kind = EX_BINARY;
	op->op = s->op;
	op->at = s->at;
	op->n_args = 2;
	op->args = wl_array(w, 2, sizeof(expr *));
	op->args[0] = s->lhs;
	op->args[1] = s->e;
	const type *t = wl_check_expr(w, op);
	if (t->kind != TY_ERROR && t != s->lhs->type)
		wl_error(w, s->at, "'%s=' gives %s, which does not fit %s", wl_tok_name(s->op), wl_type_name(w, t), wl_type_name(w, s->lhs->type));
	s->e = op;
}

static void check_incdec(wl *w, stmt *s)
{
	if (writable(w, s->lhs) && s->lhs->type->kind != TY_I32 && s->lhs->type->kind != TY_U32)
		wl_error(w, s->at, "'%s' needs i32 or u32, found %s", wl_tok_name(s->op), wl_type_name(w, s->lhs->type));
}

static void check_condition(wl *w, expr *e, const char *what)
{
	const type *t = wl_check_value(w, e);
	if (t->kind != TY_ERROR && t->kind != TY_BOOL)
		wl_error(w, e->at, "the condition of %s must be bool, found %s", what, wl_type_name(w, t));
}

static void check_call_stmt(wl *w, stmt *s)
{
	expr *e = s->e;
	const type *t = wl_check_expr(w, e);
	if (t->kind == TY_ERROR || t->kind == TY_VOID)
		return;
	if (e->call == CALL_CONSTRUCT)
		wl_error(w, e->at, "this value is not used");
	else if (e->call == CALL_FN && e->decl->attrs.must_use)
		wl_error(w, e->at, "the result of %s must be used", e->decl->name->s);
	else if (e->call == CALL_BUILTIN && !(e->fn->flags & BF_MAY_DISCARD))
		wl_error(w, e->at, "the result of %s must be used; '_ = %s(...)' says that it is not needed", e->fn->name, e->fn->name);
}

static void check_return(wl *w, stmt *s, place at)
{
	const type *want = w->fn->type;
	if (at.continuing)
		wl_error(w, s->at, "'return' is not allowed in a continuing block");
	if (!s->e) {
		if (want->kind != TY_VOID && want->kind != TY_ERROR)
			wl_error(w, s->at, "'%s' returns %s: a value is needed", w->fn->name->s, wl_type_name(w, want));
		return;
	}
	const type *t = wl_check_value(w, s->e);
	if (t->kind == TY_ERROR)
		return;
	if (want->kind == TY_VOID)
		wl_error(w, s->e->at, "'%s' returns no value", w->fn->name->s);
	else
		wl_coerce(w, s->e, want, "returned value");
}

/* ---- switch ---- */

static const type *selector_type(wl *w, stmt *s)
{
	const type *t = wl_check_value(w, s->e);
	if (t->kind != TY_ERROR && !wl_is_int(t)) {
		wl_error(w, s->e->at, "a switch selects by i32 or u32, found %s", wl_type_name(w, t));
		t = w->t_error;
	}
	/* an abstract selector takes the type of the first concrete case */
	for (uint32_t i = 0; i < s->n_list; i++)
		for (uint32_t k = 0; k < s->list[i]->n_selectors; k++) {
			const type *c = wl_check_value(w, s->list[i]->selectors[k]);
			if (t->kind == TY_AINT && (c->kind == TY_I32 || c->kind == TY_U32))
				t = c;
		}
	t = wl_concrete(w, t);
	if (t->kind != TY_ERROR)
		wl_coerce(w, s->e, t, "selector");
	return t;
}

static bool seen_before(const stmt *s, uint32_t i, uint32_t k, int64_t v)
{
	for (uint32_t a = 0; a <= i; a++)
		for (uint32_t b = 0; b < (a == i ? k : s->list[a]->n_selectors); b++)
			if (s->list[a]->selectors[b]->val && s->list[a]->selectors[b]->val->c[0].i == v)
				return true;
	return false;
}

static void check_switch(wl *w, stmt *s, place at)
{
	const type *t = selector_type(w, s);
	uint32_t defaults = 0;
	at.breakable = true;
	for (uint32_t i = 0; i < s->n_list; i++) {
		stmt *c = s->list[i];
		defaults += c->has_default;
		for (uint32_t k = 0; k < c->n_selectors; k++) {
			expr *e = c->selectors[k];
			if (e->type->kind == TY_ERROR || t->kind == TY_ERROR || !wl_coerce(w, e, t, "case selector"))
				continue;
			if (!e->val || e->stage != ST_CONSTANT)
				wl_error(w, e->at, "a case selector must be a constant");
			else if (seen_before(s, i, k, e->val->c[0].i))
				wl_error(w, e->at, "case %lld appears twice", (long long)e->val->c[0].i);
		}
		check_block(w, c->body, at);
	}
	if (defaults != 1)
		wl_error(w, s->at, defaults ? "a switch has one default, found several" : "a switch needs a default");
}

/* ---- loops ---- */

static void check_loop(wl *w, stmt *s)
{
	uint32_t outer, mark = enter_scope(w, &outer);
	uint32_t first_continue = 0, scope_before = w->bypass_scope, at_before = w->bypass_at;
	place in = {.loop = true, .breakable = true, .first_continue = &first_continue};
	for (uint32_t i = 0; i < s->body->n_list; i++)
		check_stmt(w, s->body->list[i], in);
	if (s->other) { /* sees the names of the body */
		place cont = {.continuing = true};
		w->bypass_scope = w->scope;
		w->bypass_at = first_continue;
		uint32_t outer2, mark2 = enter_scope(w, &outer2);
		for (uint32_t i = 0; i < s->other->n_list; i++)
			check_stmt(w, s->other->list[i], cont);
		leave_scope(w, mark2, outer2);
		w->bypass_scope = scope_before;
		w->bypass_at = at_before;
	}
	leave_scope(w, mark, outer);
}

static void check_for(wl *w, stmt *s)
{
	uint32_t outer, mark = enter_scope(w, &outer);
	place head = {0}, in = {.loop = true, .breakable = true};
	if (s->init)
		check_stmt(w, s->init, head);
	if (s->e)
		check_condition(w, s->e, "for");
	if (s->update)
		check_stmt(w, s->update, head);
	check_block(w, s->body, in);
	leave_scope(w, mark, outer);
}

static void check_jump(wl *w, stmt *s, place at)
{
	if (s->kind == SM_BREAK && !at.breakable)
		wl_error(w, s->at, at.continuing ? "'break' is not allowed in a continuing block; use 'break if'" : "'break' outside a loop or switch");
	if (s->kind == SM_CONTINUE && !at.loop)
		wl_error(w, s->at, at.continuing ? "'continue' is not allowed in a continuing block" : "'continue' outside a loop");
	if (s->kind == SM_CONTINUE && at.first_continue && !*at.first_continue)
		*at.first_continue = s->at;
}

static void check_local(wl *w, decl *d)
{
	if (d->space != SP_NONE && d->space != SP_FUNCTION) {
		wl_error(w, d->at, "'%s': in functions a variable has no address space other than function", d->name->s);
		d->space = SP_FUNCTION;
	}
	wl_check_variable(w, d);
	wl_bind(w, d);
}

static void check_const_assert(wl *w, stmt *s)
{
	const type *t = wl_check_value(w, s->e);
	if (t->kind == TY_ERROR)
		return;
	if (t->kind != TY_BOOL || !s->e->val)
		wl_error(w, s->e->at, "const_assert needs a constant condition of type bool");
	else if (!s->e->val->c[0].i)
		wl_error(w, s->e->at, "const_assert failed");
}

static void check_stmt(wl *w, stmt *s, place at)
{
	switch (s->kind) {
	case SM_BLOCK:
		check_block(w, s, at);
		break;
	case SM_DECL:
		check_local(w, s->decl);
		break;
	case SM_ASSIGN:
		check_assign(w, s);
		break;
	case SM_PHONY:
		if (wl_check_value(w, s->e)->kind != TY_ERROR)
			wl_materialise(w, s->e);
		break;
	case SM_INCDEC:
		check_incdec(w, s);
		break;
	case SM_CALL:
		check_call_stmt(w, s);
		break;
	case SM_IF:
		check_condition(w, s->e, "if");
		check_block(w, s->body, at);
		if (s->other)
			check_stmt(w, s->other, at);
		break;
	case SM_SWITCH:
		check_switch(w, s, at);
		break;
	case SM_LOOP:
		check_loop(w, s);
		break;
	case SM_FOR:
		check_for(w, s);
		break;
	case SM_WHILE: {
		place in = {.loop = true, .breakable = true};
		check_condition(w, s->e, "while");
		check_block(w, s->body, in);
		break;
	}
	case SM_BREAK:
	case SM_CONTINUE:
		check_jump(w, s, at);
		break;
	case SM_BREAK_IF:
		check_condition(w, s->e, "break if");
		break;
	case SM_RETURN:
		check_return(w, s, at);
		break;
	case SM_CONST_ASSERT:
		check_const_assert(w, s);
		break;
	case SM_CASE:
	case SM_EMPTY:
		break;
	}
}

/* ---- does every path return? ---- */

static bool breaks(const stmt *s)
{
	if (!s || s->kind == SM_LOOP || s->kind == SM_FOR || s->kind == SM_WHILE || s->kind == SM_SWITCH)
		return false;
	if (s->kind == SM_BREAK)
		return true;
	if (s->kind == SM_IF)
		return breaks(s->body) || breaks(s->other);
	for (uint32_t i = 0; i < s->n_list; i++)
		if (breaks(s->list[i]))
			return true;
	return false;
}

static bool falls_through(const stmt *s)
{
	switch (s->kind) {
	case SM_RETURN:
	case SM_BREAK:
	case SM_CONTINUE:
		return false;
	case SM_BLOCK:
		for (uint32_t i = 0; i < s->n_list; i++)
			if (!falls_through(s->list[i]))
				return false;
		return true;
	case SM_IF:
		return !s->other || falls_through(s->body) || falls_through(s->other);
	case SM_SWITCH:
		for (uint32_t i = 0; i < s->n_list; i++)
			if (falls_through(s->list[i]->body) || breaks(s->list[i]->body))
				return true;
		return false;
	case SM_LOOP: {
		const stmt *last = s->other && s->other->n_list ? s->other->list[s->other->n_list - 1] : NULL;
		return breaks(s->body) || (last && last->kind == SM_BREAK_IF);
	}
	case SM_FOR:
		return s->e || breaks(s->body);
	default:
		return true;
	}
}

void wl_check_function(wl *w, decl *fn)
{
	uint32_t outer;
	place at = {0};
	w->fn = fn;
	uint32_t mark = enter_scope(w, &outer);
	for (uint32_t i = 0; i < fn->n_members; i++) {
		wl_bind(w, fn->members[i]);
		if (!fn->members[i]->type)
			fn->members[i]->type = w->t_error;
	}
	for (uint32_t i = 0; i < fn->body->n_list; i++) /* parameters and body share a scope */
		check_stmt(w, fn->body->list[i], at);
	leave_scope(w, mark, outer);
	if (fn->type->kind != TY_VOID && fn->type->kind != TY_ERROR && falls_through(fn->body))
		wl_error(w, fn->at, "'%s' can end without returning %s", fn->name->s, wl_type_name(w, fn->type));
	w->fn = NULL;
}
