#ifndef VK_HOLD_H
#define VK_HOLD_H

#include <stdbool.h>

void vk_hold_drivers(void); /* call while a device is open */
/* false under the thread sanitizer: the validation layer's own locking sets it off */
bool vk_want_validation(void);
const char *__lsan_default_suppressions(void); /* the leak checker looks for it by name */

#endif
