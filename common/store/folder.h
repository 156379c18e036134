/* folder: reach files below a root without ever leaving it: every component is opened by itself and no symbolic link is followed. */
#ifndef RP_FOLDER_H
#define RP_FOLDER_H

#include "base/base.h"

/* One component that a path may have: not empty, not "." or "..", no slash, no control character, at most 255 bytes. */
bool rp_component_valid(const char *name, size_t n);
/* Open root/relative ("" is root itself) as a folder. root is the user's own and may be a link; below it nothing may be one.
 * With create, missing folders are made, root's parents too. *fd is the caller's. RP_FORMAT for a component that is not valid. */
rp_code rp_folder_open(const char *root, const char *relative, bool create, int *fd, rp_error *err);
/* mkdir -p */
rp_code rp_folder_make(const char *path, rp_error *err);
/* Make what was renamed or made there last: fsync of the folder. */
rp_code rp_folder_sync(int fd, const char *shown, rp_error *err);

#endif
