/* The options of reploid-run. */
#include "bench.h"

static const char *const template_words[] = {"qwen", "chatml", "llama3", "gemma4", "none", NULL};
static const rp_template template_values[] = {
	RP_TEMPLATE_QWEN, RP_TEMPLATE_CHATML, RP_TEMPLATE_LLAMA3, RP_TEMPLATE_GEMMA4, RP_TEMPLATE_NONE};
static const char *const think_words[] = {"on", "off", NULL};
static const char *const kv_words[] = {"f32", "f16", NULL};
static const char *const variant_words[] = {"portable", "subgroup", "fused", "matrix", NULL};

#define AT(field) .at = offsetof(run_opts, field)

static const rp_opt table[] = {
	{.name = "model", .letter = 'm', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Model", .arg = "FILE|DIR|ID",
		.def = "embedded", .help = "the model: a file, a folder, or an id in the store", AT(model),
		.more = "GGUF, safetensors and RDRR are told apart by content. A name without a slash that is no path is an id: a folder of "
			"that name under models/ in the store, or a model of the catalogue (reploid-fetch --list), which is fetched on first use, "
			"after asking. The id embedded is the small model that comes with the programs and answers "
			"questions about them. random:NAME is a model of a known shape with weights by chance and no tokenizer, made in memory, for "
			"measuring: tiny, tiny-llama, qwen35-0.8b, qwen35-2b, llama-135m or llama-1b; random:NAME@SEED is another one."},
	{.name = "yes", .letter = 'y', .group = "Model", .help = "fetch a model of the catalogue that is not here, without asking", AT(yes)},
	{.name = "ctx", .alias = "ctx-size", .letter = 'c', .kind = RP_OPT_UINT, .hi = 1u << 24, .group = "Model", .arg = "N", .def = "0",
		.def_text = "the model's own, at most 4096", .help = "positions to make room for: prompt and answer together", AT(ctx),
		.more = "0 is the default. Memory for the caches grows with it."},
	{.name = "device", .kind = RP_OPT_STRING, .group = "Model", .arg = "gpu|cpu|N", .def_text = "a GPU where there is one, else cpu",
		.help = "where to compute", AT(device),
		.more = "gpu is the best Vulkan device, a number one of --list-devices, cpu the C engine in float32. "
			"Mesa's lavapipe, a Vulkan driver that computes on the processor, is used when gpu or its number asks for it. "
			"Without this option a GPU that fails or has too little memory is replaced by cpu, with a warning; with it that is an error."},
	{.name = "threads", .letter = 't', .kind = RP_OPT_UINT, .hi = 1024, .group = "Model", .arg = "N", .def = "0",
		.def_text = "one a processor", .help = "threads of the cpu engine", AT(threads), .more = "0 is the default."},
	{.name = "variant", .kind = RP_OPT_CHOICE, .choices = variant_words, .group = "Model", .def_text = "the device's best",
		.help = "kernels to use on a Vulkan device",
		.more = "matrix multiplies prompts on matrix units, activations rounded to halves; never the default yet.", AT(variant)},
	{.name = "kv", .kind = RP_OPT_CHOICE, .choices = kv_words, .group = "Model", .def_text = "f16 on a GPU, f32 on the cpu",
		.help = "how keys and values of earlier positions are kept", AT(kv),
		.more = "f16 takes half the memory and, in a long context, half the reading; each value is rounded by at most 1 in 2,048. The cpu "
			"engine has f32 only."},
	{.name = "plan", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Model", .arg = "FILE",
		.help = "execute this plan of reploid-plan, or say what does not fit", AT(plan),
		.more = "Context, rows a pass, kernels and cache are the plan's unless an option says otherwise. A plan made for another model, "
			"device, driver or build is refused with the first difference."},
	{.name = "cache-dir", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_DIR, .group = "Model", .arg = "DIR",
		.def_text = "~/.cache/reploid", .help = "where compiled kernels are kept between runs", AT(cache_dir),
		.more = "An empty DIR keeps none. $XDG_CACHE_HOME is respected."},
	{.name = "validate", .group = "Model", .help = "check every Vulkan call with the validation layers (slow)", AT(validate)},
	{.name = "list-devices", .group = "Model", .help = "show the devices with memory, driver and features, and stop", AT(list_devices)},

	{.name = "prompt", .letter = 'p', .kind = RP_OPT_STRING, .any_bytes = true, .group = "Prompt", .arg = "TEXT",
		.help = "the prompt", AT(prompt)},
	{.name = "file", .letter = 'f', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Prompt", .arg = "FILE",
		.help = "read the prompt from FILE; - is standard input", AT(file),
		.more = "With -p as well, its text comes first, then a newline, then the file. One newline at the end of the file is dropped."},
	{.name = "prompt-ids", .kind = RP_OPT_STRING, .group = "Prompt", .arg = "1,2,3", .help = "the prompt as token ids", AT(prompt_ids),
		.more = "No template is applied and no tokenizer is needed; a model without one answers with ids."},
	{.name = "system", .kind = RP_OPT_STRING, .any_bytes = true, .group = "Prompt", .arg = "TEXT",
		.def_text = "what the model's template says", .help = "the system message", AT(system),
		.more = "An empty TEXT sends none, whatever the template says."},
	{.name = "template", .kind = RP_OPT_CHOICE, .choices = template_words, .group = "Prompt", .def_text = "what the model's files say",
		.help = "how messages are put into the prompt", AT(template_type),
		.more = "Needed where the model's own template is missing or of no known type; then nothing is guessed. none is --raw."},
	{.name = "think", .kind = RP_OPT_CHOICE, .choices = think_words, .group = "Prompt", .def_text = "what the model's template says",
		.help = "whether the model thinks before it answers, where its template can tell it", AT(think)},
	{.name = "raw", .group = "Prompt", .help = "the text is the whole prompt: no template; special tokens in it count", AT(raw)},
	{.name = "show-prompt", .group = "Prompt", .help = "print the prompt as the model gets it (with --json its ids too), and stop",
		AT(show_prompt)},

	{.name = "tokens", .alias = "n-predict", .letter = 'n', .kind = RP_OPT_UINT, .hi = UINT32_MAX, .group = "Answer", .arg = "N",
		.def = "0", .def_text = "until the context is full", .help = "most tokens to answer with", AT(tokens), .more = "0 is the default."},
	{.name = "stop", .kind = RP_OPT_STRING, .repeat = true, .group = "Answer", .arg = "TEXT", .help = "stop before TEXT", AT(stop),
		.more = "TEXT is never written, however tokens cut it."},
	{.name = "ignore-eos", .group = "Answer", .help = "go on after the token that ends an answer", AT(ignore_eos)},
	{.name = "temp", .alias = "temperature", .kind = RP_OPT_FLOAT, .min = 0, .max = 100, .group = "Answer", .arg = "T", .def = "0",
		.help = "randomness; 0 takes the likeliest token each time", AT(temp),
		.more = "The default makes answers repeatable, which is what scripts want. The four options below matter only above 0. A Vulkan "
			"device chooses tokens by itself, and faster, while top-k is 1 to 256 and --logprobs is not given; the text is the same."},
	{.name = "top-k", .kind = RP_OPT_UINT, .hi = UINT32_MAX, .group = "Answer", .arg = "N", .def = "40",
		.help = "choose among the N likeliest tokens; 0 is all", AT(top_k)},
	{.name = "top-p", .kind = RP_OPT_FLOAT, .min = 0, .max = 1, .group = "Answer", .arg = "P", .def = "0.95",
		.help = "choose among the likeliest tokens that hold P of the probability", AT(top_p)},
	{.name = "min-p", .kind = RP_OPT_FLOAT, .min = 0, .max = 1, .group = "Answer", .arg = "P", .def = "0.05",
		.help = "leave out tokens less likely than P times the likeliest", AT(min_p)},
	{.name = "seed", .letter = 's', .kind = RP_OPT_UINT, .group = "Answer", .arg = "N", .def = "0",
		.help = "start of the random numbers: the same seed gives the same text", AT(seed),
		.more = "For another answer each time give --seed $RANDOM."},
	{.name = "repeat-penalty", .kind = RP_OPT_FLOAT, .min = 0.01, .max = 100, .group = "Answer", .arg = "X", .def = "1",
		.help = "make tokens already seen less likely; 1 is off", AT(repeat_penalty)},
	{.name = "repeat-window", .alias = "repeat-last-n", .kind = RP_OPT_UINT, .hi = 1u << 24, .group = "Answer", .arg = "N", .def = "64",
		.help = "how many last tokens the penalty looks at", AT(repeat_window)},

	{.name = "json", .group = "Output", .help = "one JSON object a line instead of text", AT(json)},
	{.name = "logprobs", .kind = RP_OPT_UINT, .hi = 1000, .group = "Output", .arg = "K", .def = "0",
		.help = "with --json: log probabilities of each token and of the K likeliest", AT(logprobs)},
	{.name = "stats", .group = "Output", .help = "times and speeds on standard error at the end", AT(stats)},
	{.name = "profile", .group = "Output", .help = "time every kernel of a Vulkan device; a table on standard error at the end", AT(profile),
		.more = "For prompt and generation apart: kernel, kind of layer, how often in a pass, microseconds of a pass, share, bytes of "
			"weights and caches read a second. With --json it is the object profile. The answer takes longer meanwhile."},
	{.name = "quiet", .letter = 'q', .group = "Output", .help = "nothing on standard error but errors", AT(quiet)},

	{.name = "bench", .group = "Benchmark", .help = "as the first argument: time a model; --bench --help shows the options that follow it",
		AT(bench)},
};

