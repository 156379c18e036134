/* internal: the data that lexer, parser, checker and emitter of wgslc share. Everything lives in the module's arena. */
#ifndef WGSLC_INTERNAL_H
#define WGSLC_INTERNAL_H

#include "spirv/wgslc/wgslc.h"

#include <setjmp.h>

/* Bounds on what a hostile source can cost. */
enum {
	WL_MAX_SOURCE = 8 << 20,      /* bytes */
	WL_MAX_DEPTH = 128,           /* nesting of expressions, statements, types in the source */
	WL_MAX_RECURSION = 1500,      /* of checker and emitter, across the declarations they follow */
	WL_MAX_ERRORS = 20,           /* diagnostics, then the compilation stops */
	WL_MAX_COMPONENTS = 1 << 16,  /* scalars in one constant value */
	WL_MAX_INSTANCES = 4096,      /* copies of functions made for pointer parameters */
	WL_MAX_ARENA = 512 << 20,
	WL_MAX_GLSL = 32 << 20,       /* bytes of one part of the output */
	WL_MAX_TEXT = 128 << 20       /* bytes of all intermediate texts */
};

typedef struct wl wl;
typedef struct sym sym;
typedef struct type type;
typedef struct value value;
typedef struct expr expr;
typedef struct stmt stmt;
typedef struct decl decl;
typedef struct builtin builtin;

/* ---- tokens ---- */
typedef enum tok_kind {
	T_EOF, T_IDENT, T_INT, T_FLOAT, T_KEYWORD,
	/* punctuation */
	T_LPAREN, T_RPAREN, T_LBRACKET, T_RBRACKET, T_LBRACE, T_RBRACE, T_COMMA, T_SEMI, T_COLON, T_DOT, T_AT, T_ARROW,
	T_TEMPLATE_OPEN, T_TEMPLATE_CLOSE,
	/* operators; the assigning ones follow in the same order from T_ASSIGN_PLUS */
	T_PLUS, T_MINUS, T_STAR, T_SLASH, T_PERCENT, T_AND, T_OR, T_XOR, T_SHL, T_SHR,
	T_ASSIGN_PLUS, T_ASSIGN_MINUS, T_ASSIGN_STAR, T_ASSIGN_SLASH, T_ASSIGN_PERCENT, T_ASSIGN_AND, T_ASSIGN_OR, T_ASSIGN_XOR,
	T_ASSIGN_SHL, T_ASSIGN_SHR,
	T_ASSIGN, T_INC, T_DEC, T_NOT, T_TILDE, T_ANDAND, T_OROR, T_EQ, T_NE, T_LT, T_LE, T_GT, T_GE
} tok_kind;

typedef enum keyword {
	K_ALIAS, K_BREAK, K_CASE, K_CONST, K_CONST_ASSERT, K_CONTINUE, K_CONTINUING, K_DEFAULT, K_DIAGNOSTIC, K_DISCARD, K_ELSE,
	K_ENABLE, K_FALSE, K_FN, K_FOR, K_IF, K_LET, K_LOOP, K_OVERRIDE, K_REQUIRES, K_RETURN, K_STRUCT, K_SWITCH, K_TRUE, K_VAR,
	K_WHILE, K_COUNT
} keyword;

typedef struct token {
	tok_kind kind;
	keyword kw;
	uint32_t at, len; /* bytes in the source */
	char suffix;      /* of a number: 0 i u f h */
	sym *name;        /* of an identifier */
	int64_t i;
	double f;
} token;

/* ---- names: one object a spelling ---- */
struct sym {
	const char *s;
	uint32_t len;
	sym *next;
	decl *bound;           /* what the name means in the scope being checked */
	uint32_t glsl_uses, glsl_serial; /* emitter: how many objects of this spelling have a name already, in which emission */
	const builtin *fn;     /* built-in function of that name */
	bool reserved;
};

/* ---- types: interned, compared by address ---- */
typedef enum type_kind {
	TY_ERROR, TY_VOID, TY_BOOL, TY_AINT, TY_AFLOAT, TY_I32, TY_U32, TY_F32, TY_F16, TY_VEC, TY_MAT, TY_ARRAY, TY_STRUCT,
	TY_ATOMIC, TY_PTR, TY_SUBMAT
} type_kind;

