/* emit_call: constructors, built-in functions, calls of functions with their copies for pointer parameters. */
#include "spirv/wgslc/emit.h"

#include <string.h>

/* ---- constructors ---- */

static const type *as_f32(emitter *em, const type *t)
{
	return wl_with_elem(em->w, t, em->w->t_f32);
}

/* T(e) of one scalar, vector or matrix of the same shape */
static void conversion(emitter *em, rp_buf *b, const type *to, const expr *a)
{
	const type *from = a->type;
	const char *text = em_expr_text(em, a);
	if (wl_is_float(wl_elem(from)) && wl_is_int(wl_elem(to))) {
		const type *f = as_f32(em, from);
		const char *helper = em_helper(em, wl_elem(to)->kind == TY_I32 ? "f2i" : "f2u", f);
		if (from == f)
			rp_buf_addf(b, "%s(%s)", helper, text);
		else
			rp_buf_addf(b, "%s(%s(%s))", helper, em_type(em, f), text);
	} else if (from == to) {
		rp_buf_adds(b, text);
	} else {
		rp_buf_addf(b, "%s(%s)", em_type(em, to), text);
	}
}

void em_struct_args(emitter *em, rp_buf *b, const decl *st, const char *const *args)
{
	(void)em;
	for (uint32_t i = 0; i < st->n_members; i++)
		rp_buf_addf(b, "%s%s%s", i ? ", " : "", st->members[i]->pad, args[i]);
	rp_buf_adds(b, st->pad);
}

static void construct(emitter *em, rp_buf *b, const expr *e)
{
	const type *t = e->type;
	if (!e->n_args) {
		rp_buf_adds(b, em_zero(em, t));
		return;
	}
	bool one = e->n_args == 1 && (wl_is_scalar(t) || ((t->kind == TY_VEC || t->kind == TY_MAT) && e->args[0]->type->kind == t->kind));
	if (one) {
		conversion(em, b, t, e->args[0]);
		return;
	}
	if (t->kind == TY_SUBMAT) {
		rp_buf_addf(b, "%s(%s)", em_type(em, t), em_expr_text(em, e->args[0]));
		return;
	}
	if (t->kind == TY_ARRAY && (wl_props(t) & WL_HAS_SUBMAT)) {
		em_matrix_list(em, b, e);
		return;
	}
	rp_buf_addf(b, "%s(", em_type(em, t));
	const char **args = wl_array(em->w, e->n_args, sizeof *args);
	for (uint32_t i = 0; i < e->n_args; i++)
		args[i] = em_expr_text(em, e->args[i]);
	if (t->kind == TY_STRUCT) {
		em_struct_args(em, b, t->st, args);
	} else {
		for (uint32_t i = 0; i < e->n_args; i++)
			rp_buf_addf(b, "%s%s", i ? ", " : "", args[i]);
	}
	rp_buf_addc(b, ')');
}

/* ---- built-in functions ---- */

/* float bits of a 32-bit scalar or vector text as uint */
static const char *to_uint(emitter *em, const type *t, const char *text)
{
	const type *s = wl_elem(t), *u = wl_with_elem(em->w, t, em->w->t_u32);
	if (s->kind == TY_U32)
		return text;
	if (s->kind == TY_F32)
		return wl_printf(em->w, "floatBitsToUint(%s)", text);
	if (s->kind == TY_I32)
		return wl_printf(em->w, "%s(%s)", em_type(em, u), text);
	em->needs |= NEED_F16;
	if (t->n == 2)
		return wl_printf(em->w, "packFloat2x16(%s)", text);
	return wl_printf(em->w, "%s(%s)", em_helper(em, "h2u", NULL), text);
}

static const char *from_uint(emitter *em, const type *t, const char *text)
{
	const type *s = wl_elem(t);
	if (s->kind == TY_U32)
		return text;
	if (s->kind == TY_F32)
		return wl_printf(em->w, "uintBitsToFloat(%s)", text);
	if (s->kind == TY_I32)
		return wl_printf(em->w, "%s(%s)", em_type(em, t), text);
	em->needs |= NEED_F16;
	if (t->n == 2)
		return wl_printf(em->w, "unpackFloat2x16(%s)", text);
	return wl_printf(em->w, "%s(%s)", em_helper(em, "u2h", NULL), text);
}

