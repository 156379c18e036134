#define RP_BASE_IMPLEMENTATION
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const rp_code_info table[] = {
#define X(name, number, word, text) { RP_##name, word, text },
	RP_CODES(X)
#undef X
};

const rp_code_info *rp_codes(size_t *n)
{
	*n = sizeof table / sizeof *table;
	return table;
}

const char *rp_code_word(rp_code code)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].code == code)
			return table[i].word;
	return "unknown";
}

/* A message may quote bytes of a hostile file: nothing that could drive a terminal passes. */
static void set_message(rp_error *err, rp_code code, const char *text)
{
	err->code = code;
	rp_show(err->msg, sizeof err->msg, text, strlen(text));
}

rp_code rp_vfail(rp_error *err, rp_code code, const char *fmt, va_list ap)
{
	if (err != NULL) {
		char text[sizeof err->msg];
		vsnprintf(text, sizeof text, fmt, ap);
		set_message(err, code, text);
	}
	return code;
}

rp_code rp_fail(rp_error *err, rp_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	rp_vfail(err, code, fmt, ap);
	va_end(ap);
	return code;
}

static rp_code code_of_errno(int errnum, rp_code otherwise)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		return RP_DISK_FULL;
	case ENOENT:
	case ENOTDIR:
		return RP_NOT_FOUND;
	case ENOMEM:
		return RP_NO_MEMORY;
	default:
		return otherwise;
	}
}

rp_code rp_fail_errno(rp_error *err, rp_code code, int errnum, const char *fmt, ...)
{
	code = code_of_errno(errnum, code);
	if (err != NULL) {
		char text[sizeof err->msg], why[128];
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
		if (strerror_r(errnum, why, sizeof why) != 0)
			snprintf(why, sizeof why, "error %d", errnum);
		size_t n = strlen(text);
		snprintf(text + n, sizeof text - n, ": %s", why);
		set_message(err, code, text);
	}
	return code;
}

rp_code rp_error_prefix(rp_error *err, rp_code code, const char *fmt, ...)
{
	if (err != NULL) {
		char text[2 * sizeof err->msg];
		va_list ap;
		va_start(ap, fmt);
		int n = vsnprintf(text, sizeof err->msg, fmt, ap);
		va_end(ap);
		if (n < 0)
			n = 0;
		if ((size_t)n >= sizeof err->msg)
			n = (int)sizeof err->msg - 1;
		snprintf(text + n, sizeof text - (size_t)n, "%s", err->msg);
		text[sizeof err->msg - 1] = '\0';
		memcpy(err->msg, text, sizeof err->msg);
	}
	return code;
}
