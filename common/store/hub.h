/* hub: what the two ways to fetch from a Hub share: one file (fetch_hf.c), the files of a list (fetch_hub.c). Internal to common/store. */
#ifndef RP_HUB_H
#define RP_HUB_H

#include "store/fetch_impl.h"

typedef struct rp_hub {
	const rp_fetch_opts *o;
	rp_fetch_opts own; /* with the token */
	rp_net *net;
	const char *endpoint;
	char *repo, *revision, *path; /* path: NULL for all files */
	char *folder;                 /* below models/ in the store */
	char *token;
	const char **headers;
	rp_error *err;
} rp_hub;

/* Percent-encode what a path may hold besides its slashes; free() it. */
char *rp_hub_encoded(const char *path);
/* Folders and the name of a path that came from outside; false when it could lead anywhere else. */
bool rp_hub_path_is_plain(const char *path);
/* Where the file goes; many: it is one of several. */
rp_code rp_hub_target(const rp_hub *h, const char *path, bool many, rp_target *out);
rp_code rp_hub_fetch_one(rp_hub *h, const char *path, const char *revision, bool many, char **final);
/* All files, or those that h->path fits, side by side. */
rp_code rp_hub_fetch_list(rp_hub *h, char **path);

#endif
