/* signals: what every program does about them, and about standard descriptors that are closed. */
#ifndef RP_SIGNALS_H
#define RP_SIGNALS_H

#include <stdatomic.h>

#include "base/base.h"

/* SIGINT and SIGTERM raise a flag (a second one ends the program at once); SIGPIPE becomes an error of write. Closed standard
 * descriptors are opened on /dev/null, so that no file ever takes their number; a closed stdout is RP_WRITE. */
rp_code rp_signals(rp_error *err);
const atomic_bool *rp_cancel(void);
/* Wait until fd has bytes or its end; false: a signal came first. */
bool rp_wait_readable(int fd);

#endif
