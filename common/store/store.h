/* store: where models lie on this machine.
 *
 * The store is $REPLOID_HOME, else $XDG_DATA_HOME/reploid, else ~/.local/share/reploid; a model lies in models/ID/ there.
 * Data that comes with the programs (the embedded model) lies in $REPLOID_DATA, else in ../manifests (a source tree) or
 * ../share/reploid beside the folder of the executable, else in reploid/ of a folder of $XDG_DATA_DIRS.
 */
#ifndef RP_STORE_H
#define RP_STORE_H

#include "base/base.h"

enum { RP_MAX_ID = 128 };

/* An id is 1 to RP_MAX_ID of A-Z a-z 0-9 . _ - and does not begin with a dot or a dash, so it can never leave its folder. */
bool rp_id_valid(const char *id);

/* Paths; free() them. RP_NOT_FOUND when neither the variables nor HOME are set. */
rp_code rp_store_dir(char **out, rp_error *err);
rp_code rp_cache_dir(char **out, rp_error *err); /* $XDG_CACHE_HOME/reploid, else ~/.cache/reploid; it may not exist */

/* A file or folder that comes with the programs, by name ("models.json"). free() it. */
rp_code rp_data_locate(const char *name, char **path, rp_error *err);

/* What -m says to a path that exists: "embedded" is the model that comes with the programs; anything with a slash, or that
 * exists, is a path; else an id in the store. RP_NOT_FOUND says where was looked and what to do. */
rp_code rp_model_locate(const char *model, char **path, rp_error *err);

#endif
