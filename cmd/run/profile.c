/* --profile: where the device's time went, as a table for people or a line of JSON. */
#include "run.h"

#include "infer/profile.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char *const phases[] = {"generation", "prompt"};

static double each(const rp_profile *p, const rp_profile_row *row, double v)
{
	return p->passes[row->prefill] > 0 ? v / (double)p->passes[row->prefill] : (double)NAN;
}

static double rate(const rp_profile_row *row) /* bytes a nanosecond */
{
	double total = row->bytes * (double)row->count;
	return row->bytes > 0 && row->ns > 0 ? total / row->ns : (double)NAN;
}

/* ---- a table ---- */
static void put_row(const rp_profile *p, const rp_profile_row *row, rp_buf *out)
{
	char speed[24] = "-";
	if (isfinite(rate(row)))
		snprintf(speed, sizeof speed, "%.1f", rate(row));
	rp_buf_addf(out, "%-24s %-9s %7.1f %11.1f %6.1f %8s  %s\n", row->kernel, row->layer[0] != '\0' ? row->layer : "-",
		each(p, row, (double)row->count), each(p, row, row->ns) / 1e3, 100 * row->ns / p->ns[row->prefill], speed, row->ops);
}

static void put_phase(const rp_profile *p, bool prefill, rp_buf *out)
{
	if (p->passes[prefill] == 0)
		return;
	rp_buf_addf(out, "%s: %.1f us on the device, mean of %llu\n", phases[prefill], p->ns[prefill] / (double)p->passes[prefill] / 1e3,
		(unsigned long long)p->passes[prefill]);
	rp_buf_addf(out, "%-24s %-9s %7s %11s %6s %8s  %s\n", "kernel", "layers", "a pass", "us a pass", "%", "GB/s", "operations");
	for (size_t i = 0; i < p->n; i++)
		if (p->rows[i].prefill == prefill)
			put_row(p, &p->rows[i], out);
}

/* ---- JSON ---- */
static void row_object(const rp_profile *p, const rp_profile_row *row, rp_jsonw *w)
{
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "phase", phases[row->prefill]);
	rp_jsonw_pair_str(w, "kernel", row->kernel);
	rp_jsonw_pair_str(w, "layers", row->layer);
	rp_jsonw_pair_str(w, "operations", row->ops);
	rp_jsonw_pair_str(w, "constants", row->constants);
	rp_jsonw_pair_str(w, "shape", row->shape);
	rp_jsonw_pair_u64(w, "count", row->count);
	rp_jsonw_pair_f64(w, "us", row->ns / 1e3);
	rp_jsonw_pair_f64(w, "us_median", row->median_ns / 1e3);
	rp_jsonw_pair_f64(w, "share", row->ns / p->ns[row->prefill]);
	rp_jsonw_pair_f64(w, "bytes", row->bytes);
	rp_jsonw_pair_f64(w, "gb_per_s", rate(row));
	rp_jsonw_end(w);
}

static void profile_object(const rp_profile *p, rp_jsonw *w)
{
	rp_jsonw_object(w);
	rp_jsonw_pair_str(w, "type", "profile");
	rp_jsonw_pair_str(w, "schema", RUN_SCHEMA);
	for (int prefill = 1; prefill >= 0; prefill--) {
		rp_jsonw_key(w, phases[prefill]);
		rp_jsonw_object(w);
		rp_jsonw_pair_u64(w, "passes", p->passes[prefill]);
		rp_jsonw_pair_f64(w, "us", p->ns[prefill] / 1e3);
		rp_jsonw_end(w);
	}
	rp_jsonw_key(w, "kernels");
	rp_jsonw_array(w);
	for (size_t i = 0; i < p->n; i++)
		row_object(p, &p->rows[i], w);
	rp_jsonw_end(w);
	rp_jsonw_end(w);
	rp_jsonw_line(w);
}

rp_code run_write_profile(const run_state *r, rp_error *err)
{
	rp_profile p;
	rp_buf out;
	rp_code code = rp_engine_profile(r->engine, &p, err);
	if (code != RP_OK)
		return code;
	rp_buf_init(&out, 0);
	if (r->o.json) {
		rp_jsonw w;
		rp_jsonw_init(&w, &out);
		profile_object(&p, &w);
		code = run_write_json(&out, &w, err);
	} else {
		put_phase(&p, true, &out);
		put_phase(&p, false, &out);
		code = out.failed ? rp_no_memory(err, out.len, "the profile") : rp_write_fd(STDERR_FILENO, out.data, out.len, "standard error", err);
	}
	rp_buf_free(&out);
	rp_profile_free(&p);
	return code;
}