/* What a subgroup matrix is in a product: left * right + result. */
typedef enum matrix_use { MX_LEFT, MX_RIGHT, MX_RESULT } matrix_use;

typedef enum space { SP_NONE, SP_FUNCTION, SP_PRIVATE, SP_WORKGROUP, SP_UNIFORM, SP_STORAGE } space;
typedef enum access { AC_READ, AC_WRITE, AC_READ_WRITE } access;

struct type {
	type_kind kind;
	uint8_t n, rows;    /* vector: n components; matrix, subgroup matrix: n columns of rows */
	matrix_use use;     /* subgroup matrix */
	space space;        /* pointer */
	access access;
	const type *elem;   /* vector, matrix, array, atomic, pointer, subgroup matrix */
	uint64_t count;     /* array; 0: sized at run time, or by count_expr */
	expr *count_expr;   /* array sized by an override expression */
	decl *st;           /* structure */
	type *next;         /* hash chain */
	uint32_t depth, serial;
};

/* A constant: scalars in row of declaration, arrays and structures flattened. */
typedef union scalar {
	int64_t i; /* integers, bool */
	double f;  /* floating point, rounded to the type */
} scalar;

struct value {
	uint32_t n;
	scalar c[];
};

/* ---- expressions ---- */
typedef enum expr_kind { EX_LITERAL, EX_IDENT, EX_CALL, EX_INDEX, EX_MEMBER, EX_UNARY, EX_BINARY, EX_ADDRESS, EX_DEREF } expr_kind;
typedef enum stage { ST_CONSTANT, ST_OVERRIDABLE, ST_RUNTIME } stage;
typedef enum call_kind { CALL_NONE, CALL_FN, CALL_BUILTIN, CALL_CONSTRUCT } call_kind;

struct expr {
	expr_kind kind;
	tok_kind op;         /* unary, binary; literal: T_INT, T_FLOAT or T_KEYWORD (bool) */
	char suffix;
	uint8_t n_swizzle, swizzle[4];
	bool paren, is_template; /* written in parentheses; identifier with a template list */
	/* set by the checker */
	bool is_ref, checked;
	bool impure;         /* contains a call that may write memory or synchronise */
	space space;
	access access;
	stage stage;
	call_kind call;
	uint32_t at, depth;
	uint32_t n_args, n_targs;
	sym *name;           /* identifier, callee, member */
	expr **args, **targs; /* children: base and index, left and right, arguments */
	const type *type;    /* of a reference: the store type */
	value *val;
	decl *decl;          /* what an identifier or callee means */
	const builtin *fn;
	scalar lit;
};

/* ---- statements ---- */
typedef enum stmt_kind {
	SM_BLOCK, SM_DECL, SM_ASSIGN, SM_PHONY, SM_INCDEC, SM_CALL, SM_IF, SM_SWITCH, SM_CASE, SM_LOOP, SM_FOR, SM_WHILE, SM_BREAK,
	SM_BREAK_IF, SM_CONTINUE, SM_RETURN, SM_CONST_ASSERT, SM_EMPTY
} stmt_kind;

struct stmt {
	stmt_kind kind;
	tok_kind op;         /* T_ASSIGN or the operator of a compound assignment; T_INC, T_DEC */
	uint32_t at;
	expr *lhs, *e;       /* assignment; condition, selector, call, value */
	decl *decl;
	stmt *body, *other;  /* if: then and else; loop: body and continuing; for: body */
	stmt *init, *update; /* for */
	stmt **list;         /* block; switch: cases */
	uint32_t n_list;
	expr **selectors;    /* case; a NULL stands for default */
	uint32_t n_selectors;
	bool has_default;    /* case */
};

/* ---- declarations ---- */
typedef enum decl_kind {
	D_ALIAS, D_STRUCT, D_MEMBER, D_CONST, D_OVERRIDE, D_VAR, D_FN, D_PARAM, D_LET, D_ASSERT
} decl_kind;

