/* A plan for people: what runs, layer kind by layer kind, what was rejected and why, memory, totals, what was assumed. */
#include "plan/plan_impl.h"

#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *get(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static char *size_of(char out[32], double bytes)
{
	return rp_size_text(out, 32, bytes >= 0 && bytes < 1.8e19 ? (uint64_t)bytes : 0);
}

static void head(const cJSON *p, rp_buf *out)
{
	const cJSON *m = get(p, "model"), *d = get(p, "device"), *s = get(p, "settings"), *stage = get(s, "stage");
	char a[32];
	rp_buf_addf(out, "plan      %s\n", rp_plan_text_of(p, "digest"));
	rp_buf_addf(out, "model     %s, %.0f layers, %s, %s, %s\n", rp_plan_text_of(m, "family"), rp_plan_number_of(m, "layers"),
		rp_plan_text_of(m, "format"), size_of(a, rp_plan_number_of(m, "bytes")), rp_plan_text_of(m, "identity"));
	rp_buf_addf(out, "device    %s (%s, Vulkan %s, %s %s)\n", rp_plan_text_of(d, "name"), rp_plan_text_of(d, "kind"),
		rp_plan_text_of(d, "vulkan"), rp_plan_text_of(d, "driver"), rp_plan_text_of(d, "driver_info"));
	rp_buf_addf(out, "settings  context %.0f, %.0f rows a pass, layers %.0f to %.0f\n", rp_plan_number_of(s, "ctx"),
		rp_plan_number_of(s, "batch"), cJSON_GetNumberValue(cJSON_GetArrayItem(stage, 0)), cJSON_GetNumberValue(cJSON_GetArrayItem(stage, 1)));
	rp_buf_addf(out, "kernels   %s: %s\n", rp_plan_text_of(s, "variant"), rp_plan_text_of(s, "why"));
	if (get(s, "rejected") != NULL)
		rp_buf_addf(out, "          rejected %s\n", rp_plan_text_of(s, "rejected"));
	rp_buf_addf(out, "          set %s\n", rp_plan_text_of(p, "kernel_set"));
}

/* ---- layers that are alike ---- */
static int layer_of(const cJSON *work)
{
	const cJSON *l = get(work, "layer");
	return cJSON_IsNumber(l) ? (int)l->valuedouble : -1;
}

static const cJSON *first_of(const cJSON *list, int layer)
{
	const cJSON *w = list->child;
	while (w != NULL && layer_of(w) != layer)
		w = w->next;
	return w;
}

static bool same_work(const cJSON *a, const cJSON *b)
{
	return strcmp(rp_plan_text_of(a, "kernel"), rp_plan_text_of(b, "kernel")) == 0 &&
		strcmp(rp_plan_text_of(a, "ops"), rp_plan_text_of(b, "ops")) == 0 && cJSON_Compare(get(a, "groups"), get(b, "groups"), true) &&
		cJSON_Compare(get(a, "barrier"), get(b, "barrier"), true);
}

static bool alike(const cJSON *list, int x, int y)
{
	const cJSON *a = first_of(list, x), *b = first_of(list, y);
	for (; a != NULL && b != NULL && layer_of(a) == x && layer_of(b) == y; a = a->next, b = b->next)
		if (!same_work(a, b))
			return false;
	return (a == NULL || layer_of(a) != x) == (b == NULL || layer_of(b) != y);
}

static void work_line(const cJSON *w, rp_buf *out)
{
	char a[32], groups[48], ops[60];
	const cJSON *g = get(w, "groups");
	bool dispatch = g != NULL;
	snprintf(groups, sizeof groups, "-");
	if (dispatch)
		snprintf(groups, sizeof groups, "%.0f x %.0f x %.0f", cJSON_GetNumberValue(cJSON_GetArrayItem(g, 0)),
			cJSON_GetNumberValue(cJSON_GetArrayItem(g, 1)), cJSON_GetNumberValue(cJSON_GetArrayItem(g, 2)));
	rp_show(ops, sizeof ops, rp_plan_text_of(w, "ops"), strlen(rp_plan_text_of(w, "ops")));
	rp_buf_addf(out, "    %-50s %-26s %14s %-8s %10s %10.2f\n", ops, dispatch ? rp_plan_text_of(w, "kernel") : rp_plan_text_of(w, "kind"),
		groups, cJSON_IsTrue(get(w, "barrier")) ? "waits" : "", size_of(a, rp_plan_number_of(w, "read") + rp_plan_number_of(w, "written")),
		rp_plan_number_of(w, "ns") / 1e3);
}

static void title_line(const char *title, rp_buf *out)
{
	rp_buf_addf(out, "  %-52s %-26s %14s %-8s %10s %10s\n", title, "kernel", "workgroups", "barrier", "moves", "us");
}

/* "layers 0-2, 4-6": those that are like `layer`. */
static void layers_title(const cJSON *list, int layer, int last, rp_buf *out)
{
	char text[200] = "layers ";
	size_t n = strlen(text);
	int count = 0;
	for (int l = layer; l <= last; l++) {
		int end = l;
		if (first_of(list, l) == NULL || !alike(list, layer, l))
			continue;
		while (end < last && alike(list, layer, end + 1))
			end++;
		count += end - l + 1;
		if (n < 40)
			n += (size_t)snprintf(text + n, sizeof text - n, end > l ? "%s%d-%d" : "%s%d", l > layer ? ", " : "", l, end);
		else if (n < 60)
			n += (size_t)snprintf(text + n, sizeof text - n, "%*s", 60, "");
		l = end;
	}
	text[n > 60 ? 40 : n] = '\0';
	size_t at = strlen(text);
	snprintf(text + at, sizeof text - at, "%s (%d)", n > 60 ? " ..." : "", count);
	title_line(text, out);
}

