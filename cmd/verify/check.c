/* Lists of sums, checked as sha256sum -c does: the same lines, the same messages, the same status. */
#include "verify.h"

#include "hash/sums.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1024, BATCH_BYTES = 1 << 20, MAX_LINE = 1 << 20 };

typedef struct entry {
	uint64_t line;    /* malformed: its number */
	const char *name; /* NULL: malformed */
	unsigned char digest[RP_HASH_BYTES];
	size_t file;      /* index into files */
} entry;

typedef struct list {
	verify_state *v;
	rp_sums_reader *reader;
	const char *name; /* as messages have it */
	FILE *from;
	bool is_stdin, at_end;
	uint64_t line_number;
	rp_buf line;
	/* a batch */
	rp_arena names;
	entry *entries;
	rp_scan_file *files;
	size_t n_entries, n_files, told;
	/* counts */
	uint64_t malformed, unreadable, mismatched;
	bool proper, matched;
} list;

/* A line with its newline into l->line; false at the end. What a line has beyond MAX_LINE is skipped: no name is that long. */
static bool read_line(list *l)
{
	int c;
	rp_buf_clear(&l->line);
	while ((c = getc_unlocked(l->from)) != EOF) {
		if (l->line.len < MAX_LINE || c == '\n')
			rp_buf_addc(&l->line, (char)c);
		if (c == '\n')
			break;
	}
	return l->line.len > 0;
}

static rp_code take_line(list *l, rp_error *err)
{
	size_t n = l->line.len;
	if (l->line.data[0] == '#')
		return RP_OK;
	n -= l->line.data[n - 1] == '\n';
	n -= n > 0 && l->line.data[n - 1] == '\r';
	if (n == 0)
		return RP_OK;
	char *text = rp_arena_strndup(&l->names, l->line.data, n);
	if (text == NULL)
		return rp_no_memory(err, n, "a list");
	memcpy(text, l->line.data, n); /* with NUL bytes, if there are any */
	text[n] = '\0';
	entry *e = &l->entries[l->n_entries++];
	rp_sums_line parsed;
	*e = (entry){.line = l->line_number, .file = l->n_files};
	if (l->line.len > MAX_LINE || !rp_sums_parse(l->reader, text, n, &parsed) || (l->is_stdin && strcmp(parsed.name, "-") == 0))
		return RP_OK;
	e->name = parsed.name;
	memcpy(e->digest, parsed.digest, sizeof e->digest);
	l->files[l->n_files++] = (rp_scan_file){.path = e->name, .standard_input = strcmp(e->name, "-") == 0,
		.sha256 = !l->v->o.blake3, .blake3 = l->v->o.blake3};
	return RP_OK;
}

static rp_code read_batch(list *l, rp_error *err)
{
	rp_code code = RP_OK;
	rp_arena_free(&l->names);
	rp_arena_init(&l->names, 0);
	l->n_entries = l->n_files = l->told = 0;
	while (code == RP_OK && l->n_entries < BATCH && l->names.used < BATCH_BYTES) {
		l->line_number++;
		if (!read_line(l)) {
			l->at_end = true;
			break;
		}
		code = l->line.failed ? rp_no_memory(err, l->line.len, l->name) : take_line(l, err);
	}
	return code;
}

static rp_code tell(list *l, const entry *e, const char *status, bool show, const rp_scan_file *f, rp_error *err)
{
	verify_state *v = l->v;
	if (v->o.json) {
		rp_jsonw w;
		char hex[RP_HASH_HEX];
		verify_record(v, &w, "sum");
		rp_jsonw_pair_str(&w, "path", e->name);
		rp_jsonw_pair_str(&w, "list", l->name);
		rp_jsonw_pair_str(&w, "status", status == NULL ? "ok" : f->code == RP_OK ? "failed" : "unreadable");
		rp_jsonw_pair_str(&w, "expected", rp_hex(hex, e->digest, RP_HASH_BYTES));
		rp_jsonw_pair_str(&w, v->o.blake3 ? "blake3" : "sha256",
			f->code == RP_OK ? rp_hex(hex, v->o.blake3 ? f->blake3_sum : f->sha256_sum, RP_HASH_BYTES) : NULL);
		return verify_record_end(v, &w, err);
	}
	if (!show)
		return RP_OK;
	rp_sums_write_name(&v->out, e->name);
	rp_buf_addf(&v->out, ": %s\n", status != NULL ? status : "OK");
	return verify_written(v, err);
}

static rp_code judge(list *l, const entry *e, rp_error *err)
{
	verify_state *v = l->v;
	const rp_scan_file *f = &l->files[e->file];
	l->proper = true;
	if (f->code == RP_NOT_FOUND && v->o.ignore_missing)
		return RP_OK;
	if (f->code != RP_OK) {
		verify_say_of(v, e->name, f->errnum != 0 ? strerror(f->errnum) : "became shorter while it was read");
		l->unreadable++;
		return tell(l, e, "FAILED open or read", !v->o.status, f, err);
	}
	if (memcmp(v->o.blake3 ? f->blake3_sum : f->sha256_sum, e->digest, RP_HASH_BYTES) != 0) {
		l->mismatched++;
		return tell(l, e, "FAILED", !v->o.status, f, err);
	}
	l->matched = true;
	v->n_ok++;
	return tell(l, e, NULL, !v->o.status && !v->o.quiet, f, err);
}