typedef enum io_builtin {
	IO_NONE, IO_GLOBAL_ID, IO_LOCAL_ID, IO_LOCAL_INDEX, IO_WORKGROUP_ID, IO_NUM_WORKGROUPS, IO_SUBGROUP_INVOCATION, IO_SUBGROUP_SIZE,
	IO_SUBGROUP_ID, IO_NUM_SUBGROUPS, IO_GLOBAL_INDEX, IO_WORKGROUP_INDEX
} io_builtin;

typedef struct attrs {
	expr *group, *binding, *id, *align, *size, *workgroup[3];
	bool compute, must_use, has_workgroup;
	io_builtin io;
	uint32_t at;
} attrs;

struct decl {
	decl_kind kind;
	sym *name;
	uint32_t at;
	bool local;             /* declared in a function */
	uint8_t state;          /* 0 untouched, 1 being resolved, 2 resolved */
	attrs attrs;
	expr *type_expr, *init;
	space space;
	access access;
	const type *type;       /* alias: the target; function: the result (TY_VOID for none) */
	value *val;             /* constants */
	uint32_t group, binding, id; /* resolved numbers; id of an override */
	decl **members;         /* structure members, parameters */
	uint32_t n_members;
	/* structure layout, filled when resolved */
	uint64_t offset, size, align; /* of a member in its structure; of the structure */
	bool runtime_sized, builtin_struct, uniform_checked;
	uint8_t props;          /* of a structure: WL_* bits of all its members */
	uint64_t natural_align; /* of a structure, without @align */
	/* function */
	stmt *body;
	decl **callees;
	uint32_t n_callees, cap_callees;
	uint8_t visit;          /* recursion check */
	/* emitter */
	const char *glsl;       /* the name in GLSL, and the emission that gave it */
	uint32_t glsl_serial;
	const struct chain *chain; /* pointer-valued let and parameters: what they point to */
	const char *pad;        /* member: constructor arguments for the padding before it; structure: for that at its end */
	uint32_t emitted;       /* serial of the emission that has written it out */
	decl *outer;            /* checker: meaning of the name outside this scope */
	uint32_t scope;         /* checker: the scope that declared it; 0: module */
};

typedef struct decl_list {
	decl **d;
	uint32_t n, cap;
} decl_list;

/* ---- the module ---- */
struct wgsl_module {
	rp_arena arena;
	wl *w;
};

struct wl {
	rp_arena *arena;
	jmp_buf stop; /* taken when memory is short or too many errors came: the arena makes unwinding safe */
	rp_code stopped, worst;
	char *text;
	uint32_t len;
	token *tokens;
	uint32_t n_tokens;
	sym **names;
	uint32_t n_names, cap_names;
	type **types; /* hash table of WL_TYPE_BUCKETS */
	uint32_t n_types;
	decl_list globals;
	const char **entries;
	decl **entry_decls;
	uint32_t n_entries;
	bool f16, subgroups, int_dot, matrices;
	wgsl_diagnostic *diags;
	uint32_t n_diags;
	/* common types */
	const type *t_error, *t_void, *t_bool, *t_aint, *t_afloat, *t_i32, *t_u32, *t_f32, *t_f16;
	decl *fn; /* function being checked */
	decl_list locals; /* names bound in the function being checked, innermost last */
	uint32_t scope, last_scope;
	uint32_t bypass_scope, bypass_at; /* in a continuing block: names of that scope declared behind bypass_at may not exist */
	uint32_t emission; /* counts calls of wgsl_to_glsl; 0 while checking */
	uint32_t depth;    /* recursion of the checker */
};

/* wl.c: memory, names, messages */
void *wl_new(wl *w, size_t size);
void *wl_array(wl *w, size_t n, size_t size);
char *wl_printf(wl *w, const char *fmt, ...) RP_PRINTF(2, 3);
sym *wl_intern(wl *w, const char *s, size_t len);
void wl_error(wl *w, uint32_t at, const char *fmt, ...) RP_PRINTF(3, 4);
void wl_unsupported(wl *w, uint32_t at, const char *fmt, ...) RP_PRINTF(3, 4);
_Noreturn void wl_stop(wl *w, rp_code code);
void wl_push_decl(wl *w, decl_list *l, decl *d);