static void bitcast(emitter *em, rp_buf *b, const expr *e)
{
	const expr *a = e->args[0];
	const char *text = em_expr_text(em, a);
	if (a->type == e->type)
		rp_buf_adds(b, text);
	else
		rp_buf_adds(b, from_uint(em, e->type, to_uint(em, a->type, text)));
}

static void need_subgroup(emitter *em, const builtin *fn, const type *t)
{
	static const struct {
		const char *prefix;
		uint32_t need;
	} list[] = {{"subgroupAll", NEED_VOTE}, {"subgroupAny", NEED_VOTE}, {"subgroupBallot", NEED_BALLOT}, {"subgroupBroadcast", NEED_BALLOT},
	            {"subgroupElect", NEED_SUBGROUP}, {"subgroupShuffleDown", NEED_SHUFFLE_REL}, {"subgroupShuffleUp", NEED_SHUFFLE_REL},
	            {"subgroupShuffle", NEED_SHUFFLE}, {"quad", NEED_QUAD}, {"subgroup", NEED_ARITHMETIC}};
	em->needs |= NEED_SUBGROUP;
	if (wl_elem(t)->kind == TY_F16)
		em->needs |= NEED_SUBGROUP_F16;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (strncmp(fn->name, list[i].prefix, strlen(list[i].prefix)) == 0) {
			em->needs |= list[i].need;
			return;
		}
}

static void expand(emitter *em, rp_buf *b, const char *text, const expr *e, const char *const *args)
{
	wl *w = em->w;
	const type *first = e->n_args ? e->args[0]->type : NULL;
	for (const char *p = text; *p; p++) {
		if (*p == '#') {
			size_t n = strcspn(p + 1, "(");
			const char *name = wl_printf(w, "%.*s", (int)n, p + 1);
			rp_buf_adds(b, em_helper(em, name, first));
			p += n;
		} else if (*p != '$') {
			rp_buf_addc(b, *p);
		} else if (*++p == 'T') {
			rp_buf_adds(b, em_type(em, e->type));
		} else if (*p == 'U') {
			rp_buf_adds(b, em_type(em, wl_with_elem(w, first, w->t_u32)));
		} else {
			rp_buf_adds(b, args[*p - '1']);
		}
	}
}

static void plain_builtin(emitter *em, rp_buf *b, const expr *e, const char *const *args)
{
	if (e->fn->glsl) {
		expand(em, b, e->fn->glsl, e, args);
		return;
	}
	rp_buf_addf(b, "%s(", e->fn->name);
	for (uint32_t i = 0; i < e->n_args; i++)
		rp_buf_addf(b, "%s%s", i ? ", " : "", args[i]);
	rp_buf_addc(b, ')');
}

/* mix() with a bool selects, and evaluates all three, as select() does: "?:" would not. */
static void select_call(rp_buf *b, const expr *e, const char *const *args)
{
	const type *t = e->type;
	if (e->stage == ST_OVERRIDABLE)
		rp_buf_addf(b, "(%s ? %s : %s)", args[2], args[1], args[0]);
	else if (t->kind == TY_VEC && e->args[2]->type->kind != TY_VEC)
		rp_buf_addf(b, "mix(%s, %s, bvec%u(%s))", args[0], args[1], t->n, args[2]);
	else
		rp_buf_addf(b, "mix(%s, %s, %s)", args[0], args[1], args[2]);
}

/* Specialization constants fold operators only, so min and max of overrides are written with them. */
static bool overridable_builtin(rp_buf *b, const expr *e, const char *const *args)
{
	if (e->stage != ST_OVERRIDABLE || !wl_is_int(e->type))
		return false;
	if (e->fn->eval == EV_MIN || e->fn->eval == EV_MAX)
		rp_buf_addf(b, "(%s %c %s ? %s : %s)", args[0], e->fn->eval == EV_MIN ? '<' : '>', args[1], args[0], args[1]);
	else if (e->fn->eval == EV_CLAMP)
		rp_buf_addf(b, "((%s > %s ? %s : %s) < %s ? (%s > %s ? %s : %s) : %s)", args[0], args[1], args[0], args[1], args[2], args[0],
		            args[1], args[0], args[1], args[2]);
	else
		return false;
	return true;
}

