/* target: where a file goes: a folder that is open, and a name in it. Internal to common/store. */
#ifndef RP_TARGET_H
#define RP_TARGET_H

#include "store/fetch.h"

typedef struct rp_target {
	int folder;
	char *shown; /* of the folder: "" for the current one */
	char *name;
	char *path;  /* shown/name */
} rp_target;

/* -o PATH: a file; with a slash at its end, or when it is a folder, the default name in it. */
rp_code rp_target_output(const char *output, const char *default_name, rp_target *out, rp_error *err);
/* models/ID/NAME in the store; relative may name folders below ID: "ID" or "ID/sub". */
rp_code rp_target_store(const char *store, const char *relative, const char *name, rp_target *out, rp_error *err);
void rp_target_free(rp_target *t); /* a zeroed one is fine */
/* The last component of a URL's path, decoded; NULL when it is not fit for a file name. free() it. */
char *rp_name_of_url(const char *url);
/* An id for the store made from a file's name: without its ending, other characters as dashes. free() it. */
char *rp_id_of_name(const char *name);

#endif
