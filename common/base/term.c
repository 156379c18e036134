#define _DEFAULT_SOURCE /* struct winsize, TIOCGWINSZ */
#include "term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool rp_term_moves(int fd)
{
	const char *term = getenv("TERM");
	return isatty(fd) && term != NULL && *term != '\0' && strcmp(term, "dumb") != 0;
}

bool rp_term_colour(int fd)
{
	const char *no = getenv("NO_COLOR");
	return rp_term_moves(fd) && (no == NULL || *no == '\0');
}

unsigned rp_term_width(int fd)
{
	struct winsize size;
	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	const char *columns = getenv("COLUMNS");
	unsigned long n = columns != NULL ? strtoul(columns, NULL, 10) : 0;
	return n > 0 && n <= 10000 ? (unsigned)n : 80;
}
