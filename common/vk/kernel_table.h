/* kernel_table: the generated array behind kernels.h (see spirv/table.c). Private to common/vk. */
#ifndef RP_KERNEL_TABLE_H
#define RP_KERNEL_TABLE_H

#include "vk/kernels.h"

extern const rp_kernel rp_kernel_table[]; /* sorted by name; one empty row at the end */
extern const size_t rp_kernel_table_size; /* without the empty row */

#endif
