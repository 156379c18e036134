#include "spirv/wgslc/reflect.h"
#include "spirv/wgslc/matrices.h"

#include <spirv_cross/spirv_cross_c.h>
#include <stdlib.h>
#include <string.h>

typedef struct reflection {
	spvc_context context;
	spvc_compiler compiler;
	const wgsl_module *module;
	const uint32_t *words;
	size_t n_words;
	rp_buf *out;
} reflection;

/* "w_name" as the emitter wrote it is "name" in the source. */
static const char *source_name(const char *s)
{
	return strncmp(s, "w_", 2) == 0 ? s + 2 : s;
}

static bool read_only(reflection *r, spvc_variable_id id)
{
	const SpvDecoration *list;
	size_t n;
	if (spvc_compiler_get_buffer_block_decorations(r->compiler, id, &list, &n) != SPVC_SUCCESS)
		return false;
	for (size_t i = 0; i < n; i++)
		if (list[i] == SpvDecorationNonWritable)
			return true;
	return false;
}

typedef struct binding {
	const char *name;
	unsigned group, number;
	bool uniform, read_only;
} binding;

static int by_number(const void *a, const void *b)
{
	const binding *x = a, *y = b;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number ? 1 : 0;
}

static void add_bindings(reflection *r, spvc_resources resources)
{
	static const spvc_resource_type types[] = {SPVC_RESOURCE_TYPE_STORAGE_BUFFER, SPVC_RESOURCE_TYPE_UNIFORM_BUFFER};
	binding all[64];
	size_t n_all = 0;
	for (size_t t = 0; t < 2; t++) {
		const spvc_reflected_resource *list = NULL;
		size_t n = 0;
		spvc_resources_get_resource_list_for_type(resources, types[t], &list, &n);
		for (size_t i = 0; i < n && n_all < 64; i++)
			all[n_all++] = (binding){
				.name = source_name(spvc_compiler_get_name(r->compiler, list[i].id)),
				.group = spvc_compiler_get_decoration(r->compiler, list[i].id, SpvDecorationDescriptorSet),
				.number = spvc_compiler_get_decoration(r->compiler, list[i].id, SpvDecorationBinding),
				.uniform = t == 1, .read_only = t == 1 || read_only(r, list[i].id)};
	}
	qsort(all, n_all, sizeof *all, by_number);
	rp_buf_adds(r->out, "\t\t\t\"bindings\": [");
	for (size_t i = 0; i < n_all; i++)
		rp_buf_addf(r->out, "%s\n\t\t\t\t{\"group\": %u, \"binding\": %u, \"name\": \"%s\", \"type\": \"%s\", \"access\": \"%s\"}", i ? "," : "",
		            all[i].group, all[i].number, all[i].name, all[i].uniform ? "uniform" : "storage", all[i].read_only ? "read" : "read_write");
	rp_buf_adds(r->out, n_all ? "\n\t\t\t],\n" : "],\n");
}

static rp_code add_push(reflection *r, spvc_resources resources, rp_error *err)
{
	const spvc_reflected_resource *list = NULL;
	size_t n = 0, size = 0;
	spvc_resources_get_resource_list_for_type(resources, SPVC_RESOURCE_TYPE_PUSH_CONSTANT, &list, &n);
	if (n && spvc_compiler_get_declared_struct_size(r->compiler, spvc_compiler_get_type_handle(r->compiler, list[0].base_type_id), &size) !=
	             SPVC_SUCCESS)
		return rp_fail(err, RP_INTERNAL, "SPIRV-Cross: %s", spvc_context_get_last_error_string(r->context));
	rp_buf_addf(r->out, "\t\t\t\"pushBytes\": %zu,\n", size);
	return RP_OK;
}

static const char *type_word(spvc_basetype t)
{
	return t == SPVC_BASETYPE_UINT32 ? "u32" : t == SPVC_BASETYPE_INT32 ? "i32" : t == SPVC_BASETYPE_FP32 ? "f32" : "bool";
}

static int by_spec_id(const void *a, const void *b)
{
	const spvc_specialization_constant *x = a, *y = b;
	return x->constant_id < y->constant_id ? -1 : x->constant_id > y->constant_id ? 1 : x->id < y->id ? -1 : x->id > y->id ? 1 : 0;
}

/* A workgroup size brings a second constant with the SpecId of the override that sets it: one row for both, typed by the
 * override, which comes second only when the name tells so. */
static rp_code add_constants(reflection *r, rp_error *err)
{
	const spvc_specialization_constant *list = NULL;
	size_t n = 0, written = 0;
	if (spvc_compiler_get_specialization_constants(r->compiler, &list, &n) != SPVC_SUCCESS)
		return rp_fail(err, RP_INTERNAL, "SPIRV-Cross: %s", spvc_context_get_last_error_string(r->context));
	spvc_specialization_constant *all = rp_alloc_array(n + 1, sizeof *all);
	if (!all)
		return rp_no_memory(err, n, "constants");
	if (n)
		memcpy(all, list, n * sizeof *all);
	qsort(all, n, sizeof *all, by_spec_id);
	rp_buf_adds(r->out, "\t\t\t\"constants\": [");
	for (size_t i = 0; i < n; i++) {
		size_t pick = i;
		while (i + 1 < n && all[i + 1].constant_id == all[i].constant_id) {
			i++;
			if (strncmp(spvc_compiler_get_name(r->compiler, all[i].id), "w_", 2) == 0)
				pick = i;
		}
		spvc_constant c = spvc_compiler_get_constant_handle(r->compiler, all[pick].id);
		spvc_basetype t = spvc_type_get_basetype(spvc_compiler_get_type_handle(r->compiler, spvc_constant_get_type(c)));
		const char *name = wgsl_override_name(r->module, all[pick].constant_id);
		rp_buf_addf(r->out, "%s\n\t\t\t\t{\"id\": %u, \"name\": \"%s\", \"type\": \"%s\", \"defaultBits\": %u}", written++ ? "," : "",
		            all[pick].constant_id, name ? name : "?", type_word(t), spvc_constant_get_scalar_u32(c, 0, 0));
	}
	rp_buf_adds(r->out, written ? "\n\t\t\t],\n" : "],\n");
	free(all);
	return RP_OK;
}

