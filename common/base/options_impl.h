/* What the files of options share. */
#ifndef RP_OPTIONS_IMPL_H
#define RP_OPTIONS_IMPL_H

#include "base/options.h"

/* Options that every program has come after those of its table; their values go here. */
typedef struct rp_common_values {
	bool help, version, man, exit_codes;
	int completion;
	const char *config;
} rp_common_values;

extern const rp_opt rp_common_opts[];
extern const size_t rp_n_common_opts;

/* All options of a program by one number: those of its table, then the common ones. */
size_t rp_opt_count(const rp_program *p);
const rp_opt *rp_opt_at(const rp_program *p, size_t i);
bool rp_opt_is_common(const rp_program *p, size_t i);
bool rp_opt_has_env(const rp_program *p, size_t i); /* and a line in the configuration file */

typedef struct rp_opt_parse {
	const rp_program *p;
	void *out;
	rp_parsed *parsed;
	rp_common_values common;
	uint8_t source[RP_MAX_OPTS];
} rp_opt_parse;

/* Give option i a value. from: the source, which replaces what lower ones gave; where: how a message begins ("--temp"). */
rp_code rp_opt_set(rp_opt_parse *s, size_t i, const char *value, rp_source from, const char *where, rp_error *err);
/* on, off, true, false, yes, no, 1, 0 */
bool rp_opt_switch(const char *value, bool *out);
rp_code rp_opt_environment(rp_opt_parse *s, rp_error *err);
rp_code rp_opt_config_file(rp_opt_parse *s, rp_error *err);
rp_code rp_opt_defaults(rp_opt_parse *s, rp_error *err);

/* How an option's value is shown: "FILE", "bash|zsh|fish"; empty for a flag. */
void rp_opt_arg_text(const rp_opt *o, rp_buf *out);

#endif
