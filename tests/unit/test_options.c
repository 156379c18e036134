#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/options.h"

typedef struct values {
	bool json, quiet;
	const char *model;
	rp_strings stop;
	uint64_t k, ctx, seed, limit;
	double temp;
	int think;
} values;

static const char *const think_words[] = {"on", "off", NULL};
static const rp_opt table[] = {
	{.name = "model", .letter = 'm', .kind = RP_OPT_STRING, .group = "Model", .arg = "FILE", .complete = RP_COMPLETE_FILE,
		.def_text = "the built-in one", .help = "the model's file", .at = offsetof(values, model)},
	{.name = "ctx", .alias = "ctx-size", .letter = 'c', .kind = RP_OPT_UINT, .hi = 1000, .group = "Model", .arg = "N", .def = "100",
		.help = "context", .more = "It is 'fixed'. Larger costs memory.", .at = offsetof(values, ctx)},
	{.name = "limit", .kind = RP_OPT_SIZE, .group = "Model", .arg = "SIZE", .help = "limit", .at = offsetof(values, limit)},
	{.name = "temp", .kind = RP_OPT_FLOAT, .min = 0, .max = 100, .group = "Sampling", .arg = "T", .def = "0", .help = "temperature",
		.at = offsetof(values, temp)},
	{.name = "top-k", .kind = RP_OPT_UINT, .group = "Sampling", .arg = "N", .def = "40", .help = "top k", .at = offsetof(values, k)},
	{.name = "seed", .letter = 's', .kind = RP_OPT_UINT, .group = "Sampling", .arg = "N", .help = "seed", .at = offsetof(values, seed)},
	{.name = "stop", .kind = RP_OPT_STRING, .repeat = true, .group = "Sampling", .arg = "TEXT", .help = "stop", .at = offsetof(values, stop)},
	{.name = "think", .kind = RP_OPT_CHOICE, .choices = think_words, .group = "Sampling", .help = "think", .at = offsetof(values, think)},
	{.name = "json", .letter = 'j', .group = "Output", .help = "json", .at = offsetof(values, json)},
	{.name = "quiet", .letter = 'q', .group = "Output", .help = "quiet", .at = offsetof(values, quiet)},
};
static const char *const synopsis[] = {"[options]", NULL};
static const rp_code codes[] = {RP_OK, RP_USAGE, RP_OK};
static const rp_program program = {.name = "reploid-test", .summary = "test", .synopsis = synopsis, .opts = table,
	.n_opts = sizeof table / sizeof *table, .max_operands = 1, .no_operand = "use -m", .codes = codes};

static values v;
static rp_parsed parsed;
static rp_error err;

/* Parse words separated by '|' after the program's name. */
static rp_code parse(const char *words)
{
	static char text[1000];
	char *argv[64] = {"reploid-test"};
	int argc = 1;
	rp_parsed_free(&parsed);
	memset(&v, 0, sizeof v);
	memset(&err, 0, sizeof err);
	snprintf(text, sizeof text, "%s", words);
	for (char *w = *words != '\0' ? text : NULL; w != NULL; argc++) {
		argv[argc] = w;
		w = strchr(w, '|');
		if (w != NULL)
			*w++ = '\0';
	}
	return rp_options_parse(&program, argc, argv, &v, &parsed, &err);
}

static void spellings(void **state)
{
	(void)state;
	assert_int_equal(parse(""), RP_OK);
	assert_int_equal(v.ctx, 100);
	assert_int_equal(v.k, 40);
	assert_int_equal(v.think, -1);
	assert_null(v.model);
	assert_int_equal(parse("--ctx|7|--temp=0.5|-mfile|-jq|--think|off|-"), RP_OK);
	assert_int_equal(v.ctx, 7);
	assert_true(v.temp == 0.5);
	assert_string_equal(v.model, "file");
	assert_true(v.json && v.quiet);
	assert_int_equal(v.think, 1);
	assert_int_equal(parsed.operands.n, 1);
	assert_string_equal(parsed.operands.v[0], "-");
	assert_int_equal(parse("--ctx-size=8|-qs18446744073709551615|--|-j"), RP_OK);
	assert_int_equal(v.ctx, 8);
	assert_true(v.seed == UINT64_MAX);
	assert_false(v.json);
	assert_string_equal(parsed.operands.v[0], "-j");
	assert_int_equal(parse("-m|-j|-m|x=y"), RP_OK); /* a value may look like an option; the last one counts */
	assert_string_equal(v.model, "x=y");
	assert_int_equal(parse("--json|--no-json"), RP_OK);
	assert_false(v.json);
}

