/* emit_matrix: subgroup matrices as GL_KHR_cooperative_matrix has them. */
#include "spirv/wgslc/emit.h"

/* The use is written as its number: the names of the extension are constants too. */
const char *em_matrix_type(emitter *em, const type *t)
{
	em->needs |= NEED_MATRIX | NEED_SCOPE | NEED_SUBGROUP;
	return wl_printf(em->w, "coopmat<%s, gl_ScopeSubgroup, %u, %u, %u>", em_type(em, t->elem), t->rows, t->n, (unsigned)t->use);
}

static const char *layout(const expr *e)
{
	return wl_col_major(e) ? "gl_CooperativeMatrixLayoutColumnMajor" : "gl_CooperativeMatrixLayoutRowMajor";
}

/* coopMatLoad gives its result through a parameter, so a load is a function of its own for each place loaded from. */
static void load(emitter *em, rp_buf *b, const expr *e)
{
	const char *offset = em_expr_text(em, e->args[1]), *stride = em_expr_text(em, e->args[e->n_args - 1]);
	const char *body = wl_printf(em->w, "%s r; coopMatLoad(r, %%s, o, s, %s); return r;", em_type(em, e->type), layout(e));
	em_place(em, e->args[0], body, em_type(em, e->type), "uint o, uint s", wl_printf(em->w, "uint(%s), uint(%s)", offset, stride), b);
}

static void store(emitter *em, rp_buf *b, const expr *e)
{
	chain c;
	em_pointer(em, e->args[0], false, &c);
	rp_buf_addf(b, "coopMatStore(%s, %s, uint(%s), uint(%s), %s)", em_expr_text(em, e->args[2]), em_chain_text(em, &c),
	            em_expr_text(em, e->args[1]), em_expr_text(em, e->args[e->n_args - 1]), layout(e));
}

/* glslang takes the constructor of an array of matrices for that of a matrix: a function fills the array instead. */
void em_matrix_list(emitter *em, rp_buf *b, const expr *e)
{
	const char *name = wl_printf(em->w, "h_list_%u", em->temps++);
	rp_buf f, fill, args;
	rp_buf_init(&f, 0);
	rp_buf_init(&fill, 0);
	rp_buf_init(&args, 0);
	rp_buf_addf(&f, "%s %s(", em_type(em, e->type), name);
	for (uint32_t i = 0; i < e->n_args; i++) {
		rp_buf_adds(&f, i ? ", " : "");
		em_declare(em, &f, e->type->elem, wl_printf(em->w, "a%u", i));
		rp_buf_addf(&fill, "r[%u] = a%u; ", i, i);
		rp_buf_addf(&args, "%s%s", i ? ", " : "", em_expr_text(em, e->args[i]));
	}
	rp_buf_adds(&f, ") { ");
	em_declare(em, &f, e->type, "r");
	rp_buf_addf(&f, "; %sreturn r; }\n", em_text(em, &fill));
	rp_buf_adds(&em->functions, em_text(em, &f));
	rp_buf_addf(b, "%s(%s)", name, em_text(em, &args));
}

void em_matrix_call(emitter *em, rp_buf *b, const expr *e)
{
	const char *t = e->type->kind == TY_SUBMAT ? em_type(em, e->type) : "";
	switch (e->fn->special) {
	case BS_MATRIX_LOAD:
		load(em, b, e);
		break;
	case BS_MATRIX_STORE:
		store(em, b, e);
		break;
	case BS_MATRIX_MULTIPLY:
		rp_buf_addf(b, "coopMatMulAdd(%s, %s, %s)", em_expr_text(em, e->args[0]), em_expr_text(em, e->args[1]), em_zero(em, e->type));
		break;
	case BS_MATRIX_MULADD:
		rp_buf_addf(b, "coopMatMulAdd(%s, %s, %s)", em_expr_text(em, e->args[0]), em_expr_text(em, e->args[1]),
		            em_expr_text(em, e->args[2]));
		break;
	default: /* BS_MATRIX_SCALAR: only * takes a scalar */
		if (e->fn->glsl[0] == '*')
			rp_buf_addf(b, "(%s * %s)", em_expr_text(em, e->args[0]), em_expr_text(em, e->args[1]));
		else
			rp_buf_addf(b, "(%s %s %s(%s))", em_expr_text(em, e->args[0]), e->fn->glsl, t, em_expr_text(em, e->args[1]));
		break;
	}
}
