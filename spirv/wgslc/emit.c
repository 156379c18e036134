/* emit: the frame of the GLSL text: names, types, structures, module-scope objects, the entry point. */
#include "spirv/wgslc/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *em_text(emitter *em, rp_buf *b)
{
	em->text += b->len;
	em->too_large |= b->failed || em->text > WL_MAX_TEXT;
	const char *s = em->too_large ? "" : wl_printf(em->w, "%s", b->data ? b->data : "");
	rp_buf_free(b);
	return s;
}

/* ---- names and types ---- */

const char *em_name(emitter *em, decl *d)
{
	if (d->glsl_serial == em->serial)
		return d->glsl;
	d->glsl_serial = em->serial;
	if (d->builtin_struct)
		return d->glsl = wl_printf(em->w, "r_%s", d->name->s + 2);
	if (d->name->glsl_serial != em->serial)
		d->name->glsl_uses = 0;
	d->name->glsl_serial = em->serial;
	rp_buf b;
	rp_buf_init(&b, 0);
	uint32_t n = d->kind == D_MEMBER ? 0 : d->name->glsl_uses++;
	if (n)
		rp_buf_addf(&b, "w%u_", n);
	else
		rp_buf_adds(&b, "w_");
	for (uint32_t i = 0; i < d->name->len; i++) {
		unsigned char c = (unsigned char)d->name->s[i];
		if (c < 0x80)
			rp_buf_addc(&b, (char)c);
		else
			rp_buf_addf(&b, "X%02X", c);
	}
	return d->glsl = em_text(em, &b);
}

static const char *scalar_name(emitter *em, const type *t)
{
	switch (t->kind) {
	case TY_BOOL:
		return "bool";
	case TY_I32:
		return "int";
	case TY_U32:
		return "uint";
	case TY_F16:
		em->needs |= NEED_F16;
		return "float16_t";
	default:
		return "float";
	}
}

static const char *vector_prefix(const type *t)
{
	return t->kind == TY_BOOL ? "b" : t->kind == TY_I32 ? "i" : t->kind == TY_U32 ? "u" : t->kind == TY_F16 ? "f16" : "";
}

static void add_dims(emitter *em, rp_buf *b, const type *t)
{
	for (; t->kind == TY_ARRAY; t = t->elem) {
		if (t->count_expr)
			rp_buf_addf(b, "[%s]", em_expr_text(em, t->count_expr));
		else if (t->count)
			rp_buf_addf(b, "[%llu]", (unsigned long long)t->count);
		else
			rp_buf_adds(b, "[]");
	}
}

static const type *innermost(const type *t)
{
	while (t->kind == TY_ARRAY)
		t = t->elem;
	return t;
}

const char *em_type(emitter *em, const type *t)
{
	rp_buf b;
	switch (t->kind) {
	case TY_VOID:
		return "void";
	case TY_ATOMIC:
		return em_type(em, t->elem);
	case TY_VEC:
		scalar_name(em, t->elem);
		return wl_printf(em->w, "%svec%u", vector_prefix(t->elem), t->n);
	case TY_MAT:
		scalar_name(em, t->elem);
		return wl_printf(em->w, "%smat%ux%u", vector_prefix(t->elem), t->n, t->rows);
	case TY_SUBMAT:
		return em_matrix_type(em, t);
	case TY_STRUCT:
		em_struct(em, t->st);
		return t->st->glsl;
	case TY_ARRAY:
		rp_buf_init(&b, 0);
		rp_buf_adds(&b, em_type(em, innermost(t)));
		add_dims(em, &b, t);
		return em_text(em, &b);
	default:
		return scalar_name(em, t);
	}
}

void em_declare(emitter *em, rp_buf *b, const type *t, const char *name)
{
	rp_buf_addf(b, "%s %s", em_type(em, innermost(t)), name);
	add_dims(em, b, t);
}

/* ---- structures ---- */

static uint64_t round_up(uint64_t a, uint64_t unit)
{
	return (a + unit - 1) / unit * unit;
}

/* Alignment as std430 sees it: @align and @size do not exist there. */
static uint64_t glsl_align(const type *t)
{
	uint64_t size, align = 1;
	t = innermost(t);
	if (t->kind == TY_STRUCT)
		return t->st->natural_align;
	wl_size_align(t, &size, &align);
	return align;
}

