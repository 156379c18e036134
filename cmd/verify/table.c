/* The options of reploid-verify. */
#include "verify.h"

#define AT(field) .at = offsetof(verify_opts, field)

static const char *const key_types[] = {"ed25519", "p256", NULL};

static const rp_opt table[] = {
	{.name = "check", .letter = 'c', .group = "What to do", .help = "read sums from the files and check them, as sha256sum -c does", AT(check),
		.more = "GNU lines, BSD lines, escaped names. Output, messages and exit status are those of sha256sum."},
	{.name = "print", .letter = 'p', .group = "What to do", .help = "print sums, line for line as sha256sum does", AT(print)},
	{.name = "bad-pieces", .group = "What to do", .help = "list missing and damaged pieces, for reploid-fetch --only -", AT(bad_pieces)},

	{.name = "sha256", .kind = RP_OPT_STRING, .group = "Models", .arg = "HEX", .help = "the SHA-256 the file must have", AT(sha256)},
	{.name = "identity", .kind = RP_OPT_STRING, .group = "Models", .arg = "DIGEST", .help = "the SHA-256 the model's manifest must have",
		AT(identity), .more = "With or without sha256: before it."},
	{.name = "index", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Models", .arg = "FILE",
		.def_text = "one in the model's folder, or what was kept when the file was fetched", .help = "the list of the pieces' sums", AT(index)},
	{.name = "catalog", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Models", .arg = "FILE",
		.def_text = "the one that comes with the programs", .help = "the catalogue that pins manifests and files of models by their ids",
		AT(catalog)},
	{.name = "store", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_DIR, .group = "Models", .arg = "DIR",
		.def_text = "~/.local/share/reploid", .help = "where models, piece lists and the cache of hashes are", AT(store)},
	{.name = "paranoid", .group = "Models", .help = "read everything again, whatever the cache of hashes says", AT(paranoid)},
	{.name = "no-cache", .group = "Models", .help = "neither use nor write the cache of hashes", AT(no_cache)},

	{.name = "blake3", .group = "Sums", .help = "BLAKE3 instead of SHA-256: lists as b3sum has them", AT(blake3)},
	{.name = "tag", .group = "Sums", .help = "print BSD lines: SHA256 (NAME) = HEX", AT(tag)},
	{.name = "binary", .letter = 'b', .group = "Sums", .help = "print the mark of binary mode, which reads no differently", AT(binary)},
	{.name = "text", .letter = 't', .group = "Sums", .help = "print the mark of text mode, the default", AT(text)},
	{.name = "zero", .letter = 'z', .group = "Sums", .help = "end lines with NUL and do not escape names", AT(zero)},

	{.name = "ignore-missing", .group = "Lists", .help = "pass over files that do not exist", AT(ignore_missing)},
	{.name = "strict", .group = "Lists", .help = "fail when a line is malformed", AT(strict)},
	{.name = "warn", .letter = 'w', .group = "Lists", .help = "name each malformed line", AT(warn)},
	{.name = "quiet", .group = "Lists", .help = "do not print OK lines, nor a summary", AT(quiet)},
	{.name = "status", .group = "Lists", .help = "print nothing; the exit status tells", AT(status),
		.more = "Of --quiet, --status and --warn the last one counts."},

	{.name = "pubkey", .letter = 'P', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signatures", .arg = "KEY",
		.help = "check the operands' signatures with this public key", AT(pubkey),
		.more = "KEY is the text of a minisign key or a file: a key of minisign or signify, PEM, a JWK. The signature is FILE.minisig or "
			"FILE.sig beside each FILE, or in FILE itself when signify put it there; for a folder it is model.sig in it. With -c: the "
			"lists must be signed. As REPLOID_PUBKEY, or in a file of defaults, it only says which key to use where a signature is to be checked."},
	{.name = "signed", .group = "Signatures", .help = "the operands, or with -c the lists, must be signed", AT(want_signed),
		.more = "Giving -P or -x on the command line says so too."},
	{.name = "signature", .letter = 'x', .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signatures", .arg = "FILE",
		.help = "the signature, when it lies elsewhere", AT(signature)},
	{.name = "ignore-unsigned", .group = "Signatures", .help = "pass over files of a folder that its signature does not name",
		AT(ignore_unsigned)},
	{.name = "record", .group = "Signatures", .help = "the operands are signed records of peers: receipts, grants, certificates", AT(record),
		.more = "Without it a file that looks like one is checked as one too. Each field is "
			"told to be verified (proved by the check), claimed (stated by who signed) or unavailable."},
	{.name = "authorization", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signatures", .arg = "FILE",
		.help = "the authorization that a custody receipt belongs to", AT(authorization)},
	{.name = "at", .kind = RP_OPT_UINT, .group = "Signatures", .arg = "MS", .def = "0", .def_text = "now",
		.help = "the Unix time in milliseconds that records are judged by", AT(at)},
	{.name = "keygen", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signing", .arg = "FILE",
		.help = "make a secret key in FILE and its public key in FILE.pub", AT(keygen),
		.more = "FILE is made for its owner alone (mode 0600) and never replaced. It is an identity among peers too."},
	{.name = "key-type", .kind = RP_OPT_CHOICE, .choices = key_types, .group = "Signing", .def = "ed25519",
		.help = "what --keygen makes", AT(key_type), .more = "Files are signed with ed25519, models as a whole with p256."},
	{.name = "encrypt", .group = "Signing", .help = "with --keygen: protect the secret key with a passphrase", AT(encrypt),
		.more = "FILE is then a secret key of minisign, which is no identity among peers. The passphrase is asked for on the terminal."},
	{.name = "sign", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signing", .arg = "KEY",
		.help = "sign the operands with this secret key", AT(sign),
		.more = "KEY is a file made by --keygen, a secret key of minisign, one of signify without passphrase, or a private key in PEM form. "
			"Ed25519 signs files, as minisign does into FILE.minisig, or with a key of signify into FILE.sig. P-256, P-384 and P-521 make a "
			"model signature (OpenSSF): of a folder model.sig in it, of a file FILE.sig. -x names another place."},
	{.name = "passphrase-file", .kind = RP_OPT_STRING, .complete = RP_COMPLETE_FILE, .group = "Signing", .arg = "FILE",
		.def_text = "it is asked for on the terminal", .help = "the first line of FILE is the passphrase of the secret key",
		AT(passphrase_file), .more = "A file that others may read is refused."},
	{.name = "trusted-comment", .kind = RP_OPT_STRING, .group = "Signing", .arg = "TEXT", .def_text = "the time and the file's name",
		.help = "the comment that is signed with a file", AT(trusted_comment)},

	{.name = "json", .group = "Output", .help = "one JSON object a line instead of text", AT(json)},
	{.name = "threads", .kind = RP_OPT_UINT, .hi = 64, .group = "Output", .arg = "N", .def = "0", .def_text = "one a processor",
		.help = "threads that read and hash", AT(threads), .more = "0 is the default."},
};

static const char *const synopsis[] = {"[options] FILE|DIR|ID...", "--bad-pieces [options] FILE|DIR|ID...",
	"--print [--tag] [--blake3] [-z] [FILE...]", "-c [options] [LIST...]",
	"-P KEY [-x SIGNATURE] FILE|DIR...", "--record [options] FILE...", "--sign KEY [-x SIGNATURE] FILE|DIR...",
	"--keygen FILE [--encrypt]", NULL};

static const rp_code codes[] = {RP_OK, RP_FAIL, RP_USAGE, RP_NOT_FOUND, RP_READ, RP_WRITE, RP_DISK_FULL, RP_FORMAT, RP_UNSUPPORTED, RP_MODEL,
	RP_HASH, RP_SIGNATURE, RP_CHANGED, RP_NO_MEMORY, RP_INTERNAL, RP_CANCELLED, RP_OK};

const rp_program verify_program = {
	.name = "reploid-verify",
	.summary = "check models, files and lists of sums in one reading",
	.synopsis = synopsis,
	.opts = table,
	.n_opts = sizeof table / sizeof *table,
	.max_operands = 1 << 20,
	.no_operand = "there are too many",
	.codes = codes,
};