/* All entries up to the one of file `next`, which has none yet. */
static rp_code tell_up_to(list *l, size_t next, rp_error *err)
{
	rp_code code = RP_OK;
	for (; code == RP_OK && l->told < l->n_entries; l->told++) {
		const entry *e = &l->entries[l->told];
		if (e->name != NULL && e->file >= next)
			break;
		if (e->name != NULL) {
			code = judge(l, e, err);
			continue;
		}
		l->malformed++;
		if (l->v->o.warn) {
			char text[120];
			snprintf(text, sizeof text, "%llu: improperly formatted %s checksum line", (unsigned long long)e->line, l->reader->tag);
			verify_say_of(l->v, l->name, text);
		}
	}
	return code;
}

static rp_code one_read(void *context, size_t i, rp_error *err)
{
	return tell_up_to(context, i + 1, err);
}

static void warn_count(list *l, uint64_t n, const char *one, const char *many)
{
	if (n > 0)
		verify_say(l->v, "WARNING: %llu %s", (unsigned long long)n, n == 1 ? one : many);
}

/* The end of a list: whether all was well with it. */
static bool conclude(list *l, int read_error)
{
	verify_state *v = l->v;
	v->n_failed += l->unreadable + l->mismatched;
	if (read_error >= 0) {
		verify_say_of(v, l->name, read_error > 0 ? strerror(read_error) : "read error");
		return false;
	}
	if (!l->proper) {
		verify_say_of(v, l->name, "no properly formatted checksum lines found");
		return false;
	}
	if (!v->o.status) {
		warn_count(l, l->malformed, "line is improperly formatted", "lines are improperly formatted");
		warn_count(l, l->unreadable, "listed file could not be read", "listed files could not be read");
		warn_count(l, l->mismatched, "computed checksum did NOT match", "computed checksums did NOT match");
		if (v->o.ignore_missing && !l->matched)
			verify_say_of(v, l->name, "no file was verified");
	}
	return l->matched && l->mismatched == 0 && l->unreadable == 0 && (!v->o.strict || l->malformed == 0);
}

static rp_code check_open_list(list *l, bool *well, rp_error *err)
{
	rp_code code = RP_OK;
	l->entries = rp_alloc_array(BATCH, sizeof *l->entries);
	l->files = rp_alloc_array(BATCH, sizeof *l->files);
	if (l->entries == NULL || l->files == NULL)
		code = rp_no_memory(err, BATCH * sizeof *l->files, "a list");
	while (code == RP_OK && !l->at_end) {
		code = read_batch(l, err);
		if (code == RP_OK)
			code = verify_scan(l->v, l->files, l->n_files, one_read, l, err);
		if (code == RP_OK)
			code = tell_up_to(l, SIZE_MAX, err);
	}
	if (code == RP_OK)
		*well = conclude(l, ferror(l->from) ? 0 : -1);
	free(l->entries);
	free(l->files);
	rp_arena_free(&l->names);
	rp_buf_free(&l->line);
	return code;
}

/* A list as it is, or with --signed the text that its signature vouches for. from stays NULL when the file cannot be opened. */
static rp_code open_list(list *l, char **signed_text, rp_error *err)
{
	const char *text = NULL;
	size_t n = 0;
	if (!l->v->o.want_signed) {
		l->from = l->is_stdin ? stdin : fopen(l->name, "re");
		return RP_OK;
	}
	rp_code code = verify_signed_list(l->v, l->name, signed_text, &text, &n, err);
	if (code != RP_OK)
		return code;
	if (n == 0)
		return rp_fail(err, RP_FORMAT, "%s: an empty list", l->name);
	l->from = fmemopen((void *)(uintptr_t)text, n, "r");
	return l->from != NULL ? RP_OK : rp_no_memory(err, n, l->name);
}

static rp_code check_list(verify_state *v, rp_sums_reader *reader, const char *name, bool *well, rp_error *err)
{
	list l = {.v = v, .reader = reader, .name = name, .is_stdin = strcmp(name, "-") == 0};
	char *signed_text = NULL;
	rp_arena_init(&l.names, 0);
	rp_buf_init(&l.line, 0);
	*well = false;
	rp_code code = open_list(&l, &signed_text, err);
	if (code == RP_OK && l.from == NULL) {
		verify_say_of(v, name, strerror(errno));
	} else if (code == RP_OK) {
		if (l.is_stdin)
			l.name = "standard input";
		code = check_open_list(&l, well, err);
		if (!l.is_stdin)
			fclose(l.from);
		else
			clearerr(stdin);
	}
	free(signed_text);
	return code;
}

rp_code verify_check(verify_state *v, rp_error *err)
{
	static const char *const standard_input[] = {"-"};
	rp_sums_reader reader = {.tag = v->o.blake3 ? "BLAKE3" : "SHA256"};
	size_t n = v->parsed.operands.n;
	const char *const *names = n > 0 ? v->parsed.operands.v : standard_input;
	rp_code code = RP_OK;
	bool all = true;
	for (size_t i = 0; code == RP_OK && i < n + (n == 0); i++) {
		bool well;
		code = check_list(v, &reader, names[i], &well, err);
		all &= well;
	}
	if (code == RP_OK && v->o.json)
		code = verify_summary(v, err);
	return code == RP_OK && !all ? RP_FAIL : code;
}
