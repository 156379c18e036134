#include "bench.h"

#include "base/version.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what a row holds, for csv and JSON; llama-bench's names where it has the thing ---- */
typedef enum kind { TEXT, NUMBER, REAL } kind;

typedef struct value {
	kind kind;
	const char *s; /* NULL: null */
	uint64_t u;
	double d; /* NaN: null */
} value;

typedef struct field {
	const char *name;
	value (*get)(const bench_row *r);
} field;

static value text(const char *s)
{
	return (value){.kind = TEXT, .s = s};
}

static value number(uint64_t u)
{
	return (value){.kind = NUMBER, .u = u};
}

static value real(double d)
{
	return (value){.kind = REAL, .d = d};
}

static bool on_device(const bench_row *r)
{
	return strcmp(r->info->backend, "cpu") != 0;
}

static double percent(const bench_row *r)
{
	double steps = r->result->rate_spread.mean / r->test.streams; /* tokens of one stream a second */
	bool only_gen = r->test.n_prompt == 0 && r->bandwidth.bytes_per_s > 0;
	return only_gen ? 100 * r->read_bytes * r->test.streams * steps / r->bandwidth.bytes_per_s : (double)NAN;
}

#define GET(name, what) static value get_##name(const bench_row *r) { return what; }
GET(schema, ((void)r, text(BENCH_SCHEMA)))
GET(version, ((void)r, text(RP_VERSION)))
GET(backends, text(on_device(r) ? "Vulkan" : "CPU"))
GET(device, text(r->info->device))
GET(model_filename, text(r->file))
GET(model_type, text(r->type))
GET(model_size, number(r->model_bytes))
GET(model_n_params, number(r->model_values))
GET(n_batch, number(r->batch))
GET(n_threads, number(r->threads))
GET(variant, text(r->variant))
GET(plan, text(r->plan))
GET(ids, text(r->ids))
GET(n_streams, number(r->test.streams))
GET(n_prompt, number(r->test.n_prompt))
GET(n_gen, number(r->test.n_gen))
GET(n_depth, number(r->test.depth))
GET(test_time, text(r->time))
GET(avg_ns, real(r->result->ns_spread.mean))
GET(stddev_ns, real(r->result->ns_spread.sd))
GET(avg_ts, real(r->result->rate_spread.mean))
GET(stddev_ts, real(r->result->rate_spread.sd))
GET(read_bytes_per_token, r->test.n_gen > 0 ? real(r->read_bytes) : real((double)NAN))
GET(read_bandwidth, real(r->bandwidth.bytes_per_s > 0 ? r->bandwidth.bytes_per_s : (double)NAN))
GET(bandwidth_percent, real(percent(r)))
GET(submits_per_token, real(on_device(r) ? r->result->submits : (double)NAN))
GET(dispatches_per_token, real(on_device(r) ? r->result->dispatches : (double)NAN))
GET(barriers_per_token, real(on_device(r) ? r->result->barriers : (double)NAN))
GET(host_ns_per_token, real(r->result->host_ns))
GET(pair_ratio, real(r->ratio.median))
GET(pair_lowest, real(r->ratio.lowest))
GET(pair_highest, real(r->ratio.highest))
GET(distinct_ids, r->result->distinct > 0 ? real((double)r->result->distinct) : real((double)NAN))

#define FIELD(name) {#name, get_##name}
static const field fields[] = {
	FIELD(schema), FIELD(version), FIELD(backends), FIELD(device), FIELD(model_filename), FIELD(model_type), FIELD(model_size),
	FIELD(model_n_params), FIELD(n_batch), FIELD(n_threads), FIELD(variant), FIELD(plan), FIELD(ids), FIELD(n_streams), FIELD(n_prompt),
	FIELD(n_gen), FIELD(n_depth), FIELD(test_time), FIELD(avg_ns), FIELD(stddev_ns), FIELD(avg_ts), FIELD(stddev_ts),
	FIELD(read_bytes_per_token), FIELD(read_bandwidth), FIELD(bandwidth_percent), FIELD(submits_per_token),
	FIELD(dispatches_per_token), FIELD(barriers_per_token), FIELD(host_ns_per_token), FIELD(distinct_ids),
	FIELD(pair_ratio), FIELD(pair_lowest), FIELD(pair_highest),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* ---- csv ---- */
static void csv_value(value v, rp_buf *out)
{
	rp_buf_addc(out, '"');
	if (v.kind == NUMBER)
		rp_buf_addf(out, "%llu", (unsigned long long)v.u);
	else if (v.kind == REAL && isfinite(v.d))
		rp_buf_addf(out, "%.6f", v.d);
	for (const char *c = v.kind == TEXT && v.s != NULL ? v.s : ""; *c != '\0'; c++)
		rp_buf_addf(out, "%s%c", *c == '"' ? "\"" : "", *c);
	rp_buf_addc(out, '"');
}

static void csv_row(const bench_row *r, rp_buf *out)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		rp_buf_adds(out, i > 0 ? "," : "");
		csv_value(fields[i].get(r), out);
	}
	rp_buf_addc(out, '\n');
}

