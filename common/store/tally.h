/* tally: what jobs that follow each other tell, told as of one. Internal to common/store. */
#ifndef RP_TALLY_H
#define RP_TALLY_H

#include "store/fetch.h"

typedef struct rp_tally {
	const rp_fetch_opts *o; /* who is told */
	uint64_t later;         /* bytes of jobs to come: the caller keeps it right */
	uint64_t total, verified, received, at_start, room; /* of those before */
	rp_fetch_event last;
} rp_tally;

/* o with its events going through t, which the caller keeps. */
rp_fetch_opts rp_tally_opts(rp_tally *t, const rp_fetch_opts *o);
/* A job is over. */
void rp_tally_next(rp_tally *t);
/* After the last one: tell the plan of all, in a dry run. */
void rp_tally_end(rp_tally *t);

#endif
