/* Models and model files: the default. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>

/* ---- the cache ---- */
/* Stands for all that is demanded of an item's bytes but their hash. False: nothing is. */
static bool demands(const verify_subject *s, const verify_item *item, unsigned char out[RP_HASH_BYTES])
{
	rp_sha256 *h;
	bool roots = roots_count(s) > 0;
	if ((item->pieces == NULL && !roots) || rp_sha256_new(&h, NULL) != RP_OK)
		return false;
	for (size_t i = 0; i < item->n_pieces; i++) {
		const rp_piece *p = &item->pieces[i];
		rp_sha256_update(h, &p->offset, sizeof p->offset);
		rp_sha256_update(h, &p->size, sizeof p->size);
		rp_sha256_update(h, p->sha256, sizeof p->sha256);
	}
	if (roots)
		rp_sha256_update(h, s->identity, sizeof s->identity);
	rp_sha256_final(h, out);
	rp_sha256_free(h);
	return true;
}

/* Whether the cache vouches for an item, and for everything that is demanded of it. */
static bool known(const verify_subject *s, const verify_item *item, const rp_hash_facts *facts)
{
	unsigned char demanded[RP_HASH_BYTES];
	bool more = demands(s, item, demanded);
	if (!item->sha256_known && !item->blake3_known && !more)
		return false;
	return (!item->sha256_known || (facts->sha256_known && memcmp(facts->sha256, item->sha256, RP_HASH_BYTES) == 0)) &&
		(!item->blake3_known || (facts->blake3_known && memcmp(facts->blake3, item->blake3, RP_HASH_BYTES) == 0)) &&
		(!more || (facts->checked_known && memcmp(facts->checked, demanded, RP_HASH_BYTES) == 0));
}

/* A plain file whose hash is remembered is the one a tree was made of, or is not. */
static void recognise(verify_item *item, const rp_hash_facts *facts)
{
	for (size_t i = 0; i < item->n_trees && !item->sha256_known && facts->sha256_known; i++) {
		item->sha256_known = item->trees[i]->whole_known && memcmp(item->trees[i]->whole, facts->sha256, RP_HASH_BYTES) == 0;
		memcpy(item->sha256, facts->sha256, RP_HASH_BYTES);
	}
}

static void ask_cache(verify_subject *s)
{
	rp_hash_facts facts;
	for (size_t i = 0; s->v->cache != NULL && !s->v->o.paranoid && i < s->n_items; i++) {
		verify_item *item = &s->items[i];
		if (!rp_scan_stamp_path(item->path, &item->stamp) || !rp_hash_cache_find(s->v->cache, &item->stamp, &facts))
			continue;
		recognise(item, &facts);
		item->cached = known(s, item, &facts) && (!item->size_known || item->stamp.size == item->size);
		s->v->n_cached += item->cached;
	}
}

static rp_code tell_cache(const verify_subject *s, bool roots_good, uint64_t began_ns, rp_error *err)
{
	rp_code code = RP_OK;
	for (size_t i = 0; s->v->cache != NULL && code == RP_OK && i < s->n_items; i++) {
		const verify_item *item = &s->items[i];
		rp_hash_facts facts = {.sha256_known = item->scan.sha256, .blake3_known = item->scan.blake3};
		if (item->cached || item->scan.code != RP_OK || !item->scan.steady)
			continue;
		memcpy(facts.sha256, item->scan.sha256_sum, RP_HASH_BYTES);
		memcpy(facts.blake3, item->scan.blake3_sum, RP_HASH_BYTES);
		facts.checked_known = item->code == RP_OK && roots_good && demands(s, item, facts.checked);
		code = rp_hash_cache_put(s->v->cache, &item->scan.stamp, &facts, began_ns, err);
	}
	return code;
}

/* ---- a model ---- */
static rp_code model_record(verify_subject *s, rp_code verdict, const char *message, rp_error *err)
{
	static const char *const formats[] = {[RP_FORMAT_GGUF] = "gguf", [RP_FORMAT_RDRR] = "rdrr", [RP_FORMAT_SAFETENSORS] = "safetensors"};
	rp_jsonw w;
	verify_record(s->v, &w, "model");
	rp_jsonw_pair_str(&w, "path", s->path);
	rp_jsonw_pair_str(&w, "status", verdict == RP_OK ? "ok" : "failed");
	rp_jsonw_pair_str(&w, "code", rp_code_word(verdict));
	rp_jsonw_pair_str(&w, "message", message);
	rp_jsonw_pair_str(&w, "format", s->model != NULL ? formats[rp_model_format(s->model)] : NULL);
	rp_jsonw_pair_str(&w, "identity", s->model != NULL ? rp_model_identity(s->model) : NULL);
	rp_jsonw_pair_bool(&w, "catalogue", s->entry != NULL);
	rp_jsonw_pair_u64(&w, "tensors", s->model != NULL ? rp_model_n_tensors(s->model) : 0);
	rp_jsonw_pair_u64(&w, "roots", roots_count(s));
	return verify_record_end(s->v, &w, err);
}

