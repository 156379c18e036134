/* Sums, line for line as sha256sum prints them. */
#include "verify.h"

#include "hash/sums.h"

#include <stdlib.h>
#include <string.h>

typedef struct printing {
	verify_state *v;
	const rp_scan_file *files;
	bool failed;
} printing;

static rp_code print_json(verify_state *v, const rp_scan_file *f, rp_error *err)
{
	rp_jsonw w;
	char hex[RP_HASH_HEX];
	verify_record(v, &w, "sum");
	rp_jsonw_pair_str(&w, "path", f->path);
	rp_jsonw_pair_u64(&w, "size", f->size);
	rp_jsonw_pair_str(&w, v->o.blake3 ? "blake3" : "sha256",
		rp_hex(hex, v->o.blake3 ? f->blake3_sum : f->sha256_sum, RP_HASH_BYTES));
	return verify_record_end(v, &w, err);
}

static rp_code print_one(void *context, size_t i, rp_error *err)
{
	printing *p = context;
	verify_state *v = p->v;
	const rp_scan_file *f = &p->files[i];
	if (f->code != RP_OK) {
		verify_say_of(v, f->path, f->errnum != 0 ? strerror(f->errnum) : "became shorter while it was read");
		p->failed = true;
		return RP_OK;
	}
	if (v->o.json)
		return print_json(v, f, err);
	rp_sums_write(&v->out, v->o.tag ? (v->o.blake3 ? "BLAKE3" : "SHA256") : NULL, v->o.binary,
		f->path, v->o.blake3 ? f->blake3_sum : f->sha256_sum, v->o.zero ? '\0' : '\n');
	return verify_written(v, err);
}

rp_code verify_print(verify_state *v, rp_error *err)
{
	enum { AT_A_TIME = 1024 }; /* memory does not grow with the number of files */
	static const char *const standard_input[] = {"-"};
	size_t n = v->parsed.operands.n;
	const char *const *names = n > 0 ? v->parsed.operands.v : standard_input;
	n += n == 0;
	rp_scan_file *files = rp_alloc_array(AT_A_TIME, sizeof *files);
	if (files == NULL)
		return rp_no_memory(err, AT_A_TIME * sizeof *files, "the list of files");
	printing p = {.v = v, .files = files};
	rp_code code = RP_OK;
	for (size_t at = 0, k; code == RP_OK && at < n; at += k) {
		for (k = 0; k < AT_A_TIME && at + k < n; k++)
			files[k] = (rp_scan_file){.path = names[at + k], .standard_input = strcmp(names[at + k], "-") == 0,
				.sha256 = !v->o.blake3, .blake3 = v->o.blake3};
		code = verify_scan(v, files, k, print_one, &p, err);
	}
	free(files);
	return code == RP_OK && p.failed ? RP_FAIL : code;
}