static void add_workgroup(reflection *r)
{
	spvc_specialization_constant c[3];
	unsigned size[3];
	spvc_compiler_get_work_group_size_specialization_constants(r->compiler, &c[0], &c[1], &c[2]);
	for (unsigned i = 0; i < 3; i++)
		size[i] = c[i].id ? spvc_constant_get_scalar_u32(spvc_compiler_get_constant_handle(r->compiler, c[i].id), 0, 0)
		                  : spvc_compiler_get_execution_mode_argument_by_index(r->compiler, SpvExecutionModeLocalSize, i);
	rp_buf_addf(r->out, "\t\t\t\"workgroup\": [%u, %u, %u],\n\t\t\t\"workgroupIds\": [", size[0], size[1], size[2]);
	for (unsigned i = 0; i < 3; i++)
		rp_buf_addf(r->out, i ? ", %d" : "%d", c[i].id ? (int)c[i].constant_id : -1);
	rp_buf_adds(r->out, "],\n");
}

static rp_code add_features(reflection *r, rp_error *err)
{
	const SpvCapability *list;
	size_t n;
	const char *names[4];
	size_t n_names = 0;
	bool f16 = false, subgroups = false, dot = false, matrix = false;
	if (spvc_compiler_get_declared_capabilities(r->compiler, &list, &n) != SPVC_SUCCESS)
		return rp_fail(err, RP_INTERNAL, "SPIRV-Cross: %s", spvc_context_get_last_error_string(r->context));
	for (size_t i = 0; i < n; i++) {
		unsigned c = list[i];
		f16 |= c == SpvCapabilityFloat16 || c == SpvCapabilityStorageBuffer16BitAccess || c == SpvCapabilityStoragePushConstant16 ||
		       c == SpvCapabilityUniformAndStorageBuffer16BitAccess;
		subgroups |= c >= SpvCapabilityGroupNonUniform && c <= SpvCapabilityGroupNonUniformQuad;
		dot |= c == 6018 || c == 6019; /* DotProductInput4x8BitPacked, DotProduct */
		matrix |= c == 6022;           /* CooperativeMatrixKHR */
	}
	if (f16)
		names[n_names++] = "f16";
	if (subgroups)
		names[n_names++] = "subgroups";
	if (dot)
		names[n_names++] = "int_dot";
	if (matrix)
		names[n_names++] = "matrix";
	rp_buf_adds(r->out, "\t\t\t\"features\": [");
	for (size_t i = 0; i < n_names; i++)
		rp_buf_addf(r->out, "%s\"%s\"", i ? ", " : "", names[i]);
	rp_buf_adds(r->out, "]");
	if (!matrix)
		return RP_OK;
	rp_buf_adds(r->out, ",\n\t\t\t\"matrices\": [");
	rp_code rc = spirv_matrices(r->words, r->n_words, r->out, err);
	rp_buf_adds(r->out, "]");
	return rc;
}

static rp_code read_module(reflection *r, rp_error *err)
{
	spvc_parsed_ir ir;
	spvc_resources resources;
	uint32_t *plain = spirv_without_matrices(r->words, r->n_words);
	spvc_result parsed = plain ? spvc_context_parse_spirv(r->context, plain, r->n_words, &ir) : SPVC_ERROR_OUT_OF_MEMORY;
	free(plain);
	if (parsed != SPVC_SUCCESS ||
	    spvc_context_create_compiler(r->context, SPVC_BACKEND_NONE, ir, SPVC_CAPTURE_MODE_TAKE_OWNERSHIP, &r->compiler) != SPVC_SUCCESS ||
	    spvc_compiler_create_shader_resources(r->compiler, &resources) != SPVC_SUCCESS)
		return rp_fail(err, RP_INTERNAL, "SPIRV-Cross: %s", spvc_context_get_last_error_string(r->context));
	add_bindings(r, resources);
	rp_code rc = add_constants(r, err);
	if (rc == RP_OK)
		rc = add_push(r, resources, err);
	add_workgroup(r);
	return rc == RP_OK ? add_features(r, err) : rc;
}

rp_code reflect_kernel(const uint32_t *words, size_t n_words, const char *name, const char *entry, const char *digest,
					   const wgsl_module *m, rp_buf *out, rp_error *err)
{
	reflection r = {.module = m, .words = words, .n_words = n_words, .out = out};
	if (spvc_context_create(&r.context) != SPVC_SUCCESS)
		return rp_fail(err, RP_NO_MEMORY, "SPIRV-Cross: no context");
	rp_buf_addf(out, "\t\t{\n\t\t\t\"name\": \"%s\",\n\t\t\t\"entry\": \"%s\",\n\t\t\t\"digest\": \"%s\",\n", name, entry, digest);
	rp_code rc = read_module(&r, err);
	rp_buf_adds(out, "\n\t\t}");
	spvc_context_destroy(r.context);
	return rc;
}
