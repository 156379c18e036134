/* The first byte chooses: a piece index, a tree, a list of ranges, the head of a response. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/reply.h"
#include "store/fetch.h"
#include "store/pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void index_of(const char *text, size_t n)
{
	rp_piece_index *index, *again;
	rp_error e;
	if (rp_piece_index_parse("p.json", text, n, &index, &e) != RP_OK)
		return;
	for (size_t i = 0; i < index->n_files; i++) {
		const rp_piece_file *f = &index->files[i];
		uint64_t end = 0;
		for (size_t k = 0; k < f->n_pieces; k++) {
			if (f->pieces[k].offset != end || f->pieces[k].size == 0 || f->pieces[k].size > index->max_piece)
				abort();
			end += f->pieces[k].size;
		}
		if (end != f->size || !rp_piece_name_valid(f->path) || rp_piece_index_find(index, f->path) != f)
			abort();
	}
	rp_piece_index_check_manifest(index, "p.json", "m.json", text, n, &e);
	rp_buf out;
	rp_buf_init(&out, 0);
	rp_piece_index_write(index, &out);
	if (rp_piece_index_parse("again", out.data, out.len, &again, &e) != RP_OK || again->n_files != index->n_files)
		abort();
	rp_buf_free(&out);
	rp_piece_index_free(again);
	rp_piece_index_free(index);
}

static void head_of(const char *text, size_t n)
{
	rp_net_reply r;
	rp_reply_forget(&r);
	while (n > 0) {
		const char *end = memchr(text, '\n', n);
		size_t line = end != NULL ? (size_t)(end - text) + 1 : n;
		rp_reply_header(&r, text, line);
		text += line;
		n -= line;
	}
	rp_reply_finish(&r);
	if (r.first != RP_NET_UNKNOWN && r.last < r.first)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n == 0)
		return 0;
	const char *text = (const char *)data + 1;
	rp_error e;
	rp_tree *tree;
	rp_range *ranges;
	size_t count;
	switch (data[0] % 4) {
	case 0:
		index_of(text, n - 1);
		break;
	case 1:
		if (rp_tree_parse("t.json", text, n - 1, &tree, &e) == RP_OK)
			rp_tree_free(tree);
		break;
	case 2:
		if (rp_ranges_parse("r", text, n - 1, &ranges, &count, &e) == RP_OK)
			free(ranges);
		break;
	default:
		head_of(text, n - 1);
	}
	return 0;
}