static void sizes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {{"--limit=12", 12}, {"--limit=2K", 2048}, {"--limit=3GiB", 3ull << 30}, {"--limit=3GB", 3000000000ull}, {"--limit=1T", 1ull << 40}};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(parse(good[i].text), RP_OK);
		assert_true(v.limit == good[i].value);
	}
	assert_int_equal(parse("--limit=99999999999T"), RP_USAGE);
	assert_non_null(strstr(err.msg, "out of range"));
	assert_int_equal(parse("--limit=5X"), RP_USAGE);
}

static void repeated_values(void **state)
{
	(void)state;
	char words[400] = "";
	for (int i = 0; i < 20; i++)
		snprintf(words + strlen(words), sizeof words - strlen(words), "%s--stop|s%d", i > 0 ? "|" : "", i);
	assert_int_equal(parse(words), RP_OK);
	assert_int_equal(v.stop.n, 20);
	assert_string_equal(v.stop.v[0], "s0");
	assert_string_equal(v.stop.v[8], "s8");
	assert_string_equal(v.stop.v[19], "s19");
}

static void errors_name_what_is_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *words, *says;
	} bad[] = {
		{"--tmep=1", "did you mean --temp?"},
		{"--jso", "did you mean --json?"},
		{"--entirely-different", "unknown option --entirely-different (reploid-test --help"},
		{"-x", "unknown option -x"},
		{"-jx", "unknown option -x"},
		{"--ctx", "--ctx needs a value"},
		{"-c", "-c (--ctx) needs a value"},
		{"--ctx=1001", "--ctx: 1001 is out of range, 0 to 1000"},
		{"-c|-1", "-c (--ctx): -1 is out of range"},
		{"--ctx=1e3", "'1e3' is not a whole number"},
		{"--ctx=", "'' is not a whole number"},
		{"--seed=18446744073709551616", "out of range"},
		{"--temp=100.5", "--temp: 100.5 is out of range, 0 to 100"},
		{"--temp=nan", "'nan' is not a number"},
		{"--temp=1x", "'1x' is not a number"},
		{"--json=yes", "--json takes no value"},
		{"--no-json=1", "--no-json takes no value"},
		{"--no-temp", "unknown option --no-temp"},
		{"--think=maybe", "'maybe' is none of on|off"},
		{"a|b", "unexpected argument 'b': use -m"},
		{"--stop|\xff", "not UTF-8"},
		{"--\x1b[31m", "unknown option --\\x1b"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(parse(bad[i].words), RP_USAGE);
		if (strstr(err.msg, bad[i].says) == NULL)
			fail_msg("%s: got \"%s\", expected \"%s\"", bad[i].words, err.msg, bad[i].says);
	}
}

