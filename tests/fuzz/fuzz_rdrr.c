/* The input is manifest.json; its shards are known by size alone. */
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_model *m = NULL;
	rp_error e;
	if (rp_model_open_memory(RP_FORMAT_RDRR, data, n, &m, &e) == RP_OK)
		walk_tensors(m, false);
	rp_model_close(m);
	return 0;
}