/* lex.c */
void wl_lex(wl *w);
const char *wl_tok_name(tok_kind k);
const char *wl_keyword_name(keyword k);
bool wl_is_reserved(const char *s);

/* parse*.c */
typedef struct parser {
	wl *w;
	uint32_t i, depth;
	bool panic; /* a syntax error was reported: every look at the input says "end" until the next declaration */
} parser;

void wl_parse(wl *w);
const token *wl_peek(parser *p);
const token *wl_peek2(parser *p);
bool wl_accept(parser *p, tok_kind k);
bool wl_accept_kw(parser *p, keyword k);
bool wl_expect(parser *p, tok_kind k, const char *where);
bool wl_is_kw(parser *p, keyword k);
void wl_syntax(parser *p, const char *expected);
void wl_enter(parser *p);
void wl_leave(parser *p);
sym *wl_ident(parser *p, const char *what);
expr *wl_parse_expr(parser *p);
expr *wl_parse_lhs(parser *p);
expr *wl_parse_type(parser *p);
expr **wl_parse_list(parser *p, tok_kind close, uint32_t *n, const char *where);
stmt *wl_parse_block(parser *p);
decl *wl_parse_variable(parser *p, bool local);
void wl_parse_attrs(parser *p, attrs *a);

/* types.c */
void wl_types_init(wl *w);
const type *wl_vec(wl *w, const type *elem, unsigned n);
const type *wl_mat(wl *w, const type *elem, unsigned cols, unsigned rows);
const type *wl_array_of(wl *w, const type *elem, uint64_t count, expr *count_expr);
const type *wl_atomic(wl *w, const type *elem);
const type *wl_ptr(wl *w, space sp, const type *elem, access ac);
const type *wl_struct_type(wl *w, decl *st);
const type *wl_submat(wl *w, matrix_use use, const type *elem, unsigned cols, unsigned rows);
const char *wl_type_name(wl *w, const type *t);
const type *wl_elem(const type *t);             /* scalar of a scalar, vector or matrix; else t */
const type *wl_with_elem(wl *w, const type *t, const type *elem); /* same shape */
bool wl_is_type_name(const char *s);             /* a predeclared type or type generator */
bool wl_is_scalar(const type *t);
bool wl_is_abstract(const type *t);             /* abstract somewhere inside */
bool wl_is_float(const type *t);                /* scalar kinds */
bool wl_is_int(const type *t);
bool wl_is_numeric(const type *t);
/* What a type contains somewhere inside, and what it is as a whole. */
enum { WL_CONSTRUCTIBLE = 1, WL_SHAREABLE = 2, WL_FIXED = 4, WL_HAS_ATOMIC = 8, WL_HAS_BOOL = 16, WL_HAS_PTR = 32, WL_HAS_F16 = 64, WL_HAS_SUBMAT = 128 };
uint8_t wl_props(const type *t);
uint8_t wl_struct_props(const decl *st); /* computed from the members; kept in st->props */
bool wl_is_constructible(const type *t);
bool wl_is_host_shareable(const type *t);
bool wl_is_fixed(const type *t);                /* footprint known when the pipeline is made */
uint64_t wl_components(const type *t);          /* scalars in a value; 0 when not constructible or too many */
const type *wl_concrete(wl *w, const type *t);  /* default materialisation */
int wl_rank(const type *from, const type *to);  /* feasible automatic conversion: smaller is better, 0 same, -1 none */
bool wl_size_align(const type *t, uint64_t *size, uint64_t *align);
uint64_t wl_stride(const type *array);

/* eval.c: constants */
value *wl_value(wl *w, uint64_t n);
value *wl_splat(wl *w, uint64_t n, scalar s);
bool wl_convert_scalar(const type *from, scalar s, const type *to, scalar *out, bool *lossy);
value *wl_convert(wl *w, uint32_t at, value *v, const type *from, const type *to); /* NULL after an error */
double wl_round(const type *t, double v);
value *wl_eval_unary(wl *w, expr *e);
value *wl_eval_binary(wl *w, expr *e);
value *wl_eval_builtin(wl *w, expr *e);
value *wl_eval_bitcast(wl *w, expr *e, const type *to);