static void environment_and_file(void **state)
{
	(void)state;
	char path[] = "/tmp/reploid-config-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	const char *text = "# comment\n\n temp = 0.25\r\nctx=5\ntest.top-k = 3\nother.top-k = 4\nunknown = 1\nstop = a b\nstop = c\njson = on\n";
	assert_int_equal(rp_write_file(path, text, strlen(text), 0600, &err), RP_OK);
	setenv("REPLOID_CONFIG", path, 1);
	setenv("REPLOID_CTX", "6", 1);
	setenv("REPLOID_SEED", "", 1);
	assert_int_equal(parse("--no-json"), RP_OK);
	assert_true(v.temp == 0.25);
	assert_int_equal(v.ctx, 6);
	assert_int_equal(v.k, 3);
	assert_int_equal(v.seed, 0);
	assert_false(v.json);
	assert_int_equal(v.stop.n, 2);
	assert_string_equal(v.stop.v[0], "a b");
	assert_int_equal(rp_option_source(&program, &parsed, "ctx"), RP_FROM_ENV);
	assert_int_equal(rp_option_source(&program, &parsed, "temp"), RP_FROM_CONFIG);
	assert_int_equal(rp_option_source(&program, &parsed, "json"), RP_FROM_FLAG);
	assert_int_equal(rp_option_source(&program, &parsed, "think"), RP_FROM_DEFAULT);
	setenv("REPLOID_STOP", "x\ny\nz", 1);
	assert_int_equal(parse("--ctx=9"), RP_OK);
	assert_int_equal(v.ctx, 9);
	assert_int_equal(v.stop.n, 3);
	assert_string_equal(v.stop.v[2], "z");
	assert_int_equal(parse("--stop=only"), RP_OK);
	assert_int_equal(v.stop.n, 1);
	setenv("REPLOID_TOP_K", "many", 1);
	assert_int_equal(parse(""), RP_USAGE);
	assert_non_null(strstr(err.msg, "REPLOID_TOP_K: 'many'"));
	unsetenv("REPLOID_TOP_K");
	unsetenv("REPLOID_STOP");
	unsetenv("REPLOID_CTX");

	static const char *const bad[][2] = {{"temp\n", ":1: expected"}, {"\ntemp = x\n", ":2: temp: 'x' is not"}, {"test.tmep = 1\n", "no option 'tmep'"},
		{"json = perhaps", "neither on nor off"}, {"temp = \xff\n", "not UTF-8"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(rp_write_file(path, bad[i][0], strlen(bad[i][0]), 0600, &err), RP_OK);
		assert_int_equal(parse(""), RP_USAGE);
		if (strstr(err.msg, bad[i][1]) == NULL || strstr(err.msg, path) == NULL)
			fail_msg("got \"%s\", expected \"%s\"", err.msg, bad[i][1]);
		assert_int_equal(parse("--help"), RP_OK); /* help works whatever the file says */
	}
	unlink(path);
	assert_int_equal(parse(""), RP_NOT_FOUND); /* named, so it must exist */
	unsetenv("REPLOID_CONFIG");
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	assert_int_equal(parse(""), RP_OK);
	setenv("REPLOID_CONFIG", "/dev/null", 1);
	assert_int_equal(parse(""), RP_OK);
}

static char *action(const char *words, unsigned width)
{
	rp_buf out;
	rp_buf_init(&out, 0);
	assert_int_equal(parse(words), RP_OK);
	assert_int_not_equal(parsed.action, RP_ACTION_RUN);
	assert_int_equal(rp_action_text(&program, &parsed, width, &out, &err), RP_OK);
	return rp_buf_take(&out, NULL);
}

static void help_fits_its_width(void **state)
{
	(void)state;
	char *wide = action("--help", 100), *narrow = action("-h", 60);
	assert_non_null(strstr(wide, "-c, --ctx N             context (default 100; REPLOID_CTX)\n"));
	assert_non_null(strstr(wide, "(default the built-in one; REPLOID_MODEL)"));
	assert_non_null(strstr(wide, "--think on|off"));
	assert_non_null(strstr(wide, "\nSampling\n"));
	for (char *line = narrow; *line != '\0'; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") < 60);
	free(wide);
	free(narrow);
}

static void generated_texts(void **state)
{
	(void)state;
	char *man = action("--man", 80), *bash = action("--completion=bash", 80), *zsh = action("--completion|zsh", 80);
	char *fish = action("--completion|fish", 80), *list = action("--exit-codes", 80), *version = action("--version", 80);
	assert_non_null(strstr(man, ".It Fl c Ar N , Fl \\-ctx Ar N , Fl \\-ctx\\-size Ar N\n"));
	assert_non_null(strstr(man, "It is \\(cqfixed\\(cq.\nLarger costs memory.\n"));
	assert_non_null(strstr(man, ".It Ev REPLOID_TOP_K\n"));
	assert_non_null(strstr(man, ".It 2\n"));
	assert_null(strstr(man, ".It 3\n"));
	assert_non_null(strstr(bash, "--think) COMPREPLY=($(compgen -W 'on off'"));
	assert_non_null(strstr(zsh, "--think=[think]:value:(on off)"));
	assert_non_null(strstr(fish, "complete -c reploid-test -l think -x -a 'on off'"));
	assert_non_null(strstr(list, "\n130\tcancelled\t"));
	assert_non_null(strstr(version, "reploid-test "));
	char *all[] = {man, bash, zsh, fish, list, version};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

int main(void)
{
	setenv("REPLOID_CONFIG", "/dev/null", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings),
		cmocka_unit_test(sizes),
		cmocka_unit_test(repeated_values),
		cmocka_unit_test(errors_name_what_is_wrong),
		cmocka_unit_test(environment_and_file),
		cmocka_unit_test(help_fits_its_width),
		cmocka_unit_test(generated_texts),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rp_parsed_free(&parsed);
	return failed;
}
