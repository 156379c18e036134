#include "store/tally.h"

static void tell(const rp_tally *t, const rp_fetch_event *e)
{
	if (t->o->event != NULL)
		t->o->event(t->o->user, e);
}

static void on_event(void *user, const rp_fetch_event *event)
{
	rp_tally *t = user;
	rp_fetch_event e = *event;
	if (e.kind == RP_FETCH_PLAN || e.kind == RP_FETCH_PROGRESS)
		t->last = e;
	if (e.kind == RP_FETCH_PLAN) {
		t->room = e.room;
		return;
	}
	if (e.kind == RP_FETCH_PROGRESS) {
		e.total += t->total + t->later;
		e.verified += t->verified;
		e.received += t->received;
		e.at_start += t->at_start;
	}
	tell(t, &e);
}

rp_fetch_opts rp_tally_opts(rp_tally *t, const rp_fetch_opts *o)
{
	rp_fetch_opts own = *o;
	own.event = on_event;
	own.user = t;
	return own;
}

void rp_tally_next(rp_tally *t)
{
	t->total += t->last.total;
	t->verified += t->last.verified;
	t->received += t->last.received;
	t->at_start += t->last.at_start;
	t->last = (rp_fetch_event){.kind = RP_FETCH_PROGRESS};
}

void rp_tally_end(rp_tally *t)
{
	if (t->o->dry_run)
		tell(t, &(rp_fetch_event){.kind = RP_FETCH_PLAN, .total = t->total, .verified = t->verified, .room = t->room});
}
