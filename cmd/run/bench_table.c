/* The options of reploid-run --bench: those of llama-bench where it has them. */
#include "bench.h"

static const char *const format_words[] = {"md", "csv", "json", "jsonl", NULL};
static const bench_format format_values[] = {BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL};
static const char *const kv_words[] = {"f32", "f16", NULL};
static const char *const ids_words[] = {"greedy", "sampled", "random", NULL};
static const rp_bench_ids ids_values[] = {RP_BENCH_GREEDY, RP_BENCH_SAMPLED, RP_BENCH_RANDOM};

#define AT(field) .at = offsetof(bench_opts, field)
#define TESTS "Benchmark: tests"
#define MODEL "Benchmark: model"
#define OUTPUT "Benchmark: output"

static const rp_opt table[] = {
	{.name = "n-prompt", .letter = 'p', .kind = RP_OPT_STRING, .group = TESTS, .arg = "N,...", .def = "512",
		.help = "prompt lengths to time (pp); 0 is none", AT(n_prompt),
		.more = "This and the other lists are numbers with commas between; each may be a range: 1-4, 8-64+8, 64-512*2. "
			"All combinations of all lists run."},
	{.name = "n-gen", .letter = 'n', .kind = RP_OPT_STRING, .group = TESTS, .arg = "N,...", .def = "128",
		.help = "numbers of tokens to generate (tg); 0 is none", AT(n_gen)},
	{.name = "pp-tg", .kind = RP_OPT_STRING, .repeat = true, .group = TESTS, .arg = "P,G",
		.help = "time a prompt of P and G generated tokens as one test (pp+tg)", AT(pairs),
		.more = "-pg, -oe, -dev and -ub are taken as well, as llama-bench spells --pp-tg, --output-err, --device and --batch-size."},
	{.name = "n-depth", .alias = "depth", .letter = 'd', .kind = RP_OPT_STRING, .group = TESTS, .arg = "N,...", .def = "0",
		.help = "positions filled before a test, untimed", AT(depth)},
	{.name = "streams", .kind = RP_OPT_STRING, .group = TESTS, .arg = "N,...", .def = "1",
		.help = "sequences computed side by side; speeds are totals", AT(streams)},
	{.name = "repetitions", .letter = 'r', .kind = RP_OPT_UINT, .lo = 1, .hi = 10000, .group = TESTS, .arg = "N", .def = "5",
		.help = "how often each test runs", AT(reps)},
	{.name = "no-warmup", .group = TESTS, .help = "do without the untimed run before each test", AT(no_warmup)},
	{.name = "delay", .kind = RP_OPT_UINT, .hi = 3600, .group = TESTS, .arg = "SECONDS", .def = "0", .help = "wait before each test",
		AT(delay)},
	{.name = "ids", .kind = RP_OPT_CHOICE, .choices = ids_words, .group = TESTS,
		.def_text = "greedy", .help = "what generation feeds", AT(ids),
		.more = "greedy is what an answer at temperature 0 does: the likeliest token, chosen on the device. sampled is what --temp 0.8 "
			"does, on the device too. random draws ids on the host, as llama-bench does, and copies each token's logits there."},
	{.name = "check-rows", .kind = RP_OPT_UINT, .lo = 1, .hi = 512, .group = TESTS, .arg = "N", .def = "64",
		.help = "with kernels: tokens of the prompt that are compared with the C engine", AT(check_rows),
		.more = "--bench kernels times every kernel that the model uses on a device, for a prompt and for generation: median of a dispatch, "
			"bytes of weights and caches a second, arithmetic, share of the measured bandwidth. Before that it computes a prompt of at "
			"most N tokens and two more, compares what each kernel makes of its inputs with the C engine, and ends with code 1 when "
			"one differs by more than its bound."},
	{.name = "seed", .letter = 's', .kind = RP_OPT_UINT, .group = TESTS, .arg = "N", .def = "1", .help = "of the random ids", AT(seed)},

	{.name = "model", .letter = 'm', .kind = RP_OPT_STRING, .repeat = true, .complete = RP_COMPLETE_FILE, .group = MODEL,
		.arg = "FILE|DIR|ID", .def_text = "embedded", .help = "the model, or random:NAME for one of true shapes without a file",
		AT(models)},
	{.name = "yes", .letter = 'y', .group = MODEL, .help = "fetch a model of the catalogue that is not here, without asking", AT(yes)},
	{.name = "device", .alias = "dev", .kind = RP_OPT_STRING, .group = MODEL, .arg = "gpu|cpu|N,...",
		.def_text = "a GPU where there is one, else cpu", .help = "where to compute", AT(device)},
	{.name = "threads", .letter = 't', .kind = RP_OPT_STRING, .group = MODEL, .arg = "N,...", .def = "0", .def_text = "one a processor",
		.help = "threads of the cpu engine", AT(threads)},
	{.name = "batch-size", .alias = "ubatch-size", .letter = 'b', .kind = RP_OPT_STRING, .group = MODEL, .arg = "N,...", .def = "0",
		.def_text = "the engine's choice", .help = "most rows computed at once", AT(batch)},
	{.name = "variant", .kind = RP_OPT_STRING, .group = MODEL, .arg = "portable|subgroup|fused|matrix,...", .def_text = "the device's best",
		.help = "kernels to use on a Vulkan device", AT(variant)},
	{.name = "kv", .kind = RP_OPT_CHOICE, .choices = kv_words, .group = MODEL, .def_text = "f16 on a GPU, f32 on the cpu",
		.help = "how keys and values of earlier positions are kept", AT(kv)},
	{.name = "path", .kind = RP_OPT_STRING, .group = MODEL, .arg = "DEVICE[:VARIANT],...",
		.help = "devices with kernels, in place of --device and --variant", AT(path)},
	{.name = "pair", .group = MODEL, .help = "with two paths A,B: time them in turn and tell how many times as fast B is", AT(pair),
		.more = "Both engines are open at once and take turns repetition by repetition, so that other work of the machine hits both alike. "
			"The ratio is the median over the pairs, with the lowest and the highest."},
	{.name = "bound", .kind = RP_OPT_FLOAT, .min = 0, .max = 100, .group = MODEL, .arg = "PERCENT", .def = "100",
		.def_text = "no bound", .help = "with --pair: end with code 1 when B is slower than A by more than this in any test", AT(bound)},
	{.name = "cache-dir", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_DIR, .group = MODEL, .arg = "DIR",
		.def_text = "~/.cache/reploid", .help = "where compiled kernels are kept between runs", AT(cache_dir)},
	{.name = "validate", .group = MODEL, .help = "check every Vulkan call with the validation layers (slow)", AT(validate)},

	{.name = "output", .letter = 'o', .kind = RP_OPT_CHOICE, .choices = format_words, .group = OUTPUT, .def = "md",
		.help = "format of the rows", AT(output)},
	{.name = "output-err", .alias = "oe", .kind = RP_OPT_CHOICE, .choices = format_words, .group = OUTPUT, .def_text = "none",
		.help = "write the rows to standard error as well, in this format", AT(output_err)},
	{.name = "quiet", .letter = 'q', .group = OUTPUT, .help = "nothing else on standard error but errors", AT(quiet)},
};