/* ---- JSON ---- */
static void samples(rp_jsonw *w, const char *name, const double *v, size_t n)
{
	rp_jsonw_key(w, name);
	rp_jsonw_array(w);
	for (size_t i = 0; i < n; i++)
		rp_jsonw_f64(w, v[i]);
	rp_jsonw_end(w);
}

static void json_row(const bench_row *r, rp_buf *out)
{
	rp_jsonw w;
	rp_jsonw_init(&w, out);
	rp_jsonw_object(&w);
	for (size_t i = 0; i < N_FIELDS; i++) {
		value v = fields[i].get(r);
		rp_jsonw_key(&w, fields[i].name);
		if (v.kind == TEXT)
			rp_jsonw_str(&w, v.s);
		else if (v.kind == NUMBER)
			rp_jsonw_u64(&w, v.u);
		else
			rp_jsonw_f64(&w, v.d);
	}
	samples(&w, "samples_ns", r->result->ns, r->result->reps);
	samples(&w, "samples_ts", r->result->rate, r->result->reps);
	rp_jsonw_end(&w);
}

/* ---- the table ---- */
typedef struct column {
	const char *title;
	int width; /* negative: text, to the left */
	void (*put)(const bench_row *r, char *out, size_t size);
	size_t when; /* offset of its switch in bench_columns; SIZE_MAX: always */
} column;

static void put_type(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%s", r->type);
}

static void put_size(const bench_row *r, char *out, size_t size)
{
	rp_size_text(out, size, r->model_bytes);
}

static void put_params(const bench_row *r, char *out, size_t size)
{
	double n = (double)r->model_values;
	snprintf(out, size, "%.2f %c", n >= 1e9 ? n / 1e9 : n / 1e6, n >= 1e9 ? 'B' : 'M');
}

static void put_backend(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%s", on_device(r) ? "Vulkan" : "CPU");
}

static void put_device(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%s", r->device_option != NULL ? r->device_option : "(best)");
}

static void put_variant(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%s", r->variant != NULL ? r->variant : "(best)");
}

static void put_threads(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%u", r->threads);
}

static void put_batch(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%u", r->batch);
}

static void put_streams(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%u", r->test.streams);
}

static void put_test(const bench_row *r, char *out, size_t size)
{
	rp_bench_name(&r->test, out, size);
}

static void put_rate(const bench_row *r, char *out, size_t size)
{
	snprintf(out, size, "%.2f ± %.2f", r->result->rate_spread.mean, r->result->rate_spread.sd);
}

static void put_real(double v, const char *form, char *out, size_t size)
{
	if (isfinite(v))
		snprintf(out, size, form[0] == '1' ? "%.1f" : "%.2f", v);
	else
		snprintf(out, size, "-");
}

static void put_ratio(const bench_row *r, char *out, size_t size)
{
	if (isfinite(r->ratio.median))
		snprintf(out, size, "%.3f (%.3f-%.3f)", r->ratio.median, r->ratio.lowest, r->ratio.highest);
	else
		snprintf(out, size, "-");
}

static void put_percent(const bench_row *r, char *out, size_t size)
{
	put_real(percent(r), "1", out, size);
}

static void put_dispatches(const bench_row *r, char *out, size_t size)
{
	put_real(on_device(r) ? r->result->dispatches : (double)NAN, "1", out, size);
}

static void put_barriers(const bench_row *r, char *out, size_t size)
{
	put_real(on_device(r) ? r->result->barriers : (double)NAN, "1", out, size);
}

