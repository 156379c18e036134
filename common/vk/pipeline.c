/* Kernels become pipelines: module and layouts once a kernel, one pipeline a set of constants. */
#include "vk/private.h"

#include <stdlib.h>
#include <string.h>

static rp_code check_features(rp_vk *vk, const rp_kernel *k, rp_error *err)
{
	static const struct {
		uint32_t need, have;
		const char *name;
	} table[] = { { RP_KERNEL_F16, RP_VK_F16 | RP_VK_STORAGE16, "16-bit floats" },
		{ RP_KERNEL_SUBGROUPS, RP_VK_SUBGROUPS, "subgroup operations" },
		{ RP_KERNEL_INT_DOT, RP_VK_DOT8, "packed 8-bit dot products" },
		{ RP_KERNEL_MATRIX, RP_VK_COOPMAT, "cooperative matrices" } };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if ((k->features & table[i].need) != 0 && (vk->phys.info.features & table[i].have) != table[i].have)
			return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s needs %s, which the device lacks", vk->phys.info.name, k->name,
				table[i].name);
	for (uint32_t i = 0; i < k->n_matrices; i++)
		if (!rp_vk_has_matrix(&vk->phys.info, &k->matrices[i]))
			return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s multiplies matrices of %u x %u x %u, which the device does not offer",
				vk->phys.info.name, k->name, k->matrices[i].m, k->matrices[i].n, k->matrices[i].k);
	if (k->n_bindings > vk->phys.info.max_buffers)
		return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s uses %u buffers, the device allows %u", vk->phys.info.name, k->name,
			k->n_bindings, vk->phys.info.max_buffers);
	if (k->push_bytes > vk->phys.info.max_push || k->push_bytes % 4 != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s has %u bytes of push constants, the device allows %u",
			vk->phys.info.name, k->name, k->push_bytes, vk->phys.info.max_push);
	return RP_OK;
}

static rp_code make_layouts(rp_vk *vk, rp_vk_module *m, rp_error *err)
{
	const rp_kernel *k = m->kernel;
	VkDescriptorSetLayoutBinding b[RP_VK_MAX_BINDINGS];
	if (k->n_bindings > RP_VK_MAX_BINDINGS)
		return rp_fail(err, RP_INTERNAL, "kernel %s has %u bindings, at most %d are foreseen", k->name, k->n_bindings,
			(int)RP_VK_MAX_BINDINGS);
	for (uint32_t i = 0; i < k->n_bindings; i++) {
		if (k->bindings[i].group != 0 || k->bindings[i].binding >= 64)
			return rp_fail(err, RP_INTERNAL, "kernel %s: %s is @group(%u) @binding(%u), expected group 0, binding below 64",
				k->name, k->bindings[i].name, k->bindings[i].group, k->bindings[i].binding);
		b[i] = (VkDescriptorSetLayoutBinding){ .binding = k->bindings[i].binding, .descriptorCount = 1,
			.descriptorType = k->bindings[i].uniform ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
			.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT };
	}
	VkDescriptorSetLayoutCreateInfo set = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = k->n_bindings, .pBindings = b };
	VkResult r = vk->CreateDescriptorSetLayout(vk->device, &set, NULL, &m->set_layout);
	VkPushConstantRange push = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = k->push_bytes };
	VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
		.pSetLayouts = &m->set_layout, .pushConstantRangeCount = k->push_bytes != 0 ? 1 : 0, .pPushConstantRanges = &push };
	if (r == VK_SUCCESS)
		r = vk->CreatePipelineLayout(vk->device, &layout, NULL, &m->layout);
	VkShaderModuleCreateInfo module = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = k->n_words * sizeof(uint32_t), .pCode = k->words };
	if (r == VK_SUCCESS)
		r = vk->CreateShaderModule(vk->device, &module, NULL, &m->handle);
	return r == VK_SUCCESS ? RP_OK : rp_vk_fail(vk, err, r, "cannot load the kernel %s", k->name);
}

static void module_free(rp_vk *vk, rp_vk_module *m)
{
	if (m->handle != VK_NULL_HANDLE)
		vk->DestroyShaderModule(vk->device, m->handle, NULL);
	if (m->layout != VK_NULL_HANDLE)
		vk->DestroyPipelineLayout(vk->device, m->layout, NULL);
	if (m->set_layout != VK_NULL_HANDLE)
		vk->DestroyDescriptorSetLayout(vk->device, m->set_layout, NULL);
	free(m);
}

