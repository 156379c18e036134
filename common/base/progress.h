/* progress: what a person waiting sees on stderr.
 *
 * On a terminal: one line, drawn only after a while and at most ten times a second, erased at the end. Anywhere else: one
 * plain line when a piece of work begins. With quiet: nothing. The only writer in common/, to the descriptor it is handed;
 * failures to write are ignored, for talk is not data.
 */
#ifndef RP_PROGRESS_H
#define RP_PROGRESS_H

#include "base/base.h"

typedef struct rp_progress {
	const char *program; /* put before plain lines */
	int fd;
	bool quiet, moves, drawn;
	char what[200];
	uint64_t start_ns, drawn_ns;
} rp_progress;

void rp_progress_init(rp_progress *p, const char *program, int fd, bool quiet);
/* A piece of work begins ("loading tiny.gguf"). Control characters in what are escaped. */
void rp_progress_begin(rp_progress *p, const char *what);
/* done of total bytes are through; total 0 when unknown. */
void rp_progress_update(rp_progress *p, uint64_t done, uint64_t total);
/* The same with facts of the caller's own, which begin with two spaces. */
void rp_progress_facts(rp_progress *p, const char *facts);
/* The work ended or something else is about to be written: erase the line. */
void rp_progress_end(rp_progress *p);

/* The line itself: "loading tiny.gguf  42%  41.2 of 98.0 MiB  120 MiB/s  0:03 left", at most width - 1 columns, no newline. */
void rp_progress_line(const char *what, uint64_t done, uint64_t total, uint64_t elapsed_ns, unsigned width, rp_buf *out);
/* "1.50 GiB", "98.0 MiB", "512 B". Returns out. */
char *rp_size_text(char *out, size_t size, uint64_t bytes);

#endif