/* The value compared with is needed twice: what has effects goes through a private variable of the helper. */
static void compare_exchange(emitter *em, rp_buf *b, const expr *e, const char *mem, const char *wanted, const char *v)
{
	const type *t = e->args[0]->type->elem->elem;
	const char *helper = em_helper(em, "cas", t), *temp = wl_printf(em->w, "h_wanted_%s", em_type(em, t));
	if (e->args[1]->impure)
		rp_buf_addf(b, "%s(atomicCompSwap(%s, %s = %s, %s), %s)", helper, mem, temp, wanted, v, temp);
	else
		rp_buf_addf(b, "%s(atomicCompSwap(%s, %s, %s), %s)", helper, mem, wanted, v, wanted);
}

static void atomic(emitter *em, rp_buf *b, const expr *e)
{
	chain c;
	em_pointer(em, e->args[0], false, &c);
	const char *mem = em_chain_text(em, &c), *v = e->n_args > 1 ? em_expr_text(em, e->args[1]) : "";
	const char *where = e->args[0]->type->space == SP_WORKGROUP ? "gl_ScopeWorkgroup, gl_StorageSemanticsShared" : "gl_ScopeDevice, gl_StorageSemanticsBuffer";
	switch (e->fn->special) {
	case BS_ATOMIC_LOAD:
		em->needs |= NEED_SCOPE;
		rp_buf_addf(b, "atomicLoad(%s, %s, gl_SemanticsRelaxed)", mem, where);
		break;
	case BS_ATOMIC_STORE:
		em->needs |= NEED_SCOPE;
		rp_buf_addf(b, "atomicStore(%s, %s, %s, gl_SemanticsRelaxed)", mem, v, where);
		break;
	case BS_ATOMIC_CAS:
		compare_exchange(em, b, e, mem, v, em_expr_text(em, e->args[2]));
		break;
	default:
		if (e->fn->glsl)
			rp_buf_addf(b, "%s(%s, %s)", e->fn->glsl, mem, v);
		else /* atomicSub: two's complement makes it an addition */
			rp_buf_addf(b, "atomicAdd(%s, (-%s))", mem, v);
		break;
	}
}

/* A call of a function of its own for the place `pointer` points to: returning `result`, its body `pattern` with the place at %s. The
 * runtime indices of the place become parameters, after `params` of the caller's own, whose arguments are `args`. */
void em_place(emitter *em, const expr *pointer, const char *pattern, const char *result, const char *params, const char *args, rp_buf *b)
{
	chain c, inner;
	em_pointer(em, pointer, false, &c);
	const char *name = wl_printf(em->w, "h_load_%u", em->temps++), *at;
	rp_buf f, list;
	rp_buf_init(&f, 0);
	rp_buf_init(&list, 0);
	rp_buf_addf(&f, "%s %s(%s", result, name, params);
	inner = c;
	for (uint32_t i = 0; i < c.n; i++) {
		inner.index[i] = wl_printf(em->w, "i%u", i);
		rp_buf_addf(&f, "%s%s i%u", i || params[0] ? ", " : "", c.index_type[i], i);
		rp_buf_addf(&list, "%s%s", i || params[0] ? ", " : "", c.index[i]);
	}
	at = strstr(pattern, "%s");
	rp_buf_addf(&f, ") { %.*s%s%s }\n", (int)(at - pattern), pattern, em_chain_text(em, &inner), at + 2);
	rp_buf_adds(&em->functions, em_text(em, &f));
	rp_buf_addf(b, "%s(%s%s)", name, args, em_text(em, &list));
}

/* barrier, load, barrier */
static void uniform_load(emitter *em, rp_buf *b, const expr *e)
{
	const char *t = em_type(em, e->type);
	em_place(em, e->args[0], wl_printf(em->w, "barrier(); %s r = %%s; barrier(); return r;", t), t, "", "", b);
}

