/* check: module-scope declarations, resolved on demand because their order does not matter. */
#include "spirv/wgslc/internal.h"

#include <string.h>

bool wl_const_u32(wl *w, expr *e, const char *what, uint32_t *out)
{
	const type *t = wl_check_value(w, e);
	if (t->kind == TY_ERROR)
		return false;
	if (!wl_is_int(t) || !e->val || e->stage != ST_CONSTANT) {
		wl_error(w, e->at, "%s must be a constant integer", what);
		return false;
	}
	if (e->val->c[0].i < 0 || e->val->c[0].i > INT32_MAX) {
		wl_error(w, e->at, "%s is %lld, out of range", what, (long long)e->val->c[0].i);
		return false;
	}
	*out = (uint32_t)e->val->c[0].i;
	return true;
}

/* ---- structures ---- */

static bool member_layout(wl *w, decl *st, decl *m, uint64_t *size, uint64_t *align)
{
	uint32_t n;
	if (!wl_size_align(m->type, size, align))
		return false;
	const type *t = m->type;
	while (t->kind == TY_ARRAY)
		t = t->elem;
	uint64_t natural = t->kind == TY_STRUCT ? t->st->natural_align : *align;
	st->natural_align = natural > st->natural_align ? natural : st->natural_align;
	if (m->attrs.align && wl_const_u32(w, m->attrs.align, "@align", &n)) {
		if (!n || (n & (n - 1)) || n % *align)
			wl_error(w, m->attrs.align->at, "@align(%u) must be a power of two and a multiple of %llu here", n, (unsigned long long)*align);
		else
			*align = n;
	}
	if (m->attrs.size && wl_const_u32(w, m->attrs.size, "@size", &n)) {
		if (n < *size)
			wl_error(w, m->attrs.size->at, "@size(%u) is less than the %llu bytes of the member", n, (unsigned long long)*size);
		else
			*size = n;
	}
	return true;
}

/* Offsets, size and alignment; a structure with a member that has no layout (a pointer, an override-sized array) has none. */
static void lay_out(wl *w, decl *d)
{
	uint64_t at = 0, align = 1;
	for (uint32_t i = 0; i < d->n_members; i++) {
		decl *m = d->members[i];
		if (!m->type || !member_layout(w, d, m, &m->size, &m->align))
			return;
		at = (at + m->align - 1) / m->align * m->align;
		m->offset = at;
		at += m->size;
		align = m->align > align ? m->align : align;
		if (at > UINT32_MAX) {
			wl_error(w, m->at, "structure %s is larger than 4 GiB", d->name->s);
			return;
		}
	}
	d->align = align;
	d->size = (at + align - 1) / align * align;
}

static void resolve_struct(wl *w, decl *d)
{
	if (!d->n_members)
		wl_error(w, d->at, "structure %s needs a member", d->name->s);
	for (uint32_t i = 0; i < d->n_members; i++)
		d->members[i]->type = w->t_error;
	for (uint32_t i = 0; i < d->n_members; i++) {
		decl *m = d->members[i];
		const type *t = wl_check_type(w, m->type_expr);
		for (uint32_t k = 0; k < i; k++)
			if (d->members[k]->name == m->name)
				wl_error(w, m->at, "structure %s has two members named '%s'", d->name->s, m->name->s);
		if (t->kind == TY_ERROR)
			continue;
		bool runtime = t->kind == TY_ARRAY && !t->count && !t->count_expr;
		if ((runtime && i + 1 == d->n_members) || (wl_is_fixed(t) && !(t->kind == TY_ARRAY && t->count_expr)))
			m->type = t;
		else
			wl_error(w, m->at, runtime ? "only the last member of a structure can be a runtime-sized array"
			                           : "a member of type %s is not possible", wl_type_name(w, t));
		d->runtime_sized |= runtime;
		if (t->depth >= WL_MAX_DEPTH)
			wl_error(w, m->at, "this type is nested too deeply");
	}
	lay_out(w, d);
	d->props = wl_struct_props(d);
	d->type = wl_struct_type(w, d);
}

/* ---- variables ---- */

/* What std140 demands of uniform buffers. The language once demanded it too, and allows more by the feature
 * uniform_buffer_standard_layout, which Vulkan 1.2 has only as an option: so it is refused as not supported. */
