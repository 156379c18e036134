#ifndef VK_HOLD_H
#define VK_HOLD_H

void vk_hold_drivers(void); /* call while a device is open */
const char *__lsan_default_suppressions(void); /* the leak checker looks for it by name */

#endif
