/* What the ways to fetch share. Internal to common/store. */
#ifndef RP_FETCH_IMPL_H
#define RP_FETCH_IMPL_H

#include "store/folder.h"
#include "store/get.h"
#include "store/job.h"
#include "store/target.h"

rp_code rp_fetch_net(const rp_fetch_opts *o, rp_net **out, rp_error *err);
/* One file whose size and version the server tells; o->sha256 and o->mirrors are of it. */
rp_code rp_fetch_to(const rp_fetch_opts *o, rp_net *net, const char *url, const rp_target *target, rp_error *err);
void rp_fetch_keep_tree(const rp_fetch_opts *o, const rp_item *item);

#endif
