/* Encode and decode many texts with one tokenizer, for comparing with the reference library.
 *
 * usage: ids TOKENIZER.json|MODEL [plain] [bos] <texts >results
 * texts: for each, its length (u32, little-endian) and its bytes. results: for each, the count of ids (u32), the ids (u32 each),
 * the length of the decoded text (u32), its bytes. A failure is a message on stderr and status 1. */
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const rp_error *err)
{
	fprintf(stderr, "ids: %s\n", err->msg);
	exit(1);
}

static rp_tokenizer *load(const char *path)
{
	rp_tokenizer *t = NULL;
	rp_error err;
	size_t n, len = strlen(path);
	char *text;
	rp_model *m;
	if (len > 5 && strcmp(path + len - 5, ".json") == 0) {
		if (rp_read_file(path, 1 << 28, &text, &n, &err) != RP_OK)
			die(&err);
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		if (rp_tokenizer_from_json(path, text, n, &t, &err) != RP_OK)
			die(&err);
		clock_gettime(CLOCK_MONOTONIC, &b);
		fprintf(stderr, "loaded %zu bytes in %.0f ms\n", n, (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
		free(text);
		return t;
	}
	if (rp_model_open(path, &m, &err) != RP_OK || rp_tokenizer_of_model(m, &t, &err) != RP_OK)
		die(&err);
	rp_model_close(m);
	return t;
}

static void put(uint32_t v)
{
	fwrite(&v, sizeof v, 1, stdout);
}

int main(int argc, char **argv)
{
	unsigned flags = RP_ENCODE_SPECIAL;
	rp_error err;
	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "plain") == 0)
			flags &= ~(unsigned)RP_ENCODE_SPECIAL;
		else if (strcmp(argv[i], "bos") == 0)
			flags |= RP_ENCODE_BOS;
	}
	rp_tokenizer *t = load(argv[1]);
	uint32_t n;
	while (fread(&n, sizeof n, 1, stdin) == 1) {
		char *text = malloc(n + 1);
		rp_ids ids;
		rp_decoder *d;
		rp_buf out;
		bool stopped;
		if (text == NULL || fread(text, 1, n, stdin) != n)
			return 2;
		if (rp_encode(t, text, n, flags, &ids, &err) != RP_OK || rp_decoder_new(t, NULL, 0, &d, &err) != RP_OK)
			die(&err);
		rp_buf_init(&out, 0);
		for (size_t i = 0; i < ids.n; i++)
			if (rp_decoder_push(d, ids.v[i], true, &out, &stopped, &err) != RP_OK)
				die(&err);
		if (rp_decoder_flush(d, &out, &err) != RP_OK)
			die(&err);
		put((uint32_t)ids.n);
		fwrite(ids.v, sizeof *ids.v, ids.n, stdout);
		put((uint32_t)out.len);
		fwrite(out.data != NULL ? out.data : "", 1, out.len, stdout);
		rp_buf_free(&out);
		rp_decoder_free(d);
		free(ids.v);
		free(text);
	}
	rp_tokenizer_free(t);
	return ferror(stdout) != 0;
}