static void array_length(emitter *em, rp_buf *b, const expr *e)
{
	chain c;
	em_pointer(em, e->args[0], false, &c);
	rp_buf_addf(b, "uint(%s.length())", em_chain_text(em, &c));
}

static const char **arg_texts(emitter *em, const expr *e)
{
	const char **args = wl_array(em->w, e->n_args + 1, sizeof *args);
	for (uint32_t i = 0; i < e->n_args; i++)
		args[i] = em_expr_text(em, e->args[i]);
	return args;
}

static void typed_builtin(emitter *em, rp_buf *b, const expr *e)
{
	const char **args = arg_texts(em, e);
	const type *first = e->n_args ? e->args[0]->type : NULL;
	switch (e->fn->special) {
	case BS_SELECT:
		select_call(b, e, args);
		return;
	case BS_ABS:
		if (first && wl_elem(first)->kind == TY_U32)
			rp_buf_adds(b, args[0]);
		else
			plain_builtin(em, b, e, args);
		return;
	case BS_TRUTH:
		if (first && first->kind == TY_BOOL)
			rp_buf_adds(b, args[0]);
		else
			plain_builtin(em, b, e, args);
		return;
	case BS_DOT:
		rp_buf_addf(b, "%s(%s, %s)", wl_is_int(wl_elem(first)) ? em_helper(em, "dot", first) : "dot", args[0], args[1]);
		return;
	case BS_DOT4I:
	case BS_DOT4U:
		if (em->options->native_dot && em->w->int_dot)
			rp_buf_addf(b, "%s(%s, %s)", em_helper(em, wl_printf(em->w, "native_%s", e->fn->name), NULL), args[0], args[1]);
		else
			plain_builtin(em, b, e, args);
		return;
	case BS_FREXP:
	case BS_MODF:
		em_type(em, e->type);
		rp_buf_addf(b, "%s(%s)", em_helper(em, e->fn->name, first), args[0]);
		return;
	default:
		if (e->fn->flags & BF_SUBGROUP)
			need_subgroup(em, e->fn, first ? first : e->type);
		if (!overridable_builtin(b, e, args))
			plain_builtin(em, b, e, args);
		return;
	}
}

static void call_builtin(emitter *em, rp_buf *b, const expr *e)
{
	switch (e->fn->special) {
	case BS_BITCAST:
		bitcast(em, b, e);
		break;
	case BS_ARRAY_LENGTH:
		array_length(em, b, e);
		break;
	case BS_ATOMIC:
	case BS_ATOMIC_LOAD:
	case BS_ATOMIC_STORE:
	case BS_ATOMIC_CAS:
		atomic(em, b, e);
		break;
	case BS_UNIFORM_LOAD:
		uniform_load(em, b, e);
		break;
	case BS_MATRIX_LOAD:
	case BS_MATRIX_STORE:
	case BS_MATRIX_MULTIPLY:
	case BS_MATRIX_MULADD:
	case BS_MATRIX_SCALAR:
		em_matrix_call(em, b, e);
		break;
	default:
		typed_builtin(em, b, e);
		break;
	}
}

/* ---- functions ---- */

static void function_header(emitter *em, const decl *fn, const char *name, rp_buf *b)
{
	bool first = true;
	rp_buf_addf(b, "%s %s(", em_type(em, fn->type), name);
	for (uint32_t i = 0; i < fn->n_members; i++) {
		decl *p = fn->members[i];
		if (p->type->kind == TY_PTR && p->chain->module) {
			for (uint32_t k = 0; k < p->chain->n; k++, first = false)
				rp_buf_addf(b, "%s%s %s", first ? "" : ", ", p->chain->index_type[k], p->chain->index[k]);
			continue;
		}
		rp_buf_addf(b, "%s%s", first ? "" : ", ", p->type->kind == TY_PTR ? "inout " : "");
		em_declare(em, b, p->type->kind == TY_PTR ? p->type->elem : p->type, em_name(em, p));
		first = false;
	}
	rp_buf_adds(b, ")\n");
}

