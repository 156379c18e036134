/* options: one table of options a program, from which everything about them is made.
 *
 * The table gives parsing, --help, the option section of the man page, shell completions and the environment twins. An
 * option's value comes from the first of: the command line, the environment (REPLOID_ + the name in capitals, '-' as '_'), the
 * configuration file, the default in the table.
 *
 * Command line: `--name value`, `--name=value`, `-n value`, `-nvalue`, clusters of flags (`-qy`), `--no-name` to take back a flag
 * that the environment or the file set, `--` ends options, `-` alone is an operand. A name must be spelt out.
 *
 * Configuration file: $REPLOID_CONFIG, else $XDG_CONFIG_HOME/reploid/config, else ~/.config/reploid/config; only the first must
 * exist. Lines are `name = value`; '#' begins a comment line; a name is a long option, for all programs that have it, or
 * `run.name` for reploid-run alone. A repeatable option takes one line a value (and one line a value inside an environment twin).
 *
 * Every table also has: --help, --version, --man, --completion, --exit-codes, --config.
 */
#ifndef RP_OPTIONS_H
#define RP_OPTIONS_H

#include "base/base.h"

typedef enum rp_opt_kind {   /* what the field at `at` is */
	RP_OPT_FLAG,         /* bool */
	RP_OPT_STRING,       /* const char *, NULL when not given; repeatable: rp_strings */
	RP_OPT_UINT,         /* uint64_t in [lo, hi] */
	RP_OPT_SIZE,         /* uint64_t bytes in [lo, hi]; K M G T and KiB.. are powers of 1024, kB MB GB TB of 1000 */
	RP_OPT_FLOAT,        /* double in [min, max] */
	RP_OPT_CHOICE,       /* int: index into choices, -1 when not given */
} rp_opt_kind;

typedef enum rp_opt_complete { RP_COMPLETE_NONE, RP_COMPLETE_FILE, RP_COMPLETE_DIR } rp_opt_complete;

typedef struct rp_strings {
	const char **v;
	size_t n;
} rp_strings;

typedef struct rp_opt {
	const char *name;  /* long, without dashes */
	const char *alias; /* a second long spelling people know from elsewhere; NULL for none */
	char letter;       /* 0 for none */
	rp_opt_kind kind;
	bool repeat;            /* RP_OPT_STRING only */
	bool any_bytes;         /* a string whose text is checked elsewhere; others must be UTF-8 unless they name files */
	rp_opt_complete complete;
	const char *group;      /* heading; options of a group stand together in the table */
	const char *arg;        /* name of the value in help: "FILE"; NULL for flags; choices show themselves */
	const char *const *choices; /* NULL-terminated */
	uint64_t lo, hi;        /* hi 0: no upper limit */
	double min, max;
	const char *def;        /* as it would be typed; NULL for none */
	const char *def_text;   /* what help says instead of def: "the model's own"; NULL: def itself */
	const char *help;       /* a short sentence without a full stop */
	const char *more;       /* further sentences, for the man page only; NULL for none */
	size_t at;              /* offsetof the field in the program's own structure */
} rp_opt;

typedef struct rp_program {
	const char *name;      /* "reploid-run" */
	const char *summary;   /* "answer one prompt with a local model" */
	const char *const *synopsis; /* lines after the name, NULL-terminated */
	const rp_opt *opts;
	size_t n_opts;
	size_t max_operands;
	const char *no_operand; /* what an operand too many is told: "to give a prompt use -p TEXT" */
	const char *notes;      /* end of --help; NULL for none */
	const rp_code *codes;   /* the exit codes it gives, RP_OK first, ended by RP_OK again */
	/* Another table that a first argument selects: "--bench". The program looks for that argument itself; the man page and the
	 * completions of the program tell of both tables. NULL for none. */
	const struct rp_program *mode;
	const char *mode_word;
} rp_program;

typedef enum rp_source { RP_FROM_DEFAULT, RP_FROM_CONFIG, RP_FROM_ENV, RP_FROM_FLAG } rp_source;
typedef enum rp_action {
	RP_ACTION_RUN,
	RP_ACTION_HELP,
	RP_ACTION_VERSION,
	RP_ACTION_MAN,
	RP_ACTION_COMPLETION,
	RP_ACTION_CODES,
} rp_action;
typedef enum rp_shell { RP_SHELL_BASH, RP_SHELL_ZSH, RP_SHELL_FISH } rp_shell;

enum { RP_MAX_OPTS = 96 };

typedef struct rp_parsed {
	rp_action action; /* anything but RUN: only rp_action_text is left to do; options were not completed */
	rp_shell shell;   /* for RP_ACTION_COMPLETION */
	rp_strings operands;
	uint8_t source[RP_MAX_OPTS]; /* rp_source of each option of the table */
	rp_arena arena;              /* owns strings that do not lie in argv */
} rp_parsed;

/* Fill the structure at out, which comes zeroed (values of all options), and *parsed. argv strings must outlive both. RP_USAGE
 * names the option, the environment variable or the line of the file. rp_parsed_free also after a failure. */
rp_code rp_options_parse(const rp_program *p, int argc, char *const *argv, void *out, rp_parsed *parsed, rp_error *err);
void rp_parsed_free(rp_parsed *parsed);
/* Where the value of an option of the table came from. */
rp_source rp_option_source(const rp_program *p, const rp_parsed *parsed, const char *name);

/* The text an action other than RUN prints. width: columns, for --help. */
rp_code rp_action_text(const rp_program *p, const rp_parsed *parsed, unsigned width, rp_buf *out, rp_error *err);

/* The pieces of it. All append to out; check out->failed. */
void rp_help_text(const rp_program *p, unsigned width, rp_buf *out);
void rp_man_text(const rp_program *p, rp_buf *out);                       /* mdoc: OPTIONS, ENVIRONMENT, EXIT STATUS lists */
void rp_completion_text(const rp_program *p, rp_shell shell, rp_buf *out);
void rp_exit_codes_text(rp_buf *out);                                     /* number, word, meaning; tabs between; all programs */
/* "REPLOID_TOP_K" for "top-k"; cut to size. Returns out. */
char *rp_env_name(char *out, size_t size, const char *option);

#endif