/* check*.c */
void wl_check(wl *w);
void wl_resolve(wl *w, decl *d);
const type *wl_check_expr(wl *w, expr *e);      /* TY_ERROR after a message; references are not loaded */
const type *wl_check_value(wl *w, expr *e);     /* as above, with references loaded */
bool wl_coerce(wl *w, expr *e, const type *to, const char *what);
void wl_materialise(wl *w, expr *e);
const type *wl_check_type(wl *w, expr *e);      /* an expression used as a type */
void wl_check_call(wl *w, expr *e);
void wl_check_builtin(wl *w, expr *e);
void wl_check_construct(wl *w, expr *e, const type *t);
const type *wl_infer_construct(wl *w, expr *e, bool *is_type); /* vec3(...), array(...) without a template list */
void wl_check_function(wl *w, decl *fn);
void wl_check_variable(wl *w, decl *d);
bool wl_const_u32(wl *w, expr *e, const char *what, uint32_t *out);
void wl_add_callee(wl *w, decl *callee);
void wl_bind(wl *w, decl *d);

/* builtins.c: the table of built-in functions. Overloads of one name stand together. */
typedef enum eval_op {
	EV_NONE, EV_ABS, EV_ACOS, EV_ACOSH, EV_ALL, EV_ANY, EV_ASIN, EV_ASINH, EV_ATAN, EV_ATAN2, EV_ATANH, EV_CEIL, EV_CLAMP, EV_COS,
	EV_COSH, EV_DEGREES, EV_EXP, EV_EXP2, EV_FLOOR, EV_FMA, EV_FRACT, EV_INVERSE_SQRT, EV_LOG, EV_LOG2, EV_MAX, EV_MIN, EV_MIX,
	EV_CLZ, EV_POPCOUNT, EV_CTZ, EV_FIRST_LEADING, EV_FIRST_TRAILING, EV_REVERSE, EV_POW, EV_RADIANS, EV_ROUND, EV_SATURATE, EV_SELECT,
	EV_SIGN, EV_SIN, EV_SINH, EV_SMOOTHSTEP, EV_SQRT, EV_STEP, EV_TAN,
	EV_TANH, EV_TRUNC
} eval_op;

typedef enum special {
	BS_NONE, BS_BITCAST, BS_ARRAY_LENGTH, BS_ATOMIC, BS_ATOMIC_LOAD, BS_ATOMIC_STORE, BS_ATOMIC_CAS, BS_UNIFORM_LOAD, BS_FREXP,
	BS_MODF, BS_TRANSPOSE, BS_DETERMINANT, BS_SELECT, BS_ABS, BS_DOT, BS_TRUTH, BS_DOT4I, BS_DOT4U,
	BS_MATRIX_LOAD, BS_MATRIX_STORE, BS_MATRIX_MULTIPLY, BS_MATRIX_MULADD, BS_MATRIX_SCALAR
} special;

struct builtin {
	const char *name;
	const char *sig;  /* see builtins.c; NULL: checked by code for `special` */
	const char *glsl; /* NULL: the same name; else a template, see emit_builtin.c */
	eval_op eval;
	special special;
	uint8_t flags;
};
enum { BF_IMPURE = 1, BF_SUBGROUP = 2, BF_MAY_DISCARD = 4, BF_CONST_LAST = 8, BF_CONCRETE = 16 };

void wl_builtins_init(wl *w);

/* matrix.c: subgroup matrices */
bool wl_matrix_use(const char *type_name, matrix_use *use); /* false: no name of such a type */
const type *wl_matrix_type(wl *w, expr *e, matrix_use use);
void wl_construct_submat(wl *w, expr *e, const type *t);
const type *wl_check_matrix_call(wl *w, expr *e);
bool wl_col_major(const expr *e); /* of a load or store that checked */

#endif
