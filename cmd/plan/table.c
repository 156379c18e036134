/* The options of reploid-plan. */
#include "plan_cmd.h"

#define AT(field) .at = offsetof(plan_cmd_opts, field)

static const char *const variant_words[] = {"portable", "subgroup", "fused", "matrix", NULL};

static const char *const kv_words[] = {"f32", "f16", NULL};

static const rp_opt table[] = {
	{.name = "explain", .group = "What to do", .help = "tables for people instead of JSON", AT(explain),
		.more = "Which kernels run in each kind of layer and why, what was rejected and why, memory by heap, predicted time and what it was "
			"predicted from."},
	{.name = "ranges", .group = "What to do", .help = "print the byte ranges that a stage needs, for reploid-fetch --ranges -", AT(ranges),
		.more = "Of a model in one file. Layers are told by the names of tensors, so it works for any family. The header is among the "
			"ranges, so that what was fetched can be read."},
	{.name = "split", .kind = RP_OPT_UINT, .lo = 1, .hi = 64, .group = "What to do", .arg = "N", .help = "propose layers for N devices, in their order",
		AT(split), .more = "As JSON, with --explain as a table. The split fits --memory, and its slowest stage is as fast as can be."},
	{.name = "planid", .group = "What to do", .help = "print the id of the plan that splits a model in two stages", AT(planid),
		.more = "As peers of the original system compute it. With --explain the canonical text it is the digest of comes first. Of a "
			"model in RDRR form the manifest is enough."},
	{.name = "describe-device", .group = "What to do", .help = "print what the driver says of the device, for --device elsewhere", AT(describe)},

	{.name = "model", .letter = 'm', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Plan", .arg = "MODEL",
		.help = "the model, as reploid-run takes it; the same as MODEL alone", AT(model)},
	{.name = "device", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Plan", .arg = "gpu|N|FILE", .def = "gpu",
		.help = "the device to plan for: the best one here, one by number, or a description", AT(device),
		.more = "FILE is what --describe-device printed on another machine; then no GPU and no driver is needed."},
	{.name = "ctx", .alias = "ctx-size", .letter = 'c', .kind = RP_OPT_UINT, .hi = 1u << 24, .group = "Plan", .arg = "N", .def = "0",
		.def_text = "the model's own, at most 4096", .help = "positions to make room for", AT(ctx), .more = "0 is the default."},
	{.name = "batch", .alias = "batch-size", .letter = 'b', .kind = RP_OPT_UINT, .hi = 1u << 16, .group = "Plan", .arg = "N", .def = "0",
		.def_text = "the engine's choice", .help = "most rows of a prompt computed at once", AT(batch), .more = "0 is the default."},
	{.name = "depth", .letter = 'd', .kind = RP_OPT_UINT, .hi = 1u << 24, .group = "Plan", .arg = "N", .def = "0",
		.help = "positions before the token whose bytes and time are told", AT(depth)},
	{.name = "variant", .kind = RP_OPT_CHOICE, .choices = variant_words, .group = "Plan", .def_text = "the device's best",
		.help = "kernels to use",
		.more = "matrix multiplies prompts on matrix units, activations rounded to halves; never the default yet.", AT(variant)},
	{.name = "kv", .kind = RP_OPT_CHOICE, .choices = kv_words, .group = "Plan", .def_text = "f16", .help = "how keys and values are kept", AT(kv)},
	{.name = "stage", .kind = RP_OPT_STRING, .group = "Plan", .arg = "A-B", .def_text = "all layers", .help = "plan only layers A to B",
		AT(stage), .more = "Layers are counted from 0. The first stage also embeds, the last one also has the head."},

	{.name = "memory", .kind = RP_OPT_STRING, .group = "Splits", .arg = "SIZE,...", .help = "what each device has for weights and caches: 8G,8G,24G",
		AT(memory)},
	{.name = "speed", .kind = RP_OPT_STRING, .group = "Splits", .arg = "X,...", .def_text = "all alike",
		.help = "how fast each device reads, in any unit: 1,1,2", AT(speed)},
	{.name = "split-at", .kind = RP_OPT_UINT, .hi = 1024, .group = "Splits", .arg = "K", .def = "0", .def_text = "half of them",
		.help = "layers of the first stage, for --planid", AT(split_at), .more = "0 is the default."},
	{.name = "id", .kind = RP_OPT_STRING, .group = "Splits", .arg = "ID", .def_text = "what the manifest says",
		.help = "the name peers know the model by, for --planid", AT(id)},

	{.name = "json", .group = "Output", .help = "errors as a JSON object on standard output, too", AT(json)},
	{.name = "quiet", .letter = 'q', .group = "Output", .help = "nothing on standard error but errors", AT(quiet)},
};

static const char *const synopsis[] = {"[--device FILE] [-c N] [-b N] [--stage A-B] [--explain] MODEL|URL",
	"--ranges [--stage A-B] MODEL|URL",
	"--split N --memory SIZE,... [--speed X,...] [--explain] MODEL|URL",
	"--planid [--split-at K] [--id ID] MODEL", "--describe-device [--device N]", NULL};

static const rp_code codes[] = {RP_OK, RP_USAGE, RP_NOT_FOUND, RP_READ, RP_WRITE, RP_DISK_FULL, RP_FORMAT, RP_UNSUPPORTED, RP_MODEL,
	RP_CONTEXT, RP_NETWORK, RP_AUTH, RP_CHANGED, RP_RANGE, RP_NO_DEVICE, RP_NO_MEMORY, RP_INTERNAL, RP_CANCELLED, RP_OK};

const rp_program plan_program = {
	.name = "reploid-plan",
	.summary = "say exactly what will run, where, and why",
	.synopsis = synopsis,
	.opts = table,
	.n_opts = sizeof table / sizeof *table,
	.max_operands = 1,
	.no_operand = "one model at a time",
	.codes = codes,
	.notes = "Examples: reploid-plan --explain model.gguf  |  reploid-plan --describe-device >h200.json  |  "
		"reploid-plan --device h200.json model.gguf >plan.json",
};

const char *plan_variant(const plan_cmd_opts *o)
{
	return o->variant < 0 ? NULL : variant_words[o->variant];
}

rp_cache_type plan_kv(const plan_cmd_opts *o)
{
	return o->kv < 0 ? RP_CACHE_BEST : o->kv == 0 ? RP_CACHE_F32 : RP_CACHE_F16;
}
