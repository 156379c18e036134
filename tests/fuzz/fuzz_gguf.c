#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Read what is handed out, for the sanitizers. */
static void touch(rp_str s)
{
	if (rp_utf8_valid(s.s, s.n) > s.n)
		abort();
}

static void walk_key(const rp_model *m, const char *key)
{
	rp_error e;
	uint64_t u, n;
	double d;
	bool b;
	int64_t i;
	rp_str s;
	const rp_str *strings;
	rp_kv_type elem;
	rp_kv_u64(m, key, &u, &e);
	rp_kv_f64(m, key, &d, &e);
	rp_kv_bool(m, key, &b, &e);
	if (rp_kv_str(m, key, &s, &e) == RP_OK)
		touch(s);
	if (rp_kv_array_str(m, key, &strings, &n, &e) == RP_OK)
		for (uint64_t k = 0; k < n; k++)
			touch(strings[k]);
	if (rp_kv_array(m, key, &elem, &n, &e) == RP_OK && n > 0) {
		rp_kv_array_i64(m, key, n - 1, &i, &e);
		rp_kv_array_f64(m, key, n - 1, &d, &e);
		rp_kv_array_f64(m, key, n, &d, &e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_model *m = NULL;
	rp_error e;
	if (rp_model_open_memory(RP_FORMAT_GGUF, data, n, &m, &e) == RP_OK) {
		walk_tensors(m, true);
		for (size_t i = 0; i < m->n_kvs; i++) {
			char *key = rp_strndup(m->kvs[i].key.s, m->kvs[i].key.n);
			walk_key(m, key);
			free(key);
		}
	}
	rp_model_close(m);
	return 0;
}