static void check_uniform_layout(wl *w, uint32_t at, const type *t)
{
	if (t->kind == TY_ARRAY && wl_stride(t) % 16)
		wl_unsupported(w, at, "%s in a uniform buffer needs elements of a multiple of 16 bytes, found %llu", wl_type_name(w, t),
		         (unsigned long long)wl_stride(t));
	if (t->kind == TY_MAT && (t->rows == 2 || t->elem->kind == TY_F16))
		wl_unsupported(w, at, "%s in a uniform buffer is laid out differently by GLSL; use vectors or a storage buffer", wl_type_name(w, t));
	if (t->kind == TY_ARRAY)
		check_uniform_layout(w, at, t->elem);
	if (t->kind != TY_STRUCT || t->st->uniform_checked)
		return;
	t->st->uniform_checked = true;
	for (uint32_t i = 0; i < t->st->n_members; i++) {
		const decl *m = t->st->members[i], *before = i ? t->st->members[i - 1] : NULL;
		if (!m->type)
			continue;
		bool wide = m->type->kind == TY_STRUCT || m->type->kind == TY_ARRAY;
		if (wide && m->offset % 16)
			wl_unsupported(w, m->at, "member '%s' of a uniform buffer must start at a multiple of 16 bytes, not %llu; add @align(16)", m->name->s,
			         (unsigned long long)m->offset);
		if (before && before->type && before->type->kind == TY_STRUCT && m->offset - before->offset < (before->type->st->size + 15) / 16 * 16)
			wl_unsupported(w, m->at, "member '%s' of a uniform buffer is too close to the structure before it; add @align(16)", m->name->s);
		check_uniform_layout(w, m->at, m->type);
	}
}

static void check_buffer(wl *w, decl *d)
{
	const type *t = d->type;
	if (d->init)
		wl_error(w, d->init->at, "a buffer cannot be initialised in the shader");
	if (!d->attrs.group || !d->attrs.binding)
		wl_error(w, d->at, "the buffer '%s' needs @group and @binding", d->name->s);
	else if (wl_const_u32(w, d->attrs.group, "@group", &d->group))
		wl_const_u32(w, d->attrs.binding, "@binding", &d->binding);
	bool runtime = t->kind == TY_ARRAY && !t->count && !t->count_expr;
	bool runtime_struct = t->kind == TY_STRUCT && t->st->runtime_sized;
	if (!wl_is_host_shareable(t) || (wl_props(t) & WL_HAS_PTR))
		wl_error(w, d->at, "%s cannot be in a buffer%s", wl_type_name(w, t), (wl_props(t) & WL_HAS_BOOL) ? ": bool has no size in memory; use u32" : "");
	else if (!wl_is_fixed(t) && !(d->space == SP_STORAGE && (runtime || runtime_struct)))
		wl_error(w, d->at, "%s has no fixed size, as a uniform buffer needs", wl_type_name(w, t));
	else if (t->kind == TY_ARRAY && t->count_expr)
		wl_error(w, d->at, "only workgroup variables can be sized by an override");
	else if (d->space == SP_UNIFORM)
		check_uniform_layout(w, d->at, t);
	if ((wl_props(t) & WL_HAS_ATOMIC) && (d->space != SP_STORAGE || d->access != AC_READ_WRITE))
		wl_error(w, d->at, "atomics need var<storage, read_write> or var<workgroup>");
}

static void check_module_var(wl *w, decl *d)
{
	const type *t = d->type;
	bool buffer = d->space == SP_STORAGE || d->space == SP_UNIFORM;
	if (!buffer && (d->attrs.group || d->attrs.binding))
		wl_error(w, d->at, "only var<storage> and var<uniform> have @group and @binding");
	switch (d->space) {
	case SP_NONE:
		if (t->kind != TY_ERROR)
			wl_error(w, d->at, "a variable outside functions needs an address space: var<private>, <workgroup>, <uniform> or <storage>");
		return;
	case SP_FUNCTION:
		wl_error(w, d->at, "var<function> stands only in functions");
		return;
	case SP_STORAGE:
	case SP_UNIFORM:
		check_buffer(w, d);
		return;
	case SP_WORKGROUP:
		if (d->init)
			wl_error(w, d->init->at, "a workgroup variable cannot have an initial value");
		if (wl_props(t) & WL_HAS_SUBMAT)
			wl_error(w, d->at, "%s cannot be a workgroup variable: subgroup matrices live in functions", wl_type_name(w, t));
		else if (!wl_is_fixed(t) || (wl_props(t) & WL_HAS_PTR))
			wl_error(w, d->at, "%s cannot be a workgroup variable: its size is not fixed", wl_type_name(w, t));
		return;
	case SP_PRIVATE:
		if (!wl_is_constructible(t) || (wl_props(t) & WL_HAS_SUBMAT))
			wl_error(w, d->at, "%s cannot be a private variable", wl_type_name(w, t));
		if (d->init && d->init->stage == ST_RUNTIME)
			wl_error(w, d->init->at, "the initial value of a private variable must be a constant or override expression");
		return;
	}
}

