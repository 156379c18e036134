#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rp_model *m = NULL;
	rp_error e;
	if (rp_model_open_memory(RP_FORMAT_SAFETENSORS, data, n, &m, &e) == RP_OK)
		walk_tensors(m, true);
	rp_model_close(m);
	return 0;
}
