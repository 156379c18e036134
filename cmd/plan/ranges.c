/* --ranges: what a stage must fetch. */
#include "plan_cmd.h"

#include "plan/stage.h"

#include <stdlib.h>

/* Told from names alone, so that it works where no plan can be made. */
rp_code plan_ranges(plan_state *s, rp_error *err)
{
	uint32_t layers = rp_stage_layers(s->model), first = 0, last = layers;
	rp_code rc = layers != 0 ? RP_OK : rp_fail(err, RP_UNSUPPORTED, "%s: no tensor's name says which layer it belongs to", rp_model_path(s->model));
	if (rc == RP_OK && s->o.stage != NULL)
		rc = plan_stage(s->o.stage, layers, &first, &last, err);
	if (rc == RP_OK && rp_model_n_files(s->model) != 1)
		rc = rp_fail(err, RP_UNSUPPORTED, "%s: has %zu files; --ranges is for models of one file", rp_model_path(s->model),
			rp_model_n_files(s->model));
	bool *need = rp_alloc_array(rp_model_n_tensors(s->model) + 1, sizeof *need);
	rp_stage_range *r = NULL;
	size_t n = 0;
	if (rc == RP_OK && need == NULL)
		rc = rp_no_memory(err, rp_model_n_tensors(s->model), "the tensors of a stage");
	if (rc == RP_OK) {
		rp_stage_tensors(s->model, first, last, need);
		rc = rp_stage_ranges(s->model, need, 0, &r, &n, err);
	}
	if (rc == RP_OK) {
		rp_buf_addf(&s->out, "# layers %u to %u of %u: %llu of %llu bytes\n# model %s\n", first, last - 1, layers,
			(unsigned long long)rp_stage_bytes(s->model, need), (unsigned long long)rp_model_file(s->model, 0)->size, rp_model_identity(s->model));
		for (size_t i = 0; i < n; i++)
			rp_buf_addf(&s->out, "%llu %llu\n", (unsigned long long)r[i].offset, (unsigned long long)r[i].size);
	}
	free(r);
	free(need);
	return rc;
}
