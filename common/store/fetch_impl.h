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
/* The file at target has the hash that o asks for: RP_OK. RP_NOT_FOUND, without a message: it has to be fetched. */
rp_code rp_fetch_present(const rp_fetch_opts *o, const rp_target *target, rp_error *err);
/* Take what an item of known content misses from files on this machine. */
rp_code rp_fetch_seeds(const rp_fetch_opts *o, rp_job *job, rp_item *item, rp_error *err);
/* --sha256 to bytes. *known: it was given. */
rp_code rp_fetch_whole(const rp_fetch_opts *o, bool *known, unsigned char out[RP_HASH_BYTES], rp_error *err);
void rp_fetch_keep_tree(const rp_fetch_opts *o, const rp_item *item);

#endif