static rp_code module_get(rp_vk *vk, const rp_kernel *k, rp_vk_module **out, rp_error *err)
{
	for (rp_vk_module *m = vk->modules; m != NULL; m = m->next)
		if (m->kernel == k) {
			*out = m;
			return RP_OK;
		}
	rp_code rc = check_features(vk, k, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_module *m = rp_alloc(sizeof *m);
	if (m == NULL)
		return rp_no_memory(err, sizeof *m, k->name);
	m->kernel = k;
	rc = make_layouts(vk, m, err);
	if (rc != RP_OK) {
		module_free(vk, m);
		return rc;
	}
	m->next = vk->modules;
	vk->modules = m;
	*out = m;
	return RP_OK;
}

/* values[i] for constant i of the kernel: given, or a workgroup dimension, or the default. */
static rp_code fill_values(const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3], uint32_t *values,
	uint32_t size[3], rp_error *err)
{
	for (uint32_t i = 0; i < k->n_constants; i++)
		values[i] = k->constants[i].default_bits;
	for (size_t c = 0; c < n; c++) {
		uint32_t i = 0;
		while (i < k->n_constants && strcmp(k->constants[i].name, consts[c].name) != 0)
			i++;
		if (i == k->n_constants)
			return rp_fail(err, RP_INTERNAL, "kernel %s has no constant %s", k->name, consts[c].name);
		values[i] = consts[c].bits;
	}
	for (int d = 0; d < 3; d++) {
		uint32_t want = workgroup != NULL ? workgroup[d] : 0, at = k->n_constants;
		for (uint32_t i = 0; k->workgroup_id[d] >= 0 && i < k->n_constants; i++)
			if (k->constants[i].id == (uint32_t)k->workgroup_id[d])
				at = i;
		if (want != 0 && want != k->workgroup[d] && at == k->n_constants)
			return rp_fail(err, RP_INTERNAL, "kernel %s: its workgroup size %u in dimension %d is fixed, %u was wanted", k->name,
				k->workgroup[d], d, want);
		if (want != 0 && at < k->n_constants)
			values[at] = want;
		size[d] = at < k->n_constants ? values[at] : k->workgroup[d];
	}
	return RP_OK;
}

static rp_code check_size(rp_vk *vk, const rp_kernel *k, const uint32_t size[3], uint32_t *subgroup, rp_error *err)
{
	const rp_vk_info *f = &vk->phys.info;
	uint64_t all = (uint64_t)size[0] * size[1] * size[2];
	for (int d = 0; d < 3; d++)
		if (size[d] == 0 || size[d] > f->max_workgroup_size[d] || size[0] > f->max_workgroup || all > f->max_workgroup)
			return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s wants workgroups of %u x %u x %u, the device allows %u in all",
				f->name, k->name, size[0], size[1], size[2], f->max_workgroup);
	if (*subgroup == 0)
		return RP_OK;
	if ((f->features & RP_VK_SUBGROUP_SIZE) == 0 && *subgroup == f->subgroup_size) {
		*subgroup = 0; /* it is what the device does anyway */
		return RP_OK;
	}
	if ((f->features & RP_VK_SUBGROUP_SIZE) == 0 || *subgroup < f->subgroup_min || *subgroup > f->subgroup_max ||
		(*subgroup & (*subgroup - 1)) != 0)
		return rp_fail(err, RP_UNSUPPORTED, "%s: kernel %s wants subgroups of %u, the device has %u to %u", f->name, k->name,
			*subgroup, f->subgroup_min, f->subgroup_max);
	return RP_OK;
}

void rp_vk_compile(rp_vk *vk, rp_vk_pipeline *p)
{
	const rp_kernel *k = p->module->kernel;
	VkSpecializationMapEntry *map = rp_alloc_array(k->n_constants, sizeof *map);
	if (map == NULL) {
		p->result = VK_ERROR_OUT_OF_HOST_MEMORY;
		return;
	}
	for (uint32_t i = 0; i < k->n_constants; i++)
		map[i] = (VkSpecializationMapEntry){ .constantID = k->constants[i].id, .offset = i * 4, .size = 4 };
	VkSpecializationInfo special = { .mapEntryCount = k->n_constants, .pMapEntries = map, .dataSize = k->n_constants * 4u,
		.pData = p->values };
	VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = { .sType =
		VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, .requiredSubgroupSize = p->subgroup_size };
	VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.module = p->module->handle, .pName = k->entry, .pSpecializationInfo = k->n_constants != 0 ? &special : NULL },
		.layout = p->module->layout, .basePipelineIndex = -1 };
	if (p->subgroup_size != 0) {
		info.stage.pNext = &required;
		if (p->workgroup[0] % p->subgroup_size == 0)
			info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
	}
	p->result = vk->CreateComputePipelines(vk->device, vk->cache, 1, &info, NULL, &p->handle);
	free(map);
}

