/* wl: memory, names and messages of one compilation, and the public entry points around them. */
#include "spirv/wgslc/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void wl_stop(wl *w, rp_code code)
{
	w->stopped = code;
	longjmp(w->stop, 1);
}

void *wl_new(wl *w, size_t size)
{
	void *p = rp_arena_alloc(w->arena, size);
	if (!p)
		wl_stop(w, RP_NO_MEMORY);
	return p;
}

void *wl_array(wl *w, size_t n, size_t size)
{
	void *p = rp_arena_array(w->arena, n, size);
	if (!p)
		wl_stop(w, RP_NO_MEMORY);
	return p;
}

static char *vprintf_arena(wl *w, const char *fmt, va_list ap)
{
	va_list copy;
	va_copy(copy, ap);
	int n = vsnprintf(NULL, 0, fmt, copy);
	va_end(copy);
	char *s = wl_new(w, n < 0 ? 1 : (size_t)n + 1);
	if (n > 0)
		vsnprintf(s, (size_t)n + 1, fmt, ap);
	return s;
}

char *wl_printf(wl *w, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = vprintf_arena(w, fmt, ap);
	va_end(ap);
	return s;
}

static uint32_t hash_bytes(const char *s, size_t len)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h;
}

static void grow_names(wl *w)
{
	uint32_t cap = w->cap_names ? w->cap_names * 2 : 1024;
	sym **table = wl_array(w, cap, sizeof *table);
	for (uint32_t i = 0; i < w->cap_names; i++)
		for (sym *s = w->names[i], *next; s; s = next) {
			uint32_t h = hash_bytes(s->s, s->len) & (cap - 1);
			next = s->next;
			s->next = table[h];
			table[h] = s;
		}
	w->names = table;
	w->cap_names = cap;
}

sym *wl_intern(wl *w, const char *s, size_t len)
{
	if (w->n_names >= w->cap_names)
		grow_names(w);
	uint32_t h = hash_bytes(s, len) & (w->cap_names - 1);
	for (sym *n = w->names[h]; n; n = n->next)
		if (n->len == len && memcmp(n->s, s, len) == 0)
			return n;
	sym *n = wl_new(w, sizeof *n);
	char *copy = wl_new(w, len + 1);
	memcpy(copy, s, len);
	n->s = copy;
	n->len = (uint32_t)len;
	n->reserved = wl_is_reserved(copy);
	n->next = w->names[h];
	w->names[h] = n;
	w->n_names++;
	return n;
}

void wl_push_decl(wl *w, decl_list *l, decl *d)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 16;
		decl **bigger = wl_array(w, cap, sizeof *bigger);
		if (l->n)
			memcpy(bigger, l->d, l->n * sizeof *bigger);
		l->d = bigger;
		l->cap = cap;
	}
	l->d[l->n++] = d;
}

/* ---- messages ---- */

static void locate(const wl *w, uint32_t at, uint32_t *line, uint32_t *column, uint32_t *start)
{
	*line = 1;
	*start = 0;
	for (uint32_t i = 0; i < at && i < w->len; i++)
		if (w->text[i] == '\n' || (w->text[i] == '\r' && w->text[i + 1] != '\n')) {
			++*line;
			*start = i + 1;
		}
	*column = 1;
	for (uint32_t i = *start; i < at && i < w->len; i++)
		*column += ((unsigned char)w->text[i] & 0xc0) != 0x80;
}

static void report(wl *w, rp_code code, uint32_t at, const char *fmt, va_list ap)
{
	uint32_t start;
	if (w->n_diags == WL_MAX_ERRORS) {
		if (!w->emission)
			wl_stop(w, w->worst);
		return; /* the emitter has buffers to free */
	}
	char *text = vprintf_arena(w, fmt, ap), *shown = wl_new(w, 1000);
	wgsl_diagnostic *d = &w->diags[w->n_diags];
	locate(w, at, &d->line, &d->column, &start);
	d->message = rp_show(shown, 1000, text, strlen(text));
	for (uint32_t i = 0; i < w->n_diags; i++)
		if (w->diags[i].line == d->line && w->diags[i].column == d->column)
			return; /* one message a place: the first is the cause */
	w->n_diags++;
	if (w->worst == RP_OK || code == RP_FORMAT)
		w->worst = code;
}

void wl_error(wl *w, uint32_t at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	report(w, RP_FORMAT, at, fmt, ap);
	va_end(ap);
}