static void layer_kinds(const cJSON *list, rp_buf *out)
{
	int last = -1;
	for (const cJSON *w = list->child; w != NULL; w = w->next)
		last = layer_of(w) > last ? layer_of(w) : last;
	for (int l = 0; l <= last; l++) {
		bool known = first_of(list, l) == NULL;
		for (int k = 0; k < l && !known; k++)
			known = first_of(list, k) != NULL && alike(list, k, l);
		if (known)
			continue;
		layers_title(list, l, last, out);
		for (const cJSON *w = first_of(list, l); w != NULL && layer_of(w) == l; w = w->next)
			work_line(w, out);
	}
}

/* ---- a pass ---- */
static void pass(const cJSON *p, const char *name, rp_buf *out)
{
	const cJSON *o = get(p, name), *list = get(o, "work");
	char a[32], b[32];
	double rows = rp_plan_number_of(o, "rows"), ns = rp_plan_number_of(o, "ns");
	rp_buf_addf(out, "\n%s: %.0f row%s at position %.0f: %.0f dispatches, %.0f barriers, %.0f copies; reads %s, writes %s", name, rows,
		rows == 1 ? "" : "s", rp_plan_number_of(o, "at"), rp_plan_number_of(o, "dispatches"), rp_plan_number_of(o, "barriers"),
		rp_plan_number_of(o, "copies"), size_of(a, rp_plan_number_of(o, "read")), size_of(b, rp_plan_number_of(o, "written")));
	rp_buf_addf(out, "; predicted %.3f ms, %.0f tokens/s\n", ns / 1e6, ns > 0 ? rows / ns * 1e9 : 0);
	if (list == NULL)
		return;
	layer_kinds(list, out);
	title_line("outside layers", out);
	for (const cJSON *w = list->child; w != NULL; w = w->next)
		if (layer_of(w) < 0)
			work_line(w, out);
}

/* Each reason once, by kernel. */
static void reasons(const cJSON *p, rp_buf *out)
{
	static const char *const passes[] = { "prefill", "decode" };
	rp_buf_adds(out, "\nwhy\n");
	for (int i = 0; i < 2; i++) {
		const cJSON *list = get(get(p, passes[i]), "work");
		for (const cJSON *w = list != NULL ? list->child : NULL; w != NULL; w = w->next) {
			const cJSON *before = list->child;
			while (before != w && (strcmp(rp_plan_text_of(before, "kernel"), rp_plan_text_of(w, "kernel")) != 0 ||
				strcmp(rp_plan_text_of(before, "why"), rp_plan_text_of(w, "why")) != 0))
				before = before->next;
			if (before != w || get(w, "why") == NULL)
				continue;
			rp_buf_addf(out, "  %-8s %-26s %s\n", passes[i], rp_plan_text_of(w, "kernel"), rp_plan_text_of(w, "why"));
			if (get(w, "rejected") != NULL)
				rp_buf_addf(out, "  %-35s rejected %s\n", "", rp_plan_text_of(w, "rejected"));
		}
	}
}

static void memory(const cJSON *p, rp_buf *out)
{
	char a[32], b[32];
	rp_buf_adds(out, "\nmemory\n");
	const cJSON *h;
	cJSON_ArrayForEach(h, get(p, "memory"))
	{
		if (rp_plan_number_of(h, "taken") == 0)
			continue;
		rp_buf_addf(out, "  heap %.0f, %s: %s of %s taken:", rp_plan_number_of(h, "heap"), cJSON_IsTrue(get(h, "local")) ? "the device's own"
			: "of the host", size_of(a, rp_plan_number_of(h, "taken")), size_of(b, rp_plan_number_of(h, "size")));
		for (int c = 0; c < RP_BUF_CLASS_COUNT; c++) {
			double bytes = rp_plan_number_of(h, rp_buf_class_word((rp_buf_class)c));
			if (bytes > 0)
				rp_buf_addf(out, " %s %s", rp_buf_class_word((rp_buf_class)c), size_of(a, bytes));
		}
		rp_buf_addc(out, '\n');
	}
	rp_buf_addf(out, "  each further sequence takes %s\n", size_of(a, rp_plan_number_of(p, "sequence_bytes")));
}

static void assumptions(const cJSON *p, rp_buf *out)
{
	const cJSON *c;
	rp_buf_adds(out, "\ntime is predicted as the sum over dispatches of a start and the longer of moving and computing, from\n");
	cJSON_ArrayForEach(c, get(p, "costs")) rp_buf_addf(out, "  %-20s %12.4g  %s\n", c->string, rp_plan_number_of(c, "value"),
		strcmp(rp_plan_text_of(c, "from"), "description") == 0 ? "from the device's description" : "assumed for a device of this kind");
}

rp_code rp_plan_explain(const rp_plan *p, rp_buf *out, rp_error *err)
{
	head(p->json, out);
	pass(p->json, "prefill", out);
	pass(p->json, "decode", out);
	reasons(p->json, out);
	memory(p->json, out);
	assumptions(p->json, out);
	return out->failed ? rp_no_memory(err, out->len, "a plan") : RP_OK;
}
