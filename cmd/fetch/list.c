/* --list: the catalogue, and what of it is here. */
#include "fetch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const words[] = {"absent", "partly here", "here"};
static const char *const json_words[] = {"absent", "partial", "present"};

static rp_presence adapter_presence(const fetch_state *s, const rp_catalog_adapter *a)
{
	struct stat st;
	char *path = rp_asprintf("%s/models/%s/%s", s->store, a->id, a->path);
	bool here = path != NULL && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == a->size;
	free(path);
	return here ? RP_PRESENT : RP_ABSENT;
}

static void json_line(const char *id, const char *name, const char *kind, const char *base, rp_presence here, uint64_t bytes, rp_buf *out)
{
	rp_jsonw w;
	rp_buf text;
	fetch_json_begin(&w, &text, kind);
	rp_jsonw_pair_str(&w, "id", id);
	rp_jsonw_pair_str(&w, "name", name);
	if (base != NULL) {
		rp_jsonw_pair_str(&w, "base", base);
	}
	rp_jsonw_pair_str(&w, "state", json_words[here]);
	rp_jsonw_key(&w, "bytes");
	if (bytes > 0)
		rp_jsonw_u64(&w, bytes);
	else
		rp_jsonw_null(&w);
	rp_jsonw_end(&w);
	rp_jsonw_line(&w);
	if (rp_jsonw_ok(&w))
		rp_buf_add(out, text.data, text.len);
	else
		out->failed = true;
	rp_buf_free(&text);
}

static void text_line(const char *id, const char *name, rp_presence here, uint64_t bytes, const char *remark, rp_buf *out)
{
	char size[32];
	rp_buf_addf(out, "%-42s  %-12s  %-9s  %s%s\n", id, words[here], bytes > 0 ? rp_size_text(size, sizeof size, bytes) : "-", name, remark);
}

rp_code fetch_list(fetch_state *s, rp_error *err)
{
	rp_catalog *c;
	rp_buf out;
	rp_fetch_opts o = fetch_library_opts(s);
	rp_code rc = rp_fetch_catalog(&o, &c, err);
	if (rc != RP_OK)
		return rc;
	rp_buf_init(&out, 0);
	for (size_t i = 0; i < c->n_models; i++) {
		const rp_catalog_model *m = &c->models[i];
		uint64_t bytes;
		rp_presence here = rp_fetch_presence(s->store, m, &bytes);
		if (s->o.json)
			json_line(m->id, m->name, "model", NULL, here, bytes, &out);
		else
			text_line(m->id, m->name, here, bytes, m->recommended ? " (recommended)" : m->base_url == NULL ? " (no source in the catalogue)" : "", &out);
		for (size_t k = 0; k < m->n_adapters; k++) {
			const rp_catalog_adapter *a = &m->adapters[k];
			if (s->o.json)
				json_line(a->id, a->name, "adapter", m->id, adapter_presence(s, a), a->size, &out);
			else
				text_line(a->id, a->name, adapter_presence(s, a), a->size, " (adapter)", &out);
		}
	}
	rp_catalog_free(c);
	rc = out.failed ? rp_no_memory(err, out.len, "the list") : rp_write_fd(STDOUT_FILENO, out.data, out.len, "standard output", err);
	rp_buf_free(&out);
	return rc;
}