/* The line of the whole: its structure and its tensors' roots, and whether every file was good. */
static rp_code conclude(verify_subject *s, rp_code roots, const rp_error *roots_error, rp_error *err)
{
	rp_code verdict = s->structure != RP_OK ? s->structure : roots;
	const char *message = s->structure != RP_OK ? s->structure_error.msg : roots != RP_OK ? roots_error->msg : NULL;
	for (size_t i = 0; verdict == RP_OK && i < s->n_items; i++)
		verdict = s->items[i].code;
	rp_code code = RP_OK;
	if (s->v->o.json)
		code = model_record(s, verdict, message, err);
	if (!s->folder) /* its file's line has said it */
		return code;
	if (!s->v->o.json)
		return verify_result(s->v, s->path, NULL, verdict, message, err);
	if (verdict != RP_OK && message != NULL && !s->v->o.status)
		verify_say(s->v, "%s", message);
	s->v->first = s->v->first == RP_OK ? verdict : s->v->first;
	return code;
}

static rp_code check_subject(verify_subject *s, rp_error *err)
{
	rp_error roots_error = {0};
	uint64_t began = rp_wall_ns();
	rp_code roots = s->model != NULL ? roots_prepare(s, &roots_error) : RP_OK;
	if (roots == RP_NO_MEMORY)
		return rp_fail(err, roots, "%s", roots_error.msg);
	ask_cache(s);
	rp_code code = subject_scan(s, err);
	if (code == RP_OK && roots == RP_OK)
		roots = roots_check(s, &roots_error);
	if (code == RP_OK)
		code = tell_cache(s, roots == RP_OK, began, err);
	return code == RP_OK ? conclude(s, roots, &roots_error, err) : code;
}

/* What concerns the whole program rather than this operand. */
static bool ends_all(rp_code code)
{
	return code == RP_CANCELLED || code == RP_WRITE || code == RP_DISK_FULL || code == RP_NO_MEMORY || code == RP_USAGE || code == RP_INTERNAL;
}

static rp_code check_operand(verify_state *v, const char *operand, rp_error *err)
{
	verify_subject s = {.pieces_only = false};
	rp_error own = {0};
	uint64_t failed = v->n_failed;
	rp_code code = subject_open(v, operand, &s, &own);
	if (code == RP_OK)
		code = check_subject(&s, &own);
	subject_close(&s);
	if (code == RP_OK || ends_all(code))
		return code == RP_OK ? code : rp_fail(err, code, "%s", own.msg);
	if (v->n_failed > failed) { /* told already */
		v->first = v->first == RP_OK ? code : v->first;
		return RP_OK;
	}
	return verify_result(v, operand, NULL, code, own.msg, err);
}

rp_code verify_operands(verify_state *v, rp_error *err)
{
	size_t n = v->parsed.operands.n;
	rp_code code = RP_OK;
	if (n == 0)
		return rp_fail(err, RP_USAGE, "nothing to check: name a model, a file or an id, or use -c LIST or --print");
	if (n > 1 && (v->o.sha256 != NULL || v->o.identity != NULL))
		return rp_fail(err, RP_USAGE, "--sha256 and --identity are for one operand, and there are %zu", n);
	for (size_t i = 0; code == RP_OK && i < n; i++)
		code = verify_is_record(v->parsed.operands.v[i]) ? verify_record_file(v, v->parsed.operands.v[i], err) :
			check_operand(v, v->parsed.operands.v[i], err);
	if (code == RP_OK && v->cache != NULL && rp_hash_cache_save(v->cache, err) != RP_OK) {
		if (!v->o.quiet && !v->o.status)
			verify_say(v, "note: the cache of hashes cannot be kept: %s", err->msg);
		*err = (rp_error){0};
	}
	if (code == RP_OK)
		code = verify_summary(v, err);
	return code == RP_OK ? v->first : code;
}
