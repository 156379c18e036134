/* reploid-verify: check bytes against what is known about them. */
#include "verify.h"

#include "base/signals.h"
#include "base/term.h"
#include "store/hashcache.h"
#include "store/store.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WANTED(field) offsetof(verify_opts, field)

static const verify_mode modes[] = {
	{"keygen", WANTED(keygen), verify_keygen, .text = true},
	{"sign", WANTED(sign), verify_sign, .text = true},
	{"check", WANTED(check), verify_check, .text = false},
	{"print", WANTED(print), verify_print, .text = false},
	{"bad-pieces", WANTED(bad_pieces), verify_bad_pieces, .text = false},
	{"record", WANTED(record), verify_records, .text = false},
	{"signed", WANTED(want_signed), verify_signatures, .text = false},
};

static bool given(const verify_state *v, const char *option)
{
	return rp_option_source(&verify_program, &v->parsed, option) == RP_FROM_FLAG;
}

/* Where an option stands last on the command line, 0: nowhere. */
static size_t place(int argc, char **argv, const char *option, char letter)
{
	size_t at = 0;
	for (size_t i = 1; i < (size_t)argc && strcmp(argv[i], "--") != 0; i++) {
		const char *cluster = argv[i][0] == '-' && argv[i][1] != '-' && letter != '\0' ? strrchr(argv[i], letter) : NULL;
		if (strcmp(argv[i], option) == 0)
			at = i << 8;
		else if (cluster != NULL)
			at = (i << 8) + (size_t)(cluster - argv[i]);
	}
	return at;
}

/* Of some options only the last one counts. */
static void last_wins(verify_state *v, int argc, char **argv)
{
	size_t quiet = place(argc, argv, "--quiet", '\0'), status = place(argc, argv, "--status", '\0');
	size_t warn = place(argc, argv, "--warn", 'w');
	size_t tag = place(argc, argv, "--tag", '\0'), text = place(argc, argv, "--text", 't'), binary = place(argc, argv, "--binary", 'b');
	if (quiet > 0 || status > 0 || warn > 0) {
		v->o.quiet = quiet > status && quiet > warn;
		v->o.status = status > quiet && status > warn;
		v->o.warn = warn > quiet && warn > status;
	}
	if (text > 0 && (binary > text || tag > text)) {
		v->o.text = false;
		v->o.binary = true;
	} else if (text > 0) {
		v->o.binary = false;
	}
}

/* What sha256sum refuses, in its words and with its status. */
static const char *sums_misuse(const verify_state *v)
{
	static const struct {
		const char *option, *text;
	} for_lists[] = {{"ignore-missing", "the --ignore-missing option is meaningful only when verifying checksums"},
		{"status", "the --status option is meaningful only when verifying checksums"},
		{"warn", "the --warn option is meaningful only when verifying checksums"},
		{"quiet", "the --quiet option is meaningful only when verifying checksums"},
		{"strict", "the --strict option is meaningful only when verifying checksums"}};
	const verify_opts *o = &v->o;
	if (o->tag && o->text)
		return "--tag does not support --text mode";
	if (o->zero && o->check)
		return "the --zero option is not supported when verifying checksums";
	if (o->tag && o->check)
		return "the --tag option is meaningless when verifying checksums";
	if ((o->binary || o->text) && o->check)
		return "the --binary and --text options are meaningless when verifying checksums";
	for (size_t i = 0; !o->check && i < sizeof for_lists / sizeof *for_lists; i++)
		if (given(v, for_lists[i].option))
			return for_lists[i].text;
	return NULL;
}

static rp_code print_action(verify_state *v, rp_error *err)
{
	rp_code code = rp_action_text(&verify_program, &v->parsed, rp_term_width(STDOUT_FILENO), &v->out, err);
	return code;
}

static bool wanted(const verify_opts *o, const verify_mode *mode)
{
	const char *field = (const char *)o + mode->wanted_at;
	return mode->text ? *(const char *const *)(const void *)field != NULL : *(const bool *)field;
}

