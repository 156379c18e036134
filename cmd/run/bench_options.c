/* From the command line of --bench to lists. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 24, MAX_STREAMS = 4096, MAX_THREADS = 1024, MAX_BATCH = 1 << 16 };

static rp_code split_words(const char *text, const char *where, words *out, rp_error *err)
{
	size_t most = 1;
	for (const char *c = text != NULL ? text : ""; *c != '\0'; c++)
		most += *c == ',';
	out->v = rp_alloc_array(most, sizeof *out->v);
	out->copy = rp_strdup(text != NULL ? text : "");
	if (out->v == NULL || out->copy == NULL)
		return rp_no_memory(err, most, where);
	out->n = most;
	if (text == NULL)
		return RP_OK;
	char *at = out->copy;
	for (size_t i = 0; i < most; i++) {
		size_t n = strcspn(at, ",");
		at[n] = '\0';
		if (n == 0)
			return rp_fail(err, RP_USAGE, "%s: an empty name in '%s'", where, text);
		out->v[i] = at;
		at += n + 1;
	}
	return RP_OK;
}

static rp_code parse_pairs(bench *b, rp_error *err)
{
	b->pairs = rp_alloc_array(b->o.pairs.n, sizeof *b->pairs);
	if (b->pairs == NULL)
		return rp_no_memory(err, b->o.pairs.n * sizeof *b->pairs, "--pp-tg");
	for (size_t i = 0; i < b->o.pairs.n; i++) {
		rp_counts c;
		rp_code code = rp_counts_parse(b->o.pairs.v[i], 1, MAX_TOKENS, "--pp-tg", &c, err);
		if (code != RP_OK)
			return code;
		if (c.n == 2)
			b->pairs[i] = (rp_bench_test){.n_prompt = c.v[0], .n_gen = c.v[1]};
		else
			code = rp_fail(err, RP_USAGE, "--pp-tg: '%s' is no pair of numbers P,G", b->o.pairs.v[i]);
		free(c.v);
		if (code != RP_OK)
			return code;
	}
	return RP_OK;
}

/* "gpu:portable,cpu" to devices and variants. */
static rp_code split_paths(bench *b, rp_error *err)
{
	rp_code code = split_words(b->o.path, "--path", &b->devices, err);
	if (code == RP_OK)
		b->variants.v = rp_alloc_array(b->devices.n, sizeof *b->variants.v);
	if (code == RP_OK && b->variants.v == NULL)
		code = rp_no_memory(err, b->devices.n, "--path");
	b->variants.n = b->devices.n;
	for (size_t i = 0; code == RP_OK && i < b->devices.n; i++) {
		char *colon = strchr((char *)(uintptr_t)b->devices.v[i], ':'); /* in our own copy */
		if (colon == NULL)
			continue;
		*colon = '\0';
		b->variants.v[i] = colon + 1;
		if (*b->devices.v[i] == '\0' || colon[1] == '\0')
			code = rp_fail(err, RP_USAGE, "--path: '%s' is no list of DEVICE or DEVICE:VARIANT", b->o.path);
	}
	return code;
}

static rp_code parse_lists(bench *b, rp_error *err)
{
	const struct {
		const char *text, *where;
		uint32_t lo, hi;
		rp_counts *out;
	} lists[] = {
		{b->o.n_prompt, "-p (--n-prompt)", 0, MAX_TOKENS, &b->prompts},
		{b->o.n_gen, "-n (--n-gen)", 0, MAX_TOKENS, &b->gens},
		{b->o.depth, "-d (--n-depth)", 0, MAX_TOKENS, &b->depths},
		{b->o.streams, "--streams", 1, MAX_STREAMS, &b->streams},
		{b->o.threads, "-t (--threads)", 0, MAX_THREADS, &b->threads},
		{b->o.batch, "-b (--batch-size)", 0, MAX_BATCH, &b->batches},
	};
	rp_code code = RP_OK;
	for (size_t i = 0; i < sizeof lists / sizeof *lists && code == RP_OK; i++)
		code = rp_counts_parse(lists[i].text, lists[i].lo, lists[i].hi, lists[i].where, lists[i].out, err);
	if (code == RP_OK)
		code = parse_pairs(b, err);
	if (code == RP_OK && b->o.path != NULL)
		return split_paths(b, err);
	if (code == RP_OK)
		code = split_words(b->o.device, "--device", &b->devices, err);
	if (code == RP_OK)
		code = split_words(b->o.variant, "--variant", &b->variants, err);
	return code;
}

