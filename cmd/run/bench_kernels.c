/* --bench kernels: every kernel the model uses on a device, timed and checked. */
#include "bench.h"

#include "base/version.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a row is of, and what all rows of a device share. */
typedef struct device_rows {
	const bench *b;
	const char *file, *variant;
	const rp_engine_info *info;
	const rp_bench_kernels *o;
	rp_bandwidth bandwidth;
	const rp_profile *p;
} device_rows;

static double gb_per_s(const rp_profile_row *r)
{
	return r->bytes > 0 && r->median_ns > 0 ? r->bytes / r->median_ns : (double)NAN;
}

static double gflop_per_s(const rp_profile_row *r)
{
	return r->flop > 0 && r->median_ns > 0 ? r->flop / r->median_ns : (double)NAN;
}

static double percent(const device_rows *d, const rp_profile_row *r)
{
	return d->bandwidth.bytes_per_s > 0 ? 100e9 * gb_per_s(r) / d->bandwidth.bytes_per_s : (double)NAN;
}

static const char *verdict(const rp_profile_row *r)
{
	return isnan(r->nmse) ? "none" : r->nmse <= r->bound ? "pass" : "fail";
}

/* ---- fields ---- */
typedef struct sink { /* JSON when w is not NULL, else csv: names or values */
	rp_jsonw *w;
	rp_buf *out;
	bool names, first;
} sink;

static void csv_text(sink *s, const char *text)
{
	rp_buf_adds(s->out, s->first ? "\"" : ",\"");
	s->first = false;
	for (const char *c = text; *c != '\0'; c++)
		rp_buf_addf(s->out, "%s%c", *c == '"' ? "\"" : "", *c);
	rp_buf_addc(s->out, '"');
}

static void put_text(sink *s, const char *name, const char *value)
{
	if (s->w == NULL)
		csv_text(s, s->names ? name : value != NULL ? value : "");
	else if (value != NULL)
		rp_jsonw_pair_str(s->w, name, value);
	else {
		rp_jsonw_key(s->w, name);
		rp_jsonw_null(s->w);
	}
}

static void put_real(sink *s, const char *name, double value)
{
	char text[40] = "";
	if (isfinite(value))
		snprintf(text, sizeof text, "%.6g", value);
	if (s->w == NULL)
		csv_text(s, s->names ? name : text);
	else
		rp_jsonw_pair_f64(s->w, name, value);
}

static void put_fields(sink *s, const device_rows *d, const rp_profile_row *r)
{
	put_text(s, "schema", BENCH_KERNELS_SCHEMA);
	put_text(s, "version", RP_VERSION);
	put_text(s, "device", d->info->device);
	put_text(s, "model_filename", d->file);
	put_text(s, "variant", d->variant);
	put_real(s, "n_prompt", d->o->n_prompt);
	put_real(s, "n_gen", d->o->n_gen);
	put_real(s, "n_depth", d->o->depth);
	put_text(s, "phase", r->prefill ? "prompt" : "generation");
	put_text(s, "kernel", r->kernel);
	put_text(s, "layers", r->layer);
	put_text(s, "operations", r->ops);
	put_text(s, "shape", r->shape);
	put_text(s, "constants", r->constants);
	put_real(s, "count", (double)r->count / (double)d->p->passes[r->prefill]);
	put_real(s, "us_median", r->median_ns / 1e3);
	put_real(s, "share", r->ns / d->p->ns[r->prefill]);
	put_real(s, "read_bytes", r->bytes);
	put_real(s, "gb_per_s", gb_per_s(r));
	put_real(s, "gflop_per_s", gflop_per_s(r));
	put_real(s, "read_bandwidth", d->bandwidth.bytes_per_s > 0 ? d->bandwidth.bytes_per_s : (double)NAN);
	put_real(s, "bandwidth_percent", percent(d, r));
	put_real(s, "nmse", r->nmse);
	put_real(s, "nmse_bound", isnan(r->nmse) ? (double)NAN : r->bound);
	put_text(s, "check", verdict(r));
}

static void json_row(const device_rows *d, const rp_profile_row *r, rp_buf *out)
{
	rp_jsonw w;
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	put_fields(&(sink){.w = &w}, d, r);
	rp_jsonw_end(&w);
}

static void csv_row(const device_rows *d, const rp_profile_row *r, bool names, rp_buf *out)
{
	put_fields(&(sink){.out = out, .names = names, .first = true}, d, r);
	rp_buf_addc(out, '\n');
}

/* ---- the table ---- */
static const char *number(double v, const char *form, char text[24])
{
	snprintf(text, 24, "-");
	if (isfinite(v))
		snprintf(text, 24, form[0] == 'e' ? "%.1e" : form[0] == '2' ? "%.2f" : form[0] == '0' ? "%.0f" : "%.1f", v);
	return text;
}

static void md_title(rp_buf *out)
{
	rp_buf_addf(out, "| %-10s | %-24s | %-9s | %-34s | %-14s | %6s | %10s | %8s | %8s | %8s | %8s | %-5s |\n", "phase", "kernel", "layers",
		"operations", "shape", "a pass", "us median", "GB/s", "GFLOP/s", "% bandw.", "NMSE", "check");
	rp_buf_adds(out, "| ---------- | ------------------------ | --------- | ---------------------------------- | -------------- | -----: | "
		"---------: | -------: | -------: | -------: | -------: | ----- |\n");
}

static void md_row(const device_rows *d, const rp_profile_row *r, rp_buf *out)
{
	char t[6][24];
	rp_buf_addf(out, "| %-10s | %-24s | %-9s | %-34s | %-14s | %6s | %10s | %8s | %8s | %8s | %8s | %-5s |\n",
		r->prefill ? "prompt" : "generation", r->kernel, r->layer, r->ops, r->shape,
		number((double)r->count / (double)d->p->passes[r->prefill], "1", t[0]), number(r->median_ns / 1e3, "2", t[1]),
		number(gb_per_s(r), "1", t[2]), number(gflop_per_s(r), "0", t[3]), number(percent(d, r), "1", t[4]), number(r->nmse, "e", t[5]),
		verdict(r));
}

void bench_write_kernels(bench_format f, const bench *b, const rp_engine_info *info, const char *file, const char *variant,
	const rp_bench_kernels *o, rp_bandwidth bandwidth, const rp_profile *p, rp_buf *out)
{
	device_rows d = {.b = b, .file = file, .variant = variant, .info = info, .o = o, .bandwidth = bandwidth, .p = p};
	for (size_t i = 0; i < p->n; i++) {
		bool first = i == 0 && !b->wrote;
		switch (f) {
		case BENCH_NONE: break;
		case BENCH_MD:
			if (first)
				md_title(out);
			md_row(&d, &p->rows[i], out);
			break;
		case BENCH_CSV:
			if (first)
				csv_row(&d, &p->rows[i], true, out);
			csv_row(&d, &p->rows[i], false, out);
			break;
		case BENCH_JSON:
			rp_buf_adds(out, first ? "[\n  " : ",\n  ");
			json_row(&d, &p->rows[i], out);
			break;
		case BENCH_JSONL:
			json_row(&d, &p->rows[i], out);
			rp_buf_addc(out, '\n');
			break;
		}
	}
}

size_t bench_failed_kernels(const rp_profile *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++)
		n += strcmp(verdict(&p->rows[i]), "fail") == 0;
	return n;
}
