/* emit: the state of one emission: one entry point of a checked module to GLSL text. Private to emit*.c.
 *
 * Names: user names become w_NAME, or wN_NAME where several objects share the spelling, so every object of the program has a
 * name of its own and GLSL's scoping rules never matter. h_NAME are helper functions, r_NAME the structures of built-in
 * functions, t_N temporaries. Expressions are written fully parenthesised.
 *
 * Pointers do not exist in GLSL. What a pointer points to is always known: a root variable and a path with some runtime indices
 * (a chain). Pointers to function variables are passed as inout; for the other spaces the callee is copied for each (root, path)
 * and gets the runtime indices as extra parameters. */
#ifndef WGSLC_EMIT_H
#define WGSLC_EMIT_H

#include "spirv/wgslc/internal.h"

/* Extensions and device features found to be needed on the way. */
enum {
	NEED_F16 = 1, NEED_F16_STORAGE = 2, NEED_NULL_INIT = 4, NEED_SCOPE = 8, NEED_SUBGROUP = 16, NEED_ARITHMETIC = 32,
	NEED_BALLOT = 64, NEED_SHUFFLE = 128, NEED_SHUFFLE_REL = 256, NEED_VOTE = 512, NEED_QUAD = 1024, NEED_SUBGROUP_F16 = 2048,
	NEED_INTRINSICS = 4096, NEED_INT_DOT = 8192, NEED_MATRIX = 16384, NEED_UNROLL = 32768
};

enum { MAX_CHAIN_INDICES = 64 };

typedef struct chain {
	const decl *root;
	bool module;         /* the root is a module-scope variable */
	uint32_t n;          /* runtime indices */
	const char *pattern; /* GLSL with \1 where a runtime index goes */
	const char *index[MAX_CHAIN_INDICES];
	const char *index_type[MAX_CHAIN_INDICES]; /* "int" or "uint" */
} chain;

typedef struct instance { /* a function written out, for the chains its pointer parameters have */
	const decl *fn;
	const char *key, *name;
	struct instance *next;
} instance;

typedef struct loop_ctx { /* the innermost statement that break or continue may aim at */
	struct loop_ctx *up;
	const stmt *loop;  /* NULL: a switch */
	const char *flag;  /* switch: variable that asks for leaving the loop around it as well */
} loop_ctx;

typedef struct emitter {
	wl *w;
	const wgsl_options *options;
	uint32_t needs, temps, serial, n_instances, depth;
	size_t text;     /* bytes of intermediate texts so far */
	bool too_large;  /* give up: everything writes nothing from now on */
	rp_buf structs, consts, globals, helpers, functions;
	rp_buf *out;        /* statements of the function being written */
	unsigned indent;
	loop_ctx *loop;
	instance *instances;
	const char **helper_keys;
	uint32_t n_helpers, cap_helpers;
	decl_list shared;   /* workgroup variables in use */
	decl_list buffers;  /* storage and uniform buffers in use */
	const decl *push;   /* the push-constant block, once there is one */
} emitter;

/* emit.c */
const char *em_name(emitter *em, decl *d);
const char *em_type(emitter *em, const type *t);
void em_declare(emitter *em, rp_buf *b, const type *t, const char *name);
void em_struct(emitter *em, decl *d);
void em_override(emitter *em, rp_buf *b, decl *d);
void em_const(emitter *em, rp_buf *b, decl *d);
const char *em_var(emitter *em, decl *d);  /* GLSL of a variable itself */
const char *em_zero(emitter *em, const type *t);
void em_value(emitter *em, rp_buf *b, const type *t, const scalar **c);
const char *em_text(emitter *em, rp_buf *b); /* the buffer's bytes as an arena string; frees the buffer */
void em_function(emitter *em, const decl *fn, rp_buf *body);

/* emit_expr.c */
void em_expr(emitter *em, rp_buf *b, const expr *e);
const char *em_expr_text(emitter *em, const expr *e);
void em_chain(emitter *em, const expr *e, bool freeze, chain *c); /* of a reference */
void em_pointer(emitter *em, const expr *e, bool freeze, chain *c); /* of a pointer-valued expression */
const char *em_chain_text(emitter *em, const chain *c);
void em_binary(emitter *em, rp_buf *b, tok_kind op, stage st, const type *ta, const char *a, const type *tb, const char *bt, const value *bv);

/* emit_call.c */
void em_call(emitter *em, rp_buf *b, const expr *e);
void em_place(emitter *em, const expr *pointer, const char *pattern, const char *result, const char *params, const char *args, rp_buf *b);
void em_struct_args(emitter *em, rp_buf *b, const decl *st, const char *const *args);

/* emit_matrix.c: subgroup matrices */
const char *em_matrix_type(emitter *em, const type *t);
void em_matrix_list(emitter *em, rp_buf *b, const expr *e); /* array(...) of what holds matrices */
void em_matrix_call(emitter *em, rp_buf *b, const expr *e);

/* emit_helpers.c: name of the helper for type t ("h_NAME"), written out on first use */
const char *em_helper(emitter *em, const char *name, const type *t);

/* emit_stmt.c */
void em_block(emitter *em, const stmt *s);
void em_line(emitter *em, const char *fmt, ...) RP_PRINTF(2, 3);

#endif