static const char *const synopsis[] = {"[-m MODEL] [-p TEXT] [-f FILE | -] [options]", "--list-devices [--json]", "--bench [options of its own]", NULL};

static const rp_code codes[] = {RP_OK, RP_USAGE, RP_NOT_FOUND, RP_READ, RP_WRITE, RP_DISK_FULL, RP_FORMAT, RP_UNSUPPORTED, RP_MODEL,
	RP_TEMPLATE, RP_PROMPT, RP_CONTEXT, RP_NO_DEVICE, RP_NO_MEMORY, RP_DEVICE_LOST, RP_STALE_PLAN, RP_HASH, RP_INTERNAL, RP_CANCELLED, RP_OK};

const rp_program run_program = {
	.name = "reploid-run",
	.summary = "answer one prompt with a language model on this machine",
	.synopsis = synopsis,
	.opts = table,
	.n_opts = sizeof table / sizeof *table,
	.max_operands = 1,
	.no_operand = "give the prompt with -p TEXT, with -f FILE or through a pipe",
	.codes = codes,
	.notes = "Examples: reploid-run -p 'how do I resume a download?'  |  reploid-run -m model.gguf -f question.txt  |  "
		"git diff | reploid-run -m model.gguf -p 'Explain this change:' -",
	.mode = &bench_program,
	.mode_word = "--bench",
};

rp_template run_template(const run_opts *o)
{
	return o->raw || o->template_type < 0 ? RP_TEMPLATE_NONE : template_values[o->template_type];
}

rp_thinking run_thinking(const run_opts *o)
{
	return o->think < 0 ? RP_THINK_DEFAULT : o->think == 0 ? RP_THINK_ON : RP_THINK_OFF;
}

rp_cache_type run_kv(int choice)
{
	return choice < 0 ? RP_CACHE_BEST : choice == 0 ? RP_CACHE_F32 : RP_CACHE_F16;
}

const char *run_variant(const run_opts *o)
{
	return o->variant < 0 ? NULL : variant_words[o->variant];
}
