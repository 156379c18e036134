/* Pieces that are missing or damaged, in the form that reploid-fetch --only - repairs. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static rp_code absolute(verify_subject *s, const char *path, const char **out, rp_error *err)
{
	char here[4096];
	if (strchr(path, '\n') != NULL)
		return rp_fail(err, RP_UNSUPPORTED, "%s: a name with a newline cannot stand in a list of pieces", path);
	if (*path == '/') {
		*out = path;
		return RP_OK;
	}
	if (getcwd(here, sizeof here) == NULL)
		return rp_fail(err, RP_READ, "the current folder has no name; give absolute paths");
	*out = rp_arena_printf(&s->arena, "%s/%s", here, path);
	return *out != NULL ? RP_OK : rp_no_memory(err, strlen(path), "a path");
}

static void write_piece(rp_buf *out, uint64_t offset, uint64_t size, const unsigned char sha256[RP_HASH_BYTES])
{
	char hex[RP_HASH_HEX];
	rp_buf_addf(out, "piece %llu %llu sha256:%s\n", (unsigned long long)offset, (unsigned long long)size,
		rp_hex(hex, sha256, RP_HASH_BYTES));
}

static rp_code write_item(verify_subject *s, const verify_item *item, rp_error *err)
{
	rp_buf *out = &s->v->out;
	char hex[RP_HASH_HEX];
	const char *path;
	rp_code code = absolute(s, item->path, &path, err);
	if (code != RP_OK)
		return code;
	rp_buf_addf(out, "file %llu %s%s %s\n", (unsigned long long)item->size, item->sha256_known ? "sha256:" : "-",
		item->sha256_known ? rp_hex(hex, item->sha256, RP_HASH_BYTES) : "", path);
	for (size_t i = 0; i < item->n_sources; i++)
		rp_buf_addf(out, "source %s\n", item->sources[i]);
	for (size_t i = 0; i < item->n_pieces; i++) {
		const rp_piece *p = &item->pieces[i];
		if (!item->ranges[i].done || memcmp(item->ranges[i].sha256, p->sha256, RP_HASH_BYTES) != 0)
			write_piece(out, p->offset, p->size, p->sha256);
	}
	if (item->n_pieces == 0) /* all of it is one */
		write_piece(out, 0, item->size, item->sha256);
	return verify_written(s->v, err);
}

static rp_code list_item(verify_subject *s, const verify_item *item, rp_error *err)
{
	verify_state *v = s->v;
	bool whole = item->n_pieces == 0 && item->sha256_known && item->size_known;
	if (item->n_pieces == 0 && !whole) {
		if (s->manifest != NULL && !item->blake3_known) /* a tokenizer the index does not list */
			return RP_OK;
		v->first = v->first == RP_OK ? RP_UNSUPPORTED : v->first;
		verify_say(v, "%s: no list of its pieces is known; give one with --index", item->path);
		return RP_OK;
	}
	bool longer = item->scan.code == RP_OK && item->scan.size > item->size;
	if (longer) {
		v->first = v->first == RP_OK ? RP_HASH : v->first;
		verify_say(v, "%s: has %llu bytes too many, which no piece can mend; cut it to %llu", item->path,
			(unsigned long long)(item->scan.size - item->size), (unsigned long long)item->size);
	}
	v->n_failed += item->bad_pieces;
	v->n_ok += item->n_pieces - item->bad_pieces;
	return item->bad_pieces > 0 || (whole && item->code != RP_OK) ? write_item(s, item, err) : RP_OK;
}

static rp_code list_operand(verify_state *v, const char *operand, rp_error *err)
{
	verify_subject s = {.pieces_only = true};
	rp_code code = subject_open(v, operand, &s, err);
	if (code == RP_OK && s.folder && s.n_items == 0)
		code = s.structure != RP_OK ? rp_fail(err, s.structure, "%s", s.structure_error.msg) :
			rp_fail(err, RP_UNSUPPORTED, "%s: nothing says which files it should have", s.path);
	if (code == RP_OK)
		code = subject_scan(&s, err);
	for (size_t i = 0; code == RP_OK && i < s.n_items; i++)
		code = list_item(&s, &s.items[i], err);
	subject_close(&s);
	return code;
}

rp_code verify_bad_pieces(verify_state *v, rp_error *err)
{
	rp_code code = RP_OK;
	if (v->parsed.operands.n == 0)
		return rp_fail(err, RP_USAGE, "--bad-pieces: name a model, a file or an id");
	if (v->o.json)
		return rp_fail(err, RP_USAGE, "--bad-pieces prints one form only; leave out --json");
	rp_buf_adds(&v->out, "reploid-pieces/1\n");
	for (size_t i = 0; code == RP_OK && i < v->parsed.operands.n; i++)
		code = list_operand(v, v->parsed.operands.v[i], err);
	if (code == RP_OK && !v->o.quiet && !v->o.status) {
		char size[32];
		verify_say(v, "%llu pieces good, %llu missing or damaged; %s read", (unsigned long long)v->n_ok,
			(unsigned long long)v->n_failed, rp_size_text(size, sizeof size, v->bytes));
	}
	return code == RP_OK ? v->first : code;
}