static const char *const synopsis[] = {"[-m MODEL] [-p N,...] [-n N,...] [-d N,...] [-r N] [-o FORMAT] [options]",
	"kernels [-m MODEL] [-p N] [-n N] [-d N] [-r N] [-o FORMAT] [options]", NULL};

static const rp_code codes[] = {RP_OK, RP_FAIL, RP_USAGE, RP_NOT_FOUND, RP_READ, RP_WRITE, RP_DISK_FULL, RP_FORMAT, RP_UNSUPPORTED, RP_MODEL,
	RP_CONTEXT, RP_NO_DEVICE, RP_NO_MEMORY, RP_DEVICE_LOST, RP_INTERNAL, RP_CANCELLED, RP_OK};

const rp_program bench_program = {
	.name = "reploid-run --bench",
	.summary = "time a model: prompt and generation, tokens a second",
	.synopsis = synopsis,
	.opts = table,
	.n_opts = sizeof table / sizeof *table,
	.max_operands = 1,
	.no_operand = "besides options --bench takes only the word kernels; the model is -m MODEL",
	.codes = codes,
	.notes = "Examples: reploid-run --bench -m model.gguf  |  reploid-run --bench -m random:qwen35-2b -p 128-1024*2 -n 0 -o csv  |  "
		"reploid-run --bench -m model.gguf --device gpu,cpu -d 0,4096  |  reploid-run --bench kernels -m model.gguf -o jsonl",
};

rp_bench_ids bench_ids_of(int choice, const rp_bench_test *t)
{
	if (t->n_gen == 0)
		return RP_BENCH_RANDOM;
	return choice < 0 ? RP_BENCH_GREEDY : ids_values[choice];
}

const char *bench_ids_name(rp_bench_ids ids)
{
	static const char *const names[] = {[RP_BENCH_RANDOM] = "random", [RP_BENCH_GREEDY] = "greedy", [RP_BENCH_SAMPLED] = "sampled"};
	return names[ids];
}

bench_format bench_format_of(int choice)
{
	return choice < 0 ? BENCH_NONE : format_values[choice];
}