/* Type and initial value of var, let, const and override, in functions and outside. */
void wl_check_variable(wl *w, decl *d)
{
	const type *t = d->type_expr ? wl_check_type(w, d->type_expr) : NULL;
	d->type = w->t_error;
	if (d->init) {
		const type *v = wl_check_value(w, d->init);
		if (v->kind == TY_ERROR || (t && t->kind == TY_ERROR))
			return;
		bool keep = d->kind == D_CONST && !t;
		if (t && !wl_coerce(w, d->init, t, wl_printf(w, "'%s'", d->name->s)))
			return;
		if (!t && !keep)
			wl_materialise(w, d->init);
		t = d->init->type;
	}
	if (!t || t->kind == TY_ERROR)
		return;
	if (d->kind == D_CONST && d->init->stage != ST_CONSTANT) {
		wl_error(w, d->init->at, "the value of the constant '%s' is not a constant expression%s", d->name->s,
		         d->init->stage == ST_OVERRIDABLE && !d->local ? "; 'override' may use overrides" : "");
		return;
	}
	if (d->kind == D_CONST)
		d->val = d->init->val;
	if (t->kind == TY_PTR ? d->kind != D_LET : !wl_is_constructible(t) && (d->local || d->kind != D_VAR)) {
		wl_error(w, d->at, "%s cannot be the type of '%s'", wl_type_name(w, t), d->name->s);
		return;
	}
	d->type = t;
}

static void resolve_override(wl *w, decl *d)
{
	if (d->init && d->init->type && d->init->type->kind != TY_ERROR && d->init->stage == ST_RUNTIME)
		wl_error(w, d->init->at, "the value of an override must be a constant or override expression");
	if (d->type->kind != TY_ERROR && !wl_is_scalar(d->type))
		wl_error(w, d->at, "an override must be a scalar, found %s", wl_type_name(w, d->type));
}

/* ---- functions ---- */

static void check_param(wl *w, const decl *fn, decl *p)
{
	const type *t = p->type = wl_check_type(w, p->type_expr);
	if (t->kind == TY_ERROR)
		return;
	if (t->kind == TY_PTR) {
		if (fn->attrs.compute)
			wl_error(w, p->at, "an entry point takes no pointers");
		if (t->elem->kind == TY_ARRAY && t->elem->count_expr)
			return; /* a workgroup array sized by an override */
		if (!wl_is_fixed(t->elem) && t->space != SP_STORAGE)
			wl_error(w, p->at, "%s is not possible", wl_type_name(w, t));
	} else if (!wl_is_constructible(t)) {
		wl_error(w, p->at, "%s cannot be passed by value; pass a pointer", wl_type_name(w, t));
	}
}

static const type *io_type(wl *w, io_builtin io)
{
	bool vec = io == IO_GLOBAL_ID || io == IO_LOCAL_ID || io == IO_WORKGROUP_ID || io == IO_NUM_WORKGROUPS;
	return vec ? wl_vec(w, w->t_u32, 3) : w->t_u32;
}

static void check_io(wl *w, decl *m)
{
	io_builtin io = m->attrs.io;
	if (!m->type || m->type->kind == TY_ERROR)
		return;
	if (io == IO_NONE)
		wl_error(w, m->at, "'%s' is an input of an entry point: it needs @builtin(...)", m->name->s);
	else if (m->type != io_type(w, io))
		wl_error(w, m->at, "this built-in value has type %s, not %s", wl_type_name(w, io_type(w, io)), wl_type_name(w, m->type));
	else if (io >= IO_SUBGROUP_INVOCATION && io <= IO_NUM_SUBGROUPS && !w->subgroups)
		wl_error(w, m->at, "this built-in value needs 'enable subgroups;' at the top of the file");
}

