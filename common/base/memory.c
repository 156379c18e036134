#define RP_BASE_IMPLEMENTATION
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *rp_alloc(size_t size)
{
	return calloc(1, size != 0 ? size : 1);
}

void *rp_alloc_array(size_t n, size_t size)
{
	if (size != 0 && n > SIZE_MAX / 2 / size)
		return NULL;
	return rp_alloc(n * size);
}

void *rp_grow_array(void *p, size_t n, size_t size)
{
	if (size != 0 && n > SIZE_MAX / 2 / size)
		return NULL;
	size_t bytes = n * size;
	return realloc(p, bytes != 0 ? bytes : 1);
}

char *rp_strndup(const char *s, size_t n)
{
	char *copy = n < SIZE_MAX / 2 ? malloc(n + 1) : NULL;
	if (copy != NULL) {
		memcpy(copy, s, n);
		copy[n] = '\0';
	}
	return copy;
}

char *rp_strdup(const char *s)
{
	return rp_strndup(s, strlen(s));
}

char *rp_asprintf(const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *text = n >= 0 ? malloc((size_t)n + 1) : NULL;
	if (text != NULL)
		vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	return text;
}

rp_code rp_no_memory(rp_error *err, uint64_t bytes, const char *what_for)
{
	return rp_fail(err, RP_NO_MEMORY, "not enough memory for %s (%llu bytes)", what_for, (unsigned long long)bytes);
}

/* ---- arena: a list of blocks, newest first; a large request gets a block of its own ---- */
enum { ARENA_BLOCK = 64 * 1024 };

struct rp_arena_block {
	struct rp_arena_block *next;
	size_t used, size;
	max_align_t data[];
};

void rp_arena_init(rp_arena *a, size_t max)
{
	*a = (rp_arena){ .max = max };
}

void *rp_arena_alloc(rp_arena *a, size_t size)
{
	const size_t unit = sizeof(max_align_t);
	if (size > SIZE_MAX / 4)
		return NULL;
	size = (size + unit - 1) / unit * unit;
	if (size == 0)
		size = unit;
	if (a->max != 0 && size > a->max - a->used)
		return NULL;
	struct rp_arena_block *b = a->head;
	if (b == NULL || b->size - b->used < size) {
		size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;
		b = calloc(1, sizeof *b + room);
		if (b == NULL)
			return NULL;
		b->size = room;
		b->next = a->head;
		a->head = b;
	}
	void *p = (char *)b->data + b->used;
	b->used += size;
	a->used += size;
	return p;
}

void *rp_arena_array(rp_arena *a, size_t n, size_t size)
{
	if (size != 0 && n > SIZE_MAX / 4 / size)
		return NULL;
	return rp_arena_alloc(a, n * size);
}

char *rp_arena_strndup(rp_arena *a, const char *s, size_t n)
{
	char *copy = n < SIZE_MAX / 4 ? rp_arena_alloc(a, n + 1) : NULL;
	if (copy != NULL && n != 0)
		memcpy(copy, s, n);
	return copy;
}

char *rp_arena_printf(rp_arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *text = n >= 0 ? rp_arena_alloc(a, (size_t)n + 1) : NULL;
	if (text != NULL)
		vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	return text;
}

void rp_arena_free(rp_arena *a)
{
	for (struct rp_arena_block *b = a->head, *next; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	a->head = NULL;
	a->used = 0;
}

/* ---- how much memory there is ---- */

static bool read_number(const char *path, const char *key, uint64_t *out)
{
	FILE *f = fopen(path, "r");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		size_t n = strlen(key);
		char *end;
		if (strncmp(line, key, n) != 0)
			continue;
		*out = strtoull(line + n, &end, 10);
		found = end != line + n;
	}
	if (f)
		fclose(f);
	return found;
}

uint64_t rp_host_bytes_free(void)
{
	uint64_t available = UINT64_MAX, max, current;

	if (read_number("/proc/meminfo", "MemAvailable:", &available))
		available *= 1024;
	/* A container may get less than the machine has. */
	if (read_number("/sys/fs/cgroup/memory.max", "", &max) && read_number("/sys/fs/cgroup/memory.current", "", &current)) {
		uint64_t left = max > current ? max - current : 0;
		available = left < available ? left : available;
	}
	return available;
}
