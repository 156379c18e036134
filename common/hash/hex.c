#include "hash.h"

char *rp_hex(char *out, const void *bytes, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	const unsigned char *b = bytes;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digit[b[i] >> 4];
		out[2 * i + 1] = digit[b[i] & 15];
	}
	out[2 * n] = '\0';
	return out;
}

static int value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool rp_unhex(void *out, size_t n, const char *hex, size_t hex_len)
{
	unsigned char *b = out;
	if (hex_len / 2 != n || hex_len % 2 != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = value(hex[2 * i]), low = value(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		b[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}
