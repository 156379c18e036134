/* What a file of a job must hash to beyond its pieces: looked at by a worker before the file gets its name. */
#include <stdlib.h>
#include <string.h>

#include "store/job.h"

enum { MAX_WRONG = 3, MAX_AGAIN_BYTES = 64 << 20 };

rp_code rp_item_add_check(rp_item *item, const rp_check *check, rp_error *err)
{
	rp_check *grown = rp_grow_array(item->checks, item->n_checks + 1, sizeof *grown);
	if (grown == NULL)
		return rp_no_memory(err, sizeof *grown, "a check");
	item->checks = grown;
	grown[item->n_checks++] = *check;
	return RP_OK;
}

rp_code rp_item_check(rp_item *item, rp_error *err)
{
	rp_code rc = RP_OK;
	for (item->at_check = 0; item->at_check < item->n_checks; item->at_check++)
		if ((rc = rp_check_fd(item->part.fd, item->part.path, &item->checks[item->at_check], err)) != RP_OK)
			break;
	return rc;
}

const char *rp_item_checked(const rp_item *item)
{
	if (item->partly)
		return item->pieces != NULL ? rp_check_word(RP_CHECK_SHA256) : "none";
	return item->pieces != NULL || item->whole_known ? rp_check_word(RP_CHECK_SHA256) :
		item->n_checks > 0 ? rp_check_word(item->checks[0].kind) : "none";
}

/* Who sent all of these pieces; NULL: nobody alone. */
static rp_origin *only_sender(const rp_item *item, size_t first, size_t end)
{
	for (size_t i = first + 1; i < end; i++)
		if (item->from[i] != item->from[first])
			return NULL;
	return first < end ? item->from[first] : NULL;
}

static bool has_another(const rp_item *item, const rp_origin *than)
{
	for (size_t i = 0; i < item->n_places; i++)
		if (rp_place_alive(&item->places[i]) && item->places[i].origin != than)
			return true;
	return false;
}

/* The next source after this one, in the order of the item's places, that still answers; NULL after NULL: the first. */
static rp_origin *next_source(const rp_item *item, const rp_origin *after)
{
	size_t at = 0;
	for (size_t i = 0; i < item->n_places; i++)
		if (item->places[i].origin == after)
			at = i + 1;
	for (size_t i = 0; i < item->n_places; i++) {
		const rp_place *p = &item->places[(at + i) % item->n_places];
		if (rp_place_alive(p))
			return p->origin;
	}
	return NULL;
}

/* Their records go, so that the next run does not take them for right either. */
static void forget(rp_job *job, rp_item *item, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		if (item->state[i] != RP_PIECE_DONE)
			continue;
		item->state[i] = RP_PIECE_MISSING;
		item->n_done--;
		job->verified -= rp_job_piece_size(item, i);
		rp_part_record(&item->part, i, NULL, NULL);
	}
	if (first < item->low)
		item->low = first;
}

bool rp_item_again(rp_job *job, rp_item *item, const rp_error *error)
{
	if (item->pieces != NULL || item->part.journal < 0) /* each piece was right by itself */
		return false;
	uint64_t offset = 0, size = item->size;
	if (item->at_check < item->n_checks) {
		offset = item->checks[item->at_check].offset;
		size = item->checks[item->at_check].size;
	}
	size_t first = (size_t)(offset / RP_PIECE_BYTES), end = rp_piece_count(offset + size, RP_PIECE_BYTES);
	rp_origin *liar = only_sender(item, first, end);
	forget(job, item, first, end);
	rp_whole_restart(job, item);
	item->publishing = false;
	if (liar != NULL && ++liar->lies >= RP_JOB_MAX_LIES)
		rp_origin_drop(job, liar, error);
	/* once by all, then by each alone: who of several is right is found in the same run */
	size_t turns = item->n_places + 1 > MAX_WRONG ? item->n_places + 1 : MAX_WRONG;
	if (++item->wrong >= turns || !(has_another(item, liar) || (size <= MAX_AGAIN_BYTES && liar != NULL && !liar->dead)))
		return false;
	item->only = next_source(item, liar);
	bool several = item->only != NULL && has_another(item, item->only);
	rp_job_note(job, "%s; it is fetched again%s%s", error->msg, several ? ", from " : "", several ? item->only->shown : "");
	return true;
}
