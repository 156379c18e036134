#include "progress.h"

#include "term.h"

#include <stdio.h>
#include <string.h>

enum { DELAY_MS = 300, BETWEEN_MS = 100 };

char *rp_size_text(char *out, size_t size, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double x = (double)bytes;
	size_t u = 0;
	while (x >= 1024 && u + 1 < sizeof units / sizeof *units) {
		x /= 1024;
		u++;
	}
	snprintf(out, size, "%.*f %s", u == 0 || x >= 100 ? 0 : x >= 10 ? 1 : 2, x, units[u]);
	return out;
}

/* What is cut before facts are. */
static void put_line(const char *what, const char *facts, size_t tail, unsigned width, rp_buf *out)
{
	size_t room = width > 1 ? width - 1 : 0, head = strlen(what);
	if (tail > room)
		tail = room;
	if (head + tail > room)
		head = rp_utf8_valid(what, room - tail); /* cut between characters */
	rp_buf_add(out, what, head);
	rp_buf_add(out, facts, tail);
}

void rp_progress_line(const char *what, uint64_t done, uint64_t total, uint64_t elapsed_ns, unsigned width, rp_buf *out)
{
	char a[32], b[32], facts[200];
	double seconds = (double)elapsed_ns / 1e9, rate = seconds > 0 ? (double)done / seconds : 0;
	int n = 0;
	if (total > 0)
		n += snprintf(facts, sizeof facts, "  %u%%  %s of %s", (unsigned)((double)done / (double)total * 100),
			rp_size_text(a, sizeof a, done), rp_size_text(b, sizeof b, total));
	else
		n += snprintf(facts, sizeof facts, "  %s", rp_size_text(a, sizeof a, done));
	if (rate >= 1)
		n += snprintf(facts + n, sizeof facts - (size_t)n, "  %s/s", rp_size_text(a, sizeof a, (uint64_t)rate));
	if (rate >= 1 && total > done) {
		double left = (double)(total - done) / rate;
		uint64_t s = left < 360000 ? (uint64_t)left : 360000;
		n += snprintf(facts + n, sizeof facts - (size_t)n, "  %llu:%02llu left", (unsigned long long)(s / 60),
			(unsigned long long)(s % 60));
	}
	put_line(what, facts, (size_t)n, width, out);
}

void rp_progress_init(rp_progress *p, const char *program, int fd, bool quiet)
{
	memset(p, 0, sizeof *p);
	p->program = program;
	p->fd = fd;
	p->quiet = quiet;
	p->moves = rp_term_moves(fd);
}

void rp_progress_begin(rp_progress *p, const char *what)
{
	rp_progress_end(p);
	rp_show(p->what, sizeof p->what, what, strlen(what));
	p->start_ns = rp_now_ns();
	p->drawn_ns = 0;
	if (p->quiet || p->moves)
		return;
	rp_buf line;
	rp_buf_init(&line, 1000);
	if (rp_buf_addf(&line, "%s: %s\n", p->program, p->what))
		rp_write_fd(p->fd, line.data, line.len, "stderr", NULL);
	rp_buf_free(&line);
}

static bool is_due(const rp_progress *p, uint64_t now)
{
	return !p->quiet && p->moves && now - p->start_ns >= DELAY_MS * 1000000ull && now - p->drawn_ns >= BETWEEN_MS * 1000000ull;
}

static void draw(rp_progress *p, rp_buf *line, uint64_t now)
{
	rp_buf_adds(line, "\033[K");
	if (!line->failed)
		rp_write_fd(p->fd, line->data, line->len, "stderr", NULL);
	rp_buf_free(line);
	p->drawn = true;
	p->drawn_ns = now;
}

void rp_progress_update(rp_progress *p, uint64_t done, uint64_t total)
{
	uint64_t now = rp_now_ns();
	if (!is_due(p, now))
		return;
	rp_buf line;
	rp_buf_init(&line, 4000);
	rp_buf_addc(&line, '\r');
	rp_progress_line(p->what, done, total, now - p->start_ns, rp_term_width(p->fd), &line);
	draw(p, &line, now);
}

void rp_progress_facts(rp_progress *p, const char *facts)
{
	uint64_t now = rp_now_ns();
	if (!is_due(p, now))
		return;
	rp_buf line;
	rp_buf_init(&line, 4000);
	rp_buf_addc(&line, '\r');
	put_line(p->what, facts, strlen(facts), rp_term_width(p->fd), &line);
	draw(p, &line, now);
}

void rp_progress_end(rp_progress *p)
{
	if (p->drawn)
		rp_write_fd(p->fd, "\r\033[K", 4, "stderr", NULL);
	p->drawn = false;
}