static rp_code run_mode(verify_state *v, rp_error *err)
{
	if (v->o.check || v->o.print) {
		const char *misuse = sums_misuse(v);
		if (misuse != NULL) {
			verify_say(v, "%s\nTry '%s --help' for more information.", misuse, verify_program.name);
			return RP_FAIL;
		}
	}
	if ((v->o.print || v->o.bad_pieces) && !v->o.check && v->o.want_signed)
		return rp_fail(err, RP_USAGE, "--signed, --pubkey and --signature say what to check; --print and --bad-pieces check no signatures");
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (wanted(&v->o, &modes[i]))
			return modes[i].run(v, err);
	return verify_operands(v, err);
}

/* What is read may be anywhere, so all that may be read stays readable; nothing but the cache of hashes and new signatures may be
 * written, and there is no network and no other program any more. */
static rp_code confine(verify_state *v, rp_error *err)
{
	const char *const read[] = {"/"}, *const write[] = {v->store};
	rp_confinement c = {.read = read, .n_read = 1, .write = write, .n_write = v->cache != NULL, .strict = true};
	if (v->o.keygen != NULL || v->o.sign != NULL) { /* what is made here is for others to read */
		c.strict = false;
		rp_code code = verify_signing_folders(v, &c.write, &c.n_write, err);
		if (code != RP_OK)
			return code;
	}
	return rp_confine(&c, &v->confined, err);
}

static rp_code open_store(verify_state *v, rp_error *err)
{
	struct stat st;
	bool none = v->o.check || v->o.print || v->o.record || v->o.want_signed || v->o.keygen != NULL || v->o.sign != NULL;
	char *found = NULL;
	if (none)
		return RP_OK;
	if (v->o.store == NULL)
		rp_store_dir(&found, NULL); /* without a home there is no store */
	else if ((found = rp_strdup(v->o.store)) == NULL)
		return rp_no_memory(err, strlen(v->o.store), "a path");
	if (found == NULL || stat(found, &st) != 0 || !S_ISDIR(st.st_mode)) {
		free(found);
		return v->o.store == NULL ? RP_OK : rp_fail(err, RP_NOT_FOUND, "%s: no such folder (--store)", v->o.store);
	}
	v->store = found;
	return v->o.no_cache || v->o.bad_pieces ? RP_OK : rp_hash_cache_open(v->store, &v->cache, err);
}

static rp_code verify(verify_state *v, int argc, char **argv, rp_error *err)
{
	rp_code code = rp_signals(err);
	if (code == RP_OK)
		code = rp_options_parse(&verify_program, argc, argv, &v->o, &v->parsed, err);
	if (code != RP_OK)
		return code;
	if (v->parsed.action != RP_ACTION_RUN)
		return print_action(v, err);
	*err = (rp_error){0}; /* what was tried on the way is no news */
	last_wins(v, argc, argv);
	/* a key in the environment only says which one to use; on the command line it demands a signature, as every other tool has it */
	v->o.want_signed |= given(v, "pubkey") || given(v, "signature");
	rp_progress_init(&v->progress, verify_program.name, STDERR_FILENO, v->o.quiet || v->o.status);
	code = open_store(v, err);
	if (code == RP_OK)
		code = confine(v, err);
	return code == RP_OK ? run_mode(v, err) : code;
}

int main(int argc, char **argv)
{
	verify_state v = {.start_ns = rp_now_ns()};
	rp_error err = {0};
	setlocale(LC_CTYPE, ""); /* which characters of a name can be shown */
	rp_buf_init(&v.out, 0);
	rp_code code = verify(&v, argc, argv, &err);
	if (err.msg[0] != '\0') {
		if (v.o.json)
			verify_error_record(&v, &err);
		verify_say(&v, "%s%s", rp_term_colour(STDERR_FILENO) ? "\033[1;31merror:\033[0m " : "error: ", err.msg);
	}
	rp_error late = {0};
	if (verify_flush(&v, &late) != RP_OK) {
		verify_say(&v, "error: %s", late.msg);
		code = code == RP_OK ? late.code : code;
	}
	rp_buf_free(&v.out);
	rp_parsed_free(&v.parsed);
	rp_hash_cache_close(v.cache);
	free(v.store);
	free((void *)v.seen);
	return (int)code;
}