void wl_unsupported(wl *w, uint32_t at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	report(w, RP_UNSUPPORTED, at, fmt, ap);
	va_end(ap);
}

const wgsl_diagnostic *wgsl_diagnostics(const wgsl_module *m, size_t *n)
{
	*n = m->w->n_diags;
	return m->w->diags;
}

/* The caret line repeats the tabs of the source line, so that the caret stands under its column. */
char *wgsl_show_diagnostic(const wgsl_module *m, size_t index, const char *file)
{
	const wl *w = m->w;
	if (index >= w->n_diags)
		return NULL;
	const wgsl_diagnostic *d = &w->diags[index];
	uint32_t at = 0, line = 1;
	while (line < d->line && at < w->len) {
		line += w->text[at] == '\n' || (w->text[at] == '\r' && w->text[at + 1] != '\n');
		at++;
	}
	uint32_t len = 0;
	while (at + len < w->len && w->text[at + len] != '\n' && w->text[at + len] != '\r')
		len++;
	rp_buf b;
	rp_buf_init(&b, 0);
	rp_buf_addf(&b, "%s:%u:%u: error: %s\n", file, d->line, d->column, d->message);
	if (len <= 400 && rp_utf8_valid(w->text + at, len) == len) {
		uint32_t column = 1;
		rp_buf_add(&b, w->text + at, len);
		rp_buf_addc(&b, '\n');
		for (uint32_t i = 0; i < len && column < d->column; i++)
			if (((unsigned char)w->text[at + i] & 0xc0) != 0x80) {
				rp_buf_addc(&b, w->text[at + i] == '\t' ? '\t' : ' ');
				column++;
			}
		rp_buf_adds(&b, "^\n");
	}
	return rp_buf_take(&b, NULL);
}

/* ---- life of a module ---- */

static rp_code first_error(const wl *w, rp_error *err)
{
	if (w->stopped == RP_NO_MEMORY)
		return rp_fail(err, RP_NO_MEMORY, "the source needs more memory than this compiler grants itself");
	if (!w->n_diags)
		return RP_OK;
	return rp_fail(err, w->worst, "%u:%u: %s", w->diags[0].line, w->diags[0].column, w->diags[0].message);
}

/* Alone in its function because of setjmp: nothing here lives in a register across it. */
static void check_text(wl *w)
{
	if (setjmp(w->stop))
		return;
	w->diags = wl_array(w, WL_MAX_ERRORS + 1, sizeof *w->diags);
	wl_types_init(w);
	wl_builtins_init(w);
	wl_lex(w);
	if (w->n_diags)
		return;
	wl_parse(w);
	if (!w->n_diags)
		wl_check(w);
}

rp_code wgsl_check(const char *text, size_t len, wgsl_module **out, rp_error *err)
{
	if (len > WL_MAX_SOURCE)
		return rp_fail(err, RP_UNSUPPORTED, "the source has %zu bytes; at most %d are taken", len, WL_MAX_SOURCE);
	wgsl_module *m = rp_alloc(sizeof *m);
	if (!m)
		return rp_no_memory(err, sizeof *m, "a module");
	rp_arena_init(&m->arena, WL_MAX_ARENA);
	wl *w = m->w = rp_arena_alloc(&m->arena, sizeof *m->w);
	char *copy = w ? rp_arena_alloc(&m->arena, len + 1) : NULL;
	if (!copy) {
		wgsl_free(m);
		return rp_no_memory(err, len, "the source");
	}
	if (len)
		memcpy(copy, text, len);
	w->arena = &m->arena;
	w->text = copy;
	w->len = (uint32_t)len;
	check_text(w);
	if (w->stopped == RP_NO_MEMORY) {
		first_error(w, err);
		wgsl_free(m);
		return RP_NO_MEMORY;
	}
	*out = m;
	return first_error(w, err);
}

void wgsl_free(wgsl_module *m)
{
	if (!m)
		return;
	rp_arena_free(&m->arena);
	free(m);
}

const char *wgsl_override_name(const wgsl_module *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->w->globals.n; i++)
		if (m->w->globals.d[i]->kind == D_OVERRIDE && m->w->globals.d[i]->id == id)
			return m->w->globals.d[i]->name->s;
	return NULL;
}

const char *const *wgsl_entries(const wgsl_module *m, size_t *n)
{
	*n = m->w->n_entries;
	return m->w->entries;
}