static void check_workgroup_size(wl *w, decl *fn)
{
	if (!fn->attrs.has_workgroup)
		wl_error(w, fn->at, "the entry point '%s' needs @workgroup_size", fn->name->s);
	const type *common = NULL;
	for (int i = 0; i < 3; i++) {
		expr *e = fn->attrs.workgroup[i];
		if (!e)
			continue;
		const type *t = wl_check_value(w, e);
		if (t->kind == TY_ERROR)
			continue;
		if (t->kind != TY_AINT && common && common != t)
			wl_error(w, e->at, "the workgroup sizes must be all i32 or all u32");
		common = t->kind == TY_AINT ? common : t;
		wl_materialise(w, e);
		if (!wl_is_int(t) || e->stage == ST_RUNTIME)
			wl_error(w, e->at, "@workgroup_size takes integer constants and overrides");
		else if (e->val && (e->val->c[0].i < 1 || e->val->c[0].i > 65535))
			wl_error(w, e->at, "a workgroup size of %lld is not possible", (long long)e->val->c[0].i);
	}
}

static void resolve_fn(wl *w, decl *d)
{
	d->type = d->type_expr ? wl_check_type(w, d->type_expr) : w->t_void;
	if (d->type_expr && d->type->kind != TY_ERROR && !wl_is_constructible(d->type))
		wl_error(w, d->type_expr->at, "%s cannot be returned", wl_type_name(w, d->type));
	for (uint32_t i = 0; i < d->n_members; i++)
		check_param(w, d, d->members[i]);
	if (!d->attrs.compute) {
		if (d->attrs.has_workgroup)
			wl_error(w, d->attrs.at, "@workgroup_size without @compute");
		return;
	}
	if (d->type->kind != TY_VOID)
		wl_error(w, d->at, "a compute entry point returns nothing");
	check_workgroup_size(w, d);
	for (uint32_t i = 0; i < d->n_members; i++) {
		decl *p = d->members[i];
		if (p->type->kind != TY_STRUCT)
			check_io(w, p);
		for (uint32_t k = 0; p->type->kind == TY_STRUCT && k < p->type->st->n_members; k++)
			check_io(w, p->type->st->members[k]);
	}
}

/* ---- resolution ---- */

static void resolve_kind(wl *w, decl *d)
{
	switch (d->kind) {
	case D_ALIAS:
		d->type = wl_check_type(w, d->type_expr);
		break;
	case D_STRUCT:
		resolve_struct(w, d);
		break;
	case D_FN:
		resolve_fn(w, d);
		break;
	case D_CONST:
		wl_check_variable(w, d);
		break;
	case D_OVERRIDE:
		wl_check_variable(w, d);
		resolve_override(w, d);
		break;
	case D_VAR:
		wl_check_variable(w, d);
		if (d->type->kind != TY_ERROR)
			check_module_var(w, d);
		break;
	default:
		break;
	}
}

void wl_resolve(wl *w, decl *d)
{
	if (d->state == 2)
		return;
	if (d->state == 1) {
		wl_error(w, d->at, "'%s' is defined by way of itself", d->name->s);
		d->type = d->type ? d->type : w->t_error;
		return;
	}
	/* Names inside belong to the module, whatever the function that came here calls its own. */
	if (w->depth > WL_MAX_RECURSION) {
		wl_error(w, d->at, "'%s' is at the end of too long a chain of declarations", d->name->s);
		d->type = d->type ? d->type : w->t_error;
		return;
	}
	w->depth++;
	decl *fn = w->fn;
	decl_list locals = w->locals;
	for (uint32_t i = locals.n; i-- > 0;)
		locals.d[i]->name->bound = locals.d[i]->outer;
	w->fn = NULL;
	w->locals = (decl_list){0};
	d->state = 1;
	resolve_kind(w, d);
	d->state = 2;
	w->depth--;
	w->fn = fn;
	w->locals = locals;
	for (uint32_t i = 0; i < locals.n; i++)
		locals.d[i]->name->bound = locals.d[i];
	if (!d->type)
		d->type = w->t_error;
}

