/* A GGUF file all the way: read, recognised as a family, its weights loaded, three tokens computed by the oracle. */
#include "infer/infer.h"
#include "model/internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void compute(const rp_graph *g)
{
	static const uint32_t ids[] = {0, 0, 0};
	rp_engine_opts o = {.device = "cpu", .ctx = g->config.max_ctx < 8 ? 0 : 8, .chunk = 2, .threads = 1, .host_bytes = 64 << 20};
	rp_engine *e;
	rp_seq *s;
	rp_output out;
	rp_error err;

	if (rp_engine_open(g, &o, &e, &err))
		return;
	if (rp_seq_new(e, &s, &err) == RP_OK) {
		rp_segment segment = {.seq = s, .ids = ids, .n = 3, .want = RP_WANT_LAST};
		if (rp_forward(e, &segment, 1, &out, &err) == RP_OK && (out.n_rows != 1 || out.width != g->config.vocab))
			abort();
		rp_seq_free(s);
	}
	rp_engine_close(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_model *m = NULL;
	rp_graph *g = NULL;
	rp_error err;

	if (rp_model_open_memory(RP_FORMAT_GGUF, data, n, &m, &err) == RP_OK && rp_graph_build(m, &g, &err) == RP_OK)
		compute(g);
	rp_graph_free(g);
	rp_model_close(m);
	return 0;
}