static void write_instance(emitter *em, const decl *fn, const char *name)
{
	rp_buf head, body;
	rp_buf_init(&head, 0);
	rp_buf_init(&body, WL_MAX_GLSL);
	function_header(em, fn, name, &head);
	em_function(em, fn, &body);
	rp_buf_adds(&em->functions, em_text(em, &head));
	rp_buf_adds(&em->functions, "{\n");
	rp_buf_adds(&em->functions, em_text(em, &body));
	rp_buf_adds(&em->functions, "}\n");
}

/* What the parameter points to as the callee sees it. */
static const chain *callee_chain(emitter *em, decl *p, uint32_t position, const chain *arg)
{
	chain *c = wl_new(em->w, sizeof *c);
	*c = *arg;
	if (!arg->module) {
		*c = (chain){.root = p, .pattern = em_name(em, p)};
		return c;
	}
	for (uint32_t i = 0; i < c->n; i++)
		c->index[i] = wl_printf(em->w, "p%u_%u", position, i);
	return c;
}

static const char *instance_key(emitter *em, const decl *fn, const chain *args)
{
	rp_buf b;
	rp_buf_init(&b, 0);
	for (uint32_t i = 0; i < fn->n_members; i++) {
		if (fn->members[i]->type->kind != TY_PTR || !args[i].module)
			continue;
		rp_buf_addf(&b, "%u:%s", i, args[i].pattern);
		for (uint32_t k = 0; k < args[i].n; k++)
			rp_buf_addc(&b, args[i].index_type[k][0]);
		rp_buf_addc(&b, ';');
	}
	return em_text(em, &b);
}

static const char *find_instance(emitter *em, decl *fn, const chain *args, uint32_t at)
{
	const char *key = instance_key(em, fn, args);
	for (instance *i = em->instances; i; i = i->next)
		if (i->fn == fn && strcmp(i->key, key) == 0)
			return i->name;
	instance *made = wl_new(em->w, sizeof *made);
	made->fn = fn;
	made->key = key;
	made->name = key[0] ? wl_printf(em->w, "w%u_%s", fn->name->glsl_uses++, em_name(em, fn) + 2) : em_name(em, fn);
	if (++em->n_instances > WL_MAX_INSTANCES) {
		wl_unsupported(em->w, at, "pointer parameters would make more than %d copies of functions", WL_MAX_INSTANCES);
		return made->name;
	}
	for (uint32_t i = 0; i < fn->n_members; i++)
		if (fn->members[i]->type->kind == TY_PTR)
			fn->members[i]->chain = callee_chain(em, fn->members[i], i, &args[i]);
	write_instance(em, fn, made->name);
	made->next = em->instances;
	em->instances = made;
	return made->name;
}

static void call_fn(emitter *em, rp_buf *b, const expr *e)
{
	chain *chains = wl_array(em->w, e->n_args + 1, sizeof *chains);
	rp_buf args;
	bool first = true;
	rp_buf_init(&args, 0);
	for (uint32_t i = 0; i < e->n_args; i++) {
		if (e->args[i]->type->kind != TY_PTR) {
			rp_buf_addf(&args, "%s%s", first ? "" : ", ", em_expr_text(em, e->args[i]));
			first = false;
			continue;
		}
		em_pointer(em, e->args[i], false, &chains[i]);
		if (!chains[i].module) {
			rp_buf_addf(&args, "%s%s", first ? "" : ", ", em_chain_text(em, &chains[i]));
			first = false;
		}
		for (uint32_t k = 0; chains[i].module && k < chains[i].n; k++, first = false)
			rp_buf_addf(&args, "%s%s", first ? "" : ", ", chains[i].index[k]);
	}
	const char *list = em_text(em, &args);
	rp_buf_addf(b, "%s(%s)", find_instance(em, e->decl, chains, e->at), list);
}

void em_call(emitter *em, rp_buf *b, const expr *e)
{
	if (e->call == CALL_FN)
		call_fn(em, b, e);
	else if (e->call == CALL_BUILTIN)
		call_builtin(em, b, e);
	else
		construct(em, b, e);
}
