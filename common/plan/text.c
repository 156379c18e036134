/* A plan as text: a member of the top a line, an item of a list of objects a line. */
#include "plan/plan_impl.h"

#include "sign/sign.h"

#include <stdlib.h>
#include <string.h>

static rp_code value(const cJSON *v, rp_buf *out, rp_error *err)
{
	return rp_canonical(v, RP_KEYS_PLAIN, out, err);
}

static rp_code key(const char *name, rp_buf *out, rp_error *err)
{
	cJSON *s = cJSON_CreateString(name);
	rp_code rc = s != NULL ? value(s, out, err) : rp_no_memory(err, strlen(name), "a plan");
	cJSON_Delete(s);
	rp_buf_addc(out, ':');
	return rc;
}

static rp_code lines(const cJSON *list, rp_buf *out, rp_error *err)
{
	rp_code rc = RP_OK;
	rp_buf_addc(out, '[');
	for (const cJSON *i = list->child; i != NULL && rc == RP_OK; i = i->next) {
		rp_buf_adds(out, i == list->child ? "\n" : ",\n");
		rc = value(i, out, err);
	}
	rp_buf_adds(out, list->child != NULL ? "\n]" : "]");
	return rc;
}

static bool many_objects(const cJSON *v)
{
	return cJSON_IsArray(v) && cJSON_IsObject(v->child);
}

static int by_key(const void *a, const void *b)
{
	const cJSON *const *x = a, *const *y = b;
	return strcmp((*x)->string, (*y)->string);
}

/* Members in canonical order; those that are lists of objects line by line, and objects that hold such lists member by member. */
static rp_code object(const cJSON *o, bool deeper, rp_buf *out, rp_error *err)
{
	size_t n = (size_t)cJSON_GetArraySize(o), at = 0;
	const cJSON **v = rp_alloc_array(n + 1, sizeof(const cJSON *));
	if (v == NULL)
		return rp_no_memory(err, n * sizeof *v, "a plan");
	for (const cJSON *m = o->child; m != NULL; m = m->next)
		v[at++] = m;
	qsort(v, n, sizeof(const cJSON *), by_key);
	rp_code rc = RP_OK;
	rp_buf_addc(out, '{');
	for (size_t i = 0; i < n && rc == RP_OK; i++) {
		rp_buf_adds(out, i == 0 ? "\n" : ",\n");
		rc = key(v[i]->string, out, err);
		bool has_list = deeper && cJSON_IsObject(v[i]) && cJSON_GetObjectItemCaseSensitive(v[i], "work") != NULL;
		if (rc == RP_OK)
			rc = many_objects(v[i]) ? lines(v[i], out, err) : has_list ? object(v[i], false, out, err) : value(v[i], out, err);
	}
	rp_buf_adds(out, "\n}");
	free(v);
	return rc;
}

rp_code rp_plan_text(const rp_plan *p, rp_buf *out, rp_error *err)
{
	rp_code rc = object(p->json, true, out, err);
	rp_buf_addc(out, '\n');
	return rc == RP_OK && out->failed ? rp_no_memory(err, out->len, "a plan") : rc;
}
