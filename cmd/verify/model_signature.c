#include "verify.h"
rp_code verify_model_signature(verify_state *v, const char *model, const char *signature, const char *text, size_t n, rp_error *err)
{
	(void)v, (void)text, (void)n, (void)model;
	return rp_fail(err, RP_UNSUPPORTED, "%s: model signatures are not read by this build", signature);
}
