#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64 };

void rp_buf_init(rp_buf *b, size_t max)
{
	*b = (rp_buf){ .max = max };
}

void rp_buf_free(rp_buf *b)
{
	free(b->data);
	*b = (rp_buf){ .max = b->max };
}

void rp_buf_clear(rp_buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data != NULL)
		b->data[0] = '\0';
}

bool rp_buf_reserve(rp_buf *b, size_t more)
{
	size_t limit = b->max != 0 ? b->max : SIZE_MAX / 4;
	if (b->failed || more > limit || b->len > limit - more) {
		b->failed = true;
		return false;
	}
	size_t need = b->len + more + 1;
	if (need <= b->cap)
		return true;
	size_t cap = b->cap != 0 ? b->cap : FIRST_CAP;
	while (cap < need)
		cap *= 2;
	char *data = realloc(b->data, cap);
	if (data == NULL) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

bool rp_buf_add(rp_buf *b, const void *bytes, size_t n)
{
	if (!rp_buf_reserve(b, n))
		return false;
	if (n != 0)
		memcpy(b->data + b->len, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
	return true;
}

bool rp_buf_adds(rp_buf *b, const char *s)
{
	return rp_buf_add(b, s, strlen(s));
}

bool rp_buf_addc(rp_buf *b, char c)
{
	return rp_buf_add(b, &c, 1);
}

bool rp_buf_addf(rp_buf *b, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	bool ok = n >= 0 && rp_buf_reserve(b, (size_t)n);
	if (ok) {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	} else {
		b->failed = true;
	}
	va_end(again);
	return ok;
}

void rp_buf_drop(rp_buf *b, size_t n)
{
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

char *rp_buf_take(rp_buf *b, size_t *len)
{
	char *data = b->failed ? NULL : b->data;
	if (data == NULL)
		free(b->data);
	if (len != NULL)
		*len = data != NULL ? b->len : 0;
	*b = (rp_buf){ .max = b->max };
	return data;
}