static void declare_all(wl *w)
{
	for (uint32_t i = 0; i < w->globals.n; i++) {
		decl *d = w->globals.d[i];
		if (d->kind == D_ASSERT)
			continue;
		if (strcmp(d->name->s, "_") == 0)
			wl_error(w, d->at, "'_' is no name");
		else if (d->name->bound)
			wl_error(w, d->at, "'%s' is declared twice", d->name->s);
		else
			d->name->bound = d;
	}
}

static void check_assert(wl *w, expr *e)
{
	const type *t = wl_check_value(w, e);
	if (t->kind == TY_ERROR)
		return;
	if (t->kind != TY_BOOL || !e->val)
		wl_error(w, e->at, "const_assert needs a constant condition of type bool");
	else if (!e->val->c[0].i)
		wl_error(w, e->at, "const_assert failed");
}

/* SpecIds: those written with @id, the others numbered in the order of the source around them. */
static void number_overrides(wl *w)
{
	uint32_t next = 0;
	for (uint32_t i = 0; i < w->globals.n; i++) {
		decl *d = w->globals.d[i];
		if (d->kind != D_OVERRIDE || !d->attrs.id)
			continue;
		if (wl_const_u32(w, d->attrs.id, "@id", &d->id) && d->id > 65535)
			wl_error(w, d->attrs.id->at, "@id(%u) is larger than 65535", d->id);
		for (uint32_t k = 0; k < i; k++)
			if (w->globals.d[k]->kind == D_OVERRIDE && w->globals.d[k]->attrs.id && w->globals.d[k]->id == d->id)
				wl_error(w, d->attrs.id->at, "@id(%u) is used twice", d->id);
	}
	for (uint32_t i = 0; i < w->globals.n; i++) {
		decl *d = w->globals.d[i];
		if (d->kind != D_OVERRIDE || d->attrs.id)
			continue;
		for (bool taken = true; taken; next += taken ? 1 : 0) {
			taken = false;
			for (uint32_t k = 0; k < w->globals.n; k++)
				taken |= w->globals.d[k]->kind == D_OVERRIDE && w->globals.d[k]->attrs.id && w->globals.d[k]->id == next;
		}
		d->id = next++;
	}
}

static void find_recursion(wl *w, decl *fn, uint32_t depth)
{
	if (fn->visit == 2)
		return;
	if (fn->visit == 1 || depth > WL_MAX_DEPTH) {
		wl_error(w, fn->at, fn->visit == 1 ? "'%s' calls itself, directly or through others: WGSL has no recursion"
		                                   : "'%s' is called through too many functions", fn->name->s);
		return;
	}
	fn->visit = 1;
	for (uint32_t i = 0; i < fn->n_callees; i++)
		find_recursion(w, fn->callees[i], depth + 1);
	fn->visit = 2;
}

static void list_entries(wl *w)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < w->globals.n; i++)
		n += w->globals.d[i]->kind == D_FN && w->globals.d[i]->attrs.compute;
	w->entries = wl_array(w, n + 1, sizeof *w->entries);
	w->entry_decls = wl_array(w, n + 1, sizeof *w->entry_decls);
	for (uint32_t i = 0; i < w->globals.n; i++) {
		decl *d = w->globals.d[i];
		if (d->kind != D_FN || !d->attrs.compute)
			continue;
		w->entry_decls[w->n_entries] = d;
		w->entries[w->n_entries++] = d->name->s;
	}
}

void wl_check(wl *w)
{
	declare_all(w);
	number_overrides(w);
	for (uint32_t i = 0; i < w->globals.n; i++)
		if (w->globals.d[i]->kind == D_ASSERT)
			check_assert(w, w->globals.d[i]->init);
		else
			wl_resolve(w, w->globals.d[i]);
	for (uint32_t i = 0; i < w->globals.n; i++)
		if (w->globals.d[i]->kind == D_FN)
			wl_check_function(w, w->globals.d[i]);
	for (uint32_t i = 0; i < w->globals.n; i++)
		if (w->globals.d[i]->kind == D_FN)
			find_recursion(w, w->globals.d[i], 0);
	list_entries(w);
}