static void put_host(const bench_row *r, char *out, size_t size)
{
	put_real(r->result->host_ns / 1e3, "1", out, size);
}

#define WHEN(name) offsetof(bench_columns, name)
static const column columns[] = {
	{"model", -30, put_type, SIZE_MAX},
	{"size", 10, put_size, SIZE_MAX},
	{"params", 10, put_params, SIZE_MAX},
	{"backend", -10, put_backend, SIZE_MAX},
	{"device", -8, put_device, WHEN(device)},
	{"threads", 7, put_threads, WHEN(threads)},
	{"n_batch", 7, put_batch, WHEN(batch)},
	{"variant", -8, put_variant, WHEN(variant)},
	{"streams", 7, put_streams, WHEN(streams)},
	{"test", 15, put_test, SIZE_MAX},
	{"t/s", 20, put_rate, SIZE_MAX},
	{"times the first", 22, put_ratio, WHEN(ratio)},
	{"% bandw.", 8, put_percent, SIZE_MAX},
	{"disp./tok", 9, put_dispatches, SIZE_MAX},
	{"barr./tok", 9, put_barriers, SIZE_MAX},
	{"host us/tok", 11, put_host, SIZE_MAX},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static bool shown(const column *c, const bench_columns *on)
{
	return c->when == SIZE_MAX || *(const bool *)((const char *)on + c->when);
}

/* Padded by characters, not by bytes. */
static void cell(const char *s, int width, rp_buf *out)
{
	size_t n = 0, wide = (size_t)(width < 0 ? -width : width);
	for (const char *c = s; *c != '\0'; c++)
		n += ((unsigned char)*c & 0xc0) != 0x80;
	int pad = n < wide ? (int)(wide - n) : 0;
	if (width < 0)
		rp_buf_addf(out, " %s%*s |", s, pad, "");
	else
		rp_buf_addf(out, " %*s%s |", pad, "", s);
}

static void md_begin(const bench_columns *on, rp_buf *out)
{
	rp_buf_addc(out, '|');
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (shown(&columns[i], on))
			cell(columns[i].title, columns[i].width, out);
	rp_buf_adds(out, "\n|");
	for (size_t i = 0; i < N_COLUMNS; i++) {
		int width = columns[i].width;
		if (!shown(&columns[i], on))
			continue;
		rp_buf_addc(out, ' ');
		for (int k = width < 0 ? width : 1 - width; k < 0; k++)
			rp_buf_addc(out, '-');
		rp_buf_adds(out, width < 0 ? " |" : ": |");
	}
	rp_buf_addc(out, '\n');
}

static void md_row(const bench_columns *on, const bench_row *r, rp_buf *out)
{
	char one[120];
	rp_buf_addc(out, '|');
	for (size_t i = 0; i < N_COLUMNS; i++) {
		if (!shown(&columns[i], on))
			continue;
		columns[i].put(r, one, sizeof one);
		cell(one, columns[i].width, out);
	}
	rp_buf_addc(out, '\n');
}

/* ---- a format ---- */
void bench_write_begin(bench_format f, const bench_columns *c, rp_buf *out)
{
	if (f == BENCH_MD)
		md_begin(c, out);
	if (f == BENCH_JSON)
		rp_buf_adds(out, "[\n");
	for (size_t i = 0; f == BENCH_CSV && i < N_FIELDS; i++)
		rp_buf_addf(out, "%s%s", i > 0 ? "," : "", fields[i].name);
	if (f == BENCH_CSV)
		rp_buf_addc(out, '\n');
}

void bench_write_row(bench_format f, const bench_columns *c, const bench_row *r, bool first, rp_buf *out)
{
	switch (f) {
	case BENCH_NONE: break;
	case BENCH_MD: md_row(c, r, out); break;
	case BENCH_CSV: csv_row(r, out); break;
	case BENCH_JSON:
		rp_buf_adds(out, first ? "  " : ",\n  ");
		json_row(r, out);
		break;
	case BENCH_JSONL:
		json_row(r, out);
		rp_buf_addc(out, '\n');
		break;
	}
}

void bench_write_end(bench_format f, rp_buf *out)
{
	if (f == BENCH_MD)
		rp_buf_addf(out, "\nbuild: %s\n", RP_VERSION);
	if (f == BENCH_JSON)
		rp_buf_adds(out, "\n]\n");
}
