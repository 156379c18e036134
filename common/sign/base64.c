/* Base64, strictly, by libsodium. */
#include "sign.h"

#include <sodium.h>

static int variant(rp_base64 form)
{
	return form == RP_BASE64 ? sodium_base64_VARIANT_ORIGINAL : sodium_base64_VARIANT_URLSAFE_NO_PADDING;
}

bool rp_base64_decode(rp_base64 form, const char *text, size_t n, void *out, size_t size, size_t *len)
{
	const char *end = NULL;
	return sodium_base642bin(out, size, text, n, NULL, len, &end, variant(form)) == 0 && end == text + n;
}

bool rp_base64_exact(rp_base64 form, const char *text, size_t n, void *out, size_t want)
{
	size_t len = 0;
	return rp_base64_decode(form, text, n, out, want, &len) && len == want;
}

bool rp_base64_append(rp_base64 form, const void *bytes, size_t n, rp_buf *out)
{
	size_t room = sodium_base64_encoded_len(n, variant(form)); /* with its NUL */
	if (!rp_buf_reserve(out, room))
		return false;
	sodium_bin2base64(out->data + out->len, room, bytes, n, variant(form));
	out->len += room - 1;
	while (out->len > 0 && out->data[out->len - 1] == '\0') /* without padding the length asked for is an upper bound */
		out->len--;
	return true;
}