/* Padding members for the bytes [*at, to), and the arguments a constructor needs for them. */
static const char *add_padding(emitter *em, rp_buf *b, decl *st, uint64_t *at, uint64_t to, bool tail)
{
	rp_buf args;
	rp_buf_init(&args, 0);
	if (to - *at > 65536) {
		wl_unsupported(em->w, st->at, "structure %s has a gap of %llu bytes; at most 65536 are translated", st->name->s,
		               (unsigned long long)(to - *at));
		*at = to;
	}
	while (*at < to) {
		unsigned step = *at % 16 == 0 && to - *at >= 16 ? 16 : *at % 4 == 0 && to - *at >= 4 ? 4 : 2;
		const char *t = step == 16 ? "uvec4" : step == 4 ? "uint" : "float16_t";
		rp_buf_addf(b, "\t%s pad_%u;\n", t, em->temps++);
		rp_buf_addf(&args, tail ? ", %s(0)" : "%s(0), ", t);
		*at += step;
	}
	return em_text(em, &args);
}

static void add_members(emitter *em, rp_buf *b, decl *st)
{
	uint64_t at = 0;
	bool laid_out = st->size != 0;
	for (uint32_t i = 0; i < st->n_members; i++) {
		decl *m = st->members[i];
		m->pad = "";
		if (laid_out) {
			uint64_t natural = round_up(at, glsl_align(m->type)), size, align;
			if (natural < m->offset)
				m->pad = add_padding(em, b, st, &at, m->offset, false);
			wl_size_align(m->type, &size, &align);
			at = m->offset + size;
		}
		rp_buf_addc(b, '\t');
		em_declare(em, b, m->type, em_name(em, m));
		rp_buf_adds(b, ";\n");
	}
	st->pad = "";
	if (laid_out && !st->runtime_sized && round_up(at, glsl_align(st->type)) < st->size)
		st->pad = add_padding(em, b, st, &at, st->size, true);
}

void em_struct(emitter *em, decl *d)
{
	rp_buf b;
	if (d->emitted == em->serial)
		return;
	d->emitted = em->serial;
	em_name(em, d);
	rp_buf_init(&b, 0);
	add_members(em, &b, d);
	rp_buf_addf(&em->structs, "struct %s {\n%s};\n", d->glsl, em_text(em, &b));
}

/* ---- constants ---- */

