#include "spirv/wgslc/matrices.h"

#include <stdlib.h>
#include <string.h>

/* Opcodes of the SPIR-V specification and of SPV_KHR_cooperative_matrix. */
enum { OP_TYPE_INT = 21, OP_TYPE_FLOAT = 22, OP_TYPE_VECTOR = 23, OP_NOP = 0, OP_CONSTANT = 43, OP_TYPE_MATRIX = 4456, OP_MUL_ADD = 4459,
	HEADER = 5, FACTORS_AND_SUM = 3, MAX_SHAPES = 64 };

typedef struct id_info {
	uint32_t op, words[6]; /* of the instruction that defines it: types and constants; else its type in words[0], op 0 */
} id_info;

typedef struct shape {
	const char *a, *c;
	uint32_t m, n, k;
} shape;

static uint32_t op_of(uint32_t word)
{
	return word & 0xffff;
}

static void note(id_info *ids, uint32_t bound, const uint32_t *at, uint32_t len)
{
	uint32_t op = op_of(at[0]);
	bool type = op == OP_TYPE_INT || op == OP_TYPE_FLOAT || op == OP_TYPE_MATRIX;
	if (type && len >= 3 && at[1] < bound) {
		ids[at[1]].op = op;
		memcpy(ids[at[1]].words, at + 2, (len - 2 < 6 ? len - 2 : 6) * sizeof *at);
	} else if (op == OP_CONSTANT && len >= 4 && at[2] < bound) {
		ids[at[2]].op = op;
		ids[at[2]].words[0] = at[3];
	} else if (len >= 3 && at[1] < bound && at[2] < bound && ids[at[1]].op == OP_TYPE_MATRIX && ids[at[2]].op == 0) {
		ids[at[2]].words[0] = at[1]; /* the result type comes first, then the result */
	}
}

static const char *component(const id_info *ids, uint32_t id)
{
	const id_info *t = &ids[id];
	if (t->op == OP_TYPE_FLOAT)
		return t->words[0] == 16 ? "f16" : t->words[0] == 32 ? "f32" : NULL;
	if (t->op == OP_TYPE_INT && t->words[0] == 32)
		return t->words[1] ? "i32" : "u32";
	return NULL;
}

/* Type, result, a, b, c: false when it is not understood. */
static bool read_product(const id_info *ids, uint32_t bound, const uint32_t *at, shape *out)
{
	const id_info *t[FACTORS_AND_SUM];
	for (int i = 0; i < FACTORS_AND_SUM; i++) {
		if (at[3 + i] >= bound || ids[at[3 + i]].words[0] >= bound)
			return false;
		t[i] = &ids[ids[at[3 + i]].words[0]];
		if (t[i]->op != OP_TYPE_MATRIX || t[i]->words[0] >= bound || t[i]->words[2] >= bound || t[i]->words[3] >= bound)
			return false;
	}
	/* words of a type: component, scope, rows, columns, use */
	*out = (shape){ component(ids, t[0]->words[0]), component(ids, t[2]->words[0]), ids[t[0]->words[2]].words[0],
		ids[t[1]->words[3]].words[0], ids[t[0]->words[3]].words[0] };
	return out->a && out->c && component(ids, t[1]->words[0]);
}

static bool known(const shape *list, size_t n, const shape *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].a, s->a) == 0 && strcmp(list[i].c, s->c) == 0 && list[i].m == s->m && list[i].n == s->n && list[i].k == s->k)
			return true;
	return false;
}

rp_code spirv_matrices(const uint32_t *words, size_t n, rp_buf *out, rp_error *err)
{
	shape list[MAX_SHAPES], s;
	size_t n_list = 0;
	uint32_t bound = words[3], len;
	id_info *ids = rp_alloc_array(bound, sizeof *ids);
	rp_code rc = RP_OK;
	if (!ids)
		return rp_no_memory(err, bound * sizeof *ids, "the ids of a module");
	for (size_t at = HEADER; at < n && rc == RP_OK; at += len) {
		len = words[at] >> 16;
		if (!len || len > n - at)
			break;
		note(ids, bound, words + at, len);
		if (op_of(words[at]) != OP_MUL_ADD)
			continue;
		if (len < 6 || !read_product(ids, bound, words + at, &s))
			rc = rp_fail(err, RP_INTERNAL, "a product of subgroup matrices whose types cannot be found");
		else if (!known(list, n_list, &s) && n_list < MAX_SHAPES)
			list[n_list++] = s;
	}
	for (size_t i = 0; i < n_list && rc == RP_OK; i++)
		rp_buf_addf(out, "%s[\"%s\", \"%s\", %u, %u, %u]", i ? ", " : "", list[i].a, list[i].c, list[i].m, list[i].n, list[i].k);
	free(ids);
	return rc;
}

uint32_t *spirv_without_matrices(const uint32_t *words, size_t n)
{
	uint32_t *copy = rp_alloc_array(n, sizeof *copy), len;
	if (!copy)
		return NULL;
	memcpy(copy, words, n * sizeof *copy);
	for (size_t at = HEADER; at < n; at += len) {
		len = words[at] >> 16;
		if (!len || len > n - at)
			break;
		if (op_of(words[at]) != OP_TYPE_MATRIX || len < 4)
			continue;
		copy[at] = 4u << 16 | OP_TYPE_VECTOR; /* result and component stay where they are */
		copy[at + 3] = 4;
		for (size_t i = 4; i < len; i++)
			copy[at + i] = 1u << 16 | OP_NOP;
	}
	return copy;
}
