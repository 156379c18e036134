#include "verify.h"

#include "base/signals.h"

#include <sys/stat.h>

typedef struct watched {
	verify_state *v;
	rp_scan_file *files;
	rp_code (*finished)(void *context, size_t i, rp_error *err);
	void *context;
	uint64_t total;
} watched;

static rp_code finished(void *context, size_t i, rp_error *err)
{
	watched *w = context;
	w->v->bytes += w->files[i].size;
	w->v->stdin_read |= w->files[i].standard_input;
	return w->finished != NULL ? w->finished(w->context, i, err) : RP_OK;
}

static void progress(void *context, uint64_t bytes)
{
	watched *w = context;
	rp_progress_update(&w->v->progress, bytes, bytes <= w->total ? w->total : 0);
}

rp_code verify_scan(verify_state *v, rp_scan_file *files, size_t n, rp_code (*done)(void *context, size_t i, rp_error *err),
	void *context, rp_error *err)
{
	watched w = {.v = v, .files = files, .finished = done, .context = context};
	for (size_t i = 0; v->progress.moves && i < n; i++) {
		struct stat st;
		if (!files[i].standard_input && stat(files[i].path, &st) == 0 && st.st_size > 0)
			w.total += (uint64_t)st.st_size;
	}
	rp_scan scan = {.files = files, .n_files = n, .threads = (unsigned)v->o.threads, .cancel = rp_cancel(), .finished = finished,
		.progress = progress, .context = &w};
	if (v->progress.moves)
		rp_progress_begin(&v->progress, n == 1 ? files[0].path : "reading");
	rp_code code = rp_scan_run(&scan, err);
	rp_progress_end(&v->progress);
	return code;
}
