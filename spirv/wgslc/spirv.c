#include "spirv/wgslc/spirv.h"

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <glslang/build_info.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

enum { OP_ENTRY_POINT = 15 };

static bool started;

const char *spirv_generator(void)
{
	return "glslang " TEXT(GLSLANG_VERSION_MAJOR) "." TEXT(GLSLANG_VERSION_MINOR) "." TEXT(GLSLANG_VERSION_PATCH);
}

void spirv_finish(void)
{
	if (started)
		glslang_finalize_process();
	started = false;
}

/* glslang calls every entry point "main"; OpEntryPoint carries the name the WGSL source has. */
static rp_code rename_entry(const uint32_t *in, size_t n, const char *entry, uint32_t **words, size_t *n_words, rp_error *err)
{
	size_t name_words = strlen(entry) / 4 + 1, at = 5;
	while (at < n && (in[at] & 0xffff) != OP_ENTRY_POINT && in[at] >> 16)
		at += in[at] >> 16;
	if (at + 4 >= n || memcmp(&in[at + 3], "main", 5) != 0)
		return rp_fail(err, RP_INTERNAL, "glslang's module has no entry point named main");
	uint32_t *out = rp_alloc_array(n + name_words, sizeof *out);
	if (!out)
		return rp_no_memory(err, n * 4, "a SPIR-V module");
	size_t rest = at + 5; /* "main" and its NUL took words 3 and 4 */
	memcpy(out, in, (at + 3) * 4);
	memcpy(out + at + 3, entry, strlen(entry));
	memcpy(out + at + 3 + name_words, in + rest, (n - rest) * 4);
	out[at] += (uint32_t)(name_words - 2) << 16;
	*words = out;
	*n_words = n + name_words - 2;
	return RP_OK;
}

static rp_code link_and_generate(glslang_program_t *program, const char *entry, uint32_t **words, size_t *n_words, rp_error *err)
{
	glslang_spv_options_t options = {.disable_optimizer = true};
	if (!glslang_program_link(program, GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT))
		return rp_fail(err, RP_INTERNAL, "glslang cannot link the shader: %.600s", glslang_program_get_info_log(program));
	glslang_program_SPIRV_generate_with_options(program, GLSLANG_STAGE_COMPUTE, &options);
	const unsigned *spirv = glslang_program_SPIRV_get_ptr(program);
	return rename_entry(spirv, glslang_program_SPIRV_get_size(program), entry, words, n_words, err);
}

rp_code spirv_from_glsl(const char *glsl, const char *entry, uint32_t **words, size_t *n_words, rp_error *err)
{
	const glslang_input_t input = {
		.language = GLSLANG_SOURCE_GLSL, .stage = GLSLANG_STAGE_COMPUTE, .client = GLSLANG_CLIENT_VULKAN,
		.client_version = GLSLANG_TARGET_VULKAN_1_2, .target_language = GLSLANG_TARGET_SPV,
		.target_language_version = GLSLANG_TARGET_SPV_1_5, .code = glsl, .default_version = 460,
		.default_profile = GLSLANG_CORE_PROFILE, .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
		.resource = glslang_default_resource()};
	if (!started)
		started = glslang_initialize_process() != 0;
	glslang_shader_t *shader = glslang_shader_create(&input);
	rp_code rc;
	if (!shader || !glslang_shader_preprocess(shader, &input) || !glslang_shader_parse(shader, &input)) {
		rc = rp_fail(err, RP_INTERNAL, "glslang refuses the GLSL made from this file: %.600s",
		             shader ? glslang_shader_get_info_log(shader) : "no shader object");
	} else {
		glslang_program_t *program = glslang_program_create();
		glslang_program_add_shader(program, shader);
		rc = link_and_generate(program, entry, words, n_words, err);
		glslang_program_delete(program);
	}
	glslang_shader_delete(shader);
	return rc;
}