static rp_code check_paths(const bench *b, rp_error *err)
{
	if (b->o.path != NULL && (b->o.device != NULL || b->o.variant != NULL))
		return rp_fail(err, RP_USAGE, "--path names devices and kernels; leave out --device and --variant");
	if (b->o.pair && b->devices.n != 2)
		return rp_fail(err, RP_USAGE, "--pair compares two paths: give --path A,B");
	if (b->o.bound < 100 && !b->o.pair)
		return rp_fail(err, RP_USAGE, "--bound needs --pair");
	return RP_OK;
}

static bool any_but(const rp_counts *c, uint32_t v)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i] != v)
			return true;
	return false;
}

/* Options that llama-bench spells with one dash and more than one letter. */
static char *familiar(char *arg)
{
	static char *const known[][2] = {{"-pg", "--pp-tg"}, {"-oe", "--output-err"}, {"-dev", "--device"}, {"-ub", "--batch-size"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(arg, known[i][0]) == 0)
			return known[i][1];
	return arg;
}

rp_code bench_read_options(bench *b, int argc, char **argv, rp_error *err)
{
	static const char *fallback[] = {"embedded"};
	for (int i = 1; i < argc; i++)
		argv[i] = familiar(argv[i]);
	rp_code code = rp_options_parse(&bench_program, argc, argv, &b->o, &b->parsed, err);
	if (code != RP_OK || b->parsed.action != RP_ACTION_RUN)
		return code;
	if (b->o.models.n == 0)
		b->o.models = (rp_strings){fallback, 1};
	b->to_out = bench_format_of(b->o.output);
	b->to_err = bench_format_of(b->o.output_err);
	b->kernels = b->parsed.operands.n > 0;
	if (b->kernels && strcmp(b->parsed.operands.v[0], "kernels") != 0)
		return rp_fail(err, RP_USAGE, "'%s': %s", b->parsed.operands.v[0], bench_program.no_operand);
	code = parse_lists(b, err);
	if (code == RP_OK)
		code = check_paths(b, err);
	if (code != RP_OK)
		return code;
	if (b->kernels && (b->o.pairs.n > 0 || b->o.pair || b->prompts.n > 1 || b->gens.n > 1 || b->depths.n > 1 || any_but(&b->streams, 1)))
		return rp_fail(err, RP_USAGE, "--bench kernels takes one -p, -n and -d, one stream, and no pairs");
	if (b->o.pairs.n == 0 && !any_but(&b->prompts, 0) && !any_but(&b->gens, 0))
		return rp_fail(err, RP_USAGE, "nothing to time: -p and -n are 0 and there is no --pp-tg");
	rp_bench_ids ids = bench_ids_of(b->o.ids, &(rp_bench_test){.n_gen = 1, .streams = 1});
	if (b->o.ids >= 0 && ids == RP_BENCH_SAMPLED && any_but(&b->streams, 1))
		return rp_fail(err, RP_USAGE, "--ids %s is for one stream; leave it or --streams out", bench_ids_name(ids));
	b->columns = (bench_columns){.device = b->o.device != NULL || b->o.path != NULL, .ratio = b->o.pair,
		.threads = any_but(&b->threads, 0), .batch = any_but(&b->batches, 0),
		.variant = b->o.variant != NULL || b->o.path != NULL, .streams = any_but(&b->streams, 1)};
	return RP_OK;
}

void bench_free_options(bench *b)
{
	rp_counts *lists[] = {&b->prompts, &b->gens, &b->depths, &b->streams, &b->threads, &b->batches};
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		free(lists[i]->v);
	free(b->pairs);
	free(b->devices.copy);
	free(b->devices.v);
	free(b->variants.copy);
	free(b->variants.v);
	rp_parsed_free(&b->parsed);
}
