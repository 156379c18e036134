/* The input is a list of sums, then, after a line "=", the text of a cache of hashes. */
#include "hash/sums.h"
#include "store/hashcache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What was read is written so that it reads the same. */
static void check_again(const rp_sums_line *line, const char *tag)
{
	rp_buf text;
	rp_sums_reader r = {.tag = "SHA256"};
	rp_sums_line again;
	rp_buf_init(&text, 0);
	rp_sums_write(&text, tag, false, line->name, line->digest, '\n');
	if (text.failed || memchr(text.data, '\n', text.len - 1) != NULL)
		abort();
	text.data[--text.len] = '\0';
	/* an empty name is written in a form that GNU lists cannot have */
	if (*line->name != '\0' && (!rp_sums_parse(&r, text.data, text.len, &again) || strcmp(again.name, line->name) != 0 ||
		memcmp(again.digest, line->digest, RP_HASH_BYTES) != 0))
		abort();
	rp_buf_clear(&text);
	rp_shell_name(&text, line->name);
	rp_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	rp_sums_reader r = {.tag = "SHA256"};
	if (text == NULL)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	for (size_t at = 0; at < n;) {
		char *end = memchr(text + at, '\n', n - at);
		size_t length = end != NULL ? (size_t)(end - text) - at : n - at;
		if (length == 1 && text[at] == '=' && end != NULL) {
			rp_hash_cache *c;
			if (rp_hash_cache_open("/nonexistent", &c, NULL) == RP_OK) {
				rp_hash_cache_read(c, end + 1, n - (size_t)(end + 1 - text));
				rp_hash_cache_close(c);
			}
			break;
		}
		rp_sums_line line;
		text[at + length] = '\0';
		if (rp_sums_parse(&r, text + at, length, &line)) {
			check_again(&line, NULL);
			check_again(&line, "SHA256");
		}
		at += length + 1;
	}
	free(text);
	return 0;
}
