/* The options of reploid-fetch. */
#include "fetch.h"

#define AT(field) .at = offsetof(fetch_opts, field)

static const rp_opt table[] = {
	{.name = "output", .letter = 'o', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "What", .arg = "PATH",
		.def_text = "in the store", .help = "where the file goes; for a model of several files, the folder", AT(output),
		.more = "A folder gets the file under its own name. While it is incomplete, PATH.KEY.part and PATH.KEY.journal lie beside it; "
			"a file that is at PATH already is replaced in one step when the new one is whole."},
	{.name = "sha256", .kind = RP_OPT_STRING, .group = "What", .arg = "HEX", .help = "the file must have this hash", AT(sha256),
		.more = "It is checked before the file gets its name."},
	{.name = "mirror", .kind = RP_OPT_STRING, .repeat = true, .group = "What", .arg = "URL", .help = "another source of the same file or model",
		AT(mirrors), .more = "Pieces come from all sources at once, most from the fastest; one that sends wrong bytes is named and dropped. "
			"For an id: an address or a folder that holds the model's files. For a file without --sha256 only local ones are used."},
	{.name = "catalog", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "What", .arg = "FILE|URL",
		.def_text = "the one that comes with the programs", .help = "where ids are looked up", AT(catalog)},
	{.name = "site", .kind = RP_OPT_STRING, .group = "What", .arg = "URL", .def_text = "the catalogue's own host, or https://replo.id",
		.help = "base of addresses in the catalogue that begin with a slash", AT(site)},
	{.name = "store", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_DIR, .group = "What", .arg = "DIR",
		.def_text = "$REPLOID_HOME, else ~/.local/share/reploid", .help = "the folder models are kept in", AT(store)},

	{.name = "only", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "What", .arg = "FILE",
		.help = "repair files in place: fetch only the pieces this list names; - is standard input", AT(only),
		.more = "The list is what reploid-verify --bad-pieces prints. It names the files and where they came from; an address on the "
			"command line is used instead, -o names another file."},
	{.name = "ranges", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "What", .arg = "FILE",
		.help = "fetch only these byte ranges of the file at an address, lines of offset and size; - is standard input", AT(ranges),
		.more = "Whole pieces that hold them are fetched to their places; the rest of the file reads as zeros. The partial file stays, so "
			"that more ranges, or all of it, can be fetched later."},
	{.name = "list", .group = "What", .help = "show the catalogue and what of it is in the store, and stop", AT(list)},
	{.name = "gc", .group = "What", .help = "remove partial files and trees of pieces that nothing uses, after asking, and stop", AT(gc)},
	{.name = "yes", .letter = 'y', .group = "What", .help = "do not ask", AT(yes)},
	{.name = "dry-run", .letter = 'n', .group = "What", .help = "say how many bytes are needed, here, to fetch and free, and stop",
		AT(dry_run), .more = "The manifest and the piece index of a model are fetched for it, nothing else."},

	{.name = "connections", .letter = 'j', .kind = RP_OPT_UINT, .lo = 1, .hi = 32, .group = "Network", .arg = "N", .def = "8",
		.help = "most connections at once", AT(connections),
		.more = "Each holds one piece in memory, and all of them together at most 40 MiB, so pieces of 4 MiB allow 8."},
	{.name = "streams", .kind = RP_OPT_UINT, .lo = 1, .hi = 32, .group = "Network", .arg = "N", .def = "1",
		.help = "most transfers at once in one HTTP/2 connection", AT(streams),
		.more = "With 1 each of -j N has a connection of its own, which is the fastest, above all where packets are lost. With more they share "
			"connections, for servers that let in few."},
	{.name = "header", .letter = 'H', .kind = RP_OPT_STRING, .repeat = true, .group = "Network", .arg = "LINE",
		.help = "send this header, as in 'Name: value'", AT(headers),
		.more = "It goes to the host of the given address over https (or to this machine), never to where a redirect leads."},
	{.name = "netrc", .group = "Network", .help = "take user and password from ~/.netrc", AT(netrc)},
	{.name = "proxy", .kind = RP_OPT_STRING, .group = "Network", .arg = "URL", .def_text = "what https_proxy and no_proxy say",
		.help = "go through this proxy", AT(proxy)},
	{.name = "limit-rate", .kind = RP_OPT_SIZE, .group = "Network", .arg = "BYTES", .def = "0", .def_text = "none",
		.help = "most bytes a second", AT(limit_rate), .more = "As in 500k or 2M."},
	{.name = "retries", .kind = RP_OPT_UINT, .hi = 1000, .group = "Network", .arg = "N", .def = "5",
		.help = "failures in a row before a source is given up", AT(retries),
		.more = "Waits between them grow from half a second to half a minute, or are what the server asks for (at most five minutes). "
			"A host that never answered is given up after two."},
	{.name = "offline", .group = "Network", .help = "never use the network", AT(offline)},

	{.name = "json", .group = "Output", .help = "write what happens as JSON, one object a line", AT(json)},
	{.name = "quiet", .letter = 'q', .group = "Output", .help = "say nothing but errors", AT(quiet)},
};

static const char *const synopsis[] = {"ID | URL | hf:ORG/REPO[@REV][/PATH] | PATH [-o PATH] [options]", "--only LIST|- [URL]",
	"--ranges LIST|- URL -o PATH", "--list [--json]", "--gc [-y]", NULL};
static const rp_code codes[] = {RP_OK, RP_FAIL, RP_USAGE, RP_NOT_FOUND, RP_READ, RP_WRITE, RP_DISK_FULL, RP_FORMAT, RP_UNSUPPORTED, RP_MODEL,
	RP_HASH, RP_NETWORK, RP_AUTH, RP_CHANGED, RP_RANGE, RP_OFFLINE, RP_NO_MEMORY, RP_INTERNAL, RP_CANCELLED, RP_OK};

const rp_program fetch_program = {
	.name = "reploid-fetch",
	.summary = "fetch model files, whole and right",
	.synopsis = synopsis,
	.opts = table,
	.n_opts = sizeof table / sizeof *table,
	.max_operands = 1,
	.no_operand = "one thing is fetched at a time",
	.codes = codes,
	.notes = "Run the same command again after any interruption: pieces that were verified are kept.",
};
