/* Which products of matrices the subgroups of a device compute as one instruction. */
#include "vk/private.h"

#include <stdlib.h>

typedef struct coopmat_properties { /* VkCooperativeMatrixPropertiesKHR */
	VkStructureType sType;
	void *pNext;
	uint32_t m, n, k;
	int32_t a, b, c, result; /* VkComponentTypeKHR */
	VkBool32 saturating;
	int32_t scope; /* VkScopeKHR */
} coopmat_properties;

typedef VkResult(VKAPI_PTR *list_fn)(VkPhysicalDevice device, uint32_t *n, coopmat_properties *list);

enum { SCOPE_SUBGROUP = 3 };

/* VkComponentTypeKHR: f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 */
static char component(int32_t type)
{
	static const char letters[] = "hf?b?i?B?u?";
	return type >= 0 && type < (int32_t)sizeof letters - 1 ? letters[type] : '?';
}

const char *rp_vk_component_name(char component)
{
	switch (component) {
	case 'h':
		return "f16";
	case 'f':
		return "f32";
	case 'b':
		return "i8";
	case 'B':
		return "u8";
	case 'i':
		return "i32";
	case 'u':
		return "u32";
	default:
		return "other";
	}
}

bool rp_vk_has_matrix(const rp_vk_info *device, const rp_kernel_matrix *shape)
{
	for (uint32_t i = 0; i < device->n_matrices; i++) {
		const rp_kernel_matrix *m = &device->matrices[i];
		if (m->a == shape->a && m->c == shape->c && m->m == shape->m && m->n == shape->n && m->k == shape->k)
			return true;
	}
	return false;
}

static void add(rp_vk_info *f, const coopmat_properties *p)
{
	rp_kernel_matrix m = { component(p->a), component(p->c), p->m, p->n, p->k };
	bool plain = p->scope == SCOPE_SUBGROUP && !p->saturating && p->a == p->b && p->c == p->result && m.a != '?' && m.c != '?';
	if (plain && f->n_matrices < RP_VK_MAX_MATRICES && !rp_vk_has_matrix(f, &m))
		f->matrices[f->n_matrices++] = m;
}

void rp_vk_phys_matrices(rp_vk_instance *in, rp_vk_phys *p)
{
	list_fn get = (list_fn)in->GetInstanceProcAddr(in->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
	uint32_t n = 0;
	coopmat_properties *list = NULL;
	p->info.n_matrices = 0;
	if (get != NULL && get(p->handle, &n, NULL) >= 0 && n != 0)
		list = rp_alloc_array(n, sizeof *list);
	for (uint32_t i = 0; list != NULL && i < n; i++)
		list[i].sType = (VkStructureType)RP_VK_COOPMAT_PROPERTIES;
	if (list != NULL && get(p->handle, &n, list) >= 0)
		for (uint32_t i = 0; i < n; i++)
			add(&p->info, &list[i]);
	free(list);
	if (p->info.n_matrices == 0)
		p->info.features &= ~(uint32_t)RP_VK_COOPMAT;
}