static void pipeline_free(rp_vk *vk, rp_vk_pipeline *p)
{
	if (p->handle != VK_NULL_HANDLE)
		vk->DestroyPipeline(vk->device, p->handle, NULL);
	free(p->values);
	free(p);
}

static rp_vk_pipeline *find(rp_vk *vk, const rp_vk_pipeline *want)
{
	const rp_kernel *k = want->module->kernel;
	for (rp_vk_pipeline *p = vk->pipelines; p != NULL; p = p->next)
		if (p->module == want->module && p->subgroup_size == want->subgroup_size &&
			memcmp(p->workgroup, want->workgroup, sizeof p->workgroup) == 0 &&
			memcmp(p->values, want->values, k->n_constants * sizeof *p->values) == 0)
			return p;
	return NULL;
}

/* Found, or made and asked for. */
static rp_code get(rp_vk *vk, const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3],
	uint32_t subgroup_size, rp_vk_pipeline **out, rp_error *err)
{
	rp_vk_module *m = NULL;
	rp_code rc = rp_vk_alive(vk, err);
	if (rc == RP_OK)
		rc = module_get(vk, k, &m, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_pipeline *p = rp_alloc(sizeof *p);
	uint32_t *values = rp_alloc_array(k->n_constants, sizeof *values);
	if (p == NULL || values == NULL) {
		free(p);
		free(values);
		return rp_no_memory(err, sizeof *p, k->name);
	}
	*p = (rp_vk_pipeline){ .module = m, .subgroup_size = subgroup_size, .values = values };
	rc = fill_values(k, consts, n, workgroup, values, p->workgroup, err);
	if (rc == RP_OK)
		rc = check_size(vk, k, p->workgroup, &p->subgroup_size, err);
	rp_vk_pipeline *known = rc == RP_OK ? find(vk, p) : NULL;
	if (rc == RP_OK)
		rc = rp_vk_compiler_open(vk, err);
	if (rc != RP_OK || known != NULL) {
		pipeline_free(vk, p);
	} else {
		p->next = vk->pipelines;
		vk->pipelines = known = p;
		rp_vk_compiler_ask(vk, p);
	}
	if (rc == RP_OK)
		*out = known;
	return rc;
}

rp_code rp_vk_pipeline_ask(rp_vk *vk, const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3],
	uint32_t subgroup_size, rp_error *err)
{
	rp_vk_pipeline *p = NULL;
	return get(vk, k, consts, n, workgroup, subgroup_size, &p, err);
}

rp_code rp_vk_pipeline_get(rp_vk *vk, const rp_kernel *k, const rp_vk_const *consts, size_t n, const uint32_t workgroup[3],
	uint32_t subgroup_size, rp_vk_pipeline **out, rp_error *err)
{
	rp_vk_pipeline *p = NULL;
	rp_code rc = get(vk, k, consts, n, workgroup, subgroup_size, &p, err);
	if (rc != RP_OK)
		return rc;
	rp_vk_compiler_wait(vk, p);
	if (p->result != VK_SUCCESS)
		return rp_vk_fail(vk, err, p->result, "cannot compile the kernel %s", k->name);
	*out = p;
	return vk->validate ? rp_vk_check(vk, NULL, err) : RP_OK;
}

const rp_kernel *rp_vk_pipeline_kernel(const rp_vk_pipeline *p)
{
	return p->module->kernel;
}

void rp_vk_pipelines_close(rp_vk *vk)
{
	while (vk->pipelines != NULL) {
		rp_vk_pipeline *p = vk->pipelines;
		vk->pipelines = p->next;
		pipeline_free(vk, p);
	}
	while (vk->modules != NULL) {
		rp_vk_module *m = vk->modules;
		vk->modules = m->next;
		module_free(vk, m);
	}
}
