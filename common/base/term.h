/* term: what a program may assume about a descriptor that people might be reading. */
#ifndef RP_TERM_H
#define RP_TERM_H

#include "base/base.h"

/* A terminal that understands cursor movement: isatty, and TERM is neither empty nor "dumb". */
bool rp_term_moves(int fd);
/* As above, and NO_COLOR is not set to anything. */
bool rp_term_colour(int fd);
/* Columns: the terminal's own, else $COLUMNS, else 80. */
unsigned rp_term_width(int fd);

#endif