static void add_float(rp_buf *b, double v)
{
	char text[40];
	snprintf(text, sizeof text, "%.9g", v);
	rp_buf_addf(b, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

static void add_scalar(rp_buf *b, const type *t, scalar s)
{
	switch (t->kind) {
	case TY_BOOL:
		rp_buf_adds(b, s.i ? "true" : "false");
		break;
	case TY_U32:
		rp_buf_addf(b, "%lluu", (unsigned long long)s.i);
		break;
	case TY_F16:
		rp_buf_adds(b, "float16_t(");
		add_float(b, s.f);
		rp_buf_addc(b, ')');
		break;
	case TY_F32:
		if (s.f < 0)
			rp_buf_addc(b, '(');
		add_float(b, s.f);
		if (s.f < 0)
			rp_buf_addc(b, ')');
		break;
	default:
		if (s.i == INT32_MIN)
			rp_buf_adds(b, "(-2147483647 - 1)");
		else
			rp_buf_addf(b, s.i < 0 ? "(%lld)" : "%lld", (long long)s.i);
		break;
	}
}

static bool all_same(const type *t, const scalar *c, uint64_t n)
{
	for (uint64_t i = 1; i < n; i++)
		if (wl_is_float(t) ? memcmp(&c[i].f, &c[0].f, sizeof(double)) != 0 : c[i].i != c[0].i)
			return false;
	return true;
}

static void add_list(emitter *em, rp_buf *b, const type *t, uint64_t n, const scalar **c)
{
	for (uint64_t i = 0; i < n; i++) {
		if (i)
			rp_buf_adds(b, ", ");
		em_value(em, b, t, c);
	}
}

/* The constant of type t whose scalars start at *c, which moves behind them. */
void em_value(emitter *em, rp_buf *b, const type *t, const scalar **c)
{
	if (wl_is_scalar(t)) {
		add_scalar(b, t, *(*c)++);
		return;
	}
	rp_buf_addf(b, "%s(", em_type(em, t));
	if (t->kind == TY_VEC && all_same(t->elem, *c, t->n)) {
		add_scalar(b, t->elem, **c);
		*c += t->n;
	} else if (t->kind == TY_VEC || t->kind == TY_MAT) {
		add_list(em, b, t->elem, wl_components(t), c);
	} else if (t->kind == TY_ARRAY) {
		add_list(em, b, t->elem, t->count, c);
	} else {
		for (uint32_t i = 0; i < t->st->n_members; i++) {
			rp_buf_addf(b, "%s%s", i ? ", " : "", t->st->members[i]->pad);
			em_value(em, b, t->st->members[i]->type, c);
		}
		rp_buf_adds(b, t->st->pad);
	}
	rp_buf_addc(b, ')');
}

const char *em_zero(emitter *em, const type *t)
{
	if (t->kind == TY_ATOMIC)
		t = t->elem;
	if (t->kind == TY_ARRAY || t->kind == TY_STRUCT)
		return wl_printf(em->w, "%s()", em_helper(em, "zero", t));
	if (t->kind == TY_SUBMAT)
		return wl_printf(em->w, "%s(%s(0))", em_type(em, t), em_type(em, t->elem));
	return wl_printf(em->w, "%s(0)", em_type(em, t));
}

/* What neither this compiler nor GLSL can name as a constant (a derived floating-point override, a constant only GLSL can
 * evaluate) becomes a function without arguments. */
static void emit_getter(emitter *em, rp_buf *b, decl *d)
{
	rp_buf_addf(b, "%s()", em_name(em, d));
	if (d->emitted == em->serial)
		return;
	d->emitted = em->serial;
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_buf_addf(&text, "%s %s() { return %s; }\n", em_type(em, d->type), em_name(em, d), em_expr_text(em, d->init));
	rp_buf_adds(&em->helpers, em_text(em, &text));
}

/* Constant arrays and structures get a name, so that a table is written once however often it is indexed. */
void em_const(emitter *em, rp_buf *b, decl *d)
{
	if (!d->val) {
		emit_getter(em, b, d);
		return;
	}
	rp_buf_adds(b, em_name(em, d));
	if (d->emitted == em->serial)
		return;
	d->emitted = em->serial;
	const scalar *c = d->val->c;
	rp_buf text;
	rp_buf_init(&text, 0);
	rp_buf_adds(&text, "const ");
	em_declare(em, &text, d->type, em_name(em, d));
	rp_buf_adds(&text, " = ");
	em_value(em, &text, d->type, &c);
	rp_buf_addf(&em->consts, "%s;\n", em_text(em, &text));
}

/* A literal default makes a specialization constant. A default computed from other overrides makes a derived constant: SPIR-V
 * has nothing that is both. */
void em_override(emitter *em, rp_buf *b, decl *d)
{
	bool derived = d->init && !d->init->val, f16 = d->type->kind == TY_F16;
	if (derived && wl_is_float(d->type)) {
		emit_getter(em, b, d);
		return;
	}
	if (f16)
		rp_buf_addf(b, "float16_t(%s)", em_name(em, d));
	else
		rp_buf_adds(b, em_name(em, d));
	if (d->emitted == em->serial)
		return;
	d->emitted = em->serial;
	const char *t = f16 ? "float" : em_type(em, d->type);
	rp_buf text;
	rp_buf_init(&text, 0);
	if (derived) {
		rp_buf_addf(&text, "const %s %s = %s;\n", t, em_name(em, d), em_expr_text(em, d->init));
	} else {
		scalar zero = {.i = 0};
		rp_buf_addf(&text, "layout(constant_id = %u) const %s %s = ", d->id, t, em_name(em, d));
		add_scalar(&text, f16 ? em->w->t_f32 : d->type, d->init ? d->init->val->c[0] : zero);
		rp_buf_adds(&text, ";\n");
	}
	rp_buf_adds(&em->consts, em_text(em, &text));
}

/* ---- module-scope variables ---- */

static bool is_push(emitter *em, const decl *d)
{
	uint64_t size, align;
	return em->options->push && d->space == SP_UNIFORM && d->group == 0 && !em->push && wl_size_align(d->type, &size, &align) && size <= 128;
}

static void check_binding_free(emitter *em, decl *d)
{
	for (uint32_t i = 0; i < em->buffers.n; i++)
		if (em->buffers.d[i]->group == d->group && em->buffers.d[i]->binding == d->binding)
			wl_error(em->w, d->at, "'%s' and '%s' are used by one entry point and have the same binding", em->buffers.d[i]->name->s, d->name->s);
	wl_push_decl(em->w, &em->buffers, d);
}

static void emit_buffer(emitter *em, decl *d)
{
	rp_buf b, members;
	const char *name = em_name(em, d);
	check_binding_free(em, d);
	if (wl_props(d->type) & WL_HAS_F16)
		em->needs |= NEED_F16_STORAGE;
	rp_buf_init(&b, 0);
	rp_buf_init(&members, 0);
	if (d->type->kind == TY_STRUCT && d->type->st->runtime_sized) {
		add_members(em, &members, d->type->st);
	} else {
		rp_buf_addc(&members, '\t');
		em_declare(em, &members, d->type, "v");
		rp_buf_adds(&members, ";\n");
	}
	if (is_push(em, d)) {
		em->push = d;
		rp_buf_adds(&b, "layout(push_constant, std430) uniform");
	} else if (d->space == SP_UNIFORM) {
		rp_buf_addf(&b, "layout(set = %u, binding = %u, std140) uniform", d->group, d->binding);
	} else {
		rp_buf_addf(&b, "layout(set = %u, binding = %u, std430) %sbuffer", d->group, d->binding, d->access == AC_READ ? "readonly " : "");
	}
	rp_buf_addf(&b, " b_%s {\n%s} %s;\n", name + 2, em_text(em, &members), name);
	rp_buf_adds(&em->globals, em_text(em, &b));
}

static void emit_plain_var(emitter *em, decl *d)
{
	rp_buf b;
	rp_buf_init(&b, 0);
	if (d->space == SP_WORKGROUP) {
		rp_buf_adds(&b, "shared ");
		wl_push_decl(em->w, &em->shared, d);
	}
	em_declare(em, &b, d->type, em_name(em, d));
	if (d->space == SP_PRIVATE) {
		bool aggregate = d->type->kind == TY_ARRAY || d->type->kind == TY_STRUCT;
		if (!d->init && aggregate)
			em->needs |= NEED_NULL_INIT;
		rp_buf_addf(&b, " = %s", d->init ? em_expr_text(em, d->init) : aggregate ? "{}" : em_zero(em, d->type));
	}
	rp_buf_addf(&em->globals, "%s;\n", em_text(em, &b));
}

const char *em_var(emitter *em, decl *d)
{
	bool buffer = d->space == SP_STORAGE || d->space == SP_UNIFORM;
	if (!d->local && d->emitted != em->serial) {
		d->emitted = em->serial;
		if (buffer)
			emit_buffer(em, d);
		else
			emit_plain_var(em, d);
	}
	if (d->local || !buffer || (d->type->kind == TY_STRUCT && d->type->st->runtime_sized))
		return em_name(em, d);
	return wl_printf(em->w, "%s.v", em_name(em, d));
}

/* ---- the entry point ---- */

static const char *io_text(io_builtin io)
{
	switch (io) {
	case IO_GLOBAL_ID:
		return "gl_GlobalInvocationID";
	case IO_LOCAL_ID:
		return "gl_LocalInvocationID";
	case IO_LOCAL_INDEX:
		return "gl_LocalInvocationIndex";
	case IO_WORKGROUP_ID:
		return "gl_WorkGroupID";
	case IO_NUM_WORKGROUPS:
		return "gl_NumWorkGroups";
	case IO_SUBGROUP_INVOCATION:
		return "gl_SubgroupInvocationID";
	case IO_SUBGROUP_SIZE:
		return "gl_SubgroupSize";
	case IO_SUBGROUP_ID:
		return "gl_SubgroupID";
	case IO_NUM_SUBGROUPS:
		return "gl_NumSubgroups";
	case IO_GLOBAL_INDEX:
		return "(gl_GlobalInvocationID.x + gl_NumWorkGroups.x * gl_WorkGroupSize.x * (gl_GlobalInvocationID.y + "
		       "gl_NumWorkGroups.y * gl_WorkGroupSize.y * gl_GlobalInvocationID.z))";
	default:
		return "(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z))";
	}
}

static const char *io_value(emitter *em, const decl *m)
{
	if (m->attrs.io >= IO_SUBGROUP_INVOCATION && m->attrs.io <= IO_NUM_SUBGROUPS)
		em->needs |= NEED_SUBGROUP;
	return io_text(m->attrs.io);
}

static void emit_inputs(emitter *em, const decl *fn, rp_buf *b)
{
	for (uint32_t i = 0; i < fn->n_members; i++) {
		decl *p = fn->members[i];
		if (p->type->kind != TY_STRUCT) {
			rp_buf_addf(b, "\t%s %s = %s;\n", em_type(em, p->type), em_name(em, p), io_value(em, p));
			continue;
		}
		decl *st = p->type->st;
		const char **args = wl_array(em->w, st->n_members, sizeof *args);
		for (uint32_t k = 0; k < st->n_members; k++)
			args[k] = io_value(em, st->members[k]);
		const char *t = em_type(em, p->type);
		rp_buf_addf(b, "\t%s %s = %s(", t, em_name(em, p), t);
		em_struct_args(em, b, st, args);
		rp_buf_adds(b, ");\n");
	}
}

static void zero_shared(emitter *em, rp_buf *b)
{
	if (!em->options->workgroup_init || !em->shared.n)
		return;
	for (uint32_t i = 0; i < em->shared.n; i++) {
		decl *d = em->shared.d[i];
		const type *t = d->type;
		if (t->kind == TY_ARRAY)
			rp_buf_addf(b, "\tfor (uint i = gl_LocalInvocationIndex; i < uint(%s.length()); i += gl_WorkGroupSize.x * gl_WorkGroupSize.y "
			               "* gl_WorkGroupSize.z)\n\t\t%s[i] = %s;\n", em_name(em, d), em_name(em, d), em_zero(em, t->elem));
		else
			rp_buf_addf(b, "\tif (gl_LocalInvocationIndex == 0u)\n\t\t%s = %s;\n", em_name(em, d), em_zero(em, t));
	}
	rp_buf_adds(b, "\tbarrier();\n");
}

static void emit_workgroup_size(emitter *em, const decl *fn, rp_buf *b)
{
	rp_buf_adds(b, "layout(");
	for (unsigned i = 0; i < 3; i++) {
		const expr *e = fn->attrs.workgroup[i];
		const decl *o = e && !e->val && e->kind == EX_IDENT ? e->decl : NULL;
		bool derived = o && o->kind == D_OVERRIDE && o->init && !o->init->val;
		long long size = !e ? 1 : e->val ? (long long)e->val->c[0].i : o && o->init && o->init->val ? (long long)o->init->val->c[0].i : 1;
		if (e && !e->val && (!o || o->kind != D_OVERRIDE || derived))
			wl_unsupported(em->w, e->at, "@workgroup_size takes constants and overrides with a default of their own, not expressions of overrides");
		rp_buf_addf(b, "%slocal_size_%c = %lld", i ? ", " : "", "xyz"[i], size > 0 ? size : 1);
		if (o)
			rp_buf_addf(b, ", local_size_%c_id = %u", "xyz"[i], o->id);
	}
	rp_buf_adds(b, ") in;\n");
}

static void emit_extensions(emitter *em, rp_buf *b)
{
	static const struct {
		uint32_t need;
		const char *name;
	} list[] = {{NEED_F16, "GL_EXT_shader_explicit_arithmetic_types_float16"}, {NEED_F16_STORAGE, "GL_EXT_shader_16bit_storage"},
	            {NEED_NULL_INIT, "GL_EXT_null_initializer"}, {NEED_SCOPE, "GL_KHR_memory_scope_semantics"},
	            {NEED_SUBGROUP, "GL_KHR_shader_subgroup_basic"}, {NEED_ARITHMETIC, "GL_KHR_shader_subgroup_arithmetic"},
	            {NEED_BALLOT, "GL_KHR_shader_subgroup_ballot"}, {NEED_SHUFFLE, "GL_KHR_shader_subgroup_shuffle"},
	            {NEED_SHUFFLE_REL, "GL_KHR_shader_subgroup_shuffle_relative"}, {NEED_VOTE, "GL_KHR_shader_subgroup_vote"},
	            {NEED_QUAD, "GL_KHR_shader_subgroup_quad"}, {NEED_SUBGROUP_F16, "GL_EXT_shader_subgroup_extended_types_float16"},
	            {NEED_INTRINSICS, "GL_EXT_spirv_intrinsics"}, {NEED_MATRIX, "GL_KHR_cooperative_matrix"},
	            {NEED_UNROLL, "GL_EXT_control_flow_attributes"}};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (em->needs & list[i].need)
			rp_buf_addf(b, "#extension %s : require\n", list[i].name);
}

static void emit_program(emitter *em, const decl *fn, rp_buf *out)
{
	rp_buf body, inputs;
	rp_buf_init(&body, WL_MAX_GLSL);
	rp_buf_init(&inputs, 0);
	for (uint32_t i = 0; i < em->w->globals.n; i++) /* module names first: they keep the plain spelling */
		if (em->w->globals.d[i]->kind != D_ASSERT)
			em_name(em, em->w->globals.d[i]);
	emit_inputs(em, fn, &inputs);
	em_function(em, fn, &body);
	zero_shared(em, &inputs);
	rp_buf_adds(out, "#version 460\n");
	emit_extensions(em, out);
	emit_workgroup_size(em, fn, out);
	rp_buf *parts[] = {&em->structs, &em->consts, &em->helpers, &em->globals, &em->functions};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		rp_buf_add(out, parts[i]->data ? parts[i]->data : "", parts[i]->len);
	rp_buf_adds(out, "void main()\n{\n");
	rp_buf_adds(out, em_text(em, &inputs));
	rp_buf_adds(out, em_text(em, &body));
	rp_buf_adds(out, "}\n");
}

/* Apart because of setjmp. */
static void run(emitter *em, const decl *fn, rp_buf *out)
{
	if (!setjmp(em->w->stop))
		emit_program(em, fn, out);
}

rp_code wgsl_to_glsl(wgsl_module *m, const char *entry, const wgsl_options *options, char **glsl, rp_error *err)
{
	wl *w = m->w;
	const decl *fn = NULL;
	for (uint32_t i = 0; i < w->n_entries; i++)
		if (strcmp(w->entries[i], entry) == 0)
			fn = w->entry_decls[i];
	if (!fn)
		return rp_fail(err, RP_USAGE, "no compute entry point is named '%s'", entry);
	emitter em = {.w = w, .options = options, .serial = ++w->emission};
	size_t arena_max = w->arena->max;
	w->arena->max = 0; /* here em.text is the bound: unwinding from deep inside would lose buffers */
	rp_buf out, *bufs[] = {&em.structs, &em.consts, &em.globals, &em.helpers, &em.functions, &out};
	for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
		rp_buf_init(bufs[i], WL_MAX_GLSL);
	w->n_diags = 0;
	w->stopped = RP_OK;
	run(&em, fn, &out);
	w->arena->max = arena_max;
	rp_code rc = RP_OK;
	for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
		em.too_large |= bufs[i]->failed;
	if (w->stopped == RP_NO_MEMORY)
		rc = rp_no_memory(err, 0, "the GLSL of the program");
	else if (em.too_large)
		rc = rp_fail(err, RP_UNSUPPORTED, "the program becomes too large or too deeply nested as GLSL");
	else if (w->n_diags)
		rc = rp_fail(err, w->worst, "%u:%u: %s", w->diags[0].line, w->diags[0].column, w->diags[0].message);
	for (size_t i = 0; i + 1 < sizeof bufs / sizeof *bufs; i++)
		rp_buf_free(bufs[i]);
	if (rc != RP_OK) {
		rp_buf_free(&out);
		return rc;
	}
	*glsl = rp_buf_take(&out, NULL);
	return RP_OK;
}
