#include "vk/kernel_table.h"

#include <string.h>

const rp_kernel *rp_kernels(size_t *n)
{
	*n = rp_kernel_table_size;
	return rp_kernel_table;
}

const rp_kernel *rp_kernel_find(const char *name)
{
	size_t low = 0, high = rp_kernel_table_size;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(name, rp_kernel_table[mid].name);
		if (order == 0)
			return &rp_kernel_table[mid];
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}
